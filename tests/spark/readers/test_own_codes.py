"""Tables as others write them: labels in place of codes, geocodes with letters, other delimiters and encodings."""

from __future__ import annotations

from collections import Counter

import pytest

from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.products import product_from
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLACES = ("E.1-a", "E.1-b", "W.9_z")
MEN, WOMEN = "Männlich", "Weiblich, alle"


def definition(*, classes=False):
    attributes = [{"name": "sex", "levels": [MEN, WOMEN]}, {"name": "age", "levels": ["0", "1 to 17", "18 and over"]}]
    home = {"name": "home", "levels": ["House", "School"]}
    return {
        "name": "own",
        "geolevels": [{"name": "Region", "length": 1, "letters": True}, {"name": "Area", "length": 5, "letters": True}],
        "attributes": [home, *attributes] if classes else attributes,
        **({"class_query": "home", "unit_classes": ["House", "School"]} if classes else {}),
        "strategies": [
            {
                "name": "main",
                "framework": "zcdp",
                "total": "1",
                "geolevels": {"Region": "1/2", "Area": "1/2"},
                "queries": {"detailed": "1"},
            }
        ],
    }


@pytest.fixture
def read(spark, tmp_path):
    """Reads tables that are given as lines."""

    def run(reader, persons, geography=("geocode", *PLACES), *, encoding="UTF-8", units=None, product=None, **settings):
        own = product_from(product or definition())
        given = {"persons": persons, "geography": geography} | ({} if units is None else {"units": units})
        for name, lines in given.items():
            (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
        paths = {name: str(tmp_path / f"{name}.csv") for name in given}
        chosen = InputSettings(reader=reader, encoding=encoding, **paths, **settings)
        READERS[reader].look(chosen, own, own.spine())
        return READERS[reader].read(spark, chosen, own, own.spine())

    return run


RECORDS = [
    "geocode;sex;age",
    f"E.1-a;{MEN};0",
    f"E.1-a;{MEN};0",
    f"E.1-a;{WOMEN};18 and over",
    f"W.9_z;{WOMEN};1 to 17",
]
CELLS = {("E.1-a", 0): 2, ("E.1-a", 5): 1, ("W.9_z", 4): 1}


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1"])
def test_records_without_classes_of_units_are_read_by_labels(read, contents, encoding):
    counts, places = contents(read("tidy_records", RECORDS, encoding=encoding, delimiter=";", labels=("sex", "age")))
    assert counts == CELLS
    assert set(places) == set(PLACES)


def test_counts_are_read_by_labels_of_some_attributes_and_codes_of_others(read, contents):
    ages = {"0": 0, "1 to 17": 1, "18 and over": 2}
    parts = Counter(tuple(line.split(";")) for line in RECORDS[1:])
    lines = [f"{place}\t{sex}\t{1 + ages[age]}\t{count}" for (place, sex, age), count in parts.items()]
    found = read(
        "tidy_counts",
        ["geocode\tsex\tage\tcount", *lines],
        delimiter="\t",
        labels=("sex",),
        code_base={"age": 1},
    )
    assert contents(found)[0] == CELLS


def test_classes_of_units_have_labels_as_those_of_people(read, contents):
    found = read(
        "tidy_counts",
        ["geocode|home|sex|age|count", f"E.1-a|School|{WOMEN}|0|7"],
        units=["geocode|home|units", "E.1-a|School|1", "E.1-b|House|3", "W.9_z|House|0"],
        product=definition(classes=True),
        delimiter="|",
        labels=("home", "sex"),
    )
    counts, units = contents(found)
    assert counts == {("E.1-a", 6 + 3): 7}
    assert units == {"E.1-a": ([0, 1], 0), "E.1-b": ([3, 0], 0), "W.9_z": ([0, 0], 0)}


def test_what_is_no_label_is_said_with_the_labels_and_without_the_value(read):
    lines = [RECORDS[0], f"E.1-a;{MEN.lower()};0", "E.1-b;;0", f"W.9_z;{MEN};0"]
    with pytest.raises(
        BadInputError, match=f"sex: expected a label of sex: '{MEN}', '{WOMEN}'; not so in some rows"
    ) as said:
        read("tidy_records", lines, delimiter=";", labels=("sex", "age"))
    assert MEN.lower() not in str(said.value)


@pytest.mark.parametrize("place", ["E.1-ä", "E 1-a", "E.1-ab", "E.1-"])
def test_what_is_no_geocode_is_refused(read, place):
    lines = [RECORDS[0], f"{place};{MEN};0"]
    with pytest.raises(BadInputError, match="geocode: expected a geocode of 5 characters"):
        read("tidy_records", lines, delimiter=";", labels=("sex", "age"))


def test_digits_alone_are_still_asked_for_where_no_level_has_letters(read):
    product = definition()
    for level in product["geolevels"]:
        del level["letters"]
    with pytest.raises(BadInputError, match="geocode: expected a geocode of 5 digits"):
        read("tidy_records", RECORDS, product=product, delimiter=";", labels=("sex", "age"))


def test_another_delimiter_is_guessed_and_the_key_named(read):
    with pytest.raises(InputError, match="delimited by semicolons, and commas are read") as said:
        read("tidy_records", RECORDS, labels=("sex", "age"))
    assert 'input.delimiter = ";"' in said.value.hint
    with pytest.raises(InputError, match="delimited by commas, and semicolons are read"):
        read("tidy_records", [line.replace(";", ",") for line in RECORDS], delimiter=";", labels=("sex", "age"))
