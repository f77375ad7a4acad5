"""What every scenario of faults must come to, and the table of what was tried."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from published_files import differences
from scenarios import Scenario, draws, half_written, kill_group, kill_one

#: Tasks of a tiny run last less than a second: copies of them must be started soon to be started at all.
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.task.duration.threshold": "5s",
    # Nothing large is sent: these JVMs do not grow old.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    # Two drivers share the cluster when one of them is a ghost.
    "spark.cores.max": "2",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.locality.wait": "0",
}


@dataclass(frozen=True)
class Calm:
    """A run that nothing disturbs.

    Attributes:
        result: What it published.
        stages: Its stages, in order.
        seconds: How long each took.
    """

    result: dict[str, Any]
    stages: list[str]
    seconds: list[float]


#: (kind, stage, what became of it) of every fault of this session.
TABLE: list[tuple[str, str, str]] = []


def calm_of(scenario: Scenario) -> Calm:
    """Carry out the run of a scenario without a fault."""
    scenario.finish()
    return Calm(
        scenario.result(), [name for name, _ in scenario.stages()], [seconds for _, seconds in scenario.stages()]
    )


def table_of_faults() -> str:
    """What was tried in this session, by kind and outcome."""
    counts = Counter((kind, outcome) for kind, _, outcome in TABLE)
    lines = ["| fault | tried | stages | what became of the run |", "|---|---|---|---|"]
    for (kind, outcome), number in counts.items():
        stages = sorted({stage for known, stage, end in TABLE if (known, end) == (kind, outcome)})
        lines.append(f"| {kind} | {number} | {', '.join(stages)} | {outcome} |")
    return "\n".join([f"{len(TABLE)} faults", *lines])


def disturb(scenario: Scenario, calm: Calm, stages: Mapping[str, bool], dice: random.Random, what: str) -> None:
    """Kill the driver in each of these stages, an executor before it where that is asked for; then end the run."""
    missing = set(stages) - set(calm.stages)
    assert not missing, f"no such stages: {missing}"
    for stage, executor in stages.items():
        process, number = scenario.start(), calm.stages.index(stage)
        met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number] / 2)
        if executor:
            kill_one(scenario.cluster, "executor", dice)
            scenario.faults.append((f"executor killed, {what}", met, "went on, byte-equal"))
            # The driver dies as well, in whatever it does a little later.
            met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number])
        kill_group(process)
        scenario.faults.append((f"driver killed, {what}", met, "resumed by the same command, byte-equal"))
    scenario.finish()
    check_end(scenario, calm)
    scenario.cluster.wait_for_workers(2)


def check_end(scenario: Scenario, calm: Calm) -> None:
    """The end of every scenario: the same bytes, no half folder, one draw, one entry in the ledger of the input.

    Under a real key the bytes are those of that run alone.
    """
    if scenario.key:
        assert differences(scenario.result(), calm.result) == []
    check_left_over(scenario)


def check_left_over(scenario: Scenario) -> None:
    """What holds under a real key as well; then the faults of the scenario go into the table."""
    assert half_written(scenario.run) == []
    draws(scenario.run)
    assert len({line.split('"run_id": "')[1][:12] for line in scenario.workshop.ledger()}) <= 1
    TABLE.extend(scenario.faults)
    scenario.faults.clear()
