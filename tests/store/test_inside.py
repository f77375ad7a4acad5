"""No path of a run leads out of its root, whatever names it is made of and whatever links lie there."""

from __future__ import annotations

import inspect
import os
from pathlib import Path, PurePosixPath

import pytest

from das_spark.errors import OutputError
from das_spark.io.noisy_files import NoisyLayout
from das_spark.places.filesystem import POSIX, Location, inside
from das_spark.store import FileRecord, Journal, RunLayout, SweepLayout, TablesLayout, promote, write_texts
from das_spark.store.layout import JointLayout, PublicLayout, RestrictedLayout

HOSTILE = ("../x", "../../../../x", "/x", "a/../../x", "a/b", "x\0", "..", "")
LAYOUTS = (PublicLayout, RestrictedLayout, TablesLayout, NoisyLayout)
#: Paths that are made of no name from outside, and of one that is.
FIXED = [
    (kind, name)
    for kind in LAYOUTS[:3]
    for name, member in inspect.getmembers(kind)
    if isinstance(member, property) and name not in ("abandoned", "kept", "staging")
]
NAMED = [
    (kind, name, place)
    for kind in LAYOUTS
    for name, member in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and name not in ("inside", "file")
    for place, (_, given) in enumerate(list(inspect.signature(member).parameters.items())[1:])
    if given.annotation == "str"
]


def arguments(kind: type, name: str, hostile: str, place: int) -> list[object]:
    given = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
    usual: list[object] = [1 if each.annotation == "int" else "text" for each in given]
    usual[place] = hostile
    return usual


def beside(root: Path) -> set[str]:
    return {str(path) for path in root.parent.rglob("*") if not path.is_relative_to(root)}


def test_every_layout_is_looked_at():
    assert len(FIXED) >= 27
    assert {name for _, name, _ in NAMED} >= {"table", "level", "beside", "microdata", "problem", "staging", "rows"}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize(("kind", "name", "place"), NAMED)
def test_no_name_leads_out_of_a_root(kind, name, place, hostile, tmp_path):
    """A name that is refused raises; one that is not, such as "" with an ending behind it, lies in the root."""
    root = tmp_path / "a" / "b" / "c" / "root"
    try:
        found = getattr(kind(root), name)(*arguments(kind, name, hostile, place))
    except OutputError as error:
        assert "is no name of a file" in error.message  # noqa: PT017 - one of two ways to be safe
        return
    assert hostile in ("", "..")
    assert Path(os.path.abspath(found)).is_relative_to(root)
    assert found != root


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_is_made_of_what_is_no_name(hostile, tmp_path):
    for root in (tmp_path, Location(POSIX, PurePosixPath("/bucket/runs"))):
        with pytest.raises(OutputError, match="is no name of a file or folder"):
            inside(root, "a", hostile)


@pytest.mark.parametrize(("kind", "name"), FIXED)
def test_a_link_that_leads_out_of_a_root_is_not_followed(kind, name, tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    root.mkdir()
    victim.mkdir()
    whole = getattr(kind(root), name)
    first = (whole.path if isinstance(whole, TablesLayout) else whole).relative_to(root).parts[0]
    (root / first).symlink_to(victim)
    with pytest.raises(OutputError, match="leads out of"):
        getattr(kind(root), name)


@pytest.mark.parametrize(("kind", "name", "place"), NAMED)
def test_a_link_at_the_place_of_a_name_is_not_followed_either(kind, name, place, tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    root.mkdir()
    victim.mkdir()
    given = arguments(kind, name, "text", place)
    path = getattr(kind(root), name)(*given)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(victim, target_is_directory=True)
    with pytest.raises(OutputError, match="leads out of"):
        getattr(kind(root), name)(*given)


def test_links_within_a_root_and_to_the_root_are_fine(tmp_path):
    real = tmp_path / "disk"
    (real / "tables_of_before").mkdir(parents=True)
    (real / "tables").symlink_to("tables_of_before")
    (tmp_path / "root").symlink_to(real)
    assert PublicLayout(tmp_path / "root").tables.path == tmp_path / "root" / "tables"


def test_a_root_beside_one_of_the_same_beginning_is_outside(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root2").mkdir()
    (tmp_path / "root" / "x").symlink_to(tmp_path / "root2")
    with pytest.raises(OutputError, match="leads out of"):
        inside(tmp_path / "root", "x")


def test_a_joint_run_and_a_journal_stay_in_their_folders(tmp_path):
    joint = JointLayout.at(tmp_path / "runs", "joint")
    joint.path.mkdir(parents=True)
    (joint.path / "privacy_statement.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="leads out of"):
        _ = joint.privacy_statement
    layout = RunLayout.at(tmp_path / "runs", "first")
    with pytest.raises(OutputError, match="is no name of a file"):
        Journal.of(layout).open("../../../x", 1)


def test_files_are_promoted_and_written_within_their_folder(tmp_path):
    staging, target = tmp_path / "staging", tmp_path / "run" / "target"
    staging.mkdir()
    (tmp_path / "part-0").write_bytes(b"")
    record = FileRecord("../part-0", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    with pytest.raises(OutputError, match="is no name of a file"):
        promote(staging, target, [record])
    with pytest.raises(OutputError, match="is no name of a file"):
        write_texts(tmp_path / "folder", {"../x.json": "x"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "part-0", "run", "staging"]
    assert SweepLayout(tmp_path / "s").record.parent == tmp_path / "s"


@pytest.mark.parametrize("hostile", [name for name in HOSTILE if name != "a/b"])
def test_a_path_below_a_root_leads_out_of_none(tmp_path, hostile):
    layout = PublicLayout(tmp_path)
    assert layout.file("tables/P1.csv/part-0") == tmp_path / "tables" / "P1.csv" / "part-0"
    with pytest.raises(OutputError):
        layout.file(hostile)
