"""Families shaped like those of the demographic and housing characteristics, made from a seed.

Persons by relationship or type of quarters, sex, age, ethnicity and race: 1,227,744 cells, answered in two passes, held
to the people of 2,016 classes that were published before. Households by sex, age, ethnicity and race of the
householder, older members, tenure and 522 types: 1,578,528 cells, held to three tenures. Populations are drawn at
random: what matters to a solver are the numbers of cells and of classes that a parent and its children occupy, and the
noise beside the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem, OuterPass
from das_spark.histogram import Attribute, Histogram, Query, Recode, Schema

OLDEST = 115


def _levels(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{level}" for level in range(count))


def _spans(name: str, count: int, *firsts: int) -> Recode:
    """Levels in runs that begin with the given ones."""
    ends = (*firsts[1:], count)
    return Recode(
        name, tuple((f"from {first}", tuple(range(first, end))) for first, end in zip(firsts, ends, strict=True))
    )


_GROUPED_AGES = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, *range(70, 111, 5))
CONSTRAINED = ((*range(18),), (32,), (*range(18, 23),), (33, *range(37, 42)), (23, 31, 34, 35), (*range(24, 31), 36))
PERSONS = Schema(
    "dhc_like",
    (
        Attribute(
            "relgq",
            _levels("relgq", 42),
            (
                _spans("four", 42, 0, 2, 18, 33),
                _spans("eight", 42, 0, 18, 24, 27, 28, 33, 34, 36),
                Recode("limited", tuple((f"group {number}", levels) for number, levels in enumerate(CONSTRAINED))),
                _spans("members", 42, *range(19)),
                _spans("members_and_eight", 42, *range(18), 18, 24, 27, 28, 33, 34, 36),
            ),
        ),
        Attribute("sex", _levels("sex", 2)),
        Attribute(
            "age",
            _levels("age", OLDEST + 1),
            (
                _spans("voting", OLDEST + 1, 0, 18),
                _spans("ages3", OLDEST + 1, 0, 18, 65),
                _spans("ages10", OLDEST + 1, 0, 3, 15, 16, 17, 18, 20, 25, 30, 35),
                _spans("ages38", OLDEST + 1, *range(16), *_GROUPED_AGES),
                _spans("ages40", OLDEST + 1, *range(18), *_GROUPED_AGES),
            ),
        ),
        Attribute("hispanic", _levels("hispanic", 2)),
        Attribute("race", _levels("race", 63)),
    ),
)
QUERIES = {
    "q1": "ages3 * four",
    "q2": "ages3 * sex",
    "q3": "ages38 * sex",
    "q4": "hispanic * sex",
    "q5": "sex * four",
    "q6": "limited * ages10",
    "q7": "members",
    "q8": "hispanic * sex * ages40 * members_and_eight * race",
    "q9": "relgq * ages40 * hispanic * race * sex",
    "detailed": "detailed",
}
CLASSES = "eight * voting * hispanic * race"
PASSES = (
    OuterPass(
        (("q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9"),),
        (("c1", "c2", "q8", "q9"),),
    ),
    OuterPass((("detailed",),), (("detailed",),)),
)
HOUSEHOLDS = Schema(
    "dhc_household_like",
    (
        Attribute("sex", _levels("sex", 2)),
        Attribute("hhage", _levels("hhage", 9)),
        Attribute("hispanic", _levels("hispanic", 2)),
        Attribute("race", _levels("race", 7)),
        Attribute("elderly", _levels("elderly", 4)),
        Attribute("tenure", _levels("tenure", 3), (_spans("owned", 3, 0, 2),)),
        Attribute(
            "hhtype",
            _levels("hhtype", 522),
            (
                _spans("kinds183", 522, *(-(-522 * kind // 183) for kind in range(183))),
                _spans("kinds12", 522, *(-(-522 * (183 * kind // 12) // 183) for kind in range(12))),
                _spans("kinds5", 522, *(-(-522 * (183 * kind // 5) // 183) for kind in range(5))),
                _spans("kinds2", 522, 0, -(-522 * 100 // 183)),
            ),
        ),
    ),
)
HOUSEHOLD_QUERIES = {
    "q1": "kinds2 * hispanic * owned",
    "q2": "hispanic * owned",
    "q3": "hispanic * owned * race",
    "q4": "kinds12 * sex * owned",
    "q5": "kinds5 * hispanic * owned",
    "q6": "sex * hispanic * tenure * race * kinds183",
    "q7": "sex * hhage * hispanic * tenure * race * kinds183",
    "q8": "tenure * hhage * kinds183",
    "detailed": "detailed",
}
HOUSEHOLD_PASSES = (
    OuterPass((("q1", "q2", "q3", "q4", "q5", "q6"),), (("t183", "q6"),)),
    OuterPass((("q7", "q8", "detailed"),), (("detailed",),)),
)
_ROUNDED = {
    "c1": "hispanic * sex * voting * eight * race",
    "c2": "hispanic * sex * ages3 * eight * race",
}
_ROUNDED_HOUSEHOLDS = {"t183": "tenure * kinds183"}
RACES = np.concatenate([[0.72, 0.12, 0.01, 0.05, 0.004, 0.06], 0.036 * 0.9 ** np.arange(57) * 0.1 / (1 - 0.9**57)])


@dataclass(frozen=True)
class Shape:
    """How to make a family of persons."""

    name: str
    children: int
    people: float  # mean of a child
    noise: float  # standard deviation of an answer
    sharper: tuple[str, ...] = ("q6",)  # queries with half of it
    spread: float = 0.6  # unevenness of children
    quarters: float = 0.3  # chance of a child to have a given kind of quarters
    root: bool = False
    households: bool = False


BLOCKS = Shape("block group, 10 blocks", 10, 150.0, 30.15, (), spread=1.0, quarters=0.01)
GROUPS = Shape("tract, 3 block groups", 3, 1300.0, 4.82, (), quarters=0.05)
TRACTS = Shape("county, 40 tracts", 40, 4000.0, 3.39, ("q6", "q7"), quarters=0.15)
COUNTIES = Shape("state, 60 counties", 60, 60_000.0, 5.68, ("q6", "q7"), spread=1.4, quarters=0.5)
COUNTIES_100 = Shape("state, 100 counties", 100, 120_000.0, 5.68, ("q6", "q7"), spread=1.4, quarters=0.5)
ROOT = Shape("root", 1, 4e6, 11.7, root=True)
HOUSES_BLOCKS = Shape("households of a block group, 10 blocks", 10, 55.0, 26.0, (), spread=1.0, households=True)
HOUSES_COUNTIES = Shape("households of a state, 60 counties", 60, 22_000.0, 2.7, (), spread=1.4, households=True)


def _houses(shape: Shape, generator: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cells and households of every child: types and ages go together, the rest does not."""
    types = generator.lognormal(0.0, 2.0, 522)
    ages = generator.dirichlet(np.full(9, 1.5), 522)
    who = (types / types.sum())[:, None] * ages
    rest = [
        np.array([0.55, 0.45]),
        np.array([0.85, 0.15]),
        RACES[:7] / RACES[:7].sum(),
        np.array([0.6, 0.2, 0.12, 0.08]),
    ]
    found = []
    for size in shape.people * generator.lognormal(-(shape.spread**2) / 2, shape.spread, shape.children):
        count = int(generator.poisson(size)) + 1
        both = generator.choice(who.size, count, p=generator.dirichlet(400.0 * who.ravel() + 1e-4))
        sex, hispanic, race, elderly = (
            generator.choice(len(each), count, p=generator.dirichlet(40.0 * each)) for each in rest
        )
        tenure = generator.choice(3, count, p=generator.dirichlet([15.0, 8.0, 12.0]))
        codes = np.column_stack([sex, both % 9, hispanic, race, elderly, tenure, both // 9])
        found.append(np.unique(HOUSEHOLDS.ravel(codes), return_counts=True))
    return found


def _who(generator: np.random.Generator) -> np.ndarray:
    """Chance of each level of relgq, sex and age: shape (42, 2, 116); householders, partners, children, others."""
    ages = np.arange(OLDEST + 1)
    everybody = np.where(ages < 65, 1.0, np.exp(-(((ages - 65) / 14.0) ** 2) * 0.5 - (ages > 100) * (ages - 100) * 0.5))
    windows = np.zeros((42, OLDEST + 1))
    adult = 1.0 / (1.0 + np.exp(-(ages - 26) / 4.0)) * (ages >= 15)
    windows[:6] = adult
    windows[6:9] = np.exp(-np.maximum(ages - 17, 0) / 8.0) * (ages < 90)
    windows[9] = np.exp(-(((ages - 30) / 15.0) ** 2))
    windows[[10, 12]] = np.exp(-(((ages - 72) / 14.0) ** 2)) * (ages >= 30)
    windows[11] = np.exp(-ages / 9.0) * (ages < 75)
    windows[13:18] = np.exp(-(((ages - 32) / 18.0) ** 2))
    windows[13] *= (ages >= 15) & (ages < 90)
    windows[16] *= ages < 21
    windows[18:24] = np.exp(-(((ages - 35) / 12.0) ** 2)) * (ages >= 17)
    windows[24:27] = np.exp(-(((ages - 16) / 2.5) ** 2)) * (ages < 26)
    windows[27] = np.exp(-(((ages - 83) / 9.0) ** 2)) * (ages >= 20)
    windows[28:33] = np.exp(-(((ages - 28) / 10.0) ** 2)) * (ages >= 17) * (ages <= 30)
    windows[33] = np.exp(-(((ages - 20) / 2.0) ** 2)) * (ages >= 16) * (ages < 66)
    windows[34:36] = np.exp(-(((ages - 24) / 5.0) ** 2)) * (ages >= 17) * (ages < 66)
    windows[36:] = np.exp(-(((ages - 40) / 16.0) ** 2)) * (ages >= 16) * (ages < 76)
    size = [9, 24, 18, 2, 0.4, 0.3, 27, 0.8, 1.2, 1.2, 1, 2.5, 0.3, 0.4, 1.6, 1.5, 0.1, 2.4, *[0.0] * 24]
    mass = windows * everybody
    mass = mass / mass.sum(axis=1, keepdims=True) * np.array(size)[:, None]
    sexes = generator.dirichlet([300, 310], 42)
    quarters = windows[18:] * everybody
    mass[18:] = quarters / quarters.sum(axis=1, keepdims=True)
    return np.asarray(mass[:, None, :] * sexes[:, :, None])


def _drawn(shape: Shape, generator: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cells and people of every child."""
    joint = _who(generator)
    origins = np.multiply.outer(np.array([0.82, 0.18]), RACES).ravel()
    sizes = shape.people * generator.lognormal(-(shape.spread**2) / 2, shape.spread, shape.children)
    kinds = np.array([18, 19, 20, 24, 27, 28, 29, 31, 33, 34, 36, 37, 38, 40])
    found = []
    for child in range(shape.children):
        share = np.zeros(42)
        share[:18] = 1.0 / joint[:18].sum()
        here = kinds[generator.random(len(kinds)) < shape.quarters]
        share[here] = 0.03 * generator.dirichlet(np.ones(len(here))) if len(here) else 0.0
        who = (joint * share[:, None, None]).ravel()
        mix = generator.dirichlet(origins * 60.0 + 1e-3)
        count = int(generator.poisson(sizes[child]))
        first = generator.choice(len(who), count, p=who / who.sum())
        second = generator.choice(len(mix), count, p=mix)
        cells, people = np.unique(first * len(mix) + second, return_counts=True)
        found.append((cells, people))
    return found


def _answers(query: Query, rows: np.ndarray, children: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    found = np.zeros((len(children), len(rows)), dtype=np.int64)
    for child, (cells, people) in enumerate(children):
        np.add.at(found[child], np.searchsorted(rows, query.row_of(cells)), people)
    return found


def possible() -> np.ndarray:
    """Cells that somebody can be in, by the ages of each level of relgq."""
    joint = _who(np.random.default_rng(0)).sum(axis=1) > 1e-12
    return np.flatnonzero(np.repeat(np.repeat(joint[:, None, :], 2, axis=1).ravel(), 126))


def family(shape: Shape, seed: int) -> tuple[FamilyProblem, FamilyPlan]:
    """One family of a shape, its parent being the true sum."""
    generator = np.random.default_rng([seed, sum(shape.name.encode())])
    schema, asked, exact, passes = PERSONS, QUERIES, CLASSES, PASSES
    rounded, children = _ROUNDED, []
    if shape.households:
        schema, asked, exact, passes = HOUSEHOLDS, HOUSEHOLD_QUERIES, "tenure", HOUSEHOLD_PASSES
        rounded, children = _ROUNDED_HOUSEHOLDS, _houses(shape, generator)
    else:
        children = _drawn(shape, generator)
    queries = {name: schema.query(text) for name, text in {**asked, **rounded}.items()}
    zeros = np.zeros(0, dtype=np.int32)
    if shape.root:
        cells = np.union1d(possible(), children[0][0])
        zeros = np.setdiff1d(np.arange(schema.size), cells).astype(np.int32)
        parent = None
    else:
        everybody = np.concatenate([each for each, _ in children]), np.concatenate([each for _, each in children])
        cells, place = np.unique(everybody[0], return_inverse=True)
        parent = Histogram.from_pairs(
            schema.size, cells.astype(np.int32), np.bincount(place, everybody[1]).astype(np.int64)
        )
    measured = []
    for name in asked:
        rows = np.unique(queries[name].row_of(cells))
        deviation = shape.noise / (2.0 if name in shape.sharper else 1.0)
        values = _answers(queries[name], rows, children)
        values += np.rint(generator.normal(0.0, deviation, values.shape)).astype(np.int64)
        measured.append(FamilyMeasurement(queries[name], rows, values, np.full(len(children), deviation**2)))
    classes = schema.query(exact)
    rows = np.unique(classes.row_of(cells))
    known = _answers(classes, rows, children)
    problem = FamilyProblem(
        parent_geocode="" if shape.root else "1",
        parent=parent,
        children=tuple(f"1{child:04d}" for child in range(len(children))),
        size=schema.size,
        measurements=tuple(measured),
        bounds=(FamilyBounds("published", classes, known, known, rows),),
    )
    plan = FamilyPlan(
        "child",
        zero_cells=zeros,
        classes=None if shape.households else schema.query("eight"),
        passes=passes,
        queries=queries,
    )
    return problem, plan
