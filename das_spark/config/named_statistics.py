"""Named statistics: the answers of a query at a geolevel, and the standard errors that a budget gives them.

Nothing is read but a plan, and nothing is spent. Standard errors are those of estimates by measurements alone, on a
tree in which all geounits of a level have equally many children and can have people of all classes. Where it is not
known how many geounits there are, they are the best that the measurements of the geolevel itself give; and of a product
with very many cells, the best that one query of the geolevel gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.config.expected import typical_sizes
from das_spark.errors import DasError
from das_spark.estimation import Allotment, TreeVariances, Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config.plan import RunPlan
    from das_spark.errors import Problems
    from das_spark.histogram import Query

_STATISTIC: Final = re.compile(r"(?P<query>.+)@(?P<level>[^@:]+)")
_FORM: Final = 'write QUERY@GEOLEVEL, such as "total@County" or "age * sex@Tract"'
#: Variance of noise, people squared, below which a budget adds none that anybody would notice.
_NOISELESS: Final = 1e-12
#: Cells of products whose queries are put together: of more it takes minutes, and gigabytes.
_MOST_CELLS: Final = 100_000


@dataclass(frozen=True, slots=True)
class NamedStatistic:
    """The answers of a query in every geounit of a geolevel.

    Attributes:
        query: Canonical name of the query.
        geolevel: Of whose geounits the answers are.
    """

    query: str
    geolevel: str

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.query}@{self.geolevel}"


def find_statistic(query: str, geolevel: str, text: str, plan: RunPlan, problems: Problems) -> NamedStatistic | None:
    """A statistic of a run by the name of its query and of its geolevel; None where there is none, and why.

    Args:
        query: As somebody writes it.
        geolevel: May be written in small letters.
        text: What stands before the problems.
        plan: The run.
        problems: Where all that is wrong is added.
    """
    level = {name.casefold(): name for name in plan.spine.names}.get(geolevel.strip().casefold())
    if level is None:
        problems.add(text, f"the run has the geolevels {', '.join(plan.spine.names)}")
    try:
        found = plan.product.schema.query(query.strip())
    except DasError as error:
        problems.add(text, sentence_of_error(error))
        return None
    if not found.is_partition:
        problems.add(text, "the query leaves out some cells, and cannot be measured")
        return None
    return None if level is None else NamedStatistic(found.name, level)


def read_statistic(text: str, plan: RunPlan, problems: Problems) -> NamedStatistic | None:
    """A statistic as it is written on the command line, `QUERY@GEOLEVEL`; None where there is none, and why.

    Args:
        text: The text.
        plan: The run.
        problems: Where all that is wrong is added.
    """
    match = _STATISTIC.fullmatch(text.strip())
    if match is None:
        problems.add(text, _FORM)
        return None
    return find_statistic(match["query"], match["level"], text, plan, problems)


def sentence_of_error(error: DasError) -> str:
    """An error and its hint, as one problem among others."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def is_single_child(depth: int, sizes: Sequence[int]) -> bool:
    """Whether geounits of a level are single children, which are not measured: their parents have their share."""
    return depth > 0 and sizes[depth - 1] == 1


def tree_variances(
    plan: RunPlan,
    levels: Sequence[str],
    sizes: Sequence[int],
    allotments: Sequence[Allotment],
    wanted: Sequence[Wanted],
) -> TreeVariances:
    """Variances of wanted answers as functions of weights, with the exact totals and structural zeros of a run.

    Args:
        plan: The run.
        levels: Geolevels of the tree, by whose places levels are numbered.
        sizes: Children of a geounit of each of them but the lowest.
        allotments: What is measured.
        wanted: Whose variances are asked for.
    """
    exact = [levels.index(name) for name in plan.invariants.total_levels(plan.spine.names) if name in levels]
    zero = np.flatnonzero(plan.product.zero_cells()).astype(np.int32)
    return TreeVariances(sizes, allotments, exact, wanted, zero)


