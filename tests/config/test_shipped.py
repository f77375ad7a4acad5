"""Run files that come with das_spark are known by name, and no other file is ever taken for one that was meant."""

import pytest

from das_spark.config import load_run
from das_spark.config.load import FOLDER, read_tables, run_file_path, shipped_run_files
from das_spark.errors import ConfigurationError


def test_a_bare_name_is_a_run_file_that_came_with_the_package(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_file_path("quickstart") == FOLDER / "quickstart.toml"
    assert load_run("quickstart").name == "quickstart"


def test_a_file_of_that_name_goes_first(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").write_text("[run]\nname = 'mine'\n")
    assert read_tables("quickstart") == {"run": {"name": "mine"}}


@pytest.mark.parametrize("path", ["conf/quickstart.toml", "quickstart.toml", "./quickstart", "elsewhere/quickstart"])
def test_a_path_is_looked_for_nowhere_else(monkeypatch, tmp_path, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"no such run file.*called quickstart, without folder"):
        load_run(path)


def test_a_name_that_nothing_has_is_said_as_it_was_given(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"^\[DAS100\] quikstart: no such run file.*quikstart$"):
        load_run("quikstart")


def test_parts_of_a_joint_run_are_found_beside_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plan = load_run("pl94_2020", settings=[f'input.path="{tmp_path}"'], files=False)
    assert len(plan.parts) == 2


def test_a_shipped_file_may_be_an_overlay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("[run]\nname = 'mine'\n")
    assert read_tables("mine.toml", ["quickstart"])["run"]["name"] == "quickstart"


def test_every_shipped_file_is_listed():
    assert set(shipped_run_files()) == {path.stem for path in FOLDER.glob("*.toml")} >= {"quickstart", "reference"}
