"""`[ledger]`: where the privacy ledger of a dataset is kept, and the most that all runs on it may cost together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.config import model
from das_spark.config.plan import LedgerSettings
from das_spark.errors import BudgetError
from das_spark.privacy.caps import Cap

if TYPE_CHECKING:
    from das_spark.config.problems import Problems


def resolve_ledger(section: model.Ledger, problems: Problems) -> LedgerSettings:
    """Check `[ledger]`.

    Args:
        section: `[ledger]`.
        problems: Where to note what is wrong.

    Returns:
        The settings, right or wrong.
    """
    cap, was = (_cap(name, getattr(section, name), problems) for name in ("cap", "cap_was"))
    if section.cap_was is not None and section.cap is None:
        problems.add("ledger.cap_was", "says which cap is raised; give the new one as ledger.cap")
    elif cap is not None and was is not None and cap.kind != was.kind:
        problems.add("ledger.cap_was", f"is a cap on {was.kind}, and ledger.cap one on {cap.kind}")
    return LedgerSettings(section.path, cap, was)


def _cap(name: str, section: model.Cap | None, problems: Problems) -> Cap | None:
    if section is None:
        return None
    try:
        return Cap(section.epsilon, section.rho, section.delta)
    except BudgetError as error:
        problems.add(f"ledger.{name}", f"{error.message}; {error.hint}" if error.hint else error.message)
        return None
