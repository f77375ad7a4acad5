"""Random spines with noisy answers at every level, whose truth is known: for estimates that take levels together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation import (
    Decomposition,
    FamilyBounds,
    FamilyGroups,
    FamilyKnowledge,
    FamilyMeasurement,
    FamilyPrior,
    FamilyProblem,
    informed,
)
from das_spark.histogram import Attribute, Recode, Schema

SCHEMA = Schema(
    "small",
    (
        Attribute(
            "kind",
            ("home", "prison", "school", "ship"),
            (
                Recode("home_or_not", (("home", (0,)), ("not", (1, 2, 3)))),
                Recode("ends", (("one", (0,)), ("other", (3,)))),
            ),
        ),
        Attribute("race", ("a", "b", "c")),
        Attribute("age", ("minor", "adult")),
    ),
)
WORKLOAD = [
    SCHEMA.query(text) for text in ("total", "home_or_not * race", "ends * age", "race * age", "kind", "detailed")
]
ZEROS = np.flatnonzero(SCHEMA.select(kind=[3], age=[0])).astype(np.int32)
ALGEBRA = Decomposition.of(WORKLOAD, ZEROS, SCHEMA.query("kind"))
KIND = np.unravel_index(np.arange(SCHEMA.size), SCHEMA.shape)[0]
TOTAL = SCHEMA.query("total")


@dataclass
class Tree:
    """A random spine with measurements; `total` are exact totals, `groups` of the children of a geounit."""

    children: dict[str, list[str]]
    kinds: dict[str, np.ndarray]
    truth: dict[str, np.ndarray]
    values: dict[tuple[str, str], np.ndarray]
    variance: dict[tuple[str, str], float]
    total: dict[str, int]
    groups: dict[str, FamilyGroups]
    unmeasured: frozenset[str]

    @property
    def leaves(self):
        return [code for codes in self.children.values() for code in codes if code not in self.children]

    @property
    def geounits(self):
        return [code for codes in self.children.values() for code in codes]

    def problem(self, parent):
        codes = tuple(self.children[parent])
        measured = [
            FamilyMeasurement(
                query,
                np.arange(query.rows),
                np.array([self.values[code, query.name] for code in codes]),
                np.array([self.variance[code, query.name] for code in codes]),
            )
            for query in WORKLOAD
            if not self.unmeasured & set(codes)
        ]
        most = np.array([self.kinds[code] * 999 for code in codes])
        bounds = [FamilyBounds("class", SCHEMA.query("kind"), np.zeros_like(most), most)]
        if self.total.keys() & set(codes):
            low = np.array([[self.total.get(code, 0)] for code in codes])
            high = np.array([[self.total.get(code, 10**6)] for code in codes])
            bounds.append(FamilyBounds("total", TOTAL, low, high))
        return FamilyProblem(
            parent, None, codes, SCHEMA.size, tuple(measured), tuple(bounds), groups=self.groups.get(parent)
        )


def shaped(generator: np.random.Generator, deep: int) -> dict[str, list[str]]:
    """Random fan-outs, single children among them."""
    children, level = {"": ["0"]}, ["0"]
    for _ in range(deep - 1):
        below = []
        for code in level:
            children[code] = [f"{code}{number}" for number in range(int(generator.integers(1, 4)))]
            below += children[code]
        level = below
    return children


def peopled(generator: np.random.Generator, children: dict[str, list[str]]) -> tuple[dict, dict]:
    """Kinds that are live and true counts of every geounit."""
    kinds, truth = {}, {}
    for codes in reversed(list(children.values())):
        for code in codes:
            if code in children:
                kinds[code] = np.any([kinds[child] for child in children[code]], axis=0)
                truth[code] = sum(truth[child] for child in children[code])
                continue
            kinds[code] = generator.random(4) < 0.6
            kinds[code][0] |= generator.random() < 0.8
            truth[code] = generator.integers(0, 20, SCHEMA.size) * kinds[code][KIND]
            truth[code][ZEROS] = 0
    return kinds, truth


def grown(seed: int, *, exact: str = "", deep: int = 3) -> Tree:
    """A measured tree; `exact` says which totals are known."""
    generator = np.random.default_rng(seed)
    children = shaped(generator, deep)
    kinds, truth = peopled(generator, children)
    values, variance = {}, {}
    for code in kinds:
        for query in WORKLOAD:
            variance[code, query.name] = float(generator.uniform(0.5, 40))
            noise = np.rint(generator.normal(size=query.rows) * variance[code, query.name] ** 0.5)
            values[code, query.name] = query.answer_dense(truth[code]) + noise.astype(int)
    single = frozenset(codes[0] for codes in children.values() if len(codes) == 1 and codes[0] != "0")
    people = {code: int(counts.sum()) for code, counts in truth.items()}
    total, groups = {code: people[code] for code in ("0",) if exact}, {}
    if exact == "states":
        total |= {code: people[code] for code in children["0"]}
    if exact == "parts" and len(children["0"]) > 2:
        first, second, *rest = children["0"]
        sums = {"g": people[first] + people[second]} | {code: people[code] for code in rest}
        labels = ("g", "g", *rest)
        groups["0"] = FamilyGroups(labels, np.array([sums[label] for label in labels]))
    return Tree(children, kinds, truth, values, variance, total, groups, single)


def prior_of(tree, parent="0"):
    def below(code):
        if code not in tree.children:
            return None
        problem = tree.problem(code)
        return FamilyKnowledge.of(
            problem, informed(problem, [below(child) for child in tree.children[code]], ALGEBRA), ALGEBRA
        ).together()

    problem = tree.problem(parent)
    known = [below(code) for code in tree.children[parent]]
    return problem, known, FamilyPrior.of(problem, known, ALGEBRA)


class Dense:
    """Estimates by normal equations over all leaves' cells, and exact totals as linear constraints."""

    def __init__(self, tree: Tree) -> None:
        self.cells, start = {}, 0
        for code in tree.leaves:
            live = np.setdiff1d(np.flatnonzero(tree.kinds[code][KIND]), ZEROS)
            self.cells[code] = live, start
            start += len(live)
        self.size = start
        precision, information = np.zeros((start, start)), np.zeros(start)
        for code in tree.geounits:
            if code in tree.unmeasured:
                continue
            for query in WORKLOAD:
                rows = query.row_of(np.arange(SCHEMA.size, dtype=np.int32))
                answers = np.zeros((query.rows, SCHEMA.size))
                answers[rows[rows >= 0], np.flatnonzero(rows >= 0)] = 1
                own = answers @ self.sum_of(code)
                precision += own.T @ own / tree.variance[code, query.name]
                information += own.T @ tree.values[code, query.name] / tree.variance[code, query.name]
        self.covariance = np.linalg.inv(precision)
        self.mean = self.covariance @ information
        rules = [(self.sum_of(code).sum(axis=0), total) for code, total in tree.total.items()]
        for parent, groups in tree.groups.items():
            for _, own in groups.members:
                rule = sum(self.sum_of(tree.children[parent][place]).sum(axis=0) for place in own)
                rules.append((rule, int(groups.totals[own[0]])))
        for rule, total in rules:
            pulled = self.covariance @ rule
            spread = rule @ pulled
            if spread > 1e-6:  # else the others say it already
                self.mean = self.mean + pulled * (total - rule @ self.mean) / spread
                self.covariance = self.covariance - np.outer(pulled, pulled) / spread

    def sum_of(self, code):
        matrix = np.zeros((SCHEMA.size, self.size))
        for leaf, (live, start) in self.cells.items():
            if leaf.startswith(code):
                matrix[live, start + np.arange(len(live))] = 1
        return matrix
