"""The households of the 2020 Demographic and Housing Characteristics: householder, oldest member, tenure, 522 types.

Facts from the public release of the production code and its configuration: attributes, constraints, budgets, the order
in which queries enter the estimation, and the record layout.

What is counted are occupied housing units. In every geounit households by tenure are those of the units, product
`dhc_2020_unit`, which are published before: estimates are held to them, and through them to the occupied units of the
redistricting data. The two were one run of the production; its pass over the units is the other product here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

from das_spark.constraints import StructuralZero
from das_spark.estimation import OuterPass
from das_spark.geography import DHC
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._dhc_2020 import CEF_CLASS, CLASSES, COMMENT, FACILITY_TYPES, MDF, strategies
from das_spark.products._file_recodes import CodedField, FileRecodes
from das_spark.products._redistricting import LEVELS, NATION_TO_BLOCK, first_columns
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, PublishedCounts, by_name
from das_spark.products.ddp_2010_household import ELDERLY, HHAGE, HHRACE, HHSEX, HISP
from das_spark.tabulation import dhc_household_tables
from das_spark.tabulation.household_types import (
    BOTH,
    COUPLES,
    FROM_6,
    LARGEST,
    TYPES,
    UNDER_6,
    HouseholdType,
    crossed,
    levels,
)

_GENERATIONS: Final = ("Not three or more generations", "Three or more generations")
_SIZES: Final = tuple(
    f"{size}{'-or-more' if size == LARGEST else ''}-person household" for size in range(1, LARGEST + 1)
)
#: Couples and ages of children in the order of the answers of queries.
_COUPLES: Final = tuple(COUPLES[place] for place in (4, 1, 0, 3, 2))
_OWN: Final = {0: "no own children", UNDER_6: "under 6 only", FROM_6: "6 to 17 only", BOTH: "under 6 and 6 to 17"}
_PARTNERS: Final = ("No spouse or partner", "Married", "Cohabiting")


def _couple(each: HouseholdType) -> str:
    return COUPLES[each.couple]


def _own(each: HouseholdType) -> str:
    return _OWN[each.own_children]


def _size(each: HouseholdType) -> str:
    return _SIZES[each.size - 1]


def _generations(each: HouseholdType) -> str:
    return _GENERATIONS[each.generations]


def _partner(each: HouseholdType) -> str:
    return _PARTNERS[each.married + 2 * each.cohabiting]


_ALONE: Final = levels(lambda each: each.alone)
_CHILD_ALONE: Final = levels(lambda each: each.alone and each.minor)
_OWN_CHILD: Final = levels(lambda each: each.own_children > 0)
_OWN_UNDER_6: Final = levels(lambda each: bool(each.own_children & UNDER_6))
_COUPLE_ALONE: Final = levels(lambda each: each.coupled and each.others == 0)
_TWO_ONE_MINOR: Final = levels(lambda each: each.size == 2 and each.minor)  # noqa: PLR2004
_PARENT_AND_CHILD: Final = levels(lambda each: not each.coupled and each.others == 1 and each.children > 0)
_COUPLE_AND_CHILD: Final = levels(lambda each: each.coupled and each.others == 1 and each.own_children > 0)
_PARENT_AND_BOTH: Final = levels(lambda each: not each.coupled and each.others == 2 and each.own_children == BOTH)  # noqa: PLR2004
_COUPLE_AND_BOTH: Final = levels(lambda each: each.coupled and each.others == 2 and each.own_children == BOTH)  # noqa: PLR2004


def _only(name: str, label: str, chosen: tuple[int, ...]) -> Recode:
    """A recode of one group."""
    return Recode(name, ((label, chosen),))


def _rest(chosen: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(range(len(TYPES))) - set(chosen)))


_FAMILY: Final = levels(lambda each: each.relatives)
_MINOR: Final = levels(lambda each: each.minor)
_MARRIED: Final = levels(lambda each: each.married)
HHTYPE: Final = Attribute(
    "hhtype_dhch",
    tuple(each.label for each in TYPES),
    (
        crossed("multig", (_GENERATIONS, _generations)),
        crossed("coupled_hh_type", ((*_COUPLES[1:], _COUPLES[0]), _couple)),
        crossed(
            "partner_type_detailed_own_child_status",
            (_PARTNERS, _partner),
            ([_OWN[ages] for ages in (UNDER_6, 0, FROM_6, BOTH)], _own),
        ),
        crossed(
            "DetailedCoupleTypeMultGenDetOwnChildSize",
            (_COUPLES, _couple),
            (_GENERATIONS, _generations),
            (tuple(_OWN.values()), _own),
            (_SIZES, _size),
        ),
        crossed("hhsize_all", (_SIZES, _size)),
        Recode("size1_size2plus", (("Alone", _ALONE), ("Not alone", _rest(_ALONE))), title="living alone or not"),
        Recode(
            "minors",
            (("With people under 18", _MINOR), ("Nobody under 18", _rest(_MINOR))),
            title="with or without minors",
        ),
        _only("family", "Family", _FAMILY),
        _only("nonfamily", "Nonfamily", _rest(_FAMILY)),
        _only("marriedfamily", "Married family", _MARRIED),
        _only("otherfamily", "Other family", tuple(each for each in _FAMILY if each not in _MARRIED)),
        _only("alone", "Alone", _ALONE),
        _only("invert_alone", "Not alone", _rest(_ALONE)),
        _only("child_alone", "A child alone", _CHILD_ALONE),
        _only("ownchild_under18", "Own child under 18", _OWN_CHILD),
        _only("ownchild_under6", "Own child under 6", _OWN_UNDER_6),
        _only("type2_couple", "Size 2: a couple", _COUPLE_ALONE),
        _only("type2_onechild", "Size 2: one of them under 18", _TWO_ONE_MINOR),
        _only("type2_onechildxhh", "Size 2: householder and a child", _PARENT_AND_CHILD),
        _only("type3_couple_with_child", "Size 3: a couple with a child", _COUPLE_AND_CHILD),
        _only("type3_twochild", "Size 3: householder with two children", _PARENT_AND_BOTH),
        _only("type4_couple_with_twochildren", "Size 4: a couple with two children", _COUPLE_AND_BOTH),
    ),
)
TENURE: Final = Attribute(
    "hhtenshort_3lev",
    ("Owned with a mortgage", "Owned without a mortgage", "Not owned"),
    (Recode("hhtenshort_2lev", (("Owned", (0, 1)), ("Not owned", (2,))), title="owned or not"),),
    title="tenure",
)
#: 2 x 9 x 2 x 7 x 4 x 3 x 522 = 1,578,528 cells.
SCHEMA: Final = Schema(
    "dhc_2020_household",
    (replace(HHSEX, name="sex"), HHAGE, HISP, replace(HHRACE, name="race"), ELDERLY, TENURE, HHTYPE),
)


def _zero(name: str, meaning: str, **selection: tuple[int, ...]) -> StructuralZero:
    return StructuralZero(name, tuple(selection.items()), meaning)


#: Name, ages of the householder, and what the oldest member cannot be where nobody else can be older.
_ONLY_ELDER: Final = (
    ("eld0", "under 60", (0, 1, 2, 3, 4), (1, 2, 3)),
    ("eld1", "60 to 64", (5,), (0, 2, 3)),
    ("eld2", "65 to 74", (6,), (0, 1, 3)),
    ("eld3", "75 or over", (7, 8), (0, 1, 2)),
)


def _oldest(name: str, who: str, young: tuple[int, ...], others: tuple[int, ...]) -> tuple[StructuralZero, ...]:
    """The four rules by which the householder is the oldest who counts; the first one for types of its own."""
    return tuple(
        _zero(
            f"{name}_{end}",
            f"{who}, householder {age}: so is the oldest",
            hhage=hhage,
            elderly=elderly,
            hhtype_dhch=others if place else young,
        )
        for place, (end, age, hhage, elderly) in enumerate(_ONLY_ELDER)
    )


def _young_couple(size: int, types: tuple[int, ...]) -> StructuralZero:
    meaning = f"in a couple of a householder under 25, of size {size} without other adults, nobody is 75 or over"
    return _zero(f"size{size}_le25_eld3", meaning, hhage=(0,), elderly=(3,), hhtype_dhch=types)


_ZEROS: Final = (
    *_oldest("living_alone", "alone", _ALONE, _ALONE),
    _zero("living_alone_childalone", "a child alone is under 25", hhage=tuple(range(1, 9)), hhtype_dhch=_CHILD_ALONE),
    *_oldest("size2", "of two people one is under 18", _PARENT_AND_CHILD, _TWO_ONE_MINOR),
    _young_couple(2, _COUPLE_ALONE),
    _young_couple(3, _COUPLE_AND_CHILD),
    *_oldest("size3", "householder with two children", _PARENT_AND_BOTH, _PARENT_AND_BOTH),
    _young_couple(4, _COUPLE_AND_BOTH),
    _zero("hh_elderly_eld3", "with a householder of 75 or over somebody is", hhage=(7, 8), elderly=(0, 1, 2)),
    _zero("hh_elderly_2", "with a householder of 65 to 74 somebody is 65 or over", hhage=(6,), elderly=(0, 1)),
    _zero("hh_elderly_3", "with a householder of 60 to 64 somebody is 60 or over", hhage=(5,), elderly=(0,)),
    _zero("age_child_1", "men of 75 and over: no own child under 6", sex=(0,), hhage=(7, 8), hhtype_dhch=_OWN_UNDER_6),
    _zero("age_child_2", "women of 75 and over: no own child under 18", sex=(1,), hhage=(7, 8), hhtype_dhch=_OWN_CHILD),
    _zero(
        "age_child_3",
        "women of 60 and over: no own child under 6",
        sex=(1,),
        hhage=(5, 6, 7, 8),
        hhtype_dhch=_OWN_UNDER_6,
    ),
)

_TYPE: Final = "DetailedCoupleTypeMultGenDetOwnChildSize"
_COARSE: Final = f"sex * hisp * race * hhtenshort_3lev * {_TYPE}"
_FIRST: Final = (
    "hisp * hhtenshort_2lev * multig",
    "hisp * hhtenshort_2lev",
    "hisp * race * hhtenshort_2lev",
    "sex * hhtenshort_2lev * partner_type_detailed_own_child_status",
    "hisp * hhtenshort_2lev * coupled_hh_type",
    _COARSE,
)
_SECOND: Final = (
    f"sex * hhage * hisp * race * hhtenshort_3lev * {_TYPE}",
    f"hhage * hhtenshort_3lev * {_TYPE}",
    "detailed",
)
_PASSES: Final = (
    OuterPass(least_squares=(_FIRST,), rounding=((f"hhtenshort_3lev * {_TYPE}", _COARSE),)),
    OuterPass(least_squares=(_SECOND,), rounding=(("detailed",),)),
)

_BLOCK: Final = (11, 3, 17, 22, 44, 15, 15, 3, 15)
_SUBSET: Final = (973, 214, 1500, 1946, 973, 973, 973, 214, 973)
_UNITED_STATES: Final = {
    "US": (792, 212, 212, 792, 792, 257, 257, 212, 1049),
    "State": (714, 193, 191, 1428, 714, 3216, 3216, 193, 3931),
    "County": (986, 266, 1500, 1972, 3944, 1380, 1380, 266, 1380),
    "Prim": _SUBSET,
    "Tract_Subset_Group": _SUBSET,
    "Tract_Subset": (1150, 310, 1750, 2300, 4601, 1610, 1610, 310, 1610),
    "Block_Group": (291, 78, 442, 581, 1162, 407, 407, 78, 407),
    "Block": _BLOCK,
}
_ISLAND_SUBSET: Final = (1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054)
_PUERTO_RICO: Final = {
    "State": (748, 202, 200, 1496, 748, 3368, 3368, 202, 4117),
    "County": (1041, 281, 1584, 2082, 4164, 1457, 1457, 281, 1457),
    "Prim": _ISLAND_SUBSET,
    "Tract_Subset_Group": _ISLAND_SUBSET,
    "Tract_Subset": (1205, 325, 1833, 2410, 4820, 1687, 1687, 325, 1687),
    "Block_Group": (346, 93, 526, 691, 1382, 484, 484, 93, 484),
    "Block": _BLOCK,
}


def _recode(attributes: str, texts: list[str], *, listed: str = "0") -> str:
    return f"recode:{attributes}:{','.join([*texts, listed])}"


def _household_type(sex: int, each: HouseholdType) -> str:
    """HHT: married couples 1; families of a man 2, of a woman 3; men alone or not 4, 5; women alone or not 6, 7."""
    if each.married:
        return "1"
    return str(2 + sex if each.relatives else 4 + 2 * sex + (not each.alone))


def _detailed_type(sex: int, each: HouseholdType) -> str:
    """HHT2: couples 1 to 4, with own children or without; women without partner 5 to 8, and men 9 to 12."""
    if each.coupled:
        return f"{1 + 2 * each.cohabiting + (not each.own_children):02d}"
    others = 0 if each.alone else 1 if each.own_children else 2 if each.relatives else 3
    return f"{(9 if sex == 0 else 5) + others:02d}"


def _couple_code(each: HouseholdType) -> str:
    """CPLT: couples 1 to 4; 5 without one, 0 alone."""
    return "0" if each.alone else str(each.couple + 1)


def _unmarried_partner(sex: int, each: HouseholdType) -> str:
    """UPART: the sexes of householder and unmarried partner, 1 to 4; 5 for every other household, 0 alone."""
    if not each.cohabiting:
        return "0" if each.alone else "5"
    same = COUPLES[each.couple] == "Cohabiting same-sex couple"
    return str(1 + 2 * sex + (not same))


def _ages(of: int) -> str:
    """PAOC and PAC: ages of children, 1 to 3; 4 for none."""
    return str(of or 4)


_SEXES_AND_TYPES: Final = tuple(product(range(2), TYPES))
_BY_SEX: Final = "sex*hhtype_dhch"
_OF_TYPE: Final = "hhtype_dhch"

MICRODATA: Final = MicrodataLayout(
    name=MDF,
    person=(),
    unit=(
        *first_columns("MUD"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", f"recode:unit_class:{','.join(('000', *FACILITY_TYPES, '000'))}", "CHAR3"),
        MicrodataColumn("TEN", "divided:hhtenshort_3lev:1,2,3,4,0", "CHAR1"),
        MicrodataColumn("VACS", "vacancy:1,2,3,4,5,6,7", "CHAR1"),
        MicrodataColumn("HHSIZE", _recode(_OF_TYPE, [str(each.size) for each in TYPES]), "CHAR1"),
        MicrodataColumn("HHT", _recode(_BY_SEX, [_household_type(*each) for each in _SEXES_AND_TYPES]), "CHAR1"),
        MicrodataColumn(
            "HHT2", _recode(_BY_SEX, [_detailed_type(*each) for each in _SEXES_AND_TYPES], listed="00"), "CHAR2"
        ),
        MicrodataColumn("CPLT", _recode(_OF_TYPE, [_couple_code(each) for each in TYPES]), "CHAR1"),
        MicrodataColumn("UPART", _recode(_BY_SEX, [_unmarried_partner(*each) for each in _SEXES_AND_TYPES]), "CHAR1"),
        MicrodataColumn(
            "MULTG",
            _recode(_OF_TYPE, [str(1 + each.generations if each.size > 2 else 0) for each in TYPES]),  # noqa: PLR2004
            "CHAR1",
        ),
        MicrodataColumn("THHLDRAGE", _recode("hhage", [str(age + 1) for age in range(HHAGE.size)]), "CHAR1"),
        MicrodataColumn("THHSPAN", _recode("hisp", ["1", "2"]), "CHAR1"),
        MicrodataColumn("THHRACE", _recode("race", [f"{race + 1:02d}" for race in range(7)], listed="00"), "CHAR2"),
        MicrodataColumn("PAOC", _recode(_OF_TYPE, [_ages(each.own_children) for each in TYPES]), "CHAR1"),
        MicrodataColumn("TP18", _recode(_OF_TYPE, [str(int(each.minor)) for each in TYPES]), "CHAR1"),
        *(
            MicrodataColumn(f"TP{age}", _recode("elderly", list(present)), "CHAR1")
            for age, present in ((60, "0111"), (65, "0011"), (75, "0001"))
        ),
        MicrodataColumn("PAC", _recode(_OF_TYPE, [_ages(each.children) for each in TYPES]), "CHAR1"),
        MicrodataColumn("HHSEX", _recode("sex", ["1", "2"]), "CHAR1"),
    ),
    comment=COMMENT,
    header="beside",
)

#: HHTYPE and ELDERLY are put together of several fields of a unit record: see the fields of the reader.
_CEF: Final = FileRecodes(
    {
        "sex": CodedField("HHSEX", ("1", "2")),
        "hhage": CodedField(
            "HHLDRAGE", ("15-24", "25-34", "35-44", "45-54", "55-59", "60-64", "65-74", "75-84", "85-115")
        ),
        "hisp": CodedField("HHSPAN", ("1", "2")),
        "race": CodedField("HHRACE", ("1", "2", "3", "4", "5", "6", "7-63")),
        "elderly": CodedField.numbered("ELDERLY", ELDERLY.size),
        "hhtenshort_3lev": CodedField("TEN", ("1", "2", "3-4")),
        "hhtype_dhch": CodedField("HHTYPE", tuple(str(each.code) for each in TYPES)),
    },
    CEF_CLASS,
)

DHC_2020_HOUSEHOLD: Final = Product(
    name="dhc_2020_household",
    title="Households of the 2020 Demographic and Housing Characteristics",
    schema=SCHEMA,
    geolevels=NATION_TO_BLOCK,
    default_levels=LEVELS,
    unit_classes=CLASSES,
    class_query="",
    strata="hisp * race * hhtenshort_3lev",
    unit_bounds=None,
    structural_zeros=_ZEROS,
    strategies=by_name(strategies((*_FIRST, *_SECOND), _UNITED_STATES, _PUERTO_RICO, _PASSES)),
    microdata=MICRODATA,
    spine_settings=DHC,
    total_at="none",
    record="household",
    vacant_counted=True,
    reported=("hhsize_all", "marriedfamily", "otherfamily", "nonfamily", "hhtenshort_3lev"),
    file_recodes={"cef_2020": _CEF},
    # Which of the households that do not own are charged no rent is arbitrary; how many in each block is published.
    tables=dhc_household_tables(SCHEMA),
    published=PublishedCounts(
        "tenure", "dhc_2020_unit", "hhtenshort_3lev", "tenure_3lev", vacancies="vacs", kinds=7, divided="no_rent"
    ),
)
