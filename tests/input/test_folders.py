"""Folders of tables as they are delivered: all parts, each once; what is odd is named, and nothing is read then."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError

A, B, C = "5300100001", "5300100002", "5300100003"
HEADERS = {
    "persons": "geocode,hhgq,age18plus,hispanic,race,count",
    "units": "geocode,hhgq,units",
    "geography": "geocode",
}
PARTS = {
    "persons": [f"{A},0,0,0,0,3\n{A},0,1,1,5,4\n", f"{B},7,1,0,2,5\n"],
    "units": [f"{A},0,2\n{A},7,0\n", f"{B},7,1\n"],
    "geography": [f"{A}\n{B}\n", f"{C}\n"],
}
EXPECTED = {
    A: ({0: 3, 23: 4}, [2, 0, 0, 0, 0, 0, 0, 0], 0),
    B: ({182: 5}, [0, 0, 0, 0, 0, 0, 0, 1], 0),
    C: ({}, [0] * 8, 0),
}


def parts(table: str) -> list[str]:
    return [f"{HEADERS[table]}\n{rows}" for rows in PARTS[table]]


def deliver(folder: Path, table: str = "") -> Path:
    """Write all tables, one of them as a folder of two parts, and return it."""
    for name in HEADERS:
        one, two = parts(name)
        if name == table:
            (folder / f"{name}.csv").mkdir()
            (folder / f"{name}.csv" / "part-0.csv").write_text(one)
            (folder / f"{name}.csv" / "part-1.csv").write_text(two)
        else:
            (folder / f"{name}.csv").write_text(one + two.partition("\n")[2])
    return folder / f"{table}.csv"


def with_file(name: str, content: str = "") -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)

    return change


#: What else lies in a folder, and changes nothing.
PASSED: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "a mark of success": with_file("_SUCCESS"),
    "a checksum": with_file(".part-0.csv.crc", "crc"),
    "a summary of Parquet": with_file("_metadata", "PAR1"),
    "what a desktop leaves": with_file(".DS_Store", "x"),
    "a part of nothing but names": lambda folder: with_file("part-2.csv", HEADERS[folder.stem] + "\n")(folder),
    "two parts of nothing but names": lambda folder: [
        with_file(f"part-{number}.csv", HEADERS[folder.stem] + "\n")(folder) for number in (2, 3)
    ],
    "an empty part": with_file("part-2.csv"),
    "marks of another writer": lambda folder: [with_file(name)(folder) for name in ("_committed_17", "_started_17")],
    "a link within it": lambda folder: (
        (folder / "part-1.csv").rename(folder / "part-2.csv"),
        (folder / "part-3.csv").write_text(HEADERS[folder.stem] + "\n"),
    ),
}
#: What else lies in a folder -> what is said of it.
ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a copy": (lambda folder: shutil.copy(folder / "part-0.csv", folder / "part-0 (copy).csv"), "the same bytes as"),
    "a copy of an editor": (
        lambda folder: shutil.copy(folder / "part-0.csv", folder / "part-0.csv~"),
        "no parts of it",
    ),
    "a backup": (lambda folder: shutil.copy(folder / "part-0.csv", folder / "part-0.csv.bak"), "no parts of it"),
    "a copy of a conflict": (
        lambda folder: shutil.copy(folder / "part-0.csv", folder / "part-0.csv.orig"),
        "no parts of it",
    ),
    "an old one": (
        lambda folder: ((folder / "old").mkdir(), shutil.copy(folder / "part-0.csv", folder / "old")),
        "files beside folders",
    ),
    "a part that is being copied": (
        lambda folder: (folder / "part-1.csv").rename(folder / ".part-1.csv.X7f3Qa"),
        "no parts of it|hidden files",
    ),
    "a part that is being loaded": (
        lambda folder: (folder / "part-1.csv").rename(folder / "part-1.csv.crdownload"),
        "no parts of it",
    ),
    "a hidden part": (lambda folder: (folder / "part-1.csv").rename(folder / ".part-1.csv"), "hidden files"),
    "a part that others pass over": (
        lambda folder: (folder / "part-1.csv").rename(folder / "_part-1.csv"),
        "hidden files",
    ),
    "a part that is called as a mark": (
        lambda folder: (folder / "part-1.csv").rename(folder / "_committed_part-1.csv"),
        "hidden files",
    ),
    "a folder that is called as a mark": (
        lambda folder: ((folder / "_metadata").mkdir(), (folder / "part-1.csv").rename(folder / "_metadata" / "b.csv")),
        "files beside folders",
    ),
    "a readme": (with_file("README.md", "# people"), "no parts of it"),
    "a note of sums": (with_file("SHA256SUMS", "abc"), "no parts of it"),
    "a part without an ending": (lambda folder: (folder / "part-1.csv").rename(folder / "part-1"), "no parts of it"),
    "another kind": (
        lambda folder: pq.write_table(pa.table({"geocode": [A]}), folder / "part-2.parquet"),
        "both CSV and Parquet",
    ),
    "a part that is compressed, too": (
        lambda folder: (folder / "part-0.csv.gz").write_bytes(gzip.compress((folder / "part-0.csv").read_bytes())),
        "files of several endings",
    ),
    "a part that is compressed alone": (
        lambda folder: (
            (folder / "part-1.csv.gz").write_bytes(gzip.compress((folder / "part-1.csv").read_bytes())),
            (folder / "part-1.csv").unlink(),
        ),
        "files of several endings",
    ),
    "the same part under two columns that nobody reads": (
        lambda folder: (
            (folder / "part-1.csv").unlink(),
            [(folder / name).mkdir() for name in ("load=1", "load=2")],
            shutil.copy(folder / "part-0.csv", folder / "load=1"),
            (folder / "part-0.csv").rename(folder / "load=2" / "part-0.csv"),
        ),
        "the same bytes as",
    ),
    "a folder that is a link to another one": (
        lambda folder: (
            (folder / "part-1.csv").unlink(),
            (folder / "load=1").mkdir(),
            (folder / "part-0.csv").rename(folder / "load=1" / "part-0.csv"),
            (folder / "load=2").symlink_to("load=1"),
        ),
        "links to folders",
    ),
    "two folders of one value": (
        lambda folder: [
            ((folder / name).mkdir(), (folder / f"part-{number}.csv").rename(folder / name / "part.csv"))
            for number, name in enumerate(("load=1", "load=%31"))
        ],
        "several folders of one value",
    ),
    "files beside folders": (
        lambda folder: ((folder / "a=1").mkdir(), (folder / "part-1.csv").rename(folder / "a=1" / "part-1.csv")),
        "files beside folders",
    ),
    "folders that are no parts": (
        lambda folder: [
            ((folder / name).mkdir(), (folder / f"part-{name}.csv").rename(folder / name / "part.csv")) for name in "01"
        ],
        "folders that are no parts",
    ),
    "a link to elsewhere": (
        lambda folder: (
            shutil.move(folder / "part-1.csv", folder.parent / "elsewhere.csv"),
            (folder / "part-1.csv").symlink_to(folder.parent / "elsewhere.csv"),
        ),
        "lead out of it",
    ),
    "a link to nothing": (lambda folder: (folder / "part-2.csv").symlink_to(folder / "nothing"), "lead|no file|part-2"),
    "a link to another part": (lambda folder: (folder / "part-2.csv").symlink_to("part-0.csv"), "the same bytes as"),
    "a pipe": (lambda folder: os.mkfifo(folder / "part-2.csv"), "no file"),
    "another line of names": (with_file("part-2.csv", "geocode,other\n1,2\n"), "its first line is not that of"),
    "no line of names": (
        lambda folder: with_file("part-2.csv", PARTS[folder.stem][0])(folder),
        "its first line is not",
    ),
    "nothing": (lambda folder: [file.unlink() for file in folder.iterdir()], "holds no file"),
    "nothing but a mark": (
        lambda folder: ([file.unlink() for file in folder.iterdir()], with_file("_SUCCESS")(folder)),
        "holds no file",
    ),
    "parts without a byte": (lambda folder: [file.write_text("") for file in folder.iterdir()], "is empty"),
}


@pytest.mark.parametrize("table", HEADERS)
@pytest.mark.parametrize("name", PASSED)
def test_parts_are_read_once_whatever_is_no_part_of_them(tmp_path, ingested, name, table):
    PASSED[name](deliver(tmp_path, table))
    assert ingested() == EXPECTED


@pytest.mark.parametrize("table", HEADERS)
@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_in_a_folder_is_named(tmp_path, ingested, name, table):
    change, said = ODD[name]
    change(deliver(tmp_path, table))
    with pytest.raises(InputError, match=said) as caught:
        ingested()
    assert f"{table}.csv" in str(caught.value)


@pytest.mark.parametrize("table", HEADERS)
@pytest.mark.parametrize("other", [".parquet", ".csv.gz", ".csv.zst"])
def test_a_table_of_two_kinds_is_refused(tmp_path, ingested, table, other):
    deliver(tmp_path)
    (tmp_path / f"{table}{other}").write_bytes(b"x")
    with pytest.raises(InputError, match="lies beside it"):
        ingested()


@pytest.mark.parametrize(
    "name",
    [
        "geography.CSV",
        "Geography.csv",
        "geography.tsv",
        "geography.txt",
        "geography.csv.xz",
        "geography.csv.tmp",
        "geography.parquet.gz",
        "geography.snappy.parquet",
        "geography.csv~",
        "_geography.csv",
        "geography.xlsx",
        "geography",
    ],
)
def test_a_list_of_geounits_that_is_not_called_so_is_not_passed_over(tmp_path, ingested, name):
    deliver(tmp_path)
    (tmp_path / "geography.csv").rename(tmp_path / name)
    with pytest.raises(InputError, match=f"'{name}' is called as the table 'geography', and is none that is read"):
        ingested()


@pytest.mark.parametrize("name", ["geography.md", "geography.pdf", "geography.csv.sha256", "geographies.csv"])
def test_notes_of_a_table_may_lie_where_there_is_none(tmp_path, ingested, name):
    deliver(tmp_path)
    (tmp_path / "geography.csv").unlink()
    (tmp_path / name).write_text("what it is")
    assert ingested() == {code: found for code, found in EXPECTED.items() if code != C}


@pytest.mark.parametrize("table", HEADERS)
def test_a_path_is_the_one_of_the_system(tmp_path, ingested, table):
    """Behind a link `..` is another folder than the text of the path says."""
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    deliver(tmp_path / "real")
    assert ingested(path=str(tmp_path / "link" / "..")) == EXPECTED
    (tmp_path / f"{table}.csv").write_text("other,columns\n1,2\n")
    assert ingested(path=str(tmp_path / "link" / "..")) == EXPECTED
    assert ingested(path=str(tmp_path / "real" / "inner" / "..")) == EXPECTED


@pytest.mark.parametrize(
    "name", ["census[12]", "census{1,2}", "census*", "census?", "cen sus", "Zensus-Ü", "a%20b", "a=b"]
)
def test_no_character_of_a_path_is_a_pattern(tmp_path, ingested, name):
    for other in ("census1", "census2", "census12", "a b"):
        (tmp_path / other).mkdir()
        deliver(tmp_path / other)
        (tmp_path / other / "persons.csv").write_text(f"{HEADERS['persons']}\n{A},0,0,0,0,99\n")
    (tmp_path / name).mkdir()
    deliver(tmp_path / name)
    assert ingested(path=str(tmp_path / name)) == EXPECTED


@pytest.mark.parametrize("table", HEADERS)
def test_names_of_folders_are_texts(tmp_path, ingested, table):
    folder = deliver(tmp_path, table)
    for part in sorted(folder.iterdir()):
        rows = part.read_text().splitlines()
        for row in rows[1:]:
            code, _, rest = row.partition(",")
            place = folder / f"geocode={code}"
            place.mkdir(exist_ok=True)
            name = place / "part.csv"
            lines = name.read_text() if name.exists() else HEADERS[table].partition(",")[2] + "\n"
            name.write_text(f"{lines}{rest}\n")
        part.unlink()
    if table == "geography":  # whose files have no column then
        with pytest.raises(InputError):
            ingested()
    else:
        assert ingested() == EXPECTED


#: What happens to a file between the list and the reading.
CHANGES: dict[str, Callable[[Path], object]] = {
    "it grows": lambda file: file.write_text(file.read_text() + file.read_text().splitlines()[-1] + "\n"),
    "it shrinks": lambda file: file.write_text("\n".join(file.read_text().splitlines()[:-1]) + "\n"),
    "it is another one of the same size": lambda file: _replaced(file, file.read_text()[::-1]),
    "it is another one of the same bytes": lambda file: _replaced(file, file.read_text()),
    "it is gone": lambda file: file.unlink(),
    "it is touched": lambda file: os.utime(file, ns=(1, 1)),
    "it is a folder": lambda file: (file.unlink(), file.mkdir()),
}


def _replaced(file: Path, content: str) -> None:
    times = file.stat()
    other = file.with_name("other")
    other.write_text(content)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("table", HEADERS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_changes_after_it_was_listed_is_refused(tmp_path, ingested, name, table):
    part = deliver(tmp_path, table) / "part-1.csv"
    with pytest.raises(InputError, match=r"changed while it was read|cannot be read") as caught:
        ingested(meanwhile=lambda: CHANGES[name](part))
    assert str(part) in str(caught.value)
