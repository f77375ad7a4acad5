"""The checkout in which the documents of a file of tests are followed."""

from __future__ import annotations

import pytest
from documents.shared_session import Checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("clone") / "das_spark")
