"""The study of 1940 done again, as tables and as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from das_spark.evaluation import AccuracyReport
from das_spark.evaluation.definitions import RESTRICTED
from das_spark.evaluation.template import rendered
from das_spark.studies.replication import Comparison, comparison_table, to_html, to_json, verdict_table
from das_spark.studies.replication_figure import published_against_ours, study_figures
from das_spark.studies.table import Table


@dataclass(frozen=True, slots=True)
class Replication:
    """The study done again.

    Attributes:
        comparisons: Every published figure, with ours where we have it.
        runs: Epsilon -> reports on the runs with it.
    """

    comparisons: tuple[Comparison, ...]
    runs: Mapping[Fraction, Sequence[AccuracyReport]]

    def tables(self) -> tuple[Table, ...]:
        """What came out of each class, and every figure."""
        return (verdict_table(self.comparisons), comparison_table(self.comparisons))

    def to_json(self) -> str:
        """Both tables."""
        return to_json(self.comparisons)


def replication_page(found: Replication) -> str:
    """Render the page.

    Args:
        found: The study done again.

    Returns:
        HTML.
    """
    return rendered(
        "replication_page.html",
        __package__,
        restricted=RESTRICTED,
        runs=sum(map(len, found.runs.values())),
        epsilons=sorted(found.runs),
        fragment=to_html(found.comparisons),
        figures=[published_against_ours(found.comparisons), *study_figures(found.runs)],
    )
