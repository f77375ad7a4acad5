"""Small inputs, read as a run reads them, and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from readings import ingest

from das_spark.config import InputSettings
from das_spark.pipeline.delivery import examined_files
from das_spark.products import PRODUCTS
from das_spark.spark.readers import READERS

if TYPE_CHECKING:
    from das_spark.spark.readers._gathered import Gathering

PRODUCT = PRODUCTS["e2e_1940"]
#: Geocode -> people by cell, units by class, vacant units.
Leaves = dict[str, tuple[dict[int, int], list[int] | None, int | None]]


@pytest.fixture
def ingested(tmp_path: Path) -> Callable[..., Leaves]:
    """Read the tables of a folder, after the looks that a run takes before it reads."""

    def read(meanwhile: Callable[[], object] = lambda: None, **settings: Any) -> Leaves:
        given = InputSettings(**{"reader": "tidy_counts", "path": str(tmp_path)} | settings)
        READERS[given.reader].look(given, PRODUCT, PRODUCT.spine())
        examined_files(given)
        gathered = READERS[given.reader].gathering(None, given, PRODUCT, PRODUCT.spine())
        meanwhile()
        return _leaves(gathered)

    return read


def _leaves(gathered: Gathering) -> Leaves:
    return {
        row["geocode"]: (dict(zip(row["cells"], row["counts"], strict=True)), row["units"], row["vacant"])
        for row in ingest(gathered).leaves
    }
