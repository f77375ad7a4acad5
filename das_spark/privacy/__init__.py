"""Budgets in exact fractions, what they cost in all, discrete noise drawn exactly from keyed bits, and the ledger.

A run's `Budget` says what each query of each geolevel may spend and gives its `Mechanism`, the distribution of the
noise. `RunKey` gives each query of each level a `KeyedStream` of random words with addresses; `sample` turns words
into noise by the mechanism's cumulative table. What runs cost together is added up by `compose`, held in the `Ledger`
of the dataset, limited by `Cap`, and said in a privacy statement. README.md says what is claimed, and what is not.
"""

from das_spark.privacy.accounting import PUBLISHED_DELTA, Framework, compose, epsilon_bun_steinke, epsilon_cks
from das_spark.privacy.budget import Budget, Cap, LevelBudget, QueryShare, exact, sum_of_shares
from das_spark.privacy.exact_accounting import (
    POWERS,
    Bounds,
    ExactComposition,
    compose_exactly,
    compositions_of,
    compositions_together,
    rounded_up,
    totals_at,
    worst_epsilon,
    worst_odds,
)
from das_spark.privacy.keyed import GeounitAddresses, KeyedStream, RunKey, StreamDomain, geounit_key
from das_spark.privacy.ledger import (
    AttemptLine,
    DeclaredInvariants,
    DrawState,
    EntryState,
    Ledger,
    LedgerEntry,
    chained_lines,
)
from das_spark.privacy.losses import Loss, attribute_losses, within_geolevel_losses
from das_spark.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Mechanism,
    l1_sensitivity,
    squared_l2_sensitivity,
)
from das_spark.privacy.relation import UNIT, ExactCounts, NeighborRelation, same_geounits
from das_spark.privacy.sampling import CumulativeTable, cumulative_table, require_table, sample, sample_groups
from das_spark.privacy.semantics import (
    TYPE_ONE,
    Unknown,
    claims_table,
    in_words,
    odds_figure,
    odds_text,
    percent_at_least,
    trade_off_figure,
    trade_off_table,
    unknowns_of,
)
from das_spark.privacy.statement import (
    ALL_RUNS,
    PARTS_ALONE,
    JointPart,
    StatementFacts,
    invariants_of,
    joint_costs,
    joint_statement,
    privacy_statement,
)
from das_spark.privacy.trade_off import TradeOffCurve

__all__ = [
    "ALL_RUNS",
    "PARTS_ALONE",
    "POWERS",
    "PUBLISHED_DELTA",
    "TYPE_ONE",
    "UNIT",
    "AttemptLine",
    "Bounds",
    "Budget",
    "Cap",
    "CumulativeTable",
    "DeclaredInvariants",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DrawState",
    "EntryState",
    "ExactComposition",
    "ExactCounts",
    "Framework",
    "GeounitAddresses",
    "JointPart",
    "KeyedStream",
    "Ledger",
    "LedgerEntry",
    "LevelBudget",
    "Loss",
    "Mechanism",
    "NeighborRelation",
    "QueryShare",
    "RunKey",
    "StatementFacts",
    "StreamDomain",
    "TradeOffCurve",
    "Unknown",
    "attribute_losses",
    "chained_lines",
    "claims_table",
    "compose",
    "compose_exactly",
    "compositions_of",
    "compositions_together",
    "cumulative_table",
    "epsilon_bun_steinke",
    "epsilon_cks",
    "exact",
    "geounit_key",
    "in_words",
    "invariants_of",
    "joint_costs",
    "joint_statement",
    "l1_sensitivity",
    "odds_figure",
    "odds_text",
    "percent_at_least",
    "privacy_statement",
    "require_table",
    "rounded_up",
    "same_geounits",
    "sample",
    "sample_groups",
    "squared_l2_sensitivity",
    "sum_of_shares",
    "totals_at",
    "trade_off_figure",
    "trade_off_table",
    "unknowns_of",
    "within_geolevel_losses",
    "worst_epsilon",
    "worst_odds",
]
