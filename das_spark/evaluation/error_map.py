"""A map of the errors of totals: areas colored by class, of boundaries that the user names, or tiles without any.

RESTRICTED: the errors come from confidential counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, cos, isnan, nan, radians, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError
from das_spark.report import PAGE, Figure, Panel, Regions, ReportSection, ReportTable, number

#: More geounits than these make no tiles that can be told apart.
MOST_TILES: Final = 1500
#: Classes of color at most, and steps across that a map is drawn in.
_CLASSES: Final = 5
_STEPS: Final = 900
#: Heights of maps, in rows of text.
_LEAST_ROWS, _MOST_ROWS = 3.0, 18.0
#: Names of properties that commonly hold the geocode, in the order in which they are tried.
USUAL_KEYS: Final = ("GEOID", "GEOID20", "GEOID10", "geocode", "GEOCODE", "GEO_ID", "code", "CODE", "id")
_SHOWN: Final = 3
_CORNERS: Final = 4


@dataclass(frozen=True, slots=True)
class Area:
    """One area of a file of boundaries."""

    properties: Mapping[str, str]  #: by name, as text
    rings: tuple[tuple[tuple[float, float], ...], ...]  #: outer rings and holes, (across, up) in the units of the file


@dataclass(frozen=True, slots=True)
class Boundaries:
    """A file of boundaries."""

    source: str  #: its path
    areas: tuple[Area, ...]
    degrees: bool  #: whether coordinates are longitude and latitude
    key: str = ""  #: property that holds the geocode; the usual names are tried where empty

    def codes(self) -> tuple[str, list[str]]:
        """The property that holds geocodes, and that of every area; "" for an area without.

        Raises:
            InputError: No area has the property that was asked for, or any of the usual ones.
        """
        names = list(dict.fromkeys(name for area in self.areas for name in area.properties))
        wanted = (self.key,) if self.key else USUAL_KEYS
        found = next((name for name in wanted if name in names), None)
        if found is None:
            raise InputError(
                f"{self.source}: no area has a property {' or '.join(wanted[:_SHOWN])} that holds its geocode",
                hint=f"--boundary-key NAME names one of its properties: {', '.join(names) or 'it has none'}",
            )
        return found, [area.properties.get(found, "") for area in self.areas]


@dataclass(frozen=True, slots=True, eq=False)
class GeounitErrors:
    """Errors of the totals of one geolevel, geounit by geounit. RESTRICTED."""

    geolevel: str
    geocodes: tuple[str, ...]  #: ascending
    truth: NDArray[np.int64]  #: confidential totals, (n,)
    error: NDArray[np.float64]  #: mean absolute error of the totals over the runs, (n,)


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Geounits with their places on a map. RESTRICTED."""

    errors: GeounitErrors
    counted: str  #: what is counted, in the plural
    #: Of each geounit its rings; none for one without a boundary.
    rings: tuple[tuple[tuple[tuple[float, float], ...], ...], ...]
    aspect: float  #: length of a unit up over one across
    note: str  #: how geounits and areas were joined, in a sentence


def map_of(levels: Sequence[GeounitErrors], boundaries: Boundaries | None, counted: str) -> ErrorMap | None:
    """Place the geounits of one geolevel on a map.

    Args:
        levels: Errors by geolevel, root first; one at least.
        boundaries: What the user named; where None, tiles of the lowest geolevel with `MOST_TILES` geounits at most.
        counted: What is counted, in the plural.

    Returns:
        The map; None where there are no boundaries, and every geolevel has too many geounits or only one.

    Raises:
        InputError: No area has a geocode of the run.
    """
    if boundaries is None:
        few = [level for level in levels if 1 < len(level.geocodes) <= MOST_TILES]
        return _tiles(few[-1], counted) if few else None
    name, codes = boundaries.codes()
    joined = [_joined(level, codes) for level in levels]
    best = max(range(len(levels)), key=lambda at: len(joined[at]))
    if not joined[best]:
        raise InputError(_nothing_joins(levels, boundaries, name, codes), hint=_other_keys(boundaries, name))
    level, found = levels[best], joined[best]
    rings = tuple(
        tuple(ring for area in found.get(code, ()) for ring in boundaries.areas[area].rings) for code in level.geocodes
    )
    middle = np.mean([up for shape in rings for ring in shape for _, up in ring]).item()
    drawn = sum(map(bool, rings))
    areas = sum(map(len, found.values()))
    place, file = level.geolevel.replace("_", " "), boundaries.source.rpartition("/")[2]
    note = (
        f"{drawn:,} of {len(level.geocodes):,} geounits of {place} have a boundary in {file} (by its "
        f"property {name}); {len(codes) - areas:,} other areas of the file are not drawn."
    )
    return ErrorMap(level, counted, rings, 1 / cos(radians(middle)) if boundaries.degrees else 1.0, note)


def _joined(level: GeounitErrors, codes: Sequence[str]) -> dict[str, list[int]]:
    """Geocode -> numbers of its areas; a code that lost its leading zeros as a number, or has a prefix, joins too."""
    known = set(level.geocodes)
    length = max(map(len, level.geocodes), default=0)
    found: dict[str, list[int]] = {}
    for at, code in enumerate(codes):
        spellings = (code, code.zfill(length), code.rpartition("US")[2]) if code else ()
        match = next((spelling for spelling in spellings if spelling in known), None)
        if match is not None:
            found.setdefault(match, []).append(at)
    return found


