"""The same algorithm, written again and without haste: dense matrices, one general solver, nothing of the system.

Queries are Kronecker products of identities and rows of ones. Every cell of every child is an unknown, those that the
parent leaves empty too. The real-valued problem goes as it stands to Clarabel, the rounding as it stands to HiGHS,
noise is a difference of two geometric draws. Nothing of das_spark is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from small_census import CLASSES, SHAPE, SIZE, Census

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Query -> whether it tells the levels of each attribute apart, and its share of the budget of a level.
QUERIES = {
    "hhgq": ((True, False, False, False), 9 / 40),
    "age18plus * hispanic * race": ((False, True, True, True), 27 / 40),
    "detailed": ((True, True, True, True), 1 / 10),
}
#: People in a unit of each class, at least and at most.
LEAST, MOST = (1,) * CLASSES, (99, *(99_999,) * (CLASSES - 1))
SNAP = 1e-5


def matrix_of(kept: Sequence[bool]) -> Floats:
    """The matrix of a query, (rows, SIZE)."""
    parts = [np.eye(size) if keep else np.ones((1, size)) for keep, size in zip(kept, SHAPE, strict=True)]
    return reduce(np.kron, parts)


MATRICES = {name: matrix_of(kept) for name, (kept, _) in QUERIES.items()}
CLASS = MATRICES["hhgq"]
TOTAL = np.ones((1, SIZE))


@dataclass(frozen=True)
class Descendants:
    """Geounits below a child whose totals are exact: owner (D,), bounds by class (D, CLASSES), totals (D,)."""

    owner: Integers
    lower: Integers
    upper: Integers
    total: Integers


@dataclass(frozen=True)
class Family:
    """A parent (SIZE,) or None, and its children.

    Attributes:
        parent: The parent's estimate.
        children: How many.
        measured: Query -> noisy answers (K, r), variances (K,).
        classes: Fewest and most people by class, (K, CLASSES) each.
        totals: Exact totals (K,), or None.
        descendants: Or None.
    """

    parent: Integers | None
    children: int
    measured: Mapping[str, tuple[Integers, Floats]]
    classes: tuple[Integers, Integers]
    totals: Integers | None = None
    descendants: Descendants | None = None


@dataclass(frozen=True)
class Solved:
    """A family with its real-valued estimate and its whole numbers, (K, SIZE) both."""

    level: str
    family: Family
    real: Floats
    whole: Integers


@dataclass(frozen=True)
class ReferenceRun:
    """Level -> people by geounit (sorted) and cell; and every family that was solved."""

    estimates: Mapping[str, Integers]
    families: tuple[Solved, ...]


@dataclass
class _Rows:
    """Rows of lower <= G z <= upper over all cells of all children, followed by all flows."""

    width: int
    rows: list[sp.csr_matrix] = field(default_factory=list)
    lower: list[Floats] = field(default_factory=list)
    upper: list[Floats] = field(default_factory=list)

    def add(self, matrix: Floats | sp.spmatrix, at: int, lower: Floats, upper: Floats) -> None:
        left = sp.csr_matrix((matrix.shape[0], at))
        right = sp.csr_matrix((matrix.shape[0], self.width - at - matrix.shape[1]))
        self.rows.append(sp.hstack([left, sp.csr_matrix(matrix), right], format="csr"))
        self.lower.append(np.asarray(lower, dtype=float))
        self.upper.append(np.asarray(upper, dtype=float))

    def all(self) -> tuple[sp.csr_matrix, Floats, Floats]:
        return sp.vstack(self.rows, format="csr"), np.concatenate(self.lower), np.concatenate(self.upper)


def _constraints(family: Family) -> tuple[sp.csr_matrix, Floats, Floats]:
    """Every constraint of a family: cells, parent, bounds, descendants."""
    cells = family.children * SIZE
    below = family.descendants
    flows = 0 if below is None else below.lower.size
    made = _Rows(cells + flows)
    most = np.full(SIZE, np.inf) if family.parent is None else family.parent.astype(float)
    made.add(sp.eye(cells), 0, np.zeros(cells), np.tile(most, family.children))
    if family.parent is not None:
        made.add(np.tile(np.eye(SIZE), family.children), 0, family.parent, family.parent)
    for child in range(family.children):
        made.add(CLASS, child * SIZE, family.classes[0][child], family.classes[1][child])
        if family.totals is not None:
            made.add(TOTAL, child * SIZE, family.totals[child : child + 1], family.totals[child : child + 1])
    if below is not None:
        made.add(sp.eye(flows), cells, below.lower.ravel(), below.upper.ravel())
        for number, total in enumerate(below.total):
            made.add(np.ones((1, CLASSES)), cells + number * CLASSES, np.array([total]), np.array([total]))
        for child in range(family.children):
            owned = np.kron((below.owner == child).astype(float), np.eye(CLASSES))
            row = np.hstack([np.zeros((CLASSES, cells)), -owned])
            row[:, child * SIZE : (child + 1) * SIZE] = CLASS
            made.add(row, 0, np.zeros(CLASSES), np.zeros(CLASSES))
    return made.all()


def objective(family: Family, x: Floats, *, weighted: bool = True) -> float:
    """Weighted squared distance of the answers of x (K, SIZE) to the noisy ones."""
    total = 0.0
    for query, (values, variance) in family.measured.items():
        weight = 1.0 / variance if weighted else np.ones(len(variance))
        total += float((weight[:, None] * (x @ MATRICES[query].T - values) ** 2).sum())
    return total


def least_squares(family: Family, *, weighted: bool = True) -> Floats:
    """The real-valued estimate, (K, SIZE)."""
    matrix, lower, upper = _constraints(family)
    width = matrix.shape[1]
    blocks, linear = [], np.zeros(width)
    for child in range(family.children):
        hessian = np.zeros((SIZE, SIZE))
        for query, (values, variance) in family.measured.items():
            weight = 1.0 / variance[child] if weighted else 1.0
            hessian += 2.0 * weight * MATRICES[query].T @ MATRICES[query]
            linear[child * SIZE : (child + 1) * SIZE] -= 2.0 * weight * MATRICES[query].T @ values[child]
        blocks.append(hessian)
    blocks.append(np.zeros((width - family.children * SIZE,) * 2))
    quadratic = sp.triu(sp.block_diag(blocks), format="csc")
    equal = lower == upper
    above, below = ~equal & np.isfinite(upper), ~equal & np.isfinite(lower)
    stacked = sp.vstack([matrix[equal], matrix[above], -matrix[below]], format="csc")
    right = np.concatenate([lower[equal], upper[above], -lower[below]])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(above.sum() + below.sum()))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.direct_solve_method = "faer"  # the matrices are all but dense
    settings.tol_gap_rel = 1e-13  # of an objective without its constant, which is a thousand times the distance
    settings.tol_gap_abs = 1e-5
    settings.tol_feas = 1e-9
    found = clarabel.DefaultSolver(quadratic, linear, stacked, right, cones, settings).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"the reference could not solve a family: {found.status}")
    x = np.array(found.x)[: family.children * SIZE].reshape(-1, SIZE)
    return np.clip(x, 0.0, np.inf if family.parent is None else family.parent)


def snapped(x: Floats) -> Floats:
    """Values that are whole but for a hundred-thousandth, made whole."""
    nearest = np.rint(x)
    return np.where(np.abs(x - nearest) <= SNAP, nearest, x)


def rounding_distance(x: Floats, whole: Integers) -> float:
    """Sum of |b - f|, with f the fractions of x above its floors and b what whole numbers add to the floors (T-30)."""
    return float(np.abs(whole - snapped(x)).sum())


def rounded(family: Family, x: Floats) -> Integers:
    """Whole numbers, (K, SIZE): each the floor of x or one more, at the least distance from x (T-30)."""
    floor = np.floor(snapped(x))
    fraction = (snapped(x) - floor).ravel()
    matrix, lower, upper = _constraints(family)
    cells = family.children * SIZE
    flows = matrix.shape[1] - cells
    held = matrix[:, :cells] @ floor.ravel()
    found = milp(
        np.concatenate([1.0 - 2.0 * fraction, np.zeros(flows)]),
        constraints=LinearConstraint(matrix, lower - held, upper - held),
        integrality=np.ones(cells + flows),
        bounds=Bounds(
            np.concatenate([np.zeros(cells), np.zeros(flows)]), np.concatenate([np.ones(cells), np.full(flows, np.inf)])
        ),
        options={"mip_rel_gap": 0.0},
    )
    if not found.success:
        raise RuntimeError(f"the reference could not round a family: {found.message}")
    return (floor + np.rint(found.x[:cells]).reshape(floor.shape)).astype(np.int64)


def run_reference(
    census: Census, epsilon: float, seed: int, *, weighted: bool = True, noise: float = 1.0, total_at: str = "State"
) -> ReferenceRun:
    """Measure and estimate every level of a census.

    Args:
        census: The population.
        epsilon: Total privacy loss, in equal parts for the levels.
        seed: Of the noise.
        weighted: Whether squares are divided by variances; False is wrong, for a control.
        noise: Factor on the scales of the noise that is drawn, not on those that are claimed; not 1 is wrong, likewise.
        total_at: The lowest level with exact totals.
    """
    generator = np.random.default_rng(seed)
    names = list(census.levels)
    classes, totals = class_bounds_of(census, total_at)
    estimates: dict[str, Integers] = {}
    families = []
    for depth, name in enumerate(names):
        truth = census.summed(census.counts, name)
        owner = census.parents(name) if depth else np.arange(len(truth))
        estimates[name] = np.zeros_like(truth)
        for parent in np.unique(owner):
            own = np.flatnonzero(owner == parent)
            exact = totals[name]
            family = Family(
                parent=estimates[names[depth - 1]][parent] if depth else None,
                children=len(own),
                measured=_measured(generator, truth[own], epsilon / len(names), noise),
                classes=(classes[name][0][own], classes[name][1][own]),
                totals=None if exact is None else exact[own],
                descendants=_descendants(census, name, total_at, own, classes, totals),
            )
            real = least_squares(family, weighted=weighted)
            estimates[name][own] = rounded(family, real)
            families.append(Solved(name, family, real, estimates[name][own]))
    return ReferenceRun(estimates, tuple(families))


def _measured(
    generator: np.random.Generator, truth: Integers, epsilon: float, noise: float
) -> dict[str, tuple[Integers, Floats]]:
    """Noisy answers of all queries, and their claimed variances."""
    found = {}
    for query, (_, share) in QUERIES.items():
        scale = 2.0 / (epsilon * share)
        answers = truth @ MATRICES[query].T.astype(np.int64)
        drawn = _noise(generator, scale * noise, answers.shape)
        found[query] = (answers + drawn, np.full(len(truth), _variance(scale)))
    return found


def class_bounds_of(
    census: Census, total_at: str
) -> tuple[dict[str, tuple[Integers, Integers]], dict[str, Integers | None]]:
    """Bounds on the classes of every geounit of every level, and the exact totals of the levels that have them.

    Geounit by geounit, from the sentence: everybody else's fewest people are taken from the total, if there is one; and
    never less than the children's least, nor more than their most.
    """
    names = list(census.levels)
    classes: dict[str, tuple[Integers, Integers]] = {}
    totals: dict[str, Integers | None] = {}
    for depth in reversed(range(len(names))):
        name = names[depth]
        exact = depth <= names.index(total_at)
        people = census.summed(census.counts, name).sum(axis=1)
        totals[name] = people if exact else None
        units = census.summed(census.units, name)
        lower, upper = np.zeros_like(units), np.zeros_like(units)
        for place, row in enumerate(units):
            for kind, number in enumerate(row):
                others = sum(LEAST[each] * row[each] for each in range(CLASSES) if each != kind)
                if not exact:
                    lower[place, kind], upper[place, kind] = LEAST[kind] * number, MOST[kind] * number
                    continue
                alone = row.sum() == number
                lower[place, kind] = people[place] if alone else LEAST[kind] * number
                upper[place, kind] = people[place] - others if number else 0
        if depth + 1 < len(names):
            below_lower, below_upper = classes[names[depth + 1]]
            parents = census.parents(names[depth + 1])
            for place in range(len(units)):
                lower[place] = np.maximum(lower[place], below_lower[parents == place].sum(axis=0))
                upper[place] = np.minimum(upper[place], below_upper[parents == place].sum(axis=0))
        classes[name] = (lower, upper)
    return classes, totals


def _descendants(census: Census, name: str, total_at: str, own: Integers, classes, totals) -> Descendants | None:
    names = list(census.levels)
    if names.index(name) >= names.index(total_at):
        return None
    position = {census.codes(name)[number]: place for place, number in enumerate(own)}
    owners = [census.at(code, name) for code in census.codes(total_at)]
    chosen = np.array([number for number, code in enumerate(owners) if code in position])
    lower, upper = classes[total_at]
    return Descendants(
        np.array([position[owners[number]] for number in chosen]),
        lower[chosen],
        upper[chosen],
        totals[total_at][chosen],
    )


def _noise(generator: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Integers:
    chance = -np.expm1(-1.0 / scale)
    return generator.geometric(chance, shape) - generator.geometric(chance, shape)


def _variance(scale: float) -> float:
    ratio = np.exp(-1.0 / scale)
    return float(2.0 * ratio / (1.0 - ratio) ** 2)
