"""The chain of solvers: one after the other until a proposed estimate is proved to be the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, Protocol

import numpy as np
import scipy.sparse as sp

from das_spark.errors import ConfigurationError
from das_spark.estimation.batched import solve_batched
from das_spark.estimation.certify import Certificate, Proof, certify, is_met
from das_spark.estimation.flat_estimate import PROJECTED
from das_spark.estimation.interior import solve_interior
from das_spark.estimation.nested_family import exact_classes
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import FamilyPlan, Integers, SolverAttempt
from das_spark.estimation.program import Assembly, assemble, constraints, read_back, recentred, unsolved
from das_spark.estimation.solvers import (
    SOLVERS,
    Capability,
    Inequalities,
    Solver,
    SolverOptions,
    Status,
    linear_program,
    solver,
)
from das_spark.estimation.structured import solve_structured
from das_spark.estimation.support import Candidate, Proposal, Support

TOLERANCE = 1e-8
"""Residuals asked of solvers of programs, in units of a typical noise deviation."""

REFINEMENTS = 2
"""Further solves, each around the solution before it; most families need none."""


@dataclass(frozen=True)
class PosedFamily:
    """A family as solvers get it; it is presolved, and written as a program, only when one asks for that."""

    support: Support  # the family
    tolerance: float = 1e-6  # relative gap that is asked for

    @classmethod
    def of(cls, presolved: Presolved, tolerance: float = 1e-6) -> PosedFamily:
        """A family that is presolved already."""
        posed = cls(presolved.support, tolerance)
        vars(posed)["presolved"] = presolved
        return posed

    @property
    def is_presolved(self) -> bool:
        """Whether anything has asked for that yet."""
        return "presolved" in vars(self)

    @cached_property
    def presolved(self) -> Presolved:
        """The family without what is forced; a copy of all that it holds, which not every solver needs."""
        return presolve(self.support)

    @cached_property
    def assembly(self) -> Assembly:
        """The family as a quadratic program."""
        return assemble(self.presolved)


class FamilySolver(Protocol):
    """A solver of families."""

    @property
    def name(self) -> str:
        """As in ``estimation.solvers``."""
        ...

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Propose an estimate."""
        ...


class ProjectedSolver:
    """Very many small families at once, before any of them comes to a chain: to one that does it has nothing to say."""

    name = PROJECTED

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Nothing: `flat_estimate` has not served the family, or not proved its estimate."""
        del family, proof
        return None


class BatchedSolver:
    """All children of a family at once, without a program."""

    name = "batched"

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Iterate until the family's certificate holds."""
        return solve_batched(family.support, proof)


class NestedSolver:
    """Families of very many cells with known sums of classes, and few sums across them."""

    name = "nested"

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Iterate until the family's certificate holds."""
        # Here, so that only its families wait for the compiler to be imported.
        from das_spark.estimation.nested import solve_nested  # noqa: PLC0415

        return solve_nested(family.support, proof, family.tolerance)


class StructuredSolver:
    """Families whose children are known from below, each by a precision of its own."""

    name = "structured"

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Iterate until the family's certificate holds."""
        return solve_structured(family.support, proof)


class InteriorSolver:
    """The same families by Newton steps: slower, and never slow."""

    name = "interior"

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Step until the family's certificate holds."""
        return solve_interior(family.support, proof)


@dataclass(frozen=True, slots=True)
class ThroughProgram:
    """A solver of quadratic programs as a solver of families."""

    name: str  # its name in `SOLVERS`

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Solve the family's quadratic program; again around the solution, where that is not proved at once."""
        if family.support.problem.prior is not None and _coupled(family.presolved) > MOST_COUPLED:
            return None
        assembly = family.assembly
        chosen: Solver = solver(self.name, assembly.program.needs)
        best, gap, iterations = None, np.inf, 0
        for _ in range(1 + REFINEMENTS):
            solution = chosen.solve(assembly.program, SolverOptions(tolerance=TOLERANCE))
            iterations += solution.iterations
            candidate = read_back(assembly, solution)
            proved = proof(candidate)
            if best is None or abs(proved.gap) < gap:
                best, gap = Proposal(candidate, solution.status, iterations), abs(proved.gap)
            if proved.certified or solution.x is None or not np.isfinite(solution.x).all():
                break
            assembly = recentred(assembly, solution.x)
        return best if best is None else replace(best, iterations=iterations)


