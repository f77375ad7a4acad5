"""Rules on what solvers say of their own work, a row a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.estimation import UNPROVED, FamilyStatus
from das_spark.verification.families import FamilyRule, Found, Key, first_wrong, summed
from das_spark.verification.geounits import groups, keys, rule_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config import EstimationSettings
    from das_spark.verification.families import Families, Rows

_METHOD: Final = "(largest remainder|minimum-cost flow|(linear|mixed-integer) program(, widened)?)"
_ROUNDING: Final = f"^{_METHOD}(, {_METHOD})*$"
_SHORTCUTS: Final = (str(FamilyStatus.ONLY_CHILD), str(FamilyStatus.EMPTY_PARENT))


@dataclass(frozen=True, slots=True)
class DiagnosticColumns(FamilyRule):
    """Every family has one row, which says nothing impossible.

    Attributes:
        levels: From the top.
        settings: Of the estimation.
        relaxed: Level -> parents whose families are exempt from consistency.
        total_key: First digit (from 1) and number of the digits that the geounits at the top of one family share; None
            where each is a family of its own.
    """

    needs: ClassVar = ("geounits", "diagnostics")

    levels: Sequence[str]
    settings: EstimationSettings
    relaxed: Mapping[str, tuple[str, ...]]
    total_key: tuple[int, int] | None

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(rule_name("diagnostics"), self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows = families.rows("diagnostics")
        if families.level == self.levels[0]:
            said = rows.texts("family")
            due = self._at_the_top(families)
            every = (*said.known, *(name for name in due if name not in said.known))
            of_row, number = said.code, len(every)
            members = np.array([due.get(name, 0) for name in every], dtype=np.int64)
        else:
            every, of_row, number = tuple(families.names.to_pylist()), rows.family, len(families.names)
            geounits = families.rows("geounits")
            members = np.bincount(geounits.family, minlength=number)
        count = np.bincount(of_row, minlength=number)
        children = summed(of_row, rows.numbers("children", -1), number)
        there = members > 0
        wrong = {"family": (count != 1) | ~there, "children": children != members}
        for name, bad in self._impossible(rows, [every[place] for place in of_row], families.level).items():
            wrong[name] = np.bincount(of_row[bad], minlength=number) > 0
        looked = (count > 0) | there
        failing = first_wrong(pa.array(every, pa.string()), {name: bad & looked for name, bad in wrong.items()})
        yield Found(rule_name("diagnostics"), int(there.sum()), failing)

    def _at_the_top(self, families: Families) -> dict[str, int]:
        """Families of the top, which has no parents, by their first geounits, and how many geounits each has."""
        if self.total_key is None:
            group, number = np.arange(len(families.geocodes)), len(families.geocodes)
        else:
            group, names = groups(families, self.total_key)
            number = len(names)
        members = np.bincount(group, weights=families.geounits, minlength=number).astype(np.int64)
        first: dict[int, str] = {}
        for place, code in enumerate(families.geocodes.to_pylist()):
            if families.geounits[place]:
                first[int(group[place])] = min(code, first.get(int(group[place]), code))
        return {code: int(members[place]) for place, code in first.items()}

    def _impossible(self, rows: Rows, family: Sequence[str], level: str) -> dict[str, NDArray[np.bool_]]:
        """Column of a row of diagnostics -> whether its value cannot be; null cannot."""
        settings, columns = self.settings, rows.columns
        refused = "" if settings.accept_uncertified else str(FamilyStatus.ACCEPTED)
        usable = [str(status) for status in FamilyStatus if status.is_usable and str(status) != refused]
        status = rows.texts("status")
        accepted, short = status.are(FamilyStatus.ACCEPTED), status.among(_SHORTCUTS) >= 0
        exempt = np.isin(np.array(family, dtype=object), self.relaxed.get(level, ()))
        only_one = ~status.are(FamilyStatus.ONLY_CHILD) | (rows.numbers("children", -1) == 1)
        relaxed = accepted | (status.are(FamilyStatus.RELAXED) == exempt)
        names = "|".join(["presolve", *settings.solvers])

        def matches(name: str, pattern: str) -> NDArray[np.bool_]:
            found = pc.match_substring_regex(columns[name], pattern)
            return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))

        def number(name: str) -> NDArray[np.float64]:
            return np.asarray(
                columns[name].cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
            )

        # Shortcuts have nothing to solve.
        counted = {
            name: (number(name) >= 0) & (~short | (number(name) == 0))
            for name in ("variables", "iterations", "attempts")
        }
        finite = {name: (number(name) >= 0) & (number(name) < np.inf) for name in ("primal_residual", "rounding_gap")}
        said = columns["relaxed"].fill_null(False).to_numpy(zero_copy_only=False)
        known = columns["relaxed"].is_valid().to_numpy(zero_copy_only=False)
        message, rounding = rows.texts("message"), rows.texts("rounding")
        right = {
            "geolevel": rows.texts("geolevel").are(level),
            "status": (status.among(usable) >= 0) & only_one & relaxed,
            "solver": matches("solver", f"^({names})(, ({names}))*$") & (~short | rows.texts("solver").are("presolve")),
            "passes": number("passes") >= 1,
            **counted,
            **finite,
            "gap": accepted | (np.abs(number("gap")) <= settings.gap_tolerance),
            "rounding": rounding.are("") | (~short & matches("rounding", _ROUNDING)),
            "relaxed": known & (said == exempt),
            "message": np.where(accepted, message.are(UNPROVED), message.are(""))
            | (said & matches("message", "^relaxed because: ")),
            "problem": columns["problem"].is_null().to_numpy(zero_copy_only=False),
        }
        return {name: ~each for name, each in right.items()}
