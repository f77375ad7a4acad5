"""Every command of the pages on run files, attacks, evaluation, products and studies is carried out."""

from __future__ import annotations

import pytest
from documents.carrying_out import carry_out, prepare
from documents.pages import Block, blocks
from documents.shared_session import Checkout

#: Pages of which every block is run.
PAGES = (
    "conf/README.md",
    "das_spark/attack/README.md",
    "das_spark/evaluation/README.md",
    "das_spark/products/README.md",
    "das_spark/studies/README.md",
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("examples") / "das_spark")


@pytest.fixture(scope="module")
def prepared(checkout: Checkout, spark) -> set[str]:
    """Pages whose prerequisites have been made."""
    return set()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{page}: {block.name}") for page in PAGES for block in blocks(page)]
)
def test_every_command_of_the_page_works(checkout: Checkout, prepared: set[str], spark, block: Block):
    if block.page not in prepared:
        prepare(block.page, checkout, spark)
        prepared.add(block.page)
    carry_out(block, checkout, spark)
