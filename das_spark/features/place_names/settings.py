"""`[output.place_names]`: which tables are written with the names of geounits, and where the names are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from das_spark.config.features import FeatureSettings
from das_spark.config.load import nearest
from das_spark.config.model import Names
from das_spark.config.resolve import chosen_tables

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.errors import Problems


class PlaceNameSettings(FeatureSettings):
    """Which tables are written with the names of geounits.

    Attributes:
        path: CSV of geolevel, geocode and name.
        tables: Names of the tables; all of sums where a run file names none.
        geolevels: Of the census, from the top; all where a run file names none.
    """

    name: ClassVar[str] = "place_names"
    sources: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    tables: Names | None = None
    geolevels: Names | None = None

    def resolved(self, plan: RunPlan, problems: Problems) -> Self:
        """Name all tables and geolevels where none are named."""
        key, census = f"output.{self.name}", plan.product.census(plan.spine).names
        for name in self.named_geolevels:
            if name not in census:
                near = nearest(name, census)
                problems.add(f"{key}.geolevels", f"'{name}': there is no such geolevel in the run; {near}")
        geolevels = tuple(name for name in census if name in (self.geolevels or census))
        tables = chosen_tables(key, self.tables, plan, geolevels or None, problems)
        return self.model_copy(update={"tables": tables, "geolevels": geolevels})


SETTINGS: Final = PlaceNameSettings
