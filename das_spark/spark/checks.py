"""What a check is, how rules become checks, and the report that lists them.

A rule in SQL is a table of findings: what was looked at, and whether it is bad. The findings of all of them are counted
by one job; only where something is bad another one fetches names. Rules on families (`das_spark.verification`) bring
what they found with them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from das_spark.verification import NAMED, RELAXED

if TYPE_CHECKING:
    from pyspark.sql import Column, Row

    from das_spark.privacy import Budget
    from das_spark.verification import Key

SCHEMA_VERSION = 4  # 2: `run_id` and `manifest`. 3: `uncertified`. 4: differences of noise
NOTHING = "nothing to check"
_KEYS: Final = ("rule", "geolevel", "note")


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one rule."""

    name: str
    geolevel: str  # at which level; empty for a rule of the whole run
    passed: bool
    checked: int  # how many rows, cells or values were compared
    failing: tuple[str, ...] = ()  # geounits (or names) that break it, up to 20, sorted
    note: str = ""  # what a reader must know, such as `consistency relaxed`

    @classmethod
    def of(cls, key: Key, checked: int, failing: Collection[str]) -> Check:
        """The check that follows from what was compared and what fails; nothing compared is no success."""
        name, geolevel, note = key
        passed = not failing and (checked > 0 or note == RELAXED)
        if not checked and note != RELAXED:
            note = "; ".join(part for part in (note, NOTHING) if part)
        return cls(name, geolevel, passed, checked, tuple(sorted(failing)[:NAMED]), note)


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """All outcomes of a run."""

    checks: tuple[Check, ...]  # rule by rule, most of them from the top of the spine down
    relaxed: tuple[str, ...] = ()  # families that are exempt, by `<geolevel>/<parent>`
    run_id: str = ""  # name of the run
    manifest: str = ""  # SHA-256 of the public manifest that was verified
    uncertified: tuple[str, ...] = ()  # families whose estimate is not proved to be the best, by `<geolevel>/<parent>`

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The rules that do not hold."""
        return tuple(check for check in self.checks if not check.passed)

    def summary(self) -> str:
        """One line: what failed and where, or that nothing did."""
        if self.passed:
            return f"{len(self.checks)} checks passed"
        parts = [f"{check.name} {check.geolevel} ({', '.join(check.failing[:3])})" for check in self.failures[:5]]
        return f"{len(self.failures)} of {len(self.checks)} checks failed: {'; '.join(parts)}"

    def to_json(self) -> str:
        """The report as text."""
        checks = [asdict(check) for check in self.checks]
        content = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "manifest": self.manifest,
            "passed": self.passed,
            "relaxed": list(self.relaxed),
            "uncertified": list(self.uncertified),
        }
        return json.dumps({**content, "checks": checks}, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Rule:
    """One or several rules that have yet to be judged."""

    frame: DataFrame | None  # what they found, as `findings` makes it; None where all is known already
    expected: tuple[Key, ...] = ()  # rule, level and note of the checks that must be there, whatever was found
    # what is known to fail already, by rule, level and note, and how much was compared
    failing: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    checked: Mapping[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says of each row of a frame."""

    rule: str | Column
    bad: Column  # whether the row breaks it; null breaks it too
    checked: int | Column  # how much the row adds to what was compared
    note: str | Column = ""  # what a reader must know

    def struct(self) -> Column:
        """Return rule, note, bad and checked of a row."""
        return F.struct(
            _column(self.rule).alias("rule"),
            _column(self.note).alias("note"),
            F.coalesce(self.bad, F.lit(True)).alias("bad"),
            _column(self.checked).cast("bigint").alias("checked"),
        )


def findings(frame: DataFrame, *found: Finding, level: str | None = None) -> DataFrame:
    """What rules say of the rows of a frame, in the columns that all rules share."""
    place = (F.col("level") if level is None else F.lit(level)).alias("geolevel")
    geocode = F.coalesce(F.col("geocode").cast("string"), F.lit("?")).alias("geocode")
    rows = frame.select(place, geocode, F.explode(F.array(*map(Finding.struct, found))).alias("found"))
    return rows.select("found.rule", "geolevel", "found.note", "geocode", "found.bad", "found.checked")


