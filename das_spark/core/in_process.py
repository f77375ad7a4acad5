"""The executor of one process: numpy, one machine, no JVM. For tests, audits, studies, and small runs in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.core.family import (
    ConfidentialFamily,
    FamilyEstimate,
    GeounitArrays,
    MeasuredFamily,
    NoisyAnswers,
)
from das_spark.core.measure import MeasurementPlan, measure_family
from das_spark.errors import EstimationError
from das_spark.histogram import Histogram

if TYPE_CHECKING:
    from das_spark.core.levels import LevelPlan
    from das_spark.estimation import FamilyDiagnostics, FamilyProblem


@dataclass(frozen=True, slots=True, eq=False)
class LevelInput:
    """One level as ingestion makes it: family by family, each named by the geocode of its parent.

    At the top a family is named by its single child, or by what its children share.

    Attributes:
        confidential: The children's histograms.
        declared: The children and what declared invariants demand of them; no measurements, no parent's estimate.
    """

    confidential: Mapping[str, ConfidentialFamily]
    declared: Mapping[str, FamilyProblem]


class InProcess:
    """Measures and estimates in memory; its attributes are what a run would publish.

    Subclasses may break it: audits must find out.

    Args:
        levels: Level -> what was ingested, from the top.
        plans: Level -> how its families are estimated.
        noise: Level -> how its families are measured.

    Attributes:
        measurements: Level -> family -> its noisy answers.
        estimates: Level -> geocode -> estimate; a level with a family that failed is missing.
        arrays: Level -> geocode -> what the estimator gave with the estimate.
        diagnostics: Level -> family -> how its estimation ended.
        problems: Level -> family -> what was estimated.
        failed: Families that could not be estimated, as `<level>/<family>`.
    """

    def __init__(  # noqa: D107 - Args stand with the class.
        self,
        levels: Mapping[str, LevelInput],
        plans: Mapping[str, LevelPlan],
        noise: Mapping[str, MeasurementPlan],
    ) -> None:
        self.levels, self.plans, self.noise = levels, plans, noise
        self._above: dict[str, str] = dict(zip(list(levels)[1:], levels, strict=False))
        self.measurements: dict[str, dict[str, tuple[NoisyAnswers, ...]]] = {}
        self.estimates: dict[str, dict[str, Histogram]] = {}
        self.arrays: dict[str, dict[str, GeounitArrays]] = {}
        self.diagnostics: dict[str, dict[str, FamilyDiagnostics]] = {}
        self.problems: dict[str, dict[str, FamilyProblem]] = {}
        self.failed: tuple[str, ...] = ()
        self._upward: dict[str, dict[str, GeounitArrays]] = {level: {} for level in levels}

    def measure(self, geolevel: str) -> None:
        """Measure every family of a level."""
        above = self._above.get(geolevel) if self.noise[geolevel].lazy else None
        self.measurements[geolevel] = {
            family: self.measure_family(
                geolevel, family, None if above is None else self.estimates[above][family].cells
            )
            for family in self.levels[geolevel].confidential
        }

    def upward(self, geolevel: str) -> None:
        """Carry the families of a level upwards."""
        plan = self.plans[geolevel]
        for family in self.levels[geolevel].declared:
            measured = self._family(geolevel, family, estimated=False)
            result = plan.estimator.upward(measured, plan.family)
            self._upward[geolevel] |= dict(zip(measured.problem.children, result.children, strict=True))
            if geolevel in self._above:
                self._upward[self._above[geolevel]][family] = result.parent

    def estimate(self, geolevel: str) -> None:
        """Estimate every family of a level."""
        found: dict[str, Histogram] = {}
        arrays: dict[str, GeounitArrays] = {}
        failed = []
        self.diagnostics[geolevel], self.problems[geolevel] = {}, {}
        for family in self.levels[geolevel].declared:
            measured = self._family(geolevel, family, estimated=True)
            self.problems[geolevel][family] = measured.problem
            try:
                estimate = self.estimate_family(geolevel, family, measured)
            except EstimationError:
                failed.append(f"{geolevel}/{family}")
                continue
            result, children = estimate.result, measured.problem.children
            self.diagnostics[geolevel][family] = result.diagnostics
            if not result.diagnostics.status.is_usable:
                failed.append(f"{geolevel}/{family}")
                continue
            found |= {
                code: Histogram(self.plans[geolevel].size, result.cells[counts > 0], counts[counts > 0])
                for code, counts in zip(children, result.counts, strict=True)
            }
            arrays |= dict(zip(children, estimate.arrays, strict=True)) if estimate.arrays else {}
        if failed:
            self.failed = tuple(failed)
            raise EstimationError(f"{len(failed)} families of level {geolevel} could not be estimated")
        self.estimates[geolevel], self.arrays[geolevel] = found, arrays

    def measure_family(self, geolevel: str, family: str, support: NDArray[np.int32] | None) -> tuple[NoisyAnswers, ...]:
        """Measure one family.

        Args:
            geolevel: The level of the children.
            family: Its name.
            support: Cells that the estimate of the parent occupies; None where there is none.
        """
        return measure_family(self.levels[geolevel].confidential[family], support, self.noise[geolevel])

    def estimate_family(self, geolevel: str, family: str, measured: MeasuredFamily) -> FamilyEstimate:
        """Estimate one family."""
        plan = self.plans[geolevel]
        return plan.estimator.estimate([measured], plan.family)[0]

    def _family(self, geolevel: str, family: str, *, estimated: bool) -> MeasuredFamily:
        """What is public of a family, with or without the estimate of its parent."""
        declared = self.levels[geolevel].declared[family]
        above = self._above.get(geolevel) if estimated else None
        parent = None if above is None else self.estimates[above][family]
        answers = self.measurements[geolevel][family]
        upward = self._upward[geolevel]
        return MeasuredFamily(
            self.plans[geolevel].measured(declared, parent, answers),
            tuple(upward.get(code, {}) for code in declared.children) if upward else (),
            None if above is None else self.arrays[above].get(family),
        )
