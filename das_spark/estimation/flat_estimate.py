"""Estimate very many small families at once: fits, certificates, roundings, checks on flat arrays (README, section 17).

A family is served where nothing but the parent, and bounds on sums of its children's cells, ties people together, and
where the answers to single cells weigh enough for a gradient method (E-85). What is not served, not certified or not
rounded here is estimated by `family.py`, by itself; nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.flat import FlatAnswers, FlatBounds, FlatFamilies, FlatRows
from das_spark.estimation.flat_certify import FlatCertificates, certify_flat
from das_spark.estimation.problem import (
    SLACK,
    FamilyDiagnostics,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    FamilyStatus,
    Floats,
    Integers,
    SolverAttempt,
)
from das_spark.estimation.solvers import Status
from das_spark.estimation.ties import hash_geocodes, split_without_ties

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, OuterPass

PROJECTED: Final = "projected"
"""Name of the fit in the chain of solvers of a plan."""

MOST_ENTRIES: Final = 20_000
"""Children times cells of the largest family that is served: others are a task's work by themselves."""

MOST_HELD: Final = 4_000
"""The same where later passes hold what earlier ones reached: the equations of many totals take many rounds."""

AT_ONCE: Final = 500_000
"""Children times cells of the families that are in memory at once."""


def estimate_flat(problems: Sequence[FamilyProblem], plan: FamilyPlan) -> list[FamilyResult | None]:
    """Estimate families; None for each that is to be estimated by itself.

    The result of a family does not depend on the others, bit for bit.
    """
    results: list[FamilyResult | None] = [None] * len(problems)
    if not _serves_plan(plan):
        return results
    for chosen in _chunks(problems, plan):
        found = _Estimation([problems[place] for place in chosen], plan).results()
        for place, result in zip(chosen, found, strict=True):
            results[place] = result
    return results


def _serves_plan(plan: FamilyPlan) -> bool:
    """Whether the passes are one outer pass that ends with every cell, in one rounding or totals first."""
    if PROJECTED not in plan.solvers or len(plan.passes) != 1 or plan.rounding != "nearest":
        return False
    outer = plan.passes[0]
    if not outer.least_squares or not all(outer.least_squares) or not all(outer.rounding):
        return False
    if not set(outer.names) <= set(plan.queries):
        return False
    rounding = [[plan.queries[name] for name in inner] for inner in outer.rounding]
    if len(rounding) == 2 and [each.rows for each in rounding[0]] == [1] and rounding[0][0].is_partition:  # noqa: PLR2004
        rounding = rounding[1:]
    whole = len(rounding) == 1 and any(each.rows == each.size for each in rounding[0])
    return whole and all(each.is_partition for each in rounding[0])


def _serves(problem: FamilyProblem, plan: FamilyPlan) -> bool:
    if problem.parent is None or problem.flows is not None or problem.groups is not None or problem.prior is not None:
        return False
    cells, children = len(problem.parent.cells), len(problem.children)
    most = MOST_ENTRIES if len(plan.passes[0].least_squares) == 1 else MOST_HELD
    if children < 2 or not cells or cells * children > most:  # noqa: PLR2004
        return False
    measured = {measurement.query.name for measurement in problem.measurements}
    return all(name in measured for inner in plan.passes[0].least_squares for name in inner)


