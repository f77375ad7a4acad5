"""The persons of the 2020 Demographic and Housing Characteristics: relationship or type of group quarters, age, race.

Facts from the public release of the production code and its configuration: attributes, constraints, budgets, the order
in which queries enter the estimation, and the record layout.

In every geounit people by class of quarters, voting age, origin and race are those of the redistricting data, which
were published before: estimates are held to them. What the redistricting data hold exact is exact here for that reason
alone. So are the facilities of 24 types: in every block people live in quarters of a type if and only if there is a
facility of that type. The production moved records between types of a class after the estimation, until the bounds of
every geounit held or no move was found, which left geounits that were not the sums of their parts. Here the people of a
class in a block, which were published, are of the type of its facilities before the estimation; where a block has
facilities of several types of one class, they are divided among them in proportion to the facilities. The estimates are
held to that, so that geounits are the sums of their parts. What it costs is in README.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.estimation import OuterPass
from das_spark.geography import DHC
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._cenrace import CENRACE
from das_spark.products._dhc_2020 import CEF_CLASS, CLASSES, COMMENT, FACILITY_CODES, FACILITY_TYPES, MDF, strategies
from das_spark.products._file_recodes import CodedField, FileRecodes
from das_spark.products._redistricting import (
    FACILITIES,
    HISPANIC,
    LEVELS,
    NATION_TO_BLOCK,
    RACE_CODES,
    first_columns,
)
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, PublishedCounts, by_name
from das_spark.tabulation import age_label, dhc_person_medians, dhc_person_tables

_TOP_AGE: Final = 115


def _span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def _outside(first: int, last: int) -> tuple[int, ...]:
    """All other ages."""
    return (*_span(0, first - 1), *_span(last + 1, _TOP_AGE))


def _groups(name: str, *firsts: int, title: str = "") -> Recode:
    """All ages, in groups that begin with the given ones."""
    ends = (*(first - 1 for first in firsts[1:]), _TOP_AGE)
    return Recode(name, tuple((age_label(*pair), _span(*pair)) for pair in zip(firsts, ends, strict=True)), title)


_MEMBERS: Final = (
    "Householder living alone",
    "Householder not living alone",
    "Opposite-sex spouse",
    "Opposite-sex unmarried partner",
    "Same-sex spouse",
    "Same-sex unmarried partner",
    "Biological son or daughter",
    "Adopted son or daughter",
    "Stepson or stepdaughter",
    "Brother or sister",
    "Father or mother",
    "Grandchild",
    "Parent-in-law",
    "Son-in-law or daughter-in-law",
    "Other relative",
    "Roommate or housemate",
    "Foster child",
    "Other nonrelative",
)
_HOUSEHOLD: Final = ("Household", _span(0, 17))
#: Levels of each class of group quarters, of those that redistricting data tell apart.
_CLASSES: Final = tuple(
    zip(FACILITIES, (_span(18, 23), _span(24, 26), (27,), _span(28, 32), (33,), (34, 35), _span(36, 41)), strict=True)
)
_EACH_MEMBER: Final = tuple((label, (level,)) for level, label in enumerate(_MEMBERS))
#: First age, last age -> the levels of relgq that nobody of another age has.
_AGE_LIMITS: Final = {
    (15, _TOP_AGE): (*_span(0, 5), *_span(18, 22)),
    (0, 89): (6, 7, 8),
    (30, _TOP_AGE): (10, 12),
    (0, 74): (11,),
    (15, 89): (13,),
    (0, 20): (16,),
    (17, 65): (23, 31, 34, 35),
    (0, 25): (24, 25, 26),
    (20, _TOP_AGE): (27,),
    (3, 30): (32,),
    (16, 65): (33,),
    (16, _TOP_AGE): (37, 38),
    (16, 75): (39,),
}


def _limited(first: int, last: int) -> str:
    """Name of the recode of who is limited to these ages, and with "not_" before it of all other ages."""
    return f"aged_{first}_to_{last}"


RELGQ: Final = Attribute(
    "relgq",
    (*_MEMBERS, *FACILITY_TYPES.values()),
    (
        Recode(
            "relgq_4_groups",
            (
                ("Householder", (0, 1)),
                ("Other household member", _span(2, 17)),
                ("Institutionalized population", _span(18, 32)),
                ("Noninstitutionalized population", _span(33, 41)),
            ),
        ),
        Recode("hhgq8lev", (_HOUSEHOLD, *_CLASSES), title="household or class of group quarters"),
        Recode(
            "gq_constr_groups",
            (
                _HOUSEHOLD,
                ("Group quarters from 3 years on", (32,)),
                ("Group quarters from 15 years on", _span(18, 22)),
                ("Group quarters from 16 years on, and others", (33, *_span(37, 41))),
                ("Group quarters from 17 years on", (23, 31, 34, 35)),
                ("Group quarters of all ages", (*_span(24, 30), 36)),
            ),
        ),
        Recode("popSehsdTargetsRelship", (*_EACH_MEMBER, ("Group quarters", _span(18, 41))), title="relationship"),
        Recode(
            "relship_and_eight_level_GQ", (*_EACH_MEMBER, *_CLASSES), title="relationship or class of group quarters"
        ),
        Recode(
            "gqlevels",
            (_HOUSEHOLD, *((label, (level,)) for level, label in enumerate(FACILITY_TYPES.values(), start=18))),
            title="type of group quarters",
        ),
        *(Recode(_limited(*ages), ((f"{age_label(*ages)} only", levels),)) for ages, levels in _AGE_LIMITS.items()),
    ),
    title="relationship or group quarters",
)
#: First ages of the groups of 5 years from 18 on, with their exceptions.
_FROM_18: Final = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, *range(70, 111, 5))
SEX: Final = Attribute("sex", ("Male", "Female"))
AGE: Final = Attribute(
    "age",
    tuple(age_label(age, age) for age in range(_TOP_AGE + 1)),
    (
        _groups("votingage", 0, 18, title="voting age"),
        _groups("age_18_64_116", 0, 18, 65, title="age: under 18, 18 to 64, 65 and over"),
        _groups("age_10_groups", 0, 3, 15, 16, 17, 18, 20, 25, 30, 35),
        _groups("age_38_groups", *range(16), *_FROM_18),
        _groups("age_40_groups", *range(18), *_FROM_18),
        *(Recode(f"not_{_limited(*ages)}", ((f"not {age_label(*ages)}", _outside(*ages)),)) for ages in _AGE_LIMITS),
    ),
)
#: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells.
SCHEMA: Final = Schema("dhc_2020_person", (RELGQ, SEX, AGE, HISPANIC, CENRACE))

_ZEROS: Final = tuple(
    StructuralZero(
        f"relgq_{_limited(*ages)}",
        (("relgq", levels), ("age", _outside(*ages))),
        f"{age_label(*ages)} only: {', '.join(RELGQ.levels[level] for level in levels)}",
    )
    for ages, levels in _AGE_LIMITS.items()
)

#: The cells of the redistricting data, which are fixed, and what the first pass rounds: each is a sum of the next.
_PUBLISHED: Final = "hhgq8lev * votingage * hispanic * cenrace"
#: The same by type of facility, which is what estimates are held to.
_FIXED: Final = "gqlevels * votingage * hispanic * cenrace"
_RELATED: Final = "relship_and_eight_level_GQ * sex * age_40_groups * hispanic * cenrace"
_COARSE: Final = "relgq * sex * age_40_groups * hispanic * cenrace"
_FIRST: Final = (
    "relgq_4_groups * age_18_64_116",
    "sex * age_18_64_116",
    "sex * age_38_groups",
    "sex * hispanic",
    "relgq_4_groups * sex",
    "gq_constr_groups * age_10_groups",
    "popSehsdTargetsRelship",
    _RELATED,
    _COARSE,
)
_DETAILED: Final = "detailed"
_QUERIES: Final = (*_FIRST, _DETAILED)
_PASSES: Final = (
    OuterPass(
        least_squares=(_FIRST,),
        rounding=(
            (
                "gqlevels * sex * votingage * hispanic * cenrace",
                "gqlevels * sex * age_18_64_116 * hispanic * cenrace",
                _COARSE,
            ),
        ),
    ),
    OuterPass(least_squares=((_DETAILED,),), rounding=((_DETAILED,),)),
)


def _even(share: int, *, quarters: int, relations: int) -> tuple[int, ...]:
    """The same for every query but those of quarters by age and of relationships."""
    return (*(share,) * 5, quarters, relations, *(share,) * 3)


_BLOCK: Final = _even(11, quarters=11, relations=11)
_SUBSET: Final = _even(478, quarters=1912, relations=478)
_UNITED_STATES: Final = {
    "US": _even(73, quarters=292, relations=73),
    "State": _even(999, quarters=3996, relations=999),
    "County": _even(310, quarters=1240, relations=1240),
    "Prim": _SUBSET,
    "Tract_Subset_Group": _SUBSET,
    "Tract_Subset": _even(868, quarters=3472, relations=3472),
    "Block_Group": _even(430, quarters=430, relations=430),
    "Block": _BLOCK,
}
_ISLAND_SUBSET: Final = _even(490, quarters=1961, relations=490)
_PUERTO_RICO: Final = {
    # The first query has two parts less than its peers, as released.
    "State": (1009, *_even(1011, quarters=4045, relations=1011)[1:]),
    "County": _even(320, quarters=1280, relations=1280),
    "Prim": _ISLAND_SUBSET,
    "Tract_Subset_Group": _ISLAND_SUBSET,
    "Tract_Subset": _even(878, quarters=3512, relations=3512),
    "Block_Group": _even(446, quarters=446, relations=446),
    "Block": _BLOCK,
}


def _of_relgq(members: Iterable[str], quarters: Iterable[str]) -> str:
    """Codes of the 18 members of households, then of the 24 types of group quarters."""
    return f"recode:relgq:{','.join((*members, *quarters))}"


MICRODATA: Final = MicrodataLayout(
    name=MDF,
    person=(
        *first_columns("MPD"),
        MicrodataColumn("EPNUM", "record_number", "INT9"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", _of_relgq(["000"] * 18, FACILITY_TYPES), "CHAR3"),
        MicrodataColumn(
            "RELSHIP",
            _of_relgq(("20", *map(str, range(20, 37))), (*["37"] * 15, *["38"] * 9)),
            "CHAR2",
        ),
        MicrodataColumn("QSEX", "recode:sex:1,2", "CHAR1"),
        MicrodataColumn("QAGE", f"recode:age:{','.join(map(str, range(_TOP_AGE + 1)))}", "INT3"),
        MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
        MicrodataColumn("CENRACE", f"recode:cenrace:{RACE_CODES}", "CHAR2"),
        MicrodataColumn("LIVE_ALONE", _of_relgq(("1", *["2"] * 17), ["0"] * 24), "CHAR1"),
    ),
    unit=(),
    comment=COMMENT,
    header="beside",
)

#: RELGQ is RELSHIP, but 19 for a householder who lives alone, and the type of the quarters of who lives in some.
_CEF: Final = FileRecodes(
    {
        "relgq": CodedField("RELGQ", (*map(str, range(19, 37)), *FACILITY_CODES)),
        "sex": CodedField("QSEX", ("1", "2")),
        "age": CodedField.numbered("QAGE", AGE.size),
        "hispanic": CodedField("CENHISP", ("1", "2")),
        "cenrace": CodedField.numbered("CENRACE", CENRACE.size, 1),
    },
    CEF_CLASS,
)

DHC_2020_PERSON: Final = Product(
    name="dhc_2020_person",
    title="Persons of the 2020 Demographic and Housing Characteristics",
    schema=SCHEMA,
    geolevels=NATION_TO_BLOCK,
    default_levels=LEVELS,
    unit_classes=CLASSES,
    class_query="gqlevels",
    # What the redistricting data tell of people is theirs, and has no error of this product.
    strata="sex * age_38_groups",
    unit_bounds=UnitBounds(least=(0, *(1,) * 24), most=(99_999,) * 25, cap_when_total_known=True),
    structural_zeros=_ZEROS,
    strategies=by_name(strategies(_QUERIES, _UNITED_STATES, _PUERTO_RICO, _PASSES)),
    microdata=MICRODATA,
    spine_settings=DHC,
    total_at="State",
    vacant_counted=True,
    tables=dhc_person_tables(SCHEMA),
    medians=dhc_person_medians(SCHEMA),
    file_recodes={"cef_2020": _CEF},
    published=PublishedCounts("redistricting data", "pl94_2020_person", _FIXED, _DETAILED, undivided=_PUBLISHED),
)
