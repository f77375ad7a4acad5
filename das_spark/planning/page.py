"""A plan as a page, with what an attacker can learn of a record in words and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from das_spark.config import BANNER, JointPlan, RunPlan, holding_losses, is_void, plans_in
from das_spark.places import Place
from das_spark.privacy import (
    Framework,
    Unknown,
    claims_table,
    compose_exactly,
    compositions_of,
    in_words,
    odds_figure,
    odds_text,
    percent_at_least,
    rounded_up,
    trade_off_figure,
    trade_off_table,
    unknowns_of,
)
from das_spark.report import Block, KeyFigure, Report, ReportSection, ReportTable, page

#: Files of a plan in the folder that is asked for.
FILES: Final = ("plan.json", "plan.html")
_NO_CURVES: Final = (
    "No exact composition is known of Gaussian noise for several records of a contributor: the conversions stand, and"
    " trade-offs are not drawn."
)


def write_plan(
    loaded: RunPlan | JointPlan, records: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], folder: Place
) -> None:
    """Write plan.json and plan.html.

    Args:
        loaded: What is planned.
        records: What `plan` says of each run, in order.
        whole: What `plan --json` prints: that of the only run, or of the joint run.
        folder: Where to; made if it is not there.

    Raises:
        OutputError: The place cannot be written.
    """
    from das_spark.store import write_texts  # noqa: PLC0415 - plans that are printed need no disk

    report = present_plan(loaded, records, whole)
    write_texts(folder, {FILES[0]: json.dumps(whole, indent=2, default=str) + "\n", FILES[1]: page(report)})


def present_plan(loaded: RunPlan | JointPlan, records: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> Report:
    """The page of a plan; arguments as of `write_plan`."""
    plans = plans_in(loaded)
    parts = [_Semantics(plan) for plan in plans]
    everything, sections = parts[0].whole, list[ReportSection]()
    if isinstance(loaded, JointPlan):
        everything = _joint(loaded, parts)
        sections.append(ReportSection("All parts together", tuple(_together(everything, parts))))
    for plan, record, part in zip(plans, records, parts, strict=True):
        sections += _sections(plan, record, part, f"{plan.name}: " if isinstance(loaded, JointPlan) else "")
    notices = [f"{BANNER}: {each}" for record in records for each in record["from_people"]]
    return Report(
        f"Plan of {loaded.name}",
        tuple(sections),
        notices=tuple(dict.fromkeys(notices)),
        facts=_facts(records),
        verdict=_verdict(loaded, records, whole),
        key_figures=_key_figures(everything),
        picture=trade_off_figure(everything, ()) if everything else None,
        notes=tuple(warning for record in records for warning in record["warnings"]),
    )


class _Semantics:
    """What an attacker may not know of a record of one run, as far as exact compositions are known."""

    def __init__(self, plan: RunPlan) -> None:
        attributes, within = holding_losses(plan)
        found = () if is_void(plan) else compositions_of(plan.budget)
        name = f"one {plan.product.records.singular or plan.product.record}"
        self.whole: tuple[Unknown, ...] = (Unknown(name, found),) if found else ()
        self.parts = (("one attribute", unknowns_of(attributes)), ("place within a", unknowns_of(within, "within ")))

    @property
    def all(self) -> tuple[Unknown, ...]:
        return (*self.whole, *(unknown for _, group in self.parts for unknown in group))


def _joint(loaded: JointPlan, parts: Sequence[_Semantics]) -> tuple[Unknown, ...]:
    composed = compose_exactly([part.budget for part in loaded.parts.values()])
    if composed is None or not all(part.whole for part in parts):
        return ()
    return (Unknown("one record of each part", (composed,)),)


def _together(everything: Sequence[Unknown], parts: Sequence[_Semantics]) -> Iterator[Block]:
    if not everything:
        yield _NO_CURVES
        return
    alone = [("each part alone", [unknown for part in parts for unknown in part.whole])]
    yield from map(in_words, everything)
    yield odds_figure(everything, alone)
    yield trade_off_figure(everything, alone)


def _sections(plan: RunPlan, record: Mapping[str, Any], part: _Semantics, prefix: str) -> Iterator[ReportSection]:
    """The sections of one run; anchors of tables begin with its name."""
    symbol = plan.budget.framework.symbol
    if part.all:
        learned: list[Block] = [in_words(unknown) for unknown in part.whole]
        learned.append(claims_table(part.all, f"{plan.name}_claims"))
        learned += [odds_figure(part.whole, part.parts), trade_off_figure(part.whole, part.parts)]
        learned.append(trade_off_table(part.all, f"{plan.name}_trade_off"))
    else:
        learned = [_NO_CURVES]
    yield ReportSection(f"{prefix}What an attacker can learn", tuple(learned))
    yield ReportSection(f"{prefix}What is spent on parts of a record", (_losses(record, symbol),))
    yield ReportSection(f"{prefix}What is measured, and how exactly", (_measurements(record, symbol),))
    exact = [*record["invariants"], *([record["held_to"]] if record["held_to"] else [])]
    yield ReportSection(f"{prefix}What is published exactly", tuple(exact) or ("Nothing.",))


def _losses(record: Mapping[str, Any], symbol: str) -> ReportTable:
    columns = (
        "about",
        "name",
        ("spent", f"{symbol} spent"),
        ("epsilon", "as epsilon", ".4f"),
        ("exact_epsilon_at_most", "exact, at most", ".4f"),
    )
    return ReportTable.of(f"{record['run']}_losses", "Partial losses", columns, record["losses"])


def _measurements(record: Mapping[str, Any], symbol: str) -> ReportTable:
    columns = (
        *("geolevel", "query", ("geolevel_share", "level share"), ("query_share", "query share")),
        *(("spent", f"{symbol} spent"), ("standard_deviation", "standard deviation", ".4g")),
        ("answers_per_geounit", "answers a geounit", ",d"),
    )
    title = f"Noise: {record['product']['counts']}, a geounit"
    return ReportTable.of(f"{record['run']}_measurements", title, columns, record["measurements"])


def _facts(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    def each(key: str) -> str:
        return "; ".join(dict.fromkeys(str(record[key]) for record in records))

    products = "; ".join(dict.fromkeys(f"{record['product']['title']}" for record in records))
    budgets = "; ".join(f"{Framework(record['framework']).symbol} = {record['total']}" for record in records)
    return {"run": each("run"), "product": products, "budget": budgets, "neighbours": each("replaced")}


def _cost(whole: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> float | None:
    """The exact epsilon from above; None where it is not known."""
    if "together" in whole:
        found: float | None = whole["together"]["exact_epsilon_at_most"]
        return found
    return None if records[0]["exact"] is None else records[0]["exact"]["epsilon_at_most"]


def _verdict(loaded: RunPlan | JointPlan, records: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> str:
    exact = _cost(whole, records)
    spent = _facts(records)["budget"]
    spent += next((f" ({record['total_is']})" for record in records if record["total_is"]), "")
    if exact is None:
        return f"{loaded.name} would spend {spent}. {_NO_CURVES}"
    delta = (whole["together"] if "together" in whole else records[0]["exact"])["delta"]
    beside = [f"{conversion['epsilon']:.4f} ({conversion['conversion']})" for conversion in records[0]["conversions"]]
    conversions = f"; conversions of the total say {' and '.join(beside)}" if len(records) == 1 and beside else ""
    return (
        f"{loaded.name} would spend {spent}: epsilon {rounded_up(exact)} at most at delta {delta:g}, by exact"
        f" composition of all measured answers{conversions}. Nothing is spent yet."
    )


def _key_figures(everything: Sequence[Unknown]) -> tuple[KeyFigure, ...]:
    if not everything:
        return ()
    (unknown,) = everything
    half, rare = (max(composition.odds(power) for composition in unknown.compositions) for power in (0.5, 0.01))
    misses = percent_at_least(unknown.least_misses([0.01])[0][0])
    return (
        KeyFigure(f"{misses} %", "missed at least", f"about {unknown.name}, by rules that err otherwise in 1 %"),
        KeyFigure(odds_text(half), "times the odds", "of a claim made in half of the cases where it is true, at most"),
        KeyFigure(odds_text(rare), "times the odds", "of a claim made in 1 of 100 cases where it is true, at most"),
    )
