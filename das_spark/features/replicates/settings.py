"""`[output.replicates]`: how often a run is done again on its own output, and which tables have intervals from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from pydantic import Field

from das_spark.config.features import FeatureSettings
from das_spark.config.model import Level, Names
from das_spark.config.resolve import chosen_tables

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.errors import Problems


class ReplicateSettings(FeatureSettings):
    """How often a run is done again, and which intervals of published counts follow.

    Attributes:
        runs: Number of replicates.
        level: Probability that an interval covers the truth.
        tables: Names of the tables; all that have intervals where a run file names none.
    """

    name: ClassVar[str] = "replicates"

    runs: int = Field(ge=1)
    level: Level
    tables: Names | None = None

    def resolved(self, plan: RunPlan, problems: Problems) -> Self:
        """Name all tables where none are named."""
        tables = chosen_tables(f"output.{self.name}", self.tables, plan, None, problems)
        return self.model_copy(update={"tables": tables})


SETTINGS: Final = ReplicateSettings
