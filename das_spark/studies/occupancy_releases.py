r"""The ways in which the study of occupancy releases simulated counties: in memory, by the algorithm of a run.

Every geounit of a geolevel is measured with exact discrete Laplace noise, and families are estimated from the top
(`das_spark.core`). The key is made from a seed and known to everybody: nothing is protected, and nobody real is in the
data. Households are released as published, and with one cause taken away at a time (`ARMS`). All arms of one budget
see the same noise under one key, so that they differ by what is taken away alone.

The published schema of households has 96,768 cells. Here it has the 672 of the published query sex x Hispanic origin x
race x type of household; queries keep their published share, geolevels theirs and the total is the published one, so
that every scale of noise is as published. A published query that also asks for age, size, generations or elderly
people asks for what is left without these: fewer answers, so that totals are known better here than they were, and
what is found is less than what was published.

The schema of persons has the 504 cells of the published query voting age x Hispanic origin x race x citizenship. The
queries on group quarters, sex and age have nothing to ask here; their shares are not spent.

The ablation of nonnegativity needs no estimator: where counts may be negative, and nothing is rounded, least squares
has a closed form for totals. Let each of the queries q have equal groups, with r_q answers and noise variance v_q, and
let H be the sum over q of A_q' A_q / v_q, with n cells. Every cell counts once, so A_q' A_q 1 = (n / r_q) 1, and 1 is
an eigenvector of H. Hence the unconstrained total of a geounit k is the mean of the sums of its noisy answers, weighted
by precision,

    t_k = sum_q w_q 1'y_kq / sum_q w_q,     w_q = 1 / (r_q v_q)                                                    (O-3)

and, H being the same for siblings, all that is left to decide in the direction of totals, where the children sum to the
parent's T, is separate from every other direction of the cells:

    min sum_k (s_k - t_k)^2   subject to   sum_k s_k = T,   s_k <= u_k where bounded                               (O-4)

whose solution is s_k = min(u_k, t_k + c), with c such that they sum to T. Real numbers, not rounded, otherwise the same
problem on the same noise as `release`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.core import (
    ConfidentialFamily,
    FamilyEstimate,
    InProcess,
    LevelInput,
    LevelPlan,
    MeasuredFamily,
    MeasurementPlan,
    NoisyAnswers,
    TopDown,
    level_steps,
    measure_family,
    run_levels,
)
from das_spark.errors import ConfigurationError, EstimationError, QueryError
from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyProblem
from das_spark.histogram import Attribute, Query, Schema
from das_spark.privacy import DiscreteLaplace, RunKey, StreamDomain, cumulative_table
from das_spark.studies.demonstration import GEOLEVEL_SHARES, HOUSEHOLD_QUERIES, PERSON_QUERIES, TOTALS
from das_spark.studies.housing import COUNTY, HOUSEHOLD_SHAPE, HOUSING_LEVELS, PERSON_SHAPE, Housing, HousingLevel
from das_spark.studies.quintiles import Quintile, quintiles

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Unknowns from which the batched solver is tried first, whatever the noise: interior points take ten times as long.
_LARGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class SpineQuery:
    """A query that is measured in every geounit."""

    name: str  # tells apart queries that ask the same
    query: Query  # what is asked
    share: Fraction  # of the budget of the geolevel


@dataclass(frozen=True, slots=True)
class SpineMechanism:
    """What is measured of a spine, and at which cost."""

    name: str  # of what is measured, such as "household"; a part of the address of all noise
    schema: Schema  # the cells that are counted
    queries: tuple[SpineQuery, ...]
    total: Fraction  # total epsilon
    geolevels: Mapping[str, Fraction]  # share of each geolevel

    def noise(self, geolevel: str, measured: SpineQuery) -> DiscreteLaplace:
        """The noise of a query in a geolevel: scale 2 / epsilon, of which the query has an exact share."""
        return DiscreteLaplace(2 / (self.total * self.geolevels[geolevel] * measured.share))

    def measurement_plan(self, geolevel: str, key: RunKey, *, blind: bool = False) -> MeasurementPlan:
        """How a geolevel is measured; queries have names that sort in their order."""
        named = {f"{place:02d}": query for place, query in enumerate(self.queries)}
        mechanisms = {name: self.noise(geolevel, each) for name, each in named.items()}
        return MeasurementPlan(
            {name: each.query for name, each in named.items()},
            {"": {name: (cumulative_table(mechanism), mechanism.variance()) for name, mechanism in mechanisms.items()}},
            {
                name: key.derive(StreamDomain("experiment", self.name, geolevel, 0, each.name))
                for name, each in named.items()
            },
            lazy=False,
            blind=blind,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The geounits of one geolevel."""

    name: str
    parent: Counts  # position of each geounit's parent in the layer above, ascending, (K,)
    truth: Counts  # true counts, (K, cells)
    least: Counts  # fewest records that a geounit can have, (K,)
    most: Counts | None  # most records, (K,); None where nothing bounds them

    def families(self) -> Iterator[tuple[int, slice]]:
        """Each parent that has children, and where they stand."""
        starts = np.flatnonzero(np.diff(self.parent, prepend=-1))
        for begin, end in pairwise([*starts.tolist(), len(self.parent)]):
            yield int(self.parent[begin]), slice(begin, end)

    def confidential(self, geounits: slice) -> ConfidentialFamily:
        """Some geounits with their counts; the address of a geounit's noise is its position."""
        truth = self.truth[geounits]
        child, cells = np.nonzero(truth)
        offsets = np.searchsorted(child, np.arange(len(truth) + 1)).astype(np.int64)
        codes = tuple(map(str, range(geounits.start, geounits.stop)))
        return ConfidentialFamily(codes, cells.astype(np.int32), truth[child, cells], offsets, ("",) * len(truth))

    def declared(self, geounits: slice, schema: Schema, *, top: bool) -> FamilyProblem:
        """The same geounits, and what their numbers of records must be."""
        bounds: tuple[FamilyBounds, ...] = ()
        if self.most is not None:
            ends = (bound[geounits, np.newaxis] for bound in (self.least, self.most))
            bounds = (FamilyBounds("total", schema.query("total"), *ends),)
        children = tuple(map(_code, range(geounits.start, geounits.stop)))
        parent = "" if top else f"above {geounits.start}"
        return FamilyProblem(parent, None, children, schema.size, (), bounds)


