"""The households of the 2010 Demonstration Data Products (October 2019): type, size, householder, oldest member.

Facts from the public release of the demonstration's system and its design specification: attributes, constraints,
budget and record layout. Persons are a product of their own; the two share the numbers of housing units and of
facilities, and nothing else holds them together.

What is counted are occupied housing units. How many housing units a block has, occupied or vacant, and how many
facilities of each type, is exact; how many of the units are occupied is not. Vacant units and facilities stand in the
file of units behind the households, so that it lists every unit that there is.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._redistricting import UNIT_CLASSES, first_columns
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, by_name, pure_strategy
from das_spark.products.ddp_2010_person import GEOLEVELS, LEVEL_SHARES, LEVELS
from das_spark.tabulation import household_tables, occupancy_tables

#: Code of a type of group quarters -> what it is; the numbers of facilities of each are exact.
FACILITY_TYPES: Final = {
    "101": "Federal detention centers",
    "102": "Federal prisons",
    "103": "State prisons",
    "104": "Local jails and other municipal confinement facilities",
    "105": "Correctional residential facilities",
    "106": "Military disciplinary barracks and jails",
    "201": "Group homes for juveniles (non-correctional)",
    "202": "Residential treatment centers for juveniles (non-correctional)",
    "203": "Correctional facilities intended for juveniles",
    "301": "Nursing facilities/skilled-nursing facilities",
    "401": "Mental (psychiatric) hospitals and psychiatric units in other hospitals",
    "402": "Hospitals with patients who have no usual home elsewhere",
    "403": "In-patient hospice facilities",
    "404": "Military treatment facilities with assigned patients",
    "405": "Residential schools for people with disabilities",
    "501": "College/university student housing",
    "601": "Military quarters",
    "602": "Military ships",
    "701": "Emergency and transitional shelters for people experiencing homelessness",
    "702": "Soup kitchens",
    "704": "Regularly scheduled mobile food vans",
    "706": "Targeted non-sheltered outdoor locations",
    "801": "Group homes intended for adults",
    "802": "Residential treatment centers for adults",
    "900": "Maritime/merchant vessels",
    "901": "Workers' group living quarters and job corps centers",
    "903": "Living quarters for victims of natural disasters",
    "904": "Religious group quarters and domestic violence shelters",
}

_Groups = dict[str, tuple[int, ...]]


def _recodes(**named: _Groups) -> tuple[Recode, ...]:
    return tuple(Recode(name, tuple(groups.items())) for name, groups in named.items())


def _span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


HHSEX: Final = Attribute(
    "hhsex",
    ("Male", "Female"),
    _recodes(male={"Male householder": (0,)}, female={"Female householder": (1,)}),
    title="sex of householder",
)
_AGES: Final = (
    "15 to 24 years",
    "25 to 34 years",
    "35 to 44 years",
    "45 to 54 years",
    "55 to 59 years",
    "60 to 64 years",
    "65 to 74 years",
    "75 to 84 years",
    "85 years and over",
)
HHAGE: Final = Attribute(
    "hhage",
    tuple(f"Householder {age}" for age in _AGES),
    _recodes(
        hhageH18={"15 to 34 years": (0, 1), "35 to 64 years": _span(2, 5), "65 years and over": _span(6, 8)},
        hhover65={"15 to 64 years": _span(0, 5), "65 years and over": _span(6, 8)},
        hhover24={"25 years and over": _span(1, 8)},
        age_15to24={"15 to 24 years": (0,)},
        age_under60={"15 to 59 years": _span(0, 4)},
        age_60plus={"60 years and over": _span(5, 8)},
        age_60to64={"60 to 64 years": (5,)},
        age_65plus={"65 years and over": _span(6, 8)},
        age_65to74={"65 to 74 years": (6,)},
        age_75plus={"75 years and over": (7, 8)},
    ),
    title="age of householder",
)
HISP: Final = Attribute(
    "hisp", ("Not Hispanic or Latino", "Hispanic or Latino"), title="Hispanic origin of householder"
)
HHRACE: Final = Attribute(
    "hhrace",
    (
        "White alone",
        "Black or African American alone",
        "American Indian and Alaska Native alone",
        "Asian alone",
        "Native Hawaiian and Other Pacific Islander alone",
        "Some Other Race alone",
        "Two or More Races",
    ),
    _recodes(whiteonly={"White alone": (0,)}),
    title="race of householder",
)
_SIZES: Final = (*(f"{size}-person household" for size in range(7)), "7-or-more-person household")
SIZE: Final = Attribute(
    "size",
    _SIZES,
    _recodes(
        solo={"Alone": (1,), "Not alone": _span(2, 7)},
        sizex0={label: (level,) for level, label in enumerate(_SIZES) if level},
        sizex01={label: (level,) for level, label in enumerate(_SIZES) if level > 1},
        size1={_SIZES[1]: (1,)},
        size2={_SIZES[2]: (2,)},
        size3={_SIZES[3]: (3,)},
        size4={_SIZES[4]: (4,)},
        size2plus={"2-or-more-person household": _span(2, 7)},
        vacant={_SIZES[0]: (0,)},
        isOccupied={"Occupied household": _span(1, 7)},
    ),
    title="household size",
)
_CHILDREN: Final = (
    "with own children under 6 years only",
    "with own children 6 to 17 years only",
    "with own children under 6 and 6 to 17 years",
)
_NO_OWN: Final = "no own children under 18 years"


def _married(of: str) -> tuple[str, ...]:
    return tuple(f"Married {of} couple, {children}" for children in (*_CHILDREN, _NO_OWN))


def _cohabiting(of: str) -> tuple[str, ...]:
    without = (f"with relatives, {_NO_OWN}", f"without relatives, {_NO_OWN}")
    return tuple(f"Cohabiting {of} couple, {others}" for others in (*_CHILDREN, *without))


_SINGLE: Final = (
    "alone",
    *_CHILDREN,
    f"with relatives, {_NO_OWN}",
    "no relatives, not alone",
)
_COUPLE_WITH_ONE_KIND: Final = (0, 1, 4, 5, 8, 9, 13, 14)
_COUPLE_WITH_BOTH: Final = (2, 6, 10, 15)
_MARRIED_WITH: Final = (0, 1, 2, 4, 5, 6)
_COHABITING_WITH: Final = (8, 9, 10, 13, 14, 15)
_SINGLE_WITH: Final = (19, 20, 21)
_OTHER_FAMILY: Final = (*_span(8, 11), *_span(13, 16), *_span(19, 22))
_BY_AGES: Final = ("children under 6 only", "children 6 to 17 only", "children under 6 and 6 to 17")


def _of_ages(*levels: tuple[int, ...]) -> _Groups:
    return dict(zip(_BY_AGES, levels, strict=True))


_MARRIED_LEVELS: Final = _of_ages((0, 4), (1, 5), (2, 6))
_OTHER_LEVELS: Final = _of_ages((8, 13, 19), (9, 14, 20), (10, 15, 21))
_NON_2: Final = (*_MARRIED_WITH, *_span(8, 11), *_span(13, 16), 18, 21)
_NON_3: Final = (*_COUPLE_WITH_BOTH, 18)
_NEVER_MULTI: Final = (12, 17, 18, 23)
_NOT_MULTI_3: Final = (0, 1, *_span(3, 5), *_span(7, 9), *_span(11, 14), 16, 17, 21, 23)
_NOT_MULTI_4: Final = (2, 6, 10, 12, 15, 17, 23)
_COUPLE_OF_2: Final = (3, 7, 12, 17)
_PARENT_OF_1: Final = (19, 20)
#: Groups of recodes that are no partition stand as the demonstration has them.
HHTYPE: Final = Attribute(
    "hhtype",
    (
        *_married("opposite-sex"),
        *_married("same-sex"),
        *_cohabiting("opposite-sex"),
        *_cohabiting("same-sex"),
        *(f"No spouse or partner, {others}" for others in _SINGLE),
    ),
    _recodes(
        family={"Family": (*_span(0, 11), *_span(13, 16), *_span(19, 22))},
        nonfamily={"Nonfamily": _NEVER_MULTI},
        marriedfamily={"Married family": _span(0, 7)},
        otherfamily={"Other family": _OTHER_FAMILY},
        married_with_children_indicator={"without own children": (3, 7), "with own children": _MARRIED_WITH},
        married_with_children_levels=_MARRIED_LEVELS,
        married_p38_interior={**_MARRIED_LEVELS, "no own children": (3, 7)},
        other_with_children_indicator={
            "without own children": (11, 16, 22),
            "with own children": (*_COHABITING_WITH, *_SINGLE_WITH),
        },
        other_with_children_levels=_OTHER_LEVELS,
        other_p38_interior={**_OTHER_LEVELS, "no own children": (11, 16, 22)},
        alone={"Alone": (18,)},
        invert_alone={"Not alone": (*_span(0, 17), *_span(19, 23))},
        notalone={"Nonfamily, not alone": (12, 17, 23)},
        cohabiting={"Cohabiting": _span(8, 17)},
        cohabiting_with_children_indicator={
            "without own children": (11, 12, 16, 17),
            "with own children": _COHABITING_WITH,
        },
        couplelevels={"Married": _span(0, 7), "Unmarried partner": _span(8, 17), "All others": _span(18, 23)},
        oppositelevels={"Married opposite-sex": _span(0, 3), "Partner opposite-sex": _span(8, 12)},
        samelevels={"Married same-sex": _span(4, 7), "Partner same-sex": _span(13, 17)},
        no_spouse_or_partner={"No spouse or partner": _span(18, 23)},
        no_spouse_or_partner_levels={
            "with own children": _SINGLE_WITH,
            "with relatives, no own children": (22,),
            "no relatives, not alone": (23,),
        },
        allother={"All others": _span(18, 23)},
        ownchild_under18={"Own child under 18": (*_MARRIED_WITH, *_COHABITING_WITH, *_SINGLE_WITH)},
        ownchild_under6={"Own child under 6": (0, 2, 4, 6, 8, 10, 13, 15, 19, 21)},
        never_multi={"Never of three generations": _NEVER_MULTI},
        non2type={"Not of size 2": _NON_2},
        non3type={"Not of size 3": _NON_3},
        type2_couple={"Size 2: a couple": _COUPLE_OF_2},
        type2_onechild={"Size 2: householder with a child": _PARENT_OF_1},
        type3_couple_with_child={"Size 3: a couple with a child": _COUPLE_WITH_ONE_KIND},
        type3_notmulti={"Size 3: not of three generations": _NOT_MULTI_3},
        type3_twochild={"Size 3: two children": (21,)},
        type4_couple_with_twochildren={"Size 4: a couple with two children": _COUPLE_WITH_BOTH},
        type4_notmulti={"Size 4: not of three generations": _NOT_MULTI_4},
    ),
    title="household type",
)
_NOBODY, _AT_LEAST = "Nobody {} years and over", "Somebody {} years and over"


def _present(age: int, first: int) -> _Groups:
    return {_NOBODY.format(age): _span(0, first - 1), _AT_LEAST.format(age): _span(first, 3)}


ELDERLY: Final = Attribute(
    "elderly",
    (
        _NOBODY.format(60),
        "Somebody 60 to 64 years, nobody older",
        "Somebody 65 to 74 years, nobody older",
        _AT_LEAST.format(75),
    ),
    _recodes(
        presence60=_present(60, 1),
        presence65=_present(65, 2),
        presence75=_present(75, 3),
        pres_under60={"Nobody 60 or over": (0,)},
        pres_under65={"Nobody 65 or over": (0, 1)},
        elderly3={"Somebody 75 or over": (3,)},
        invert_elderly0={"Somebody 60 or over": (1, 2, 3)},
        invert_elderly1={"Oldest not of 60 to 64": (0, 2, 3)},
        invert_elderly2={"Oldest not of 65 to 74": (0, 1, 3)},
        invert_elderly3={"Nobody 75 or over": (0, 1, 2)},
    ),
    title="elderly people",
)
MULTI: Final = Attribute(
    "multi",
    ("Not three or more generations", "Three or more generations"),
    _recodes(no_multi={"Not three or more generations": (0,)}, yes_multi={"Three or more generations": (1,)}),
    title="multigenerational",
)
#: 2 x 9 x 2 x 7 x 8 x 24 x 4 x 2 = 387,072 cells.
SCHEMA: Final = Schema("ddp_2010_household", (HHSEX, HHAGE, HISP, HHRACE, SIZE, HHTYPE, ELDERLY, MULTI))


def _zero(name: str, meaning: str, **selection: tuple[int, ...]) -> StructuralZero:
    return StructuralZero(name, tuple(selection.items()), meaning)


#: Ages of the householder, and what the oldest member cannot be where nobody else can be older.
_ONLY_ELDER: Final = (
    ("eld0", "under 60", _span(0, 4), (1, 2, 3)),
    ("eld1", "60 to 64", (5,), (0, 2, 3)),
    ("eld2", "65 to 74", (6,), (0, 1, 3)),
    ("eld3", "75 or over", (7, 8), (0, 1, 2)),
)


def _oldest(name: str, who: str, **selection: tuple[int, ...]) -> tuple[StructuralZero, ...]:
    """The four rules by which the householder is the oldest who counts."""
    return tuple(
        _zero(f"{name}_{end}", f"{who}, householder {age}: so is the oldest", hhage=hhage, elderly=others, **selection)
        for end, age, hhage, others in _ONLY_ELDER
    )


def _young_couple(size: int, types: tuple[int, ...]) -> StructuralZero:
    meaning = f"in a couple of a householder under 25, of size {size} without other adults, nobody is 75 or over"
    return _zero(f"size{size}_le25_eld3", meaning, hhage=(0,), size=(size,), hhtype=types, elderly=(3,))


_NOT_ALONE: Final = (*_span(0, 17), *_span(19, 23))
_ZEROS: Final = (
    _zero("no_vacant", "no household of nobody", size=(0,)),
    _zero("living_alone_gt1", "who is alone lives alone", size=(1,), hhtype=_NOT_ALONE),
    _zero("living_alone_multi", "nobody alone is of three generations", size=(1,), multi=(1,)),
    *_oldest("living_alone", "alone", size=(1,), hhtype=(18,), multi=(0,)),
    _zero("size2_gt2", "two people are of no type that needs more, and not alone", size=(2,), hhtype=_NON_2),
    _zero("size2_multi", "two people are not of three generations", size=(2,), multi=(1,)),
    *_oldest("size2", "householder with a child", size=(2,), hhtype=_PARENT_OF_1),
    _young_couple(2, _COUPLE_OF_2),
    _young_couple(3, _COUPLE_WITH_ONE_KIND),
    _zero("size3_gt3", "three people are of no type that needs more, and not alone", size=(3,), hhtype=_NON_3),
    _zero("size3_multi", "three people of these types: two generations", size=(3,), hhtype=_NOT_MULTI_3, multi=(1,)),
    *_oldest("size3", "householder with two children", size=(3,), hhtype=(21,)),
    _zero("size4_gt4", "four people are not alone", size=(4,), hhtype=(18,)),
    _zero("size4_multi", "four people of these types: two generations", size=(4,), hhtype=_NOT_MULTI_4, multi=(1,)),
    _young_couple(4, _COUPLE_WITH_BOTH),
    _zero("size2plus_notalone_gt2plus", "two or more people are not alone", size=_span(2, 7), hhtype=(18,)),
    _zero("not_multigen_1", "these types are never of three generations", hhtype=_NEVER_MULTI, multi=(1,)),
    _zero("hh_elderly_eld3", "with a householder of 75 or over somebody is", hhage=(7, 8), elderly=(0, 1, 2)),
    _zero("hh_elderly_2", "with a householder of 65 to 74 somebody is 65 or over", hhage=(6,), elderly=(0, 1)),
    _zero("hh_elderly_3", "with a householder of 60 to 64 somebody is 60 or over", hhage=(5,), elderly=(0,)),
)

#: Query -> share of each geolevel.
_QUERIES: Final = {
    "hisp * hhrace * size * hhtype": "1/4",
    "hhsex * hisp * hhrace * hhtype": "1/4",
    "hisp * hhrace * multi": "1/10",
    "hhsex * hhtype * elderly": "1/10",
    "hhsex * hhage * hhtype": "1/10",
    "detailed": "1/5",
}


def _cross(*sizes: int) -> product[tuple[int, ...]]:
    return product(*map(range, sizes))


def _recode(attributes: str, texts: list[str], *, listed: str) -> str:
    return f"recode:{attributes}:{','.join([*texts, listed])}"


def _household_type(sex: int, hhtype: int) -> int:
    """HHT: married couples 1; families of a man 2, of a woman 3; men alone or not 4, 5; women alone or not 6, 7."""
    if hhtype < 8:  # noqa: PLR2004 - married couples
        return 1
    if hhtype in _OTHER_FAMILY:
        return 2 + sex
    return 4 + 2 * sex + (hhtype != 18)  # noqa: PLR2004 - alone


def _detailed_type(sex: int, hhtype: int) -> int:
    """HHT2: couples 1 to 4, with own children or without; women without partner 5 to 8, and men 9 to 12."""
    if hhtype < 18:  # noqa: PLR2004 - couples
        own = hhtype in (*_MARRIED_WITH, *_COHABITING_WITH)
        return 1 + 2 * (hhtype >= 8) + (not own)  # noqa: PLR2004 - the first cohabiting couple
    alone, own, relatives = hhtype == 18, hhtype in _SINGLE_WITH, hhtype == 22  # noqa: PLR2004
    return (9 if sex == 0 else 5) + (0 if alone else 1 if own else 2 if relatives else 3)


def _couple(hhtype: int) -> int:
    """CPLT: married and cohabiting, each of two sexes or of one, 1 to 4; 5 without a couple, 0 alone."""
    for code, last in enumerate((3, 7, 12, 17), start=1):
        if hhtype <= last:
            return code
    return 0 if hhtype == 18 else 5  # noqa: PLR2004 - alone


def _unmarried_partner(sex: int, hhtype: int) -> int:
    """UPART: the sexes of householder and unmarried partner, 1 to 4; 5 for every other household."""
    opposite, same = range(8, 13), range(13, 18)
    if hhtype in opposite:
        return (2, 4)[sex]
    return (1, 3)[sex] if hhtype in same else 5


def _own_children(hhtype: int) -> int:
    """PAOC: ages of own children, 1 to 3; 4 for none."""
    for code, levels in enumerate(zip(_MARRIED_LEVELS.values(), _OTHER_LEVELS.values(), strict=True), start=1):
        if hhtype in levels[0] + levels[1]:
            return code
    return 4


_TYPES: Final = range(HHTYPE.size)
_BY_SEX: Final = "hhsex*hhtype"
_NONE: Final = ("000",)  # the code of housing units
_GENERATIONS: Final = [str(multi + 1 if size > 2 else 0) for size, multi in _cross(8, 2)]  # noqa: PLR2004

MICRODATA: Final = MicrodataLayout(
    name="mdf_2010_ddp",
    person=(),
    unit=(
        *first_columns("MUD"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", f"recode:unit_class:{','.join((*_NONE, *FACILITY_TYPES, *_NONE))}", "CHAR3"),
        MicrodataColumn("TEN", "tenure", "CHAR1"),
        MicrodataColumn("VACS", "vacancy", "CHAR1"),
        MicrodataColumn("HHSIZE", _recode("size", [str(size) for size in range(8)], listed="0"), "INT5"),
        MicrodataColumn(
            "HHT", _recode(_BY_SEX, [str(_household_type(*each)) for each in _cross(2, 24)], listed="0"), "CHAR1"
        ),
        MicrodataColumn(
            "HHT2", _recode(_BY_SEX, [f"{_detailed_type(*each):02d}" for each in _cross(2, 24)], listed="00"), "CHAR2"
        ),
        MicrodataColumn("CPLT", _recode("hhtype", [str(_couple(each)) for each in _TYPES], listed="0"), "CHAR1"),
        MicrodataColumn(
            "UPART", _recode(_BY_SEX, [str(_unmarried_partner(*each)) for each in _cross(2, 24)], listed="0"), "CHAR1"
        ),
        MicrodataColumn("MULTG", _recode("size*multi", _GENERATIONS, listed="0"), "CHAR1"),
        MicrodataColumn("HHLDRAGE", _recode("hhage", [str(age + 1) for age in range(9)], listed="0"), "CHAR1"),
        MicrodataColumn("HHSPAN", _recode("hisp", ["1", "2"], listed="0"), "CHAR1"),
        MicrodataColumn("HHRACE", _recode("hhrace", [f"{race + 1:02d}" for race in range(7)], listed="00"), "CHAR2"),
        MicrodataColumn("PAOC", _recode("hhtype", [str(_own_children(each)) for each in _TYPES], listed="0"), "CHAR1"),
        MicrodataColumn("P18", "constant:9", "CHAR1"),
        *(
            MicrodataColumn(f"P{age}", _recode("elderly", list(present), listed="0"), "CHAR1")
            for age, present in ((60, "0111"), (65, "0011"), (75, "0001"))
        ),
        MicrodataColumn("PAC", "constant:9", "CHAR1"),
        MicrodataColumn("HHSEX", _recode("hhsex", ["1", "2"], listed="0"), "CHAR1"),
    ),
    comment="# In the layout of the microdata detail files of the 2010 Demonstration Data Products",
    header="beside",
)

DDP_2010_HOUSEHOLD: Final = Product(
    name="ddp_2010_household",
    title="Households of the 2010 Demonstration Data Products",
    schema=SCHEMA,
    geolevels=GEOLEVELS,
    default_levels=LEVELS,
    unit_classes=(UNIT_CLASSES[0], *FACILITY_TYPES.values()),
    # One class: all households together are at most the housing units, occupied or vacant.
    class_query="total",
    strata="hisp * hhrace",
    unit_bounds=UnitBounds(least=(0,), most=(1,), cap_when_total_known=True),
    structural_zeros=_ZEROS,
    # No passes: one fit of all that is measured, and each cell is rounded, as in the release.
    strategies=by_name(
        [
            pure_strategy(
                "ddp_2010",
                "The budget of the demonstration's households: epsilon 2 of its 6",
                epsilon="2",
                geolevels=LEVEL_SHARES,
                queries=_QUERIES,
            )
        ]
    ),
    microdata=MICRODATA,
    total_at="none",
    record="household",
    vacant_counted=True,
    tables=household_tables(SCHEMA),
    # Vacant units have the size 0, as the first cell does.
    occupancy=occupancy_tables(SCHEMA),
)
