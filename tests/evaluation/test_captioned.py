"""Figures 1 and 3 with their captions: of one release or of several, and none where there is nothing to draw."""

from __future__ import annotations

from made_study import STRATA, made_run

from das_spark.evaluation.captioned import bias_figure, loss_figure
from das_spark.evaluation.homogeneity import MARGINAL_PRODUCT

BOTH = {"epsilon 1": made_run(1), "epsilon <2": made_run(2)}


def test_several_releases_stand_side_by_side():
    for figure in (loss_figure(BOTH, "County", STRATA), bias_figure(BOTH, "County", MARGINAL_PRODUCT)):
        assert figure.svg.lstrip().startswith("<svg")
        assert all(label in figure.caption for label in BOTH)


def test_what_has_no_curve_and_no_index_is_not_drawn():
    assert loss_figure(BOTH, "District", STRATA) is None
    assert loss_figure({}, "County", STRATA) is None
    assert bias_figure(BOTH, "District", MARGINAL_PRODUCT) is None
