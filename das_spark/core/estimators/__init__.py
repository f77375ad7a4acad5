"""The estimators: one module each, and one line in `ESTIMATORS`."""

from collections.abc import Mapping
from typing import Final

from das_spark.core.estimators.base import Estimator, Needs
from das_spark.core.estimators.top_down import TopDown

#: What is taken where a run file names none.
DEFAULT_ESTIMATOR: Final = "top_down"
#: Name in run files -> estimator.
ESTIMATORS: Final[Mapping[str, Estimator]] = {DEFAULT_ESTIMATOR: TopDown()}

__all__ = ["DEFAULT_ESTIMATOR", "ESTIMATORS", "Estimator", "Needs", "TopDown"]
