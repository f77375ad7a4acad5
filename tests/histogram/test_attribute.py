"""Attributes and recodes refuse what could not be a grouping."""

import pytest

from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Recode


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
