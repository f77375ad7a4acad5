"""The exam that every reader takes, and that no module of readers escapes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings, SimulateSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.spark.readers import READERS, reader
from das_spark.spark.readers import look as look_at_input
from das_spark.spark.tables import LEAVES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.spark.readers import IngestedTables


pytestmark = pytest.mark.spark
PRODUCT = {
    "ipums_1940": "e2e_1940",
    "cef_2020": "pl94_2020_person",
    "pl94_summary": "e2e_2018",
    "tidy_counts": "e2e_1940",
    "tidy_records": "e2e_1940",
    "published_tables": "e2e_1940",
    "simulated": "e2e_2018",
}
OF_FILES = [name for name in READERS if name != "simulated"]
A, B = "5300100001", "5300100002"


def _tables(reader: str, folder: Path, persons: dict, units: dict) -> InputSettings:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(persons), folder / "persons.parquet")
    pq.write_table(pa.table(units), folder / "units.parquet")
    return InputSettings(reader=reader, path=str(folder))


@pytest.fixture
def valid(tmp_path: Path, ipums: type, cef: type, official: object) -> Callable[[str], InputSettings]:
    """Settings of a small valid input: two geounits, one of them without people."""

    def make(name: str) -> InputSettings:  # noqa: PLR0911 - one a reader
        attributes = {"hhgq": [0], "age18plus": [1], "hispanic": [0], "race": [0]}
        if name == "ipums_1940":
            path = tmp_path / "census.dat"
            path.write_text("\n".join([ipums.household(1, A), ipums.person(1), ipums.household(2, B, "0")]) + "\n")
            return InputSettings(reader=name, path=str(path))
        if name == "cef_2020":
            blocks = [cef.block(f"440070001001100{place}", place) for place in (0, 1)]
            folder = cef.write(tmp_path / "cef", [cef.person(200000000, 1)], [cef.unit(200000000, 0, pop=1)], blocks)
            return InputSettings(reader=name, path=str(folder))
        if name == "pl94_summary":
            official.block("530010001001000", {(1, 0, 0): 1}, housing=(1, 0))
            official.block("530010001001001")
            return InputSettings(reader=name, path=str(official.write(tmp_path / "official")))
        if name == "tidy_counts":
            units = {"geocode": [A, B], "hhgq": [0, 0], "units": [1, 0]}
            return _tables(name, tmp_path / "t", {"geocode": [A], **attributes, "count": [1]}, units)
        if name == "tidy_records":
            units = {"unit": [1, 2], "geocode": [A, B], "hhgq": [0, 0], "vacant": [0, 1]}
            return _tables(name, tmp_path / "r", {"unit": [1], **attributes}, units)
        if name == "published_tables":
            units = {"geocode": [A, B], "hhgq": [0, 0], "units": [1, 0]}
            made = _tables(name, tmp_path / "p", {"geocode": [A, B], "Adults": [1, 0]}, units)
            cell = {"column": "Adults", "levels": {name: attribute[0] for name, attribute in attributes.items()}}
            return InputSettings(reader=name, path=made.path, cells=[cell])
        return InputSettings(reader=name, simulate=SimulateSettings(seed=1))

    return make


@pytest.fixture
def look(of_product: Callable) -> Callable[[InputSettings], None]:
    """The look without Spark, which is not even there."""
    return lambda settings: look_at_input(settings, *of_product(PRODUCT[settings.reader]))


@pytest.fixture(params=["look", "read"])
def door(request: pytest.FixtureRequest) -> Callable[[InputSettings], object]:
    """Both ways in."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def read(spark: SparkSession, of_product: Callable) -> Callable[[InputSettings], IngestedTables]:
    return lambda settings: READERS[settings.reader].read(spark, settings, *of_product(PRODUCT[settings.reader]))


def test_the_exam_knows_every_reader() -> None:
    assert set(PRODUCT) == set(READERS)
    assert all(READERS[name].name == name for name in READERS)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_the_leaves_with_their_types(
    name: str, valid: Callable, read: Callable, of_product: Callable
) -> None:
    tables = read(valid(name))
    product, spine = of_product(PRODUCT[name])
    kinds = {field.name: field.dataType for field in tables.leaves.schema.fields}
    assert kinds == {field.name: field.dataType for field in LEAVES.fields}
    leaves = tables.leaves.collect()
    codes = [row["geocode"] for row in leaves]
    assert len(set(codes)) == len(codes) >= 2
    assert all(len(code) == spine.leaf.length and code.isdigit() for code in codes)
    assert all(len(row["units"]) == len(product.unit_classes) for row in leaves)
    cells = [cell for row in leaves for cell in row["cells"]]
    assert cells
    assert all(0 <= cell < product.schema.size for cell in cells)
    assert all(row["cells"] == sorted(set(row["cells"])) for row in leaves)
    assert all(count > 0 for row in leaves for count in row["counts"])


