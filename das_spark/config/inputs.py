"""What each reader needs of `[input]`, checked before Spark starts.

The readers themselves live above this room, in `io`; a test keeps the two registries equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config.counted_cells import counted_cells
from das_spark.config.load import nearest
from das_spark.config.model import SIMULATED, TABLES
from das_spark.config.published import held_counts
from das_spark.config.sources import is_there, require_source
from das_spark.errors import Problems
from das_spark.names import CSV_ENDINGS, PARQUET_ENDING

if TYPE_CHECKING:
    from das_spark.config.model import InputSettings
    from das_spark.products import Product

#: Fields of tidy tables besides the attributes of the product; `block`, the 15 digits of a census block, stands for the
#: geocode of 16 in tables that have none.
FIELDS = ("geocode", "block", "count", "unit", "unit_class", "units", "vacant")
UNITS_FROM_PEOPLE = "units_from_people"
PUBLISHED = "published"
DATASET = "dataset"
IDENTITY = "identity"
OF_RECORDS = "tidy_records"
PUBLISHED_TABLES = "published_tables"
FILE_KEYS = ("path", "persons", "units", "geography")
#: Readers of tables with named columns, which may as well be those of Spark's catalog.
_OF_TABLES: Final = ("tidy_counts", OF_RECORDS, PUBLISHED_TABLES)


@dataclass(frozen=True, slots=True)
class ReaderNeeds:
    """The keys of `[input]` that one reader understands."""

    what: str  # one sentence for `das-spark list readers`
    person_keys: tuple[str, ...]  # keys of which one must say where the people are; none needed where empty
    optional: tuple[str, ...] = ()  # keys that may be there besides
    # keys of which one must be there where units are invariant; none needed where empty
    unit_keys: tuple[str, ...] = ()
    geounit_keys: tuple[str, ...] = ()  # keys of which one must say which geounits exist; none needed where empty
    # the same where housing units are counted and people are not read; empty where one table holds whatever is counted
    housing_keys: tuple[str, ...] = ()
    # whether its files have no counts of facilities, so that it takes one facility of a type of group quarters where
    # there are people of it
    facilities_from_people: bool = False
    geounits_of_units: bool = False  # whether the units say which geounits exist where no table of geography does
    rows_are_records: bool = False  # whether its files have a row for each record, and not for each count


def _tidy(what: str, geounit_keys: tuple[str, ...], *further: str, rows_are_records: bool = False) -> ReaderNeeds:
    """A folder of tables of known names, or the tables one by one."""
    others = ("units", "geography", "columns", "code_base", "labels", "delimiter", "encoding", UNITS_FROM_PEOPLE)
    return ReaderNeeds(
        what,
        ("path", "persons"),
        (*others, *further),
        ("units", "path"),
        geounit_keys,
        geounits_of_units=True,
        rows_are_records=rows_are_records,
    )


READER_NEEDS: Mapping[str, ReaderNeeds] = MappingProxyType(
    {
        "ipums_1940": ReaderNeeds(
            "IPUMS extract EXT1940USCB.dat, fixed width (.dat or .dat.gz)",
            ("path",),
            geounits_of_units=True,
            rows_are_records=True,
        ),
        "cef_2020": ReaderNeeds(
            "census edited file of 2020: person and unit records and the geographic reference file (GRF-C)",
            ("path", "persons"),
            ("units", "geography"),
            unit_keys=("units", "path"),
            geounit_keys=("geography", "path"),
            housing_keys=("units", "path"),
            rows_are_records=True,
        ),
        "pl94_summary": ReaderNeeds(
            "official P.L. 94-171 redistricting summary files of 2020, a folder",
            ("path",),
            (UNITS_FROM_PEOPLE,),
            facilities_from_people=True,
        ),
        "tidy_counts": _tidy(
            "counts by geocode and attribute, and units by geocode; Parquet or CSV", ("units", "geography", "path")
        ),
        OF_RECORDS: _tidy(
            "one row a person or household, and one a unit; Parquet or CSV",
            ("units", "path"),
            IDENTITY,
            rows_are_records=True,
        ),
        PUBLISHED_TABLES: ReaderNeeds(
            "published counts, one row a geounit and one column a count; Parquet or CSV",
            ("path", "persons"),
            ("units", "geography", "columns", "delimiter", "encoding", "cells"),
            unit_keys=("units", "path"),
        ),
        SIMULATED: ReaderNeeds("a synthetic population, made while reading", (), ("simulate",)),
    }
)


def check_input(
    section: InputSettings, product: Product | None, *, units_invariant: bool, files: bool, problems: Problems
) -> None:
    """Check `[input]` against the reader's needs."""
    needs = READER_NEEDS.get(section.reader)
    if needs is None:
        problems.add("input.reader", f"unknown reader '{section.reader}'; {nearest(section.reader, READER_NEEDS)}")
    else:
        _check_keys(section, needs, problems)
        _check_tables(section, problems)
        _check_units_from_people(section, product, problems, units_invariant=units_invariant)
        if product is not None and product.record == "household" and section.unit_conflicts != "fail":
            sentence = f"product '{product.name}' counts the units themselves: correct those that are too few"
            problems.add("input.unit_conflicts", f'{sentence}, and leave it at "fail"')
        if files:
            _check_files(section, product, needs, problems, units_invariant=units_invariant)
    if product is not None:
        if units_invariant:
            _check_households(product, problems)
        attributes = [attribute.name for attribute in product.schema.attributes]
        classes = [f"units_{number}" for number in range(len(product.unit_classes))]
        if section.reader == PUBLISHED_TABLES:
            counted_cells(section, product, problems)
        whose = [product.records.contributor] if product.records.contributor else []
        _check_columns(section, [*attributes, *FIELDS, *classes, *whose], problems)
        if whose and section.reader in READER_NEEDS and section.reader != OF_RECORDS:
            problems.add(
                "input.reader",
                f"'{section.reader}' reads nothing that says whose a record is, and product '{product.name}' has a "
                f"column that does ({whose[0]}); use {OF_RECORDS}, or leave records.contributor out of the product and "
                f"answer for it that nobody has more than {product.records.at_most}",
            )
        if section.identity is not None and not whose:
            sentence = f"product '{product.name}' names no column that says whose a record is (records.contributor)"
            problems.add(f"input.{IDENTITY}", f"{sentence}; leave it out")
        _check_fields("code_base", section.code_base, attributes, problems)
        _check_fields("labels", section.labels, attributes, problems)
        for name in set(section.labels) & set(section.code_base):
            problems.add(f"input.code_base.{name}", "the field holds labels (input.labels), and no codes")


