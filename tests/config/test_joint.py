"""Run files that name several runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import JointPlan, RunPlan, absolute, load_parts, load_plan, load_run
from das_spark.errors import ConfigurationError

CONF = Path(__file__).parents[2] / "conf"
JOINT = CONF / "pl94_2020.toml"


@pytest.fixture
def written(tmp_path):
    """Write a joint run file whose parts are the shipped ones."""

    def write(run: str, more: str = "") -> Path:
        for name in ("pl94_2020_person.toml", "pl94_2020_unit.toml"):
            (tmp_path / name).write_text((CONF / name).read_text())
        path = tmp_path / "joint.toml"
        path.write_text(f"config_version = 1\n[run]\n{run}\n{more}")
        return path

    return write


PARTS = 'name = "both"\nparts = ["pl94_2020_person.toml", "pl94_2020_unit.toml"]'


def test_the_parts_are_those_of_their_own_files():
    joint = load_run(JOINT, files=False)
    assert isinstance(joint, JointPlan)
    assert joint.name == "pl94-2020"
    assert list(joint.parts) == ["person", "unit"]
    for record, plan in joint.parts.items():
        alone = load_plan(CONF / f"pl94_2020_{record}.toml", files=False)
        assert (plan.budget, plan.estimation, plan.spine) == (alone.budget, alone.estimation, alone.spine)


def test_other_tables_overlays_and_settings_go_to_every_part(written, tmp_path):
    overlay = tmp_path / "overlay.toml"
    overlay.write_text("[evaluation]\nenabled = false\n")
    path = written(PARTS, '[budget]\nstrategy = "state"\n')
    joint = load_parts(path, [overlay], ["output.root=elsewhere", "run.name=other"], files=False)
    assert joint.name == "other"
    for plan in joint.parts.values():
        assert plan.spine.names[0] == "State"
        assert not plan.evaluation.enabled
        assert plan.output.root == absolute("elsewhere")
        assert plan.name == plan.product.name, "parts are named by the joint run, not by its settings"


def test_what_the_whole_acknowledges_goes_to_the_parts_that_need_it():
    def load(*names: str):
        listed = ",".join(f'"{name}"' for name in names)
        settings = ["input.reader=cef_2020", "input.path=population", f"privacy.acknowledge=[{listed}]"]
        return load_parts(JOINT, settings=settings, files=False)

    conflicts, facilities = "unit_conflicts_from_people", "facilities_from_people"
    assert {record: plan.acknowledged for record, plan in load(conflicts).parts.items()} == {
        "person": (conflicts,),
        "unit": (),
    }
    with pytest.raises(ConfigurationError, match=r"part pl94_2020_person.toml: privacy.acknowledge: .*add .unit_confl"):
        load()
    with pytest.raises(ConfigurationError, match=r"'facilities_from_people' is acknowledged, and no part gives up"):
        load(conflicts, facilities)
    with pytest.raises(ConfigurationError, match=r"'nonsense' is acknowledged, and no part .*known: units_from_people"):
        load(conflicts, "nonsense")
    alone = load_parts(JOINT, files=False)
    assert [plan.acknowledged for plan in alone.parts.values()] == [(facilities, conflicts), (facilities,)]


def test_one_run_loads_as_one(written):
    assert isinstance(load_run(CONF / "pl94_2020_unit.toml", files=False), RunPlan)
    with pytest.raises(ConfigurationError, match=r"names several runs .*one is asked for"):
        load_plan(JOINT, files=False)


@pytest.mark.parametrize(
    ("run", "more", "said"),
    [
        ('name = "x"\nparts = ["pl94_2020_unit.toml"]', "", "run.parts: names 1, and 2 are needed"),
        ('parts = ["pl94_2020_person.toml", "pl94_2020_unit.toml"]', "", "run.name: is missing"),
        (PARTS + '\nproduct = "e2e_1940"', "", "run.product: unknown key"),
        ('name = "x"\nparts = ["pl94_2020_unit.toml", "none.toml"]', "", "none.toml: no such run file"),
        ('name = "x"\nparts = ["pl94_2020_unit.toml", "joint.toml"]', "", "part joint.toml: names several runs"),
        ('name = "x"\nparts = ["pl94_2020_unit.toml", "pl94_2020_unit.toml"]', "", "two of its runs count the same"),
        (PARTS, "[nonsense]\nkey = 1\n", "part pl94_2020_person.toml: nonsense: unknown key"),
        (PARTS, "[budget]\nrho = 0.5\n", r"part pl94_2020_person.toml: budget.rho: 0.5 is a float"),
    ],
)
def test_what_is_wrong_is_said_with_the_part_that_it_is_about(written, run, more, said):
    with pytest.raises(ConfigurationError, match=said):
        load_run(written(run, more), files=False)


def test_parts_are_written_to_one_place(written, tmp_path):
    path = written(PARTS)
    unit = tmp_path / "pl94_2020_unit.toml"
    unit.write_text(unit.read_text().replace("[output]", '[output]\nroot = "elsewhere"'))
    with pytest.raises(ConfigurationError, match="written to different places"):
        load_run(path, files=False)
    assert load_run(path, settings=["output.root=here"], files=False)


def test_a_single_run_is_no_joint_one():
    with pytest.raises(ConfigurationError, match=r"run.parts: Field required|run.name"):
        load_parts(CONF / "quickstart.toml", files=False)


def test_the_demonstration_has_parts_of_persons_and_households_of_epsilon_6_together():
    joint = load_run(CONF / "ddp_2010.toml", files=False)
    assert isinstance(joint, JointPlan)
    assert list(joint.parts) == ["person", "household"]
    assert {record: plan.budget.total for record, plan in joint.parts.items()} == {"person": 4, "household": 2}
    person, household = joint.parts.values()
    assert person.input.path == household.input.path
    assert person.input.dataset == household.input.dataset
    assert person.spine == household.spine
    assert household.invariants.total_at is None


def test_a_joint_run_is_of_records_that_are_protected_one_by_one(tmp_path):
    stays = (CONF / "hospital_stays_like.toml").read_text().replace('"products/', f'"{CONF}/products/')
    (tmp_path / "stays.toml").write_text(stays)
    (tmp_path / "unit.toml").write_text((CONF / "pl94_2020_unit.toml").read_text())
    (tmp_path / "joint.toml").write_text('config_version = 1\n[run]\nname = "x"\nparts = ["stays.toml", "unit.toml"]\n')
    with pytest.raises(ConfigurationError, match="hospital_stays_like protects several records of a contributor"):
        load_parts(tmp_path / "joint.toml", files=False)
