"""What the rest of a run is told of intervals: entries of the dictionary, commands, and the level of the plan."""

from __future__ import annotations

from fractions import Fraction

from quickstart_plans import inline, plan

from das_spark.cli.main import main
from das_spark.pipeline.statement import dictionary_of

ALL = "measurement.rows=all"


def test_the_dictionary_tells_of_intervals_and_only_of_those_that_there_are():
    with_them, without = plan(ALL, inline("output.intervals", {"level": "0.9", "tables": ["P5"]})), plan(ALL)
    entries, others = (dictionary_of(each) for each in (with_them, without))
    (entry,) = [entry for entry in entries if entry not in others]
    assert tuple(each for each in entries if each is not entry) == others
    assert entry["path"] == "intervals/P5.<format>/level=<geolevel>"
    table = next(table for table in with_them.product.tables if table.name == "P5")
    names = [f"{name}{end}" for name in table.names for end in ("", "_se", "_low", "_high")]
    assert [column["name"] for column in entry["columns"]] == ["geocode", *names]
    assert [column["type"] for column in entry["columns"]][-4:] == ["double", "double", "long", "long"]
    assert entry["columns"][-3]["meaning"] == (
        "Total: Noninstitutionalized population: Other noninstitutional facilities: standard error of that estimate"
    )


def test_a_plan_knows_the_level_of_intervals_by_measurements_but_not_that_of_others():
    replicates = inline("output.replicates", {"level": "0.8", "runs": 2})
    assert plan(replicates).output.interval_level is None
    assert plan(ALL, replicates, 'output.intervals={level="2/3"}').output.interval_level == Fraction(2, 3)


def test_its_command_stands_in_the_help_with_those_of_das_spark(capsys):
    assert main(["--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "interval Estimates, standard errors and intervals of the truth." in said
