"""Small spines under extreme budgets, and their least squares by decimals of 80 digits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from hypothesis import strategies as st

from das_spark.estimation import (
    Decomposition,
    FamilyBounds,
    FamilyKnowledge,
    FamilyMeasurement,
    FamilyProblem,
    Gaussian,
    informed,
)
from das_spark.histogram import Attribute, Schema

SCHEMA = Schema("few", (Attribute("kind", ("home", "ship")), Attribute("race", ("a", "b", "c"))))
DETAILED, KIND, RACE, TOTAL = QUERIES = tuple(map(SCHEMA.query, ("detailed", "kind", "race", "total")))
ALGEBRA = Decomposition.of(QUERIES, np.zeros(0, dtype=np.int32), KIND)
CELLS = np.arange(SCHEMA.size, dtype=np.int32)
DIGITS = 80
Answer = tuple[int, float]  # number of a query, and its variance


@dataclass
class SmallTree:
    """A spine, the answers of its geounits, and the totals that are exact.

    Attributes:
        children: Geocodes of each parent; a geocode has its parent's in front.
        kinds: Whether the geounit can have people of each kind, shape ``(2,)``.
        truth: Its counts.
        answers: By length of geocodes the queries of a level and their variances.
        values: Noisy answers of each geounit, in this order.
        exact: Length of the geocodes of the levels whose totals are exact.
    """

    children: dict[str, list[str]]
    kinds: dict[str, np.ndarray]
    truth: dict[str, np.ndarray]
    answers: dict[int, list[Answer]]
    values: dict[str, list[np.ndarray]]
    exact: set[int]

    @property
    def leaves(self) -> list[str]:
        return [code for codes in self.children.values() for code in codes if code not in self.children]

    def problem(self, parent: str) -> FamilyProblem:
        codes = tuple(self.children[parent])
        measurements = tuple(
            FamilyMeasurement(
                QUERIES[query],
                np.arange(QUERIES[query].rows),
                np.array([self.values[code][place] for code in codes]),
                np.full(len(codes), variance),
            )
            for place, (query, variance) in enumerate(self.answers[len(codes[0])])
        )
        most = np.array([self.kinds[code] * 10**10 for code in codes])
        bounds = [FamilyBounds("class", KIND, 0 * most, most)]
        if len(codes[0]) in self.exact:
            totals = np.array([[self.truth[code].sum()] for code in codes])
            bounds.append(FamilyBounds("total", TOTAL, totals, totals))
        return FamilyProblem(parent, None, codes, SCHEMA.size, measurements, tuple(bounds))


@st.composite
def small_trees(draw: st.DrawFn) -> SmallTree:
    """Trees of three levels with single and empty children, variances over 12 orders, and the same query twice."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    children, level = {"": ["0"]}, ["0"]
    for most in (3, 2):
        for code in level:
            children[code] = [f"{code}{place}" for place in range(draw(st.integers(1, most)))]
        level = [child for code in level for child in children[code]]
    kinds, truth = {}, {}
    people = 10.0 ** draw(st.integers(0, 8))
    for codes in reversed(list(children.values())):
        for code in codes:
            if code in children:
                kinds[code] = np.any([kinds[child] for child in children[code]], axis=0)
                truth[code] = sum(truth[child] for child in children[code])
            else:
                kinds[code] = np.array(draw(st.tuples(st.booleans(), st.booleans())))
                truth[code] = generator.poisson(people, SCHEMA.size) * np.repeat(kinds[code], 3)
    orders = st.floats(-3, 9).map(lambda exponent: 10.0**exponent)
    answers = {}
    for length in (1, 2, 3):
        chosen = draw(st.lists(st.sampled_from(range(len(QUERIES))), max_size=4))
        if length == 3:
            chosen.append(0)  # the lowest level determines its cells, or the plan is refused
        answers[length] = [(query, draw(orders)) for query in chosen]
    values = {
        code: [
            QUERIES[query].answer_dense(counts) + np.rint(generator.normal(size=QUERIES[query].rows) * variance**0.5)
            for query, variance in answers[len(code)]
        ]
        for code, counts in truth.items()
    }
    lowest = draw(st.integers(0, 3))
    return SmallTree(children, kinds, truth, answers, values, set(range(1, lowest + 1)))


