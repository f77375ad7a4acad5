"""Systems with a planted fault each: what a careless change could make of the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from das_spark.pipeline.audit import LocalSystem
from das_spark.privacy import DiscreteLaplace, Framework, RunKey, cumulative_table
from das_spark.spark.families import HISTOGRAM, PARENT


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

    def measurement_task(self, geolevel, key):
        alone = replace(self.plan.budget.level(geolevel), share=Fraction(1))
        laws = {
            item.query: replace(self.plan.budget, levels=(alone,)).mechanism(geolevel, item.query)
            for item in alone.queries
        }
        tables = {name: (cumulative_table(law), law.variance()) for name, law in laws.items()}
        return replace(super().measurement_task(geolevel, key), mechanisms={"": tables})


class QueryMeasuredTwice(LocalSystem):
    """One query of each level is measured a second time and charged once: what it spends is doubled."""

    def measurement_task(self, geolevel, key):
        task = super().measurement_task(geolevel, key)
        law = with_total(self.plan, 2).budget.mechanism(geolevel, "detailed")
        tables = {**task.mechanisms[""], "detailed": (cumulative_table(law), law.variance())}
        return replace(task, mechanisms={"": tables})


class NoiseForgotten(LocalSystem):
    """A scale so small that every draw is 0."""

    def measurement_task(self, geolevel, key):
        task = super().measurement_task(geolevel, key)
        none = DiscreteLaplace(Fraction(1, 1000))
        return replace(task, mechanisms={"": {name: (cumulative_table(none), 1.0) for name in task.queries}})


class OneKeyForAll(LocalSystem):
    """The key of the run is not used: all runs have the same noise."""

    def measurement_task(self, geolevel, key):
        return super().measurement_task(geolevel, RunKey.insecure("always the same"))


class NoiseReused(LocalSystem):
    """All queries of a level draw from the stream of one."""

    def measurement_task(self, geolevel, key):
        task = super().measurement_task(geolevel, key)
        return replace(task, streams=dict.fromkeys(task.queries, task.streams["detailed"]))


class ExactLeaves(LocalSystem):
    """The estimator of the lowest level is given the confidential counts, and takes them."""

    def __init__(self, plan):
        super().__init__(plan)
        self.leaked = {}

    def measure(self, task, geolevel, family):
        self.leaked[geolevel, family.geocode] = family.get(HISTOGRAM)
        return super().measure(task, geolevel, family)

    def estimate(self, geolevel, family):
        estimated, found = super().estimate(geolevel, family)
        if geolevel == self.plan.spine.leaf.name:
            exact = self.leaked[geolevel, family.geocode]
            columns = {name: estimated.column(name) for name in estimated.schema.names}
            columns["cells"] = pa.ListArray.from_arrays(
                exact.integer_offsets.astype(np.int32), pa.array(exact.integers)
            )
            columns["counts"] = pa.ListArray.from_arrays(exact.long_offsets.astype(np.int32), pa.array(exact.longs))
            estimated = pa.RecordBatch.from_pydict(columns)
        return [estimated, found]


class RowsWhereSomebodyIs(LocalSystem):
    """Noisy answers are kept where the parent's estimate or the children's confidential counts are not zero."""

    def measure(self, task, geolevel, family):
        parent, children = family.get(PARENT), family.get(HISTOGRAM)
        if parent is not None:
            support = np.unique(np.concatenate([parent.integers, children.integers])).astype(np.int32)
            wider = {**family.slices, (PARENT, ""): replace(parent, integers=support)}
            family = replace(family, slices=wider)
        return super().measure(task, geolevel, family)


class FailsWithARareRecord(LocalSystem):
    """A check of the input, made too late: the run ends where somebody is in the last cell."""

    def measure(self, task, geolevel, family):
        self.rare = bool((family.get(HISTOGRAM).integers == task.size - 1).any())
        return super().measure(task, geolevel, family)

    def estimate(self, geolevel, family):
        estimated, found = super().estimate(geolevel, family)
        if self.rare:
            row = {**found.column("diagnostics")[0].as_py(), "status": "infeasible"}
            columns = {name: found.column(name) for name in found.schema.names}
            columns["diagnostics"] = pa.array([row], found.schema.field("diagnostics").type)
            found = pa.RecordBatch.from_pydict(columns)
        return [estimated, found]


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
