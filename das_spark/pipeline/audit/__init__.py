"""Audits of a configured system: invented neighbouring inputs, the system in one process, and the verdict."""

from das_spark.pipeline.audit.audits import AuditSettings, Stage, run_audit, write_audit
from das_spark.pipeline.audit.inputs import NeighbouringInputs, WatchedAnswer, neighbouring_inputs
from das_spark.pipeline.audit.population import SmallPopulation
from das_spark.pipeline.audit.structure import StructureReport, audit_structure, write_structure
from das_spark.pipeline.audit.system import LocalSystem, Release

__all__ = [
    "AuditSettings",
    "LocalSystem",
    "NeighbouringInputs",
    "Release",
    "SmallPopulation",
    "Stage",
    "StructureReport",
    "WatchedAnswer",
    "audit_structure",
    "neighbouring_inputs",
    "run_audit",
    "write_audit",
    "write_structure",
]
