"""Rows of a small run, brought together as Spark brings them to the tasks of verification."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from das_spark.geography import ROOT_GEOCODE, Spine
from das_spark.store.tables import TABLES
from das_spark.verification import (
    COLUMNS,
    FLOW,
    ChildRows,
    FamilyRule,
    Judges,
    Key,
    family_keys,
    opened_parcels,
    parcels_of,
)

Row = dict[str, Any]
#: Parts that the families are divided into: a rule adds up what it says of each.
PARTS = 3


def above(geocode: str, spine: Spine, level: str) -> str:
    """Geocode of the parent, by the first characters."""
    depth = spine.index(level)
    return (geocode[: spine.levels[depth - 1].length] or ROOT_GEOCODE) if depth else ""


def keyed(tables: Mapping[str, Sequence[Row]], spine: Spine) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Rows with their level and geocode, by table, as families have them; in batches of no more than two."""
    keys = family_keys(spine.names, spine)
    for table, rows in tables.items():
        by_level = defaultdict(list)
        for row in rows:
            by_level[row["level"]].append(row)
        for level, own in by_level.items():
            if table == "measurements":
                own.sort(key=lambda row: (above(row["geocode"], spine, row["level"]), row["query"], row["geocode"]))
            for key in keys.get(table, (ChildRows(table, spine),)):
                if key.reads(level):
                    for begin in range(0, len(own), 2):
                        for at, batch in key(level, _batch(table, key.columns, own[begin : begin + 2])):
                            yield key.table, at, batch


def _batch(table: str, columns: Sequence[str], rows: Sequence[Row]) -> pa.RecordBatch:
    kinds: dict[str, pa.DataType] = {"geocode": pa.string(), **COLUMNS.get(table, {})}
    for field in TABLES[table].schema if table in TABLES else ():
        kinds[field.name] = pa.list_(field.type.value_type) if pa.types.is_list(field.type) else field.type
    arrays = [pa.array([row[name] for row in rows], kinds[name]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def with_flows(tables: Mapping[str, Sequence[Row]], spine: Spine, total_at: str) -> dict[str, list[Row]]:
    """The same tables with flows brought to what they are of."""
    found = {name: list(rows) for name, rows in tables.items()}
    for row in tables["bounds"]:
        if row["name"] == FLOW:
            moved = {"level": total_at, "geocode": row["member"], "of": row["level"], "above": row["geocode"]}
            found.setdefault("flows", []).append({**row, **moved})
    return found


def tallied(rule: FamilyRule, tables: Mapping[str, Sequence[Row]], spine: Spine) -> dict[Key, Any]:
    """What a rule says in the end: rule, level and note -> how much was compared, and what fails."""
    tallies = Judges((rule,))(opened_parcels(parcels_of(keyed(tables, spine), PARTS)))
    return rule.concluded(tallies.of_rule(0))


def judged(rule: FamilyRule, tables: Mapping[str, Sequence[Row]], spine: Spine) -> dict[tuple[str, str], Any]:
    """The same by rule and level, of a rule without notes."""
    return {(name, level): tally for (name, level, _), tally in tallied(rule, tables, spine).items()}


def failing(rule: FamilyRule, tables: Mapping[str, Sequence[Row]], spine: Spine) -> dict[str, list[str]]:
    """What fails, by level."""
    return {level: sorted(tally.failing) for (_, level), tally in judged(rule, tables, spine).items() if tally.failing}
