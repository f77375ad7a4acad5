"""Carries out commands of das-spark in one process and tells the key of every run to whoever started it.

    python watched_run.py DESCRIPTOR < commands.json

The key goes through a pipe, never to a file: the test looks for it in everything that the process leaves behind.
A command that begins with "faulty" is carried out with a measure task that fails when it holds the counts of a family.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from das_spark.cli.main import main
from das_spark.pipeline import levels
from das_spark.privacy import RunKey
from das_spark.spark.level_pass import _CHILD


class Failing:
    """A task with an error that quotes counts, as those of libraries may, after it has done its work."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __call__(self, families: Any) -> Any:
        self.task(families)
        raise ZeroDivisionError("a fault in a task", [family.get(_CHILD).longs.tolist() for family in families])


def tell_keys(descriptor: int) -> None:
    """Let every key that the operating system gives be written to a pipe, too."""
    original = RunKey.from_system

    def told() -> RunKey:
        key = original()
        os.write(descriptor, key._reveal())
        return key

    RunKey.from_system = told  # type: ignore[method-assign, assignment]


def carried_out(command: list[str]) -> int:
    """The exit code of one command."""
    if command[0] != "faulty":
        return main(command)
    original = levels.measurement_task
    levels.measurement_task = lambda *given: Failing(original(*given))  # type: ignore[assignment, return-value]
    try:
        return main(command[1:])
    finally:
        levels.measurement_task = original


if __name__ == "__main__":
    tell_keys(int(sys.argv[1]))
    codes = [carried_out(command) for command in json.load(sys.stdin)]
    print("exit codes", codes)
