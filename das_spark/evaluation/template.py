"""Pages from HTML templates, of this room and of the room of experiments; all share `style.html`."""

from __future__ import annotations

from typing import Final

#: Where templates lie.
_ROOMS: Final = ("evaluation", "experiments")


def rendered(name: str, **values: object) -> str:
    """Fill a template.

    Args:
        name: File of the template, such as "accuracy.html".
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

    loader = ChoiceLoader([PackageLoader(f"das_spark.{room}", ".") for room in _ROOMS])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name).render(values)
