"""Every place that a command or a run file names is a path or an address, but for a few, each with its reason."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from das_spark.cli import main as door
from das_spark.cli.main import main
from das_spark.config import load_plan, load_run
from das_spark.config.features import feature_sources
from das_spark.config.load import absolute_places, read_tables, run_file_of
from das_spark.config.model import PATH_KEYS
from das_spark.errors import ConfigurationError, OutputError, Problems
from das_spark.io import population_files
from das_spark.places import Place, place_of
from das_spark.store import files_below

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART = str(CONF / "quickstart.toml")

RUN_FILE = "people edit run files, which name other files as seen from themselves"
#: Parameters that are paths of this machine alone, by command (of any, where none is named) and name.
PATHS_ALONE = {
    "conf": RUN_FILE,
    "overlay": RUN_FILE,
    "init out": RUN_FILE,
    "budget suggest out": f"an overlay is written: {RUN_FILE}",
    "plan compare other": RUN_FILE,
    "spine build shares": RUN_FILE,
    "product new out": "product files are edited as run files are, and may be code",
}


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the application with the words that call it."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name), command


#: Command and parameter, of each that has the type of a path.
PATHS = [
    (words, parameter)
    for words, command in commands(typer.main.get_command(door.app))
    for parameter in command.params
    if parameter.type_descriptor.annotation in (Path, list[Path])
]


def test_parameters_are_paths_alone_for_a_reason_and_no_others() -> None:
    named = {(" ".join(words), parameter.name) for words, parameter in PATHS}
    known = {name if name in PATHS_ALONE else f"{words} {name}" for words, name in named}
    assert known == set(PATHS_ALONE)


@pytest.mark.parametrize(
    ("words", "parameter"), PATHS, ids=[" ".join((*words, str(parameter.name))) for words, parameter in PATHS]
)
def test_an_address_in_the_place_of_a_path_is_named_with_its_option(words, parameter, capsys) -> None:
    option = next((opt for opt in parameter.opts if opt.startswith("--")), None)
    address = "s3://bucket/somewhere/run.toml"
    before = [QUICKSTART] if (words, parameter.name) == (("plan", "compare"), "conf") else []
    assert main([*words, *before, *([] if option is None else [option]), address]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"Invalid value for '{option or parameter.metavar}': {address} is an address" in said


@pytest.mark.parametrize("key", [*PATH_KEYS, *feature_sources()], ids=".".join)
def test_every_place_of_a_run_file_may_be_an_address(key: tuple[str, ...]) -> None:
    address = "memory://bucket/place"
    problems, data = Problems("run"), read_tables(QUICKSTART, (), [f'{".".join(key)}="{address}"'])
    given, wrong = run_file_of(data, "run")
    wrong.raise_if_any()
    found: Any = absolute_places(given, problems)
    problems.raise_if_any()
    for name in key:
        found = getattr(found, name)
    assert found == address


@pytest.mark.parametrize("named", ["s3://bucket/mine.toml", "s3://bucket/mine.py:PRODUCT"])
def test_files_of_people_are_paths_wherever_they_are_named(tmp_path: Path, named: str) -> None:
    text = Path(QUICKSTART).read_text(encoding="utf-8")
    (tmp_path / "run.toml").write_text(text.replace('"e2e_2018"', f'"{named}"', 1))
    address = named.removesuffix(":PRODUCT")
    with pytest.raises(ConfigurationError, match=rf"run\.product: {address}: is an address, and a product file"):
        load_plan(tmp_path / "run.toml", files=False)
    with pytest.raises(ConfigurationError, match=f"{address}: is an address, and a run file is a file of this machine"):
        load_run(address)
    (tmp_path / "joint.toml").write_text(
        f'config_version = 1\n[run]\nname = "x"\nparts = ["{QUICKSTART}", "{address}"]\n'
    )
    with pytest.raises(ConfigurationError, match=f"{address}: is an address, and a run file is a file of this machine"):
        load_run(tmp_path / "joint.toml", files=False)


# What commands write without Spark.


@pytest.fixture
def address() -> str:
    return f"memory://{secrets.token_hex(4)}/below"


def contents(place: Place) -> dict[str, bytes]:
    return {name: (place / name).read_bytes() for name in files_below(place)}


WRITING = {
    "plan": ["plan", QUICKSTART, "--out"],
    "experiment": ["experiment", "epl-appendix", "--epsilon", "1/2", "--replicates", "1", "--out"],
    "audit": ["audit", QUICKSTART, "--stage", "measurement", "--draws", "40", "--test-key", "k", "--out"],
    "simulate": ["simulate", "--like", "quickstart", "--out"],
    "simulate ipums": ["simulate", "--like", "1940", "--share", "1/2000", "--layout", "ipums", "--gzip", "--out"],
    "simulate cef": ["simulate", "--like", "2020-state", "--share", "1/2000", "--layout", "cef", "--out"],
}


@pytest.mark.parametrize("name", WRITING)
def test_a_command_writes_the_same_to_a_store(name: str, address: str, tmp_path: Path, capsys) -> None:
    for out in (str(tmp_path / "out"), address):
        assert main([*WRITING[name], out]) == 0
        assert out in capsys.readouterr().out
    written = contents(tmp_path / "out")
    assert len(written) > 1
    if name == "audit":  # its files say how long it took
        assert contents(place_of(address)).keys() == written.keys()
    else:
        assert contents(place_of(address)) == written


def test_a_population_that_could_not_be_made_leaves_nothing_in_a_store(address: str, monkeypatch, capsys) -> None:
    def fail(*_: object) -> str:
        assert files_below(place_of(address)), "it is written where it shall lie"
        raise OutputError("the store cannot be reached")

    monkeypatch.setattr(population_files, "_readme", fail)
    assert main([*WRITING["simulate"], address]) == 1
    assert files_below(place_of(address)) == []
    monkeypatch.undo()
    assert main([*WRITING["simulate"], address]) == 0
    assert main([*WRITING["simulate"], address]) == 1
    assert f"{address}: is there already" in capsys.readouterr().err