def _code(position: int) -> str:
    """Sorts as the positions do."""
    return f"{position:09d}"


class _LargeFamiliesBatched(TopDown):
    """Large families are solved by the batched solver first, the others and those that it leaves as in a run."""

    def estimate(self, families: Sequence[MeasuredFamily], plan: FamilyPlan) -> list[FamilyEstimate]:
        return [self._estimate(family, plan) for family in families]

    def _estimate(self, family: MeasuredFamily, plan: FamilyPlan) -> FamilyEstimate:
        problem = family.problem
        if problem.parent is not None and len(problem.children) * len(problem.parent.cells) >= _LARGE:
            (found,) = super().estimate([family], replace(plan, solvers=("batched",)))
            if found.result.diagnostics.status.is_usable:
                return found
        return super().estimate([family], plan)[0]


def release(layers: Sequence[Layer], mechanism: SpineMechanism, key: RunKey) -> tuple[Counts, ...]:
    """Measure every layer and estimate it, top first: whole counts from 0, (K, cells), children summing to parents."""
    estimator = _LargeFamiliesBatched()
    inputs, plans = {}, {}
    noise = {layer.name: mechanism.measurement_plan(layer.name, key) for layer in layers}
    for depth, layer in enumerate(layers):
        named = {_code(parent): children for parent, children in layer.families()}
        inputs[layer.name] = LevelInput(
            {name: layer.confidential(children) for name, children in named.items()},
            {name: layer.declared(children, mechanism.schema, top=depth == 0) for name, children in named.items()},
        )
        queries = noise[layer.name].queries
        plans[layer.name] = LevelPlan(mechanism.schema.size, queries, FamilyPlan(layer.name), estimator)
    found = InProcess(inputs, plans, noise)
    run_levels(level_steps(list(inputs), estimator.needs), found)
    released = tuple(np.zeros_like(layer.truth) for layer in layers)
    for layer, counts in zip(layers, released, strict=True):
        for code, estimate in found.estimates[layer.name].items():
            counts[int(code), estimate.cells] = estimate.counts
    return released


def noise_of(layer: Layer, mechanism: SpineMechanism, key: RunKey) -> tuple[NoisyAnswers, ...]:
    """The noise of all answers in a layer, which `release` adds: query by query, in their order."""
    return measure_family(
        layer.confidential(slice(0, len(layer.truth))), None, mechanism.measurement_plan(layer.name, key, blind=True)
    )


