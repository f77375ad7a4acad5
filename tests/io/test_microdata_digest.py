"""A part of the microdata, reduced by arrays, comes to what counting record by record says."""

from __future__ import annotations

import errno
import hashlib
from collections import Counter
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.io import microdata_digest as microdata_part
from das_spark.io.microdata_digest import DIGEST, Columns, FilePart, digest_part, microdata_parts, read_runs
from das_spark.io.microdata_order import cell_ranges
from das_spark.products import PRODUCTS, microdata_codes
from das_spark.store import PublicLayout

PRODUCT = PRODUCTS["e2e_1940"]
CODES = microdata_codes(PRODUCT)
CLASS_OF_CELL = CODES.classes_of(np.arange(PRODUCT.schema.size))
FORM = CODES.forms["text"]
KIND_CODES = [dict(zip(CODES.unit_columns, text.split("|"), strict=True)) for text in CODES.kinds]
PERSON = tuple(
    name for name in FORM.rules["person"] if name in {*CODES.person_place, *CODES.person_columns, "EUID", "EPNUM"}
)
#: Columns of Parquet files that are of whole numbers, by the types of the layout.
INTEGERS = {
    kind: {column.name for column in PRODUCT.microdata.columns(kind) if column.type.startswith("INT")}
    for kind in ("person", "unit")
}


def records(seed: int, first: int = 40) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Persons and units of a part that keeps every rule: by place, class and cell, given to the units in turn."""
    numbers = np.random.default_rng(seed)
    persons, units = [], []
    for district in range(4):
        turns: list[tuple[int, int, int]] = []
        place = dict(zip(CODES.unit_place, ("06", "0010", f"{district:04d}"), strict=True))
        for kind in sorted(numbers.integers(0, 9, 6).tolist()):
            people = 0 if kind == CODES.vacant else int(numbers.integers(1, 5))
            number = first + len(units)
            units.append({**place, "EUID": number, **KIND_CODES[kind], "FINAL_POP": people})
            turns += [(kind, order, number) for order in range(1, people + 1)]
        for kind, own in groupby(sorted(turns), key=itemgetter(0)):
            people = list(own)
            cells = np.sort(numbers.choice(np.flatnonzero(kind == CLASS_OF_CELL), len(people)))
            for (_, order, number), codes in zip(people, CODES.codes_of(cells), strict=True):
                code = dict(zip(CODES.person_columns, codes.split("|"), strict=True))
                persons.append({**place, "EUID": number, "EPNUM": order, **code})
    return persons, units


def write(folder: Path, format: str, rows: list[dict[str, object]], kind: str) -> Path:
    """One part, by means that are not the product's."""
    folder.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        path = folder / "part-00003.parquet"
        text, integers = pa.dictionary(pa.int32(), pa.string()), INTEGERS[kind]
        schema = pa.schema([(name, pa.int32() if name in integers else text) for name in FORM.rules[kind]])
        whole = [{**FORM.constants[kind], **row} for row in rows]
        typed = [{name: int(str(row[name])) if name in integers else row[name] for name in row} for row in whole]
        pq.write_table(pa.Table.from_pylist(typed, schema), path, row_group_size=7)
    else:
        path = folder / "part-00003.txt"
        fillers = FORM.constants[kind]
        lines = ["|".join(str({**fillers, **row}[name]) for name in FORM.rules[kind]) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")
    return path


def part_of(folder: Path, format: str, persons, units) -> FilePart:
    return FilePart(
        format,
        3,
        write(folder / "person", format, persons, "person"),
        write(folder / "unit", format, units, "unit"),
    )


def digested(part: FilePart) -> dict[str, list[dict[str, object]]]:
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in ("persons", "units", "part", "fault", "file")}
    for batch in digest_part(part, CODES):
        assert batch.schema == DIGEST
        for row in batch.to_pylist():
            assert (row["format"], row["part"]) == (part.format, 3)
            rows[str(row["record"])].append(row)
    return rows


