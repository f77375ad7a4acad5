"""A spine beside the census spine of its blocks: levels, where the budget went, off-spine entities, before and after.

Everything is public: geography, shares of a budget, and what follows from them; no count of people is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError, InputError
from das_spark.evaluation.accuracy import reading
from das_spark.geography import EntityComparison
from das_spark.privacy import Framework
from das_spark.report import (
    PAGE,
    PEOPLE,
    STROKES,
    TERMINAL,
    Axis,
    Bars,
    Cell,
    Curve,
    Figure,
    Guide,
    Panel,
    Report,
    ReportSection,
    ReportTable,
    Whiskers,
    json_text,
)


@dataclass(frozen=True, slots=True)
class SpineLevelRow:
    """One level of a spine."""

    name: str
    share: Fraction  #: its share of the budget before anything was bypassed
    geounits: int  #: how many geounits it has
    children: int  #: how many children they have together; 0 at the blocks
    most: int  #: largest number of children of one; 0 at the blocks
    bypassed: int = 0  #: how many geounits were bypassed
    unmeasured: int = 0  #: how many geounits have a share of 0

    @property
    def mean_fan_out(self) -> float:
        """Mean number of children of a geounit."""
        return self.children / self.geounits


@dataclass(frozen=True, slots=True)
class SharePath:
    """Shares of the geounits on the way from the root to a block."""

    shares: tuple[Fraction, ...]  #: one a level, root first; they sum to 1
    blocks: int  #: how many blocks have such a path


@dataclass(frozen=True, slots=True)
class LevelMove:
    """What bypassing moved to a level and away from it, in shares of the budget of a mean block."""

    level: str
    share: Fraction  # its share before anything was bypassed
    received: Fraction  # mean over blocks of what their geounit has more
    given: Fraction  # mean over blocks of what their geounit has less

    @property
    def after(self) -> Fraction:
        """Mean over blocks of the share of their geounit."""
        return self.share + self.received - self.given


@dataclass(frozen=True, slots=True)
class Distances:
    """Off-spine distances of the entities of a category; not a number where there are none."""

    median: float
    mean: float
    p90: float
    worst: float


@dataclass(frozen=True, slots=True)
class CategoryFigures:
    """Figures of a category of entities; not a number where it has none."""

    category: str
    entities: int  # number of entities
    before: Distances  # distances on the census spine
    after: Distances  # distances on the spine
    deviation_before: float  # median standard deviation of their totals on the census spine, people
    deviation_after: float  # the same on the spine
    nearer: float  # share of the entities whose distance fell
    same: float  # share of those whose distance is the same
    farther: float  # share of those whose distance rose

    @classmethod
    def of(cls, entities: EntityComparison) -> CategoryFigures:
        """The figures of a category."""
        fell = np.sign(entities.distance_after - entities.distance_before)
        return cls(
            entities.category,
            int(entities.names.size),
            _distances(entities.distance_before),
            _distances(entities.distance_after),
            _figure(np.median, np.sqrt(entities.variance_before)),
            _figure(np.median, np.sqrt(entities.variance_after)),
            *(_figure(np.mean, fell == sign) for sign in (-1, 0, 1)),
        )


def share_path(shares: Sequence[str], blocks: int) -> SharePath:
    """A path from the texts of its shares.

    Args:
        shares: Exact fractions such as "1/4", root first.
        blocks: How many blocks have it.

    Raises:
        GeographyError: A share is no fraction, or they do not sum to exactly 1 (Theorem 3).
    """
    try:
        path = SharePath(tuple(map(Fraction, shares)), blocks)
    except (ValueError, ZeroDivisionError) as error:
        raise GeographyError(f"the shares {', '.join(shares)} of {blocks:,} blocks are not fractions") from error
    if sum(path.shares) != 1 or min(path.shares) < 0:
        raise GeographyError(f"the shares {', '.join(shares)} of {blocks:,} blocks do not sum to 1")
    return path


def _distances(values: NDArray[np.int64]) -> Distances:
    if not values.size:
        return Distances(np.nan, np.nan, np.nan, np.nan)
    return Distances(*map(float, (np.median(values), values.mean(), np.quantile(values, 0.9), values.max())))


def _figure(figure: Callable[..., Any], values: NDArray[Any]) -> float:
    return float(figure(values)) if values.size else float("nan")


_SCHEMA_VERSION: Final = 1

_DEFINITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "before": "the census spine of the same blocks; what an optimised spine has between counties and block groups "
        "takes the place of the tracts there, which have the sum of those shares",
        "after": "the spine that the report is on",
        "distance": "off-spine distance: least number of geounits that must be added or subtracted to make up an "
        "entity; 1 where it is a geounit",
        "deviation": "standard deviation, in people, of the total of an entity estimated by weighted least squares "
        "from one noisy total of every geounit, as if nothing else were measured and the whole budget were spent on "
        "totals; without rounding and bounds. It compares spines: a run that asks more queries has larger ones",
        "unmeasured": "geounits with a share of 0: the budget of a single child is spent on its parent",
        "received": "mean over all blocks of what the geounit on the path of a block has more than its level's share "
        "of the budget; 0 where it has not more",
        "given": "mean over all blocks of what the geounit on the path of a block has less than its level's share; 0 "
        "where it has not less",
        "nearer": "share of the entities whose distance fell; same and farther likewise",
        "p90": "90th percentile (linear interpolation)",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class SpineReport:
    """A spine beside the census spine of its blocks."""

    kind: str  #: kind of the spine
    framework: str  #: "pure_dp" or "zcdp"
    budget: Fraction  #: epsilon or rho that the standard deviations are for
    before: tuple[SpineLevelRow, ...]  #: levels of the census spine, root first
    after: tuple[SpineLevelRow, ...]  #: levels of the spine, root first
    paths: tuple[SharePath, ...]  #: every distinct path of shares in the spine, most blocks first
    categories: tuple[EntityComparison, ...]  #: the entities of each category
    notes: tuple[str, ...] = ()  #: sentences about the geography
    facts: tuple[tuple[str, str], ...] = ()  #: what else is known of the spine, such as product and strategy

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.after[-1].geounits

    @property
    def figures(self) -> tuple[CategoryFigures, ...]:
        """Figures of every category."""
        return tuple(map(CategoryFigures.of, self.categories))

    @property
    def moves(self) -> tuple[LevelMove, ...]:
        """What bypassing moved, level by level, root first."""
        found = []
        for place, level in enumerate(self.after):
            more = [(path.shares[place] - level.share, path.blocks) for path in self.paths]
            received = sum((part * count for part, count in more if part > 0), Fraction(0))
            given = sum((-part * count for part, count in more if part < 0), Fraction(0))
            found.append(LevelMove(level.name, level.share, received / self.blocks, given / self.blocks))
        return tuple(found)

    def category(self, name: str) -> EntityComparison:
        """The entities of a category.

        Raises:
            InputError: The report has none of that name.
        """
        found = next((category for category in self.categories if category.category == name), None)
        if found is None:
            raise InputError(f"the report on the spine has no category {name!r}")
        return found

    def to_json(self) -> str:
        """The report as text: shares as fractions, an entity a line; null where there is no finite number."""
        head = {
            "schema_version": _SCHEMA_VERSION,
            "kind": self.kind,
            "framework": self.framework,
            "budget": str(self.budget),
            "blocks": self.blocks,
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "definitions": dict(_DEFINITIONS),
            "before": [_level_json(level) for level in self.before],
            "after": [_level_json(level) for level in self.after],
            "moves": [_fractions_json(asdict(move)) | {"after": str(move.after)} for move in self.moves],
            "share_paths": [{"shares": list(map(str, path.shares)), "blocks": path.blocks} for path in self.paths],
            "figures": [_finite_json(asdict(figures)) for figures in self.figures],
            "entity_columns": list(_ENTITY_COLUMNS),
        }
        return json_text(
            head, {"entities": {category.category: _entities_json(category) for category in self.categories}}
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a report; figures are computed anew.

        Raises:
            InputError: It is no report of this version.
        """
        with reading("a report on a spine", GeographyError):
            data = json.loads(text)
            if data["schema_version"] != _SCHEMA_VERSION:
                raise InputError(f"report on a spine of version {data['schema_version']}, expected {_SCHEMA_VERSION}")
            return cls(
                data["kind"],
                data["framework"],
                Fraction(data["budget"]),
                tuple(map(_level_of_json, data["before"])),
                tuple(map(_level_of_json, data["after"])),
                tuple(share_path(path["shares"], path["blocks"]) for path in data["share_paths"]),
                tuple(_entities_of_json(name, rows) for name, rows in data["entities"].items()),
                tuple(data["notes"]),
                tuple(data["facts"].items()),
            )