def linear_totals(
    layers: Sequence[Layer], mechanism: SpineMechanism, key: RunKey, *, bounded: bool
) -> tuple[Floats, ...]:
    """Estimate the totals of every layer, (K,), top first, with no sign asked of any count."""
    for query in mechanism.queries:
        _check_groups(query)
    found: list[Floats] = []
    for layer in layers:
        totals = _unconstrained_totals(layer, mechanism, key)
        most = np.full(len(totals), np.inf)
        if bounded and layer.most is not None:
            most = layer.most.astype(np.float64)
        if not found:
            found.append(np.minimum(totals, most))
            continue
        for parent, children in layer.families():
            totals[children] = divided(totals[children], most[children], float(found[-1][parent]))
        found.append(totals)
    return tuple(found)


def _unconstrained_totals(layer: Layer, mechanism: SpineMechanism, key: RunKey) -> Floats:
    """Each geounit's total from its own answers alone (O-3), (K,)."""
    precisions = [1 / (query.query.rows * mechanism.noise(layer.name, query).variance()) for query in mechanism.queries]
    errors = [each.values.sum(axis=1) for each in noise_of(layer, mechanism, key)]
    totals: Floats = layer.truth.sum(axis=1) + np.average(errors, axis=0, weights=precisions)
    return totals


def divided(wanted: Floats, most: Floats, whole: float) -> Floats:
    """The nearest numbers to what is wanted, in least squares, that sum to a whole and keep upper bounds (O-4)."""
    room = most - wanted
    if most.sum() < whole:
        raise EstimationError("the upper bounds of a family sum to less than its parent has")
    # Children reach their bounds in the order of their room; c follows from those that do not.
    order = np.argsort(room, kind="stable")
    bounds = np.concatenate([[0.0], np.cumsum(most[order])[:-1]])
    rest = wanted.sum() - np.concatenate([[0.0], np.cumsum(wanted[order])[:-1]])
    shift = (whole - bounds - rest) / np.arange(len(wanted), 0, -1)
    # The first number of children at their bounds with which no further one would pass its own; else all are full.
    within = np.flatnonzero(shift <= room[order])
    step = shift[within[0]] if within.size else np.inf
    return np.minimum(most, wanted + step)


def _check_groups(measured: SpineQuery) -> None:
    """Equal groups, which (O-3) rests on."""
    sizes = measured.query.answer_dense(np.ones(measured.query.size, dtype=np.int64))
    if (sizes != sizes[0]).any() or not measured.query.is_partition:
        raise QueryError(f"query {measured.name!r}: the closed form of totals needs groups of one size")


def _schema(name: str, attributes: tuple[str, ...], shape: tuple[int, ...]) -> Schema:
    levels = (tuple(map(str, range(size))) for size in shape)
    return Schema(name, tuple(map(Attribute, attributes, levels)))


HOUSEHOLDS: Final = _schema("households", ("hhsex", "hhhisp", "hhrace", "hhtype"), HOUSEHOLD_SHAPE)
PEOPLE: Final = _schema("people", ("votingage", "hispanic", "race", "citizen"), PERSON_SHAPE)

#: What each published query asks here, in the published order.
_ASKED: Final = (
    "detailed",
    "hhhisp * hhrace * hhtype",
    "detailed",
    "hhhisp * hhrace",  # by its printed size, 28 = 2 x 7 x 2, it asks for race and not for the type of household
    "hhsex * hhtype",
    "hhsex * hhtype",
)


def household_mechanism(multiple: Fraction = Fraction(1)) -> SpineMechanism:
    """How households are measured."""
    if multiple <= 0:
        raise ConfigurationError(f"the budget of households must be above 0, not {multiple} times the published one")
    queries = tuple(
        SpineQuery(published.name, HOUSEHOLDS.query(asked), published.share)
        for published, asked in zip(HOUSEHOLD_QUERIES, _ASKED, strict=True)
    )
    return SpineMechanism("household", HOUSEHOLDS, queries, multiple * TOTALS["household"], GEOLEVEL_SHARES)


def person_mechanism() -> SpineMechanism:
    """How persons are measured."""
    asked = (PERSON_QUERIES[0], PERSON_QUERIES[2])
    queries = tuple(SpineQuery(published.name, PEOPLE.query("detailed"), published.share) for published in asked)
    return SpineMechanism("person", PEOPLE, queries, TOTALS["person"], GEOLEVEL_SHARES)


