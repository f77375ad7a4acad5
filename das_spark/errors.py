"""The one tree of exceptions: every error has a code, an exit code and, where there is one, a hint.

Exit codes: 0 done, 1 the run failed, 2 usage or configuration, 3 refused by a privacy guard; interrupted: 130 by
Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
No message ever contains a confidential value: it names file, field, geounit and the fix.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Generic, TypeVar


class DasError(Exception):
    """Base of every error that das_spark raises on purpose.

    Args:
        message: What was found, where, and what was expected.
        hint: What to do about it; it goes on from the message, so that it begins with a small letter.
    """

    code: ClassVar[str] = "DAS000"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:  # noqa: D107 - Args stand with the class.
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """One line: code, message and hint."""
        text = f"[{self.code}] {self.message}"
        return f"{text} Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the hint when an error travels between processes."""
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[DasError], message: str, hint: str) -> DasError:
    return kind(message, hint=hint)


class ConfigurationError(DasError, ValueError):
    """A run file, an option or a product's table says something impossible."""

    code = "DAS100"
    exit_code = 2


class QueryError(ConfigurationError):
    """A query string names an unknown attribute or recode, or cannot be measured."""

    code = "DAS110"


class BudgetError(ConfigurationError):
    """A budget or share is not exact, not positive, or does not sum to 1."""

    code = "DAS120"


class GeographyError(ConfigurationError):
    """A geolevel or geocode does not fit the spine."""

    code = "DAS130"


class InputError(DasError, ValueError):
    """An input file is missing, unreadable, or holds something that is not allowed."""

    code = "DAS200"


class InfeasibleError(InputError):
    """Declared invariants and bounds contradict each other; found before any budget is spent."""

    code = "DAS210"


class UndefinedError(InputError):
    """A statistic has no value for the data that it was given; the message says why."""

    code = "DAS220"


class EstimationError(DasError, RuntimeError):
    """A family could not be estimated, or its solution could not be certified."""

    code = "DAS300"


class TaskError(DasError, RuntimeError):
    """A library failed in a task on confidential data; the text of its error is kept back: it may quote values."""

    code = "DAS310"


#: Names that a message lists.
_LISTED: Final = 60
#: Characters of a name that is compared with others, and names that it is compared with.
_LONGEST, _COMPARED = 100, 1_000
#: Characters of a key and of a sentence that a problem shows.
_SHOWN: Final = 2_000
#: Problems of a file that are shown.
MOST_PROBLEMS: Final = 50


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Guess which name was meant.

    Args:
        name: What is no known name.
        known: The names. The first thousand are compared with it, since a comparison takes a while.
        cutoff: How similar two names must be, from 0 to 1.

    Returns:
        Half a sentence, "did you mean 'x'?"; empty where no name is near, or this one is too long to be any.
    """
    meant = str(name)
    if len(meant) > _LONGEST:
        return ""
    near = get_close_matches(meant, [each for each in islice(known, _COMPARED) if len(each) <= _LONGEST], 1, cutoff)
    return f"did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str]) -> str:
    """List names for a message: all, or the first of very many; "none" where there is none."""
    rest = iter(names)
    shown = [shortened(str(name)) for name in islice(rest, _LISTED)]
    more = sum(1 for _ in rest)
    return (", ".join(shown) or "none") + (f" and {more:,} more" if more else "")


def shortened(text: str) -> str:
    """A text that a file holds, cut where it is too long for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(slots=True)
