"""The chain of solvers: one after the other until a proposed estimate is proved to be the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from das_spark.errors import ConfigurationError
from das_spark.estimation.batched import BatchedSolver
from das_spark.estimation.candidate import Candidate, read_back
from das_spark.estimation.certify import Certificate, certify
from das_spark.estimation.feasibility import feasibility
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.problem import Attempt, FamilyPlan
from das_spark.estimation.proposal import FamilySolver, PosedFamily, ThroughProgram
from das_spark.estimation.solvers import SOLVERS, Capability, Solution, Status

_SERVING: Final[tuple[FamilySolver, ...]] = (
    BatchedSolver(),
    *(ThroughProgram(name) for name, each in SOLVERS.items() if Capability.QUADRATIC in each.capabilities),
)
FAMILY_SOLVERS: Final = {each.name: each for each in _SERVING}
"""Every solver that ``estimation.solvers`` may name. To add one: a module, and a line here or in `SOLVERS`."""

LARGE: Final = 1000
"""Variables from which the batched solver goes first; below, an interior point costs less (tests/benchmarks)."""

NOISY: Final = 30.0
"""Noise of a single cell, in people, above which bounds of a few people take the batched solver hundreds of steps."""

LARGE_AND_NOISY: Final = 100_000
"""Variables from which it goes first even so."""


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The best candidate of the chain of solvers.

    Attributes:
        candidate: The candidate.
        certificate: What was proved of it.
        name: Its solver.
        iterations: Its solver's iterations.
        tried: All attempts, in order.
        contradiction: Why the family is infeasible, where it was found to be.
    """

    candidate: Candidate
    certificate: Certificate
    name: str
    iterations: int
    tried: tuple[Attempt, ...]
    contradiction: str = ""


def solve_chain(presolved: Presolved, plan: FamilyPlan) -> Solved:
    """Try the plan's solvers in order until a solution is certified, or the family is found to be infeasible.

    Whether it can be met at all is asked once, after the first solver that proves nothing.

    Args:
        presolved: The family.
        plan: Solvers and tolerances.

    Returns:
        The certified candidate, or else the one with the smallest violation, then gap.

    Raises:
        ConfigurationError: When the plan names a solver that does not exist.
    """
    support = presolved.support

    @lru_cache(maxsize=1)
    def proof(candidate: Candidate) -> Certificate:
        return certify(support.problem, plan, support.cells, candidate, support.relaxation)

    posed = PosedFamily(presolved)
    solvers = _ordered(plan.solvers, presolved)
    if not presolved.variables and not posed.assembly.program.size:  # flows may be open where no cell is
        solvers = []
    best: Solved | None = None
    tried: tuple[Attempt, ...] = ()
    for each in solvers:
        proposal = each.propose(posed, proof)
        if proposal is None:
            continue
        proved = proof(proposal.candidate)
        tried = (*tried, _attempt(each.name, str(proposal.status), proved, proposal.iterations))
        if best is None or _rank(proved, plan) < _rank(best.certificate, plan):
            best = Solved(proposal.candidate, proved, each.name, proposal.iterations, tried)
        if proved.certified:
            break
        if len(tried) == 1 and support.relaxation is None:
            found = feasibility(presolved)
            if not found.feasible:
                return replace(best, contradiction=found.message)
    if best is None:
        candidate = read_back(posed.assembly, Solution(Status.FAILED))
        best = Solved(candidate, proof(candidate), "presolve", 0, ())
    return replace(best, tried=tried)


def _ordered(names: tuple[str, ...], presolved: Presolved) -> list[FamilySolver]:
    """The plan's solvers; where an interior point costs less, the batched one is asked last."""
    unknown = [name for name in names if name not in FAMILY_SOLVERS]
    if unknown:
        what = "cannot take quadratic programs" if unknown[0] in SOLVERS else "does not exist"
        raise ConfigurationError(f"solver {unknown[0]!r} {what}", hint=f"one of {', '.join(FAMILY_SOLVERS)}")
    measured = presolved.weight[presolved.weight > 0]
    noise = float(measured.min()) ** -0.5 if len(measured) else 0.0
    small = presolved.variables < (LARGE if noise <= NOISY else LARGE_AND_NOISY)
    late = [name for name in names if name == BatchedSolver.name and small]
    return [FAMILY_SOLVERS[name] for name in (*(name for name in names if name not in late), *late)]


def _attempt(name: str, status: str, proved: Certificate, iterations: int) -> Attempt:
    return Attempt(name, status, proved.certified, proved.primal_residual, proved.gap, iterations)


def _rank(proof: Certificate, plan: FamilyPlan) -> tuple[bool, float, float]:
    """Order of candidates: certified ones first, then by violation above the tolerance, then by gap."""
    gap = abs(proof.gap) if np.isfinite(proof.gap) else np.inf
    violation = max(proof.violation, plan.feasibility_tolerance) if np.isfinite(proof.violation) else np.inf
    return not proof.certified, violation, gap
