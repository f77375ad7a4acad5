"""An audit of a configured system: run it often on invented neighbouring inputs, and see what an attacker can tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.evaluation.audit import (
    EXACT_LEAK,
    KINDS,
    AuditReport,
    Claim,
    DeclaredNoise,
    Judgement,
    Part,
    Power,
    Statistic,
    judge,
    louder,
)
from das_spark.evaluation.audit.page import audit_page
from das_spark.evaluation.audit.report import INSECURE, INVENTED, MEANING, too_few
from das_spark.pipeline.audit.inputs import NeighbouringInputs, neighbouring_inputs
from das_spark.pipeline.audit.observing import Seen, composed, seen_in, statistics_of
from das_spark.pipeline.audit.population import SmallPopulation
from das_spark.pipeline.audit.system import LocalSystem
from das_spark.privacy import PUBLISHED_DELTA, GeounitAddresses, RunKey, sample
from das_spark.store import disk_errors, write_durably

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.config import RunPlan

Stage = Literal["measurement", "estimates", "both"]
PIPELINE: Final = "pipeline"
MEASUREMENT: Final = "measurement"
#: Kinds of events that noisy answers alone have.
_OF_NOISE: Final = {"answer", "sum", "learned"}
#: Widths of the noise, as shares of the declared one, for which the report says what would have been found.
WIDTHS: Final = (Fraction(1), Fraction(3, 4), Fraction(1, 2), Fraction(1, 4))


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How an audit is carried out.

    Attributes:
        stage: Noisy answers alone, the whole pipeline ("estimates"), or both.
        runs: Runs of the whole pipeline on each input of every pair.
        draws: Draws of the noisy answers alone, under each input.
        level: Confidence of all findings together.
        kinds: Kinds of events, keys of `KINDS`.
        delta: At which rho is also told as an epsilon.
        test_key: INSECURE: a text from which all keys follow; None for fresh keys of the operating system.

    Raises:
        ConfigurationError: A kind is unknown, or there is none for a stage; a probability is none.
    """

    stage: Stage = "both"
    runs: int = 400
    draws: int = 200_000
    level: float = 0.95
    kinds: tuple[str, ...] = tuple(KINDS)
    delta: Fraction = PUBLISHED_DELTA
    test_key: str | None = None

    def __post_init__(self) -> None:
        """Check kinds and probabilities, before anything is run."""
        for name, value in (("level", self.level), ("delta", self.delta)):
            if not 0 < value < 1:
                raise ConfigurationError(
                    f"{name}: lies between 0 and 1, is {float(value):g}",
                    hint="a level of 0.95 and a delta of 1e-10 are usual",
                )
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise ConfigurationError(
                f"events: {', '.join(unknown) or 'none'} is no kind of event", hint=f"choose among {', '.join(KINDS)}"
            )
        if self.stage != "estimates" and not set(self.kinds) & _OF_NOISE:
            raise ConfigurationError(
                f"events: noisy answers alone have no events of kind {', '.join(self.kinds)}",
                hint="audit whole runs only: --stage estimates",
            )


