"""The schemas whose tables are examined, and a place for the helpers of this folder, which are modules and no tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from das_spark.histogram import Attribute, Schema
from das_spark.products import PRODUCTS

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def persons() -> Schema:
    """hhgq x votingage x hispanic x cenrace."""
    return PRODUCTS["e2e_2018"].schema


@pytest.fixture(scope="session")
def housing() -> Schema:
    """Vacant and occupied units."""
    return Schema("housing", (Attribute("h1", ("Vacant", "Occupied")),))
