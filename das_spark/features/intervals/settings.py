"""`[output.intervals]`: which tables have intervals by the measurements alone, and at which geolevels."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from das_spark.config.features import FeatureSettings
from das_spark.config.levels import lazy_levels
from das_spark.config.load import nearest, validated
from das_spark.config.model import Level, Names
from das_spark.config.resolve import chosen_tables
from das_spark.config.sites import too_many_sites, undetermined
from das_spark.core.linear import MOST_SITES
from das_spark.errors import ConfigurationError, Problems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from das_spark.config import RunPlan

_ALL: Final = 'set measurement.rows = "all"'


class IntervalSettings(FeatureSettings):
    """Which intervals a run writes beside its tables.

    Attributes:
        level: Probability that an interval covers the truth.
        tables: Names of the tables; all that have intervals where a run file names none.
        geolevels: Of the census, from the top; all that are measured completely where a run file names none.
    """

    name: ClassVar[str] = "intervals"

    level: Level
    tables: Names | None = None
    geolevels: Names | None = None

    @property
    def of_measurements(self) -> Fraction:
        """The probability of its intervals."""
        return self.level

    def resolved(self, plan: RunPlan, problems: Problems) -> Self:
        """Name all tables and geolevels where none are named; refuse levels that are not measured on all rows."""
        key = f"output.{self.name}"
        if wrong := too_many_sites(plan.product, plan.queries.values(), MOST_SITES):
            problems.add(
                key,
                f"{wrong}; measure fewer queries that group levels (budget.queries), or ask for output.replicates, "
                "which repeat the run on its own estimates",
            )
        census = plan.product.census(plan.spine).names
        lazy = lazy_levels(plan)
        # On a spine of areas a geounit of the census is a union of geounits of the lowest level.
        complete = () if lazy and not plan.spine.is_census else tuple(name for name in census if name not in lazy)
        for name in self.named_geolevels:
            if name not in census:
                near = nearest(name, census)
                problems.add(f"{key}.geolevels", f"'{name}': there is no such geolevel in the run; {near}")
            elif name not in complete:
                said = (
                    f"{name} is measured only where the estimate of the level above is not zero, which is no unbiased"
                )
                problems.add(f"{key}.geolevels", f"{said} sample of its answers; {_ALL}")
        if len(complete) <= 1 < len(census) and self.geolevels is None:
            problems.add(key, f"need all answers, and the run keeps those that its estimates need; {_ALL}")
        measured = tuple(name for name in plan.spine.names if name not in lazy)
        if complete and (wrong := undetermined(plan, measured)):
            problems.add(key, f"{wrong}, or leave the section out")
        geolevels = tuple(name for name in census if name in (self.geolevels or complete))
        tables = chosen_tables(key, self.tables, plan, geolevels or None, problems)
        return self.model_copy(update={"tables": tables, "geolevels": geolevels})


def interval_settings(
    plan: RunPlan, level: str, tables: Sequence[str] = (), geolevels: Sequence[str] = ()
) -> IntervalSettings:
    """Say which intervals somebody wants of a run, checked as those of a run file.

    Args:
        plan: The run that measured.
        level: Probability that an interval covers the truth, such as "0.9".
        tables: Names of tables; all of the product where there are none.
        geolevels: Names of levels; all that were measured completely where there are none.

    Raises:
        ConfigurationError: There is no such table or level, or the level was not measured completely.
    """
    problems = Problems("intervals")
    data = {"level": level, "tables": tuple(tables) or None, "geolevels": tuple(geolevels) or None}
    section = validated(data, IntervalSettings, problems)
    resolved = None if section is None else section.resolved(plan, problems)
    problems.raise_if_any()
    if resolved is None:
        raise ConfigurationError("intervals: cannot be made")
    return resolved


SETTINGS: Final = IntervalSettings
