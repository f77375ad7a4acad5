"""The optimised spine against a reference that follows the released rules step by step, in loops over lists.

A county is a list of groups of tracts, a tract a list of block groups, a block group a list of blocks. Nothing but the
table of blocks and the settings is shared with the program.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from das_spark.geography import PL94_PERSON, BlockTable, LevelShares, SpineSettings, county_spines
from das_spark.geography.blocks import PRODUCTION_AIAN
from das_spark.geography.county_spine import optimized_labels

RANGES = {
    "federal": ("0001", "4799"),
    "joint_use": ("4800", "4989"),
    "hawaiian_home_land": ("5000", "5499"),
    "oklahoma": ("5500", "5899"),
    "oklahoma_joint_use": ("5900", "5999"),
    "alaska_native_village": ("6000", "7999"),
    "tribal_designated": ("8000", "8999"),
    "state_legal": ("9000", "9499"),
    "state_designated": ("9500", "9998"),
}
STRONG = {"09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55"}
NOWHERE = {"99999", "9999"}

#: Least numbers of geounits that make up what is inside an entity, and what is outside it.
Pair = tuple[int, int]


@dataclass
class Member:
    """A block: its geocode, its tract, the areas it lies in by category, and its group quarters."""

    code: str
    tract: str
    areas: tuple[str, ...]
    gq: str


def branches(table: BlockTable, settings: SpineSettings) -> Iterator[list[Member]]:
    """Blocks off the AIAN branch, then on it, by geocode."""
    chosen = [RANGES[name] for name in settings.aian_categories]
    parts: tuple[list[Member], list[Member]] = ([], [])
    for row in np.argsort(table.geocode16):
        code, area = str(table.geocode16[row]), str(table.aiannhce[row])
        aian = any(low <= area <= high for low, high in chosen)
        column = table.cousubfp if code[:2] in STRONG and not aian else table.placefp
        areas = [str(column[row])]
        if settings.target_aian_areas:
            areas.append(area if aian else "9999")
        types = "".join("1" if kind and settings.consider_gq else "0" for kind in table.gq[row])
        parts[aian].append(Member(code, code[:11], tuple(areas), types))
    yield from (part for part in parts if part)


def chunks(elements: list, limit: int, group_type: str) -> list[list]:
    """Full lists first; or, if more than one element would be left over, lists that are about as long as each other."""
    number = -(-len(elements) // limit)
    sizes = [limit] * number
    if group_type == "even" and number > 1 and len(elements) % limit > 1:
        small = len(elements) // number
        long = len(elements) - small * number
        sizes = [small] * (number - long) + [small + 1] * long
    found = []
    for size in sizes:
        found.append(elements[:size])
        elements = elements[size:]
    return found


def block_groups(members: list[Member], settings: SpineSettings) -> list[list[Member]]:
    """Optimised block groups of one tract."""
    limit = isqrt(len(members)) + settings.fanout_cutoff + 1
    found = []
    for entities in sorted({"".join(block.areas) + block.gq for block in members}):
        same = [block for block in members if "".join(block.areas) + block.gq == entities]
        found += chunks(same, limit, settings.group_type)
    return found


def above(children: list[Pair]) -> Pair:
    """Algorithm 1, one level up."""
    inside, outside = sum(pair[0] for pair in children), sum(pair[1] for pair in children)
    return min(inside, 1 + outside), min(outside, 1 + inside)


def entities_of(members: list[Member], settings: SpineSettings) -> list[set[str]]:
    """Blocks of every entity whose distance the method looks at."""
    kinds: list[Callable[[Member], str]] = [lambda block: block.areas[0]]
    if settings.target_aian_areas:
        kinds.append(lambda block: block.areas[1])
    if settings.merge == "paper":
        kinds.append(lambda block: block.gq)
    found = []
    for kind in kinds:
        for code in sorted({kind(block) for block in members}):
            if settings.merge == "paper" or code not in NOWHERE:
                found.append({block.code for block in members if kind(block) == code})
    return found


def distances(groups: list[list[int]], seen: list[list[Pair]]) -> list[int]:
    """Distance of every entity from a county of these groups, the largest first; `seen` has tracts by entity."""
    return sorted((above([above([tracts[t] for t in group]) for group in groups])[0] for tracts in seen), reverse=True)


def together(groups: list[list[int]], one: int, other: int) -> list[list[int]]:
    return [group + groups[other] if at == one else group for at, group in enumerate(groups) if at != other]


def merged_as_in_the_paper(count: int, seen: list[list[Pair]], limit: int) -> list[list[int]]:
    groups = [[tract] for tract in range(count)]
    changed = True
    while changed:
        changed, one = False, 0
        while one < len(groups):
            other = one + 1
            while other < len(groups):
                tried = together(groups, one, other)
                fits = len(groups[one]) + len(groups[other]) <= limit
                if fits and distances(tried, seen) <= distances(groups, seen):
                    groups, changed = tried, True
                else:
                    other += 1
            one += 1
    return [sorted(group) for group in groups]


def merged_as_released(
    codes: list[set[str]], seen: list[list[Pair]], limit: int, settings: SpineSettings, met: Counter[str]
) -> list[list[int]]:
    groups: list[list[int]] = []
    for tract, own in enumerate(codes):
        if not any(tract in group for group in groups):
            groups += chunks([other for other in range(len(codes)) if codes[other] == own], limit, settings.group_type)
    met["classes apart"] += groups != sorted(groups)
    groups.sort(key=lambda group: group[0])
    seen = [tracts for tracts in seen if above(tracts)[0] > settings.entity_threshold]
    if not seen:
        pieces = chunks(groups, limit, settings.group_type)
        met["all near"] += 1
        met["larger than the limit"] += any(sum(map(len, piece)) > limit for piece in pieces)
        return [[tract for group in piece for tract in group] for piece in pieces]
    met["some distant"] += 1
    one = 0
    while one < len(groups):
        for other in range(one + 1, len(groups)):
            if len(groups[one]) + len(groups[other]) > limit:
                continue
            tried = together(groups, one, other)
            if distances(tried, seen) <= distances(groups, seen):
                groups = tried
                met["pairs"] += 1
                break
            met["refused"] += 1
        else:
            one += 1
    return groups


@dataclass
class Unit:
    """A geounit with its share of the budget; a block has its geocode and no children."""

    share: Fraction
    children: list[Unit]
    block: str = ""


def county_of(members: list[Member], settings: SpineSettings, shares: Sequence[Fraction], met: Counter[str]) -> Unit:
    """The county before anything is bypassed."""
    tracts = sorted({block.tract for block in members})
    inner = [block_groups([block for block in members if block.tract == tract], settings) for tract in tracts]
    groups = [[tract] for tract in range(len(tracts))]
    if settings.merge != "none":
        limit = isqrt(len(tracts)) + settings.fanout_cutoff
        seen = []
        for entity in entities_of(members, settings):
            leaves = [[[(1, 0) if block.code in entity else (0, 1) for block in group] for group in t] for t in inner]
            seen.append([above([above(group) for group in tract]) for tract in leaves])
        if settings.merge == "paper":
            groups = merged_as_in_the_paper(len(tracts), seen, limit)
        else:
            # Areas only, with the codes that say that a block is in none.
            codes = [{code for block in members if block.tract == tract for code in block.areas} for tract in tracts]
            groups = merged_as_released(codes, seen, limit, settings, met)
        met["out of order"] += any(group != sorted(group) for group in groups)
    county, tract_group, tract, group, block = shares
    return Unit(
        county,
        [
            Unit(
                tract_group,
                [
                    Unit(tract, [Unit(group, [Unit(block, [], leaf.code) for leaf in part]) for part in inner[number]])
                    for number in numbers
                ],
            )
            for numbers in groups
        ],
    )


def sweep(parent: Unit, depth: int, bypasses: Callable[[Unit, Unit], bool]) -> None:
    """Bypass geounits `depth` levels below this one; what takes their place stands last."""
    if depth > 1:
        for child in parent.children:
            sweep(child, depth - 1, bypasses)
        return
    for unit in list(parent.children):
        if bypasses(unit, parent):
            parent.children.remove(unit)
            for child in unit.children:
                parent.children.append(Unit(unit.share + child.share, [child]))
                child.share = Fraction(0)


def reference(
    table: BlockTable, settings: SpineSettings, shares: Sequence[Fraction], framework: str, met: Counter[str]
) -> dict[str, list[tuple[int, Fraction]]]:
    """Geocode of a block -> from the county down, index among its siblings and share of each geounit above it."""

    def pays(unit: Unit, parent: Unit) -> bool:
        number = len(unit.children)
        within = framework == "pure_dp" and number + len(parent.children) - 1 <= settings.bypass_cutoff
        least = min(child.share for child in unit.children)
        return number == 1 or (within and 2 * least >= (number - 1) * unit.share)

    found: dict[str, list[tuple[int, Fraction]]] = {}
    for members in branches(table, settings):
        # An artificial root without a share, so that the county can be bypassed, too.
        root = Unit(Fraction(0), [county_of(members, settings, shares, met)])
        for depth in (4, 3, 2, 1):
            sweep(root, depth, (lambda *_: True) if depth == 2 and settings.merge == "none" else pays)
        if settings.merge == "none":
            # The groups of one tract each take the place of the tracts.
            for county in root.children:
                for group in county.children:
                    (tract,) = group.children
                    assert tract.share == 0
                    group.children = tract.children
        walk(root, [], found)
    return found


def walk(unit: Unit, path: list[tuple[int, Fraction]], found: dict[str, list[tuple[int, Fraction]]]) -> None:
    for index, child in enumerate(unit.children, 1):
        if child.block:
            found[child.block] = [*path, (0, child.share)]
        else:
            walk(child, [*path, (index, child.share)], found)


def built(
    table: BlockTable, settings: SpineSettings, shares: LevelShares, framework: str
) -> dict[str, list[tuple[int, Fraction]]]:
    """The same of the program."""
    found = {}
    for spine in county_spines(table, settings, shares, framework):
        tree, paths = spine.tree, spine.tree.paths()
        index = [tree.child_indices(level) for level in range(tree.depth - 1)]
        for leaf, code in enumerate(spine.blocks.tolist()):
            units = [int(path[leaf]) for path in paths]
            share = [Fraction(int(tree.shares[at][unit]), tree.denominator) for at, unit in enumerate(units)]
            number = [int(index[at][unit]) for at, unit in enumerate(units[:-1])] + [0]
            found[code] = list(zip(number, share, strict=True))
    return found


@pytest.fixture
def county(table_of) -> Callable[..., BlockTable]:
    """A county of the tracts given: for each the places of its blocks, and "x" where its first block has a prison."""

    def build(*tracts: str, prisons: str = "") -> BlockTable:
        blocks, place, gq = [], [], []
        for number, letters in enumerate(tracts):
            for at, letter in enumerate(letters):
                blocks.append(f"04001{number + 1:06d}{1000 + at}")
                place.append("99999" if letter == "-" else 5 * str(1 + "abcdefgh".index(letter)))
                gq.append([at == 0 and prisons[number : number + 1] == "x", *[False] * 6])
        return table_of(blocks, gq, placefp=place)

    return build


def tract_groups(table: BlockTable, settings: SpineSettings) -> list[list[int]]:
    """Numbers of the tracts of each group, from 0, in the order in which they stand in the tree before bypassing."""
    (members,) = branches(table, settings)
    expected = county_of(members, settings, [Fraction(1)] * 5, Counter()).children
    rank, number, _ = (labels.tolist() for labels in optimized_labels(table, False, settings))
    tracts = [int(code[5:]) - 1 for code in table.tract]
    found: list[list[int]] = []
    for one, _, tract in sorted(set(zip(rank, number, tracts, strict=True))):
        found += [[]] * (one + 1 - len(found))
        found[one] = [*found[one], tract]
    blocks = [[unit.children[0].children[0].block for unit in group.children] for group in expected]
    assert found == [[int(block[5:11]) - 1 for block in group] for group in blocks], "the reference says otherwise"
    return found


def released(fanout_cutoff: int, entity_threshold: int) -> SpineSettings:
    return replace(PL94_PERSON, merge="released", fanout_cutoff=fanout_cutoff, entity_threshold=entity_threshold)


def test_group_quarters_do_not_tell_tracts_apart(county) -> None:
    table = county("aa", "aa", "aa", "aa", prisons=" x x")
    assert tract_groups(table, released(0, 0)) == [[0, 1], [2, 3]]


def test_the_code_of_no_area_tells_tracts_apart(county) -> None:
    table = county("aa", "a-", "aa", "a-")
    assert tract_groups(table, released(0, 0)) == [[0, 2], [1, 3]]


def test_blocks_in_no_place_are_no_entity_that_can_be_distant(county) -> None:
    # What lies in no place is four geounits away, each place one; were it an entity, the last two tracts would
    # stay apart from the first two.
    table = county("a-------", "b-------", "cccccccc", "dddddddd")
    assert tract_groups(table, released(2, 3)) == [[0, 1, 2, 3]]


def test_groups_are_cut_into_pieces_of_so_many_groups_where_all_are_near(county) -> None:
    table = county("aa", "aa", "bb", "bb")
    assert tract_groups(table, released(0, 9)) == [[0, 1, 2, 3]]


def test_a_group_stands_where_its_first_tract_stood(county) -> None:
    table = county("aa", "aa", "bb", "aa", "bb")
    assert tract_groups(table, released(0, 0)) == [[0, 1], [2, 4], [3]]


def test_tracts_of_a_group_stand_in_the_order_in_which_they_came(county) -> None:
    table = county("aa", "bb", "aa")
    assert tract_groups(table, released(2, 9)) == [[0, 2, 1]]


LEVELS = {
    False: ("County", "Tract", "Block_Group", "Block"),
    True: ("County", "Tract_Group", "Tract", "Block_Group", "Block"),
}


def random_case(seed: int, table_of) -> tuple[BlockTable, SpineSettings, dict[str, Fraction], str]:
    """A county and settings: few places in runs of tracts, in any order, so that all rules come to bear."""
    draw = random.Random(seed)
    state = draw.choice(["04", "44"])
    pool = draw.choices(["11111", "22222", "33333", "00000", "99999"], k=draw.randint(1, 4))
    areas = draw.sample(["0010", "4850", "8100", "9100", "9600"], k=2) if draw.random() < 0.5 else []
    prisons, outside, size = draw.choice([0, 0.3]), draw.choice([0, 0.3]), draw.choice([1, 3, 9])
    blocks, columns, gq = [], {"placefp": [], "cousubfp": [], "aiannhce": []}, []
    for tract in range(draw.randint(1, 14)):
        own = draw.choices(pool, k=draw.choice([1, 1, 2]))
        for number in range(draw.randint(1, size)):
            blocks.append(f"{state}001{tract + 1:06d}{1000 + number}")
            for column in ("placefp", "cousubfp"):
                columns[column].append("99999" if draw.random() < outside else draw.choice(own))
            columns["aiannhce"].append(draw.choice(areas) if areas and draw.random() < 0.3 else "9999")
            gq.append([draw.random() < prisons * part for part in (1, 0.3, 0, 0, 0.3, 0, 0)])
    settings = replace(
        PL94_PERSON,
        merge=draw.choices(["released", "paper", "none"], [6, 1, 1])[0],
        group_type=draw.choice(["orig", "even"]),
        fanout_cutoff=draw.choice([0, 0, 1, 2]),
        entity_threshold=draw.choice([0, 1, 2, 3, 9]),
        bypass_cutoff=draw.choice([3, 8, 150]),
        consider_gq=draw.random() < 0.8,
        target_aian_areas=draw.random() < 0.8,
        aian_categories=draw.choice([PRODUCTION_AIAN, ("federal", "state_designated"), ()]),
    )
    levels = LEVELS[settings.merge != "none"]
    parts = [draw.randint(1, 6) for _ in levels]
    shares = {level: Fraction(part, sum(parts)) for level, part in zip(levels, parts, strict=True)}
    return table_of(blocks, gq, **columns), settings, shares, draw.choice(["zcdp", "pure_dp"])


@pytest.mark.slow
def test_random_counties_are_those_of_the_reference(table_of) -> None:
    met: Counter[str] = Counter()
    wrong = []
    for seed in range(400):
        table, settings, shares, framework = random_case(seed, table_of)
        given = list(shares.values())
        if settings.merge == "none":
            given.insert(1, Fraction(0))
        expected = reference(table, settings, given, framework, met)
        met[f"{settings.merge} {settings.group_type}"] += 1
        if built(table, settings, LevelShares.of(shares), framework) != expected:
            wrong.append((seed, settings, framework))
    assert not wrong, f"{len(wrong)} of 400 differ, first: {wrong[0]}"
    # The counties put every rule to the test.
    assert min(met[rule] for rule in RULES) >= 10, met


RULES = (
    *("classes apart", "all near", "larger than the limit", "some distant", "pairs", "refused", "out of order"),
    *(f"{merge} {group_type}" for merge in ("released", "paper", "none") for group_type in ("orig", "even")),
)
