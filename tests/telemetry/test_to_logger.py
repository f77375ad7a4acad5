"""Callers of the package hear of runs by the logger `das_spark`, and where they have set up none, on standard error."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from das_spark.telemetry import Event, Reporter, ToLogger, said_somewhere


def reported() -> None:
    reporter = Reporter(ToLogger(), "first")
    reporter.report("ingest: 1.0 s", Event.STAGE_FINISHED, {"stage": "ingest", "seconds": 1.0})
    reporter.report("ingest: no executor for 60 s", Event.EXECUTORS_MISSING, {"stage": "ingest", "seconds": 60.0})
    reporter.to("run 1 of 2: first")  # type: ignore[operator]


def test_records_go_to_the_logger_of_the_package_with_their_fields(caplog):
    with caplog.at_level("INFO", "das_spark"):
        reported()
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("das_spark", "INFO", "ingest: 1.0 s"),
        ("das_spark", "WARNING", "ingest: no executor for 60 s"),
        ("das_spark", "INFO", "run 1 of 2: first"),
    ]
    assert caplog.records[0].fields == {"stage": "ingest", "seconds": 1.0}


def test_the_level_of_the_caller_holds(caplog):
    with caplog.at_level("ERROR", "das_spark"):
        reported()
    assert caplog.records == []


PROGRAM = """
import logging, sys
sys.path.insert(0, {folder!r})
{setup}
from das_spark.telemetry import said_somewhere
import test_to_logger
with said_somewhere():
    test_to_logger.reported()
print(logging.getLogger("das_spark").handlers, logging.getLogger("das_spark").level)
"""


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("", "ingest: 1.0 s\ningest: no executor for 60 s\nrun 1 of 2: first\n"),
        ("logging.basicConfig(level='INFO', format='mine: %(message)s')", "mine: ingest: 1.0 s\n"),
        ("logging.basicConfig(level='ERROR')", ""),
    ],
)
def test_without_any_logging_lines_go_to_standard_error_and_nothing_stays(setup, said):
    from pathlib import Path

    program = PROGRAM.format(folder=str(Path(__file__).parent), setup=setup)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(said)
    assert bool(done.stderr) is bool(said)
    assert done.stdout == "[] 0\n"


def test_a_failure_leaves_no_handler_behind():
    logger = logging.getLogger("das_spark")
    before = list(logger.handlers), logger.level
    with pytest.raises(ValueError, match="x"), said_somewhere():
        raise ValueError("x")
    assert (list(logger.handlers), logger.level) == before
