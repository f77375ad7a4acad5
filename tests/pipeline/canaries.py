"""Canaries: rare counts planted in a census, and the search for them and for keys in all that runs leave behind.

Counts are looked for as text (176543, 176,543) and as 64-bit integers of both byte orders, keys as bytes, hexadecimal
text and base64; Parquet files are decoded. Files that are deleted again are kept by hard links.

What would not be found: values that somebody compressed, encrypted or wrote in another width; a file that is made and
removed between two looks of the thread (a few milliseconds) or was never given a name; memory, swap, the network.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.privacy import RunKey, StreamDomain

#: Makes Spark spill small pieces at once, uncompressed.
SPILLING = {
    "spark.shuffle.spill.numElementsForceSpillThreshold": "2",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.rdd.compress": "false",
    "spark.memory.storageFraction": "0.05",
}
#: For the control of a search: what is spilled can be read.
OPEN = {"spark.io.encryption.enabled": "false"}
#: Counts of three cells of one district. Its noise has a scale of tens of thousands, so that two of them come out
#: right in one published row with a probability below 1e-8: one alone may, two are a leak.
CANARIES = (176_543, 171_654, 172_165)
DISTRICT = "0100100000"
#: Stands in rows that must be refused.
WRONG = 8_765_431


def planted_census(tools: Any, wrong: str = "") -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The tiny census with the canaries in one district; and with rows that must be refused, where one is asked for."""
    persons, units = tools.census_tables()
    for cell, count in enumerate(CANARIES):
        for name, value in zip(persons, (DISTRICT, 0, 1, 0, cell, count), strict=True):
            persons[name].append(value)
    place = next(row for row in range(len(units["geocode"])) if units["geocode"][row] == DISTRICT)
    assert units["hhgq"][place] == 0
    units["units"][place] = sum(CANARIES) // 2
    if wrong:
        persons[wrong][-1] = {"count": -WRONG, "geocode": f"001{WRONG}"}.get(wrong, WRONG)
    return persons, units


@dataclass
class Net:
    """Keeps every file that appears in some folders, also after it is deleted."""

    folders: list[Path]
    caught: Path
    seen: set[int] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)
    _torn: list[OSError] = field(default_factory=list)

    def __enter__(self) -> Net:
        self.caught.mkdir()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert not self._torn, f"the net caught nothing any more after {self._torn}"

    def _watch(self) -> None:
        try:
            while not self._ended.wait(0.001):
                for folder in self.folders:
                    self._look(folder)
        except OSError as error:
            self._torn.append(error)

    def _look(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    self._look(Path(entry.path))
                elif entry.inode() not in self.seen:
                    os.link(entry.path, self.caught / f"{len(self.seen):06d}-{entry.name}")
                    self.seen.add(entry.inode())


def integer_forms(value: int) -> list[bytes]:
    return [value.to_bytes(8, order) for order in ("little", "big")]


def text_forms(value: int) -> re.Pattern[bytes]:
    """A number in decimal digits, with or without separators, that is no part of a longer one."""
    return re.compile(rb"(?<![\d.])(?:%d|%s)(?!\d)" % (value, f"{value:,}".encode()))


def counts_in(content: bytes) -> set[int]:
    """The canary counts that stand in a file."""
    values = (*CANARIES, WRONG)
    return {
        value
        for value in values
        if text_forms(value).search(content) or any(form in content for form in integer_forms(value))
    }


def key_forms(raw: bytes) -> list[bytes]:
    return [raw, raw.hex().encode(), raw.hex().upper().encode(), base64.b64encode(raw).rstrip(b"=")]


def all_keys(key: RunKey, plan: Any, attempt: int = 1) -> list[bytes]:
    """Every form of a run key, and of the keys of all its streams at an attempt; those of a test key have 0."""
    raws = [key._reveal()]
    for level in plan.budget.levels:
        for query in level.queries:
            domain = StreamDomain(plan.product.name, plan.product.record, level.geolevel, attempt, query.query)
            raws.append(key.derive(domain)._reveal())
    return [form for raw in raws for form in key_forms(raw)]


def decoded(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file; none where it is another file, or cut short."""
    try:
        return pq.ParquetFile(path).read().to_pylist()
    except (pa.ArrowInvalid, OSError):
        return []


def integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from integers(each)


def telling_rows(folder: Path) -> list[str]:
    """Parquet files in which a row holds two canaries or more."""
    wanted = set(CANARIES)
    return [
        str(path)
        for path in folder.rglob("part-*")
        if any(len(wanted & set(integers(list(row.values())))) > 1 for row in decoded(path))
    ]


def cores(folder: Path) -> list[Path]:
    return [*folder.rglob("core"), *folder.rglob("core.*"), *folder.rglob("hs_err_pid*")]


def planted_run_file(tools: Any, folder: Path, name: str, wrong: str = "") -> Path:
    """A run file of the census with canaries; under a budget so small that noise hides them."""
    census = folder / f"{'wrong' if wrong else 'census'}-{name}"
    tools.write_census(census, *planted_census(tools, wrong))
    text = tools.RUN_FILE.format(census=census, root=folder / "runs").replace('epsilon = "4"', 'epsilon = "1/1500"')
    path = folder / f"{name}.toml"
    path.write_text(text.replace("enabled = false", "enabled = true"))
    return path
