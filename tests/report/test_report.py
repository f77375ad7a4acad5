"""One report, made of data, in every medium."""

from __future__ import annotations

import csv
import io
import json
import re
from fractions import Fraction
from html.parser import HTMLParser
from math import nan
from xml.etree import ElementTree

import pytest
from rich.console import Console

from das_spark.report import (
    CSV,
    JSON,
    PAGE,
    PEOPLE,
    PROGRAMS,
    STROKES,
    Axis,
    Bars,
    Boxes,
    Curve,
    Figure,
    Guide,
    KeyFigure,
    Panel,
    Regions,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    Violins,
    Whiskers,
    csv_files,
    csv_text,
    drawn,
    duration,
    json_text,
    markdown_page,
    markdown_text,
    page,
    print_report,
    size,
    table_records,
)

ERRORS = ReportTable(
    "errors",
    "Errors, in people",
    (
        ReportColumn("place", "geolevel"),
        ReportColumn("mean_absolute", "mean abs.", ",.2f"),
        ReportColumn("over_residuals", "95 %", ",.2f", fields=("low", "high")),
        ReportColumn("share", form="percent"),
        ReportColumn("n", "counts"),
        ReportColumn("of_runs", media=JSON),
        ReportColumn("runs", media=CSV),
    ),
    (
        ("State", 0.5, Span(0.25, 0.75, 0.95), Fraction(1, 8), 12345, (0.25, nan), 2),
        ("<County>", nan, None, None, 0, (), 0),
    ),
    note="Two geolevels.",
    marked=frozenset({1}),
)
HIDDEN = ReportTable.of("hidden", "Details", ("name", "value"), [("a", 1)], media=PAGE, folded=True)
BY_LEVEL = Figure(
    "Mean absolute error by geolevel. Bars: people.",
    (Panel((Bars((0, 1), (0.5, 2.0), "mean", texts=("0.50", "2.00")),), Axis("people"), rows=("State", "County")),),
    legend="right",
)
REPORT = Report(
    "Errors of <one> run",
    (
        ReportSection("Errors", ("In people.", ERRORS, BY_LEVEL, HIDDEN)),
        ReportSection("For programs", (ReportTable.of("more", "", ("x",), [(1,)], media=PROGRAMS),)),
    ),
    restricted="RESTRICTED: tells of confidential counts",
    notices=("INSECURE: a test key",),
    lead=("One run.",),
    notes=("a note",),
    definitions={"residual": "protected minus confidential"},
)