@pytest.mark.parametrize("format", ["parquet", "text"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_part_is_counted_as_one_counts_by_hand(tmp_path, format, shuffled):
    persons, units = records(1)
    kind_of = {
        unit["EUID"]: list(CODES.kinds).index("|".join(str(unit[n]) for n in CODES.unit_columns)) for unit in units
    }
    if shuffled:  # of which nothing but the order is wrong
        order = np.random.default_rng(2)
        persons = [persons[place] for place in order.permutation(len(persons))]
        units = [units[place] for place in order.permutation(len(units))]
    found = digested(part_of(tmp_path, format, persons, units))

    def geocode(row):
        return "".join(str(row[name]) for name in CODES.person_place)

    by_hand = Counter(
        (geocode(row), "|".join(str(row[name]) for name in CODES.person_columns), kind_of[row["EUID"]])
        for row in persons
    )
    assert {(r["geocode"], r["codes"], r["kind"]): r["count"] for r in found["persons"]} == by_hand
    assert len(found["persons"]) == len(by_hand)
    of_units = Counter((geocode(row), kind_of[row["EUID"]]) for row in units)
    people = Counter({key: 0 for key in of_units})
    for row in units:
        people[geocode(row), kind_of[row["EUID"]]] += row["FINAL_POP"]
    assert {(r["geocode"], r["kind"]): (r["count"], r["people"], r["odd"]) for r in found["units"]} == {
        key: (count, people[key], 0) for key, count in of_units.items()
    }
    (part,) = found["part"]
    assert (part["count"], part["people"], part["low"], part["high"]) == (24, len(persons), 40, 63)
    assert part["geocode"] == "0600100000"
    places = {geocode(row) for row in units}
    assert {(r["rule"], r["geocode"]) for r in found["fault"]} == {("order of records", p) for p in places if shuffled}
    for kind, row in zip(("person", "unit"), found["file"], strict=True):
        path = Path(row["path"])
        assert path.parent == tmp_path / kind
        assert (row["count"], row["sha256"]) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


def rewritten(path: Path, change) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def test_parquet_files_of_earlier_versions_are_as_declared_and_others_not(tmp_path):
    """They left constants out, and had codes as texts."""
    part = part_of(tmp_path, "parquet", *records(1))
    before = digested(part)
    text = pa.dictionary(pa.int32(), pa.string())

    def earlier(rows: pa.Table) -> pa.Table:
        kept = rows.drop_columns([name for name in FORM.constants["person"] if name in rows.column_names])
        place = kept.schema.get_field_index("QAGE")
        return kept.set_column(place, "QAGE", kept["QAGE"].cast(pa.string()).cast(text))

    whole = pq.read_table(part.person)
    rewritten(part.person, earlier)
    now = digested(part)
    assert (now["persons"], now["fault"]) == (before["persons"], [])
    for change in (
        lambda rows: rows.drop_columns([next(iter(FORM.constants["person"]))]),
        lambda rows: rows.append_column("MORE", rows["QAGE"]),
        lambda rows: rows.select(rows.column_names[::-1]),
    ):
        pq.write_table(change(whole), part.person)
        assert {row["rule"] for row in digested(part)["fault"]} == {"columns of microdata"}


@pytest.mark.parametrize("kind", ["person", "unit"])
def test_a_constant_that_differs_in_one_record_of_a_parquet_file_is_a_fault(tmp_path, kind):
    part = part_of(tmp_path, "parquet", *records(1))
    path = part.person if kind == "person" else part.unit
    name = next(name for name in FORM.constants[kind] if name not in INTEGERS[kind])

    def changed(rows: pa.Table) -> pa.Table:
        texts = rows[name].cast(pa.string()).to_pylist()
        place = rows.schema.get_field_index(name)
        wrong = pa.array([*texts[:-1], "?"]).cast(rows.schema.field(name).type)
        return rows.set_column(place, name, wrong)

    rewritten(path, changed)
    found = digested(part)
    assert {(row["rule"], row["geocode"]) for row in found["fault"]} == {
        ("columns of microdata", f"{kind}.parquet: {name}")
    }


@pytest.mark.parametrize("seed", range(12))
def test_a_random_change_of_person_numbers_or_units_is_a_fault_where_it_breaks_the_numbering(tmp_path, seed):
    """Oracle: the list of person numbers of each unit, sorted, is 1 to its population, and its place is the unit's."""
    persons, units = records(seed)
    numbers = np.random.default_rng(100 + seed)
    for _ in range(2):
        row = persons[numbers.integers(len(persons))]
        column, values = [("EPNUM", range(5)), ("EUID", range(38, 66))][numbers.integers(2)]
        row[column] = int(numbers.choice(np.array(values)))
    expected = set()
    homes = {unit["EUID"]: unit for unit in units}
    for unit in units:
        own = [p for p in persons if p["EUID"] == unit["EUID"] and p["ENUMDIST"] == unit["ENUMDIST"]]
        if sorted(p["EPNUM"] for p in own) != list(range(1, unit["FINAL_POP"] + 1)):
            expected.add(unit["ENUMDIST"])
    expected |= {
        p["ENUMDIST"] for p in persons if p["EUID"] not in homes or homes[p["EUID"]]["ENUMDIST"] != p["ENUMDIST"]
    }
    found = digested(part_of(tmp_path, "parquet", persons, units))
    numbering = [r for r in found["fault"] if r["rule"] != "order of records"]  # which numbers decide, too
    assert {(r["rule"], r["geocode"]) for r in numbering} == {
        ("persons in units", f"060010{district}") for district in expected
    }
    strangers = sum(p["EUID"] not in homes or homes[p["EUID"]]["ENUMDIST"] != p["ENUMDIST"] for p in persons)
    assert sum(r["count"] for r in found["persons"] if r["kind"] == -1) == strangers


@pytest.mark.parametrize("seed", range(6))
def test_unit_numbers_that_do_not_follow_each_other_are_faults(tmp_path, seed):
    persons, units = records(seed)
    numbers = np.random.default_rng(200 + seed)
    units[numbers.integers(1, len(units) - 1)]["EUID"] = int(numbers.integers(30, 75))
    found = digested(part_of(tmp_path, "text", persons, units))
    numbered = sorted((u["EUID"], u["ENUMDIST"]) for u in units)
    running = all(after[0] == before[0] + 1 for before, after in pairwise(numbered))
    assert running != any(r["rule"] == "unit numbers" for r in found["fault"])
    assert (found["part"][0]["low"], found["part"][0]["high"]) == (numbered[0][0], numbered[-1][0])


@pytest.mark.parametrize("seed", range(12))
def test_two_records_that_change_places_are_out_of_order_where_they_are_not_alike(tmp_path, seed):
    """Oracle: nothing but the order of lines has changed, and each line is another one."""
    persons, units = records(seed)
    numbers = np.random.default_rng(300 + seed)
    rows = (persons, units)[seed % 3 == 0]
    first, second = sorted(numbers.choice(len(rows), 2, replace=False).tolist())
    rows[first], rows[second] = rows[second], rows[first]
    found = digested(part_of(tmp_path, "text", persons, units))
    assert {r["rule"] for r in found["fault"]} == {"order of records"}


@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_every_cell_lies_between_the_ends_of_the_range_of_its_codes(name):
    """Cells as the layout spells them, by `codes_of`; where codes tell cells apart, a range holds one cell."""
    product = PRODUCTS[name]
    codes = microdata_codes(product, units=True)
    numbers = np.random.default_rng(1)
    cells = np.sort(numbers.choice(codes.schema.size, min(codes.schema.size, 500), replace=False))
    low, high = cell_ranges(codes.codes_of(cells), codes)
    assert ((low <= 2 * cells) & (2 * cells <= high)).all()
    every = codes.codes_of(np.arange(codes.schema.size)) if codes.schema.size < 5000 else []
    if every and len(set(every)) == len(every) and not codes.listed:
        assert (low == 2 * cells).all()
        assert (high == 2 * cells + 1).all()


def test_populations_that_no_memory_could_hold_are_faults(tmp_path):
    persons, units = records(3)
    for unit in units:
        unit["FINAL_POP"] = 10**9
    found = digested(part_of(tmp_path, "text", persons, units))
    assert {r["rule"] for r in found["fault"]} == {"persons in units"}


@pytest.mark.parametrize("format", ["parquet", "text"])
def test_a_part_without_records_is_empty_and_no_fault(tmp_path, format):
    if format == "text":
        part = part_of(tmp_path, format, [], [])
    else:
        persons, units = records(1)
        part = part_of(tmp_path, format, persons, units)
        for path in (part.person, part.unit):
            pq.write_table(pq.read_table(path).slice(0, 0), path)
    found = digested(part)
    assert (found["persons"], found["units"], found["fault"]) == ([], [], [])
    assert (found["part"][0]["count"], found["part"][0]["people"], found["part"][0]["low"]) == (0, 0, None)


def test_a_column_that_is_missing_is_an_error(tmp_path):
    path = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"A": ["1"]}), path)
    with pytest.raises(pa.ArrowInvalid, match="B"):
        list(read_runs(path, "parquet", Columns(("A", "B"), ("A", "B"))))


