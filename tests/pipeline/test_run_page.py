"""The page of a real run in a real browser: whole, self-contained, and readable on a telephone."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from browser import opened

from das_spark.pipeline.run_record import known_run, write_page
from das_spark.store import PublicManifest, RestrictedManifest
from das_spark.telemetry import read_log

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

READING = Path(__file__).with_name("reading.js").read_text(encoding="utf-8")
LEAST_CONTRAST = 4.5  # of ordinary text: WCAG 2.2, criterion 1.4.3
NARROW = 400


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def layout(measured):
    return measured.layout("whole")


@pytest.fixture(scope="module")
def seen(browser, layout):
    """What a reader sees of the page that the run left."""
    browser.open(layout.restricted.page)
    read = browser.run(READING)
    return {**read, "said": browser.log("browser"), "requested": browser.requested()}


def test_it_says_nothing_to_the_console_and_asks_for_nothing_but_itself(seen, layout):
    assert seen["said"] == []
    assert seen["requested"] == {layout.restricted.page.resolve().as_uri()}


def test_a_planted_request_and_a_planted_fault_would_be_seen(browser, tmp_path):
    page = tmp_path / "planted.html"
    page.write_text('<body><img src="http://127.0.0.1:9/x.png"><script>console.error("planted"); no_such()</script>')
    browser.open(page)
    assert "http://127.0.0.1:9/x.png" in browser.requested()
    said = " ".join(entry["message"] for entry in browser.log("browser"))
    assert "planted" in said
    assert "no_such" in said


def test_its_tables_hold_what_the_manifests_say(seen, layout):
    public = PublicManifest.load(layout.public.manifest)
    restricted = RestrictedManifest.load(layout.restricted.manifest)
    tables = seen["tables"]
    assert seen["title"] == "Run whole"
    assert dict(tables["facts"])["configuration"] == public.config_hash
    assert [row[0] for row in tables["stages"]] == list(restricted.seconds)
    assert {row[0]: (row[1], row[2]) for row in tables["cost"]} == {
        name: (str(cost["jobs"]), f"{cost['tasks']:,}") for name, cost in restricted.metrics.items()
    }
    families = {level: sum(counts.values()) for level, counts in public.solver_status.items()}
    assert {row[0]: int(row[1]) for row in tables["levels"]} == families
    worst = {level: f"{residual['gap']:.1e}" for level, residual in public.worst_residuals.items()}
    assert {row[0]: row[3] for row in tables["levels"]} == worst
    assert len(tables["families"]) == sum(families.values())
    seconds = [float(row[2]) for row in tables["families"]]
    assert seconds == sorted(seconds, reverse=True)
    assert 0 < sum(seconds) < sum(restricted.metrics[name]["run_seconds"] for name in restricted.metrics)
    shares = [(level["geolevel"], level["share"]) for level in public.config["budget"]["levels"]]
    assert [(row[0], row[1]) for row in tables["shares"]] == shares
    assert [row[0] for row in tables["spending"]] == [public.ledger["run_id"]]
    assert [row[-1] for row in tables["drivers"]] == ["finished"]
    assert seen["state"] == "finished and verified"
    assert any("INSECURE" in banner for banner in seen["banners"])


def test_its_figures_are_drawn_with_a_bar_for_every_stage(seen, layout):
    assert len(seen["figures"]) == 2
    assert all(length > 100 for figure in seen["figures"] for length in figure)
    stages = RestrictedManifest.load(layout.restricted.manifest).seconds
    assert set(stages) <= set(seen["texts"])


def test_its_headings_are_in_order(seen):
    levels = [int(name[1]) for name, _ in seen["headings"]]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert all(text.strip() for _, text in seen["headings"])


@pytest.mark.parametrize("width", [NARROW, 1100])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window_and_can_be_read(browser, layout, width, scheme):
    browser.open(layout.restricted.page, width, scheme)
    read = browser.run(READING)
    assert read["viewport"] <= width
    assert read["width"] <= read["viewport"], "nothing stands out of the window"
    assert read["scheme"] == (scheme == "dark")
    ratio, element = read["worst"]
    assert ratio >= LEAST_CONTRAST, element


def test_text_that_cannot_be_read_and_a_page_that_is_too_wide_would_be_seen(browser, layout, tmp_path):
    page = tmp_path / "planted.html"
    text = layout.restricted.page.read_text(encoding="utf-8")
    faults = '<p style="color: #999">pale</p><p style="width: 700px">wide</p></body>'
    page.write_text(text.replace("</body>", faults), encoding="utf-8")
    browser.open(page, NARROW)
    read = browser.run(READING)
    assert read["worst"][0] < LEAST_CONTRAST
    assert read["width"] > read["viewport"]


def test_the_page_of_a_run_that_was_killed_is_whole_too(browser, layout, workshop, calm):
    """Its log ends in the middle of a line, two levels are estimated, and there is no manifest."""
    killed = workshop.ingested("killed", calm).layout
    lines = layout.restricted.log.read_bytes().splitlines(keepends=True)
    named = [line for line in read_log(layout.restricted.log).lines if line["event"] == "stage.started"]
    assert named[3]["stage"] == "measure County"
    cut = next(number for number, line in enumerate(lines) if b'"measure County"' in line) + 2
    killed.restricted.log.write_bytes(b"".join(lines[:cut]) + lines[cut][:30])
    (killed.public.level("diagnostics", "State")).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(layout.public.level("diagnostics", "State"), killed.public.level("diagnostics", "State"))
    browser.open(write_page(killed), NARROW)
    read = browser.run(READING)
    assert "killed" in read["state"]
    assert [row[0] for row in read["tables"]["stages"]][-1] == "measure County"
    assert read["tables"]["stages"][-1][-1] == "1", "cut short"
    assert [row[0] for row in read["tables"]["levels"]] == ["State"]
    assert read["width"] <= read["viewport"]
    assert browser.log("browser") == []
    assert known_run(killed.folder).torn == 1
