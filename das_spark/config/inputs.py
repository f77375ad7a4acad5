"""What each reader needs of `[input]`, checked before Spark starts.

The readers themselves live above this room, in `io`; a test keeps the two registries equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from das_spark.config.model import Simulate
from das_spark.config.plan import InputSettings
from das_spark.config.problems import Problems, nearest

if TYPE_CHECKING:
    from das_spark.config.model import Input
    from das_spark.products import Product

#: Fields of tidy tables besides the attributes of the product; `block`, the 15 digits of a census block, stands for the
#: geocode of 16 in tables that have none.
FIELDS = ("geocode", "block", "count", "unit", "units", "vacant")
SIMULATED = "simulated"
UNITS_FROM_PEOPLE = "units_from_people"
FILE_KEYS = ("path", "persons", "units", "geography")


@dataclass(frozen=True, slots=True)
class ReaderNeeds:
    """The keys of `[input]` that one reader understands.

    Attributes:
        what: One sentence for `das-spark list readers`.
        person_keys: Keys of which one must say where the people are; none needed where empty.
        housing_keys: The same where housing units are counted and people are not read; empty where one table holds
            whatever is counted.
        optional: Keys that may be there besides.
        unit_keys: Keys of which one must be there where units are invariant; none needed where empty.
        geounit_keys: Keys of which one must say which geounits exist; none needed where empty.
        facilities_from_people: Whether its files have no counts of facilities, so that it takes one facility of a type
            of group quarters where there are people of it.
    """

    what: str
    person_keys: tuple[str, ...]
    optional: tuple[str, ...] = ()
    unit_keys: tuple[str, ...] = ()
    geounit_keys: tuple[str, ...] = ()
    housing_keys: tuple[str, ...] = ()
    facilities_from_people: bool = False


def _tidy(what: str, geounit_keys: tuple[str, ...]) -> ReaderNeeds:
    """A folder of tables of known names, or the tables one by one."""
    others = ("units", "geography", "columns", "code_base", UNITS_FROM_PEOPLE)
    return ReaderNeeds(what, ("path", "persons"), others, ("units", "path"), geounit_keys)


READER_NEEDS: Mapping[str, ReaderNeeds] = MappingProxyType(
    {
        "ipums_1940": ReaderNeeds("IPUMS extract EXT1940USCB.dat, fixed width (.dat or .dat.gz)", ("path",)),
        "cef_2020": ReaderNeeds(
            "census edited file of 2020: person and unit records and the geographic reference file (GRF-C)",
            ("path", "persons"),
            ("units", "geography"),
            unit_keys=("units", "path"),
            geounit_keys=("geography", "path"),
            housing_keys=("units", "path"),
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
        "tidy_records": _tidy("one row a person, and one a unit; Parquet or CSV", ("units", "path")),
        SIMULATED: ReaderNeeds("an invented population, made while reading", (), ("simulate",)),
    }
)


def resolve_input(
    section: Input, product: Product | None, *, units_invariant: bool, files: bool, problems: Problems
) -> InputSettings:
    """Check `[input]` against the reader's needs.

    Args:
        section: `[input]`.
        product: Its attributes may have columns and code bases; None where it is unknown.
        units_invariant: Whether the run declares the units invariant.
        files: Whether the files must be there; a plan can be made without them.
        problems: Where to note what is wrong.

    Returns:
        The settings, right or wrong.
    """
    needs = READER_NEEDS.get(section.reader)
    if needs is None:
        problems.add("input.reader", f"unknown reader '{section.reader}'; {nearest(section.reader, READER_NEEDS)}")
    else:
        _check_keys(section, needs, problems)
        _check_units_from_people(section, product, problems)
        if files:
            counts_people = product is None or product.record == "person"
            _check_files(section, needs, problems, units_invariant=units_invariant, counts_people=counts_people)
    values = section.model_dump(exclude={"simulate"})
    if section.reader == SIMULATED:
        values["simulate"] = (section.simulate or Simulate()).model_dump(mode="json")
    if product is not None:
        attributes = [attribute.name for attribute in product.schema.attributes]
        classes = [f"units_{number}" for number in range(len(product.unit_classes))]
        _check_fields("columns", section.columns, [*attributes, *FIELDS, *classes], problems)
        _check_fields("code_base", section.code_base, attributes, problems)
        values["code_base"] = {**product.code_base, **section.code_base}
    return InputSettings(**values)


def input_sentences(settings: InputSettings, *, units_invariant: bool) -> tuple[str, ...]:
    """What `plan` and the privacy statement say of units that follow from the people.

    Args:
        settings: How the run reads its input.
        units_invariant: Whether the run declares the units, so that anybody sees them.
    """
    if not units_invariant:
        return ()
    if settings.units_from_people:
        return (
            "The input has no counts of units: one housing unit is declared for each 2.5 people in households, rounded "
            "up, and one facility of a type of group quarters where it has people (input.units_from_people). The "
            "declared units of every geounit tell of its people, and this is outside the guarantee.",
        )
    sentences = []
    needs = READER_NEEDS.get(settings.reader)
    if needs is not None and needs.facilities_from_people:
        sentences.append(
            "The input has no counts of facilities of group quarters: one facility of a type is declared for each "
            "block where table P5 has people of that type. The declared facilities tell of the people, whether anybody "
            "lives in group quarters of the type, and this is outside the guarantee."
        )
    if settings.unit_conflicts == "from_people":
        sentences.append(
            "Where the units of a class contradicted the people of a geounit in the input, the nearest possible number "
            "of units was declared instead (input.unit_conflicts = from_people): there the declared units tell of the "
            "people."
        )
    return tuple(sentences)


def _check_fields(key: str, fields: Iterable[str], known: Iterable[str], problems: Problems) -> None:
    names = list(known)
    for field in fields:
        if field not in names:
            problems.add(f"input.{key}.{field}", f"there is no such field; {nearest(field, names)}")


def _check_keys(section: Input, needs: ReaderNeeds, problems: Problems) -> None:
    allowed = ("reader", *needs.person_keys, *needs.optional, "unit_conflicts")
    for key in sorted(section.model_fields_set - set(allowed)):
        problems.add(f"input.{key}", f"the reader '{section.reader}' does not use it; it uses {', '.join(allowed)}")
    if section.path is not None and section.persons is not None:
        problems.add("input", "path (a folder of tables) and persons are both given; a run has one of them")


def _check_units_from_people(section: Input, product: Product | None, problems: Problems) -> None:
    if not section.units_from_people:
        return
    key = f"input.{UNITS_FROM_PEOPLE}"
    if product is not None and not product.class_query:
        problems.add(key, f"product '{product.name}' counts the units themselves; leave it out")
    if section.units is not None:
        sentence = "input.units is given, and would not be read; set this to false, or name the table as"
        problems.add(key, f"{sentence} input.geography, where it is to say which geounits exist")


def _check_files(
    section: Input, needs: ReaderNeeds, problems: Problems, *, units_invariant: bool, counts_people: bool
) -> None:
    given = units_invariant and not section.units_from_people
    people = (needs.person_keys, "nothing says where the people are")
    housing = (needs.housing_keys, "nothing says where the housing units are")
    wanted = [
        people if counts_people or not needs.housing_keys else housing,
        (needs.unit_keys if given else (), "the units are declared invariant, and nothing gives them"),
        (needs.geounit_keys, "nothing says which geounits exist (that a cell is occupied does not say it)"),
    ]
    for keys, sentence in wanted:
        if keys and not any(getattr(section, key) for key in keys):
            problems.add(f"input.{keys[0]}", f"{sentence}; give it by --set input.{keys[0]}=FILE")
            break
    for key in FILE_KEYS:
        value = getattr(section, key)
        if value is None or Path(value).exists():
            continue
        if any(sign in value for sign in "*?["):
            reason = f"{value} is no path of a mounted file system; inputs are files or folders, by whose bytes the "
            problems.add(f"input.{key}", reason + "ledger of their budget is kept: copy them, or name their folder")
        else:
            problems.add(f"input.{key}", f"there is no file or folder {value}")
