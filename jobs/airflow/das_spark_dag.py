"""One Airflow DAG for each run file: every stage of the run is a task that resumes the run and stops after its stage.

jobs/airflow/README.md says how it is set up, what the environment variables below mean, and what was tried.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, AsyncCallback, BaseOperator, DeadlineAlert, DeadlineReference, Param, chain
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# The file may be linked into a folder of DAGs: what it needs lies beside the real one.
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from run_file import RunFile, read_run_file, task_id  # noqa: E402 - found through the line above

HOME = Path(os.environ.get("DAS_SPARK_HOME") or HERE.parents[1])
ENVIRONMENT = HOME / ".venv" / "bin"
COMMAND = HOME / "jobs" / "run.py"
#: As in spark-submit.sh: the name of a file of conf/spark, or the path of one of your own, which holds the secret.
_PROPERTIES = os.environ.get("DAS_SPARK_ENV") or "local"
PROPERTIES = Path(_PROPERTIES) if "/" in _PROPERTIES else HOME / "conf" / "spark" / f"{_PROPERTIES}.conf"
ARCHIVE = os.environ.get("DAS_SPARK_ARCHIVE")
RUN_FILES = (os.environ.get("DAS_SPARK_RUN_FILES") or str(HOME / "conf" / "quickstart.toml")).split(os.pathsep)
#: Queue of the tasks that estimate: their workers have a role that reaches nothing confidential.
QUEUE = os.environ.get("DAS_SPARK_ESTIMATING_QUEUE")
#: Words by which stages begin that read what is confidential, or write the ledger.
MEASURING = {"spine", "ingest", "published", "measure", "verify", "evaluate"}
TIMEOUT = timedelta(hours=float(os.environ.get("DAS_SPARK_TIMEOUT_HOURS") or 72))
DEADLINE = os.environ.get("DAS_SPARK_DEADLINE_HOURS")
CALLBACK = os.environ.get("DAS_SPARK_DEADLINE_CALLBACK")

#: Exit codes that the same task would end with again: usage or configuration, and a refusal by a privacy guard.
FINAL = {2: "usage or configuration", 3: "refused by a privacy guard"}

PARAMS = {
    "conf": Param(type="string", title="Run file", description="Must have the stages of this DAG."),
    "settings": Param(
        [],
        type="array",
        items={"type": "string", "pattern": "^[A-Za-z0-9_][^=\\n]*=.+$"},
        title="Settings",
        description='Changes to the run file, one KEY=VALUE a line, such as budget.epsilon="1/2"; they bind the run.',
    ),
    "output_root": Param(None, type=["null", "string"], title="Folder of the runs", description="output.root"),
    "output_public": Param(None, type=["null", "string"], title="Root of what is public", description="output.public"),
    "output_restricted": Param(
        None, type=["null", "string"], title="Root of what is confidential", description="output.restricted"
    ),
    "test_key": Param(
        None,
        type=["null", "string"],
        title="INSECURE: test key",
        description="Noise from a text that everybody can read here: the run protects nobody and says so everywhere. "
        "For tests only; empty for every real run.",
    ),
}


def run_id_of(name: str, logical_date: datetime | None, run_after: datetime) -> str:
    """The id of the run that all tasks of a DAG run work on, and work on again after they were cleared.

    Args:
        name: Name of the run file.
        logical_date: Of the DAG run; None where it was triggered without one.
        run_after: When the DAG run was to begin.
    """
    moment = (logical_date or run_after).astimezone(UTC)
    return f"{name}-{moment:%Y%m%dT%H%M%S}" + (f"-{moment:%f}" if moment.microsecond else "")


def setting_arguments(params: Mapping[str, Any]) -> list[str]:
    """Arguments of das-spark that say what a run is: the run file and its settings.

    Args:
        params: Of the DAG run.
    """
    roots = [
        # TOML reads texts of JSON as its own.
        f"output.{name}={json.dumps(params[f'output_{name}'])}"
        for name in ("root", "public", "restricted")
        if params[f"output_{name}"]
    ]
    return [str(params["conf"]), *(word for each in [*params["settings"], *roots] for word in ("--set", each))]


def require_worth_a_retry(exit_code: int | None) -> None:
    """Fail a task for good where another attempt would end alike.

    Args:
        exit_code: Of das-spark; None where it is not known.

    Raises:
        AirflowFailException: It is one of `FINAL`.
    """
    if exit_code in FINAL:
        raise AirflowFailException(f"das-spark ended with {exit_code} ({FINAL[exit_code]}): it is not tried again")


def environment() -> dict[str, str]:
    """What spark-submit needs besides the environment of the worker."""
    python = str(ENVIRONMENT / "python")
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if PROPERTIES.stem == "local" else {}
    # No Spark that the worker has for other purposes gets in between. (A dag processor may have none: it starts none.)
    found = sorted((ENVIRONMENT.parent / "lib").glob("python3*/site-packages/pyspark"))
    own = {"SPARK_HOME": str(found[0])} if found else {}
    return (
        local
        | own
        | {
            # log4j2.properties is read from there.
            "SPARK_CONF_DIR": str(HOME / "conf" / "spark"),
            "PYTHONSAFEPATH": "1",  # no module of the working folder
            "PYSPARK_DRIVER_PYTHON": python,
            "PYSPARK_PYTHON": "./environment/bin/python" if ARCHIVE else python,
        }
    )


@contextmanager
def at_home() -> Iterator[None]:
    """The folder, the limit and the mask of every process that a task starts.

    Relative paths are those of the checkout, wherever the worker was started: a run that is looked for elsewhere
    would be begun there anew. No core file of what holds key and counts; no file that anybody may write.
    """
    limits, mask = resource.getrlimit(resource.RLIMIT_CORE), os.umask(0o077)
    os.umask(mask | 0o002)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))
    try:
        with chdir(HOME):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
        os.umask(mask)


class StageOperator(SparkSubmitOperator):
    """Go on with the run of this DAG run by spark-submit, and stop after one stage.

    Args:
        run_name: Name of the run file.
        stage: Name of the stage.
        first: Whether the run begins with it; where it does not, a run that is not there is not begun anew.
    """

    def __init__(self, *, run_name: str, stage: str, first: bool, **kwargs: Any) -> None:  # noqa: ANN401, D107 - Args stand above
        super().__init__(
            application=str(COMMAND),
            name=f"das_spark {run_name}: {stage}",
            spark_binary=str(ENVIRONMENT / "spark-submit"),
            properties_file=str(PROPERTIES),
            env_vars=environment(),
            archives=f"{ARCHIVE}#environment" if ARCHIVE else None,
            conf={"spark.pyspark.driver.python": str(ENVIRONMENT / "python")} if ARCHIVE else None,
            **kwargs,
        )
        self.run_name = run_name
        self.stage = stage
        self.first = first

    def execute(self, context: Mapping[str, Any]) -> None:
        """Submit, and tell failures that are worth a retry from those that are not."""
        run, params = context["dag_run"], context["params"]
        run_id = run_id_of(self.run_name, run.logical_date, run.run_after)
        self.application_args = ["run", *setting_arguments(params), "--run-id", run_id, "--until", self.stage]
        if not self.first:
            self.application_args += ["--resume"]
        if params["test_key"]:
            self.application_args += ["--test-key", params["test_key"]]
        try:
            with at_home():
                super().execute(context)
        except AirflowException as error:
            # The hook tells the exit code of spark-submit, in client mode that of the driver, in its message only.
            found = re.search(r"Error code is: (\d+)", str(error))
            require_worth_a_retry(int(found.group(1)) if found else None)
            raise


class CommandOperator(BaseOperator):
    """Run das-spark without Spark: what can be known before anything is read or spent.

    Args:
        commands: Names of commands that take a run file and settings.
        stages: What `das-spark plan stages` must say; None to ask nothing.
    """

    def __init__(  # noqa: D107 - Args stand above
        self,
        *,
        commands: Sequence[str],
        stages: Sequence[str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - those of Airflow
    ) -> None:
        super().__init__(**kwargs)
        self.commands = list(commands)
        self.stages = list(stages) if stages is not None else None

    def execute(self, context: Mapping[str, Any]) -> None:
        """Run the commands, and compare the stages of the run file, as it is now, with those of the DAG."""
        params = context["params"]
        arguments = setting_arguments(params)
        # Files need the name of their people where a real key is used on them.
        key = ["--test-key", params["test_key"]] if params["test_key"] else []
        for command in self.commands:
            self.log.info("%s", self._output([command, *arguments, *key]))
        if self.stages is not None:
            found = self._output(["plan", "stages", *arguments]).splitlines()
            if found != self.stages:
                raise AirflowFailException(
                    f"the run has the stages {', '.join(found)}, and this DAG those of its run file as Airflow read "
                    f"it: {', '.join(self.stages)}. Change the run file instead of the params; Airflow reads it again"
                )

    def _output(self, arguments: list[str]) -> str:
        command = [str(ENVIRONMENT / "python"), str(COMMAND), *arguments]
        with at_home():
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell; params are single arguments
        if done.stderr:
            self.log.warning("%s", done.stderr)
        if done.returncode:
            self.log.error("%s", done.stdout)
            require_worth_a_retry(done.returncode)
            raise AirflowException(f"das-spark {arguments[0]} ended with {done.returncode}")
        return done.stdout


def documentation(run: RunFile) -> str:
    """What the page of the DAG says."""
    return f"""### das_spark: {run.name}

