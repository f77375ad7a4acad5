"""A small report on a spine, made up by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.evaluation import SpineLevelRow, SpineReport, share_path
from das_spark.geography import EntityComparison


def made_report(kind: str = "optimised") -> SpineReport:
    half = Fraction(1, 2)
    before = (SpineLevelRow("County", half, 1, 4, 4), SpineLevelRow("Block", half, 4, 0, 0))
    after = (SpineLevelRow("County", half, 2, 4, 3, 1, 0), SpineLevelRow("Block", half, 4, 0, 0, 0, 1))
    paths = (share_path(["1/2", "1/2"], 3), share_path(["1", "0"], 1))
    places = EntityComparison(
        "place",
        np.array(["4400001", "4400002", "4400003", "4400004"]),
        np.array([3, 1, 5, 9]),
        np.array([1, 5, 5, 11]),
        np.array([2, 2, 5, 6]),
        np.array([1.0, 4, 9, 16]),
        np.array([1.0, 4, 1, np.inf]),
    )
    none = np.zeros(0, dtype=np.int64)
    areas = EntityComparison("aian_area", np.zeros(0, dtype=np.str_), none, none, none, none * 1.0, none * 1.0)
    notes, facts = ("nothing is known of <quarters>",), (("product", "pl94_2020_person"),)
    return SpineReport(kind, "zcdp", Fraction(1, 3), before, after, paths, (places, areas), notes, facts)
