"""What an evaluation leaves: JSON, CSV and one page, for their owner alone. RESTRICTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from das_spark.evaluation import AccuracyReport, RunComparison, Study, accuracy_page, comparison_page, spread
from das_spark.evaluation.closest import closest_csv
from das_spark.evaluation.homogeneity_lines import homogeneity_csv
from das_spark.evaluation.statistics import statistics_csv
from das_spark.store import disk_errors, write_durably


def write_accuracy(reports: Sequence[AccuracyReport], study: Study, folder: Path) -> tuple[str, ...]:
    """Write what one configuration is like, over one run or several.

    Args:
        reports: One a run.
        study: Of the same runs.
        folder: Made, for its owner alone, where it is not there yet; so are the files.

    Returns:
        Names of the files: `accuracy.json` and `accuracy.html`; `statistics.restricted.csv`;
        `homogeneity.restricted.csv`, where there are strata; and, where samples were drawn, `samples.json` and
        `closest_samples.restricted.csv`.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    spreads = spread(reports) if len(reports) > 1 else ()
    texts = {
        "accuracy.json": study.report.to_json(spreads, study.as_json()),
        "accuracy.html": accuracy_page(study.report, spreads, study),
        "statistics.restricted.csv": statistics_csv(study.statistics),
    }
    if study.report.homogeneity:
        texts["homogeneity.restricted.csv"] = homogeneity_csv(study.report.homogeneity, study.report.counted)
    if study.samples is not None:
        texts |= {"samples.json": study.samples.to_json(), "closest_samples.restricted.csv": closest_csv(study.closest)}
    return write_restricted(folder, texts)


def write_comparison(comparison: RunComparison, folder: Path) -> tuple[str, ...]:
    """Write how two configurations differ.

    Args:
        comparison: Of their runs.
        folder: Made, for its owner alone, where it is not there yet; so are the files.

    Returns:
        Names of the files: `comparison.json`, `comparison.restricted.csv` and `comparison.html`.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    texts = {
        "comparison.json": comparison.to_json(),
        "comparison.restricted.csv": comparison.to_csv(),
        "comparison.html": comparison_page(comparison),
    }
    return write_restricted(folder, texts)


def write_restricted(folder: Path, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Write files that only their owner may read.

    Args:
        folder: Made with mode 0700 where it is not there yet.
        texts: Contents by name.

    Returns:
        The names.

    Raises:
        OutputError: The disk is full, or the folder cannot be made or written.
    """
    with disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in texts.items():
        write_durably(folder / name, text, mode=0o600)
    return tuple(texts)