def run_audit(
    plan: RunPlan,
    settings: AuditSettings,
    system: LocalSystem | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> AuditReport:
    """Run a system on invented neighbouring inputs, and judge what an attacker can tell against what the plan claims.

    Args:
        plan: What is claimed; its input and output are not opened.
        settings: How.
        system: What is run; the system that the plan describes where None.
        progress: Is given a line at a time.

    Raises:
        ConfigurationError: The plan cannot be run on invented records.
        InputError: Too few runs.
    """
    began = time.monotonic()
    machine = LocalSystem(plan) if system is None else system
    pairs = neighbouring_inputs(plan)
    claim = Claim.of(plan.budget, settings.delta)
    parts = []
    if settings.stage != "estimates":
        parts.append(_measured(machine, pairs[0], settings))
        progress(f"measurement: {settings.draws:,} draws of each input, {time.monotonic() - began:.1f} s")
    if settings.stage != MEASUREMENT:
        for pair in pairs:
            parts.append(_piped(machine, plan, pair, settings))
            progress(f"pipeline, {pair.name}: {settings.runs:,} runs of each input, {time.monotonic() - began:.1f} s")
    judgement = judge(parts, claim, settings.level)
    power = (*_powers(parts, pairs[0], claim, judgement), *_exact_leaks(parts, claim, judgement))
    return AuditReport(
        run=plan.name,
        product=plan.product.name,
        config_hash=plan.config_hash,
        claim=claim,
        exercised=str(pairs[0].exercised),
        judgement=judgement,
        power=power,
        inputs=tuple(pair.text for pair in pairs),
        notes=(INVENTED, MEANING, *too_few(power), *([INSECURE] if settings.test_key is not None else [])),
        insecure=settings.test_key is not None,
        seconds=time.monotonic() - began,
    )


def _key(settings: AuditSettings, *names: str) -> RunKey:
    """A key of its own for everything that is drawn at one time."""
    if settings.test_key is None:
        return RunKey.from_system()
    return RunKey.insecure("/".join((settings.test_key, *names)))


def _measured(machine: LocalSystem, pair: NeighbouringInputs, settings: AuditSettings) -> Part:
    """Noisy answers alone: each draw has an address of its own under one fresh key for each input."""
    sides = [_draws(machine, pair, settings, side) for side in ("first", "second")]
    seen = [Statistic(one.text, "answer", sides[0][place], sides[1][place]) for place, one in enumerate(pair.answers)]
    return Part(MEASUREMENT, pair.name, composed(pair, seen, settings.kinds), DeclaredNoise.of(pair.laws))


def _draws(
    machine: LocalSystem, pair: NeighbouringInputs, settings: AuditSettings, side: Literal["first", "second"]
) -> list[NDArray[np.float64]]:
    """Noisy values of every watched answer, (draws,) each."""
    key = _key(settings, MEASUREMENT, side)
    tasks = {level: machine.measurement_task(level, key) for level in {one.geolevel for one in pair.answers}}
    geounits = {code: number for number, code in enumerate(dict.fromkeys(one.geocode for one in pair.answers))}
    found = []
    for one in pair.answers:
        task = tasks[one.geolevel]
        numbers = range(geounits[one.geocode], settings.draws * len(geounits), len(geounits))
        table, _ = task.mechanisms[""][one.query]
        noise = sample(table, task.streams[one.query], GeounitAddresses.of(map(str, numbers)), np.array([one.row]))[
            :, 0
        ]
        found.append((noise + (one.first if side == "first" else one.second)).astype(np.float64))
    return found


def _piped(machine: LocalSystem, plan: RunPlan, pair: NeighbouringInputs, settings: AuditSettings) -> Part:
    """Whole runs, each under a key of its own."""

    def runs(side: str, population: SmallPopulation) -> list[Seen]:
        ingested = machine.ingest(population)
        keys = (_key(settings, PIPELINE, pair.name, side, str(number)) for number in range(settings.runs))
        return [seen_in(plan, pair, machine.run(ingested, key)) for key in keys]

    statistics = statistics_of(pair, runs("first", pair.first), runs("second", pair.second), settings.kinds)
    return Part(PIPELINE, pair.name, statistics, DeclaredNoise.of(pair.laws))


def _powers(parts: Sequence[Part], pair: NeighbouringInputs, claim: Claim, judgement: Judgement) -> Iterator[Power]:
    """What the perfect attacker would see on noise of several widths, with the runs of every part."""
    for width in WIDTHS:
        noise = DeclaredNoise.of(louder(pair.laws, width))
        for part in parts:
            bound, beyond = noise.expected(claim, part.noise, part.judging, judgement.alpha)
            yield Power(part.stage, part.pair, part.judging, str(width), bound, bound > claim.total, beyond > 0)


def _exact_leaks(parts: Sequence[Part], claim: Claim, judgement: Judgement) -> Iterator[Power]:
    """Whether the runs of every part are enough for any event to convict."""
    for part in parts:
        bound, refutes, beyond = part.of_exact_leak(claim, judgement.alpha)
        yield Power(part.stage, part.pair, part.judging, EXACT_LEAK, bound, refutes, beyond)


def write_audit(report: AuditReport, folder: Path) -> None:
    """Write audit.json and audit.md.

    Args:
        report: The audit.
        folder: Where to; made if it is not there.

    Raises:
        OutputError: The disk is full or the place cannot be written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / "audit.json", report.to_json())
        write_durably(folder / "audit.md", audit_page(report))
