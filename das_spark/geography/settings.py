"""How a spine is made: its kind, what it is optimized for, and the settings of the production runs of 2020."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final

from das_spark.errors import GeographyError, did_you_mean
from das_spark.geography.blocks import PRODUCTION_AIAN, check_aian_selection
from das_spark.geography.grouping import GROUP_TYPES, MERGERS
from das_spark.geography.spine import BLOCK, Geolevel

#: Kinds of spines: plain; plain with the AIAN branch; optimized as for P.L. 94-171; with primitive geounits as for DHC.
SPINE_KINDS: Final = ("census", "aian", "optimised", "dhc")

#: Where counties stand in every spine; what is below is built county by county.
COUNTY: Final = "County"

#: Levels that a plain spine may have between the county and the block.
PLAIN_LEVELS: Final = ("Tract_Group", "Tract", "Block_Group")

#: Levels between county and block groups on a spine with primitive geounits; their geocodes are given when it is built.
PRIMITIVE_LEVELS: Final = (Geolevel("Prim", 6), Geolevel("Tract_Subset_Group", 7), Geolevel("Tract_Subset", 8))

#: Level of a plain spine -> digits of its geocodes, which are prefixes of a block's.
PREFIXES: Final[Mapping[str, int]] = {
    "State": 2,
    COUNTY: 5,
    "Tract_Group": 9,
    "Tract": 11,
    "Block_Group": 12,
    "Block": BLOCK,
}


@dataclass(frozen=True, slots=True)
class SpineSettings:
    """Everything that decides about the shape of a spine.

    Attributes:
        kind: One of `SPINE_KINDS`.
        fanout_cutoff: A group holds floor(sqrt(n) + fanout_cutoff + 1) of the n blocks of its parent at most, and so do
            groups of tract subsets; a group that mergers make of tracts holds one less.
        entity_threshold: Distance up to which the released merger of tracts leaves an area alone.
        bypass_cutoff: Largest fan-out that bypassing may cause under pure DP.
        group_type: How lists are cut into groups, a name in `GROUP_TYPES`.
        merge: How tracts are merged into tract groups, a name in `MERGERS`.
        aian_categories: Categories of areas that make up the AIAN branch.
        consider_gq: Whether blocks with other types of group quarters are kept apart.
        target_aian_areas: Whether blocks of different AIAN areas are kept apart.
        target_school_districts: Whether blocks of different school districts are kept apart ("dhc" only).
        target_block_groups: Whether blocks of different published block groups are kept apart ("dhc" only).

    Raises:
        GeographyError: A name is unknown, or a number negative.
    """

    kind: str = "census"
    fanout_cutoff: int = 12
    entity_threshold: int = 9
    bypass_cutoff: int = 150
    group_type: str = "orig"
    merge: str = "none"
    aian_categories: tuple[str, ...] = PRODUCTION_AIAN
    consider_gq: bool = True
    target_aian_areas: bool = True
    target_school_districts: bool = False
    target_block_groups: bool = False

    def __post_init__(self) -> None:
        """Check names and numbers."""
        _check_name("kind of spine", self.kind, SPINE_KINDS)
        _check_name("group type", self.group_type, GROUP_TYPES)
        _check_name("way to merge tracts", self.merge, MERGERS)
        check_aian_selection(self.aian_categories)
        for name in ("fanout_cutoff", "entity_threshold", "bypass_cutoff"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise GeographyError(f"{name} must be a whole number of at least 0, is {value!r}")
        if self.merge != "none" and self.kind != "optimised":
            raise GeographyError(f"tracts are merged in a spine of kind 'optimised' only, this one is {self.kind!r}")
        for name in ("target_school_districts", "target_block_groups"):
            if getattr(self, name) and self.kind != "dhc":
                raise GeographyError(f"{name} asks for a spine of kind 'dhc', this one is {self.kind!r}")

    @property
    def has_aian_branch(self) -> bool:
        """Whether geounits below the root are divided by AIAN areas."""
        return self.kind != "census"

    @property
    def is_optimized(self) -> bool:
        """Whether groups are made and geounits bypassed."""
        return self.kind in ("optimised", "dhc")


def _check_name(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        hint = did_you_mean(name, known, 0.0)
        raise GeographyError(f"no {what} is called {name!r}; known: {', '.join(known)}", hint=hint)


#: The production settings of June 2021: persons and housing units of P.L. 94-171.
PL94_PERSON: Final = SpineSettings("optimised")
PL94_UNIT: Final = SpineSettings("optimised", consider_gq=False)
#: The production settings of the Demographic and Housing Characteristics, persons and units alike.
DHC: Final = SpineSettings("dhc", target_school_districts=True, target_block_groups=True)

#: Name of a preset -> the settings.
PRESETS: Final[Mapping[str, SpineSettings]] = {"pl94_person": PL94_PERSON, "pl94_unit": PL94_UNIT, "dhc": DHC}


@dataclass(frozen=True, slots=True)
class LevelShares:
    """Shares of the geolevels in the budget, before anything is bypassed.

    Attributes:
        levels: Names of the geolevels, root first; "County" among them.
        numerators: Share of each level, in parts of the denominator.
        denominator: Least common denominator of all shares.
    """

    levels: tuple[str, ...]
    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, shares: Mapping[str, Fraction]) -> LevelShares:
        """Shares from fractions.

        Args:
            shares: Name of the geolevel, root first -> exact share.

        Raises:
            GeographyError: A share is no fraction or not positive, they do not sum to exactly 1, there is no county,
                or more than two levels stand above it.
        """
        for level, share in shares.items():
            given: object = share
            if not isinstance(given, Fraction) or given <= 0:
                raise GeographyError(f"the share of geolevel {level!r} must be a fraction above 0, is {share!r}")
        total = sum(shares.values(), Fraction(0))
        if total != 1:
            raise GeographyError(f"the shares of the geolevels sum to {total}, not 1")
        levels = tuple(shares)
        if COUNTY not in levels or levels.index(COUNTY) > 2:  # noqa: PLR2004 - a root and the states
            raise GeographyError(
                f"a spine has 'County' below a root and states at most, found {', '.join(levels)}",
            )
        denominator = lcm(*(share.denominator for share in shares.values()))
        return cls(levels, tuple(int(share * denominator) for share in shares.values()), denominator)

    @property
    def above(self) -> int:
        """Number of levels above the county."""
        return self.levels.index(COUNTY)

    @property
    def county_levels(self) -> tuple[str, ...]:
        """Names of the levels from the county down."""
        return self.levels[self.above :]

    @property
    def county_numerators(self) -> tuple[int, ...]:
        """Shares of the levels from the county down."""
        return self.numerators[self.above :]


def _parts(levels: Sequence[str], numerators: Sequence[int], denominator: int) -> dict[str, Fraction]:
    return {level: Fraction(part, denominator) for level, part in zip(levels, numerators, strict=True)}


_DHC_LEVELS: Final = ("US", "State", COUNTY, "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")

#: Shares of the levels in the zCDP production runs of the Demographic and Housing Characteristics. Those of P.L. 94-171
#: are strategies of its products.
DHC_SHARES: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "dhc_person_us": _parts(_DHC_LEVELS, (949, 12987, 4960, 6214, 6214, 13888, 4300, 110), 49622),
    "dhc_person_pr": _parts(_DHC_LEVELS[1:], (13142, 5120, 6371, 6371, 14048, 4460, 110), 49622),
    "dhc_unit_us": _parts(_DHC_LEVELS, (4834, 17012, 14454, 9712, 9712, 16861, 4260, 160), 77005),
    "dhc_unit_pr": _parts(_DHC_LEVELS[1:], (17813, 15261, 10519, 10519, 17666, 5067, 160), 77005),
}
