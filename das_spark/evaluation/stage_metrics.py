"""What a stage of a run cost Spark, as plain figures that add up over drivers. RESTRICTED: they tell of the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

#: Of these the largest counts where figures are put together; all others are sums.
_LARGEST: Final = ("execution_memory_bytes", "heap_bytes", "python_bytes", "slowest_task_seconds")


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """The cost of the Spark jobs of one stage.

    Attributes:
        jobs: Spark jobs.
        spark_stages: Stages of those jobs that ran, each attempt counted.
        tasks: Tasks that ended well.
        failed_tasks: Tasks that failed; each was tried again, or the stage failed.
        killed_tasks: Tasks that were stopped, such as the slower one of two copies.
        speculative_tasks: Second copies of slow tasks.
        run_seconds: Time of all tasks together.
        cpu_seconds: CPU time of the JVM in them; Python workers are not in it.
        gc_seconds: Time of garbage collection in the JVM.
        shuffle_read_bytes: Read from other tasks.
        shuffle_write_bytes: Written for other tasks.
        memory_spilled_bytes: What did not fit, as it was in memory.
        disk_spilled_bytes: The same as it was on the disk.
        execution_memory_bytes: Peaks of sorts, joins and aggregates, summed over tasks; of the largest Spark stage.
        heap_bytes: Largest heap of an executor that a heartbeat saw (every 10 seconds); 0 where none did.
        python_bytes: The same of Python workers, where spark.executor.processTreeMetrics.enabled is on.
        input_bytes: Read from files.
        output_bytes: Written to files by Spark itself; tables that tasks write from Python are not counted.
        slowest_task_seconds: Time of the task that took longest.
        lost_stages: Spark stages that Spark had forgotten when it was asked; the sums lack them.
    """

    jobs: int = 0
    spark_stages: int = 0
    tasks: int = 0
    failed_tasks: int = 0
    killed_tasks: int = 0
    speculative_tasks: int = 0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gc_seconds: float = 0.0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    memory_spilled_bytes: int = 0
    disk_spilled_bytes: int = 0
    execution_memory_bytes: int = 0
    heap_bytes: int = 0
    python_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    slowest_task_seconds: float = 0.0
    lost_stages: int = 0

    def plus(self, other: StageMetrics) -> StageMetrics:
        """What two drivers spent on one stage.

        Args:
            other: The figures of the other.
        """
        mine, theirs = asdict(self), asdict(other)
        return replace(
            self,
            **{
                name: max(value, theirs[name]) if name in _LARGEST else round(value + theirs[name], 3)
                for name, value in mine.items()
            },
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> StageMetrics:
        """Read the figures of a log or manifest; figures of later versions are left out.

        Args:
            record: Name -> figure.
        """
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in known})