class _Balanced(HTMLParser):
    """Fails where tags are not closed in order; keeps the cells of tables, and identifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


def read(text: str) -> _Balanced:
    found = _Balanced()
    found.feed(text)
    assert not found.open
    return found


def printed(report: Report) -> str:
    out = Console(file=io.StringIO(), width=160)
    print_report(report, out)
    return out.file.getvalue()


def test_the_page_shows_everything_that_is_for_people_and_needs_nothing_else():
    text = page(REPORT)
    found = read(text)
    assert text.startswith("<!doctype html>")
    assert "Errors of &lt;one&gt; run</h1>" in text
    assert text.count('<p class="restricted">') == 2
    assert found.cells[:5] == ["geolevel", "mean abs.", "95 %", "share", "counts"]
    assert found.cells[5:15] == ["State", "0.50", "0.25 to 0.75", "12.5 %", "12,345", "<County>", "-", "-", "-", "0"]
    assert '<tr class="marked">' in text
    assert "<details><summary>Details</summary>" in text
    assert "For programs" not in text, "a section without anything to show has no heading"
    assert not re.search(r"<script|<link|https?://(?!www\.w3\.org)|@import|url\((?!#)", text)


def test_tables_scroll_and_are_named_and_figures_say_what_they_show():
    text = page(REPORT)
    assert text.count('<div class="wide" tabindex="0" role="region" aria-label="') == text.count("<table ")
    assert '<svg role="img" aria-label="Mean absolute error by geolevel"' in text
    assert '<th scope="row" class="text">State</th>' in text
    assert "<td>0.50</td>" in text


def test_identifiers_are_unique_with_several_figures():
    section = ReportSection("Twice", (BY_LEVEL, BY_LEVEL))
    ids = read(page(Report("Two", (section,)))).ids
    assert len(ids) == len(set(ids)) > 10


FIRST = Report(
    "First",
    tuple(ReportSection(title, ("Text.",)) for title in ("One", "Two & two", "Three", "One")),
    facts={"run": "r <1>", "budget": "epsilon = 1"},
    verdict="Good to 5 % at Block.",
    key_figures=(KeyFigure("12.5", "people", "half of the totals"),),
    picture=BY_LEVEL,
    definitions={"residual": "protected minus confidential"},
)


def test_the_first_screen_stands_before_the_contents_and_the_sections():
    text = page(FIRST)
    order = ["r &lt;1&gt;", 'class="verdict">Good to 5', "<b>12.5</b> people", "<figure>", "<nav", "<main>"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert read(text).ids.count("s-one") == 1


def test_a_page_of_many_sections_lists_them_and_links_lead_there():
    text = page(FIRST)
    links = re.findall(r'<a href="#([^"]+)">', text)
    assert links == ["s-one", "s-two-two", "s-three", "s-one-2", "s-words"]
    assert set(links) <= set(read(text).ids)
    assert "<nav" not in page(REPORT), "two sections are seen without a list"


def test_the_verdict_is_in_every_medium_that_is_read():
    assert "Good to 5 % at Block." in printed(FIRST)
    assert "Good to 5 % at Block.\n\n- run: r <1>" in markdown_text(FIRST)


def test_a_markdown_text_makes_a_page_whose_tags_stay_text():
    parts = "".join(f"## Part {at}\n\nText.\n\n" for at in range(5))
    text = markdown_page(f"# Title & more\n\nRun `a`: <b>no</b>.\n\n{parts}| x | y |\n|---|---|\n| 1 | 2 |\n")
    read(text)
    assert "<h1>Title &amp; more</h1>" in text
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    assert re.findall(r'<a href="#([^"]+)">Part', text) == re.findall(r'<h2 id="([^"]+)">Part', text)
    assert re.search(r'<div class="wide"[^>]*><table class="words">.*</table></div>', text, re.DOTALL)


def test_the_terminal_has_the_same_table_and_no_frames():
    text = printed(REPORT)
    assert "RESTRICTED: tells of confidential counts" in text
    row = next(line for line in text.splitlines() if line.startswith("State"))
    assert row.split() == ["State", "0.50", "0.25", "to", "0.75", "12.5", "%", "12,345"]
    assert "Details" not in text
    assert "note: a note" in text
    assert "|" not in text


def test_csv_has_plain_fields_and_says_who_may_see_it():
    files = csv_files(REPORT)
    assert set(files) == {"errors.restricted.csv", "more.restricted.csv"}
    rows = list(csv.DictReader(io.StringIO(files["errors.restricted.csv"])))
    assert rows[0] == {
        **{"place": "State", "mean_absolute": "0.5", "low": "0.25", "high": "0.75", "share": "1/8"},
        **{"n": "12345", "runs": "2", "classification": "RESTRICTED"},
    }
    assert rows[1]["mean_absolute"] == rows[1]["low"] == rows[1]["share"] == ""
    assert csv_text(HIDDEN) == "name,value\na,1\n"


def test_json_has_tables_without_what_is_no_number():
    content = table_records(REPORT.tables("json"))
    assert content["errors"][0]["over_residuals"] == {"low": 0.25, "high": 0.75, "level": 0.95}
    assert content["errors"][0]["of_runs"] == [0.25, None]
    assert content["errors"][0]["share"] == "1/8"
    assert content["more"] == [{"x": 1}]
    assert "hidden" not in content


def test_json_text_has_facts_and_a_line_for_every_element_of_a_list():
    text = json_text({"schema_version": 1}, {"rows": [{"x": 1}, {"x": None}], "none": [], "of": {"a b": [[1, 2]]}})
    assert json.loads(text) == {
        "schema_version": 1,
        "rows": [{"x": 1}, {"x": None}],
        "none": [],
        "of": {"a b": [[1, 2]]},
    }
    assert [line for line in text.splitlines() if "x" in line] == [' {"x": 1},', ' {"x": null}']
    with pytest.raises(ValueError, match="JSON"):
        json_text({"nan": nan}, {})


def test_a_span_around_a_value_shows_both():
    column = ReportColumn("mean", form=".1f", media=PEOPLE)
    of = ReportTable("t", "T", (column,), ((Span(0.5, 1.5, value=1.0),),))
    report = Report("R", (ReportSection("", (of,)),))
    assert "1.0<br><small>0.5 to 1.5</small>" in page(report)
    assert "1.0 (0.5 to 1.5)" in printed(report)


ALL_KINDS = Figure(
    "Every kind.",
    (
        Panel((Curve((1, 10, 1000), (1, 2, 5), "up", texts=("a",)), Guide()), Axis("x", "log"), Axis("y", "decades")),
        Panel((Boxes((0, 1), (-2, -1), (-1, 0), (0, 1), (1, 2), (2, 3), (0, 1)), Guide(x=0)), rows=("one", "two")),
        Panel((Violins((0,), ((-1.0, 0.0, 1.0),), ((0.1, 1.0, 0.1),), (0.0,), 0.4, "v"),), Axis(ticks=((0, "zero"),))),
        Panel((Whiskers((1, 2), (0, 1), (2, 3), values=(1, 2), label="w"), Guide(y=1.5, dashed=True))),
        Panel((Curve((0, 1, 2), (1, nan, 3), stroke=STROKES[1], marker=2, steps=True),), Axis(scale="symlog", low=-1)),
        Panel((Whiskers((0,), (1,), (2,)),), rows=("only",)),
    ),
    legend="above",
)


def test_every_kind_of_series_is_drawn_the_same_every_time():
    text = drawn(ALL_KINDS)
    ElementTree.fromstring(text)
    assert all(f">{word}<" in text for word in ("1,000", "100", "one", "zero", "a", "v", "w"))
    assert text == drawn(ALL_KINDS)
    assert "dc:date" not in text


def texts_of(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_coordinates_are_short_and_what_people_read_keeps_its_digits():
    bars = Bars((0,), (1.0304,), texts=("1.0304",))
    text = drawn(Figure("Of one.", (Panel((bars,), Axis("0.125 of them"), rows=("12.3456",)),)))
    assert {"1.0304", "0.125 of them", "12.3456"} <= set(texts_of(text))
    tags = re.findall(r"<[^>]*>", text)
    assert not any(re.search(r"\d\.\d\d", tag) for tag in tags if "aria-label" not in tag)


def test_names_of_points_that_would_cover_each_other_are_moved_or_left_out():
    near = Curve((1, 1.001, 5), (1, 1.001, 5), texts=("first", "second", "third"))
    heap = Curve([1 + at / 1e6 for at in range(40)], [1.0] * 40, texts=tuple(f"name {at}" for at in range(40)))
    far = Curve((90,), (9,))
    assert {"first", "second", "third"} <= set(texts_of(drawn(Figure("Two.", (Panel((near,)),)))))
    shown = [text for text in texts_of(drawn(Figure("Many.", (Panel((heap, far)),)))) if text.startswith("name")]
    assert 1 <= len(shown) <= 6


def test_a_narrow_figure_has_its_plots_one_below_another_and_names_on_several_lines():
    long = "a name that is far too long for a telephone"
    figure = Figure("Two.", (Panel((Bars((0,), (1,)),), Axis("people"), rows=(long,)),) * 2)
    wide, narrow = (drawn(figure, width) for width in (10.0, 4.4))
    size = {
        name: [float(group) for group in re.search(r'viewBox="0 0 (\S+) (\S+)"', text).groups()]
        for name, text in (("wide", wide), ("narrow", narrow))
    }
    assert size["narrow"][0] < 330
    assert size["narrow"][1] > size["narrow"][0] > 0
    assert size["wide"][1] < size["wide"][0]
    assert long in texts_of(wide)
    assert long not in texts_of(narrow)


def test_regions_are_colored_by_class_with_a_color_for_none():
    square = ((0, 0, 1, 1, 0), (0, 1, 1, 0, 0))
    regions = Regions(((square,),) * 3, (1.0, 5.0, nan), (2.0,), ("small", "large"), ("A: 1", "B: 5", "C"))
    text = drawn(Figure("A map.", (Panel((regions,)),), legend="above"))
    assert {"small", "large", "no value"} == set(texts_of(text))
    assert re.findall(r"<title>([^<]*)</title>", text) == ["A: 1", "B: 5", "C"]
    colors = [re.search(rf'id="region-{at}">.*?fill: (#\w+)', text).group(1) for at in range(3)]
    assert len(set(colors)) == 3


def test_the_page_has_the_colors_of_figures_as_names_that_the_dark_changes():
    text = page(Report("R", (ReportSection("S", (BY_LEVEL,)),)))
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert figures
    assert not any(re.search(r": #[0-9a-f]{6}", figure) for figure in figures)
    named = {name for figure in figures for name in re.findall(r"var\(--(\w+)\)", figure)}
    defined = set(re.findall(r"--(\w+):", text))
    assert named <= defined
    assert "c0" in named


@pytest.mark.parametrize("number", [1, 3])
def test_as_many_plots_as_panels_are_drawn(number):
    text = drawn(Figure("Some.", ALL_KINDS.panels[:number]))
    assert len(re.findall(r'<g id="axes_\d+">', text)) == number


def test_times_and_sizes_read_as_people_say_them():
    times = ["0.0 s", "59.9 s", "1 min 01 s", "1 h 00 min", "2 h 02 min"]
    assert [duration(seconds) for seconds in (0.04, 59.9, 61, 3600, 7325)] == times
    assert [size(count) for count in (0, 999, 1000, 2.5e9, 3e12)] == ["0 B", "999 B", "1 kB", "2.5 GB", "3 TB"]


def test_markdown_has_what_the_page_has_without_its_figures():
    text = markdown_text(REPORT)
    assert text.startswith("# Errors of \\<one> run\n\n**RESTRICTED: tells of confidential counts**\n\n**INSECURE")
    assert "| State | 0.50 | 0.25 to 0.75 | 12.5 % | 12,345 |" in text
    assert "- residual: protected minus confidential" in text
    assert "svg" not in text
    starred = ReportTable.of("t", "T", ("query",), [("sex * race | age",)])
    assert r"| sex * race \| age |" in markdown_text(Report("R", (ReportSection("S", (starred,)),)))
