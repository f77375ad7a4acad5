"""A run folder belongs to one run, public paths are public, and one driver at a time works."""

import fcntl
import inspect
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from das_spark.errors import ConfigurationError, OutputError, PrivacyGuardError
from das_spark.store import (
    JointLayout,
    PublicLayout,
    RunLayout,
    RunMarker,
    SweepLayout,
    TablesLayout,
    clear_staging,
    find_run,
    guarded_staging,
    hold_run,
    is_held,
    is_public_root,
    open_public,
    open_run,
    point_latest,
    require_held,
    staging_of,
)
from das_spark.store import lock as run_lock


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout.at(tmp_path / "runs", "first")


def test_no_method_of_the_public_layout_yields_a_restricted_path(tmp_path):
    layout = RunLayout.at(tmp_path, "first", public=str(tmp_path / "open"), restricted=str(tmp_path / "closed"))
    public = layout.public
    paths = []
    for name, member in inspect.getmembers(PublicLayout):
        if name.startswith("_"):
            continue
        value = getattr(public, name)
        count = len(inspect.signature(value).parameters) if callable(value) else 0
        found = value(*["x"] * count) if callable(value) else value
        paths += [found.path, found.level("x", "x", "x")] if isinstance(found, TablesLayout) else [found]
        assert member is not None
    assert len(paths) >= 10
    assert all(path.is_relative_to(tmp_path / "open") for path in paths)


def test_a_new_run_makes_both_roots_and_closes_the_restricted_one(layout):
    assert not open_run(layout, "hash")
    assert stat.S_IMODE(layout.restricted.path.stat().st_mode) == 0o700
    assert layout.public.marker.is_file()


def test_a_run_is_opened_again_with_the_same_configuration_only(layout):
    open_run(layout, "hash")
    assert open_run(layout, "hash")
    with pytest.raises(OutputError, match="belongs to another run"):
        open_run(layout, "other hash")


def test_another_configuration_is_told_in_which_keys_it_differs(layout):
    first = {"budget": {"total": "4", "levels": [{"geolevel": "State", "share": "1"}]}, "output": {"tables": ["csv"]}}
    other = {
        "budget": {"total": "2", "levels": [{"geolevel": "State", "share": "1"}]},
        "output": {},
        "run": {"name": "x"},
    }
    open_run(layout, "hash", first)
    assert open_run(layout, "hash", first)
    with pytest.raises(OutputError) as caught:
        open_run(layout, "other hash", other)
    assert caught.value.message.endswith(
        'budget.total is "4" there and "2" here; output.tables is ["csv"] there and not set here; '
        'run.name is not set there and "x" here'
    )


def test_of_many_differing_keys_a_few_are_named(layout):
    open_run(layout, "hash", {"input": {f"key_{number}": number for number in range(9)}})
    with pytest.raises(OutputError, match=r"input\.key_3 is 3 there and 4 here; and 5 more"):
        open_run(layout, "other hash", {"input": {f"key_{number}": number + 1 for number in range(9)}})


def test_a_run_by_an_earlier_version_does_not_say_what_differs(layout):
    open_run(layout, "hash")
    with pytest.raises(
        OutputError, match=r"configuration hash\), begun by a version of das_spark that did not keep it"
    ):
        open_run(layout, "other hash", {"budget": {"total": "2"}})


def test_a_run_whose_restricted_disk_is_not_mounted_does_not_begin_again(tmp_path):
    apart = RunLayout.at(tmp_path / "runs", "first", str(tmp_path / "open"), str(tmp_path / "closed"))
    open_run(apart, "hash")
    apart.restricted.path.parent.rename(tmp_path / "unmounted")
    (tmp_path / "closed").mkdir()
    with pytest.raises(PrivacyGuardError, match="is the restricted disk mounted"):
        open_run(apart, "hash")
    assert list((tmp_path / "closed").iterdir()) == []
    (tmp_path / "closed").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "closed")
    assert open_run(apart, "hash")


def test_of_two_drivers_that_begin_a_run_together_none_takes_the_folder_from_the_other(layout, monkeypatch):
    real = Path.mkdir

    def first_begins(path: Path, *given: Any, **named: Any) -> None:
        """The second driver has seen that nothing is there, and the first one begins."""
        real(path, *given, **named)
        if path == layout.restricted.path:
            monkeypatch.setattr(Path, "mkdir", real)
            open_run(layout, "hash of the first")

    monkeypatch.setattr(Path, "mkdir", first_begins)
    with pytest.raises(OutputError, match="belongs to another run"):
        open_run(layout, "hash of the second")
    assert open_run(layout, "hash of the first")


