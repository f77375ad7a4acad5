"""A family as bytes, all of it public: those that could not be estimated are kept, to be studied and solved again."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from das_spark.core.family import MeasuredFamily
from das_spark.estimation import FamilyBounds, FamilyFlows, FamilyGroups, FamilyMeasurement, FamilyProblem
from das_spark.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from das_spark.core.levels import LevelPlan


def saved_family(family: MeasuredFamily) -> bytes:
    """All that an estimator was given of a family, as compressed numpy arrays; queries by their names."""
    problem = family.problem
    arrays: dict[str, NDArray[Any]] = {
        "children": np.array(problem.children),
        "family": np.array(problem.parent_geocode),
    }
    if problem.parent is not None:
        arrays |= {"parent_cells": problem.parent.cells, "parent_counts": problem.parent.counts}
    for measurement in problem.measurements:
        name = measurement.query.name
        arrays |= {
            f"rows {name}": measurement.rows,
            f"values {name}": measurement.values,
            f"variance {name}": measurement.variance,
        }
    for bound in problem.bounds:
        arrays |= {f"lower {bound.name}": bound.lower, f"upper {bound.name}": bound.upper}
        if bound.rows is not None:
            arrays[f"bounded {bound.name}"] = bound.rows
    if problem.flows is not None:
        flows = problem.flows
        arrays |= {"child": flows.child, "total": flows.total, "flow lower": flows.lower, "flow upper": flows.upper}
    if problem.groups is not None:
        arrays |= {"group": np.array(problem.groups.labels), "group total": problem.groups.totals}
    for place, given in enumerate(family.upward):
        arrays |= {f"upward {place} {name}": array for name, array in given.items()}
    arrays |= {f"with parent {name}": array for name, array in (family.parent or {}).items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_family(content: bytes, plan: LevelPlan) -> MeasuredFamily:
    """Read back what `saved_family` gave; `plan.estimator.estimate` then solves it as in the run.

    Args:
        content: The bytes.
        plan: That of the children's level in the run, which has the queries.
    """
    with np.load(io.BytesIO(content)) as opened:
        arrays = dict(opened)
    children, parent = tuple(arrays["children"].tolist()), _named(arrays, "with parent ")
    rows, values, variance = (_named(arrays, f"{kind} ") for kind in ("rows", "values", "variance"))
    lower, upper, bounded = (_named(arrays, f"{kind} ") for kind in ("lower", "upper", "bounded"))
    problem = FamilyProblem(
        parent_geocode=str(arrays["family"]),
        parent=Histogram(plan.size, arrays["parent_cells"], arrays["parent_counts"])
        if "parent_cells" in arrays
        else None,
        children=children,
        size=plan.size,
        measurements=tuple(
            FamilyMeasurement(plan.queries[name], rows[name], values[name], variance[name]) for name in rows
        ),
        bounds=tuple(
            FamilyBounds(name, plan.queries[name], lower[name], upper[name], bounded.get(name)) for name in lower
        ),
        flows=FamilyFlows(
            plan.queries["class"], arrays["child"], arrays["flow lower"], arrays["flow upper"], arrays["total"]
        )
        if "child" in arrays
        else None,
        groups=FamilyGroups(tuple(arrays["group"].tolist()), arrays["group total"]) if "group" in arrays else None,
    )
    upward = tuple(_named(arrays, f"upward {place} ") for place in range(len(children)))
    return MeasuredFamily(problem, upward if any(upward) else (), parent or None)


def _named(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
