"""Occupancy of made runs of housing units: read from both roots, and refused where it means nothing."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import configuration, finished_run, histograms, manifest

from das_spark.errors import InputError, OutputError
from das_spark.products import PRODUCTS
from das_spark.store import RunLayout, open_run
from das_spark.store.tables import INVARIANTS
from das_spark.studies.occupancy import level_occupancy
from das_spark.studies.run_occupancy import occupancy_of_run, occupied_cells

pytestmark = pytest.mark.slow

LEVELS = ["County", "Block"]
LENGTHS = {"County": 5, "Block": 16}
BLOCKS = 40


def unit_run(root, name, *, total_at="Block", product="pl94_2020_unit"):
    """A run of one county and its blocks, in which every third block with vacant units loses them."""
    layout = RunLayout.at(root, name)
    open_run(layout, "0" * 64)
    config = configuration(
        f"{product}.toml",
        'geography.levels=["County", "Block"]',
        'budget.geolevels={County="1/2", Block="1/2"}',
        f'invariants.total_at="{total_at}"',
    )
    replace(manifest(name), product=product, config=config).save(layout.public.manifest)
    random = np.random.default_rng(4)
    units = random.poisson(9, BLOCKS)
    occupied = random.binomial(units, 0.8)
    released = np.where(np.arange(BLOCKS) % 3 == 0, units, np.maximum(occupied - 1, 0))
    for level in LEVELS:
        for table, households in (
            (layout.restricted.level("histograms", level), occupied),
            (layout.public.level("estimates", level), released),
        ):
            dense = np.stack([units - households, households], axis=1)
            histograms(table, dense if level == "Block" else dense.sum(axis=0, keepdims=True), 5)
    return layout, units, occupied, released


@pytest.mark.spark
def test_every_geolevel_of_a_run_is_compared(tmp_path, spark):
    layout, units, occupied, released = unit_run(tmp_path, "units")
    found = occupancy_of_run(layout.folder, spark=spark)
    assert (found.product, found.run) == ("pl94_2020_unit", "units")
    assert [level.geolevel for level in found.occupancy.levels] == LEVELS
    assert found.occupancy.level("Block").parts == level_occupancy("Block", units, occupied, released).parts
    assert found.occupancy.level("Block").occupancy.filled > 5
    county = found.occupancy.level("County").quintiles
    assert [one.differences.values.tolist() for one in county if one.geounits] == [[(released - occupied).sum()]]


@pytest.mark.spark
def test_the_truth_of_another_run_serves(tmp_path, spark):
    layout, *_ = unit_run(tmp_path, "one")
    other, *_ = unit_run(tmp_path, "other")
    expected = occupancy_of_run(layout.folder, spark=spark).occupancy
    for part in (layout.restricted.level("histograms", level) for level in LEVELS):
        (part / "_SUCCESS").unlink()
    with pytest.raises(OutputError, match="confidential histograms"):
        occupancy_of_run(layout.folder, spark=spark)
    found = occupancy_of_run(layout.folder, other.folder, spark=spark).occupancy
    assert [level.parts for level in found.levels] == [level.parts for level in expected.levels]


def demonstration_run(root, product, *, truth, released, units=None):
    """A run of one county and its blocks: records of one cell of each block."""
    layout = RunLayout.at(root, product)
    open_run(layout, "0" * 64)
    config = configuration(
        f"{product}.toml",
        'geography.levels=["County", "Block"]',
        'budget.geolevels={County="1/2", Block="1/2"}',
        'invariants.total_at="none"',
    )
    replace(manifest(product), product=product, config=config).save(layout.public.manifest)
    for level in LEVELS:
        for table, counts in (
            (layout.restricted.level("histograms", level), truth),
            (layout.public.level("estimates", level), released),
        ):
            dense = counts[:, None]
            histograms(table, dense if level == "Block" else dense.sum(axis=0, keepdims=True), LENGTHS[level])
    if units is not None:
        folder = layout.public.level("invariants", "Block")
        folder.mkdir(parents=True)
        codes = [f"{number:0{LENGTHS['Block']}d}" for number in range(len(units))]
        rows = {"geocode": codes, "parent": ["00000"] * len(units), "name": ["units"] * len(units)}
        values = [[int(unit)] + [0] * 28 for unit in units]
        pq.write_table(pa.table({**rows, "values": values}, INVARIANTS.schema), folder / "part-0.parquet")
        (folder / "_SUCCESS").touch()
    return layout


@pytest.mark.spark
def test_households_and_the_people_in_them_are_compared(tmp_path, spark):
    random = np.random.default_rng(6)
    units = random.poisson(9, BLOCKS)
    households, people = random.binomial(units, 0.8), random.poisson(20, BLOCKS)
    released = np.where(np.arange(BLOCKS) % 3 == 0, units, np.maximum(households - 1, 0))
    shown = np.where(np.arange(BLOCKS) % 4 == 0, 0, people)
    of_units = demonstration_run(tmp_path, "ddp_2010_household", truth=households, released=released, units=units)
    of_people = demonstration_run(tmp_path, "ddp_2010_person", truth=people, released=shown)
    found = occupancy_of_run(of_units.folder, persons=of_people.folder, spark=spark)
    assert found.occupancy.level("Block").parts == level_occupancy("Block", units, households, released).parts
    assert found.occupancy.level("County").occupancy.units == units.sum()
    county, block = found.ratios
    assert (county.geolevel, block.geolevel) == ("County", "Block")
    assert county.true_ratios == pytest.approx([people.sum() / households.sum()] * 3)
    assert block.together.without_people == np.count_nonzero((shown == 0) & (released > 0))
    assert block.together.fewer_people == np.count_nonzero(shown < released)
    page = found.report(drawn=False)
    assert [table.name for table in found.tables()] == ["occupancy", "differences", "persons_per_household"]
    assert page.title == "Occupied housing units of ddp_2010_household"
    with pytest.raises(InputError, match="which does not tell people in households apart"):
        occupancy_of_run(of_units.folder, persons=of_units.folder, spark=spark)


def test_a_product_that_does_not_count_vacant_units_is_refused_by_name(tmp_path):
    layout, *_ = finished_run(tmp_path, "people", 1)
    with pytest.raises(InputError, match=r"e2e_1940.*pl94_2020_unit"):
        occupancy_of_run(layout.folder)


def test_a_run_whose_housing_units_are_not_exact_everywhere_is_refused(tmp_path):
    layout, *_ = unit_run(tmp_path, "noisy", total_at="County")
    with pytest.raises(InputError, match="not exact in every Block"):
        occupancy_of_run(layout.folder)


def test_occupied_units_are_found_in_the_schema_of_products():
    found = {name: occupied_cells(product) for name, product in PRODUCTS.items()}
    assert found["pl94_2020_unit"] == [1]
    assert [name for name, cells in found.items() if cells is not None] == ["pl94_2020_unit"]
