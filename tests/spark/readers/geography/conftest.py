"""Small geographies of every kind, written by hand, and what comes out of a reader as plain values."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

NONE = {
    "aiannhce": "9999",
    "cousubfp": "99999",
    "cousubfs": "9",
    "placefp": "99999",
    "placefs": "9",
    "sdunilea": "99999",
    "sdseclea": "99999",
    "sdelmlea": "99999",
}

#: Two tracts of one county; the second block lies in an area and a place, the third in two school districts.
BLOCKS = {
    "440010001001000": {"cousubfp": "05140", "cousubfs": "A", "sdunilea": "00030"},
    "440010001001001": {
        "aiannhce": "2415",
        "cousubfp": "05140",
        "cousubfs": "A",
        "placefp": "59000",
        "placefs": "A",
        "sdunilea": "00030",
    },
    "440010002002000": {"cousubfp": "05150", "cousubfs": "A", "sdseclea": "00420", "sdelmlea": "00360"},
}


def sixteen(block: str) -> str:
    return block[:11] + block[11] + block[11:]


def codes(block: str) -> dict[str, str]:
    return NONE | BLOCKS[block]


EXPECTED = {sixteen(block): codes(block) for block in BLOCKS}


@pytest.fixture(scope="session")
def expected() -> dict[str, dict[str, str]]:
    """Geocode -> the codes of each of the three blocks."""
    return EXPECTED


@pytest.fixture(scope="session")
def contents() -> Callable:
    def collect(found) -> dict[str, dict[str, str]]:
        rows = [row.asDict() for row in found.blocks.collect()]
        result = {row.pop("geocode"): row for row in rows}
        assert len(result) == len(rows)
        return result

    return collect


GRFC_COLUMNS = ("AIANNHCE", "COUSUBFP", "COUSUBFS", "PLACEFP", "PLACEFS", "SDUNILEA", "SDSECLEA", "SDELMLEA")


class Grfc:
    """GRF-C text, with other columns between those that are read."""

    HEADER = ("REGIONCE", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", *GRFC_COLUMNS, "OIDTABBLK")

    @classmethod
    def rows(cls) -> list[dict[str, str]]:
        made = []
        for key, block in enumerate(BLOCKS, 500):
            parts = (block[:2], block[2:5], block[5:11], block[11:], block[11])
            place = dict(zip(cls.HEADER[1:6], parts, strict=True))
            own = {name.upper(): code for name, code in codes(block).items()}
            made.append({"REGIONCE": "1", **place, **own, "OIDTABBLK": str(key)})
        return made

    @classmethod
    def write(cls, file: Path, rows: list[dict[str, str]] | None = None, header: tuple[str, ...] | None = None) -> Path:
        header = header or cls.HEADER
        lines = ["|".join(header), *("|".join(row[name] for name in header) for row in rows or cls.rows())]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        return file


@pytest.fixture(scope="session")
def grfc() -> type[Grfc]:
    return Grfc


class Assignment:
    """Block assignment files of one state: kind -> its columns and rows."""

    COLUMNS: ClassVar[Mapping[str, tuple[str, str]]] = {
        "AIANNH": ("AIANNHCE", "aiannhce"),
        "INCPLACE_CDP": ("PLACEFP", "placefp"),
        "MCD": ("COUSUBFP", "cousubfp"),
        "SDUNI": ("DISTRICT", "sdunilea"),
        "SDSEC": ("DISTRICT", "sdseclea"),
        "SDELM": ("DISTRICT", "sdelmlea"),
    }

    @classmethod
    def lines(cls, kind: str) -> list[str]:
        field, column = cls.COLUMNS[kind]
        county = kind == "MCD"
        head = f"BLOCKID|{'COUNTYFP|' if county else ''}{field}"
        return [head, *(f"{block}|{'001|' if county else ''}{BLOCKS[block].get(column, '')}" for block in BLOCKS)]

    @classmethod
    def write(cls, folder: Path, **other: list[str] | None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "BlockAssign_ST44_RI_CD.txt").write_text("BLOCKID|DISTRICT\n440010001001000|01\n")
        for kind in cls.COLUMNS:
            lines = other.get(kind, cls.lines(kind))
            if lines is not None:
                text = "".join(f"{line}\n" for line in lines)
                (folder / f"BlockAssign_ST44_RI_{kind}.txt").write_text(text)
        return folder


@pytest.fixture(scope="session")
def assignment() -> type[Assignment]:
    return Assignment


class Header:
    """Geographic header of the official summary files: 97 columns, a row of the county before those of blocks."""

    PLACES: ClassVar[Mapping[str, int]] = {
        "cousubfp": 17,
        "placefp": 29,
        "aiannhce": 35,
        "sdelmlea": 80,
        "sdseclea": 81,
        "sdunilea": 82,
    }

    @classmethod
    def lines(cls) -> list[str]:
        county = [""] * 97
        county[:10] = ["PLST", "RI", "050", "00", "00", "000", "00", "1", "0500000US44001", "44001"]
        found = [county]
        for number, block in enumerate(BLOCKS, 2):
            row = [""] * 97
            row[:10] = ["PLST", "RI", "750", "00", "00", "000", "00", str(number), f"7500000US{block}", block]
            for column, place in cls.PLACES.items():
                row[place] = codes(block)[column]
            row[88] = "S"
            found.append(row)
        return ["|".join(row) for row in found]

    @classmethod
    def write(cls, folder: Path, lines: list[str] | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rigeo2020.pl").write_text("".join(f"{line}\n" for line in lines or cls.lines()), "latin-1")
        (folder / "ri000012020.pl").write_text("PLST|RI|000|01|1|3\n")
        return folder


@pytest.fixture(scope="session")
def header() -> type[Header]:
    return Header


class TidyTable:
    """A CSV table with a column that is not read."""

    @classmethod
    def rows(cls) -> list[dict[str, str]]:
        return [{"geocode": geocode, "name": "somewhere", **own} for geocode, own in EXPECTED.items()]

    @classmethod
    def write(cls, file: Path, rows: list[dict[str, str]] | None = None) -> Path:
        rows = rows or cls.rows()
        with file.open("w", newline="") as text:
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return file


@pytest.fixture(scope="session")
def tidy() -> type[TidyTable]:
    return TidyTable
