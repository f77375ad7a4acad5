"""The pages of the studies need nothing from elsewhere, and say what was computed."""

from __future__ import annotations

import re
from fractions import Fraction
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.report import drawn, page
from das_spark.studies.epl_appendix import AppendixSettings, epl_appendix
from das_spark.studies.flaxman import FlaxmanSettings, flaxman
from das_spark.studies.noise import NoiseRatio, ResidualLoss, residuals_and_curves
from das_spark.studies.results import StudyResult


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data") and value]
        assert tag not in ("script", "link", "iframe")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made: dict[str, StudyResult] = {
        "flaxman": flaxman(FlaxmanSettings(20_000, 2, 100, replicates=50)),
        "alone": flaxman(FlaxmanSettings(20_000, 2, 100, replicates=0, law=NoiseRatio.EXACT)),
        "appendix": epl_appendix(AppendixSettings((Fraction(1, 4),), 2)),
    }
    # A release of exact counts has no loss curve, and still makes a page.
    settings = FlaxmanSettings(2_000, 2, 100, epsilons=(Fraction(200),), law=NoiseRatio.EXACT, replicates=3)
    made["undefined"] = flaxman(settings)
    return {name: page(found.report(drawn=True)) for name, found in made.items()}


@pytest.mark.parametrize(("name", "figures"), [("flaxman", 2), ("alone", 1), ("appendix", 4), ("undefined", 2)])
def test_pages_are_self_contained_and_figures_have_captions(pages: dict[str, str], name: str, figures: int) -> None:
    text = pages[name]
    links = Links()
    links.feed(text)
    assert all(link.startswith("#") for link in links.found)
    assert re.findall(r"url\((?!#)", text) == []
    found = re.findall(r'(?<=class="broad">)<svg.*?</svg>', text, flags=re.DOTALL)
    assert len(found) == text.count("<figcaption>") == figures
    for figure in found:
        ElementTree.fromstring(figure)
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)


def test_pages_say_what_was_done(pages: dict[str, str]) -> None:
    for words in ("20,000 simulated people in 1 / 14 / 196 areas", "ratio 1 - z", "plateau / epsilon", "seed 12345"):
        assert words in pages["flaxman"]
    assert "ratio exp(-z)" in pages["alone"]
    for words in ("39 counties and 2,663", "Table SA1", "printed tables are no evidence", "72.5%", "63,912 strata"):
        assert words in pages["appendix"]


def test_whole_residuals_fall_inside_their_bins() -> None:
    found = ResidualLoss.of(np.repeat([-2.0, 0.0, 1.0, 3.0], [3, 9, 5, 2]), AS_CODED)
    svg = drawn(residuals_and_curves({"one": found}, (), "districts", 4.3, "One release"))
    ElementTree.fromstring(svg)
    assert "number of districts" in svg
    assert "legend" not in svg  # a single release needs none
