"""What is claimed, as figures and tables: how often a test errs, and what a claim about somebody is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from das_spark.privacy.exact_accounting import POWERS, ExactComposition, Floats, worst_trade_off
from das_spark.privacy.losses import Loss
from das_spark.report import PROGRAMS, STROKES, Axis, Cell, Curve, Figure, Panel, ReportColumn, ReportTable

#: Type I errors that tables name.
TYPE_ONE: Final = (1e-6, 1e-4, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_POINTS: Final = 121  # of a curve
_RAREST: Final = 6  # decades of powers that are drawn
_COLORS: Final = 6
_MANY: Final = 1e6  # odds from here on are said as powers of ten
_GREATEST: Final = 1e12  # odds beyond which nobody asks by how much more

_TRADE_OFF: Final = (
    "Least share of misses (type II error) of an attacker who knows everybody else, against how often he takes"
    " another one for the true one (type I error), by the exact composition of all measured answers. Nobody who sees"
    " what is published, or anything made of it, gets below a line. Grey: what is reached without looking; the farther"
    " a line lies below it, the more is told. {parts}"
)
_ODDS: Final = (
    "By what factor, at most, the odds of a claim are multiplied when it is made, against the part of the cases in"
    " which it is made where it is true; both axes in powers of ten. An attacker with any prior odds holds at most so"
    " many times these odds afterwards. What is claimed rarely can be worth more. {parts}"
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that an attacker does not know of one record.

    Args:
        name: What it is, in a word or two.
        compositions: Those of which the worst tells of it.
    """

    name: str
    compositions: tuple[ExactComposition, ...]

    def least_misses(self, type_one: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """Bounds on the least type II errors at type I errors."""
        return worst_trade_off(self.compositions, np.asarray(type_one))


def unknowns_of(losses: Iterable[Loss], before: str = "", after: str = "") -> tuple[Unknown, ...]:
    """Partial losses of which an exact composition is known, and something is told; words around their names."""
    return tuple(
        Unknown(f"{before}{loss.name}{after}", loss.compositions) for loss in losses if loss.spent and loss.compositions
    )


def trade_off_figure(whole: Sequence[Unknown], parts: Sequence[tuple[str, Sequence[Unknown]]]) -> Figure:
    """Trade-off curves: a panel for each group of parts, with the whole in each.

    Args:
        whole: The whole record; none where no claim is made about it.
        parts: Title of a panel, and what it shows; one panel of the whole alone where there is none.
    """
    # Dense at either end, where curves are steep.
    at = np.sin(np.linspace(0.0, np.pi / 2, _POINTS)) ** 2
    nothing = Curve([0.0, 1.0], [1.0, 0.0], "nothing told", color=None, stroke="dashed")

    def curve(unknown: Unknown, place: int) -> Curve:
        return _line(unknown.name, at, unknown.least_misses(at)[0], place)

    axes = [Axis(f"type {kind} error", low=0, high=1) for kind in ("I", "II")]
    return _panels(whole, parts, curve, (nothing,), (axes[0], axes[1]), _TRADE_OFF, "What tests must miss")


def odds_figure(whole: Sequence[Unknown], parts: Sequence[tuple[str, Sequence[Unknown]]]) -> Figure:
    """By what factor odds go up, against how often a claim is made; arguments as of `trade_off_figure`."""
    powers = np.logspace(-_RAREST, 0, _POINTS)

    def curve(unknown: Unknown, place: int) -> Curve:
        # The function is symmetrical: least type I error of tests of this power.
        errors = np.maximum(unknown.least_misses(1 - powers)[0], 1e-300)
        return _line(unknown.name, powers, np.minimum(powers / errors, _GREATEST), place)

    axes = (Axis("claims made, of true cases", "decades"), Axis("odds multiplied by, at most", "decades", low=1))
    return _panels(whole, parts, curve, (), axes, _ODDS, "What a claim is worth")


def _line(name: str, x: Floats, y: Floats, place: int) -> Curve:
    return Curve(x.tolist(), y.tolist(), name, place % _COLORS, STROKES[place // _COLORS % len(STROKES)])


def _panels(
    whole: Sequence[Unknown],
    parts: Sequence[tuple[str, Sequence[Unknown]]],
    curve: Callable[[Unknown, int], Curve],
    first: tuple[Curve, ...],
    axes: tuple[Axis, Axis],
    caption: str,
    title: str,
) -> Figure:
    """A panel for each group of parts, in which the whole comes first and has the same color."""
    groups = [(name, group) for name, group in parts if group] or [("", ())]
    panels, place = [], 1  # of each part, the color after that of the whole
    shared = tuple(curve(unknown, 0) for unknown in whole)
    for name, group in groups:
        drawn = tuple(curve(unknown, place + at) for at, unknown in enumerate(group))
        panels.append(Panel((*first, *shared, *drawn), *axes, title=name))
        place += len(group)
    about = "; ".join(f"{name}: {', '.join(each.name for each in group)}" for name, group in groups if group)
    told = f"Lines for parts of what is unknown: {about}." if about else ""
    return Figure(caption.format(parts=told).rstrip(), tuple(panels), height=14, legend="above", title=title)


def trade_off_table(unknowns: Iterable[Unknown], name: str = "trade_off") -> ReportTable:
    """Bounds on the least type II errors at `TYPE_ONE`; people read the lower ones. `name` as of the table."""
    columns = ("unknown", ("type_one", "type I error", ".0e"), ("low", "type II error, at least", ".4f"))
    rows: list[tuple[Cell, ...]] = []
    for unknown in unknowns:
        low, high = (miss.tolist() for miss in unknown.least_misses(TYPE_ONE))
        rows += [(unknown.name, one, *between) for one, *between in zip(TYPE_ONE, low, high, strict=True)]
    return ReportTable.of(
        name,
        "Least errors of tests",
        (*columns, ReportColumn("high", "", ".4f", PROGRAMS)),
        rows,
        folded=True,
    )


def claims_table(unknowns: Iterable[Unknown], name: str = "claims") -> ReportTable:
    """What is missed at a type I error of 1 %, and by what factor odds go up, of each; `name` as of the table."""
    odds = [ReportColumn(f"odds_{float(power):g}", f"in 1 of {int(1 / power):,}") for power in POWERS]
    rows: list[tuple[Cell, ...]] = [
        (
            unknown.name,
            float(unknown.least_misses([0.01])[0][0]),
            *(
                odds_text(max(composition.odds(float(power)) for composition in unknown.compositions))
                for power in POWERS
            ),
        )
        for unknown in unknowns
    ]
    return ReportTable.of(
        name,
        "Misses and odds",
        (("unknown", "what is unknown"), ("missed", "missed at least", ".4f"), *odds),
        rows,
        note="Missed at least: by rules that take another one for the true one in 1 % of cases. In 1 of so many: by"
        " what factor, at most, the odds of a claim go up that is made in this part of the cases where it is true.",
    )


def in_words(unknown: Unknown) -> str:
    """What the trade-off at a type I error of 1 % means, in a sentence."""
    return (
        f"About {unknown.name}: a rule that takes another one for the true one in 1 of 100 cases misses the true one in"
        f" at least {percent_at_least(unknown.least_misses([0.01])[0][0])} of 100 cases; without looking, in 99."
    )


def percent_at_least(share: float) -> str:
    """A share as a percentage, rounded down to a tenth."""
    return f"{math.floor(1000 * share) / 10:.1f}"


def odds_text(odds: float) -> str:
    """A factor, rounded up to three digits; nobody reads more of one beyond a million."""
    if odds == math.inf:
        return "unbounded"
    exponent = math.floor(math.log10(odds)) - 2
    up = math.ceil(odds / 10.0**exponent * (1 - 1e-12)) * 10.0**exponent
    return f"{up:.3g}" if up >= _MANY else f"{up:,.{max(-exponent, 0)}f}"
