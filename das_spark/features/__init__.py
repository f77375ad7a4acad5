"""The features room: outputs that not every run has, a folder each, which know no other feature.

A feature is registered by its name in `FEATURES`. Its `settings.py` is a part of the configuration and knows no more
than that does; its `feature.py` says what the runner, preflight, the manifest and verification must know of it
(`das_spark.pipeline.features.Feature`), `rules.py` judges what the rest has made, and `commands` has its commands.
"""

from typing import Final

#: In the order in which a run makes them.
FEATURES: Final = ("intervals", "replicates", "place_names")
