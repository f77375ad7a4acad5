"""Files of boundaries: GeoJSON and shapefiles give the same areas, and what is neither is refused."""

from __future__ import annotations

import json
import zipfile

import pytest
import shapefile

from das_spark.errors import InputError
from das_spark.io.boundary_files import read_boundaries

OUTER = [[0, 0], [0, 2], [2, 2], [2, 0], [0, 0]]
HOLE = [[0.5, 0.5], [1.5, 0.5], [1.5, 1.5], [0.5, 1.5], [0.5, 0.5]]
FAR = [[5, 5], [5, 6], [6, 6], [5, 5]]


def geojson(folder, *features):
    path = folder / "areas.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


def feature(kind, coordinates, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def rings(area):
    return [[list(point) for point in ring] for ring in area.rings]


def test_polygons_with_holes_and_in_several_parts_are_read(tmp_path):
    path = geojson(
        tmp_path,
        feature("Polygon", [OUTER, HOLE], GEOID="01", POP=5.0),
        feature("MultiPolygon", [[OUTER], [FAR]], GEOID=2),
        feature("Point", [1, 1], GEOID="03"),
    )
    one, two = read_boundaries(path).areas
    assert rings(one) == [OUTER, HOLE]
    assert rings(two) == [OUTER, FAR]
    assert one.properties == {"GEOID": "01", "POP": "5"}
    assert two.properties["GEOID"] == "2"
    assert read_boundaries(path).degrees


def test_the_identifier_of_a_feature_is_a_property(tmp_path):
    path = geojson(tmp_path, feature("Polygon", [OUTER]) | {"id": "44001"})
    assert read_boundaries(path).codes() == ("id", ["44001"])


@pytest.mark.parametrize("zipped", [False, True])
def test_a_shapefile_gives_the_same(tmp_path, zipped):
    with shapefile.Writer(str(tmp_path / "areas")) as writer:
        writer.field("GEOID20", "C", 15)
        writer.poly([OUTER, HOLE])
        writer.record("01")
        writer.poly([OUTER, FAR])
        writer.record("02")
    path = tmp_path / "areas.shp"
    if zipped:
        path = tmp_path / "areas.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for part in ("shp", "shx", "dbf"):
                archive.write(tmp_path / f"areas.{part}", f"areas.{part}")
    found = read_boundaries(path)
    assert found.codes() == ("GEOID20", ["01", "02"])
    assert [rings(area) for area in found.areas] == [[OUTER, HOLE], [OUTER, FAR]]


def test_projected_coordinates_are_no_degrees(tmp_path):
    far = [[x * 1000, y * 1000] for x, y in OUTER]
    assert not read_boundaries(geojson(tmp_path, feature("Polygon", [far], GEOID="1"))).degrees


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.geojson", None, "no such file"),
        ("broken.geojson", "{", "cannot be read as a file of boundaries"),
        ("list.json", "[]", "no FeatureCollection"),
        ("points.json", json.dumps({"features": [feature("Point", [1, 1])]}), "no polygon"),
        ("broken.shp", "nothing", "cannot be read as a file of boundaries"),
    ],
)
def test_what_is_no_file_of_boundaries_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_boundaries(path)
    assert name in str(caught.value)
    assert "--boundaries" in caught.value.hint