def estimated(tree: SmallTree) -> dict[str, Gaussian]:
    """Up and down, by what travels between families."""
    known: dict[str, FamilyKnowledge] = {}

    def up(parent: str) -> Gaussian:
        below = [up(code) if code in tree.children else None for code in tree.children[parent]]
        problem = tree.problem(parent)
        known[parent] = FamilyKnowledge.of(problem, informed(problem, below, ALGEBRA), ALGEBRA)
        together = known[parent].together()
        return Gaussian.of(ALGEBRA, together.arrays())

    found: dict[str, Gaussian] = {}

    def down(parent: str, given: Gaussian | None) -> None:
        for alike in known[parent].given(given):
            for place, knowledge in alike:
                code = tree.children[parent][place]
                found[code] = knowledge
                if code in tree.children:
                    down(code, Gaussian.of(ALGEBRA, knowledge.arrays()))

    up("")
    down("", None)
    return found


class Decimals:
    """Estimates and variances of a tree from its normal equations with exact totals as constraints."""

    def __init__(self, tree: SmallTree) -> None:
        with localcontext() as context:
            context.prec = DIGITS
            self._lay_out(tree)

    def _lay_out(self, tree: SmallTree) -> None:
        self.leaves = {leaf: np.flatnonzero(np.repeat(tree.kinds[leaf], 3)) for leaf in tree.leaves}
        columns = [(leaf, cell) for leaf, cells in self.leaves.items() for cell in cells.tolist()]
        self.columns = columns
        rows, values, weights, fixed, totals = [], [], [], [], []
        for code in tree.kinds:
            for (query, variance), noisy in zip(tree.answers[len(code)], tree.values[code], strict=True):
                for row, value in enumerate(noisy):
                    counted = QUERIES[query].row_of(CELLS) == row
                    rows.append(self.row(code, counted))
                    values.append(Decimal(float(value)))
                    weights.append(1 / Decimal(variance))
            if len(code) in tree.exact:
                row = self.row(code, np.ones(SCHEMA.size))
                if np.linalg.matrix_rank(np.array([*fixed, row])) > len(fixed):  # others say it already
                    fixed.append(row)
                    totals.append(Decimal(int(tree.truth[code].sum())))
        size = len(columns)
        self.matrix = np.full((size + len(fixed),) * 2, Decimal(0))
        right = np.full(size + len(fixed), Decimal(0))
        for row, value, weight in zip(rows, values, weights, strict=True):
            (own,) = np.nonzero(row)
            self.matrix[np.ix_(own, own)] += weight
            right[own] += weight * value
        for place, (row, total) in enumerate(zip(fixed, totals, strict=True), start=size):
            (own,) = np.nonzero(row)
            self.matrix[place, own] = self.matrix[own, place] = Decimal(1)
            right[place] = total
        self.right = right

    def row(self, code: str, counted: np.ndarray) -> np.ndarray:
        return np.array([float(counted[cell]) if leaf.startswith(code) else 0.0 for leaf, cell in self.columns])

    def __call__(self, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimates and variances of sums over the columns, shape ``(s, columns)``."""
        size = len(self.columns)
        padded = np.full((len(self.matrix), len(statistics)), Decimal(0))
        padded[:size] = np.array([[Decimal(value) for value in row] for row in statistics.tolist()]).T
        with localcontext() as context:
            context.prec = DIGITS
            found = solution(self.matrix, np.column_stack([self.right, padded]))
            estimates = padded.T @ found[:, 0]
            return estimates, (padded * found[:, 1:]).sum(axis=0)


def solution(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve by elimination with row exchanges."""
    both = np.column_stack([matrix, right])
    for place in range(len(both)):
        pivot = place + int(np.argmax([abs(value) for value in both[place:, place]]))
        both[[place, pivot]] = both[[pivot, place]]
        both[place] /= both[place, place]
        others = np.arange(len(both)) != place
        both[others] -= np.outer(both[others, place], both[place])
    return both[:, len(matrix) :]
