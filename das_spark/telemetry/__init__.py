"""What is logged: events by codes that stay, the restricted log of a run, and lines of JSON for collectors of logs.

`Event` is the registry: an interface, whose codes never change their meaning. An event becomes a record of Python's
`logging` by `log_record`. Handlers of `logging` take such records: `RunLog` appends them to the log of a run, which is
restricted; `JsonLines` prints them as JSON, `TextLines` hands their text to a function, a `LiveHandler` shows stages
as they go on; `lineage_events` makes one that tells a collector of OpenLineage how drivers begin and end. `Reporter` is
what a run logs with: `log` writes to the restricted log alone, `report` to whoever follows the run as well, with the
figures that the text for people holds and no others. `read_log` reads a log back; `history` says what its lines say
together: stages and their cost, drivers and how they ended, warnings and errors.
"""

from das_spark.telemetry.events import Event
from das_spark.telemetry.history import (
    FINISHED,
    LEFT,
    driver_attempts,
    has_ended,
    logged_stages,
    slowest_families,
    warnings_of,
)
from das_spark.telemetry.lineage import LineageOf, lineage_events
from das_spark.telemetry.logs import (
    COMMON,
    JsonLines,
    LiveHandler,
    Reporter,
    RunLog,
    ToLogger,
    log_record,
    read_log,
    said_somewhere,
)

__all__ = [
    "COMMON",
    "FINISHED",
    "LEFT",
    "Event",
    "JsonLines",
    "LineageOf",
    "LiveHandler",
    "Reporter",
    "RunLog",
    "ToLogger",
    "driver_attempts",
    "has_ended",
    "lineage_events",
    "log_record",
    "logged_stages",
    "read_log",
    "said_somewhere",
    "slowest_families",
    "warnings_of",
]
