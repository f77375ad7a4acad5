"""A plan for the nation of 2020 on 10, 100 and 1,000 cores, from the measured costs of families and of Spark.

    python tests/benchmarks/plan_nation.py

Prints Markdown: how well the model of the families fits what was measured, families and CPU by level, and minutes by
number of cores. The model is CPU seconds = a + b x children x cells of the parent that hold anybody; a and b are fitted
to the table "Whole estimates with the passes of their level" of README.md, relative errors counting alike. Nothing here
is a measurement of the nation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: (children, cells, median CPU milliseconds) of whole estimates with the passes of their level: README.md.
MEASURED = [
    (30, 112, 12.0),
    (3, 180, 11.0),
    (50, 477, 104.0),
    (5, 599, 38.0),
    (250, 747, 588.0),
    (1332, 800, 4000.0),
    (2000, 666, 3633.0),
]

#: The dearest family of any real run so far: 102 tracts of Illinois, a second solver was needed (README.md).
WORST_MEASURED = 17.059

PERSONS = 331_449_281
#: Core seconds a geounit that Spark needs beside the families: the dearer of two measured sessions.
SPARK_SECONDS = 25.8e-6
#: Wall time a block on two cores, all of Spark included (invented state of 60,196 blocks, README.md), as core seconds.
MEASURE_SECONDS = 2 * 97e-6
#: The same of estimation: a second figure for the largest level, found in another way. The dearer of the two counts.
ESTIMATE_SECONDS = 2 * 421e-6
#: Stages whose work follows the persons: whole of 1940, seconds on two cores for 132,431,306 persons.
BY_PERSON = {"ingest": 30.2, "microdata": 12.2, "verify": 17.4}
PERSONS_1940 = 132_431_306
#: Fixed seconds of a level (plans, jobs, writing, renames) and of a run (start of Spark, manifests), as in tiny runs.
LEVEL_FIXED, RUN_FIXED = 2.0, 40.0
CORES = (10, 100, 1000)
#: Bytes of a noisy answer in a shuffle. A child has three answers for each cell of its parent's support, at most.
ANSWER_BYTES, ANSWERS = 8, 3


@dataclass(frozen=True)
class Level:
    """Families whose children are of one level.

    Attributes:
        name: The level of the children.
        families: How many.
        children: Geounits of the level.
        cells: Typical cells of a parent that hold anybody.
        largest: Children and cells of the largest family.
    """

    name: str
    families: int
    children: int
    cells: int
    largest: tuple[int, int]


#: Numbers of geounits: the Bureau's tallies of 2020, fifty states and the District of Columbia. Cells: measured shapes
#: above; the nation and its states may hold people in nearly all of 2,016 cells.
LEVELS = [
    Level("State", 1, 51, 2016, (51, 2016)),
    Level("County", 51, 3_143, 1200, (254, 1500)),
    Level("Tract", 3_143, 84_414, 477, (2_498, 1000)),
    Level("Block_Group", 84_414, 239_780, 180, (10, 400)),
    Level("Block", 239_780, 8_132_968, 112, (400, 250)),
]


def model() -> tuple[float, float]:
    """Seconds a family, and seconds a child and cell: least squares of relative errors, neither negative."""
    shapes = np.array([(1.0, children * cells) for children, cells, _ in MEASURED])
    seconds = np.array([milliseconds / 1000 for *_, milliseconds in MEASURED])
    fixed, growing = np.linalg.lstsq(shapes / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
    assert fixed > 0
    assert growing > 0
    return float(fixed), float(growing)


def cpu_seconds(level: Level, fixed: float, growing: float) -> float:
    """CPU of all families of a level, and of Spark around them."""
    by_model = level.families * fixed + level.children * (level.cells * growing + SPARK_SECONDS)
    return max(by_model, level.children * ESTIMATE_SECONDS) if level.name == "Block" else by_model


def largest_seconds(level: Level, fixed: float, growing: float) -> float:
    """CPU of its largest family: no number of cores makes the level faster than that."""
    children, cells = level.largest
    return fixed + growing * children * cells


def wall_seconds(cores: int, fixed: float, growing: float) -> dict[str, float]:
    """Seconds of a run by stage: work divided by cores, never less than the largest family, and fixed costs."""
    found = {}
    for level in LEVELS:
        found[f"measure {level.name}"] = level.children * MEASURE_SECONDS / cores + LEVEL_FIXED
        work, bound = cpu_seconds(level, fixed, growing) / cores, largest_seconds(level, fixed, growing)
        # The largest families are begun first, so that the last of them ends at most one family after the others.
        found[f"estimate {level.name}"] = max(work, bound) + LEVEL_FIXED
    for name, seconds in BY_PERSON.items():
        found[name] = 2 * seconds * PERSONS / PERSONS_1940 / cores + LEVEL_FIXED
    return found | {"start and end": RUN_FIXED}


def main() -> None:
    fixed, growing = model()
    print(f"A family: {1e3 * fixed:.1f} ms + {1e6 * growing:.2f} microseconds x children x cells\n")
    print("| children x cells | measured, ms | model, ms |\n|---|---|---|")
    for children, cells, milliseconds in MEASURED:
        print(f"| {children:,} x {cells} | {milliseconds:,.0f} | {1e3 * (fixed + growing * children * cells):,.0f} |")
    print("\n| children | families | geounits | core seconds | largest family, s | shuffled, GB at most |")
    print("|---|---|---|---|---|---|")
    total = 0.0
    for level in LEVELS:
        seconds = cpu_seconds(level, fixed, growing)
        total += seconds
        shuffled = level.children * ANSWERS * level.cells * ANSWER_BYTES / 1e9
        largest = largest_seconds(level, fixed, growing)
        geounits = f"{level.families:,} | {level.children:,}"
        print(f"| {level.name} | {geounits} | {seconds:,.0f} | {largest:,.1f} | {shuffled:,.1f} |")
    print(f"\nAll families: {total / 3600:.1f} core hours. Dearest family measured anywhere: {WORST_MEASURED:.0f} s.\n")
    print("| cores | all, minutes | efficiency against 10 | stage that limits, and its share |\n|---|---|---|---|")
    first = sum(wall_seconds(CORES[0], fixed, growing).values()) * CORES[0]
    for cores in CORES:
        stages = wall_seconds(cores, fixed, growing)
        whole = sum(stages.values())
        limit = max(stages, key=lambda name: stages[name])
        print(
            f"| {cores:,} | {whole / 60:.1f} | {first / (whole * cores):.0%} | {limit}, {stages[limit] / whole:.0%} |"
        )


if __name__ == "__main__":
    main()
