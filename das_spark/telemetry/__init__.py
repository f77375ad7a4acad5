"""What is logged: events by codes that stay, the restricted log of a run, and lines of JSON for collectors of logs.

`Event` is the registry: an interface, whose codes never change their meaning. An event becomes a record of Python's
`logging` by `log_record`. Handlers of `logging` take such records: `RunLog` appends them to the log of a run, which is
restricted; `JsonLines` prints them as JSON, `TextLines` hands their text to a function. `Reporter` is what a run logs
with: `log` writes to the restricted log alone, `report` to whoever follows the run as well, with the figures that the
text for people holds and no others. `read_log` reads a log back.
"""

from das_spark.telemetry.events import INFO, Event
from das_spark.telemetry.logs import COMMON, JsonLines, LogContents, Reporter, RunLog, TextLines, log_record, read_log

__all__ = [
    "COMMON",
    "INFO",
    "Event",
    "JsonLines",
    "LogContents",
    "Reporter",
    "RunLog",
    "TextLines",
    "log_record",
    "read_log",
]
