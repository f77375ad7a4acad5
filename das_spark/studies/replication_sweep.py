"""The study of 1940 done again: what a finished sweep found, beside what was published. RESTRICTED."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from das_spark.errors import InputError
from das_spark.evaluation import AccuracyReport, report_from_json
from das_spark.evaluation.sampling import SampleReport
from das_spark.store import RunLayout, RunState, SweepLayout, SweepRecord
from das_spark.studies.replication import compare
from das_spark.studies.replication_figures import our_figures
from das_spark.studies.replication_page import Replication

PRODUCT = "e2e_1940"


def replicate(sweep_folder: Path) -> Replication:
    """Set the figures of a sweep beside the published ones. RESTRICTED, where its population is.

    Args:
        sweep_folder: Of a sweep of the product e2e_1940; its runs lie where the sweep made them. Budgets whose runs are
            not all finished are left out.

    Returns:
        Every published figure, those that we have not measured too, and what ours were found in.

    Raises:
        InputError: The sweep is one of another product, or no budget of it is finished.
        OutputError: It is no folder of a sweep.
    """
    layout = SweepLayout(sweep_folder)
    record = SweepRecord.load(layout.record)
    if record.product != PRODUCT:
        raise InputError(
            f"{sweep_folder}: a sweep of {record.product}; the published study is one of {PRODUCT}",
            hint="make a sweep of conf/e2e_1940.toml or conf/e2e_1940_simulated.toml",
        )
    runs = _reports(record)
    if not runs:
        raise InputError(f"{sweep_folder}: no budget of it is finished", hint="call das-spark sweep again")
    samples = None
    if layout.samples.is_file():
        samples = SampleReport.from_json(layout.samples.read_text(encoding="utf-8"))
    return Replication(compare(our_figures(runs, samples)), runs)


def _reports(record: SweepRecord) -> dict[Fraction, list[AccuracyReport]]:
    """Epsilon -> the reports of its runs, where all are finished and have one."""
    names = list(record.states)
    found = {}
    for place, total in enumerate(record.totals):
        mine = names[place * record.runs : (place + 1) * record.runs]
        files = [RunLayout.at(Path(record.config["output"]["root"]), name).restricted.accuracy_json for name in mine]
        if all(record.states[name] is RunState.FINISHED for name in mine) and all(file.is_file() for file in files):
            found[Fraction(total)] = [report_from_json(file.read_text(encoding="utf-8")) for file in files]
    return found
