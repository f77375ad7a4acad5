"""Records of fixed width: the same people however their lines are delivered, and nothing where one is not right."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from readings import Ingested, ingest

from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.io.cef import PERSON, UNIT
from das_spark.io.population_files import simulate
from das_spark.products import PRODUCTS
from das_spark.spark.readers import GEOGRAPHY_READERS, READERS

PRODUCT = PRODUCTS["pl94_2020_person"]
RECORDS = {"persons": PERSON, "units": UNIT}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nation of some thousand people, in both layouts."""
    folder = tmp_path_factory.mktemp("nation")
    for layout in ("cef", "tidy"):
        simulate(folder / layout, "2020", Fraction(1, 50_000), layout)
    return folder


@pytest.fixture
def delivered(simulated: Path, tmp_path: Path) -> Path:
    for name in ("persons", "units", "geography"):
        (tmp_path / f"{name}.txt").write_bytes((simulated / "cef" / f"{name}.txt").read_bytes())
    return tmp_path


def read(folder: Path, **settings: str) -> Ingested:
    given = InputSettings(**({"reader": "cef_2020", "path": str(folder)} | settings))
    spine = PRODUCT.spine()
    READERS["cef_2020"].look(given, PRODUCT, spine)
    return ingest(READERS["cef_2020"].gathering(given, PRODUCT, spine))


def contents(made: Ingested) -> dict[str, tuple]:
    return {row["geocode"]: (row["cells"], row["counts"], row["units"], row["vacant"]) for row in made.leaves}


@pytest.fixture(scope="module")
def expected(simulated: Path) -> dict[str, tuple]:
    """What the tables of counts of the same people are read as."""
    given = InputSettings(reader="tidy_counts", path=str(simulated / "tidy"))
    return contents(ingest(READERS["tidy_counts"].gathering(None, given, PRODUCT, PRODUCT.spine())))


def _lines(folder: Path, change: Callable[[list[str]], list[str]], *names: str, end: str = "\n") -> None:
    for name in names:
        file = folder / f"{name}.txt"
        file.write_bytes("".join(line + end for line in change(file.read_text().splitlines())).encode())


def _delimited(folder: Path) -> None:
    for name, record in RECORDS.items():
        cut = [(field.start, field.end) for field in record.fields]
        _lines(folder, lambda lines, cut=cut: ["|".join(line[a:b].strip() for a, b in cut) for line in lines], name)


def _in_parts(folder: Path) -> None:
    for name in RECORDS:
        file = folder / f"{name}.txt"
        lines = file.read_text().splitlines(keepends=True)
        (folder / name).mkdir()
        for part in range(3):
            (folder / name / f"part-{part}.txt").write_text("".join(lines[part::3]))
        file.unlink()
        (folder / name).rename(file)