def test_a_folder_with_strange_files_is_refused_and_left_alone(layout):
    layout.public.path.mkdir(parents=True)
    (layout.public.path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not a run folder"):
        open_run(layout, "hash")
    assert not layout.restricted.path.exists()
    assert (layout.public.path / "thesis.txt").read_text() == "mine"


def test_a_file_in_the_place_of_the_run_is_refused(layout):
    layout.folder.parent.mkdir()
    layout.folder.write_text("x")
    with pytest.raises(OutputError):
        open_run(layout, "hash")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "a\n", "a\0", "-a", "é", "x" * 201])
def test_a_run_id_cannot_lead_elsewhere(tmp_path, name):
    for at in (RunLayout.at, JointLayout.at):
        with pytest.raises(ConfigurationError, match="run id"):
            at(tmp_path, name)


@pytest.mark.parametrize("name", ["latest", "ledgers"])
def test_a_run_cannot_have_a_name_that_stands_for_something_else(tmp_path, name):
    for at in (RunLayout.at, JointLayout.at):
        with pytest.raises(ConfigurationError, match=f"run id '{name}'"):
            at(tmp_path, name)


@pytest.mark.parametrize("side", ["restricted", "public"])
def test_half_a_marker_that_a_killed_driver_left_bars_no_run(layout, side):
    folder = getattr(layout, side).path
    folder.mkdir(parents=True)
    (folder / ".run.json.17.tmp").write_text("{")
    assert not open_run(layout, "hash")
    assert open_run(layout, "hash")


def test_half_a_file_that_a_killed_driver_left_bars_no_joint_run_and_no_sweep(tmp_path):
    for name in (".joint.json.17.tmp", ".sweep.json.17.tmp"):
        folder = tmp_path / name.split(".")[1]
        folder.mkdir()
        (folder / name).write_text("{")
    assert JointLayout.at(tmp_path, "joint").path == tmp_path / "joint"
    assert SweepLayout(tmp_path / "sweep").open() is None


def test_the_two_roots_cannot_be_one_folder(tmp_path):
    with pytest.raises(OutputError, match="one folder"):
        RunLayout.at(tmp_path, "first", public=str(tmp_path), restricted=str(tmp_path))


def test_a_broken_marker_is_an_error_and_no_traceback(layout):
    open_run(layout, "hash")
    layout.public.marker.write_text("{")
    with pytest.raises(OutputError, match="marker"):
        open_run(layout, "hash")


def test_latest_points_to_the_last_run_and_is_found(tmp_path, layout):
    second = RunLayout.at(tmp_path / "runs", "second")
    for run in (layout, second):
        open_run(run, "hash")
        point_latest(run)
    assert find_run(tmp_path / "runs" / "latest").run_id == "second"
    assert open_public(tmp_path / "runs" / "latest").path.name == "public"


@pytest.mark.parametrize("sides", [("public", "restricted"), ("public",), ("restricted",)])
def test_a_run_whose_roots_lie_apart_is_found_by_its_restricted_root(tmp_path, sides):
    elsewhere = {side: str(tmp_path / "other" / side) for side in sides}
    layout = RunLayout.at(tmp_path / "runs", "first", **elsewhere)
    open_run(layout, "hash")
    assert find_run(layout.restricted.path) == layout
    assert open_public(layout.restricted.path) == layout.public
    assert open_public(layout.public.path) == layout.public
    with pytest.raises(OutputError, match="the public root of a run") as caught:
        find_run(layout.public.path)
    assert "its restricted root" in caught.value.hint
    assert str(tmp_path) not in layout.public.marker.read_text()
    assert is_public_root(layout.public.path)
    assert not is_public_root(layout.restricted.path)


def test_the_folder_of_a_run_leads_to_a_public_root_elsewhere(tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "first", public=str(tmp_path / "open"))
    open_run(layout, "hash")
    assert find_run(layout.folder) == layout
    assert open_public(layout.folder) == layout.public


def test_a_run_folder_can_be_moved_and_found_by_either_name(layout):
    open_run(layout, "hash")
    moved = layout.folder.rename(layout.root.parent / "moved")
    for folder in (moved, moved / "restricted"):
        assert find_run(folder).public.path == moved / "public"
        assert open_public(folder).path == moved / "public"
    with pytest.raises(OutputError, match="the public root of a run"):
        find_run(moved / "public")


