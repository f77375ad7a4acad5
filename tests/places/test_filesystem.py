"""A full disk is one clear error, whatever met it; where it is not known which disk filled, both are named."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from das_spark.errors import InputError, OutputError
from das_spark.places import disk_errors, want_of_room
from das_spark.places import filesystem as full_disk
from das_spark.spark.problems import reading


def test_a_full_disk_is_one_clear_error(tmp_path):
    with pytest.raises(OutputError, match="no space left") as caught, disk_errors(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "resumes" in caught.value.hint


def fail_in_the_jvm() -> None:
    try:
        raise RuntimeError("java.io.IOException: No space left on device")
    except RuntimeError as error:
        raise ValueError("Job aborted due to stage failure") from error


@pytest.mark.parametrize(("free", "named"), [(1 << 20, False), (1 << 30, True)])
def test_a_full_disk_is_recognised_behind_an_error_of_the_jvm(tmp_path, monkeypatch, free, named):
    """Spark does not say which disk: where the results' has room left, that of scratch files is named as well."""
    monkeypatch.setattr(full_disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(OutputError, match="no space left") as caught, disk_errors(tmp_path / "not" / "there"):
        fail_in_the_jvm()
    assert ("spark.local.dir" in caught.value.message) == named


def test_a_file_that_may_not_grow_is_no_full_disk(tmp_path):
    words = r"x: no file of this process may grow so large \(ulimit -f\) Hint"
    with pytest.raises(OutputError, match=words) as caught, disk_errors(tmp_path / "x"):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    assert caught.value.hint.startswith("raise that limit")


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(ValueError, match="something else"), disk_errors(tmp_path):
        raise ValueError("something else")
    assert not want_of_room(ValueError("x"))


@pytest.mark.parametrize(
    ("said", "kind"), [("java.io.IOException: No space left on device", OutputError), ("not Parquet", InputError)]
)
def test_a_full_scratch_disk_is_no_fault_of_the_file_that_was_read(said, kind):
    with pytest.raises(kind, match=r"persons\.csv"), reading("persons.csv"):
        raise PySparkException(f"Job aborted due to stage failure: {said}")


def test_what_vanishes_while_a_folder_is_listed_is_not_there(tmp_path, monkeypatch):
    """A driver that clears its staging folder is in nobody's way."""
    for name in ("part-0", "part-1"):
        (tmp_path / name).write_text("rows")
    version = full_disk.PosixFileSystem.version

    def vanishing(system, path):
        if path.endswith("part-1"):
            raise FileNotFoundError(path)
        return version(system, path)

    monkeypatch.setattr(full_disk.PosixFileSystem, "version", vanishing)
    assert set(full_disk.POSIX.files(str(tmp_path))) == {"part-0"}
    assert set(full_disk.POSIX.files_below(str(tmp_path))) == {"part-0"}
