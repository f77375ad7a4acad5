"""The study of occupancy, or the occupancy of a run, as one HTML page with its figures."""

from __future__ import annotations

from typing import Final

from das_spark.evaluation.definitions import RESTRICTED
from das_spark.evaluation.drawing import Captioned
from das_spark.studies import published_demonstration as published
from das_spark.studies.occupancy_arms import ARMS, AS_PUBLISHED, UNBOUNDED
from das_spark.studies.occupancy_figures import difference_boxes, noise_law, occupancy_rates, shares_filled
from das_spark.studies.occupancy_measures import DEFINITIONS
from das_spark.studies.occupancy_result import OccupancyResult, RunOccupancy
from das_spark.studies.page import experiment_page

_SOURCE: Final = (
    "The study: D. Van Riper, T. Kugler and S. Ruggles, Disclosure Avoidance in the Census Bureau's 2010 Demonstration "
    "Data Product, PSD 2020."
)
_SIMULATED: Final = (
    "{counties:,} simulated counties in {states} states, {units:,} housing units, seed {seed}. Nobody lives there and "
    "the key of the noise is known. Households have 672 cells (sex, Hispanic origin and race of the householder by "
    "type of household) instead of the 96,768 of the demonstration; the budget of households, its shares by geolevel "
    "and query, and so every scale of noise are the published ones. Counties of up to {follow:,} housing units are "
    "followed down to the block, the others end at the county; so geolevels below it tell of small counties only."
)
_ESTIMATED: Final = (
    "Arms with nonnegative counts are estimated by the estimator of a run (certified least squares, then whole "
    "numbers), family by family from the nation down. Arms in which counts may be negative have a closed form for "
    "totals; they are real numbers, rounded here. All arms of one budget see the same noise."
)
_BOXES: Final = (
    "Released minus true households of counties, by quintile of the true number, in each arm; the same scale "
    "everywhere. Box: middle half; line: median; dot: mean; whiskers: last difference within 1.5 lengths of the box; "
    "differences beyond are not drawn. First plot: as figure 2 of the study."
)
_RATES: Final = (
    "Occupancy of every county against its number of housing units: in truth (grey), in the release (blue), and where "
    "no vacant unit is left (orange diamonds). Without the upper bound rates exceed 1; the scales differ."
)
_SHARES: Final = (
    "Share of the geounits with vacant units in truth that have none in the release, with 95 % intervals (Wilson). "
    "Published for counties: {full} of {counties:,}, {share:.1%}; none in truth. How many there are depends on how "
    "many vacant units small counties have, so that the phenomenon can be compared, and not the number."
)
_PEOPLE: Final = (
    "People, whose number is exact in every state: released minus true number of people of counties, by quintile of "
    "people (left), and of the number of occupied cells of voting age by Hispanic origin by race by citizenship "
    "(right; 1: the most homogeneous)."
)
_NOISE: Final = (
    "The law of the noise of a detailed query from the county down, scale {scale:.2f}: half of the draws lie within "
    "the inner lines, 95 % within the outer ones. As figure 1 of the study, which draws the continuous law."
)
_RUN_BOXES: Final = (
    "{geolevel}: released minus true households, by quintile of the true number of the geounits with a housing unit. "
    "Box: middle half; line: median; dot: mean; whiskers: last difference within 1.5 lengths of the box."
)


def occupancy_page(result: OccupancyResult) -> str:
    """Render the page of a study.

    Args:
        result: The study.

    Returns:
        HTML.
    """
    study = result.study
    settings, counties = study.settings, study.counties
    number = len(counties.units)
    size = {"counties": number, "states": settings.states, "units": int(counties.units.sum())}
    lead = (_SOURCE, _SIMULATED.format(**size, seed=settings.seed, follow=settings.follow_up_to), _ESTIMATED)
    share = published.FULL_COUNTIES / published.COUNTIES
    arms = {arm.name: study.report(arm).level("County").quintiles for arm in ARMS}
    people = {"by people": study.people.by_size, "by occupied cells": study.people.by_diversity}
    figures = (
        Captioned(difference_boxes(arms, "households"), _BOXES),
        Captioned(occupancy_rates(counties, (AS_PUBLISHED.name, UNBOUNDED.name)), _RATES),
        Captioned(
            shares_filled(study.reports),
            _SHARES.format(full=published.FULL_COUNTIES, counties=published.COUNTIES, share=share),
        ),
        Captioned(difference_boxes(people, "people"), _PEOPLE),
        Captioned(noise_law(published.FIGURE_1_SCALE), _NOISE.format(scale=float(published.FIGURE_1_SCALE))),
    )
    tables = tuple(table for table in result.tables() if table.name != "counties")
    arms_explained = {arm.name: arm.title for arm in ARMS}
    return experiment_page("Occupied housing units", lead, figures, tables, arms_explained | dict(DEFINITIONS))


def run_occupancy_page(result: RunOccupancy) -> str:
    """Render the page of a run. RESTRICTED.

    Args:
        result: Of a run.

    Returns:
        HTML.
    """
    lead = (f"{RESTRICTED}.", f"Run {result.run}, product {result.product}.", _SOURCE)
    share = published.FULL_COUNTIES / published.COUNTIES
    caption = _SHARES.format(full=published.FULL_COUNTIES, counties=published.COUNTIES, share=share)
    figures = [Captioned(shares_filled((result.report,)), caption)]
    for level in result.report.levels:
        name = level.geolevel.replace("_", " ")
        figures.append(
            Captioned(difference_boxes({name: level.quintiles}, "households"), _RUN_BOXES.format(geolevel=name))
        )
    return experiment_page(f"Occupied housing units of {result.run}", lead, figures, result.tables(), DEFINITIONS)
