"""The lines by query and by population as JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from das_spark.evaluation.bins import BINS
from das_spark.evaluation.lines import Criterion, CriterionPart, ErrorPart, QueryErrors
from das_spark.evaluation.metrics import Frequencies


def number_json(value: float) -> float | None:
    """JSON knows no NaN.

    Args:
        value: A number, or NaN.

    Returns:
        The number, or None for NaN.
    """
    return None if value != value else value  # noqa: PLR0124 - NaN


def numbers_json(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name, without NaN.

    Args:
        numbers: Numbers by name, some of them perhaps NaN.

    Returns:
        The same, with None for NaN.
    """
    return {name: number_json(value) for name, value in numbers.items()}


def residuals_json(frequencies: Frequencies) -> dict[str, list[int]]:
    """How often each residual occurs.

    Args:
        frequencies: Of the residuals, people.

    Returns:
        Distinct residuals (`values`) and how often each occurs (`counts`).
    """
    return {"values": frequencies.values.tolist(), "counts": frequencies.counts.tolist()}


def frequencies_of_json(content: Mapping[str, Any], double_zero: int) -> Frequencies:
    """The same, read again.

    Args:
        content: Result of `residuals_json`.
        double_zero: Counts that are zero in both histograms, which it does not hold.
    """
    values, counts = (np.array(content[name], dtype=np.int64) for name in ("values", "counts"))
    return Frequencies(values, counts, double_zero)


def errors_json(line: QueryErrors) -> dict[str, Any]:
    """The errors of a query with their figures; residuals by class, so that runs can be pooled later.

    Args:
        line: Errors of one query in one geolevel.
    """
    return {
        "place": line.place,
        "query": line.query,
        "answers": line.answers,
        "bins": line.bins.name,
        "figures": _figures(line.whole),
        "by_population": [
            {
                "population": line.bins.label(part.bin),
                "bin": part.bin,
                "figures": _figures(part),
                "residuals": residuals_json(part.frequencies),
            }
            for part in line.parts
        ],
    }


def errors_of_json(content: Mapping[str, Any]) -> QueryErrors:
    """The same, read again; figures are computed anew.

    Args:
        content: Result of `errors_json`.
    """
    parts = []
    for part in content["by_population"]:
        shown = part["figures"]
        frequencies = frequencies_of_json(part["residuals"], shown["double_zero"])
        parts.append(ErrorPart(part["bin"], shown["geounits"], shown["counted"], frequencies))
    bins = BINS[content["bins"]]
    return QueryErrors(content["place"], content["query"], content["answers"], bins, tuple(parts))


def criterion_json(line: Criterion) -> dict[str, Any]:
    """A criterion with its figures and the sums that they are made of.

    Args:
        line: Of one geolevel.
    """
    return {
        "place": line.place,
        "criterion": line.name,
        "query": line.query,
        "bins": line.bins.name,
        "figures": [{"population": label} | numbers_json(part.numbers()) for label, part in line.rows()],
        "sums": [asdict(part) for part in line.parts],
    }


def criterion_of_json(content: Mapping[str, Any]) -> Criterion:
    """The same, read again; figures are computed anew.

    Args:
        content: Result of `criterion_json`.
    """
    parts = tuple(CriterionPart(**part) for part in content["sums"])
    return Criterion(content["place"], content["criterion"], content["query"], BINS[content["bins"]], parts)


def _figures(part: ErrorPart) -> dict[str, Any]:
    return numbers_json(part.numbers()) | {name: list(values) for name, values in part.lists().items()}
