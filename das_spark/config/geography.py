"""The geography of a run: its geolevels, and how its spine is made of areas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config.acknowledgements import given_up
from das_spark.config.load import nearest
from das_spark.config.plan import GeographySettings
from das_spark.config.sources import require_source
from das_spark.errors import Problems
from das_spark.geography import BLOCK, DHC, PRIMITIVE_LEVELS, Geolevel, Spine, SpineSettings

if TYPE_CHECKING:
    from das_spark.config.model import GeographySection, InputSettings, RunFile
    from das_spark.products import Product

CENSUS: Final = "census"
#: Readers of areas -> what they read, for users; every reader of `das_spark.spark.readers` has a line here.
AREA_READERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "grfc": "the geographic reference file (GRF-C)",
        "pl94_header": "geographic headers of the official P.L. 94-171 summary files, a folder",
        "block_assignment": "the official block assignment files of a state, a folder",
        "tidy": "a table of blocks with a column an area; Parquet or CSV",
    }
)
#: Reader of the input -> who finds the areas of blocks in the same files, and under which key of [input].
_OWN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "cef_2020": ("grfc", ("geography", "path")),
        "pl94_summary": ("pl94_header", ("path",)),
        "tidy_counts": ("tidy", ("path",)),
        "tidy_records": ("tidy", ("path",)),
    }
)
#: Reader of the input -> file of its folder that holds the areas; the folder itself is read where none is named.
_FILE_OF_AREAS: Final[Mapping[str, str]] = MappingProxyType(
    {"cef_2020": "geography.txt", "tidy_counts": "areas.parquet", "tidy_records": "areas.parquet"}
)
#: The level that is divided on every spine but that of the census, and where its digits stand in a geocode (S-3).
STATE: Final = "State"
STATE_DIGITS: Final = (2, 2)
_OVERRIDES: Final = (
    "fanout_cutoff",
    "bypass_cutoff",
    "entity_threshold",
    "group_type",
    "merge",
    "aian_categories",
    "consider_gq",
)


def known_levels(product: Product, kind: str) -> tuple[Geolevel, ...]:
    """Every level that a spine of a kind can have, root first; the product's levels are those of the census."""
    if kind == CENSUS:
        return product.geolevels
    levels = tuple(Geolevel(STATE, 3) if level.name == STATE else level for level in product.geolevels)
    if kind != "dhc":
        return levels
    names = [level.name for level in product.geolevels]
    above = names.index("County") + 1 if "County" in names else 0
    below = [level for level in product.geolevels if level.name in ("Block_Group", "Block")]
    return (*levels[:above], *PRIMITIVE_LEVELS, *below)


def spine_of(levels: Sequence[Geolevel], kind: str) -> Spine:
    """The spine of a run.

    Args:
        levels: Root first.
        kind: On all kinds but that of the census a state is divided into its part in tribal areas and the other.

    Raises:
        GeographyError: The levels do not nest.
    """
    divided = kind != CENSUS and any(level.name == STATE for level in levels)
    return Spine(tuple(levels), kind, STATE_DIGITS if divided else None)


def resolve_spine(run_file: RunFile, product: Product, problems: Problems) -> Spine | None:
    """The levels of a run."""
    kind = run_file.geography.spine
    known = {level.name: level for level in known_levels(product, kind)}
    strategy = product.strategies.get(run_file.budget.strategy or "")
    usual = strategy.geolevels if strategy else product.default_levels
    # A strategy for the census spine has no shares for the levels of the production's, which a run then lists.
    others = tuple(known) if kind == "dhc" and not set(usual) <= set(known) else usual
    names = run_file.geography.levels or others
    unknown = [name for name in names if name not in known]
    for name in unknown:
        problems.add("geography.levels", f"the product has no geolevel '{name}'; {nearest(name, known)}")
    if unknown:
        return None
    with problems.at("geography.levels"):
        return spine_of([known[name] for name in names], kind)
    return None


