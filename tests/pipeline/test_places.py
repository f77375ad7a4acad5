"""A run and everything made of it by relative names, while Spark's JVM has another working folder; and what is public
of all that names no place of the machine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.pipeline import run_stages, verify_run
from das_spark.store import PublicManifest, RestrictedManifest

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

CONF = Path(__file__).parents[2] / "conf" / "pl94_2020_simulated.toml"
KEY = "an open secret"
SETTINGS = (
    "input.path=census-of-nobody",
    "output.root=all-runs",
    "geography.spine=optimised",
    "budget.strategy=state",
    "measurement.rows=all",
    "evaluation.areas=precincts.csv",
    'output.microdata=["parquet", "ppmf"]',
)


def given(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def place(tmp_path_factory, spark) -> Path:
    """A folder with a run, its measurements, tables and figures, all of them made from within it by relative names."""
    assert spark is not None
    folder, before = tmp_path_factory.mktemp("of-a-machine"), Path.cwd()
    os.chdir(folder)  # the JVM stays where it was started
    try:
        asked = ["--like", "2020-state", "--share", "1/4000", "--layout", "cef", "--out", "census-of-nobody"]
        assert main(["simulate", *asked]) == 0
        Path("precincts.csv").write_text("block,precinct\n")
        conf = shutil.copy(CONF, "run.toml")
        assert main(["run", conf, "--run-id", "first", "--test-key", KEY, *given(*SETTINGS)]) == 0
        assert main(["verify", "all-runs/first"]) == 0
        assert main(["tabulate", "all-runs/first", "--out", "tables"]) == 0
        plain = [*SETTINGS, "geography.spine=census", "evaluation.enabled=false", "output.tables=[]"]
        assert main(["run", conf, "--run-id", "plain", "--test-key", KEY, *given(*plain)]) == 0
        assert main(["measurements", "all-runs/plain/public", "--out", "noisy"]) == 0
        assert main(["estimate", "--from-measurements", "noisy", "--run-id", "again", "--output", "all-runs"]) == 0
        assert main(["evaluate", "all-runs/first", "--areas", "precincts.csv", "--out", "figures"]) == 0
    finally:
        os.chdir(before)
    return folder


def test_nothing_was_written_anywhere_else(place):
    names = {"all-runs", "census-of-nobody", "figures", "noisy", "precincts.csv", "run.toml", "tables"}
    ledger = "census-of-nobody.privacy-ledger.jsonl"
    assert {path.name for path in place.iterdir()} - {ledger} == names
    assert (place / "all-runs" / "first" / "restricted" / "leaves" / "_SUCCESS").is_file()
    assert not [name for name in sorted(names) if (Path.cwd() / name).exists()]


def test_nothing_public_names_a_place_of_the_machine(place):
    needles = [str(place), str(place.resolve()), "/census-of-nobody", "all-runs", str(Path.cwd()), str(Path.home())]
    public = [place / "all-runs" / run / "public" for run in ("first", "plain", "again")]
    looked = 0
    for folder in (*public, place / "noisy", place / "tables"):
        for path in filter(Path.is_file, folder.rglob("*")):
            looked += 1
            content = [path.read_bytes().decode("utf-8", "replace")]
            if path.suffix == ".parquet":  # its pages are compressed
                content += [str(pq.read_metadata(path).metadata), *map(str, pq.ParquetFile(path).read().to_pylist())]
            found = [needle for needle in needles for text in content if needle in text]
            assert not found, path
    assert looked > 100


def test_every_csv_is_read_without_options(place):
    files = [path for path in place.rglob("*.csv") if path.is_file() and path.name != "precincts.csv"]
    folders = {path.relative_to(place).parts[0] for path in files}
    assert folders == {"all-runs", "figures", "tables"}
    for path in files:
        read = pd.read_csv(path)
        assert len(read.columns) > 1, path
        assert not [name for name in read.columns if name.startswith(("#", "Unnamed"))], path
        restricted = "figures" in path.parts
        assert restricted == path.name.endswith(".restricted.csv") == ("classification" in read.columns), path


def test_the_restricted_manifest_says_where_everything_lay(place):
    folder = place / "all-runs" / "first"
    told = RestrictedManifest.load(folder / "restricted" / "manifest.json")
    assert told.places["input.path"] == str(place / "census-of-nobody")
    assert told.places["output.root"] == str(place / "all-runs")
    assert all(path.startswith(str(place)) for path in told.input_files)
    public = PublicManifest.load(folder / "public" / "manifest.json")
    assert public.config["input"]["path"] == "census-of-nobody"
    again = RestrictedManifest.load(place / "all-runs" / "again" / "restricted" / "manifest.json")
    assert again.places == {"output.root": str(place / "all-runs")}


def test_the_same_run_by_absolute_paths_is_the_same_run(place, spark):
    absolute = [
        setting.replace("=census", f"={place}/census").replace("=all-", f"={place}/all-") for setting in SETTINGS
    ]
    plan = load_plan(place / "run.toml", settings=[*absolute, f"evaluation.areas={place}/precincts.csv"])
    lines: list[str] = []
    summary = run_stages(plan, run_id="first", test_key=KEY, spark=spark, progress=lines.append)
    assert summary.layout.folder == place / "all-runs" / "first"
    assert verify_run(summary.layout.folder, spark).passed


def test_a_run_of_another_configuration_is_told_in_which_keys_it_differs(place, capsys):
    changed = [f"output.root={place}/all-runs", f"input.path={place}/census-of-nobody", "estimation.gap_tolerance=1e-7"]
    rest = [
        setting
        for setting in SETTINGS
        if setting.split("=")[0] not in ("output.root", "input.path", "evaluation.areas")
    ]
    before = json.dumps(sorted(map(str, place.rglob("*"))))
    assert main(["run", str(place / "run.toml"), "--run-id", "first", "--test-key", KEY, *given(*rest, *changed)]) == 1
    said = capsys.readouterr().err
    assert "belongs to another run (first, configuration" in said
    assert (
        'estimation.gap_tolerance is 1e-06 there and 1e-07 here; evaluation.areas is "precincts.csv" there and' in said
    )
    assert "not set here" in said
    assert json.dumps(sorted(map(str, place.rglob("*")))) == before