@pytest.fixture
def kept(spark: SparkSession) -> Callable[[], set[int]]:
    """What Spark keeps at the moment."""
    return lambda: set(spark.sparkContext._jsc.getPersistentRDDs())


@pytest.mark.parametrize("name", READERS)
@pytest.mark.slow
def test_nothing_confidential_is_kept_longer_than_it_is_used(
    name: str, valid: Callable, read: Callable, contents: Callable, kept: Callable
) -> None:
    before = kept()
    tables = read(valid(name))
    found = contents(tables)
    tables.release()
    assert kept() <= before
    assert contents(tables) == found, "it can be computed again"


@pytest.mark.parametrize("name", READERS)
def test_reading_twice_gives_the_same(name: str, valid: Callable, read: Callable, contents: Callable) -> None:
    settings = valid(name)
    assert contents(read(settings)) == contents(read(settings))


@pytest.mark.parametrize("name", OF_FILES)
def test_a_missing_file_is_named(name: str, door: Callable, tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    for settings in (
        InputSettings(reader=name, path=missing),
        InputSettings(reader=name, persons=missing, units=missing),
    ):
        if settings.path or name.startswith("tidy"):
            with pytest.raises(InputError, match="no such file or folder") as caught:
                door(settings)
            assert missing in str(caught.value)
            assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", OF_FILES)
def test_an_empty_folder_is_refused(name: str, door: Callable, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no file"):
        door(InputSettings(reader=name, path=str(tmp_path / "empty")))


@pytest.mark.parametrize("name", OF_FILES)
def test_a_reader_without_a_path_says_which_key_it_needs(name: str, door: Callable) -> None:
    with pytest.raises(ConfigurationError, match=r"input\.(path|persons)"):
        door(InputSettings(reader=name))


@pytest.mark.parametrize("name", OF_FILES)
def test_a_file_of_rubbish_is_refused(name: str, valid: Callable, door: Callable, kept: Callable) -> None:
    settings = valid(name)
    for file in files_of(settings):
        file.write_bytes(b"\x00\xff secret \x80" * 50)
    before = kept()
    with pytest.raises(InputError) as caught:
        door(settings)
    assert "secret" not in str(caught.value)
    assert kept() <= before


def files_of(settings: InputSettings) -> list[Path]:
    place = Path(settings.path)
    return [place] if place.is_file() else sorted(place.iterdir())


@pytest.mark.parametrize("name", READERS)
def test_a_valid_input_is_passed_by_the_look(name: str, valid: Callable, look: Callable) -> None:
    look(valid(name))


#: What can happen to a file on its way.
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "compressed under its own name": gzip.compress,
    "UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "emptied": lambda _: b"",
    "another file": lambda _: b"MAFID;secret\n4711;31337\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", OF_FILES)
def test_a_look_finds_each_damaged_file_and_quotes_nothing(
    name: str, valid: Callable, look: Callable, damage: str
) -> None:
    settings = valid(name)
    for file in files_of(settings):
        content = file.read_bytes()
        file.write_bytes(DAMAGE[damage](content))
        with pytest.raises(InputError) as caught:
            look(settings)
        said = f"{caught.value} {caught.value.hint}"
        assert str(file) in said
        assert not {"secret", "31337"} & set(re.split(r"\W", said))
        file.write_bytes(content)
    look(settings)


@pytest.mark.parametrize("name", OF_FILES)
def test_a_folder_of_other_files_is_not_passed(name: str, look: Callable, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("The files were here.")
    with pytest.raises((InputError, ConfigurationError)):
        look(InputSettings(reader=name, path=str(tmp_path)))


@pytest.mark.parametrize("name", ["tidy_counts", "tidy_records"])
@pytest.mark.parametrize("table", ["persons", "units"])
def test_a_table_without_a_row_or_a_column_is_not_passed(
    name: str, table: str, valid: Callable, look: Callable
) -> None:
    settings = valid(name)
    file = Path(settings.path) / f"{table}.parquet"
    whole = pq.read_table(file)
    pq.write_table(whole.slice(0, 0), file)
    with pytest.raises(InputError, match="the table has no rows, so"):
        look(settings)
    # Vacant units are none without their column; of a person in a unit the class is that of the unit.
    needless = {"vacant", "hhgq"} if (name, table) == ("tidy_records", "persons") else {"vacant"}
    for column in set(whole.column_names) - needless:
        pq.write_table(whole.drop_columns(column), file)
        with pytest.raises(InputError, match=rf"{table}\.parquet: no column"):
            look(settings)


def test_an_unknown_reader_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError) as caught:
        reader("tidy_count")
    assert "tidy_counts" in caught.value.hint
