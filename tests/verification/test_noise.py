"""The rule on differences of noisy answers: against sums made by hand, on noise of other widths, and its bounds."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import cosh, exp, inf, log, sqrt

import mpmath
import numpy as np
import pytest
from family_streams import judged

from das_spark.geography import Geolevel, Spine
from das_spark.privacy import DiscreteGaussian, DiscreteLaplace
from das_spark.verification import POSSIBLE, WIDE, NoiseDiffers

LEVELS = ("Country", "Region", "District")
SPINE = Spine((Geolevel("Country", 0), Geolevel("Region", 1), Geolevel("District", 2)))
RULE = NoiseDiffers(LEVELS[1:])
REGIONS, DISTRICTS, ANSWERS = range(1, 5), range(5), 200


def census(seed: int, scale: float = 20.0, number: int = ANSWERS) -> tuple[list[dict], list[dict]]:
    """Measurements and geounits: two queries, one of which districts keep some answers of."""
    numbers = np.random.default_rng(seed)
    truth, geounits = {}, [{"level": "Country", "geocode": "0", "parent": "", "children": len(REGIONS)}]
    for region in REGIONS:
        geounits.append({"level": "Region", "geocode": f"{region}", "parent": "0", "children": len(DISTRICTS)})
        for district in DISTRICTS:
            code = f"{region}{district}"
            geounits.append({"level": "District", "geocode": code, "parent": f"{region}", "children": 0})
            truth["District", code] = numbers.poisson(30, number)
        truth["Region", f"{region}"] = sum(truth["District", f"{region}{district}"] for district in DISTRICTS)
    truth["Country", "0"] = sum(truth["Region", f"{region}"] for region in REGIONS)
    measurements = []
    for geounit in geounits:
        level, code = geounit["level"], geounit["geocode"]
        for query in ("detailed", "total"):
            answers = truth[level, code] if query == "detailed" else truth[level, code].sum(keepdims=True)
            kept = None
            if query == "detailed" and level == "District":
                kept = [row for row in range(number) if (row + int(code[0])) % 3]
                answers = answers[kept]
            noise = numbers.normal(0, scale, len(answers)).round().astype(np.int64)
            place = {"level": level, "geocode": code, "parent": geounit["parent"]}
            row = {"query": query, "rows": kept, "values": (answers + noise).tolist(), "variance": scale**2}
            measurements.append(place | row)
    return measurements, geounits


def said(measurements, geounits):
    return judged(RULE, {"measurements": measurements, "geounits": geounits}, SPINE)


def differences(measurements, geounits):
    """(level, query) -> D and V of each answer, by definition."""
    children, answers = defaultdict(list), {}
    for each in geounits:
        children[each["parent"]].append(each["geocode"])
    for each in measurements:
        rows = each["rows"] if each["rows"] is not None else range(len(each["values"]))
        values = dict(zip(rows, each["values"], strict=True))
        answers[each["level"], each["geocode"], each["query"]] = (values, each["variance"])
    found = defaultdict(list)
    for (level, code, query), (values, variance) in answers.items():
        if level == LEVELS[-1]:
            continue
        below = LEVELS[LEVELS.index(level) + 1]
        asked = [answers.get((below, child, query)) for child in children[code]]
        if None in asked:
            continue
        for row, value in values.items():
            if all(row in given for given, _ in asked):
                known = sum(given[row] for given, _ in asked) - value
                found[below, query].append((known, variance + sum(each for _, each in asked)))
    return found


def test_every_answer_that_all_gave_is_compared_and_no_other():
    measurements, geounits = census(1)
    expected = differences(measurements, geounits)
    found = said(measurements, geounits)
    for level in LEVELS[1:]:
        number = sum(len(each) for (at, _), each in expected.items() if at == level)
        assert number > ANSWERS / 2
        for rule in (POSSIBLE, WIDE):
            assert not found[rule, level].failing
            assert found[rule, level].checked == number
    assert len(found) == 4


def test_families_of_which_a_child_was_not_asked_are_left_out():
    measurements, geounits = census(2)
    left = [
        measurement for measurement in measurements if (measurement["geocode"], measurement["query"]) != ("12", "total")
    ]
    expected = differences(left, geounits)
    assert len(expected["District", "total"]) == len(REGIONS) - 1
    found = said(left, geounits)
    assert found[POSSIBLE, "District"].checked == sum(
        len(expected["District", query]) for query in ("detailed", "total")
    )


def test_where_no_answer_was_given_by_all_nothing_is_compared():
    measurements, geounits = census(6)
    left = [measurement for measurement in measurements if measurement["level"] != "Region"]
    assert said(left, geounits) == {}


def test_answers_that_are_all_a_million_are_impossible_and_named():
    measurements, geounits = census(3)
    for measurement in measurements:
        if measurement["level"] == "District" and measurement["geocode"].startswith("2"):
            measurement["values"] = [1_000_000] * len(measurement["values"])
    found = said(measurements, geounits)
    assert found[POSSIBLE, "District"].failing
    assert "detailed below 2" in found[POSSIBLE, "District"].failing
    assert not found[POSSIBLE, "Region"].failing


def test_one_answer_that_is_off_by_a_hundred_deviations_is_impossible():
    measurements, geounits = census(4)
    chosen = next(
        measurement
        for measurement in measurements
        if measurement["level"] == "Region" and measurement["query"] == "detailed"
    )
    chosen["values"][7] += int(100 * sqrt(6) * 20)
    found = said(measurements, geounits)
    assert found[POSSIBLE, "Region"].failing


@pytest.mark.statistical
@pytest.mark.parametrize(("wider", "passes"), [(1.0, True), (0.5, False), (0.0, False)])
def test_noise_that_is_half_as_wide_as_declared_is_found(wider, passes):
    """False-alarm rate below 1e-9; half the width gives a mean of 1/4, and for 2,000 answers the bound is 0.6."""
    measurements, geounits = census(5, 20.0 * wider or 1e-9, 2000)
    for measurement in measurements:
        measurement["variance"] = 400.0
    assert bool(said(measurements, geounits)[WIDE, "Region"].failing) != passes


def log_moment_of_laplace(variance: float, at: float) -> float:
    """Of two-sided geometric noise: E exp(at z) = 1 / (1 - v (cosh at - 1))."""
    left = 1 - variance * (cosh(at) - 1)
    return -log(left) if left > 0 else inf


def log_moment_of_gaussian(sigma_squared: float, at: float) -> float:
    """Of discrete Gaussian noise, summed."""
    width = int(12 * sqrt(sigma_squared) + at * sigma_squared) + 12
    numbers = range(-width, width + 1)
    weights = [exp(-(number**2) / (2 * sigma_squared)) for number in numbers]
    moment = mpmath.fsum(weight * mpmath.e ** (at * number) for weight, number in zip(weights, numbers, strict=True))
    return float(mpmath.log(moment / mpmath.fsum(weights)))


@pytest.mark.parametrize("terms", [2, 3, 30, 1_000, 100_000])
@pytest.mark.parametrize("spread", [1e-3, 0.1, 0.3, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_sound_difference_exceeds_the_bound_with_a_probability_below_1e_20(kind, spread, terms):
    """Chernoff: P(|D| > x) <= 2 exp(k(a) - a x) for every a, k the logarithm of the moment of D."""
    if kind == "laplace":
        variance, moment = spread**2, log_moment_of_laplace
        parameter = variance
    else:
        parameter, moment = max(spread, 0.2) ** 2, log_moment_of_gaussian
        variance = float(DiscreteGaussian(Fraction(parameter).limit_denominator(10**6)).variance())
    most = 50 * (sqrt(terms * variance) + 1)
    tried = [scale / max(1.0, sqrt(variance)) for scale in (1.0, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)]
    least = min(terms * moment(parameter, at) - at * most for at in tried)
    assert 2 * exp(max(least, -700)) < 1e-20


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("parameter", [Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_the_fourth_moment_of_noise_is_at_most_what_the_bound_takes(mechanism, parameter):
    """Of sums of n terms it is 3 V^2 and n fourth cumulants, each at most 3 v^2 + v: E w^2 <= 6 + 1 / V."""
    noise = mechanism(parameter)
    variance = noise.variance()
    scale = mpmath.mpf(parameter.numerator) / parameter.denominator
    power = (lambda n: n / scale) if mechanism is DiscreteLaplace else (lambda n: n * n / (2 * scale))
    weights = [mpmath.exp(-power(n)) for n in range(4000)]
    total = weights[0] + 2 * mpmath.fsum(weights[1:])
    second, fourth = (2 * mpmath.fsum(w * n**k for n, w in enumerate(weights)) / total for k in (2, 4))
    assert mpmath.almosteq(second, variance, rel_eps=1e-12)
    assert fourth <= (6 * variance**2 + variance) * (1 + 1e-9)


@pytest.mark.parametrize("variance", [0.0, -0.01])
def test_a_variance_that_is_none_is_no_error_of_verification(variance):
    measurements, geounits = census(7)
    for measurement in measurements:
        measurement["variance"] = variance
    assert said(measurements, geounits)[WIDE, "District"].failing


def test_numbers_of_rows_that_are_none_are_left_to_another_rule():
    measurements, geounits = census(8)
    for measurement in measurements:
        if measurement["geocode"] == "1" and measurement["query"] == "detailed":
            measurement["rows"] = [-(2**31)] * len(measurement["values"])
    expected = len(differences(*census(8))["District", "detailed"])
    found = said(measurements, geounits)
    assert not found[POSSIBLE, "District"].failing
    assert 0 < found[POSSIBLE, "District"].checked < expected + len(REGIONS)


def test_of_a_family_whose_parent_is_no_geounit_nothing_is_said():
    measurements, geounits = census(9)
    left = [geounit for geounit in geounits if geounit["geocode"] != "2"]
    found = said(measurements, left)
    assert not found[POSSIBLE, "District"].failing
    assert found[POSSIBLE, "District"].checked < said(measurements, geounits)[POSSIBLE, "District"].checked