def check_dataset(reader: str, dataset: str | None, problems: Problems) -> None:
    """Demand the name under which all runs on the same people are counted together, for a real key on files.

    Files can be copied, converted and delivered anew; who is in them stays the same. Synthetic people need no name.
    """
    if dataset is None and reader != SIMULATED and reader in READER_NEEDS:
        problems.add(
            f"input.{DATASET}",
            "is missing: the name of the people in these files, under which all runs on them are counted in one "
            f"privacy ledger, whatever form the files have; give the same to every run on them, by --set "
            f"input.{DATASET}=NAME",
        )


def check_published(section: InputSettings, product: Product, part: str, problems: Problems, *, files: bool) -> None:
    """Demand the run whose published counts the estimates are held to, exactly where the product says so.

    Args:
        section: `[input]`.
        product: What is published.
        part: The earlier part of the joint run that publishes these counts, by what it counts; empty without one.
        problems: Is given what is wrong.
        files: Whether the run must be there.
    """
    key, held = f"input.{PUBLISHED}", product.published
    if held is None:
        if section.published is not None:
            problems.add(key, f"product '{product.name}' is held to counts of no other product; leave it out")
        return
    with problems.at("run.product"):
        held_counts(product, units=True)
    if section.published is None and not part:
        problems.add(
            key,
            f"is missing: every estimate of product '{product.name}' is held to counts that {held.product} has "
            f"published; name the folder of a finished run of {held.product}, by --set {key}=FOLDER, or put it "
            "before this one among the parts of a joint run",
        )
    elif files and section.published is not None:
        sentence = f"there is no folder {section.published}; name that of a finished run of {held.product}"
        require_source(key, section.published, problems, sentence, "folder")


def require_dataset(settings: InputSettings) -> None:
    """Refuse files without the name of a dataset, for a real key: see `check_dataset`.

    Raises:
        ConfigurationError: There is no name.
    """
    problems = Problems("run")
    check_dataset(settings.reader, settings.dataset, problems)
    problems.raise_if_any()


#: What the statement says where the unit records, which are confidential, say which geounits exist.
GEOUNITS_OF_UNITS: Final = (
    "Which geounits exist was read from the records or counts of units themselves, not from a public list: a "
    "geounit exists where one of them names it. This is published exactly, and treated as public."
)


def geounit_sentences(settings: InputSettings) -> tuple[str, ...]:
    """What the statement says of which geounits exist; whether it does follows from the input, not its settings."""
    needs = READER_NEEDS.get(settings.reader)
    if needs is None or not needs.geounits_of_units or settings.geography is not None:
        return ()
    if "geography" in needs.optional:  # tables: of a folder, or one by one
        if settings.path is None and settings.units is None:
            return ()
        if settings.path is not None and _has_list(settings.path):
            return ()
    return (GEOUNITS_OF_UNITS,)


def _has_list(folder: str) -> bool:
    """Say whether a table of geounits lies in a folder."""
    return any(is_there(f"{folder.rstrip('/')}/geography{ending}") for ending in (PARQUET_ENDING, *CSV_ENDINGS))


