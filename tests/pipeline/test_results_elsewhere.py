"""What commands make of runs, in a store of objects: the same bytes as on a disk, and read there as from one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from eight_blocks import BLOCKS, EMPTY, write_run_file

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.errors import InputError, OutputError
from das_spark.features.intervals import finished as intervals
from das_spark.io.noisy_files import RECORD
from das_spark.pipeline.noisy_sources import open_external
from das_spark.places import Place, copy_file, place_of
from das_spark.store import RunLayout, files_below, new_folder

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

KEY = "an open secret"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, spark) -> Iterator[servers.Server]:
    """A server of S3, to which driver and tasks are led."""
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as running, servers.reached(running.environment, spark):
        yield running


@pytest.fixture
def address(server: servers.Server) -> str:
    return f"{server.url}/{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("results"), "40", '[measurement]\nrows = "all"\n')


@pytest.fixture(scope="module")
def whole(conf: Path, spark) -> RunLayout:
    """A whole run with all noisy answers and with its confidential tables, which nobody may change."""
    settings = ["--set", "evaluation.enabled=true", "--set", "run.name=whole"]
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", KEY, *settings]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


@pytest.fixture(scope="module")
def measured(whole: RunLayout, server: servers.Server) -> dict[str, Place]:
    """The measurements of the run in a folder of a disk, and in one of a store."""
    places = {"disk": whole.folder.parent / "measurements", "store": place_of(f"{server.url}/measured/run")}
    for place in places.values():
        assert main(["measurements", str(whole.folder), "--out", str(place)]) == 0
    return places


def contents(place: Place) -> dict[str, bytes]:
    return {name: (place / name).read_bytes() for name in files_below(place)}


def test_measurements_are_the_same_there_and_estimated_from(measured, whole, address, tmp_path, capsys) -> None:
    assert contents(measured["store"]) == contents(measured["disk"])
    assert RECORD in contents(measured["store"])
    made = {}
    for name, place in measured.items():
        root = address if name == "store" else str(tmp_path / "runs")
        given = ["--from-measurements", str(place), "--run-id", "again", "--output", root]
        assert main(["estimate", *given]) == 0
        made[name] = contents(place_of(f"{root}/again/public/estimates"))
    assert made["store"] == made["disk"] != {}
    assert main(["measurements", str(whole.folder), "--out", str(measured["store"])]) == 1
    assert "is there already" in capsys.readouterr().err
    place = next(
        each for each in map(measured["store"].__truediv__, files_below(measured["store"])) if "part-" in each.name
    )
    kept = place.read_bytes()
    place.system.write(str(place), kept[:-1] + b"!")
    try:
        assert main(["estimate", "--from-measurements", str(measured["store"])]) == 1
        assert "is not as it was published" in capsys.readouterr().err
    finally:
        place.system.write(str(place), kept)


def test_measurements_of_others_are_read_there(measured, conf, address, tmp_path, spark) -> None:
    plan = load_plan(conf, settings=["invariants.units=false"], files=False)
    there, here = place_of(f"{address}/theirs"), tmp_path / "theirs"
    for name in files_below(measured["disk"] / "e2e_2018"):
        (here / "e2e_2018" / name).parent.mkdir(parents=True, exist_ok=True)
        for theirs in (here, there):
            copy_file(measured["disk"] / "e2e_2018" / name, theirs / "e2e_2018" / name)
    local, other = (open_external(place, plan) for place in (here, there))
    assert other.plan.origin == local.plan.origin
    assert [(file.level, file.kind, file.path.name) for file in other.files] == [
        (file.level, file.kind, file.path.name) for file in local.files
    ]
    for source in (local, other):
        source.check(spark)
    place = other.files[0].path
    place.system.write(str(place), b"PAR1 and no more")
    with pytest.raises(InputError, match=r"County\.parquet/DPQuery/part-.*: is not a whole Parquet file"):
        open_external(there, plan)
    place.system.remove(str(place))
    with pytest.raises(InputError, match=r"geolevel County are missing \(County\.parquet/DPQuery\)"):
        open_external(there, plan)
    with pytest.raises(InputError, match=f"{address}/nothing: no such folder"):
        open_external(place_of(f"{address}/nothing"), plan)


def test_intervals_are_told_of_what_lies_there(measured, whole, address, tmp_path, capsys) -> None:
    rows = [f"{block},{'north' if number < 4 else 'south'}" for number, block in enumerate(BLOCKS) if block != EMPTY]
    text = "\n".join(["geocode,area", *rows]).encode()
    (tmp_path / "areas.csv").write_bytes(text)
    areas = place_of(f"{address}/areas.csv")
    areas.system.write(str(areas), text)
    table, of_run = ["--table", "P1"], ["interval", str(whole.folder), "--table", "P1"]
    local = ["--areas", str(tmp_path / "areas.csv"), "--out", str(tmp_path / "a.csv")]
    assert main([*of_run, *local]) == 0
    assert main(["interval", str(measured["store"]), *table, "--areas", str(areas), "--out", f"{address}/a.csv"]) == 0
    assert f"intervals in {address}/a.csv" in capsys.readouterr().out
    assert place_of(f"{address}/a.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    for out in (str(tmp_path / "all"), f"{address}/all"):
        assert main([*of_run, "--geolevel", "County", "--out", out]) == 0
    assert contents(place_of(f"{address}/all")) == contents(tmp_path / "all") != {}
    for out in (str(tmp_path / "wide.csv"), f"{address}/wide.csv"):
        assert main([*of_run, "--wider-than", "20", "--out", out]) == 0
        assert main([*of_run, "--wider-than", "20", "--out", out]) == 1
        assert f"{out}: is there already" in capsys.readouterr().err
    assert place_of(f"{address}/wide.csv").read_bytes() == (tmp_path / "wide.csv").read_bytes()
    assert set(files_below(place_of(address))) == {
        "areas.csv",
        "a.csv",
        "wide.csv",
        *(f"all/{content}" for content in contents(tmp_path / "all")),
    }


def test_a_csv_of_intervals_that_cannot_be_finished_is_not_there(whole, address, tmp_path, monkeypatch) -> None:
    from das_spark.features.intervals.commands import interval

    def broken() -> Iterator[intervals.AreaInterval]:
        yield intervals.AreaInterval("north", "P1", "P0010001", "Total", 0, 1.0, 1.0, 0, 2)
        raise InputError("the file of areas is cut off")

    for out in (place_of(f"{address}/a.csv"), tmp_path / "a.csv"):
        with pytest.raises(InputError, match="cut off"):
            interval._write(broken(), out)
        assert files_below(out.parent) == []


def test_tables_and_reports_lie_there(whole, address, tmp_path, capsys) -> None:
    for out in (str(tmp_path), address):
        assert main(["tabulate", str(whole.folder), "--out", f"{out}/tables"]) == 0
        assert main(["show", str(whole.folder), "--page", f"{out}/run.html"]) == 0
        assert main(["show", str(whole.folder), "--statement", f"{out}/statement.html"]) == 0
        written = ["--out", f"{out}/accuracy", "--data", f"{out}/data"]
        assert main(["evaluate", str(whole.folder), *written]) == 0
        assert f"written to {out}/accuracy (restricted)" in capsys.readouterr().out
    there = contents(place_of(address))
    assert there == contents(tmp_path)
    assert {"tables/manifest.json", "run.html", "statement.html", "accuracy/accuracy.html"} < there.keys()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "accuracy").iterdir()} == {0o600}
    assert main(["tabulate", str(whole.folder), "--out", f"{address}/tables"]) == 1
    assert f"{address}/tables: is there already" in capsys.readouterr().err


def test_a_folder_that_is_not_finished_leaves_nothing(address) -> None:
    out = place_of(f"{address}/out")

    def write() -> None:
        with new_folder(out) as made:
            made.system.write(str(made / "part-0"), b"rows")
            raise OutputError("the store cannot be reached")

    with pytest.raises(OutputError, match="cannot be reached"):
        write()
    assert not out.exists()


def test_the_folder_of_a_sweep_lies_there_and_goes_on(conf, address, capsys) -> None:
    sweep = ["sweep", str(conf), "--epsilon", "40", "--runs", "1", "--samples", "none", "--test-key", KEY]
    settings = ["--set", "evaluation.enabled=true", "--set", "run.name=swept"]
    assert main([*sweep, *settings, "--out", f"{address}/sweep", "--data", f"{address}/data"]) == 0
    assert f"{address}/sweep/sweep.html" in capsys.readouterr().out
    names = {name for name in files_below(place_of(address)) if name.startswith("sweep/")}
    assert {"sweep/sweep.json", "sweep/sweep.html", "sweep/curve.restricted.csv"} <= names
    record = json.loads(place_of(f"{address}/sweep/sweep.json").read_text())
    assert set(record["states"].values()) == {"finished"}
    assert main([*sweep, *settings, "--out", f"{address}/sweep"]) == 0
    assert "1 of 1 are finished" in "".join(capsys.readouterr())
    assert main([*sweep, "--set", "run.name=another", "--out", f"{address}/sweep"]) == 1
    assert f"{address}/sweep holds another sweep" in capsys.readouterr().err
