"""Empirical lower bounds on privacy loss: pure statistics of events under two neighbouring inputs."""

from das_spark.evaluation.audit.binomial import lower_limit, upper_limit
from das_spark.evaluation.audit.claim import Claim, epsilon_bound, rho_bound
from das_spark.evaluation.audit.events import KINDS, Event, Statistic, choose
from das_spark.evaluation.audit.judgement import Finding, Judgement, Part, judge
from das_spark.evaluation.audit.learning import learned
from das_spark.evaluation.audit.noise import DeclaredNoise, log_ratio, louder
from das_spark.evaluation.audit.report import EXACT_LEAK, AuditReport, Power

__all__ = [
    "EXACT_LEAK",
    "KINDS",
    "AuditReport",
    "Claim",
    "DeclaredNoise",
    "Event",
    "Finding",
    "Judgement",
    "Part",
    "Power",
    "Statistic",
    "choose",
    "epsilon_bound",
    "judge",
    "learned",
    "log_ratio",
    "louder",
    "lower_limit",
    "rho_bound",
    "upper_limit",
]
