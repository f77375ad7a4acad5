"""What `experiment occupancy` gives: a study with its findings, or the occupancy of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from das_spark.evaluation.definitions import RESTRICTED
from das_spark.studies.allocation import Allocation, allocation_table
from das_spark.studies.finding import Finding
from das_spark.studies.occupancy import OccupancySettings, OccupancyStudy, study_occupancy
from das_spark.studies.occupancy_findings import occupancy_findings
from das_spark.studies.occupancy_measures import DEFINITIONS, OccupancyReport
from das_spark.studies.occupancy_tables import (
    allocation_table_of,
    county_table,
    difference_table,
    findings_table,
    occupancy_table,
    people_table,
)
from das_spark.studies.table import Table

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyResult:
    """A study, the allocation that it rests on, and what it says of the published phenomena.

    Attributes:
        study: What was simulated.
        allocation: The published allocation.
        findings: Every check.
    """

    study: OccupancyStudy
    allocation: tuple[Allocation, ...]
    findings: tuple[Finding, ...]

    def tables(self) -> tuple[Table, ...]:
        """Findings first, counties last."""
        people = {"people": self.study.people.by_size, "occupied cells": self.study.people.by_diversity}
        return (
            findings_table(self.findings),
            occupancy_table(self.study.reports),
            difference_table(self.study.reports),
            people_table(people),
            allocation_table_of(self.allocation),
            county_table(self.study.counties),
        )

    def to_json(self) -> str:
        """Settings, findings, releases with the frequency of every difference, allocation, people and counties."""
        tables = {table.name: table.records() for table in self.tables()}
        content = {
            "format": _FORMAT,
            "experiment": "occupancy",
            "settings": asdict(self.study.settings),
            "findings": [asdict(each) for each in self.findings],
            "releases": [each.to_json() for each in self.study.reports],
            "tables": {name: tables[name] for name in ("allocation", "people", "counties")},
            "definitions": dict(DEFINITIONS),
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True, eq=False)
class RunOccupancy:
    """The occupancy of a run beside its confidential counts. RESTRICTED.

    Attributes:
        product: Name of the product.
        run: Name of the run.
        report: Its geolevels.
    """

    product: str
    run: str
    report: OccupancyReport

    def tables(self) -> tuple[Table, ...]:
        """Occupancy, and differences by quintile; their titles say that they are restricted."""
        found = (occupancy_table((self.report,)), difference_table((self.report,)))
        return tuple(replace(table, title=f"{table.title} (restricted: not protected by noise)") for table in found)

    def to_json(self) -> str:
        """The geolevels with the frequency of every difference."""
        content = {
            "format": _FORMAT,
            "restricted": RESTRICTED,
            "product": self.product,
            "run": self.run,
            "releases": [self.report.to_json()],
            "definitions": dict(DEFINITIONS),
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def occupancy_experiment(settings: OccupancySettings, tell: Callable[[str], None] = lambda _: None) -> OccupancyResult:
    """Carry out the study, and judge it.

    Args:
        settings: Size and seed; the same settings give the same result.
        tell: Called with a line of progress when a part begins.

    Raises:
        ConfigurationError: There is no state or no county.
        EstimationError: A family could not be estimated.
    """
    allocation = allocation_table()
    study = study_occupancy(settings, tell)
    return OccupancyResult(study, allocation, occupancy_findings(study, allocation))
