"""Attacks on a finished run, by the command line; each attack's own tests lie with its package."""

from __future__ import annotations

import csv
import dataclasses
import json
import stat
from dataclasses import replace

import numpy as np
import pyarrow.dataset as ds
import pytest

from das_spark.attack import (
    ATTACKS,
    TALLY,
    AttackReport,
    AttackSettings,
    LinkedAttributes,
    Records,
    area_above,
    link,
    present_attacks,
)
from das_spark.attack.swap import Exchange, Held
from das_spark.cli.main import main
from das_spark.errors import ConfigurationError, OutputError
from das_spark.histogram import Histogram
from das_spark.pipeline.attack import _Attacked, attack_run
from das_spark.spark import residuals
from das_spark.spark.finished_runs import FinishedRun

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def run(measured):
    return measured.layout("whole").folder


@pytest.fixture(scope="module")
def found(run):
    return attack_run(run, AttackSettings(), attacks=["linkage"])


def histograms(folder) -> dict[str, tuple[list[int], list[int]]]:
    rows = ds.dataset(folder).to_table(columns=["geocode", "cells", "counts"]).to_pylist()
    return {row["geocode"]: (row["cells"], row["counts"]) for row in rows}


def flat(of, geocodes) -> Records:
    """Histograms of some geounits, numbered in their order."""
    rows = [
        (place, cell, count)
        for place, code in enumerate(geocodes)
        for cell, count in zip(*of.get(code, ((), ())), strict=True)
    ]
    return Records(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


@pytest.mark.slow
def test_spark_sums_up_what_each_area_gives(measured, run, found):
    """Area by area, from the files themselves."""
    layout, finished = measured.layout("whole"), FinishedRun.at(run)
    names, attributes = finished.census.names, LinkedAttributes.of(finished.product.schema)
    area, leaf = area_above(names), names[-1]
    length, parent_level = finished.census.level(area).length, finished.census.level(names[-2])
    held = Held.of(finished.product).query
    exchange = Exchange(finished.product.schema.size, held, AttackSettings().swapped, AttackSettings().seed)
    truth = histograms(layout.restricted.level("histograms", leaf))
    released = histograms(layout.public.level("estimates", leaf))
    around = histograms(layout.public.level("estimates", area))
    sums = 0
    for code in around:
        inside = sorted(each for each in truth if not length or each.startswith(code))
        exchanged = {}
        for parent in sorted({each[: parent_level.length] for each in inside}):
            children = [each for each in inside if each.startswith(parent)]
            made = exchange.of([Histogram.from_pairs(exchange.size, *truth[child]) for child in children], parent)
            exchanged |= {
                child: (after.cells.tolist(), after.counts.tolist())
                for child, after in zip(children, made, strict=True)
            }
        parts = [*(flat(each, inside) for each in (truth, released, exchanged)), flat(around, [code])]
        sums = sums + link(*parts, attributes=attributes)["all"].sum(axis=0)
    row = found.linkage.whole("all")
    assert [getattr(row, name) for name in TALLY] == pytest.approx(sums.tolist())
    assert row.persons == sum(sum(counts) for _, counts in truth.values())


@pytest.mark.slow
def test_the_command_writes_json_csv_and_a_page_for_their_owner_alone(run, found, tmp_path, capsys):
    out = tmp_path / "attack"
    assert main(["attack", str(run), "--only", "linkage", "--out", str(out), "--data", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    assert "RESTRICTED" in printed
    assert found.linkage.verdict in " ".join(printed.split())
    content = json.loads((out / "attack.json").read_text(encoding="utf-8"))
    assert content["linkage"] == json.loads(found.to_json())["linkage"]
    assert content["restricted"]
    with (out / "linkage.restricted.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["classification"] for row in rows} == {"RESTRICTED"}
    assert "Links, claims and guesses" in (out / "attack.html").read_text(encoding="utf-8")
    for place in (out, *out.iterdir(), tmp_path / "data"):
        assert not stat.S_IMODE(place.stat().st_mode) & 0o077
    assert (tmp_path / "data" / "linkage.restricted.csv").is_file()


def test_a_wrong_name_of_an_attack_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigurationError, match="linkige"):
        attack_run(tmp_path, AttackSettings(), attacks=["linkige"])
    with pytest.raises(ConfigurationError):
        attack_run(tmp_path, AttackSettings(), attacks=["differencing"])
    with pytest.raises(OutputError):
        attack_run(tmp_path, AttackSettings())


def test_every_attack_is_made_and_reported():
    fields = {field.name for field in dataclasses.fields(AttackReport)}
    for name in ATTACKS:
        assert callable(getattr(_Attacked, name))
        assert name in fields


@pytest.mark.slow
def test_another_run_on_the_same_people_tells_more(measured, run, tmp_path):
    again = ["run", str(measured.run_file()), "--run-id", "again", "--test-key", "another"]
    assert main([*again, "--set", "budget.epsilon=1/2"]) == 0
    second, out = str(measured.layout("again").folder), tmp_path / "attack"
    few = ["--draws", "4000", "--test-key", "k", "--out", str(out)]
    assert main(["attack", str(run), "--with", second, "--only", "differencing", *few]) == 0
    found = json.loads((out / "attack.json").read_text(encoding="utf-8"))["differencing"]
    assert found["names"] == ["whole", "again"]
    first, other, both = found["epsilons"]
    assert max(first, other) < both <= first + other
    leaf = found["totals"][-1]
    truth = histograms(measured.layout("whole").restricted.level("histograms", leaf["geolevel"]))
    for name, of in (("first", "whole"), ("second", "again")):
        released = histograms(measured.layout(of).public.level("estimates", leaf["geolevel"]))
        errors = [sum(released[code][1]) - sum(counts) for code, (_, counts) in truth.items()]
        assert leaf[name] == sum(error**2 for error in errors)


@pytest.mark.slow
def test_the_noise_of_a_run_that_leaks_convicts(run, tmp_path, capsys, monkeypatch):
    """Measurements that are the counts themselves, planted where the run's own are read."""
    real = residuals._noise

    def silent(sums, names):
        noise = real(sums, names)
        zero = [
            replace(residual, values=np.zeros(1, dtype=np.int64), frequencies=residual.frequencies.sum(keepdims=True))
            for residual in noise.residuals
        ]
        return replace(noise, residuals=tuple(zero))

    monkeypatch.setattr(residuals, "_noise", silent)
    out = tmp_path / "attack"
    few = ["--draws", "2000", "--test-key", "k", "--out", str(out)]
    assert main(["attack", str(run), "--only", "inference", *few]) == 1
    assert "CONVICTED" in capsys.readouterr().out
    assert "noise left out" in (out / "own_noise.restricted.csv").read_text(encoding="utf-8")


def test_what_is_known_and_learned_can_be_said(run):
    found = attack_run(run, AttackSettings(known="total", learned="hispanic"), attacks=["linkage"]).linkage
    assert (found.known, found.learned) == ("total", "hispanic")


@pytest.mark.slow
def test_a_report_without_any_attack_says_so(found):
    nothing = replace(found, linkage=None, left_out={"linkage": "nobody"})
    report = present_attacks(nothing)
    assert report.verdict == "No attack was made."
    assert report.sections[-1].blocks == ("linkage: nobody",)
