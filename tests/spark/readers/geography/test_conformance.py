"""Every reader of geography: registered, documented, and the same three blocks out of all of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import das_spark.spark.readers as room
from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import ENTITY_COLUMNS
from das_spark.spark.readers import GEOGRAPHY_READERS, READERS, geography_reader, look_at_crosswalk

pytestmark = pytest.mark.slow


def test_every_class_that_reads_is_registered_under_its_name():
    found = set()
    for module in pkgutil.iter_modules(room.__path__):
        if module.name.startswith("_") or module.name == "base":
            continue
        members = inspect.getmembers(importlib.import_module(f"{room.__name__}.{module.name}"), inspect.isclass)
        found |= {kind for _, kind in members if kind.__module__.endswith(f".{module.name}") and hasattr(kind, "read")}
    assert found == {type(reader) for reader in (*READERS.values(), *GEOGRAPHY_READERS.values())}
    assert all(reader.name == name and type(reader).__doc__ for name, reader in GEOGRAPHY_READERS.items())


def test_an_unknown_name_is_answered_by_the_nearest():
    with pytest.raises(ConfigurationError, match=r"no reader of geography is called 'grf_c'.*'grfc'"):
        geography_reader("grf_c")


@pytest.fixture
def written(tmp_path, grfc, assignment, header, tidy):
    """Name of the reader -> the same geography in its files."""
    return {
        "grfc": grfc.write(tmp_path / "geography.txt"),
        "block_assignment": assignment.write(tmp_path / "assignment"),
        "pl94_header": header.write(tmp_path / "header"),
        "tidy": tidy.write(tmp_path / "blocks.csv"),
    }


@pytest.mark.spark
@pytest.mark.parametrize("name", GEOGRAPHY_READERS)
def test_all_readers_give_the_same_blocks(spark, written, contents, expected, name):
    found = GEOGRAPHY_READERS[name].read(spark, str(written[name]))
    assert found.blocks.columns == ["geocode", *ENTITY_COLUMNS]
    assert contents(found) == expected
    assert bool(found.notes) == (name in ("block_assignment", "pl94_header"))


@pytest.mark.spark
@pytest.mark.parametrize("name", GEOGRAPHY_READERS)
def test_a_missing_file_is_named(spark, tmp_path, name):
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        GEOGRAPHY_READERS[name].read(spark, str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", GEOGRAPHY_READERS)
def test_all_readers_look_at_how_their_files_begin_without_spark(written, name):
    GEOGRAPHY_READERS[name].look(str(written[name]))


@pytest.mark.parametrize("name", GEOGRAPHY_READERS)
def test_looking_names_a_missing_file(tmp_path, name):
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        GEOGRAPHY_READERS[name].look(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", GEOGRAPHY_READERS)
def test_looking_finds_files_of_another_kind(written, name):
    place = written[name]
    for file in [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]:
        file.write_text("first,second\n1,2\n")
    with pytest.raises(InputError, match=r"no column|columns in its first line"):
        GEOGRAPHY_READERS[name].look(str(place))


def test_a_crosswalk_is_looked_at(tmp_path):
    file = tmp_path / "crosswalk.csv"
    for text, said in (
        ("geocode,primitive\n", ""),
        ("geocode,area\n", "no column 'primitive'"),
        ("x,prim\n", "geocode"),
    ):
        file.write_text(text)
        if said:
            with pytest.raises(InputError, match=said):
                look_at_crosswalk(str(file))
        else:
            look_at_crosswalk(str(file))
