"""A spine given as a table child -> parent, for countries whose codes do not begin with that of the geounit above.

Inside, geocodes stay nested by prefix: that of a geounit is the codes of all geounits above it and its own, each filled
up to the characters that its geolevel has. So the code that an office gives a geounit is a part of its geocode.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from das_spark.geography.spine import PADDING, Geolevel

#: A geounit: its geolevel, or "" where the table does not say it, and its code.
_Node = tuple[str, str]
#: What codes consist of, as geocodes with letters do.
_CODE: Final = re.compile("[0-9A-Za-z_.-]+")
#: Geounits that a message names.
_NAMED: Final = 5


class _Table:
    """The rows of a table, with what is wrong with them."""

    def __init__(self, levels: Sequence[Geolevel], rows: Sequence[tuple[str, str, str]]) -> None:
        self.levels = [level for level in levels if level.code]
        self.depth = {level.name: depth for depth, level in enumerate(self.levels)}
        self.problems: list[str] = []
        self.parents: dict[_Node, _Node | None] = {}
        self.told = any(level for _, _, level in rows)
        unknown = sorted({level for _, _, level in rows if self.told and level not in self.depth})
        self._note("rows with no geolevel of the product in the column level", [repr(level) for level in unknown])
        twice: list[_Node] = []
        empty = 0
        for child, parent, level in rows:
            if not child:
                empty += 1
            elif level in self.depth or not self.told:
                self._add((level if self.told else "", child), parent, twice)
        if empty:
            self.problems.append(f"{empty:,} rows without a child")
        self._note("with two parents", [child for _, child in dict.fromkeys(twice)])

    def _add(self, node: _Node, parent: str, twice: list[_Node]) -> None:
        level, _ = node
        depth = self.depth.get(level, -1)
        above = None if not parent else (self.levels[depth - 1].name if depth > 0 else "", parent)
        if depth == 0 and parent:
            above = None  # what stands above the top is no geounit of the product
        if self.parents.setdefault(node, above) != above:
            twice.append(node)

    def _note(self, what: str, names: Sequence[str]) -> None:
        if names:
            more = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            self.problems.append(f"{what}: {', '.join(names[:_NAMED])}{more}")

    def paths(self, leaf: Geolevel) -> dict[str, str]:
        """Code of every geounit of a level -> its geocode; what is wrong is noted."""
        wanted = self.depth[leaf.name]
        lines, cycles, orphans, depths = {}, list[str](), list[str](), list[str]()
        inner = {above for above in self.parents.values() if above is not None}
        for node in [*self.parents, *sorted(inner - set(self.parents))]:
            line = self._line(node)
            if line is None:
                cycles.append(node[1])
                continue
            depth = self.depth[node[0]] if self.told else len(line) - 1
            if self.told and len(line) - 1 != depth:
                if self.parents.get(node) is None:  # others stand below it
                    orphans.append(f"{node[1]} ({node[0]})")
            elif depth >= len(self.levels) or (depth < wanted and node not in inner):
                depths.append(f"{node[1]} ({depth + 1} levels with those above it)")
            elif depth == wanted:
                lines[node] = line
        self._note("above themselves", cycles)
        self._note("without a parent in the table, and not of the top", orphans)
        self._note(f"that end at another depth than {leaf.name}, which is level {wanted + 1}", depths)
        self._check_codes(lines.values())
        return {
            code: "".join(part.ljust(level.code, PADDING) for (_, part), level in zip(line, self.levels, strict=False))
            for (_, code), line in lines.items()
        }

    def _line(self, node: _Node) -> tuple[_Node, ...] | None:
        """The geounits above a geounit, from the top, and itself; None where it comes back to itself."""
        line, at, seen = [node], self.parents.get(node), {node}
        while at is not None:
            if at in seen:
                return None
            line.append(at)
            seen.add(at)
            at = self.parents.get(at)
        return tuple(reversed(line))

    def _check_codes(self, lines: Collection[tuple[_Node, ...]]) -> None:
        wrong: dict[str, dict[str, None]] = {}
        for line in lines:
            for (_, code), level in zip(line, self.levels, strict=False):
                if len(code) > level.code:
                    wrong.setdefault(f"with more than the {level.code} characters of {level.name}", {})[code] = None
                if not _CODE.fullmatch(code) or code.endswith(PADDING):
                    wrong.setdefault("of other signs than letters A-Z and a-z, digits and . _ - (no . at the end)", {})[
                        repr(code)
                    ] = None
        for what, codes in wrong.items():
            self._note(what, list(codes))


def paths_of(
    levels: Sequence[Geolevel], leaf: Geolevel, rows: Sequence[tuple[str, str, str]]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The geocode of every geounit of a level, from a table of parents.

    Args:
        levels: All geolevels of the product, root first, with codes (a root of length 0 has none).
        leaf: That of the geounits.
        rows: Code of a geounit, code of that above it ("" at the top), and name of its geolevel ("" in all rows where
            the table does not say it: then its depth does).

    Returns:
        Code -> geocode, in order; and what is wrong with the table, a half sentence each, all at once.
    """
    table = _Table(levels, rows)
    found = table.paths(leaf)
    if not rows:
        table.problems.append("no row")
    return dict(sorted(found.items())), tuple(table.problems)
