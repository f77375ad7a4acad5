"""Solvers behind one protocol. To add one: a module here and a line in `SOLVERS`; the conformance suite examines it."""

from das_spark.errors import ConfigurationError
from das_spark.estimation.solvers.base import (
    Capability,
    Inequalities,
    Program,
    Solution,
    Solver,
    SolverOptions,
    Status,
    linear_program,
)
from das_spark.estimation.solvers.clarabel import ClarabelSolver
from das_spark.estimation.solvers.highs import HighsSolver
from das_spark.estimation.solvers.osqp import OsqpSolver
from das_spark.estimation.solvers.piqp import PiqpSolver

SOLVERS: dict[str, Solver] = {
    solver.name: solver for solver in (PiqpSolver(), ClarabelSolver(), OsqpSolver(), HighsSolver())
}


def solver(name: str, needs: frozenset[Capability] = frozenset()) -> Solver:
    """Look a solver up by name.

    Args:
        name: Its name in `SOLVERS`.
        needs: What it must be able to do.

    Returns:
        The solver.

    Raises:
        ConfigurationError: When there is none of that name, or it cannot do what is needed.
    """
    found = SOLVERS.get(name)
    if found is None:
        raise ConfigurationError(f"there is no solver {name!r}", hint=f"one of {', '.join(SOLVERS)}")
    if not needs <= found.capabilities:
        raise ConfigurationError(
            f"solver {name!r} cannot take {', '.join(sorted(needs - found.capabilities))} programs"
        )
    return found


__all__ = [
    "SOLVERS",
    "Capability",
    "Inequalities",
    "Program",
    "Solution",
    "Solver",
    "SolverOptions",
    "Status",
    "linear_program",
    "solver",
]
