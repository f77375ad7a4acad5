"""`check` and `plan` before anything is read."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from das_spark.cli.main import main
from das_spark.config import levels_together, load_plan
from das_spark.geography import Geolevel, Spine
from das_spark.planning import unused_levels

CONF = Path(__file__).parents[2] / "conf"
#: Files have the name of their people, under which all runs on them are counted.
NAMED = ["--set", "input.dataset=people"]
TOTAL = ("budget", "total")


def plan_of(capsys, *arguments, command=("plan",)):
    assert main([*command, *arguments, *NAMED, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_plan_of_1940_shows_the_published_scales(capsys):
    assert main(["plan", str(CONF / "e2e_1940.toml")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("County ")]
    hhgq, middle, detailed = lines[:3]
    assert hhgq[1:6] == ["hhgq", "1/4", "9/40", "9/640", "142.2"]
    assert middle[1:6] == ["age18plus", "*", "hispanic", "*", "race"]
    assert middle[6:10] == ["1/4", "27/40", "27/640", "47.41"]
    assert detailed[1:6] == ["detailed", "1/4", "1/10", "1/160", "320"]


def test_the_plan_in_json_is_exact(capsys):
    record = plan_of(capsys, str(CONF / "e2e_1940.toml"), "--set", "budget.epsilon=0.75")
    assert record["total"] == "3/4"
    assert sum(Fraction(measurement["spent"]) for measurement in record["measurements"]) == Fraction(3, 4)
    for measurement in record["measurements"]:
        assert Fraction(measurement["scale"]) == 2 / Fraction(measurement["spent"])


def test_a_zcdp_plan_shows_both_conversions(capsys):
    settings = ["--set", "budget.framework=zcdp", "--set", "budget.rho=1/2"]
    record = plan_of(capsys, str(CONF / "e2e_2018.toml"), *settings)
    tight, loose = (conversion["epsilon"] for conversion in record["conversions"])
    rho, delta = 0.5, 1e-10
    assert loose == pytest.approx(rho + 2 * np.sqrt(rho * np.log(1 / delta)))
    assert tight < loose


def test_the_plan_of_the_2020_production_shows_its_epsilons_and_passes(capsys):
    record = plan_of(capsys, str(CONF / "pl94_2020_person.toml"))
    assert [round(conversion["epsilon"], 2) for conversion in record["conversions"]] == [17.14, 17.90]
    assert len(record["measurements"]) == 10 + 5 * 11
    assert [each["geolevel"] for each in record["passes"]] == [geolevel["geolevel"] for geolevel in record["geolevels"]]
    (warning,) = record["warnings"]
    assert warning.startswith("the budget of query 'total' at State (rho 177339451520/214437516707) will be read by no")
    assert record["total_is"].startswith("of the noisy answers alone")
    records = plan_of(capsys, str(CONF / "pl94_2020_simulated.toml"))  # the same with counts of units
    assert records["total_is"] == ""
    losses = {loss["name"]: round(loss["epsilon"], 2) for loss in records["losses"]}
    assert losses["cenrace"] == 10.08
    assert losses["Tract"] == 9.38
    units = plan_of(capsys, str(CONF / "pl94_2020_unit.toml"))
    assert [round(conversion["epsilon"], 2) for conversion in units["conversions"]] == [2.47, 2.70]
    assert units["product"]["counts"] == "housing units"
    total = "number of housing units (occupied plus vacant) in every geounit of the geolevel Block"
    assert total in units["invariants"][0]


def test_the_exact_composition_stands_beside_both_conversions(capsys):
    record = plan_of(capsys, str(CONF / "pl94_2020_simulated.toml"))
    exact = record["exact"]
    assert exact["epsilon_at_least"] == pytest.approx(16.46516, abs=1e-5)
    assert 0 < exact["epsilon_at_most"] - exact["epsilon_at_least"] < 1e-4
    assert exact["holds_for"] == "all measured answers"
    for each in exact["trade_off"]:
        assert 0 <= each["type_two_at_least"] <= each["type_two_at_most"] <= 1
    losses = {loss["name"]: loss for loss in record["losses"]}
    assert losses["Tract"]["exact_epsilon_at_most"] == pytest.approx(8.989, abs=6e-4)
    assert all(loss["exact_epsilon_at_most"] < loss["epsilon"] for loss in losses.values())
    assert all(loss["odds_at_most"]["1/2"] < exact["odds_at_most"]["1/2"] for loss in losses.values())
    assert main(["plan", str(CONF / "pl94_2020.toml"), *NAMED]) == 0
    text = capsys.readouterr().out
    for epsilon in ("16.4652", "2.3633", "16.7464"):
        assert f"epsilon {epsilon} at most at delta 1e-10, exact composition of all measured answers" in text


def test_a_plan_is_written_as_a_page_with_figures_and_as_json(capsys, tmp_path):
    single = [str(CONF / "pl94_2020_simulated.toml"), "--out", str(tmp_path / "single")]
    record = plan_of(capsys, *single)
    assert json.loads((tmp_path / "single" / "plan.json").read_text()) == record
    text = (tmp_path / "single" / "plan.html").read_text()
    assert "epsilon 16.4652 at most at delta 1e-10" in text
    assert text.count("<figure>") == 3
    assert "within Tract" in text
    assert plan_of(capsys, *single) == record  # again, in the same place
    assert main(["plan", str(CONF / "pl94_2020.toml"), *NAMED, "--out", str(tmp_path / "joint")]) == 0
    assert "plan.json, plan.html" in capsys.readouterr().out
    assert json.loads((tmp_path / "joint" / "plan.json").read_text())["together"]["run"] == "pl94-2020"
    joint = (tmp_path / "joint" / "plan.html").read_text()
    assert joint.count(": What an attacker can learn</h2>") == 2
    several = [str(CONF / "hospital_stays_like.toml"), *NAMED, "--out", str(tmp_path / "several")]
    assert main(["plan", *several]) == 0
    assert "trade-offs are not drawn" in (tmp_path / "several" / "plan.html").read_text()


def test_a_plan_of_several_records_of_a_contributor_is_left_to_the_conversions(capsys):
    assert plan_of(capsys, str(CONF / "hospital_stays_like.toml"))["exact"] is None
    assert main(["plan", str(CONF / "hospital_stays_like.toml"), *NAMED]) == 0
    assert "no exact composition of Gaussian noise for several records" in capsys.readouterr().out


def test_a_total_with_an_epsilon_scales_the_total_and_shows_the_gain_of_every_query(capsys):
    at = ["--epsilon", "17.14", "--delta", "1e-10"]
    found = plan_of(capsys, str(CONF / "pl94_2020_person.toml"), *at, command=TOTAL)
    (part,) = found["parts"]
    assert found["exact_epsilon_at_most"] <= 17.14
    total, more = Fraction(part["total"]), Fraction(part["total_at_epsilon"])
    assert len(part["measurements"]) == 10 + 5 * 11
    for measurement in part["measurements"]:  # sigma^2 is 1 / rho; the variance is a little less where it is about 1
        assert measurement["change"] == pytest.approx(float(total / more) ** 0.5 - 1, abs=1e-4)
    assert main([*TOTAL, str(CONF / "pl94_2020_person.toml"), *NAMED, *at]) == 0
    text = capsys.readouterr().out
    assert f"--set budget.rho={more}" in text.replace("\n", "")
    scaled = plan_of(capsys, str(CONF / "pl94_2020_person.toml"), "--set", f"budget.rho={more}")
    assert scaled["exact"]["epsilon_at_most"] == found["exact_epsilon_at_most"]
    joint = plan_of(capsys, str(CONF / "pl94_2020.toml"), "--epsilon", "17.4351", command=TOTAL)
    assert [Fraction(part["total_at_epsilon"]) > Fraction(part["total"]) for part in joint["parts"]] == [True, True]
    assert main([*TOTAL, str(CONF / "e2e_1940.toml"), *NAMED, "--epsilon", "0"]) != 0


def test_passes_that_are_alike_stand_together(capsys):
    assert main(["plan", str(CONF / "pl94_2020_person.toml"), *NAMED]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("Passes"))
    assert [line.split("  ")[0] for line in lines[place + 2 : place + 12] if line[:1].isalpha()] == [
        "US",
        "State, County, Tract, Block_Group",
        "Block",
    ]
    assert "total > cenrace, hispanic" in "".join(lines)


def test_a_plan_of_one_pass_says_nothing_of_passes(capsys):
    assert main(["plan", str(CONF / "e2e_1940.toml")]) == 0
    assert "Passes" not in capsys.readouterr().out


def test_a_plan_says_which_geolevels_are_estimated_together(capsys):
    conf = str(CONF / "pl94_2020_person.toml")
    assert plan_of(capsys, conf)["estimation"] == ""
    setting = "estimation.estimator=blue_down"
    sentence = plan_of(capsys, conf, "--set", setting)["estimation"]
    assert sentence == levels_together(load_plan(conf, settings=["input.dataset=people", setting], files=False))
    assert main(["plan", conf, *NAMED, "--set", setting]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_geounits_are_counted_by_census_block_too(capsys, tmp_path):
    blocks = ["150010201001000", "150010201001001", "150010201002000"]
    parquet.write_table(pa.table({"geoid": blocks}), tmp_path / "blocks.parquet")
    setting = f"input.geography={tmp_path / 'blocks.parquet'}"
    record = plan_of(capsys, str(CONF / "pl94_2020_state.toml"), "--set", setting)
    counts = [geolevel["geounits"] for geolevel in record["geolevels"]]
    assert counts == [1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("column", "codes"), [("geoid", ["150010201001000", "15001"]), ("geocode", ["1500102010010001", "1"])]
)
def test_geocodes_that_are_none_are_not_passed_over(capsys, tmp_path, column, codes):
    parquet.write_table(pa.table({column: codes}), tmp_path / "blocks.parquet")
    field = "block" if column == "geoid" else "geocode"
    settings = [f"input.geography={tmp_path / 'blocks.parquet'}", f"input.columns.{field}={column}"]
    given = [each for setting in settings for each in ("--set", setting)]
    assert main(["plan", str(CONF / "pl94_2020_state.toml"), *NAMED, *given]) != 0
    assert "not so of 1 of 2" in capsys.readouterr().err


def test_geounits_are_counted_in_the_public_table(capsys, tmp_path):
    geocodes = ["4800100001", "4800100002", "4800200001"]
    parquet.write_table(pa.table({"geocode": geocodes}), tmp_path / "units.parquet")
    record = plan_of(capsys, str(CONF / "e2e_1940_simulated.toml"), "--set", f"input.path={tmp_path}")
    levels = {geolevel["geolevel"]: geolevel for geolevel in record["geolevels"]}
    assert [levels[name]["geounits"] for name in ("National", "State", "County", "Enumdist")] == [1, 1, 2, 3]
    assert levels["Enumdist"]["largest_family"] == 2
    (warning,) = record["warnings"]
    assert warning.startswith("the budget of State (epsilon 1/16) will be read by no estimate")


FROM_PEOPLE = ("invariants.units=true", "input.units_from_people=true", 'privacy.acknowledge=["units_from_people"]')


def test_what_follows_from_people_is_said_before_any_figure(capsys):
    settings = [part for each in ("input.dataset=people", *FROM_PEOPLE) for part in ("--set", each)]
    conf = str(CONF / "pl94_2020_to_county.toml")
    record = plan_of(capsys, conf, *settings)
    assert "one housing unit is declared for each 2.5 people" in record["invariants"][-1]
    assert "of the noisy answers alone" in record["total_is"]
    assert {loss["about"] for loss in record["losses"]} == {"one attribute"}
    assert "hhgq" not in {loss["name"] for loss in record["losses"]}
    assert main(["plan", conf, *settings]) == 0
    text = capsys.readouterr().out
    assert text.index("PUBLISHED NEARLY EXACTLY") < text.index("total rho") < text.index("of the noisy answers alone")
    assert main(["plan", conf, *settings[:2]]) == 0
    text = capsys.readouterr().out
    assert main(["check", conf, *settings, "--without-files"]) == 0
    assert "PUBLISHED NEARLY EXACTLY" in capsys.readouterr().out
    assert main(["check", conf, *settings[:2], "--without-files"]) == 0
    assert "NEARLY EXACTLY" not in text + capsys.readouterr().out
    assert "noisy answers alone" not in text


def test_the_plan_of_a_joint_run_says_that_its_figure_is_not_of_everything(capsys):
    assert main(["plan", str(CONF / "pl94_2020.toml")]) == 0  # it needs no name of a dataset: nothing is spent
    text = capsys.readouterr().out
    assert text.index("all parts together") < text.rindex("of the noisy answers alone")


def test_what_the_user_says_of_geounits_counts(capsys):
    record = plan_of(capsys, str(CONF / "e2e_1940.toml"), "--geounits", "State=51", "--geounits", "County=51")
    assert record["geolevels"][1]["measurement_bytes_at_most"] == 51 * 224 * 8
    assert "County" in record["warnings"][0]


@pytest.mark.parametrize("said", ["State", "State=none", "Stat=3", "State=0"])
def test_a_malformed_number_of_geounits_is_refused(capsys, said):
    assert main(["plan", str(CONF / "e2e_1940.toml"), "--geounits", said]) == 2
    assert "--geounits" in capsys.readouterr().err


def test_only_levels_of_only_children_are_unread():
    spine = Spine((Geolevel("Nation", 0), Geolevel("State", 2), Geolevel("County", 5), Geolevel("Block", 7)))
    assert unused_levels(spine, {"Nation": 1, "State": 1, "County": 4}) == ["State"]
    assert unused_levels(spine, {}) == []


def test_check_says_what_is_missing_and_exits_with_2(capsys):
    assert main(["check", str(CONF / "e2e_1940.toml")]) == 2
    assert "input.path: nothing says where the people are; give it by --set input.path=FILE" in capsys.readouterr().err


def test_check_passes_on_the_quickstart(capsys):
    assert main(["check", str(CONF / "quickstart.toml")]) == 0
    assert "no problem found" in capsys.readouterr().out


def test_check_can_leave_the_files_out(capsys):
    assert main(["check", str(CONF / "e2e_1940.toml"), "--without-files"]) == 0
    said = capsys.readouterr().out
    assert "reader ipums_1940, epsilon 1/4" in said
    assert "warning" not in said


def test_check_warns_of_an_output_inside_the_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["check", str(CONF / "e2e_1940.toml"), "--without-files", "--set", "input.path=.", "--json"]
    assert main(arguments) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    inside = tmp_path.resolve()
    assert warning.startswith(f"output.root ({inside}/runs) lies in input.path ({inside})")
    assert main([*arguments, "--set", f"output.root={tmp_path.parent}/runs"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_no_table_of_geocodes_is_sought_among_other_files(capsys, tmp_path):
    for name in ("persons.txt", "units.txt", "geography.txt"):
        (tmp_path / name).write_text("a record\n")
    record = plan_of(capsys, str(CONF / "dhc_2020_unit.toml"), "--set", f"input.path={tmp_path}")
    assert {geolevel["geounits"] for geolevel in record["geolevels"]} == {None}
    parquet.write_table(pa.table({"geocode": ["A-17", "B"]}), tmp_path / "units.parquet")
    own = ("--set", f"input.units={tmp_path / 'units.parquet'}")
    assert plan_of(capsys, str(CONF / "own_codes_like.toml"), *own)["geolevels"]
