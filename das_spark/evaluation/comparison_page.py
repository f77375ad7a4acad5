"""Two configurations side by side as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from das_spark.evaluation.comparison_figures import differences
from das_spark.evaluation.definitions import RESTRICTED
from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.run_comparison import PAIRED, Method, RunComparison
from das_spark.evaluation.template import rendered

_DIFFERENCES = (
    "Mean difference of absolute residuals, first minus second, in {counted}: to the left of zero the first is nearer "
    "to the confidential counts. Bars: 95 % intervals over {over}{how}; {first} and {second} runs."
)

_HOW: Final[Mapping[Method, str]] = {
    "welch": ", not paired (Welch)",
    "paired_runs": ", in pairs",
    "paired_geounits": ", in pairs",
}


def comparison_page(comparison: RunComparison) -> str:
    """Render the page.

    Args:
        comparison: Of two configurations.

    Returns:
        HTML.
    """
    lines = [line for line in comparison.lines if line.statistic == PAIRED and line.interval is not None]
    figures = []
    if lines:
        over = lines[0].interval.over if lines[0].interval else ""
        caption = _DIFFERENCES.format(
            counted=comparison.counted,
            over=over,
            how=_HOW[comparison.method],
            first=len(comparison.first),
            second=len(comparison.second),
        )
        figures.append(Captioned(differences(lines, comparison.counted), caption))
    return rendered("comparison.html", comparison=comparison, restricted=RESTRICTED, paired=PAIRED, figures=figures)
