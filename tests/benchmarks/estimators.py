"""Errors of two estimators, `top_down` and `blue_down`, on the same people with the same noise and budget, as Markdown.

    DAS_SPARK_DATA=FOLDER python tests/benchmarks/estimators.py --state hi|ri|il [--draws 10] [--rebalanced]
        [--down-to LEVEL] [--set KEY=VALUE ...] [--json FILE]

Hawaii and Rhode Island 2020 to the block (conf/pl94_2020_state.toml), Illinois 2020 to the tract
(conf/pl94_2020_to_tract.toml), from two tables a state that are made of its published P.L. 94-171 file: `STATES` names
them. Everything is in one process and on one thread, without Spark. A draw is a test key under which both estimators
run, so that an answer that both measure has the same noise: differences are paired. Housing units are exact and those
of the tables, as the production knew them; of each type of group quarters a geounit has one facility where people live
in it. Settings hold for both estimators: `--set invariants.units=false` is a run without any unit.

With --rebalanced the budgets, too, are divided differently: `top_down` has the shares of the production for the nation
(without its root, whose share goes to all levels in proportion), and spends a third on totals of the state, which are
exact; `blue_down` has the strategy `state_rebalanced`, which spends nothing on them. Both have the same rho.

An error is the sum of absolute differences over the answers of a query in a geounit (people), the mean of it over the
geounits where there is anybody or any unit, and the mean of that over the draws.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from das_spark.audit import SmallPopulation  # noqa: E402
from das_spark.audit.system import LocalSystem  # noqa: E402
from das_spark.config import RunPlan, load_plan, steps_of  # noqa: E402
from das_spark.core import InProcess, LevelInput, LevelStep, Work, run_levels  # noqa: E402
from das_spark.errors import EstimationError  # noqa: E402
from das_spark.estimation import FamilyStatus  # noqa: E402
from das_spark.geography import CENSUS_BLOCK, block_geocode  # noqa: E402
from das_spark.histogram import Histogram, Schema  # noqa: E402
from das_spark.privacy import RunKey  # noqa: E402
from das_spark.products import product  # noqa: E402

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ROOT = Path(__file__).parents[2]
ESTIMATORS = ("top_down", "blue_down")
RACES = "votingage * 8 groups"
QUERIES = ("total", "votingage", "hispanic * cenrace", RACES, "hhgq", "detailed")
#: The persons' query from whose answers the 8 groups are made, and its shape.
OF_RACES, RACES_SHAPE = "votingage * hispanic * race7lev", (2, 2, 7)
#: Level -> by how many percent at least `blue_down` is to be better: of totals, of other queries. Elsewhere: no worse.
GOALS = {"County": (0, 15), "Tract": (20, 20), "Block_Group": (10, 15)}
CERTIFIED = {FamilyStatus.OPTIMAL, FamilyStatus.ONLY_CHILD, FamilyStatus.EMPTY_PARENT}
#: Differences that are smaller than so many standard errors may be none.
SURE = 2


@dataclass(frozen=True)
class State:
    """Where a state is."""

    name: str
    conf: str
    persons: str  # occupied cells
    geounits: str  # all geounits of the lowest level
    homes: tuple[str, ...]  # columns of it that add up to the housing units

    def population(self, data: Path, plan: RunPlan) -> SmallPopulation:
        """People and units of its lowest geounits."""
        geounits = pq.read_table(data / self.geounits, columns=["geoid", *self.homes])
        codes = np.array([geocode(code) for code in geounits["geoid"].to_pylist()])
        order = np.argsort(codes)
        codes = codes[order]
        persons = pq.read_table(data / self.persons)
        counts = np.zeros((len(codes), plan.product.schema.size), dtype=np.int64)
        place = np.searchsorted(codes, [geocode(code) for code in persons["geoid"].to_pylist()])
        np.add.at(counts, (place, cells_of(persons, plan)), persons["n"].to_numpy())
        assert plan.product.class_query is not None
        living = plan.product.schema.query(plan.product.class_query).answer_dense(counts)
        units = (living > 0).astype(np.int64)
        homes = sum(geounits[name].to_numpy() for name in self.homes)[order]
        units[:, 0] = np.maximum(homes, units[:, 0])
        return SmallPopulation(tuple(codes.tolist()), counts, units)


_BLOCKS, _TRACTS = "conf/pl94_2020_state.toml", "conf/pl94_2020_to_tract.toml"
_HOMES = ("occupied_modelled", "vacant_modelled")
STATES = {
    "hi": State("Hawaii", _BLOCKS, "hi_2020_block_person_cells.parquet", "hi_2020_block_units_and_gq.parquet", _HOMES),
    "ri": State(
        "Rhode Island",
        _BLOCKS,
        "ri_2020_block_person_cells_modelled.parquet",
        "ri_2020_block_units_and_gq.parquet",
        _HOMES,
    ),
    "il": State(
        "Illinois", _TRACTS, "il_2020_tract_person_cells.parquet", "il_2020_tract_pl94_full.parquet", ("H0010001",)
    ),
}


def geocode(code: str) -> str:
    """The geocode of a census code: of blocks another one."""
    return block_geocode(code) if len(code) == CENSUS_BLOCK else code


def cells_of(persons, plan: RunPlan) -> Integers:
    """The cell of each row of a table of occupied cells, in the columns and codes that the run file names."""
    source, attributes = plan.input, plan.product.schema.attributes
    levels = [
        persons[source.columns.get(attribute.name, attribute.name)].to_numpy() - source.code_base.get(attribute.name, 0)
        for attribute in attributes
    ]
    return np.ravel_multi_index(levels, [attribute.size for attribute in attributes])


def shares_of(estimator: str) -> list[str]:
    """Settings of the budget of an estimator where the two have different shares of the same budget."""
    if estimator == "blue_down":
        return ["budget.strategy=state_rebalanced"]
    strategies = product("pl94_2020_person").strategies
    _, *levels = strategies["us"].budget.levels
    whole = sum(level.share for level in levels)
    names = json.dumps([level.geolevel for level in levels])
    shares = [f'budget.geolevels.{level.geolevel}="{level.share / whole}"' for level in levels]
    root = levels[0].geolevel
    # A state is a root here: its passes are not those of the nation's, which fit totals of states first.
    passes = [
        f'{{geolevels=["{root}"],least_squares={json.dumps(each.least_squares)},rounding={json.dumps(each.rounding)}}}'
        for each in strategies["state"].passes[root]
    ]
    return ["budget.strategy=us", f"geography.levels={names}", *shares, f"estimation.passes=[{', '.join(passes)}]"]


def plan_of(state: State, estimator: str, settings: list[str]) -> RunPlan:
    """The run of a state under an estimator."""
    tables = [f"input.persons={state.persons}", f"input.geography={state.geounits}", f"input.units={state.geounits}"]
    given = [*tables, "invariants.units=true", f"estimation.estimator={estimator}", *settings]
    return load_plan(ROOT / state.conf, settings=given, files=False)


class Timed(InProcess):
    """Counts the seconds of CPU of each kind of work."""

    spent: Counter[str]

    def measure(self, geolevel: str) -> None:
        self.spent = getattr(self, "spent", Counter())
        with self._clock("measure"):
            super().measure(geolevel)

    def upward(self, geolevel: str) -> None:
        with self._clock("upward"):
            super().upward(geolevel)

    def estimate(self, geolevel: str) -> None:
        with self._clock("estimate"):
            super().estimate(geolevel)

    @contextmanager
    def _clock(self, work: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.spent[work] += time.process_time() - start


class TimedSystem(LocalSystem):
    """Runs down to a level."""

    executor = Timed

    def __init__(self, plan: RunPlan, lowest: str) -> None:
        super().__init__(plan)
        self.lowest = lowest

    def run(self, ingested: Mapping[str, LevelInput], key: RunKey) -> Timed:
        noise = {name: self.measurement_plan(name, key) for name in self.plan.spine.names}
        executor, steps = self.executor(ingested, self._levels, noise), steps_of(self.plan)
        with suppress(EstimationError):
            run_levels(steps[: steps.index(LevelStep(Work.ESTIMATE, self.lowest)) + 1], executor)
        return executor


def rows_of(schema: Schema, query: str) -> tuple[Integers, int]:
    """The answer of a query in which each cell counts, and how many answers there are."""
    cells = np.arange(schema.size)
    if query != RACES:
        found = schema.query(query)
        return found.row_of(cells), found.rows
    votingage, hispanic, race = np.unravel_index(schema.query(OF_RACES).row_of(cells), RACES_SHAPE)
    group = np.where(hispanic == 1, 0, 1 + race)  # Hispanic of any race; the others by race
    return votingage * 8 + group, 16


def error(truth: Mapping[str, Histogram], estimate: Mapping[str, Histogram], rows: Integers, number: int) -> float:
    """Mean over the geounits of `truth` of the sum of absolute errors of a query's answers."""
    keys, values = [], []
    for sign, side in ((1, truth), (-1, estimate)):
        for position, code in enumerate(truth):
            keys.append(position * number + rows[side[code].cells])
            values.append(sign * side[code].counts)
    answers, place = np.unique(np.concatenate(keys), return_inverse=True)
    differences = np.zeros(len(answers), dtype=np.int64)
    np.add.at(differences, place, np.concatenate(values))
    return float(np.abs(differences).sum() / len(truth))


