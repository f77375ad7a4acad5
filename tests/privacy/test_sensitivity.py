"""How far one record moves the measured answers, found by replacing records: the lemmas of SENSITIVITY.md.

The tasks of measurement run as they are, with noise that is zero: what differs between two populations is then the
change that the noise has to hide. The loss of a change is what its noise makes of it, in exact fractions.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from production_spine import geography_of, published_of

from das_spark.audit import SmallPopulation
from das_spark.audit.system import LocalSystem, declared_bounds
from das_spark.config import RunPlan, plan_of
from das_spark.core import measure_family
from das_spark.geography import bypass_rule, tree
from das_spark.geography.tree import sweep
from das_spark.privacy import (
    Budget,
    DiscreteLaplace,
    Framework,
    GeounitAddresses,
    LevelBudget,
    Mechanism,
    QueryShare,
    RunKey,
)
from das_spark.products import PRODUCTS

ROOT = Path(__file__).parents[2]
#: Of the census spine; an audit has no areas to make another one of.
STRATEGIES = [
    (product.name, strategy)
    for product in PRODUCTS.values()
    for strategy in product.strategies
    if not geography_of(product.name, strategy)
]
#: One strategy of each product; the others differ in levels and shares alone.
EACH_STRATEGY = [
    pytest.param(*strategy, marks=() if strategy[0] not in dict(STRATEGIES[:place]) else pytest.mark.slow)
    for place, strategy in enumerate(STRATEGIES)
]
#: Replaced records of each strategy, at random places and cells.
REPLACED = 8
KEY = RunKey.insecure("no noise is drawn")
#: Geolevel, query, geocode -> rows that are kept, and their exact answers.
Answers = Mapping[tuple[str, str, str], tuple[np.ndarray, np.ndarray]]


def plan(product: str, strategy: str) -> RunPlan:
    tables = {
        "config_version": 1,
        "run": {"product": product},
        "input": {"reader": "tidy_counts", "path": "population", **published_of(product)},
        "geography": geography_of(product, strategy),
        "budget": {"strategy": strategy},
    }
    return plan_of(tables, "test", files=False)


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_table: object, _stream: object, geounits: GeounitAddresses, rows: np.ndarray) -> np.ndarray:
        return np.zeros((len(geounits), len(rows)), dtype=np.int64)

    def nothing_in_groups(
        _table: object, _stream: object, geounits: object, sizes: np.ndarray, answers: object, widths: np.ndarray
    ) -> np.ndarray:
        del geounits, answers
        return np.zeros(int((sizes * widths).sum()), dtype=np.int64)

    monkeypatch.setattr("das_spark.core.measure.sample", nothing)
    monkeypatch.setattr("das_spark.core.measure.sample_groups", nothing_in_groups)


#: Cells up to which histograms are held whole, and matrices of queries made; and above which one record is replaced.
DENSE, MANY = 10_000, 1_000_000
#: Part of the cells that are occupied where all are held, and about how many of a larger schema.
OCCUPIED, OF_MANY = 0.3, 3000


def leaves(plan: RunPlan) -> tuple[str, ...]:
    """Two geounits in each, down to the lowest level; of a large schema only at the top and at the bottom."""
    codes = [""]
    above = 0
    for level in plan.spine.levels:
        width = level.length - above
        several = plan.product.schema.size <= DENSE or not above or level is plan.spine.leaf
        digits = (1, 2) if several else (1,)
        codes = [code + f"{digit:0{width}d}" for code in codes for digit in digits] if width else codes
        above = level.length
    return tuple(codes)


def population(plan: RunPlan, seed: int = 7) -> SmallPopulation:
    """Few records, most cells empty."""
    places, random = leaves(plan), np.random.default_rng(seed)
    size = plan.product.schema.size
    part = OCCUPIED if size <= DENSE else OF_MANY / size
    counts = random.integers(0, 3, (len(places), size)) * (random.random((len(places), size)) < part)
    units = np.full((len(places), len(plan.product.unit_classes)), 10_000, dtype=np.int64)
    return SmallPopulation(places, counts.astype(np.int64), units)


def moved(before: SmallPopulation, *changes: tuple[int, int, int]) -> SmallPopulation:
    """The population after records came or went: leaf, cell, +1 or -1."""
    counts = before.counts.copy()
    for leaf, cell, change in changes:
        counts[leaf, cell] += change
    assert counts.min() >= 0
    return replace(before, counts=counts)


def measured(plan: RunPlan, people: SmallPopulation, support: np.ndarray | None = None) -> Answers:
    """Every answer that is measured at all levels, where the estimates of all parents occupy some cells."""
    system, found = LocalSystem(plan), {}
    everywhere = np.arange(plan.product.schema.size, dtype=np.int32)
    for depth, (level, ingested) in enumerate(system.ingest(people).items()):
        noise = replace(system.measurement_plan(level, KEY), lazy=support is not None)
        occupied = None if not depth else everywhere if support is None else support
        for children in ingested.confidential.values():
            for each in measure_family(children, occupied, noise):
                rows = np.arange(each.values.shape[1]) if each.rows is None else each.rows
                for geocode, values in zip(each.geocodes, each.values, strict=True):
                    found[level, each.query, geocode] = rows, values
    return found


def changes(one: Answers, other: Answers) -> dict[tuple[str, str], list[int]]:
    """Level and query -> the changes of its answers that are not 0."""
    assert one.keys() == other.keys()
    found = defaultdict(list)
    for (level, query, geocode), (rows, values) in one.items():
        again, others = other[level, query, geocode]
        assert np.array_equal(rows, again)
        change = others - values
        if change.any():
            found[level, query] += change[change != 0].tolist()
    return found


def cost(distribution: Mechanism, change: list[int]) -> Fraction:
    """Epsilon that Laplace noise gives for a change, or rho that Gaussian noise gives."""
    if isinstance(distribution, DiscreteLaplace):
        return sum(map(abs, change)) / distribution.scale
    return sum(value * value for value in change) / (2 * distribution.sigma_squared)


def loss(plan: RunPlan, found: Mapping[tuple[str, str], list[int]]) -> Fraction:
    return sum((cost(plan.budget.mechanism(*where), change) for where, change in found.items()), Fraction(0))


def unreachable(plan: RunPlan) -> Fraction:
    """What a top level of one geounit spends on answers that no replaced record changes: the total of all."""
    top = plan.budget.levels[0]
    if plan.spine.levels[0].length:
        return Fraction(0)
    alone = [item for item in top.queries if plan.queries[item.query].rows == 1]
    return sum((plan.budget.spent(top.geolevel, item.query) for item in alone), Fraction(0))


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_cell_counts_in_exactly_one_answer_of_every_measured_query(name: str) -> None:
    """Lemma 1, on the matrix of every query; and lemma 2, by replacing a record of some cells by one of every other.

    Of a large schema lemma 1 alone, on rows; two cells of different rows then change two answers by one each.
    """
    schema = PRODUCTS[name].schema
    each = PRODUCTS[name].strategies.values()
    asked = {item.query for one in each for level in one.budget.levels for item in level.queries}
    assert asked
    for query in map(schema.query, asked):
        if schema.size > DENSE:
            of_cells = query.row_of(np.arange(schema.size))
            assert (of_cells >= 0).all()
            assert np.array_equal(query.answer_dense(np.ones(schema.size, dtype=np.int64)), np.bincount(of_cells))
            for cell in range(0, schema.size, 9_973):
                one = query.answer(np.array([cell]), np.array([1]))
                assert (one.sum(), one[of_cells[cell]]) == (1, 1)
            continue
        matrix = query.answer_dense(np.eye(schema.size, dtype=np.int64)).astype(np.int8)
        assert set(np.unique(matrix)) <= {0, 1}
        assert (matrix.sum(axis=1, dtype=np.int64) == 1).all()
        for cell in range(0, schema.size, 1 if schema.size < 200 else 37):
            change = matrix - matrix[cell]
            absolute, squared = (
                np.abs(change).sum(axis=1, dtype=np.int64),
                (change * change).sum(axis=1, dtype=np.int64),
            )
            assert set(np.unique(absolute)) <= {0, 2}
            assert set(np.unique(squared)) <= {0, 2}
            assert absolute.max() == (2 if query.rows > 1 else 0)


@pytest.mark.parametrize(("product", "strategy"), EACH_STRATEGY)
def test_a_replaced_record_costs_the_whole_budget_at_most_and_sometimes(product: str, strategy: str) -> None:
    """Lemmas 2, 3 and 8: whole measured vectors of whole spines, through the task that measures."""
    run, random = plan(product, strategy), np.random.default_rng(11)
    before = population(run)
    size, top = run.product.schema.size, Fraction(0)
    occupied = np.argwhere(before.counts > 0)
    away = [(0, 0, len(before.geocodes) - 1, size - 1)]  # other place from the top on, and other in every attribute
    drawn = [
        (*occupied[random.integers(len(occupied))], random.integers(len(before.geocodes)), random.integers(size))
        for _ in range(REPLACED if size <= DENSE else size <= MANY)
    ]
    for leaf, cell, to_leaf, to_cell in (*away, *drawn):
        start = moved(before, (leaf, cell, 1))  # so that there is one to be replaced
        found = changes(measured(run, start), measured(run, moved(start, (leaf, cell, -1), (to_leaf, to_cell, 1))))
        for change in found.values():
            assert sum(map(abs, change)) <= 2
            assert sum(value * value for value in change) <= 2
        spent = loss(run, found)
        assert spent <= run.budget.total
        top = max(top, spent)
    assert top == run.budget.total - unreachable(run)


def stays(framework: Framework, at_most: int, tmp_path: Path) -> RunPlan:
    """A run on records of which a contributor has several, under either framework."""
    data = tomllib.loads((ROOT / "conf" / "products" / "hospital_stays_like.toml").read_text())
    data["records"]["at_most"] = at_most
    data["strategies"][0]["framework"] = framework.value
    (tmp_path / "stays.toml").write_text(tomli_w.dumps(data))
    tables = {
        "config_version": 1,
        "run": {"product": str(tmp_path / "stays.toml")},
        "input": {"reader": "tidy_records", "path": "stays"},
        "invariants": {"units": False},
        "budget": {"strategy": "main"},
    }
    return plan_of(tables, "test", files=False)


@pytest.mark.parametrize("framework", list(Framework))
@pytest.mark.parametrize("at_most", [1, 2, 3, 7])
def test_all_records_of_a_contributor_cost_the_whole_budget_at_most_and_sometimes(framework, at_most, tmp_path):
    """Lemma 12: up to so many records are replaced by up to so many, anywhere, together."""
    run, random = stays(framework, at_most, tmp_path), np.random.default_rng(at_most)
    before = population(run)
    leaf, size, top = len(before.geocodes) - 1, run.product.schema.size, Fraction(0)
    alike = [(0, 0)] * at_most, [(leaf, size - 1)] * at_most  # the worst: all from one cell to another
    drawn = [
        [
            list(zip(random.integers(leaf + 1, size=n), random.integers(size, size=n), strict=True))
            for n in random.integers(0, at_most + 1, size=2)
        ]
        for _ in range(3 * REPLACED)
    ]
    for own, others in (alike, (alike[0], []), *drawn):
        start = moved(before, *[(*each, 1) for each in own])
        after = moved(start, *[(*each, -1) for each in own], *[(*other, 1) for other in others])
        found = changes(measured(run, start), measured(run, after))
        for change in found.values():
            assert sum(map(abs, change)) <= 2 * at_most
            assert sum(value * value for value in change) <= 2 * at_most**2
        spent = loss(run, found)
        assert spent <= run.budget.total
        top = max(top, spent)
    assert top == run.budget.total - unreachable(run)
    one = changes(measured(run, moved(before, (0, 0, 1))), measured(run, moved(before, (leaf, size - 1, 1))))
    times = at_most if framework is Framework.PURE_DP else at_most**2
    assert loss(run, one) == top / times


@pytest.mark.parametrize(("product", "strategy"), [("pl94_2020_person", "state"), ("e2e_1940", "e2e_1940")])
def test_rows_that_are_left_out_change_no_other_row_and_cost_nothing(product: str, strategy: str) -> None:
    """Lemmas 4 and 5: the support of the parent's estimate decides which answers are kept, and nothing else."""
    run = plan(product, strategy)
    before = population(run)
    random, size = np.random.default_rng(3), run.product.schema.size
    whole = measured(run, before)
    top = run.spine.names[0]
    for support in (np.sort(random.choice(size, 5, replace=False)), np.zeros(0, dtype=np.int64)):
        kept = measured(run, before, support)
        assert kept.keys() == whole.keys()
        for (level, name, geocode), (rows, values) in kept.items():
            touched = set(run.queries[name].row_of(support).tolist())
            assert set(rows.tolist()) == (touched if level != top else set(range(run.queries[name].rows)))
            assert np.array_equal(values, whole[level, name, geocode][1][rows])
        leaf, cell = np.argwhere(before.counts > 0)[0]
        after = moved(before, (leaf, cell, -1), (len(before.geocodes) - 1, (cell + 1) % size, 1))
        found = changes(kept, measured(run, after, support))
        assert loss(run, found) <= loss(run, changes(whole, measured(run, after))) <= run.budget.total


