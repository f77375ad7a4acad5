"""Stages that every run may have besides what it publishes of its estimates, a module each.

A module says what its stage needs beforehand, what it writes and, where the order of the levels does not decide when it
is done, does it (`das_spark.pipeline.stage.RunStage`). Which of them a run has, and in which order, follows from its
plan alone (`das_spark.config.stages`).
"""

from typing import Final

#: Stage -> module, which has its class as `STAGE`.
STAGES: Final = {
    "spine": "spine",
    "ingest": "ingest",
    "published counts": "published",
    "check": "check",
    "import": "import_tables",
    "measure": "measure",
    "upward": "upward",
    "estimate": "estimate",
    "verify": "verify",
    "evaluate": "evaluate",
}