def test_a_public_root_that_is_not_where_the_restricted_one_says_is_named(tmp_path):
    layout = RunLayout.at(tmp_path / "runs", "first", str(tmp_path / "open"), str(tmp_path / "closed"))
    open_run(layout, "hash")
    layout.public.path.rename(tmp_path / "away")
    with pytest.raises(OutputError, match=f"{layout.public.path}: not a run folder"):
        find_run(layout.restricted.path)
    layout.public.path.mkdir()
    layout.public.marker.write_text(layout.restricted.marker.read_text().replace("first", "second"))
    with pytest.raises(OutputError, match=f"{layout.public.path}: not a run folder"):
        find_run(layout.restricted.path)


def test_a_public_marker_says_whose_it_is_and_nothing_else(layout):
    began = "2026-05-01T12:00:00+00:00"
    open_run(layout, "hash", created=began)
    text = f'{{"schema_version": 2, "run_id": "first", "config_hash": "hash", "created": "{began}"}}\n'
    assert layout.public.marker.read_text() == text
    layout.restricted.marker.write_text(text)  # as earlier versions wrote it
    assert not is_public_root(layout.restricted.path)
    assert find_run(layout.folder) == layout


def test_latest_never_replaces_a_real_folder(tmp_path, layout):
    open_run(layout, "hash")
    (tmp_path / "runs" / "latest").mkdir()
    with pytest.raises(OutputError, match="not a link"):
        point_latest(layout)


def test_a_folder_without_marker_is_no_run(tmp_path):
    for find in (find_run, open_public):
        with pytest.raises(OutputError, match="not a run folder"):
            find(tmp_path)


def test_a_second_driver_is_refused_while_the_first_lives_and_let_in_after_it_is_killed(layout):
    open_run(layout, "hash")
    code = (
        "import sys,time; from das_spark.store import RunLayout, hold_run\n"
        f"with hold_run(RunLayout.at({str(layout.root)!r}, 'first')): print('held', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as first:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(OutputError, match="another driver"), hold_run(layout):
            pass
        first.kill()
        first.wait()
    with hold_run(layout):
        pass


def test_a_driver_that_lost_its_run_is_told_so_and_one_that_never_held_it_is_not(layout):
    open_run(layout, "hash")
    require_held(layout)
    with hold_run(layout):
        require_held(layout)
        layout.restricted.lock.write_text("the word of another driver")
        with pytest.raises(OutputError, match="another driver has taken over"):
            require_held(layout)
        layout.restricted.lock.unlink()
        with pytest.raises(OutputError, match="another driver has taken over"):
            require_held(layout)
        with hold_run(layout):  # a new file: nobody holds it
            require_held(layout)
    require_held(layout)


def test_a_driver_that_is_refused_takes_nothing_from_the_one_that_holds_the_run(layout):
    open_run(layout, "hash")
    with hold_run(layout):
        with pytest.raises(OutputError, match="another driver is at work"), hold_run(layout):
            pass
        layout.restricted.lock.write_text("the word of another driver")
        with pytest.raises(OutputError, match="another driver has taken over"):
            require_held(layout)


def test_two_drivers_of_a_run_write_to_no_common_folder_and_the_second_one_clears_what_the_first_left(layout):
    open_run(layout, "hash")
    sides = (layout.public, layout.restricted)
    with hold_run(layout):
        lost = [guarded_staging(layout, side, "leaves") for side in sides]
        for each in lost:
            each.guard()
            each.folder.mkdir(parents=True)
            (each.folder / "part-0").touch()
        verifying = layout.public.path / ".staging" / "verification-7"
        verifying.mkdir()
        layout.restricted.lock.unlink()
        with hold_run(layout):
            mine = [staging_of(layout, side) for side in sides]
            assert not [each.folder for each in lost if each.folder.exists()]
            assert not {each.folder.parent for each in lost} & set(mine)
            assert all(word.parent == side.path / ".staging" for word, side in zip(mine, sides, strict=True))
            mine[0].mkdir()
            lost[0].folder.mkdir(parents=True)  # it does not know yet
            clear_staging(layout)
            assert lost[0].folder.is_dir(), "whoever ends takes nothing away from another driver"
            assert not mine[0].exists()
        assert verifying.is_dir(), "somebody verifies the run meanwhile"
    with hold_run(layout):
        verifying.rmdir()
        clear_staging(layout)
        assert not list(layout.folder.rglob(".staging"))


def test_looking_whether_a_run_is_held_takes_nothing_from_its_driver(layout):
    open_run(layout, "0" * 64)
    assert not is_held(layout), "nobody has ever held it"
    with hold_run(layout):
        assert is_held(layout)
        assert is_held(layout)
    assert not is_held(layout)


def test_a_lock_that_is_held_for_an_instant_stops_no_driver(layout):
    open_run(layout, "0" * 64)
    with hold_run(layout):
        pass
    descriptor = os.open(layout.restricted.lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    instant = threading.Timer(0.1, os.close, [descriptor])
    instant.start()
    with hold_run(layout):
        pass
    instant.join()


def test_the_lock_is_free_again_after_an_error(layout):
    open_run(layout, "hash")
    with pytest.raises(KeyError), hold_run(layout):
        raise KeyError
    with hold_run(layout):
        pass


def modes(folder: Path) -> dict[str, str]:
    """Permissions of everything in a folder, the folder itself under "."."""
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))
    }


