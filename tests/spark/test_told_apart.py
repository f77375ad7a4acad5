"""Microdata of households with what the product of units has published: written by Spark, read back and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.io.microdata_digest import microdata_parts
from das_spark.io.microdata_files import MicrodataWriting
from das_spark.products import HOUSEHOLD_TYPES, PRODUCTS, microdata_codes
from das_spark.spark.checks import judge
from das_spark.spark.microdata import write_digest, write_microdata
from das_spark.spark.told_apart import DIVIDED, VACANT, told_apart
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_microdata import MicrodataTables, microdata_rules, part_checks
from das_spark.store import PublicLayout, Staging, part_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HOUSEHOLD, PERSONS = PRODUCTS["dhc_2020_household"], PRODUCTS["dhc_2020_person"]
BLOCKS = ("4400700010011001", "4400700020022001", "4500100030000007")
ALONE = next(place for place, each in enumerate(HOUSEHOLD_TYPES) if each.alone)
#: Of each block: households by tenure, and by tenure and vacancy what was published; facilities of the first type.
TENURES = ((1, 0, 3), (0, 0, 0), (0, 2, 1))
PUBLISHED = ({0: 1, 2: 1, 3: 2, 4: 2, 10: 1}, {8: 1}, {1: 2, 2: 1})
FACILITIES = (2, 0, 1)


class Written:
    def __init__(self, spark, path: Path) -> None:
        keys = "level string, geocode string, parent string"
        estimates, declared, published = [], [], []
        for block, tenures, units, facilities in zip(BLOCKS, TENURES, PUBLISHED, FACILITIES, strict=True):
            place = ("Block", block, block[:12])
            found = {
                int(HOUSEHOLD.schema.ravel([[0, 0, 0, 0, 0, tenure, ALONE]])[0]): number
                for tenure, number in enumerate(tenures)
                if number
            }
            estimates.append((*place, list(found), list(found.values())))
            published.append((*place, list(units), list(units.values())))
            declared.append((*place, "units", [sum(units.values()), facilities, *[0] * 23]))
        histograms = f"{keys}, cells array<int>, counts array<long>"
        self.spark, self.layout = spark, PublicLayout(path)
        self.estimates = spark.createDataFrame(estimates, histograms)
        self.published = spark.createDataFrame(published, histograms)
        self.declared = spark.createDataFrame(declared, f"{keys}, name string, values array<long>")
        writing = MicrodataWriting(HOUSEHOLD, self.layout, ("parquet", "text"), Staging(path / ".staging"), "now")
        self.files = write_microdata(writing, self.estimates, self.declared, self.published)

    def paths(self) -> list[Path]:
        return part_files(self.layout.microdata("household", "text"))

    def failing(self) -> set[str]:
        codes = microdata_codes(HOUSEHOLD)
        parts = microdata_parts(self.layout, ("parquet", "text"), units=False, record="household")
        digest = write_digest(self.spark, parts, codes, self.layout.path / "digest")
        told = told_apart(self.published, HOUSEHOLD)
        made = MicrodataTables(
            digest.persons, None, digest.parts, digest.faults, ("parquet", "text"), digest.weights, told
        )
        tables = RunTables(("Block",), self.estimates, self.estimates, self.declared)
        checks = judge(microdata_rules(made, tables)) + part_checks(made)
        return {f"{check.name}: {check.note}" for check in checks if not check.passed}


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory) -> Written:
    return Written(spark, tmp_path_factory.mktemp("households"))


def test_tenure_and_vacancy_of_every_block_are_those_that_were_published(written):
    lines = [line.split("|") for path in sorted(written.paths()) for line in path.read_text().splitlines()]
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault("".join(line[2:7]), []).append("".join(line[7:11]))
    assert found == {
        BLOCKS[0]: ["200010", "200030", "200040", "200040", "410100", "410100", "200001", "200001", "200007"],
        BLOCKS[1]: ["200005"],
        BLOCKS[2]: ["200020", "200020", "200030", "410100"],
    }
    assert [(file.format, file.rows) for file in written.files] == [("parquet", 14), ("text", 14)]


def test_what_was_published_is_told_by_block(written):
    rows = told_apart(written.published, HOUSEHOLD).orderBy("geocode").collect()
    assert [(row["geocode"], row[VACANT], row[DIVIDED]) for row in rows] == [
        (BLOCKS[0], [2, 0, 0, 0, 0, 0, 1], 2),
        (BLOCKS[1], [0, 0, 0, 0, 1, 0, 0], 0),
        (BLOCKS[2], [0] * 7, 0),
    ]
    assert told_apart(written.published, PERSONS) is None


def test_what_was_written_is_verified_and_another_code_is_found(written):
    assert written.failing() == set()
    path = next(path for path in written.paths() if "|2|000|4|" in path.read_text())
    good = path.read_text()
    changes = {
        "rent": ("|2|000|4|0|", "|2|000|3|0|"),
        "no rent": ("|2|000|3|0|", "|2|000|4|0|"),
        "owner without rent": ("|2|000|1|0|", "|2|000|4|0|"),
        "vacancy": ("|2|000|0|7|", "|2|000|0|6|"),
        "type": ("|4|101|", "|4|102|"),
    }
    for case, (old, new) in changes.items():
        assert old in good
        path.write_text(good.replace(old, new, 1))
        assert written.failing() == {"microdata equal estimates: text files"}, case
    path.write_text(good)
