"""Records of which a contributor has several: the bound is enforced where they are read; no identity goes on."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.products import product_from
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLACES = ("11", "12", "21")


def definition(**records):
    kinds = {"singular": "stay", "plural": "stays", "at_most": 2, "contributor": "who", "contributed_by": "patient"}
    main = {"name": "main", "framework": "zcdp", "total": "1", "geolevels": {"A": "1/2", "B": "1/2"}}
    return product_from(
        {
            "name": "own",
            "records": kinds | records,
            "geolevels": [{"name": "A", "length": 1}, {"name": "B", "length": 2}],
            "attributes": [{"name": "ward", "levels": ["a", "b", "c"]}],
            "strategies": [main | {"queries": {"detailed": "1"}}],
        }
    )


@pytest.fixture
def read(spark, tmp_path):
    """Reads stays, given as (who, place, ward)."""

    def run(stays, product=None, header="who,geocode,ward", files=1, **settings):
        product = product or definition()
        folder = tmp_path / f"stays-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for number in range(files):
            rows = [",".join(map(str, each)) for each in stays[number::files]]
            (folder / f"part-{number}.csv").write_text("\n".join([header, *rows]) + "\n")
        (tmp_path / "geounits.csv").write_text("\n".join(["geocode", *PLACES]) + "\n")
        paths = {"persons": str(folder), "geography": str(tmp_path / "geounits.csv")}
        chosen = InputSettings(reader="tidy_records", **paths, **settings)
        READERS["tidy_records"].look(chosen, product, product.spine())
        return READERS["tidy_records"].read(spark, chosen, product, product.spine())

    return run


FITTING = [("ann", "11", 0), ("ann", "21", 2), ("ben", "11", 0), ("cid", "12", 1)]
OVER = [
    ("dora", "11", 0),
    ("dora", "12", 1),
    ("dora", "21", 2),
    ("emil", "11", 0),
    ("emil", "11", 0),
    ("emil", "11", 0),
]


def test_records_within_the_bound_are_counted_and_nothing_else_is_told(read, contents):
    made = read(FITTING)
    assert made.counts.columns == ["geocode", "cell", "count"]
    assert contents(made)[0] == {("11", 0): 2, ("21", 2): 1, ("12", 1): 1}
    assert made.problems == ()
    columns = {"who": "patient_id"}
    assert contents(read(FITTING, header="patient_id,geocode,ward", columns=columns))[0] == contents(made)[0]


def test_more_records_are_refused_by_file_and_number_of_contributors_and_never_by_name(read):
    with pytest.raises(
        BadInputError, match=r"at most 2 records of each patient \(more of 2\); not so in 6 rows"
    ) as found:
        read([*FITTING, *OVER])
    assert "stays-" in str(found.value)
    assert "who" in str(found.value)
    assert "dora" not in str(found.value)
    with pytest.raises(BadInputError, match=r"more of 3\)"):
        read([*FITTING, *OVER], definition(at_most=1))


def test_who_it_is_must_be_there_in_every_row(read):
    with pytest.raises(BadInputError, match="what identifies a patient in every row; not so in 2 rows"):
        read([*FITTING, ("", "11", 0), (" ", "11", 0)])
    with pytest.raises(InputError, match="no column 'who'"):
        read(FITTING, header="whom,geocode,ward")


def test_records_that_are_dropped_do_not_depend_on_their_order_or_on_others(read, contents):
    drop, stays = definition(over="drop"), [*FITTING, *OVER]
    made = read(stays, drop)
    (counts, _), (problem,) = contents(made), made.problems
    assert problem.rows == 6
    assert sum(counts.values()) == len(FITTING) + 2 * 2
    assert counts["11", 0] >= 2 + 2  # emil's are alike
    for seed in range(2):
        mixed = random.Random(seed).sample(stays, len(stays))
        assert contents(read(mixed, drop, files=3))[0] == counts
    # Another contributor comes, with too many records too: those of all others stay as they are.
    more = contents(read([*stays, *[("fred", "21", 1)] * 5], drop))[0]
    assert Counter(more) - Counter(counts) == {("21", 1): 2}


def test_a_product_says_what_it_can_keep():
    with pytest.raises(ConfigurationError, match=r"over = .drop. needs the column"):
        definition(over="drop", contributor="")
    with pytest.raises(ConfigurationError, match="at_most is 1 or more"):
        definition(at_most=0)
    with pytest.raises(ConfigurationError, match=r"records.contributor: 'ward' says what or where"):
        definition(contributor="ward")
