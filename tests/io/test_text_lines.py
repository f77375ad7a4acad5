"""Lines of text files are cut where Spark and others cut them, whatever is read at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.io.listed_files import ROW
from das_spark.io.text_lines import TextLines

#: Bytes that are read at once: all, and so few that lines, line ends and characters are cut.
BLOCKS = (1 << 24, 5, 1)


def read(*paths: Path, patterns: tuple[str, ...] = (), encoding: str = "UTF-8", size: int = BLOCKS[0]) -> list[str]:
    lines = TextLines.of([str(path) for path in paths], patterns, encoding)
    rows = [row for part in lines.parts for batch in lines.read(part, size=size) for row in batch.to_pylist()]
    numbers = [row[ROW] for row in rows]
    assert len(paths) > 1 or patterns or numbers == list(range(1, len(rows) + 1))
    return [row["value"] for row in rows]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("aé𝛿 \n\r"), max_size=30), size=st.sampled_from(BLOCKS))
def test_lines_end_at_line_feeds_returns_and_both(tmp_path_factory, text, size):
    path = written(tmp_path_factory.mktemp("lines") / "a.txt", text.encode())
    lines = re.split(r"\r\n|\r|\n", text)
    assert read(path, size=size) == (lines[:-1] if lines[-1] == "" else lines)


@pytest.mark.parametrize("size", BLOCKS)
def test_text_of_another_encoding_and_bytes_that_are_none(tmp_path, size):
    path = written(tmp_path / "a.txt", "é1\né2".encode("latin-1"))
    assert read(path, encoding="ISO-8859-1", size=size) == ["é1", "é2"]
    assert read(path, size=size) == ["�1", "�2"]
    assert read(written(path, b"\xef\xbb\xbfa\n\xef\xbb\xbfb"), size=size) == ["a", "\ufeffb"]


def test_files_of_a_folder_are_those_of_some_names(tmp_path):
    for name in ("a.txt", "b.dat", "README", "population.json", "_SUCCESS"):
        written(tmp_path / name, name.encode())
    assert read(tmp_path, patterns=("*.txt", "*.dat")) == ["a.txt", "b.dat"]
    with pytest.raises(InputError, match=r"no parts of it: 'b\.dat'"):
        read(tmp_path, patterns=("*.txt",))
    (tmp_path / "notes").mkdir()
    written(tmp_path / "notes" / "README.md", b"of nothing")
    with pytest.raises(InputError, match="holds no file of records"):
        read(tmp_path / "notes", patterns=("*.cef",))
    with pytest.raises(InputError, match="no such file or folder"):
        read(tmp_path / "*.txt")


ODD = {
    "a backup": ("a.txt~", "files that are no parts of it: 'a.txt~'"),
    "a copy": ("a.txt.bak", "files that are no parts of it: 'a.txt.bak'"),
    "a part that is being loaded": ("part-1.crdownload", "files that are no parts of it: 'part-1.crdownload'"),
    "a part that is being copied": (".b.txt.X7f3Qa", "files that are no parts of it: '.b.txt.X7f3Qa'"),
    "a hidden file": (".b.txt", "hidden files: '.b.txt'"),
    "a file that others pass over": ("_b.txt", "hidden files: '_b.txt'"),
    "a folder": ("more/b.txt", "folders: 'more'"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_in_a_folder_of_records_is_named(tmp_path, name):
    written(tmp_path / "a.txt", b"a")
    file, said = ODD[name]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    written(tmp_path / file, b"b")
    with pytest.raises(InputError, match=said):
        read(tmp_path, patterns=("*.txt", "*.dat", "part-*"))


def test_a_folder_of_nothing_holds_no_records(tmp_path):
    with pytest.raises(InputError, match="holds no file of records"):
        read(tmp_path, patterns=("*.cef",))


def test_a_file_that_grows_is_refused(tmp_path):
    path = written(tmp_path / "a.txt", b"1\n")
    lines = TextLines.of([str(path)])
    written(path, b"1\n2\n")
    with pytest.raises(InputError, match="changed while it was read"):
        list(lines.read(lines.parts[0]))
