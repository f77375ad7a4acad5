"""What is wrong with files of the input: described without a value, and refused together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from das_spark.errors import DasError, InputError, raised_in_task
from das_spark.io.input_fields import GEOCODE, MOST_EXAMPLES
from das_spark.io.input_files import is_catalog_table
from das_spark.places import no_room, want_of_room

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST_PROBLEMS = 20
"""Problems that one error message lists; the others are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an input file that is not as it must be; it never holds a value of the file.

    Args:
        file: File or folder.
        field: Field, as the file calls it.
        expected: What was expected there.
        rows: How many rows are not so: of a confidential file for the restricted root only, like all that follows.
        examples: Numbers of some of those rows, counted from 1: for the restricted root only, whatever the file.
        geounits: Some well-formed geocodes that are concerned.
        note: What else is counted, such as contributors.
    """

    file: str
    field: str
    expected: str
    rows: int
    examples: tuple[int, ...] = ()
    geounits: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """Return one line for screens and logs, without anything that is counted or read in confidential rows."""
        return f"{self._rule}; not so in some rows"

    def of_public_file(self) -> str:
        """Return one line about a file of public geography, with the number of its rows and some of its geounits."""
        geounits = f" (geounits {', '.join(self.geounits)})" if self.geounits else ""
        return f"{self._rule}; not so in {self.rows:,} row{'s' if self.rows != 1 else ''}{geounits}"

    @property
    def _rule(self) -> str:
        where = f"{self.file}, {self.field}" if self.field else self.file
        return f"{where}: expected {self.expected}"


class BadInputError(InputError):
    """Input files break rules; all that were found together, with row numbers in `problems` for the restricted root."""

    code = "DAS201"

    def __init__(self, message: str, *, hint: str = "", problems: tuple[Problem, ...] = ()) -> None:
        """Keep message, hint and problems."""
        super().__init__(message, hint=hint)
        self.problems = problems


def refuse(problems: Sequence[Problem], *, hint: str = "", public: bool = False) -> None:
    """Raise one error (`BadInputError`) for all problems, if there are any; `public`: of files of public geography."""
    if not problems:
        return
    lines = [problem.of_public_file() if public else str(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"and {len(problems) - _MOST_PROBLEMS} problems more")
    hint = hint or "correct the files, or the columns and code bases of [input]"
    raise BadInputError("\n".join(lines), hint=hint, problems=tuple(problems))


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turn Spark's errors about a file or folder into one that names it and quotes nothing of it.

    Raises:
        InputError: Spark could not find or read it; or what a task says of it.
        OutputError: There was no room for scratch files of the tasks that read it.
    """
    try:
        yield
    except PySparkException as error:
        raise _unreadable(file, error, error.getCondition() or "") from None
    except Py4JJavaError as error:
        raise _unreadable(file, error, "") from None


def _unreadable(file: str, error: Exception, condition: str) -> DasError:
    if own := raised_in_task(str(error)):
        return own
    if number := want_of_room(error):
        return no_room(f"{file} cannot be read", number)
    if condition.startswith("PATH_NOT_FOUND"):
        return InputError(f"{file}: no such file or folder", hint="check input.path, input.persons and input.units")
    reason = f" ({condition})" if condition else ""
    if is_catalog_table(file):
        hint = "does the session have its catalog, and may it read the table?"
        return InputError(f"{file}: cannot be read{reason}", hint=hint)
    return InputError(f"{file}: cannot be read{reason}", hint="is the file whole, and of the kind the reader expects?")


def some_geounits(frame: DataFrame) -> tuple[str, ...]:
    """A few geocodes of a frame, in order."""
    return tuple(row[0] for row in frame.select(GEOCODE).distinct().orderBy(GEOCODE).limit(MOST_EXAMPLES).collect())
