"""The audit as a short Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from das_spark.evaluation.audit.events import KINDS
from das_spark.evaluation.audit.report import AuditReport

_ORDINALS = {"first": "second", "second": "first"}


def claim_text(report: AuditReport) -> str:
    """What is claimed, in one sentence.

    Args:
        report: The audit.
    """
    claim = report.claim
    told = f"{claim.currency} = {claim.total} (exact)"
    if claim.currency == "rho":
        told += f", that is epsilon {claim.epsilon:.4f} at delta {float(claim.delta):g}"
    share = float(Fraction(report.exercised) / claim.total)
    return f"Claimed: {told}; {share:.1%} of it is spent on answers in which the inputs differ."


def bound_text(report: AuditReport) -> str:
    """What was proven, in one sentence.

    Args:
        report: The audit.
    """
    found, judgement = report.best, report.judgement
    if found is None:
        return "Proven: nothing; no event was found."
    told = f"{report.claim.currency} >= {found.bound:.4f}"
    if report.claim.currency == "rho":
        told += f" (epsilon >= {found.epsilon:.4f} at delta {float(report.claim.delta):g})"
    return (
        f"Proven, at confidence {judgement.level:g} for all {len(judgement.findings)} events together: {told}, by "
        f"{found.event.text}."
    )


def finding_rows(report: AuditReport) -> list[tuple[str, ...]]:
    """One row an event: stage, pair, event, frequencies, limits and bounds; `FINDING_COLUMNS` are its headings.

    Args:
        report: The audit.
    """
    rows: list[tuple[str, ...]] = []
    for each in report.judgement.findings:
        own, other = (f"{seen:,}" for seen in each.seen)
        limits = (
            f"{each.low:.4g}",
            f"{each.high:.4g}",
            f"{each.allowed:.4g}",
            f"{each.bound:.4f}",
            f"{each.epsilon:.4f}",
        )
        told = f"{each.event.telling} / {_ORDINALS[each.event.telling]}"
        rows.append((each.stage, each.pair, each.event.text, told, own, other, f"{each.runs:,}", *limits))
    return rows


def power_rows(report: AuditReport) -> list[tuple[str, ...]]:
    """One row a part and width of the noise; `POWER_COLUMNS` are its headings.

    Args:
        report: The audit.
    """
    said = {True: "yes", False: "no"}
    return [
        (
            each.stage,
            each.pair,
            each.noise,
            f"{each.runs:,}",
            f"{each.bound:.4f}",
            said[each.convicts],
            said[each.beyond],
        )
        for each in report.power
    ]


FINDING_COLUMNS = (
    "stage",
    "pair",
    "event",
    "inputs",
    "seen",
    "seen, other",
    "of runs",
    "p at least",
    "q at most",
    "p allowed",
    "bound",
    "epsilon",
)
POWER_COLUMNS = ("stage", "pair", "noise / declared", "runs", "typical bound", "beyond the claim", "beyond the noise")
POWER_MEANING = (
    "What the perfect attacker (Neyman and Pearson) on all measured answers sees typically with these runs, were the "
    "noise as declared, or narrower by a factor: a fault that shows less than this cannot be found. The factor 0 is an "
    "exact leak: an event that is always seen under one input and never under the other; where that is beyond neither, "
    "no event of these runs could convict."
)
FINDING_MEANING = (
    "An event has probability p under the input named first, and q under the other; p allowed: by the declared noise, "
    "where q is as large as it can be; bound and epsilon: least privacy loss that p and q prove (epsilon at the delta "
    "of the claim)."
)


def audit_page(report: AuditReport) -> str:
    """Render the page.

    Args:
        report: The audit.

    Returns:
        Markdown.
    """
    lines = [f"# Audit of {report.run} ({report.product})", "", f"**{report.verdict}**", ""]
    lines += [f"- {text}" for text in (claim_text(report), bound_text(report), *report.notes)]
    lines += [f"- Configuration {report.config_hash}; {report.seconds:.0f} seconds."]
    lines += ["", "## Inputs", "", *(f"- {text}" for text in report.inputs)]
    lines += ["", "## Events", "", FINDING_MEANING, "", *_table(FINDING_COLUMNS, finding_rows(report))]
    kinds = dict.fromkeys(each.event.kind for each in report.judgement.findings)
    lines += ["", *(f"- {kind}: {KINDS[kind]}" for kind in kinds)]
    lines += ["", "## Power", "", POWER_MEANING, "", *_table(POWER_COLUMNS, power_rows(report))]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    escaped = ([cell.replace("|", "\\|").replace("*", "\\*") for cell in row] for row in rows)
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *escaped)]
