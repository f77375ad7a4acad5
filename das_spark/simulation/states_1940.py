"""States and territories in 1940, as figures: what the synthetic population of 1940 is calibrated to.

Populations are published counts of the census of 1940 (48 states, the District of Columbia, Alaska and Hawaii). The
numbers by race are published counts as remembered, not looked up one by one; their sums agree with the published
national totals within a few hundred. Other Asian or Pacific Islander, percent Hispanic and percent under 18 are rough
guesses. Large counties are in thousands, approximate.

The full-count file counts a few more people than the census published, more of the small races, and broke large
dwellings into one-person units. Its national figures are known, and those of some states (:data:`IN_FILE`, from the
published evaluation of its protected release); what is left is shared out over the other states by their published
figures (:func:`expected`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

PERSONS = 132_404_766
"""Persons in the full-count file of 1940 (published evaluation of its protected release)."""

NATIONAL = (12_663_581, 340_744, 142_490, 281_385, 173_394)
"""Persons in that file by race: Black, American Indian, Chinese, Japanese, other Asian or Pacific Islander."""

HISPANICS = 2_202_645
"""Hispanics in that file, by its own rule."""

COUNTIES = 3_108
"""Counties in 1940, Alaska and Hawaii included."""


@dataclass(frozen=True, slots=True)
class State1940:
    """A state or territory in 1940."""

    fips: int
    name: str
    persons: int
    counties: int
    races: tuple[int, int, int, int, int]
    hispanic: float
    minors: float
    large: tuple[int, ...]


STATES: tuple[State1940, ...] = (
    State1940(1, "AL", 2_832_961, 67, (983_290, 464, 41, 21, 10), 0.1, 37.0, (460, 142, 115)),
    State1940(2, "AK", 72_524, 4, (141, 32_458, 48, 263, 400), 0.5, 30.0, ()),
    State1940(4, "AZ", 499_261, 14, (14_993, 55_076, 1_449, 632, 300), 20.0, 36.0, (186, 73)),
    State1940(5, "AR", 1_949_387, 75, (482_578, 278, 432, 3, 10), 0.1, 36.0, (156,)),
    State1940(
        6,
        "CA",
        6_907_387,
        58,
        (124_306, 18_675, 39_556, 93_717, 33_000),
        6.0,
        25.0,
        (2786, 634, 513, 289, 179, 175, 170, 161, 135, 134, 131, 112, 107, 106, 100),
    ),
    State1940(8, "CO", 1_123_296, 63, (12_176, 1_360, 216, 2_734, 200), 8.2, 31.0, (322,)),
    State1940(9, "CT", 1_709_242, 8, (32_992, 201, 391, 164, 200), 0.3, 27.0, (484, 450, 418, 125, 87, 56, 56)),
    State1940(10, "DE", 266_505, 3, (35_876, 14, 43, 22, 30), 0.15, 28.0, (180, 53)),
    State1940(11, "DC", 663_091, 1, (187_266, 190, 656, 68, 480), 0.4, 22.0, (663,)),
    State1940(12, "FL", 1_897_414, 67, (514_198, 690, 214, 154, 200), 1.2, 31.0, (268, 210, 180, 92, 87)),
    State1940(13, "GA", 3_123_723, 159, (1_084_927, 106, 326, 31, 30), 0.22, 36.0, (393, 118, 87, 84, 82)),
    State1940(15, "HI", 423_330, 5, (255, 60, 28_774, 157_905, 117_000), 3.0, 38.0, (258, 73, 56, 36)),
    State1940(16, "ID", 524_873, 44, (595, 3_537, 208, 1_191, 60), 0.4, 35.0, ()),
    State1940(
        17,
        "IL",
        7_897_241,
        102,
        (387_446, 624, 2_456, 462, 1_900),
        0.5,
        26.0,
        (4063, 167, 153, 149, 130, 121, 121, 118, 114, 113, 103, 98),
    ),
    State1940(18, "IN", 3_427_796, 92, (121_916, 223, 208, 29, 100), 0.2, 29.0, (461, 293, 162, 155, 131, 100)),
    State1940(19, "IA", 2_538_268, 99, (16_694, 733, 81, 29, 30), 0.2, 30.0, (196, 104, 89, 85, 80)),
    State1940(20, "KS", 1_801_028, 105, (65_138, 1_165, 133, 19, 40), 0.9, 30.0, (145, 143, 91)),
    State1940(21, "KY", 2_845_627, 120, (214_031, 44, 100, 9, 40), 0.1, 36.0, (385, 93, 75)),
    State1940(22, "LA", 2_363_880, 64, (849_303, 1_801, 360, 46, 400), 0.8, 35.0, (495, 150, 88)),
    State1940(23, "ME", 847_226, 16, (1_304, 1_251, 92, 5, 20), 0.1, 31.0, (146, 97, 94)),
    State1940(24, "MD", 1_821_244, 24, (301_931, 73, 437, 36, 300), 0.2, 28.0, (859, 156, 89, 87, 84)),
    State1940(
        25,
        "MA",
        4_316_721,
        14,
        (55_391, 769, 2_513, 158, 200),
        0.4,
        27.0,
        (971, 863, 504, 496, 365, 332, 325, 169, 122, 72, 49, 37, 6),
    ),
    State1940(
        26,
        "MI",
        5_256_106,
        83,
        (208_345, 6_282, 924, 139, 800),
        0.4,
        30.0,
        (2022, 254, 246, 228, 131, 131, 108, 100, 95, 93, 89, 75),
    ),
    State1940(27, "MN", 2_792_300, 87, (9_928, 12_528, 551, 51, 300), 0.2, 30.0, (569, 310, 207)),
    State1940(28, "MS", 2_183_796, 82, (1_074_578, 2_134, 743, 1, 10), 0.15, 38.0, (107,)),
    State1940(29, "MO", 3_784_664, 115, (244_386, 330, 334, 74, 200), 0.2, 28.0, (816, 478, 274, 94, 91)),
    State1940(30, "MT", 559_456, 57, (1_120, 16_841, 258, 508, 200), 0.6, 31.0, (53,)),
    State1940(31, "NE", 1_315_834, 93, (14_171, 3_401, 102, 480, 100), 0.4, 30.0, (248, 101)),
    State1940(32, "NV", 110_247, 17, (664, 4_747, 286, 470, 100), 2.0, 27.0, (33, 16)),
    State1940(33, "NH", 491_524, 10, (414, 50, 63, 5, 10), 0.1, 28.0, (145, 60)),
    State1940(
        34,
        "NJ",
        4_160_165,
        21,
        (226_973, 211, 1_200, 298, 600),
        0.5,
        26.0,
        (838, 652, 410, 328, 309, 256, 217, 197, 161, 126, 124, 97, 72),
    ),
    State1940(35, "NM", 531_818, 31, (4_672, 34_510, 106, 186, 30), 41.0, 40.0, (69,)),
    State1940(
        36,
        "NY",
        13_479_142,
        62,
        (571_221, 8_651, 13_731, 2_538, 4_000),
        1.2,
        25.0,
        (2698, 1890, 1395, 1298, 798, 573, 438, 407, 295, 221, 204, 197, 174, 166, 160, 140, 124, 122, 122, 121),
    ),
    State1940(37, "NC", 3_571_623, 100, (981_298, 22_546, 83, 21, 30), 0.1, 38.0, (154, 152, 126, 110, 109, 88)),
    State1940(38, "ND", 641_935, 53, (201, 10_114, 56, 83, 20), 0.1, 36.0, (53,)),
    State1940(
        39,
        "OH",
        6_907_612,
        88,
        (339_461, 338, 921, 163, 500),
        0.2,
        28.0,
        (1217, 622, 389, 344, 339, 296, 240, 235, 132, 120, 112, 98, 96, 96),
    ),
    State1940(40, "OK", 2_336_434, 77, (168_849, 63_125, 112, 57, 60), 0.4, 35.0, (244, 193)),
    State1940(41, "OR", 1_089_684, 36, (2_565, 4_594, 2_086, 4_071, 500), 0.3, 26.0, (355,)),
    State1940(
        42,
        "PA",
        9_900_180,
        67,
        (470_172, 441, 1_477, 224, 700),
        0.2,
        29.0,
        (
            1931,
            1412,
            442,
            311,
            303,
            301,
            289,
            242,
            228,
            213,
            212,
            211,
            201,
            181,
            178,
            178,
            177,
            169,
            157,
            140,
            136,
            127,
            108,
            101,
            94,
        ),
    ),
    State1940(44, "RI", 713_346, 5, (11_024, 196, 257, 6, 60), 0.2, 27.0, (550, 59, 47, 32)),
    State1940(45, "SC", 1_899_804, 46, (814_164, 1_234, 27, 33, 10), 0.1, 40.0, (137, 128, 121, 105)),
    State1940(46, "SD", 642_961, 69, (474, 23_347, 36, 19, 20), 0.1, 34.0, (58,)),
    State1940(47, "TN", 2_915_841, 95, (508_736, 114, 60, 12, 20), 0.1, 35.0, (358, 257, 180, 178)),
    State1940(
        48,
        "TX",
        6_414_824,
        254,
        (924_391, 1_103, 1_031, 458, 300),
        11.5,
        35.0,
        (529, 398, 338, 226, 145, 131, 111, 106, 102, 93, 83),
    ),
    State1940(49, "UT", 550_310, 29, (1_235, 3_611, 228, 2_210, 80), 0.8, 38.0, (212, 57, 57)),
    State1940(50, "VT", 359_231, 14, (384, 16, 21, 3, 5), 0.1, 31.0, (52,)),
    State1940(51, "VA", 2_677_773, 124, (661_449, 198, 208, 74, 400), 0.15, 34.0, (193, 144, 69, 57)),
    State1940(53, "WA", 1_736_191, 39, (7_424, 11_394, 2_345, 14_565, 2_300), 0.35, 27.0, (505, 182, 165, 99, 89)),
    State1940(54, "WV", 1_901_974, 55, (117_754, 25, 57, 3, 20), 0.15, 37.0, (195, 97, 94, 87, 83, 81)),
    State1940(55, "WI", 3_137_587, 71, (12_158, 12_265, 290, 23, 100), 0.2, 30.0, (767, 131, 94, 83, 80, 80)),
    State1940(56, "WY", 250_742, 24, (956, 2_349, 102, 643, 50), 2.5, 32.0, (34,)),
)


Floats = NDArray[np.float64]

UNITS = 38_492_963
"""Household records of the file: households, and units of group quarters."""

DISTRICTS = 134_857
"""Enumeration districts of the file."""

GEOUNITS_1940: Mapping[str, int] = MappingProxyType({"State": len(STATES), "County": COUNTIES, "Enumdist": DISTRICTS})
"""Geounits of each level of the file."""


@dataclass(frozen=True, slots=True)
class FileFigures:
    """What was published of a state in the full-count file; None where nothing was."""

    persons: int | None = None
    units: int | None = None
    districts: int | None = None
    races: tuple[int, int, int, int, int] | None = None
    hispanics: int | None = None


IN_FILE: Mapping[int, FileFigures] = MappingProxyType(
    {
        2: FileFigures(units=24_277),
        6: FileFigures(units=2_473_589),
        10: FileFigures(units=78_974),
        # Of Georgia and Massachusetts, races were printed as protected with epsilon 8: within a few persons.
        13: FileFigures(persons=3_128_132, races=(1_077_644, 158, 421, 19, 53), hispanics=7_029),
        17: FileFigures(units=2_432_588),
        25: FileFigures(persons=4_325_506, races=(51_917, 847, 3_100, 112, 331), hispanics=17_000),
        32: FileFigures(units=38_878),
        36: FileFigures(units=4_153_082),
        39: FileFigures(units=2_057_163),
        42: FileFigures(units=2_732_080),
        50: FileFigures(units=102_075),
        53: FileFigures(persons=1_741_616, units=611_156, districts=2_663, races=(7_447, 11_130, 2_364, 14_479, 2_320)),
        56: FileFigures(units=80_146),
    }
)
"""Published figures of states in the file, by code."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """A state as the file is expected to have it."""

    persons: float
    rates: Floats
    persons_of_unit: float
    persons_of_district: float


@cache
def expected() -> Mapping[int, Expected]:
    """Every state by its code; they sum to the national figures of the file."""
    known = [IN_FILE.get(state.fips, FileFigures()) for state in STATES]
    published = np.array([state.persons for state in STATES], dtype=np.float64)
    persons = _share_out(PERSONS, published, [each.persons for each in known])
    races = np.array([state.races for state in STATES], dtype=np.float64)
    known_races = [each.races or (None,) * len(NATIONAL) for each in known]
    groups = [
        _share_out(total, by, of_states)
        for total, by, of_states in zip(NATIONAL, races.T, zip(*known_races, strict=True), strict=True)
    ]
    hispanic = np.array([state.hispanic / 100 for state in STATES])
    groups.append(_share_out(HISPANICS, hispanic * persons, [each.hispanics for each in known]))
    rates = np.column_stack(groups) / persons[:, None]
    of_unit = persons / _share_out(UNITS, persons, [each.units for each in known])
    of_district = persons / _share_out(DISTRICTS, persons, [each.districts for each in known])
    rows = zip(STATES, persons.tolist(), rates, of_unit.tolist(), of_district.tolist(), strict=True)
    return MappingProxyType({state.fips: Expected(*figures) for state, *figures in rows})


def _share_out(total: int, weights: Floats, known: Sequence[int | None]) -> Floats:
    """Figures of states that sum to a total: those that are known, and the rest by weight, (n,)."""
    figures = np.array([np.nan if figure is None else figure for figure in known], dtype=np.float64)
    open_ = np.isnan(figures)
    left = total - figures[~open_].sum()
    shared: Floats = np.where(open_, left * weights / weights[open_].sum(), figures)
    return shared
