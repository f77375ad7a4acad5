"""Schemas, attributes, recodes and the spelling of queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError, QueryError
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.histogram.schema import RESERVED, split_names, unknown_name

ADULT = Recode("adult", (("minor", (0, 1)), ("adult", (2, 3))))
OLD = Recode("old", (("old", (3,)),))
SCHEMA = Schema(
    "people",
    (
        Attribute("sex", ("male", "female")),
        Attribute("age", ("0-4", "5-17", "18-64", "65+"), (ADULT, OLD)),
        Attribute("race", ("white", "black", "other")),
    ),
)


def schemas():
    sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)
    return sizes.map(
        lambda shape: Schema(
            "drawn", tuple(Attribute(f"a{i}", tuple(map(str, range(size)))) for i, size in enumerate(shape))
        )
    )


@given(schemas())
def test_codes_of_cells_give_the_cells_back(schema):
    cells = np.arange(schema.size)
    codes = schema.unravel(cells)
    assert codes.shape == (schema.size, len(schema.shape))
    np.testing.assert_array_equal(schema.ravel(codes), cells)
    np.testing.assert_array_equal(schema.ravel(codes), np.ravel_multi_index(tuple(codes.T), schema.shape))


def test_a_schema_knows_shape_size_and_labels():
    assert SCHEMA.shape == (2, 4, 3)
    assert SCHEMA.size == 24
    assert SCHEMA.label(23) == "sex=female, age=65+, race=other"


def test_small_unsigned_codes_do_not_overflow():
    codes = np.array([[1, 3, 2]], dtype=np.uint8)
    assert SCHEMA.ravel(codes).tolist() == [23]


@pytest.mark.parametrize("code", [-1, 4])
def test_a_code_outside_its_attribute_is_refused_by_name_without_the_value(code):
    with pytest.raises(InputError, match="attribute 'age': a code outside 0 to 3") as caught:
        SCHEMA.ravel(np.array([[0, 0, 0], [0, code, 0]]))
    assert str(code) not in str(caught.value).replace("0 to 3", "")


@pytest.mark.parametrize("codes", [np.zeros((2, 2), dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros((2, 3))])
def test_codes_of_a_wrong_shape_or_type_are_refused(codes):
    with pytest.raises(InputError, match=r"integer codes of shape \(n, 3\)"):
        SCHEMA.ravel(codes)


@pytest.mark.parametrize("cell", [-1, 24])
def test_a_cell_outside_the_schema_is_refused(cell):
    with pytest.raises(InputError, match="outside 0 to 23"):
        SCHEMA.unravel(np.array([cell]))
    with pytest.raises(InputError, match="outside 0 to 23"):
        SCHEMA.label(cell)


def test_a_selection_marks_the_cells_that_have_all_the_levels():
    mask = SCHEMA.select(sex=[1], age=[0, 3])
    codes = SCHEMA.unravel(np.arange(SCHEMA.size))
    expected = (codes[:, 0] == 1) & np.isin(codes[:, 1], [0, 3])
    np.testing.assert_array_equal(mask, expected)
    assert SCHEMA.select().all()
    assert not SCHEMA.select(race=[]).any()


def test_a_selection_of_an_unknown_attribute_or_level_is_refused():
    with pytest.raises(QueryError, match=r"'rase', which is unknown.*did you mean 'race'\?"):
        SCHEMA.select(rase=[0])
    with pytest.raises(QueryError, match="'race' has no level 3"):
        SCHEMA.select(race=[3])


@pytest.mark.parametrize(
    "text", ["race*age", "age * race", "  race   *age ", "race\t*\nage"], ids=["tight", "axis order", "spaces", "tabs"]
)
def test_order_and_white_space_do_not_matter(text):
    query = SCHEMA.query(text)
    assert query.name == "age * race"
    assert query == SCHEMA.query("age * race")
    cells = np.arange(SCHEMA.size)
    np.testing.assert_array_equal(query.row_of(cells), cells % 12)


def test_recodes_group_the_levels_of_their_attribute():
    query = SCHEMA.query("adult * sex")
    assert query.name == "sex * adult"
    assert query.rows == 4
    codes = SCHEMA.unravel(np.arange(SCHEMA.size))
    np.testing.assert_array_equal(query.row_of(np.arange(SCHEMA.size)), 2 * codes[:, 0] + (codes[:, 1] >= 2))


def test_levels_in_no_group_are_counted_nowhere():
    query = SCHEMA.query("old")
    assert query.rows == 1
    assert not query.is_partition
    assert query.answer_dense(np.ones(24, dtype=np.int64)).tolist() == [6]


def test_total_and_detailed_stand_for_one_answer_and_one_a_cell():
    total, detailed = SCHEMA.query("total"), SCHEMA.query("detailed")
    assert (total.rows, detailed.rows) == (1, 24)
    assert (total.name, detailed.name) == ("total", "detailed")
    np.testing.assert_array_equal(detailed.row_of(np.arange(24)), np.arange(24))
    assert detailed == SCHEMA.query("sex * age * race")


def test_an_unknown_name_is_answered_with_the_nearest_and_with_all():
    with pytest.raises(QueryError, match=r"'rase'.*did you mean 'race'\? known names: sex, age, adult, old, race"):
        SCHEMA.query("sex * rase")
    with pytest.raises(QueryError, match="did you mean 'detailed'") as caught:
        SCHEMA.query("detaled")
    assert caught.value.exit_code == 2


def test_case_counts():
    with pytest.raises(QueryError, match="'Sex', which is unknown"):
        SCHEMA.query("Sex")


@pytest.mark.parametrize("text", ["sex * sex", "age * adult", "old * adult"])
def test_an_attribute_grouped_twice_is_refused(text):
    with pytest.raises(QueryError, match="twice"):
        SCHEMA.query(text)


@pytest.mark.parametrize("text", ["", "*", "sex *", "* sex", "sex ** age", "sex age", "sex + age", "total * sex"])
def test_malformed_queries_are_refused(text):
    with pytest.raises(QueryError):
        SCHEMA.query(text)


def test_names_must_be_unique_in_a_schema():
    with pytest.raises(QueryError, match="'adult' twice"):
        Schema("people", (SCHEMA.attributes[1], Attribute("adult", ("no", "yes"))))


def test_a_schema_without_attributes_or_with_too_many_cells_is_refused():
    with pytest.raises(QueryError, match="no attribute"):
        Schema("people", ())
    levels = tuple(map(str, range(2000)))
    with pytest.raises(QueryError, match="8,000,000,000 cells"):
        Schema("people", tuple(Attribute(name, levels) for name in ("a", "b", "c")))


def test_group_of_gives_each_level_its_group_and_minus_one_to_the_rest():
    recode = Recode("band", (("outer", (0, 4)), ("middle", (2,))))
    assert recode.group_of(5).tolist() == [0, -1, 1, -1, 0]
    assert recode.labels == ("outer", "middle")


def test_an_attribute_has_as_many_levels_as_labels():
    assert Attribute("sex", ("male", "female")).size == 2


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((), "no group"),
        ((("a", ()),), "'a' holds no level"),
        ((("a", (0, 1)), ("b", (1,))), "level 1 twice"),
        ((("a", (0, 0)),), "level 0 twice"),
        ((("a", (0,)), ("a", (1,))), "label 'a' twice"),
    ],
)
def test_groups_that_are_empty_or_overlap_are_refused(groups, message):
    with pytest.raises(QueryError, match=message):
        Recode("band", groups)


@pytest.mark.parametrize("level", [-1, 2])
def test_a_recode_of_levels_that_the_attribute_does_not_have_is_refused(level):
    with pytest.raises(QueryError, match="outside 0 to 1"):
        Attribute("sex", ("male", "female"), (Recode("band", (("a", (level,)),)),))


@pytest.mark.parametrize("name", ["", "total", "detailed", "age group", "a*b", "4age"])
def test_names_that_no_query_could_spell_are_refused(name):
    with pytest.raises(QueryError):
        Attribute(name, ("one",))
    with pytest.raises(QueryError):
        Recode(name, (("a", (0,)),))


def test_an_attribute_without_levels_or_with_a_label_twice_is_refused():
    with pytest.raises(QueryError, match="no level"):
        Attribute("sex", ())
    with pytest.raises(QueryError, match="'male' twice"):
        Attribute("sex", ("male", "male"))


def test_a_recode_named_twice_is_refused():
    recode = Recode("band", (("a", (0,)),))
    with pytest.raises(QueryError, match="'band' twice"):
        Attribute("sex", ("male",), (recode, recode))


LETTERS = "abcxyzABCXYZ_"
NAMES = (
    st.tuples(st.sampled_from(LETTERS), st.text(LETTERS + "0189", max_size=8))
    .map("".join)
    .filter(lambda name: name not in RESERVED)
)
SPACES = st.text(" \t\n", max_size=3)


@given(st.lists(st.tuples(SPACES, NAMES, SPACES), min_size=1, max_size=5))
def test_names_come_back_whatever_the_white_space(parts):
    text = "*".join("".join(part) for part in parts)
    assert split_names(text) == tuple(name for _, name, _ in parts)


@pytest.mark.parametrize(("text", "found"), [("a * ", "nothing"), ("a b", "'a b'"), ("a * 1b", "'1b'")])
def test_the_error_says_what_stands_where_a_name_should(text, found):
    with pytest.raises(QueryError, match=f"has {found} where a name should be"):
        split_names(text)


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_stand_alone(word):
    assert split_names(f" {word} ") == (word,)
    with pytest.raises(QueryError, match=f"'{word}', which stands alone"):
        split_names(f"sex * {word}")


def test_a_name_like_no_other_gets_the_list_without_a_guess():
    error = unknown_name("qqq", ["sex", "age"], "query 'qqq'")
    assert "did you mean" not in str(error)
    assert "known names: sex, age" in str(error)


def test_a_query_reads_as_titles_labels_and_names():
    race = Attribute("cenrace", ("white", "black"), (Recode("two", (("either", (0, 1)),)),), title="race")
    schema = Schema("told", (*SCHEMA.attributes[:2], race, Attribute("unit_kind", ("a", "b"))))
    assert schema.words("sex * cenrace") == "sex x race"
    assert schema.words("old * two * unit_kind") == "old x either x unit kind"
    assert schema.words("adult") == "adult", "of several groups there is no one label"
    assert (schema.words("total"), schema.words("detailed")) == ("total", "every attribute")
    with pytest.raises(QueryError):
        schema.words("unknown")
