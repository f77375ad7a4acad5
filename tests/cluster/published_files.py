"""Everything that a run has published, in a form in which two runs can be compared.

Two runs of one configuration under one test key differ in nothing but this, and nothing else is left out:

- the times at which they were made, and the four random bytes that tell two ledger entries of one name apart; both are
  replaced by a word wherever they stand in a text;
- what lies in the staging folder: no result; a driver that lost the run may leave some there;
- how the rows of a level are spread over part files, their names, and the metadata in their footers, which follow from
  the number of tasks: a folder of part files is compared by the sorted lines or rows of all of them, floats bit by bit,
  and its columns with their types;
- the lists of files in the manifest and in the record of a spine: their checksums hold the times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)")
TOKEN = re.compile(r"(?<=#)[0-9a-f]{8}\b")


def published(public: Path, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Every file of a public root, by its path; part files of a folder together, under the path of the folder.

    Args:
        public: The public root.
        names: What else is replaced in texts: names that differ between runs because two runs have two names.
    """
    found: dict[str, Any] = {}
    for path in sorted(public.rglob("*")):
        if path.is_file() and ".staging" not in path.parts:
            place = str(path.relative_to(public))
            if path.name.startswith("part-"):
                place = str(path.parent.relative_to(public))
                found.setdefault(place, []).extend(rows(path))
            else:
                text = TOKEN.sub("TOKEN", TIME.sub("TIME", text_of(path)))
                for name, word in (names or {}).items():
                    text = text.replace(name, word)
                found[place] = text
    return {place: sorted(content) if isinstance(content, list) else content for place, content in found.items()}


def text_of(path: Path) -> str:
    """What a file that is no part file says; of records of files, all but the files, which are compared themselves."""
    text = path.read_text(encoding="utf-8")
    if path.name == "verification.json":  # names the manifest, which has the times of the run
        return json.dumps(json.loads(text) | {"manifest": ""}, indent=1)
    if path.name not in ("spine.json", "manifest.json"):
        return text
    return json.dumps(json.loads(text) | {"files": []}, indent=1)


def rows(path: Path) -> list[str]:
    """The rows of a part file, or its lines where it is a text; with the columns and types of a Parquet file."""
    if path.suffix != ".parquet":
        return path.read_text(encoding="utf-8").splitlines()
    table = pq.ParquetFile(path).read()
    columns = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    return [f"{columns}: {plain(list(row.values()))!r}" for row in table.to_pylist()]


def plain(value: Any) -> Any:
    """A value whose text shows every bit of it."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Paths at which two runs differ: what the test says when it fails, instead of megabytes of rows."""
    return sorted(place for place in one.keys() | other.keys() if one.get(place) != other.get(place))
