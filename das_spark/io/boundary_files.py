"""Files of boundaries for maps: GeoJSON, and ESRI shapefiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from das_spark.errors import DasError, InputError
from das_spark.evaluation import Area, Boundaries
from das_spark.limits import MAP, parse_json, read_limited

_HINT: Final = "--boundaries names a GeoJSON file of areas, or the .shp file (or the .zip) of a shapefile"
_SHAPEFILES: Final = (".shp", ".zip", ".dbf")
#: Types of shapes that are polygons: plain, with heights, with measures.
_POLYGONS: Final = (5, 15, 25)
_WIDEST, _HIGHEST = 180.0, 90.0

_Ring = tuple[tuple[float, float], ...]


def read_boundaries(path: Path, key: str = "") -> Boundaries:
    """Read areas with their properties.

    Args:
        path: GeoJSON (a FeatureCollection), or a shapefile by its .shp or the .zip that holds its parts.
        key: Property that holds the geocode; the usual names are tried where empty.

    Raises:
        InputError: The file is not there, cannot be read, or has no polygon.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", hint=_HINT)
    reader = _shapefile if path.suffix.lower() in _SHAPEFILES else _geojson
    try:
        areas = tuple(area for area in reader(path) if area.rings)
    except DasError:
        raise
    except Exception as error:  # pyshp raises struct.error, ShapefileException, and what decoding raises
        raise InputError(f"{path}: cannot be read as a file of boundaries: {error}", hint=_HINT) from error
    if not areas:
        raise InputError(f"{path}: there is no polygon in it", hint=_HINT)
    degrees = all(
        abs(across) <= _WIDEST and abs(up) <= _HIGHEST for area in areas for ring in area.rings for across, up in ring
    )
    return Boundaries(str(path), areas, degrees, key)


def _geojson(path: Path) -> Iterator[Area]:
    content = parse_json(read_limited(path, MAP), str(path), MAP)
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list):
        raise InputError(f"{path}: no FeatureCollection of GeoJSON", hint=_HINT)
    for feature in features:
        properties = dict(feature.get("properties") or {})
        if "id" in feature:
            properties.setdefault("id", feature["id"])
        yield Area(_texts(properties), tuple(_rings(feature.get("geometry") or {})))


def _shapefile(path: Path) -> Iterator[Area]:
    import shapefile  # noqa: PLC0415 - only maps need it

    with shapefile.Reader(str(path)) as reader:
        for each in reader.iterShapeRecords():
            shape = each.shape
            ends = (*shape.parts[1:], len(shape.points)) if shape.shapeType in _POLYGONS else ()
            rings = (shape.points[begin:end] for begin, end in zip(shape.parts, ends, strict=False))
            yield Area(_texts(each.record.as_dict()), tuple(tuple((p[0], p[1]) for p in ring) for ring in rings))


def _texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Values as text: a geocode that is a number has no point behind it."""
    return {name: f"{value:.0f}" if isinstance(value, float) else str(value) for name, value in properties.items()}


def _rings(geometry: Mapping[str, Any]) -> Iterator[_Ring]:
    """The rings of polygons; other geometries have none."""
    kind: str = geometry.get("type", "")
    parts: Sequence[Any] = geometry.get("coordinates", ())
    if kind == "GeometryCollection":
        for each in geometry.get("geometries", ()):
            yield from _rings(each)
    elif kind == "Polygon":
        yield from (tuple((float(point[0]), float(point[1])) for point in ring) for ring in parts)
    elif kind == "MultiPolygon":
        yield from (
            tuple((float(point[0]), float(point[1])) for point in ring) for polygon in parts for ring in polygon
        )
