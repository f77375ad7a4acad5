"""The reader of the census edited file of 2020: recodes, units, geography, and every kind of bad input."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from readings import ingest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import Spine
from das_spark.products import HOUSEHOLD_TYPES, PRODUCTS, HouseholdType
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

A, B, C = "4400700010011000", "4400700010011001", "4400900020022000"
HOME, GROUP, ALONE = 200_000_001, 200_000_002, 200_000_003


class Files:
    """Three files of a small valid census: a household of two, a dormitory with one, an empty block."""

    def __init__(self, cef: type, folder: Path) -> None:
        self.cef, self.folder = cef, folder
        self.persons = [cef.person(HOME, 1), cef.person(HOME, 2, age=17), cef.person(GROUP, 1, gq="501")]
        self.units = [cef.unit(HOME, 11, pop=2), cef.unit(GROUP, 12, pop=1, gq="501")]
        self.blocks = [cef.block(A, 11), cef.block(B, 12), cef.block(C, 13)]

    def write(self) -> Path:
        return self.cef.write(self.folder, self.persons, self.units, self.blocks)


@pytest.fixture
def files(cef: type, tmp_path: Path) -> Files:
    return Files(cef, tmp_path / "cef")


@pytest.fixture(scope="module")
def usual(read: Callable, cef: type, contents: Callable, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """What is read of the three files as they are."""
    return contents(read(Files(cef, tmp_path_factory.mktemp("usual"))))


@pytest.fixture(scope="module")
def read(of_product: Callable) -> Callable:
    def run(files: Files, product: str = "pl94_2020_person", levels: int = 6, **settings: str):
        given, spine = of_product(product)
        settings = InputSettings(reader="cef_2020", **({"path": str(files.write())} | settings))
        return ingest(READERS["cef_2020"].gathering(settings, given, Spine(spine.levels[:levels])))

    return run


def _cell(level: int, adult: int, hispanic: int, race: int) -> int:
    return ((level * 2 + adult) * 2 + hispanic) * 63 + race


def test_codes_become_cells_of_class_age_origin_and_race(read: Callable, cef: type, files: Files, contents: Callable):
    files.persons += [
        cef.person(HOME, 3, age=18, hisp="2", race="63"),
        cef.person(HOME, 4, age=115, race="07"),
        cef.person(HOME, 5, age=0),
    ]
    files.units[0] = cef.unit(HOME, 11, pop=5)
    counts, units = contents(read(files))
    assert counts == {
        (A, _cell(0, 1, 0, 0)): 1,
        (A, _cell(0, 0, 0, 0)): 2,
        (A, _cell(0, 1, 1, 62)): 1,
        (A, _cell(0, 1, 0, 6)): 1,
        (B, _cell(5, 1, 0, 0)): 1,
    }
    assert units == {A: ([1, *[0] * 7], 0), B: ([0, 0, 0, 0, 0, 1, 0, 0], 0), C: ([0] * 8, 0)}


def test_every_type_of_group_quarters_is_the_class_of_its_first_digit(
    read: Callable, cef: type, files: Files, contents: Callable
):
    types = {"101": 1, "106": 1, "203": 2, "301": 3, "405": 4, "501": 5, "602": 6, "701": 7, "802": 7, "904": 7}
    files.units = [cef.unit(HOME + place, 11, pop=1, gq=code) for place, code in enumerate(types)]
    files.persons = [cef.person(HOME + place, 1, gq=code) for place, code in enumerate(types)]
    counts, units = contents(read(files))
    assert {cell // 252: number for (_, cell), number in counts.items()} == {1: 2, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 3}
    assert units[A] == ([0, 2, 1, 1, 1, 1, 1, 3], 0)


def test_vacant_units_stand_apart_and_a_product_of_units_counts_them(
    read: Callable, cef: type, files: Files, contents: Callable
):
    files.units += [cef.unit(HOME + 10 + place, 13, vacs=str(place)) for place in (1, 7)]
    _, units = contents(read(files))
    assert units[C] == ([0] * 8, 2)
    (files.folder / "persons.txt").unlink()
    counts, of_units = contents(read(files, "pl94_2020_unit"))
    assert counts == {(A, 1): 1, (C, 0): 2}
    assert of_units == units


def test_counts_and_units_are_summed_to_the_lowest_level_of_the_run(read: Callable, files: Files, contents: Callable):
    counts, units = contents(read(files, levels=4))
    assert {code for code, _ in counts} == {A[:11]}
    assert sum(counts.values()) == 3
    assert units == {A[:11]: ([1, 0, 0, 0, 0, 1, 0, 0], 0), C[:11]: ([0] * 8, 0)}


def _delimited(line: str, ends: list[int]) -> str:
    return "|".join(line[start:end].strip() for start, end in zip([0, *ends], ends, strict=False))


def test_fields_may_be_delimited(read: Callable, files: Files, contents: Callable, usual: tuple):
    from das_spark.io.cef import PERSON, UNIT

    files.persons = [_delimited(line, [field.end for field in PERSON.fields]) for line in files.persons]
    files.units = [_delimited(line, [field.end for field in UNIT.fields]) for line in files.units]
    assert "|" in files.persons[0]
    assert contents(read(files)) == usual


def test_parts_of_states_and_gzip_are_read_and_files_may_be_named_one_by_one(
    read: Callable, files: Files, contents: Callable, usual: tuple, tmp_path: Path
):
    files.write()
    for place, line in enumerate(files.persons):
        (tmp_path / "persons").mkdir(exist_ok=True)
        (tmp_path / "persons" / f"part-{place}.txt.gz").write_bytes(gzip.compress(f"{line}\n".encode()))
    named = {name: str(files.folder / f"{name}.txt") for name in ("units", "geography")}
    assert contents(read(files, path=None, persons=str(tmp_path / "persons"), **named)) == usual
    (tmp_path / "persons" / "README.md").write_text("not data")
    assert contents(read(files, path=None, persons=str(tmp_path / "persons"), **named)) == usual
    (tmp_path / "persons" / "part-0.txt.gz~").write_text("an older one")
    with pytest.raises(InputError, match=r"files that are no parts of it: 'part-0.txt.gz~'"):
        read(files, path=None, persons=str(tmp_path / "persons"), **named)


UNIT_BROKEN = {
    "record length, expected 76 characters": lambda cef, line: line[:-1],
    "RTYPE": lambda cef, line: cef.set(line, 0, "3"),
    "MAFID": lambda cef, line: cef.set(line, 1, "099999999"),
    "BCUSTATEFP": lambda cef, line: cef.set(line, 10, "03"),
    "VERSION": lambda cef, line: cef.set(line, 12, "    1"),
    "FINAL_POP": lambda cef, line: cef.set(line, 17, "  1 2"),
    "HHLDRAGE": lambda cef, line: cef.set(line, 22, "014"),
    "TEN": lambda cef, line: cef.set(line, 29, "5"),
    "VACS": lambda cef, line: cef.set(line, 32, "8"),
    "QGQTYP": lambda cef, line: cef.set(line, 33, "107"),
    "OIDTB": lambda cef, line: cef.set(line, 37, "1 1"),
    "HHT2": lambda cef, line: cef.set(line, 60, "13"),
    "HHSEX": lambda cef, line: cef.set(line, 75, "3"),
}
PERSON_BROKEN = {
    "record length, expected 91 characters": lambda cef, line: line + "0",
    "RTYPE": lambda cef, line: cef.set(line, 0, "2"),
    "CUF_PNC": lambda cef, line: cef.set(line, 10, "00000"),
    "QSEX": lambda cef, line: cef.set(line, 22, "3"),
    "QAGE": lambda cef, line: cef.set(line, 23, "116"),
    "QDB": lambda cef, line: cef.set(line, 26, "20200402"),
    "QSPAN": lambda cef, line: cef.set(line, 42, "9600"),
    "CENHISP": lambda cef, line: cef.set(line, 47, "0"),
    "QRACE1": lambda cef, line: cef.set(line, 48, "    "),
    "QRACE8": lambda cef, line: cef.set(line, 76, "9950"),
    "CENRACE": lambda cef, line: cef.set(line, 81, "64"),
    "RACE2010": lambda cef, line: cef.set(line, 83, "32"),
    "RELSHIP": lambda cef, line: cef.set(line, 85, "39"),
    "LIVE_ALONE": lambda cef, line: cef.set(line, 90, "x"),
}


def _refused(read: Callable, files: Files, **settings: str) -> BadInputError:
    with pytest.raises(BadInputError) as caught:
        read(files, **settings)
    return caught.value


def test_every_broken_field_is_named_with_its_file_and_the_number_of_its_line(read: Callable, cef: type, files: Files):
    good_units, good_persons = len(files.units), len(files.persons)
    files.units += [change(cef, cef.unit(300_000_000, 13)) for change in UNIT_BROKEN.values()]
    files.persons += [change(cef, cef.person(300_000_000, 1)) for change in PERSON_BROKEN.values()]
    problems = _refused(read, files).problems
    for name, broken, good in (("units", UNIT_BROKEN, good_units), ("persons", PERSON_BROKEN, good_persons)):
        mine = {problem.field: problem for problem in problems if problem.file.endswith(f"{name}.txt")}
        assert list(mine) == [field.split(", ", maxsplit=1)[0] for field in broken]
        for place, field in enumerate(broken, start=good + 1):
            problem = mine[field.split(", ", maxsplit=1)[0]]
            assert problem.examples == (place,)
            assert problem.rows == 1
            assert field.rsplit("expected ", maxsplit=1)[-1] in str(problem)


def test_no_value_of_a_line_is_in_a_message(read: Callable, cef: type, files: Files):
    files.persons.append(cef.set(cef.person(HOME, 3), 42, "9666"))
    error = _refused(read, files)
    assert "9666" not in f"{error} {error.hint}"
    assert "1000-8999, 9000, 9500, 9900, 9950" in str(error)


ACROSS = {
    "a housing unit with a type of group quarters": (
        lambda cef: cef.unit(HOME + 9, 11, gq="501"),
        0,
        "2",
        "RTYPE, QGQTYP",
    ),
    "a facility without a type": (lambda cef: cef.unit(HOME + 9, 11), 0, "4", "RTYPE, QGQTYP"),
    "a vacant facility": (lambda cef: cef.unit(HOME + 9, 11, gq="501"), 32, "1", "VACS"),
    "a vacant unit with people": (lambda cef: cef.unit(HOME + 9, 11, pop=1), 32, "1", "VACS, FINAL_POP"),
}


def test_fields_of_a_record_that_contradict_each_other_are_refused(read: Callable, cef: type, files: Files):
    expected: dict[str, list[int]] = {}
    for make, start, text, field in ACROSS.values():
        files.units.append(cef.set(make(cef), start, text))
        expected.setdefault(field, []).append(len(files.units))
    files.persons.append(cef.set(cef.person(HOME, 3), 0, "5"))  # in group quarters without their type
    of_persons, *of_units = _refused(read, files).problems
    assert {problem.field: (problem.rows, list(problem.examples)) for problem in of_units} == {
        field: (len(lines), lines) for field, lines in expected.items()
    }
    assert (of_persons.field, of_persons.rows, of_persons.examples) == ("RTYPE, QGQTYP", 1, (4,))


def test_a_person_without_a_unit_is_refused(read: Callable, cef: type, files: Files):
    files.persons += [cef.person(400_000_000, 1), cef.person(400_000_000, 2)]
    (problem,) = _refused(read, files).problems
    assert "persons.txt, MAFID: expected the unit of every person in" in str(problem)
    assert (problem.rows, problem.examples) == (2, (4, 5))


def test_a_unit_that_occurs_twice_is_refused(read: Callable, cef: type, files: Files):
    files.units.append(cef.unit(HOME, 13, vacs="1"))
    (problem,) = _refused(read, files).problems
    assert "units.txt, MAFID: expected each unit once; not so in some rows" in str(problem)
    assert problem.examples == (1, 3)


def test_a_unit_whose_block_is_not_in_the_geography_is_refused(read: Callable, files: Files):
    del files.blocks[0]
    (problem,) = _refused(read, files).problems
    assert "units.txt, OIDTB: expected the OIDTABBLK of a block of" in str(problem)
    assert problem.examples == (1,)


def test_people_of_a_type_without_a_facility_are_refused(read: Callable, cef: type, files: Files):
    files.persons[1] = cef.person(HOME, 2, gq="301")
    (person,) = _refused(read, files).problems
    assert "persons.txt, QGQTYP: expected the type of group quarters that the unit has" in str(person)
    assert person.examples == (2,)


def test_a_person_of_another_type_than_her_unit_is_refused(read: Callable, cef: type, files: Files):
    files.units.append(cef.unit(HOME + 5, 12, pop=1))
    files.persons.append(cef.person(HOME + 5, 1, gq="501"))
    (problem,) = _refused(read, files).problems
    assert (problem.field, problem.examples) == ("QGQTYP", (4,))


def test_a_facility_with_nobody_is_refused_or_let_pass_and_logged(
    read: Callable, cef: type, files: Files, contents: Callable
):
    files.units.append(cef.unit(HOME + 5, 13, gq="101"))
    error = _refused(read, files)
    assert "a person line for every facility" in str(error)
    assert 'input.unit_conflicts = "from_people"' in error.hint
    assert error.problems[0].examples == (3,)
    tables = read(files, unit_conflicts="from_people")
    assert [problem.examples for problem in tables.problems] == [(3,)]
    assert contents(tables)[1][C] == ([0, 1, 0, 0, 0, 0, 0, 0], 0)


def test_minors_in_nursing_facilities_are_told(read: Callable, cef: type, files: Files):
    files.units.append(cef.unit(HOME + 5, 13, pop=1, gq="301"))
    files.persons.append(cef.person(HOME + 5, 1, age=17, gq="301"))
    (problem,) = read(files).problems
    assert (problem.field, problem.rows) == ("QAGE, QGQTYP", 1)


def test_a_state_whose_total_disagrees_is_refused(read: Callable, cef: type, files: Files):
    files.units[0] = cef.unit(HOME, 11, pop=3)
    (problem,) = _refused(read, files).problems
    assert "units.txt, FINAL_POP: expected a sum over the units of each state" in str(problem)
    assert problem.geounits == ("44",)


BAD_BLOCKS = {
    "TABBLKST": lambda line: line.replace("|44|", "|4|"),
    "TABTRACTCE": lambda line: line.replace("|000100|", "||"),
    "TABBLKGRPCE": lambda line: line.replace("|1|12|", "|2|12|"),
    "OIDTABBLK": lambda line: line.replace("|12|", "|x|"),
    "": lambda line: line + "|",
}


def test_a_broken_row_of_the_geography_is_named(read: Callable, files: Files):
    files.blocks += [change(files.blocks[1]) for change in BAD_BLOCKS.values()]
    problems = [problem for problem in _refused(read, files).problems if problem.file.endswith("geography.txt")]
    # The line of names is the first, three good blocks follow; each row breaks one rule and no other.
    assert {problem.field: problem.examples for problem in problems} == {
        field: (row,) for row, field in enumerate(BAD_BLOCKS, start=5)
    }
    assert [problem.rows for problem in problems] == [1] * len(BAD_BLOCKS)


def test_a_key_of_two_blocks_is_refused_and_a_row_that_stands_twice_is_not(
    read: Callable, cef: type, files: Files, contents: Callable, usual: tuple
):
    files.blocks.append(files.blocks[0])
    assert contents(read(files)) == usual
    files.blocks.append(cef.block("4400700010011009", 11))
    (problem,) = _refused(read, files).problems
    assert (problem.field, problem.rows, problem.examples) == ("OIDTABBLK", 3, (2, 5, 6))


def test_a_geography_without_its_columns_is_refused(read: Callable, cef: type, files: Files):
    files.cef = type("Other", (cef,), {"HEADER": cef.HEADER.replace("OIDTABBLK", "OID")})
    with pytest.raises(InputError, match=r"geography\.txt: no column OIDTABBLK"):
        read(files)


@pytest.mark.parametrize("name", ["units", "blocks"])
def test_files_without_a_record_are_refused(read: Callable, files: Files, name: str):
    files.persons = []
    setattr(files, name, [])
    if name == "blocks":
        files.units = []
    with pytest.raises(InputError, match=r"no unit record|no block"):
        read(files)


@pytest.mark.parametrize(
    ("product", "error"),
    [("e2e_1940", "has no recodes for the codes of reader 'cef_2020'"), ("pl94_2020_person", "needs input.units")],
)
def test_another_product_and_a_missing_path_are_refused(of_product: Callable, files: Files, product: str, error: str):
    settings = InputSettings(reader="cef_2020", persons=str(files.write() / "persons.txt"))
    with pytest.raises(ConfigurationError, match=re.escape(error)):
        READERS["cef_2020"].gathering(settings, *of_product(product))


DHC = PRODUCTS["dhc_2020_person"]
ALL_TYPES = ["101", "106", "201", "301", "404", "405", "501", "601", "602", "701", "801", "900", "901", "702", "904"]


@pytest.fixture
def related(cef: type, tmp_path: Path) -> Files:
    """A couple with a child and a lodger, somebody alone, a dormitory with one."""
    files = Files(cef, tmp_path / "related")
    files.persons = [
        *(
            cef.person(HOME, number, age=age, relship=relship)
            for number, (age, relship) in enumerate([(40, "20"), (41, "21"), (9, "25"), (66, "36")], start=1)
        ),
        cef.person(GROUP, 1, gq="501", relship="38"),
        cef.person(ALONE, 1, age=81),
    ]
    files.units = [cef.unit(HOME, 11, pop=4), cef.unit(GROUP, 12, pop=1, gq="501"), cef.unit(ALONE, 12, pop=1)]
    return files


def test_relationships_and_types_of_quarters_are_one_field_that_tells_who_is_alone(
    read: Callable, related: Files, contents: Callable
):
    tables = read(related, "dhc_2020_person")
    levels = dict(enumerate(DHC.schema.attributes[0].levels))
    counts, _ = contents(tables)
    found: dict[str, list[tuple[str, int]]] = {}
    for (geocode, cell), count in counts.items():
        level, _, age, *_ = (int(each) for each in DHC.schema.unravel(np.array(cell)))
        found.setdefault(geocode, []).extend([(levels[level], age)] * count)
    assert {geocode: sorted(each, key=lambda one: one[1]) for geocode, each in found.items()} == {
        A: [
            ("Biological son or daughter", 9),
            ("Householder not living alone", 40),
            ("Opposite-sex spouse", 41),
            ("Other nonrelative", 66),
        ],
        B: [(levels[33], 30), ("Householder living alone", 81)],
    }
    assert tables.problems == ()


def test_every_type_of_group_quarters_is_its_own_level(read: Callable, cef: type, files: Files, contents: Callable):
    files.units = [cef.unit(HOME + each, 11, pop=1, gq=gq) for each, gq in enumerate(ALL_TYPES)]
    files.persons = [cef.person(HOME + each, 1, age=21, gq=gq, relship="38") for each, gq in enumerate(ALL_TYPES)]
    counts, _ = contents(read(files, "dhc_2020_person"))
    levels = {int(DHC.schema.unravel(np.array(cell))[0]): count for (_, cell), count in counts.items()}
    expected = [18, 23, 24, 27, 31, 32, 33, 34, 35, 36, 37, 39, 40, 41]
    assert levels == {level: 1 + (level == expected[-1]) for level in expected}


def test_a_relationship_that_does_not_fit_to_where_a_person_lives_is_refused(read: Callable, cef: type, related: Files):
    related.persons += [cef.person(HOME, 5, relship="37"), cef.person(GROUP, 2, gq="501", relship="25")]
    related.units[0] = cef.unit(HOME, 11, pop=5)
    (problem,) = _refused(read, related, product="dhc_2020_person").problems
    assert (problem.field, problem.rows, problem.examples) == ("RTYPE, RELSHIP", 2, (7, 8))
    assert "20 to 36 in housing units" in str(problem)
    assert problem.file.endswith("persons.txt")


def test_a_unit_that_says_otherwise_whether_somebody_is_alone_is_refused(read: Callable, cef: type, related: Files):
    related.units[0], related.units[2] = cef.unit(HOME, 11, pop=1), cef.unit(ALONE, 12, pop=4)
    (problem,) = _refused(read, related, product="dhc_2020_person").problems
    assert (problem.field, problem.rows, problem.examples) == ("MAFID", 5, (1, 2, 3, 4, 6))
    assert "FINAL_POP of 1" in str(problem)


def test_ages_that_a_relationship_rules_out_are_told(read: Callable, cef: type, related: Files):
    related.persons[2] = cef.person(HOME, 3, age=95, relship="25")
    (problem,) = read(related, "dhc_2020_person").problems
    assert (problem.rows, problem.field) == (1, "QAGE, RELGQ")


HOUSEHOLDS = PRODUCTS["dhc_2020_household"]


@pytest.fixture
def homes(cef: type, files: Files) -> Files:
    """A man alone of 80, a couple with two young children and her mother, a vacant unit, a dormitory."""
    couple = {"pop": 5, "head": " 402 07", "ten": "4", "hht": "1", "cplt": "1", "multg": "2", "paoc": "1", "pac": "1"}
    files.units = [
        cef.home(HOME, 11, head=" 801 01", ten="2", over=(1, 1, 1)),
        cef.home(ALONE, 12, **couple, under_18=2, over=(1, 1, 0), sex="2"),
        cef.unit(ALONE + 1, 12, vacs="5"),
        cef.unit(GROUP, 12, pop=1, gq="904"),
    ]
    return files


def test_occupied_units_are_households_by_what_is_told_of_their_people(
    read: Callable, homes: Files, contents: Callable
):
    tables = read(homes, "dhc_2020_household")
    counts, units = contents(tables)
    found = {}
    for (geocode, cell), count in counts.items():
        *levels, kind = (int(each) for each in HOUSEHOLDS.schema.unravel(np.array(cell)))
        found[geocode] = (*levels, HOUSEHOLD_TYPES[kind], count)
    alone = HouseholdType(4, 0, 0, minor=False, relatives=False, generations=False, size=1)
    family = HouseholdType(0, 1, 1, minor=True, relatives=True, generations=True, size=5)
    assert found == {A: (0, 7, 0, 0, 3, 1, alone, 1), B: (1, 2, 1, 6, 2, 2, family, 1)}
    quarters = [0] * 24
    assert units[A] == ([1, *quarters], 0)
    assert units[B] == ([1, *quarters[:-1], 1], 1)
    assert units[C] == ([0, *quarters], 0)
    assert tables.problems == ()


def test_units_are_counted_by_tenure_and_by_kind_of_vacancy(
    read: Callable, cef: type, homes: Files, contents: Callable
):
    homes.units[2] = cef.unit(ALONE + 1, 12, vacs="5")
    counts, units = contents(read(homes, "dhc_2020_unit"))
    assert counts == {(A, 1): 1, (B, 3): 1, (B, 8): 1}
    assert units[B] == ([1, *[0] * 23, 1], 1)


def test_a_tenure_that_does_not_fit_to_the_vacancy_is_refused(read: Callable, cef: type, homes: Files):
    homes.units[0] = cef.home(HOME, 11, ten="0")
    homes.units[2] = cef.set(cef.unit(ALONE + 1, 12, vacs="5"), 29, "3")
    (problem,) = _refused(read, homes, product="dhc_2020_unit").problems
    assert (problem.field, problem.rows, problem.examples) == ("TEN, VACS", 2, (1, 3))


def test_a_household_that_there_cannot_be_is_refused(read: Callable, cef: type, homes: Files):
    homes.units[0] = cef.home(HOME, 11, cplt="1")  # a couple of one
    homes.units[1] = cef.home(ALONE, 12, sex="0")
    problems = _refused(read, homes, product="dhc_2020_household").problems
    assert {(problem.field, problem.rows, problem.examples) for problem in problems} == {
        ("CPLT, PAOC, PAC, P18, HHT, MULTG, FINAL_POP", 1, (1,)),
        ("HHSEX", 1, (2,)),
    }
    # Who reads units alone does not look at households.
    read(homes, "pl94_2020_unit")


def test_households_that_rules_exclude_are_told(read: Callable, cef: type, homes: Files):
    homes.units[0] = cef.home(HOME, 11, head=" 801 01")  # of 80, and nobody of 75 or over
    problems = read(homes, "dhc_2020_household").problems
    assert {problem.field for problem in problems} == {"ELDERLY, HHLDRAGE", "ELDERLY, HHLDRAGE, HHTYPE"}
    assert {problem.rows for problem in problems} == {1}
