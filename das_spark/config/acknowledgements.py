"""What a run publishes without noise although it follows from people, and the acknowledgement that this needs.

Declared units are exact. Where they are made of the people, whoever reads them reads the people, whatever the budget:
no epsilon covers it. Such a run is refused unless `[privacy] acknowledge` names what it gives up, and its statement
opens with that instead of a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config.inputs import READER_NEEDS
from das_spark.config.load import nearest
from das_spark.errors import Problems
from das_spark.places import is_address

if TYPE_CHECKING:
    from das_spark.config.model import InputSettings, OutputSection
    from das_spark.config.plan import RunPlan
    from das_spark.products import Product

KEY: Final = "privacy.acknowledge"
#: Acknowledges that estimates are held to counts of a release that the ledger of the dataset does not have.
PUBLISHED_ELSEWHERE: Final = "published_elsewhere"
#: Banner of such a run.
COUNTED_ELSEWHERE: Final = (
    "COUNTED ELSEWHERE: the estimates are held to counts of a release that the ledger of this dataset does not have; no"
    " sum of the ledger and no cap includes what that release cost"
)
#: Acknowledges that the store of what is confidential keeps what is removed from it.
REMOVED_IS_KEPT: Final = "removed_is_kept"
#: Acknowledges that the store of what is confidential does not say that it encrypts what lies there.
NOT_ENCRYPTED_AT_REST: Final = "not_encrypted_at_rest"
#: What an acknowledged store does not do: banners of such a run, by what it acknowledges.
BANNERS_OF_STORES: Final[Mapping[str, str]] = MappingProxyType(
    {
        REMOVED_IS_KEPT: "NOT DESTROYED: the store in which this run was made keeps what is removed from it, so that"
        " measurements that were drawn and destroyed, and confidential tables that are removed, can be brought back by"
        " those who may read it",
        NOT_ENCRYPTED_AT_REST: "NOT KNOWN TO BE ENCRYPTED AT REST: the store in which this run was made does not say"
        " that it encrypts what lies there, so that confidential tables may be read from its disks",
    }
)
#: The geolevel by which official files count people in group quarters.
_BLOCK: Final = "Block"
BANNER: Final = "PUBLISHED NEARLY EXACTLY, although it follows from people, outside of any epsilon"
#: Of what a total is the cost where the claim is void, for `plan` and summaries.
ANSWERS_ALONE: Final = "of the noisy answers alone, not of what is published nearly exactly"
#: The same where records of units are protected.
UNITS_ALONE: Final = "of records of housing units, not of the people that are published nearly exactly"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Something exact that follows from people."""

    cause: str  # what of the run file causes it
    text: str  # what anybody can read, half a sentence; `{leaf}` is the lowest geolevel, `{whether}` what is told of it
    rule: str  # how the numbers are made, in sentences

    def published(self, leaf: str) -> str:
        """What anybody can read."""
        return self.text.format(leaf=leaf, whether="whether" if leaf == _BLOCK else "in how many of its blocks")


GIVEN_UP: Final[Mapping[str, GivenUp]] = MappingProxyType(
    {
        "units_from_people": GivenUp(
            "input.units_from_people",
            "the number of people in households in every {leaf}, but for two or three possible numbers, and whether "
            "anybody there lives in group quarters of each type, or about how many where one facility cannot hold them",
            "The input has no counts of units: one housing unit is declared for each 2.5 people in households, rounded "
            "up, and one facility of a type of group quarters where it has people, or as many as can hold them "
            "(input.units_from_people).",
        ),
        "facilities_from_people": GivenUp(
            "the reader pl94_summary, whose files have no counts of facilities,",
            "in every {leaf}, {whether} anybody lives in group quarters of each type, or about how many where one "
            "facility cannot hold them",
            "The input has no counts of facilities of group quarters: one facility of a type is declared for each "
            "block where table P5 has people of that type, or as many as can hold them.",
        ),
        "unit_conflicts_from_people": GivenUp(
            'input.unit_conflicts = "from_people"',
            "in every {leaf} whose units and people contradict each other, the nearest number of units that its people "
            "allow",
            "Where the units of a class contradicted the people of a geounit in the input, the nearest possible number "
            "of units was declared instead (input.unit_conflicts = from_people).",
        ),
    }
)


