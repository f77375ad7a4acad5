"""What lies in the places of a run and belongs to none of its results: left by drivers and tasks that were killed.

Nothing reads it, since results are known by their markers, digests and manifest. It costs room, and what was drawn and
destroyed must not come back: a task that nobody could reach any more may have written after its attempt was destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.places import TRIED, Place, place_of
from das_spark.store.commit import bytes_of, files_below, names_in
from das_spark.store.journal import Journal, State
from das_spark.store.layout import STAGING
from das_spark.store.manifest import PublicManifest
from das_spark.store.runs import RunMarker

if TYPE_CHECKING:
    from das_spark.store.layout import RunLayout


@dataclass(frozen=True, slots=True)
class Orphan:
    """A folder or file that belongs to no result.

    Attributes:
        place: Where it lies.
        why: What it was.
        size: Bytes.
    """

    place: Place
    why: str
    size: int


def orphans_of(layout: RunLayout) -> tuple[Orphan, ...]:
    """Find what belongs to no result of a run on which no driver is at work."""
    return tuple(Orphan(place, why, bytes_of(place)) for place, why in _found(layout))


def _found(layout: RunLayout) -> Iterator[tuple[Place, str]]:
    yield from _staged(layout)
    yield from _drawn(Journal.of(layout))
    yield from _published(layout)


def _staged(layout: RunLayout) -> Iterator[tuple[Place, str]]:
    for side in (layout.public, layout.restricted):
        staging = side.path / STAGING
        for name in sorted(names_in(staging)):
            yield staging / name, "written by a driver that died, and never published"
    for root in {side.path.parent for side in (layout.public, layout.restricted)}:
        for name in sorted(name for name in names_in(root) if name.startswith(TRIED)):
            yield root / name, "left of a trial of the place"


def _drawn(journal: Journal) -> Iterator[tuple[Place, str]]:
    for geolevel in journal.geolevels():
        for attempt in journal.attempts(geolevel):
            staging = journal.staging(geolevel, attempt.number)
            if attempt.state in (State.DESTROYED, State.PROMOTED) and staging.is_dir():
                yield staging, f"measurements of attempt {attempt.number}, which is {attempt.state}"


def _published(layout: RunLayout) -> Iterator[tuple[Place, str]]:
    marker, public = RunMarker.find(layout.restricted.path), layout.public
    if marker is not None and marker.unpublished and layout.published is None:
        made = place_of(marker.unpublished)
        if made.exists():
            yield made, "copied to the public root"
    if public.manifest.is_file():
        listed = {file.name for file in PublicManifest.load(public.manifest).files}
        for name in files_below(public.path, without={STAGING, public.manifest.name, public.verification.name}):
            if name not in listed:
                yield public.file(name), "in the public root, and not in its manifest"
