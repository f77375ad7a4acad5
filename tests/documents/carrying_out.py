"""How the blocks of a document are carried out, and what must come of them."""

from __future__ import annotations

import os
import re
from typing import Any, Final

import pytest
from documents.pages import Block
from documents.shared_session import Checkout

#: How the quick start begins: the checkout is there already.
CLONE: Final = "git clone <this repository> das_spark && cd das_spark\n"
_DATA: Final = "DAS_SPARK_DATA"
#: The extract that the reader asks IPUMS for is made here, in the layout of the published one.
_EXTRACT: Final = "EXT1940USCB.dat"
_SIMULATE: Final = ".venv/bin/das-spark simulate"
#: What documents ask for, and how much of it shows that the commands work: (page, text of the page, what is run).
SMALLER: Final = (
    ("conf/README.md", "--like 1940 --share 1/100", "--like 1940 --share 1/5000"),
    ("conf/README.md", "--like 2010-state --share 1/500", "--like 2010-state --share 1/5000"),
    ("conf/README.md", "--product dhc_2020 --share 1/1000", "--product dhc_2020 --share 1/5000"),
    ("conf/README.md", "$DAS_SPARK_DATA/dallas_2010/", ""),  # of a synthetic Texas, see GIVEN
    ("das_spark/studies/README.md", "--persons 200000", "--persons 20000"),
    ("das_spark/studies/README.md", "--counties 30 --follow-up-to 1500", "--counties 3 --follow-up-to 100"),
    ("das_spark/studies/README.md", "--replicates 5", "--replicates 2"),
    ("conf/dhc_2020_to_county.toml", "--lowest County", "--lowest County --share 1/20000"),
    ("conf/pl94_2020_nation_simulated.toml", "--like 2020", "--like 2020 --share 1/20000"),
    ("conf/reference.toml", "--share 1/100", "--share 1/5000"),
)
#: Blocks that go on with what the one before has made: words of theirs -> what continuous integration calls them.
_TOGETHER: Final = {"conf/dhc_2020.toml": "characteristics"}
#: The page whose blocks stand alone, but for these. Those of another page are carried out together.
_EXAMPLES: Final = "conf/README.md"
_TWO_RUNS: Final = """
for run in another latest-of-two; do ./spark-submit.sh conf/quickstart.toml --run-id $run; done
"""
_AREAS: Final = """
./spark-submit.sh conf/quickstart.toml --run-id a
.venv/bin/python - <<'END'
import json, zipfile
import pyarrow.parquet as pq
import shapefile

codes = sorted(set(pq.read_table("runs/a/public/geounits/level=Tract")["geocode"].to_pylist()))
squares = [[[n, 0], [n, 1], [n + 1, 1], [n + 1, 0], [n, 0]] for n in range(len(codes))]
areas = [
    {"type": "Feature", "properties": {"ZONE": code}, "geometry": {"type": "Polygon", "coordinates": [square]}}
    for code, square in zip(codes, squares, strict=True)
]
open("areas.geojson", "w").write(json.dumps({"type": "FeatureCollection", "features": areas}))
with shapefile.Writer("tracts") as tracts:
    tracts.field("GEOID", "C")
    for code, square in zip(codes, squares, strict=True):
        tracts.poly([square])
        tracts.record(code)
with zipfile.ZipFile("tracts.zip", "w") as packed:
    for end in ("shp", "shx", "dbf"):
        packed.write(f"tracts.{end}")
END
"""
#: Makes tables of a synthetic population with the names, the geocodes and the codes that run files name.
_TIDY: Final = """
{simulate} --out simulated
.venv/bin/python - <<'END'
import pyarrow.compute as pc
import pyarrow.parquet as pq

def written(table, names, geocode, first, file):
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    for name in first:
        table = table.set_column(table.column_names.index(name), name, pc.add(table[name], 1))
    codes = table[geocode]
    if {digits} == 15:  # a census block's code does not repeat the digit of its block group
        tracts, blocks = pc.utf8_slice_codeunits(codes, 0, 11), pc.utf8_slice_codeunits(codes, 12)
        codes = pc.binary_join_element_wise(tracts, blocks, "")
    table = table.set_column(table.column_names.index(geocode), geocode, pc.utf8_slice_codeunits(codes, 0, {digits}))
    numbers = [name for name in table.column_names if name in ("count", "n", "vacant") or name.startswith("units_")]
    keys = [name for name in table.column_names if name not in numbers]
    summed = table.group_by(keys).aggregate([(name, "sum") for name in numbers])
    pq.write_table(summed.rename_columns([*keys, *numbers]), file)

written(pq.read_table("simulated/persons.parquet"), {names}, {geocode!r}, {first}, "persons.parquet")
written(pq.read_table("simulated/units.parquet"), {names}, {geocode!r}, [], {geography!r})
END
"""
_PL94: Final = {
    "names": {"geocode": "geoid", "votingage": "voting_age", "count": "n"},
    "geocode": "geoid",
    "first": ["voting_age", "hispanic", "cenrace"],
}
_TEXAS: Final = (
    """
.venv/bin/das-spark product new texas.toml --like dallas_2010
"""
    + _TIDY.format(
        simulate=f"{_SIMULATE} --like texas.toml --share 1/50",
        names={"geocode": "geocode16", "age18plus": "va", "hispanic": "hisp"},
        geocode="geocode16",
        first=[],
        digits=16,
        geography="units.parquet",
    )
    + "mv persons.parquet texas_persons.parquet; mv units.parquet texas_units.parquet\n"
)
_PRECINCTS: Final = """
.venv/bin/python - <<'END'
import pyarrow.parquet as pq

codes = sorted(set(pq.read_table("texas_units.parquet")["geocode16"].to_pylist()))
lines = [f"{code},{number % 3}" for number, code in enumerate(codes)]
open("block_to_precinct.csv", "w").write("block,precinct\\n" + "\\n".join(lines) + "\\n")
END
"""
_OF_A_STATE: Final = f"{_SIMULATE} --like 2020-state --share 1/5000"
#: What a document takes for granted: page -> commands.
GIVEN: Final = {
    "conf/README.md": _TEXAS + _PRECINCTS,
    "das_spark/attack/README.md": _TWO_RUNS,
    "das_spark/evaluation/README.md": _AREAS,
    "conf/dallas_2010.toml": _TEXAS,
    "conf/dallas_2010_without_units.toml": _TEXAS,
    "conf/pl94_2020_state.toml": _TIDY.format(simulate=_OF_A_STATE, digits=15, geography="blocks.parquet", **_PL94),
    "conf/pl94_2020_to_tract.toml": _TIDY.format(simulate=_OF_A_STATE, digits=11, geography="tracts.parquet", **_PL94),
    "conf/pl94_2020_to_county.toml": _TIDY.format(
        simulate=f"{_SIMULATE} --like 2020 --share 1/20000", digits=5, geography="counties.parquet", **_PL94
    ),
}


