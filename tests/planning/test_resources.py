"""What a run needs, reckoned: beside runs that were measured, and by laws of what more of anything costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import load_run, plans_in
from das_spark.planning.resources import CORES, resources_of

CONF = Path(__file__).parents[2] / "conf"
NATION = {"US": 1, "State": 51, "County": 3143, "Tract": 85095, "Block_Group": 240190, "Block": 7937892}
TENTH = {name: max(1, count // 10) for name, count in NATION.items()}
HAWAII = {"US": 1, "State": 1, "County": 5, "Tract": 461, "Block_Group": 1083, "Block": 14732}
ILLINOIS = {"US": 1, "State": 1, "County": 102, "Tract": 3265}
#: Run file, records, geounits, and the seconds of the whole command on two cores (tests/benchmarks/README.md).
MEASURED = {
    "the nation to the block": ("pl94_2020_nation_simulated", 331_597_955, NATION, 2501),
    "a tenth of it": ("pl94_2020_nation_simulated", 33_159_795, TENTH, 302),
    "the nation to the county": ("pl94_2020_to_county", 327_655_122, NATION, 175),
    "its characteristics, persons": ("dhc_2020_to_county", 330_363_374, NATION, 1051),
    "Hawaii to the block": ("pl94_2020_state", 1_455_271, HAWAII, 59),
    "Illinois to the tract": ("pl94_2020_to_tract", 12_812_508, ILLINOIS, 54),
    "the quickstart": ("quickstart", 8_087, {"County": 1, "Tract": 4, "Block_Group": 10, "Block": 154}, 32),
}


def planned(name: str, *settings: str):
    (plan, *_) = plans_in(load_run(CONF / f"{name}.toml", (), settings, files=False))
    return plan


def reckoned(plan, records, geounits, largest=None):
    return resources_of(plan, records, {name: geounits[name] for name in plan.spine.names}, largest or {})


@pytest.mark.parametrize("run", MEASURED)
def test_the_hours_of_measured_runs_come_out_within_a_factor_of_two(run):
    name, records, geounits, seconds = MEASURED[run]
    found = reckoned(planned(name), records, geounits).seconds(2)
    assert seconds / 2 < found < seconds * 2


def test_memory_and_disk_of_measured_runs_are_enough_and_not_three_times_too_much():
    nation = reckoned(planned("pl94_2020_nation_simulated"), 331_597_955, NATION, {"Tract": 2500, "County": 254})
    assert 0.71e9 < nation.worker < 3 * 0.71e9
    assert 24e9 < nation.room.public < 3 * 24e9
    persons = reckoned(planned("dhc_2020_to_county"), 330_363_374, NATION, {"County": 254})
    assert 2.8 * 2**30 < persons.worker < 3 * 2.8 * 2**30


def test_more_cores_shorten_a_run_down_to_its_longest_tasks_and_the_driver():
    found = reckoned(planned("pl94_2020_nation_simulated"), 331_597_955, NATION, {"Tract": 2500})
    hours = [found.seconds(cores) for cores in CORES]
    assert hours == sorted(hours, reverse=True)
    least = found.driver + sum(stage.longest for stage in found.stages)
    assert found.seconds(10**9) == pytest.approx(least, rel=1e-3)


def test_a_row_for_each_record_is_dearer_to_read_than_counts():
    counts = planned("pl94_2020_nation_simulated")
    records = planned("pl94_2020_nation_simulated", "input.reader=tidy_records", "input.dataset=people")
    by_counts, by_records = (reckoned(plan, 331_597_955, NATION) for plan in (counts, records))
    assert by_records.seconds(2) > by_counts.seconds(2) + 1000
    assert by_records.stages[1:] == by_counts.stages[1:]


def test_a_stage_that_no_run_was_measured_with_is_named():
    plan = planned("quickstart", "output.replicates.runs=8", "output.replicates.level=0.9")
    assert "replicates" in reckoned(plan, 8_087, MEASURED["the quickstart"][2]).unknown
