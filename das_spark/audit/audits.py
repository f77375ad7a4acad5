"""An audit of a configured system: run it often on synthetic neighbouring inputs, and see what an attacker can tell.

The attacker knows both inputs but not which one was used: it looks where they differ, and learns the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.audit.claim import Claim
from das_spark.audit.events import KINDS, Statistic, learned
from das_spark.audit.inputs import NeighbouringInputs, WatchedAnswer, neighbouring_inputs
from das_spark.audit.judgement import Judgement, Part, judge
from das_spark.audit.noise import DeclaredNoise, log_ratio, louder
from das_spark.audit.report import EXACT_LEAK, INSECURE, MEANING, SYNTHETIC, AuditReport, Power, present_audit, too_few
from das_spark.audit.system import LocalSystem, SmallPopulation, geocode_at
from das_spark.config import RunPlan
from das_spark.core import InProcess
from das_spark.errors import ConfigurationError
from das_spark.limits import require_level
from das_spark.places import Place
from das_spark.privacy import PUBLISHED_DELTA, GeounitAddresses, RunKey, sample
from das_spark.report import markdown_text, page
from das_spark.store import write_texts

Floats = NDArray[np.float64]
#: Name and kind of a statistic -> its value in a run; not a number where the run does not release it.
_Seen = Mapping[tuple[str, str], float]

_MISSING: Final = float("nan")
AuditStage = Literal["measurement", "estimates", "both"]
PIPELINE: Final = "pipeline"
MEASUREMENT: Final = "measurement"
#: Kinds of events that noisy answers alone have.
_OF_NOISE: Final = {"answer", "sum", "learned"}
#: Widths of the noise, as shares of the declared one, for which the report says what would have been found.
WIDTHS: Final = (Fraction(1), Fraction(3, 4), Fraction(1, 2), Fraction(1, 4))


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How an audit is carried out.

    Raises:
        ConfigurationError: A kind is unknown, or there is none for a stage; a probability is none.
    """

    stage: AuditStage = "both"  #: noisy answers alone, the whole pipeline ("estimates"), or both
    runs: int = 400  #: runs of the whole pipeline on each input of every pair
    draws: int = 200_000  #: draws of the noisy answers alone, under each input
    level: float = 0.95  #: confidence of all findings together
    kinds: tuple[str, ...] = tuple(KINDS)  #: kinds of events, keys of `KINDS`
    delta: Fraction = PUBLISHED_DELTA  #: at which rho is also told as an epsilon
    #: INSECURE: a text from which all keys follow; None for fresh keys of the operating system.
    test_key: str | None = None

    def __post_init__(self) -> None:
        """Check kinds and probabilities, before anything is run."""
        require_level(self.level, "level")
        if not 0 < self.delta < 1:
            raise ConfigurationError(f"delta: lies between 0 and 1, is {float(self.delta):g}", hint="1e-10 is usual")
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
    """Run a system on synthetic neighbouring inputs, and judge what an attacker can tell against what the plan claims.

    Args:
        plan: What is claimed; its input and output are not opened.
        settings: How.
        system: What is run; the system that the plan describes where None.
        progress: Is given a line at a time.

    Raises:
        ConfigurationError: The plan cannot be run on synthetic records.
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
        notes=(SYNTHETIC, MEANING, *too_few(power), *([INSECURE] if settings.test_key is not None else [])),
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
    return Part(
        MEASUREMENT, pair.name, _composed(pair, seen, settings.kinds), DeclaredNoise.of(pair.mechanisms, pair.by)
    )


def _draws(
    machine: LocalSystem, pair: NeighbouringInputs, settings: AuditSettings, side: Literal["first", "second"]
) -> list[NDArray[np.float64]]:
    """Noisy values of every watched answer, (draws,) each."""
    key = _key(settings, MEASUREMENT, side)
    plans = {level: machine.measurement_plan(level, key) for level in {one.geolevel for one in pair.answers}}
    geounits = {code: number for number, code in enumerate(dict.fromkeys(one.geocode for one in pair.answers))}
    found = []
    for one in pair.answers:
        noise_plan = plans[one.geolevel]
        numbers = range(geounits[one.geocode], settings.draws * len(geounits), len(geounits))
        table, _ = noise_plan.mechanisms[""][one.query]
        addresses = GeounitAddresses.of(map(str, numbers))
        noise = sample(table, noise_plan.streams[one.query], addresses, np.array([one.row]))[:, 0]
        found.append((noise + (one.first if side == "first" else one.second)).astype(np.float64))
    return found


def _piped(machine: LocalSystem, plan: RunPlan, pair: NeighbouringInputs, settings: AuditSettings) -> Part:
    """Whole runs, each under a key of its own."""

    def runs(side: str, population: SmallPopulation) -> list[_Seen]:
        # What another product has published is the same public constant on both sides: estimates, not counts of either.
        ingested = machine.ingest(population, pair.first.counts)
        keys = (_key(settings, PIPELINE, pair.name, side, str(number)) for number in range(settings.runs))
        return [_seen_in(plan, pair, machine.run(ingested, key)) for key in keys]

    statistics = _statistics_of(pair, runs("first", pair.first), runs("second", pair.second), settings.kinds)
    return Part(PIPELINE, pair.name, statistics, DeclaredNoise.of(pair.mechanisms, pair.by))


def _powers(parts: Sequence[Part], pair: NeighbouringInputs, claim: Claim, judgement: Judgement) -> Iterator[Power]:
    """What the perfect attacker would see on noise of several widths, with the runs of every part."""
    for width in WIDTHS:
        noise = DeclaredNoise.of(louder(pair.mechanisms, width), pair.by)
        for part in parts:
            bound, beyond = noise.expected(claim, part.noise, part.judging, judgement.alpha)
            yield Power(part.stage, part.pair, part.judging, str(width), bound, bound > claim.total, beyond > 0)


def _exact_leaks(parts: Sequence[Part], claim: Claim, judgement: Judgement) -> Iterator[Power]:
    """Whether the runs of every part are enough for any event to convict."""
    for part in parts:
        bound, refutes, beyond = part.of_exact_leak(claim, judgement.alpha)
        yield Power(part.stage, part.pair, part.judging, EXACT_LEAK, bound, refutes, beyond)


def _seen_in(plan: RunPlan, pair: NeighbouringInputs, release: InProcess) -> _Seen:
    """Everything that a run on one of the inputs made public, and in which they may show."""
    found: dict[tuple[str, str], float] = {("families without an estimate", "kept"): float(len(release.failed))}
    for level in plan.spine.names:
        every = [answer for answers in release.measurements.get(level, {}).values() for answer in answers]
        kept = sum(each.values.size for each in every)
        found[f"noisy answers of {level}", "kept"] = float(kept)
    for one in pair.answers:
        values = list(_values(one, release))
        # An answer that is released twice is as good as the mean of both.
        found[one.text, "answer"] = sum(values) / len(values) if values else _MISSING
        found[f"times released: {one.text}", "kept"] = float(len(values))
    return found | dict(_estimates(plan, pair, release))


def _statistics_of(
    pair: NeighbouringInputs, first: Sequence[_Seen], second: Sequence[_Seen], kinds: Collection[str]
) -> tuple[Statistic, ...]:
    """The statistics of all runs on both inputs, with what is made of several of them."""
    seen = [
        Statistic(name, kind, *(np.array([run[name, kind] for run in runs]) for runs in (first, second)))
        for name, kind in first[0]
    ]
    return _composed(pair, seen, kinds)


def _composed(pair: NeighbouringInputs, seen: Sequence[Statistic], kinds: Collection[str]) -> tuple[Statistic, ...]:
    """One statistic for every watched answer, and others; with those that are made of several of them."""
    by_name = {each.name: each for each in seen}
    every = [*seen, *_sums(pair.answers, [by_name[one.text] for one in pair.answers])]
    groups = {
        "noisy answers": [each for each in every if each.kind == "answer"],
        "estimates": [each for each in every if each.kind == "estimate"],
        "everything": every,
    }
    every += [learned(f"learned combination of {name}", group) for name, group in groups.items() if group]
    return tuple(each for each in every if each.kind in kinds)


def _values(one: WatchedAnswer, release: InProcess) -> Iterator[int]:
    """Noisy values of an answer: one, none, or more where something is wrong."""
    for answers in release.measurements.get(one.geolevel, {}).values():
        for answer in answers:
            if answer.query == one.query and one.geocode in answer.geocodes:
                values = answer.values[answer.geocodes.index(one.geocode)]
                yield from values[[one.row] if answer.rows is None else answer.rows == one.row].tolist()


def _estimates(plan: RunPlan, pair: NeighbouringInputs, release: InProcess) -> Iterator[tuple[tuple[str, str], float]]:
    """Estimated counts on the record's paths: its two cells, what the measured queries make of them, and totals."""
    for depth, level in enumerate(plan.spine.names):
        queries = {item.query: plan.queries[item.query] for item in plan.budget.level(level).queries}
        for code in dict.fromkeys(geocode_at(leaf, plan.spine, depth) for leaf in pair.leaves):
            estimate = release.estimates.get(level, {}).get(code)
            cells, counts = (None, None) if estimate is None else (estimate.cells, estimate.counts)
            asked = {f"cell {cell}": (cells == cell if cells is not None else None) for cell in pair.cells}
            for name, query in queries.items():
                own = None if cells is None else query.row_of(cells)
                rows = dict.fromkeys(query.row_of(np.array(pair.cells)).tolist())
                asked |= {f"{name}[{row}]": (None if own is None else own == row) for row in rows}
            for name, chosen in asked.items():
                value = _MISSING if chosen is None or counts is None else float(counts[chosen].sum())
                yield (f"estimated {name} of {level} {code}", "estimate"), value
            whole = _MISSING if counts is None else float(counts.sum())
            yield (f"estimated total of {level} {code}", "estimate"), whole