#: Columns of the entities.
_ENTITY_COLUMNS: Final = ("name", "blocks", "distance_before", "distance_after", "deviation_before", "deviation_after")


def _level_json(level: SpineLevelRow) -> dict[str, Any]:
    """A level as JSON values."""
    mean = level.mean_fan_out if level.children else None
    return {**_fractions_json(asdict(level)), "mean_fan_out": mean}


def _level_of_json(data: Mapping[str, Any]) -> SpineLevelRow:
    """The same, read again."""
    kept = {name: value for name, value in data.items() if name != "mean_fan_out"}
    return SpineLevelRow(**{**kept, "share": Fraction(data["share"])})


def _fractions_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, fractions as text."""
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in data.items()}


def _finite_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers by name, null where one is not finite."""
    return {
        name: _finite_json(value) if isinstance(value, dict) else _finite_number(value) for name, value in data.items()
    }


def _finite_number(value: object) -> object:
    """The number, or None where it is not finite."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _entities_json(entities: EntityComparison) -> Iterable[tuple[object, ...]]:
    """The entities of a category in the order of `_ENTITY_COLUMNS`."""
    whole = (entities.names, entities.blocks, entities.distance_before, entities.distance_after)
    deviations = [np.sqrt(column).tolist() for column in (entities.variance_before, entities.variance_after)]
    finite = ([_finite_number(value) for value in column] for column in deviations)
    return zip(*(column.tolist() for column in whole), *finite, strict=True)


def _entities_of_json(category: str, rows: Sequence[Sequence[Any]]) -> EntityComparison:
    """The same, read again."""
    names, *columns = zip(*rows, strict=True) if rows else ((),) * len(_ENTITY_COLUMNS)
    blocks, near, nearer = (np.array(column, dtype=np.int64) for column in columns[:3])
    before, after = map(_squares, columns[3:])
    return EntityComparison(category, np.array(names, dtype=np.str_), blocks, near, nearer, before, after)


def _squares(column: Sequence[float | None]) -> NDArray[np.float64]:
    # The root of a square is the number itself, so that what is written again is the same.
    return np.array([np.inf if value is None else value for value in column], dtype=np.float64) ** 2


#: Share paths and entities that the page lists, and paths that the terminal does; all are in the JSON file.
_MOST_ROWS: Final = 50
_MOST_PRINTED: Final = 12
#: More points than these of a category are thinned out in a plot.
_MOST_POINTS: Final = 1500
#: So few are drawn larger.
_FEW_POINTS: Final = 60
#: Colors of the census spine and of the spine.
_BEFORE, _AFTER = 1, 0

_DISTANCES: Final = (
    "Cumulative distribution of off-spine distances by category of entities: share of the entities that can be made up "
    "by adding and subtracting so many geounits or fewer, on the census spine (dashed) and on this spine (solid)."
)
_DEVIATIONS: Final = (
    "Standard deviation of the total of each entity, on the census spine (across) and on this spine (up); below the "
    "dashed line it fell. Weighted least squares from one noisy total of every geounit, with the whole budget of "
    f"{{budget}} on totals. Of a category with more than {_MOST_POINTS:,} entities, so many are drawn."
)
_FAN_OUTS: Final = (
    "Children of a geounit by level: mean (filled) and largest (hollow), on the census spine and on this one."
)
_MOVES: Final = (
    "Share of the budget by level: as it was given to the level, and as the geounits on the path of a mean block have "
    "it after bypassing, which moves the budget of single children (and, under pure differential privacy, of small "
    "families) up."
)


def present_spine(spine: SpineReport) -> Report:
    """What the page and the terminal say of a spine."""
    budget = f"{Framework(spine.framework).symbol} = {spine.budget}"
    shown = [entities for entities in spine.categories if entities.names.size]
    drawn = [_distance_curves(shown), _deviations(shown, budget)] if shown else []
    facts = "".join(f"; {name}: {value}" for name, value in spine.facts)
    return Report(
        f"Spine {spine.kind} of {spine.blocks:,} blocks",
        (
            ReportSection(
                "Off-spine entities",
                (_distance_table(spine, budget), *drawn),
            ),
            ReportSection("Levels", (_level_table(spine), _fan_outs(spine))),
            ReportSection(
                "Where the budget went", (_move_table(spine), _budget_moves(spine.moves), *_path_tables(spine))
            ),
            ReportSection(
                "Entities",
                (
                    f"Of each category the {_MOST_ROWS} farthest from the census spine; all are in the JSON file.",
                    *(_farthest(entities) for entities in shown),
                ),
            ),
        ),
        lead=(
            f"Beside the census spine of the same blocks; noise of {spine.framework}{facts}. Made from public "
            "geography only.",
        ),
        notes=spine.notes,
        definitions=_DEFINITIONS,
        verdict=_verdict(spine),
    )


def _verdict(spine: SpineReport) -> str:
    """What the spine does to entities off it, in a sentence for each category."""
    parts = [
        f"{_spoken(line.category)}: {line.nearer:.0%} of {line.entities:,} are nearer to this spine than to that of "
        f"the census and {line.farther:.0%} farther; the median distance is {line.after.median:,.4g} geounits in place "
        f"of {line.before.median:,.4g}"
        for line in spine.figures
        if line.entities
    ]
    return f"{'. '.join(part[0].upper() + part[1:] for part in parts)}." if parts else ""


def _spoken(category: str) -> str:
    return category.replace("_", " ").replace("aian", "AIAN")


def _distance_table(spine: SpineReport, budget: str) -> ReportTable:
    pairs = (("median", "median"), ("mean", "mean"), ("p90", "90th pct."), ("worst", "worst"))
    columns: list[str | tuple[str, ...]] = ["category", "entities"]
    for name, heading in (*pairs, ("deviation", "median s.d.")):
        columns += [(f"{name}_before", f"{heading}: census", ",.1f"), (f"{name}_after", "here", ",.1f")]
    columns += [(name, "", ".1%") for name in ("nearer", "same", "farther")]
    rows = (
        {
            **asdict(line),
            "category": _spoken(line.category),
            **{f"{name}_before": getattr(line.before, name) for name, _ in pairs},
            **{f"{name}_after": getattr(line.after, name) for name, _ in pairs},
        }
        for line in spine.figures
    )
    note = (
        "Distance: geounits to add or subtract to make up an entity. Standard deviation: of totals, in people, with "
        f"{budget} on totals alone. In each pair the census spine stands first."
    )
    title = "Off-spine distances and standard deviations"
    return ReportTable.of("distances", title, columns, rows, note=note, media=PEOPLE)


def _level_table(spine: SpineReport) -> ReportTable:
    before, after = ({line.name: line for line in lines} for lines in (spine.before, spine.after))
    rows = []
    for name in _merged_levels(spine.before, spine.after):
        row: list[Cell] = [name]
        sides = (before.get(name), after.get(name))
        for figure in ("geounits", "mean_fan_out", "most"):
            row += [
                None if line is None or (figure != "geounits" and not line.children) else getattr(line, figure)
                for line in sides
            ]
        last = sides[1]
        rows.append((*row, *((None, None) if last is None else (last.bypassed, last.unmeasured))))
    columns = (
        *("geolevel", "geounits: census", ("geounits", "here")),
        *(("mean fan-out: census", "", ",.1f"), ("mean", "here", ",.1f")),
        *("largest fan-out: census", ("largest", "here"), "bypassed", "unmeasured"),
    )
    note = "In each pair the census spine stands first."
    return ReportTable.of("levels", "Levels of both spines", columns, rows, note=note, media=PEOPLE)


def _move_table(spine: SpineReport) -> ReportTable:
    headings = ("share given to the level", "received", "given away", "mean share of a block's geounit")
    columns: list[str | tuple[str, ...]] = ["geolevel", *((heading, "", ".4f") for heading in headings)]
    rows = ((move.level, move.share, move.received, move.given, move.after) for move in spine.moves)
    title = "Where the budget went: shares of it, mean over blocks"
    return ReportTable.of("moves", title, columns, rows, media=PEOPLE)


def _path_tables(spine: SpineReport) -> Iterable[ReportTable]:
    columns: list[str | tuple[str, ...]] = ["blocks", *((line.name, "", "exact") for line in spine.after)]
    for media, most in ((PAGE, _MOST_ROWS), (TERMINAL, _MOST_PRINTED)):
        rows: list[tuple[Cell, ...]] = [(path.blocks, *path.shares) for path in spine.paths[:most]]
        title = f"Shares on the way from the root to a block: {len(spine.paths):,} different paths"
        if len(spine.paths) > most:
            title += f", the {most} of most blocks"
        yield ReportTable.of("paths", title, columns, rows, media=media, folded=True)


def _farthest(entities: EntityComparison) -> ReportTable:
    """The entities of a category that are farthest from the census spine, farthest first."""
    order = (-entities.distance_before).argsort(kind="stable")[:_MOST_ROWS]
    values: tuple[NDArray[Any], ...] = (
        *(entities.names, entities.blocks, entities.distance_before, entities.distance_after),
        *(np.sqrt(entities.variance_before), np.sqrt(entities.variance_after)),
    )
    columns = (
        *("entity", "blocks", "distance before", "after"),
        *(("s.d. before", "", ",.1f"), ("s.d. after", "", ",.1f")),
    )
    rows = zip(*(column[order].tolist() for column in values), strict=True)
    name = f"farthest_{entities.category}"
    return ReportTable.of(name, _spoken(entities.category), columns, rows, media=PAGE, folded=True)


def _distance_curves(categories: Sequence[EntityComparison]) -> Figure:
    panels: list[Panel] = []
    for entities in categories:
        # The curve begins at the axis, and goes on to where the other ends.
        largest = int(max(entities.distance_before.max(), entities.distance_after.max(), 2))
        curves = []
        for distances, color, stroke, label in (
            (entities.distance_before, _BEFORE, STROKES[1], "census spine"),
            (entities.distance_after, _AFTER, STROKES[0], "after"),
        ):
            values, counts = np.unique(distances, return_counts=True)
            reached = np.cumsum(counts) / distances.size
            x = [values[0].item(), *values.tolist(), largest]
            curves.append(Curve(x, [0, *reached.tolist(), 1], label, color, stroke, steps=True))
        x_axis = Axis("off-spine distance (geounits)", "log", 0.9, largest * 1.15)
        y_axis = Axis("share of entities", low=0, high=1.04)
        panels.append(Panel(tuple(curves), x_axis, y_axis, _title(entities)))
    return Figure(_DISTANCES, tuple(panels), legend="above", title="How far entities are off the spine")


def _deviations(categories: Sequence[EntityComparison], budget: str) -> Figure:
    panels = []
    for entities in categories:
        before, after = (np.sqrt(column) for column in (entities.variance_before, entities.variance_after))
        shown = _thinned(before)
        known = np.concatenate([before, after])
        known = known[np.isfinite(known)]
        low, high = (float(known.min() / 1.4), float(known.max() * 1.4)) if known.size else (1.0, 10.0)
        points = Curve(
            before[shown].tolist(), after[shown].tolist(), "", _AFTER, "none", 0, size=_size(len(shown)), alpha=0.55
        )
        x_axis, y_axis = (Axis(f"s.d., {side} (people)", "log", low, high) for side in ("census spine", "after"))
        panels.append(Panel((points, Guide(dashed=True)), x_axis, y_axis, _title(entities)))
    return Figure(
        _DEVIATIONS.format(budget=budget), tuple(panels), title="Standard deviation of the totals of entities"
    )


def _size(points: int) -> float:
    """Of marks, in points: smaller where there are many."""
    return 6.0 if points <= _FEW_POINTS else 3.5


def _fan_outs(spine: SpineReport) -> Figure:
    names = _merged_levels(spine.before, spine.after)[:-1]
    series: list[Whiskers | Curve] = []
    for lines, shift, color, label in (
        (spine.before, -0.14, _BEFORE, "census spine"),
        (spine.after, 0.14, _AFTER, "after"),
    ):
        at = [names.index(line.name) + shift for line in lines[:-1]]
        means, most = [line.mean_fan_out for line in lines[:-1]], [line.most for line in lines[:-1]]
        series += [
            Whiskers(at, means, most, color, 1),
            Curve(means, at, f"{label}: mean", color, "none", 0),
            Curve(most, at, f"{label}: largest", color, "none", 1, hollow=True),
        ]
    panel = Panel(tuple(series), Axis("children of a geounit", "log"), rows=tuple(names))
    return Figure(_FAN_OUTS, (panel,), legend="above", title="Children of a geounit")


def _budget_moves(moves: Sequence[LevelMove]) -> Figure:
    places = np.arange(len(moves))
    given, after = (
        [float(share) for share in shares] for shares in zip(*((m.share, m.after) for m in moves), strict=True)
    )
    bars = (
        Bars((places - 0.19).tolist(), given, "before bypassing", _BEFORE, thickness=0.36),
        Bars((places + 0.19).tolist(), after, "after, mean over blocks", _AFTER, thickness=0.36),
    )
    panel = Panel(bars, Axis("share of the budget"), rows=tuple(move.level for move in moves))
    return Figure(_MOVES, (panel,), legend="above", title="Where the budget went")


def _merged_levels(before: Sequence[SpineLevelRow], after: Sequence[SpineLevelRow]) -> list[str]:
    """Names of the levels of both spines, root first; those of one only stand where the other has its own."""
    names = [line.name for line in after]
    for at, line in enumerate(before):
        if line.name not in names:
            names.insert(names.index(before[at - 1].name) + 1 if at else 0, line.name)
    return names


def _thinned(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of `_MOST_POINTS` values at most, evenly over their order; the smallest and the largest stay."""
    order = np.argsort(values, kind="stable")
    if values.size <= _MOST_POINTS:
        return order
    return order[np.linspace(0, values.size - 1, _MOST_POINTS).round().astype(np.int64)]


def _title(entities: EntityComparison) -> str:
    return f"{_spoken(entities.category)} ({entities.names.size:,})"