class Problems:
    """Problems of one file that somebody wrote, each with the path of its key.

    One problem more than `MOST_PROBLEMS` is raised at once with those before it: finding a name that was meant, and
    making a sentence, takes a while each, and a file may have a problem in every line.
    """

    source: str  # the file, for the message
    # pairs of key path and sentence, in the order of finding
    found: dict[tuple[str, str], None] = field(default_factory=dict)
    # key paths that are known to be wrong already: what follows from that is not said again
    muted: set[str] = field(default_factory=set)
    met: int = 0  # problems met so far, those included that were not said

    def add(self, key: str, sentence: str, rest: int = 0) -> None:
        """Note a problem; a repeated one, or one at or below a muted key, is counted but not said.

        Args:
            key: Path of the key; empty for the file.
            sentence: What is wrong.
            rest: How many problems follow that are known already, such as those of the other keys of a table.

        Raises:
            ConfigurationError: There are more than `MOST_PROBLEMS`.
        """
        self.met += 1
        if not self._is_muted(key):
            self.found[shortened(key), shortened(sentence)] = None
        if len(self.found) > MOST_PROBLEMS:
            self.found.popitem()
            self._raise(f", and {rest + 1:,} more" if rest else ", and more")

    def _is_muted(self, key: str) -> bool:
        """Whether the key, or one above it, is muted."""
        ends = [place for place, sign in enumerate(key) if sign == "."] if self.muted else []
        return any(key[:end] in self.muted for end in (*ends, len(key)))

    def at(self, key: str) -> _At:
        """Turn a configuration error of a `with` block into a problem of a key."""
        return _At(self, key)

    def raise_if_any(self) -> None:
        """Raise all problems as one error."""
        if self.found:
            self._raise("")

    def _raise(self, more: str) -> None:
        lines = [f"{key}: {sentence}" if key else sentence for key, sentence in self.found]
        if len(lines) == 1:
            raise ConfigurationError(f"{self.source}: {lines[0]}")
        raise ConfigurationError("\n  - ".join([f"{self.source}: {len(lines)} problems{more}", *lines]))


@dataclass(frozen=True, slots=True)
class _At:
    problems: Problems
    key: str

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Note a configuration error and go on; let any other pass."""
        if not isinstance(error, ConfigurationError):
            return False
        self.problems.add(self.key, f"{error.message}; {error.hint}" if error.hint else error.message)
        return True


@contextmanager
def error_text_withheld(where: str = "") -> Iterator[None]:
    """Hold back the text of whatever error of a library comes out of a block: it may quote confidential values.

    Spark writes what a task raises into the logs of executors and driver, and into event logs.

    Args:
        where: What was at work, such as "at the family of 0100"; public.

    Raises:
        TaskError: With kind and place of the error. Errors of das_spark pass: they hold no confidential value.
    """
    try:
        yield
    except DasError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text must not get out
        last = traceback.extract_tb(error.__traceback__)[-1]
        # Of an error of the operating system, such as a full disk, its own words for the number.
        words = f" ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno else ""
        place = f"{type(error).__name__}{words} in {Path(last.filename).name}, line {last.lineno}"
        raise TaskError(f"{place}, {where}" if where else place) from None


Taken = TypeVar("Taken")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class _WithoutValues(Generic[Taken, Given]):
    """A function of a task under `error_text_withheld`; a class, since Spark pickles it."""

    function: Callable[[Taken], Iterator[Given]]

    def __call__(self, rows: Taken) -> Iterator[Given]:
        """Apply the function, and its iterator, with errors held back."""
        with error_text_withheld():
            yield from self.function(rows)


def without_values(function: Callable[[Taken], Iterator[Given]]) -> Callable[[Taken], Iterator[Given]]:
    """The function of a task, of which no error text of a library gets out.

    Every function that Spark's Python workers carry out goes through this one; a test finds those that do not.

    Args:
        function: Rows in, rows out, such as `mapInArrow` takes.
    """
    return _WithoutValues(function)


#: An error of ours in what Spark reports of a Python worker; it holds no confidential value, unlike other lines there.
_IN_A_TASK: Final = re.compile(r"^das_spark\.errors\.(\w+): \[\w+\] (.+?)(?: Hint: (.+))?$", re.MULTILINE)


def raised_in_task(text: str) -> DasError | None:
    """Find the error of ours that a task has raised in the pages that Spark makes of it; None where there is none."""
    found = _IN_A_TASK.search(text)
    kind = None if found is None else globals().get(found[1])
    if found is None or not (isinstance(kind, type) and issubclass(kind, DasError)):
        return None
    return kind(found[2], hint=found[3] or "")


class VerificationError(DasError, RuntimeError):
    """Written results break a rule that they must keep."""

    code = "DAS400"


class OutputError(DasError, OSError):
    """A run folder cannot be used, or writing failed."""

    code = "DAS500"


class EnvironmentProblemError(DasError, RuntimeError):
    """Java, Spark or a library is missing or too old."""

    code = "DAS600"
    exit_code = 2


class SessionError(EnvironmentProblemError):
    """Java and Spark are there, and a session could not be started: it may be tried again, as it is."""

    code = "DAS610"
    exit_code = 1


class EngineEndedError(SessionError):
    """Spark's JVM has ended while it was at work: the same command goes on with what is finished."""

    code = "DAS620"


class PrivacyGuardError(DasError, RuntimeError):
    """A guard of the privacy guarantee refuses to go on."""

    code = "DAS700"
    exit_code = 3
