"""A text that every rule allows and every renderer could take for its own: it reads the same in every output."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from pyarrow import csv as arrow_csv
from rich.console import Console

from das_spark.cli.options import console
from das_spark.names import check_text
from das_spark.privacy import Budget, Framework, JointPart, LedgerEntry, LevelBudget, QueryShare
from das_spark.privacy.statement import StatementFacts, joint_statement, privacy_statement
from das_spark.report import (
    Axis,
    Bars,
    Curve,
    Figure,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    code,
    csv_text,
    drawn,
    escaped,
    markdown_page,
    markdown_text,
    page,
    print_report,
    table,
    table_records,
)
from das_spark.report.data import data_files
from das_spark.telemetry import Event, log_record
from das_spark.telemetry.logs import JsonLines

HOSTILE = "<b>x</b> | `y` [red]z[/red] <!-- # c **d** _e_ &lt;f ~~g~~ [h](http://i) ![j](k) \\ :smile: $m$ $\\frac{"
#: Each begins as something that makes a line of Markdown another kind of line, or a field of CSV a formula.
BEGINNINGS = ("# a", "## The claim", "> a", "- a", "+ a", "* a", "1. a", "1) a", "---", "===", "```", "~~~", "    a")
FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-A1", "@SUM(1)")
TEXTS = (HOSTILE, *BEGINNINGS, *FORMULAS)
READERS = (
    MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough"),
    MarkdownIt("commonmark", {"html": False}).enable("table"),
)


class _Texts(HTMLParser):
    """What a page says, tag by tag, and every tag and comment of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said, self.tags, self.comments = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.said += [value for _, value in attrs if value]

    def handle_data(self, data):
        self.said.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


def rendered(markdown: str, reader: MarkdownIt) -> _Texts:
    return _Texts(reader.render(markdown))


def report_of(text: str, *, drawing: bool = True) -> Report:
    listed = ReportTable(
        "listed", text, (ReportColumn("label", text), ReportColumn("n")), ((text, 1), (text, 2)), note=text
    )
    bars = Bars((0, 1), (0.5, 2.0), text, texts=(text, text))
    curve = Curve((0.0, 1.0), (0.0, 1.0), text)
    figures = (
        Figure(text, (Panel((bars,), Axis(text), rows=(text, text)),), legend="right", title=text),
        Figure(text, (Panel((curve,), Axis(text), Axis(text), title=text),), legend="above"),
    )
    return Report(
        text,
        (ReportSection(text, (text, listed, *(figures if drawing else ()))),),
        notices=(text,),
        lead=(text,),
        notes=(text,),
        definitions={text: text},
        facts={text: text},
        verdict=text,
    )


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_allowed(text):
    check_text(text, "title")


@pytest.mark.parametrize("reader", READERS, ids=["html", "plain"])
@pytest.mark.parametrize("text", TEXTS)
def test_in_a_line_of_markdown_it_reads_as_it_is(text, reader):
    for before, tags in (("# T: ", ["h1"]), ("- ", ["ul", "li"]), ("", ["p"])):
        found = rendered(f"{before}{escaped(text.strip())}\n\nafter\n", reader)
        assert (
            "".join(found.said).replace("\n", "")
            == f"{before.strip('# -')}{' ' * (before == '# T: ')}{text.strip()}after"
        )
        assert found.tags == [*tags, "p"]
        assert not found.comments


@pytest.mark.parametrize("text", [HOSTILE, "`", "``", " ` ", "a``b`c", "a\n\u202e<b>"])
def test_as_code_it_reads_as_it_is(text):
    found = rendered(f"run {code(text)} of\n", READERS[0])
    assert found.tags == ["p", "code"]
    assert found.said[1].strip() == text.strip().replace("\n", "\\n").replace("\u202e", "\\u202e")


def test_what_nobody_checked_stays_in_its_line_all_the_same():
    forged = "T\n\n## The claim\n\nepsilon = 0.01\u2028<!--"
    assert len(escaped(forged).splitlines()) == 1
    assert rendered(f"# {escaped(forged)}", READERS[0]).tags == ["h1"]


def test_names_and_rules_of_products_stay_as_they_are():
    """The statements of earlier runs follow from their manifests byte by byte."""
    for text in (
        "hhgq * votingage * hispanic * cenrace",
        "Added constraint a at State: total <= 5.",
        "relgq_aged_0_to_20: under 20 (of 1), P.L. 94-171; 5 < 6 > 4 & more: x=1, 'Household', 100 %",
    ):
        assert escaped(text) == text


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_of_a_report_has_the_structure_of_any_other(text):
    reader = READERS[0]
    wanted = rendered(markdown_text(report_of("plain", drawing=False)), reader)
    found = rendered(markdown_text(report_of(text, drawing=False)), reader)
    assert found.tags == wanted.tags
    assert not found.comments
    said = [" ".join(each.split()) for each in found.said]
    assert sum(" ".join(text.split()) in each for each in said) == sum("plain" in each for each in wanted.said)


