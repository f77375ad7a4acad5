"""Whether runs are verified: that takes as long as all the rest of a small run, and has tests of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from das_spark.pipeline import VerificationReport
    from das_spark.store import PublicLayout


@contextmanager
def unverified() -> Iterator[None]:
    """Let runs of this process write a report that says that their verification was left out."""
    from das_spark.pipeline.stages import verify

    with mock.patch.object(verify, "verify_public", _left_out):
        yield


def _left_out(_: object, layout: PublicLayout, __: Any = None) -> VerificationReport:
    from das_spark.pipeline import Check, VerificationReport
    from das_spark.store import PublicManifest, record_of, write_durably

    manifest = PublicManifest.load(layout.manifest)
    checks = (Check("left out", "", True, 0),)
    sha256 = record_of(layout.manifest).sha256
    report = VerificationReport(checks, manifest.relaxed, manifest.run_id, sha256, manifest.uncertified)
    write_durably(layout.verification, report.to_json())
    return report
