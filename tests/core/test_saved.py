"""A family that is saved comes back as an estimator received it, and is solved again as it was in the run."""

from __future__ import annotations

import io
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from das_spark.audit import SmallPopulation
from das_spark.audit.system import LocalSystem
from das_spark.config import level_plan, plan_of
from das_spark.core import ESTIMATORS, InProcess, MeasuredFamily, read_family, saved_family
from das_spark.estimation import FamilyGroups
from das_spark.privacy import RunKey

LEVELS = ("National", "State", "Enumdist")
DISTRICTS = tuple(f"{state}0010{district:04d}" for state in ("01", "02") for district in (1, 2, 3))


def population() -> SmallPopulation:
    """Households and one kind of group quarters, in two states of three districts."""
    numbers = np.random.default_rng(3)
    counts = np.zeros((len(DISTRICTS), 8, 24), dtype=np.int64)
    counts[:, 0, ::5] = numbers.integers(0, 30, (len(DISTRICTS), 5))
    counts[::2, 3, 1] = 40
    units = np.zeros((len(DISTRICTS), 8), dtype=np.int64)
    units[:, 0], units[::2, 3] = counts[:, 0].sum(axis=1) // 4, 2
    return SmallPopulation(DISTRICTS, counts.reshape(len(DISTRICTS), -1), units)


class Watching(InProcess):
    """Keeps what the estimator is given."""

    def estimate_family(self, geolevel, family, measured):
        found = super().estimate_family(geolevel, family, measured)
        self.given = [*getattr(self, "given", ()), (geolevel, measured, found)]
        return found


class WatchedSystem(LocalSystem):
    executor = Watching


@pytest.fixture(scope="module", params=ESTIMATORS)
def run(request):
    """A plan, and every family of a run with its estimate."""
    tables = {
        "config_version": 1,
        "run": {"product": "e2e_1940"},
        "input": {"reader": "tidy_counts", "path": "population"},
        "budget": {"strategy": "e2e_1940", "epsilon": "2", "geolevels": dict.fromkeys(LEVELS, "1/3")},
        "geography": {"levels": list(LEVELS)},
        "estimation": {"estimator": request.param},
    }
    plan = plan_of(tables, "test", files=False)
    system = WatchedSystem(plan)
    ran = system.run(system.ingest(population()), RunKey.insecure("saved"))
    assert ran.failed == ()
    return plan, ran.given


def same(first, second) -> bool:
    """Whether two values hold the same numbers, to the last bit."""
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if is_dataclass(first):
        return all(same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first))
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return sorted(first) == sorted(second) and all(same(first[name], second[name]) for name in first)
    return first == second


def test_every_family_of_a_run_comes_back_and_is_estimated_alike(run):
    plan, given = run
    assert {level for level, _, _ in given} == set(LEVELS)
    for level, family, estimate in given:
        of_level = level_plan(plan, level)
        again = read_family(saved_family(family), of_level)
        assert same(again, family)
        (solved,) = of_level.estimator.estimate([again], of_level.family)
        assert same(solved.result, estimate.result)
    assert any(family.problem.flows is not None for _, family, _ in given)


def test_what_lies_below_is_saved_where_levels_are_estimated_together(run):
    plan, given = run
    for level, family, _ in given:
        kept = list(np.load(io.BytesIO(saved_family(family))))
        together = plan.estimation.estimator == "blue_down" and level != LEVELS[-1]
        assert any(name.startswith("upward 0 ") for name in kept) == together


def test_groups_and_what_came_with_the_parent_are_saved_too(run):
    plan, given = run
    level, family, _ = next(each for each in given if len(each[1].problem.children) == 3)
    groups = FamilyGroups(("a", "b", "b"), np.array([-1, 70, 70]))
    more = MeasuredFamily(replace(family.problem, groups=groups), family.upward, {"standard error": np.array([1.5])})
    assert same(read_family(saved_family(more), level_plan(plan, level)), more)
