"""All tables of all levels, by one job: the rows are those of the same definitions in SQL."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from levels_by_sql import all_geounits, all_invariants

from das_spark.constraints import AddedConstraint, Invariants, Sense, UnitBounds
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.spark import arranged, bounds, ingest, level_sums, tables
from das_spark.spark.geounit_rows import Declared
from das_spark.spark.level_sums import write_levels_of
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.store.tables import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPINE = Spine((Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 5), Geolevel("District", 7)))
PARTS = Spine((Geolevel("National", 0), Geolevel("State", 3), Geolevel("County", 6)), total_key=(2, 2))
FORMULAS = UnitBounds(least=(1, 1), most=(9, 99), cap_when_total_known=True)
SCHEMA = Schema("small", (Attribute("hhgq", ("household", "group")), Attribute("age", ("young", "old"))))
NAMES = ("geounits", "histograms", "invariants", "bounds")
ORDER = {"geounits": ["geocode"], "histograms": ["geocode"], "invariants": ["geocode", "name"]}


def census(spine, seed=3, states=4):
    """Leaves of some states; of some nobody knows vacant units, and in some nobody lives."""
    generator, length, codes = np.random.default_rng(seed), spine.leaf.length, list[str]()
    for state in range(1, states):
        parts = ("",) if spine.total_key is None else ("0", "1")[: 2 if state == 2 else 1]
        for part in parts:
            for county in range(generator.integers(1, 4)):
                stem = f"{part}{state:02d}{county:03d}"
                districts = generator.integers(1, 5) if length > len(stem) else 1
                codes += [f"{stem}{district:02d}"[:length] for district in range(districts)]
    rows = []
    for code in codes:
        units = generator.integers(0, 4, 3) * (generator.random(3) < 0.7)
        people = np.zeros(4, dtype=np.int64)
        for place, number in enumerate(units[:2]):
            people[2 * place] = number * generator.integers(1, 8)
        cells = [place for place in range(4) if people[place]]
        vacant = None if generator.random() < 0.3 else int(generator.integers(0, 5))
        rows.append((code, cells, people[cells].tolist(), units.tolist(), vacant))
    order = generator.permutation(len(rows))
    return [rows[place] for place in order]


def written(spark, rows, declared, folder, names=NAMES):
    writer = ParquetTables({name: TableFolder(folder / name, TABLES[name].schema) for name in names})
    leaves = spark.createDataFrame(rows, tables.LEAVES).repartition(3)
    return write_levels_of(leaves, declared, writer, len(rows), 5)


def read(folder, name, level):
    """Rows of a level in the order of its files."""
    files = sorted((folder / name / f"level={level}").glob("part-*.parquet"))
    tables_ = [pq.ParquetFile(file).read() for file in files]
    return pa.concat_tables(tables_).to_pylist() if tables_ else []


def by_sql(spark, rows, declared):
    """The same tables as Spark defines them, by name and level."""
    leaves, spine, key = spark.createDataFrame(rows, tables.LEAVES), declared.spine, declared.total_key
    every = ingest.all_levels(leaves, spine)
    invariants = all_invariants(leaves, every, spine, declared.invariants, key).cache()
    geounits = all_geounits(leaves, spine).cache()
    of_classes = None
    if declared.bounding is not None:
        of_classes = bounds.class_bounds(invariants, spine, FORMULAS).cache()
    limits = bounds.all_bounds(
        invariants, geounits, spine, declared.invariants, of_classes, declared.bounding, declared.added, key
    )
    found = {"geounits": geounits, "histograms": every, "invariants": invariants, "bounds": limits}
    expected = {}
    for name, frame in found.items():
        several = [row.asDict() for row in frame.collect()]
        for level in spine.names:
            own = [{k: v for k, v in row.items() if k != "level"} for row in several if row["level"] == level]
            order = ORDER.get(name, ["geocode", "name", "member"])
            expected[name, level] = sorted(own, key=lambda row: [row[each] for each in order])
    return expected


ADDED = (
    AddedConstraint("few", "County", "hhgq", Sense.AT_MOST, (5_000, 70)),
    AddedConstraint("some", "State", "total", Sense.AT_LEAST, (0,)),
    AddedConstraint("unbounded", "County", "total", Sense.AT_MOST, (2**63 - 1,)),
)


def declared_of(spine, total_at, *, units=True, formulas=FORMULAS, added=()):
    pairs = tuple((each, SCHEMA.query(each.query)) for each in added)
    return Declared(spine, Invariants(total_at, units=units), formulas, pairs)


CASES = {
    **{f"total at {at}": declared_of(SPINE, at) for at in (*SPINE.names, None)},
    "added": declared_of(SPINE, "State", added=ADDED),
    "no units": declared_of(SPINE, "County", units=False, added=ADDED[:1]),
    "units that bound nothing": declared_of(SPINE, "State", formulas=None),
    "nothing": declared_of(SPINE, None, units=False),
    "parts": declared_of(PARTS, "State", added=ADDED[:2]),
    "parts at the top": declared_of(replace(PARTS, levels=PARTS.levels[1:]), "State"),
    "one level": declared_of(Spine(SPINE.levels[3:]), "District"),
}


#: Levels of parts are always one file.
DIVIDED = [(case, 3) for case, declared in CASES.items() if declared.total_key is None]


@pytest.mark.parametrize(("case", "geounits_a_file"), [*((case, 1 << 18) for case in CASES), *DIVIDED])
def test_every_row_is_as_sql_has_it_in_any_number_of_files(spark, tmp_path, monkeypatch, case, geounits_a_file):
    monkeypatch.setattr(arranged, "_GEOUNITS_A_FILE", geounits_a_file)
    declared = CASES[case]
    rows = census(declared.spine)
    found = written(spark, rows, declared, tmp_path)
    expected = by_sql(spark, rows, declared)
    for (name, level), several in expected.items():
        assert read(tmp_path, name, level) == several, (name, level)
    assert set(found.files) == set(NAMES)
    has_bounds = any(several for (name, _), several in expected.items() if name == "bounds")
    assert has_bounds == (case != "nothing")
    for name, files in found.files.items():
        assert all((tmp_path / name / file.name).stat().st_size == file.size for file in files)


def test_pieces_of_a_level_give_the_same_rows(spark, tmp_path, monkeypatch):
    """However many geounits a task works on at once."""
    rows = census(SPINE, seed=8)
    declared = declared_of(SPINE, "County", added=ADDED)
    whole = written(spark, rows, declared, tmp_path / "whole")
    monkeypatch.setattr(level_sums, "_TOGETHER", 2)
    assert written(spark, rows, declared, tmp_path / "pieces").files == whole.files


def test_tables_that_nobody_wants_are_not_written(spark, tmp_path):
    found = written(spark, census(SPINE), declared_of(SPINE, "State"), tmp_path, ("bounds",))
    assert list(found.files) == ["bounds"]
    assert [path.name for path in tmp_path.iterdir()] == ["bounds"]


def test_contradictions_are_reported_as_sql_finds_them(spark, tmp_path):
    """Fewer people than units, where a total is exact; and constraints against totals."""
    rows = [("0100101", [0], [2], [5, 0, 0], 0), ("0200101", [2], [7], [0, 1, 0], 0)]
    found = written(spark, rows, declared_of(SPINE, "State"), tmp_path)
    assert {contradiction for contradiction in found.contradictions if contradiction.constraint} == set()
    limits = {name: several for (name, _), several in by_sql(spark, rows, declared_of(SPINE, "State")).items()}
    assert limits
    assert sorted({contradiction.geocode for contradiction in found.contradictions}) == ["0", "01"]


def test_added_constraints_that_totals_do_not_leave_room_for_are_reported(spark, tmp_path):
    rows = [("0100101", [0], [9], [3, 0, 0], 0), ("0200101", [2], [7], [0, 1, 0], 0)]
    added = (
        AddedConstraint("many", "State", "hhgq", Sense.AT_LEAST, (8, 0)),
        AddedConstraint("room", "State", "hhgq", Sense.AT_MOST, (8, 8)),
    )
    found = written(spark, rows, declared_of(SPINE, "State", units=False, added=added), tmp_path)
    assert {(contradiction.geocode, contradiction.constraint) for contradiction in found.contradictions} == {
        ("02", "many")
    }
    added = (AddedConstraint("room", "State", "total", Sense.AT_MOST, (8,)),)
    found = written(spark, rows, declared_of(SPINE, "State", units=False, added=added), tmp_path / "other")
    assert {(contradiction.geocode, contradiction.constraint) for contradiction in found.contradictions} == {
        ("01", "room")
    }