NAMED = Columns(("A", "B"), ("A",), ("B",), ",", names_inside=True)


def test_a_text_with_names_inside_is_read_below_them(tmp_path):
    path = tmp_path / "part-00000.csv"
    path.write_text("A,B\nx,7\ny,8\n")
    (runs,) = read_runs(path, "ppmf", NAMED)
    assert runs.numbers["B"].tolist() == [7, 8]
    assert runs.firsts.column("A").to_pylist() == ["x", "y"]
    path.write_text("A,B\n")
    assert list(read_runs(path, "ppmf", NAMED)) == []


@pytest.mark.parametrize(
    "text",
    [
        "x,7\nx,8\nx,8\ny,9\n",
        "x,7\r\nx,8\r\nx,8\r\ny,9\r\n",
        "x,7\rx,8\nx,8\ny,9\n",  # what ends a line for Arrow
        "\n\nx,7\n\nx,8\nx,8\n\n\ny,9",  # empty lines are none
        "x,07\nx,8\nx,8\ny,9\n",
    ],
)
@pytest.mark.parametrize("at_once", [8, 1 << 20])
def test_records_are_those_that_arrow_reads(tmp_path, monkeypatch, text, at_once):
    monkeypatch.setattr(microdata_part, "_BYTES", at_once)
    path = tmp_path / "part-00000.csv"
    path.write_bytes(f"A,B\n{text}".encode())
    found = list(read_runs(path, "ppmf", NAMED))
    assert np.concatenate([runs.numbers["B"] for runs in found]).tolist() == [7, 8, 8, 9]
    texts = [
        text
        for runs in found
        for text, length in zip(runs.firsts.column("A").to_pylist(), runs.lengths, strict=True)
        for _ in range(length)
    ]
    assert texts == ["x", "x", "x", "y"]


