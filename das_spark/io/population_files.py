"""Simulated populations as files: a folder of tidy Parquet tables, or the layouts in which censuses are kept.

Those are the IPUMS extract of 1940, and the census edited file (CEF) of 2020 with its geographic reference file.

Parts (states) are made and written one by one, so that memory stays bounded by the largest.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.config import PRODUCT_FILE, find_product
from das_spark.errors import ConfigurationError, did_you_mean
from das_spark.io import cef, ipums_1940
from das_spark.io.cef import ENDINGS, FILES
from das_spark.io.cef_people import people_lines
from das_spark.places import Place, system_of
from das_spark.simulation import (
    LIKES,
    PERSON_ATTRIBUTES,
    People2020,
    Population,
    PopulationKind,
    class_cells,
    class_units,
    contributors,
    entities,
    parts_of,
    person_cells,
    population_kind,
)
from das_spark.store import files_below, new_folder, write_durably

if TYPE_CHECKING:
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

_NATION: Final = "2020"
_OF_2020: Final = (_NATION, "2020-state")
"""Populations that can be made for it, in the layouts tidy and cef, and whose blocks have housing units and areas."""

_BLOCK: Final = "Block"
LOWEST: Final = {"County": 5, "Tract": 11, "Block_Group": 12, _BLOCK: 16}
"""Geolevels that tidy tables of `DHC` may go down to, and the digits of their geocodes."""

_REDISTRICTING: Final = "redistricting"
"""Folder of the same people as the redistricting data count them."""

_IPUMS_FILE = "EXT1940USCB.dat"


@dataclass(frozen=True, slots=True)
class _PopulationSummary:
    """What was written, and how to make it again."""

    like: str
    share: str
    seed: int
    layout: str
    product: str
    lowest: str
    files: tuple[str, ...]
    persons: int
    units: int
    vacant: int
    geounits: int
    cells: int


#: Persons, occupied units, vacant units, geounits and occupied cells.
_Tally = tuple[int, int, int, int, int]


def simulate(  # noqa: PLR0913 - an option each
    out: Place,
    like: str = "1940",
    share: Fraction = Fraction(1),
    layout: _Layout = "tidy",
    seed: int = 0,
    *,
    product: str = "",
    lowest: str = _BLOCK,
    compress: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> _PopulationSummary:
    """Make a population and write it into a new folder, with `population.json` and a README beside it.

    For the product `DHC` people have relationships, ages and households; otherwise what the population counts them by.
    Its tidy tables count persons in the geounits of the geolevel `lowest`.
    """
    kind = _kind(like, layout, share, product, lowest)
    with new_folder(out) as made:
        if product and layout == "tidy":
            tally = _write_counts(made, kind, share, seed, lowest, progress)
        elif product:
            tally = _write_people(made, kind, share, seed, compress=compress, progress=progress)
        else:
            tally = _write(made, kind, share, seed, layout, compress=compress, progress=progress)
        files = tuple(sorted(files_below(made)))
        summary = _PopulationSummary(like, str(share), seed, layout, product, lowest, files, *tally)
        write_durably(made / "README.md", _readme(summary, kind))
        write_durably(made / "population.json", json.dumps({"version": 1, **asdict(summary)}, indent=2) + "\n")
    return summary


def _kind(like: str, layout: _Layout, share: Fraction, product: str, lowest: str) -> PopulationKind:
    of_file = like.endswith(PRODUCT_FILE)
    if like not in LIKES and not of_file:
        raise ConfigurationError(
            f"there is no population {like!r}; known: {', '.join(LIKES)}, and product files such as my_census.toml",
            hint=did_you_mean(like, LIKES),
        )
    if layout not in _LAYOUTS:
        raise ConfigurationError(f"there is no layout {layout!r}", hint=f"known: {', '.join(_LAYOUTS)}")
    if like not in _LAYOUTS[layout] and not (of_file and layout == "tidy"):
        fitting = " and ".join(_LAYOUTS[layout])
        raise ConfigurationError(f"the layout {layout!r} is that of {fitting}, not of a population like {like!r}")
    if product not in ("", DHC):
        raise ConfigurationError(f"there is no population made for a product {product!r}", hint=f"known: {DHC}")
    if product and like not in _OF_2020:
        raise ConfigurationError(f"people of {product!r} are made like {' and '.join(_OF_2020)} alone")
    if lowest not in LOWEST:
        raise ConfigurationError(
            f"there is no geolevel {lowest!r} that tables can end at", hint=f"known: {', '.join(LOWEST)}"
        )
    if lowest != _BLOCK and not (product and layout == "tidy"):
        raise ConfigurationError(
            f"tables that end at {lowest} are made in the layout 'tidy' for the product {DHC} alone"
        )
    if not 0 < share <= 1:
        raise ConfigurationError('share: expected a share above 0 and up to 1, such as "1/100"')
    return population_kind(find_product(like), like) if of_file else LIKES[like]


def _write(
    folder: Place,
    kind: PopulationKind,
    share: Fraction,
    seed: int,
    layout: _Layout,
    *,
    compress: bool,
    progress: Callable[[int, int], None] | None,
) -> _Tally:
    tally = np.zeros(5, dtype=np.int64)
    parts = kind.parts(share)
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
    folder: Place,
    kind: PopulationKind,
    share: Fraction,
    seed: int,
    *,
    compress: bool,
    progress: Callable[[int, int], None] | None,
) -> _Tally:
    """Write states person by person."""
    unit, block, persons, occupied, vacant, cells = cef.FIRST_UNIT, cef.FIRST_BLOCK, 0, 0, 0, 0
    with _cef_files(folder, compress=compress) as (of_persons, of_units, geography):
        for state in _states(kind, share, seed, progress):
            geography.write(cef.block_lines(state.geocodes, block))
            for records in state.records():
                unit_lines, person_lines, number = people_lines(state.geocodes, records, unit, block)
                of_units.write(unit_lines)
                of_persons.write(person_lines)
                unit, persons = unit + number, persons + len(records.unit)
                empty = int((records.vacancy > 0).sum())
                vacant, occupied = vacant + empty, occupied + number - empty
                # A block is in the records of one draw alone.
                own = records.block[records.unit] * int(np.prod(kind.shape)) + class_cells(person_cells(records))
                cells += len(np.unique(own))
            block += len(state.geocodes)
    return persons, occupied, vacant, block - cef.FIRST_BLOCK, cells


def _states(
    kind: PopulationKind, share: Fraction, seed: int, progress: Callable[[int, int], None] | None
) -> Iterator[People2020]:
    """The states of a population of 2020, without people."""
    nation = kind.name == _NATION
    states = People2020.nation(seed, share) if nation else iter([People2020.of(seed, share)])
    parts = parts_of(kind.name, share)
    for done, state in enumerate(states, start=1):
        yield state
        if progress is not None:
            progress(done, len(parts))


def _write_counts(
    folder: Place,
    kind: PopulationKind,
    share: Fraction,
    seed: int,
    lowest: str,
    progress: Callable[[int, int], None] | None,
) -> _Tally:
    """Write counts of persons by what the characteristics tell of them, and by what the redistricting data do."""
    tally = np.zeros(5, dtype=np.int64)
    with _tables(folder) as write:
        for state in _states(kind, share, seed, progress):
            made = state.population(LOWEST[lowest])
            at, classes = made.geocodes[made.geounit], int(np.prod(kind.shape))
            keys, place = np.unique(made.geounit * classes + class_cells(made.cell), return_inverse=True)
            count = np.bincount(place, made.count, len(keys)).astype(np.int64)
            write("persons", _cell_table(at, made.cell, made.count, PERSON_ATTRIBUTES))
            of_classes = _cell_table(made.geocodes[keys // classes], keys % classes, count, kind.attributes)
            write(f"{_REDISTRICTING}/persons", of_classes)
            for name, units in (("units", made.units), (f"{_REDISTRICTING}/units", class_units(made.units))):
                write(name, _unit_table(made.geocodes, units, made.vacant))
            if lowest == _BLOCK:
                write("areas", _area_table(made.geocodes))
            tally += (made.persons, made.units.sum(), made.vacant.sum(), len(made.geocodes), len(made.cell))
    return cast("_Tally", tuple(int(each) for each in tally))


@contextmanager
def _tidy_writer(folder: Place, kind: PopulationKind) -> Iterator[Callable[[Population], None]]:
    with _tables(folder) as write_table:

        def write(population: Population) -> None:
            if kind.own_codes:
                write_table("parents", _parent_table(population.geocodes, kind.own_codes))
                begin, end = kind.own_codes[-1][1]
                own = np.array([geocode[begin:end] for geocode in population.geocodes.tolist()])
                population = replace(population, geocodes=own)
            at = population.geocodes[population.geounit]
            counted = _cell_table(at, population.cell, population.count, kind.attributes)
            write_table("persons", _record_table(counted, kind) if kind.contributor else counted)
            write_table("units", _unit_table(population.geocodes, population.units, population.vacant))
            if kind.name in _OF_2020:
                write_table("housing_units", _housing_table(population))
                write_table("areas", _area_table(population.geocodes))
            made = population.households
            if made is not None:  # and units by the detailed type of facilities
                at = population.geocodes[made.geounit]
                write_table("households", _cell_table(at, made.cell, made.count, kind.households))
                units = np.concatenate([population.units[:, :1], made.facilities], axis=1)
                write_table("living_quarters", _unit_table(population.geocodes, units, population.vacant))

        yield write


@contextmanager
def _tables(folder: Place) -> Iterator[Callable[[str, pa.Table], None]]:
    """Writes rows of named Parquet tables, each of them begun with its first rows."""
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}

        def write(name: str, rows: pa.Table) -> None:
            if name not in writers:
                file = stack.enter_context(_new_file(folder / f"{name}.parquet"))
                writers[name] = stack.enter_context(pq.ParquetWriter(file, rows.schema, compression="zstd"))
            writers[name].write_table(rows)

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


def _record_table(counted: pa.Table, kind: PopulationKind) -> pa.Table:
    """A row for every record, of contributors who have from one record to the most that there may be."""
    rows = np.repeat(np.arange(len(counted)), counted.column("count").to_numpy())
    names = [f"C{number:08d}" for number in contributors(len(rows), kind.at_most).tolist()]
    return counted.drop_columns(["count"]).take(pa.array(rows)).append_column(kind.contributor, pa.array(names))


def _parent_table(geocodes: NDArray[np.str_], spans: tuple[tuple[str, tuple[int, int]], ...]) -> pa.Table:
    """A row for every geounit of every level but the top: which geounit it lies in."""
    rows: dict[tuple[str, str, str], None] = {}
    for geocode in geocodes.tolist():
        for (_, above), (level, own) in pairwise(spans):
            rows[geocode[slice(*own)], geocode[slice(*above)], level] = None
    return pa.Table.from_pylist([dict(zip(("child", "parent", "level"), row, strict=True)) for row in rows])


def _housing_table(population: Population) -> pa.Table:
    """A row for the vacant housing units of a geounit, and one for the occupied ones, where there are any."""
    counts = np.stack([population.vacant, population.units[:, 0]], axis=1)
    at, cell = np.nonzero(counts)
    return _cell_table(population.geocodes[at], cell, counts[at, cell], (("h1", 2),))


def _area_table(geocodes: NDArray[np.str_]) -> pa.Table:
    """A row for every block: the areas that it lies in."""
    columns = {"geocode": pa.array(geocodes.tolist(), pa.string())}
    for name, codes in entities(geocodes).items():
        columns[name.lower()] = pa.array(codes.tolist(), pa.string())
    return pa.table(columns)


def _unit_table(geocodes: NDArray[np.str_], units: Counts, vacant: Counts) -> pa.Table:
    """A row for every geounit."""
    columns = {"geocode": pa.array(geocodes.tolist(), pa.string())}
    for level in range(units.shape[1]):
        columns[f"units_{level}"] = pa.array(np.ascontiguousarray(units[:, level]))
    return pa.table({**columns, "vacant": pa.array(vacant)})


def _new_file(path: Place) -> BinaryIO:
    return system_of(path).open_output(str(path))


@contextmanager
def _text_file(path: Place, *, compress: bool) -> Iterator[BinaryIO]:
    # No time and no name in the header: the same population gives the same bytes.
    with _new_file(path.with_name(f"{path.name}.gz") if compress else path) as raw:
        opened = gzip.GzipFile("", "wb", 6, raw, mtime=0) if compress else raw
        with cast("BinaryIO", opened) as file:
            yield file


@contextmanager
def _ipums_writer(folder: Place, *, compress: bool) -> Iterator[Callable[[Population], None]]:
    serial = 1
    with _text_file(folder / _IPUMS_FILE, compress=compress) as file:

        def write(population: Population) -> None:
            nonlocal serial
            for text, units in ipums_1940.lines(population, serial):
                file.write(text)
                serial += units

        yield write


@contextmanager
def _cef_files(folder: Place, *, compress: bool) -> Iterator[tuple[BinaryIO, BinaryIO, BinaryIO]]:
    """The files of persons, units and geography, the latter begun."""
    with ExitStack() as stack:
        paths = [folder / f"{name}{ENDINGS[0]}" for name in FILES]
        persons, units, geography = (stack.enter_context(_text_file(path, compress=compress)) for path in paths)
        geography.write(cef.HEADER)
        yield persons, units, geography


@contextmanager
def _cef_writer(folder: Place, *, compress: bool) -> Iterator[Callable[[Population], None]]:
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
    attributes = PERSON_ATTRIBUTES if summary.product and summary.layout == "tidy" else kind.attributes
    return _README.format(
        shape=" x ".join(f"{name} ({size})" for name, size in attributes),
        tables=_TABLES[summary.layout],
        people=_PEOPLE.get(summary.layout, "") if summary.product else "",
        option=(f" --product {summary.product}" if summary.product else "")
        + (f" --lowest {summary.lowest}" if summary.lowest != _BLOCK else ""),
        **asdict(summary),
    )


_TABLES = {
    "tidy": """\
