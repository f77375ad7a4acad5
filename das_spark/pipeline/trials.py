"""Trials of what a stage will need, and those that several kinds of stages make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from das_spark.pipeline.rehearsal import synthetic_family
from das_spark.spark.readers import geography_reader

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.config import RunPlan
    from das_spark.store import RunLayout


@dataclass(frozen=True, slots=True)
class Ahead:
    """A run that is still to come."""

    plan: RunPlan  # what it will do
    layout: RunLayout  # where it will lie
    scratch: Path  # a folder for what is tried, removed afterwards
    files: bool  # whether the files that the plan names are on this machine


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that a stage will need."""

    setting: str  # key of the run file that asks for it; empty where the error names it
    work: Callable[[], object]  # tries it; raises what is wrong
    fix: str = ""  # what to do where the error does not say
    reads: bool = False  # whether it reads files of the run, of which no text of a library's error may be shown


def product_fix(plan: RunPlan) -> str:
    """Say what to do where a product cannot be what a stage needs."""
    return f"correct product {plan.product.name!r}"


def bounds_trial(plan: RunPlan) -> Trial:
    """Try the bounds, structural zeros and added constraints by which families are posed."""
    return Trial("run.product", partial(synthetic_family, plan, plan.spine.leaf.name), product_fix(plan))


def geography_trials(ahead: Ahead) -> Iterator[Trial]:
    """Look at the geographic files that the run names."""
    settings = ahead.plan.geography
    if ahead.files and settings.reader is not None and settings.path is not None:
        reader = geography_reader(settings.reader)
        yield Trial("geography.path", partial(reader.look, settings.path), reads=True)
