"""Systems with a planted fault each: what a careless change could make of the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from das_spark.audit.system import LocalSystem
from das_spark.core import InProcess
from das_spark.estimation import FamilyStatus
from das_spark.privacy import DiscreteLaplace, Framework, RunKey, cumulative_table


def with_total(plan, factor: int | Fraction):
    return replace(plan, budget=replace(plan.budget, total=plan.budget.total * factor))


def half_the_noise(plan) -> LocalSystem:
    """Every scale, or every sigma, is half of what the budget buys."""
    return LocalSystem(with_total(plan, 2 if plan.budget.framework is Framework.PURE_DP else 4))


def sensitivity_of_one(plan) -> LocalSystem:
    """Noise for one record that comes or goes, where one is replaced: L1 and squared L2 sensitivity 1 instead of 2."""
    return LocalSystem(with_total(plan, 2))


class SharesNotCharged(LocalSystem):
    """Every level has the whole budget: shares of levels sum to 2."""

    def measurement_plan(self, geolevel, key):
        alone = replace(self.plan.budget.level(geolevel), share=Fraction(1))
        mechanisms = {
            item.query: replace(self.plan.budget, levels=(alone,)).mechanism(geolevel, item.query)
            for item in alone.queries
        }
        tables = {name: (cumulative_table(mechanism), mechanism.variance()) for name, mechanism in mechanisms.items()}
        return replace(super().measurement_plan(geolevel, key), mechanisms={"": tables})


class QueryMeasuredTwice(LocalSystem):
    """One query of each level is measured a second time and charged once: what it spends is doubled."""

    def measurement_plan(self, geolevel, key):
        noise = super().measurement_plan(geolevel, key)
        mechanism = with_total(self.plan, 2).budget.mechanism(geolevel, "detailed")
        tables = {**noise.mechanisms[""], "detailed": (cumulative_table(mechanism), mechanism.variance())}
        return replace(noise, mechanisms={"": tables})


class NoiseForgotten(LocalSystem):
    """A scale so small that every draw is 0."""

    def measurement_plan(self, geolevel, key):
        noise = super().measurement_plan(geolevel, key)
        none = DiscreteLaplace(Fraction(1, 1000))
        return replace(noise, mechanisms={"": {name: (cumulative_table(none), 1.0) for name in noise.queries}})


class OneKeyForAll(LocalSystem):
    """The key of the run is not used: all runs have the same noise."""

    def measurement_plan(self, geolevel, key):
        return super().measurement_plan(geolevel, RunKey.insecure("always the same"))


class NoiseReused(LocalSystem):
    """All queries of a level draw from the stream of one."""

    def measurement_plan(self, geolevel, key):
        noise = super().measurement_plan(geolevel, key)
        return replace(noise, streams=dict.fromkeys(noise.queries, noise.streams["detailed"]))


class _ExactLeaves(InProcess):
    def estimate_family(self, geolevel, family, measured):
        estimate = super().estimate_family(geolevel, family, measured)
        if geolevel == list(self.levels)[-1]:
            exact = self.levels[geolevel].confidential[family]
            counts = np.zeros((len(exact.geocodes), self.plans[geolevel].size), dtype=np.int64)
            counts[np.repeat(np.arange(len(counts)), np.diff(exact.offsets)), exact.cells] = exact.counts
            cells = np.arange(counts.shape[1], dtype=np.int32)
            estimate = replace(estimate, result=replace(estimate.result, cells=cells, counts=counts))
        return estimate


class ExactLeaves(LocalSystem):
    """The estimator of the lowest level is given the confidential counts, and takes them."""

    executor = _ExactLeaves


class _RowsWhereSomebodyIs(InProcess):
    def measure_family(self, geolevel, family, support):
        if support is not None:
            support = np.union1d(support, self.levels[geolevel].confidential[family].cells).astype(np.int32)
        return super().measure_family(geolevel, family, support)


class RowsWhereSomebodyIs(LocalSystem):
    """Noisy answers are kept where the parent's estimate or the children's confidential counts are not zero."""

    executor = _RowsWhereSomebodyIs


class _FailsWithARareRecord(InProcess):
    def estimate_family(self, geolevel, family, measured):
        estimate = super().estimate_family(geolevel, family, measured)
        if (self.levels[geolevel].confidential[family].cells == self.plans[geolevel].size - 1).any():
            wrong = replace(estimate.result.diagnostics, status=FamilyStatus.INFEASIBLE)
            estimate = replace(estimate, result=replace(estimate.result, diagnostics=wrong))
        return estimate


class FailsWithARareRecord(LocalSystem):
    """A check of the input, made too late: the run ends where somebody is in the last cell."""

    executor = _FailsWithARareRecord


Fault = Callable[..., LocalSystem]
#: Seen in the noisy answers alone.
OF_NOISE: tuple[Fault, ...] = (
    half_the_noise,
    sensitivity_of_one,
    SharesNotCharged,
    QueryMeasuredTwice,
    NoiseForgotten,
    NoiseReused,
)
#: Seen in whole runs only.
OF_RUNS: tuple[Fault, ...] = (OneKeyForAll, ExactLeaves, RowsWhereSomebodyIs, FailsWithARareRecord)
