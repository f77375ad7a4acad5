"""The accuracy report as data: errors of totals and strata, of every query by population, and two criteria.

All lines are kept with the integers that their figures are computed from, so that runs can be pooled at any time.

RESTRICTED: residuals tell the confidential counts. A report is written under the restricted root only and spends no
budget, since it is not published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from das_spark.errors import InputError
from das_spark.evaluation.bins import FIFTIES
from das_spark.evaluation.definitions import RESTRICTED, TOTAL, definitions
from das_spark.evaluation.homogeneity_lines import HomogeneityLine, homogeneity_json, homogeneity_of_json
from das_spark.evaluation.lines import Criterion, CriterionName, QueryErrors
from das_spark.evaluation.lines_json import (
    criterion_json,
    criterion_of_json,
    errors_json,
    errors_of_json,
    frequencies_of_json,
    numbers_json,
    residuals_json,
)
from das_spark.evaluation.metrics import FIGURES, ErrorFigures, Frequencies, figures

#: Version 2 added queries and criteria, version 3 lines by homogeneity index; older ones are still read.
SCHEMA_VERSION = 3
_READ = (1, 2, SCHEMA_VERSION)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line on a whole geolevel or kind of area.

    Attributes:
        place: A geolevel, or the name of a kind of area such as `precinct`.
        measure: `total`, or the query of the strata.
        frequencies: How often each residual occurs.
    """

    place: str
    measure: str
    frequencies: Frequencies

    @property
    def figures(self) -> ErrorFigures:
        """The error figures."""
        return figures(self.frequencies)


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """Accuracy of one run, or of several pooled.

    Attributes:
        product: Name of the product.
        runs: Names of the runs.
        entries: Totals and strata in the order of the spine, then of areas.
        notes: Sentences that a reader must know, such as how many leaf geounits lie in no area.
        errors: Errors by query and population, in the order of the spine.
        criteria: Shares of the largest group and relative errors of totals, by population.
        groups: Name of the query whose largest group is shown first; empty where there is none.
        counted: What is counted, in the plural.
        homogeneity: Residuals of totals by homogeneity index, in the order of the spine.
    """

    product: str
    runs: tuple[str, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    errors: tuple[QueryErrors, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    groups: str = ""
    counted: str = "people"
    homogeneity: tuple[HomogeneityLine, ...] = ()

    def entry(self, place: str, measure: str) -> Entry:
        """The line of a place and measure.

        Args:
            place: A geolevel, or the name of a kind of area.
            measure: `total`, or the query of the strata.

        Raises:
            InputError: There is none.
        """
        for entry in self.entries:
            if (entry.place, entry.measure) == (place, measure):
                return entry
        raise InputError(f"the accuracy report has no line {place}, {measure}")

    def headlines(self, name: CriterionName) -> tuple[Criterion, ...]:
        """One line a geolevel, by steps of 50: of the groups that are shown first, or of the total.

        Args:
            name: `largest group` for the groups that are shown first, `total` for the relative error of the total.
        """
        query = self.groups if name == "largest group" else TOTAL
        chosen = [line for line in self.criteria if (line.name, line.query) == (name, query)]
        return tuple(line for line in chosen if line.bins == FIFTIES)

    def to_json(self, more: Mapping[str, Iterable[Mapping[str, Any]]] = MappingProxyType({"spread": ()})) -> str:
        """The report as text, frequencies included, so that runs can be pooled later; one line a line of the report.

        Args:
            more: Further rows by name, as JSON values, which are not read again.
        """
        head = {
            "schema_version": SCHEMA_VERSION,
            "classification": RESTRICTED,
            "product": self.product,
            "counted": self.counted,
            "groups": self.groups,
            "runs": list(self.runs),
            "definitions": dict(definitions(self.counted)),
            "notes": list(self.notes),
        }
        lines = {
            "entries": map(_entry_json, self.entries),
            "queries": map(errors_json, self.errors),
            "criteria": map(criterion_json, self.criteria),
            "homogeneity": map(homogeneity_json, self.homogeneity),
            **more,
        }
        parts = [f'"{name}": {json.dumps(value, indent=1, allow_nan=False)}' for name, value in head.items()]
        parts += [f'"{name}": {_one_a_line(values)}' for name, values in lines.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"


def report_from_json(text: str) -> AccuracyReport:
    """Read a report.

    Args:
        text: Result of `AccuracyReport.to_json`, of this version or an older one.

    Raises:
        InputError: It is no report of a known version.
    """
    try:
        content = json.loads(text)
        if content["schema_version"] not in _READ:
            raise InputError(f"accuracy report of version {content['schema_version']}, expected {SCHEMA_VERSION}")
        return AccuracyReport(
            content["product"],
            tuple(content["runs"]),
            tuple(map(_entry_of, content["entries"])),
            tuple(content["notes"]),
            tuple(map(errors_of_json, content.get("queries", ()))),
            tuple(map(criterion_of_json, content.get("criteria", ()))),
            content.get("groups", ""),
            content.get("counted", "people"),
            tuple(map(homogeneity_of_json, content.get("homogeneity", ()))),
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not readable as an accuracy report") from error


def _one_a_line(values: Iterable[Mapping[str, Any]]) -> str:
    lines = [json.dumps(value, allow_nan=False) for value in values]
    return "[\n " + ",\n ".join(lines) + "\n]" if lines else "[]"


def _entry_json(entry: Entry) -> dict[str, Any]:
    numbers = {name: getattr(entry.figures, name) for name in ("n", "double_zero", *FIGURES)}
    shown: dict[str, Any] = dict(numbers_json(numbers))
    shown["quantiles"] = [] if entry.frequencies.total == 0 else list(entry.figures.quantiles)
    kept = residuals_json(entry.frequencies)
    return {"place": entry.place, "measure": entry.measure, "figures": shown, "residuals": kept}


def _entry_of(content: Mapping[str, Any]) -> Entry:
    frequencies = frequencies_of_json(content["residuals"], content["figures"]["double_zero"])
    return Entry(content["place"], content["measure"], frequencies)
