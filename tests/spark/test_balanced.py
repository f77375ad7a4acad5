"""Halves of halves: every operand once, in order, and nested no deeper than a logarithm."""

from __future__ import annotations

import re
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import das_spark.spark
from das_spark.spark.balanced import balanced


def depth(tree):
    return 0 if isinstance(tree, int) else 1 + max(map(depth, tree))


def leaves(tree):
    return [tree] if isinstance(tree, int) else [leaf for half in tree for leaf in leaves(half)]


@given(st.integers(1, 300))
def test_operands_keep_their_order_and_are_nested_no_deeper_than_halving_goes(number):
    tree = balanced(lambda one, other: (one, other), range(number))
    assert leaves(tree) == list(range(number))
    assert depth(tree) == ceil(log2(number))


def test_of_no_operands_there_is_nothing_to_give_back():
    with pytest.raises(IndexError):
        balanced(lambda one, other: (one, other), [])


def test_no_chain_of_columns_is_made_elsewhere():
    modules = Path(das_spark.spark.__file__).parent.rglob("*.py")
    chain = re.compile(r"(?<![\w.])reduce\(\s*(?:add|and_|or_|lambda (?!one, other: one\.union))")
    assert [module.name for module in modules if chain.search(module.read_text())] == []
