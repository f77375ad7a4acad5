"""What a check is, how rules written in Spark SQL become checks, and the report that lists them.

Every rule is a table of findings: what was looked at, and whether it is bad. The findings of all rules are counted by
one job; only where something is bad a second one fetches names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from das_spark.privacy.budget import Budget

SCHEMA_VERSION = 1
#: Failing geounits that a check names.
NAMED = 20
RELAXED = "consistency relaxed"
NOTHING = "nothing to check"
_KEYS: Final = ("place", "rule", "geolevel", "note")


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one rule.

    Attributes:
        name: Which rule.
        geolevel: At which level; empty for a rule of the whole run.
        passed: Whether it holds.
        checked: How many rows, cells or values were compared.
        failing: Geounits (or names) that break it, up to 20, sorted.
        note: What a reader must know, such as `consistency relaxed`.
    """

    name: str
    geolevel: str
    passed: bool
    checked: int
    failing: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """All outcomes of a run.

    Attributes:
        checks: Rule by rule, each from the top of the spine down.
        relaxed: Families that are exempt, by `<geolevel>/<parent>`.
    """

    checks: tuple[Check, ...]
    relaxed: tuple[str, ...] = ()

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
        content = {"schema_version": SCHEMA_VERSION, "passed": self.passed, "relaxed": list(self.relaxed)}
        return json.dumps({**content, "checks": checks}, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that has yet to be judged.

    Attributes:
        frame: Its findings, as `findings` makes them.
        levels: Levels of which it speaks, in the order of the report.
        name: Its name; empty where the findings name the rules themselves, as many as there are.
        notes: Level -> what a reader must know.
    """

    frame: DataFrame
    levels: tuple[str, ...]
    name: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


def findings(
    frame: DataFrame,
    rule: str | Column,
    *,
    bad: Column,
    checked: int | Column,
    level: str | None = None,
    note: str | Column = "",
) -> DataFrame:
    """Rows that a rule looked at, in the columns that all rules share.

    Args:
        frame: The rows, with a column geocode, and one level where none is given.
        rule: Name of the rule.
        bad: Whether the row breaks it; null breaks it too.
        checked: How much the row adds to what was compared.
        level: The level of all rows.
        note: What a reader must know.
    """
    return frame.select(
        _column(rule).alias("rule"),
        (F.col("level") if level is None else F.lit(level)).alias("geolevel"),
        _column(note).alias("note"),
        F.coalesce(F.col("geocode").cast("string"), F.lit("?")).alias("geocode"),
        _column(checked).cast("bigint").alias("checked"),
        F.coalesce(bad, F.lit(True)).alias("bad"),
    )


def _column(value: str | int | Column) -> Column:
    return F.lit(value) if isinstance(value, str | int) else value


def judge(rules: Sequence[Rule]) -> list[Check]:
    """Turn rules into checks, one a rule and level: by one Spark job, and a second one where anything is bad.

    A rule that found nothing to look at at a level of which it speaks is no success there.
    """
    if not rules:
        return []
    placed = [rule.frame.select(F.lit(place).alias("place"), "*") for place, rule in enumerate(rules)]
    counts = reduce(DataFrame.unionAll, placed).groupBy(*_KEYS)
    sums = counts.agg(F.sum("checked").alias("checked"), F.max("bad").alias("bad")).collect()  # one row a check
    found = {(row["place"], row["geolevel"], row["rule"], row["note"]): row for row in sums}
    failing = _failing([placed[place] for place in sorted({row["place"] for row in sums if row["bad"]})])
    checks = []
    for place, rule in enumerate(rules):
        keys = {key for key in found if key[0] == place}
        if rule.name:
            keys |= {(place, level, rule.name, rule.notes.get(level, "")) for level in rule.levels}
        for key in sorted(keys, key=lambda key: (rule.levels.index(key[1]), key[2])):
            checked = found[key]["checked"] if key in found else 0
            checks.append(_check(key[2], key[1], checked, failing.get(key, ()), key[3]))
    return checks


def _check(name: str, geolevel: str, checked: int, failing: tuple[str, ...], note: str) -> Check:
    passed = not failing and (checked > 0 or note == RELAXED)
    if not checked and note != RELAXED:
        note = "; ".join(part for part in (note, NOTHING) if part)
    return Check(name, geolevel, passed, checked, failing, note)


def _failing(frames: Sequence[DataFrame]) -> dict[tuple[int, str, str, str], tuple[str, ...]]:
    """The first failing geounits of each rule and level, sorted; at most `NAMED` each are collected."""
    if not frames:
        return {}
    bad = reduce(DataFrame.unionAll, frames).where("bad").select(*_KEYS, "geocode").distinct()
    first = F.row_number().over(Window.partitionBy(*_KEYS).orderBy("geocode")) <= NAMED
    named: dict[tuple[int, str, str, str], list[str]] = {}
    for row in bad.withColumn("first", first).where("first").collect():
        named.setdefault((row["place"], row["geolevel"], row["rule"], row["note"]), []).append(row["geocode"])
    return {key: tuple(sorted(names)) for key, names in named.items()}


def row_counts(expected: Mapping[str, int], found: Mapping[str, int]) -> list[Check]:
    """Row counts equal those of the manifest.

    Args:
        expected: Rows by name of an output, from the manifest.
        found: Rows that the outputs have, by the same names.
    """
    checks = []
    for name in sorted(set(expected) | set(found)):
        rows = found.get(name, -1)
        passed = rows == expected.get(name)
        checks.append(Check(f"rows of {name}", "", passed, max(rows, 0), () if passed else (name,)))
    return checks


def budget_shares(budget: Budget) -> dict[str, str]:
    """A budget as a flat table of exact fractions: framework, total, `<geolevel>` and `<geolevel> / <query>`."""
    shares = {"framework": str(budget.framework), "total": str(budget.total)}
    for level in budget.levels:
        shares[level.geolevel] = str(level.share)
        shares.update({f"{level.geolevel} / {each.query}": str(each.share) for each in level.queries})
    return shares


def ledger_equals_config(ledger: Mapping[str, str], config: Mapping[str, str]) -> Check:
    """What the ledger says was spent is what the configuration says, share by share.

    Args:
        ledger: `budget_shares` of the budget that the ledger holds.
        config: `budget_shares` of the budget that the configuration resolves to.
    """
    names = sorted(set(ledger) | set(config))
    wrong = tuple(name for name in names if name not in ledger or name not in config or ledger[name] != config[name])
    return Check("ledger equals configuration", "", bool(names) and not wrong, len(names), wrong[:NAMED])
