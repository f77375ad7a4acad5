"""What the public diagnostics of a level say together, read a batch at a time: they have a row a family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.estimation import FamilyStatus
from das_spark.evaluation import FAMILY_FIGURES, EstimatedLevel, FamilyRow
from das_spark.store.parquet import read_batches, read_rows
from das_spark.store.tables import DIAGNOSTICS

if TYPE_CHECKING:
    from das_spark.places import Place

_RESIDUAL: Final = "primal_residual"


@dataclass(frozen=True, slots=True)
class SolverFacts:
    """What a public manifest says of the families of a level.

    Attributes:
        status: Status and solver -> families.
        worst: Residual -> its largest value.
        relaxed: Families whose consistency was relaxed.
        uncertified: Families whose estimate is not proved to be the best.
    """

    status: dict[str, int]
    worst: dict[str, float]
    relaxed: tuple[str, ...]
    uncertified: tuple[str, ...]


def solver_facts(folder: Place) -> SolverFacts:
    """Count the families of a level."""
    columns = ["family", "status", "solver", "gap", _RESIDUAL, "relaxed"]
    rows = read_rows(folder, pa.schema([DIAGNOSTICS.schema.field(name) for name in columns]))
    counted = rows.group_by(["status", "solver"]).aggregate([([], "count_all")]).to_pylist()
    counted.sort(key=lambda row: (row["status"], row["solver"]))
    worst = {"gap": pc.max(rows.column("gap")).as_py(), _RESIDUAL: pc.max(rows.column(_RESIDUAL)).as_py()}
    relaxed = rows.filter(rows.column("relaxed")).column("family").to_pylist()
    accepted = rows.filter(pc.equal(rows.column("status"), str(FamilyStatus.ACCEPTED)))
    uncertified = accepted.column("family").to_pylist()
    status = {f"{row['status']} ({row['solver']})": row["count_all"] for row in counted}
    return SolverFacts(status, worst, tuple(sorted(relaxed)), tuple(sorted(uncertified)))


def read_level_diagnostics(folder: Place, geolevel: str, most: int) -> EstimatedLevel:
    """Status counts, worst figures and the families of most work of one level."""
    statuses: dict[str, int] = {}
    worst = {"gap": 0.0, _RESIDUAL: 0.0}
    largest: list[FamilyRow] = []
    for batch in read_batches(folder, [*FAMILY_FIGURES, _RESIDUAL]):
        rows = pa.Table.from_batches([batch])
        counted = rows.group_by(["status", "solver"]).aggregate([("gap", "max"), (_RESIDUAL, "max"), ([], "count_all")])
        for each in counted.to_pylist():
            name = f"{each['status']} ({each['solver'] or 'no solver needed'})"
            statuses[name] = statuses.get(name, 0) + each["count_all"]
            worst = {key: max(value, each[f"{key}_max"]) for key, value in worst.items()}
        largest = sorted([*largest, *_largest(rows, geolevel, most)], key=lambda each: each.order)
        del largest[most:]
    return EstimatedLevel(geolevel, dict(sorted(statuses.items())), worst["gap"], worst[_RESIDUAL], tuple(largest))


def _largest(rows: Any, geolevel: str, most: int) -> list[FamilyRow]:  # noqa: ANN401 - pyarrow has no types
    variables, iterations = (rows[name].to_numpy() for name in ("variables", "iterations"))
    order = np.argsort(-(variables * np.maximum(iterations, 1)), kind="stable")[:most]
    return [FamilyRow(geolevel, **row) for row in rows.select(list(FAMILY_FIGURES)).take(pa.array(order)).to_pylist()]
