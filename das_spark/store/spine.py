"""A spine as a folder: `spine.json` says what it is, `blocks/` holds the path of every block; whole or refused.

The folder is public: it is made from public geography and from the shares of a budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, Final, Self

from das_spark.errors import GeographyError, InputError, OutputError
from das_spark.geography import LevelShares, NationalSpine, SpineSettings
from das_spark.places import Place, disk_errors
from das_spark.store.commit import discard, finished, make_folder, names_in, part_files, promote, succeed, write_durably
from das_spark.store.digests import FileRecord, record_of
from das_spark.store.lock import Staging
from das_spark.store.strict_json import strict_json

FORMAT: Final = 1
RECORD: Final = "spine.json"
_BLOCKS: Final = "blocks"
_COUNTY: Final = "County"
_AGAIN: Final = "build it again with `das-spark spine build`"


@dataclass(frozen=True, slots=True)
class SpineLevel:
    """One level of a spine.

    Attributes:
        name: Name of the geolevel.
        length: Digits of its geocodes; 0 for a root, whose geocode is "0".
        share: Its share of the budget before anything was bypassed.
        geounits: How many geounits it has.
        children: How many children they have together; 0 at the blocks.
        most: Largest number of children of one; 0 at the blocks.
        bypassed: How many geounits were bypassed.
        unmeasured: How many geounits have a share of 0.
    """

    name: str
    length: int
    share: Fraction
    geounits: int
    children: int
    most: int
    bypassed: int
    unmeasured: int

    @property
    def mean_fan_out(self) -> float:
        """Mean number of children of a geounit."""
        return self.children / self.geounits


@dataclass(frozen=True, slots=True)
class SpineRecord:
    """What `spine.json` says.

    Attributes:
        settings: Shape of the spine; its kind among them.
        framework: "pure_dp" or "zcdp".
        denominator: Of all shares of geounits.
        levels: Root first, blocks last.
        files: The data files of `blocks/`, by which their bytes are known again.
        notes: Sentences about the geography that the spine was made from.
        facts: What else was said of it, such as product and strategy.
    """

    settings: SpineSettings
    framework: str
    denominator: int
    levels: tuple[SpineLevel, ...]
    files: tuple[FileRecord, ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        national: NationalSpine,
        settings: SpineSettings,
        shares: LevelShares,
        framework: str,
        notes: Sequence[str] = (),
        facts: Mapping[str, str] | None = None,
    ) -> Self:
        """The record of a spine that was built.

        Args:
            national: What its counties have in common.
            settings: Shape.
            shares: Shares of its levels.
            framework: "pure_dp" or "zcdp".
            notes: About the geography.
            facts: What else shall be kept.
        """
        above = shares.levels.index(_COUNTY)
        fan_outs = [(out.units, out.children, out.most) for out in national.fan_outs]
        fan_outs.append((national.fan_outs[-1].children, 0, 0))
        bypassed = [*(0,) * above, *national.bypassed, 0]
        levels = tuple(
            SpineLevel(name, length, Fraction(part, shares.denominator), *fan_out, *lost)
            for name, length, part, fan_out, lost in zip(
                national.levels,
                national.lengths,
                shares.numerators,
                fan_outs,
                zip(bypassed, national.unmeasured, strict=True),
                strict=True,
            )
        )
        said = tuple((facts or {}).items())
        return cls(settings, framework, national.denominator, levels, (), tuple(notes), said)

    @property
    def kind(self) -> str:
        """Kind of the spine."""
        return self.settings.kind

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.levels[-1].geounits

    @property
    def shares(self) -> LevelShares:
        """Shares of the levels before anything was bypassed."""
        return LevelShares.of({level.name: level.share for level in self.levels})

    def to_json(self) -> str:
        """The record as text; format and kind stand first."""
        levels = [{**asdict(level), "share": str(level.share)} for level in self.levels]
        data = {
            "format": FORMAT,
            "kind": self.kind,
            "framework": self.framework,
            "blocks": self.blocks,
            "denominator": self.denominator,
            "settings": asdict(self.settings),
            "levels": levels,
            "notes": self.notes,
            "facts": dict(self.facts),
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps(data, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str) -> Self:
        """Read the text of a record.

        Args:
            text: Content of `spine.json`.
            source: Its path, for messages.

        Raises:
            InputError: It is no JSON, of another format, or something in it is missing or impossible.
        """
        try:
            data = strict_json(text)
        except ValueError as error:
            raise InputError(f"{source}: is no JSON", hint=_AGAIN) from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{source}: is no record of a spine of format {FORMAT}", hint=_AGAIN)
        try:
            return cls._of_data(data)
        except KeyError as error:
            raise InputError(f"{source}: has no {error.args[0]!r}", hint=_AGAIN) from error
        except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            reason = error.message if isinstance(error, GeographyError) else str(error)
            raise InputError(f"{source}: the record of the spine is damaged: {reason}", hint=_AGAIN) from error

    @classmethod
    def _of_data(cls, data: Mapping[str, Any]) -> Self:
        settings = dict(data["settings"])
        settings["aian_categories"] = tuple(settings["aian_categories"])
        levels = [{**level, "share": Fraction(level["share"])} for level in data["levels"]]
        record = cls(
            settings=SpineSettings(**settings),
            framework=str(data["framework"]),
            denominator=data["denominator"],
            levels=tuple(SpineLevel(**level) for level in levels),
            files=tuple(FileRecord(**file) for file in data["files"]),
            notes=tuple(data["notes"]),
            facts=tuple(data["facts"].items()),
        )
        counts = [field.name for field in fields(SpineLevel) if field.type == "int"]
        for level in record.levels:
            wrong = next((name for name in counts if not _is_count(getattr(level, name))), None)
            if wrong is not None:
                raise ValueError(f"{wrong} of level {level.name!r} is no whole number of at least 0")
        if record.shares.denominator != record.denominator or record.blocks != data["blocks"]:
            raise ValueError("levels, denominator and number of blocks do not agree")
        return record


def write_spine(
    record: SpineRecord,
    folder: Place,
    write: Callable[[Place], tuple[FileRecord, ...]],
    staging: Staging | None = None,
) -> SpineRecord:
    """Write a spine into a new folder; it counts as there when `_SUCCESS` is.

    Args:
        record: What the spine is.
        folder: Must not exist, or be empty, or hold a spine that was not finished.
        write: Writes the blocks (`store.tables.BLOCKS`) into a folder, and gives the files that it wrote.
        staging: Where it is written first; beside the folder where None.

    Returns:
        The record with the files that were written.

    Raises:
        OutputError: The folder holds something, or the disk is full.
    """
    require_new(folder)
    staging = staging or Staging(folder.with_name(f".{folder.name}.staging"))
    with disk_errors(folder):
        discard(staging.folder)
        try:
            files = write(blocks_of(staging.folder))
            staging.guard()
            discard(folder)
            make_folder(folder)
            written = replace(record, files=promote(blocks_of(staging.folder), blocks_of(folder), files, check=False))
            write_durably(folder / RECORD, written.to_json())
            succeed(folder)
        finally:
            discard(staging.folder)
    return written


def require_new(folder: Place) -> None:
    """Refuse a folder that a spine must not be written to.

    Args:
        folder: Where a spine is to be written; need not exist.

    Raises:
        OutputError: It holds something else than an unfinished spine.
    """
    if not folder.exists():
        return
    unfinished = folder.is_dir() and not finished(folder)
    if not unfinished or names_in(folder) - {_BLOCKS, RECORD}:
        raise OutputError(f"{folder}: there is something already", hint="choose a new folder with --out")


def blocks_of(folder: Place) -> Place:
    """The folder of the blocks of a spine."""
    return folder / _BLOCKS


def read_record(folder: Place) -> SpineRecord:
    """Read what a spine is, without looking at its blocks.

    Raises:
        InputError: The folder is missing or unfinished, or the record damaged.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of a spine", hint="make one with `das-spark spine build`")
    if not finished(folder) or not (folder / RECORD).is_file():
        raise InputError(f"{folder}: is no finished spine (_SUCCESS and {RECORD} are asked for)", hint=_AGAIN)
    try:
        text = (folder / RECORD).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{folder / RECORD}: is no text", hint=_AGAIN) from error
    return SpineRecord.from_json(text, str(folder / RECORD))


def require_blocks(folder: Place, files: Sequence[FileRecord]) -> None:
    """Compare the bytes of the blocks of a spine with their record.

    Raises:
        InputError: A file is missing, has been changed, or does not belong there.
    """
    if not files:
        raise InputError(f"{folder}: the record names no file", hint=_AGAIN)
    blocks = blocks_of(folder)
    unknown = sorted({path.name for path in part_files(blocks)} - {file.name for file in files})
    if unknown:
        raise InputError(f"{blocks / unknown[0]}: is no part of the spine", hint="take it away, or build it again")
    for file in files:
        path = blocks / file.name
        if not path.is_file():
            raise InputError(f"{path}: is missing", hint=_AGAIN)
        found = record_of(path)
        if found.size != file.size:
            raise InputError(f"{path}: has {found.size:,} bytes, {file.size:,} were written", hint=_AGAIN)
        if found != file:
            raise InputError(f"{path}: was changed after it was written (its checksum is another)", hint=_AGAIN)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
