"""Places of a machine in a run file: absolute in the plan, and no part of what everybody may read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, plan_to_config
from das_spark.config.load import PATH_KEYS
from das_spark.errors import ConfigurationError
from das_spark.store import RunLayout

CONF = Path(__file__).parents[2] / "conf"
EVERY_PLACE = (
    "input.path=census",
    "output.root=runs",
    "output.public=open",
    "output.restricted=closed",
    "geography.reader=tidy",
    "geography.path=blocks.csv",
    "evaluation.areas=precincts.csv",
)


def load(*settings: str):
    return load_plan(CONF / "pl94_2020_person.toml", settings=settings, files=False)


def test_every_path_of_a_plan_is_absolute_from_the_folder_in_which_it_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = load(*EVERY_PLACE)
    monkeypatch.chdir("/")
    assert plan.output.root == str(tmp_path / "runs")
    assert (plan.output.public, plan.output.restricted) == (str(tmp_path / "open"), str(tmp_path / "closed"))
    assert plan.input.path == str(tmp_path / "census")
    assert plan.geography.path == str(tmp_path / "blocks.csv")
    assert plan.evaluation.areas == str(tmp_path / "precincts.csv")
    assert len(plan.places) == len(EVERY_PLACE) - 1
    assert all(Path(path).is_absolute() for path in plan.places.values())


def test_the_folder_of_runs_is_absolute_where_nobody_named_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load("input.path=x").output.root == str(tmp_path / "runs")


def test_a_tilde_is_the_home_of_whoever_runs_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("input.path=x", 'output.root="~/runs"').output.root == str(tmp_path / "runs")


def test_a_run_is_the_same_run_by_whatever_path_its_places_are_named(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    relative = load(*EVERY_PLACE)
    monkeypatch.chdir("/")
    absolute = load(*(f"{key}={folder / value}" if value[0] != "t" else f"{key}={value}"
                      for key, _, value in (each.partition("=") for each in EVERY_PLACE)))  # fmt: skip
    elsewhere = load(*EVERY_PLACE, "output.root=/another/place")
    assert relative.config_hash == absolute.config_hash == elsewhere.config_hash
    assert plan_to_config(relative) == plan_to_config(absolute)
    assert relative.places == absolute.places != elsewhere.places


def test_other_files_and_other_keys_are_other_configurations():
    first = load("input.path=census", "evaluation.areas=a.csv")
    assert first.config_hash != load("input.path=census", "evaluation.areas=b.csv").config_hash
    assert first.config_hash != load("input.path=census").config_hash


def test_the_public_configuration_names_files_by_their_names_and_no_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = load(*EVERY_PLACE)
    assert str(tmp_path) not in json.dumps(plan_to_config(plan))
    assert plan_to_config(plan)["input"]["path"] == "census"
    assert plan_to_config(plan)["geography"]["path"] == "blocks.csv"
    assert set(plan_to_config(plan)["output"]) == {"microdata", "microdata_files", "tables"}


def test_a_folder_above_is_called_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert plan_to_config(load("input.path=.."))["input"]["path"] == tmp_path.name


ADDRESSES = ["s3a://bucket/x", "s3://bucket", "gs://b", "abfss://c@a.dfs.core.windows.net/x", "hdfs://node:8020/runs"]


@pytest.mark.parametrize("key", ["output.root", "output.public", "output.restricted", "ledger.path"])
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hdfs:/runs", "is neither a path nor an address, which is scheme://bucket/path"),
        ("ftp://host/runs", "no file system is known by the scheme ftp"),
        ("s3://bucket/../x", "holds '..', which means nothing in an address"),
    ],
)
def test_check_refuses_what_is_neither_a_path_nor_an_address(tmp_path, monkeypatch, capsys, key, address, said):
    monkeypatch.chdir(tmp_path)
    assert main(["check", "quickstart", "--set", f"{key}={address}"]) == 2
    assert f"{key}: {address}" in (told := capsys.readouterr().err)
    assert said in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_public_root_in_a_store_is_filled_from_another_place(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)

    def layout(*settings: str) -> RunLayout:
        return RunLayout.of(load_plan(Path("quickstart"), settings=settings).output, "mine")

    whole = layout(f"output.root={address}")
    assert str(whole.published.path) == f"{address}/mine/public"
    assert str(whole.public.path) == f"{address}/mine/restricted/unpublished"
    part = layout(f"output.public={address}")
    assert str(part.published.path) == f"{address}/mine"
    assert part.public.path == tmp_path / "runs" / "mine" / "restricted" / "unpublished"
    made = layout(f"output.root={address}", "output.work=made")
    assert made.public.path == tmp_path / "made" / "mine" / "public"
    assert made.restricted == whole.restricted
    closed = layout(f"output.restricted={address}")
    assert (closed.published, closed.public.path) == (None, tmp_path / "runs" / "mine" / "public")
    plans = [load_plan(Path("quickstart"), settings=each) for each in ([f"output.root={address}"], [])]
    assert plans[0].config_hash == plans[1].config_hash


def test_a_file_address_is_a_path(tmp_path):
    layout = RunLayout.of(load_plan(Path("quickstart"), settings=[f"output.root=file://{tmp_path}"]).output, "mine")
    assert layout.public.path == tmp_path / "mine" / "public"


def test_a_work_place_is_refused_where_nothing_is_copied_from_it():
    with pytest.raises(ConfigurationError, match=r"output\.work: what is public is written where it lies"):
        load_plan(Path("quickstart"), settings=["output.work=made"])


@pytest.mark.parametrize("place", PATH_KEYS, ids=".".join)
@pytest.mark.parametrize("value", ["", " ", "a\\u0000b"])
def test_what_cannot_be_a_path_is_refused_by_its_key(place, value):
    key = ".".join(place)
    with pytest.raises(ConfigurationError, match=rf"{key}: (is empty; name|holds a character)"):
        load("input.path=x", "geography.spine=dhc", f'{key}="{value}"')


def test_of_a_wrong_place_one_thing_is_said(write_run_file):
    with pytest.raises(ConfigurationError) as caught:
        load_plan(write_run_file(), settings=['input.persons="s3a:/bucket/p.parquet"'])
    assert "problems" not in caught.value.message
    assert caught.value.message.count("input.persons") == 1
