"""Whatever the umask of a process, nothing that the store makes or moves may be written by everybody."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from das_spark.places.filesystem import POSIX
from das_spark.store import FileRecord, create_exclusively, link_parts, make_folder, promote, write_durably, write_texts
from das_spark.store.commit import new_folder, record_of


@pytest.fixture(autouse=True)
def open_to_all():
    before = os.umask(0)
    yield
    assert os.umask(before) == 0, "the mask of a process is its own"


def modes(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if not path.is_symlink()]
    return {str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in paths}


def staged(folder: Path) -> tuple[FileRecord, ...]:
    """Files as another process writes them under this mask."""
    folder.mkdir()
    (folder / "part-0").write_bytes(b"content")
    assert (folder / "part-0").stat().st_mode & 0o777 == 0o666
    return (record_of(folder / "part-0"),)


def test_files_and_folders_are_not_for_everybody_to_write_those_above_neither(tmp_path):
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "private", mode=0o700)
    write_durably(tmp_path / "a" / "text", "content")
    assert create_exclusively(tmp_path / "a" / "new", "content")
    assert create_exclusively(tmp_path / "a" / "empty", b"")
    POSIX.open_output(str(tmp_path / "a" / "d" / "output")).close()
    POSIX.copy(str(tmp_path / "a" / "text"), str(tmp_path / "a" / "copy"))
    write_texts(tmp_path / "texts", {"x": "content"})
    folders, files = ("a", "a/b", "a/b/c", "a/d", "texts"), ("text", "new", "empty", "d/output", "copy")
    expected = dict.fromkeys(folders, "0o775") | {f"a/{name}": "0o664" for name in files}
    assert modes(tmp_path) == expected | {"a/b/private": "0o700", "texts/x": "0o664"}


def test_a_mask_that_takes_more_away_takes_it_away(tmp_path):
    os.umask(0o027)
    make_folder(tmp_path / "a" / "b")
    write_durably(tmp_path / "a" / "text", "content")
    os.umask(0)
    assert modes(tmp_path) == {"a": "0o750", "a/b": "0o750", "a/text": "0o640"}


@pytest.mark.parametrize("known", [True, False])
def test_what_is_promoted_is_closed_to_other_writers_whoever_wrote_it(tmp_path, known):
    records = staged(tmp_path / "staging")
    promote(tmp_path / "staging", tmp_path / "below" / "target", records if known else None)
    link_parts(tmp_path / "below" / "target", tmp_path / "shared")
    found = modes(tmp_path)
    assert found.pop("below/target/_SUCCESS") == "0o644"
    assert found == {
        "below": "0o775",
        "below/target": "0o775",
        "below/target/part-0": "0o664",
        "shared": "0o775",
        "shared/part-0": "0o664",
    }


def test_the_folder_above_a_new_folder_is_closed_to_other_writers(tmp_path):
    with new_folder(tmp_path / "above" / "out") as target:
        make_folder(target)
        write_durably(target / "text", "content")
    assert modes(tmp_path) == {"above": "0o775", "above/out": "0o775", "above/out/text": "0o664"}
