"""The README as a stranger uses it: every command of it is run, block by block, in a fresh copy of the checkout."""

from __future__ import annotations

import pytest
from documents.carrying_out import carry_out
from documents.pages import Block, blocks, shown_files
from documents.shared_session import Checkout

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

#: How the quick start begins, which even the quick path of the tests runs.
CLONE = "git clone <this repository> das_spark && cd das_spark\n"
#: What is running this test: not run once more.
THIS = "tests/run\n"
QUICK_START, *OTHERS = (block for block in blocks("README.md") if block.text != THIS)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("readme") / "das_spark")
    checkout.write(shown_files("README.md"))
    return checkout


def test_the_quick_start_works(checkout: Checkout):
    """Without the session of the tests, as for a user."""
    assert QUICK_START.text.startswith(CLONE)
    carry_out(QUICK_START, checkout)


@pytest.mark.slow
@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in OTHERS])
def test_every_command_of_the_readme_works(checkout: Checkout, spark, block: Block):
    carry_out(block, checkout, spark)
