"""Attacks on finished runs: what somebody could learn of a person from what they publish. RESTRICTED."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from das_spark.attack import (
    ATTACKS,
    INFERENCE,
    LINKAGE,
    RECONSTRUCTION,
    AttackReport,
    AttackSettings,
    LinkedAttributes,
    infer,
    present_attacks,
)
from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import demographic_groups
from das_spark.pipeline.accuracy import facts_of_finished, pairs
from das_spark.pipeline.memory import runs_fit
from das_spark.report import csv_files, page
from das_spark.report.data import data_files
from das_spark.spark.finished_runs import FinishedRun, require_truths
from das_spark.spark.link import link_run
from das_spark.spark.reconstruct import reconstruct
from das_spark.spark.session import session
from das_spark.store import write_texts

INSECURE: Final = "INSECURE: the run was made under a test key, and protects nobody."


def attack_run(
    folder: Path,
    settings: AttackSettings,
    *,
    attacks: Sequence[str] = tuple(ATTACKS),
    truth: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> AttackReport:
    """Attack a finished run, and compare what comes out with the confidential records. RESTRICTED.

    Args:
        folder: The run, which still holds its restricted root, or any where `truth` is given.
        settings: How.
        attacks: Which, keys of `ATTACKS`.
        truth: A run whose confidential histograms are taken.
        progress: Is given a line at a time.

    Raises:
        ConfigurationError: An attack is unknown, or cannot be made on this product by its settings.
        InputError: The truth is of other geography.
        OutputError: The folder is no run, or its confidential histograms were removed.
    """
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown or not attacks:
        raise ConfigurationError(f"no attack is called {', '.join(unknown)}", hint=f"choose among {', '.join(ATTACKS)}")
    began = time.monotonic()
    run = FinishedRun.at(folder)
    require_truths([run], truth)
    levels = pairs(session("das_spark attack", small=runs_fit(folder)), run, truth)
    report = AttackReport(
        run.manifest.run_id, run.product.name, facts_of_finished(run), notices=(INSECURE,) if run.is_insecure else ()
    )

    def done(name: str) -> None:
        progress(f"{name}: {time.monotonic() - began:.1f} s")

    left_out = {}
    if RECONSTRUCTION in attacks:
        try:
            report = replace(report, reconstruction=reconstruct(run, levels, settings))
            done(RECONSTRUCTION)
        except InputError as error:  # no tables there, or one geolevel
            left_out[RECONSTRUCTION] = error.message
    if LINKAGE in attacks:
        attributes = _attributes(run, settings)
        if attributes is None:
            left_out[LINKAGE] = f"{run.product.counted} have neither origin nor race to be learned; name what: --learn"
        else:
            report = replace(report, linkage=link_run(run, levels, attributes, settings))
            done(LINKAGE)
    if INFERENCE in attacks:
        try:
            report = replace(report, inference=infer(run.plan, settings))
            done(INFERENCE)
        except ConfigurationError as error:  # of what is measured nothing exact is known
            left_out[INFERENCE] = error.message
    return replace(report, left_out=left_out, seconds=time.monotonic() - began)


def _attributes(run: FinishedRun, settings: AttackSettings) -> LinkedAttributes | None:
    """What is known and learned; None where nothing is said and the product has nothing that is usually learned."""
    schema = run.product.schema
    if not settings.learned and demographic_groups(schema) is None:
        return None
    return LinkedAttributes.of(schema, settings.known, settings.learned)


def write_attacks(report: AttackReport, folder: Path, data: Path | None = None) -> tuple[str, ...]:
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
    found = present_attacks(report)
    if data is not None:
        write_texts(data, data_files(found), restricted=True)
    texts = {"attack.json": report.to_json(), "attack.html": page(found), **csv_files(found)}
    return write_texts(folder, texts, restricted=True)
