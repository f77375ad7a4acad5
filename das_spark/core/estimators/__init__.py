"""The estimators: one module each, and one line in `ESTIMATORS`."""

from collections.abc import Mapping
from typing import Final

from das_spark.core.estimators.base import Estimator, Needs
from das_spark.core.estimators.blue_down import BlueDown
from das_spark.core.estimators.top_down import TopDown

#: Name in run files -> estimator.
ESTIMATORS: Final[Mapping[str, Estimator]] = {"top_down": TopDown(), "blue_down": BlueDown()}

__all__ = ["ESTIMATORS", "BlueDown", "Estimator", "Needs", "TopDown"]
