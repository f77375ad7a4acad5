"""What an evaluation leaves: JSON, CSV and one page, for their owner alone. RESTRICTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das_spark.evaluation import (
    AccuracyReport,
    ErrorMap,
    RunComparison,
    Study,
    present_accuracy,
    present_comparison,
    spread,
)
from das_spark.places import Place
from das_spark.report import Report, csv_files, page, table_records
from das_spark.report.data import data_files
from das_spark.store import write_texts


def write_accuracy(
    reports: Sequence[AccuracyReport],
    study: Study,
    folder: Place,
    error_map: ErrorMap | None = None,
    data: Place | None = None,
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
    content = study.report.to_json(table_records(found.tables("json")))
    samples = {} if study.samples is None else {"samples.json": study.samples.to_json()}
    return write_report("accuracy", found, content, folder, data, samples)


def write_comparison(comparison: RunComparison, folder: Place, data: Place | None = None) -> tuple[str, ...]:
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
    return write_report("comparison", present_comparison(comparison), comparison.to_json(), folder, data)


def write_report(
    name: str, report: Report, content: str, folder: Place, data: Place | None, more: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Write a restricted report as JSON, page and CSV files.

    Args:
        name: Of the JSON file and of the page.
        report: What people read.
        content: What the JSON file holds.
        folder: Made, for its owner alone, where it is not there yet; so are the files.
        data: Where every table and figure of the page goes as CSV and Parquet; None for nowhere.
        more: Further files by their names.

    Returns:
        Names of the files in the folder.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    if data is not None:
        write_texts(data, data_files(report), restricted=True)
    texts = {f"{name}.json": content, f"{name}.html": page(report), **csv_files(report), **(more or {})}
    return write_texts(folder, texts, restricted=True)