def _packed(folder: Path) -> None:
    for name in RECORDS:
        file = folder / f"{name}.txt"
        (folder / f"{name}.txt.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


FORMS: dict[str, Callable[[Path], object]] = {
    "as written": lambda folder: None,
    "lines that end with CR LF": lambda folder: _lines(folder, list, *RECORDS, "geography", end="\r\n"),
    "lines that end with CR": lambda folder: _lines(folder, list, *RECORDS, end="\r"),
    "another order": lambda folder: _lines(folder, lambda lines: lines[::-1], *RECORDS),
    "delimited fields": _delimited,
    "several files": _in_parts,
    "compressed": _packed,
    "no end of the last line": lambda folder: (folder / "units.txt").write_text(
        (folder / "units.txt").read_text().removesuffix("\n")
    ),
    "keys with fewer zeros": lambda folder: _lines(
        folder, lambda lines: [line[:37] + str(int(line[37:59])).rjust(22) + line[59:] for line in lines], "units"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_people_are_the_same_however_their_lines_are_delivered(delivered, expected, form):
    FORMS[form](delivered)
    made = read(delivered)
    assert contents(made) == expected
    assert made.problems == ()
    files = [file for file in delivered.rglob("*") if file.is_file()]
    assert made.digests == {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _first(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda lines: [change(lines[0]), *lines[1:]]


def _second(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda lines: [lines[0], change(lines[1]), *lines[2:]]


#: What is wrong -> of which file, how, and what is said.
WRONG: dict[str, tuple[str, Callable[[list[str]], list[str]], str]] = {
    "a line cut short": ("persons", _second(lambda line: line[:-3]), "persons.txt, record length"),
    "a line that is too long": ("units", _second(lambda line: line + " "), "units.txt, record length"),
    "two lines in one": ("persons", lambda lines: [lines[0] + lines[1], *lines[2:]], "does not begin with a person"),
    "an empty line": ("persons", lambda lines: [lines[0], "", *lines[1:]], "persons.txt, record length"),
    "a control character": ("persons", _second(lambda line: line[:23] + "\0" + line[24:]), "persons.txt, QAGE"),
    "digits of another script": (
        "persons",
        _second(lambda line: line[:25] + "\u0663" + line[26:]),
        "persons.txt, QAGE",
    ),
    "a sign": ("units", _second(lambda line: line[:17] + "  -1 " + line[22:]), "units.txt, FINAL_POP"),
    "a delimiter in a line": (
        "persons",
        _second(lambda line: line[:30] + "|" + line[31:]),
        "persons.txt, record length",
    ),
    "a person lost": ("persons", lambda lines: lines[1:], "units.txt, FINAL_POP"),
    "a person twice": ("persons", lambda lines: [*lines, lines[0]], "units.txt, FINAL_POP"),
    "a unit lost": (
        "units",
        lambda lines: [line for line in lines if not line.startswith(lines[0][:10])],
        "persons.txt, MAFID",
    ),
    "a unit twice": ("units", lambda lines: [*lines, lines[0]], "units.txt, MAFID: expected each unit once"),
    "a block lost": ("geography", lambda lines: [lines[0], *lines[2:]], "units.txt, OIDTB"),
    "a block under two keys": ("geography", lambda lines: [*lines, lines[1].replace("|1000|", "|1999|")], "OIDTABBLK"),
    "no names": ("geography", lambda lines: lines[1:], "no column TABBLKST"),
    "fewer fields": ("geography", _second(lambda line: line.rpartition("|")[0]), "columns, as in the first line"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_right_is_refused(delivered, case):
    name, change, said = WRONG[case]
    _lines(delivered, change, name)
    with pytest.raises(InputError) as caught:
        read(delivered)
    assert said in str(caught.value)


def test_a_file_that_changes_meanwhile_is_refused(delivered):
    given = InputSettings(reader="cef_2020", path=str(delivered))
    gathered = READERS["cef_2020"].gathering(given, PRODUCT, PRODUCT.spine())
    _lines(delivered, lambda lines: lines[:-1], "persons")
    with pytest.raises(InputError, match=r"persons\.txt: changed while it was read"):
        ingest(gathered)


def _folder(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{number}\n")
    return folder


#: Names of files in a folder of records -> what is said; nothing where all records are listed.
EXTRACTS = {
    ("a.dat", "b.dat"): "",
    ("a.dat", "b.DAT", "README.md", "codebook.cbk", "extract.sps"): "",
    ("part-0", "part-1", "_SUCCESS", ".part-0.crc"): "",
    ("a.dat", "b.asc"): "no parts of it",
    ("a.dat", "b.dat~"): "no parts of it",
    ("a.dat", "b.dat.tmp"): "no parts of it",
    ("a.dat", "b"): "no parts of it",
    ("a.dat", "b.zip"): "no parts of it",
    ("a.dat", ".b.dat"): "hidden files",
    ("a.dat", "_b.dat"): "hidden files",
    ("a.dat", "old/b.dat"): "folders",
}


@pytest.mark.parametrize(("names", "said"), EXTRACTS.items())
def test_of_a_folder_of_lines_all_is_understood(tmp_path, names, said):
    given = InputSettings(reader="ipums_1940", path=str(_folder(tmp_path, *names)))
    if said:
        with pytest.raises(InputError, match=said) as refused:
            READERS["ipums_1940"].files(given)
        assert names[1].partition("/")[0] in str(refused.value)
    else:
        records = [name for name in names if name.lower().endswith(".dat") or name.startswith("part-")]
        assert READERS["ipums_1940"].files(given) == dict.fromkeys((str(tmp_path / name) for name in records), True)


SUMMARY = ("rigeo2020.pl", "ri000012020.pl", "ri000022020.pl", "ri000032020.pl")


@pytest.mark.parametrize(
    "name",
    [
        *("ctgeo2020.txt", "ctgeo2020.pl.gz", "ct000012020.pl~", "_ctgeo2020.pl", "CTgeo2020.PL (1)"),
        *("ctgeo2020.pl.zip", "ct2020.pl.zip", "ma_geo2020.pl", "Copy of vtgeo2020.pl"),
    ],
)
@pytest.mark.parametrize("folder", ["", "ct/"])
def test_a_state_whose_files_are_called_otherwise_is_not_passed_over(tmp_path, folder, name):
    given = InputSettings(reader="pl94_summary", path=str(_folder(tmp_path, *SUMMARY)))
    (tmp_path / "ri2020.pl.zip").write_text("the archive")
    (tmp_path / "notes.zip").write_text("others")
    assert sorted(READERS["pl94_summary"].files(given)) == sorted(str(tmp_path / each) for each in SUMMARY)
    _folder(tmp_path, f"{folder}{name}")
    with pytest.raises(InputError, match="hidden, copies, half written, packed, or elsewhere") as refused:
        READERS["pl94_summary"].files(given)
    assert f"{folder}{name}" in str(refused.value)


def test_a_state_behind_a_link_is_not_passed_over(tmp_path):
    given = InputSettings(
        reader="pl94_summary", path=str(_folder(tmp_path / "all", *(f"ri/{name}" for name in SUMMARY)))
    )
    assert len(READERS["pl94_summary"].files(given)) == len(SUMMARY)
    (tmp_path / "ct").mkdir()
    (tmp_path / "all" / "ct").symlink_to(tmp_path / "ct")
    with pytest.raises(InputError, match="or elsewhere: 'ct'"):
        READERS["pl94_summary"].files(given)


@pytest.mark.parametrize("name", ["BlockAssign_ST44_RI_AIANNH (1).txt", "BlockAssign_ST44_RI_SDUNI - Copy.txt"])
def test_a_copy_of_a_block_assignment_file_is_not_passed_over(tmp_path, name):
    kinds = ("INCPLACE_CDP", "MCD", "CD")
    folder = str(_folder(tmp_path, *(f"BlockAssign_ST44_RI_{kind}.txt" for kind in kinds), "BlockAssign_ST44_RI.zip"))
    files = GEOGRAPHY_READERS["block_assignment"].files(folder)
    assert [Path(file).name for file in files] == [f"BlockAssign_ST44_RI_{kind}.txt" for kind in kinds[:2]]
    (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match="has no name of an official file") as refused:
        GEOGRAPHY_READERS["block_assignment"].files(folder)
    assert name in str(refused.value)
    (tmp_path / name).unlink()
    (tmp_path / "BlockAssign_ST09_CT.zip").write_text("another state")
    with pytest.raises(InputError, match=r"packed, or elsewhere: 'BlockAssign_ST09_CT\.zip'"):
        GEOGRAPHY_READERS["block_assignment"].files(folder)
