import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from das_spark.errors import EnvironmentProblemError, PrivacyGuardError, SessionError
from das_spark.spark.java import usable_java
from das_spark.spark.session import (
    LOCAL_MASTER,
    ONE_TASK,
    adaptive,
    entries_of_one_task,
    fitted,
    properties,
    properties_file,
    require_safe_session,
    session,
    temporary_properties,
)

CONF = Path(__file__).parents[2] / "conf" / "spark"
CONFIGURATIONS = sorted(CONF.glob("*.conf"))


def fake(master="local[2]", **settings):
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    getter = SimpleNamespace(get=lambda key, default=None: conf.get(key, default))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: getter))


ALL = {"spark_io_encryption_enabled": "true", "spark_authenticate": "true", "spark_network_crypto_enabled": "true"}


def test_a_test_key_needs_no_encryption():
    require_safe_session(fake(), insecure=True)


def test_people_whom_nobody_counted_need_no_encryption():
    require_safe_session(fake(), insecure=False, synthetic=True)
    require_safe_session(fake("yarn"), insecure=False, synthetic=True)


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_the_refusal_says_the_lines_to_set(master):
    with pytest.raises(PrivacyGuardError) as caught:
        require_safe_session(fake(master), insecure=False)
    lines = re.findall(r'\.config\("([\w.]+)", "(\w+)"\)', caught.value.hint)
    options = re.findall(r"--conf ([\w.]+)=(\w+)", caught.value.hint)
    assert lines == options
    assert len(lines) == (1 if master == "local[2]" else 3)
    settings = {name.replace(".", "_"): value for name, value in lines}
    require_safe_session(fake(master, **settings), insecure=False)


@pytest.mark.parametrize("value", ["false", "", None])
def test_a_real_key_needs_encrypted_local_files(value):
    settings = {} if value is None else {"spark_io_encryption_enabled": value}
    with pytest.raises(PrivacyGuardError, match=r"spark\.io\.encryption\.enabled") as caught:
        require_safe_session(fake(**settings), insecure=False)
    assert caught.value.exit_code == 3
    require_safe_session(fake(spark_io_encryption_enabled="true"), insecure=False)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize("missing", ["spark_authenticate", "spark_network_crypto_enabled"])
def test_beyond_one_machine_the_network_is_encrypted_too(master, missing):
    require_safe_session(fake(master, **ALL), insecure=False)
    settings = {name: value for name, value in ALL.items() if name != missing}
    with pytest.raises(PrivacyGuardError, match=missing.replace("_", r"\.")):
        require_safe_session(fake(master, **settings), insecure=False)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_an_event_log_lies_where_others_cannot_enter(tmp_path, form):
    settings = ALL | {"spark_eventLog_enabled": "true", "spark_eventLog_dir": form.format(tmp_path)}
    tmp_path.chmod(0o705)
    with pytest.raises(PrivacyGuardError, match="others may enter"):
        require_safe_session(fake(**settings), insecure=False)
    require_safe_session(fake(**settings), insecure=True)
    tmp_path.chmod(0o750)
    require_safe_session(fake(**settings), insecure=False)
    require_safe_session(fake(**settings | {"spark_eventLog_dir": "hdfs://host/logs"}), insecure=False)


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda path: path.name)
def test_every_shipped_configuration_is_safe_under_a_real_key(file):
    pairs = properties(file)
    settings = {name.replace(".", "_"): value for name, value in pairs.items()}
    for master in ("local", "local[2]", "local[*,2]", "spark://host:7077"):
        require_safe_session(fake(master, **settings), insecure=False)
    assert pairs["spark.sql.adaptive.enabled"] == "false"
    assert pairs["spark.eventLog.enabled"] == "false"
    assert all(value for value in pairs.values())


def test_comments_and_spaces_are_no_properties(tmp_path):
    file = tmp_path / "x.conf"
    file.write_text("# a comment\n\n  spark.a    one two \nspark.b 2\n   # spark.c 3\n")
    assert properties(file) == {"spark.a": "one two", "spark.b": "2"}


def test_the_environment_chooses_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("DAS_SPARK_ENV", "standalone")
    assert properties_file().name == "standalone.conf"
    monkeypatch.delenv("DAS_SPARK_ENV")
    assert properties_file().name == "local.conf"
    (tmp_path / "conf" / "spark").mkdir(parents=True)
    (tmp_path / "conf" / "spark" / "local.conf").write_text("spark.a 1\n")
    monkeypatch.chdir(tmp_path)
    assert properties(properties_file()) == {"spark.a": "1"}, "the working folder goes first"
    monkeypatch.setenv("DAS_SPARK_ENV", "nowhere")
    with pytest.raises(EnvironmentProblemError, match=r"nowhere\.conf.*DAS_SPARK_ENV.*local, standalone, test"):
        properties_file()


def test_local_mode_gives_a_task_a_second_attempt():
    assert LOCAL_MASTER.endswith(",2]")