@pytest.mark.parametrize(("product", "strategy"), EACH_STRATEGY)
def test_bounds_are_the_same_for_neighbours_and_differ_where_an_invariant_does(product: str, strategy: str) -> None:
    """Lemma 6: what is exact follows from invariants, in which neighbours agree."""
    run = plan(product, strategy)
    before = population(run)
    exact = run.invariants.total_at
    # Where no total is exact, records may go anywhere, and no bound tells.
    length = 0 if exact is None else run.spine.level(exact).length
    home, cell = np.argwhere(before.counts > 0)[0]
    inside = [place for place, code in enumerate(before.geocodes) if code[:length] == before.geocodes[home][:length]]
    outside = [place for place in range(len(before.geocodes)) if place not in inside]
    other = (cell + 1) % run.product.schema.size

    def bounds(people: SmallPopulation) -> object:
        return declared_bounds(run, people)

    stays = bounds(moved(before, (home, cell, -1), (inside[-1], other, 1)))
    assert stays == bounds(before)
    assert bool(outside) == (exact is not None)
    if outside:
        assert bounds(moved(before, (home, cell, -1), (outside[-1], other, 1))) != bounds(before)


def _spine_of_a_county(seed: int) -> tree.Tree:
    random = np.random.default_rng(seed)
    blocks = 40
    labels = [np.sort(random.integers(0, 6, blocks))]
    for _ in range(2):
        labels.append(labels[-1] * 4 + random.integers(0, 3, blocks))
    labels = [np.unique(label, return_inverse=True)[1] for label in labels]
    return tree.tree_of(blocks, labels, (4, 3, 2, 5, 6), 20)


