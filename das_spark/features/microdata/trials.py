"""What microdata need, tried before anything is charged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import ConfigurationError
from das_spark.io.microdata_digest import FAULT, PERSONS, digest_part, microdata_parts
from das_spark.io.microdata_files import MicrodataWriting
from das_spark.pipeline.rehearsal import CREATED, SyntheticGeounits, synthetic_counts
from das_spark.pipeline.statement import notices_of
from das_spark.products import microdata_codes
from das_spark.store import PublicLayout, Staging

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.config import RunPlan


def rehearse_microdata(plan: RunPlan, format: str, folder: Path) -> None:
    """Write synthetic records in the layout of the product, read them back, and compare."""
    product, units, form = plan.product, plan.invariants.units, plan.output.microdata_files
    made = SyntheticGeounits.of(product, product.census(plan.spine).leaf.length, synthetic_counts(product))
    layout = PublicLayout(folder)
    folder.mkdir()
    notices = notices_of(plan, insecure=False)
    writing = MicrodataWriting(product, layout, [format], Staging(folder / ".staging"), CREATED, notices, form)
    writing.write_one_slice(made.batch(units=units))
    codes, kinds = microdata_codes(product, units=units), product.files(units=units)
    parts = microdata_parts(layout, [format], units=len(kinds) > 1, record=product.kind, form=form)
    rows = [row for part in parts for batch in digest_part(part, codes) for row in batch.to_pylist()]
    faults = [f"{row['rule']}: {row['geocode']}" for row in rows if row["record"] == FAULT]
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["record"] == PERSONS:
            found[row["geocode"], row["codes"]] += row["count"]
    expected: Counter[tuple[str, str]] = Counter()
    for geocode, counts, of_units in zip(made.geocodes, made.counts, made.units, strict=True):
        cells, people = np.flatnonzero(counts), counts[counts > 0]
        if units:
            listed = of_units[list(codes.listed)]
            cells = np.append(cells, product.schema.size + np.flatnonzero(listed))
            people = np.append(people, listed[listed > 0])
        for text, number in zip(codes.codes_of(cells), people.tolist(), strict=True):
            expected[codes.place_of(geocode), text] += number
    if found != expected:
        faults.append("the codes that are read back are not those of the records")
    if faults:
        raise ConfigurationError(f"synthetic records do not come back as they were written: {'; '.join(faults)}")
