"""What more cores would make of the nation to the block, from the stages of its run on two.

    python tests/benchmarks/plan_nation.py

Prints Markdown. A stage is the seconds of its tasks divided by the cores, but no less than its dearest family, and what
is left of its time on two cores, which the driver, disks and the beginnings and ends of jobs take and more cores do not
shorten. Nothing here is a measurement with more than two cores: a file system that all read, and stragglers, are left
out.
"""

from __future__ import annotations

#: Stage -> (seconds of the whole stage, seconds of all tasks) on two cores: the run of 26 November 2026 in README.md.
MEASURED = {
    "ingest": (353.9, 652.6),
    "measure US to Tract": (9.6, 12.0),
    "estimate US, State, County": (12.5, 17.5),
    "estimate Tract": (146.6, 279.2),
    "measure Block_Group": (16.7, 30.7),
    "estimate Block_Group": (43.5, 82.7),
    "measure Block": (137.6, 267.4),
    "estimate Block": (498.1, 978.6),
    "microdata": (89.3, 173.1),
    "tabulate": (214.6, 309.5),
    "verify": (898.3, 1702.5),
    "evaluate": (62.1, 118.3),
}
#: The dearest family of any real run, in seconds: 102 tracts of Illinois, where a second solver was needed (README.md).
DEAREST = {"estimate US, State, County": 17.1, "estimate Tract": 17.1}
CORES = (2, 10, 100, 1000)


def seconds(stage: str, cores: int) -> float:
    whole, tasks = MEASURED[stage]
    return whole - tasks / 2 + max(tasks / cores, DEAREST.get(stage, 0.0) if cores > 2 else 0.0)


def main() -> None:
    print("| stage |", " | ".join(f"{cores:,} cores, s" for cores in CORES), "|")
    print("|---|" + "---|" * len(CORES))
    for stage in MEASURED:
        print(f"| {stage} |", " | ".join(f"{seconds(stage, cores):,.0f}" for cores in CORES), "|")
    totals = [sum(seconds(stage, cores) for stage in MEASURED) for cores in CORES]
    print("| **all, minutes** |", " | ".join(f"**{total / 60:,.1f}**" for total in totals), "|")


if __name__ == "__main__":
    main()
