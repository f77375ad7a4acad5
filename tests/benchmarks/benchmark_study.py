"""The study of 1940 done again: the main published figures beside those of a finished sweep, as Markdown.

    .venv/bin/das-spark simulate --like 1940 --out population-1940
    .venv/bin/das-spark sweep conf/e2e_1940_simulated.toml --set input.path=population-1940 \
        --epsilon 1/4,1/2,3/4,1,2,4,6,8 --runs 4 --out sweep-1940
    .venv/bin/python tests/benchmarks/benchmark_study.py sweep-1940

Every other figure: das-spark experiment replication sweep-1940 --out replication.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

from das_spark.evaluation.accuracy import TOTAL
from das_spark.report import ReportColumn, shown
from das_spark.studies.published_1940 import PRIVACY_LOSS, STRATA, FigureKey, bias_at, nearest_share, protected, sampled
from das_spark.studies.replication import FigureComparison, replicate, verdict_table

STATISTICS = ("median_absolute", "p95_absolute", "rmse", PRIVACY_LOSS)
LINES = (("County", TOTAL), ("Enumdist", TOTAL), ("State", STRATA), ("County", STRATA), ("Enumdist", STRATA))
NUMBER = ReportColumn("number")
INDICES = (0, 4, 8, 12, 16, 18, 20, 22)


def cell(found: dict[FigureKey, FigureComparison], keys: list[FigureKey]) -> str:
    """Ours [published], for some figures; empty where nothing is ours."""
    rows = [found[key] for key in keys if key in found]
    if not any(row.ours for row in rows):
        return ""
    ours = ", ".join(shown(row.ours.value if row.ours else None, NUMBER) for row in rows)
    return f"{ours} [{', '.join(shown(row.published, NUMBER) for row in rows)}]"


def print_table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    kept = [row for row in rows if any(row[1:])]
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in kept:
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path, help="folder of a finished sweep of e2e_1940")
    comparisons = replicate(parser.parse_args().sweep).comparisons
    found = {comparison.key: comparison for comparison in comparisons}
    epsilons = sorted({key.setting for key in found if key.source == "protected"})
    head = ("epsilon", *(f"{place}, {'totals' if measure == TOTAL else 'strata'}" for place, measure in LINES))
    print_table(
        "Median, 95th percentile and RMSE of absolute residuals, empirical privacy loss: ours [published]",
        head,
        [
            (
                str(epsilon),
                *(cell(found, [protected(epsilon, *line, statistic) for statistic in STATISTICS]) for line in LINES),
            )
            for epsilon in epsilons
        ],
    )
    print_table(
        "Bias of totals of districts by homogeneity index: ours [published]",
        ("epsilon", *map(str, INDICES)),
        [
            (str(epsilon), *(cell(found, [bias_at(epsilon, "Enumdist", index)]) for index in INDICES))
            for epsilon in epsilons
        ],
    )
    shares = [Fraction(each, 20) for each in (1, 10, 19)]
    print_table(
        "Simple random samples: ours [published]",
        ("share", *head[1:]),
        [
            (
                f"{float(share):.0%}",
                *(cell(found, [sampled(share, *line, name) for name in STATISTICS]) for line in LINES),
            )
            for share in shares
        ],
    )
    print_table(
        "Closest sample (strata of counties, by loss): ours [published]",
        ("epsilon", "share"),
        [(str(epsilon), cell(found, [nearest_share(epsilon)])) for epsilon in epsilons],
    )
    table = verdict_table(comparisons)
    names = tuple(column.name for column in table.columns)
    print_table(table.title, names, [tuple(shown(value, NUMBER) for value in row) for row in table.rows])


if __name__ == "__main__":
    main()
