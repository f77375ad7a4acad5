"""A folder is read only if everything in it is understood; what is odd is named; nothing is counted twice, or lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from das_spark.errors import InputError
from das_spark.io.table_folder import named_files, table_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of two parts, as Spark writes it."""
    table = tmp_path / "persons"
    table.mkdir()
    for name in ("part-0.csv", "part-1.csv", "_SUCCESS", ".part-0.csv.crc", "._SUCCESS.crc"):
        (table / name).write_text("geocode\n")
    return table


def names(path: Path | str) -> list[str]:
    return [os.path.relpath(file.path, path) for file in table_files(str(path))]


def test_parts_are_listed_in_order_and_marks_are_passed_over(folder):
    for name in ("_metadata", "_common_metadata", "_committed_7", "_started_7", ".DS_Store", "Thumbs.db"):
        (folder / name).touch()
    assert names(folder) == ["part-0.csv", "part-1.csv"]


def test_a_file_is_a_table_whatever_it_is_called(tmp_path):
    for name in ("a (copy).csv", ".hidden", "b[1].parquet", "c{1,2}.csv", "d*.csv"):
        (tmp_path / name).touch()
        assert [file.path for file in table_files(str(tmp_path / name))] == [str(tmp_path / name)]


def test_paths_are_absolute(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert [file.path for file in table_files("part-0.csv")] == [str(folder / "part-0.csv")]


@pytest.mark.parametrize("name", ["census[12]", "census{1,2}", "census*", "census?"])
def test_no_character_of_a_path_is_a_pattern(tmp_path, name):
    for each in ("census1", "census2"):
        (tmp_path / each).mkdir()
        (tmp_path / each / "a.csv").touch()
    with pytest.raises(InputError, match="no such file or folder") as caught:
        table_files(str(tmp_path / name))
    assert ("no pattern" in caught.value.hint) == (name != "census{1,2}")
    (tmp_path / name).mkdir()
    (tmp_path / name / "own.csv").touch()
    assert names(tmp_path / name) == ["own.csv"]


ODD = {
    "part-0.csv~": "no parts of it",
    "part-0.csv.bak": "no parts of it",
    ".part-1.csv.X7f3Qa": "no parts of it",
    "part-1.csv.tmp": "no parts of it",
    "persons.txt": "no parts of it",
    "README.md": "no parts of it",
    "part-2": "no parts of it",
    "_part-2.csv": "hidden files",
    ".part-2.csv": "hidden files",
    "part-2.parquet": "both CSV and Parquet files",
    "old/part-0.csv": "files beside folders",
    "state=44/part-0.csv": "files beside folders",
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_in_a_folder_is_named(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    with pytest.raises(InputError, match=ODD[name]) as caught:
        table_files(str(folder))
    assert "parquet" in name or repr(name.split("/")[0]) in caught.value.message


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (["old/a.csv"], "folders that are no parts of it"),
        (["state=44/a.csv", "state=45/b.csv", "README"], "files beside folders"),
        (["state=44/a.csv", "year=2020/b.csv"], "folders of several kinds"),
        (["state=44/a.csv", "state=45/county=1/b.csv"], "folders of several kinds"),
        (["state=44/a.csv", "state=45/b.parquet"], "both CSV and Parquet files"),
        (["state=44/old/a.csv"], "folders that are no parts of it"),
        ([], "holds no file"),
        (["_SUCCESS"], "holds no file"),
    ],
)
def test_folders_of_parts_are_alike(tmp_path, made, said):
    table = tmp_path / "table"
    table.mkdir()
    for name in made:
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).touch()
    with pytest.raises(InputError, match=said):
        table_files(str(table))


def test_the_names_of_folders_are_columns_of_text(tmp_path):
    table = tmp_path / "table"
    for name in ("state=01/county=a%2Fb", "state=__HIVE_DEFAULT_PARTITION__/county="):
        (table / name).mkdir(parents=True)
        (table / name / "part-0.parquet").touch()
    assert {file.partition for file in table_files(str(table))} == {
        (("state", "01"), ("county", "a/b")),
        (("state", None), ("county", "")),
    }


def test_links_may_not_lead_out_of_the_folder(folder, tmp_path):
    (tmp_path / "other.csv").touch()
    (folder / "part-2.csv").symlink_to(tmp_path / "other.csv")
    with pytest.raises(InputError, match=r"links that lead out of it: 'part-2\.csv'"):
        table_files(str(folder))


def test_a_folder_may_be_a_link_itself(folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    assert [Path(file.path).name for file in table_files(str(tmp_path / "latest"))] == ["part-0.csv", "part-1.csv"]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Files of two states, as they are unpacked, with what else lies there."""
    for name in ("ri/RIgeo2020.PL", "wa/wageo2020.pl", "wa/wa000012020.pl", "README.md", "wa/.wageo2020.pl.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_files_of_a_release_are_found_by_their_names(release):
    found = named_files(str(release), ["??geo*.pl"])
    assert [os.path.relpath(path, release) for path in found] == ["ri/RIgeo2020.PL", "wa/wageo2020.pl"]


@pytest.mark.parametrize(
    "name",
    [
        "wa/.wageo2020.pl",
        "wa/._wageo2020.pl",
        "orgeo2020.pl~",
        "orgeo2020.pl.part",
        ".or/orgeo2020.pl",
        "_orgeo2020.pl",
    ],
)
def test_what_looks_like_a_file_of_a_release_and_is_odd_is_named(release, name):
    (release / name).parent.mkdir(exist_ok=True)
    (release / name).touch()
    with pytest.raises(InputError, match=f"hidden, copies, half written, packed, or elsewhere: '{name}'"):
        named_files(str(release), ["??geo*.pl"])


def test_a_file_of_a_release_that_lies_elsewhere_is_named(release, tmp_path_factory):
    (release / "orgeo2020.pl").symlink_to(tmp_path_factory.mktemp("other") / "orgeo2020.pl")
    with pytest.raises(InputError, match=r"elsewhere: 'orgeo2020\.pl'"):
        named_files(str(release), ["??geo*.pl"])


def test_a_folder_of_a_release_must_be_one(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        named_files(str(tmp_path / "a"), ["*"])
    with pytest.raises(InputError, match="the folder holds no file"):
        named_files(str(tmp_path), ["*"])
    (tmp_path / "a").touch()
    with pytest.raises(InputError, match="a folder is expected, not a file"):
        named_files(str(tmp_path / "a"), ["*"])
