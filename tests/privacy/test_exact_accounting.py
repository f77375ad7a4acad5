"""The exact accountant, against sums written out, published values, high precision and other software."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from das_spark.config import load_plan
from das_spark.errors import BudgetError
from das_spark.privacy import (
    PUBLISHED_DELTA,
    Budget,
    DiscreteGaussian,
    DiscreteLaplace,
    ExactComposition,
    Framework,
    LevelBudget,
    QueryShare,
    TradeOffCurve,
    compose_exactly,
    compositions_of,
    epsilon_bun_steinke,
    epsilon_cks,
    exact,
    rounded_up,
    totals_at,
    within_geolevel_losses,
    worst_epsilon,
    worst_odds,
)

STRATEGIES = json.loads((Path(__file__).parent / "data" / "pl94_2020_strategies.json").read_text())
CONF = Path(__file__).parents[2] / "conf"


def production(run: str) -> Budget:
    record = STRATEGIES[run]
    levels = tuple(
        LevelBudget(
            name,
            exact(level["share"], name),
            tuple(QueryShare(query, exact(share, query)) for query, share in level["queries"].items()),
        )
        for name, level in record["levels"].items()
    )
    return Budget(Framework.ZCDP, exact(record["rho"], "rho"), levels)


def run_file(name: str) -> Budget:
    return load_plan(CONF / f"{name}.toml", files=False).budget


def gaussians(*given: tuple[Fraction | int, int]) -> ExactComposition:
    return ExactComposition(tuple((DiscreteGaussian(Fraction(sigma)), count) for sigma, count in given))


def laplaces(*given: tuple[Fraction | int, int]) -> ExactComposition:
    return ExactComposition(tuple((DiscreteLaplace(Fraction(scale)), count) for scale, count in given))


def losses(mechanism: DiscreteGaussian | DiscreteLaplace) -> list[tuple[Fraction, mpmath.mpf]]:
    """Loss and probability of every value that matters, of a shift by one, to 40 digits, from the two probabilities."""
    if isinstance(mechanism, DiscreteLaplace):
        half, reach = 1 / mechanism.scale, int(60 * mechanism.scale) + 2

        def exponent(k: int) -> Fraction:
            return -abs(k) * half
    else:
        reach = int(16 * math.sqrt(mechanism.sigma_squared)) + 4

        def exponent(k: int) -> Fraction:
            return -Fraction(k * k) / (2 * mechanism.sigma_squared)

    weights = {k: mpmath.exp(mpmath.mpf(exponent(k).numerator) / exponent(k).denominator) for k in range(-reach, reach)}
    total = mpmath.fsum(weights.values())
    return [(exponent(k) - exponent(k - 1), weight / total) for k, weight in weights.items()]


@cache
def outcomes_of(composition: ExactComposition) -> dict[Fraction, mpmath.mpf]:
    """Probability of every sum of losses, at 40 digits; but for some of 1e-30."""
    with mpmath.workdps(40):
        outcomes: dict[Fraction, mpmath.mpf] = {Fraction(0): mpmath.mpf(1)}
        for mechanism, count in composition.parts:
            for _ in range(count):
                after: dict[Fraction, mpmath.mpf] = {}
                for (one, p), (other, q) in itertools.product(outcomes.items(), losses(mechanism)):
                    if p * q > mpmath.mpf(10) ** -30:
                        after[one + other] = after.get(one + other, mpmath.mpf(0)) + p * q
                outcomes = after
        return outcomes


def summed(composition: ExactComposition, epsilon: float) -> float:
    """Delta by adding up every outcome of losses on one lattice."""
    with mpmath.workdps(40):
        terms = [
            p * (1 - mpmath.exp(epsilon - mpmath.mpf(loss.numerator) / loss.denominator))
            for loss, p in outcomes_of(composition).items()
            if loss > epsilon
        ]
        return float(mpmath.fsum(terms))


def gaussian_delta(rho: float, epsilon: float) -> float:
    """(A-4): what continuous noise of the same rho has; no bound, but near where many lattices mix."""
    mu = mpmath.sqrt(2 * rho)
    return float(mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize(
    ("runs", "epsilon", "low", "high"),
    [
        (("persons_us",), "16.4652", 16.46511, 16.46520),
        (("persons_pr",), "16.4652", 16.46511, 16.46520),
        (("units_us",), "2.3633", 2.36320, 2.36325),
        (("persons_us", "units_us"), "16.7464", 16.7459, 16.7468),
    ],
)
def test_the_redistricting_releases_cost_what_another_method_has_found(runs, epsilon, low, high):
    # The bands were computed by convolution on grids, rounded up and down.
    composed = compose_exactly([production(run) for run in runs])
    found = composed.epsilon(PUBLISHED_DELTA)
    assert low <= found.low <= found.high <= high
    assert found.high - found.low < 1e-5
    assert rounded_up(found.high, 4) == epsilon
    rho = sum((production(run).total for run in runs), Fraction(0))
    assert composed.delta(found.high).low <= 1e-10 <= composed.delta(found.low).high * (1 + 1e-9)
    assert gaussian_delta(float(rho), found.high) <= 1e-10 * (1 + 1e-6)
    assert gaussian_delta(float(rho), found.low) >= 1e-10 * (1 - 1e-6)


@pytest.mark.parametrize(
    ("products", "rho", "epsilon"),
    [(("person",), Fraction(24811, 5000), 24.45649), (("household", "unit"), Fraction(15401, 2000), 32.07198)],
)
def test_the_dhc_releases_cost_what_another_method_has_found(products, rho, epsilon):
    budgets = [run_file(f"dhc_2020_{product}") for product in products]
    assert sum(budget.total for budget in budgets) == rho
    found = compose_exactly(budgets).epsilon(PUBLISHED_DELTA)
    assert found.low - 5e-6 <= epsilon <= found.high + 5e-6
    assert found.high - found.low < 1e-6 * epsilon


@pytest.mark.parametrize(
    ("rho", "bun_steinke", "cks"),
    [
        ("1.729227", 14.3494, 13.6789),
        ("2.631169", 18.1984, 17.4351),
        ("4.9622", 26.3406, 25.4193),
        ("7.7005", 34.3321, 33.2888),
        ("15.293869", 52.8254, 51.5711),
    ],
)
def test_the_conversions_beside_them_are_those_of_the_table(rho, bun_steinke, cks):
    assert epsilon_bun_steinke(Fraction(rho), PUBLISHED_DELTA) == pytest.approx(bun_steinke, abs=6e-5)
    assert epsilon_cks(Fraction(rho), PUBLISHED_DELTA) == pytest.approx(cks, abs=6e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (8.6713966458383198, 0.075569208399446874),
        (18.483080295871303, 3.58770225975541e-6),
        (26.340588852722324, 1.78319933969411e-12),
    ],
)
def test_deltas_of_dhc_persons_agree_with_the_published_ones(epsilon, delta):
    # Su, Su, Wang (arXiv 2606.29835): 50 digits, over the production's own spine.
    found = compose_exactly([run_file("dhc_2020_person")]).delta(epsilon)
    assert found.low * (1 - 1e-9) <= delta <= found.high * (1 + 1e-9)
    assert found.high - found.low < 2e-4 * delta


def test_all_products_together_cost_what_another_method_has_found():
    budgets = [production("persons_us"), production("units_us")]
    budgets += [run_file(f"dhc_2020_{each}") for each in ("person", "household", "unit")]
    found = compose_exactly(budgets).epsilon(PUBLISHED_DELTA)
    assert float(sum(budget.total for budget in budgets)) == pytest.approx(15.293869, abs=5e-7)
    assert 49.8115 <= found.low <= found.high <= 49.8120
    assert found.high - found.low < 5e-5


def test_a_total_that_cannot_change_costs_nothing_on_the_plain_spine():
    budget = production("persons_us")
    fixed = budget.mechanism("State", "total")
    parts = [(each, count - 2 * (each == fixed)) for each, count in compose_exactly([budget]).parts]
    left = ExactComposition(tuple((each, count) for each, count in parts if count))
    assert float(budget.total - budget.spent("State", "total")) == pytest.approx(1.729227, abs=5e-7)
    found = left.epsilon(PUBLISHED_DELTA)
    assert 13.12570 <= found.low <= found.high <= 13.12619


def test_the_settings_of_august_2022_cost_what_was_published():
    # Su, Su, Wang (arXiv 2410.09296): rho 3.65, ten equal queries a geolevel, one shifted answer each. The first term
    # of delta is theirs, 9.98e-11 at epsilon 20.838545; with the second one it is 2.8917e-11.
    shares = [Fraction(each, 1000) for each in (20, 274, 85, 131, 131, 238, 118, 3)]
    composed = gaussians(*((10 / (2 * Fraction("3.65") * share), 10) for share in shares))
    delta = composed.delta(20.838545)
    assert delta.low <= 2.8917e-11 * (1 + 1e-4)
    assert delta.high >= 2.8917e-11 * (1 - 1e-4)
    assert delta.high - delta.low < 1e-4 * delta.high
    epsilon = composed.epsilon(PUBLISHED_DELTA)
    assert epsilon.low - 5e-6 <= 20.32469 <= epsilon.high + 5e-6
    # The first term alone is P(L > epsilon) = delta - x d(delta)/dx at x = exp(epsilon), between two slopes.
    for at, total, first in ((20.838545, "3.65", 9.98032e-11), (21.97, "3.99299857783612", 9.99900e-11)):
        noise = gaussians(*((10 / (2 * Fraction(total) * share), 10) for share in shares))
        step = 5e-3
        before, here, after = (
            noise._inversion(noise._moments.theta_of(epsilon=at), at, 1 << 14).delta(each)
            for each in (at - step, at, at + step)
        )
        steep = (before.high - here.low) / -math.expm1(-step)
        flat = (here.low - after.high) / math.expm1(step)
        assert here.low + flat <= first * (1 + 1e-5)
        assert here.high + steep >= first * (1 - 1e-5)
        assert steep - flat < 0.05 * first


def test_the_place_within_every_geolevel_costs_what_another_method_has_found():
    by_level = {loss.name: loss for loss in within_geolevel_losses(production("persons_us"))}
    rows = {
        "Block_Group": (0.1029, 2.795, 2.93, 3.18),
        "Tract": (0.8862, 8.989, 9.38, 9.92),
        "County": (1.3146, 11.224, 11.70, 12.32),
        "State": (1.5934, 12.524, 13.05, 13.71),
        "US": (2.4914, 16.219, 16.89, 17.64),
    }
    assert by_level.keys() == rows.keys()
    for name, (rho, exact_epsilon, cks, bun_steinke) in rows.items():
        loss = by_level[name]
        assert float(loss.spent) == pytest.approx(rho, abs=5e-5)
        assert loss.exact.high == pytest.approx(exact_epsilon, abs=6e-4)
        assert loss.epsilon == pytest.approx(cks, abs=6e-3)
        assert epsilon_bun_steinke(loss.spent, PUBLISHED_DELTA) == pytest.approx(bun_steinke, abs=6e-3)
        assert loss.exact.low <= loss.exact.high < loss.epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(4, 5.1769852535e-2), (8, 1.188028e-4), (12, 5.336907e-9)])
def test_one_query_with_both_rows_changed_is_summed_directly(epsilon, delta):
    single = gaussians((Fraction(1, 2), 2))
    found = single.delta(epsilon)
    assert found.low <= delta * (1 + 1e-6)
    assert found.high >= delta * (1 - 1e-6)
    assert found.high - found.low < 3e-3 * delta
    assert not found.low <= gaussian_delta(2.0, epsilon) <= found.high  # continuous noise is another mechanism


SMALL = [
    gaussians((Fraction(1, 2), 2), (2, 2)),
    gaussians((1, 4)),
    gaussians((Fraction(1, 20), 1)),  # rho_i = 20: sums over integers
    gaussians((Fraction(1, 5), 1), (Fraction(5, 2), 1)),  # on either side of the two ways to sum
    gaussians((8, 2), (4, 1)),
    gaussians((20, 2)),
    laplaces((4, 6)),
    laplaces((Fraction(1, 3), 2), (Fraction(2, 3), 2)),
    ExactComposition((*gaussians((2, 2)).parts, *laplaces((2, 2)).parts)),
]


@pytest.mark.parametrize("composition", SMALL)
def test_bounds_enclose_the_sum_over_every_outcome(composition):
    for times in (0.0, 1.0, 1.7, 4.5):
        moments = composition._moments
        epsilon = moments.mean + (times - 0.5) * moments.deviation
        if epsilon < 0:
            epsilon = 0.0
        truth, found = summed(composition, epsilon), composition.delta(epsilon)
        assert found.low * (1 - 1e-12) <= truth <= found.high * (1 + 1e-12), (times, epsilon, truth, found)
        if truth > 1e-12 and composition is not SMALL[2]:  # of one coarse lattice the integral ends late
            assert found.high - found.low < 2e-3 * truth


@pytest.mark.parametrize("composition", SMALL)
@pytest.mark.parametrize("delta", [0.2, 1e-3, 1e-7])
def test_epsilon_is_enclosed_by_the_sum_over_every_outcome(composition, delta):
    found = composition.epsilon(delta)
    assert found.low <= found.high
    assert summed(composition, found.high) <= delta * (1 + 1e-12)
    if found.low > 0:
        assert summed(composition, found.low) >= delta * (1 - 1e-12)
        assert found.high - found.low < 1e-3 * found.high


def test_the_two_populations_are_symmetrical():
    composition = gaussians((2, 2), (3, 2))
    there, back = composition.delta(1.5), composition.delta(-1.5)
    assert back.low == pytest.approx(1 - math.exp(-1.5) + math.exp(-1.5) * there.low, rel=1e-12)
    assert 0 <= there.low <= there.high <= back.low <= back.high <= 1


def test_extremes_keep_their_bounds():
    for rho, count in ((Fraction(1, 10**12), 100), (Fraction(1, 10**4), 100), (Fraction(10**4), 20000)):
        composition = gaussians((count / rho / 2, count))
        found = composition.epsilon(PUBLISHED_DELTA)
        assert found.low <= found.high <= epsilon_cks(rho, PUBLISHED_DELTA)
        assert found.high < found.low * 1.001
        assert gaussian_delta(float(rho), found.high * 1.0001) < 1e-10 < gaussian_delta(float(rho), found.low * 0.999)
    assert ExactComposition(()).epsilon(PUBLISHED_DELTA).high == 0.0
    assert ExactComposition(()).delta(0.0).high == 0.0
    with pytest.raises(BudgetError, match="between 0 and 1"):
        gaussians((1, 2)).epsilon(0)


def test_a_greater_rho_of_any_query_costs_more():
    least = [Fraction(3), Fraction(7), Fraction(40)]
    base = gaussians(*((sigma, 2) for sigma in least)).epsilon(1e-6)
    for place in range(len(least)):
        more = [sigma / 2 if each == place else sigma for each, sigma in enumerate(least)]
        assert gaussians(*((sigma, 2) for sigma in more)).epsilon(1e-6).low > base.high


def test_pure_runs_cost_less_at_a_delta_and_their_epsilon_at_none():
    levels = tuple(LevelBudget(f"l{k}", Fraction(1, 8), (QueryShare("q", Fraction(1)),)) for k in range(8))
    budget = Budget(Framework.PURE_DP, Fraction(4), levels)
    composed = compose_exactly([budget])
    assert composed.delta(4.0).high == 0.0
    assert composed.delta(3.999).low > 0.0
    half, truth = 0.25, 0.0
    found = composed.epsilon(1e-6)
    assert 0 < found.low <= found.high < 4
    for up in range(17):
        p = 1 / (1 + math.exp(-half))
        loss = half * (2 * up - 16)
        truth += math.comb(16, up) * p**up * (1 - p) ** (16 - up) * max(0.0, 1 - math.exp(found.high - loss))
    assert truth <= 1e-6 < truth * 1.01
    # Several records of a contributor: the whole epsilon is divided as before, whatever their number.
    assert compose_exactly([replace(budget, at_most=3)]) == composed
    # Beside a run for three records, one for one costs three times its epsilon.
    third = replace(budget, total=Fraction(4, 3))
    assert compose_exactly([replace(budget, at_most=3), third]) == compose_exactly([budget, budget])


def of_levels(framework: Framework, total: Fraction, shares: Sequence[Fraction]) -> Budget:
    queries = (QueryShare("a", Fraction(1, 3)), QueryShare("b", Fraction(2, 3)))
    return Budget(framework, total, tuple(LevelBudget(f"l{k}", share, queries) for k, share in enumerate(shares)))


def pairs_of(budget: Budget, paths: Sequence[Sequence[Fraction]]) -> list[ExactComposition]:
    """Every pair of paths, each composition written out."""
    found = []
    for pair in itertools.combinations_with_replacement(paths, 2):
        counts: dict[object, int] = {}
        for path in pair:
            for share, level in zip(path, budget.levels, strict=True):
                for item in level.queries if share else ():
                    mechanism = budget.mechanism_at(level.geolevel, item.query, share)
                    counts[mechanism] = counts.get(mechanism, 0) + 1
        found.append(ExactComposition(tuple(counts.items())))
    return found


SHARES = [Fraction(1, 2), Fraction(1, 6), Fraction(1, 3)]
PATHS = [SHARES, [Fraction(2, 3), Fraction(0), Fraction(1, 3)], [Fraction(1), Fraction(0), Fraction(0)]]
OWN_SHARES = [
    of_levels(Framework.ZCDP, Fraction(1), SHARES),
    of_levels(Framework.ZCDP, Fraction(3), SHARES),  # so little noise that lattices matter, and pairs differ
    of_levels(Framework.PURE_DP, Fraction(4), SHARES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "delta"), [*((share, 1e-10) for share in OWN_SHARES), (OWN_SHARES[0], 1e-2)])
def test_shares_of_their_own_take_the_worst_pair_of_paths(budget, delta):
    (found,) = compositions_of(budget, PATHS)
    assert len(found.ways) == len(PATHS)
    worst = worst_epsilon(pairs_of(budget, PATHS), delta)
    got = found.epsilon(delta)
    assert got.low <= worst.high * (1 + 1e-12)
    assert worst.low <= got.high * (1 + 1e-12)
    assert got.high - got.low < 2e-3 * got.high
    for epsilon in (0.7, 3.0):
        pairs = [pair.delta(epsilon) for pair in pairs_of(budget, PATHS)]
        at = found.delta(epsilon)
        assert at.low <= max(pair.high for pair in pairs) * (1 + 1e-12)
        assert max(pair.low for pair in pairs) <= at.high * (1 + 1e-12)
    assert worst_epsilon((), PUBLISHED_DELTA) is None


@pytest.mark.slow
def test_trade_offs_and_odds_of_paths_are_those_of_their_worst_pair():
    budget = OWN_SHARES[0]
    (found,) = compositions_of(budget, PATHS)
    alphas = np.array([1e-4, 0.01, 0.1, 0.4])
    low, high = found.trade_off(alphas)
    pairs = [pair.trade_off(alphas) for pair in pairs_of(budget, PATHS)]
    assert (low <= np.min([each for _, each in pairs], axis=0) + 1e-12).all()
    assert (np.min([each for each, _ in pairs], axis=0) <= high * 1.002 + 1e-3).all()
    odds = max(pair.odds(0.1) for pair in pairs_of(budget, PATHS))
    assert odds == pytest.approx(found.odds(0.1), rel=0.05)


def test_paths_of_many_kinds_are_one_composition_and_cost_what_each_pair_does():
    budget = production("persons_us")
    shares = [level.share for level in budget.levels]
    paths = []
    for merged in itertools.product([False, True], repeat=len(shares) - 1):  # each level gives its share to that above
        path = list(shares)
        for at, gone in enumerate(merged):
            if gone:
                path[at], path[at + 1] = path[at] + path[at + 1], Fraction(0)
        paths.append(path)
    assert len(set(map(tuple, paths))) > 12
    (found,) = compositions_of(budget, paths)
    epsilon = found.epsilon(PUBLISHED_DELTA)
    assert 16.4650 < epsilon.low <= epsilon.high < 16.4653
    pairs = pairs_of(budget, paths)
    for pair in pairs[:: len(pairs) // 8]:
        assert pair.epsilon(PUBLISHED_DELTA).low <= epsilon.high * (1 + 1e-12)
    # A part of a record, and paths that are the same or a part of others.
    (below,) = compositions_of(budget, paths, levels=[level.geolevel for level in budget.levels[3:]])
    assert below.epsilon(PUBLISHED_DELTA).high < epsilon.low
    (same,) = compositions_of(budget, [shares, shares, [*shares[:-1], Fraction(0)]])
    assert same == compose_exactly([budget])
    kinds = [[Fraction(k, 400), Fraction(1) - Fraction(k, 400), *[Fraction(0)] * (len(shares) - 2)] for k in range(150)]
    assert compositions_of(budget, kinds) == ()


def test_several_records_under_gaussian_noise_are_left_to_the_conversions():
    budget = replace(production("units_us"), at_most=2)
    assert compose_exactly([budget]) is None
    assert compositions_of(budget) == ()
    odds = worst_odds((), Framework.ZCDP, budget.total)
    closer = worst_odds(compositions_of(production("units_us")), Framework.ZCDP, budget.total)
    assert all(one >= other for one, other in zip(odds, closer, strict=True))
    with pytest.raises(BudgetError, match="no exact composition"):
        totals_at([budget], Fraction(1), PUBLISHED_DELTA)


@pytest.mark.parametrize("change", [(3, -3), (1, 1, 1, -3), (2, 1, -1, -1, -1), (3,), (1, -2), (1, 1, 1, -1, -1, -1)])
def test_every_way_of_changing_several_records_costs_no_more(change):
    # One query under Laplace noise of scale 2 k / epsilon, three records of a contributor replaced.
    budget = Budget(
        Framework.PURE_DP, Fraction(3), (LevelBudget("l", Fraction(1), (QueryShare("q", Fraction(1)),)),), 3
    )
    (composition,) = compositions_of(budget)
    scale = budget.mechanism("l", "q").scale
    assert scale == 2
    outcomes = {0: 1.0}  # of the loss in units of 1 / scale
    for step in change:
        after: dict[int, float] = {}
        for before, k in itertools.product(outcomes, range(-80, 81)):
            p = math.tanh(1 / (2 * float(scale))) * math.exp(-abs(k) / float(scale))
            loss = before + abs(k - step) - abs(k)
            after[loss] = after.get(loss, 0.0) + outcomes[before] * p
        outcomes = after
    for epsilon in (0.0, 0.3, 1.0, 1.7, 2.5, 2.99):
        truth = sum(p * max(0.0, 1 - math.exp(epsilon - loss / float(scale))) for loss, p in outcomes.items())
        assert truth <= composition.delta(epsilon).high * (1 + 1e-9) + 1e-15


def test_trade_offs_enclose_those_of_every_threshold():
    composition = gaussians((1, 2))
    with mpmath.workdps(30):
        outcomes: dict[Fraction, mpmath.mpf] = {}
        for (one, p), (other, q) in itertools.product(losses(DiscreteGaussian(Fraction(1))), repeat=2):
            outcomes[one + other] = outcomes.get(one + other, mpmath.mpf(0)) + p * q
        ordered = sorted(outcomes.items(), reverse=True)
        type_one = type_two = mpmath.mpf(0)
        corners = []
        for loss, p in ordered:  # rejecting the first population where its loss is small
            corners.append((float(type_one), float(1 - type_two)))
            type_two += p * mpmath.exp(-loss.numerator / mpmath.mpf(loss.denominator))
            type_one += p
    # At a corner the most powerful test errs with these probabilities; the function is symmetrical.
    for alpha, beta in corners:
        if 1e-6 < alpha < 1 and 1e-6 < beta < 1:
            found = composition.type_two_error(1 - alpha)
            assert found.low - 1e-9 <= 1 - beta <= found.high + 1e-9, (alpha, beta, found)
    normal = NormalDist()
    many = gaussians((2000, 2000))  # rho = 1/2, mu = 1
    for alpha in (1e-3, 0.05, 0.3, 0.9):
        found = many.type_two_error(alpha)
        assert found.low <= normal.cdf(normal.inv_cdf(1 - alpha) - 1) <= found.high
        assert found.high - found.low < 0.002
    assert many.type_two_error(0.0).high == 1.0
    assert many.type_two_error(1.0).high == 0.0


def most_powerful(composition: ExactComposition, alphas: Sequence[float]) -> list[tuple[float, float]]:
    """Least type II error and its complement at type I errors, by Neyman and Pearson, from every outcome."""
    with mpmath.workdps(40):
        ordered = sorted(outcomes_of(composition).items(), reverse=True)  # rejects where the loss is greatest
        found = []
        for alpha in alphas:
            left, power = mpmath.mpf(alpha), mpmath.mpf(0)
            for loss, p in ordered:
                false = p * mpmath.exp(-mpmath.mpf(loss.numerator) / loss.denominator)
                part = min(mpmath.mpf(1), left / false)
                left, power = left - part * false, power + part * p
                if part < 1:
                    break
            found.append((float(1 - power), float(power)))
        return found


#: So few answers that the integral ends late: bounds hold, and are wide at the ends of the curve.
COARSE = [SMALL[2], SMALL[3], SMALL[6], SMALL[7], laplaces((2, 1)), gaussians((Fraction(3, 10), 2))]


@pytest.mark.parametrize("composition", [*SMALL, *COARSE[4:]])
def test_trade_offs_are_those_of_the_most_powerful_test(composition):
    alphas = np.array([1e-7, 1e-5, 1e-3, 0.01, 0.05, 0.3, 0.7, 0.9])
    low, high = composition.trade_off(alphas)
    for (beta, power), least, most in zip(most_powerful(composition, alphas), low, high, strict=True):
        assert least <= beta * (1 + 1e-9)
        assert beta <= most * (1 + 1e-9) + 1e-15  # the sums leave out what is rarer than 1e-30
        if composition not in COARSE:
            assert most - least <= 0.02 * beta + 1e-9
            assert most - least <= 0.02 * power + 1e-9
        elif composition is not COARSE[0]:
            assert most - least < 0.01
    assert (low <= high).all()
    assert (np.diff(composition.trade_off(np.linspace(0, 1, 50))[1]) <= 1e-12).all()


@pytest.mark.parametrize("runs", [("persons_us",), ("units_us",), ("persons_us", "units_us"), "dhc"])
def test_trade_offs_of_the_releases_are_close_and_those_of_continuous_noise(runs):
    budgets = [production(run) for run in runs] if runs != "dhc" else [run_file("dhc_2020_person")]
    composed = compose_exactly(budgets)
    alphas = np.array([1e-8, 1e-6, 1e-4, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 0.9])
    low, high = composed.trade_off(alphas)
    mu = mpmath.sqrt(2 * mpmath.mpf(float(sum((budget.total for budget in budgets), Fraction(0)))))
    for alpha, least, most in zip(alphas, low, high, strict=True):
        z = mpmath.findroot(lambda each, alpha=alpha: mpmath.log(mpmath.ncdf(-each) / alpha), 2.0)
        beta, power = float(mpmath.ncdf(z - mu)), float(mpmath.ncdf(mu - z))
        assert least <= beta * (1 + 1e-9)
        assert beta <= most * (1 + 1e-9)
        assert most - least < 0.01 * beta, alpha
        assert most - least < 0.01 * power, alpha


def test_a_curve_of_the_same_mechanisms_is_computed_once():
    at, computed = np.array([0.1]), []
    first, second = (ExactComposition(((DiscreteGaussian(Fraction(7, 3)), 2),)) for _ in range(2))
    first.trade_off(at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactComposition, "_inversion", lambda *arguments: computed.append(arguments))
        assert first.trade_off(at) == second.trade_off(at)
    assert computed == []


def test_trade_offs_keep_the_shape_of_their_grid_and_their_ends():
    composed = compose_exactly([production("persons_us")])
    grid = np.linspace(0, 1, 12).reshape(3, 4)
    low, high = composed.trade_off(grid)
    assert low.shape == high.shape == grid.shape
    assert (high[0, 0], high[-1, -1]) == (1.0, 0.0)
    assert low[0, 0] > 1 - 1e-11
    assert low[1, 2] == composed.type_two_error(grid[1, 2]).low
    none = ExactComposition(()).trade_off(grid)
    assert (none[0] == 1 - grid).all()
    assert (none[1] == 1 - grid).all()
    # Enormous and minute expenses: bounds, if not close ones.
    assert gaussians((Fraction(1, 10), 2000)).trade_off(grid)[1].max() <= 1.0
    tiny = gaussians((10**12, 2)).trade_off(grid)
    assert (tiny[0] >= 1 - grid - 1e-5).all()


def test_a_polygon_of_few_points_bounds_every_trade_off_between_them():
    # Delta of one binary answer, of which exp(1) is the greatest ratio: max(0, p - exp(epsilon) (1 - p)).
    p = math.e / (1 + math.e)
    for epsilons in ([0.0, 0.4, 0.8, 1.1], [0.0, 0.45, 0.95, 1.3, 2.0], [0.3, 0.6, 0.7, 1.2]):
        deltas = np.maximum(0.0, p - np.exp(epsilons) * (1 - p))
        curve = TradeOffCurve(np.array(epsilons), deltas, deltas)
        alphas = np.linspace(0, 1, 101)
        low, high = curve.bounds(alphas)
        truth = np.maximum(1 - math.e * alphas, (1 - alphas) / math.e)
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()


@pytest.mark.parametrize("power", [0.5, 0.01, 1e-4])
def test_no_claim_beats_the_bound_on_its_odds(power):
    composition = gaussians((1, 2))
    outcomes: dict[float, float] = {}
    for (one, p), (other, q) in itertools.product(losses(DiscreteGaussian(Fraction(1))), repeat=2):
        outcomes[float(one + other)] = outcomes.get(float(one + other), 0.0) + float(p * q)
    found = composition.odds(power)
    true = false = 0.0
    best = 0.0
    for loss, p in sorted(outcomes.items(), reverse=True):  # claims are made where the loss is greatest
        part = min(1.0, (power - true) / p)
        true, false = true + part * p, false + part * p * math.exp(-loss)
        if true >= power * (1 - 1e-12):
            best = true / false
            break
    assert best <= found * (1 + 1e-9)
    assert found < 1.5 * best
    assert composition.odds(power) >= composition.odds(min(1.0, 2 * power))


def test_totals_at_an_epsilon_cost_it_and_are_rounded_down():
    budget = production("persons_us")
    (total,) = totals_at([budget], Fraction("17.14"), PUBLISHED_DELTA)
    assert compose_exactly([replace(budget, total=total)]).epsilon(PUBLISHED_DELTA).high <= 17.14
    more = replace(budget, total=total * (1 + Fraction(1, 10**5)))
    assert compose_exactly([more]).epsilon(PUBLISHED_DELTA).high > 17.14
    # 6.7 % smaller variances at the epsilon that was published, by the closer of the two conversions.
    assert float(1 - budget.total / total) == pytest.approx(0.067, abs=1e-3)
    both = totals_at([budget, production("units_us")], Fraction(4), PUBLISHED_DELTA)
    assert float(both[0] / both[1]) == pytest.approx(float(budget.total / production("units_us").total), rel=1e-5)
    with pytest.raises(BudgetError, match="greater than 0"):
        totals_at([budget], Fraction(0), PUBLISHED_DELTA)


def test_bounds_are_said_from_above():
    assert rounded_up(1.00001, 4) == "1.0001"
    assert rounded_up(0.1, 4) == "0.1001"  # the double of a tenth lies above it
    assert rounded_up(0.5, 4) == "0.5000"


def test_another_accountant_agrees():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    given, rows = [(Fraction(4), 2), (Fraction(25), 4)], []
    for sigma, count in given:
        for _ in range(count):
            rows.append(
                accounting.from_discrete_gaussian_mechanism(
                    math.sqrt(sigma), value_discretization_interval=1e-4, pessimistic_estimate=True
                )
            )
    together = rows[0]
    for row in rows[1:]:
        together = together.compose(row)
    composition = gaussians(*given)
    for epsilon in np.linspace(0.2, 5.0, 6):
        other = together.get_delta_for_epsilon(float(epsilon))
        found = composition.delta(float(epsilon))
        assert found.low <= other * (1 + 1e-9)
        assert other == pytest.approx(found.high, rel=2e-3)
