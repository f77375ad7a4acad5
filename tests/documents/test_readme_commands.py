"""The README as a stranger uses it: every command of it is run, block by block, in a fresh copy of the checkout."""

from __future__ import annotations

import pytest
from documents.carrying_out import CLONE, carry_out
from documents.pages import Block, blocks, shown_files
from documents.shared_session import Checkout

from das_spark.store import RestrictedManifest

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

#: What is running this test: not run once more.
THIS = "tests/run\n"
#: Jobs of Spark, each of which costs a third of a second whatever it does; a stage that is not named here has one.
JOBS = {"ingest": 2, "microdata": 3, "verify": 2}
MOST_JOBS = 20
QUICK_START, *OTHERS = (block for block in blocks("README.md") if block.text != THIS)


@pytest.fixture(scope="module")
def with_shown_files(checkout: Checkout) -> Checkout:
    checkout.write(shown_files("README.md"))
    return checkout


def test_the_quick_start_works(checkout: Checkout):
    """Without the session of the tests, as for a user."""
    assert QUICK_START.text.startswith(CLONE)
    carry_out(QUICK_START, checkout)
    costs = RestrictedManifest.load(checkout.folder / "runs" / "latest" / "restricted" / "manifest.json").metrics
    jobs = {stage: cost["jobs"] for stage, cost in costs.items()}
    assert {stage: number for stage, number in jobs.items() if number > JOBS.get(stage, 1)} == {}
    assert sum(jobs.values()) <= MOST_JOBS


@pytest.mark.slow
@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in OTHERS])
def test_every_command_of_the_readme_works(with_shown_files: Checkout, spark, block: Block):
    carry_out(block, with_shown_files, spark)
