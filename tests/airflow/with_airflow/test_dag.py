"""The DAG in a real Airflow: it is read without pyspark, has its shape, and knows which failures are final."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FILE = ROOT / "jobs" / "airflow" / "das_spark_dag.py"
LEVELS = ("County", "Tract", "Block_Group", "Block")
TASKS = [
    "check",
    "spine",
    "ingest",
    *[f"{kind}_{level}" for level in LEVELS for kind in ("measure", "estimate")],
    "microdata",
    "tabulate",
    "verify",
    "evaluate",
]


def loaded(monkeypatch: pytest.MonkeyPatch, **environment: str) -> ModuleType:
    """The DAG file, read anew in another environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("das_spark_dag", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> Any:
    return loaded(monkeypatch).das_spark_quickstart


def test_the_file_is_read_where_pyspark_and_das_spark_cannot_be_imported():
    program = f"""
import runpy, sys
blocked = ("pyspark", "das_spark", "pandas", "numpy")
sys.modules.update(dict.fromkeys(blocked))
found = runpy.run_path({str(FILE)!r})
assert [sys.modules[name] for name in blocked] == [None] * 4
assert not [name for name in sys.modules if name.startswith("pyspark.")]
print(*[name for name in found if name.startswith("das_spark_")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["das_spark_quickstart"]


def test_reading_the_file_imports_no_pyspark_where_there_is_one():
    program = f"import runpy, sys; runpy.run_path({str(FILE)!r}); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.usefixtures("database")
def test_airflow_names_a_run_file_that_cannot_be_read_and_has_no_import_error_for_one_that_can(command, tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[run]\nname = "a"\nproduct = "unknown"\n')
    command("dags", "reserialize", DAS_SPARK_RUN_FILES=str(wrong))
    assert "wrong.toml" in command("dags", "list-import-errors", "-o", "json").stdout
    command("dags", "reserialize")
    errors = command("dags", "list-import-errors")
    assert "No data found" in errors.stdout, errors.stdout
    assert "das_spark_quickstart" in command("dags", "list", "-o", "json").stdout


def test_tasks_form_one_chain_in_the_order_of_the_stages(dag):
    assert [task.task_id for task in dag.topological_sort()] == TASKS
    for one, following in pairwise(TASKS):
        assert dag.get_task(one).downstream_task_ids == {following}
    assert dag.get_task(TASKS[-1]).downstream_task_ids == set()


def test_measuring_is_never_retried_and_everything_else_twice(dag):
    retries = {task.task_id: task.retries for task in dag.tasks}
    assert {name for name, number in retries.items() if number == 0} == {f"measure_{level}" for level in LEVELS}
    assert {number for number in retries.values()} == {0, 2}


def test_tasks_that_estimate_go_to_a_queue_of_their_own_where_an_operator_names_it(monkeypatch, dag):
    usual = dag.get_task("check").queue
    assert {task.queue for task in dag.tasks} == {usual}
    parted = loaded(monkeypatch, DAS_SPARK_ESTIMATING_QUEUE="estimating").das_spark_quickstart
    queues = {task.task_id: task.queue for task in parted.tasks}
    estimating = {name for name, queue in queues.items() if queue == "estimating"}
    assert estimating == {*[f"estimate_{level}" for level in LEVELS], "microdata", "tabulate"}
    assert {queues[name] for name in queues.keys() - estimating} == {usual}


def test_one_run_at_a_time_and_none_for_the_past(dag):
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.dagrun_timeout == timedelta(hours=72)
    assert dag.tags == {"das_spark", "disclosure-avoidance", "quickstart"}
    for text in ("retries 0", "SLA", "never\nmeasured again", "quickstart.toml"):
        assert text in dag.doc_md


def test_params_are_checked(dag):
    from airflow.sdk.exceptions import ParamValidationError

    assert set(dag.params) == {"conf", "settings", "output_root", "output_public", "output_restricted", "test_key"}
    assert dag.params["test_key"] is None
    assert dag.params["conf"] == str(ROOT / "conf" / "quickstart.toml")
    dag.params["settings"] = ["budget.epsilon=1/2", 'budget.queries."age18plus * hispanic * race"=1']
    for wrong in (["budget.epsilon"], ["--debug"], "budget.epsilon=1/2"):
        with pytest.raises(ParamValidationError):
            dag.params["settings"] = wrong
    with pytest.raises(ParamValidationError):
        dag.params["test_key"] = 7


def test_a_test_key_says_that_it_is_insecure(dag):
    param = dag.params.get_param("test_key")
    assert "INSECURE" in param.schema["title"]
    assert "protects nobody" in param.description


def test_every_run_file_has_a_dag_of_its_own(monkeypatch):
    files = [ROOT / "conf" / name for name in ("quickstart.toml", "pl94_2020.toml")]
    module = loaded(monkeypatch, DAS_SPARK_RUN_FILES=os.pathsep.join(map(str, files)), DAS_SPARK_SCHEDULE="@monthly")
    joint = module.das_spark_pl94_2020
    names = [task.task_id for task in joint.topological_sort()]
    assert names[:5] == ["check", "spine", "person_ingest", "unit_ingest", "person_measure_US"]
    assert joint.get_task("unit_measure_Block").retries == 0
    assert joint.get_task("unit_estimate_Block").retries == 2
    assert joint.schedule == module.das_spark_quickstart.schedule == "@monthly"


def test_a_spine_of_areas_is_a_stage_of_the_run(monkeypatch, tmp_path):
    path = tmp_path / "areas.toml"
    more = '[geography]\nspine = "optimised"\nreader = "tidy"\npath = "blocks.csv"\n'
    path.write_text((ROOT / "conf" / "pl94_2020_state.toml").read_text() + more)
    module = loaded(monkeypatch, DAS_SPARK_RUN_FILES=str(path))
    task = module.das_spark_pl94_2020_state.get_task("spine")
    assert isinstance(task, module.StageOperator)
    assert task.stage == "spine"


def test_a_deadline_is_set_where_an_operator_asks_for_it(monkeypatch):
    assert loaded(monkeypatch).das_spark_quickstart.deadline in (None, [])
    asked = {"DAS_SPARK_DEADLINE_HOURS": "6", "DAS_SPARK_DEADLINE_CALLBACK": "asyncio.sleep"}
    found = loaded(monkeypatch, **asked).das_spark_quickstart
    (alert,) = found.deadline if isinstance(found.deadline, list) else [found.deadline]
    assert alert.interval == timedelta(hours=6)
    from airflow.serialization.serialized_objects import DagSerialization

    assert "asyncio.sleep" in str(DagSerialization.serialize_dag(found))


def test_the_run_id_follows_from_the_logical_date(monkeypatch):
    run_id_of = loaded(monkeypatch).run_id_of
    moment = datetime(2026, 11, 1, 6, tzinfo=UTC)
    assert run_id_of("quickstart", moment, moment + timedelta(days=1)) == "quickstart-20261101T060000"
    assert run_id_of("quickstart", None, moment.replace(microsecond=7)) == "quickstart-20261101T060000-000007"
    assert re.fullmatch(r"[A-Za-z0-9._-]+", run_id_of("pl94-2020", moment, moment))


SUBMIT = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word" >> "$(dirname "$0")/words"; done
exit $EXIT_CODE
"""


@pytest.fixture
def pretended(tmp_path, monkeypatch) -> Any:
    """The DAG of a checkout whose spark-submit only notes what it was given, and its words."""
    (tmp_path / "conf").mkdir()
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (tmp_path / "conf" / "quickstart.toml").write_text((ROOT / "conf" / "quickstart.toml").read_text())
    submit = binaries / "spark-submit"
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    module = loaded(monkeypatch, DAS_SPARK_HOME=str(tmp_path))
    return module.das_spark_quickstart, binaries / "words"


def context_of(dag: Any, **params: Any) -> dict[str, Any]:
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    run = SimpleNamespace(logical_date=moment, run_after=moment)
    return {"dag_run": run, "params": dag.params.dump() | params}


@pytest.mark.parametrize("code", [1, 130, 137])
def test_a_failure_that_may_pass_is_left_to_the_retries(pretended, monkeypatch, code):
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    monkeypatch.setenv("EXIT_CODE", str(code))
    dag, _ = pretended
    with pytest.raises(AirflowException) as caught:
        dag.get_task("ingest").execute(context_of(dag))
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(("code", "reason"), [(2, "usage or configuration"), (3, "privacy guard")])
def test_a_wrong_usage_and_a_refusal_are_final(pretended, monkeypatch, code, reason):
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("EXIT_CODE", str(code))
    dag, _ = pretended
    with pytest.raises(AirflowFailException, match=reason):
        dag.get_task("ingest").execute(context_of(dag))


def test_params_arrive_as_single_words(pretended, monkeypatch):
    monkeypatch.setenv("EXIT_CODE", "0")
    dag, words = pretended
    given = {"settings": ["run.name=a b; rm x"], "output_root": '/some "where', "test_key": "open"}
    dag.get_task("measure_Block_Group").execute(context_of(dag, **given))
    found = words.read_text().splitlines()
    assert found[found.index("run") :] == [
        "run",
        dag.params["conf"],
        "--set",
        "run.name=a b; rm x",
        "--set",
        'output.root="/some \\"where"',
        "--run-id",
        "quickstart-20261101T000000",
        "--until",
        "measure Block_Group",
        "--resume",
        "--test-key",
        "open",
    ]
    assert found[found.index("--master") + 1] == "local[2,2]"
    assert found[found.index("--properties-file") + 1].endswith("conf/spark/local.conf")


def test_only_the_first_stage_may_begin_a_run(pretended, monkeypatch):
    monkeypatch.setenv("EXIT_CODE", "0")
    dag, words = pretended
    dag.get_task("ingest").execute(context_of(dag))
    assert "--resume" not in words.read_text().splitlines()
    assert [task.task_id for task in dag.tasks if getattr(task, "first", False)] == ["ingest"]


def test_tasks_work_in_the_checkout_without_core_files_whatever_the_worker_does(pretended, monkeypatch, tmp_path):
    monkeypatch.setenv("EXIT_CODE", "0")
    dag, words = pretended
    submit = words.with_name("spark-submit")
    submit.write_text('#!/bin/sh\n{ pwd; ulimit -S -c; umask; } > "$(dirname "$0")/words"\n')
    before = Path.cwd(), os.umask(0)
    try:
        dag.get_task("ingest").execute(context_of(dag))
        assert os.umask(0) == 0
    finally:
        os.umask(before[1])
    assert words.read_text().split() == [str(tmp_path), "0", "0002"]
    assert Path.cwd() == before[0]


def test_properties_of_the_cluster_are_a_shipped_name_or_a_path_of_ones_own(monkeypatch, tmp_path):
    shipped = ROOT / "conf" / "spark"
    for given, expected in (("standalone", shipped / "standalone.conf"), (f"{tmp_path}/my.conf", tmp_path / "my.conf")):
        module = loaded(monkeypatch, DAS_SPARK_ENV=given)
        assert expected == module.PROPERTIES
        assert module.environment()["SPARK_CONF_DIR"] == str(shipped)
        assert Path(module.environment()["SPARK_HOME"]).name == "pyspark"


@pytest.mark.parametrize(
    "given",
    [
        {"DAS_SPARK_RUN_FILES": f"{ROOT}/conf/quickstart.toml:{ROOT}/conf/quickstart.toml"},
        {"DAS_SPARK_DEADLINE_HOURS": "6"},
        {"DAS_SPARK_DEADLINE_CALLBACK": "asyncio.sleep"},
    ],
)
def test_what_would_be_lost_silently_is_an_import_error(monkeypatch, given):
    with pytest.raises(ValueError, match=r"run\.name of its own|both"):
        loaded(monkeypatch, **given)
