"""The compiled loop against sorting and against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.estimation._sweep import _threshold, sweep


def sorted_threshold(free, needed):
    """The threshold of the projection on a simplex, by sorting (Held, Wolfe and Crowder 1974)."""
    ordered = np.sort(free[np.isfinite(free)])[::-1]
    candidates = (np.cumsum(ordered) - needed) / np.arange(1, len(ordered) + 1)
    return candidates[np.flatnonzero(ordered > candidates)[-1]]


@pytest.mark.parametrize("seed", range(200))
def test_the_threshold_divides_what_there_is(seed):
    generator = np.random.default_rng(seed)
    children = int(generator.integers(1, 60))
    free = generator.normal(size=children) * 10.0 ** generator.integers(-3, 7)
    free[generator.random(children) < 0.3] = -np.inf
    free[generator.integers(children)] = generator.normal()
    needed = 10.0 ** generator.uniform(-1, 6)
    expected = sorted_threshold(free, needed)
    for start in (0.0, expected, expected + 1e5, expected - 1e5, 1e12, -1e12):
        found = _threshold(free, needed, start)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * (1 + np.abs(free[np.isfinite(free)]).max()))
        assert np.maximum(free - found, 0).sum() == pytest.approx(needed, rel=1e-8, abs=1e-7)


def arrays(seed):
    generator = np.random.default_rng(seed)
    cells, children, parts, rows = (int(generator.integers(*ends)) for ends in ((1, 12), (1, 9), (1, 4), (1, 6)))
    live = generator.random((cells, children)) < 0.7
    live[np.arange(cells), generator.integers(0, children, cells)] = True
    index = generator.integers(0, rows, (parts, cells)) + rows * np.arange(parts)[:, None]
    shape = (cells, children)
    return {
        "shift": generator.normal(size=(parts * rows, children)),
        "index": index,
        "live": live,
        "needed": generator.integers(1, 50, cells).astype(float),
        "pull": generator.normal(size=shape),
        "trust": generator.uniform(0.1, 1.0, children),
        "relaxation": 1.6,
        "split": np.abs(generator.normal(size=shape)),
        "dual": generator.normal(size=shape),
        "price": generator.normal(size=cells),
        "step": generator.normal(size=shape),
        "sums": generator.normal(size=(parts * rows, children)),
    }


@pytest.mark.parametrize("seed", range(40))
def test_a_sweep_is_what_the_equations_say(seed):
    given = arrays(seed)
    split, dual = given["split"].copy(), given["dual"].copy()
    points = given["step"] + given["shift"][given["index"]].sum(axis=0)
    free = 1.6 * points - 0.6 * split + dual
    primal, change = sweep(*given.values())
    allowed = np.where(given["live"], free, -np.inf)
    price = np.array([sorted_threshold(row, total) for row, total in zip(allowed, given["needed"], strict=True)])
    expected = np.maximum(allowed - price[:, None], 0)
    np.testing.assert_allclose(given["split"], expected, atol=1e-9)
    np.testing.assert_allclose(given["price"], price, atol=1e-9)
    np.testing.assert_allclose(given["dual"], free - expected, atol=1e-9)
    np.testing.assert_allclose(given["split"].sum(axis=1), given["needed"], atol=1e-9)
    step = given["pull"] + given["trust"] * (expected - (free - expected))
    np.testing.assert_allclose(given["step"], step, atol=1e-9)
    sums = np.zeros(given["sums"].shape)
    for part in given["index"]:
        np.add.at(sums, part, step)
    np.testing.assert_allclose(given["sums"], sums, atol=1e-9)
    assert primal == pytest.approx(np.abs(points - expected).max())
    assert change == pytest.approx(np.abs(expected - split).max())


def test_nobody_goes_where_nobody_can_be():
    given = arrays(3)
    given["shift"] += 100.0 * ~given["live"].any(axis=0)
    sweep(*given.values())
    assert (given["split"][~given["live"]] == 0).all()
    assert (given["split"] >= 0).all()