def given_up(section: InputSettings, product: Product, *, units_invariant: bool) -> tuple[str, ...]:
    """Names of what a run publishes exactly although it follows from people; all of them must be acknowledged."""
    if not units_invariant:
        return ()
    needs = READER_NEEDS.get(section.reader)
    made = section.units_from_people and product.record == "person" and bool(product.class_query)
    facilities = needs is not None and needs.facilities_from_people and not made
    settled = section.unit_conflicts == "from_people" and product.unit_bounds is not None
    there = {
        "units_from_people": made,
        "facilities_from_people": facilities,
        # Units that are made of the people cannot contradict them.
        "unit_conflicts_from_people": settled and not made,
    }
    return tuple(name for name in GIVEN_UP if there[name])


def may_be_elsewhere(section: InputSettings, product: Product) -> bool:
    """Return whether a run may acknowledge that it is held to a release that its ledger does not have.

    Whether it has to is decided when the ledger is opened (`das_spark.pipeline.published`).
    """
    return product.published is not None and section.published is not None


def may_acknowledge(section: InputSettings, product: Product, output: OutputSection) -> tuple[str, ...]:
    """Names that a run file may acknowledge; whether it has to is found out when the run is tried."""
    elsewhere = (PUBLISHED_ELSEWHERE,) if may_be_elsewhere(section, product) else ()
    places = (output.restricted or output.root, output.work or "")
    return (*elsewhere, *(BANNERS_OF_STORES if any(map(is_address, places)) else ()))


def resolve_acknowledgements(
    acknowledged: Sequence[str], needed: Sequence[str], leaf: str, problems: Problems, *, optional: Sequence[str] = ()
) -> tuple[str, ...]:
    """Compare what a run file acknowledges with what the run gives up; both must be the same.

    Args:
        acknowledged: Of the run file.
        needed: What must be acknowledged.
        leaf: Name of the lowest geolevel.
        problems: Is given what is wrong.
        optional: Result of `may_acknowledge`.
    """
    known = (*GIVEN_UP, PUBLISHED_ELSEWHERE, *BANNERS_OF_STORES)
    for name in dict.fromkeys(acknowledged):
        if name not in known:
            problems.add(KEY, f"there is nothing called '{name}'; {nearest(name, known)}")
        elif name not in needed and name not in optional:
            problems.add(KEY, f"'{name}' is acknowledged, and this run gives up nothing of the kind; take it out")
    if len(set(acknowledged)) < len(acknowledged):
        problems.add(KEY, "a name stands twice")
    for name in needed:
        if name not in acknowledged:
            each = GIVEN_UP[name]
            problems.add(
                KEY,
                f"{each.cause} publishes exactly, outside of any epsilon: {each.published(leaf)}. If that "
                f'is meant, add "{name}" to privacy.acknowledge; else give counts of units that do not follow from '
                "people, or set invariants.units = false",
            )
    return tuple(name for name in known if name in acknowledged)


def published_from_people(acknowledged: Iterable[str], leaf: str) -> tuple[str, ...]:
    """What a run publishes exactly although it follows from people, for banners: one half sentence each."""
    return tuple(GIVEN_UP[name].published(leaf) for name in acknowledged if name in GIVEN_UP)


def notice_of_people(published: Sequence[str]) -> list[str]:
    """What every public file of such a run carries: one sentence, or nothing."""
    if not published:
        return []
    return [f"{BANNER}: {'; '.join(published)}"]


def rules_from_people(acknowledged: Iterable[str]) -> tuple[str, ...]:
    """How numbers are made that follow from people, in sentences."""
    return tuple(GIVEN_UP[name].rule for name in acknowledged if name in GIVEN_UP)


def follows_from_people(plan: RunPlan) -> bool:
    """Return whether a run publishes exact numbers that follow from people."""
    return any(name in GIVEN_UP for name in plan.acknowledged)


def extent_of_loss(plan: RunPlan) -> str:
    """Of what the total of a run is the cost, where that is not everything; empty where it is."""
    if not follows_from_people(plan):
        return ""
    return ANSWERS_ALONE if is_void(plan) else UNITS_ALONE


def is_void(plan: RunPlan) -> bool:
    """Whether the claim about whole records fails: it is about people, and numbers that follow from them are exact."""
    return follows_from_people(plan) and plan.product.record == "person"
