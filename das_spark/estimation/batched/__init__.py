"""The batched solver: all children of a family at once, by an alternating-direction method (README, section 9).

General solvers meet a county of a thousand tracts as one sparse program of a million unknowns. Here the children share
one small inverse (`operator`), cells are divided among children exactly (`sweep`), and only the sums that are bounded
are reached in the limit; a last raking makes them exact. What comes out is proved like any other candidate.
"""

from das_spark.estimation.batched.solver import BatchedSolver

__all__ = ["BatchedSolver"]
