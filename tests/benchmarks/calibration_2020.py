"""How well the synthetic population of 2020 resembles the published one: prints Markdown, geounits of one kind a table.

Hawaii by blocks, Illinois by tracts and the nation by counties, from the files that DAS_SPARK_DATA names, beside the
same states of `das-spark simulate --like 2020`. Published blocks and tracts are protected themselves: small groups of
people are spread over more cells in them than they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das_spark.simulation import LIKES, Population, parts_of

_SHAPE = (8, 2, 2, 63)  # hhgq, voting age, Hispanic, race
_ALONE = 6  # races of one, which come first
_WHOLE = Fraction(1)
_HAWAII, _ILLINOIS = 15, 17


@dataclass(frozen=True)
class People:
    """People by geounit and cell."""

    geounits: int
    geounit: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]

    def by_geounit(self, counted: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """People of each geounit, in some of the cells."""
        count = self.count if counted is None else self.count * counted
        return np.bincount(self.geounit, weights=count, minlength=self.geounits)

    def levels(self) -> tuple[NDArray[np.int64], ...]:
        """The levels of every occupied cell."""
        return np.unravel_index(self.cell, _SHAPE)

    def share(self, counted: NDArray[np.bool_]) -> float:
        """Share of people in some of the cells."""
        return float(self.count[counted].sum() / self.count.sum())


def published(file: str, geounits: Iterable[str] | None = None) -> People:
    """People of a file of cells; the geounits of another file, or those that it has."""
    table = pq.read_table(Path(os.environ["DAS_SPARK_DATA"]) / file)
    codes = np.array(table.column("geoid").to_pylist())
    first = {"hhgq": 0, "voting_age": 1, "hispanic": 1, "cenrace": 1}  # codes of the first level
    levels = [table.column(name).to_numpy().astype(np.int64) - code for name, code in first.items()]
    known = np.array(sorted(geounits)) if geounits is not None else np.unique(codes)
    cell = np.ravel_multi_index(levels, _SHAPE)
    return People(len(known), np.searchsorted(known, codes), cell, table.column("n").to_numpy().astype(np.int64))


def simulated(parts: Iterable[int], digits: int) -> People:
    """People of synthetic states, by geounits with so many digits."""
    populations = [LIKES["2020"].make(part, 0, _WHOLE) for part in parts]
    return together([_coarser(population, digits) for population in populations])


def _coarser(population: Population, digits: int) -> People:
    known, place = np.unique([code[:digits] for code in population.geocodes.tolist()], return_inverse=True)
    size = int(np.prod(_SHAPE))
    key, where = np.unique(place[population.geounit] * size + population.cell, return_inverse=True)
    count = np.zeros(len(key), dtype=np.int64)
    np.add.at(count, where, population.count)
    return People(len(known), key // size, key % size, count)


def together(parts: list[People]) -> People:
    """The geounits of several parts."""
    starts = np.cumsum([0, *(part.geounits for part in parts)])
    geounit = np.concatenate([part.geounit + start for part, start in zip(parts, starts[:-1], strict=True)])
    return People(
        int(starts[-1]),
        geounit,
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.count for part in parts]),
    )


def largest_group(people: People) -> float:
    """Mean over people of the share that the largest group has where they live: Hispanics, or a race of the others."""
    _, _, hispanic, race = people.levels()
    group = np.where(hispanic == 1, 7, np.where(race < _ALONE, race, _ALONE))
    sums = np.zeros((people.geounits, 8))
    np.add.at(sums, (people.geounit, group), people.count)
    return float(sums.max(axis=1).sum() / sums.sum())


def figures(people: People) -> dict[str, str]:
    """What is compared."""
    total = people.by_geounit()
    inhabited = total[total > 0]
    cells = np.bincount(people.geounit, minlength=people.geounits)[total > 0]
    quarters, age, hispanic, race = people.levels()

    def quantiles(values: NDArray[np.float64]) -> str:
        return " / ".join(f"{value:,.0f}" for value in np.quantile(values, [0.1, 0.5, 0.9, 0.99]))

    in_quarters = people.by_geounit(quarters > 0)
    return {
        "geounits": f"{people.geounits:,}",
        "without people": f"{np.mean(total == 0):.1%}",
        "people: 10, 50, 90, 99 % of those with people": quantiles(inhabited),
        "occupied cells: 10, 50, 90, 99 %": quantiles(cells),
        "people a cell": f"{people.count.mean():.2f}",
        "cells of one person": f"{np.mean(people.count == 1):.1%}",
        "18 and over": f"{people.share(age == 1):.1%}",
        "Hispanic": f"{people.share(hispanic == 1):.1%}",
        "of two or more races": f"{people.share(race >= _ALONE):.1%}",
        "share of the largest group, mean over people": f"{largest_group(people):.1%}",
        "in group quarters": f"{people.share(quarters > 0):.2%}",
        "geounits with group quarters": f"{np.mean(in_quarters > 0):.1%}",
    }


def compared(title: str, real: Callable[[], People], synthetic: Callable[[], People]) -> None:
    """Print one table."""
    both = [figures(each()) for each in (real, synthetic)]
    print(f"\n**{title}**\n\n| | published | synthetic |\n|---|---|---|")
    for name in both[0]:
        print(f"| {name} | {both[0][name]} | {both[1][name]} |")


def main() -> None:
    """Compare the three."""
    data = Path(os.environ["DAS_SPARK_DATA"])
    blocks = pq.read_table(data / "hi_2020_block_units_and_gq.parquet", columns=["geoid"]).column("geoid").to_pylist()
    tracts = pq.read_table(data / "il_2020_tract_pl94_full.parquet", columns=["geoid"]).column("geoid").to_pylist()
    compared(
        "Hawaii, blocks",
        lambda: published("hi_2020_block_person_cells.parquet", blocks),
        lambda: simulated([_HAWAII], 16),
    )
    compared(
        "Illinois, tracts",
        lambda: published("il_2020_tract_person_cells.parquet", tracts),
        lambda: simulated([_ILLINOIS], 11),
    )
    compared(
        "The nation, counties",
        lambda: published("us_2020_county_person_cells.parquet"),
        lambda: simulated(parts_of("2020", _WHOLE), 5),
    )


if __name__ == "__main__":
    main()