JVM = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "
UNRESPONSIVE = "requirement failed: Can only call getServletHandlers on a running MetricsSystem"


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}), 2, "Java 17"),
        (
            Exception(f"{JVM}org.apache.spark.SparkIllegalArgumentException: [INVALID_CONF_VALUE] x\nat"),
            2,
            "properties",
        ),
        (Exception(f"{JVM}java.lang.IllegalArgumentException: requirement failed: A secret key\nat"), 2, "properties"),
        # All masters are unresponsive: the context stops while it is being started.
        (
            Exception(f"{JVM}java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
            1,
            "cluster",
        ),
        (Exception(f"{JVM}java.lang.IllegalArgumentException: {UNRESPONSIVE}\nat"), 1, "cluster"),
        (Exception(f"{JVM}java.net.BindException: bind(..) failed with error(-99)\nat"), 1, "ports"),
    ],
)
def test_only_what_must_be_mended_first_is_no_reason_to_try_again(monkeypatch, error, code, hint):
    def fail(_):
        raise error

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as under spark-submit
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    with pytest.raises(EnvironmentProblemError, match="Spark could not be started") as caught:
        session("a test")
    assert (caught.value.exit_code, isinstance(caught.value, SessionError)) == (code, code == 1)
    assert hint in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_the_session_of_the_caller_is_used(spark):
    assert session("another name") is spark


SHUFFLE, CODE = "spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage"
ROWS, BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.mark.spark
def test_properties_are_set_for_a_while(spark):
    unknown = "spark.das.unknown"
    with temporary_properties(spark, {SHUFFLE: "17", unknown: "1"}):
        assert spark.conf.get(SHUFFLE) == "17"
        assert spark.conf.get(unknown) == "1"
    assert spark.conf.get(SHUFFLE) == spark.sparkContext.getConf().get(SHUFFLE)
    assert spark.conf.get(unknown, None) is None


@pytest.mark.spark
def test_a_small_run_is_not_divided_and_nothing_of_it_is_compiled(spark):
    before = [spark.conf.get(key) for key in (SHUFFLE, CODE, BYTES)]
    with fitted(spark, entries=10, small=True):
        assert (spark.conf.get(SHUFFLE), spark.conf.get(CODE)) == ("1", "false")
        with adaptive(spark):
            assert spark.conf.get(ADAPTIVE) == "false", "there is nothing to size"
    with fitted(spark, entries=10, small=False):
        assert [spark.conf.get(key) for key in (SHUFFLE, CODE)] == before[:2]
        with adaptive(spark):
            assert spark.conf.get(ADAPTIVE) == "true"
    assert [spark.conf.get(key) for key in (SHUFFLE, CODE, BYTES)] == before


@pytest.mark.spark
def test_what_somebody_has_set_stays(spark):
    with temporary_properties(spark, {SHUFFLE: "13", BYTES: "1m"}), fitted(spark, entries=1, small=True):
        assert spark.conf.get(SHUFFLE) == "13"
        assert spark.conf.get(CODE) == "false"


@pytest.mark.spark
def test_bytes_of_batches_are_counted_only_where_large_rows_may_fill_one(spark):
    rows = int(spark.conf.get(ROWS))
    fill = (64 << 20) // (rows * 16)  # entries of rows that together are 64 MiB
    with fitted(spark, entries=fill, small=False):
        assert spark.conf.get(BYTES) == str(2**31 - 1)
    with fitted(spark, entries=fill + 1, small=False):
        assert spark.conf.get(BYTES) != str(2**31 - 1)
    with temporary_properties(spark, {ROWS: "0"}), fitted(spark, entries=1, small=False):
        assert spark.conf.get(BYTES) != str(2**31 - 1), "rows are without a limit then"


def test_how_large_a_level_of_one_task_is_can_be_said():
    def having(**properties):
        return SimpleNamespace(conf=properties)

    assert entries_of_one_task(having()) == 524_288
    assert entries_of_one_task(having(**{ONE_TASK: "0"})) == 0
    for wrong in ("-1", "1e6", "many", ""):
        with pytest.raises(EnvironmentProblemError, match=rf"{ONE_TASK} is {wrong!r}") as caught:
            entries_of_one_task(having(**{ONE_TASK: wrong}))
        assert "524288" in caught.value.hint


@pytest.mark.parametrize("collector", ["", "-XX:+UseSerialGC", "-XX:+UseG1GC", "-XX:+UseZGC"])
def test_the_jvm_of_one_machine_starts_whatever_collector_the_environment_names(collector):
    java, _ = usable_java()
    options = properties(CONF / "local.conf")["spark.driver.extraJavaOptions"].split()
    command = [java, *options, "-XX:+PrintFlagsFinal", "-version"]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": collector}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"UseParallelGC +=+ true", done.stdout)
    assert re.search(r"Tier4InvocationThreshold +=+ 50000", done.stdout)
