"""The accuracy report with its study: the page, the terminal, CSV and JSON show the same numbers."""

import csv
import io
import json
import re

import numpy as np
import pytest
from made_study import SHARES, made_run, made_study
from rich.console import Console

from das_spark.errors import UndefinedError
from das_spark.evaluation import AccuracyReport, Entry, frequencies_of, pool, present_accuracy, spread, study_of
from das_spark.evaluation.privacy_loss import AS_CODED, empirical_privacy_loss
from das_spark.evaluation.statistics import STATISTICS, StatisticKind
from das_spark.report import csv_files, number, page, print_report, table_records


def json_of(study, found, **options):
    """The JSON file of a study, read again."""
    return json.loads(study.report.to_json(table_records(found.tables("json"))), **options)


def accuracy_page(*of):
    return page(present_accuracy(*of))


def printed(*of):
    out = Console(file=io.StringIO(), width=200)
    print_report(present_accuracy(*of), out)
    return out.file.getvalue()


def report(run="first", seed=1):
    rng = np.random.default_rng(seed)
    entries = [
        Entry(place, measure, frequencies_of(rng.normal(0, size, 50).round().astype(int), 3))
        for place, size in (("County", 20), ("Block", 3))
        for measure in ("total", "votingage * race")
    ]
    return AccuracyReport("e2e_2018", (run,), tuple(entries), ("7 leaf geounits lie in no area",))


def test_captions_say_what_was_computed_and_every_line_is_there():
    text = accuracy_page(report())
    assert text.count("<figcaption>") == text.count('class="broad"><svg') == 2
    assert "95th percentile of absolute residuals" in text
    assert text.count("votingage * race") >= 2
    assert "7 leaf geounits lie in no area" in text


def test_several_runs_show_their_spread():
    reports = [report("a", 1), report("b", 2)]
    text = accuracy_page(reports[0], spread(reports))
    assert "Spread over runs" in text
    assert text.count('class="broad"><svg') == 3


def test_errors_and_biases_stand_with_their_intervals_and_units():
    study = made_study()
    text = accuracy_page(study.report, (), study)
    (bias,) = [one for one in study.statistics if (one.place, one.measure, one.name) == ("County", "total", "bias")]
    low, high = bias.interval.low, bias.interval.high
    assert f"{bias.value:+,.2f}<br><small>{low:+,.2f} to {high:+,.2f}</small>" in text
    assert f"{bias.mean_of_runs:,.4g}<br><small>{bias.over_runs.low:,.4g} to {bias.over_runs.high:,.4g}</small>" in text
    assert text.count("mean of runs (n/R each), 95 %</th>") == 2
    (_, (_, told)) = study.report.homogeneity[0].numbers()
    assert f"<td>{told['low']:+,.2f} to {told['high']:+,.2f}</td>" in text
    assert "Errors with their uncertainty, in people" in text


def test_no_page_says_nan():
    reports = [made_run(1), made_run(2)]
    text = accuracy_page(pool(reports), spread(reports), study_of(reports, replicates=40))
    assert re.findall(r"\bnan\b", text) == []


def test_names_are_escaped():
    odd = AccuracyReport("<script>alert(1)</script>", ("a",), report().entries)
    assert "<script>" not in accuracy_page(odd)


def test_a_report_without_residuals_still_makes_a_page():
    empty = AccuracyReport("x", ("a",), (Entry("County", "total", frequencies_of(np.zeros(0))),))
    assert "<td>-</td>" in accuracy_page(empty)


def rows(text: str, *beginning: str) -> list[list[str]]:
    lines = [line.split() for line in text.splitlines()]
    return [line for line in lines if line[: len(beginning)] == list(beginning)]


def test_the_page_is_marked_restricted():
    assert '<p class="restricted">RESTRICTED' in accuracy_page(report())
    assert printed(report()).startswith("RESTRICTED")


def test_errors_are_printed_with_their_intervals():
    study = made_study()
    text = printed(study.report, (), study)
    assert "Errors with their uncertainty, in people" in text
    for name in ("median_absolute", "p95_absolute", "rmse", "bias"):
        (one,) = [statistic for statistic in study.statistics if (statistic.measure, statistic.name) == ("total", name)]
        ((*_, n, value, low, _, high, mean, runs_low, _, runs_high),) = rows(text, "County", "total", name)
        assert (n, value, low, high) == ("100", *map(number, (one.value, one.interval.low, one.interval.high)))
        assert mean == number(one.mean_of_runs)
        assert (runs_low, runs_high) == (f"({number(one.over_runs.low)}", f"{number(one.over_runs.high)})")


def test_biases_by_index_are_printed_with_intervals_and_their_unit():
    study = made_study(1)
    text = printed(study.report, (), study)
    assert "Bias of totals by homogeneity index, in people" in text
    one, many = rows(text, "County", "empty", "strata")
    assert one[-2:] == ["-", "-"]  # one geounit in one run
    assert "to" in many


def test_nothing_is_printed_as_nan():
    runs = [made_run(1), made_run(2)]
    study = made_study()
    text = printed(study.report, spread(runs), study)
    assert "District" in text
    assert "nan" not in text


def test_the_release_of_a_line_has_the_loss_of_its_own_residuals():
    study = made_study(samples=True)
    assert {line.place for line in study.closest} == {"County"}
    for line in study.closest:
        entry = study.report.entry(line.place, line.measure)
        loss = empirical_privacy_loss(entry.frequencies, AS_CODED).value
        assert line.release == (entry.figures.median_absolute, loss)
        assert [point.share for point in line.samples] == list(SHARES)