MOST_COUPLED: Final = 20_000_000
"""Pairs of variables of one child in a program; more take minutes and gigabytes."""


def _coupled(presolved: Presolved) -> int:
    return int((np.bincount(presolved.child) ** 2).sum())


_SHORT = 0.5
"""Bounds are whole numbers: the least total violation of nested bounds is 0 or at least 1."""

_NAMED = 5
"""So many conflicting rows are named."""


def conflict(presolved: Presolved) -> str:
    """Bounds that cannot all be met, by the least violation with the parent's sums and flows kept; "" where all can."""
    if presolved.contradiction:
        return presolved.contradiction
    parts = constraints(presolved)
    (elastic,) = np.nonzero(parts.aggregate >= 0)
    count, width = len(elastic), parts.variables + parts.flows
    slack = sp.csc_matrix((np.ones(count), (elastic, np.arange(count))), shape=(len(parts.aggregate), count))
    program = linear_program(
        cost=np.concatenate([np.zeros(width), np.ones(2 * count)]),
        lower=np.concatenate([presolved.lower, parts.lower, np.zeros(2 * count)]),
        upper=np.concatenate([presolved.upper, parts.upper, np.full(2 * count, np.inf)]),
        rows=Inequalities(
            sp.csc_matrix(sp.hstack([parts.rows.matrix, slack, -slack])), parts.rows.lower, parts.rows.upper
        ),
    )
    solution = SOLVERS["highs"].solve(program, SolverOptions())
    if solution.status is Status.INFEASIBLE:
        return "bounds of single cells or flows contradict the sums over children"
    if solution.x is None:
        return ""
    short = solution.x[width:].reshape(2, -1).sum(axis=0)
    return "" if short.sum() < _SHORT else _named(presolved, parts.aggregate[elastic[short > _SHORT / 2]])


def _named(presolved: Presolved, aggregates: Integers) -> str:
    """Say which bounds an aggregate comes from."""
    problem = presolved.support.problem
    names = []
    for aggregate in aggregates[:_NAMED]:
        child = problem.children[int(presolved.aggregates.child[aggregate])]
        for partition, of_row in zip(presolved.support.partitions, presolved.aggregates.of_row, strict=True):
            found = np.argwhere(of_row == aggregate)
            if partition.limits and len(found):
                number, columns = partition.limits[0]
                bound = problem.bounds[number]
                names.append(f"{child}: row {bound.row(int(columns[found[0, 1]]))} of {bound.name!r}")
                break
    return "bounds cannot all be met; the least violation is at " + "; ".join(names)


_SERVING: Final[tuple[FamilySolver, ...]] = (
    ProjectedSolver(),
    NestedSolver(),
    BatchedSolver(),
    StructuredSolver(),
    InteriorSolver(),
    *(ThroughProgram(name) for name, each in SOLVERS.items() if Capability.QUADRATIC in each.capabilities),
)
FAMILY_SOLVERS: Final = {each.name: each for each in _SERVING}
"""Every solver that ``estimation.solvers`` may name. To add one: a module, and a line here or in `SOLVERS`."""

LARGE: Final = 1000
"""Variables from which the batched solver goes first; below, an interior point costs less (tests/benchmarks)."""

NOISY: Final = 30.0
"""Noise of a single cell, in people, above which bounds of a few people take the batched solver hundreds of steps."""

LARGE_AND_NOISY: Final = 100_000
"""Variables from which it goes first even so; and where a program would couple more than `MOST_COUPLED` pairs."""


MANY_CELLS: Final = 100_000
"""Cells of a schema from which the nested solver goes first; those of smaller ones have few cells to a class."""

MANY_CLASSES: Final = 3
"""Classes of cells whose people are known, in all children, from which it goes first."""


