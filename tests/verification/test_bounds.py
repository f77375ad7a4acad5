"""Bounds by the rule, which looks one step below, against bounds by definition, which look at all leaves."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from family_streams import above, failing, judged, with_flows

from das_spark.constraints import UNBOUNDED, AddedConstraint, Sense, UnitBounds
from das_spark.core import GROUP_TOTAL
from das_spark.geography import ROOT_GEOCODE, Geolevel, Spine
from das_spark.verification import ADDED, CLASS, FLOW, LOWER, UNITS, UPPER, BoundColumns, BoundsNotLooser
from das_spark.verification.bounds import sums_above

LONGS = pa.list_(pa.int64())

SPINE = Spine((Geolevel("Nation", 0), Geolevel("State", 1), Geolevel("County", 2), Geolevel("Block", 3)))
PARTS = Spine((Geolevel("Nation", 0), Geolevel("State", 2), Geolevel("Block", 3)), total_key=(2, 1))
FORMULAS = UnitBounds(least=(1, 0, 2), most=(9, 99, 4), cap_when_total_known=True)
ADDITION = AddedConstraint("few", "County", "total", Sense.AT_MOST, (7,))
Row = dict[str, Any]


def leaves_of(spine: Spine) -> list[str]:
    first = ("0", "1") if spine is PARTS else ("",)
    return [
        f"{part}{state}{rest}"
        for part in first
        for state in "12"
        for rest in (("1", "2") if part else ("11", "12", "21"))
    ]


def at(code: str, spine: Spine, depth: int) -> str:
    return code[: spine.levels[depth].length] or ROOT_GEOCODE


class Census:
    """Units and people of leaves, and the tables of a run that declares them; bounds by definition."""

    def __init__(self, spine: Spine, total_at: str | None, *, added: bool = False, seed: int = 1) -> None:
        numbers = np.random.default_rng(seed)
        self.spine, self.total_at, self.key = spine, total_at, spine.total_key_at(total_at)
        self.depth = len(spine.names) if total_at is None else spine.index(total_at)
        self.leaves = leaves_of(spine)
        self.units = {code: numbers.integers(0, 5, 3) for code in self.leaves}
        self.people = {code: int((units * (2, 3, 3)).sum()) for code, units in self.units.items()}
        self.rule = BoundColumns(spine, spine.names, total_at, FORMULAS, [(ADDITION, 1)] if added else [], imported=0)
        self.added = added

    def geounits(self) -> list[tuple[int, str]]:
        return sorted({(d, at(code, self.spine, d)) for code in self.leaves for d in range(len(self.spine.names))})

    def below(self, depth: int, code: str) -> list[str]:
        return [leaf for leaf in self.leaves if at(leaf, self.spine, depth) == code]

    def total(self, depth: int, code: str) -> int | None:
        """The total that a geounit has by itself."""
        if self.total_at is None or depth > self.depth:
            return None
        if depth == self.depth and self.key is not None and len(self.group(code)) > 1:
            return None
        return sum(self.people[leaf] for leaf in self.below(depth, code))

    def group(self, code: str) -> list[str]:
        """The geounits at the level of the totals with the same key."""
        begin, length = self.key
        own = code[begin - 1 : begin - 1 + length]
        return sorted({c for d, c in self.geounits() if d == self.depth and c[begin - 1 : begin - 1 + length] == own})

    def by_formula(self, leaves: Sequence[str], total: int | None) -> tuple[np.ndarray, np.ndarray]:
        units = np.sum([self.units[leaf] for leaf in leaves], axis=0)[None, :]
        known = None if total is None else np.array([total])
        return FORMULAS.lower(units, known)[0], FORMULAS.upper(units, known)[0]

    def tight(self, leaves, total, below) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = self.by_formula(leaves, total)
        return np.maximum(lower, sum(each[0] for each in below)), np.minimum(upper, sum(each[1] for each in below))

    def of_class(self, depth: int, code: str) -> tuple[np.ndarray, np.ndarray]:
        leaves, last = self.below(depth, code), len(self.spine.names) - 1
        if self.total_at is not None and depth < self.depth:
            return self.tight(
                leaves, self.total(depth, code), [(low, high) for _, low, high, _ in self.flows(depth, code)]
            )
        of_leaves = [self.by_formula([leaf], self.total(last, leaf)) for leaf in leaves]
        return self.tight(leaves, self.total(depth, code), of_leaves)

    def flows(self, depth: int, code: str):
        """Member, bounds and total of what has a total below a geounit."""
        found = []
        for member in sorted({at(leaf, self.spine, self.depth) for leaf in self.below(depth, code)}):
            if self.key is None:
                found.append((member, *self.of_class(self.depth, member), self.total(self.depth, member)))
                continue
            group, begin = self.group(member), self.key[0] - 1
            if member == group[0]:
                leaves = [leaf for each in group for leaf in self.below(self.depth, each)]
                total = sum(self.people[leaf] for leaf in leaves)
                sides = self.tight(leaves, total, [self.of_class(self.depth, each) for each in group])
                found.append((member[begin : begin + self.key[1]], *sides, total))
        return found

    def tables(self) -> dict[str, list[Row]]:
        invariants, bounds, geounits = [], [], []
        for depth, code in self.geounits():
            name = self.spine.names[depth]
            place = {"level": name, "geocode": code, "parent": above(code, self.spine, name)}
            geounits.append({**place, "children": 0})

            def bound(what, lower, upper, member, place=place):
                return {**place, "name": what, "member": member, "lower": list(lower), "upper": list(upper)}

            total = self.total(depth, code)
            if total is not None:
                invariants.append({**place, "name": "total", "values": [total]})
                bounds.append(bound("total", [total], [total], code))
            elif depth == self.depth:
                whole = sum(self.people[leaf] for each in self.group(code) for leaf in self.below(depth, each))
                invariants.append({**place, "name": GROUP_TOTAL, "values": [whole]})
                bounds.append(bound(GROUP_TOTAL, [whole], [whole], code[self.key[0] - 1 :][: self.key[1]]))
            if depth == len(self.spine.names) - 1:
                invariants.append({**place, "name": UNITS, "values": [*self.units[code].tolist(), 6]})
            bounds.append(bound(CLASS, *(side.tolist() for side in self.of_class(depth, code)), member=code))
            if self.total_at is not None and depth < self.depth:
                for member, lower, upper, own in self.flows(depth, code):
                    bounds.append(bound(FLOW, [*lower.tolist(), own], [*upper.tolist(), own], member))
            if self.added and depth <= self.spine.index(ADDITION.geolevel):
                counties = len(
                    {at(leaf, self.spine, self.spine.index(ADDITION.geolevel)) for leaf in self.below(depth, code)}
                )
                bounds.append(bound(f"{ADDED}few", [0], [7 * counties], code))
        return {"geounits": geounits, "invariants": invariants, "bounds": bounds}

    def summed(self, tables) -> dict[str, list[Row]]:
        """The same with what tasks sum up where it lies."""
        leaf, rows = self.spine.leaf.name, []
        for each in tables["invariants"]:
            if each["name"] == UNITS and each["level"] == leaf:
                rows.append((each["geocode"], UNITS, each["values"][:3]))
        for each in tables["bounds"]:
            if each["name"] == CLASS and each["level"] == leaf:
                rows += [(each["geocode"], LOWER, each["lower"]), (each["geocode"], UPPER, each["upper"])]
        if self.added:
            at_level = [geounit for geounit in tables["geounits"] if geounit["level"] == ADDITION.geolevel]
            rows += [(each["geocode"], f"{ADDED}few", [1]) for each in at_level]
        below = []
        for part in (rows[::2], rows[1::2]):
            for name in dict.fromkeys(name for _, name, _ in part):
                own = [(code, values) for code, called, values in part if called == name]
                codes, values = pa.array([code for code, _ in own]), pa.array([each for _, each in own], LONGS)
                for level, above_them, sums in sums_above(codes, values, self.spine.levels):
                    pairs = zip(above_them.to_pylist(), sums.to_pylist(), strict=True)
                    below += [{"level": level, "geocode": code, "name": name, "values": each} for code, each in pairs]
        with_sums = {**tables, "below": below}
        return with_flows(with_sums, self.spine, self.total_at) if self.rule.flowing else with_sums

    def failing(self, tables) -> dict[str, list[str]]:
        return failing(self.rule, self.summed(tables), self.spine)


CASES = [(SPINE, None), (SPINE, "Nation"), (SPINE, "State"), (SPINE, "County"), (SPINE, "Block"), (PARTS, "State")]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("spine", "total_at"), CASES)
def test_bounds_by_definition_pass_and_each_is_looked_at(spine, total_at, seed):
    census = Census(spine, total_at, added=spine is SPINE, seed=seed)
    tables = census.tables()
    assert census.failing(tables) == {}
    said = judged(census.rule, census.summed(tables), spine)
    expected = {level: sum(row["level"] == level for row in tables["bounds"]) for level in spine.names}
    assert {level: tally.checked for (_, level), tally in said.items()} == expected


@pytest.mark.parametrize(("spine", "total_at"), CASES)
def test_any_other_bound_is_told_of_at_its_level(spine, total_at):
    census = Census(spine, total_at, added=spine is SPINE)
    tables = census.tables()
    for number, row in enumerate(tables["bounds"]):
        others = (
            ("parent", "9"),
            ("name", "odd"),
            ("member", "8"),
            ("lower", [row["lower"][0] - 1, *row["lower"][1:]]),
            ("upper", [*row["upper"][:-1], row["upper"][-1] + 1]),
            ("upper", row["upper"][:-1]),
            ("lower", [*row["lower"], 0]),
        )
        column, other = others[number % len(others)]  # bounds of every kind meet with all of them
        changed = deepcopy(tables)
        changed["bounds"][number][column] = other
        names = census.failing(changed).get(row["level"], [])
        told = {"name": "name or member", "member": "name or member"}.get(column, column)
        assert f"{row['geocode']} {told}" in names, (row, column, names)


@pytest.mark.parametrize(("spine", "total_at"), CASES)
def test_a_bound_that_is_missing_or_there_twice_is_told_of(spine, total_at):
    census = Census(spine, total_at, added=spine is SPINE)
    tables = census.tables()
    for number, row in enumerate(tables["bounds"]):
        changed = {**tables, "bounds": [*tables["bounds"]]}
        changed["bounds"][number : number + 1] = [row] * (number % 2 * 2)
        assert f"{row['geocode']} name or member" in census.failing(changed)[row["level"]], row


def test_other_units_contradict_the_bounds_of_their_leaf_and_of_those_above():
    census = Census(SPINE, "State")
    tables = census.tables()
    units = next(row for row in tables["invariants"] if row["name"] == UNITS)
    units["values"] = [units["values"][0] + 1, *units["values"][1:]]
    told = census.failing(tables)
    assert f"{units['geocode']} lower" in told["Block"]
    assert "Nation" in told or "County" in told


def published(lower: int, upper: int) -> Row:
    return {"name": CLASS, "lower": [lower, 0], "upper": [upper, UNBOUNDED]}


@pytest.mark.parametrize(("lower", "upper", "told"), [(3, 8, []), (4, 7, []), (2, 8, ["0 lower"]), (3, 9, ["0 upper"])])
def test_bounds_of_others_are_no_looser_than_the_sums_of_those_below(lower, upper, told):
    spine = Spine(SPINE.levels[:2])
    rows = [
        {"level": "Nation", "geocode": "0", "parent": "", "member": "0", **published(lower, upper)},
        *(
            {"level": "State", "geocode": code, "parent": "0", "member": code, **published(each, 4)}
            for code, each in (("1", 1), ("2", 2))
        ),
    ]
    assert failing(BoundsNotLooser(spine.names, 2), {"bounds": rows}, spine).get("Nation", []) == told


def test_a_total_below_nothing_is_no_error_of_verification():
    census = Census(SPINE, "State")
    tables = census.tables()
    total = next(row for row in tables["invariants"] if row["name"] == "total" and row["level"] == "State")
    total["values"] = [-5]
    assert any(name.startswith(f"{total['geocode']} ") for name in census.failing(tables)["State"])
