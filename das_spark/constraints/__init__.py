"""What must hold in every estimate: invariants, bounds, structural zeros, and whether they can hold together."""

from das_spark.constraints.added import AddedConstraint, Sense
from das_spark.constraints.bounds import UNBOUNDED, UnitBounds, bounds_up_the_spine, divisible, tighten
from das_spark.constraints.flows import find_flows, flow_feasible
from das_spark.constraints.invariants import Invariants
from das_spark.constraints.structural import StructuralZero

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
