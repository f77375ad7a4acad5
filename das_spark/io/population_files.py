"""Simulated populations as files: a folder of tidy Parquet tables, or the layouts in which censuses are kept.

Those are the IPUMS extract of 1940, and the census edited file (CEF) of 2020 with its geographic reference file.

Parts (states) are made and written one by one, so that memory stays bounded by the largest.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.config import near
from das_spark.errors import ConfigurationError, OutputError
from das_spark.io import cef, ipums_1940
from das_spark.io.cef import ENDINGS, FILES
from das_spark.io.cef_people import people_lines
from das_spark.simulation import LIKES, People2020, Population, PopulationKind, Records, parts_of
from das_spark.store import discard, disk_errors, write_durably

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from das_spark.simulation.population import Counts

_Layout = Literal["tidy", "ipums", "cef"]
_LAYOUTS: Mapping[_Layout, tuple[str, ...]] = {
    "tidy": tuple(LIKES),
    "ipums": ("1940",),
    "cef": ("2020", "2020-state"),
}
"""Every layout, and the populations that it can hold."""

DHC: Final = "dhc_2020"
"""Family of products for which a population has relationships and households."""

_OF_DHC = ("2020-state", "cef")

_IPUMS_FILE = "EXT1940USCB.dat"


@dataclass(frozen=True, slots=True)
class _PopulationSummary:
    """What was written, and how to make it again."""

    like: str
    share: str
    seed: int
    layout: str
    product: str
    files: tuple[str, ...]
    persons: int
    units: int
    vacant: int
    geounits: int
    cells: int


#: Persons, occupied units, vacant units, geounits and occupied cells.
_Tally = tuple[int, int, int, int, int]
_ADULT = 18


def simulate(
    out: Path,
    like: str = "1940",
    share: Fraction = Fraction(1),
    layout: _Layout = "tidy",
    seed: int = 0,
    *,
    product: str = "",
    compress: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> _PopulationSummary:
    """Make a population and write it into a new folder, with `population.json` and a README beside it.

    For the product `DHC` people have relationships, ages and households; otherwise what the population counts them by.
    """
    kind = _kind(like, layout, share, product)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out}: there is something already", hint="choose a new folder with --out")
    draft = out.with_name(f".{out.name}.draft")
    with disk_errors(out):
        discard(draft)
        draft.mkdir(parents=True)
        try:
            if product:
                tally = _write_people(draft, kind, share, seed, compress=compress, progress=progress)
            else:
                tally = _write(draft, kind, share, seed, layout, compress=compress, progress=progress)
            files = tuple(sorted(path.name for path in draft.iterdir()))
            summary = _PopulationSummary(like, str(share), seed, layout, product, files, *tally)
            write_durably(draft / "population.json", json.dumps({"version": 1, **asdict(summary)}, indent=2) + "\n")
            write_durably(draft / "README.md", _readme(summary, kind))
            if out.exists():
                out.rmdir()
            draft.rename(out)
        finally:
            discard(draft)
    return summary


def _kind(like: str, layout: _Layout, share: Fraction, product: str) -> PopulationKind:
    if like not in LIKES:
        raise ConfigurationError(f"there is no population {like!r}; known: {', '.join(LIKES)}", hint=near(like, LIKES))
    if layout not in _LAYOUTS:
        raise ConfigurationError(f"there is no layout {layout!r}", hint=f"known: {', '.join(_LAYOUTS)}")
    if like not in _LAYOUTS[layout]:
        fitting = " and ".join(_LAYOUTS[layout])
        raise ConfigurationError(f"the layout {layout!r} is that of {fitting}, not of a population like {like!r}")
    if product not in ("", DHC):
        raise ConfigurationError(f"there is no population made for a product {product!r}", hint=f"known: {DHC}")
    if product and (like, layout) != _OF_DHC:
        raise ConfigurationError(
            f"people of {product!r} are made like {_OF_DHC[0]}, in the layout {_OF_DHC[1]!r} alone"
        )
    if not 0 < share <= 1:
        raise ConfigurationError('share: expected a share above 0 and up to 1, such as "1/100"')
    return LIKES[like]


def _write(
    folder: Path,
    kind: PopulationKind,
    share: Fraction,
    seed: int,
    layout: _Layout,
    *,
    compress: bool,
    progress: Callable[[int, int], None] | None,
) -> _Tally:
    tally = np.zeros(5, dtype=np.int64)
    parts = parts_of(kind.name, share)
    text_writer = _ipums_writer if layout == "ipums" else _cef_writer
    writer = _tidy_writer(folder, kind) if layout == "tidy" else text_writer(folder, compress=compress)
    with writer as write:
        for done, part in enumerate(parts, start=1):
            made = kind.make(part, seed, share)
            write(made)
            tally += (made.persons, made.units.sum(), made.vacant.sum(), len(made.geocodes), len(made.cell))
            if progress is not None:
                progress(done, len(parts))
    return cast("_Tally", tuple(int(each) for each in tally))


def _write_people(
    folder: Path,
    kind: PopulationKind,
    share: Fraction,
    seed: int,
    *,
    compress: bool,
    progress: Callable[[int, int], None] | None,
) -> _Tally:
    """Write a state person by person."""
    state = People2020.of(seed, share)
    unit, persons, occupied, vacant = cef.FIRST_UNIT, 0, 0, 0
    cells: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    with _cef_files(folder, compress=compress) as (of_persons, of_units, geography):
        geography.write(cef.block_lines(state.geocodes, cef.FIRST_BLOCK))
        for records in state.records():
            unit_lines, person_lines, number = people_lines(state.geocodes, records, unit, cef.FIRST_BLOCK)
            of_units.write(unit_lines)
            of_persons.write(person_lines)
            unit, persons = unit + number, persons + len(records.unit)
            empty = int((records.vacancy > 0).sum())
            vacant, occupied = vacant + empty, occupied + number - empty
            cells = np.concatenate([cells, np.unique(_cells_of(records, kind))])
    if progress is not None:
        progress(1, 1)
    return persons, occupied, vacant, len(state.geocodes), len(cells)


def _cells_of(records: Records, kind: PopulationKind) -> NDArray[np.int64]:
    """Block and cell of each person, as one number."""
    hhgq = np.minimum(records.quarters[records.unit] // 100, kind.shape[0] - 1)
    levels = (hhgq, (records.age >= _ADULT).astype(np.int64), records.hispanic, records.race)
    cell = np.ravel_multi_index(levels, kind.shape)
    return records.block[records.unit] * int(np.prod(kind.shape)) + cell


@contextmanager
def _tidy_writer(folder: Path, kind: PopulationKind) -> Iterator[Callable[[Population], None]]:
    geocode, number = ("geocode", pa.string()), pa.int64()
    attributes = [(name, pa.int8()) for name, _ in kind.attributes]
    classes = [(f"units_{each}", number) for each in range(kind.attributes[0][1])]
    persons = pa.schema([geocode, *attributes, ("count", number)])
    units = pa.schema([geocode, *classes, ("vacant", number)])
    with (
        _household_writer(folder, kind) as write_households,
        pq.ParquetWriter(folder / "persons.parquet", persons, compression="zstd") as of_persons,
        pq.ParquetWriter(folder / "units.parquet", units, compression="zstd") as of_units,
    ):

        def write(population: Population) -> None:
            at = population.geocodes[population.geounit]
            of_persons.write_table(_cell_table(at, population.cell, population.count, kind.attributes))
            of_units.write_table(_unit_table(population.geocodes, population.units, population.vacant))
            write_households(population)

        yield write


@contextmanager
def _household_writer(folder: Path, kind: PopulationKind) -> Iterator[Callable[[Population], None]]:
    """Writes households and units by the detailed type of facilities, where the people of a population have them."""
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}

        def table(name: str, rows: pa.Table) -> None:
            if name not in writers:
                writer = pq.ParquetWriter(folder / f"{name}.parquet", rows.schema, compression="zstd")
                writers[name] = stack.enter_context(writer)
            writers[name].write_table(rows)

        def write(population: Population) -> None:
            made = population.households
            if made is not None:
                at = population.geocodes[made.geounit]
                table("households", _cell_table(at, made.cell, made.count, kind.households))
                units = np.concatenate([population.units[:, :1], made.facilities], axis=1)
                table("living_quarters", _unit_table(population.geocodes, units, population.vacant))

        yield write


def _cell_table(
    geocodes: NDArray[np.str_], cell: Counts, count: Counts, attributes: tuple[tuple[str, int], ...]
) -> pa.Table:
    """A row for every occupied cell."""
    codes = np.unravel_index(cell, tuple(size for _, size in attributes))
    columns = {"geocode": pa.array(geocodes.tolist(), pa.string())}
    for (name, _), code in zip(attributes, codes, strict=True):
        columns[name] = pa.array(code.astype(np.int8))
    return pa.table({**columns, "count": pa.array(count)})


def _unit_table(geocodes: NDArray[np.str_], units: Counts, vacant: Counts) -> pa.Table:
    """A row for every geounit."""
    columns = {"geocode": pa.array(geocodes.tolist(), pa.string())}
    for level in range(units.shape[1]):
        columns[f"units_{level}"] = pa.array(np.ascontiguousarray(units[:, level]))
    return pa.table({**columns, "vacant": pa.array(vacant)})


@contextmanager
def _text_file(path: Path, *, compress: bool) -> Iterator[BinaryIO]:
    # No time and no name in the header: the same population gives the same bytes.
    with (path.with_name(f"{path.name}.gz") if compress else path).open("wb") as raw:
        opened = gzip.GzipFile("", "wb", 6, raw, mtime=0) if compress else raw
        with cast("BinaryIO", opened) as file:
            yield file


@contextmanager
def _ipums_writer(folder: Path, *, compress: bool) -> Iterator[Callable[[Population], None]]:
    serial = 1
    with _text_file(folder / _IPUMS_FILE, compress=compress) as file:

        def write(population: Population) -> None:
            nonlocal serial
            for text, units in ipums_1940.lines(population, serial):
                file.write(text)
                serial += units

        yield write


@contextmanager
def _cef_files(folder: Path, *, compress: bool) -> Iterator[tuple[BinaryIO, BinaryIO, BinaryIO]]:
    """The files of persons, units and geography, the latter begun."""
    with ExitStack() as stack:
        paths = [folder / f"{name}{ENDINGS[0]}" for name in FILES]
        persons, units, geography = (stack.enter_context(_text_file(path, compress=compress)) for path in paths)
        geography.write(cef.HEADER)
        yield persons, units, geography


@contextmanager
def _cef_writer(folder: Path, *, compress: bool) -> Iterator[Callable[[Population], None]]:
    unit, block = cef.FIRST_UNIT, cef.FIRST_BLOCK
    with _cef_files(folder, compress=compress) as (persons, units, geography):

        def write(population: Population) -> None:
            nonlocal unit, block
            geography.write(cef.block_lines(population.geocodes, block))
            for of_units, of_persons, number in cef.record_lines(population, unit, block):
                units.write(of_units)
                persons.write(of_persons)
                unit += number
            block += len(population.geocodes)

        yield write


def _readme(summary: _PopulationSummary, kind: PopulationKind) -> str:
    return _README.format(
        shape=" x ".join(f"{name} ({size})" for name, size in kind.attributes),
        tables=_TABLES[summary.layout],
        people=_PEOPLE if summary.product else "",
        option=f" --product {summary.product}" if summary.product else "",
        **asdict(summary),
    )


_TABLES = {
    "tidy": """\
