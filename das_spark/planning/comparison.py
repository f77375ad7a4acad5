"""Two budgets side by side before anything is spent, A as its file has it and B beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from das_spark.config import (
    JointPlan,
    Method,
    NamedStatistic,
    RunPlan,
    differing_settings,
    errors_of_tables,
    expected_errors,
    method_of,
    read_statistic,
    statistic_errors,
)
from das_spark.errors import ConfigurationError, Problems
from das_spark.planning.geounits import GeounitCounts, known_geounits
from das_spark.planning.record import plan_record
from das_spark.privacy import Framework, joint_costs


@dataclass(frozen=True, slots=True)
class _Side:
    """A part of either run, and how many geounits its levels have, as far as that is known."""

    plan: RunPlan
    counts: Mapping[str, int]

    def knowing(self, other: _Side) -> _Side:
        """The same, with what only the other knows of levels that both have."""
        more = {name: count for name, count in other.counts.items() if name in self.plan.spine.names}
        return _Side(self.plan, {**more, **self.counts})


def comparison_record(
    first: RunPlan | JointPlan,
    second: RunPlan | JointPlan,
    statistics: Sequence[str] = (),
    geounits: Sequence[str] = (),
) -> dict[str, Any]:
    """Compare two plans, as JSON values: lists of two hold what A has and what B has, None for nothing.

    Args:
        first: A.
        second: B.
        statistics: Texts `QUERY@GEOLEVEL`; each must be one of a part of either. By default every query that either
            measures, at every geolevel that both have.
        geounits: Texts `LEVEL=NUMBER`, of levels of either.

    Raises:
        ConfigurationError: A statistic or a number of geounits is of no part of either.
    """
    parts = [_parts(each) for each in (first, second)]
    plans = [plan for of in parts for plan in of.values()]
    _check_geounits(geounits, plans)
    _check_statistics(statistics, plans)
    sides = [{name: _Side(plan, _counts(plan, geounits)) for name, plan in of.items()} for of in parts]
    both = [name for name in parts[0] if name in parts[1]]
    if not both:
        kinds = " and ".join("; ".join(of) for of in parts)
        raise ConfigurationError(f"the runs count {kinds}, and have nothing in common")
    return {
        "runs": [first.name, second.name],
        "parts": [_part_record(name, sides[0][name], sides[1][name], statistics) for name in both],
        "only_in": [[name for name in of if name not in both] for of in parts],
        "together": _together(parts) if any(len(of) > 1 for of in parts) else None,
    }


def _parts(loaded: RunPlan | JointPlan) -> Mapping[str, RunPlan]:
    return loaded.parts if isinstance(loaded, JointPlan) else {loaded.product.record: loaded}


def _counts(plan: RunPlan, geounits: Sequence[str]) -> Mapping[str, int]:
    own = [text for text in geounits if text.partition("=")[0] in plan.spine.names]
    return known_geounits(plan, own).counts


def _check_geounits(geounits: Sequence[str], plans: Sequence[RunPlan]) -> None:
    """Refuse numbers of levels that no part has."""
    known = dict.fromkeys(name for plan in plans for name in plan.spine.names)
    for text in geounits:
        if text.partition("=")[0] not in known:
            hint = f"write LEVEL=NUMBER with a level of the runs: {', '.join(known)}"
            raise ConfigurationError(f"--geounits {text}: not a level and a number", hint=hint)


def _check_statistics(statistics: Sequence[str], plans: Sequence[RunPlan]) -> None:
    """Refuse what is a statistic of no part, with what each of them says of it."""
    problems = Problems("--statistic")
    for text in statistics:
        tried = [Problems("") for _ in plans]
        found = [read_statistic(text, plan, own) for plan, own in zip(plans, tried, strict=True)]
        if not any(found):
            for own in tried:
                for problem in own.found:
                    problems.add(*problem)
    problems.raise_if_any()


def _part_record(name: str, first: _Side, second: _Side, statistics: Sequence[str]) -> dict[str, Any]:
    sides = (first.knowing(second), second.knowing(first))
    # What follows from numbers of geounits is said below, of both alike.
    records = [plan_record(side.plan, GeounitCounts({}, {})) for side in sides]
    levels = [side.plan.spine.names for side in sides]
    common = [level for level in levels[0] if level in levels[1]]
    return {
        "part": name,
        "products": [side.plan.product.name for side in sides],
        "counts": sides[0].plan.product.counted,
        "differing_settings": {
            key: list(pair) for key, pair in differing_settings(sides[0].plan, sides[1].plan).items()
        },
        "costs": list(_costs(records)),
        "holds_for": [None if record["exact"] is None else record["exact"]["holds_for"] for record in records],
        "losses": _losses(records),
        "geolevels": {"both": common, "only_in": [[level for level in own if level not in common] for own in levels]},
        "statistics": _statistics(sides, common, statistics),
        "tables": list(_tables(sides)),
    }


def _pair(name: str, values: Sequence[float | None], texts: Sequence[str | None] | None = None) -> dict[str, Any]:
    """A figure of both: its values, what they are to be read as where that is exact, and B beside A."""
    before, after = values
    ratio = after / before if before and after is not None else None
    return {"name": name, "values": list(values), "exact": None if texts is None else list(texts), "ratio": ratio}


def _costs(records: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Totals and epsilons of a part of both."""
    for framework in dict.fromkeys(record["framework"] for record in records):
        texts = [record["total"] if record["framework"] == framework else None for record in records]
        values = [None if text is None else float(Fraction(text)) for text in texts]
        yield _pair(f"total {Framework(framework).symbol}", values, texts)
    names = dict.fromkeys(
        (conversion["conversion"], conversion["delta"]) for record in records for conversion in record["conversions"]
    )
    for conversion, delta in names:
        of = [
            {conversion["conversion"]: conversion["epsilon"] for conversion in record["conversions"]}
            for record in records
        ]
        yield _pair(f"epsilon at delta {delta:g}, {conversion}", [each.get(conversion) for each in of])
    exact = [record["exact"] for record in records]
    for delta in dict.fromkeys(each["delta"] for each in exact if each is not None):
        most = [None if each is None else each["epsilon_at_most"] for each in exact]
        yield _pair(f"epsilon at delta {delta:g}, exact composition, at most", most)