def _nothing_joins(levels: Sequence[GeounitErrors], of: Boundaries, name: str, codes: Sequence[str]) -> str:
    there = ", ".join(codes[:_SHOWN])
    here = "; ".join(
        f"{level.geolevel} {', '.join(level.geocodes[:_SHOWN])}" for level in levels if any(level.geocodes[:_SHOWN])
    )
    return f"{of.source}: property {name} is {there}, ...; no geounit of the run has such a geocode ({here})"


def _other_keys(of: Boundaries, name: str) -> str:
    names = ", ".join(dict.fromkeys(each for area in of.areas for each in area.properties if each != name))
    return f"name the property that holds geocodes with --boundary-key NAME: {names or 'there is no other'}"


def _tiles(level: GeounitErrors, counted: str) -> ErrorMap:
    """A square for every geounit, in the order of geocodes, to and fro, so that neighbors in it are neighbors."""
    across = ceil(sqrt(1.6 * len(level.geocodes)))
    rings = []
    for at in range(len(level.geocodes)):
        row, place = divmod(at, across)
        x, y = float(place if row % 2 == 0 else across - 1 - place), -float(row)
        rings.append((((x, y), (x + 0.94, y), (x + 0.94, y + 0.94), (x, y + 0.94)),))
    note = (
        f"A tile for every geounit of {level.geolevel.replace('_', ' ')}, in the order of geocodes, from the top left "
        "to and fro; --boundaries FILE (GeoJSON or a shapefile) gives them their shapes."
    )
    return ErrorMap(level, counted, tuple(rings), 1.0, note)


def present_map(of: ErrorMap) -> ReportSection:
    """The section of a page: maps of the error in counts and in percent, and the geounits that are worst."""
    errors = of.errors
    share = np.divide(100 * errors.error, errors.truth, out=np.full(len(errors.truth), nan), where=errors.truth > 0)
    place = errors.geolevel.replace("_", " ")
    figures = (
        _figure(of, errors.error, f"Error of the total by {place}, in {of.counted}", of.counted),
        _figure(of, share, f"Error of the total by {place}, in percent of its {of.counted}", "%"),
    )
    columns = (
        *("geocode", ("truth", f"{of.counted} (confidential)"), ("error", f"mean error ({of.counted})", ",.1f")),
        ("share", "in percent", ",.1f"),
    )
    order = np.argsort(-errors.error, kind="stable")[:20]
    rows = ((errors.geocodes[at], int(errors.truth[at]), float(errors.error[at]), float(share[at])) for at in order)
    table = ReportTable.of("worst_geounits", f"The 20 worst of {place}", columns, rows, media=PAGE, folded=True)
    return ReportSection("Map of errors", (*figures, table), media=PAGE)


def _figure(of: ErrorMap, values: NDArray[np.float64], title: str, unit: str) -> Figure:
    edges = _edges(values)
    ends = [number(edge) for edge in edges]
    labels = (
        *((f"below {ends[0]} {unit}",) if ends else (f"all {unit}",)),
        *(f"{low} to {high}" for low, high in pairwise(ends)),
        *((f"{ends[-1]} {unit} or more",) if ends else ()),
    )
    drawn = [at for at, shape in enumerate(of.rings) if shape]
    low, high = _extent(of)
    step = max(high[0] - low[0], (high[1] - low[1]) * of.aspect) / _STEPS or 1.0
    rings = tuple(_snapped(of.rings[at], step) for at in drawn)
    texts = tuple(
        f"{of.errors.geocodes[at]}: " + ("no value" if isnan(values[at]) else f"{number(round(values[at], 1))} {unit}")
        for at in drawn
    )
    regions = Regions(rings, [float(values[at]) for at in drawn], edges, labels, texts)
    rows = 14 * of.aspect * (high[1] - low[1]) / ((high[0] - low[0]) or 1.0) - 1
    caption = f"{title}: mean absolute error over the runs, in classes of about as many geounits each. {of.note}"
    panel = Panel((regions,), aspect=of.aspect)
    return Figure(caption, (panel,), height=min(max(rows, _LEAST_ROWS), _MOST_ROWS), legend="above", title=title)


def _edges(values: NDArray[np.float64]) -> list[float]:
    """Between classes of about as many values each, with two digits; fewer where values are few or alike."""
    known = values[~np.isnan(values)]
    if not known.size:
        return []
    found = np.quantile(known, np.linspace(0, 1, _CLASSES + 1)[1:-1])
    rounded = sorted({float(f"{edge:.2g}") for edge in found})
    return [edge for edge in rounded if known.min() < edge <= known.max()]


def _extent(of: ErrorMap) -> tuple[tuple[float, float], tuple[float, float]]:
    points = np.array([point for shape in of.rings for ring in shape for point in ring])
    (left, bottom), (right, top) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return (left, bottom), (right, top)


def _snapped(
    shape: tuple[tuple[tuple[float, float], ...], ...], step: float
) -> tuple[tuple[list[float], list[float]], ...]:
    """Rings on the steps of one grid, so that neighbors still meet; without points that fall together."""
    found: list[tuple[list[float], list[float]]] = []
    for ring in sorted(shape, key=len, reverse=True):
        places = np.rint(np.array(ring) / step).astype(np.int64)
        kept = places[np.flatnonzero(np.any(np.diff(places, axis=0, prepend=places[-1:] + 1), axis=1))]
        if len(kept) >= _CORNERS or not found:
            across, up = (kept * step).T.tolist()
            found.append(([*across, across[0]], [*up, up[0]]))
    return tuple(found)
