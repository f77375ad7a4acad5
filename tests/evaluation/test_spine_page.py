"""The page on a spine needs nothing from elsewhere, and says what was computed."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

from made_report import made_report

from das_spark.evaluation import spine_page


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data") and value]
        assert tag not in ("script", "link", "iframe")


def test_the_page_is_self_contained():
    page = spine_page(made_report())
    links = Links()
    links.feed(page)
    assert all(link.startswith("#") for link in links.found)
    assert re.findall(r"url\((?!#)", page) == []


def test_every_figure_is_drawn_with_a_caption():
    page = spine_page(made_report())
    figures = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(figures) == page.count("<figcaption>") == 4
    for figure in figures:
        ElementTree.fromstring(figure)
    assert "rho = 1/3" in page
    assert page == spine_page(made_report())


def test_tables_show_levels_budget_and_entities():
    page = spine_page(made_report())
    for words in ("Where the budget went", "0.6250", "4400003", "product: pl94_2020_person", "AIAN area"):
        assert words in page
    assert "<quarters>" not in page


def test_a_report_without_entities_still_makes_a_page():
    page = spine_page(replace(made_report(), categories=made_report().categories[1:]))
    assert page.count("<svg") == page.count("<figcaption>") == 2
