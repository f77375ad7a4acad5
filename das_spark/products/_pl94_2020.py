"""What the persons and the housing units of the redistricting production of 2020 share: levels, units, strategies.

Facts from the public release of the production code of June 2021 and its certificates. The production ran on spines
that follow tribal areas and off-spine entities; the levels here are those of the plain census spine, with the same
shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import Final

from das_spark.estimation import OuterPass
from das_spark.geography import Geolevel
from das_spark.products._redistricting import BLOCK_COLUMNS, STATE_TO_BLOCK
from das_spark.products.base import (
    MicrodataColumn,
    MicrodataLayout,
    Record,
    Strategy,
    concentrated_strategy,
    parts,
)

GEOLEVELS: Final = (Geolevel("US", 0), *STATE_TO_BLOCK)
LEVELS: Final = tuple(level.name for level in GEOLEVELS)
#: Geolevel whose totals of people are exact, and the query that measures them.
TOTAL_AT: Final = "State"
TOTAL: Final = "total"
MDF: Final = "mdf_2020_pl94"
COMMENT: Final = "# In the layout of the microdata detail files of the 2020 redistricting data, version 3.0"
_PPMF_COMMENT: Final[Mapping[Record, str]] = {
    "person": "# In the layout of the privacy-protected microdata files of the 2021 demonstration",
    "unit": "# By analogy with the privacy-protected microdata files of persons of the 2021 demonstration",
}

#: Geolevel -> query -> share of the level.
_QueryShares = Mapping[str, Mapping[str, Fraction]]
#: Geolevels of a run, root first -> the outer passes of each.
_Passes = Callable[[Sequence[str]], Mapping[str, tuple[OuterPass, ...]]]


@dataclass(frozen=True, slots=True)
class Spending:
    """How one production run spent its budget."""

    levels: Mapping[str, Fraction]  # geolevel -> share of the total, root first
    queries: _QueryShares  # geolevel -> query -> share of the level


def ppmf(product: str, kind: Record, coded: tuple[MicrodataColumn, ...]) -> MicrodataLayout:
    """The layout of the public copy of a microdata file: CSV, with the names of the columns as first line of each part.

    The columns of persons are those of the file of the demonstration of April 2021, as public programs read it: the
    microdata without the two columns about their schema and without the number of the record, and VINTAGE in front.
    How the file of units looked is not known; by analogy it has VINTAGE, the parts of the block and the codes.

    VINTAGE says where a record comes from. That of 2021 named a date and an epsilon; here it is the product and the
    version of the software, which a layout knows, so that the same estimates are always the same bytes. When a run was
    made, and whether it is insecure, stands in the file `metadata` beside the parts, as for text.
    """
    vintage = f"{product}_das_spark-{version('das_spark')}"
    columns = (MicrodataColumn("VINTAGE", f"constant:{vintage}", f"CHAR{len(vintage)}"), *BLOCK_COLUMNS, *coded)
    files: dict[str, tuple[MicrodataColumn, ...]] = {"person": (), "unit": ()} | {kind: columns}
    return MicrodataLayout(
        f"ppmf_{product}", files["person"], files["unit"], comment=_PPMF_COMMENT[kind], header="inside", delimiter=","
    )


def strategies(rho: str, united_states: Spending, puerto_rico: Spending, passes: _Passes) -> tuple[Strategy, ...]:
    """The published strategies, and what follows from them for runs on less than the nation."""
    nation, island = united_states, puerto_rico
    whole = (
        ("us", "Production of 2020, the 50 states and the District of Columbia", nation),
        ("pr", "Production of 2020, Puerto Rico", island),
        ("state", "One state to the block, with the shares of the production for Puerto Rico", island),
        ("to_tract", "States to the tract: equal levels, each with the queries of the nation's", _cut(nation, 1, 4)),
        (
            "to_county",
            "The nation to the county: equal levels, each with the queries of the nation's",
            _cut(nation, 0, 3),
        ),
    )
    return tuple(
        concentrated_strategy(
            name, title, rho=rho, geolevels=each.levels, queries=each.queries, passes=passes(tuple(each.levels))
        )
        for name, title, each in whole
    )


def rebalanced_strategies(rho: str, united_states: Spending, passes: _Passes) -> tuple[Strategy, ...]:
    """The nation's strategy without the totals of states, whose share all other answers have in proportion.

    On the census spine these totals are exact, and no estimate reads what is measured of them. The published shares of
    one state, those of Puerto Rico, measure no total of the state: here a state has the shares of the nation's run.
    """
    nation = _without(united_states, TOTAL_AT, TOTAL)
    whole = (
        (
            "us_rebalanced",
            "Production of 2020, the 50 states and the District of Columbia, but the share of the totals of states, "
            "which must be exact, goes to all other answers in proportion",
            nation,
        ),
        (
            "state_rebalanced",
            "One state to the block, with the shares of us_rebalanced below the nation",
            _below(nation, LEVELS[0]),
        ),
    )
    return tuple(known_total_strategy(name, title, rho, each, passes) for name, title, each in whole)


def known_total_strategy(name: str, title: str, rho: str, spending: Spending, passes: _Passes) -> Strategy:
    """A strategy for runs in which the totals of states are exact, and which does not measure them."""
    return concentrated_strategy(
        name,
        title,
        rho=rho,
        geolevels=spending.levels,
        queries=spending.queries,
        passes=_known_total(passes(tuple(spending.levels))),
        needs_total_at=TOTAL_AT,
    )


def _known_total(passes: Mapping[str, tuple[OuterPass, ...]]) -> dict[str, tuple[OuterPass, ...]]:
    """Passes, root first, with those of the root, whose total is known, at the level of exact totals, too."""
    return {**passes, TOTAL_AT: next(iter(passes.values()))}


def _without(spending: Spending, level: str, query: str) -> Spending:
    """What is spent if a level does not ask a query: every other answer has the same multiple of its rho."""
    asked = dict(spending.queries[level])
    dropped = asked.pop(query)
    levels = {**spending.levels, level: spending.levels[level] * (1 - dropped)}
    return Spending(_in_proportion(levels), {**spending.queries, level: _in_proportion(asked)})


def _below(spending: Spending, level: str) -> Spending:
    """What is spent if there is no such level: every answer of the others has the same multiple of its rho."""
    levels = {name: share for name, share in spending.levels.items() if name != level}
    return Spending(_in_proportion(levels), {name: spending.queries[name] for name in levels})


def _in_proportion(shares: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Shares that sum to 1."""
    whole = sum(shares.values(), Fraction(0))
    return {name: share / whole for name, share in shares.items()}


def _cut(nation: Spending, first: int, end: int) -> Spending:
    """Some levels of the nation's run, with equal shares."""
    names = LEVELS[first:end]
    return Spending(parts(names, [1] * len(names), len(names)), {name: nation.queries[name] for name in names})
