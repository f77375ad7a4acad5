"""Reconstruction by tasks against the same in memory, geounit by geounit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from quickstart_run import SEED, SHARE, findings, quickstart_run

from das_spark.attack.settings import AttackSettings
from das_spark.errors import InputError
from das_spark.products import product
from das_spark.spark.finished_runs import Pair
from das_spark.spark.reconstruct import reconstruct

pytestmark = pytest.mark.spark
SETTINGS = AttackSettings(swapped=SHARE, seed=SEED)


@dataclass(frozen=True)
class Run:
    """What is asked of a finished run."""

    plan: Any
    folder: Path = Path("quickstart")

    @property
    def manifest(self):
        return SimpleNamespace(run_id="quickstart")

    @property
    def product(self):
        return self.plan.product

    @property
    def spine(self):
        return self.plan.spine

    @property
    def census(self):
        return self.product.census(self.spine)


@pytest.fixture(scope="module")
def made():
    return quickstart_run("2")


@pytest.fixture(scope="module")
def pairs(spark, made):
    def frame(histograms):
        columns = {
            "geocode": pa.array(list(histograms)),
            "cells": pa.array([histogram.cells for histogram in histograms.values()], pa.list_(pa.int32())),
            "counts": pa.array([histogram.counts for histogram in histograms.values()], pa.list_(pa.int64())),
        }
        return spark.createDataFrame(pa.table(columns)).repartition(3)

    return [Pair(level, frame(made.truth[level]), frame(made.estimates[level])) for level in made.plan.spine.names]


def test_all_blocks_as_in_memory(made, pairs):
    found = reconstruct(Run(made.plan), pairs, SETTINGS)
    assert found == findings(made)


def test_a_sample_is_the_same_for_any_partitions_and_another_one_for_another_seed(made, pairs):
    few = replace(SETTINGS, blocks=20)
    first = reconstruct(Run(made.plan), pairs, few)
    assert sum(first.about.taken) == 20
    assert max(first.about.taken) == 5
    assert first.about.geounits == findings(made).about.geounits
    others = [Pair(*(each if isinstance(each, str) else each.repartition(7) for each in pair)) for pair in pairs]
    assert repr(reconstruct(Run(made.plan), others, few)) == repr(first)  # what is not known is not equal to itself
    assert reconstruct(Run(made.plan), pairs, replace(few, seed=6)).rates != first.rates
    assert all(rate.geounits == 20 for rate in first.rates if rate.size == "all")


def test_what_cannot_be_attacked_is_refused(made, pairs):
    with pytest.raises(InputError, match="one geolevel"):
        reconstruct(Run(made.plan), pairs[-1:], SETTINGS)
    nobody = [*pairs[:-1], pairs[-1]._replace(truth=pairs[-1].truth.where("false"))]
    with pytest.raises(InputError, match="nothing to reconstruct"):
        reconstruct(Run(made.plan), nobody, SETTINGS)
    without = replace(made.plan, product=replace(product("e2e_2018"), tables=()))
    with pytest.raises(InputError, match="publishes no table"):
        reconstruct(Run(without), pairs, SETTINGS)
