"""The file that makes a folder a root of a run: it says whose, and in the restricted root where the public one is.

The public marker names no path: whoever gets the public root need not know how the machine is furnished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

from das_spark.config import differences
from das_spark.errors import OutputError
from das_spark.io.claims import create_durably, names_in

MARKER = "run.json"
MARKER_VERSION = 2  # 2: `created`
PUBLIC = "public"
RESTRICTED = "restricted"
#: Differing keys that the error names, and the length of a value in it.
_NAMED = 4
_SAID = 60


@dataclass(frozen=True, slots=True)
class RunMarker:
    """What a marker says.

    Attributes:
        run_id: Name of the run.
        config_hash: Hash of its resolved configuration.
        is_restricted: Whether the folder is the restricted root of the run.
        root: The folder of all runs, where the two roots lie apart; told by the restricted root only.
        public: The public root, in the same case.
        created: When the run was opened for the first time, UTC, ISO 8601 to the second.
        ledger: Folder of the ledgers that the run was begun with; told by the restricted root only, and empty for a run
            that draws nothing. It is no part of the identity of the run.
        config: The resolved configuration, as everybody may read it in the manifest, so that another one can be told
            what differs; empty in runs by earlier versions.
    """

    run_id: str
    config_hash: str
    is_restricted: bool = False
    root: str = ""
    public: str = ""
    created: str = ""
    ledger: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """The marker of a folder; None where it has none.

        Args:
            folder: Perhaps a root of a run.

        Raises:
            OutputError: The marker cannot be understood.
        """
        path = folder / MARKER
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version, run_id, config_hash = content["schema_version"], content["run_id"], content["config_hash"]
            # Restricted roots of earlier runs do not say what they are; in a run folder their name does.
            side = content.get("side", folder.name)
            created = str(content["created"])
            root, public, ledger = (str(content.get(name, "")) for name in ("root", "public", "ledger"))
            config = dict(content.get("config", {}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputError(f"{path}: not readable as the marker of a run") from error
        if version != MARKER_VERSION:
            raise OutputError(f"{path}: version {version}, expected {MARKER_VERSION}")
        return cls(str(run_id), str(config_hash), side == RESTRICTED, root, public, created, ledger, config)

    def to_json(self) -> str:
        """The text of the file."""
        content: dict[str, Any] = {
            "schema_version": MARKER_VERSION,
            "run_id": self.run_id,
            "config_hash": self.config_hash,
            "created": self.created,
        }
        if self.is_restricted:
            content["side"] = RESTRICTED
        if self.public:
            content |= {"root": self.root, "public": self.public}
        if self.ledger:
            content["ledger"] = self.ledger
        if self.config:
            content["config"] = dict(self.config)
        return json.dumps(content) + "\n"

    def is_of_run(self, other: RunMarker) -> bool:
        """Whether two markers belong to one run.

        Args:
            other: The other marker; of the same root or of another one.

        Returns:
            Whether run id and hash of the configuration are the same.
        """
        return (self.run_id, self.config_hash) == (other.run_id, other.config_hash)

    def put(self, folder: Path) -> None:
        """Mark a folder, which must be free or this run's. Nobody needs to hold the run: no marker is ever replaced.

        Args:
            folder: A root that is there.

        Raises:
            OutputError: Another run was quicker, or the disk is full.
        """
        if not self.marks(folder) and not create_durably(folder / MARKER, self.to_json()):
            self.marks(folder)

    def marks(self, folder: Path) -> bool:
        """Whether a folder is this run's already; False: it is free.

        Args:
            folder: A root, there or not.

        Raises:
            OutputError: It belongs to another run, or holds something else.
        """
        if not folder.exists():
            return False
        if not folder.is_dir():
            raise OutputError(f"{folder} is a file", hint="choose another output folder")
        found = RunMarker.find(folder)
        if found is None:
            if names_in(folder):
                raise OutputError(f"{folder}: not empty and not a run folder", hint="choose another output folder")
            return False
        if not self.is_of_run(found):
            raise OutputError(
                f"{folder} belongs to another run ({found.run_id}, configuration {found.config_hash[:12]})"
                f"{self._difference(found)}",
                hint="choose another run id, or resume with the configuration that the run was started with",
            )
        return True

    def _difference(self, found: RunMarker) -> str:
        """In which keys the run that was found differs from this one, as the end of a sentence."""
        if self.config_hash == found.config_hash or not self.config:
            return ""
        if not found.config:
            return ", begun by a version of das_spark that did not keep it"
        said = [
            f"{key} is {_spelled(theirs)} there and {_spelled(ours)} here"
            for key, (theirs, ours) in differences(found.config, self.config).items()
        ]
        more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        return f": {'; '.join(said[:_NAMED])}{more}"


def _spelled(value: object) -> str:
    return "not set" if value is None else shorten(json.dumps(value), _SAID, placeholder=" ...")


def is_public_root(folder: Path) -> bool:
    """Whether a folder is the public root of a run.

    Args:
        folder: Any folder.

    Raises:
        OutputError: It has a marker that cannot be understood.
    """
    found = RunMarker.find(folder)
    return found is not None and not found.is_restricted
