"""From what runs release to the statistics that an attacker looks at.

The attacker knows both inputs but not which one was used: it looks where they differ, and learns the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.audit import Statistic, learned, log_ratio
from das_spark.pipeline.audit.population import geocode_at
from das_spark.spark.families import flat_lists

if TYPE_CHECKING:
    import pyarrow as pa

    from das_spark.config import RunPlan
    from das_spark.pipeline.audit.inputs import NeighbouringInputs, WatchedAnswer
    from das_spark.pipeline.audit.system import Release

Floats = NDArray[np.float64]
#: Name and kind of a statistic -> its value in a run; not a number where the run does not release it.
Seen = Mapping[tuple[str, str], float]

_MISSING: Final = float("nan")


def seen_in(plan: RunPlan, pair: NeighbouringInputs, release: Release) -> Seen:
    """Everything of a release in which the inputs of a pair may show.

    Args:
        plan: The run.
        pair: The inputs.
        release: What a run on one of them made public.
    """
    found: dict[tuple[str, str], float] = {("families without an estimate", "kept"): float(len(release.failed))}
    for level in plan.spine.names:
        batches = [
            batch for (geolevel, _), every in release.measurements.items() if geolevel == level for batch in every
        ]
        kept = sum(len(batch.column("values").flatten()) for batch in batches)
        found[f"noisy answers of {level}", "kept"] = float(kept)
    for one in pair.answers:
        values = list(_values(one, release.measurements.get((one.geolevel, one.query), ())))
        # An answer that is released twice is as good as the mean of both.
        found[one.text, "answer"] = sum(values) / len(values) if values else _MISSING
        found[f"times released: {one.text}", "kept"] = float(len(values))
    return found | dict(_estimates(plan, pair, release))


def statistics_of(
    pair: NeighbouringInputs, first: Sequence[Seen], second: Sequence[Seen], kinds: Collection[str]
) -> tuple[Statistic, ...]:
    """The statistics of all runs, with what is made of several of them.

    Args:
        pair: The inputs.
        first: What was seen in every run on the first input.
        second: On the second one.
        kinds: Kinds of statistics that are wanted, keys of `KINDS`.
    """
    seen = [
        Statistic(name, kind, *(np.array([run[name, kind] for run in runs]) for runs in (first, second)))
        for name, kind in first[0]
    ]
    return composed(pair, seen, kinds)


def composed(pair: NeighbouringInputs, seen: Sequence[Statistic], kinds: Collection[str]) -> tuple[Statistic, ...]:
    """Statistics, and those that are made of several of them.

    Args:
        pair: The inputs.
        seen: One statistic for every watched answer of the pair, by its text, and others.
        kinds: Kinds of statistics that are wanted.
    """
    by_name = {each.name: each for each in seen}
    every = [*seen, *_sums(pair.answers, [by_name[one.text] for one in pair.answers])]
    groups = {
        "noisy answers": [each for each in every if each.kind == "answer"],
        "estimates": [each for each in every if each.kind == "estimate"],
        "everything": every,
    }
    every += [learned(f"learned combination of {name}", group) for name, group in groups.items() if group]
    return tuple(each for each in every if each.kind in kinds)


def _values(one: WatchedAnswer, batches: Sequence[pa.RecordBatch]) -> Iterator[int]:
    """Noisy values of an answer in rows of `tables.MEASUREMENTS`: one, none, or more where something is wrong."""
    for batch in batches:
        for place, geocode in enumerate(batch.column("geocode").to_pylist()):
            if geocode == one.geocode:
                values, _ = flat_lists(batch.column("values").slice(place, 1), np.int64)
                rows = batch.column("rows").slice(place, 1)
                if rows.null_count:
                    yield int(values[one.row])
                else:
                    yield from values[flat_lists(rows, np.int32)[0] == one.row].tolist()


def _estimates(plan: RunPlan, pair: NeighbouringInputs, release: Release) -> Iterator[tuple[tuple[str, str], float]]:
    """Estimated counts on the record's paths: its two cells, what the measured queries make of them, and totals."""
    for depth, level in enumerate(plan.spine.names):
        queries = {item.query: plan.queries[item.query] for item in plan.budget.level(level).queries}
        for code in dict.fromkeys(geocode_at(leaf, plan.spine, depth) for leaf in pair.leaves):
            cells, counts = release.estimates.get(level, {}).get(code, (None, None))
            asked = {f"cell {cell}": (cells == cell if cells is not None else None) for cell in pair.cells}
            for name, query in queries.items():
                own = None if cells is None else query.row_of(cells)
                rows = dict.fromkeys(query.row_of(np.array(pair.cells)).tolist())
                asked |= {f"{name}[{row}]": (None if own is None else own == row) for row in rows}
            for name, chosen in asked.items():
                value = _MISSING if chosen is None or counts is None else float(counts[chosen].sum())
                yield (f"estimated {name} of {level} {code}", "estimate"), value
            whole = _MISSING if counts is None else float(counts.sum())
            yield (f"estimated total of {level} {code}", "estimate"), whole


def _sums(watched: Sequence[WatchedAnswer], answers: Sequence[Statistic]) -> list[Statistic]:
    """Likelihood ratios under the declared laws, of all answers and of each level, and standardised differences."""
    levels = list(dict.fromkeys(one.geolevel for one in watched))
    sides = [[each.first for each in answers], [each.second for each in answers]]
    ratios, distances = [], []
    for side in sides:
        pairs = list(zip(watched, side, strict=True))
        ratios.append(np.stack([log_ratio(one.law, values, one.first, one.second) for one, values in pairs]))
        distances.append(np.stack([_standardised(one, values) for one, values in pairs]))
    found = [
        Statistic("log-likelihood ratio of all answers", "sum", *(side.sum(axis=0) for side in ratios)),
        Statistic("standardised differences of all answers", "sum", *(side.sum(axis=0) for side in distances)),
    ]
    for level in levels:
        own = np.array([one.geolevel == level for one in watched])
        found.append(Statistic(f"log-likelihood ratio of {level}", "sum", *(side[own].sum(axis=0) for side in ratios)))
    return found


def _standardised(one: WatchedAnswer, values: Floats) -> Floats:
    """Distance from the middle of the two exact answers, positive towards the first, in standard deviations."""
    middle = (one.first + one.second) / 2
    distance: Floats = (one.first - one.second) * (values - middle) / np.sqrt(one.law.variance())
    return np.where(np.isnan(distance), 0.0, distance)
