"""From a stored spine to its report: a small one in files, and Rhode Island with its real entities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from das_spark.errors import BudgetError, GeographyError, InputError
from das_spark.evaluation import SpineReport
from das_spark.geography import DHC, ENTITY_CATEGORIES, PL94_PERSON, LevelShares, SpineSettings
from das_spark.pipeline.spine_report import ReportRequest, report_spine, spine_folder, write_spine_report
from das_spark.pipeline.spines import SpineRequest, make_spine
from das_spark.products import product
from das_spark.store.spine import read_record

pytestmark = pytest.mark.slow

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of({level: Fraction(part, 21) for part, level in enumerate(LEVELS, 1)})
DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
DHC_SHARES = LevelShares.of({level: Fraction(1, 8) for level in DHC_LEVELS})


def write_geography(file, counties=(("44001", 150), ("44003", 60))):
    draw = np.random.default_rng(2)
    columns = {"geocode": []}
    for county, count in counties:
        for number in range(count):
            tract, group = 1 + number // 70, 1 + number // 35 % 2
            columns["geocode"].append(f"{county}{tract:06d}{group}{group}{number % 35:03d}")
    size = len(columns["geocode"])
    columns |= {
        "aiannhce": draw.choice(["0010", "9999", "9999"], size),
        "placefp": draw.choice(["00100", "99999"], size),
    }
    columns |= {"cousubfp": draw.choice(["00200", "00300"], size), "sdunilea": draw.choice(["00001", "00002"], size)}
    columns |= {name: np.full(size, "99999") for name in ("sdseclea", "sdelmlea")}
    columns |= {name: np.full(size, "A") for name in ("placefs", "cousubfs")}
    parquet.write_table(pa.table({name: list(map(str, values)) for name, values in columns.items()}), file)


@pytest.fixture(scope="module")
def geography(tmp_path_factory):
    file = tmp_path_factory.mktemp("geography") / "blocks.parquet"
    write_geography(file)
    return str(file)


def build(spark, geography, folder, settings=PL94_PERSON, shares=SHARES):
    make_spine(spark, SpineRequest(geography, "tidy", settings, shares, "zcdp", facts={"product": "test"}), folder)
    return folder


@pytest.fixture(scope="module")
def optimised(spark, geography, tmp_path_factory):
    return build(spark, geography, tmp_path_factory.mktemp("run") / "public" / "spine")


@pytest.mark.spark
def test_a_report_says_what_the_spine_says_of_itself(spark, geography, optimised):
    report = report_spine(spark, ReportRequest(optimised, geography, "tidy"))
    record = read_record(optimised)
    assert [(line.name, line.geounits, line.most) for line in report.after] == [
        (level.name, level.geounits, level.most) for level in record.levels
    ]
    assert [line.name for line in report.before] == list(LEVELS)
    assert [line.geounits for line in report.before] == [1, 1, 2, 4, 7, 210]
    assert report.facts == (("product", "test"),)
    assert [entities.category for entities in report.categories] == list(ENTITY_CATEGORIES)
    assert sum(move.received for move in report.moves) == sum(move.given for move in report.moves)
    county = report.category("county_subdivision")
    assert county.names.tolist() == ["4400100200", "4400100300", "4400300200", "4400300300"]
    assert county.blocks.sum() == report.blocks == 210


@pytest.mark.spark
def test_the_spine_of_a_run_is_found(spark, geography, optimised):
    for folder in (optimised, optimised.parent, optimised.parent.parent):
        assert spine_folder(folder) == optimised
    request = ReportRequest(optimised.parent, geography, "tidy", Fraction(1, 4), ("place",))
    report = report_spine(spark, request)
    whole = report_spine(spark, ReportRequest(optimised, geography, "tidy", categories=("place",)))
    # Four times the budget, a quarter of the variance.
    places, better = (each.category("place").variance_after for each in (report, whole))
    np.testing.assert_allclose(places, 4 * better)


@pytest.mark.spark
def test_the_files_hold_the_report(spark, geography, optimised, tmp_path):
    report = report_spine(spark, ReportRequest(optimised, geography, "tidy"))
    write_spine_report(report, tmp_path / "new" / "report", tmp_path / "data")
    written = (tmp_path / "new" / "report" / "spine_report.json").read_text(encoding="utf-8")
    assert SpineReport.from_json(written).to_json() == report.to_json() == written
    assert "<figcaption>" in (tmp_path / "new" / "report" / "spine_report.html").read_text(encoding="utf-8")
    kinds = {path.suffix for path in (tmp_path / "data").iterdir()}
    assert kinds == {".csv", ".parquet"}


@pytest.mark.spark
def test_the_census_spine_changes_nothing_and_a_dhc_spine_is_compared_with_tracts(spark, geography, tmp_path):
    census = build(spark, geography, tmp_path / "census", SpineSettings("census"))
    for figures in report_spine(spark, ReportRequest(census, geography, "tidy")).figures:
        assert figures.entities == 0 or figures.same == 1
    dhc = build(spark, geography, tmp_path / "dhc", DHC, DHC_SHARES)
    report = report_spine(spark, ReportRequest(dhc, geography, "tidy"))
    assert [line.name for line in report.before] == list(LEVELS)
    assert report.before[3].share == Fraction(3, 8)


@pytest.mark.spark
def test_a_spine_of_another_geography_is_refused(spark, optimised, tmp_path):
    write_geography(tmp_path / "other.parquet", (("44001", 150), ("44003", 61)))
    with pytest.raises(GeographyError, match="county 44003: 1 blocks of the geography are none of the spine"):
        report_spine(spark, ReportRequest(optimised, str(tmp_path / "other.parquet"), "tidy"))
    with pytest.raises(InputError, match="no such folder of a spine"):
        report_spine(spark, ReportRequest(tmp_path / "nowhere", str(tmp_path / "other.parquet"), "tidy"))


def test_a_wrong_budget_or_category_is_refused_at_once(tmp_path):
    with pytest.raises(BudgetError, match="above 0"):
        ReportRequest(tmp_path, "", "tidy", Fraction(0))
    with pytest.raises(GeographyError, match="'parish'"):
        ReportRequest(tmp_path, "", "tidy", categories=("parish",))


@pytest.mark.spark
@pytest.mark.real_data
def test_places_and_county_subdivisions_of_rhode_island_come_nearer(spark, census_data, tmp_path):
    files = str(census_data / "official" / "BlockAssign_ST44_RI")
    budget = product("pl94_2020_person").strategies["state"].budget
    shares = LevelShares.of({level.geolevel: level.share for level in budget.levels})
    make_spine(spark, SpineRequest(files, "block_assignment", PL94_PERSON, shares, "zcdp"), tmp_path / "spine")
    report = report_spine(spark, ReportRequest(tmp_path / "spine", files, "block_assignment"))
    figures = {line.category: line for line in report.figures}
    medians = {
        category: (figures[category].entities, figures[category].before.median, figures[category].after.median)
        for category in ("place", "county_subdivision", "aian_area", "tract")
    }
    assert medians == {
        "place": (36, 25, 20.5),
        "county_subdivision": (40, 6, 4),
        "aian_area": (1, 25, 1),
        "tract": (250, 1, 1),
    }
    assert figures["county_subdivision"].farther == 0
    for category in ("place", "county_subdivision", "aian_area"):
        assert figures[category].deviation_after < figures[category].deviation_before
    assert report.blocks == 25_649
    assert [path.blocks for path in report.paths] == [25_600, 24, 14, 10, 1]
