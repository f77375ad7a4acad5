"""The components of a workload: where covariances of thousands of cells are a few small matrices (README, section 13).

Every query sums cells by the groups of a recode of each attribute, so that its Gram matrix is a Kronecker product of
small ones. Levels of an attribute that no recode of the workload separates are *twins*; a class of twins is an *atom*.
The Gram matrix of a recode acts on sums over atoms, and on what levels of one atom differ by it is 1 (the recode keeps
every level) or 0. All sums, products and inverses of such matrices have the same form (E-60, E-61): for each choice, by
attribute, of the atoms together or of the differences within one atom, a *component*, one symmetric matrix over the
*sites*, which are the combinations of atoms.

A site is live in a geounit where somebody can be in its cells; matrices are of the live sites alone, and geounits with
the same live sites are worked on together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.roots import triangle
from das_spark.histogram import NO_GROUP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import Booleans, FamilyProblem, Floats, Integers
    from das_spark.histogram import Query

#: One matrix, or root of one, a component, or one for each of G geounits: ``(p, p)`` or ``(G, p, p)``, p live sites.
Blocks = tuple["Floats", ...]

#: Entries and lengths, beside the longest, that are rounding errors of an analysis.
_NO_PART: Final = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class _Attribute:
    """The atoms of one attribute."""

    atom: Integers  # atom of each level, numbered by first appearance, shape (levels,)

    @property
    def sizes(self) -> Integers:
        """Levels of each atom."""
        return np.bincount(self.atom)

    @property
    def modes(self) -> tuple[int, ...]:
        """What can be chosen of it: -1 stands for the atoms together, j for the differences within atom j."""
        return (-1, *(int(atom) for atom in np.flatnonzero(self.sizes > 1)))

    def root(self, factor: Integers, mode: int) -> Floats:
        """Return a root of the Gram matrix of a factor in a mode: over atoms, of unit vectors; or one number."""
        if mode >= 0:
            own = factor[self.atom == mode]
            return np.full((1, 1), float(_keeps(own)))
        counted = factor != NO_GROUP
        summed = np.zeros((int(factor.max()) + 1, len(self.sizes)))
        np.add.at(summed, (factor[counted], self.atom[counted]), 1.0)
        return triangle(summed / np.sqrt(self.sizes)) if len(summed) > len(self.sizes) else summed / np.sqrt(self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Component:
    """One choice of modes."""

    modes: tuple[int, ...]
    sites: Integers  # sites that it is about, as flat numbers, shape (p,)
    multiplicity: int  # dimensions that share its matrix


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The components of a workload on a schema.

    Attributes:
        shape: Levels of each attribute.
        atoms: Atom of each level, by attribute.
        zero: Structural zeros, shape ``(cells,)``; a site is all zero or not at all.
        classes: The class query, or None; the cells of a site are of one class.
    """

    shape: tuple[int, ...]
    atoms: tuple[Integers, ...]
    zero: Booleans
    classes: Query | None
    _frames: dict[bytes, Frame] = field(default_factory=dict, repr=False)
    _roots: dict[Query, Blocks] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, workload: Sequence[Query], zero_cells: NDArray[np.int32], classes: Query | None = None
    ) -> Decomposition:
        """Find the atoms.

        Args:
            workload: Queries of one shape; at least one.
            zero_cells: Structural zeros; levels that they separate are no twins.
            classes: The class query, whose bounds say which cells are live: levels of different classes are no twins.
        """
        shape = workload[0].shape
        zero = np.zeros(prod(shape), dtype=np.bool_)
        zero[zero_cells] = True
        atoms = []
        for axis, size in enumerate(shape):
            codes = [factor for factor in (each.factors[axis] for each in workload) if not _keeps(factor)]
            codes += [] if classes is None else [classes.factors[axis]]
            slices = np.moveaxis(zero.reshape(shape), axis, 0).reshape(size, -1)
            codes.append(_first_appearance(slices))
            atoms.append(_first_appearance(np.array(codes).T))
        return cls(shape, tuple(atoms), zero, classes)

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @cached_property
    def attributes(self) -> tuple[_Attribute, ...]:
        """The attributes with their atoms."""
        return tuple(map(_Attribute, self.atoms))

    @cached_property
    def components(self) -> tuple[_Component, ...]:
        """All components; the first is that of atoms alone, which sums of all cells are in."""
        counts = tuple(len(attribute.sizes) for attribute in self.attributes)
        numbers = np.arange(prod(counts)).reshape(counts)
        found = []
        for modes in product(*(attribute.modes for attribute in self.attributes)):
            sites = numbers
            for axis, mode in enumerate(modes):
                sites = sites if mode < 0 else sites.take([mode], axis=axis)
            sizes = [
                attribute.sizes[mode] - 1 for attribute, mode in zip(self.attributes, modes, strict=True) if mode >= 0
            ]
            found.append(_Component(modes, sites.ravel(), int(prod(sizes))))
        return tuple(found)

    @cached_property
    def site(self) -> Integers:
        """Site of each cell, shape ``(cells,)``."""
        counts = tuple(len(attribute.sizes) for attribute in self.attributes)
        grid = np.meshgrid(*self.atoms, indexing="ij")
        return np.asarray(np.ravel_multi_index(tuple(grid), counts).ravel(), dtype=np.int64)

    @property
    def sites(self) -> int:
        """Number of sites."""
        return prod(len(attribute.sizes) for attribute in self.attributes)

    @cached_property
    def _first(self) -> Integers:
        """First cell of each site."""
        return np.unique(self.site, return_index=True)[1]

    @property
    def possible(self) -> Booleans:
        """Sites in which somebody can be at all, shape ``(sites,)``."""
        return np.asarray(~self.zero[self._first], dtype=np.bool_)

    def live_sites(self, problem: FamilyProblem) -> Booleans:
        """Sites in which each child of a family can have somebody, by its bounds on classes, shape ``(K, sites)``."""
        first = self._first
        live = np.broadcast_to(self.possible, (len(problem.children), len(first))).copy()
        for bound in problem.bounds:
            if bound.query == self.classes:
                columns = bound.columns(bound.query.row_of(first.astype(np.int32)))
                live &= np.where(columns >= 0, bound.upper[:, columns] > 0, True)
        return live

    def root(self, query: Query) -> Blocks:
        """Return a root of the Gram matrix of a query, by component, whose columns are all sites (E-60)."""
        found = self._roots.get(query)
        if found is None:
            blocks = []
            for component in self.components:
                block: Floats = np.ones((1, 1))
                for axis, (attribute, mode) in enumerate(zip(self.attributes, component.modes, strict=True)):
                    block = np.asarray(np.kron(block, attribute.root(query.factors[axis], mode)), dtype=np.float64)
                blocks.append(block)
            found = self._roots[query] = tuple(blocks)
        return found

    def frame(self, live: Booleans) -> Frame:
        """The components on live sites, shape ``(sites,)``; the same object for the same sites."""
        key = live.tobytes()
        if key not in self._frames:
            self._frames[key] = Frame(self, live.copy())
        return self._frames[key]


