"""Promotion moves exactly the recorded bytes, whatever interrupts it."""

import errno
import os
import secrets
import shutil
from pathlib import Path

import pytest

from das_spark.errors import OutputError
from das_spark.places import place_of
from das_spark.store import (
    discard,
    files_below,
    finished,
    link_parts,
    new_folder,
    part_files,
    promote,
    record_of,
    replace_folder,
    require_space,
    require_writable,
    write_durably,
)


@pytest.fixture
def staging(tmp_path):
    folder = tmp_path / "staging"
    folder.mkdir()
    for number in range(3):
        (folder / f"part-{number}").write_text(f"bytes {number}")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_text("x")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_promotion_moves_the_parts_and_sets_the_marker(tmp_path, staging):
    promote(staging, tmp_path / "deep" / "target")
    assert names(tmp_path / "deep" / "target") == ["_SUCCESS", "part-0", "part-1", "part-2"]
    assert not staging.exists()


def test_files_that_are_not_on_the_list_are_destroyed(tmp_path, staging):
    promote(staging, tmp_path / "target", [record_of(staging / "part-1")])
    assert names(tmp_path / "target") == ["_SUCCESS", "part-1"]
    assert not staging.exists()


@pytest.mark.parametrize("device", ["same", "other"])
@pytest.mark.parametrize("survived", [0, 1, 2, 3])
def test_promotion_that_was_killed_anywhere_is_finished_by_the_next_call(
    tmp_path, staging, monkeypatch, survived, device
):
    records = [record_of(path) for path in part_files(staging)]
    target, real, moved = tmp_path / "target", Path.replace, []

    def replace(self, other):
        if len(moved) == survived:
            raise KeyboardInterrupt
        if device == "other" and self.parent != Path(other).parent:
            raise OSError(errno.EXDEV, "another device")
        moved.append(self)
        return real(self, other)

    monkeypatch.setattr(Path, "replace", replace)
    try:
        promote(staging, target, records)
    except KeyboardInterrupt:
        assert not finished(target)
    monkeypatch.undo()
    promote(staging, target, records)
    assert finished(target)
    assert [record_of(path) for path in part_files(target)] == records
    assert not staging.exists()


def test_changed_or_lost_bytes_are_never_promoted(tmp_path, staging):
    records = [record_of(path) for path in part_files(staging)]
    (staging / "part-1").write_text("bytes 9")
    with pytest.raises(OutputError, match="not the bytes"):
        promote(staging, tmp_path / "target", records)
    (staging / "part-1").unlink()
    with pytest.raises(OutputError, match="gone"):
        promote(staging, tmp_path / "target", records)
    assert not finished(tmp_path / "target")


def test_a_target_with_a_strange_file_is_refused(tmp_path, staging):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "part-9").touch()
    with pytest.raises(OutputError, match="part-9"):
        promote(staging, tmp_path / "target")


def test_a_staging_folder_that_vanished_is_not_an_empty_result(tmp_path, staging):
    target = tmp_path / "target"
    promote(staging, target)
    for publish in (promote, replace_folder):
        with pytest.raises(OutputError, match="staging: what was written there is gone"):
            publish(staging, target)
    assert names(target) == ["_SUCCESS", "part-0", "part-1", "part-2"]
    staging.mkdir()
    (staging / "part-9").write_text("new")
    replace_folder(staging, target)
    assert names(target) == ["_SUCCESS", "part-9"]


def test_what_cannot_be_destroyed_is_not_said_to_be(tmp_path, staging, monkeypatch):
    doomed = tmp_path / ".staging.destroyed"
    doomed.mkdir()
    (doomed / "part-0").write_text("the first draw")

    def busy(path, ignore_errors=False):
        if not ignore_errors:
            raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(shutil, "rmtree", busy)
    with pytest.raises((OutputError, OSError)):
        discard(staging, tombstone=True)
    assert staging.is_dir(), "without its tombstone: it is tried again"


def test_a_folder_with_a_tombstone_cannot_be_written_by_a_late_task(tmp_path, staging):
    discard(staging, tombstone=True)
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        (staging / "_temporary" / "0").mkdir(parents=True)
    with pytest.raises(OSError, match="Not a directory"):
        (staging / "part-3").write_text("late")
    discard(staging, tombstone=True)  # twice is no error
    assert part_files(staging) == ()
    assert not (tmp_path / ".staging.destroyed").exists()


def test_a_tombstone_can_be_set_where_nothing_was(tmp_path):
    discard(tmp_path / "a" / "b", tombstone=True)
    assert (tmp_path / "a" / "b").is_file()
    discard(tmp_path / "x" / "y")
    assert not (tmp_path / "x").exists()


