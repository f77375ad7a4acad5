"""The published study of 1940 beside our own: every figure with what could be expected of it, and what came out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from das_spark.errors import InputError
from das_spark.evaluation.template import rendered
from das_spark.studies.agreement import EXPECTATIONS, Expectation, Rule, expected_residuals, rule_of, step_of
from das_spark.studies.published_1940 import PRIVACY_LOSS, Key, published
from das_spark.studies.table import Cell, Table, shown

SCHEMA_VERSION: Final = 1


class Verdict(StrEnum):
    """What the comparison of two figures says."""

    WITHIN = "within tolerance"
    UNDECIDED = "undecided"
    OUTSIDE = "outside"
    SHAPE = "shape only"
    MISSING = "not measured"


VERDICTS: Final[Mapping[Verdict, str]] = {
    Verdict.WITHIN: "as close as it should be",
    Verdict.UNDECIDED: "not as close as it should be, but its interval is; or the wrong sign of a single residual",
    Verdict.OUTSIDE: "neither it nor its interval is as close as it should be",
    Verdict.SHAPE: "nothing is promised; `close` says whether it is as close as was foreseen",
    Verdict.MISSING: "we have no such figure",
}
"""What the verdicts mean."""

_FEWEST, _MOST = 0.8, 2.0
_AT_OTHER_NUMBERS = Rule(
    Expectation.SHAPE,
    "a maximum over a curve lies the higher the fewer residuals there are, and ours are not as many as the published",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of ours.

    Args:
        value: None where it is undefined.
        interval: Its ends, low and high.
        n: Residuals that it is of; 0: not said.

    Raises:
        InputError: The interval is upside down.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    n: int = 0

    def __post_init__(self) -> None:
        """Check the interval."""
        if self.interval is not None and not self.interval[0] <= self.interval[1]:
            raise InputError(f"interval {self.interval}: expected the low end first")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published figure and ours.

    Attributes:
        key: Which figure.
        published: Its value; None where undefined.
        ours: None: not measured.
        rule: What can be expected, and why.
    """

    key: Key
    published: float | None
    ours: Measured | None
    rule: Rule

    @property
    def ratio(self) -> float | None:
        """Ours by the published figure; None where one is missing, or zero."""
        if self.ours is None or self.ours.value is None or not self.published:
            return None
        return self.ours.value / self.published

    @property
    def close(self) -> bool | None:
        """Whether ours is within the tolerance, or as near as was foreseen; None where nothing is said."""
        if self.ours is None or self.rule.tolerance is None:
            return None
        return self._holds(self.ours.value, self.ours.value)

    @property
    def verdict(self) -> Verdict:
        """What the comparison says."""
        if self.ours is None:
            return Verdict.MISSING
        if self.rule.expectation is Expectation.SHAPE:
            return Verdict.SHAPE
        if self.rule.expectation is Expectation.SIGN:
            return self._of_sign(self.ours)
        if self.close:
            return Verdict.WITHIN
        return Verdict.UNDECIDED if self.ours.interval and self._holds(*self.ours.interval) else Verdict.OUTSIDE

    def _holds(self, low: float | None, high: float | None) -> bool:
        """Whether some value from low to high is close enough to the published one."""
        if self.published is None or low is None or high is None:
            return self.published is None and low is None and high is None
        least, most = self._band(self.published)
        return low <= most and high >= least

    def _band(self, published: float) -> tuple[float, float]:
        factor = 1 + (self.rule.tolerance or 0.0)
        ends = sorted((published / factor, published * factor))
        # A billionth: sums of floating-point numbers shall not decide at the very end of a band.
        apart = self.rule.steps * step_of(self.key) + 1e-9
        return ends[0] - apart, ends[1] + apart

    def _of_sign(self, ours: Measured) -> Verdict:
        if ours.value is None or self.published is None:
            return Verdict.WITHIN if ours.value is self.published else Verdict.OUTSIDE
        if ours.value * self.published > 0:
            return Verdict.WITHIN
        # One residual shows no spread: nothing says that its sign is no chance.
        reaches = ours.n == 1 if ours.interval is None else max(end * self.published for end in ours.interval) > 0
        return Verdict.UNDECIDED if reaches else Verdict.OUTSIDE