def parameter(block: Block, name: str) -> object:
    """Return a block as a parameter of a test, which has its turn with those that it needs."""
    together = next((unit for words, unit in _TOGETHER.items() if words in block.text), None)
    unit = together or (f"{block.page}: {block.text}" if block.page == _EXAMPLES else block.page)
    return pytest.param(block, id=name, marks=pytest.mark.unit(unit))


def carry_out(block: Block, checkout: Checkout, session: Any = None) -> None:
    """Carry out one block. Every run in it must be verified.

    Args:
        block: The commands.
        checkout: Where.
        session: As in `Checkout.run`.
    """
    if block.language == "python":
        printed = checkout.run(block.text + "\nprint(report.summary())", python=True)
    else:
        printed = checkout.run(_enough(block), session)
    runs = len(re.findall(r"spark-submit\.sh|das_spark\.run\(", block.text))
    assert len(re.findall(r"\d+ checks passed", printed)) >= runs, printed[-4000:]
    assert "failed" not in printed


def prepare(page: str, checkout: Checkout, session: Any = None) -> None:
    """Make what a document takes for granted."""
    commands = GIVEN.get(page, "")
    if commands:
        _require_data(commands)
        checkout.run(commands, session)


def _enough(block: Block) -> str:
    """Return the commands of a block, of which the long ones ask for less."""
    text = block.text.removeprefix(CLONE)
    _require_data(text)
    for page, asked, enough in SMALLER:
        if page == block.page:
            text = text.replace(asked, enough)
    if _EXTRACT in text:
        compressed = f"{_EXTRACT}.gz" in text
        text = (
            f"{_SIMULATE} --like 1940 --share 1/5000 --layout ipums {'--gzip' if compressed else ''} --out extract\n"
            f"mv extract/{_EXTRACT}* .\n{text}"
        )
    return text


def _require_data(commands: str) -> None:
    if _DATA in commands and _DATA not in os.environ:
        pytest.skip(f"{_DATA} is not set: it names the folder of public census data")
