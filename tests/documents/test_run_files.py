"""Every run file is carried out, by the commands of its comments or of the page on them, on a small input."""

from __future__ import annotations

import pytest
from documents.carrying_out import carry_out, parameter, prepare
from documents.pages import Block, blocks, documents
from documents.shared_session import Checkout

PAGE = "conf/README.md"
#: The part of that page that this file carries out; all others are in `test_worked_examples`.
SECTION = "Runs, one by one"
RUN_FILES = [page for page in documents() if page.endswith(".toml") and page.count("/") == 1]

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]


def lines(page: str) -> set[str]:
    """Return the lines of the commands of a document."""
    return {line for block in blocks(page) for line in block.text.splitlines()}


# What the page has need not be carried out again for the comments of a run file.
@pytest.mark.parametrize(
    "block", [parameter(block, page) for page in RUN_FILES for block in blocks(page) if lines(page) - lines(PAGE)]
)
def test_every_run_file_works_as_its_comments_say(checkout: Checkout, spark, block: Block):
    with checkout.left_as_it_was():
        prepare(block.page, checkout, spark)
        carry_out(block, checkout, spark)


@pytest.fixture(scope="module")
def prepared(checkout: Checkout, spark) -> Checkout:
    prepare(PAGE, checkout, spark)
    return checkout


@pytest.mark.parametrize("block", [parameter(block, block.name) for block in blocks(PAGE) if block.section == SECTION])
def test_every_command_on_the_run_files_works(prepared: Checkout, spark, block: Block):
    carry_out(block, prepared, spark)
