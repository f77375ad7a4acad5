"""The quickstart census, protected in memory under any budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from das_spark.attack.agreement import Nearness
from das_spark.attack.reconstruction import PublishedColumns
from das_spark.attack.reconstruction_report import Reconstructed, ReconstructionFindings, findings_of
from das_spark.attack.reconstruction_tally import ReconstructionTally, Target, tally_geounit
from das_spark.attack.sizes import SIZES, size_of
from das_spark.attack.swap import Exchange, Held
from das_spark.audit.system import LocalSystem, SmallPopulation
from das_spark.config import load_plan
from das_spark.histogram import Histogram
from das_spark.privacy import RunKey
from das_spark.simulation import LIKES

if TYPE_CHECKING:
    from das_spark.config import RunPlan

CONF = Path(__file__).parents[1] / "conf"
TRACT = 11
BLOCK_GROUP = 12
SHARE = Fraction(1, 20)
SEED = 5


@dataclass(frozen=True, eq=False)
class QuickstartRun:
    plan: RunPlan
    truth: Mapping[str, Mapping[str, Histogram]]  # by level and geocode
    estimates: Mapping[str, Mapping[str, Histogram]]

    @property
    def occupied(self) -> list[str]:
        return [code for code, records in self.truth["Block"].items() if records.total]


@cache
def quickstart_run(epsilon: str) -> QuickstartRun:
    plan = load_plan(CONF / "quickstart.toml", settings=[f'budget.epsilon="{epsilon}"'])
    made = LIKES["quickstart"].make(0, 0, Fraction(1))
    counts = np.zeros((len(made.geocodes), plan.product.schema.size), dtype=np.int64)
    counts[made.geounit, made.cell] = made.count
    population = SmallPopulation(tuple(made.geocodes.tolist()), counts, made.units)
    system = LocalSystem(plan)
    ran = system.run(system.ingest(population), RunKey.insecure(f"quickstart {epsilon}"))
    assert not ran.failed
    truth = {}
    for depth, level in enumerate(plan.spine.names):
        summed = population.summed(population.counts, plan.spine, depth)
        truth[level] = dict(zip(population.codes(plan.spine, depth), map(Histogram.from_dense, summed), strict=True))
    return QuickstartRun(plan, truth, ran.estimates)


def exchanged(run: QuickstartRun) -> dict[str, Histogram]:
    """The blocks after the exchange of the baseline, block group by block group."""
    product, found = run.plan.product, {}
    exchange = Exchange(product.schema.size, Held.of(product).query, SHARE, SEED)
    for parent in run.truth["Block_Group"]:
        codes = [code for code in run.truth["Block"] if code.startswith(parent)]
        after = exchange.of([run.truth["Block"][code] for code in codes], parent)
        found |= dict(zip(codes, after, strict=True))
    return found


@cache
def tallies_of(run: QuickstartRun) -> dict[str, ReconstructionTally]:
    """What is counted of every occupied block."""
    product, spine = run.plan.product, run.plan.spine
    tables = [table for table in product.tables_on(spine) if "Block" in table.levels(spine)]
    columns, nearness = PublishedColumns.of(tables, product.zero_cells()), Nearness.of(product.schema)
    after = exchanged(run)
    (whole,) = run.estimates["County"].values()
    found = {}
    for code in run.occupied:
        tract = code[:TRACT]
        near = run.truth["Tract"][tract], run.estimates["Tract"][tract]
        target = Target(run.truth["Block"][code], run.estimates["Block"][code], after[code], *near)
        found[code] = tally_geounit(target, whole, columns, nearness)
    return found


def findings(run: QuickstartRun, geocodes: list[str] | None = None) -> ReconstructionFindings:
    """What some of the occupied blocks say, or all of them."""
    classes = size_of(np.array([run.truth["Block"][code].total for code in run.occupied]))
    tallies = tallies_of(run)
    codes = list(tallies) if geocodes is None else geocodes
    taken = size_of(np.array([run.truth["Block"][code].total for code in codes]))
    sizes = len(SIZES)
    product = run.plan.product
    about = Reconstructed(
        run="quickstart",
        product=product.name,
        counted=product.counted,
        geolevel="Block",
        near="Tract",
        whole="County",
        tables=("P1", "P2", "P3", "P4", "P5"),
        columns=298,
        within=Nearness.of(product.schema).words,
        held=Held.of(product).words,
        swapped=SHARE,
        seed=SEED,
        geounits=tuple(np.bincount(classes, minlength=sizes).tolist()),
        taken=tuple(np.bincount(taken, minlength=sizes).tolist()),
    )
    return findings_of([tallies[code] for code in codes], about)
