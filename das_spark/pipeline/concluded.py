"""What was verified and evaluated of a run: of exactly the public files that lie there now, or it counts as not done.

Tables and microdata are finished when their marker says so. Verification and evaluation look at what others wrote, so
that they are finished only as long as none of it has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from das_spark.store import STAGING, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from das_spark.store import PublicLayout, RunLayout


@dataclass(frozen=True, slots=True)
class Concluded:
    """What is done of the last stages, and of which files.

    Attributes:
        files: Digest of the public files that were looked at.
        passed: Whether they were verified, and every check has passed.
        verified: What verification said in one line; empty where there was none.
        accuracy: The figures of the accuracy report, by name (restricted); empty where there is none.
    """

    files: str
    passed: bool = False
    verified: str = ""
    accuracy: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: RunLayout, manifest: str) -> Self:
        """What is done of the files that lie there now.

        Args:
            layout: Where the run lies.
            manifest: Text of its public manifest.
        """
        now = cls(_digest(layout.public, manifest))
        path = layout.restricted.concluded
        if not path.is_file():
            return now
        before = cls(**json.loads(path.read_text(encoding="utf-8")))
        if before.files != now.files:
            return now
        there = layout.restricted.accuracy_json.is_file() and layout.restricted.accuracy_html.is_file()
        return replace(
            before,
            passed=before.passed and layout.public.verification.is_file(),
            accuracy=before.accuracy if there else {},
        )

    def save(self, layout: RunLayout) -> None:
        """Keep what is done.

        Args:
            layout: Of the run; the file lies under its restricted root.

        Raises:
            OutputError: The disk is full.
        """
        write_durably(layout.restricted.concluded, json.dumps(asdict(self), indent=1) + "\n")


def _digest(public: PublicLayout, manifest: str) -> str:
    """SHA-256 of the manifest, and of path, size and time of change of every other file that verification reads."""
    whole = hashlib.sha256(manifest.encode())
    # Written anew with every conclusion; the manifest holds what is verified of them.
    ours = {public.manifest, public.verification, public.privacy_statement, public.privacy_ledger}
    for path in sorted(_files(public.path)):
        if path not in ours:
            stat = path.stat()
            whole.update(f"{path.relative_to(public.path)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return whole.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name != STAGING]
        yield from (Path(folder, name) for name in files)
