"""Simulated populations as files: a folder of tidy Parquet tables, or the layout of the IPUMS extract of 1940.

Parts (states) are made and written one by one, so that memory stays bounded by the largest.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.errors import ConfigurationError, OutputError
from das_spark.io.files import disk_errors, write_durably
from das_spark.io.ipums_text import lines
from das_spark.simulation import LIKES, Kind, Population, parts_of

Layout = Literal["tidy", "ipums"]
LAYOUTS: tuple[Layout, ...] = ("tidy", "ipums")
IPUMS_FILE = "EXT1940USCB.dat"


@dataclass(frozen=True, slots=True)
class PopulationSummary:
    """What was written, and how to make it again.

    Args:
        like: Kind of population.
        share: Of the whole, exact.
        seed: Of all random numbers.
        layout: Of the files.
        files: Their names in the folder.
        persons: People in all.
        units: Occupied units.
        vacant: Vacant housing units.
        geounits: Leaf geounits, empty ones too.
        cells: Occupied cells over all geounits.
    """

    like: str
    share: str
    seed: int
    layout: str
    files: tuple[str, ...]
    persons: int
    units: int
    vacant: int
    geounits: int
    cells: int


def simulate(
    out: Path,
    like: str = "1940",
    share: Fraction = Fraction(1),
    layout: Layout = "tidy",
    seed: int = 0,
    *,
    compress: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PopulationSummary:
    """Make a population and write it into a new folder, with `population.json` and a README beside it.

    Args:
        out: The folder; it must not exist, or be empty. It appears when everything is written.
        like: One of `LIKES`.
        share: Of the whole, above 0 and up to 1.
        layout: "tidy" (`persons.parquet`, `units.parquet`), or "ipums" (the fixed-width file; only like 1940).
        seed: Of all random numbers.
        compress: Whether the fixed-width file is gzipped.
        progress: Is told the parts that are done, and how many there are.

    Returns:
        What was written.

    Raises:
        ConfigurationError: Unknown kind, layout or impossible share.
        OutputError: The folder holds something, or the disk is full.
    """
    kind = _kind(like, layout, share)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out}: there is something already", hint="choose a new folder with --out")
    draft = out.with_name(f".{out.name}.draft")
    with disk_errors(out):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            tally = _write(draft, kind, share, seed, layout, compress=compress, progress=progress)
            files = tuple(sorted(path.name for path in draft.iterdir()))
            summary = PopulationSummary(like, str(share), seed, layout, files, *tally)
            write_durably(draft / "population.json", json.dumps({"version": 1, **asdict(summary)}, indent=2) + "\n")
            write_durably(draft / "README.md", _readme(summary, kind))
            if out.exists():
                out.rmdir()
            draft.rename(out)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return summary


def simulate_1940(
    out: Path, share: Fraction = Fraction(1), layout: Layout = "tidy", seed: int = 0, *, compress: bool = False
) -> PopulationSummary:
    """A population like 1940; see :func:`simulate`."""
    return simulate(out, "1940", share, layout, seed, compress=compress)


def _kind(like: str, layout: str, share: Fraction) -> Kind:
    if like not in LIKES:
        raise ConfigurationError(f"there is no population {like!r}", hint=f"known: {', '.join(LIKES)}")
    if layout not in LAYOUTS:
        raise ConfigurationError(f"there is no layout {layout!r}", hint=f"known: {', '.join(LAYOUTS)}")
    if layout == "ipums" and like != "1940":
        raise ConfigurationError(f"the layout 'ipums' is that of 1940, not of a population like {like!r}")
    if not 0 < share <= 1:
        raise ConfigurationError('share: expected a share above 0 and up to 1, such as "1/100"')
    return LIKES[like]


def _write(
    folder: Path,
    kind: Kind,
    share: Fraction,
    seed: int,
    layout: Layout,
    *,
    compress: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, int, int, int, int]:
    tally = np.zeros(5, dtype=np.int64)
    parts = parts_of(kind.name, share)
    opened = _tidy_writer(folder, kind) if layout == "tidy" else _text_writer(folder, compress=compress)
    with opened as write:
        for done, part in enumerate(parts, start=1):
            made = kind.make(part, seed, share)
            write(made)
            tally += (made.persons, made.units.sum(), made.vacant.sum(), len(made.geocodes), len(made.cell))
            if progress is not None:
                progress(done, len(parts))
    return cast("tuple[int, int, int, int, int]", tuple(int(each) for each in tally))


@contextmanager
def _tidy_writer(folder: Path, kind: Kind) -> Iterator[Callable[[Population], None]]:
    with _tables(folder, kind) as (persons, units):

        def write(population: Population) -> None:
            persons.write_table(_person_table(population, kind))
            units.write_table(_unit_table(population))

        yield write


@contextmanager
def _tables(folder: Path, kind: Kind) -> Iterator[tuple[pq.ParquetWriter, pq.ParquetWriter]]:
    persons = pa.schema(
        [("geocode", pa.string()), *[(name, pa.int8()) for name, _ in kind.attributes], ("count", pa.int64())]
    )
    classes = kind.attributes[0][1]
    units = pa.schema(
        [("geocode", pa.string()), *[(f"units_{each}", pa.int64()) for each in range(classes)], ("vacant", pa.int64())]
    )
    with (
        pq.ParquetWriter(folder / "persons.parquet", persons, compression="zstd") as first,
        pq.ParquetWriter(folder / "units.parquet", units, compression="zstd") as second,
    ):
        yield first, second


def _person_table(population: Population, kind: Kind) -> pa.Table:
    codes = np.unravel_index(population.cell, kind.shape)
    columns = {"geocode": pa.array(population.geocodes[population.geounit].tolist(), pa.string())}
    for (name, _), code in zip(kind.attributes, codes, strict=True):
        columns[name] = pa.array(code.astype(np.int8))
    return pa.table({**columns, "count": pa.array(population.count)})


def _unit_table(population: Population) -> pa.Table:
    columns = {"geocode": pa.array(population.geocodes.tolist(), pa.string())}
    for level in range(population.units.shape[1]):
        columns[f"units_{level}"] = pa.array(np.ascontiguousarray(population.units[:, level]))
    return pa.table({**columns, "vacant": pa.array(population.vacant)})


@contextmanager
def _text_writer(folder: Path, *, compress: bool) -> Iterator[Callable[[Population], None]]:
    path = folder / (f"{IPUMS_FILE}.gz" if compress else IPUMS_FILE)
    # No time and no name in the header: the same population gives the same bytes.
    with path.open("wb") as raw:
        opened = gzip.GzipFile("", "wb", 6, raw, mtime=0) if compress else raw
        serial = 1
        with cast("BinaryIO", opened) as file:

            def write(population: Population) -> None:
                nonlocal serial
                for text, units in lines(population, serial):
                    file.write(text)
                    serial += units

            yield write


def _readme(summary: PopulationSummary, kind: Kind) -> str:
    return _README.format(
        shape=" x ".join(f"{name} ({size})" for name, size in kind.attributes),
        tables=_TABLES[summary.layout],
        **asdict(summary),
    )


_TABLES = {
    "tidy": """\
`persons.parquet` has a row for every occupied cell, its codes counted from 0. `units.parquet` has a row for every
geounit, empty ones too: `units_0`, `units_1`, ... are occupied units by class, `vacant` are vacant housing units.""",
    "ipums": """\
One file in the layout of the IPUMS extract: H and P lines of 159 and 273 characters; fields that das_spark does not
read hold zeros.""",
}

_README = """\
# A simulated population like {like}

Nobody lives here: every person was drawn by a random number generator. Nothing in this folder is confidential.

{persons:,} persons, {units:,} occupied units and {vacant:,} vacant ones in {geounits:,} geounits.
Cells: {shape}.

{tables}

Made by `das-spark simulate --like {like} --share {share} --seed {seed} --layout {layout} --out FOLDER`
"""