def _chunks(problems: Sequence[FamilyProblem], plan: FamilyPlan) -> Iterator[list[int]]:
    """Families with the same queries and bounds, some at a time, as positions."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for place, problem in enumerate(problems):
        if _serves(problem, plan):
            key = tuple((bound.name, id(bound.query)) for bound in problem.bounds)
            alike.setdefault(key, []).append(place)
    for places in alike.values():
        waiting, entries = list[int](), 0
        for place in places:
            parent = problems[place].parent
            waiting.append(place)
            entries += len(problems[place].children) * (0 if parent is None else len(parent.cells))
            if entries >= AT_ONCE:
                yield waiting
                waiting, entries = [], 0
        if waiting:
            yield waiting


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """What the fit of one inner pass found."""

    families: FlatFamilies  # on the cells of the pass
    x: Floats  # shape (E,)
    multipliers: Sequence[Floats]  # of the rows of each of the bounds
    iterations: Integers  # shape (F,)
    proof: FlatCertificates
    gap: Floats  # relative to max(1, objective), shape (F,)
    proved: Booleans  # shape (F,)


class _Estimation:
    """The estimation of some families with the same queries and bounds."""

    def __init__(self, problems: Sequence[FamilyProblem], plan: FamilyPlan) -> None:
        self.problems, self.plan = problems, plan
        self.families = FlatFamilies.of(problems)
        children = self.families.children
        bounds = [FlatBounds.of(each, children) for each in zip(*(problem.bounds for problem in problems), strict=True)]
        self.bounds = [bound for bound in bounds if len(bound.lower)]  # the others bound nobody
        named = [{measurement.query.name: measurement for measurement in problem.measurements} for problem in problems]
        names = dict.fromkeys(name for inner in self.outer.least_squares for name in inner)
        self.answers = {name: FlatAnswers.of([each[name] for each in named], children) for name in names}
        self.served = self._served()

    @property
    def outer(self) -> OuterPass:
        return self.plan.passes[0]

    def _served(self) -> Booleans:
        """Families that lack no answer, and have nobody in a structural zero."""
        wrong = np.isin(self.families.cells, self.plan.zero_cells)
        for rows in self._asked():
            wrong |= rows.index(self.families) < -1
        served = np.ones(len(self.problems), dtype=np.bool_)
        served[self.families.family[wrong]] = False
        for bound in self.bounds:
            served[bound.rows.of_values[bound.lower > bound.upper]] = False
        return served

    def _asked(self) -> list[FlatRows]:
        return [*(answer.rows for answer in self.answers.values()), *(bound.rows for bound in self.bounds)]

    def results(self) -> list[FamilyResult | None]:
        """Estimate them."""
        fits, bands = list[_Fit](), list[FlatBounds]()
        for number, names in enumerate(self.outer.least_squares):
            fit = self._fit(number, bands)
            self.served &= fit.proved
            fits.append(fit)
            if number < len(self.outer.least_squares) - 1:
                bands += [self._band(fit, name) for name in names]
        open_to = self._open()
        counts, gap = self._rounded(fits[-1].x, open_to)
        self._check(counts)
        return self._told(fits, counts, gap, open_to)

    def _fit(self, number: int, bands: list[FlatBounds]) -> _Fit:
        """One inner pass of least squares, on the coarsest cells that serve it."""
        from das_spark.estimation._flat_fit import CONVERGED, fit_families  # noqa: PLC0415 - the compiler takes time

        answers = [self.answers[name] for name in self.outer.least_squares[number]]
        bounds = [*self.bounds, *bands]
        asked = [*(answer.rows.query for answer in answers), *(bound.rows.query for bound in bounds)]
        if number == len(self.outer.least_squares) - 1:
            asked += [self.plan.queries[name] for names in self.outer.rounding for name in names]
        families = self.families
        if all(each.rows < each.size for each in asked):
            families = families.coarsened(asked)
        x, price = np.zeros(families.first_entry[-1]), np.zeros(len(families.cells))
        lower, upper = _joined([bound.lower for bound in bounds]), _joined([bound.upper for bound in bounds])
        multiplier = np.zeros(len(lower))
        iterations, status = (np.zeros(len(self.problems), dtype=np.int64) for _ in range(2))
        fit_families(
            families.first,
            families.children,
            families.parent.astype(np.float64),
            *_laid_out(families, [answer.rows for answer in answers]),
            _joined([answer.values for answer in answers]),
            np.array([answer.weight for answer in answers]),
            *_laid_out(families, [bound.rows for bound in bounds]),
            lower,
            upper,
            x,
            price,
            multiplier,
            iterations,
            status,
        )
        x[(status != CONVERGED)[families.family_of_entry]] = 0.0  # whatever stands there is no estimate
        ends = np.cumsum([len(bound.lower) for bound in bounds])
        multipliers = np.split(-2.0 * multiplier, ends[:-1]) if bounds else []
        proof = certify_flat(families, answers, bounds, x, multipliers)
        size = np.maximum(1.0, proof.objective)
        enough = self.plan.gap_tolerance * size
        proved = (status == CONVERGED) & (np.abs(proof.gap) <= enough) & (proof.worth <= enough)
        proved &= proof.violation <= self.plan.feasibility_tolerance  # in people: bands are absolute
        return _Fit(families, x, multipliers, iterations, proof, proof.gap / size, proved)

    def _band(self, fit: _Fit, name: str) -> FlatBounds:
        """What an inner pass reached for one of its queries, to be held in the later ones (E-49)."""
        answers = self.answers[name]
        at = answers.rows.of_entries(fit.families)
        total = np.bincount(at[at >= 0], fit.x[at >= 0], minlength=len(answers.values))
        slack = SLACK + fit.proof.violation[answers.rows.of_values]
        return FlatBounds(answers.rows, total - slack, total + slack)

    def _open(self) -> Booleans:
        """Whether a child can hold people in a cell, shape ``(E,)``."""
        found = np.ones(self.families.first_entry[-1], dtype=np.bool_)
        for bound in self.bounds:
            at = bound.rows.of_entries(self.families)
            found &= (at < 0) | (bound.upper[at] > 0)
        return found

    def _rounded(self, x: Floats, open_to: Booleans) -> tuple[Integers, Floats]:
        """Whole numbers, shape ``(E,)``, and the gap of each family."""
        from das_spark.estimation._flat_rounding import ROUNDED, round_families  # noqa: PLC0415

        families, rounding = self.families, self.outer.rounding
        levels = np.array([self.plan.queries[name].row_of(families.cells) for name in rounding[-1]])
        hashes = hash_geocodes([code for problem in self.problems for code in problem.children])
        served = np.where(self.served[families.family_of_entry], x, 0.0)
        counts, fraction = split_without_ties(served, hashes[families.child], families.cells[families.cell])
        gap, status = np.zeros(len(self.problems)), np.zeros(len(self.problems), dtype=np.int64)
        if self.served.any():
            round_families(
                families.first,
                families.children,
                families.parent,
                fraction,
                open_to,
                levels,
                len(rounding) > 1,
                self._exact_totals(),
                self.served,
                counts,
                gap,
                status,
            )
        self.served &= status == ROUNDED
        return counts, gap

    def _exact_totals(self) -> Integers:
        """People of each child where those of all children of a family are known, otherwise -1, shape ``(C,)``."""
        families = self.families
        found = np.full(len(families.family_of_child), -1, dtype=np.int64)
        for bound in self.bounds:
            if bound.rows.query.rows == 1 and bound.rows.query.is_partition and bound.rows.keys is None:
                inexact = np.bincount(families.family_of_child, bound.lower != bound.upper, len(self.problems)) > 0
                found = np.where(inexact[families.family_of_child], found, bound.lower.astype(np.int64))
        return found

    def _check(self, counts: Integers) -> None:
        """Leave out families whose whole numbers break a rule, in exact integers (E-28)."""
        families = self.families
        self.served[families.family_of_entry[counts < 0]] = False
        total = np.zeros(len(families.cells), dtype=np.int64)
        np.add.at(total, families.cell, counts)
        self.served[families.family[total != families.parent]] = False
        for bound in self.bounds:
            at = bound.rows.of_entries(families)
            people = np.zeros(len(bound.lower), dtype=np.int64)
            np.add.at(people, at[at >= 0], counts[at >= 0])
            self.served[bound.rows.of_values[(people < bound.lower) | (people > bound.upper)]] = False

    def _told(
        self, fits: Sequence[_Fit], counts: Integers, gap: Floats, open_to: Booleans
    ) -> list[FamilyResult | None]:
        """The results of the families that are served."""
        families = self.families
        holders = np.bincount(families.cell, open_to, minlength=len(families.cells))
        free = open_to & (holders > 1)[families.cell]
        variables = np.bincount(families.family_of_entry[free], minlength=len(self.problems))
        results: list[FamilyResult | None] = []
        for place, problem in enumerate(self.problems):
            if not self.served[place]:
                results.append(None)
                continue
            one, two = families.first[place], families.first[place + 1]
            tried = tuple(
                SolverAttempt(
                    PROJECTED,
                    str(Status.OPTIMAL),
                    certified=True,
                    primal_residual=float(fit.proof.violation[place]),
                    gap=float(fit.gap[place]),
                    iterations=int(fit.iterations[place]),
                )
                for fit in fits
            )
            diagnostics = FamilyDiagnostics(
                parent=problem.parent_geocode,
                children=len(problem.children),
                variables=int(variables[place]),
                status=FamilyStatus.OPTIMAL,
                solver=PROJECTED,
                passes=len(fits),
                primal_residual=max(each.primal_residual for each in tried),
                gap=max(each.gap for each in tried),
                iterations=sum(each.iterations for each in tried),
                attempts=len(fits),
                rounding="minimum-cost flow",
                rounding_gap=float(gap[place]),
                tried=tried,
            )
            own = counts[families.first_entry[place] : families.first_entry[place + 1]]
            results.append(
                FamilyResult(
                    families.cells[one:two], own.reshape(-1, two - one), relaxed=False, diagnostics=diagnostics
                )
            )
        return results


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _laid_out(families: FlatFamilies, asked: Sequence[FlatRows]) -> tuple[Integers, Integers, Integers]:
    """Row of each cell, rows of each family, and first value of each family among all values, by query."""
    shape = (len(asked), len(families.children))
    index = np.empty((len(asked), len(families.cells)), dtype=np.int64)
    width, start = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    before = 0
    for number, each in enumerate(asked):
        index[number] = each.index(families)
        width[number], start[number] = each.width, before + each.start[:-1]
        before += int(each.start[-1])
    return index, width, start
