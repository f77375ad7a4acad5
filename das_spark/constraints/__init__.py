"""What must hold in every estimate: invariants, bounds, structural zeros, and whether they can hold together.

`Invariants`, `StructuralZero` and `AddedConstraint` declare; `UnitBounds` turns the units of a geounit into bounds on
the people of each class; `find_flows` divides class margins among areas with known totals, where that can be.
"""

from das_spark.constraints.bounds import (
    UNBOUNDED,
    UnitBounds,
    bounds_up_the_spine,
    divisible,
    find_flows,
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
    "tighten",
]
