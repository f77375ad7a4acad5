"""The passes of estimation of a run: those of the strategy, with whatever the run file spells out instead of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from das_spark.config.problems import Problems, nearest
from das_spark.errors import QueryError
from das_spark.estimation import OuterPass

if TYPE_CHECKING:
    from das_spark.config.model import Pass
    from das_spark.histogram import Query, Schema
    from das_spark.privacy.budget import Budget
    from das_spark.products import Strategy

Passes = Mapping[str, tuple[OuterPass, ...]]
#: Geolevel -> measured queries by name.
Measured = Mapping[str, Mapping[str, "Query"]]
KEY = "estimation.passes"


def resolve_passes(
    sections: Sequence[Pass],
    strategy: Strategy | None,
    schema: Schema,
    levels: Sequence[str],
    measured: Measured | None,
    problems: Problems,
) -> dict[str, tuple[OuterPass, ...]]:
    """Find the passes of every level.

    A level that a section names has the passes of the sections that name it, in their order, and no others; any other
    level has those of the strategy.

    Args:
        sections: `[[estimation.passes]]`.
        strategy: The strategy that the run names, or None.
        schema: Which queries are asked of.
        levels: Geolevels of the run, root first; empty where they are wrong themselves.
        measured: What the run measures; None where that is wrong itself.
        problems: Where to note what is wrong.

    Returns:
        Passes by level, root first; levels without any are left out.
    """
    spelled = _Spelled(schema, measured, problems)
    own: dict[str, tuple[OuterPass, ...]] = {}
    last_key: dict[str, str] = {}
    for place, section in enumerate(sections):
        key = f"{KEY}.{place}"
        for level in dict.fromkeys(section.geolevels):
            if levels and level not in levels:
                sentence = f"there is no such geolevel in the run; {nearest(level, levels)}"
                problems.add(f"{key}.geolevels", f"'{level}': {sentence}")
                continue
            own[level] = (*own.get(level, ()), spelled.outer(key, section, level))
            last_key[level] = f"{key}.rounding"
    for level, passes in own.items():
        spelled.check_end(last_key[level], passes, level)
    given = {} if strategy is None else strategy.passes
    found = {}
    for level in levels:
        if level in own:
            found[level] = own[level]
        elif level in given:
            spelled.check_given(given[level], level)
            found[level] = given[level]
    return found


def measured_queries(budget: Budget, queries: Mapping[str, Query]) -> dict[str, dict[str, Query]]:
    """What each level measures.

    Args:
        budget: Of the run.
        queries: Every query of the budget by its name.
    """
    return {level.geolevel: {item.query: queries[item.query] for item in level.queries} for level in budget.levels}


def unread_queries(passes: Passes, level: str, measured: Sequence[str]) -> tuple[str, ...]:
    """Measured queries that no pass of a level reads; none where the level has no passes, since all are read then.

    Args:
        passes: Of the run.
        level: The geolevel.
        measured: Names of its measured queries.
    """
    if level not in passes:
        return ()
    read = {name for each in passes[level] for inner in each.least_squares for name in inner}
    return tuple(name for name in measured if name not in read)


def as_json(passes: Passes) -> list[dict[str, Any]]:
    """The passes as JSON values: one entry a level and outer pass, in order.

    Args:
        passes: Of the run, as `resolve_passes` gives them.
    """
    return [
        {
            "geolevel": level,
            "least_squares": [list(inner) for inner in each.least_squares],
            "rounding": [list(inner) for inner in each.rounding],
        }
        for level, outer in passes.items()
        for each in outer
    ]


@dataclass(frozen=True, slots=True)
class _Spelled:
    """What names of queries mean in a run."""

    schema: Schema
    measured: Measured | None
    problems: Problems

    def outer(self, key: str, section: Pass, level: str) -> OuterPass:
        """A section as the pass of a level, right or wrong."""
        return OuterPass(
            tuple(
                self._inner(f"{key}.least_squares.{place}", inner, level)
                for place, inner in enumerate(section.least_squares)
            ),
            tuple(self._inner(f"{key}.rounding.{place}", inner) for place, inner in enumerate(section.rounding)),
        )

    def check_end(self, key: str, passes: Sequence[OuterPass], level: str) -> None:
        """Whether the last rounding leaves nothing open."""
        last = passes[-1].rounding[-1]
        detailed = self.schema.query("detailed")
        if all(self.schema.query(name) != detailed for name in last):
            sentence = "must end with an inner pass that has 'detailed', or cells are left open"
            self.problems.add(key, f"the last rounding of {level} {sentence}")

    def check_given(self, passes: Sequence[OuterPass], level: str) -> None:
        """Whether what the passes of the strategy fit is measured."""
        if self.measured is None:
            return
        names = dict.fromkeys(name for each in passes for inner in each.least_squares for name in inner)
        missing = [name for name in names if name not in self.measured[level]]
        if missing:
            sentence = f"the strategy's passes fit '{missing[0]}' at {level}, which the run does not measure there"
            self.problems.add(KEY, f"{sentence}; spell out the passes of {level} in [[{KEY}]]")

    def _inner(self, key: str, texts: Sequence[str], fitted_at: str | None = None) -> tuple[str, ...]:
        """Canonical names of an inner pass, without those that are wrong; of what is fitted, the measured names."""
        names: list[str] = []
        for text in texts:
            try:
                query = self.schema.query(text)
            except QueryError as error:
                self.problems.add(key, f"{error.message}; {error.hint}")
                continue
            name = query.name
            if fitted_at is not None and self.measured is not None:
                known = self.measured[fitted_at]
                name = next((each for each, other in known.items() if other == query), "")
                if not name:
                    self.problems.add(key, f"'{text}' is not measured at {fitted_at}; {nearest(text, known)}")
                    continue
            if name in names:
                self.problems.add(key, f"'{text}' stands twice")
                continue
            names.append(name)
        return tuple(names)
