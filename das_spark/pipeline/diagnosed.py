"""Which families of a level failed, and which took longest: of the tables that its estimation wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from das_spark.estimation import FamilyStatus
from das_spark.evaluation import FAMILY_FIGURES
from das_spark.store.parquet import read_batches, read_rows
from das_spark.store.tables import SECONDS

_USABLE: Final = pa.array([str(status) for status in FamilyStatus if status.is_usable])


def failed_families(diagnostics: Path, number: int) -> tuple[int, list[dict[str, Any]]]:
    """How many families have no usable estimate, and some rows of them, the first by name."""
    count, first = 0, list[dict[str, Any]]()
    for batch in read_batches(diagnostics):
        failed = batch.filter(pc.invert(pc.is_in(batch.column("status"), value_set=_USABLE)))
        count += failed.num_rows
        first = sorted([*first, *failed.sort_by("family").slice(0, number).to_pylist()], key=_family)[:number]
    return count, first


def slowest_families(diagnostics: Path, seconds: Path, number: int) -> list[dict[str, Any]]:
    """Figures of the families that took longest, and their seconds."""
    timed = read_rows(seconds, SECONDS.schema)
    longest = timed.sort_by([("seconds", "descending"), ("family", "ascending")]).slice(0, number)
    names = longest.column("family").combine_chunks()
    figures = dict[str, dict[str, Any]]()
    for batch in read_batches(diagnostics, FAMILY_FIGURES):
        chosen = batch.filter(pc.is_in(batch.column("family"), value_set=names))
        figures |= {row["family"]: row for row in chosen.to_pylist()}
    return [figures[row["family"]] | {"seconds": round(row["seconds"], 6)} for row in longest.to_pylist()]


def _family(row: dict[str, Any]) -> str:
    return str(row["family"])
