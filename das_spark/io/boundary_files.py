"""Files of boundaries for maps: GeoJSON, and ESRI shapefiles."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from das_spark.errors import DasError, InputError
from das_spark.evaluation import Area, Boundaries
from das_spark.io.input_places import is_file
from das_spark.limits import MAP, parse_json, read_limited
from das_spark.places import Place

_HINT: Final = "--boundaries names a GeoJSON file of areas, or the .shp file (or the .zip) of a shapefile"
_SHAPEFILES: Final = (".shp", ".zip", ".dbf")
_PARTS: Final = (".shp", ".shx", ".dbf", ".cpg")
#: Types of shapes that are polygons: plain, with heights, with measures.
_POLYGONS: Final = (5, 15, 25)
_WIDEST, _HIGHEST = 180.0, 90.0

_Ring = tuple[tuple[float, float], ...]


def read_boundaries(path: Place, key: str = "") -> Boundaries:
    """Read areas with their properties.

    Args:
        path: GeoJSON (a FeatureCollection), or a shapefile by its .shp or the .zip that holds its parts.
        key: Property that holds the geocode; the usual names are tried where empty.

    Raises:
        InputError: The file is not there, cannot be read, or has no polygon.
    """
    if not is_file(str(path)):
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


def _geojson(path: Place) -> Iterator[Area]:
    content = parse_json(read_limited(path, MAP), str(path), MAP)
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list):
        raise InputError(f"{path}: no FeatureCollection of GeoJSON", hint=_HINT)
    for feature in features:
        properties = dict(feature.get("properties") or {})
        if "id" in feature:
            properties.setdefault("id", feature["id"])
        yield Area(_texts(properties), tuple(_rings(feature.get("geometry") or {})))


def _shapefile(path: Place) -> Iterator[Area]:
    import shapefile  # noqa: PLC0415 - only maps need it

    with _on_disk(path) as file, shapefile.Reader(str(file)) as reader:
        for itershaperecord in reader.iterShapeRecords():
            shape = itershaperecord.shape
            ends = (*shape.parts[1:], len(shape.points)) if shape.shapeType in _POLYGONS else ()
            rings = (shape.points[begin:end] for begin, end in zip(shape.parts, ends, strict=False))
            yield Area(
                _texts(itershaperecord.record.as_dict()), tuple(tuple((p[0], p[1]) for p in ring) for ring in rings)
            )


@contextmanager
def _on_disk(path: Place) -> Iterator[Path]:
    """A shapefile, which its library reads from a disk alone: a copy, where it lies elsewhere."""
    if isinstance(path, Path):
        yield path
        return
    with TemporaryDirectory(prefix="das_spark-") as folder:
        beside = {path, *(path.with_name(f"{path.stem}{ending}") for ending in _PARTS if path.suffix != ".zip")}
        for part in (each for each in beside if each.is_file()):
            with part.open() as source, (Path(folder) / part.name).open("wb") as copy:
                shutil.copyfileobj(source, copy)
        yield Path(folder) / path.name


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
