"""Describe what the outputs of a run hold, for programs: keys of the data dictionary beside the words for people.

`README.md` of this package documents them. Whoever has a public folder can recount it with them, and with nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.products import CODE_SEPARATOR, ColumnRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.constraints import StructuralZero
    from das_spark.geography import Geolevel, Spine
    from das_spark.histogram import Query, Schema
    from das_spark.products import MicrodataCodes
    from das_spark.tabulation import TableColumn


#: Paths of the entries that say what tables and rows refer to by a name.
_NAMED: Final = ("(geolevels)", "(queries)", "(bounds)", "(structural_zeros)")
#: Keys of files of microdata.
_OF_FILES: Final = ("delimiter", "header")


def definitions(
    census: Spine,
    schema: Schema,
    measured: Mapping[str, Query],
    bounded: Mapping[str, Query],
    zeros: Iterable[StructuralZero],
) -> tuple[dict[str, Any], ...]:
    """Describe what tables and rows refer to by a name.

    Args:
        census: The geolevels of what is published.
        schema: Of the histograms.
        measured: Queries of the measurements, by name.
        bounded: Queries whose answers have bounds, by the name of the bound.
        zeros: Cells that are zero in every geounit.
    """
    levels = [_geolevel(level, census.own_codes.get(level.name)) for level in census.levels]
    levels_path, *paths, zeros_path = _NAMED
    kinds = dict(zip(paths, (measured, bounded), strict=True))
    row = "what an answer counts: row-major over groups of levels of these attributes, all levels of the others"
    return (
        _entry(levels_path, "the levels of published tables, root first", levels),
        *(_entry(path, row, [_query(name, each, schema) for name, each in kinds[path].items()]) for path in paths),
        _entry(zeros_path, "cells that are zero in every geounit", [_zero(zero) for zero in zeros]),
    )


def in_words(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of a data dictionary without the keys for programs, as runs of before have them."""
    words = ("name", "type", "meaning")
    return [
        {key: value for key, value in entry.items() if key not in _OF_FILES}
        | {"columns": [{key: column[key] for key in words} for column in entry["columns"]]}
        for entry in entries
        if entry["path"] not in _NAMED
    ]


def without_zeros(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries without the structural zeros, which earlier versions did not describe."""
    return [entry for entry in entries if entry["path"] != _NAMED[-1]]


def _entry(path: str, row: str, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"path": path, "root": "public", "row": row, "columns": columns}


def _geolevel(level: Geolevel, own: tuple[int, int] | None) -> dict[str, Any]:
    entry = {"name": level.name, "type": f"{level.length} characters", "meaning": "its geounits have such geocodes"}
    if own is None:
        return entry
    begin, end = own
    meaning = "published tables call its geounits by these characters alone, without . at their end"
    return {**entry, "meaning": meaning, "digits": [begin + 1, end]}


def _query(name: str, query: Query, schema: Schema) -> dict[str, Any]:
    """Describe a query: `groups` has the groups of levels of every attribute that is not summed over."""
    pairs = zip(schema.attributes, query.factors, strict=True)
    groups = {attribute.name: _groups(factor) for attribute, factor in pairs if factor.any()}
    return {"name": name, "type": f"{query.rows} answers", "meaning": query.name, "groups": groups}


def _zero(zero: StructuralZero) -> dict[str, Any]:
    """Describe a structural zero: `counts` selects its cells, as that of a column of a table does."""
    counts = [{name: ranges(levels) for name, levels in zero.selection}]
    return {"name": zero.name, "type": "0 records", "meaning": zero.meaning, "counts": counts}


def counted_cells(column: TableColumn) -> dict[str, Any]:
    """Say which cells a column of a table counts: levels by attribute, for each selection."""
    counts = [{name: ranges(levels) for name, levels in selection} for selection in column.where]
    return {"counts": counts, **({"tallied": True} if column.tallies else {})}


def microdata_column(codes: MicrodataCodes, kind: str, format: str, name: str) -> dict[str, Any]:
    """Say what a column of a file of microdata holds, if that is no place."""
    form = codes.forms[format]
    rule = form.rules[kind][name]
    if rule is ColumnRule.CONSTANT:
        return {"constant": form.constants[kind][name]}
    if rule.is_number:
        return {"number": str(rule)}
    if rule is not ColumnRule.CODE:
        return {}
    if kind != codes.record:
        place = codes.unit_columns.index(name)
        return {"texts": [texts.split(CODE_SEPARATOR)[place] for texts in codes.kinds]}
    coded = next(column for column in codes.coded if column.name == name)
    found: dict[str, Any] = {"texts": list(coded.texts)}
    if coded.attributes:
        found["by"] = list(coded.attributes)
    if coded.divided:
        found["divided"] = coded.divided
    return found


def ranges(levels: Collection[int]) -> str:
    """Spell whole numbers as ranges, such as `0-4,7`."""
    every = sorted(set(levels))
    gaps = [place for place, (before, after) in enumerate(pairwise(every), start=1) if after != before + 1]
    runs = [every[begin:end] for begin, end in pairwise([0, *gaps, len(every)])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if run)


def _groups(factor: NDArray[np.int64]) -> list[str]:
    """The levels of each group."""
    return [ranges(np.flatnonzero(factor == group).tolist()) for group in range(int(factor.max()) + 1)]