@pytest.mark.parametrize("framework", list(Framework))
@pytest.mark.parametrize("seed", range(4))
def test_unequal_shares_cost_the_mean_of_two_paths(framework: Framework, seed: int) -> None:
    """Lemma 7: geounits with shares of their own, bypassed ones included; the two places lie on two paths."""
    county = _spine_of_a_county(seed)
    settled, counts = sweep(county, bypass_rule(framework.value), 7)
    assert sum(counts) > 0
    assert any(len({*level.tolist()}) > 1 for level in settled.shares)
    queries = (QueryShare("half", Fraction(1, 3)), QueryShare("rest", Fraction(2, 3)))
    names = [str(depth) for depth in range(settled.depth)]
    budget = Budget(
        framework, Fraction(7, 3), tuple(LevelBudget(name, Fraction(1, len(names)), queries) for name in names)
    )
    paths, shares = settled.paths(), settled.shares

    def cost_of(one: int, other: int) -> Fraction:
        """A record of the first block, in answer 0 of every query, becomes one of the second, in answer 1."""
        found = Fraction(0)
        for name, path, level in zip(names, paths, shares, strict=True):
            change = Counter({(path[one], 0): -1, (path[other], 1): 1})
            for (place, _), by in change.items():
                share = Fraction(int(level[place]), settled.denominator)
                for item in queries if share else ():  # where there is no share, nothing is measured
                    found += cost(budget.mechanism_at(name, item.query, share), [by])
        return found

    for one, other in pairwise(np.random.default_rng(seed).permutation(settled.rows.size)):
        assert cost_of(one, other) == budget.total


