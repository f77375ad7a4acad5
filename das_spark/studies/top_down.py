"""Measure and estimate a small spine in memory, with the noise and the estimator of the project.

What a run does with tables, for studies: every geounit of a geolevel is measured with exact discrete Laplace noise, and
families are estimated from the top, each by `das_spark.estimation.estimate_family`. The key is made from a seed and
known to everybody: nothing is protected, and nobody real is in the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import EstimationError
from das_spark.estimation import (
    LEAST_VARIANCE,
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    estimate_family,
)
from das_spark.histogram import Histogram, Query, Schema
from das_spark.privacy import (
    DiscreteLaplace,
    GeounitAddresses,
    KeyedStream,
    RunKey,
    StreamDomain,
    cumulative_table,
    sample,
)

Counts = NDArray[np.int64]

#: Unknowns from which the batched solver is tried first, whatever the noise: interior points take ten times as long.
_LARGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """A query that is measured in every geounit.

    Attributes:
        name: Tells apart queries that ask the same.
        query: What is asked.
        share: Of the budget of the geolevel.
    """

    name: str
    query: Query
    share: Fraction


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What is measured of a spine, and at which cost.

    Attributes:
        name: Of what is measured, such as "household"; a part of the address of all noise.
        schema: The cells that are counted.
        queries: In order.
        total: Total epsilon.
        geolevels: Share of each geolevel.
    """

    name: str
    schema: Schema
    queries: tuple[Measured, ...]
    total: Fraction
    geolevels: Mapping[str, Fraction]

    def law(self, geolevel: str, measured: Measured) -> DiscreteLaplace:
        """The law of the noise of a query in a geolevel: scale 2 / epsilon.

        Args:
            geolevel: Name of the geolevel.
            measured: One of the queries; epsilon is its exact share of the total.
        """
        return DiscreteLaplace(2 / (self.total * self.geolevels[geolevel] * measured.share))


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The geounits of one geolevel.

    Attributes:
        name: Name of the geolevel.
        parent: Position of each geounit's parent in the layer above, ascending, (K,).
        truth: True counts, (K, cells).
        least: Fewest records that a geounit can have, (K,).
        most: Most records, (K,); None where nothing bounds them.
    """

    name: str
    parent: Counts
    truth: Counts
    least: Counts
    most: Counts | None

    def families(self) -> Iterator[tuple[int, slice]]:
        """Each parent that has children, and where they stand."""
        starts = np.flatnonzero(np.diff(self.parent, prepend=-1))
        for begin, end in pairwise([*starts.tolist(), len(self.parent)]):
            yield int(self.parent[begin]), slice(begin, end)


def release(layers: Sequence[Layer], mechanism: Mechanism, key: RunKey) -> tuple[Counts, ...]:
    """Measure every layer and estimate it, top first.

    Args:
        layers: The first has one geounit, without parent.
        mechanism: What is measured.
        key: Of the noise.

    Returns:
        Released counts of each layer, (K, cells): whole numbers, none negative, children summing to their parent.

    Raises:
        EstimationError: A family could not be solved, or its solution not be proved.
    """
    released: list[Counts] = []
    for layer in layers:
        streams = tuple(key.derive(_domain(mechanism, layer.name, each)) for each in mechanism.queries)
        found = np.zeros_like(layer.truth)
        for parent, children in layer.families():
            above = Histogram.from_dense(released[-1][parent]) if released else None
            result = _estimated(_problem(layer, mechanism, streams, children, above), layer.name)
            found[children, result.cells] = result.counts
        released.append(found)
    return tuple(released)


def noise(layer: Layer, mechanism: Mechanism, measured: Measured, stream: KeyedStream, geounits: slice) -> Counts:
    """The noise of some geounits' answers, (geounits, answers): always the same for the same address.

    Args:
        layer: The geounits of a geolevel, of which its name is used alone.
        mechanism: What is measured of it.
        measured: One of the queries of the mechanism.
        stream: The random bits of that query in that geolevel.
        geounits: Positions in the layer; begin and end are given, the step is 1.
    """
    addresses = GeounitAddresses.of(map(str, range(geounits.start, geounits.stop)))
    table = cumulative_table(mechanism.law(layer.name, measured))
    return sample(table, stream, addresses, np.arange(measured.query.rows))


def noise_sums(layer: Layer, mechanism: Mechanism, measured: Measured, key: RunKey) -> Counts:
    """Sum of the noise over all answers of a query, geounit by geounit: the same noise as in `release`, (K,).

    Args:
        layer: The geounits of a geolevel.
        mechanism: What is measured of it.
        measured: One of the queries of the mechanism.
        key: Of the noise.
    """
    stream = key.derive(_domain(mechanism, layer.name, measured))
    sums: Counts = noise(layer, mechanism, measured, stream, slice(0, len(layer.parent))).sum(axis=1)
    return sums


def _domain(mechanism: Mechanism, geolevel: str, measured: Measured) -> StreamDomain:
    return StreamDomain("experiment", mechanism.name, geolevel, 0, measured.name)


def _problem(
    layer: Layer, mechanism: Mechanism, streams: Sequence[KeyedStream], children: slice, parent: Histogram | None
) -> FamilyProblem:
    """One family, measured."""
    truth = layer.truth[children]
    measurements = []
    for each, stream in zip(mechanism.queries, streams, strict=True):
        values = each.query.answer_dense(truth) + noise(layer, mechanism, each, stream, children)
        variance = np.full(len(truth), max(mechanism.law(layer.name, each).variance(), LEAST_VARIANCE))
        measurements.append(FamilyMeasurement(each.query, np.arange(each.query.rows), values, variance))
    bounds: tuple[FamilyBounds, ...] = ()
    if layer.most is not None:
        total = mechanism.schema.query("total")
        ends = (bound[children, np.newaxis] for bound in (layer.least, layer.most))
        bounds = (FamilyBounds("total", total, *ends),)
    return FamilyProblem(
        parent_geocode="" if parent is None else f"above {children.start}",
        parent=parent,
        children=tuple(f"{place:09d}" for place in range(children.start, children.stop)),
        size=mechanism.schema.size,
        measurements=tuple(measurements),
        bounds=bounds,
    )


def _estimated(problem: FamilyProblem, geolevel: str) -> FamilyResult:
    """Solve a family by the solvers of a run, large ones by the batched solver first."""
    cells = problem.size if problem.parent is None else len(problem.parent.cells)
    if len(problem.children) * cells >= _LARGE and problem.parent is not None:
        result = estimate_family(problem, FamilyPlan(geolevel, solvers=("batched",)))
        if result.diagnostics.status.is_usable:
            return result
    result = estimate_family(problem, FamilyPlan(geolevel))
    found = result.diagnostics
    if not found.status.is_usable:
        raise EstimationError(f"{geolevel}: family of {problem.children[0]} is {found.status}: {found.message}")
    return result