def test_a_late_task_that_makes_the_folder_anew_loses_the_race(tmp_path, staging, monkeypatch):
    real, raced = os.open, []

    def racing(path, flags, *mode, **options):
        if str(path) == str(staging) and flags & os.O_EXCL and not raced:
            raced.append(path)
            staging.mkdir()
            (staging / "part-late").write_text("late")
        return real(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", racing)
    discard(staging, tombstone=True)
    assert raced
    assert staging.is_file()


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    write_durably(path, "old")

    def full(_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="no space"):
        write_durably(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["manifest.json"]


def test_a_stage_that_cannot_fit_is_refused_before_it_begins(tmp_path):
    require_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(OutputError, match="GB are free"):
        require_space(tmp_path / "not" / "yet", 10**18)


def test_linked_parts_are_the_same_bytes_and_outlive_their_first_folder(tmp_path, staging):
    link_parts(staging, tmp_path / "linked")
    assert not finished(tmp_path / "linked")
    promote(tmp_path / "linked", tmp_path / "second")
    first, second = (part_files(folder) for folder in (staging, tmp_path / "second"))
    assert [path.stat().st_ino for path in second] == [path.stat().st_ino for path in first]
    discard(staging)
    assert [path.read_text() for path in part_files(tmp_path / "second")] == [f"bytes {number}" for number in range(3)]


def test_parts_are_copied_where_the_disk_has_no_links(tmp_path, staging, monkeypatch):
    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another device")

    monkeypatch.setattr("os.link", no_link)
    link_parts(staging, tmp_path / "copied")
    assert [path.read_text() for path in part_files(tmp_path / "copied")] == [f"bytes {number}" for number in range(3)]
    assert part_files(tmp_path / "copied")[0].stat().st_ino != part_files(staging)[0].stat().st_ino


def test_a_full_disk_is_no_reason_to_copy(tmp_path, staging, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.link", full)
    with pytest.raises(OutputError, match="no space left"):
        link_parts(staging, tmp_path / "linked")


def test_a_private_file_is_private_before_its_first_byte(tmp_path, monkeypatch):
    seen = []

    def fsync(descriptor):
        seen.append(os.fstat(descriptor).st_mode & 0o777)
        return real(descriptor)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "restricted.csv"
    path.write_text("open to all")
    path.chmod(0o644)
    path.with_name(f".{path.name}.{os.getpid()}.tmp").write_text("left by a process of the same number")
    write_durably(path, "text", mode=0o600)
    assert seen[0] == path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["restricted.csv"]
    write_durably(tmp_path / "public.json", "text")
    assert (tmp_path / "public.json").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_place_is_asked_whether_it_can_be_written_before_anything_is_made(tmp_path, monkeypatch):
    require_writable(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file is no folder"):
        require_writable(tmp_path / "file" / "x")
    monkeypatch.setattr("das_spark.store.commit.os.access", lambda *_: False)
    with pytest.raises(OutputError, match="may not write to") as caught:
        require_writable(tmp_path / "not" / "yet")
    assert "another output folder" in caught.value.hint


def test_a_new_folder_appears_when_it_is_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with new_folder(out) as made:
        made.mkdir()
        (made / "a").write_text("1")
        assert names(out.parent) == [".out.unfinished"]
    assert names(out.parent) == ["out"]
    assert names(out) == ["a"]
    with pytest.raises(OutputError, match="not an empty folder"), new_folder(out):
        pytest.fail("nothing is written over")


def test_of_a_new_folder_that_is_not_whole_nothing_is_left(tmp_path):
    out, left = tmp_path / "out", tmp_path / ".out.unfinished"
    left.mkdir()
    (left / "of one that died").touch()
    out.mkdir()  # an empty folder is none

    def fail():
        with new_folder(out) as made:
            assert not made.exists()
            made.mkdir()
            (made / "a").touch()
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OutputError, match="no space left"):
        fail()
    assert names(tmp_path) == ["out"]
    assert names(out) == []
    with new_folder(out) as made:
        made.mkdir()
        (made / "b").touch()
    assert names(out) == ["b"]


def test_in_a_store_a_new_folder_is_written_by_one_process_alone():
    """Nothing is renamed there: an error of another one must not take away what this one has written."""
    out = place_of(f"memory://{secrets.token_hex(4)}/out")
    with new_folder(out) as made:
        write_durably(made / "a.json", "{}")
        with pytest.raises(OutputError, match="another process writes there, or was killed"), new_folder(out):
            pass
    assert files_below(out) == ["a.json"]
    assert files_below(out.parent) == ["out/a.json"]
    with pytest.raises(OutputError, match="not an empty folder"), new_folder(out):
        pass


def test_of_a_new_folder_in_a_store_nothing_is_left_after_an_error():
    out = place_of(f"memory://{secrets.token_hex(4)}/out")

    def write_half() -> None:
        with new_folder(out) as made:
            write_durably(made / "a.json", "{}")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        write_half()
    assert files_below(out.parent) == []


def test_nothing_lies_beside_the_whole_of_a_store():
    with pytest.raises(OutputError, match="is the whole of a store"), new_folder(place_of("memory://whole")):
        pass


def test_a_table_without_rows_is_whole_where_folders_are_prefixes():
    """Nobody has written a file to its staging folder, which is none."""
    folder = place_of(f"memory://{secrets.token_hex(4)}")
    assert replace_folder(folder / "staging", folder / "table", ()) == ()
    assert finished(folder / "table")
    with pytest.raises(OutputError, match="what was written there is gone"):
        replace_folder(folder / "staging", folder / "table")
