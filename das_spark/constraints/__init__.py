"""What must hold in every estimate: invariants, bounds, structural zeros, and whether they can hold together.

`Invariants`, `StructuralZero` and `AddedConstraint` declare; `UnitBounds` turns the units of a geounit into bounds on
the people of each class; `flow_feasible` says whether class margins can be divided among areas with known totals.
"""

from das_spark.constraints.bounds import (
    UNBOUNDED,
    UnitBounds,
    bounds_up_the_spine,
    divisible,
    find_flows,
    flow_feasible,
    tighten,
)
from das_spark.constraints.declared import AddedConstraint, Invariants, Sense, StructuralZero

__all__ = [
    "UNBOUNDED",
    "AddedConstraint",
    "Invariants",
    "Sense",
    "StructuralZero",
    "UnitBounds",
    "bounds_up_the_spine",
    "divisible",
    "find_flows",
    "flow_feasible",
    "tighten",
]
