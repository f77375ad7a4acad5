"""Loops that numpy cannot carry, compiled to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile on first use; keep the machine code beside the module, where that can be written."""
    compiler: Any = njit
    settings = {"nogil": True, "error_model": "numpy"}
    try:
        found: _Function = compiler(cache=True, **settings)(function)
    except RuntimeError:  # a container that is read-only, with no home: every process compiles for itself
        found = compiler(**settings)(function)
    return found
