"""Whatever stands in a run file or behind `--set`: one sentence in words of the run file, never one of a library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from das_spark.cli.main import main
from das_spark.config import load_run, load_sweep
from das_spark.config.model import RunFile
from das_spark.errors import ConfigurationError, DasError

CONF = Path(__file__).parents[2] / "conf" / "quickstart.toml"


def said_of(*settings: str, conf: str | Path = CONF) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_run(conf, settings=settings, files=False)
    assert "\n" not in caught.value.message, "one mistake, one sentence"
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("budget.epsilon=1e9999", "budget.epsilon: 1e9999 has more than 300 digits"),
        ("budget.epsilon=1e-9999", "budget.epsilon: 1e-9999 has more than 300 digits"),
        ("budget.epsilon=1e999999999999", "has more than 300 digits"),
        ("budget.geolevels.County=1e9999", "budget.geolevels.County: 1e9999 has more than 300 digits"),
        ("input.simulate.share=1e-9999", "input.simulate.share: 1e-9999 has more than 300 digits"),
        (
            "input.simulate.like=1941",
            "is not one of 'quickstart', '1940', '2020', '2020-state' or '2010-state'; did you mean '1940'?",
        ),
        ("geography.levels=[]", "geography.levels: is empty; name one, or leave the key out"),
        ("estimation.solvers=[]", "estimation.solvers: is empty"),
        ("geography.levels=State", "geography.levels: must be a list, found 'State'; write [\"State\"]"),
        ('output.microdata=["pdf"]', "output.microdata.0: 'pdf' is not one of"),
        ("input.reader=2020", 'input.reader: must be a text, found 2020; write it in quotes: "2020"'),
        ("config_version=9", "config_version: must be 1, the version that this das_spark reads, found 9"),
        ("invariants=3", "invariants: must be a table, found 3"),
        ("run=3", "run: must be a table, found 3"),
        ("estimation.gap_tolerance=abc", "estimation.gap_tolerance: 'abc' is not a number"),
        ("estimation.gap_tolerance=0", "estimation.gap_tolerance: must be greater than 0, found 0"),
        ("=3", "--set =3: there is no key before the '='"),
        (" =3", "there is no key before the '='"),
        ('a"b=3', "there is no '=' Hint: write key.path=value, with both quotes"),
        ("epsilon", "--set epsilon: there is no '='"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_run_file(setting, sentence):
    assert sentence in said_of(setting)


@pytest.mark.parametrize("like", ["1940", "2020"])
def test_a_population_named_by_a_year_needs_no_quotes(like):
    assert load_run(CONF, settings=[f"input.simulate.like={like}"], files=False).input.population.like == like


def test_a_run_named_by_a_year_needs_no_quotes():
    assert load_run(CONF, settings=["run.name=2020"], files=False).name == "2020"


def keys_of(model: type[BaseModel], before: str = "") -> list[str]:
    """Every key path of a run file; of lists of tables the list alone."""
    found = []
    for name, field in model.model_fields.items():
        inner = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
        found.append(f"{before}{name}")
        for each in inner:
            if issubclass(each, BaseModel):
                found += keys_of(each, f"{before}{name}.")
    return found


ANYTHING = ("3", "-1", "1" * 400, '"x"', '""', "true", "[]", "[[]]", "[3]", "[{}]", "{}", '{State = "x"}', '"1e9999"')
LIBRARIES = ("nput should", "pydantic", "tuple", "dictionary", "instance of")


def refusal(load: Callable[[], object]) -> str:
    """What is said where something is refused; any other error than one of ours fails the test."""
    try:
        load()
    except DasError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", keys_of(RunFile))
def test_whatever_a_key_holds_it_is_right_or_refused_as_ours(key):
    for value in ANYTHING:
        said = refusal(lambda value=value: load_run(CONF, settings=[f"{key}={value}"], files=False))
        assert not [word for word in LIBRARIES if word in said], (value, said)


@pytest.mark.parametrize("value", ANYTHING)
@pytest.mark.parametrize("key", ["run", "budget", "budget.geolevels", "output"])
def test_a_sweep_of_a_wrong_run_file_is_refused_as_ours(key, value):
    said = refusal(lambda: load_sweep(CONF, epsilon=["1"], settings=[f"{key}={value}"]))
    assert not [word for word in LIBRARIES if word in said], said


@pytest.mark.parametrize("number", ["1e9999", "1e999999999999", "9" * 500, "1/" + "9" * 500])
@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep", str(CONF), "--out", "out", "--epsilon"),
        ("sweep", str(CONF), "--out", "out", "--epsilon", "1", "--samples"),
        ("simulate", "--like", "2020", "--out", "out", "--share"),
        ("evaluate", "nowhere", "--samples"),
        ("spine", "report", "nowhere", "--geography", "x", "--reader", "tidy", "--budget"),
    ],
    ids=lambda arguments: " ".join((arguments[0], arguments[-1])),
)
def test_a_number_beyond_all_use_is_refused_by_every_option(capsys, tmp_path, monkeypatch, arguments, number):
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, number]) == 2
    said = capsys.readouterr().err
    assert "has more than 300 digits" in said or "--share: expected a share above 0 and up to 1" in said


class TestFilesThatAreNoRunFile:
    def test_a_byte_order_mark_is_passed_over(self, tmp_path):
        path = tmp_path / "run.toml"
        path.write_bytes(b"\xef\xbb\xbf" + CONF.read_bytes())
        assert load_run(path).name == "quickstart"

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
    def test_text_in_another_encoding_is_told_apart(self, tmp_path, encoding):
        path = tmp_path / "run.toml"
        path.write_bytes(CONF.read_text().encode(encoding))
        said = said_of(conf=path)
        assert "TOML is UTF-8" in said
        assert "save it again with the encoding UTF-8" in said

    def test_a_sign_of_another_encoding_is_found_by_its_line(self, tmp_path):
        path = tmp_path / "run.toml"
        path.write_bytes(CONF.read_text().encode() + "\n# Zürich\n".encode("latin-1"))
        line = len(path.read_bytes().splitlines())
        assert f"line {line} has a sign that is not UTF-8" in said_of(conf=path)

    def test_a_folder_is_no_run_file(self, tmp_path):
        assert f"{tmp_path}: is a folder" in said_of(conf=tmp_path)


class TestNamesThatAreNearlyRight:
    def test_of_a_run_file_that_comes_with_das_spark(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["check", "quikstart"]) == 2
        assert "did you mean 'quickstart'?" in capsys.readouterr().err

    def test_of_a_run_file_in_a_folder(self, tmp_path):
        (tmp_path / "mine.toml").write_text("")
        assert f"did you mean '{tmp_path}/mine.toml'?" in said_of(conf=tmp_path / "mien.toml")

    def test_of_an_overlay(self, tmp_path, monkeypatch):
        (tmp_path / "production.toml").write_text("")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigurationError) as caught:
            load_run(CONF, ["prodution.toml"])
        assert "did you mean 'production.toml'?" in str(caught.value)

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            (("simulate", "--like", "quikstart", "--out", "o"), "quickstart"),
            (("run", "quickstart", "--run-id", "x", "--until", "mesure County"), "measure County"),
        ],
    )
    def test_of_other_names(self, tmp_path, monkeypatch, capsys, arguments, name):
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == 2
        assert f"did you mean '{name}'?" in capsys.readouterr().err

    def test_nothing_is_offered_where_nothing_is_near(self, tmp_path):
        assert "did you mean" not in said_of(conf=tmp_path / "zzz.toml")


@pytest.mark.parametrize(
    ("option", "said"),
    [("--run-id", "--run-id: is empty"), ("--output", "output.root: is empty"), ("--out", "output.root: is empty")],
)
def test_an_option_that_a_script_left_empty_is_refused(capsys, tmp_path, monkeypatch, option, said):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "quickstart", option, ""]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
