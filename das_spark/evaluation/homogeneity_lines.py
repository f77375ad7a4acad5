"""Residuals of totals by homogeneity index: the bias of uniform and of diverse places.

Source: Petti and Flaxman (2020), figure 3. See :mod:`das_spark.evaluation.homogeneity` for the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from das_spark.evaluation.homogeneity import DEFINITIONS, Definition
from das_spark.evaluation.lines_json import frequencies_of_json, numbers_json, residuals_json
from das_spark.evaluation.metrics import Frequencies, figures, pooled
from das_spark.evaluation.tally import Comparison, Tally

#: What is told of the residuals of each index.
_FIGURES = ("n", "bias", "rmse", "median_absolute", "p95_absolute")


@dataclass(frozen=True, slots=True)
class HomogeneityLine:
    """Residuals of totals in one geolevel by the homogeneity index of the geounit.

    Attributes:
        place: The geolevel.
        definition: Which index.
        strata: Name of the query of stratified counts.
        cells: How many strata it has.
        parts: Index and residuals, ascending; an index that no geounit has is missing.
    """

    place: str
    definition: Definition
    strata: str
    cells: int
    parts: tuple[tuple[int, Frequencies], ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells lines apart."""
        return (self.place, self.definition, self.strata)

    def numbers(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        """Of every index how many geounits, the bias, and what is told of residuals elsewhere."""
        for index, residuals in self.parts:
            shown = figures(residuals)
            yield index, {name: getattr(shown, name) for name in _FIGURES}


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
    first = lines[0]
    return HomogeneityLine(first.place, first.definition, first.strata, first.cells, whole)


def homogeneity_json(line: HomogeneityLine) -> dict[str, Any]:
    """A line as JSON values, with its residuals, so that runs can be pooled later."""
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
    """The same, read again; figures are computed anew."""
    parts = tuple((part["index"], frequencies_of_json(part["residuals"], 0)) for part in content["by_index"])
    return HomogeneityLine(content["place"], content["definition"], content["strata"], content["cells"], parts)
