"""What names and texts may be, whoever brings them: product files, Python, run files, and manifests of other people."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from das_spark.errors import ConfigurationError, GeographyError
from das_spark.names import LONGEST_NAME, LONGEST_TEXT, check_heading, check_name, check_text, is_formula, visible
from das_spark.products import PRODUCTS

NO_NAMES = (
    *(
        "",
        ".",
        "..",
        "../x",
        "../../../../x",
        "/x",
        "a/b",
        "a\\b",
        "latest",
        "ledgers",
        "level=State",
        "a b",
        " a",
        "a ",
    ),
    *(
        "-a",
        "_a",
        ".a",
        "a.b",
        "a\n",
        "a\0",
        "é",
        "\u0661",
        "a:b",
        "a*",
        "~",
        "$HOME",
        "a%2f",
        "x" * (LONGEST_NAME + 1),
    ),
)
#: A text, and what a message must call it.
NO_TEXTS = {
    "a\n## The claim\n\nepsilon = 0.01": "U+000A",
    "a\rb": "U+000D",
    "a\tb": "U+0009",
    "a\0b": "U+0000",
    "a\x1b[2Jb": "U+001B",
    "a\x7fb": "U+007F",
    "a\u0085b": "U+0085",
    "a\u2028b": "U+2028 LINE SEPARATOR",
    "a\u2029b": "U+2029",
    "a\u202eb": "U+202E RIGHT-TO-LEFT OVERRIDE",
    "a\u2066b": "U+2066",
    "a\u200bb": "U+200B",
    "a\ufeffb": "U+FEFF",
    "a\U000e0041b": "U+E0041",
    "a\ud800b": "U+D800",
    "a\ue000b": "U+E000",
}
ALLOWED = "<b>|`[red]<!-- # **é 你好 \u00a0$&amp;:smile: =1+1"


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_could_lead_elsewhere_is_no_name(name):
    with pytest.raises(ConfigurationError, match="table") as caught:
        check_name(name, "table")
    assert caught.value.hint
    assert caught.value.message.isprintable()


def test_signs_are_allowed_one_by_one_and_never_first():
    check_name("a.b", "run id", also=".")
    check_name("x" * 200, "run id", most=200)
    for name in ("..", ".a", "a/b", "a b", "a\n"):
        with pytest.raises(GeographyError):
            check_name(name, "geolevel", also=".", error=GeographyError)


@pytest.mark.parametrize(("text", "called"), NO_TEXTS.items())
def test_a_text_is_one_printable_line(text, called):
    with pytest.raises(ConfigurationError, match="title") as caught:
        check_text(text, "title")
    assert called in caught.value.message
    assert "one line" in caught.value.hint
    assert caught.value.message.isprintable()


def test_a_text_is_as_long_as_a_line_may_be():
    check_text("x" * LONGEST_TEXT, "title")
    with pytest.raises(ConfigurationError, match=r"title .{1,80} has 10,000 characters"):
        check_text("x" * 10_000, "title")


def test_whatever_a_renderer_must_escape_is_allowed():
    check_text(ALLOWED, "title")


def test_no_character_is_overlooked():
    for place in range(0x110000):
        sign = chr(place)
        if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") or unicodedata.bidirectional(sign) in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B"),
        ):
            with pytest.raises(ConfigurationError):
                check_text(sign, "title")
            assert visible(sign).isascii()


@pytest.mark.parametrize(
    "text", ["", "=A1", "+A", "-A", "@A", "\tA", "\rA", 'a"b', "a,b", "a;b", "a|b", "a`b", "a'b", "a\\b", "x" * 81]
)
def test_what_begins_as_a_formula_or_divides_columns_is_no_heading(text):
    with pytest.raises(ConfigurationError, match="column"):
        check_heading(text, "column")


def test_headings_of_offices_are_headings():
    for text in ("P0010001", "_se", "Größe", "a b", "a.b", "SEX-1"):
        check_heading(text, "column")


def test_numbers_are_no_formulas():
    assert not any(map(is_formula, ("", "a", "-1", "+1.5", "-1/3", "-2e-05", "-", "1=1", "0")))
    assert all(map(is_formula, ("=1", "-1+1", "--1", "+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "-A1")))


def test_what_nobody_has_checked_is_spelled_out_where_it_is_shown():
    assert visible("é a\x1b[2J\n\u202e", keep="\n") == "é a\\x1b[2J\n\\u202e"


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_ships_passes(name):
    product = PRODUCTS[name]
    names = [product.name, product.kind, *(level.name for level in product.geolevels)]
    names += [table.name for table in product.every_table]
    assert all(part.isascii() and part.replace("_", "").replace("-", "").isalnum() for part in names)
    assert replace(product) == product  # which checks all of it again