def _keeps(factor: Integers) -> bool:
    """Whether a factor counts every level, each in a group of its own."""
    return bool((factor != NO_GROUP).all() and len(np.unique(factor)) == len(factor))


def _first_appearance(rows: NDArray[np.generic]) -> Integers:
    """Number equal rows by their first appearance."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Live sites whose blocks of cells have one shape, and where their parts go."""

    cells: Integers  # positions of their cells among the live ones, shape (sites of the kind, cells of a site)
    shape: tuple[int, ...]  # levels of each atom that has more than one
    #: For each choice of axes that differ: those axes, and by component the sites of the kind and their live positions.
    parts: tuple[tuple[tuple[int, ...], tuple[tuple[int, Integers, Integers], ...]], ...]


@dataclass(frozen=True, eq=False)
class Frame:
    """The components on the live sites of some geounits.

    Attributes:
        algebra: The decomposition.
        live: Whether a site is live, shape ``(sites,)``.
    """

    algebra: Decomposition
    live: Booleans

    @cached_property
    def cells(self) -> Integers:
        """Live cells, sorted, shape ``(n,)``."""
        return np.flatnonzero(self.live[self.algebra.site])

    @cached_property
    def positions(self) -> tuple[Integers, ...]:
        """For each component the live ones among its sites, as positions; none where a component has no live site."""
        return tuple(np.flatnonzero(self.live[component.sites]) for component in self.algebra.components)

    def root(self, query: Query) -> Blocks:
        """Return a root of the Gram matrix of a query, by component, whose columns are the live sites."""
        return self.restricted(self.algebra.root(query))

    def restricted(self, roots: Blocks) -> Blocks:
        """Return roots of all sites on the live ones."""
        pairs = zip(roots, self.positions, strict=True)
        return tuple(np.ascontiguousarray(root[..., own]) for root, own in pairs)

    def within(self, wider: Frame) -> tuple[Integers, ...]:
        """Positions of the live sites of each component among those of a frame with more."""
        pairs = zip(self.positions, wider.positions, strict=True)
        return tuple(np.searchsorted(theirs, own) for own, theirs in pairs)

    @cached_property
    def _kinds(self) -> tuple[_Kind, ...]:
        algebra = self.algebra
        site = algebra.site[self.cells]
        counts = tuple(len(attribute.sizes) for attribute in algebra.attributes)
        live = np.flatnonzero(self.live)
        atoms = np.array(np.unravel_index(live, counts))
        sizes = np.array([attribute.sizes[atom] for attribute, atom in zip(algebra.attributes, atoms, strict=True)])
        kinds = []
        for shape in np.unique(sizes, axis=1).T if len(live) else []:
            own = np.flatnonzero((sizes == shape[:, None]).all(axis=0))
            cells = np.array([np.flatnonzero(site == live[place]) for place in own])
            axes = np.flatnonzero(shape > 1)
            parts = []
            for chosen in product((False, True), repeat=len(axes)):
                differing = tuple(int(axis) for axis in axes[list(chosen)]) if len(axes) else ()
                parts.append(
                    (tuple(np.flatnonzero(chosen).tolist()), self._targets(differing, live[own], atoms[:, own]))
                )
            kinds.append(_Kind(cells, tuple(int(size) for size in shape[axes]), tuple(parts)))
        return tuple(kinds)

    def _targets(
        self, differing: tuple[int, ...], sites: Integers, atoms: Integers
    ) -> tuple[tuple[int, Integers, Integers], ...]:
        """Where the parts of sites that differ along some axes go: component, sites, their live positions in it."""
        found = []
        for number, component in enumerate(self.algebra.components):
            if tuple(axis for axis, mode in enumerate(component.modes) if mode >= 0) != differing:
                continue
            fits = np.all([atoms[axis] == component.modes[axis] for axis in differing], axis=0) if differing else True
            (own,) = np.nonzero(np.broadcast_to(fits, sites.shape))
            if len(own):
                place = np.searchsorted(component.sites, sites[own])
                found.append((number, own, np.searchsorted(self.positions[number], place)))
        return tuple(found)

    def analyze(self, x: Floats) -> list[Floats]:
        """Parts of vectors on the live cells, shape ``(G, n)``, by component: ``(G, p, r)``.

        A part is the mean over an atom times the square root of its levels along attributes in the mode of atoms, and
        the difference from that mean along the others. The squares of all parts sum to those of the vector.
        """
        front = len(x)
        widths = [1] * len(self.positions)
        parts: list[tuple[int, Integers, Floats]] = []
        for kind in self._kinds:
            blocks = x[:, kind.cells].reshape(front, len(kind.cells), *kind.shape)
            for differing, targets in kind.parts:
                part = blocks
                for axis, size in enumerate(kind.shape):
                    mean = part.mean(axis=axis + 2, keepdims=True)
                    part = part - mean if axis in differing else mean * np.sqrt(size)
                flat = part.reshape(*part.shape[:2], prod(part.shape[2:]))
                for number, own, places in targets:
                    widths[number] = flat.shape[2]
                    parts.append((number, places, flat[:, own]))
        found = [np.zeros((front, len(own), width)) for own, width in zip(self.positions, widths, strict=True)]
        for number, places, part in parts:
            found[number][:, places] = part
        return found

    def synthesize(self, parts: Sequence[Floats]) -> Floats:
        """Vectors from their parts: what `analyze` took apart."""
        front = len(parts[0])
        x = np.zeros((front, len(self.cells)))
        for kind in self._kinds:
            blocks = np.zeros((front, len(kind.cells), *kind.shape))
            for differing, targets in kind.parts:
                narrow = tuple(size if axis in differing else 1 for axis, size in enumerate(kind.shape))
                scale = prod(size for axis, size in enumerate(kind.shape) if axis not in differing) ** -0.5
                part = np.zeros((front, len(kind.cells), *narrow))
                for number, own, places in targets:
                    part[:, own] = parts[number][:, places].reshape(front, len(own), *narrow)
                blocks += scale * part
            x[:, kind.cells] = blocks.reshape(front, *kind.cells.shape)
        return x

    def apply(self, blocks: Blocks, x: Floats) -> Floats:
        """Multiply vectors, shape ``(G, n)``, by matrices that blocks stand for: one a vector, or one for all."""
        return self.synthesize([block @ part for block, part in zip(blocks, self.analyze(x), strict=True)])

    def dense(self, roots: Blocks) -> Floats:
        """The matrix whose roots (of one geounit) are given, shape ``(n, n)``: for small families, and for tests."""
        return self.apply_roots(roots, np.eye(len(self.cells)))

    def apply_roots(self, roots: Blocks, x: Floats) -> Floats:
        """Multiply vectors, shape ``(G, n)``, by the matrices whose roots are given: one a vector, or one for all."""
        pairs = zip(roots, self.analyze(x), strict=True)
        return self.synthesize([np.swapaxes(root, -1, -2) @ (root @ part) for root, part in pairs])

    def traces(self, statistics: Floats) -> tuple[Floats, ...]:
        """Return what turns roots into variances of statistics, shape ``(s, n)``: their parts, ``(p, s, w)`` (E-66)."""
        parts = self.analyze(statistics)
        longest = _NO_PART * np.sqrt((statistics**2).sum(axis=1))[:, None, None]
        return tuple(_compact(np.where(np.abs(part) > longest, part, 0.0)).swapaxes(0, 1) for part in parts)

    @cached_property
    def site(self) -> Integers:
        """Position of each live cell's site among the live sites, shape ``(n,)``."""
        return np.searchsorted(np.flatnonzero(self.live), self.algebra.site[self.cells])

    @cached_property
    def ones(self) -> Floats:
        """The part of the vector of ones, which is in the first component, shape ``(p,)``."""
        return np.asarray(self.analyze(np.ones((1, len(self.cells))))[0][0, :, 0], dtype=np.float64)

    @cached_property
    def averages(self) -> Averages:
        """The same matrices as sums over averages, for compiled loops."""
        return _averages(self)


