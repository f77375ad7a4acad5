"""The name of the people in the files, and `[ledger]`: what must be said before a real key is used."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, load_run, plan_to_config
from das_spark.errors import ConfigurationError
from das_spark.pipeline import run_stages
from das_spark.pipeline.sweep import carry_out
from das_spark.privacy import Cap


def test_files_without_a_name_are_a_problem_among_the_others(write_run_file):
    path = write_run_file("[output]\nrott = 'x'\n")
    with pytest.raises(ConfigurationError) as caught:
        load_run(path, named=True)
    assert "2 problems" in caught.value.message
    assert "input.dataset: is missing: the name of the people" in caught.value.message
    assert "--set input.dataset=NAME" in caught.value.message


@pytest.mark.parametrize("command", ["check", "run"])
def test_every_command_that_may_use_a_real_key_demands_the_name(write_run_file, capsys, command, tmp_path):
    path = str(write_run_file(f'[output]\nroot = "{tmp_path}/runs"\n'))
    assert main([command, path]) == 2
    assert "input.dataset: is missing" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", [["--test-key", "x"], ["--set", "input.dataset=people"]])
def test_under_a_test_key_or_with_a_name_nothing_is_missing(write_run_file, given):
    # What the files hold is not asked here.
    assert main(["check", str(write_run_file()), *given, "--without-files"]) == 0


@pytest.mark.parametrize("words", [["plan"], ["plan", "stages"], ["plan", "--test-key", "x"]])
def test_plans_and_stages_are_shown_without_a_name(write_run_file, words):
    """Nothing is spent; schedulers ask for stages by the run file alone."""
    assert main([*words, str(write_run_file())]) == 0


def test_python_is_refused_too_before_a_folder_is_made(write_run_file, tmp_path):
    plan = load_plan(write_run_file(), settings=[f'output.root="{tmp_path}/runs"'])
    with pytest.raises(ConfigurationError, match=r"input\.dataset: is missing"):
        run_stages(plan, run_id="r")
    assert not (tmp_path / "runs").exists()


def test_a_sweep_is_refused_before_its_folder_is_made(write_run_file, tmp_path):
    from das_spark.config import load_sweep
    from das_spark.store import SweepLayout

    plan = load_sweep(write_run_file(), epsilon=["1"], runs=1)
    with pytest.raises(ConfigurationError, match=r"input\.dataset: is missing"):
        carry_out(plan, SweepLayout(tmp_path / "sweep"), session=lambda: pytest.fail("Spark was asked for"))
    assert not (tmp_path / "sweep").exists()


def test_invented_people_need_no_name():
    assert load_run("quickstart", named=True).name == "quickstart"


@pytest.mark.parametrize("name", ["../census", "", "a census", "a" * 81])
def test_a_name_is_the_name_of_a_file(write_run_file, name):
    with pytest.raises(ConfigurationError, match=r"input\.dataset"):
        load_plan(write_run_file(), settings=[f'input.dataset="{name}"'])


def test_where_the_ledger_lies_is_no_part_of_the_configuration(write_run_file, tmp_path):
    """A run that was refused at its cap goes on when that is raised, and no path of a machine is published."""
    plain = load_plan(write_run_file())
    path = write_run_file(f'[ledger]\npath = "{tmp_path}"\n[ledger.cap]\nrho = "5/2"\n[ledger.cap_was]\nrho = "2"\n')
    plan = load_plan(path)
    assert plan.config_hash == plain.config_hash
    assert "ledger" not in plan_to_config(plan)
    assert (plan.ledger.path, plan.ledger.cap) == (str(tmp_path), Cap(rho=Fraction(5, 2)))
    assert plan.ledger.cap_was == Cap(rho=Fraction(2))
    assert load_plan(write_run_file(), settings=["input.dataset=a"]).config_hash != plain.config_hash


def test_a_cap_is_exact_and_may_be_set(write_run_file):
    plan = load_plan(write_run_file(), settings=["ledger.cap.epsilon=17.14", "ledger.cap.delta=1e-10"])
    assert plan.ledger.cap == Cap(epsilon=Fraction(1714, 100), delta=Fraction(1, 10**10))
    with pytest.raises(ConfigurationError, match=r"ledger\.cap\.epsilon: 17\.14 is a float"):
        load_plan(write_run_file("[ledger]\ncap = { epsilon = 17.14 }\n"))


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        ('cap = { epsilon = "1", rho = "1" }', "ledger.cap: a cap is on epsilon or on rho"),
        ("cap = { }", "ledger.cap: a cap is on epsilon or on rho"),
        ('cap = { rho = "0" }', "ledger.cap: a cap must be greater than 0"),
        ('cap = { rho = "1", delta = "1e-9" }', "ledger.cap: delta stands beside epsilon"),
        ('cap = { epsilon = "1", delta = "1" }', "ledger.cap: delta stands beside epsilon, and lies between 0 and 1"),
        ('cap_was = { rho = "1" }', "ledger.cap_was: says which cap is raised"),
        ('cap = { rho = "1" }\ncap_was = { epsilon = "1" }', "ledger.cap_was: is a cap on epsilon at delta 1e-10"),
        ('caps = { rho = "1" }', "ledger.caps: unknown key; did you mean 'cap'?"),
    ],
)
def test_a_cap_that_cannot_be_is_said_with_its_key(write_run_file, ledger, said):
    with pytest.raises(ConfigurationError) as caught:
        load_plan(write_run_file(f"[ledger]\n{ledger}\n"))
    assert said in caught.value.message


def test_parts_of_a_joint_run_have_one_ledger(tmp_path):
    conf = tmp_path / "parts"
    conf.mkdir()
    for record in ("person", "unit"):
        text = load_text(f"pl94_2020_{record}.toml")
        (conf / f"{record}.toml").write_text(text.replace("[input]", f'[input]\ndataset = "{record}s"'))
    joint = conf / "joint.toml"
    joint.write_text('config_version = 1\n[run]\nname = "both"\nparts = ["person.toml", "unit.toml"]\n')
    with pytest.raises(ConfigurationError, match="different datasets or ledgers"):
        load_run(joint, files=False)
    both = load_run(joint, settings=["input.dataset=one"], files=False, named=True)
    assert {part.input.dataset for part in both.parts.values()} == {"one"}


def load_text(name: str) -> str:
    from das_spark.config.load import run_file_path

    return run_file_path(name.removesuffix(".toml")).read_text()