@pytest.mark.parametrize(
    "text", [HOSTILE, '" onload="alert(1)', "</title><script>alert(1)</script>", "-->", "$x$ $\\frac{"]
)
def test_on_a_page_it_reads_as_it_is(text):
    wanted, found = _Texts(page(report_of("plain"))), _Texts(page(report_of(text)))
    assert {"script", "b", "img"}.isdisjoint(found.tags)
    count = {
        tag: found.tags.count(tag) for tag in wanted.tags if tag not in ("path", "use", "g", "text", "tspan", "defs")
    }
    assert count == {tag: wanted.tags.count(tag) for tag in count}
    assert [comment for comment in found.comments if text in comment] == []
    assert sum(each == text for each in found.said) >= 15


@pytest.mark.parametrize("text", [HOSTILE, "$x$", "$\\frac{", "a_b^c", "$5 to $10"])
def test_in_a_figure_it_reads_as_it_is(text):
    for figure in [block for block in report_of(text).sections[0].blocks if isinstance(block, Figure)]:
        root = ElementTree.fromstring(drawn(figure, 9))
        said = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]
        assert text in said
        assert root.attrib["aria-label"].startswith(text.split(". ")[0])


def test_a_statement_as_a_page_reads_as_it_is():
    found = _Texts(markdown_page(f"# Privacy statement: {escaped(HOSTILE)}\n\n- {escaped(HOSTILE)}\n"))
    assert {"b", "em", "strong", "del", "a", "img", "script", "code"}.isdisjoint(found.tags)
    assert HOSTILE in found.said


def printed(report: Report, out: Console) -> str:
    with out.capture() as captured:
        print_report(report, out)
        out.print(table(report.title, (report.title,), [(report.title,)]))
    return captured.get()


@pytest.mark.parametrize("text", [HOSTILE, "[bold]a[/bold]", "[/]", "[link=file:///x]a[/link]", ":warning:", "[b"])
def test_in_a_terminal_it_reads_as_it_is_whatever_the_console(text):
    for out in (Console(width=400, file=io.StringIO()), Console(width=400, file=io.StringIO(), markup=False)):
        found = printed(report_of(text, drawing=False), out)
        assert found.count(text) == printed(report_of("plain", drawing=False), out).count("plain")


def test_commands_print_what_nobody_checked_without_controls(capsys):
    console().print("a \x1b[2J\u202e :smile: [red]b[/red]\nc")
    assert capsys.readouterr().out == "a \\x1b[2J\\u202e :smile: [red]b[/red]\nc\n"


@pytest.mark.parametrize("text", TEXTS)
def test_in_csv_it_is_one_field_and_no_formula(text):
    rows = list(csv.reader(io.StringIO(csv_text(report_of(text).tables("csv")[0]))))
    shown = f"'{text}" if text in FORMULAS or text in ("- a", "+ a", "---", "===") else text
    assert rows == [["label", "n"], [shown, "1"], [shown, "2"]]
    files = data_files(report_of(text, drawing=False))
    assert list(csv.reader(io.StringIO(files["listed.csv"].decode()))) == rows
    assert arrow_csv.read_csv(io.BytesIO(files["listed.csv"])).column("label").to_pylist() == [shown, shown]
    assert pq.read_table(pa.BufferReader(files["listed.parquet"])).column("label").to_pylist() == [text, text]


def test_numbers_and_headings_of_csv():
    of = ReportTable.of("t", "T", ("=a", "b"), [(-1, Fraction(-1, 3)), (-2.5, "-3"), (None, "-")])
    assert csv_text(of) == "'=a,b\n-1,-1/3\n-2.5,-3\n,-\n"


@pytest.mark.parametrize("text", TEXTS)
def test_json_and_logs_keep_it(text):
    assert json.loads(json.dumps(table_records(report_of(text).tables("json"))))["listed"][0] == {"label": text, "n": 1}
    stream = io.StringIO()
    JsonLines(stream).handle(log_record(Event.COMMAND_SAID, {"text": text}))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["text"] == text


BUDGET = Budget(
    Framework.PURE_DP, Fraction(1), (LevelBudget("State", Fraction(1), (QueryShare("total", Fraction(1)),)),)
)


def statement(text: str) -> str:
    facts = StatementFacts(
        text,
        "run",
        BUDGET,
        (f"Units of class '{text}'", text),
        public_rules=(f"Structural zero {text}: {text}", text),
        from_people=(text,),
        insecure=True,
        notices=(text,),
        unit="unit",
        estimation=text,
    )
    return privacy_statement(facts)


@pytest.mark.parametrize("text", TEXTS)
def test_a_privacy_statement_says_what_it_says_of_any_other_product(text):
    wanted, found = rendered(statement("plain"), READERS[0]), rendered(statement(text), READERS[0])
    assert found.tags == wanted.tags
    assert not found.comments
    assert "INSECURE: A TEST KEY WAS USED" in "".join(found.said)
    assert found.said.count("The claim") == wanted.said.count("The claim") == 1


@pytest.mark.parametrize("text", [HOSTILE, "# a"])
def test_a_joint_statement_does_so_too(text):
    def joint(text: str) -> _Texts:
        entry = LedgerEntry("run", "2020-01-01T00:00:00+00:00", text, "person", BUDGET, insecure=False)
        parts = [JointPart("person", "run", entry, (text,), (text,), (text,))]
        return rendered(joint_statement("joint", parts), READERS[0])

    assert joint(text).tags == joint("plain").tags
    assert not joint(text).comments
