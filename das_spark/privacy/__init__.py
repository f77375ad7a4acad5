"""What is spent: exact budgets, accounting, the two laws of noise, exact sampling, keyed bits.

What is claimed and what is not stands in this room's README.md.
"""

from das_spark.privacy.accounting import PUBLISHED_DELTA, Composition, compose, epsilon_bun_steinke, epsilon_cks
from das_spark.privacy.attempts import AttemptLine, DrawState
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.privacy.caps import Cap
from das_spark.privacy.joint_statement import JointPart, joint_costs, joint_statement
from das_spark.privacy.keyed import GeounitAddresses, KeyedStream, RunKey, StreamDomain, geounit_key
from das_spark.privacy.ledger import DeclaredInvariants, EntryState, Ledger, LedgerEntry, line_of
from das_spark.privacy.losses import Loss, attribute_losses, within_geolevel_losses
from das_spark.privacy.mechanisms import MECHANISMS, DiscreteGaussian, DiscreteLaplace, Mechanism, mechanism_for
from das_spark.privacy.sampler import sample
from das_spark.privacy.statement import StatementFacts, privacy_statement
from das_spark.privacy.tables import CumulativeTable, cumulative_table, require_table

__all__ = [
    "MECHANISMS",
    "PUBLISHED_DELTA",
    "AttemptLine",
    "Budget",
    "Cap",
    "Composition",
    "CumulativeTable",
    "DeclaredInvariants",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DrawState",
    "EntryState",
    "Framework",
    "GeounitAddresses",
    "JointPart",
    "KeyedStream",
    "Ledger",
    "LedgerEntry",
    "LevelBudget",
    "Loss",
    "Mechanism",
    "QueryShare",
    "RunKey",
    "StatementFacts",
    "StreamDomain",
    "attribute_losses",
    "compose",
    "cumulative_table",
    "epsilon_bun_steinke",
    "epsilon_cks",
    "exact",
    "geounit_key",
    "joint_costs",
    "joint_statement",
    "line_of",
    "mechanism_for",
    "privacy_statement",
    "require_table",
    "sample",
    "within_geolevel_losses",
]
