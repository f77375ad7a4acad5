"""An experiment as one HTML file that needs nothing else: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.template import rendered
from das_spark.studies.table import Table, shown


def experiment_page(
    title: str,
    lead: Sequence[str],
    figures: Sequence[Captioned],
    tables: Sequence[Table],
    definitions: Mapping[str, str],
) -> str:
    """Render the page.

    Args:
        title: Heading.
        lead: Paragraphs below it: what was done, with which settings.
        figures: In order.
        tables: In order.
        definitions: Terms and their meaning.

    Returns:
        HTML.
    """
    return rendered(
        "experiment.html",
        __package__,
        title=title,
        lead=lead,
        figures=figures,
        tables=tables,
        definitions=definitions,
        shown=shown,
    )
