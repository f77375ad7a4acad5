"""What the privacy statement of a run declares exact and public, read from the page that a stage writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from das_spark.config.resolve import load_plan
from das_spark.io.layout import RunLayout
from das_spark.pipeline.context import RunContext
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.publish import publish_statement
from das_spark.privacy import LedgerEntry, RunKey
from das_spark.products import PRODUCTS

EXACT, PUBLIC = "What is published exactly", "What is treated as public"
FACILITIES = "; ".join(PRODUCTS["pl94_2020_person"].unit_classes[1:])
RUN_FILE = """
config_version = 1
[run]
product = "{product}"
[input]
reader = "{reader}"
{path} = "there"
[budget]
strategy = "{strategy}"
"""

Sections = dict[str, list[str]]


@pytest.fixture
def published(tmp_path: Path) -> Callable[..., Sections]:
    """Items of each section of the statement of a run, whose plan alone is known."""

    def write(product: str, *settings: str, reader: str = "pl94_summary", strategy: str = "us", more: str = ""):
        path = tmp_path / "run.toml"
        key = "persons" if reader.startswith("tidy") else "path"
        path.write_text(RUN_FILE.format(product=product, reader=reader, strategy=strategy, path=key) + more)
        plan = load_plan(path, settings=settings, files=False)
        layout = RunLayout.at(tmp_path / "runs", "r-1")
        layout.public.path.mkdir(parents=True, exist_ok=True)
        context = RunContext(plan, layout, None, RunKey.from_system(), Progress(lambda _: None, "r-1"))  # type: ignore[arg-type]
        entry = LedgerEntry("r-1", "2030-01-01T00:00:00+00:00", product, "records", plan.budget, insecure=False)
        publish_statement(context, entry, None)
        return sections(layout.public.privacy_statement.read_text())

    return write


def sections(page: str) -> Sections:
    found: Sections = {}
    for part in page.split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        found[heading] = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    return found


def test_of_persons_state_totals_housing_units_and_facilities_are_exact(published: Callable[..., Sections]) -> None:
    page = published("pl94_2020_person")
    total, units = page[EXACT]
    assert total == (
        "The total number of people in every geounit of the geolevel State, and hence of every geounit above it, is "
        "published exactly."
    )
    assert units == (
        "The number of housing units, occupied plus vacant, and the number of facilities of group quarters of each "
        f"type ({FACILITIES}) in every geounit of the lowest geolevel, Block, are published exactly, and hence for "
        "every geounit above; how many of the housing units are vacant is not."
    )
    zero, home, *facilities, taken = page[PUBLIC]
    assert zero == "Structural zero nurse_nva_0: nobody under 18 in nursing facilities"
    assert home == "Units of class 'Housing unit (occupied or vacant)' hold between 0 and 99999 people each."
    assert [line.split("'")[1] for line in facilities] == FACILITIES.split("; ")
    assert all(line.endswith("hold between 1 and 99999 people each.") for line in facilities)
    assert "one facility of a type is declared for each block where table P5 has people of that type" in taken
    assert "The declared facilities tell of the people" in taken


def test_of_units_the_housing_units_of_every_block_are_said_to_be_exact(published: Callable[..., Sections]) -> None:
    page = published("pl94_2020_unit")
    total, units = page[EXACT]
    assert total == (
        "The total number of housing units (occupied plus vacant) in every geounit of the geolevel Block, and hence of "
        "every geounit above it, is published exactly."
    )
    assert f"facilities of group quarters of each type ({FACILITIES})" in units
    assert units.endswith("how many of the housing units are vacant is not.")
    (taken,) = page[PUBLIC]
    assert "table P5" in taken
    assert "tell of the people" in taken


@pytest.mark.parametrize("product", ["pl94_2020_person", "pl94_2020_unit"])
def test_without_invariant_units_nothing_is_said_of_facilities(
    published: Callable[..., Sections], product: str
) -> None:
    page = published(product, "invariants.units=false")
    (total,) = page[EXACT]
    assert total.startswith("The total number of ")
    rules = page.get(PUBLIC, [])
    assert len(rules) == (product == "pl94_2020_person")
    assert not any(word in line for line in (total, *rules) for word in ("facilities of group", "hold between", "P5"))


def test_where_nothing_is_exact_the_page_says_so(published: Callable[..., Sections]) -> None:
    page = published("pl94_2020_person", "invariants.units=false", "invariants.total_at=none")
    assert page[EXACT] == ["No number is published exactly: every count is protected by noise."]


def test_records_that_count_facilities_need_no_sentence_about_them(published: Callable[..., Sections]) -> None:
    for product in ("pl94_2020_person", "pl94_2020_unit"):
        page = published(product, reader="cef_2020")
        assert not any("tell of the people" in line for line in page.get(PUBLIC, []))


def test_vacant_units_of_other_products_are_declared_apart(published: Callable[..., Sections]) -> None:
    page = published("e2e_1940", "input.units=there", reader="tidy_counts", strategy="e2e_1940")
    _, units, vacant = page[EXACT]
    assert units.startswith("The number of units of each class (Occupied housing unit; ")
    assert vacant.startswith("The number of vacant housing units in every geounit of the lowest geolevel, Enumdist,")


def test_units_made_from_people_are_outside_the_guarantee(published: Callable[..., Sections]) -> None:
    page = published("pl94_2020_person", "input.units_from_people=true")
    (taken,) = [line for line in page[PUBLIC] if "The input has no counts" in line]
    assert "one housing unit is declared for each 2.5 people" in taken
    assert "one facility of a type of group quarters where it has people" in taken
    assert "outside the guarantee" in taken


def test_units_that_were_settled_by_people_are_told_of_besides_facilities(published: Callable[..., Sections]) -> None:
    page = published("pl94_2020_person", "input.unit_conflicts=from_people")
    facilities, settled = page[PUBLIC][-2:]
    assert "table P5" in facilities
    assert "the nearest possible number of units was declared instead" in settled


@pytest.mark.parametrize(
    ("right", "spelled"), [([1500], "1,500"), ([1, 2, 3, 4, 5, 6, 7, 1500], "(1, 2, 3, 4, 5, 6, 7, 1500)")]
)
def test_added_constraints_are_spelled_out(published: Callable[..., Sections], right: list[int], spelled: str) -> None:
    added = f'[[constraints]]\nname = "cap"\ngeolevel = "State"\nquery = "hhgq"\nsense = "<="\nright = {right}\n'
    page = published("pl94_2020_person", more=added)
    assert page[PUBLIC][-1] == f"Added constraint cap at State: hhgq <= {spelled}."


def test_a_long_list_of_constants_is_left_to_the_manifest(published: Callable[..., Sections]) -> None:
    right = [9] * 63
    added = f'[[constraints]]\nname = "cap"\ngeolevel = "US"\nquery = "cenrace"\nsense = ">="\nright = {right}\n'
    page = published("pl94_2020_person", more=added)
    assert page[PUBLIC][-1] == "Added constraint cap at US: cenrace >= 63 constants, in the manifest."