class Method(StrEnum):
    """What the estimate is made of whose standard error is meant; its value says so in a sentence."""

    ALL = "by least squares from the measurements of all geolevels, on a spine of families of equal size"
    GEOLEVEL = (
        "by least squares from the measurements of the geolevel alone: it is not known how many geounits all geolevels"
        " have (--geounits LEVEL=NUMBER says so)"
    )
    QUERY = (
        "from the one query of the geolevel that gives it best: the product has too many cells for more than one to be"
        " put together here"
    )


def method_of(plan: RunPlan, counts: Mapping[str, int]) -> Method:
    """By which method the standard errors of a run can be found.

    Args:
        plan: The run.
        counts: Geounits of those of its levels of which they are known.
    """
    if plan.product.schema.size > _MOST_CELLS:
        return Method.QUERY
    return Method.ALL if all(name in counts for name in plan.spine.names) else Method.GEOLEVEL


def statistic_errors(
    plan: RunPlan, statistics: Sequence[NamedStatistic], counts: Mapping[str, int], method: Method
) -> tuple[float, ...]:
    """The largest standard error of the answers of each statistic, people; infinite where nothing determines them.

    Args:
        plan: The run; each level is taken to be measured completely.
        statistics: Of the run.
        counts: Geounits of its levels; of all of them for the method that takes all measurements.
        method: What the estimate is made of.
    """
    names = plan.spine.names
    if method is Method.ALL:
        return _errors(plan, names, typical_sizes(names, counts), statistics)
    if method is Method.QUERY:
        return _errors_of_queries(plan, statistics)
    found: dict[NamedStatistic, float] = {}
    for name in dict.fromkeys(statistic.geolevel for statistic in statistics):
        own = [statistic for statistic in statistics if statistic.geolevel == name]
        found.update(zip(own, _errors(plan, (name,), (), own), strict=True))
    return tuple(found[statistic] for statistic in statistics)


def _errors_of_queries(plan: RunPlan, statistics: Sequence[NamedStatistic]) -> tuple[float, ...]:
    """Of sums of the answers of one query each, that with the least noise."""
    schema, cells = plan.product.schema, np.flatnonzero(~plan.product.zero_cells())
    exact = plan.invariants.total_levels(plan.spine.names)

    @cache
    def row_of(query: Query) -> NDArray[np.int64]:
        return query.row_of(cells)

    @cache
    def most_summed(wanted: Query, measured: Query) -> float:
        """Answers of a measured query that one wanted answer is the sum of, at most; infinite where it is none."""
        rows, of = row_of(measured), np.full(measured.rows, -1, dtype=np.int64)
        of[rows] = row_of(wanted)  # in which answer the cells of a row count, if it is one for all of them
        return int(np.bincount(of[of >= 0]).max()) if np.array_equal(of[rows], row_of(wanted)) else math.inf

    found = []
    for statistic in statistics:
        query, level = schema.query(statistic.query), plan.budget.level(statistic.geolevel)
        sums = [
            most_summed(query, plan.queries[item.query])
            * float(plan.budget.mechanism(statistic.geolevel, item.query).variance())
            for item in level.queries
        ]
        is_exact = statistic.geolevel in exact and query.rows == 1
        found.append(0.0 if is_exact else math.sqrt(min(sums, default=math.inf)))
    return tuple(found)


def _errors(
    plan: RunPlan, levels: Sequence[str], sizes: Sequence[int], statistics: Sequence[NamedStatistic]
) -> tuple[float, ...]:
    """The same by the measurements of some levels, which are a tree of such sizes."""
    allotments = []
    for depth, name in enumerate(levels):
        for item in plan.budget.level(name).queries:
            variance = max(float(plan.budget.mechanism(name, item.query).variance()), _NOISELESS)
            precision = 0.0 if is_single_child(depth, sizes) else 1 / variance
            allotments.append(Allotment(depth, plan.queries[item.query], precision))
    if not allotments or not statistics:
        return (math.inf,) * len(statistics)
    schema = plan.product.schema
    wanted = [Wanted(levels.index(statistic.geolevel), schema.query(statistic.query), 1.0) for statistic in statistics]
    variances, spent = tree_variances(plan, levels, sizes, allotments, wanted), np.ones(len(allotments))
    found = zip(variances.largest_errors(spent), variances.determined(spent), strict=True)
    return tuple(error if known else math.inf for error, known in found)
