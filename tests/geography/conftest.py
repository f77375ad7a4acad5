"""The worked example: two tracts of one county, with a place, group quarters and an AIAN area; and made-up counties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from das_spark.geography import BlockTable, block_geocode

COLUMNS = {
    "aiannhce": "9999",
    "cousubfp": "99999",
    "cousubfs": "N",
    "placefp": "99999",
    "placefs": "N",
    "sdunilea": "99999",
    "sdseclea": "99999",
    "sdelmlea": "99999",
}


def build_table(blocks, gq=None, **columns) -> BlockTable:
    """Blocks of 15 digits, with columns by name; a missing column says that the blocks lie in no entity."""
    count = len(blocks)
    filled = {name: np.array(columns.get(name, [none] * count), dtype=str) for name, none in COLUMNS.items()}
    types = np.zeros((count, 7), dtype=bool) if gq is None else np.asarray(gq, dtype=bool)
    return BlockTable(geocode16=np.array([block_geocode(block) for block in blocks], dtype=str), gq=types, **filled)


def build_county(seed: int, count: int, state: str = "04", county: str = "001") -> BlockTable:
    """A county of blocks at random, in random order."""
    draw = np.random.default_rng(seed)
    tracts = max(1, count // 40)
    numbers = draw.choice(tracts * 9000, size=count, replace=False)
    blocks = [f"{state}{county}{1 + number // 9000:06d}{1000 + number % 9000:04d}" for number in numbers]

    def some(codes, none, share):
        return np.where(draw.random(count) < share, draw.choice(codes, size=count), none)

    gq = np.zeros((count, 7), dtype=bool)
    gq[draw.random(count) < 0.1, draw.integers(7)] = True
    return build_table(
        blocks,
        gq,
        aiannhce=some(["0010", "0020", "8100"], "9999", 0.1),
        cousubfp=draw.choice(["00100", "00200", "00300"], size=count),
        cousubfs=np.full(count, "A"),
        placefp=some(["11111", "22222"], "99999", 0.5),
        placefs=np.full(count, "A"),
        sdunilea=draw.choice(["00001", "00002"], size=count),
    )


@pytest.fixture(scope="session")
def table_of() -> Callable[..., BlockTable]:
    return build_table


@pytest.fixture(scope="session")
def random_county() -> Callable[..., BlockTable]:
    return build_county


@pytest.fixture(scope="session")
def worked_example() -> BlockTable:
    place, none, area = "11111", "99999", "9999"
    rows = [
        ("000100", "1000", place, area, 0),
        *[("000100", block, none, area, 0) for block in ("1001", "1002", "1003", "2000")],
        *[("000100", block, none, area, 1) for block in ("2001", "2003")],
        ("000200", "1000", place, area, 0),
        ("000100", "2002", none, "0010", 0),
    ]
    gq = np.zeros((len(rows), 7), dtype=bool)
    gq[:, 4] = [row[4] for row in rows]
    return build_table(
        [f"04001{tract}{block}" for tract, block, *_ in rows],
        gq,
        placefp=[row[2] for row in rows],
        placefs=["A"] * len(rows),
        aiannhce=[row[3] for row in rows],
    )
