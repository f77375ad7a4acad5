"""What all attacks on a run found together, as data and as a page. RESTRICTED."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Final

from das_spark.attack.differencing import DifferencingFindings, present_differencing
from das_spark.attack.inference import InferenceFindings, present_inference
from das_spark.attack.linkage import UNIQUE, LinkageFindings, linkage_figure, present_linkage
from das_spark.attack.reconstruction_report import ALONE, ReconstructionFindings, present_reconstruction
from das_spark.attack.reconstruction_tally import PROTECTED
from das_spark.report import RESTRICTED, Figure, KeyFigure, Report, ReportSection

SCHEMA_VERSION: Final = 1
CONVICTED: Final = "CONVICTED: the noisy answers tell more than is claimed of them."


@dataclass(frozen=True, slots=True)
class AttackReport:
    """What attacks on one run found; None stands for one that was not made.

    Args:
        run: Name of the run.
        product: Name of its product.
        facts: What the run is, below the title.
        reconstruction: Records reconstructed from tables.
        linkage: Persons linked with records.
        inference: Records, attributes and places told apart by noisy answers.
        differencing: Records told apart by another run, too.
        left_out: Attack that was not made -> why, in a sentence.
        notices: What must not be missed.
        seconds: Wall time.
    """

    run: str
    product: str
    facts: Mapping[str, str]
    reconstruction: ReconstructionFindings | None = None
    linkage: LinkageFindings | None = None
    inference: InferenceFindings | None = None
    differencing: DifferencingFindings | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def convicts(self) -> bool:
        """Whether something contradicts what is claimed of the run."""
        return any(each is not None and each.convicts for each in (self.inference, self.differencing))

    def to_json(self) -> str:
        """The report as text; numbers that are none are null, exact ones text."""
        content = {"schema_version": SCHEMA_VERSION, "restricted": True, **asdict(self)}
        return json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """The same as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Fraction):
        return str(value)
    return value


def present_attacks(report: AttackReport) -> Report:
    """What the terminal and the written page say of attacks on a run."""
    verdicts = tuple(_verdicts(report))
    left_out = tuple(f"{name}: {why}" for name, why in report.left_out.items())
    return Report(
        f"Attacks on {report.run} ({report.product})",
        (
            *(() if report.reconstruction is None else present_reconstruction(report.reconstruction)),
            *(() if report.linkage is None else present_linkage(report.linkage)),
            *(() if report.inference is None else present_inference(report.inference)),
            *(() if report.differencing is None else present_differencing(report.differencing)),
            *((ReportSection("Left out", left_out),) if left_out else ()),
        ),
        restricted=RESTRICTED,
        notices=(*report.notices, *((CONVICTED,) if report.convicts else ())),
        facts=report.facts,
        verdict=" ".join(verdicts) or "No attack was made.",
        key_figures=tuple(_key_figures(report)),
        picture=_picture(report),
        notes=(f"{report.seconds:.0f} seconds.",),
    )


def _verdicts(report: AttackReport) -> Iterator[str]:
    if report.reconstruction is not None:
        yield report.reconstruction.verdict
    if report.linkage is not None:
        yield report.linkage.verdict
    if report.inference is not None:
        yield report.inference.verdict
    if report.differencing is not None:
        yield report.differencing.verdict


def _key_figures(report: AttackReport) -> Iterator[KeyFigure]:
    if report.reconstruction is not None:
        rate = report.reconstruction.rate(PROTECTED, ALONE)
        if rate.records:
            meaning = "of unique records that a reconstruction from the tables agrees with, above the best guess"
            yield KeyFigure(f"{100 * rate.lift.value:+.1f}", "points", meaning)
    if report.linkage is not None:
        row = report.linkage.whole(UNIQUE)
        if row.persons:
            lift = (row.confirmed - row.best_guess) / row.persons
            meaning = (
                f"of unique persons whose {report.linkage.learned_words} a link with the microdata finds, above guesses"
            )
            yield KeyFigure(f"{100 * lift:+.1f}", "points", meaning)
    if report.inference is not None:
        whole = report.inference.curves[report.inference.rows[0].curve]
        meaning = "with which the best attacker tells one record from another by the noisy answers; 1 is certainty"
        yield KeyFigure(f"{whole.advantage:.2f}", "advantage", meaning)


def _picture(report: AttackReport) -> Figure | None:
    return None if report.linkage is None else linkage_figure(report.linkage)