def compare(ours: Mapping[Key, Measured]) -> tuple[Comparison, ...]:
    """Every published figure beside ours.

    Args:
        ours: Figures by the keys of :mod:`das_spark.studies.published_1940`; those that are not there are rows too.

    Raises:
        InputError: A key is not that of a published figure.
    """
    figures = published()
    for key in ours:
        if key not in figures:
            raise InputError(f"there is no published {key}", hint="figures are compared at published settings only")
    return tuple(Comparison(key, value, ours.get(key), _rule(key, ours.get(key))) for key, value in figures.items())


def _rule(key: Key, ours: Measured | None) -> Rule:
    rule = rule_of(key)
    if key.statistic != PRIVACY_LOSS or rule.expectation is not Expectation.AGREES or ours is None or not ours.n:
        return rule
    enough = _FEWEST <= ours.n / expected_residuals(key) <= _MOST
    return rule if enough else _AT_OTHER_NUMBERS


def verdicts(comparisons: Iterable[Comparison]) -> dict[Expectation, Counter[Verdict]]:
    """How many figures of each class have each verdict.

    Args:
        comparisons: As `compare` gives them.

    Returns:
        Class -> verdict -> number of figures; classes without figures are there, too.
    """
    found: dict[Expectation, Counter[Verdict]] = {expectation: Counter() for expectation in Expectation}
    for each in comparisons:
        found[each.rule.expectation][each.verdict] += 1
    return found


_COLUMNS: Final = (
    "source",
    "setting",
    "level",
    "measure",
    "statistic",
    "index",
    "published",
    "ours",
    "low",
    "high",
    "n",
    "ratio",
    "class",
    "tolerance",
    "close",
    "verdict",
    "reason",
)


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """All rows, for the terminal, CSV and JSON.

    Args:
        comparisons: As `compare` gives them.
    """
    return Table(
        "figures",
        "Published figures of 1940, and ours",
        _COLUMNS,
        tuple(_cells(each) for each in comparisons),
        left=5,
        note="; ".join(f"{verdict}: {meaning}" for verdict, meaning in VERDICTS.items()),
    )


def verdict_table(comparisons: Sequence[Comparison]) -> Table:
    """How many figures of each class have each verdict.

    Args:
        comparisons: As `compare` gives them.

    Returns:
        A line a class, with what the class means; classes without figures are there, too.
    """
    found = verdicts(comparisons)
    rows: list[tuple[Cell, ...]] = [
        (str(expectation), *(found[expectation][verdict] for verdict in Verdict), EXPECTATIONS[expectation])
        for expectation in Expectation
    ]
    columns = ("class", *(str(verdict) for verdict in Verdict), "meaning")
    return Table("verdicts", "What could be expected, and what came out", columns, tuple(rows))


def to_json(comparisons: Sequence[Comparison]) -> str:
    """Both tables as a JSON object.

    Args:
        comparisons: As `compare` gives them.
    """
    content: dict[str, Any] = {"version": SCHEMA_VERSION}
    for table in (verdict_table(comparisons), comparison_table(comparisons)):
        content[table.name] = table.records()
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def to_html(comparisons: Sequence[Comparison]) -> str:
    """A fragment for a page: what came out of each class, and its rows; nothing from elsewhere is needed.

    Args:
        comparisons: As `compare` gives them; figures that were not measured have no row.
    """
    measured = [each for each in comparisons if each.verdict is not Verdict.MISSING]
    return rendered(
        "replication.html",
        __package__,
        summary=verdict_table(comparisons),
        classes=[
            (expectation, meaning, [each for each in measured if each.rule.expectation is expectation])
            for expectation, meaning in EXPECTATIONS.items()
        ],
        verdicts=VERDICTS,
        outside=Verdict.OUTSIDE,
        shown=shown,
    )


def _cells(each: Comparison) -> tuple[Cell, ...]:
    ours = each.ours or Measured(None)
    low, high = ours.interval or (None, None)
    key, rule = each.key, each.rule
    return (
        str(key.source),
        key.setting,
        key.level,
        key.measure,
        key.statistic,
        key.index,
        each.published,
        ours.value,
        low,
        high,
        ours.n or None,
        each.ratio,
        str(rule.expectation),
        rule.tolerance,
        None if each.close is None else "yes" if each.close else "no",
        str(each.verdict),
        rule.reason,
    )
