"""Every command of the pages on run files, attacks, evaluation, products and studies is carried out."""

from __future__ import annotations

import pytest
from documents import test_run_files
from documents.carrying_out import carry_out, parameter, prepare
from documents.pages import Block, blocks
from documents.shared_session import Checkout

#: Pages of which every block is carried out here, or, of the first, in `test_run_files`.
PAGES = (
    test_run_files.PAGE,
    "das_spark/attack/README.md",
    "das_spark/evaluation/README.md",
    "das_spark/products/README.md",
    "das_spark/studies/README.md",
)
BLOCKS = [block for page in PAGES for block in blocks(page) if block.section != test_run_files.SECTION]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.whole_run
@pytest.mark.parametrize("block", [parameter(block, f"{block.page}: {block.name}") for block in BLOCKS])
def test_every_command_of_the_page_works(checkout: Checkout, spark, block: Block):
    if block.page != PAGES[0] and block == blocks(block.page)[0]:
        prepare(block.page, checkout, spark)
    carry_out(block, checkout, spark)