@dataclass
class Comparison:
    """What was found, with one number a draw.

    Attributes:
        state: Its name.
        settings: Options that change what is compared.
        geounits: Level -> how many there are where there is anybody or any unit.
        errors: Level -> query -> estimator -> error.
        spent: Estimator -> kind of work -> seconds of CPU.
        gaps: Estimator -> worst certified gap.
        bad: Estimator -> families that were not certified, or relaxed; of every draw.
        families: Estimator -> number of families.
        solvers: Estimator -> solver -> families.
        failed: Draws in which an estimator failed, with its families.
    """

    state: str
    settings: list[str]
    geounits: dict[str, int]
    errors: dict[str, dict[str, dict[str, list[float]]]]
    spent: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    gaps: dict[str, list[float]] = field(default_factory=dict)
    bad: dict[str, list[int]] = field(default_factory=dict)
    families: dict[str, int] = field(default_factory=dict)
    solvers: dict[str, Counter[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(
        self,
        draw: str,
        executors: Mapping[str, Timed],
        truth: Mapping[str, Mapping[str, Histogram]],
        schema: Schema,
    ) -> None:
        """Add what the estimators made of a draw; where one failed, that it did, and nothing else."""
        ends = {
            name: [each for level in executor.diagnostics.values() for each in level.values()]
            for name, executor in executors.items()
        }
        for name, every in ends.items():
            self.bad.setdefault(name, []).append(sum(each.status not in CERTIFIED for each in every))
        failed = [
            f"{name}, {draw}: {', '.join(executor.failed)}" for name, executor in executors.items() if executor.failed
        ]
        self.failed += failed
        for name, executor in () if failed else executors.items():
            self.families[name] = len(ends[name])
            self.gaps.setdefault(name, []).append(max(each.gap for each in ends[name]))
            self.solvers.setdefault(name, Counter()).update(each.solver for each in ends[name])
            for work in ("measure", "upward", "estimate"):
                self.spent.setdefault(name, {}).setdefault(work, []).append(executor.spent[work])
            for level, histograms in truth.items():
                for query in QUERIES:
                    found = error(histograms, executor.estimates[level], *rows_of(schema, query))
                    self.errors[level][query].setdefault(name, []).append(found)

    def lines(self) -> Iterator[str]:
        """Markdown."""
        settings = "".join(f", {text}" for text in self.settings)
        yield f"\n### {self.state}, {len(self.bad[ESTIMATORS[-1]])} draws{settings}\n"
        if self.failed:
            yield f"Failed, and left out of all other figures: {'; '.join(self.failed)}.\n"
        if not self.gaps:
            return
        yield "| level (geounits) | query | top_down | blue_down | difference, % | goal, % | met |"
        yield "|---|---|---|---|---|---|---|"
        for level, queries in self.errors.items():
            for query, found in queries.items():
                before, after = (np.array(found[name]) for name in ESTIMATORS)
                yield f"| {level} ({self.geounits[level]:,}) | {query} | {compared(level, query, before, after)} |"
        yield "\n| seconds of CPU a draw | top_down | blue_down | ratio |\n|---|---|---|---|"
        sums = [{work: float(np.mean(each)) for work, each in self.spent[name].items()} for name in ESTIMATORS]
        for work in (*sums[0], "all"):
            one, other = (sum(each.values()) if work == "all" else each[work] for each in sums)
            yield f"| {work} | {one:.1f} | {other:.1f} | {f'{other / one:.2f}' if one else ''} |"
        yield ""
        for name in ESTIMATORS:
            solvers = ", ".join(f"{solver} {count:,}" for solver, count in self.solvers[name].most_common())
            yield (
                f"{name}: {self.families[name]:,} families a draw, {sum(self.bad[name])} uncertified, unsolved or"
                f" relaxed, worst certified gap {max(self.gaps[name]):.1e}; solved by {solvers}.\n"
            )


def compared(level: str, query: str, before: Floats, after: Floats) -> str:
    """Cells of the table: both errors, their difference with its standard error, the goal, and whether it is met."""
    first, second = before.mean(), after.mean()
    goal = GOALS.get(level, (0, 0))[query != "total"]
    wanted = f"-{goal}" if goal else "no worse"
    if not first:
        return f"{first:.3g} | {second:.3g} | {'exact' if not second else ''} | {wanted} | {'no' if second else 'yes'}"
    percent = 100 * (second - first) / first
    spread = np.std(after - before, ddof=1) / np.sqrt(len(after)) if len(after) > 1 else np.nan
    wrong = 100 * spread / first
    met = "yes" if percent <= -goal else f"no, by less than {SURE} s.e." if percent + goal < SURE * wrong else "no"
    return f"{first:.4g} | {second:.4g} | {percent:+.1f} ± {wrong:.1f} | {wanted} | {met}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", choices=list(STATES), default="hi")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--down-to", metavar="LEVEL", help="compare levels down to this one; default: all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the run, for both")
    parser.add_argument("--rebalanced", action="store_true", help="top_down: shares of the nation; see above")
    parser.add_argument("--json", type=Path, help="file for every number, written anew after each draw")
    options = parser.parse_args()
    if not (data := os.environ.get("DAS_SPARK_DATA")):
        raise SystemExit("DAS_SPARK_DATA is not set: it names the folder of public census data")
    state = STATES[options.state]
    if options.rebalanced and state.conf != _BLOCKS:
        raise SystemExit("--rebalanced: of a state to the block")
    plans = {
        name: plan_of(state, name, [*(shares_of(name) if options.rebalanced else ()), *options.set])
        for name in ESTIMATORS
    }
    plan = plans[ESTIMATORS[0]]
    if (lowest := options.down_to or plan.spine.names[-1]) not in plan.spine.names:
        raise SystemExit(f"--down-to: one of {', '.join(plan.spine.names)}")
    systems = {name: TimedSystem(plan, lowest) for name, plan in plans.items()}
    population = state.population(Path(data), plan)
    ingested = systems[ESTIMATORS[0]].ingest(population)  # the same for both
    inhabited = np.column_stack([population.units, population.counts.sum(axis=1)])
    truth: dict[str, dict[str, Histogram]] = {}
    for depth, level in enumerate(plan.spine.names[: plan.spine.index(lowest) + 1]):
        sums = population.summed(inhabited, plan.spine, depth).any(axis=1)
        kept = {code for code, any_one in zip(population.codes(plan.spine, depth), sums, strict=True) if any_one}
        families = ingested[level].confidential.values()
        truth[level] = {
            code: histogram
            for family in families
            for code, histogram in zip(family.geocodes, histograms_of(family, plan.product.schema.size), strict=True)
            if code in kept
        }
    comparison = Comparison(
        state.name,
        [
            *(["--rebalanced"] if options.rebalanced else ()),
            *([f"--down-to {lowest}"] if options.down_to else ()),
            *options.set,
        ],
        {level: len(every) for level, every in truth.items()},
        {level: {query: {} for query in QUERIES} for level in truth},
    )
    del population, inhabited
    for draw in range(options.draws):
        key = f"draw {draw}"
        executors = {name: system.run(ingested, RunKey.insecure(key)) for name, system in systems.items()}
        comparison.add(key, executors, truth, plan.product.schema)
        print(f"draw {draw + 1} of {options.draws}", file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(vars(comparison), indent=1) + "\n")
    print("\n".join(comparison.lines()))


def histograms_of(family, size: int) -> Iterator[Histogram]:
    """The histogram of each child of a confidential family."""
    for start, end in zip(family.offsets, family.offsets[1:], strict=False):
        yield Histogram(size, family.cells[start:end], family.counts[start:end])


if __name__ == "__main__":
    main()
