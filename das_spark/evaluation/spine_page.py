"""The report on a spine as one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Final

from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.spine_figures import (
    MOST_POINTS,
    budget_moves,
    deviations,
    distance_curves,
    fan_outs,
    merged_levels,
    spoken,
)
from das_spark.evaluation.spine_report import DEFINITIONS, SpineReport
from das_spark.evaluation.template import rendered
from das_spark.privacy import Framework

#: Share paths and entities that the page lists; all are in the JSON file.
MOST_ROWS: Final = 50

_DISTANCES = (
    "Cumulative distribution of off-spine distances by category of entities: share of the entities that can be made up "
    "by adding and subtracting so many geounits or fewer, on the census spine (dashed) and on this spine (solid)."
)
_DEVIATIONS = (
    "Standard deviation of the total of each entity, on the census spine (across) and on this spine (up); below the "
    "dashed line it fell. Weighted least squares from one noisy total of every geounit, with the whole budget of "
    f"{{budget}} on totals. Of a category with more than {MOST_POINTS:,} entities, so many are drawn."
)
_FAN_OUTS = "Children of a geounit by level: mean (filled) and largest (hollow), on the census spine and on this one."
_MOVES = (
    "Share of the budget by level: as it was given to the level, and as the geounits on the path of a mean block have "
    "it after bypassing, which moves the budget of only children (and, under pure differential privacy, of small "
    "families) up."
)


def spine_page(report: SpineReport) -> str:
    """Render the page.

    Args:
        report: Of a spine.

    Returns:
        HTML.
    """
    before, after = ({line.name: line for line in lines} for lines in (report.before, report.after))
    return rendered(
        "spine.html",
        report=report,
        budget=budget_text(report),
        levels=[(name, before.get(name), after.get(name)) for name in merged_levels(report.before, report.after)],
        names=[line.name for line in report.after],
        moves=report.moves,
        paths=report.paths[:MOST_ROWS],
        categories=report.figures,
        spoken=spoken,
        figures=_figures(report),
        farthest={entities.category: _farthest(report, entities.category) for entities in report.categories},
        most=MOST_ROWS,
        definitions=DEFINITIONS,
    )


def budget_text(report: SpineReport) -> str:
    """The budget with its name.

    Args:
        report: The report.

    Returns:
        Symbol of the framework, and the exact epsilon or rho.
    """
    return f"{Framework(report.framework).symbol} = {report.budget}"


def _figures(report: SpineReport) -> list[Captioned]:
    shown = [entities for entities in report.categories if entities.names.size]
    drawn = []
    if shown:
        drawn += [
            (distance_curves(shown), _DISTANCES),
            (deviations(shown), _DEVIATIONS.format(budget=budget_text(report))),
        ]
    drawn += [(fan_outs(report.before, report.after), _FAN_OUTS), (budget_moves(report.moves), _MOVES)]
    return [Captioned(svg, caption) for svg, caption in drawn]


def _farthest(report: SpineReport, category: str) -> list[tuple[object, ...]]:
    """The entities of a category that are farthest from the census spine, farthest first."""
    entities = report.category(category)
    order = (-entities.distance_before).argsort(kind="stable")[:MOST_ROWS]
    columns = (
        entities.names,
        entities.blocks,
        entities.distance_before,
        entities.distance_after,
        entities.variance_before**0.5,
        entities.variance_after**0.5,
    )
    return list(zip(*(column[order].tolist() for column in columns), strict=True))
