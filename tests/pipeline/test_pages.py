"""Every kind of page in a real browser: on a desk and on a telephone, by day and by night, and on paper."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from browser import opened
from made_spine import made_report

from das_spark.cli.main import main
from das_spark.evaluation import (
    compare_reports,
    present_comparison,
    present_spine,
    present_sweep,
    report_from_json,
    sweep_report,
)
from das_spark.report import page

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

READING = Path(__file__).with_name("pages.js").read_text(encoding="utf-8")
LEAST_CONTRAST = 4.5  # of ordinary text: WCAG 2.2, criterion 1.4.3
FIRST_SCREEN = 900
WIDTHS = (1400, 400)
KINDS = ("accuracy", "tiles", "run", "sweep", "comparison", "audit", "attack", "statement", "study", "spine", "plan")
#: Pages of reports that answer a question; a privacy statement is a text, and those of studies and spines describe.
WITH_VERDICT = ("accuracy", "tiles", "run", "sweep", "comparison", "audit", "attack", "plan")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def squares(codes):
    """A map on which every geounit is a square of half a degree."""
    features = []
    for at, code in enumerate(codes):
        x, y = -71.0 + 0.5 * (at % 3), 41.0 + 0.5 * (at // 3)
        ring = [[x, y], [x + 0.5, y], [x + 0.5, y + 0.5], [x, y + 0.5], [x, y]]
        properties = {"GEOID": code, "NAME": f"area {at}"}
        geometry = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return json.dumps({"type": "FeatureCollection", "features": features})


def worse(report, times):
    """The same run with larger errors."""
    entries = tuple(
        replace(entry, frequencies=replace(entry.frequencies, values=entry.frequencies.values * times))
        for entry in report.entries
    )
    return replace(report, entries=entries)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, measured, tools):
    """One page of every kind, by its name."""
    folder, layout = tmp_path_factory.mktemp("pages"), measured.layout("whole")
    leaf = tools.LEVELS[-1]
    codes = ds.dataset(layout.public.level("estimates", leaf)).to_table(columns=["geocode"]).column(0).to_pylist()
    (folder / "areas.geojson").write_text(squares([*codes, "elsewhere"]), encoding="utf-8")
    run = str(layout.folder)
    drawn = ["--boundaries", str(folder / "areas.geojson"), "--out", str(folder / "drawn")]
    drawn += ["--data", str(folder / "data")]
    assert main(["evaluate", run, *drawn]) == 0
    assert main(["evaluate", run, "--out", str(folder / "tiles")]) == 0
    pages = [str(folder / name) for name in ("run.html", "statement.html")]
    assert main(["show", run, "--page", pages[0]]) == 0
    assert main(["show", run, "--statement", pages[1]]) == 0
    few = ["--runs", "4", "--draws", "400", "--test-key", tools.TEST_KEY, "--out", str(folder / "audit")]
    assert main(["audit", str(measured.run_file()), *few]) in (0, 1)
    assert main(["attack", run, "--draws", "2000", "--out", str(folder / "attack")]) == 0
    assert main(["plan", str(measured.run_file()), "--out", str(folder / "plan")]) == 0
    study = ["--persons", "2000", "--levels", "2", "--replicates", "0", "--out", str(folder / "study")]
    assert main(["experiment", "flaxman", *study]) == 0
    report = report_from_json((folder / "drawn" / "accuracy.json").read_text(encoding="utf-8"))
    one, other = [worse(report, 3), worse(report, 4)], [report, worse(report, 2)]
    sweep = sweep_report({Fraction(1): one, Fraction(4): other}, None, "epsilon")
    (folder / "sweep.html").write_text(page(present_sweep(sweep)), encoding="utf-8")
    both = compare_reports(one, other, [], {"budget.total": ("1", "4")})
    (folder / "comparison.html").write_text(page(present_comparison(both)), encoding="utf-8")
    (folder / "spine.html").write_text(page(present_spine(made_report())), encoding="utf-8")
    return {
        "accuracy": folder / "drawn" / "accuracy.html",
        "tiles": folder / "tiles" / "accuracy.html",
        "audit": folder / "audit" / "audit.html",
        "attack": folder / "attack" / "attack.html",
        "plan": folder / "plan" / "plan.html",
        "study": folder / "study" / "flaxman.html",
        **{name: folder / f"{name}.html" for name in ("run", "statement", "sweep", "comparison", "spine")},
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window_and_can_be_read(browser, pages, kind, width, scheme):
    browser.open(pages[kind], width, scheme)
    read = browser.run(READING)
    assert read["width"] <= read["viewport"] <= width
    assert read["outside"] == []
    assert read["boxed"], "a wide table scrolls in a box of its own"
    if width == WIDTHS[0]:
        assert read["cut"] == []
    assert (read["paper"] < 0.1) == (scheme == "dark")
    assert read["least"][0] >= LEAST_CONTRAST, read["least"]
    assert browser.log("browser") == []
    assert browser.requested() == {pages[kind].resolve().as_uri()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_figures_have_titles_captions_and_words_for_those_who_do_not_see_them(browser, pages, kind, width):
    browser.open(pages[kind], width)
    read = browser.run(READING)
    assert len(read["drawings"]) == len(read["figures"])
    assert (len(read["figures"]) > 0) == (kind != "statement")
    for figure in read["figures"]:
        assert figure["title"]
        assert figure["caption"]
    for drawing in read["drawings"]:
        assert drawing["role"] == "img"
        assert len(drawing["alt"]) > 20
        assert drawing["texts"]
        assert drawing["right"] <= read["viewport"], "it is whole on a telephone, too"
        assert drawing["share"] > 0.6
        assert drawing["letters"] > 7, "in pixels"


@pytest.mark.parametrize("kind", KINDS)
def test_long_pages_have_contents_that_lead_somewhere(browser, pages, kind):
    browser.open(pages[kind])
    read = browser.run(READING)
    assert (len(read["contents"]) > 0) == (read["sections"] > 3 or len(read["contents"]) > 0)
    assert len(read["contents"]) > 0 or read["sections"] <= 4
    assert read["dangling"] == 0
    assert read["twice"] == []


@pytest.mark.parametrize("kind", WITH_VERDICT)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_screen_answers(browser, pages, kind, width):
    browser.open(pages[kind], width)
    text, bottom = browser.run(READING)["verdict"]
    assert len(text) > 20
    assert bottom <= FIRST_SCREEN


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_printed(browser, pages, kind):
    browser.open(pages[kind], 700, "dark")  # a sheet of A4 without its margins
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.command("Emulation.setEmulatedMedia", **media)
    read = browser.run(READING)
    printed = base64.b64decode(browser.command("Page.printToPDF", printBackground=False)["data"])
    browser.command("Emulation.setEmulatedMedia", media="screen")
    assert read["width"] <= read["viewport"]
    assert read["cut"] == []
    assert read["outside"] == []
    assert read["paper"] > 0.9, "paper is white at night, too"
    assert read["least"][0] >= LEAST_CONTRAST, read["least"]
    assert not any(visible for _, visible in read["contents"])
    assert read["hidden"] == 0, "nothing can be unfolded on paper"
    assert printed.startswith(b"%PDF")


def test_labels_are_words_and_geounits_are_named_on_the_map(browser, pages):
    browser.open(pages["accuracy"])
    read = browser.run(READING)
    texts = {text for drawing in read["drawings"] for text in drawing["texts"]}
    assert any("voting age x" in text for text in texts)
    assert not any("votingage" in text or "*" in text for text in texts)
    assert any("Map of errors" in title for title in browser.run("return [document.body.innerText]"))
    tips = browser.run('return [...document.querySelectorAll("figure svg title")].map(each => each.textContent)')
    assert tips
    assert all(": " in tip for tip in tips)


def test_the_numbers_of_a_page_lie_beside_it(pages):
    folder = pages["accuracy"].parents[1] / "data"
    names = {path.name for path in folder.iterdir()}
    assert {"entries.restricted.csv", "entries.restricted.parquet", "worst_geounits.restricted.csv"} <= names
    shown = pages["accuracy"].read_text(encoding="utf-8").count("<figure>")
    assert sum(name.startswith("figure_") for name in names) == 2 * shown
    assert ds.dataset(folder / "entries.restricted.parquet").count_rows() > 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir()), "for their owner alone"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--boundaries", "areas.geojson"],
        ["--boundary-key", "GEOID", "--out", "there"],
        ["--data", "there"],
        ["--boundaries", "areas.geojson", "--compare", "--out", "there"],
    ],
)
def test_options_that_belong_together_are_asked_for_together(wrong, capsys):
    assert main(["evaluate", "runs/none", *wrong]) == 2
    assert "goes with" in capsys.readouterr().err


def test_faults_that_are_planted_are_seen(browser, pages, tmp_path):
    text = pages["run"].read_text(encoding="utf-8")
    faults = (
        '<p style="color: #999; background: #fff">pale</p><p style="width: 1700px; max-width: none">wide</p>'
        '<figure><svg role="img"><text x="1" y="9">dumb</text></svg></figure><a href="#nowhere">dangling</a>'
        f'<div class="wide"><table id="long"><tr><td>{"long" * 400}</td></tr></table></div></main>'
    )
    planted = tmp_path / "planted.html"
    planted.write_text(text.replace("</main>", faults), encoding="utf-8")
    browser.open(planted, WIDTHS[0])
    read = browser.run(READING)
    assert read["least"][0] < LEAST_CONTRAST
    assert read["width"] > read["viewport"]
    assert read["cut"] == ["long"]
    assert read["dangling"] == 1
    assert read["drawings"][-1]["alt"] is None
    assert read["figures"][-1]["title"] == ""
