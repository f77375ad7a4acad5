"""The privacy statement of a joint run: what its parts, such as persons and housing units, cost who stands in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from das_spark.privacy.accounting import (
    PUBLISHED_DELTA,
    Composition,
    Spending,
    compose,
    epsilon_bun_steinke,
    epsilon_cks,
)
from das_spark.privacy.ledger import Ledger, LedgerEntry
from das_spark.privacy.statement import not_claimed_as_a_whole, published_nearly_exactly

_MOVING = (
    "A household that moves changes the records of all its people and those of two units, and its cost is the sum of"
    " theirs: in pure differential privacy so many times the epsilon of each part as it changes records of it, in"
    " zero-concentrated differential privacy at most the square of that number times its rho.\n"
)


@dataclass(frozen=True, slots=True)
class JointPart:
    """One run of a joint run.

    Attributes:
        record: What one record of it is: "person" or "unit".
        run_id: Name of the run.
        entry: What it cost.
        invariants: What it publishes exactly, each a sentence.
        notices: Sentences that every file of it carries.
        from_people: What it publishes exactly although it follows from people, each half a sentence.
    """

    record: str
    run_id: str
    entry: LedgerEntry
    invariants: tuple[str, ...]
    notices: tuple[str, ...] = ()
    from_people: tuple[str, ...] = ()


def joint_statement(
    run_id: str, parts: Sequence[JointPart], delta: Fraction = PUBLISHED_DELTA, *, ledger: Ledger | None = None
) -> str:
    """Write the statement of a joint run.

    Args:
        run_id: Name of the joint run.
        parts: Its runs.
        delta: For the conversions.
        ledger: All runs on the dataset, these included.

    Returns:
        Markdown.
    """
    records = " and ".join(f"one {part.record}" for part in parts)
    exact = list(dict.fromkeys(sentence for part in parts for sentence in part.invariants))
    notices = list(dict.fromkeys(sentence for part in parts for sentence in part.notices))
    from_people = list(dict.fromkeys(each for part in parts for each in part.from_people))
    sections = [
        f"# Privacy statement of joint run `{run_id}`\n",
        *[f"> **{sentence}**\n" for sentence in notices],
        published_nearly_exactly(from_people),
        _claim(compose(part.entry for part in parts), records, delta, void=bool(from_people)),
        _MOVING if any(part.record == "unit" for part in parts) else "",
        _table(parts, delta),
        "## What is published exactly, by any part\n",
        "\n".join(f"- {sentence}" for sentence in exact or ["Nothing: there are no invariants."]) + "\n",
        *(
            []
            if ledger is None
            else [f"## All runs on this input\n\n{ledger.describe(delta, parts[0].entry.run_id)}\n"]
        ),
        "## Where the rest is said\n",
        "\n".join(f"- `{part.run_id}/public/privacy_statement.md`: the {part.record} records alone" for part in parts)
        + "\n",
    ]
    return "\n".join(section for section in sections if section)


def joint_costs(spendings: Sequence[Spending], delta: Fraction = PUBLISHED_DELTA) -> dict[str, object]:
    """What several runs cost together, as JSON values.

    Args:
        spendings: Their budgets, or their entries of the ledger.
        delta: For the conversions.

    Returns:
        Sums of epsilon and rho as exact text, and the joint epsilon at delta.
    """
    total = compose(spendings)
    return {
        "epsilon": str(total.epsilon),
        "rho": str(total.rho),
        "joint_epsilon": total.joint_epsilon(delta),
        "delta": float(delta),
    }


def _claim(total: Composition, records: str, delta: Fraction, *, void: bool) -> str:
    if total.rho == 0:
        figure = f"**epsilon = {total.epsilon}** (pure differential privacy)"
    elif total.epsilon == 0:
        figure = (
            f"**rho = {total.rho}** (zero-concentrated differential privacy), about {float(total.rho):.6g}: epsilon"
            f" {epsilon_cks(total.rho, delta):.5f} at delta {float(delta):g} (Canonne, Kamath, Steinke 2020), or"
            f" {epsilon_bun_steinke(total.rho, delta):.5f} (Bun, Steinke 2016)"
        )
    else:
        figure = (
            f"**epsilon = {total.epsilon} and rho = {total.rho}** in different parts, together epsilon"
            f" {total.joint_epsilon(delta):.5f} at delta {float(delta):g}"
        )
    if void:
        claim = not_claimed_as_a_whole("the parts publish", figure, f"{records} at the same time")
    else:
        claim = (
            f"{figure}.\n\nIt holds for populations that differ in {records} at the same time, such as a person and the"
            " housing unit that she lives in, each replaced by another record, and that agree in everything that any"
            " part publishes exactly."
        )
    return (
        f"## The claim\n\n{claim.rstrip()}\n\nThe parts draw their noise from keys of their own; their costs add up, in"
        " exact fractions.\n"
    )


def _table(parts: Sequence[JointPart], delta: Fraction) -> str:
    lines = ["## The parts", "", "| part | run | product | cost | epsilon |", "|---|---|---|---|---|"]
    for part in parts:
        alone = compose([part.entry])
        cost = f"rho = {alone.rho}" if alone.rho else f"epsilon = {alone.epsilon}"
        at = f" at delta {float(delta):g}" if alone.rho else ""
        epsilon = f"{alone.joint_epsilon(delta):.5f}{at}"
        lines.append(f"| {part.record} | {part.run_id} | {part.entry.product} | {cost} | {epsilon} |")
    return "\n".join(lines) + "\n"
