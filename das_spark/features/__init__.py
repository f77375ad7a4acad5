"""The features room: what a run publishes of its estimates, a folder each, which know no other.

What every run may have is registered in `STANDING`, by the name of its stage; what a run has that asks for it in a
section of its own, `[output.NAME]`, in `FEATURES`. A `settings.py` is a part of the configuration and knows no more
than that does; `feature.py` says what the runner, preflight, the manifest and verification must know
(`das_spark.pipeline.features.Publication`), `rules.py` judges what the rest has made, and `commands` has its commands.
"""

from typing import Final

#: Stage -> folder, in the order in which a run makes them.
STANDING: Final = {"census geounits": "census", "microdata": "microdata", "tabulate": "tables"}
#: Behind those, in the order in which a run makes them.
FEATURES: Final = ("intervals", "replicates", "place_names")