def resolve_geography(
    run_file: RunFile, product: Product, spine: Spine, problems: Problems, *, files: bool
) -> GeographySettings:
    """How the spine is made."""
    section = run_file.geography
    given = {name: value for name in _OVERRIDES if (value := getattr(section, name)) is not None}
    settings = SpineSettings()
    if section.crosswalk is not None and section.spine != "dhc":
        problems.add("geography.crosswalk", 'would not be read; geography.spine is not "dhc"')
    elif files and section.crosswalk is not None:
        sentence = f"{section.crosswalk}: no such file or folder"
        require_source("geography.crosswalk", section.crosswalk, problems, sentence)
    _check_parents(section, spine, problems, files=files)
    if spine.is_census:
        for name in given:
            problems.add(f"geography.{name}", 'would not be read; geography.spine is "census"')
        if section.reader is None and section.path is None:
            return GeographySettings(settings, parents=section.parents)
        areas = _areas(section, run_file.input, problems, files=files)
        return GeographySettings(settings, *areas, parents=section.parents)
    secret = _secret_group_quarters(run_file, product)
    if secret:
        given.setdefault("consider_gq", False)
    with problems.at("geography"):
        settings = replace(_production(product, section.spine), kind=section.spine, **given)
    _check_levels(spine, problems)
    _check_total(run_file.invariants.total_at or product.total_at, spine, problems)
    if settings.consider_gq and secret:
        problems.add(
            "geography.consider_gq",
            f"the spine would tell which blocks have group quarters, and {secret}; set it to false",
        )
    reader, path = _areas(section, run_file.input, problems, files=files)
    return GeographySettings(settings, reader, path, section.crosswalk)


def _secret_group_quarters(run_file: RunFile, product: Product) -> str:
    """Return why the spine may not depend on which blocks have group quarters; empty where that is public.

    Which geounits are measured, and with which noise, follows from the spine. It must not follow from people.
    """
    if not run_file.invariants.units:
        return "units are no invariant"
    made = given_up(run_file.input, product, units_invariant=True)
    return f"these follow from people ({', '.join(made)})" if made else ""


def _check_parents(section: GeographySection, spine: Spine, problems: Problems, *, files: bool) -> None:
    """A table of parents is there exactly where geounits have codes that say nothing of the geounit above."""
    if spine.own_codes and section.parents is None:
        problems.add("geography.parents", "is missing: a table (child, parent, perhaps level) says what lies in what")
    elif section.parents is not None and not spine.own_codes:
        problems.add("geography.parents", "would not be read: the geocodes of the product begin with those above them")
    elif files and section.parents is not None:
        require_source("geography.parents", section.parents, problems, f"{section.parents}: no such file", "file")


def _production(product: Product, kind: str) -> SpineSettings:
    """Settings of the production that a kind of spine is of; whether group quarters count is of the product."""
    own = product.spine_settings
    return replace(DHC, consider_gq=own.consider_gq) if kind == DHC.kind else own


def _check_total(total_at: str, spine: Spine, problems: Problems) -> None:
    """Totals that are exact are those of a level that no tribal area divides, or of whole states."""
    above = spine.names[: spine.names.index("County")] if "County" in spine.names else ()
    if total_at in spine.names and total_at not in (*above, spine.leaf.name):
        sentence = f"exact totals at '{total_at}' cannot be kept on a spine that divides it; {STATE}, or none"
        problems.add("invariants.total_at", sentence)


def _check_levels(spine: Spine, problems: Problems) -> None:
    if "County" not in spine.names or spine.leaf.length != BLOCK:
        sentence = f"a spine that is made of areas has County and Block among its levels, not {', '.join(spine.names)}"
        problems.add("geography.levels", sentence)


def _areas(
    section: GeographySection, given: InputSettings, problems: Problems, *, files: bool
) -> tuple[str | None, str | None]:
    """Who reads the areas of blocks, and what: as said, or from the files of the input."""
    own, own_path = _own_areas(given)
    reader = section.reader or own
    path = section.path or (own_path if reader == own else None)
    if reader is None:
        problems.add("geography.reader", f"is missing: who reads in which areas blocks lie; {', '.join(AREA_READERS)}")
    elif reader not in AREA_READERS:
        problems.add("geography.reader", f"unknown reader '{reader}'; {nearest(reader, AREA_READERS)}")
    elif path is None:
        problems.add("geography.path", f"is missing: {AREA_READERS[reader]}")
    elif files:
        require_source("geography.path", path, problems, f"{path}: no such file or folder")
    return reader, path


def _own_areas(given: InputSettings) -> tuple[str | None, str | None]:
    """Who finds areas in the files of the input, and where; no path where these are not named (yet)."""
    reader, keys = _OWN.get(given.reader, (None, ()))
    for key in keys:
        value = getattr(given, key)
        if value is not None:
            file = _FILE_OF_AREAS.get(given.reader, "") if key == "path" else ""
            return reader, f"{value.rstrip('/')}/{file}" if file else value
    # official files always have areas, tidy ones only in a folder that has such a table
    return (None if reader == "tidy" else reader), None
