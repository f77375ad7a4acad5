"""Rows of a small run, brought together as Spark brings them to the tasks of verification."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from das_spark.geography import ROOT_GEOCODE, Spine
from das_spark.verification import COLUMNS, FLOW, FamilyRule, Judges, together

Row = dict[str, Any]


def above(geocode: str, spine: Spine, level: str) -> str:
    """Geocode of the parent, by the first characters."""
    depth = spine.index(level)
    return (geocode[: spine.levels[depth - 1].length] or ROOT_GEOCODE) if depth else ""


def chunks(tables: Mapping[str, Sequence[Row]], spine: Spine) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The families of each level, from rows with their level and geocode by table."""
    rows: dict[str, list[tuple[str, str, str, Row]]] = defaultdict(list)
    below = dict(pairwise(spine.names))
    for table, own in tables.items():
        for row in own:
            level, geocode = row["level"], row.get("geocode", "")
            if table == "measurements":
                if level in below:
                    rows[below[level]].append((geocode, geocode, "above_measured", row))
                continue
            if table == "diagnostics":
                family = "" if level == spine.names[0] else row["family"]
                rows[level].append((family, "", table, row))
                continue
            rows[level].append((above(geocode, spine, level), geocode, table, row))
            if f"above_{table}" in COLUMNS and level in below:
                rows[below[level]].append((geocode, geocode, f"above_{table}", row))
    for row in _measured(tables.get("measurements", ()), spine):
        rows[row["level"]].append((row["family"], row["geounits"][0], "measured", row))
    for level, own in rows.items():
        yield level, _batch(own)


def with_flows(tables: Mapping[str, Sequence[Row]], spine: Spine, total_at: str) -> dict[str, list[Row]]:
    """The same tables with flows brought to what they are of."""
    found = {name: list(rows) for name, rows in tables.items()}
    for row in tables["bounds"]:
        if row["name"] == FLOW:
            moved = {"level": total_at, "geocode": row["member"], "of": row["level"], "above": row["geocode"]}
            found.setdefault("flows", []).append({**row, **moved})
    return found


def _measured(rows: Sequence[Row], spine: Spine) -> list[Row]:
    if not rows:
        return []
    given = [
        {
            **{name: row[name] for name in ("level", "geocode", "query", "rows", "values", "variance")},
            "family": above(row["geocode"], spine, row["level"]),
            "odd": row["parent"] != above(row["geocode"], spine, row["level"]),
        }
        for row in rows
    ]
    given.sort(key=lambda row: (row["level"], row["family"], row["query"], row["geocode"]))
    kinds = {
        **dict.fromkeys(("level", "family", "geocode", "query"), pa.string()),
        "rows": pa.list_(pa.int32()),
        "values": pa.list_(pa.int64()),
        "variance": pa.float64(),
        "odd": pa.bool_(),
    }
    batch = pa.RecordBatch.from_pylist(given, pa.schema(kinds.items()))
    return together(batch).to_pylist()


def _batch(rows: list[tuple[str, str, str, Row]]) -> pa.RecordBatch:
    rows.sort(key=lambda row: row[0])
    columns = {"family": pa.array([row[0] for row in rows]), "geocode": pa.array([row[1] for row in rows])}
    for table, kinds in COLUMNS.items():
        values = [{name: row[name] for name in kinds} if own == table else None for _, _, own, row in rows]
        columns[table] = pa.array(values, pa.struct(list(kinds.items())))
    return pa.RecordBatch.from_pydict(columns)


def judged(rule: FamilyRule, tables: Mapping[str, Sequence[Row]], spine: Spine) -> dict[tuple[str, str], Any]:
    """What a rule says in the end: rule and level -> how much was compared, and what fails."""
    tallies = Judges((rule,))(chunks(tables, spine))
    return {(name, level): tally for (name, level, _), tally in rule.concluded(tallies.of_rule(0)).items()}


def failing(rule: FamilyRule, tables: Mapping[str, Sequence[Row]], spine: Spine) -> dict[str, list[str]]:
    """What fails, by level."""
    return {level: sorted(tally.failing) for (_, level), tally in judged(rule, tables, spine).items() if tally.failing}
