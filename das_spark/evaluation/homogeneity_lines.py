"""Residuals of totals by homogeneity index: the bias of uniform and of diverse places.

Source: Petti and Flaxman (2020), figure 3. See :mod:`das_spark.evaluation.homogeneity` for the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from das_spark.evaluation.homogeneity import DEFINITIONS, Definition
from das_spark.evaluation.lines_json import frequencies_of_json, numbers_json, residuals_json
from das_spark.evaluation.metrics import Frequencies, figures, pooled
from das_spark.evaluation.tally import Comparison, Tally
from das_spark.evaluation.uncertainty import LEVEL, Interval, interval_of_mean, over_runs

#: What is told of the residuals of each index, beside the bias and its intervals.
_FIGURES = ("rmse", "median_absolute", "p95_absolute")


@dataclass(frozen=True, slots=True)
class HomogeneityLine:
    """Residuals of totals in one geolevel by the homogeneity index of the geounit.

    Attributes:
        place: The geolevel.
        definition: Which index.
        strata: Name of the query of stratified counts.
        cells: How many strata it has.
        parts: Index and residuals, ascending; an index that no geounit has is missing.
        of_runs: Where runs are pooled: index and the bias of each run, people, of indices that every run has.
    """

    place: str
    definition: Definition
    strata: str
    cells: int
    parts: tuple[tuple[int, Frequencies], ...]
    of_runs: tuple[tuple[int, tuple[float, ...]], ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells lines apart."""
        return (self.place, self.definition, self.strata)

    def numbers(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        """Of every index how many residuals, the bias in people, and what is told of residuals elsewhere.

        `low` and `high` are the ends of the 95 % interval of the bias over residuals (Student's t, as if they were
        independent), NaN for a single one; `low_over_runs` and `high_over_runs` those over the biases of the runs, NaN
        for a single run.
        """
        biases = dict(self.of_runs)
        for index, residuals in self.parts:
            shown, runs = figures(residuals), biases.get(index, ())
            low, high = _ends(interval_of_mean(residuals.values, residuals.counts, LEVEL))
            found = {"n": shown.n, "bias": shown.bias, "low": low, "high": high}
            found["low_over_runs"], found["high_over_runs"] = _ends(over_runs(runs, LEVEL) if len(runs) > 1 else None)
            yield index, found | {name: getattr(shown, name) for name in _FIGURES}


def homogeneity_lines_of(place: str, comparison: Comparison, summed: Tally) -> list[HomogeneityLine]:
    """The lines of a geolevel, one a definition of the index; none where the comparison has no strata.

    Args:
        place: The geolevel.
        comparison: What was compared.
        summed: Tallies of all geounits; each line, index and residual once, residuals ascending in an index.
    """
    found = []
    for at, line in enumerate(comparison.lines()):
        if line.subject in DEFINITIONS:
            strata, rows = comparison.queries[line.query], summed.of(at)
            parts = [
                (int(index), Frequencies(rows.value[rows.bin == index], rows.frequency[rows.bin == index]))
                for index in np.unique(rows.bin)
            ]
            found.append(HomogeneityLine(place, line.subject, strata.name, strata.rows, tuple(parts)))
    return found


def pooled_homogeneity(lines: Sequence[HomogeneityLine]) -> HomogeneityLine:
    """One line of several runs together.

    Args:
        lines: Of one key, at least one.
    """
    parts: dict[int, list[Frequencies]] = {}
    for line in lines:
        for index, residuals in line.parts:
            parts.setdefault(index, []).append(residuals)
    whole = tuple((index, pooled(parts[index])) for index in sorted(parts))
    biases = tuple(
        (index, tuple(figures(each).bias for each in parts[index]))
        for index in sorted(parts)
        if len(parts[index]) == len(lines) > 1
    )
    first = lines[0]
    return HomogeneityLine(first.place, first.definition, first.strata, first.cells, whole, biases)


def _ends(interval: Interval | None) -> tuple[float, float]:
    return (nan, nan) if interval is None else (interval.low, interval.high)


def homogeneity_json(line: HomogeneityLine) -> dict[str, Any]:
    """A line as JSON values, with its residuals, so that runs can be pooled later.

    Args:
        line: Of one run, or of several pooled.
    """
    parts = [
        {"index": index, "figures": numbers_json(numbers), "residuals": residuals_json(residuals)}
        for (index, numbers), (_, residuals) in zip(line.numbers(), line.parts, strict=True)
    ]
    return {
        "place": line.place,
        "definition": line.definition,
        "strata": line.strata,
        "cells": line.cells,
        "by_index": parts,
    }


def homogeneity_of_json(content: Mapping[str, Any]) -> HomogeneityLine:
    """The same, read again; figures are computed anew, but those over runs: residuals are kept of all runs together.

    Args:
        content: Result of `homogeneity_json`.
    """
    parts = tuple((part["index"], frequencies_of_json(part["residuals"], 0)) for part in content["by_index"])
    return HomogeneityLine(content["place"], content["definition"], content["strata"], content["cells"], parts)
