"""Records of which a contributor has several: the bound is enforced where they are read; no identity goes on."""

from __future__ import annotations

import random
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.products import product_from
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS
from das_spark.spark.readers._contributors import normalised
from das_spark.spark.tables import LEAVES

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

    def run(stays, product=None, header="who,geocode,ward", files=1, parquet=False, **settings):
        product = product or definition()
        folder = tmp_path / f"stays-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for number in range(files):
            rows = stays[number::files]
            if parquet:
                columns = dict(zip(header.split(","), zip(*rows, strict=True), strict=True))
                pq.write_table(
                    pa.table({name: list(values) for name, values in columns.items()}), folder / f"{number}.parquet"
                )
            else:
                lines = [",".join(map(str, row)) for row in rows]
                (folder / f"part-{number}.csv").write_text("\n".join([header, *lines]) + "\n")
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
    assert made.leaves.columns == [field.name for field in LEAVES.fields]
    assert contents(made)[0] == {("11", 0): 2, ("21", 2): 1, ("12", 1): 1}
    assert made.problems == ()
    before, columns = contents(made)[0], {"who": "patient_id"}
    assert contents(read(FITTING, header="patient_id,geocode,ward", columns=columns))[0] == before


def test_more_records_are_refused_by_file_and_column_and_counted_for_the_restricted_record_alone(read):
    with pytest.raises(BadInputError, match="at most 2 records of each patient; not so in some rows") as found:
        read([*FITTING, *OVER])
    assert "stays-" in str(found.value)
    assert "who" in str(found.value)
    assert "dora" not in str(found.value)
    (problem,) = found.value.problems
    assert (problem.rows, problem.note) == (6, "contributors: 2")
    with pytest.raises(BadInputError) as found:
        read([*FITTING, *OVER], definition(at_most=1))
    assert found.value.problems[0].note == "contributors: 3"


def test_who_it_is_must_be_there_in_every_row(read):
    with pytest.raises(BadInputError, match="what identifies a patient in every row; not so in some rows"):
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


#: Two ways to write one identity.
ALIKE = {
    "a blank behind it": ("a", "a "),
    "a blank before it": ("a", " a"),
    "two blanks within": ("a b", "a  b"),
    "a tab within": ("a b", "a\tb"),
    "a no-break space": ("a b", "a\u00a0b"),
    "an ideographic space": ("a", "a\u3000"),
    "a byte order mark": ("a", "\ufeffa"),
    "a space without width": ("ab", "a\u200bb"),
    "a null byte": ("a", "a\0"),
    "a letter and an accent": ("Zo\u00eb", "Zoe\u0308"),
    "a letter that is a sign": ("\u00c5", "\u212b"),
    "zeros before a number": ("7", "007"),
    "a sign before a number": ("7", "+7"),
    "nothing with a sign": ("0", "-00"),
    "a number longer than any type": ("9" * 5000, "0" + "9" * 5000),
}
#: Identities that differ however they are written.
DIFFERENT = (("Ann", "ann"), ("7", "-7"), ("7", "7.0"), ("07a", "7a"), ("\u0667", "7"), ("a b", "ab"), ("\uff17", "7"))


