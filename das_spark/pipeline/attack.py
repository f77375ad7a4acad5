"""Attacks on finished runs: what somebody could learn of a person from what they publish. RESTRICTED."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from das_spark.attack import (
    ATTACKS,
    DIFFERENCING,
    AttackReport,
    AttackSettings,
    LinkedAttributes,
    difference,
    infer,
    present_attacks,
)
from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import demographic_groups
from das_spark.pipeline.accuracy import facts_of_finished, pairs
from das_spark.pipeline.evaluation_files import write_report
from das_spark.places import Place
from das_spark.spark.differences import total_errors
from das_spark.spark.finished_runs import FinishedRun, require_truths
from das_spark.spark.link import link_run
from das_spark.spark.reconstruct import reconstruct
from das_spark.spark.residuals import residuals_of
from das_spark.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.attack import DifferencingFindings, InferenceFindings, LinkageFindings
    from das_spark.attack.reconstruction_report import ReconstructionFindings
    from das_spark.spark.finished_runs import Pair

INSECURE: Final = "INSECURE: the run was made under a test key, and protects nobody."


def attack_run(
    folder: Place,
    settings: AttackSettings,
    *,
    attacks: Sequence[str] = (),
    second: Place | None = None,
    truth: Place | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> AttackReport:
    """Attack a finished run, and compare what comes out with the confidential records. RESTRICTED.

    Args:
        folder: The run, which still holds its restricted root, or any where `truth` is given.
        settings: How.
        attacks: Which, keys of `ATTACKS`; all that are possible where none is named.
        second: Another run on the same dataset, for differencing.
        truth: A run whose confidential histograms are taken.
        progress: Is given a line at a time.

    Raises:
        ConfigurationError: An attack is unknown, or cannot be made on this product by its settings.
        InputError: The truth is of other geography.
        OutputError: The folder is no run, or its confidential histograms were removed.
    """
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown:
        raise ConfigurationError(f"no attack is called {', '.join(unknown)}", hint=f"choose among {', '.join(ATTACKS)}")
    if DIFFERENCING in attacks and second is None:
        raise ConfigurationError("differencing takes two runs", hint="name another one on the dataset: --with RUN")
    began = time.monotonic()
    run = FinishedRun.at(folder)
    other = None if second is None else FinishedRun.at(second)
    require_truths([run, *([] if other is None else [other])], truth)
    spark = session("das_spark attack")
    attacked = _Attacked(run, other, truth, settings, spark, pairs(spark, run, truth))
    found: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name in attacks or (attack for attack in ATTACKS if attack != DIFFERENCING or other is not None):
        result = getattr(attacked, name)()
        (left_out if isinstance(result, str) else found)[name] = result
        progress(f"{name}: {time.monotonic() - began:.1f} s")
    return AttackReport(
        run.manifest.run_id,
        run.product.name,
        facts_of_finished(run),
        **found,
        left_out=left_out,
        notices=(INSECURE,) if run.is_insecure else (),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, slots=True)
class _Attacked:
    """A run that is attacked; a method by the name of each attack, which gives its findings, or says why not."""

    run: FinishedRun
    other: FinishedRun | None
    truth: Place | None
    settings: AttackSettings
    spark: SparkSession
    levels: Sequence[Pair]

    def reconstruction(self) -> ReconstructionFindings | str:
        try:
            return reconstruct(self.run, self.levels, self.settings)
        except InputError as error:  # no tables at the lowest geolevel, or nothing above it
            return error.message

    def linkage(self) -> LinkageFindings | str:
        schema, settings = self.run.product.schema, self.settings
        if not settings.learned and demographic_groups(schema) is None:
            return f"{self.run.product.counted} have neither origin nor race to be learned; name what: --learn QUERY"
        attributes = LinkedAttributes.of(schema, settings.known, settings.learned)
        return link_run(self.run, self.levels, attributes, settings)

    def inference(self) -> InferenceFindings | str:
        noise = residuals_of(self.spark, self.run, self.truth)
        try:
            return infer(self.run.plan, self.settings, noise=noise)
        except ConfigurationError as error:  # of such a composition nothing exact is known
            return error.message

    def differencing(self) -> DifferencingFindings | str:
        run, other = self.run, self.other
        if other is None:
            return "there is no second run"
        if run.plan.origin is not None or other.plan.origin is not None:
            return "a run that was estimated from measurements of another one has drawn no noise of its own"
        totals = total_errors(self.spark, run, other, self.truth)
        names = (run.manifest.run_id, other.manifest.run_id)
        try:
            return difference([run.plan, other.plan], names, self.settings, totals=totals)
        except ConfigurationError as error:
            return error.message


def write_attacks(report: AttackReport, folder: Place, data: Place | None = None) -> tuple[str, ...]:
    """Write what attacks found.

    Args:
        report: Of one run.
        folder: Made, for its owner alone, where it is not there yet; so are the files.
        data: Where every table and figure of the page goes as CSV and Parquet; None for nowhere.

    Returns:
        Names of the files: `attack.json`, `attack.html`, and a CSV file a table.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    return write_report("attack", present_attacks(report), report.to_json(), folder, data)
