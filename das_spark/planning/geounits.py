"""How many geounits a run will have: from the public table of its input, or as the user says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.config import READER_NEEDS
from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import CENSUS_BLOCK, block_geocode

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.geography import Spine


@dataclass(frozen=True, slots=True)
class GeounitCounts:
    """Number of geounits of the levels that are known, and of children of their largest families, by geolevel."""

    counts: Mapping[str, int]
    largest: Mapping[str, int]


def known_geounits(plan: RunPlan, said: Sequence[str] = ()) -> GeounitCounts:
    """Count geounits in the public table of the run, if it is there; what the user says comes first.

    Only the column of geocodes is read. Which geounits exist is public knowledge.
    """
    # Only when it is built is it known how many geounits a spine that is made of areas has.
    geocodes = _geocodes(plan) if plan.spine.is_census else []
    counted = _counted(geocodes, plan.spine) if geocodes else GeounitCounts({}, {})
    counts = {level.name: 1 for level in plan.spine.levels if level.length == 0}
    counts.update(counted.counts)
    for text in said:
        level, _, value = text.partition("=")
        if level not in plan.spine.names or not value.isdigit() or int(value) < 1:
            hint = f"write LEVEL=NUMBER with a level of the run: {', '.join(plan.spine.names)}"
            raise ConfigurationError(f"--geounits {text}: not a level and a number", hint=hint)
        counts[level] = int(value)
    return GeounitCounts(counts, counted.largest)


def require_geounits(plan: RunPlan, counts: Mapping[str, int], option: str) -> None:
    """Refuse an option that needs the number of geounits of every level, where one is not known.

    Raises:
        ConfigurationError: Which are missing, and how they are said.
    """
    if missing := [name for name in plan.spine.names if name not in counts]:
        raise ConfigurationError(
            f"{option}: it is not known how many geounits there are in {', '.join(missing)}",
            hint=f"say so: {' '.join(f'--geounits {name}=NUMBER' for name in missing)}",
        )


def _geocodes(plan: RunPlan) -> list[str]:
    """Leaf geocodes of the table that says which geounits exist; empty where there is none to read."""
    if plan.input.is_simulated:
        return _simulated(plan)
    needs = READER_NEEDS.get(plan.input.reader)
    if plan.spine.own_codes or needs is None or "columns" not in needs.optional:  # no table, or none of geocodes
        return []
    # Only plans of runs with such a table need them.
    from das_spark.io.input_files import CsvForm, companion, is_catalog_table  # noqa: PLC0415
    from das_spark.io.input_places import is_there  # noqa: PLC0415
    from das_spark.io.input_tables import InputTable  # noqa: PLC0415

    given, folder = plan.input, plan.input.path
    places = {"geography": given.geography, "units": given.units}
    if not any(places.values()) and folder:
        places = {name: companion(folder, name) for name in places}
    key, place = next(((name, place) for name, place in places.items() if place), ("", ""))
    if not place or is_catalog_table(place) or not is_there(place):
        return []
    table, named = InputTable.open(place, CsvForm.of(given)), given.columns_of(key)
    geocode, block = (named.get(field, field) for field in ("geocode", "block"))
    column = geocode if geocode in table.columns else block
    if column not in table.columns:
        return []
    codes = [code for code in table.texts([column]).column(0).unique().to_pylist() if code is not None]
    length = max(plan.spine.leaf.length, 1) if column == geocode else CENSUS_BLOCK  # the root's geocode is "0"
    if wrong := sum(len(code) != length for code in codes):
        raise InputError(
            f"{place}, {column}: expected geocodes of {length} characters; not so of {wrong:,} of {len(codes):,}",
            hint="codes are text with their leading zeros, of the lowest geolevel of the run",
        )
    return codes if column == geocode else list(map(block_geocode, codes))


def _simulated(plan: RunPlan) -> list[str]:
    """Geocodes of a population that is quick to make; that of 1940 takes minutes."""
    if plan.input.population.like != "quickstart":
        return []
    from das_spark.simulation import LIKES, parts_of  # noqa: PLC0415 - see above

    made = plan.input.population
    parts = parts_of(made.like, made.share)
    return [code for part in parts for code in LIKES[made.like].make(part, made.seed, made.share).geocodes.tolist()]


def _counted(geocodes: Sequence[str], spine: Spine) -> GeounitCounts:
    counts, largest = {}, {}
    for level, above in zip(reversed(spine.levels), (*reversed(spine.levels[:-1]), None), strict=True):
        units = {geocode[: level.length] for geocode in geocodes}
        counts[level.name] = len(units)
        if above is not None and units:
            families = Counter(geocode[: above.length] for geocode in units)
            largest[level.name] = max(families.values())
    return GeounitCounts(counts, largest)
