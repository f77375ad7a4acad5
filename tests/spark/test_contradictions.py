"""Contradictions between published histograms, against counting in numpy."""

import numpy as np
import pytest

from das_spark.products import PRODUCTS
from das_spark.spark.contradictions import count_contradictions

pytestmark = pytest.mark.spark

PERSONS, UNITS, HOUSEHOLDS = "dhc_2020_person", "dhc_2020_unit", "dhc_2020_household"
#: Levels of relgq by whom they are, and others.
HEAD, SPOUSE, PARTNER, CHILD, QUARTERS = 1, 2, 3, 6, 40


def test_every_contradiction_is_counted_where_it_is(spark):
    random = np.random.default_rng(7)
    persons, households = (PRODUCTS[name].schema for name in (PERSONS, HOUSEHOLDS))
    couple, size = (households.query(name).row_of(np.arange(522)) for name in ("coupled_hh_type", "hhsize_all"))
    found, frames = [], {name: [] for name in (PERSONS, UNITS, HOUSEHOLDS)}
    for number in range(120):
        code = f"{number:03d}"
        people = random.integers(0, 3, 5) * random.integers(0, 2, 5)
        cells = np.array([HEAD, SPOUSE, PARTNER, CHILD, QUARTERS]) * (persons.size // 42) + 40
        homes, empty = random.integers(0, 3, 2)
        types = random.integers(0, 522, homes)
        for name, cell, count in (
            (PERSONS, cells, people),
            (UNITS, np.array([1, 6]), np.array([homes, empty])),
            (HOUSEHOLDS, *np.unique(types, return_counts=True)),
        ):
            kept = count > 0
            frames[name].append((code, cell[kept].tolist(), count[kept].tolist()))
        head, spouse, partner, child, _ = people.tolist()
        living = head + spouse + partner + child
        found.append(
            (
                homes > 0 and living == 0,
                living > 0 and homes == 0,
                living < (size[types] + 1).sum(),
                head != homes,
                spouse != np.isin(couple[types], (0, 1)).sum(),
                partner != np.isin(couple[types], (2, 3)).sum(),
            )
        )
    columns = "geocode string, cells array<int>, counts array<bigint>"
    made = {name: spark.createDataFrame(rows, columns) for name, rows in frames.items()}
    geounits, numbers = count_contradictions(made)
    assert geounits == 120
    assert list(numbers.values()) == np.array(found).sum(axis=0).tolist()
    assert min(numbers.values()) > 0


def test_products_that_are_not_compared_contradict_each_other_nowhere(spark):
    rows = spark.createDataFrame([("1", [0], [1])], "geocode string, cells array<int>, counts array<bigint>")
    assert count_contradictions({UNITS: rows, "my_product": rows}) == (0, {})
