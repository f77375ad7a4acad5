"""A folder that somebody else has made executes nothing, and leads to nothing outside of it, whatever it says."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import das_spark
from das_spark.cli.main import main
from das_spark.config import config_hash, plan_from_config
from das_spark.errors import ConfigurationError, DasError
from das_spark.io.noisy_files import NoisyLayout
from das_spark.store import FileRecord, MeasurementsManifest, PublicLayout, PublicManifest, part_files, public_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

#: Every command that takes the public folder of a run, with what else it needs.
COMMANDS: dict[str, list[str]] = {
    "verify": [],
    "tabulate": ["--out", "made"],
    "estimate": ["--output", "made"],
    "interval": ["--out", "made"],
    "measurements": ["--out", "made"],
    "evaluate": [],
    "show": [],
}
#: Those that read the configuration of the run: `show` shows what is written.
PLANNING = [name for name in COMMANDS if name != "show"]
CANARY = 'from pathlib import Path\nPath("canary").write_text("executed")\nPRODUCT = None\n'


@pytest.fixture
def foreign(measured, tmp_path, monkeypatch) -> PublicLayout:
    """The public folder of another office, in a working folder that is empty but for it."""
    shutil.copytree(measured.layout("whole").public.path, tmp_path / "work" / "run")
    monkeypatch.chdir(tmp_path / "work")
    return PublicLayout(tmp_path / "work" / "run")


def with_config(public: PublicLayout, change: Callable[[dict[str, Any]], object]) -> None:
    """Plant another configuration in manifest and marker, under a hash that agrees."""
    manifest = PublicManifest.load(public.manifest)
    config = json.loads(json.dumps(manifest.config))
    change(config)
    marker = json.loads(public.marker.read_text())
    public.marker.write_text(json.dumps({**marker, "config": config, "config_hash": config_hash(config)}) + "\n")
    changed = replace(manifest, config=config, config_hash=config_hash(config))
    replace(changed, files=public_files(public)).save(public.manifest)


@contextmanager
def opened_files() -> Iterator[set[str]]:
    """Collect the paths of all files that Python opens meanwhile, and of modules that it executes."""
    paths: set[str] = set()
    watching = [True]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            paths.add(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)  # which nobody can take away again
    try:
        yield paths
    finally:
        watching.clear()


@pytest.mark.parametrize("command", PLANNING)
@pytest.mark.parametrize("place", ["run", "product"])
def test_a_product_that_is_a_python_file_is_never_imported(foreign, capsys, command, place):
    """In the folder, and in the working folder, where a run file would find it."""
    for folder in (foreign.path, Path.cwd()):
        (folder / "mine.py").write_text(CANARY)
    name = "mine.py:PRODUCT"
    change = {"run": lambda c: c["run"].update(product=name), "product": lambda c: c.update(product=name)}[place]
    with_config(foreign, change)
    assert main([command, str(foreign.path), *COMMANDS[command]]) != 0
    assert "configuration cannot be read" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="configuration cannot be read"):
        das_spark.open_run(foreign.path)
    assert not Path("canary").exists()
    assert not (foreign.path / "canary").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_links_are_refused_by_every_command_before_anything_is_read(foreign, tmp_path, capsys, command):
    secret = tmp_path / "secret"
    part = part_files(foreign.level("estimates", "County"))[0]
    shutil.move(part, secret)
    part.symlink_to(secret)
    with opened_files() as paths:
        assert main([command, str(foreign.path), *COMMANDS[command]]) == 1
        with pytest.raises(DasError, match="symbolic link"):
            das_spark.open_run(foreign.path)
    assert "is a symbolic link, which no run writes" in capsys.readouterr().err
    assert not {path for path in paths if path in (str(secret), str(part))}


@pytest.mark.parametrize("name", ["run.json", "manifest.json"])
def test_a_linked_text_is_not_read_and_not_quoted(foreign, tmp_path, capsys, name):
    secret = tmp_path / "secret"
    secret.write_text('{"password": "hunter2"}')
    (foreign.path / name).unlink()
    (foreign.path / name).symlink_to(secret)
    for command, words in COMMANDS.items():
        assert main([command, str(foreign.path), *words]) == 1
    said = capsys.readouterr()
    assert "hunter2" not in said.err + said.out
    assert "password" not in said.err + said.out


def test_a_linked_public_root_of_a_run_folder_is_refused_and_a_link_to_the_run_is_not(foreign):
    folder = Path("office")
    folder.mkdir()
    (folder / "public").symlink_to(foreign.path)
    with pytest.raises(DasError, match="symbolic link"):
        das_spark.open_run(folder)
    Path("latest").symlink_to(foreign.path)
    assert das_spark.open_run("latest").name == "whole"


@pytest.mark.parametrize("key", ["path", "crosswalk", "parents"])
def test_files_of_the_geography_that_a_manifest_names_are_not_opened(foreign, tmp_path, key):
    """They are names, and stay names: an absolute path is no configuration that a run writes, or is never opened."""
    secret = tmp_path / "secret.csv"
    secret.write_text("GEOID\n")
    with_config(foreign, lambda c: c["geography"].update({key: str(secret)}))
    with opened_files() as paths:
        for command in ("tabulate", "interval", "measurements", "estimate"):
            main([command, str(foreign.path), *COMMANDS[command]])
            shutil.rmtree("made", ignore_errors=True)
    assert str(secret) not in paths


def test_counts_of_a_manifest_lead_to_no_folder_outside(foreign, tmp_path, spark):
    """A name such as `estimates/../../../x` is a name that no run writes, and no path."""
    outside = tmp_path / "outside"
    shutil.copytree(foreign.level("estimates", "County"), outside)
    (foreign.path / "estimates" / "level=..").mkdir()
    manifest = PublicManifest.load(foreign.manifest)
    name = "estimates/../../../../../outside"
    assert (foreign.path / "estimates" / f"level={name.removeprefix('estimates/')}").resolve() == outside
    replace(manifest, rows={**manifest.rows, name: 5}).save(foreign.manifest)
    with opened_files() as paths:
        report = das_spark.verify(foreign.path, spark=spark)
    failed = {check.name: check.failing for check in report.failures}
    assert "manifest.json: rows" in failed["texts follow from the manifest"]
    assert f"rows of {name}" in failed
    assert not {path for path in paths if ".." in path or path.startswith(str(outside))}


def test_a_record_of_measurements_leads_to_no_file_outside(measured, tmp_path, capsys):
    folder, secret = tmp_path / "nmf", tmp_path / "part-secret"
    shutil.copytree(measured.folder / "nmf", folder)
    secret.write_text("secret")
    layout = NoisyLayout(folder)
    record = MeasurementsManifest.load(layout.record)
    for name in (str(secret), "../part-secret"):
        replace(record, files=(*record.files, FileRecord(name, 6, "0" * 64))).save(layout.record)
        with opened_files() as paths:
            assert main(["estimate", "--from-measurements", str(folder), "--output", str(tmp_path / "made")]) == 1
        assert f"{name} is missing" in capsys.readouterr().err
        assert not {path for path in paths if path.endswith("part-secret")}
    record.save(layout.record)
    (folder / "more").symlink_to(tmp_path)
    assert main(["estimate", "--from-measurements", str(folder), "--output", str(tmp_path / "made")]) == 1
    assert "is a symbolic link" in capsys.readouterr().err


def test_the_configuration_of_a_run_of_a_python_product_holds_its_definition(measured):
    """No module is needed to open such a run, so that none is loaded: a product in a manifest is plain data."""
    config = dict(PublicManifest.load(measured.layout("whole").public.manifest).config)
    with pytest.raises(ConfigurationError, match="configuration cannot be read"):
        plan_from_config({**config, "run": {**config["run"], "product": "das_spark.products:PRODUCTS"}}, source="it")
