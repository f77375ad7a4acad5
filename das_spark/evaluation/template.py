"""Pages from HTML templates; all share `style.html`."""

from __future__ import annotations

from typing import Final

_PACKAGE: Final = "das_spark.evaluation"


def rendered(name: str, package: str = _PACKAGE, /, **values: object) -> str:
    """Fill a template.

    Args:
        name: File of the template, such as "accuracy.html".
        package: Where it lies, if not here.
        values: What it shows, by the names that it uses; every one that it uses must be there. Text is escaped.

    Returns:
        HTML.
    """
    from jinja2 import (  # noqa: PLC0415 - only reports pay for it
        ChoiceLoader,
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    loader = ChoiceLoader([PackageLoader(each, ".") for each in (package, _PACKAGE)])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name).render(values)
