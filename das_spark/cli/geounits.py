"""How many geounits a run will have, as far as public tables say before Spark starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.config import SIMULATED
from das_spark.errors import ConfigurationError
from das_spark.geography import CENSUS_BLOCK, block_geocode

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.geography import Spine


@dataclass(frozen=True, slots=True)
class Geounits:
    """Number of geounits of the levels that are known, and the largest families.

    Attributes:
        counts: Geolevel -> number of geounits.
        largest: Geolevel -> children of its largest family.
    """

    counts: Mapping[str, int]
    largest: Mapping[str, int]


def known_geounits(plan: RunPlan, said: Sequence[str] = ()) -> Geounits:
    """Count geounits in the public table of the run, if it is there; what the user says comes first.

    Only the column of geocodes is read. Which geounits exist is public knowledge.

    Args:
        plan: The run.
        said: Texts `LEVEL=NUMBER`.

    Raises:
        ConfigurationError: A text is malformed or names no level of the run.
    """
    # Only when it is built is it known how many geounits a spine that is made of areas has.
    geocodes = _geocodes(plan) if plan.spine.is_census else []
    counted = _counted(geocodes, plan.spine) if geocodes else Geounits({}, {})
    counts = {level.name: 1 for level in plan.spine.levels if level.length == 0}
    counts.update(counted.counts)
    for text in said:
        level, _, value = text.partition("=")
        if level not in plan.spine.names or not value.isdigit() or int(value) < 1:
            hint = f"write LEVEL=NUMBER with a level of the run: {', '.join(plan.spine.names)}"
            raise ConfigurationError(f"--geounits {text}: not a level and a number", hint=hint)
        counts[level] = int(value)
    return Geounits(counts, counted.largest)


def unread_levels(spine: Spine, counts: Mapping[str, int]) -> list[str]:
    """Levels in which every geounit is known to be an only child, which takes over its parent's estimate unmeasured.

    Args:
        spine: The levels.
        counts: Geolevel -> number of geounits, of the levels that are known.

    Returns:
        Names of the levels, from the top down.
    """
    return [
        below.name
        for above, below in pairwise(spine.levels)
        if above.name in counts and counts[above.name] == counts.get(below.name)
    ]


def _geocodes(plan: RunPlan) -> list[str]:
    """Leaf geocodes of the table that says which geounits exist; empty where there is none to read."""
    if plan.input.reader == SIMULATED:
        return _simulated(plan)
    place = plan.input.geography or plan.input.units or _in_folder(plan.input.path)
    if place is None or not place.endswith(".parquet") or not Path(place).exists():
        return []
    from pyarrow import parquet  # noqa: PLC0415 - only plans of runs with such a table need it

    geocode, block = (plan.input.columns.get(field, field) for field in ("geocode", "block"))
    known = parquet.read_schema(place).names
    column = geocode if geocode in known else block
    if column not in known:
        return []
    codes = [str(code) for code in parquet.read_table(place, columns=[column]).column(column).unique().to_pylist()]
    if column == geocode:
        return codes
    return [block_geocode(code) for code in codes if len(code) == CENSUS_BLOCK]


def _simulated(plan: RunPlan) -> list[str]:
    """Geocodes of a population that is quick to make; that of 1940 takes minutes."""
    if plan.input.population.like != "quickstart":
        return []
    from das_spark.simulation import LIKES, parts_of  # noqa: PLC0415 - see above

    made = plan.input.population
    parts = parts_of(made.like, made.share)
    return [code for part in parts for code in LIKES[made.like].make(part, made.seed, made.share).geocodes.tolist()]


def _in_folder(folder: str | None) -> str | None:
    for name in ("geography.parquet", "units.parquet"):
        if folder is not None and (Path(folder) / name).exists():
            return str(Path(folder) / name)
    return None


def _counted(geocodes: Sequence[str], spine: Spine) -> Geounits:
    counts, largest = {}, {}
    length = spine.leaf.length
    whole = {geocode for geocode in geocodes if len(geocode) == length}
    for level, above in zip(reversed(spine.levels), (*reversed(spine.levels[:-1]), None), strict=True):
        units = {geocode[: level.length] for geocode in whole}
        counts[level.name] = len(units)
        if above is not None and units:
            families = Counter(geocode[: above.length] for geocode in units)
            largest[level.name] = max(families.values())
    return Geounits(counts, largest)
