"""What every solver of families is: a family in, a proposed estimate out, to be proved by somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from das_spark.estimation.assembly import Assembly, assemble, recentred
from das_spark.estimation.candidate import Candidate, read_back
from das_spark.estimation.certify import Certificate
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers import Solver, SolverOptions, Status, solver

TOLERANCE = 1e-8
"""Residuals asked of solvers of programs, in units of a typical noise deviation."""

REFINEMENTS = 2
"""Further solves, each around the solution before it; most families need none."""

Proof = Callable[[Candidate], Certificate]


@dataclass(frozen=True)
class PosedFamily:
    """A family as solvers get it; the program is written only when one asks for it.

    Attributes:
        presolved: The family.
    """

    presolved: Presolved

    @cached_property
    def assembly(self) -> Assembly:
        """The family as a quadratic program."""
        return assemble(self.presolved)


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a solver proposes.

    Attributes:
        candidate: The estimate.
        status: What the solver says of it.
        iterations: As the solver counts them.
    """

    candidate: Candidate
    status: Status
    iterations: int


class FamilySolver(Protocol):
    """A solver of families."""

    @property
    def name(self) -> str:
        """As in ``estimation.solvers``."""
        ...

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Propose an estimate.

        Args:
            family: The family.
            proof: Certifies a candidate; a solver may ask it when to stop.

        Returns:
            The proposal, or None where the solver does not serve families of this kind.
        """
        ...


@dataclass(frozen=True, slots=True)
class ThroughProgram:
    """A solver of quadratic programs as a solver of families.

    Attributes:
        name: Its name in `SOLVERS`.
    """

    name: str

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Solve the family's quadratic program; again around the solution, where that is not proved at once.

        Args:
            family: The family.
            proof: Certifies a candidate; once one is certified, nothing is solved again.

        Returns:
            The proposal with the smallest gap; its iterations are those of all solves.

        Raises:
            ConfigurationError: When there is no solver of that name, or it cannot take the family's program.
        """
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