`persons.parquet` has a row for every occupied cell, its codes counted from 0. `units.parquet` has a row for every
geounit, empty ones too: `units_0`, `units_1`, ... are occupied units by class, `vacant` are vacant housing units.
`households.parquet` and `living_quarters.parquet`, where they are there, are the same of households: `units_0` are
occupied housing units, and `units_1`, ... facilities of each detailed type.""",
    "ipums": """\
One file in the layout of the IPUMS extract: H and P lines of 159 and 273 characters; fields that das_spark does not
read hold zeros.""",
    "cef": """\
`persons.txt` and `units.txt` are lines of the census edited file of 2020, of 91 and 76 characters; `geography.txt`
holds every block, empty ones too, with those columns of the geographic reference file (GRF-C) that das_spark reads.
Fields that it does not read hold what is allowed there.""",
}

_PEOPLE = """
People have relationships, sex and single years of age; group quarters have their detailed types, and housing units
tenure or a kind of vacancy. What a unit record says of a household is what its person records say.
"""

_README = """\
# A simulated population like {like}

Nobody lives here: every person was drawn by a random number generator. Nothing in this folder is confidential.

{persons:,} persons, {units:,} occupied units and {vacant:,} vacant ones in {geounits:,} geounits.
Cells: {shape}.

{tables}
{people}
Made by `das-spark simulate --like {like}{option} --share {share} --seed {seed} --layout {layout} --out FOLDER`
"""
