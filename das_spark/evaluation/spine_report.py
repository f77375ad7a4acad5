"""The report on a spine as data: its levels, where the budget went, and its off-spine entities, before and after.

Before is the census spine of the same blocks. Everything is public: geography, shares of a budget, and what follows
from them; no count of people is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Self

from das_spark.errors import GeographyError, InputError
from das_spark.evaluation.spine_lines import CategoryFigures, LevelMove, SharePath, SpineLevelLine, share_path
from das_spark.evaluation.spine_lines_json import (
    ENTITY_COLUMNS,
    entities_json,
    entities_of_json,
    finite_json,
    fractions_json,
    level_json,
    level_of_json,
)
from das_spark.geography import EntityComparison

SCHEMA_VERSION: Final = 1

DEFINITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "before": "the census spine of the same blocks; what an optimised spine has between counties and block groups "
        "takes the place of the tracts there, which have the sum of those shares",
        "after": "the spine that the report is on",
        "distance": "off-spine distance: least number of geounits that must be added or subtracted to make up an "
        "entity; 1 where it is a geounit",
        "deviation": "standard deviation, in people, of the total of an entity estimated by weighted least squares "
        "from one noisy total of every geounit, as if nothing else were measured and the whole budget were spent on "
        "totals; without rounding and bounds. It compares spines: a run that asks more queries has larger ones",
        "unmeasured": "geounits with a share of 0: the budget of an only child is spent on its parent",
        "received": "mean over all blocks of what the geounit on the path of a block has more than its level's share "
        "of the budget; 0 where it has not more",
        "given": "mean over all blocks of what the geounit on the path of a block has less than its level's share; 0 "
        "where it has not less",
        "nearer": "share of the entities whose distance fell; same and farther likewise",
        "p90": "90th percentile (linear interpolation)",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class SpineReport:
    """A spine beside the census spine of its blocks.

    Attributes:
        kind: Kind of the spine.
        framework: "pure_dp" or "zcdp".
        budget: epsilon or rho that the standard deviations are for.
        before: Levels of the census spine, root first.
        after: Levels of the spine, root first.
        paths: Every distinct path of shares in the spine, most blocks first.
        categories: The entities of each category.
        notes: Sentences about the geography.
        facts: What else is known of the spine, such as product and strategy.
    """

    kind: str
    framework: str
    budget: Fraction
    before: tuple[SpineLevelLine, ...]
    after: tuple[SpineLevelLine, ...]
    paths: tuple[SharePath, ...]
    categories: tuple[EntityComparison, ...]
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.after[-1].geounits

    @property
    def figures(self) -> tuple[CategoryFigures, ...]:
        """Figures of every category."""
        return tuple(map(CategoryFigures.of, self.categories))

    @property
    def moves(self) -> tuple[LevelMove, ...]:
        """What bypassing moved, level by level, root first."""
        found = []
        for place, level in enumerate(self.after):
            more = [(path.shares[place] - level.share, path.blocks) for path in self.paths]
            received = sum((part * count for part, count in more if part > 0), Fraction(0))
            given = sum((-part * count for part, count in more if part < 0), Fraction(0))
            found.append(LevelMove(level.name, level.share, received / self.blocks, given / self.blocks))
        return tuple(found)

    def category(self, name: str) -> EntityComparison:
        """The entities of a category.

        Args:
            name: Name of the category.

        Raises:
            InputError: The report has none of that name.
        """
        found = next((each for each in self.categories if each.category == name), None)
        if found is None:
            raise InputError(f"the report on the spine has no category {name!r}")
        return found

    def to_json(self) -> str:
        """The report as text: shares as fractions, an entity a line; null where there is no finite number."""
        head = {
            "schema_version": SCHEMA_VERSION,
            "kind": self.kind,
            "framework": self.framework,
            "budget": str(self.budget),
            "blocks": self.blocks,
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "definitions": dict(DEFINITIONS),
            "before": [level_json(level) for level in self.before],
            "after": [level_json(level) for level in self.after],
            "moves": [fractions_json(asdict(move)) | {"after": str(move.after)} for move in self.moves],
            "share_paths": [{"shares": list(map(str, path.shares)), "blocks": path.blocks} for path in self.paths],
            "figures": [finite_json(asdict(figures)) for figures in self.figures],
            "entity_columns": list(ENTITY_COLUMNS),
        }
        parts = [f'"{name}": {json.dumps(value, indent=1, allow_nan=False)}' for name, value in head.items()]
        parts.append('"entities": {\n' + ",\n".join(map(entities_json, self.categories)) + "\n}")
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a report; figures are computed anew.

        Args:
            text: What `to_json` wrote.

        Raises:
            InputError: It is no report of this version.
        """
        try:
            data = json.loads(text)
            if data["schema_version"] != SCHEMA_VERSION:
                raise InputError(f"report on a spine of version {data['schema_version']}, expected {SCHEMA_VERSION}")
            return cls(
                data["kind"],
                data["framework"],
                Fraction(data["budget"]),
                tuple(map(level_of_json, data["before"])),
                tuple(map(level_of_json, data["after"])),
                tuple(share_path(path["shares"], path["blocks"]) for path in data["share_paths"]),
                tuple(entities_of_json(name, rows) for name, rows in data["entities"].items()),
                tuple(data["notes"]),
                tuple(data["facts"].items()),
            )
        except (ValueError, KeyError, TypeError, AttributeError, GeographyError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("not readable as a report on a spine") from error
