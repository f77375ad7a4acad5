"""Verification of what a joint run says of its parts together: counted, summed and written again from the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from das_spark.pipeline.joint_release import JointRelease
from das_spark.privacy import ALL_RUNS, PARTS_ALONE
from das_spark.spark.checks import Check, VerificationReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from das_spark.places import Place
    from das_spark.store import JointLayout, PublicLayout

#: What the parts say that cannot be true together, counted again; none of it is a failure.
CONTRADICTIONS: Final = "contradictions between parts"
#: Statement and ledger of all parts together.
TEXTS: Final = "texts follow from the parts"
#: Names of parts are those of the marker.
NAMES: Final = "parts are those of the joint run"


def joint_report(
    layout: JointLayout,
    publics: Mapping[str, PublicLayout],
    reports: Mapping[str, VerificationReport],
    spark: SparkSession,
) -> VerificationReport:
    """Judge a joint run and gather what was found of its parts.

    Args:
        layout: Of the joint run.
        publics: What a part counts -> its public root.
        reports: The same -> what verification has found of it.
        spark: The session.
    """
    checks = [
        replace(check, name=f"{record}: {check.name}") for record, report in reports.items() for check in report.checks
    ]
    return VerificationReport(
        (*checks, *_checks(layout, JointRelease.of(layout.run_id, publics), spark)),
        relaxed=tuple(f"{record}: {each}" for record, report in reports.items() for each in report.relaxed),
        run_id=layout.run_id,
        uncertified=tuple(f"{record}: {each}" for record, report in reports.items() for each in report.uncertified),
    )


def _checks(layout: JointLayout, release: JointRelease, spark: SparkSession) -> list[Check]:
    contradictions = release.contradictions(spark)
    named = {record: folder.name for record, folder in layout.parts().items()}
    others = [
        f"{record}: is run {part.manifest.run_id}, not {named[record]}"
        for record, part in release.parts.items()
        if part.manifest.run_id != named[record]
    ]
    before, rest, after = release.statement(contradictions).rpartition(PARTS_ALONE)
    said = _text(layout.privacy_statement)
    between = said[len(before) : len(said) - len(rest + after)]
    as_said = said.startswith(before) and said.endswith(rest + after) and (not between or between.startswith(ALL_RUNS))
    texts = {
        layout.privacy_statement.name: as_said,
        layout.privacy_ledger.name: _text(layout.privacy_ledger) == release.ledger_record(release.costs()),
    }
    wrong = [name for name, right in texts.items() if not right]
    recounted = _text(layout.contradictions) == contradictions.to_json()
    return [
        Check.of((NAMES, "", ""), len(named), others),
        Check.of((TEXTS, "", ""), len(texts), wrong),
        Check.of(
            (CONTRADICTIONS, contradictions.leaf, "; ".join(contradictions.sentences())),
            max(1, contradictions.geounits),  # of parts that cannot contradict each other, that the file says so
            () if recounted else [layout.contradictions.name],
        ),
    ]


def _text(place: Place) -> str:
    """A text of the joint run; empty where it is missing or no text."""
    try:
        return str(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