def _many_classes(support: Support) -> bool:
    """Whether the nested solver costs less than the others."""
    return support.problem.size >= MANY_CELLS and exact_classes(support) >= MANY_CLASSES


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The best candidate of the chain of solvers."""

    candidate: Candidate  # the candidate
    certificate: Certificate  # what was proved of it
    name: str  # its solver
    iterations: int  # its solver's iterations
    tried: tuple[SolverAttempt, ...]  # all attempts, in order
    contradiction: str = ""  # why the family is infeasible, where it was found to be


def solve_chain(posed: PosedFamily, plan: FamilyPlan) -> Solved:
    """Try the plan's solvers in order until a solution is certified, or the family is found to be infeasible.

    Whether it can be met at all is asked once: after the first solver that proves nothing, or, where that met it, after
    the last, for one person too many, divided among constraints, is less than half a person of each.
    """
    support = posed.support

    @lru_cache(maxsize=1)
    def proof(candidate: Candidate) -> Certificate:
        return certify(support.problem, plan, support.cells, candidate, support.relaxation)

    @lru_cache(maxsize=1)
    def contradiction() -> str:
        return conflict(posed.presolved) if support.relaxation is None else posed.presolved.contradiction

    best: Solved | None = None
    tried: tuple[SolverAttempt, ...] = ()
    for each in _ordered(plan.solvers, posed):
        proposal = each.propose(posed, proof)
        if proposal is None:
            continue
        proved = proof(proposal.candidate)
        said = str(proposal.status), proved.certified, proved.primal_residual, proved.gap, proposal.iterations
        tried = (*tried, SolverAttempt(each.name, *said))
        if best is None or _rank(proved, plan) < _rank(best.certificate, plan):
            best = Solved(proposal.candidate, proved, each.name, proposal.iterations, tried)
        if proved.certified:
            return replace(best, tried=tried)
        if len(tried) == 1 and not is_met(proved, plan) and contradiction():
            break
    if best is None:
        candidate = unsolved(posed.presolved)
        return Solved(candidate, proof(candidate), "presolve", 0, (), posed.presolved.contradiction)
    return replace(best, tried=tried, contradiction=contradiction())


def _ordered(names: tuple[str, ...], posed: PosedFamily) -> Iterator[FamilySolver]:
    """The plan's solvers, none for a family that has nothing open; it is presolved when the first has not proved it.

    Those that take many cells at once are asked last where an interior point costs less.
    """
    unknown = [name for name in names if name not in FAMILY_SOLVERS]
    if unknown:
        what = "cannot take quadratic programs" if unknown[0] in SOLVERS else "does not exist"
        raise ConfigurationError(f"solver {unknown[0]!r} {what}", hint=f"one of {', '.join(FAMILY_SOLVERS)}")
    support = posed.support
    names = tuple(name for name in names if name != PROJECTED)
    many_classes = _many_classes(support)
    if many_classes and names[:1] == (NestedSolver.name,) and not support.contradiction:
        yield FAMILY_SOLVERS[names[0]]
        names = names[1:]
    presolved = posed.presolved
    if presolved.contradiction or (not presolved.variables and not posed.assembly.program.size):
        return  # flows may be open where no cell is
    late: list[str] = []
    if support.problem.prior is None:  # with one, the batched solver takes nothing, whatever its place
        measured = presolved.weight[presolved.weight > 0]
        noise = float(measured.min()) ** -0.5 if len(measured) else 0.0
        noisy = noise > NOISY and _coupled(presolved) <= MOST_COUPLED
        small = presolved.variables < (LARGE_AND_NOISY if noisy else LARGE)
        asked_last = {BatchedSolver.name} if small else set()
        if not many_classes:
            asked_last.add(NestedSolver.name)
        late = [name for name in names if name in asked_last]
    yield from (FAMILY_SOLVERS[name] for name in (*(name for name in names if name not in late), *late))


def _rank(proof: Certificate, plan: FamilyPlan) -> tuple[bool, float, float]:
    """Order of candidates: certified ones first, then by violation above the tolerance, then by gap."""
    gap = abs(proof.gap) if np.isfinite(proof.gap) else np.inf
    violation = max(proof.violation, plan.feasibility_tolerance) if np.isfinite(proof.violation) else np.inf
    return not proof.certified, violation, gap
