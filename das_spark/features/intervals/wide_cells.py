"""How many cells of published tables have intervals that are too wide to be of use; of what is public alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from das_spark.errors import ConfigurationError, DasError
from das_spark.privacy import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class WidthLimit:
    """How wide an interval may be.

    Attributes:
        most: In what is counted, or as a share of the estimate.
        is_share: Whether it is a share of the estimate; estimates below 0 are taken for 0.
    """

    most: Fraction
    is_share: bool = False

    @classmethod
    def of(cls, text: str) -> WidthLimit:
        """A limit as it is written: `20`, or `20%` of the estimate.

        Raises:
            ConfigurationError: The text is neither.
        """
        number, percent, rest = text.strip().partition("%")
        try:
            most = exact(number.strip(), "width")
        except DasError as error:
            raise _refused(text) from error
        if rest or most < 0:
            raise _refused(text)
        return cls(most / 100 if percent else most, bool(percent))

    def __str__(self) -> str:
        """In words."""
        return f"{float(100 * self.most):g} % of the estimate" if self.is_share else f"{float(self.most):,g}"

    def exceeded(self, estimates: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which intervals are wider.

        Args:
            estimates: Of cells, of any shape.
            low: Least count of each interval, likewise.
            high: Greatest count of each interval, likewise.
        """
        widths, most = high - low, float(self.most)
        return np.asarray(widths > (most * np.maximum(estimates, 0) if self.is_share else most))


def _refused(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"--wider-than {text}: is no width", hint='write a number of people, such as 20, or "20%" of the estimate'
    )


@dataclass(frozen=True, slots=True)
class WideCells:
    """The cells of one column of a table at one geolevel, a geounit each.

    Attributes:
        of: What intervals are made of: `coverage.MEASUREMENTS`, or `coverage.REPLICATES_OF_RUN`.
        level: Probability that an interval covers the truth.
        table: Name of the table.
        geolevel: Of the geounits.
        column: Published name of the column.
        label: What it counts, with the headings above it.
        cells: How many there are.
        wider: Those whose interval is wider than the limit.
    """

    of: str
    level: float
    table: str
    geolevel: str
    column: str
    label: str
    cells: int
    wider: int

    @property
    def share(self) -> float:
        """What part of the cells have wider intervals."""
        return self.wider / self.cells if self.cells else 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the share."""
        return {**asdict(self), "share": self.share}
