"""`plan compare`: two budgets side by side, and what only one of them has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import expected_errors, load_plan
from das_spark.privacy import PUBLISHED_DELTA, compose_exactly, epsilon_bun_steinke, epsilon_cks

CONF = Path(__file__).parents[2] / "conf"
SIMULATED, UNIT, PERSON, TO_COUNTY = (
    str(CONF / f"pl94_2020_{name}.toml") for name in ("simulated", "unit", "person", "to_county")
)
JOINT = str(CONF / "pl94_2020.toml")
OURS = str(CONF / "england_and_wales_like.toml")
COUNTS = {"Local_Authority": 4, "MSOA": 12, "LSOA": 48, "Output_Area": 240}
GEOUNITS = [word for level, number in COUNTS.items() for word in ("--geounits", f"{level}={number}")]
WRONG = 2


def compared(capsys, first, second, *more):
    assert main(["plan", "compare", first, second, *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_second_run_alone_is_changed_by_settings_and_costs_are_those_of_each(capsys):
    found = compared(capsys, PERSON, PERSON, "--set", "budget.rho=1", "--statistic", "detailed@block")
    (part,) = found["parts"]
    assert part["differing_settings"] == {"budget.total": ["293764/114921", "1"]}
    costs = {cost["name"].partition(",")[2].strip() or cost["name"]: cost for cost in part["costs"]}
    plans = [load_plan(PERSON, settings=each, files=False) for each in ((), ("budget.rho=1",))]
    for number, plan in enumerate(plans):
        rho = plan.budget.total
        assert costs["total rho"]["exact"][number] == str(rho)
        assert costs["Canonne, Kamath, Steinke (2020)"]["values"][number] == epsilon_cks(rho, PUBLISHED_DELTA)
        assert costs["Bun, Steinke (2016)"]["values"][number] == epsilon_bun_steinke(rho, PUBLISHED_DELTA)
        composed = compose_exactly([plan.budget])
        assert composed is not None
        most = composed.epsilon(PUBLISHED_DELTA).high
        assert costs["exact composition, at most"]["values"][number] == most
    assert costs["exact composition, at most"]["ratio"] == pytest.approx(9.618 / 16.4652, rel=1e-4)
    (statistic,) = part["statistics"]["statistics"]
    assert (statistic["query"], statistic["geolevel"]) == ("detailed", "Block")
    assert statistic["ratio"] == pytest.approx(float(plans[0].budget.total) ** 0.5, rel=1e-2)
    assert found["together"] is None


def test_by_default_every_query_of_either_at_every_geolevel_is_compared(capsys):
    (part,) = compared(capsys, PERSON, TO_COUNTY)["parts"]
    plans = [load_plan(path, files=False) for path in (PERSON, TO_COUNTY)]
    queries = {item.query for plan in plans for level in plan.budget.levels for item in level.queries}
    common = [name for name in plans[0].spine.names if name in plans[1].spine.names]
    assert part["geolevels"]["both"] == common
    assert part["geolevels"]["only_in"] == [[name for name in plans[0].spine.names if name not in common], []]
    rows = {(statistic["query"], statistic["geolevel"]) for statistic in part["statistics"]["statistics"]}
    schema = plans[0].product.schema
    assert rows == {(schema.query(query).name, level) for query in queries for level in common}
    assert part["statistics"]["method"] == "geolevel"
    assert part["tables"] == []


def test_partial_losses_stand_side_by_side(capsys):
    (part,) = compared(capsys, SIMULATED, SIMULATED, "--set", "budget.rho=1", "--statistic", "total@Tract")["parts"]
    losses = {loss["name"]: loss for loss in part["losses"]}
    assert round(losses["cenrace"]["epsilon"][0], 2) == 10.08
    assert losses["Tract"]["exact_epsilon_at_most"][0] == pytest.approx(8.989, abs=6e-4)
    for loss in part["losses"]:
        assert loss["exact_epsilon_at_most"][1] < loss["exact_epsilon_at_most"][0]
        assert loss["epsilon_ratio"] == pytest.approx(loss["epsilon"][1] / loss["epsilon"][0])


def test_where_geounits_are_known_tables_are_compared_by_all_measurements(capsys):
    (part,) = compared(capsys, OURS, OURS, "--set", "budget.rho=8", *GEOUNITS)["parts"]
    assert part["statistics"]["method"] == "all"
    assert {round(statistic["ratio"], 2) for statistic in part["statistics"]["statistics"] if statistic["ratio"]} == {
        0.5
    }
    plan = load_plan(OURS, files=False)
    expected = {error.geolevel: error for error in expected_errors(plan, {"Nation": 1, **COUNTS}, plan.product.tables)}
    first = plan.product.tables[0]
    for each in part["tables"]:
        if each["table"] == first.name:
            own = expected[each["geolevel"]].everywhere[: len(first.names)]
            assert each["total"][0] == pytest.approx(own[0], abs=1e-9)
            assert each["mean_of_columns"][0] == pytest.approx(own.mean())
        assert each["mean_of_columns_ratio"] == pytest.approx(0.5, rel=1e-2)
    assert {table["table"] for table in part["tables"]} == {table.name for table in plan.product.tables}


def test_parts_of_joint_runs_are_compared_by_name_and_together(capsys):
    found = compared(capsys, JOINT, JOINT, "--set", "budget.rho=1/2", "--statistic", "total@Tract")
    assert [part["part"] for part in found["parts"]] == ["person", "unit"]
    together = {each["name"]: each["values"] for each in found["together"]}
    assert together["total rho"][1] == 1
    assert together["epsilon at delta 1e-10, exact composition, at most"][0] == pytest.approx(16.7464, abs=1e-4)
    alone = compared(capsys, UNIT, JOINT, "--statistic", "total@Block")
    assert [part["part"] for part in alone["parts"]] == ["unit"]
    assert alone["only_in"] == [[], ["person"]]


def test_other_products_are_compared_in_what_both_have(capsys):
    (part,) = compared(capsys, PERSON, str(CONF / "dhc_2020_person.toml"))["parts"]
    assert part["products"] == ["pl94_2020_person", "dhc_2020_person"]
    assert part["statistics"]["method"] == "query", "the better method of one alone would be no comparison"
    rows = {statistic["query"] for statistic in part["statistics"]["statistics"]}
    assert "total" in rows
    assert "detailed" not in rows, "the cells of the two products are not the same answers"
    assert any(text.startswith("detailed@") for text in part["statistics"]["only_in"][0])
    assert any("relgq" in text for text in part["statistics"]["only_in"][1])


def test_people_read_the_same(capsys):
    arguments = ["plan", "compare", OURS, OURS, "--set", "budget.rho=8", *GEOUNITS, "--statistic", "total@lsoa"]
    assert main(arguments) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"A: {OURS}" in text
    assert "budget.total 2 8" in text
    assert "exact composition, at most" in text
    assert "by least squares from the measurements of all geolevels" in text
    assert "Expected standard errors of published tables" in text
    assert main(["plan", "compare", OURS, OURS]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "no setting that decides about estimates differs" in text
    assert "of the geolevel alone: it is not known how many geounits" in text
    assert main(["plan", "compare", JOINT, UNIT, "--statistic", "total@Block"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "only A counts records of: person" in text
    assert "All parts together" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", OURS, OURS, "--statistic", "totl@MSOA"], "--statistic: totl@MSOA: "),
        (["compare", OURS, OURS, "--statistic", "total@Ward"], "the run has the geolevels Nation"),
        (["compare", OURS, OURS, "--statistic", "total"], "write QUERY@GEOLEVEL"),
        (["compare", OURS, OURS, "--geounits", "Ward=3"], "--geounits Ward=3"),
        (["compare", OURS, OURS, "--geounits", "MSOA=x"], "--geounits MSOA=x"),
        (["compare", PERSON, UNIT], "have nothing in common"),
        (["compare", "nowhere.toml", OURS], "nowhere.toml"),
        ([OURS, "--statistic", "total@MSOA"], "No such option"),
    ],
)
def test_what_cannot_be_compared_is_refused(capsys, words, said):
    assert main(["plan", *words]) == WRONG
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