def _column(value: str | int | Column) -> Column:
    return F.lit(value) if isinstance(value, str | int) else value


def judge(rules: Sequence[Rule]) -> list[Check]:
    """Turn rules into checks: by one job of Spark, and another one for each rule that anything breaks.

    An expected check for which nothing was looked at is no success.
    """
    frames = {number: rule.frame for number, rule in enumerate(rules) if rule.frame is not None}
    rows = _counted(frames)
    checked: dict[Key, int] = {}
    for row in rows:
        key = (row["rule"], row["geolevel"], row["note"])
        checked[key] = checked.get(key, 0) + row["checked"]
    for rule in rules:
        for key, number in rule.checked.items():
            checked[key] = checked.get(key, 0) + number
    bad = sorted({row["number"] for row in rows if row["bad"]})
    failing: dict[Key, set[str]] = {}
    for found in (*(_failing(frames[number]) for number in bad), *(rule.failing for rule in rules)):
        for key, names in found.items():
            failing.setdefault(key, set()).update(names)
    expected = [key for rule in rules for key in rule.expected]
    levels = [level for _, level, _ in expected]
    others = list((checked.keys() | failing.keys()) - set(expected))
    others.sort(key=lambda key: (key[0], levels.index(key[1]) if key[1] in levels else len(levels), key))
    return [Check.of(key, checked.get(key, 0), failing.get(key, set())) for key in (*expected, *others)]


def _counted(frames: Mapping[int, DataFrame]) -> list[Row]:
    """What each rule has compared, and whether anything is bad: a row a check."""
    if not frames:
        return []
    numbered = [frame.select(F.lit(number).alias("number"), "*") for number, frame in frames.items()]
    counts = reduce(DataFrame.unionAll, numbered).groupBy("number", *_KEYS)
    return counts.agg(F.sum("checked").alias("checked"), F.max("bad").alias("bad")).collect()


def _failing(frame: DataFrame) -> dict[Key, set[str]]:
    """The first geounits that break a rule, by level and note; at most `NAMED` each are collected."""
    bad = frame.where("bad").select(*_KEYS, "geocode").distinct()
    first = F.row_number().over(Window.partitionBy(*_KEYS).orderBy("geocode")) <= NAMED
    named: dict[Key, set[str]] = {}
    for row in bad.withColumn("first", first).where("first").collect():
        named.setdefault((row["rule"], row["geolevel"], row["note"]), set()).add(row["geocode"])
    return named


def row_counts(expected: Mapping[str, int], found: Mapping[str, int]) -> list[Check]:
    """Row counts equal those of the manifest."""
    checks = []
    for name in sorted(set(expected) | set(found)):
        rows = found.get(name, -1)
        passed = rows == expected.get(name)
        checks.append(Check(f"rows of {name}", "", passed, max(rows, 0), () if passed else (name,)))
    return checks


def budget_shares(budget: Budget) -> dict[str, str]:
    """A budget as a flat table of exact fractions: framework, total, `<geolevel>` and `<geolevel> / <query>`.

    Shares of queries are parts of the share of their geolevel.
    """
    shares = {"framework": str(budget.framework), "total": str(budget.total)}
    if budget.at_most > 1:
        shares["records of a contributor"] = str(budget.at_most)
    for level in budget.levels:
        shares[level.geolevel] = str(level.share)
        shares.update({f"{level.geolevel} / {query.query}": str(query.share) for query in level.queries})
    return shares


def ledger_equals_config(ledger: Mapping[str, str], config: Mapping[str, str]) -> Check:
    """What the ledger says was spent is what the configuration says, share by share."""
    names = sorted(set(ledger) | set(config))
    wrong = tuple(name for name in names if name not in ledger or name not in config or ledger[name] != config[name])
    return Check("ledger equals configuration", "", bool(names) and not wrong, len(names), wrong[:NAMED])
