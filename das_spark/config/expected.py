"""What standard errors estimates by measurements alone will have: a consequence of the budget, before it is spent.

The passes of `das_spark.core.linear` go over a typical tree: every geounit of a level has the same number of children,
one of which can have people of all classes (group quarters of every type), as its parent can, and the others those of
the first class (households) alone. Covariances do not depend on what is counted, so that nothing need be known of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from das_spark.config.levels import level_plan
from das_spark.core import MeasuredFamily
from das_spark.core.linear import Statistics, downward, interval_reach, upward
from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config.plan import RunPlan
    from das_spark.core import GeounitArrays
    from das_spark.geography import Spine
    from das_spark.tabulation import Table

#: Children of a family that are looked at, at most: more of them differ by nothing.
_MOST_CHILDREN = 1 << 10


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedErrors:
    """Standard errors of the columns of tables at one geolevel.

    Attributes:
        geolevel: The level.
        everywhere: Of a geounit where people of every class can be, people; shape ``(columns,)``.
        first_class: Of one where those of the first class alone can be; the same where the product has no classes.
    """

    geolevel: str
    everywhere: NDArray[np.float64]
    first_class: NDArray[np.float64]


def expected_errors(plan: RunPlan, counts: Mapping[str, int], tables: Sequence[Table]) -> tuple[ExpectedErrors, ...]:
    """Standard errors of every level, from the top; none where it is not known how many geounits the levels have.

    Args:
        plan: The run; each level is taken to be measured completely.
        counts: Geounits by level.
        tables: Whose columns are wanted, one table behind the other.
    """
    levels = plan.spine.names
    if not tables or any(level not in counts for level in levels):
        return ()
    sizes = (1, *typical_sizes(levels, counts))
    below: list[GeounitArrays] = [{}, {}]  # of a geounit of all classes, and of one of the first class alone
    carried = []
    for depth in reversed(range(len(levels))):
        size = min(sizes[depth], _MOST_CHILDREN)
        upwards = [_family(plan, depth, size, below, mixed=mixed) for mixed in (True, False)]
        plans = level_plan(plan, levels[depth]).family
        results = [upward(each, plans) for each in upwards]
        carried.append((upwards[0], results[0]))
        below = [result.parent for result in results]
    statistics, parent, found = Statistics.of(tables), None, []
    for depth, (measured, result) in enumerate(reversed(carried)):
        given = MeasuredFamily(measured.problem, result.children, parent)
        known = downward(given, level_plan(plan, levels[depth]).family, statistics)
        errors = np.sqrt(known.geounits.variances)
        found.append(ExpectedErrors(levels[depth], errors[0], errors[-1]))
        parent = known.children[0]
    return tuple(found)


def errors_of_tables(
    expected: Sequence[ExpectedErrors], tables: Sequence[Table], spine: Spine
) -> Iterator[tuple[Table, ExpectedErrors]]:
    """The errors of each table alone, at each geolevel that it is published of.

    Args:
        expected: By geolevel, of the columns of all the tables, one behind the other.
        tables: The tables.
        spine: Of the run.
    """
    first = 0
    for table in tables:
        columns = slice(first, first + len(table.names))
        first = columns.stop
        for each in expected:
            if each.geolevel in table.levels(spine):
                yield table, ExpectedErrors(each.geolevel, each.everywhere[columns], each.first_class[columns])


def widths_of_intervals(errors: NDArray[np.float64], plan: RunPlan, level: Fraction) -> NDArray[np.float64]:
    """Return the widths, in what is counted, of intervals that cover the truth with a probability."""
    return 2 * interval_reach(errors, float(level), plan.budget.framework)


def typical_sizes(levels: Sequence[str], counts: Mapping[str, int]) -> tuple[int, ...]:
    """Children of a geounit of each level but the lowest, in a tree where all of a level have equally many.

    Args:
        levels: From the root.
        counts: Geounits of each of them.
    """
    return tuple(max(1, round(counts[below] / counts[above])) for above, below in pairwise(levels))


def _family(plan: RunPlan, depth: int, size: int, below: Sequence[GeounitArrays], *, mixed: bool) -> MeasuredFamily:
    """A family of a level: its first child of all classes where it is mixed, the others of the first class alone."""
    level = plan.spine.names[depth]
    bounds = list(_classes(plan, size, mixed=mixed))
    if level in plan.invariants.total_levels(plan.spine.names):
        nobody = np.zeros((size, 1), dtype=np.int64)
        bounds.append(FamilyBounds("total", plan.product.schema.query("total"), nobody, nobody))
    problem = FamilyProblem(
        parent_geocode="0" if depth else "",
        parent=None,
        children=tuple(f"{place:06d}" for place in range(size)),
        size=plan.product.schema.size,
        # A single child is not measured: its parent has its share.
        measurements=tuple(_measurements(plan, level, size)) if size > 1 or not depth else (),
        bounds=tuple(bounds),
    )
    own = [below[0 if mixed and not place else 1] for place in range(size)]
    return MeasuredFamily(problem, own if any(own) else ())


def _classes(plan: RunPlan, size: int, *, mixed: bool) -> Iterator[FamilyBounds]:
    if plan.product.class_query and plan.invariants.units:
        query = plan.product.schema.query(plan.product.class_query)
        most = np.zeros((size, query.rows), dtype=np.int64)
        most[:, 0] = 1
        if mixed:
            most[0] = 1
        yield FamilyBounds("class", query, np.zeros_like(most), most)


def _measurements(plan: RunPlan, level: str, size: int) -> Iterator[FamilyMeasurement]:
    for each in plan.budget.level(level).queries:
        query = plan.queries[each.query]
        variance = np.full(size, float(plan.budget.mechanism(level, each.query).variance()))
        yield FamilyMeasurement(query, np.arange(query.rows), np.zeros((size, query.rows), dtype=np.int64), variance)