Protected microdata and tables of `{run.path.name}`, one task a stage. All tasks of a DAG run work on **one run**, whose
id is made of the logical date: a task that is cleared or tried again resumes it, and a level that was measured is never
measured again.

- `measure_*` is **not retried** (retries 0): look why it failed, then clear it. The privacy budget is charged once,
  before the first measurement, and clearing charges nothing.
- Other tasks are tried three times, unless das-spark ends with 2 (usage or configuration) or 3 (a privacy guard).
- Do not mark a failed task as success: the next task would carry out its stage.
- **SLA**: Airflow 3 has none. The DAG run fails after {TIMEOUT.total_seconds() / 3600:g} h
  (`DAS_SPARK_TIMEOUT_HOURS`), and resumes when it is cleared; a deadline alert is set by `DAS_SPARK_DEADLINE_HOURS` and
  `DAS_SPARK_DEADLINE_CALLBACK`.
- Logs hold no confidential value; run times and row counts are restricted.

jobs/airflow/README.md in the checkout has the rest."""


def deadline() -> DeadlineAlert | None:
    """Calls somebody when a DAG run is not done some hours after it was queued; None where nobody asked for it.

    Raises:
        ValueError: One of its two variables is set without the other.
    """
    if not DEADLINE and not CALLBACK:
        return None
    if not DEADLINE or not CALLBACK:
        raise ValueError("set both DAS_SPARK_DEADLINE_HOURS and DAS_SPARK_DEADLINE_CALLBACK, or neither: no alert so")
    late = timedelta(hours=float(DEADLINE))
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, late, AsyncCallback(CALLBACK))


def make_dag(path: Path) -> DAG:
    """The DAG of a run file.

    Args:
        path: The run file.
    """
    run = read_run_file(path)
    connection = os.environ.get("DAS_SPARK_CONNECTION") or "spark_default"
    dag = DAG(
        dag_id=f"das_spark_{task_id(run.name)}",
        description=f"Disclosure avoidance: {path.name}",
        doc_md=documentation(run),
        schedule=os.environ.get("DAS_SPARK_SCHEDULE") or None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=TIMEOUT,
        deadline=deadline(),
        tags=["das_spark", "disclosure-avoidance", run.name],
        params={**PARAMS, "conf": Param(str(path), **PARAMS["conf"].schema)},
        default_args={"retries": 2, "retry_delay": timedelta(minutes=2), "owner": "das_spark"},
    )
    with dag:
        tasks: list[BaseOperator] = [CommandOperator(task_id="check", commands=["check"], stages=run.stages)]
        if not any(stage.endswith("spine") for stage in run.stages):
            # Geocodes of the census are their own spine; there is nothing to build, only to show.
            tasks.append(CommandOperator(task_id="spine", commands=["plan"]))
        for stage in run.stages:
            retries = {"retries": 0} if "measure " in stage else {}
            # In a joint run the name of a stage begins with what its part counts.
            queue = {"queue": QUEUE} if QUEUE and not MEASURING & set(stage.split()[:2]) else {}
            about = {"run_name": run.name, "stage": stage, "first": stage == run.stages[0]}
            tasks.append(StageOperator(task_id=task_id(stage), conn_id=connection, **about, **retries, **queue))
        chain(*tasks)
    return dag


_dags = [make_dag(Path(path).resolve()) for path in RUN_FILES]
for _name, _number in Counter(dag.dag_id for dag in _dags).items():
    if _number > 1:
        raise ValueError(
            f"DAS_SPARK_RUN_FILES: {_number} of its run files are {_name}; give each a run.name of its own"
        )
globals().update({dag.dag_id: dag for dag in _dags})
