"""Many requests to a store at once: each waits for its answer, and none for that of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from das_spark.places.filesystem import Location, Place

_AT_ONCE: Final = 8

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def for_all(places: Place | tuple[Place, ...], work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Do something in places for every item: where one is in a store several at once, else one after the other.

    Returns:
        The answers, in the order of the items.
    """
    named = places if isinstance(places, tuple) else (places,)
    waits = any(isinstance(place, Location) for place in named)
    return at_once(work, items) if waits else [work(item) for item in items]


def at_once(work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Do something for every item, several at once; when one raises an error, those that had begun have ended."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, items))
