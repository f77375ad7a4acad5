"""What the stages of a run find out for its two manifests; an early stage that was done before finds it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class PublicFacts:
    """What stages found out for the public manifest.

    Attributes:
        microdata_rows: Rows of the microdata, by `<kind>.<flavour>`.
        table_rows: Rows of the published tables, by `tables/<table>.<flavour>`.
    """

    microdata_rows: Mapping[str, int] = field(default_factory=dict)
    table_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RestrictedFacts:
    """What stages found out for the restricted manifest: it tells of the input.

    Attributes:
        input_files: Path -> size, time of change and SHA-256; None where the input was not examined.
        input_rows: What was read -> rows.
        problems: What was wrong in the input, and how often.
        accuracy: The few accuracy figures that are printed, by name; empty where nothing was evaluated.
    """

    input_files: Mapping[str, Mapping[str, Any]] | None = None
    input_rows: Mapping[str, int] = field(default_factory=dict)
    problems: list[Mapping[str, Any]] = field(default_factory=list)
    accuracy: Mapping[str, str] = field(default_factory=dict)
