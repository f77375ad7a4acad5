"""The page needs nothing from elsewhere, says that it is restricted, and shows the figures."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
from made_study import made_run, made_study

from das_spark.evaluation import AccuracyReport, Entry, accuracy_page, frequencies_of, pool, spread, study_of
from das_spark.evaluation.figures import PALETTE, error_sizes


def report(run="first", seed=1):
    rng = np.random.default_rng(seed)
    entries = [
        Entry(place, measure, frequencies_of(rng.normal(0, size, 50).round().astype(int), 3))
        for place, size in (("County", 20), ("Block", 3))
        for measure in ("total", "votingage * race")
    ]
    return AccuracyReport("e2e_2018", (run,), tuple(entries), ("7 leaf geounits lie in no area",))


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data") and value]
        assert tag not in ("script", "link", "iframe")


def test_the_page_is_self_contained_and_marked_restricted():
    page = accuracy_page(report())
    links = Links()
    links.feed(page)
    assert all(link.startswith("#") for link in links.found)
    assert "RESTRICTED" in page
    assert re.findall(r"url\((?!#)", page) == []


def test_captions_say_what_was_computed_and_every_line_is_there():
    page = accuracy_page(report())
    assert page.count("<figcaption>") == page.count("<svg") == 2
    assert "95th percentile of absolute residuals" in page
    assert page.count("votingage * race") >= 2
    assert "7 leaf geounits lie in no area" in page


def test_several_runs_show_their_spread():
    reports = [report("a", 1), report("b", 2)]
    page = accuracy_page(reports[0], spread(reports))
    assert "Spread over runs" in page
    assert page.count("<svg") == 3


def test_errors_and_biases_stand_with_their_intervals_and_units():
    study = made_study()
    page = accuracy_page(study.report, (), study)
    (bias,) = [one for one in study.statistics if (one.place, one.measure, one.name) == ("County", "total", "bias")]
    low, high = bias.interval.low, bias.interval.high
    assert f"{bias.value:+,.2f}<br><small>{low:+,.2f} to {high:+,.2f}</small>" in page
    assert f"{bias.mean_of_runs:,.4g} ({bias.over_runs.low:,.4g} to {bias.over_runs.high:,.4g})" in page
    assert page.count("mean of runs (n/R each), 95 %") == 2
    (_, (_, told)) = study.report.homogeneity[0].numbers()
    assert f"<td>{told['low']:+,.2f} to {told['high']:+,.2f}</td>" in page
    assert "In people." in page


def test_no_page_says_nan():
    reports = [made_run(1), made_run(2)]
    page = accuracy_page(pool(reports), spread(reports), study_of(reports, replicates=40))
    assert re.findall(r"\bnan\b", page) == []


def test_names_are_escaped():
    odd = AccuracyReport("<script>alert(1)</script>", ("a",), report().entries)
    assert "<script>" not in accuracy_page(odd)


def test_a_report_without_residuals_still_makes_a_page():
    empty = AccuracyReport("x", ("a",), (Entry("County", "total", frequencies_of(np.zeros(0))),))
    assert "nothing to compare" in accuracy_page(empty)


def test_a_figure_is_well_formed_and_the_same_every_time():
    figure = error_sizes(report().entries)
    ElementTree.fromstring(figure)
    assert figure == error_sizes(report().entries)
    assert PALETTE[0].lower() in figure.lower()
