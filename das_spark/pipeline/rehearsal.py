"""A rehearsal of the later stages: two synthetic geounits go through their very code, in this process, without Spark.

Nothing of the input is read: the counts are made up here, from the plan alone. What a product, a layout or a setting
cannot do fails here as it would fail after the budget is spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from das_spark.config import lazy_levels, level_plan, plan_from_config
from das_spark.core import (
    DeclaredBounds,
    GeounitArrays,
    LevelPlan,
    MeasuredFamily,
    NoisyAnswers,
    PublishedFamily,
)
from das_spark.errors import ConfigurationError, EstimationError
from das_spark.estimation import FamilyStatus
from das_spark.histogram import Histogram
from das_spark.io.table_files import GEOCODE
from das_spark.pipeline.statement import declared_invariants, ledger_text, planned_manifest, statement_of
from das_spark.privacy import LedgerEntry
from das_spark.spark.evaluate import Subject, TallyTask, level_lines, report_of, tally_of
from das_spark.store import PublicManifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config import RunPlan
    from das_spark.constraints import AddedConstraint
    from das_spark.histogram import Query
    from das_spark.products import Product

    Counts = NDArray[np.int64]

#: When a synthetic run is made, and what it is called: neither is ever published.
CREATED: Final = "2000-01-01T00:00:00+00:00"
_RUN: Final = "rehearsal"
#: Cells that the parent of a synthetic family occupies, besides one of each class: a solve of milliseconds.
_CELLS: Final = 8
#: Cells of a schema that are all rehearsed. Of a larger one a family has those that its synthetic people occupy alone,
#: and there are records of some: a million cells would take minutes and say no more.
_MOST_CELLS: Final = 1 << 16
#: By what the counts of a synthetic nation and its parts exceed those of a handful of people, and how many geolevels
#: from the top have so many.
_MILLIONS: Final = 1_000_000
_LEVELS_OF_MILLIONS: Final = 2
#: Noise of synthetic answers, added in turn, so that there is something to fit; of millions in standard deviations.
_NOISE: Final = (1, -1, 0)
_USABLE: Final = frozenset(status for status in FamilyStatus if status.is_usable)
#: How synthetic millions may end: rules that a user adds may not hold of them.
_PROVED: Final = frozenset(FamilyStatus) - {FamilyStatus.UNCERTIFIED}


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticGeounits:
    """Two geounits of one parent, made up from a product alone."""

    geocodes: tuple[str, ...]  # theirs, sorted
    parent: str  # that of their parent; empty where there is none
    counts: Counts  # shape (2, cells of the schema)
    units: Counts  # by class, vacant ones last, shape (2, classes + kinds of vacant units)

    @classmethod
    def of(cls, product: Product, length: int, counts: Counts) -> SyntheticGeounits:
        """Geounits with the units that their people can live in."""
        if not length:
            return cls(("0",), "", counts[:1], _units(product, counts[:1]))
        codes = tuple("1" * (length - 1) + last for last in "12")
        return cls(codes, codes[0][:-1], counts, _units(product, counts))

    def batch(self, *, units: bool) -> pa.RecordBatch:
        """Columns geocode, parent, cells, counts, units and divided (in which no record is told apart)."""
        occupied = [np.flatnonzero(row) for row in self.counts]
        held = [row[cells].tolist() for row, cells in zip(self.counts, occupied, strict=True)]
        known = self.units.tolist() if units else [None] * len(self.geocodes)
        return pa.RecordBatch.from_pydict(
            {
                GEOCODE: pa.array(self.geocodes, pa.string()),
                "parent": pa.array([self.parent] * len(self.geocodes), pa.string()),
                "cells": pa.array([cells.tolist() for cells in occupied], pa.list_(pa.int32())),
                "counts": pa.array(held, pa.list_(pa.int64())),
                "units": pa.array(known, pa.list_(pa.int64())),
                "divided": pa.array([0] * len(self.geocodes), pa.int64()),
            }
        )


def rehearse_estimation(plan: RunPlan, geolevel: str) -> None:
    """Estimate a synthetic family of a geolevel, and by the failsafe one that cannot be, where that is on."""
    level = synthetic_level_plan(plan, geolevel)
    _require_estimated(plan, level, synthetic_family(plan, geolevel), _USABLE)
    # A nation's counts have many more digits than its noise: a plan of which no solver can prove them is refused.
    if level.held is None and plan.spine.index(geolevel) < _LEVELS_OF_MILLIONS:
        every = replace(level, family=replace(level.family, solvers=level.estimator.needs.solvers))
        _require_estimated(plan, every, synthetic_family(plan, geolevel, people=_MILLIONS), _PROVED)
    # The failsafe keeps what is known of classes: of a single one there is no family that it could help.
    classes = plan.product.class_query and plan.product.schema.query(plan.product.class_query).rows > 1
    # Nor where classes are sums of counts that are held.
    if plan.estimation.failsafe and classes and level.held is None and plan.spine.index(geolevel):
        impossible = synthetic_family(plan, geolevel, demanding=True)
        _require_estimated(plan, level, impossible, {FamilyStatus.RELAXED})


def rehearse_solver(plan: RunPlan, solver: str) -> None:
    """Let one solver of the chain try a family, which is otherwise asked only where those before it do not succeed."""
    level = synthetic_level_plan(plan, plan.spine.leaf.name)
    # One pass: whether this solver alone could prove every pass of the level is not asked, but that it solves.
    alone = replace(level.family, solvers=(solver,), passes=(), failsafe=False)
    level.estimator.estimate([synthetic_family(plan, plan.spine.leaf.name)], alone)


def rehearse_manifest(plan: RunPlan, folder: Path) -> None:
    """Write the public manifest of a run that has nothing yet, and its statement; read both as verification does."""
    folder.mkdir()
    product = plan.product
    entry = LedgerEntry(_RUN, CREATED, product.name, product.noun, plan.budget, insecure=False)
    manifest = planned_manifest(plan, entry, run_id=_RUN, created=CREATED, insecure=False)
    manifest.save(folder / "manifest.json")
    again = PublicManifest.load(folder / "manifest.json")
    same = plan_from_config(again.config, source="the manifest")
    texts = [(statement_of(each, of), ledger_text(each)) for each, of in ((manifest, plan), (again, same))]
    if texts[0] != texts[1] or again.invariants != declared_invariants(same):
        raise ConfigurationError("statement and ledger do not follow from the manifest as it is read back")


def rehearse_evaluation(plan: RunPlan) -> None:
    """Make the accuracy report of synthetic geounits, estimated without an error."""
    subject = Subject.of(plan.product, plan.queries)
    census = plan.product.census(plan.spine)
    lines = []
    for level in census.levels:
        made = SyntheticGeounits.of(plan.product, level.length, synthetic_counts(plan.product)).batch(units=False)
        both = {"true_cells": made.column("cells"), "true_counts": made.column("counts")}
        joined = pa.RecordBatch.from_pydict({**both, "cells": made.column("cells"), "counts": made.column("counts")})
        tallies = pa.Table.from_batches(TallyTask(subject.comparison(level.name))(iter([joined])))
        ordered = tallies.sort_by([(name, "ascending") for name in ("line", "bin", "value")])
        lines.append(level_lines(level.name, subject, tally_of(ordered)))
    # The page is drawn of the same lines; drawing it would take a second.
    report_of(lines, subject, product=plan.product.name, run=_RUN).to_json()


def synthetic_family(
    plan: RunPlan, geolevel: str, *, demanding: bool = False, box: bool = False, people: int = 1
) -> MeasuredFamily:
    """A family of a geolevel as an estimator receives it, with exact answers that differ a little, and its bounds.

    A level that the estimator goes through upwards first is synthetic as a top level, if what its parent would bring
    along is the estimator's own.
    """
    spine, product, level = plan.spine, plan.product, synthetic_level_plan(plan, geolevel, box=box)
    counts = _few(product) * people
    needs = level.estimator.needs
    upwards = geolevel in needs.upward_levels(spine.names)
    top = (upwards and bool(needs.arrays)) or not spine.index(geolevel)
    # One geounit at the top, which is a family by itself; two below.
    length = 0 if top else spine.level(geolevel).length
    made = SyntheticGeounits.of(product, length, counts.sum(0, keepdims=True) if top else counts)
    parent = None if top else Histogram.from_dense(made.counts.sum(axis=0))
    bounds = {name: rows for name, rows in _bounded(plan, geolevel, made, demanding=demanding)}
    records = dict(zip(made.geocodes, made.counts, strict=True))
    published = None if level.held is None else PublishedFamily.answering(level.held, records)
    declared = level.declared(made.parent, made.geocodes, bounds, published)
    problem = level.measured(declared, parent, _measured(plan, geolevel, made, parent))
    given = None if top else _given_with_the_parent(plan, spine.names[spine.index(geolevel) - 1])
    family = MeasuredFamily(problem, parent=given)
    if not upwards:
        return family
    yet = MeasuredFamily(replace(problem, parent=None))  # nothing is estimated while the pass goes upwards
    return replace(family, upward=level.estimator.upward(yet, level.family).children)


def synthetic_level_plan(plan: RunPlan, geolevel: str, *, box: bool = False) -> LevelPlan:
    """How families of a level are estimated; of a large schema, as if no cell but the synthetic ones were possible.

    What goes through a level in closed form, as intervals and some estimators do, takes a whole box of cells instead:
    single cells would be a site each, thousands of them where the run has a few, and those of a box are alike.
    """
    level, product = level_plan(plan, geolevel), plan.product
    if product.schema.size <= _MOST_CELLS:
        return level
    possible = np.flatnonzero(_few(product).any(axis=0))
    if box or level.estimator.needs.most_sites is not None:
        levels = np.ix_(*map(np.unique, np.unravel_index(possible, product.schema.shape)))
        possible = np.arange(product.schema.size).reshape(product.schema.shape)[levels].ravel()
    elsewhere = np.ones(product.schema.size, dtype=bool)
    elsewhere[possible] = False
    zeros = np.flatnonzero(product.zero_cells() | elsewhere).astype(np.int32)
    return replace(level, family=replace(level.family, zero_cells=zeros))


def _given_with_the_parent(plan: RunPlan, geolevel: str) -> GeounitArrays | None:
    """What the estimator gives with the estimate of a geounit of a level, where it gives anything."""
    level = synthetic_level_plan(plan, geolevel)
    if not level.estimator.needs.arrays:
        return None
    return level.estimator.estimate([synthetic_family(plan, geolevel)], level.family)[0].arrays[0]


def _measured(
    plan: RunPlan, geolevel: str, made: SyntheticGeounits, parent: Histogram | None
) -> Iterator[NoisyAnswers]:
    lazy = geolevel in lazy_levels(plan)
    for each in plan.budget.level(geolevel).queries:
        query = plan.queries[each.query]
        rows = query.restrict(parent.cells).rows if lazy and parent is not None else np.arange(query.rows)
        exact = np.stack([query.answer_dense(counts) for counts in made.counts])
        variance = float(plan.budget.mechanism(geolevel, each.query).variance())
        size = np.ceil(variance**0.5) if exact.max(initial=0) >= _MILLIONS else 1.0
        values = exact[:, rows] + np.resize(np.array(_NOISE) * int(size), len(rows))
        yield NoisyAnswers(made.geocodes, each.query, rows, values, np.full(len(values), variance))


def _bounded(
    plan: RunPlan, geolevel: str, made: SyntheticGeounits, *, demanding: bool
) -> Iterator[tuple[str, DeclaredBounds]]:
    spine, product = plan.spine, plan.product
    depth, totals = spine.index(geolevel), made.counts.sum(axis=1)
    at = plan.invariants.total_at
    known = at is not None and depth <= spine.index(at)
    if known:
        yield "total", _bounds(made, totals[:, None], totals[:, None])
    if product.unit_bounds is not None and plan.invariants.units and not demanding:
        units = made.units[:, : len(product.unit_bounds.least)]
        of = totals if known else None
        sides = product.unit_bounds.lower(units, of), product.unit_bounds.upper(units, of)
        yield "class", _bounds(made, *sides)
        if known and at is not None and depth < spine.index(at):
            # Each geounit stands for the one below it of which the total is known.
            yield "flow", _bounds(made, *(np.hstack([side, totals[:, None]]) for side in sides))
    if demanding:
        yield "class", _impossible(product, made)
    for rule in plan.added:
        if depth <= spine.index(rule.geolevel):
            yield f"added:{rule.name}", _added(rule, product.schema.query(rule.query), made)


def _bounds(made: SyntheticGeounits, lower: Counts, upper: Counts) -> DeclaredBounds:
    return DeclaredBounds(made.geocodes, made.geocodes, lower, upper)


def _impossible(product: Product, made: SyntheticGeounits) -> DeclaredBounds:
    """Class bounds by which the children have one more of the last class together than their parent."""
    query = product.schema.query(product.class_query)
    margins = np.stack([query.answer_dense(row) for row in made.counts])
    low, high = margins.copy(), margins.copy()
    last = int(np.flatnonzero(margins.sum(axis=0))[-1])
    low[0, last] = high[0, last] = margins[0, last] + 1
    low[:, 0], high[:, 0] = 0, margins.sum()  # so that the totals, which the failsafe keeps, need not change
    return _bounds(made, low, high)


def _added(rule: AddedConstraint, query: Query, made: SyntheticGeounits) -> DeclaredBounds:
    """An added constraint, as wide as the synthetic counts need it: whether real ones can keep it is not asked."""
    right = rule.right_hand_sides(query.rows)
    answers = np.stack([query.answer_dense(counts) for counts in made.counts])
    return _bounds(made, np.minimum(right, answers), np.maximum(right, answers))


def _require_estimated(
    plan: RunPlan, level: LevelPlan, family: MeasuredFamily, wanted: frozenset[FamilyStatus] | set[FamilyStatus]
) -> None:
    found = level.estimator.estimate([family], level.family)[0].result.diagnostics
    if found.status not in wanted:
        raise EstimationError(
            f"a synthetic family of {level.family.geolevel} of product {plan.product.name!r} ends as {found.status}: "
            f"{found.message}",
            hint="another solver in estimation.solvers, a larger estimation.gap_tolerance or other passes may help",
        )


def synthetic_counts(product: Product) -> Counts:
    """One of every possible kind in the first geounit, and two of the first kind in the second.

    Of a large schema some kinds, with every level of every attribute among them: codes and columns follow from levels.
    """
    cells = np.flatnonzero(~product.zero_cells())
    if len(cells) > _MOST_CELLS:
        chosen = [np.unique(levels, return_index=True)[1] for levels in np.unravel_index(cells, product.schema.shape)]
        cells = cells[np.unique(np.concatenate([*chosen, np.linspace(0, len(cells) - 1, _MOST_CELLS // 2, dtype=int)]))]
    counts = np.zeros((2, product.schema.size), dtype=np.int64)
    counts[0, cells] = 1
    counts[1, cells[0]] = 2
    return counts


def _few(product: Product) -> Counts:
    """A handful of kinds, of every class that there is."""
    cells = np.flatnonzero(~product.zero_cells())
    chosen = cells[np.unique(np.linspace(0, len(cells) - 1, _CELLS).astype(np.int64))]
    if product.class_query:
        classes = product.schema.query(product.class_query).row_of(cells)
        chosen = np.union1d(chosen, cells[np.unique(classes, return_index=True)[1]])
    counts = np.zeros((2, product.schema.size), dtype=np.int64)
    counts[0, chosen], counts[1, chosen] = 3, 2
    return counts


def _units(product: Product, counts: Counts) -> Counts:
    """As few units of each class as hold its people, and one vacant unit in every geounit."""
    classes = len(product.unit_classes)
    units = np.zeros((len(counts), classes + product.vacant_kinds), dtype=np.int64)
    units[:, -1] = 1
    if product.listed:  # what is counted are units of the first class; the others are listed besides
        units[:, 0], units[:, 1:] = counts.sum(axis=1), 1
        if product.vacant_kinds > 1:  # vacant ones of kinds that are told apart are counted among all
            units[:, 0] += product.vacant_kinds
    elif product.class_query:
        query, bounds = product.schema.query(product.class_query), product.unit_bounds
        margins = np.stack([query.answer_dense(row) for row in counts])
        most = np.array(bounds.most if bounds else [1 << 31] * classes, dtype=np.int64)
        units[:, :-1] = -(-margins // np.maximum(most, 1))
    return units
