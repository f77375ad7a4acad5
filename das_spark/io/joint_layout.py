"""Where a joint run says what its parts cost together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from das_spark.errors import OutputError
from das_spark.io.claims import names_in
from das_spark.io.layout import JOINT_MARKER, RunLayout


@dataclass(frozen=True, slots=True)
class JointLayout:
    """Paths of what a joint run says of all its parts together; the parts are runs beside it.

    Attributes:
        run_id: The name of the joint run.
        path: Its folder; everything in it is public.
    """

    run_id: str
    path: Path

    @classmethod
    def at(cls, root: str | Path, run_id: str) -> JointLayout:
        """The layout of a joint run.

        Args:
            root: The folder of all runs, or of all public roots.
            run_id: The name of the joint run: as of runs.

        Raises:
            ConfigurationError: The name stands for something else beside the runs.
            OutputError: The name would lead out of the folder, or a run of that name stands there.
        """
        path = RunLayout.at(root, run_id).folder
        if path.exists() and not (path / JOINT_MARKER).is_file() and names_in(path):
            raise OutputError(f"{path}: not empty and not a joint run", hint="choose another run id")
        return cls(run_id, path)

    @property
    def marker(self) -> Path:
        """The names of the parts."""
        return self.path / JOINT_MARKER

    def created(self) -> str:
        """When the joint run was begun, by its marker; empty where it has none yet.

        Raises:
            OutputError: The marker cannot be understood.
        """
        if not self.marker.is_file():
            return ""
        try:
            return str(json.loads(self.marker.read_text(encoding="utf-8"))["created"])
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{self.marker}: not readable as the marker of a joint run") from error

    @property
    def privacy_statement(self) -> Path:
        """What is claimed of all parts together, in words."""
        return self.path / "privacy_statement.md"

    @property
    def privacy_ledger(self) -> Path:
        """What the parts cost, alone and together, in exact fractions."""
        return self.path / "privacy_ledger.json"
