"""Which families of a level failed, and which took longest: of the tables that its estimation wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from das_spark.estimation import FamilyStatus
from das_spark.evaluation import FAMILY_FIGURES
from das_spark.places import Place
from das_spark.store.parquet import read_batches, read_rows
from das_spark.store.tables import SECONDS

_USABLE: Final = pa.array([str(status) for status in FamilyStatus if status.is_usable])


def failed_families(diagnostics: Place, number: int) -> tuple[int, list[dict[str, Any]]]:
    """How many families have no usable estimate, and some rows of them, the first by name."""
    count, first = 0, list[str]()
    for batch in read_batches(diagnostics, ["family", "status"]):
        failed = batch.filter(pc.invert(pc.is_in(batch.column("status"), value_set=_USABLE)))
        count += failed.num_rows
        first = sorted([*first, *failed.column("family").to_pylist()])[:number]
    return count, _rows(diagnostics, pa.array(first, pa.string()))


def slowest_families(diagnostics: Place, seconds: Place, number: int) -> list[dict[str, Any]]:
    """Figures of the families that took longest, and their seconds."""
    timed = read_rows(seconds, SECONDS.schema)
    longest = timed.sort_by([("seconds", "descending"), ("family", "ascending")]).slice(0, number)
    names = longest.column("family").combine_chunks()
    figures = {row["family"]: row for row in _rows(diagnostics, names, FAMILY_FIGURES)}
    return [figures[row["family"]] | {"seconds": round(row["seconds"], 6)} for row in longest.to_pylist()]


def _rows(diagnostics: Place, families: pa.Array, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """What is said of some families, in the order of their names."""
    if not len(families):
        return []  # the saved problems of others are large
    chosen = [
        batch.filter(pc.is_in(batch.column("family"), value_set=families))
        for batch in read_batches(diagnostics, columns)
    ]
    return sorted((row for batch in chosen for row in batch.to_pylist()), key=lambda row: str(row["family"]))
