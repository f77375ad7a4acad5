"""The privacy statement of a run: one Markdown page that a lawyer and an engineer can both read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from das_spark.privacy.accounting import PUBLISHED_DELTA, epsilon_bun_steinke, epsilon_cks
from das_spark.privacy.budget import Budget
from das_spark.privacy.ledger import Ledger
from das_spark.privacy.losses import Loss
from das_spark.privacy.mechanisms import DiscreteLaplace, Framework

_BANNER = """> **INSECURE: A TEST KEY WAS USED. The noise of this run can be computed by anybody and be taken away
again. > Nothing below protects anybody. These outputs are for tests only and must not be published as protected.**
"""

_LARGEST_EXPONENT = 700  # Beyond, the odds exceed a double.
_NOT_CLAIMED = (
    "Invariants and whatever follows from them are published as they are. Two populations that differ in an invariant"
    " are not neighbours, and can be told apart.",
    "Which geounits exist, structural zeros and the rules of the constraints are treated as public knowledge.",
    "What can be inferred about a person from statistics on everybody else, as science does, is not prevented.",
    "The guarantee counts this run. Other releases from the same people add to it: see the ledger of the input.",
    "The key of the run lived in the memory of the processes that measured. Whoever could read that memory, or the"
    " confidential files themselves, is outside this statement, and so are differences in running time.",
)
#: Paths that a statement lists; the table `shares` has all.
_MOST_PATHS = 20
_OWN_SHARES = (
    "\nGeounits of this spine have shares of their own (table `shares`): where a geounit has one child only, or was"
    " taken out of the spine, shares went up. The table above is that of the geounits for which this was not so. On"
    " each of the {paths} different paths from the top to a lowest geounit the shares sum to exactly 1, as the"
    " verification checks, so that the claim is that of the total all the same (Cumings-Menon et al. 2022, Theorem 3)."
    " The losses below are those of the worst path.\n"
)


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """What a privacy statement is made from.

    Args:
        title: Title of the product.
        run_id: Name of the run.
        budget: The whole budget.
        invariants: The declared invariants, each a sentence.
        public_rules: Structural zeros and constraints that use public constants only, each a sentence.
        attributes: Losses about single attributes.
        within: Losses about the place within a geounit.
        paths: Shares of the levels on the path to a lowest geounit, root first -> number of such geounits, the most
            first; empty where all geounits of a level have the same share.
        insecure: Whether a test key was used.
        unit: What one record is: "person" or "unit".
        held_within: Name of what a record does not leave between neighbours, such as the level of invariant totals.
        ledger: All runs on this input, this one included.
        ledger_entry: Identity of this run in it.
        notices: What readers must know of this run, each a sentence.
        origin: Where the measurements come from that the run did not draw itself, in sentences; empty where it did.
        noise_of_others: Whether other software drew them, of whose randomness nothing can be said.
        delta: For the conversions.
    """

    title: str
    run_id: str
    budget: Budget
    invariants: tuple[str, ...]
    public_rules: tuple[str, ...] = ()
    attributes: tuple[Loss, ...] = ()
    within: tuple[Loss, ...] = ()
    paths: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    insecure: bool = False
    unit: str = "person"
    held_within: str | None = None
    ledger: Ledger | None = None
    ledger_entry: str = ""
    notices: tuple[str, ...] = ()
    origin: str = ""
    noise_of_others: bool = False
    delta: Fraction = PUBLISHED_DELTA


def privacy_statement(facts: StatementFacts) -> str:
    """Write the statement of one run.

    Args:
        facts: What was declared, spent and done.

    Returns:
        Markdown.
    """
    sections = [
        f"# Privacy statement: {facts.title}\n\nRun `{facts.run_id}`.\n",
        _BANNER if facts.insecure else "",
        f"## Where the measurements come from\n\n{facts.origin}\n" if facts.origin else "",
        _claim(facts),
        _neighbours(facts),
        _bullets("## What is published exactly", facts.invariants, empty="Nothing: there are no invariants."),
        _bullets("## What is treated as public", facts.public_rules),
        _spending(facts),
        _partial("## About one attribute of a " + facts.unit, "attribute", facts.attributes, facts.budget.framework),
        _partial("## About the place within a geounit", "moves within", facts.within, facts.budget.framework),
        _noise_of_others() if facts.noise_of_others else _randomness(),
        _bullets("## What is not claimed", _NOT_CLAIMED),
        _bullets("## What readers must know", facts.notices),
        "" if facts.ledger is None else f"## All runs on this input\n\n{_all_runs(facts.ledger, facts)}\n",
    ]
    return "\n".join(section for section in sections if section)


def _all_runs(ledger: Ledger, facts: StatementFacts) -> str:
    return ledger.describe(facts.delta, facts.ledger_entry)


def _claim(facts: StatementFacts) -> str:
    total, unit = facts.budget.total, facts.unit
    if facts.budget.framework is Framework.PURE_DP:
        odds = math.exp(float(total)) if total < _LARGEST_EXPONENT else math.inf
        claim = (
            f"**epsilon = {total}** (pure differential privacy). Whatever is seen in the outputs, it was at most"
            f" exp(epsilon) = {odds:.4g} times as probable with the true record of one {unit} as with any other record"
            " in its place."
        )
    else:
        cks = epsilon_cks(total, facts.delta)
        simple = epsilon_bun_steinke(total, facts.delta)
        claim = (
            f"**rho = {total}** (zero-concentrated differential privacy), about {float(total):.6g}. It implies"
            f" (epsilon, delta)-differential privacy; at delta = {float(facts.delta):g}:\n\n"
            "| conversion | epsilon |\n|---|---|\n"
            f"| Canonne, Kamath, Steinke (2020), the tighter one | {cks:.5f} |\n"
            f"| Bun, Steinke (2016) | {simple:.5f} |\n\n"
            "The two figures say the same about the same noise; compare only figures of one conversion."
        )
    return f"## The claim\n\n{claim}\n\nAll numbers of this page that are fractions are exact; nothing was rounded.\n"


def _neighbours(facts: StatementFacts) -> str:
    within = f" within the same {facts.held_within}" if facts.held_within else ""
    return (
        "## What is protected\n\n"
        f"One record of one {facts.unit}. The claim compares any two populations that differ in one record, replaced by"
        f" another one{within}, and that agree in everything that is published exactly. A replaced record changes at"
        " most two answers of a query by one each.\n"
    )


def _spending(facts: StatementFacts) -> str:
    budget = facts.budget
    pure = budget.framework is Framework.PURE_DP
    symbol, scale = budget.framework.symbol, "scale" if pure else "sigma^2"
    law = "discrete Laplace" if pure else "discrete Gaussian"
    lines = [
        "## Where it is spent",
        "",
        f"Every answer gets integer noise of the {law} law, drawn exactly. The shares of the levels sum to 1, and"
        " so do those of the queries of each level.",
        "",
        f"| geolevel | share | query | share | {symbol} | {scale} | standard deviation |",
        "|---|---|---|---|---|---|---|",
    ]
    for level in budget.levels:
        for item in level.queries:
            mechanism = budget.mechanism(level.geolevel, item.query)
            parameter = mechanism.scale if isinstance(mechanism, DiscreteLaplace) else mechanism.sigma_squared
            deviation = math.sqrt(mechanism.variance())
            spent = budget.spent(level.geolevel, item.query)
            lines.append(
                f"| {level.geolevel} | {level.share} | {item.query} | {item.share} | {spent} | {parameter}"
                f" | {deviation:.5g} |"
            )
    return "\n".join(lines) + "\n" + _own_shares(facts)


def _own_shares(facts: StatementFacts) -> str:
    """How the budget is shared on the paths of a spine whose geounits have shares of their own."""
    if not facts.paths:
        return ""
    names = [level.geolevel for level in facts.budget.levels]
    lines = ["", f"| {' | '.join(names)} | lowest geounits |", "|---" * (len(names) + 1) + "|"]
    shown = list(facts.paths.items())[:_MOST_PATHS]
    lines += [f"| {' | '.join(path)} | {number:,} |" for path, number in shown]
    left = sum(facts.paths.values()) - sum(number for _, number in shown)
    lines += [f"| {' | '.join(['...'] * len(names))} | {left:,} |"] if left else []
    return _OWN_SHARES.format(paths=len(facts.paths)) + "\n".join(lines) + "\n"


def _partial(heading: str, column: str, losses: Sequence[Loss], framework: Framework) -> str:
    if not losses:
        return ""
    symbol = framework.symbol
    lines = [heading, "", "If all else about the record stayed the same, the claim would be:", ""]
    if framework is Framework.PURE_DP:
        lines += [f"| {column} | {symbol} |", "|---|---|"]
        lines += [f"| {loss.name} | {loss.spent} |" for loss in losses]
    else:
        lines += [f"| {column} | {symbol} | epsilon (Canonne, Kamath, Steinke) | delta |", "|---|---|---|---|"]
        lines += [f"| {loss.name} | {loss.spent} | {loss.epsilon:.4f} | {float(loss.delta):g} |" for loss in losses]
    return "\n".join(lines) + "\n"


def _randomness() -> str:
    return (
        "## Where the randomness comes from\n\n"
        "All noise of the run follows from one 256-bit key of the operating system, by AES-256. The guarantee is"
        " therefore computational: it holds against anybody who cannot break AES-256. The key was never written, and"
        " is not needed to use or to check the outputs.\n"
    )


def _noise_of_others() -> str:
    return (
        "## Where the randomness comes from\n\n"
        "The noise was drawn by whoever published the measurements. This software did not draw it and cannot say how;"
        " the claim above holds as far as theirs does.\n"
    )


def _bullets(heading: str, items: Sequence[str], *, empty: str = "") -> str:
    if not items:
        return f"{heading}\n\n{empty}\n" if empty else ""
    return "\n".join([heading, "", *(f"- {item}" for item in items)]) + "\n"