def test_small_shares_have_their_names_in_figure_2_and_in_the_table():
    study = made_study(samples=True)
    text = accuracy_page(study.report, (), study)
    assert "Circles, joined" in text
    assert all(f">{label}<" in text for label in ("0.4 %", "2.5 %", "50 %"))
    assert "needs --samples" not in text
    assert "<td>50 %</td>" in text
    assert "County race * hispanic" in re.sub(" +", " ", printed(study.report, (), study))


def test_without_samples_the_page_says_why_there_is_no_figure_2():
    study = made_study()
    text = accuracy_page(study.report, (), study)
    assert "Circles, joined" not in text
    assert "needs --samples" in text


def test_samples_that_are_not_as_many_as_the_runs_are_noted():
    assert made_study(1, samples=True).report.notes == ()
    assert made_study(2).report.notes == ()
    (note,) = made_study(2, samples=True).report.notes
    assert note.startswith("samples of every share: 1, runs beside them: 2;")


def test_files_hold_every_figure_and_json_no_nan():
    runs = [made_run(1), made_run(2)]
    study = study_of(runs, replicates=40)
    found = present_accuracy(study.report, spread(runs), study)
    files = csv_files(found)
    assert set(files) == {"statistics.restricted.csv", "homogeneity.restricted.csv"}
    lines = list(csv.DictReader(io.StringIO(files["statistics.restricted.csv"])))
    columns = "place measure statistic settings unit n value why_undefined low_over_residuals high_over_residuals runs"
    columns += " mean_of_runs low_over_runs high_over_runs level classification"
    assert list(lines[0]) == columns.split()
    assert {line["classification"] for line in lines} == {"RESTRICTED"}
    content = json_of(study, found, parse_constant=pytest.fail)
    values = content["statistics"]
    keys = "place measure statistic settings unit n value why_undefined interval of_runs mean_of_runs over_runs"
    assert list(values[0]) == keys.split()
    assert set(values[0]["interval"]) == {"low", "high", "level"}
    assert [line["statistic"] for line in lines] == [value["statistic"] for value in values]
    for line, value in zip(lines, values, strict=True):
        assert (float(line["value"]) if line["value"] else None) == value["value"]
        assert (float(line["mean_of_runs"]) if line["mean_of_runs"] else None) == value["mean_of_runs"]
        assert (line["unit"], int(line["n"]), int(line["runs"])) == (value["unit"], value["n"], 2)
    spreads = "place measure figure values mean standard_deviation population bins"
    assert set(content["spread"][0]) == set(spreads.split())
    biases = csv.DictReader(io.StringIO(files["homogeneity.restricted.csv"]))
    columns = "place definition index n bias low high low_over_runs high_over_runs unit classification"
    assert biases.fieldnames == columns.split()


def test_lines_on_samples_are_written_with_exact_shares():
    study = made_study(samples=True)
    found = present_accuracy(study.report, (), study)
    (first, *_) = csv.DictReader(io.StringIO(csv_files(found)["closest_samples.restricted.csv"]))
    columns = "place measure median_absolute empirical_privacy_loss by_median_absolute by_loss by_both classification"
    assert list(first) == columns.split()
    assert first["by_median_absolute"] in map(str, SHARES)
    (line, *_) = json_of(study, found)["closest_samples"]
    assert [set(sample) for sample in line["samples"]] == [{"share", "median_absolute", "empirical_privacy_loss"}] * 3
    assert line["samples"][0]["share"] == "1/250"


def share_exact(table):
    """A statistic that the registry does not have."""
    if table.values[0] == table.values[-1]:
        raise UndefinedError("they are all alike")
    return float(table.counts[table.values == 0].sum() / table.total)


def test_a_new_statistic_is_one_function_and_one_line_of_the_registry(monkeypatch):
    """It stands on the page, in the terminal, in CSV and JSON and among the definitions, without further change."""
    kind = StatisticKind("share_exact", share_exact, "share of {counted} that are exact", unit="a share")
    monkeypatch.setitem(STATISTICS, ("share_exact", ""), kind)
    study = made_study()
    of = (study.report, (), study)
    (one,) = [
        statistic for statistic in study.statistics if (statistic.measure, statistic.name) == ("total", "share_exact")
    ]
    totals = [made_run(seed).entry("County", "total").frequencies for seed in (0, 1)]
    assert one.value == sum(total.exact for total in totals) / 100
    assert one.interval.low <= one.value <= one.interval.high
    found = present_accuracy(*of)
    shown = number(one.value)
    assert re.search(rf"<td class=.text.>share_exact</td>.*?<td>{re.escape(shown)}</td>", page(found), flags=re.DOTALL)
    ((*_, n, value, _, _, _, _, _, _, _),) = rows(printed(*of), "County", "total", "share_exact")
    assert (n, value) == ("100", shown)
    lines = csv.DictReader(io.StringIO(csv_files(found)["statistics.restricted.csv"]))
    assert next(line["value"] for line in lines if line["statistic"] == "share_exact") == repr(one.value)
    content = json_of(study, found)
    assert (
        next(statistic["value"] for statistic in content["statistics"] if statistic["statistic"] == "share_exact")
        == one.value
    )
    assert content["definitions"]["share_exact"] == "share of people that are exact"
    assert "share of people that are exact" in page(found)
