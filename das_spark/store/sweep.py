"""The folder of a sweep: what the grid is and how far it has come, and the pages made of it. RESTRICTED as a whole.

The runs themselves lie under the root of all runs; the folder names them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from das_spark.errors import OutputError
from das_spark.places import Place, disk_errors, place_of
from das_spark.report import RESTRICTED
from das_spark.store.commit import close_to_others, make_folder, names_in, write_durably

SWEEP_VERSION: Final = 2  # 2: `created`
#: What follows from the grid, or changes while a sweep lasts.
_FOLLOWING: Final = ("cost", "created", "states")


class RunState(StrEnum):
    """How far a run of a sweep is."""

    WAITING = "waiting"
    BEGUN = "begun"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """What a sweep is, and how far it has come.

    Attributes:
        product: Name of the product.
        budget: What its budgets are called: epsilon or rho.
        totals: The budgets, exact, as text.
        runs: Runs at each budget.
        cost: What all of them cost together, exact, as text.
        key: Where the noise comes from: `system`, or what tells one test key from another.
        created: When it was begun: the instant that all its runs name.
        input: Identity of the confidential input.
        config: The resolved configuration without the total of the budget.
        states: Run id -> how far it is.
        variants: Label -> settings of each variant; empty where nothing but the budget varies.
    """

    product: str
    budget: str
    totals: tuple[str, ...]
    runs: int
    cost: str
    key: str
    created: str
    input: str
    config: Mapping[str, Any]
    states: Mapping[str, RunState]
    variants: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def root(self) -> Place:
        """Where its runs lie."""
        return place_of(str(self.config["output"]["root"]))

    def grid(self) -> dict[str, Any]:
        """All that a sweep may not change while it lasts, as JSON values."""
        return {name: value for name, value in self._values().items() if name not in _FOLLOWING}

    def with_state(self, run_id: str, state: RunState) -> SweepRecord:
        """The record after a run has come further."""
        return replace(self, states={**self.states, run_id: state})

    def to_json(self) -> str:
        """The record as text."""
        head = {"schema_version": SWEEP_VERSION, "classification": RESTRICTED}
        return json.dumps(head | self._values(), indent=1) + "\n"

    @classmethod
    def load(cls, path: Place) -> SweepRecord:
        """Read a record.

        Raises:
            OutputError: It is none of this version.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["schema_version"] != SWEEP_VERSION:
                raise OutputError(f"{path}: version {content['schema_version']}, expected {SWEEP_VERSION}")
            content.setdefault("variants", {})  # nothing but budgets varied when there was none
            values = {each.name: content[each.name] for each in fields(cls)}
            values["totals"] = tuple(values["totals"])
            values["states"] = {name: RunState(state) for name, state in values["states"].items()}
            return cls(**values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(f"{path}: not readable as the record of a sweep") from error

    def _values(self) -> dict[str, Any]:
        return {**asdict(self), "totals": list(self.totals)}


@dataclass(frozen=True, slots=True)
class SweepLayout:
    """Paths of the folder of a sweep.

    Attributes:
        path: The folder, mode 0700; its files have mode 0600.
    """

    path: Place

    @property
    def record(self) -> Place:
        """The grid, and how far it has come."""
        return self.path / "sweep.json"

    @property
    def samples(self) -> Place:
        """Residuals of the simple random samples, kept since they do not change."""
        return self.path / "samples.json"

    @property
    def curve(self) -> Place:
        """Accuracy and privacy of every budget and of every sample, as a table."""
        return self.path / "curve.restricted.csv"

    @property
    def closest_samples(self) -> Place:
        """The closest sample of every budget, as a table."""
        return self.path / "closest_samples.restricted.csv"

    @property
    def page(self) -> Place:
        """Everything as a page."""
        return self.path / "sweep.html"

    def open(self) -> SweepRecord | None:
        """Make the folder, or find the record of the sweep that it holds.

        Raises:
            OutputError: It holds something else, or cannot be made.
        """
        with disk_errors(self.path):
            make_folder(self.path, mode=0o700)
            if self.record.is_file():
                return SweepRecord.load(self.record)
            if names_in(self.path):
                raise OutputError(f"{self.path}: not empty and not the folder of a sweep", hint="choose another --out")
            close_to_others(self.path)
        return None

    def write(self, path: Place, text: str) -> None:
        """Write one file of the folder, for its owner alone.

        Args:
            path: The file, one of this folder; replaced where it exists.
            text: What it holds.

        Raises:
            OutputError: The disk is full.
        """
        write_durably(path, text, mode=0o600)
