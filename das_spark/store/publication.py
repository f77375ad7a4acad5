"""The public side of a run appears in a store at once, when the run is finished.

Objects keep the time at which they were put, and times tell how long a stage took, which follows from confidential
counts. So what may be published is made in the run's work place (`RunLayout.public`), and copied to where it lies in
the end (`RunLayout.published`) when all of it is verified: the marker first, which says whose the root is, and the
manifest last, which names every file with its digest. What no manifest names was not published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.errors import OutputError
from das_spark.places import Place, copy_file, disk_errors, for_all, system_of
from das_spark.store.commit import discard, files_below, write_durably
from das_spark.store.digests import record_of
from das_spark.store.layout import STAGING
from das_spark.store.lock import require_held
from das_spark.store.manifest import PublicManifest

if TYPE_CHECKING:
    from das_spark.store.layout import RunLayout


def publish(layout: RunLayout) -> RunLayout:
    """Copy what a finished run has made public to where it lies in the end, and remove it where it was made.

    It may be called again where it was cut short: what is there is copied once more.

    Args:
        layout: Of a run that is held, finished and verified.

    Returns:
        Where the run lies now; the same layout where it was made there.

    Raises:
        OutputError: Another driver has taken over the run, a file is not as the manifest names it, or the place cannot
            be written.
    """
    if layout.published is None:
        return layout
    made, final = layout.public, layout.published
    digests = {file.name: file.sha256 for file in PublicManifest.load(made.manifest).files}
    first, last = made.marker.name, made.manifest.name
    names = [name for name in files_below(made.path, without={STAGING}) if name not in (first, last)]
    missing = sorted(digests.keys() - {first, *names})
    if missing:
        raise OutputError(
            f"{made.path}: {missing[0]}, which the manifest names, is not listed there; nothing is published",
            hint="run the same command again: a store may list late what lies in it; restore what is gone from a copy",
        )
    require_held(layout)
    with disk_errors(final.path):
        _copy(made.marker, final.marker)
        system_of(final.path).remove(str(final.manifest))
        for_all(final.path, lambda name: _copy(made.file(name), final.file(name), digests.get(name)), names)
        strays = set(files_below(final.path)) - {first, *names}
        for_all(final.path, lambda name: system_of(final.path).remove(str(final.file(name))), strays)
        require_held(layout)
        write_durably(final.manifest, made.manifest.read_bytes())
    discard(made.path)
    return layout.as_published()


def _copy(source: Place, target: Place, sha256: str | None = None) -> None:
    """Copy a file; where it goes through this machine, its digest is compared."""
    if sha256 is not None and system_of(source) != system_of(target) and record_of(source).sha256 != sha256:
        raise OutputError(
            f"{source}: is not the file that the manifest names",
            hint="restore it from a copy, or begin a new run, which spends its own budget",
        )
    copy_file(source, target)
