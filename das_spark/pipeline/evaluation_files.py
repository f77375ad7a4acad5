"""What an evaluation leaves: JSON, CSV and one page, for their owner alone. RESTRICTED."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das_spark.evaluation import (
    AccuracyReport,
    ErrorMap,
    RunComparison,
    Study,
    present_accuracy,
    present_comparison,
    spread,
)
from das_spark.report import csv_files, page, table_records
from das_spark.report.data import data_files
from das_spark.store import write_texts


def write_accuracy(
    reports: Sequence[AccuracyReport],
    study: Study,
    folder: Path,
    error_map: ErrorMap | None = None,
    data: Path | None = None,
) -> tuple[str, ...]:
    """Write what one configuration is like, over one run or several.

    Args:
        reports: One a run.
        study: Of the same runs.
        folder: Made, for its owner alone, where it is not there yet; so are the files.
        error_map: Errors of geounits in their places; None for a page without a map.
        data: Where every table and figure of the page goes as CSV and Parquet; None for nowhere.

    Returns:
        Names of the files: `accuracy.json` and `accuracy.html`; `statistics.restricted.csv`;
        `homogeneity.restricted.csv`, where there are strata; and, where samples were drawn, `samples.json` and
        `closest_samples.restricted.csv`.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    found = present_accuracy(study.report, spread(reports) if len(reports) > 1 else (), study, error_map)
    more = table_records(found.tables("json"))
    texts = {"accuracy.json": study.report.to_json(more), "accuracy.html": page(found), **csv_files(found)}
    if data is not None:
        write_texts(data, data_files(found), restricted=True)
    if study.samples is not None:
        texts["samples.json"] = study.samples.to_json()
    return write_texts(folder, texts, restricted=True)


def write_comparison(comparison: RunComparison, folder: Path, data: Path | None = None) -> tuple[str, ...]:
    """Write how two configurations differ.

    Args:
        comparison: Of their runs.
        folder: Made, for its owner alone, where it is not there yet; so are the files.
        data: Where every table and figure of the page goes as CSV and Parquet; None for nowhere.

    Returns:
        Names of the files: `comparison.json`, `comparison.restricted.csv` and `comparison.html`.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    found = present_comparison(comparison)
    texts = {"comparison.json": comparison.to_json(), "comparison.html": page(found), **csv_files(found)}
    if data is not None:
        write_texts(data, data_files(found), restricted=True)
    return write_texts(folder, texts, restricted=True)