def _sums(watched: Sequence[WatchedAnswer], answers: Sequence[Statistic]) -> list[Statistic]:
    """Likelihood ratios of the declared noise, of all answers and of each level, and standardised differences."""
    levels = list(dict.fromkeys(one.geolevel for one in watched))
    sides = [[answer.first for answer in answers], [answer.second for answer in answers]]
    ratios, distances = [], []
    for side in sides:
        pairs = list(zip(watched, side, strict=True))
        ratios.append(np.stack([log_ratio(one.mechanism, values, one.first, one.second) for one, values in pairs]))
        distances.append(np.stack([_standardised(one, values) for one, values in pairs]))
    found = [
        Statistic("log-likelihood ratio of all answers", "sum", *(side.sum(axis=0) for side in ratios)),
        Statistic("standardised differences of all answers", "sum", *(side.sum(axis=0) for side in distances)),
    ]
    for level in levels:
        own = np.array([one.geolevel == level for one in watched])
        found.append(Statistic(f"log-likelihood ratio of {level}", "sum", *(side[own].sum(axis=0) for side in ratios)))
    return found


def _standardised(one: WatchedAnswer, values: Floats) -> Floats:
    """Distance from the middle of the two exact answers, positive towards the first, in standard deviations."""
    middle = (one.first + one.second) / 2
    distance: Floats = (one.first - one.second) * (values - middle) / np.sqrt(one.mechanism.variance())
    return np.where(np.isnan(distance), 0.0, distance)


def write_audit(report: AuditReport, folder: Place) -> None:
    """Write audit.json, audit.md and audit.html.

    Args:
        report: The audit.
        folder: Where to; made if it is not there.

    Raises:
        OutputError: The disk is full or the place cannot be written.
    """
    found = present_audit(report)
    texts = {"audit.json": report.to_json(), "audit.md": markdown_text(found), "audit.html": page(found)}
    write_texts(folder, texts)
