"""Small inputs of every kind, written by hand, and what comes out of a reader as plain Python values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from das_spark.geography import Spine
from das_spark.products import PRODUCTS, Product

if TYPE_CHECKING:
    from das_spark.spark.readers import IngestedTables


def _spine(product: Product) -> Spine:
    levels = [level for level in product.geolevels if level.name in product.default_levels]
    return Spine(tuple(levels))


@pytest.fixture(scope="session")
def of_product() -> Callable[[str], tuple[Product, Spine]]:
    return lambda name: (PRODUCTS[name], _spine(PRODUCTS[name]))


@pytest.fixture(scope="session")
def contents() -> Callable[[IngestedTables], tuple[dict, dict]]:
    """Persons by (geocode, cell), and (units, vacant) by geocode."""

    def collect(tables: IngestedTables) -> tuple[dict, dict]:
        leaves = tables.leaves.collect()
        assert len({row["geocode"] for row in leaves}) == len(leaves)
        counts = {
            (row["geocode"], cell): count
            for row in leaves
            for cell, count in zip(row["cells"], row["counts"], strict=True)
        }
        return counts, {row["geocode"]: (row["units"], row["vacant"]) for row in leaves}

    return collect


def household(serial: int, geocode: str = "5300100001", gq: str = "1", gqtype: str = "0") -> str:
    line = ["0"] * 159
    line[0] = "H"
    line[7:15] = f"{serial:08d}"
    line[53:59] = geocode[:6]
    line[93], line[94] = gq, gqtype
    line[124:128] = geocode[6:]
    return "".join(line)


def person(serial: int, age: str = "030", race: str = "1", hispan: str = "0") -> str:
    line = ["0"] * 273
    line[0] = "P"
    line[7:15] = f"{serial:08d}"
    line[73:76] = age
    line[84], line[88] = race, hispan
    return "".join(line)


class Ipums:
    """Lines of the 1940 extract, by character positions of its documentation."""

    household = staticmethod(household)
    person = staticmethod(person)


@pytest.fixture(scope="session")
def ipums() -> type[Ipums]:
    return Ipums


class Cef:
    """Records of the census edited file of 2020 by character positions of its documentation, and GRF-C rows."""

    HEADER = "REGIONCE|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|TABBLKGRPCE|OIDTABBLK|PUMA"

    @staticmethod
    def set(line: str, start: int, text: str) -> str:
        return line[:start] + text + line[start + len(text) :]

    @classmethod
    def unit(cls, mafid: int, block: int, *, pop: int = 0, vacs: str = "0", gq: str = "   ") -> str:
        line = "2" + f"{mafid:09d}" + "44" + "00001" + f"{pop:>5d}" + " " * 7 + "000" + vacs + gq + " "
        line += f"{block:022d}" + "0" + "00" + "0000" + " 0 0 0 0" + "0" + "0"
        assert len(line) == 76
        return line if gq == "   " else "4" + line[1:]

    @classmethod
    def home(
        cls,
        mafid: int,
        block: int,
        *,
        pop: int = 1,
        head: str = " 301 01",
        ten: str = "1",
        hht: str = "4",
        cplt: str = "0",
        multg: str = "0",
        paoc: str = "4",
        under_18: int = 0,
        over: tuple[int, int, int] = (0, 0, 0),
        pac: str = "4",
        sex: str = "1",
    ) -> str:
        """An occupied housing unit, with what it tells of its household; `head` is age, origin and race."""
        line = "2" + f"{mafid:09d}" + "44" + "00001" + f"{pop:>5d}" + head + ten + "00" + "0" + "    "
        line += f"{block:022d}" + hht + "00" + cplt + "0" + multg + paoc + f"{under_18:>2d}"
        line += "".join(f"{number:>2d}" for number in over) + pac + sex
        assert len(line) == 76
        return line

    @classmethod
    def person(
        cls,
        mafid: int,
        number: int,
        *,
        age: int = 30,
        hisp: str = "1",
        race: str = "01",
        gq: str = "   ",
        relship: str = "20",
    ) -> str:
        line = "3" + f"{mafid:09d}" + f"{number:>5d}" + "44" + "00001" + "1" + f"{age:>3d}" + "19900101"
        line += " 1 1" + "1990" + "1000" + "1" + hisp + "1000" + "    " * 7 + "1" + race + "01" + relship + gq + "0"
        assert len(line) == 91
        return line if gq == "   " else "5" + line[1:]

    @staticmethod
    def block(geocode: str, key: int) -> str:
        return f"1|{geocode[:2]}|{geocode[2:5]}|{geocode[5:11]}|{geocode[12:]}|{geocode[11]}|{key}|00100"

    @classmethod
    def write(cls, folder: Path, persons: list[str], units: list[str], blocks: list[str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in (("persons", persons), ("units", units), ("geography", [cls.HEADER, *blocks])):
            (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines))
        return folder


@pytest.fixture(scope="session")
def cef() -> type[Cef]:
    return Cef


class OfficialFiles:
    """Official summary files of one small state, in the layout of 2020: totals in every item follow from persons."""

    KINDS = ("geo", "00001", "00002", "00003")

    def __init__(self) -> None:
        self.rows: dict[str, list[list[str]]] = {kind: [] for kind in self.KINDS}
        self.record = 0

    def block(
        self,
        geocode: str,
        people: dict[tuple[int, int, int], int] | None = None,
        quarters: dict[int, int] | None = None,
        housing: tuple[int, int] = (0, 0),
        sumlev: str = "750",
    ) -> None:
        """Add a block: persons by (adult, Hispanic, single race 0-5), by item of P5, occupied and vacant units."""
        self.record += 1
        head = ["PLST", "XX", "000", "00", str(self.record)]
        tables = [self._race(people or {}, adults, others) for adults in (False, True) for others in (False, True)]
        p5 = [0] * 10
        for item, persons in (quarters or {}).items():
            p5[item] = persons
        p5[1], p5[6] = sum(p5[2:6]), sum(p5[7:10])
        p5[0] = p5[1] + p5[6]
        geo = [""] * 97
        geo[:10] = [
            "PLST",
            "XX",
            sumlev,
            "00",
            "00",
            "000",
            "00",
            str(self.record),
            f"{sumlev}0000US{geocode}",
            geocode,
        ]
        geo[86] = "Añasco"  # Latin-1 text in the name
        self.rows["geo"].append(geo)
        self.rows["00001"].append(head + [str(x) for x in tables[0] + tables[1]])
        self.rows["00002"].append(head + [str(x) for x in [*tables[2], *tables[3], sum(housing), *housing]])
        self.rows["00003"].append(head + [str(x) for x in p5])

    @staticmethod
    def _race(people: dict[tuple[int, int, int], int], adults: bool, others: bool) -> list[int]:
        items = [0] * 71
        hispanic = 0
        for (adult, origin, race), persons in people.items():
            if adults and not adult:
                continue
            hispanic += persons * origin
            if not (others and origin):
                items[2 + race] += persons
                items[1] += persons
        items[0] = items[1]
        if not others:
            return items
        return [items[0] + hispanic, hispanic, items[0], *items[1:]]

    def write(self, folder: Path, state: str = "xx") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, rows in self.rows.items():
            text = "".join("|".join(row) + "\n" for row in rows)
            (folder / f"{state}{kind}2020.pl").write_bytes(text.encode("latin-1"))
        return folder


@pytest.fixture
def official() -> OfficialFiles:
    return OfficialFiles()