def _compact(part: Floats) -> Floats:
    """Return parts with the same products with their transposes, and as few columns as their ranks allow."""
    vectors, lengths, _ = np.linalg.svd(part, full_matrices=False)
    kept = lengths > _NO_PART * np.max(lengths, axis=1, keepdims=True, initial=0.0)
    most = int(np.max(kept.sum(axis=1), initial=0))
    return np.asarray((vectors * np.where(kept, lengths, 0.0)[:, None, :])[:, :, :most], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Averages:
    """How matrices in components act, as sums over means within sites: E sets of attributes that are averaged (E-72).

    Attributes:
        site: Position of each live cell's site among the live sites, shape ``(n,)``.
        place: For each set, position of each cell among the means of its site, shape ``(E, n)``.
        widths: For each set, number of means of each site, shape ``(E, p)``.
        shares: For each set, one over the cells that a mean is of, shape ``(E, p)``.
        terms: For each set the components in it: number, factors (p, p) with sign, live positions of its sites.
    """

    site: Integers
    place: Integers
    widths: Integers
    shares: Floats
    terms: tuple[tuple[tuple[int, Floats, Integers], ...], ...]

    def of(self, blocks: Blocks) -> Floats:
        """The matrices of all sets, shape ``(G, E, p, p)``, of blocks of G geounits."""
        sites = self.widths.shape[1]
        found = np.zeros((len(blocks[0]), len(self.terms), sites, sites))
        for number, terms in enumerate(self.terms):
            for component, factors, own in terms:
                found[:, number, own[:, None], own] += factors * blocks[component]
        return found


def _averages(frame: Frame) -> Averages:
    algebra = frame.algebra
    counts = tuple(len(attribute.sizes) for attribute in algebra.attributes)
    live = np.flatnonzero(frame.live)
    atoms = np.array(np.unravel_index(live, counts)).reshape(len(counts), len(live))
    sizes = np.array([attribute.sizes[atom] for attribute, atom in zip(algebra.attributes, atoms, strict=True)])
    wide = [axis for axis in range(len(counts)) if (sizes[axis] > 1).any()]
    levels = np.array(np.unravel_index(frame.cells, algebra.shape))
    ranks = np.array(
        [_ranks(attribute.atom)[level] for attribute, level in zip(algebra.attributes, levels, strict=True)]
    )
    place, widths, shares, terms = [], [], [], []
    for chosen in product((False, True), repeat=len(wide)):
        averaged = [axis for axis, out in zip(wide, chosen, strict=True) if out]
        kept = [axis for axis in wide if axis not in averaged]
        position = np.zeros(len(frame.cells), dtype=np.int64)
        for axis in kept:
            position = position * sizes[axis][frame.site] + ranks[axis]
        place.append(position)
        widths.append(np.prod(sizes[kept], axis=0, dtype=np.int64) if kept else np.ones(len(live), dtype=np.int64))
        shares.append(1.0 / np.prod(sizes[averaged], axis=0) if averaged else np.ones(len(live)))
        terms.append(tuple(_terms(frame, sizes, wide, kept, averaged)))
    return Averages(frame.site, np.array(place), np.array(widths), np.array(shares, dtype=np.float64), tuple(terms))


def _ranks(atom: Integers) -> Integers:
    """Position of each level among those of its atom."""
    ranks = np.zeros(len(atom), dtype=np.int64)
    for number in range(int(atom.max()) + 1):
        own = np.flatnonzero(atom == number)
        ranks[own] = np.arange(len(own))
    return ranks


def _terms(
    frame: Frame, sizes: Integers, wide: list[int], kept: list[int], averaged: list[int]
) -> Iterator[tuple[int, Floats, Integers]]:
    """Components whose differing attributes hold those that are kept; of the others each is a mean to take off."""
    sites = np.flatnonzero(frame.live)
    for number, (component, own) in enumerate(zip(frame.algebra.components, frame.positions, strict=True)):
        differing = [axis for axis, mode in enumerate(component.modes) if mode >= 0]
        if not len(own) or not set(kept) <= set(differing):
            continue
        place = np.searchsorted(sites, component.sites[own])
        narrow = [axis for axis in wide if axis not in differing]
        root = np.sqrt(np.prod(sizes[narrow][:, place], axis=0)) if narrow else np.ones(len(place))
        sign = (-1.0) ** len(set(averaged) & set(differing))
        yield number, sign * root[None, :] / root[:, None], place
