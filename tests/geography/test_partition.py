"""Which geounit a block lies in: strings of entities, tract subsets, and distances seen from tracts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from das_spark.geography import DHC, PL94_PERSON
from das_spark.geography.county_spine import dhc_labels, optimized_labels, prefix_labels, tract_distances


def test_prefixes_number_geounits_in_the_order_of_their_codes(worked_example) -> None:
    tract, group = prefix_labels(worked_example, (11, 12))
    assert tract.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert group.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 1]


def test_tract_subsets_are_tracts_within_primitive_geounits(worked_example) -> None:
    prims = np.array(["b", "a", "a", "a", "a", "a", "b", "b", "a"])
    prim, subset_group, subset, _ = dhc_labels(worked_example, False, replace(DHC, fanout_cutoff=0), prims)
    assert prim.tolist() == [1, 0, 0, 0, 0, 0, 1, 1, 0]
    assert subset.tolist() == [1, 0, 0, 0, 0, 0, 1, 2, 0]
    assert subset_group.tolist() == [1, 0, 0, 0, 0, 0, 1, 1, 0]


def test_dhc_keeps_districts_and_block_groups_apart_when_it_is_told_to(worked_example) -> None:
    table = replace(worked_example, sdunilea=np.array(["00001"] * 2 + ["00002"] * 7)).rows(np.arange(8))
    one = np.full(8, "x")

    def groups(**settings: bool) -> int:
        off = replace(DHC, consider_gq=False, target_school_districts=False, target_block_groups=False)
        return int(np.unique(dhc_labels(table, False, replace(off, **settings), one)[3]).size)

    assert groups() == 2
    assert groups(target_school_districts=True) == 3
    assert groups(target_block_groups=True) == 3
    assert groups(consider_gq=True) == 3


def test_areas_of_one_branch_are_told_apart_only_if_targeted(table_of) -> None:
    table = table_of(["040010001001000", "040010001001001"], aiannhce=["0010", "0020"])
    for targeted, expected in ((True, [0, 1]), (False, [0, 0])):
        labels = optimized_labels(table, True, replace(PL94_PERSON, target_aian_areas=targeted))
        assert labels[2].tolist() == expected


def test_distances_from_tracts_follow_the_recursion() -> None:
    tract = np.array([0, 0, 0, 0, 1, 1, 2])
    group = np.array([0, 0, 0, 1, 2, 2, 3])
    code = np.array(["a", "a", "b", "b", "a", "a", "b"])
    found = tract_distances(tract, group, {"place": code, "gq": np.full(7, "z")})
    # Of tract 0, "a" is its first group without the block of "b", and "b" the second group and that block.
    assert found.inside.tolist() == [[2, 1, 0], [2, 0, 1], [1, 1, 1]]
    assert found.outside.tolist() == [[2, 0, 1], [2, 1, 0], [0, 0, 0]]
    assert found.touched.tolist() == [[True, True, False], [True, False, True], [True, True, True]]
    assert found.coded.tolist() == found.named.tolist() == [True, True, False]


def test_codes_of_no_area_name_nothing() -> None:
    tract = np.array([0, 1])
    codes = {"place": np.array(["11111", "99999"]), "aian": np.array(["9999", "0010"]), "gq": np.array(["0", "1"])}
    found = tract_distances(tract, tract, codes)
    assert found.coded.tolist() == [True] * 4 + [False] * 2
    assert found.named.tolist() == [True, False, True, False, False, False]
