"""All that is wrong with a run file, gathered so that it can be mended in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import TracebackType

from das_spark.errors import ConfigurationError


@dataclass(slots=True)
class Problems:
    """Problems of one run file, each with the path of its key.

    Attributes:
        source: The file, for the message.
        found: Pairs of key path and sentence, in the order of finding.
        muted: Key paths that are known to be wrong already: what follows from that is not said again.
        met: Problems met so far, those included that were not said.
    """

    source: str
    found: list[tuple[str, str]] = field(default_factory=list)
    muted: set[str] = field(default_factory=set)
    met: int = 0

    def add(self, key: str, sentence: str) -> None:
        """Note a problem; a repeated one, or one at or below a muted key, is counted but not said.

        Args:
            key: Path of the key, such as `geography.levels`; "" where the problem is of no one key.
            sentence: What is wrong, without the key.
        """
        self.met += 1
        muted = any(f"{key}.".startswith(f"{path}.") for path in self.muted)
        if not muted and (key, sentence) not in self.found:
            self.found.append((key, sentence))

    def at(self, key: str) -> _At:
        """Turn a configuration error of a `with` block into a problem of a key.

        Args:
            key: Path of the key.

        Returns:
            A context whose block ends at the error; what stands behind the block is carried out.
        """
        return _At(self, key)

    def raise_if_any(self) -> None:
        """Raise all problems as one error.

        Raises:
            ConfigurationError: If there is a problem.
        """
        if not self.found:
            return
        lines = [f"{key}: {sentence}" if key else sentence for key, sentence in self.found]
        if len(lines) == 1:
            raise ConfigurationError(f"{self.source}: {lines[0]}")
        raise ConfigurationError("\n  - ".join([f"{self.source}: {len(lines)} problems", *lines]))


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


def nearest(name: str, known: Iterable[str]) -> str:
    """A half sentence that helps with a misspelt name.

    Args:
        name: The unknown name.
        known: The names that exist.

    Returns:
        "did you mean 'x'?", or the list of names where none is near.
    """
    names = list(known)
    return near(name, names) or f"known: {', '.join(names) or 'none'}"


def near(name: str, known: Iterable[str]) -> str:
    """The same where all names are listed anyhow.

    Args:
        name: The unknown name.
        known: The names that exist.

    Returns:
        "did you mean 'x'?", or nothing where none is near.
    """
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""
