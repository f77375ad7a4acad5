"""Whether measured rows are those of a budget: every level and query there, laid out as asked, with the exact variance.

Nothing here reads a value; all is judged by a summary of one row a level and query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from das_spark.errors import InputError, QueryError
from das_spark.spark.noisy_rows import MEASURED, Binning, binning

if TYPE_CHECKING:
    from das_spark.config import RunPlan

#: Problems that one error lists.
NAMED: Final = 10
#: Kinds of layouts, queries and signs that are looked at; files that are right have far fewer.
MOST_SUMMARIES: Final = 10_000
#: Relative difference of a variance that single precision, and the arithmetic of others, explain.
SINGLE_PRECISION: Final = 1e-6

#: Level and query name of the file -> name of the query in the budget, and its exact variance.
Known = dict[tuple[str, str], tuple[str, float]]


@dataclass(slots=True)
class Findings:
    """What is wrong with measurements, all together."""

    source: str  # names the files
    sentences: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        """Note a problem."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def refuse(self) -> None:
        """Raise all problems as one error."""
        if not self.sentences:
            return
        named = self.sentences[:NAMED]
        if len(self.sentences) > NAMED:
            named.append(f"and {len(self.sentences) - NAMED} problems more")
        if len(named) == 1:
            raise InputError(f"{self.source}: {named[0]}")
        raise InputError("\n  - ".join([f"{self.source}: {len(self.sentences)} problems", *named]))


def measured_queries(
    summaries: Sequence[Any], plan: RunPlan, geounits: Mapping[str, int], findings: Findings, *, exact: bool
) -> Known:
    """Judge the summaries of measured rows."""
    known: Known = {}
    for row in summaries:
        found = _query(row, plan, findings)
        if found is None:
            continue
        name, expected = found
        place = f"geolevel {row['level']}, {row['query_name']}"
        if (row["level"], row["query_name"]) in known or name in _names(known, row["level"]):
            findings.add(f"{place}: occurs in more than one layout")
            continue
        known[row["level"], row["query_name"]] = (name, plan.budget.mechanism(row["level"], name).variance())
        judge_layout(row, expected, place, findings)
        _judge_noise(row, plan, name, place, findings, exact=exact)
        _judge_rows(row, geounits.get(row["level"], 0), place, findings)
    for level in plan.budget.levels:
        for item in level.queries:
            if item.query not in _names(known, level.geolevel):
                findings.add(f"geolevel {level.geolevel}: the measurements of query '{item.query}' are missing")
    return known


def _names(known: Known, level: str) -> set[str]:
    return {name for (each, _), (name, _) in known.items() if each == level}


def _query(row: Any, plan: RunPlan, findings: Findings) -> tuple[str, Binning] | None:  # noqa: ANN401 - a Spark row
    """The query of the budget that a summary is about, and its layout."""
    text = row["query_name"] or ""
    place = f"geolevel {row['level']}, {text!r}"
    if not text.endswith(MEASURED):
        findings.add(f"{place}: the name of a measurement must end with {MEASURED}")
        return None
    try:
        found = binning(plan.product.schema, text.removesuffix(MEASURED))
    except QueryError as error:
        findings.add(f"{place}: {error.message}")
        return None
    queries = {item.query: plan.queries[item.query] for item in plan.budget.level(row["level"]).queries}
    name = next((each for each, query in queries.items() if query == found.query), None)
    if name is None:
        findings.add(f"{place}: the budget has no such query at this geolevel")
        return None
    return name, found


def judge_layout(row: Any, expected: Binning, place: str, findings: Findings) -> None:  # noqa: ANN401
    """Whether binning, shape and lengths of values are those of a query."""
    if tuple(row["bins"]) != expected.kept:
        findings.add(f"{place}: its binning is {list(row['bins'])}, expected {list(expected.bins)}")
    if row["query_shape"] is None or tuple(row["query_shape"]) != expected.shape:
        findings.add(f"{place}: its shape is {row['query_shape']}, expected {list(expected.shape)}")
    elif not row["shortest"] == row["longest"] == expected.size:
        findings.add(f"{place}: {row['shortest']} to {row['longest']} values a geounit, expected {expected.size}")


def _judge_noise(
    row: Any,  # noqa: ANN401
    plan: RunPlan,
    name: str,
    place: str,
    findings: Findings,
    *,
    exact: bool,
) -> None:
    variance = plan.budget.mechanism(row["level"], name).variance()
    allowed = 0.0 if exact else SINGLE_PRECISION * variance
    for end in (row["least_variance"], row["greatest_variance"]):
        if end is None or not abs(end - variance) <= allowed:
            findings.add(f"{place}: its variance is {end}, and {variance} follows from the budget")
            break
    spent = str(plan.budget.spent(row["level"], name))
    if exact and not row["least_plb"] == row["greatest_plb"] == spent:
        findings.add(f"{place}: plb says that {row['least_plb']} was spent, and the budget {spent}")


def _judge_rows(row: Any, geounits: int, place: str, findings: Findings) -> None:  # noqa: ANN401
    if row["broken"]:
        findings.add(f"{place}: {row['broken']:,} rows without a geocode or a value")
    if not row["rows"] == row["geounits"] == geounits:
        findings.add(
            f"{place}: {row['rows']:,} rows of {row['geounits']:,} geounits, expected one of each {geounits:,}"
        )