def test_a_record_among_its_likes_that_is_none_makes_the_file_unreadable(tmp_path):
    path = tmp_path / "part-00000.csv"
    path.write_text("A,B\n" + "x,7\n" * 50 + "x,7,1\n" + "x,7\n" * 50)
    with pytest.raises(pa.ArrowInvalid, match="columns"):
        list(read_runs(path, "ppmf", NAMED))


@pytest.mark.parametrize("text", ["", "A", "B,A\nx,7\n", "A|B\nx|7\n", "x,7\n"])
def test_a_text_without_its_names_is_an_error(tmp_path, text):
    path = tmp_path / "part-00000.csv"
    path.write_text(text)
    with pytest.raises(pa.ArrowInvalid, match="other names"):
        list(read_runs(path, "ppmf", NAMED))


def test_a_number_that_is_none_makes_the_file_unreadable(tmp_path):
    persons, units = records(1)
    units[3]["EUID"] = "many"
    found = digested(part_of(tmp_path, "text", persons, units))
    assert {r["geocode"] for r in found["fault"] if r["rule"] == "unit numbers"} == {"(part-00003.txt cannot be read)"}


def test_parts_are_paired_by_number_whichever_side_is_missing(tmp_path):
    layout = PublicLayout(tmp_path)
    for kind, present in (("person", (0, 2)), ("unit", (0, 1))):
        folder = layout.microdata(kind, "text")
        folder.mkdir(parents=True)
        (folder / "metadata").write_text("# no data\n")
        for number in present:
            (folder / f"part-{number:05d}.txt").write_text("x" * number)
    parts = microdata_parts(layout, ["text"], units=True)
    assert [part.number for part in parts] == [2, 0, 1]
    assert all(part.unit is not None and part.person.name == part.unit.name for part in parts)
    assert [part.unit for part in microdata_parts(layout, ["text"], units=False)] == [None, None]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        pa.ArrowMemoryError("malloc"),
        pa.ArrowException("Unknown error: Failed to launch worker thread"),
    ],
)
@pytest.mark.parametrize("reader", ["read_runs", "_read_units"])
def test_a_worker_without_memory_is_no_fault_of_the_file(tmp_path, monkeypatch, error, reader):
    def fail(*_):
        raise error

    persons, units = records(1)
    part = part_of(tmp_path, "text", persons, units)
    monkeypatch.setattr(microdata_part, reader, fail)
    with pytest.raises(MemoryError, match="no memory left to read"):
        digested(part)