#: How many times the published budget the arm with more of it has.
_MORE_BUDGET: Final = Fraction(10)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to release the counts."""

    name: str
    title: str  # what is imposed and spent, in words
    # Whether no count may be negative. If so the estimator of a run makes whole numbers; if not, the closed form of
    # `linear_totals` gives totals, rounded here.
    nonnegative: bool = True
    bounded: bool = True  # whether no geounit may have more households than housing units
    multiple: Fraction = Fraction(1)  # of the published budget


AS_PUBLISHED: Final = Arm("as published", "nonnegative, at most the housing units, published budget")
UNBOUNDED: Final = Arm("no upper bound", "nonnegative, not bounded by housing units", bounded=False)
SIGNED: Final = Arm("no nonnegativity", "counts may be negative, at most the housing units", nonnegative=False)
UNCONSTRAINED: Final = Arm("neither", "counts may be negative, not bounded", nonnegative=False, bounded=False)
RICH: Final = Arm("ten times the budget", "as published, with ten times the budget", multiple=_MORE_BUDGET)
ARMS: Final = (AS_PUBLISHED, UNBOUNDED, SIGNED, UNCONSTRAINED, RICH)


def release_households(levels: Sequence[HousingLevel], arm: Arm, key: RunKey) -> tuple[Counts, ...]:
    """Households by cell of every geounit in an arm that imposes nonnegativity: (K, cells) a level."""
    return release(_household_layers(levels, arm), household_mechanism(arm.multiple), key)


def release_totals(levels: Sequence[HousingLevel], arm: Arm, key: RunKey) -> tuple[Counts, ...]:
    """Number of households of every geounit in an arm: sums of cells, or the rounded totals of least squares."""
    if arm.nonnegative:
        return tuple(household.sum(axis=1) for household in release_households(levels, arm, key))
    totals = linear_totals(_household_layers(levels, arm), household_mechanism(arm.multiple), key, bounded=arm.bounded)
    return tuple(np.rint(total).astype(np.int64) for total in totals)


def broken_rules(levels: Sequence[HousingLevel], released: Sequence[Counts]) -> tuple[str, ...]:
    """What a release of households must keep, looked at anew: nothing is taken from the estimator."""
    found = []
    for depth, (level, cells) in enumerate(zip(levels, released, strict=True)):
        if cells.dtype.kind != "i" or (cells < 0).any():
            found.append(f"{level.name}: a count is no whole number from 0")
        if (cells.sum(axis=1) > level.units).any():
            found.append(f"{level.name}: more households than housing units")
        if depth:
            sums = np.zeros_like(released[depth - 1])
            np.add.at(sums, level.parent, cells)
            divided = np.unique(level.parent)
            if (sums != released[depth - 1])[divided].any():
                found.append(f"{level.name}: children do not sum to their parent")
    return tuple(found)


def _household_layers(levels: Sequence[HousingLevel], arm: Arm) -> tuple[Layer, ...]:
    return tuple(
        Layer(
            level.name, level.parent, level.households, np.zeros_like(level.units), level.units if arm.bounded else None
        )
        for level in levels
    )


@dataclass(frozen=True, slots=True, eq=False)
class PeopleRelease:
    """Persons, whose number is exact in every state."""

    state_errors: Counts  # released minus true people of every state, (states,)
    by_size: tuple[Quintile, ...]  # errors of county totals by fifths of true people
    by_diversity: tuple[Quintile, ...]  # the same by fifths of the number of occupied cells: who lives there


def release_people(housing: Housing, key: RunKey) -> PeopleRelease:
    """Measure people with the published person budget, and estimate them down to the county."""
    layers = _person_layers(housing)
    _, states, counties = release(layers, person_mechanism(), key)
    truth = layers[COUNTY].truth
    errors = (counties - truth).sum(axis=1)
    return PeopleRelease(
        (states - layers[COUNTY - 1].truth).sum(axis=1),
        quintiles(truth.sum(axis=1), errors),
        quintiles((truth > 0).sum(axis=1), errors),
    )


def _person_layers(housing: Housing) -> tuple[Layer, ...]:
    """Nation, states and counties; the totals of the first two are exact."""
    parents = [level.parent for level in housing.levels[: COUNTY + 1]]
    truths = [housing.people]
    for depth in range(COUNTY, 0, -1):
        above = np.zeros((len(parents[depth - 1]), truths[0].shape[1]), dtype=np.int64)
        np.add.at(above, parents[depth], truths[0])
        truths.insert(0, above)
    layers = []
    for depth, (parent, truth) in enumerate(zip(parents, truths, strict=True)):
        total = truth.sum(axis=1)
        bounds = (total, total) if depth < COUNTY else (np.zeros_like(total), None)
        layers.append(Layer(HOUSING_LEVELS[depth], parent, truth, *bounds))
    return tuple(layers)