def _check_columns(section: InputSettings, fields: list[str], problems: Problems) -> None:
    """Check the names of columns of all tables, and of those that have names of their own."""
    of_tables = {name: named for name, named in section.columns.items() if isinstance(named, dict)}
    _check_fields("columns", [name for name in section.columns if name not in of_tables], fields, problems)
    _check_fields("columns", of_tables, [key for _, key in TABLES], problems, what="table")
    for table, named in of_tables.items():
        _check_fields(f"columns.{table}", named, fields, problems)


def _check_fields(
    key: str, fields: Iterable[str], known: Iterable[str], problems: Problems, *, what: str = "field"
) -> None:
    names = list(known)
    for field in fields:
        if field not in names:
            problems.add(f"input.{key}.{field}", f"there is no such {what}; {nearest(field, names)}")


def _check_keys(section: InputSettings, needs: ReaderNeeds, problems: Problems) -> None:
    allowed = ("reader", DATASET, *needs.person_keys, *needs.optional, "unit_conflicts")
    allowed = (*allowed, *(() if section.reader == SIMULATED else ("expected",)))
    for key in sorted(section.model_fields_set - {*allowed, PUBLISHED}):
        problems.add(f"input.{key}", f"the reader '{section.reader}' does not use it; it uses {', '.join(allowed)}")
    if section.path is not None and section.persons is not None:
        problems.add("input", "path (a folder of tables) and persons are both given; a run has one of them")


def _check_tables(section: InputSettings, problems: Problems) -> None:
    """Refuse tables of Spark's catalog where they cannot be read."""
    if section.reader in _OF_TABLES:
        return
    for key in section.tables:
        problems.add(
            f"input.{key}",
            f"the reader '{section.reader}' reads files; {', '.join(_OF_TABLES)} read tables of a catalog",
        )


def _check_households(product: Product, problems: Problems) -> None:
    """Require no more households than housing units, since those that no household lives in are listed as vacant."""
    if product.record != "household" or product.published is not None:
        return
    bounds = product.unit_bounds
    single = bool(product.class_query) and product.schema.query(product.class_query).rows == 1
    if not single or bounds is None or bounds.most != (1,):
        sentence = f"product '{product.name}' must hold households to the housing units, which are declared invariant"
        problems.add("run.product", f'{sentence}: class_query = "total", and unit_bounds with most = [1]')


def _check_units_from_people(
    section: InputSettings, product: Product | None, problems: Problems, *, units_invariant: bool
) -> None:
    if not section.units_from_people:
        return
    key = f"input.{UNITS_FROM_PEOPLE}"
    if not units_invariant:
        problems.add(key, "would not be used: invariants.units is false; leave it out")
    if product is not None and (product.record != "person" or not product.class_query):
        problems.add(key, f"product '{product.name}' counts the units themselves; leave it out")
    elif product is not None and product.unit_bounds is not None:
        # With one person a unit at most, some number of units holds any number of people.
        for label, least in zip(product.unit_classes, product.unit_bounds.least, strict=True):
            if least > 1:
                problems.add(
                    key, f"a unit of class '{label}' holds {least} people at least: not any number fills units"
                )
    if section.units is not None:
        sentence = "input.units is given, and would not be read; set this to false, or name the table as"
        problems.add(key, f"{sentence} input.geography, where it is to say which geounits exist")


def _check_files(
    section: InputSettings, product: Product | None, needs: ReaderNeeds, problems: Problems, *, units_invariant: bool
) -> None:
    counts_people = product is None or product.record == "person"
    without_classes = product is not None and not product.class_query and "units" in needs.geounit_keys
    given = units_invariant and not section.units_from_people
    people = (needs.person_keys, "nothing says where the people are")
    housing = (needs.housing_keys, "nothing says where the housing units are")
    # Units that are made from people have no table: input.units is refused then, as it would not be read.
    geounits = needs.geounit_keys
    if section.units_from_people and geounits:
        geounits = ("geography", "path")
    elif without_classes:  # records of people in no units need no units to be known
        geounits = ("geography", "units", "path")
    wanted = [
        people if counts_people or not needs.housing_keys else housing,
        (needs.unit_keys if given else (), "the units are declared invariant, and nothing gives them"),
        (geounits, "nothing says which geounits exist (that a cell is occupied does not say it)"),
    ]
    for keys, sentence in wanted:
        if keys and not any(getattr(section, key) for key in keys):
            problems.add(f"input.{keys[0]}", f"{sentence}; give it by --set input.{keys[0]}=FILE")
            break
    for key in (*FILE_KEYS, "expected"):
        value = getattr(section, key)
        if value is None or key in section.tables:
            continue
        sentence = f"there is no file or folder {value}"
        if any(sign in value for sign in "*?["):
            sentence += "; no name is a pattern, since a ledger is kept by the bytes of files: name their folder"
        require_source(f"input.{key}", value, problems, sentence)
