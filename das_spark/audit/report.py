"""What an audit found, as data: claimed and proven privacy loss, the events behind it, and what it could have found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Final

from das_spark.audit.claim import Claim
from das_spark.audit.events import KINDS
from das_spark.audit.judgement import JudgedEvent, Judgement
from das_spark.report import PEOPLE, Axis, Bars, Figure, Guide, Panel, Report, ReportSection, ReportTable

SCHEMA_VERSION: Final = 1
SYNTHETIC: Final = (
    "The audit ran on synthetic records only: the input that the run file names was not opened, no ledger was charged."
)
INSECURE: Final = "INSECURE: the keys of this audit follow from a text, to repeat it; they must never protect records."
MEANING: Final = (
    "An audit proves faults, not their absence: it looks at a few events of one or two pairs of neighbours. A bound "
    "above the claim convicts; a bound below it says that these attackers, with this number of runs, found nothing."
)


#: Width of the noise in the rows on power that tell of an exact leak.
EXACT_LEAK: Final = "0"


@dataclass(frozen=True, slots=True)
class Power:
    """What the perfect attacker on noise of a given width would see with the runs of a part.

    A width of `EXACT_LEAK` stands for an event that is always seen under one input and never under the other.
    """

    stage: str
    pair: str
    runs: int  # runs that judge, of each input
    noise: str  # width of the noise, as a share of the declared one
    bound: float  # its typical bound, in the currency of the claim
    convicts: bool  # whether that is above the claim
    beyond: bool  # whether its typical event is beyond what the declared noise allows


def powerless(power: Sequence[Power]) -> tuple[Power, ...]:
    """The rows of an exact leak that would not be found: parts with too few runs for any event to convict."""
    return tuple(each for each in power if each.noise == EXACT_LEAK and not each.convicts and not each.beyond)


def too_few(power: Sequence[Power]) -> tuple[str, ...]:
    """A note on every part that proves nothing."""
    return tuple(
        f"{each.stage}, {each.pair}: so few runs ({each.runs} of each input judge) that even an exact leak would not "
        "be found; this part says nothing. Ask for more runs, or for a lower level."
        for each in powerless(power)
    )


@dataclass(frozen=True, slots=True)
class AuditReport:
    """An audit of one configuration."""

    run: str
    product: str
    config_hash: str  # of the resolved configuration
    claim: Claim  # what the run claims
    exercised: str  # part of the total that is spent on answers in which the inputs differ, exact, as text
    judgement: Judgement
    power: tuple[Power, ...]  # what could have been found
    inputs: tuple[str, ...]  # the pairs of inputs, in sentences
    notes: tuple[str, ...]  # what a reader must know
    insecure: bool  # whether keys follow from a text
    seconds: float  # wall time

    @property
    def best(self) -> JudgedEvent | None:
        """The finding with the greatest bound; None where no event was found."""
        return max(self.judgement.findings, key=lambda finding: (finding.bound, finding.epsilon), default=None)

    @property
    def refutes_claim(self) -> bool:
        """Whether more privacy loss was proven than is claimed."""
        return any(
            finding.bound > self.claim.total or finding.epsilon > self.claim.epsilon
            for finding in self.judgement.findings
        )

    @property
    def refutes_noise(self) -> bool:
        """Whether something was told more surely than the declared noise allows, be it within the claim or not."""
        return any(finding.low > finding.allowed for finding in self.judgement.findings)

    @property
    def convicts(self) -> bool:
        """Whether anything was proven that must not be."""
        return self.refutes_claim or self.refutes_noise

    @property
    def powerless(self) -> tuple[Power, ...]:
        """Parts with so few runs that no event could have convicted, not even an exact leak."""
        return powerless(self.power)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.refutes_claim:
            return f"CONVICTED: the outputs lose more privacy than the claimed {self.claim.currency}."
        if self.refutes_noise:
            return "CONVICTED: the outputs tell more than the declared noise allows, though within the claimed total."
        if self.powerless:
            parts = "; ".join(f"{each.stage}, {each.pair}" for each in self.powerless)
            return f"Nothing was found, but too few runs to find anything, even an exact leak: {parts}."
        return "Consistent: nothing was found that contradicts the claim or the declared noise."

    def to_json(self) -> str:
        """The report as text."""
        claim = {
            "framework": str(self.claim.framework),
            "currency": self.claim.currency,
            "total": str(self.claim.total),
            "delta": float(self.claim.delta),
            "epsilon": self.claim.epsilon,
        }
        findings = [
            {**asdict(finding), "event": {**asdict(finding.event), "text": finding.event.text}}
            for finding in self.judgement.findings
        ]
        content = {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "product": self.product,
            "config_hash": self.config_hash,
            "invented_records": True,
            "insecure": self.insecure,
            "claim": claim,
            "exercised": self.exercised,
            "convicts": self.convicts,
            "refutes_claim": self.refutes_claim,
            "refutes_noise": self.refutes_noise,
            "verdict": self.verdict,
            "bound": self.best.bound if self.best else 0.0,
            "level": self.judgement.level,
            "alpha": self.judgement.alpha,
            "findings": findings,
            "power": [asdict(each) for each in self.power],
            "powerless": [{"stage": each.stage, "pair": each.pair, "runs": each.runs} for each in self.powerless],
            "inputs": list(self.inputs),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }
        return json.dumps(content, indent=1) + "\n"


_ORDINALS = {"first": "second", "second": "first"}


def _claim(report: AuditReport) -> str:
    """What is claimed, in one sentence."""
    claim = report.claim
    loss = f"{claim.currency} = {claim.total} (exact)"
    if claim.currency == "rho":
        loss += f", that is epsilon {claim.epsilon:.4f} at delta {float(claim.delta):g}"
    share = float(Fraction(report.exercised) / claim.total)
    return f"Claimed: {loss}; {share:.1%} of it is spent on answers in which the inputs differ."


def _bound(report: AuditReport) -> str:
    """What was proven, in one sentence."""
    found, judgement = report.best, report.judgement
    if found is None:
        return "Proven: nothing; no event was found."
    loss = f"{report.claim.currency} >= {found.bound:.4f}"
    if report.claim.currency == "rho":
        loss += f" (epsilon >= {found.epsilon:.4f} at delta {float(report.claim.delta):g})"
    return (
        f"Proven, at confidence {judgement.level:g} for all {len(judgement.findings)} events together: {loss}, by "
        f"{found.event.text}."
    )


_FINDINGS: Final = (
    "An event has probability p under the input named first, and q under the other; p allowed: by the declared noise, "
    "where q is as large as it can be; bound and epsilon: least privacy loss that p and q prove (epsilon at the delta "
    "of the claim)."
)
_POWER: Final = (
    "What the perfect attacker (Neyman and Pearson) on all measured answers sees typically with these runs, were the "
    "noise as declared, or narrower by a factor: a fault that shows less than this cannot be found. The factor 0 is an "
    "exact leak: an event that is always seen under one input and never under the other; where that is beyond neither, "
    "no event of these runs could convict."
)


def present_audit(audit: AuditReport) -> Report:
    """What the terminal and the written page say of an audit."""
    found = dict.fromkeys(finding.event.kind for finding in audit.judgement.findings)
    kinds = [f"{kind}: {KINDS[kind]}" for kind in found]
    about = f"Configuration {audit.config_hash}; {audit.seconds:.0f} seconds."
    return Report(
        f"Audit of {audit.run} ({audit.product})",
        (
            ReportSection("Events", (_findings(audit.judgement.findings), *kinds)),
            ReportSection("Power", (_power(audit.power),)),
        ),
        notices=(audit.verdict,) if audit.convicts else (),
        verdict=audit.verdict,
        picture=_proven(audit),
        lead=(_claim(audit), _bound(audit), *audit.inputs),
        notes=(*audit.notes, about),
    )


#: Findings that the picture shows, those with the greatest bounds.
_MOST_SHOWN: Final = 10
_LETTERS: Final = 48


def _proven(audit: AuditReport) -> Figure | None:
    """The greatest proven bounds beside the claim; None where nothing was found."""
    found = sorted(audit.judgement.findings, key=lambda finding: -finding.bound)[:_MOST_SHOWN]
    if not found:
        return None
    texts = [f"{each.stage}, {each.pair}: {each.event.text}" for each in found]
    rows = tuple(text if len(text) <= _LETTERS else f"{text[: _LETTERS - 3]}..." for text in texts)
    bounds = [max(each.bound, 0.0) for each in found]
    claimed, currency = float(audit.claim.total), audit.claim.currency
    bars = Bars(range(len(found)), bounds, texts=tuple(f"{bound:.3g}" for bound in bounds))
    guide = Guide(x=claimed, dashed=True, color=1, label=f"claimed: {currency} = {audit.claim.total}")
    axis = Axis(f"privacy loss ({currency})", low=0, high=1.15 * max(claimed, *bounds))
    caption = (
        f"The {len(found)} events with the greatest proven bounds on {currency}. A bar to the right of the dashed line "
        "would convict; bars say what was proven, and are no estimate of the loss."
    )
    panel = Panel((bars, guide), axis, rows=rows)
    return Figure(caption, (panel,), legend="above", title="Proven and claimed privacy loss")


def _findings(findings: Sequence[JudgedEvent]) -> ReportTable:
    columns = (
        *("stage", "pair", "event", "inputs", "seen", ("other", "seen, other"), ("runs", "of runs")),
        *(("low", "p at least", ".4g"), ("high", "q at most", ".4g"), ("allowed", "p allowed", ".4g")),
        *(("bound", "", ".4f"), ("epsilon", "", ".4f")),
    )
    rows = (
        {
            **asdict(finding),
            "event": finding.event.text,
            "inputs": f"{finding.event.telling} / {_ORDINALS[finding.event.telling]}",
            **dict(zip(("seen", "other"), finding.seen, strict=True)),
        }
        for finding in findings
    )
    title = "Events, chosen by one half of the runs and judged by the other"
    return ReportTable.of("events", title, columns, rows, note=_FINDINGS, media=PEOPLE)


def _power(power: Sequence[Power]) -> ReportTable:
    columns = (
        *("stage", "pair", ("noise", "noise / declared"), "runs", ("bound", "typical bound", ".4f")),
        *(("convicts", "beyond the claim"), ("beyond", "beyond the noise")),
    )
    return ReportTable.of("power", "Power", columns, map(asdict, power), note=_POWER, media=PEOPLE)
