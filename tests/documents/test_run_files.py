"""Every run file is carried out by the commands of its comments, on a small input of the layout that it names."""

from __future__ import annotations

import pytest
from documents.carrying_out import carry_out, prepare
from documents.pages import blocks, documents
from documents.shared_session import Checkout

RUN_FILES = [page for page in documents() if page.endswith(".toml") and page.count("/") == 1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("run_files") / "das_spark")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.parametrize("page", [page for page in RUN_FILES if blocks(page)])
def test_every_run_file_works_as_its_comments_say(checkout: Checkout, spark, page: str):
    with checkout.left_as_it_was():
        prepare(page, checkout, spark)
        for block in blocks(page):
            carry_out(block, checkout, spark)
