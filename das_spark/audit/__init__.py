"""What an attacker can tell from the outputs of a configured system, proven on invented neighbouring inputs.

`neighbouring_inputs` invents two small populations that differ in one record, within the declared invariants.
`LocalSystem` runs the plan on them in memory, many times, by the same core that Spark carries out. An attacker chooses
events by one half of the runs; the other half judges them with exact confidence limits (`judge`): each event is a lower
bound on the privacy loss (`Claim`), and must not be more telling than the declared noise allows (`DeclaredNoise`).
`run_audit` does all of it and gives an `AuditReport`. No confidential input is opened.
"""

from das_spark.audit.audits import AuditSettings, AuditStage, run_audit, write_audit
from das_spark.audit.claim import Claim, epsilon_bound, lower_limit, rho_bound, upper_limit
from das_spark.audit.events import KINDS, Statistic, StatisticEvent, choose, learned
from das_spark.audit.inputs import (
    NeighbouringInputs,
    WatchedAnswer,
    allowed_cells,
    exact_at,
    neighbouring_inputs,
    units_for,
)
from das_spark.audit.judgement import Finding, Judgement, Part, judge
from das_spark.audit.noise import DeclaredNoise, log_ratio, louder
from das_spark.audit.report import (
    EXACT_LEAK,
    AuditReport,
    Power,
    present_audit,
    too_few,
)
from das_spark.audit.system import LocalSystem, SmallPopulation, declared_bounds, geocode_at

__all__ = [
    "EXACT_LEAK",
    "KINDS",
    "AuditReport",
    "AuditSettings",
    "AuditStage",
    "Claim",
    "DeclaredNoise",
    "Finding",
    "Judgement",
    "LocalSystem",
    "NeighbouringInputs",
    "Part",
    "Power",
    "SmallPopulation",
    "Statistic",
    "StatisticEvent",
    "WatchedAnswer",
    "allowed_cells",
    "choose",
    "declared_bounds",
    "epsilon_bound",
    "exact_at",
    "geocode_at",
    "judge",
    "learned",
    "log_ratio",
    "louder",
    "lower_limit",
    "neighbouring_inputs",
    "present_audit",
    "rho_bound",
    "run_audit",
    "too_few",
    "units_for",
    "upper_limit",
    "write_audit",
]