def is_closed(folder: Path) -> bool:
    return {int(mode, 8) & 0o077 for mode in modes(folder).values()} == {0}


def fail_in_a_stage(layout: RunLayout) -> None:
    with hold_run(layout):
        assert is_closed(layout.restricted.path)
        (layout.restricted.path / "log.jsonl").touch()
        raise RuntimeError("the stage fails")


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_what_is_restricted_is_closed_when_a_driver_begins_and_when_it_ends(layout, umask):
    before = os.umask(umask)
    try:
        open_run(layout, "hash")
        assert modes(layout.restricted.path)["."] == "0o700"
        left = layout.restricted.level("histograms", "County")  # by a driver that was killed
        left.mkdir(parents=True)
        (left / "part-0").touch()
        (layout.public.path / "open.txt").touch()
        with pytest.raises(RuntimeError, match="fails"):
            fail_in_a_stage(layout)
    finally:
        os.umask(before)
    assert is_closed(layout.restricted.path)
    assert modes(layout.restricted.path)["log.jsonl"] == "0o600"
    assert modes(layout.public.path)["open.txt"] == oct(0o666 & ~umask)


def test_a_folder_that_vanishes_while_modes_are_set_is_in_nobodys_way(layout, monkeypatch):
    open_run(layout, "hash")
    left = layout.restricted.path / "_temporary" / "0"
    left.mkdir(parents=True)
    (left / "part-0").touch()
    real = os.scandir

    def too_late(path: Any = ".") -> Any:
        """A task that was killed removes its folder as soon as somebody wants to look into it."""
        if path in (left.parent, str(left.parent)):
            shutil.rmtree(left.parent)
        return real(path)

    monkeypatch.setattr(os, "scandir", too_late)
    with hold_run(layout):
        pass
    assert not left.exists()


def test_what_ends_a_run_is_told_and_no_trouble_with_modes_behind_it(layout, monkeypatch):
    open_run(layout, "hash")

    def fail(_: Path) -> None:
        raise PermissionError

    def stop() -> None:
        with hold_run(layout):
            monkeypatch.setattr(run_lock, "close_to_others", fail)
            raise PrivacyGuardError("no")

    with pytest.raises(PrivacyGuardError, match="no"):
        stop()
    monkeypatch.undo()
    with pytest.raises(PermissionError), hold_run(layout):
        monkeypatch.setattr(run_lock, "close_to_others", fail)


def test_the_restricted_marker_alone_says_with_which_ledgers_a_run_was_begun(layout, tmp_path):
    open_run(layout, "hash", ledger=str(tmp_path / "ledgers"))
    closed, public = (RunMarker.find(side.path) for side in (layout.restricted, layout.public))
    assert closed is not None
    assert closed.ledger == str(tmp_path / "ledgers")
    assert str(tmp_path) not in layout.public.marker.read_text()
    assert public is not None
    assert public.ledger == ""
    assert open_run(layout, "hash", ledger="elsewhere"), "where the ledgers are is no part of what a run is"
    assert RunMarker.find(layout.restricted.path) == closed, "and it stays what it was"


def test_what_tells_a_copy_from_a_run_is_kept_when_all_that_is_confidential_is_removed(layout):
    assert layout.restricted.instance in layout.restricted.kept


@pytest.mark.parametrize(
    ("path", "hint"), [("runs/nowhere", "or runs/latest"), ("memory://bucket/runs/latest", "name the run by its id")]
)
def test_what_serves_in_the_place_of_a_run_depends_on_where_it_lies(path, hint):
    with pytest.raises(OutputError, match="not a run folder") as refused:
        find_run(path)
    assert hint in refused.value.hint
