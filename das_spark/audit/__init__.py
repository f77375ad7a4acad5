"""What an attacker can tell from the outputs of a configured system, proven on synthetic neighbouring inputs.

`neighbouring_inputs` invents two small populations that differ in one record, within the declared invariants.
`LocalSystem` runs the plan on them in memory, many times, by the same core that Spark carries out. An attacker chooses
events by one half of the runs; the other half judges them with exact confidence limits (`judge`): each event is a lower
bound on the privacy loss (`Claim`), and must not be more telling than the declared noise allows (`DeclaredNoise`).
`run_audit` does all of it and gives an `AuditReport`. No confidential input is opened.
"""

from das_spark.audit.audits import AuditSettings, run_audit, write_audit
from das_spark.audit.events import KINDS
from das_spark.audit.inputs import allowed_cells, exact_at, told_apart, units_for
from das_spark.audit.report import present_audit
from das_spark.audit.system import SmallPopulation, geocode_at

__all__ = [
    "KINDS",
    "AuditSettings",
    "SmallPopulation",
    "allowed_cells",
    "exact_at",
    "geocode_at",
    "present_audit",
    "run_audit",
    "told_apart",
    "units_for",
    "write_audit",
]