`persons.parquet` has a row for every occupied cell, its codes counted from 0. `units.parquet` has a row for every
geounit, empty ones too: `units_0`, `units_1`, ... are occupied units by class, `vacant` are vacant housing units.
`households.parquet` and `living_quarters.parquet`, where they are there, are the same of households: `units_0` are
occupied housing units, and `units_1`, ... facilities of each detailed type. Where they are there,
`housing_units.parquet` counts housing units, vacant (`h1` 0) and occupied (1), and `areas.parquet` has the tribal area,
county subdivision, place and school districts of every block, in the codes of the geographic reference file.""",
    "ipums": """\
One file in the layout of the IPUMS extract: H and P lines of 159 and 273 characters; fields that das_spark does not
read hold zeros.""",
    "cef": """\
`persons.txt` and `units.txt` are lines of the census edited file of 2020, of 91 and 76 characters; `geography.txt`
holds every block, empty ones too, with those columns of the geographic reference file (GRF-C) that das_spark reads.
Fields that it does not read hold what is allowed there.""",
}

_PEOPLE = {
    "cef": """
People have relationships, sex and single years of age; group quarters have their detailed types, and housing units
tenure or a kind of vacancy. What a unit record says of a household is what its person records say.
""",
    "tidy": """
`persons.parquet` counts people by relationship or type of group quarters, sex, single years of age, origin and race;
the folder `redistricting` has the same people by what the redistricting data tell of them.
""",
}

_README = """\
# A simulated population like {like}

Nobody lives here: every person was drawn by a random number generator. Nothing in this folder is confidential.

{persons:,} persons, {units:,} occupied units and {vacant:,} vacant ones in {geounits:,} geounits.
Cells: {shape}.

{tables}
{people}
Made by `das-spark simulate --like {like}{option} --share {share} --seed {seed} --layout {layout} --out FOLDER`
"""
