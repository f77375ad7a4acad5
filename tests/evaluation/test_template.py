"""Every page has the shared style; what it shows is escaped, and must be given."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

import das_spark
from das_spark.evaluation.template import rendered

ROOMS = [Path(das_spark.__file__).parent / room for room in ("evaluation",)]


def test_the_shared_style_stands_in_every_page_and_in_one_file_only():
    templates = [path for room in ROOMS for path in room.glob("*.html")]
    pages = [path for path in templates if path.read_text().startswith("<!doctype html>")]
    assert pages
    for page in pages:
        text = page.read_text()
        assert '{% include "style.html" %}' in text, page.name
        assert "body {" not in text, page.name


def test_a_value_that_is_missing_is_an_error_and_no_gap():
    with pytest.raises(UndefinedError):
        rendered("sweep.html")
