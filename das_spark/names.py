"""Names and texts that products, run files and manifests bring along: the only place that says what they may be.

A *name* becomes part of a path, a *heading* heads a column, and a *text* is a line that people read. They are checked
where the object is made that holds them, so that it does not matter who wrote it: a TOML file, a Python module, or the
manifest of a folder that somebody else has sent.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from das_spark.errors import ConfigurationError

#: Names that stand for something else in the folder of all runs: the link to the last run, and the ledgers of inputs.
RESERVED: Final = ("latest", "ledgers")
#: How files of tables end, those of the input too: CSV, plain or compressed, and Parquet.
CSV_ENDINGS: Final = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
PARQUET_ENDING: Final = ".parquet"
#: Most characters of a name, of a heading and of a text.
LONGEST_NAME: Final = 80
LONGEST_TEXT: Final = 1000
#: First characters by which a spreadsheet takes the text of a field for a formula.
FORMULA_SIGNS: Final = "=+-@\t\r"

#: Categories of Unicode that no line of printable text has: control, format (which includes the direction of writing),
#: private use and surrogate characters, line and paragraph separators.
_UNPRINTABLE: Final = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
#: Characters that a reader of CSV or of a query takes for something else than a part of the name of a column.
_DIVIDING: Final = "\"'`,;|\\"
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[./][0-9]+)?(?:[eE][+-]?[0-9]+)?|-")
#: Most characters of a wrong name or text that a message quotes.
_QUOTED: Final = 60


def check_name(
    name: str,
    what: str,
    *,
    also: str = "",
    most: int = LONGEST_NAME,
    error: type[ConfigurationError] = ConfigurationError,
) -> None:
    """Refuse a name that cannot be part of a path.

    Args:
        name: The name. Letters A-Z and a-z, digits, `-` and `_` are allowed; the first is a letter or digit, since
            readers of folders pass over names that begin otherwise.
        what: What has the name, for the message: "table", "run id"; empty where the message says it already.
        also: Further characters that are allowed behind the first one.
        most: Most characters.
        error: Kind of the error.

    Raises:
        ConfigurationError: The name is none, or is one of `RESERVED`.
    """
    if name in RESERVED:
        raise error(
            f"{what} {name!r}: beside the runs that name stands for something else".lstrip(),
            hint=f"choose another name; {' and '.join(RESERVED)} are taken",
        )
    if not re.fullmatch(f"[A-Za-z0-9][A-Za-z0-9_{re.escape(also)}-]*", name) or len(name) > most:
        signs = ", ".join(("letters A-Z and a-z", "digits", "'-'", *(repr(sign) for sign in also)))
        raise error(
            f"{what} {_quoted(name)} is no name that a file can have".lstrip(),
            hint=f"use {signs} and '_', a letter or digit first, {most} characters at most",
        )


def check_text(
    text: str, what: str, *, most: int = LONGEST_TEXT, error: type[ConfigurationError] = ConfigurationError
) -> None:
    """Refuse a text that is not one line of printable characters.

    Whatever else it holds is a matter of those who write it down: each renderer of `das_spark.report` escapes texts in
    its own way.

    Args:
        text: Such as a title or a label; may be empty.
        what: What it is, for the message.
        most: Most characters.
        error: Kind of the error.

    Raises:
        ConfigurationError: It has a line break, a control, format, private or surrogate character, or is too long.
    """
    signs = () if text.isprintable() else enumerate(text)
    place = next((place for place, sign in signs if unicodedata.category(sign) in _UNPRINTABLE), None)
    if place is not None:
        sign = text[place]
        called = f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".rstrip()
        raise error(
            f"{what} {_quoted(text)} has the character {called} at place {place + 1}",
            hint="write one line of printable text",
        )
    if len(text) > most:
        raise error(
            f"{what} {_quoted(text)} has {len(text):,} characters",
            hint=f"write one line of {most:,} characters at most",
        )


def check_heading(text: str, what: str, *, error: type[ConfigurationError] = ConfigurationError) -> None:
    """Refuse the name of a column that a file of text cannot have as its heading.

    Args:
        text: The name of the column.
        what: What has the name, for the message.
        error: Kind of the error.

    Raises:
        ConfigurationError: It is no text, is empty or long, begins as a formula of a spreadsheet does, or has a quote,
            a backslash, or a character that divides columns.
    """
    check_text(text, what, most=LONGEST_NAME, error=error)
    if not text or text[0] in FORMULA_SIGNS or any(sign in _DIVIDING for sign in text):
        raise error(
            f"{what} {text!r} is no heading of a column",
            hint=f"begin with a letter or digit, and leave out {' '.join(_DIVIDING)}",
        )


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take the text of a field for a formula; signed numbers and a lone dash are none."""
    return text[:1] in tuple(FORMULA_SIGNS) and _NUMBER.fullmatch(text) is None


def visible(text: str, *, keep: str = "") -> str:
    r"""Spell out the characters that no line of printable text has, for a text that nobody has checked.

    Args:
        text: Such as an error that quotes a file.
        keep: Characters that stay, such as line breaks.

    Returns:
        The text with escapes such as `\x1b` in their place.
    """
    if text.isprintable():
        return text
    hidden = (sign not in keep and unicodedata.category(sign) in _UNPRINTABLE for sign in text)
    return "".join(ascii(sign)[1:-1] if bad else sign for sign, bad in zip(text, hidden, strict=True))


def _quoted(text: str) -> str:
    """The beginning of a text, with escapes in the place of what cannot be printed."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}..."
