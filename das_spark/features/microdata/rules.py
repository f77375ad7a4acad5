"""Whether microdata hold the estimates and invariants of leaves: a job reduces the records, which rules then judge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from das_spark.io.microdata_digest import microdata_parts
from das_spark.pipeline.features import Judged
from das_spark.places import place_of, seen_from
from das_spark.products import microdata_codes
from das_spark.spark.microdata import write_digest
from das_spark.spark.own_codes import under_parts
from das_spark.spark.verify_microdata import (
    MicrodataTables,
    microdata_families,
    microdata_rules,
    part_checks,
    unreadable,
)

if TYPE_CHECKING:
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified


def rules_of(run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
    """Reduce the microdata of a run.

    Args:
        run: The run that is verified.
        by_spine: Its estimates under the geocodes of the spine.
        by_census: Its estimates as they are published.
    """
    plan, layout = run.plan, run.layout
    product, formats = plan.product, tuple(plan.output.microdata)
    codes = microdata_codes(product, units=plan.invariants.units)
    assigned = len(product.files(units=plan.invariants.units)) > 1  # records of people to records of units
    parts = microdata_parts(layout, formats, units=assigned, record=product.kind, form=plan.output.microdata_files)
    digest = write_digest(run.spark, parts, codes, run.scratch)
    units = digest.units if assigned else None
    reduced = MicrodataTables(
        digest.persons, units, digest.parts, digest.faults, formats, digest.weights, run.told_apart()
    )
    kinds, root = product.files(units=plan.invariants.units), layout.path.absolute()
    leaf = run.spine.leaf.name
    if by_census is by_spine:  # the geocodes of the files are those of the spine
        families, rows = microdata_families(reduced, leaf, run.spine, by_spine)
        rules = [unreadable(reduced, leaf)]
    else:
        families, rows = [], []
        rules = microdata_rules(reduced, under_parts(by_spine, codes.spans) if codes.spans else by_census)
    return Judged(
        rules,
        families,
        rows,
        checks=part_checks(reduced),
        files=tuple(replace(file, name=seen_from(root, place_of(file.name))) for file in digest.files),
        counted={f"microdata/{kind}.{format}": digest.records(kind, format) for format in formats for kind in kinds},
    )
