"""The spelling of queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import QueryError
from das_spark.histogram.parser import RESERVED, split_names, unknown_name

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in RESERVED)
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
