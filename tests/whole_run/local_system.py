"""The system in memory on the small census: the core that Spark carries out, on the executor of one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from small_census import Census

from das_spark.audit import SmallPopulation
from das_spark.audit.system import LocalSystem
from das_spark.config import RunPlan, load_plan
from das_spark.constraints import AddedConstraint, Sense
from das_spark.core import InProcess
from das_spark.privacy import RunKey

CONF = Path(__file__).parents[2] / "conf" / "e2e_1940.toml"
#: Keys of the accuracy test; with the families of the census they make 200 families.
KEYS = tuple(f"accuracy {number}" for number in range(20))
#: Enough privacy loss that a census of a few thousand people shows both noise and constraints.
EPSILON = 8
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SystemRun:
    """What the system made of a census.

    Attributes:
        estimates: Level -> people by geounit (sorted) and cell.
        plan: Of the run.
        executor: All that it made public.
    """

    estimates: Mapping[str, Integers]
    plan: RunPlan
    executor: InProcess

    @property
    def ends(self) -> dict[tuple[str, str], str]:
        """Level and family -> how its estimation ended."""
        return {
            (level, family): str(found.status)
            for level, every in self.executor.diagnostics.items()
            for family, found in every.items()
        }

    @property
    def families(self):
        """Each family's problem and plan, in order of levels and families."""
        plans = self.executor.plans
        return [
            (problem, plans[level].family)
            for level, every in self.executor.problems.items()
            for problem in every.values()
        ]


def plan_of(levels: tuple[str, ...], epsilon: int, *settings: str) -> RunPlan:
    """The 1940 product on some levels with equal shares."""
    shares = [f'budget.geolevels.{name}="1/{len(levels)}"' for name in levels]
    names = f"geography.levels={list(levels)}"
    return load_plan(CONF, (), [f"budget.epsilon={epsilon}", names, *shares, *settings], files=False)


def run_system(
    census: Census,
    epsilon: int,
    key: str,
    *settings: str,
    rule: AddedConstraint | None = None,
) -> SystemRun:
    """Measure and estimate every level of a census of the 1940 product.

    Args:
        census: The population.
        epsilon: Total privacy loss.
        key: Text of a test key.
        settings: Texts `key.path=value` of the run file.
        rule: A constraint besides those of the product.
    """
    plan = plan_of(tuple(census.levels), epsilon, *settings)
    if rule is not None:
        plan = replace(plan, added=(rule,))
    system = LocalSystem(plan)
    population = SmallPopulation(census.geocodes, census.counts, census.units)
    executor = system.run(system.ingest(population), RunKey.insecure(key))
    estimates = {
        level: np.array([found[code].dense() for code in census.codes(level)])
        for level, found in executor.estimates.items()
    }
    return SystemRun(estimates, plan, executor)


def at_least(name: str, query: str, fewest: tuple[int, ...]) -> AddedConstraint:
    """In every leaf the answers of a query are at least `fewest`; above, its sums hold."""
    return AddedConstraint(name, "Enumdist", query, Sense.AT_LEAST, fewest)
