"""Tables, JSON and pages of the study of occupancy: what is shown is what was found."""

import csv
import io
import json
import re

from das_spark.report import csv_text, page
from das_spark.studies.occupancy_releases import ARMS, AS_PUBLISHED
from das_spark.studies.occupancy_report import RunOccupancy


def rows(result, name):
    table = next(table for table in result.tables() if table.name == name)
    return list(csv.DictReader(io.StringIO(csv_text(table))))


def test_every_arm_and_geolevel_has_its_rows(occupancy_result):
    found = rows(occupancy_result, "occupancy")
    assert [row["release"] for row in found if row["geolevel"] == "County"] == [arm.name for arm in ARMS]
    whole = occupancy_result.study.report(AS_PUBLISHED).level("County")
    assert int(found[0]["filled"]) == whole.occupancy.filled
    assert float(found[0]["share filled"]) == whole.occupancy.share_filled
    boxes = [row for row in rows(occupancy_result, "differences") if row["geolevel"] == "County"]
    assert len(boxes) == 5 * len(ARMS)
    assert [float(row["median"]) for row in boxes[:5]] == [one.box.median for one in whole.quintiles]
    assert sum(int(row["filled"]) for row in boxes[:5]) == whole.occupancy.filled


def test_tables_of_counties_and_allocation_hold_what_they_say(occupancy_result):
    counties = rows(occupancy_result, "counties")
    assert len(counties) == 124
    full = [row for row in counties if row["housing units"] == row[AS_PUBLISHED.name]]
    assert len(full) == occupancy_result.study.report(AS_PUBLISHED).level("County").occupancy.filled
    allocation = rows(occupancy_result, "allocation")
    assert len(allocation) == 26
    assert all(row["scale"] == row["published"] for row in allocation)


def test_json_holds_settings_findings_and_every_difference(occupancy_result):
    found = json.loads(occupancy_result.to_json())
    assert found["settings"] == {"seed": 11, "states": 2, "counties": 62, "follow_up_to": 1500}
    assert [finding["key"] for finding in found["findings"]] == [finding.key for finding in occupancy_result.findings]
    county = found["releases"][0]["levels"][0]
    assert sum(sum(one["differences"]["counts"]) for one in county["quintiles"]) == 124


def test_the_page_stands_alone_and_shows_figures_with_captions(occupancy_result):
    shown = page(occupancy_result.report(drawn=True))
    assert shown.count('class="broad"><svg') == shown.count("<figcaption>") == 5
    assert not re.findall(r'(?:src|href)="(?!#)', shown)
    assert "<script" not in shown
    for finding in occupancy_result.findings:
        assert f">{finding.key}</th>" in shown
    assert "RESTRICTED" not in shown


def test_the_page_and_tables_of_a_run_say_that_they_are_restricted(occupancy_result):
    run = RunOccupancy("pl94_2020_unit", "made up", occupancy_result.study.report(AS_PUBLISHED))
    report = run.report(drawn=True)
    assert "RESTRICTED" in page(report)
    assert page(report).count('class="broad"><svg') == 1 + len(run.occupancy.levels)
    assert all("restricted" in table.title for table in report.tables("csv"))
    assert json.loads(run.to_json())["restricted"].startswith("RESTRICTED")
