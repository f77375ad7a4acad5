"""The order of steps follows from what an estimator declares; the executor in memory carries them out."""

from fractions import Fraction

import numpy as np
import pytest
from doubles import TotalsFromAllLevels

from das_spark.core import (
    ConfidentialFamily,
    InProcess,
    LevelInput,
    LevelPlan,
    MeasurementPlan,
    Needs,
    TopDown,
    level_steps,
    run_levels,
)
from das_spark.errors import EstimationError
from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyProblem
from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.privacy import DiscreteLaplace, RunKey, StreamDomain, cumulative_table

LEVELS = ("Nation", "State", "County")
SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
#: Of each level another one, so that every variance counts.
SCALES = dict(zip(LEVELS, (3, 5, 2), strict=True))
COUNTIES = {"0101": (9, 3, 0, 4, 0, 1), "0102": (0, 8, 2, 0, 0, 0), "0201": (5, 5, 5, 0, 1, 0), "0202": (1,) * 6}


def texts(needs):
    return [f"{step.work} {step.geolevel}" for step in level_steps(LEVELS, needs)]


def test_without_an_upward_pass_each_level_is_estimated_before_the_next_is_measured():
    assert texts(Needs()) == [f"{work} {level}" for level in LEVELS for work in ("measure", "estimate")]


def test_with_an_upward_pass_its_levels_are_measured_first_and_gone_through_from_below():
    assert texts(Needs(upward="all")) == [
        *("measure Nation", "measure State", "measure County"),
        *("upward County", "upward State", "upward Nation"),
        *("estimate Nation", "estimate State", "estimate County"),
    ]


def test_the_lowest_level_may_stay_out_of_the_upward_pass_and_be_measured_last():
    needs = Needs(upward="inner")
    assert texts(needs)[-3:] == ["estimate State", "measure County", "estimate County"]
    assert [level for level in LEVELS if needs.all_rows(level, LEVELS)] == ["Nation", "State"]
    assert all(Needs(rows="all").all_rows(level, LEVELS) for level in LEVELS)


def at(code, level):
    return {"Nation": "0", "State": code[:2], "County": code}[level]


def inputs(bounds=()):
    """Histograms of all levels by family; a nation that is a family of its own."""
    found = {}
    for depth, level in enumerate(LEVELS):
        counts = {}
        for code, row in COUNTIES.items():
            counts[at(code, level)] = counts.get(at(code, level), 0) + np.array(row)
        families = {}
        for code, row in counts.items():
            parent = code if not depth else ("0" if level == "State" else code[:2])
            families.setdefault(parent, {})[code] = Histogram.from_dense(row)
        declared = {
            family: FamilyProblem(
                parent_geocode=family if depth else "",
                parent=None,
                children=tuple(sorted(children)),
                size=SCHEMA.size,
                measurements=(),
                bounds=tuple(make(level, tuple(sorted(children))) for make in bounds),
            )
            for family, children in families.items()
        }
        confidential = {family: ConfidentialFamily.of(children) for family, children in families.items()}
        found[level] = LevelInput(confidential, declared)
    return found


def executor(estimator, *, lazy=True, bounds=()):
    key = RunKey.insecure("levels")
    queries = {"detailed": SCHEMA.query("detailed"), "total": SCHEMA.query("total")}
    noise = {}
    for level in LEVELS:
        mechanism = DiscreteLaplace(Fraction(SCALES[level]))
        noise[level] = MeasurementPlan(
            queries={"detailed": queries["detailed"]},
            mechanisms={"": {"detailed": (cumulative_table(mechanism), mechanism.variance())}},
            streams={"detailed": key.derive(StreamDomain("p", "person", level, 0, "detailed"))},
            lazy=lazy and not estimator.needs.all_rows(level, LEVELS),
        )
    plans = {level: LevelPlan(SCHEMA.size, queries, FamilyPlan(level), estimator) for level in LEVELS}
    return InProcess(inputs(bounds), plans, noise)


def test_top_down_gives_children_that_sum_to_their_parents():
    run = executor(TopDown())
    run_levels(level_steps(LEVELS, TopDown().needs), run)
    assert run.failed == ()
    for code, estimate in run.estimates["State"].items():
        below = [child.dense() for name, child in run.estimates["County"].items() if name[:2] == code]
        np.testing.assert_array_equal(sum(below), estimate.dense())
    rows = {family: [answer.rows for answer in answers] for family, answers in run.measurements["County"].items()}
    assert all(kept is not None for every in rows.values() for kept in every)


@pytest.mark.parametrize("cut", range(1, 6))
def test_steps_can_be_carried_out_in_two_calls(cut):
    steps = level_steps(LEVELS, TopDown().needs)
    once, twice = executor(TopDown()), executor(TopDown())
    run_levels(steps, once)
    run_levels(steps[:cut], twice)
    run_levels(steps[cut:], twice)
    assert twice.estimates == once.estimates


def test_a_family_that_cannot_be_estimated_ends_the_run_by_name():
    def too_many(level, children):
        low = np.full((len(children), 1), 10**6 if level == "County" else 0)
        return FamilyBounds("total", SCHEMA.query("total"), low, low + 10**7)

    run = executor(TopDown(), bounds=(too_many,))
    with pytest.raises(EstimationError, match="County"):
        run_levels(level_steps(LEVELS, TopDown().needs), run)
    assert run.failed == ("County/01", "County/02")
    assert list(run.estimates) == ["Nation", "State"]
    assert {str(each.status) for each in run.diagnostics["County"].values()} == {"infeasible"}


def dense_totals(run):
    """Best linear unbiased estimates of all totals and their variances, by the normal equations of all levels."""
    leaves = sorted(COUNTIES)
    rows, values, weights, names = [], [], [], []
    for level in LEVELS:
        for answers in (each for family in run.measurements[level].values() for each in family):
            for code, value in zip(answers.geocodes, answers.values.sum(axis=1), strict=True):
                rows.append([float(at(leaf, level) == code) for leaf in leaves])
                values.append(float(value))
                weights.append(1 / (answers.variance[0] * SCHEMA.size))
                names.append((level, code))
    design, weight = np.array(rows), np.array(weights)
    covariance = np.linalg.inv(design.T * weight @ design)
    mean = covariance @ (design.T * weight @ np.array(values))
    spread = design @ covariance @ design.T
    return dict(zip(names, zip(design @ mean, np.sqrt(np.diag(spread)), strict=True), strict=True))


def test_an_estimator_with_an_upward_pass_knows_all_levels_and_says_how_well():
    estimator = TotalsFromAllLevels()
    run = executor(estimator)
    run_levels(level_steps(LEVELS, estimator.needs), run)
    for (level, code), (mean, error) in dense_totals(run).items():
        assert run.arrays[level][code]["mean"] == pytest.approx([mean], rel=1e-9)
        assert run.arrays[level][code]["standard_error"] == pytest.approx([error], rel=1e-9)
    assert list(run.estimates) == list(LEVELS)