@pytest.mark.parametrize(("first", "second"), ALIKE.values(), ids=ALIKE)
def test_two_spellings_of_an_identity_agree_when_normalised(first, second):
    assert normalised(first) == normalised(second)
    assert normalised(normalised(second)) == normalised(second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_upper_case_and_what_is_no_spelling_of_the_same_stays_different(first, second):
    assert normalised(first) != normalised(second)


def stays_of(*identities, number=2):
    """As many stays of every identity, in places and wards that differ."""
    return [(who, PLACES[at % 3], at % 3) for who in identities for at in range(number)]


@pytest.mark.parametrize("spellings", ALIKE.values(), ids=ALIKE)
def test_identities_that_agree_when_normalised_and_differ_as_bytes_are_refused_unless_it_is_said_what_is_meant(
    read, contents, spellings
):
    stays = [*FITTING, *stays_of(*spellings)]
    with pytest.raises(BadInputError, match="expected one spelling of the identity of each patient") as found:
        read(stays, parquet=True)
    assert 'input.identity = "normalised"' in found.value.hint
    (problem,) = found.value.problems
    assert (problem.rows, problem.note, problem.examples) == (4, "pairs of identities: 1", ())
    assert not re.search(r"\b[14]\b", str(found.value).partition("expected")[2])
    # Two contributors with two records each; or one with four, of which two are protected.
    assert sum(contents(read(stays, parquet=True, identity="bytes"))[0].values()) == len(stays)
    with pytest.raises(BadInputError, match="at most 2 records of each patient"):
        read(stays, parquet=True, identity="normalised")
    made = read(stays, definition(over="drop"), parquet=True, identity="normalised")
    assert sum(contents(made)[0].values()) == len(stays) - 2
    assert [problem.note for problem in made.problems] == ["pairs of identities: 1", "contributors: 1"]


def test_four_stays_of_one_patient_in_four_spellings_are_four(read):
    stays = [(who, "11", 0) for who in ("a b", "a  b", " a b", "a\tb")]
    with pytest.raises(BadInputError, match="at most 3 records of each patient") as found:
        read(stays, definition(at_most=3), identity="normalised")
    assert found.value.problems[0].note == "contributors: 1"
    with pytest.raises(BadInputError) as found:
        read(stays, definition(at_most=3))
    assert found.value.problems[0].note == "pairs of identities: 6"


def test_what_is_counted_of_a_contributor_follows_from_no_other_identity_and_no_partition(read, contents):
    """One contributor whose identity is no number must not split 07 from 7: it would change the records of others."""
    drop, stays = definition(over="drop"), stays_of("07", "7", "+7")
    alone = Counter(contents(read(stays, drop, identity="normalised"))[0])
    assert sum(alone.values()) == 2
    more = [*stays, ("x", "11", 0), ("x", "12", 1)]
    for seed in range(2):
        mixed = random.Random(seed).sample(more, len(more))
        made = Counter(contents(read(mixed, drop, files=3, identity="normalised"))[0])
        assert made == alone + Counter({("11", 0): 1, ("12", 1): 1})
    with pytest.raises(BadInputError, match="one spelling"):
        read(more, drop)


def test_upper_and_lower_case_are_two_contributors(read, contents):
    stays = stays_of("Ann", "ann")
    for identity in (None, "normalised", "bytes"):
        made = read(stays, identity=identity)
        assert sum(contents(made)[0].values()) == 4
        assert made.problems == ()


@pytest.mark.parametrize("identity", [None, "normalised", "bytes"])
@pytest.mark.parametrize("empty", ["", "\t", "\u00a0", "\u3000 ", "\0", "\ufeff", "\u200b"])
def test_an_identity_of_nothing_that_is_seen_is_none(read, empty, identity):
    with pytest.raises(BadInputError, match="what identifies a patient in every row; not so in some rows") as found:
        read([*FITTING, (empty, "11", 0)], parquet=True, identity=identity)
    assert [problem.rows for problem in found.value.problems] == [1]


def test_numbers_are_identities_where_they_are_whole(read, contents):
    numbers = [(each, "11", 0) for each in (7, 7, 70, -7)]
    assert sum(contents(read(numbers, parquet=True))[0].values()) == 4
    with pytest.raises(BadInputError, match="at most 1 records"):
        read(numbers, definition(at_most=1), parquet=True)
    # Two large numbers are one as floating-point numbers.
    with pytest.raises(InputError, match="column 'who' holds neither texts nor whole numbers"):
        read([(7.0, "11", 0)], parquet=True)


def test_a_product_says_what_it_can_keep():
    with pytest.raises(ConfigurationError, match=r"over = .drop. needs the column"):
        definition(over="drop", contributor="")
    with pytest.raises(ConfigurationError, match="at_most is 1 or more"):
        definition(at_most=0)
    with pytest.raises(ConfigurationError, match=r"records.contributor: 'ward' says what or where"):
        definition(contributor="ward")
