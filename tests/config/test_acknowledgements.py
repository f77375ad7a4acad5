"""What follows from people and is exact must be acknowledged: without it, and with one too many, a run is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, plan_to_config
from das_spark.config.acknowledgements import (
    GIVEN_UP,
    extent_of_loss,
    published_from_people,
)
from das_spark.config.neighbors import holding_losses, neighbors_of
from das_spark.errors import ConfigurationError
from das_spark.privacy import attribute_losses, within_geolevel_losses

CONF = Path(__file__).parents[2] / "conf"
STATE, PERSON, UNIT = (CONF / f"pl94_2020_{name}.toml" for name in ("state", "person", "unit"))
MADE = ("invariants.units=true", "input.units_from_people=true")
KNOWN = 'privacy.acknowledge=["units_from_people"]'


def load(path: Path, *settings: str):
    return load_plan(path, settings=settings, files=False)


def refused(path: Path, *settings: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(path, *settings)
    return str(caught.value)


def test_units_made_of_people_are_refused_unless_acknowledged():
    said = refused(STATE, *MADE)
    assert (
        "privacy.acknowledge: input.units_from_people publishes exactly, outside of any epsilon: the number of people"
        in said
    )
    assert 'add "units_from_people" to privacy.acknowledge' in said
    plan = load(STATE, *MADE, KNOWN)
    assert plan.acknowledged == ("units_from_people",)
    assert plan_to_config(plan)["privacy"] == {"acknowledge": ["units_from_people"]}
    assert plan.config_hash != load(STATE).config_hash


@pytest.mark.parametrize(
    ("path", "settings", "names"),
    [
        (PERSON, (), ("facilities_from_people", "unit_conflicts_from_people")),
        (PERSON, ("input.unit_conflicts=fail",), ("facilities_from_people",)),
        # Made of the people, units cannot contradict them, and facilities are among those that are made.
        (PERSON, ("input.units_from_people=true",), ("units_from_people",)),
        (PERSON, ("invariants.units=false",), ()),
        (UNIT, (), ("facilities_from_people",)),
        (UNIT, ("input.unit_conflicts=from_people",), ("facilities_from_people",)),
        (CONF / "e2e_2018.toml", (), ("facilities_from_people", "unit_conflicts_from_people")),
        (CONF / "pl94_2020_simulated.toml", ("input.unit_conflicts=from_people",), ("unit_conflicts_from_people",)),
        (CONF / "dallas_2010.toml", ("input.unit_conflicts=from_people",), ("unit_conflicts_from_people",)),
        (CONF / "dallas_2010_without_units.toml", ("input.unit_conflicts=from_people",), ()),
        (CONF / "quickstart.toml", (), ()),
        (CONF / "e2e_1940.toml", (), ()),
    ],
)
def test_a_run_acknowledges_what_it_gives_up_and_nothing_else(path, settings, names):
    def acknowledge(some):
        return f"privacy.acknowledge={list(some)}".replace("'", '"')

    plan = load(path, *settings, acknowledge(names))
    assert plan.acknowledged == names
    assert load(path, *settings, acknowledge(reversed(names))).acknowledged == names
    for name in names:
        left = acknowledge(each for each in names if each != name)
        assert f'add "{name}" to privacy.acknowledge' in refused(path, *settings, left)
    for name in set(GIVEN_UP) - set(names):
        said = refused(path, *settings, acknowledge((*names, name)))
        assert f"'{name}' is acknowledged, and this run gives up nothing of the kind; take it out" in said


def test_what_is_given_up_is_named_by_the_lowest_geolevel():
    (facilities,) = published_from_people(["facilities_from_people"], "Block")
    assert facilities.startswith("in every Block, whether anybody lives in group quarters of each type")
    (facilities,) = published_from_people(["facilities_from_people"], "Tract")
    assert facilities.startswith(
        "in every Tract, in how many of its blocks anybody lives in group quarters of each type"
    )


def test_names_that_nothing_has_and_names_twice_are_refused():
    assert "did you mean 'units_from_people'?" in refused(STATE, *MADE, 'privacy.acknowledge=["unit_from_people"]')
    twice = 'privacy.acknowledge=["units_from_people","units_from_people"]'
    assert "a name stands twice" in refused(STATE, *MADE, twice)


@pytest.mark.parametrize("command", [("check",), ("plan",), ("run",)])
def test_every_command_refuses_such_a_run_as_a_matter_of_its_configuration(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("persons", "blocks"):
        (tmp_path / f"{name}.csv").write_text("geoid\n")
    settings = (*MADE, "input.persons=persons.csv", "input.geography=blocks.csv")
    given = [part for setting in settings for part in ("--set", setting)]
    assert main([*command, str(STATE), *given]) == 2
    assert "privacy.acknowledge: input.units_from_people publishes exactly" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["state", "to_tract", "to_county"])
def test_nothing_exact_follows_from_people_in_runs_from_tidy_tables(name):
    plan = load(CONF / f"pl94_2020_{name}.toml")
    assert plan.acknowledged == ()
    assert not plan.invariants.units
    assert not plan.input.units_from_people


def test_losses_that_exact_numbers_void_are_left_out():
    held, made = load(STATE), load(STATE, *MADE, KNOWN)
    attributes, within = holding_losses(held)
    assert attributes == attribute_losses(held.budget, held.queries, held.product.schema)
    assert within == within_geolevel_losses(held.budget)
    left, nowhere = holding_losses(made)
    # Whether in a household or in which group quarters, and where: the units tell.
    assert [loss.name for loss in left] == ["votingage", "hispanic", "cenrace"]
    assert left == attributes[1:]
    assert nowhere == ()
    assert extent_of_loss(held) == ""
    assert "of the noisy answers alone" in extent_of_loss(made)
    (published,) = published_from_people(made.acknowledged, "Block")
    assert "the number of people in households in every Block, but for two or three possible numbers" in published


def test_a_claim_about_units_is_not_voided_by_what_tells_of_people():
    plan = load(UNIT)
    assert [loss.name for loss in holding_losses(plan)[0]] == ["h1"]
    assert extent_of_loss(plan).startswith("of records of housing units")


def test_a_record_does_not_leave_the_geounit_whose_total_is_exact():
    def within(path, *settings):
        return [loss.name for loss in holding_losses(load(path, *settings))[1]]

    nation = "pl94_2020_simulated.toml"
    assert within(CONF / nation) == ["State", "County", "Tract", "Block_Group"]
    assert within(CONF / nation, "invariants.total_at=none") == ["US", "State", "County", "Tract", "Block_Group"]
    # How many units there are is exact in every block, whatever the level of the totals.
    assert within(UNIT) == within(UNIT, "invariants.total_at=State") == []
    assert neighbors_of(load(UNIT, "invariants.total_at=State")).exact_at("unit") == ("Block",)
    off = ("invariants.units=false", "privacy.acknowledge=[]", "invariants.total_at=State")
    assert within(UNIT, *off) == ["State", "County", "Tract", "Block_Group"]


def test_the_parts_of_a_state_are_left_where_only_their_sum_is_exact():
    areas = ("geography.spine=optimised", "geography.reader=tidy", "geography.path=areas")
    names = [loss.name for loss in holding_losses(load(CONF / "pl94_2020_simulated.toml", *areas))[1]]
    assert names[0] == "US"


def test_the_shares_that_a_comment_offers_for_blocks_without_units_are_a_budget(tmp_path):
    text = STATE.read_text()
    start = text.index("# [budget.level_queries.Block]")
    offered = text[start : text.index("\n\n", start)]
    path = tmp_path / "state.toml"
    path.write_text(text.replace(offered, "\n".join(line.removeprefix("# ") for line in offered.splitlines())))
    plan, usual = load(path), load(STATE)
    block = plan.budget.level("Block")
    assert block.share_of("total") == Fraction(805, 4097)
    assert block.share == usual.budget.level("Block").share
    assert plan.budget.levels[:-1] == usual.budget.levels[:-1]


def test_households_are_bound_by_what_a_run_file_makes_exact():
    path, settings = CONF / "dhc_2020_household.toml", ("input.published=runs",)
    loose, bound = load(path, *settings), load(path, *settings, "invariants.total_at=State")
    assert neighbors_of(loose).exact_at("household") == ()
    assert neighbors_of(bound).exact_at("household") == ("State",)
    first = [next(loss.name for loss in holding_losses(plan)[1]) for plan in (loose, bound)]
    assert first == [loose.spine.names[0], "State"]


def test_a_release_of_another_ledger_is_acknowledged_by_runs_that_are_held_to_one_alone():
    known = 'privacy.acknowledge=["published_elsewhere"]'
    plan = load(CONF / "dhc_2020_household.toml", "input.published=runs", known)
    assert plan.acknowledged == ("published_elsewhere",)
    assert extent_of_loss(plan) == ""
    assert "gives up nothing of the kind" in refused(CONF / "quickstart.toml", known)