def test_a_household_that_moves_costs_twice_the_budget_below_where_both_units_meet() -> None:
    """Lemma 10: two records of units; their changes cancel in every geounit that holds both."""
    run = plan("pl94_2020_unit", "us")
    vacant, occupied = 0, 1
    before = replace(population(run), counts=np.full((len(leaves(run)), 2), 3, dtype=np.int64))
    base = measured(run, before)

    def move(leaf: int, to: int) -> Fraction:
        after = moved(before, (leaf, occupied, -1), (leaf, vacant, 1), (to, vacant, -1), (to, occupied, 1))
        return loss(run, changes(base, measured(run, after)))

    assert move(0, 0) == 0
    levels, spent = run.spine.levels, run.budget.total
    for to in range(1, len(before.geocodes)):
        one, other = before.geocodes[0], before.geocodes[to]
        apart = [level.name for level in levels if one[: level.length] != other[: level.length]]
        below = sum((run.budget.level(name).share for name in apart), Fraction(0))
        assert move(0, to) == 2 * spent * below <= 2 * spent
    # Two units of one block that both become vacant: two records, four times the rho.
    both = moved(before, (0, occupied, -2), (0, vacant, 2))
    assert loss(run, changes(base, measured(run, both))) == 4 * spent


def test_units_that_follow_from_people_tell_neighbours_apart() -> None:
    """Lemma 9: the units that ingestion makes of people, published exactly, and the bounds that follow from them."""
    run = plan("pl94_2020_person", "state")
    empty = replace(population(run), counts=np.zeros((len(leaves(run)), run.product.schema.size), dtype=np.int64))
    classes = run.product.schema.query(run.product.class_query)

    def with_units(people: SmallPopulation) -> SmallPopulation:
        in_class = classes.answer_dense(people.counts)
        households = -(-in_class[:, :1] * 2 // 5)
        return replace(people, units=np.hstack([households, in_class[:, 1:] > 0]).astype(np.int64))

    one, other = (with_units(moved(empty, (place, 0, 1))) for place in (0, 1))
    assert not np.array_equal(one.units, other.units)
    assert declared_bounds(run, one) != declared_bounds(run, other)
    # The noisy answers themselves hide it as any other record.
    assert loss(run, changes(measured(run, one), measured(run, other))) <= run.budget.total


PAGE = ROOT / "das_spark" / "privacy" / "SENSITIVITY.md"


def test_the_page_of_lemmas_names_modules_and_tests_that_are_there() -> None:
    lemmas = PAGE.read_text(encoding="utf-8").split("\n## Lemma ")[1:]
    assert [int(lemma.partition(":")[0]) for lemma in lemmas] == list(range(1, len(lemmas) + 1))
    for lemma in lemmas:
        assert "*Proof.*" in lemma
        assert re.search(r"(Relied on|Enforced|Said) by", lemma)
        assert re.search(r"Checked by", lemma)
    text = "".join(lemmas)
    for module in re.findall(r"`(das_spark/[\w/]+\.py)`", text):
        assert (ROOT / module).is_file(), module
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > len(lemmas)
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), (file, name)
