"""Pages from HTML templates; all share `style.html`."""

from __future__ import annotations


def rendered(name: str, **values: object) -> str:
    """Fill a template.

    Args:
        name: File of the template, such as "accuracy.html".
        values: What it shows, by the names that it uses; every one that it uses must be there. Text is escaped.

    Returns:
        HTML.
    """
    from jinja2 import (  # noqa: PLC0415 - only reports pay for it
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    loader = PackageLoader("das_spark.evaluation", ".")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name).render(values)