def _losses(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Epsilon of one attribute, and of the place within a geolevel, of both."""
    found = [{(loss["about"], loss["name"]): loss for loss in record["losses"]} for record in records]
    rows = []
    for about, name in dict.fromkeys([*found[0], *found[1]]):
        own = [each.get((about, name)) for each in found]
        row: dict[str, Any] = {"about": about, "name": name}
        for key in ("epsilon", "exact_epsilon_at_most"):
            pair = _pair(key, [None if each is None else each[key] for each in own])
            row |= {key: pair["values"], f"{key}_ratio": pair["ratio"]}
        rows.append(row)
    return rows


def _statistics(sides: Sequence[_Side], common: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Standard errors of named statistics, and which only one has."""
    methods = {method_of(side.plan, side.counts) for side in sides}
    # Both by one method, that which asks for least; ratios of figures that mean two things mean nothing.
    method = next(each for each in reversed(Method) if each in methods)
    of = [dict(_named(side.plan, common, texts, sides)) for side in sides]

    def answers(number: int, text: str) -> int:
        return sides[number].plan.product.schema.query(of[number][text].query).rows

    alike = [text for text in of[0] if text in of[1] and answers(0, text) == answers(1, text)]
    errors = [
        statistic_errors(side.plan, [own[text] for text in alike], side.counts, method) if alike else ()
        for side, own in zip(sides, of, strict=True)
    ]
    rows = []
    for text, *pair in zip(alike, *errors, strict=True):
        values = [None if math.isinf(value) else value for value in pair]
        named = of[0][text]
        figure = _pair(text, values)
        rows.append(
            {
                "query": named.query,
                "geolevel": named.geolevel,
                "standard_error": figure["values"],
                "ratio": figure["ratio"],
            }
        )
    return {
        "method": method.name.lower(),
        "meaning": f"largest standard error of all answers, {method}",
        "statistics": rows,
        "only_in": [[str(own[text]) for text in own if text not in alike] for own in of],
    }


def _named(
    plan: RunPlan, common: Sequence[str], texts: Sequence[str], sides: Sequence[_Side]
) -> Iterator[tuple[str, NamedStatistic]]:
    """The statistics of a run by the texts that name them in either."""
    if not texts:
        queries = dict.fromkeys(
            item.query for side in sides for level in side.plan.budget.levels for item in level.queries
        )
        texts = [f"{query}@{level}" for query in queries for level in common]
    for text in texts:
        found = read_statistic(text, plan, Problems(""))
        if found is not None:
            yield text, found


def _tables(sides: Sequence[_Side]) -> Iterator[dict[str, Any]]:
    """Expected standard errors of published tables that both have; none where geounits are not known."""
    if any(method_of(side.plan, side.counts) is not Method.ALL for side in sides):
        return
    found = []
    for side in sides:
        tables = side.plan.product.tables
        errors = errors_of_tables(expected_errors(side.plan, side.counts, tables), tables, side.plan.spine)
        found.append({(of.name, own.geolevel): (of.names, own.everywhere) for of, own in errors})
    for name, level in found[0]:
        pair = [each.get((name, level)) for each in found]
        columns = [() if each is None else each[0] for each in pair]
        if columns[0] != columns[1]:
            continue
        total = _pair("total", [float(each[1][0]) for each in pair if each is not None])
        mean = _pair("mean of columns", [float(each[1].mean()) for each in pair if each is not None])
        yield {
            "table": name,
            "geolevel": level,
            "total": total["values"],
            "total_ratio": total["ratio"],
            "mean_of_columns": mean["values"],
            "mean_of_columns_ratio": mean["ratio"],
        }


def _together(parts: Sequence[Mapping[str, RunPlan]]) -> list[dict[str, Any]]:
    """What all parts of each run cost together."""
    costs: list[Any] = [joint_costs([plan.budget for plan in of.values()]) for of in parts]
    found = []
    for symbol in ("epsilon", "rho"):
        texts = [cost[symbol] for cost in costs]
        if set(texts) != {"0"}:
            found.append(_pair(f"total {symbol}", [float(Fraction(text)) for text in texts], texts))
    delta = f"at delta {costs[0]['delta']:g}"
    found.append(_pair(f"epsilon {delta}, by the conversions", [cost["joint_epsilon"] for cost in costs]))
    exact = [cost["exact_epsilon_at_most"] for cost in costs]
    found.append(_pair(f"epsilon {delta}, exact composition, at most", exact))
    return found
