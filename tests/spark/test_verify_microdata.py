"""The microdata of a whole small run pass, and every corruption that is planted in the files is caught."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from verified_run import BLOCKS, CELL, PRODUCT, failing, leaf_frame

from das_spark.errors import VerificationError
from das_spark.io.microdata_digest import microdata_parts
from das_spark.io.microdata_files import MicrodataWriting
from das_spark.io.record_weights import RecordWeights
from das_spark.products import microdata_codes
from das_spark.spark.checks import judge
from das_spark.spark.microdata import write_digest, write_microdata
from das_spark.spark.verify_microdata import MicrodataTables, microdata_rules, part_checks
from das_spark.store import PublicLayout, Staging, part_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CODES = microdata_codes(PRODUCT)
NAMES = {kind: tuple(rules) for kind, rules in CODES.forms["text"].rules.items()}
Change = Callable[[pd.DataFrame], pd.DataFrame | None]


@dataclass
class Files:
    """Microdata files that a test may spoil, and their verification."""

    run: object
    layout: PublicLayout

    def spoil(self, kind: str, change: Change, format: str = "parquet") -> None:
        """Change the records of every part, with all codes as texts."""
        for path in part_files(self.layout.microdata(kind, format)):
            if format == "parquet":
                table = pq.ParquetFile(path).read()
                changed = change(pd.DataFrame(table.to_pydict()))
                pq.write_table(pa.table(changed.to_dict("list"), table.schema), path)
            else:
                records = pd.read_csv(path, sep="|", header=None, names=list(NAMES[kind]), dtype=str)
                for number in ("EUID", "EPNUM", "FINAL_POP"):
                    if number in records:
                        records[number] = records[number].astype(int)
                change(records).to_csv(path, sep="|", header=False, index=False)

    def checks(self, formats=("parquet",), *, units: bool = True):
        parts = microdata_parts(self.layout, formats, units=units)
        codes = CODES if units else microdata_codes(PRODUCT, units=False)
        digest = write_digest(self.run.spark, parts, codes, self.layout.path / "digest")
        of_units = digest.units if units else None
        made = MicrodataTables(digest.persons, of_units, digest.parts, digest.faults, tuple(formats), digest.weights)
        return judge(microdata_rules(made, self.run.tables)) + part_checks(made)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    layout = PublicLayout(tmp_path_factory.mktemp("public"))
    leaf, invariants = (leaf_frame(run.tables, table) for table in ("estimates", "invariants"))
    staging = Staging(layout.path / ".staging")
    write_microdata(MicrodataWriting(PRODUCT, layout, ["parquet", "text"], staging, "now"), leaf, invariants)
    return layout


@pytest.fixture
def files(run, written, tmp_path):
    shutil.copytree(written.path, tmp_path / "public")
    return Files(run, PublicLayout(tmp_path / "public"))


def replaced(column: str, value: object, where: Callable[[pd.DataFrame], pd.Series]) -> Change:
    def change(records: pd.DataFrame) -> pd.DataFrame:
        number = pd.api.types.is_integer_dtype(records[column])
        records.loc[where(records), column] = int(str(value)) if number else value
        return records

    return change


def test_the_microdata_of_a_whole_run_pass_in_both_formats(files):
    checks = files.checks(("parquet", "text"))
    assert [check for check in checks if not check.passed] == []
    assert len(checks) == 14
    assert {(check.name, check.note): check.checked for check in checks} == {
        (name, f"{format} files"): checked
        for format in ("parquet", "text")
        for name, checked in (
            ("microdata equal estimates", 6 + 3),
            ("units equal invariants", 6),
            ("unit populations", 3),
            ("persons in units", 11),
            ("order of records", 14),
            ("unit numbers", 11),
            ("columns of microdata", sum(map(len, NAMES.values()))),
        )
    }


def test_a_fault_in_one_format_is_told_of_in_that_format_alone(files):
    files.spoil("person", replaced("CENRACE", "63", lambda rows: rows.QAGE.astype(str) == "17"), "text")
    checks = files.checks(("parquet", "text"))
    wrong = [check for check in checks if not check.passed]
    assert [(check.name, check.note, check.failing) for check in wrong] == [
        ("microdata equal estimates", "text files", (BLOCKS[0],))
    ]


@pytest.mark.parametrize("format", ["parquet", "text"])
@pytest.mark.parametrize(
    ("column", "value", "where"),
    [
        ("CENRACE", "63", lambda rows: rows.QAGE.astype(str) == "17"),
        ("QAGE", "17", lambda rows: rows.RTYPE == "5"),
        ("RTYPE", "3", lambda rows: rows.RTYPE == "5"),
        ("CENHISP", "unknown", lambda rows: rows.QAGE.astype(str) == "17"),
    ],
)
def test_a_person_with_another_code_is_caught(files, column, value, where, format):
    files.spoil("person", replaced(column, value, where), format)
    checks = files.checks((format,))
    assert "microdata equal estimates" in failing(checks)
    assert all(check.failing for check in checks if not check.passed)


def test_a_prisoner_in_a_nursing_home_is_caught_though_the_person_codes_agree(files):
    """Block 3 has a prison unit and two nursing homes; adults of the same race live in both."""
    swapped = {"101": "301", "301": "101"}
    files.spoil("unit", lambda rows: rows.assign(GQTYPE=rows.GQTYPE.replace(swapped)))
    checks = files.checks()
    assert {"microdata equal estimates", "units equal invariants", "unit populations"} <= failing(checks)


@pytest.mark.parametrize("format", ["parquet", "text"])
@pytest.mark.parametrize("corruption", ["missing", "twice", "moved"])
def test_a_person_that_is_missing_twice_or_elsewhere_is_caught(files, corruption, format):
    def change(rows: pd.DataFrame) -> pd.DataFrame:
        one = (rows.EUID == 0) & (rows.EPNUM == 1)
        if corruption == "moved":
            return replaced("TABBLK", "1002", lambda _: one)(rows)
        return rows[~one] if corruption == "missing" else pd.concat([rows, rows[one]])

    files.spoil("person", change, format)
    checks = files.checks((format,))
    assert {"microdata equal estimates", "persons in units"} <= failing(checks)
    assert BLOCKS[0] in checks[0].failing


def test_people_who_change_places_between_cells_are_caught_though_every_number_is_right(files):
    """Records of two cells of a geounit are exchanged in number: totals, units and populations stay as they are."""
    cells = {CELL["adult"]: 2, CELL["child"]: 3, CELL["prison"]: 4}
    tables = files.run.with_blocks({BLOCKS[0]: cells})
    checks = Files(type(files.run)(files.run.spark, tables), files.layout).checks()
    assert failing(checks) == {"microdata equal estimates"}


def test_a_count_too_large_to_be_weighed_fails_its_geounit(files):
    tables = files.run.with_blocks({BLOCKS[0]: {CELL["adult"]: 1 << 60, CELL["prison"]: 4}})
    checks = Files(type(files.run)(files.run.spark, tables), files.layout).checks()
    assert [check.failing for check in checks if check.name == "microdata equal estimates"] == [(BLOCKS[0],)]


def test_a_person_in_a_unit_of_another_part_is_caught_though_there_is_such_a_unit(files):
    assert len(part_files(files.layout.microdata("unit", "parquet"))) == 2
    files.spoil("person", replaced("EUID", 8, lambda rows: (rows.EUID == 0) & (rows.EPNUM == 1)))
    checks = files.checks()
    (check,) = [check for check in checks if check.name == "persons in units"]
    assert check.failing == (BLOCKS[0],)


@pytest.mark.parametrize("corruption", ["missing", "vacant lost", "became vacant", "unknown code"])
def test_units_that_differ_from_the_invariants_are_caught(files, corruption):
    def second(rows: pd.DataFrame) -> pd.Series:
        return rows.EUID == 1

    change: Change = {
        "missing": lambda rows: rows[rows.EUID != 1],
        "vacant lost": lambda rows: rows[rows.VACS != "9"],
        "became vacant": lambda rows: replaced("TEN", "0", second)(replaced("VACS", "9", second)(rows)),
        "unknown code": replaced("GQTYPE", "777", second),
    }[corruption]
    files.spoil("unit", change)
    checks = files.checks()
    assert "units equal invariants" in failing(checks)
    assert BLOCKS[0] in next(check for check in checks if check.name == "units equal invariants").failing


def test_populations_that_do_not_sum_or_do_not_fit_the_persons_are_caught(files):
    files.spoil("unit", lambda rows: rows.assign(FINAL_POP=rows.FINAL_POP + (rows.EUID == 0)))
    assert {"unit populations", "persons in units"} <= failing(files.checks())


@pytest.mark.parametrize("population", [1, -1])
def test_people_of_vacant_units_are_caught(files, population):
    files.spoil("unit", replaced("FINAL_POP", population, lambda rows: rows.VACS == "9"))
    assert {"unit populations", "persons in units"} <= failing(files.checks())


def test_people_that_one_vacant_unit_has_and_another_lacks_are_caught_though_the_sum_is_right(files):
    files.spoil("unit", replaced("FINAL_POP", 5, lambda rows: (rows.VACS == "9") & (rows.EUID == 4)))
    files.spoil("unit", replaced("FINAL_POP", -5, lambda rows: (rows.VACS == "9") & (rows.EUID == 5)))
    checks = files.checks()
    assert next(check for check in checks if check.name == "unit populations").failing == (BLOCKS[1],)


@pytest.mark.parametrize(
    ("corruption", "named"), [("repeated", BLOCKS[0]), ("skipped", BLOCKS[2]), ("beyond", BLOCKS[2])]
)
def test_unit_numbers_that_are_not_running_are_caught(files, corruption, named):
    change: Change = {
        "repeated": replaced("EUID", 2, lambda rows: (rows.VACS == "9") & (rows.EUID == 3)),
        "skipped": lambda rows: rows.assign(EUID=rows.EUID + (rows.EUID >= 7)),
        "beyond": replaced("EUID", 999_999_999, lambda rows: rows.EUID == 10),
    }[corruption]
    files.spoil("unit", change)
    (check,) = [check for check in files.checks() if check.name == "unit numbers"]
    assert not check.passed
    assert named in check.failing


@pytest.mark.parametrize(
    "numbers",
    [{2: 1}, {1: 2, 2: 2}, {2: 0}, {2: 100_000}],
    ids=["two of a number", "no first", "number zero", "number beyond"],
)
def test_person_numbers_that_are_not_running_are_caught(files, numbers):
    def change(rows: pd.DataFrame) -> pd.DataFrame:
        one = rows.EUID == 2  # the prison of four
        return rows.assign(EPNUM=rows.EPNUM.where(~one, rows.EPNUM.replace(numbers)))

    files.spoil("person", change)
    (check,) = [check for check in files.checks() if check.name == "persons in units"]
    assert check.failing == (BLOCKS[0],)


def test_person_numbers_with_the_right_ends_and_sum_are_caught(files):
    """1, 1, 4, 4 in the place of 1, 2, 3, 4: least, greatest, number and sum are those of a whole unit."""
    swapped = {2: 1, 3: 4}

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(EPNUM=rows.EPNUM.where(rows.EUID != 2, rows.EPNUM.replace(swapped)))

    files.spoil("person", change)
    # Their numbers say in which turn people were given to the units, and so in which order they stand.
    assert failing(files.checks()) == {"persons in units", "order of records"}


@pytest.mark.parametrize("format", ["parquet", "text"])
@pytest.mark.parametrize("kind", ["person", "unit"])
def test_a_part_that_cannot_be_read_or_is_missing_fails_by_its_name(files, kind, format):
    path = part_files(files.layout.microdata(kind, format))[0]
    path.write_bytes(path.read_bytes()[:-7])
    rule = {"person": "microdata equal estimates", "unit": "unit numbers"}[kind]
    for _ in ("cut", "missing"):
        checks = files.checks((format,))
        found = {check.name: check for check in checks}
        assert f"({path.name} cannot be read)" in found[rule].failing
        path.unlink(missing_ok=True)


def test_no_files_at_all_is_no_success(files):
    for kind in ("person", "unit"):
        shutil.rmtree(files.layout.microdata(kind, "parquet"))
    assert failing(files.checks()) == {
        "microdata equal estimates",
        "units equal invariants",
        "unit populations",
        "persons in units",
        "unit numbers",
        "columns of microdata",
        "order of records",
    }


def test_units_without_any_table_of_invariants_cannot_be_verified(files):
    bare = type(files.run)(
        files.run.spark,
        type(files.run.tables)(files.run.tables.levels, files.run.tables.geounits, files.run.tables.estimates),
    )
    with pytest.raises(VerificationError, match="invariants"):
        Files(bare, files.layout).checks()


@pytest.mark.parametrize("format", ["parquet", "text"])
def test_without_units_persons_are_compared_as_far_as_their_codes_tell(run, tmp_path, format):
    layout = PublicLayout(tmp_path)
    leaf, staging = leaf_frame(run.tables, "estimates"), Staging(tmp_path / ".staging")
    write_microdata(MicrodataWriting(PRODUCT, layout, [format], staging, "now"), leaf, None)
    files = Files(run, layout)
    checks = files.checks((format,), units=False)
    assert [(check.name, check.passed, check.checked) for check in checks] == [
        ("microdata equal estimates", True, 9),
        ("columns of microdata", True, len(NAMES["person"])),
        ("order of records", True, 14),
    ]
    files.spoil("person", lambda rows: rows.iloc[:-1], format)
    assert failing(files.checks((format,), units=False)) == {"microdata equal estimates"}


def test_a_digest_leaves_the_files_as_they_were(files):
    before = {path: path.read_bytes() for path in Path(files.layout.path).rglob("part-*")}
    files.checks(("parquet", "text"))
    assert {path: path.read_bytes() for path in before} == before


def test_a_fault_of_a_rule_that_nobody_knows_is_not_lost_in_silence():
    fault = {"format": "parquet", "rule": "persons in unit", "geocode": BLOCKS[0]}
    made = MicrodataTables(None, "given", (), (fault,), ("parquet",), RecordWeights.drawn(CODES, by_kind=True))
    with pytest.raises(VerificationError, match="unknown rule: 'persons in unit'"):
        part_checks(made)
