"""What a run has committed: digests before tables, comparisons before tables are read."""

from __future__ import annotations

import json

import pytest

from das_spark.errors import PrivacyGuardError
from das_spark.store import RunLayout, hold_run, open_run, part_files, promote, promote_empty, public_files
from das_spark.store.digests import commits_of, record_of, require_committed


@pytest.fixture
def layout(tmp_path):
    found = RunLayout.at(tmp_path / "runs", "r")
    open_run(found, "0" * 64)
    return found


def staged(layout, text=b"rows", name="part-00000.parquet"):
    folder = layout.restricted.path / ".staging" / "x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text)
    return folder


@pytest.fixture(params=["public", "restricted"])
def committed(request, layout):
    """The folder of a committed table, of either root."""
    side = layout.public if request.param == "public" else layout.restricted
    folder = side.level("estimates", "State")
    with hold_run(layout):
        promote(staged(layout), folder)
    return folder


def changed(folder):
    (folder / "part-00000.parquet").write_bytes(b"tows")


def removed(folder):
    (folder / "part-00000.parquet").unlink()


def added(folder):
    (folder / "part-00001.parquet").write_bytes(b"more")


def cut_short(folder):
    (folder / "part-00000.parquet").write_bytes(b"row")


@pytest.mark.parametrize("edit", [changed, removed, added, cut_short])
def test_a_table_that_is_not_as_it_was_committed_is_refused(layout, committed, edit):
    with hold_run(layout):
        require_committed(committed)
    edit(committed)
    with hold_run(layout), pytest.raises(PrivacyGuardError, match=r"estimates/level=State: .*since the run committed"):
        require_committed(committed)


def test_a_change_within_one_driver_is_noticed_too(layout, committed):
    with hold_run(layout):
        require_committed(committed)
        require_committed(committed)  # not read again
        changed(committed)
        with pytest.raises(PrivacyGuardError, match="was changed"):
            require_committed(committed)


def test_a_table_that_the_run_never_committed_is_refused(layout, committed):
    strange = committed.with_name("level=County")
    strange.mkdir()
    (strange / "part-00000.parquet").write_bytes(b"rows")
    with hold_run(layout), pytest.raises(PrivacyGuardError, match="level=County: it appeared"):
        require_committed(strange)


def test_digests_are_written_before_a_table_appears(layout, monkeypatch):
    folder = layout.public.level("estimates", "State")

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("das_spark.store.commit._promote_file", dies)
        with hold_run(layout), pytest.raises(KeyboardInterrupt):
            promote(staged(layout), folder)
    assert not part_files(folder)
    (line,) = layout.restricted.committed.read_text().splitlines()
    assert json.loads(line)["folder"] == "public/estimates/level=State"
    with hold_run(layout):  # what was staged is gone; the table is made again, of other bytes
        promote(staged(layout, b"other"), folder)
        require_committed(folder)
        assert [file.sha256 for file in public_files(layout.public, as_written=True) if "part-" in file.name] == [
            record_of(part_files(folder)[0]).sha256
        ]


def test_a_line_that_was_cut_short_is_no_table(layout, committed):
    before = layout.restricted.committed.read_bytes()
    layout.restricted.committed.write_bytes(before + b'{"schema_version": 1, "fol')
    with hold_run(layout):
        require_committed(committed)
    assert layout.restricted.committed.read_bytes() == before
    layout.restricted.committed.write_bytes(b"{}\n" + before)
    with pytest.raises(PrivacyGuardError, match="cannot be read"), hold_run(layout):
        pass


def test_an_empty_table_has_no_file_and_none_may_appear(layout):
    folder = layout.public.level("bounds", "State")
    with hold_run(layout):
        promote_empty(folder)
        require_committed(folder)
        (folder / "part-00000.parquet").write_bytes(b"rows")
        with pytest.raises(PrivacyGuardError, match="was added"):
            require_committed(folder)


def test_tables_of_an_earlier_version_are_taken_as_they_are_found_once(layout, committed):
    layout.restricted.committed.unlink()
    with hold_run(layout):
        assert commits_of(layout.restricted.path).is_earlier
        require_committed(committed)
    changed(committed)
    with hold_run(layout), pytest.raises(PrivacyGuardError, match="was changed"):
        require_committed(committed)
    assert commits_of(layout.restricted.path) is None


def test_a_run_that_is_not_held_is_not_compared(layout, committed):
    changed(committed)
    require_committed(committed)
