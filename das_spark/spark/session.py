"""The Spark session of a run: found or started, described, and checked against the guards of privacy."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from das_spark.config import FOLDER
from das_spark.errors import EnvironmentProblemError, PrivacyGuardError, SessionError
from das_spark.process import closed_umask, forbid_core_files
from das_spark.spark.engine import in_tasks
from das_spark.spark.java import java_variables
from das_spark.spark.known_classes import keep_classes

#: Chooses conf/spark/<its value>.conf, where a session has to be started.
ENVIRONMENT_VARIABLE = "DAS_SPARK_ENV"
#: All cores, and a second attempt for a task whose worker died: local mode counts failures here and reads no property.
LOCAL_MASTER = "local[*,2]"
#: Set by spark-submit, whose JVM is there before any session.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_LOCAL_DIR = "spark.local.dir"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: No limit: the bytes of a batch are not looked at.
_ANY_BYTES = str((1 << 31) - 1)
#: Bytes of an answer with its number, of an occupied cell with its count, or of two bounds.
_ENTRY = 16
#: Of a run of some thousands of people nearly all time is planning and compiling: one partition, and no code is made.
_SMALL = {
    _SHUFFLE_PARTITIONS: "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: Spark property: a level of at most so many children times cells is one task, for which nothing is shuffled.
ONE_TASK = "spark.das_spark.entriesOfOneTask"
#: The cells of redistricting data of 260 geounits, which a task works on for less than a second.
_USUAL_ENTRIES = 1 << 19
_EVENT_LOGS = "/tmp/spark-events"  # noqa: S108 - where Spark writes event logs if no property says where
#: Of a JVM that did not come up (PySpark tells no more), and of what a property must not be, in the JVM's words.
_NO_JVM = "JAVA_GATEWAY_EXITED"
_WRONG_PROPERTY = re.compile(r"\b\w*(IllegalArgument|NumberFormat)Exception\b")
#: The same exception, of a context that had to stop while it was being started: no master has answered.
_STOPPED = "on a running MetricsSystem"


def session(name: str) -> SparkSession:
    """Return the active session (of spark-submit or of the caller), or start one with the properties of `conf/spark`.

    Args:
        name: What Spark calls it in its displays.

    Raises:
        EnvironmentProblemError: Spark cannot be started.
        SessionError: It could not be started now.
    """
    forbid_core_files()  # whoever called: the processes of the engine inherit the limit
    started = SparkSession.getActiveSession() or _started(name)
    keep_classes(started.sparkContext)
    return started


def _started(name: str) -> SparkSession:
    """Start a session."""
    # Workers run this interpreter, whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder, java = SparkSession.builder.appName(name), dict[str, str]()
    if _SUBMITTED not in os.environ:
        # Not under spark-submit: Java and the properties are ours to find.
        java = java_variables()
        builder = _with_properties(builder.master(os.environ.get("SPARK_MASTER", LOCAL_MASTER)), properties_file())
    before = _children()
    try:
        _start_java(builder, java)
        started = builder.getOrCreate()
    except Exception as error:
        raise _not_started(error) from error
    except KeyboardInterrupt:
        # A JVM that is interrupted before it has answered waits for ever for somebody to talk to.
        if SparkContext._gateway is None:
            for process in _children() - before:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
        raise
    started.sparkContext.setLogLevel("ERROR")
    if in_local_mode(started.sparkContext):
        _let_workers_begin(started)
    return started


def _start_java(builder: SparkSession.Builder, variables: Mapping[str, str]) -> None:
    """Start the JVM where there is none yet: what it writes is nothing that everybody may write."""
    if SparkContext._gateway is None and _SUBMITTED not in os.environ:
        conf = SparkConf().setAll(list(builder._options.items()))
        with _environment(variables):
            gateway = launch_gateway(conf, {"umask": closed_umask()})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have variables of the environment for a while: the caller's JAVA_HOME is his."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _let_workers_begin(spark: SparkSession) -> None:
    """Let Spark start the process that forks its workers, which imports for seconds, while the first job is planned."""
    row = in_tasks(spark.range(0, 1, 1, 1), iter, "id long")
    row._jdf.toJavaRDD().countAsync()


def _children() -> set[int]:
    """The processes that this one has started and that are still there; none where the system does not tell."""
    files = Path("/proc/self/task").glob("*/children")
    return {int(process) for file in files for process in file.read_text(encoding="ascii").split()}


def _not_started(error: Exception) -> EnvironmentProblemError:
    """What kept Spark from starting: something to be mended first, or something that may pass."""
    # A page of the JVM's trace follows these two lines.
    found = " ".join(str(error).splitlines()[:2])
    message = f"Spark could not be started: {found}"
    if _NO_JVM in found:
        hint = "run `das-spark doctor`; Spark needs Java 17 or later, which JAVA_HOME names"
        return EnvironmentProblemError(message, hint=hint)
    if _WRONG_PROPERTY.search(found) and _STOPPED not in found:
        return EnvironmentProblemError(message, hint="correct the properties of Spark (conf/spark, or spark-submit's)")
    hint = "see whether the cluster answers, and this machine has ports and memory left; then try the same again"
    return SessionError(message, hint=hint)


def properties_file() -> Path:
    """conf/spark/<DAS_SPARK_ENV or local>.conf, of the working folder or else of das_spark, installed or not."""
    name = f"{os.environ.get(ENVIRONMENT_VARIABLE, 'local')}.conf"
    folders = (Path("conf/spark"), FOLDER / "spark")
    file = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if file is None:
        there = ", ".join(path.stem for path in sorted((FOLDER / "spark").glob("*.conf")))
        message = f"there is no {folders[0] / name}, which {ENVIRONMENT_VARIABLE} asks for"
        raise EnvironmentProblemError(message, hint=f"with das_spark come: {there}")
    return file


def properties(file: Path) -> dict[str, str]:
    """Spark properties of a file of `key value` lines; `#` starts a comment."""
    pairs = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            key, _, value = text.partition(" ")
            pairs[key] = value.strip()
    return pairs


def _with_properties(builder: SparkSession.Builder, file: Path) -> SparkSession.Builder:
    # Spark reads log4j2.properties from here; it must be set before the JVM starts.
    os.environ.setdefault("SPARK_CONF_DIR", str(file.parent.resolve()))
    pairs = properties(file)
    os.environ.setdefault("SPARK_LOCAL_IP", pairs.get("spark.driver.bindAddress", "127.0.0.1"))
    for key, value in pairs.items():
        builder = builder.config(key, value)
    return builder


@contextmanager
def fitted(spark: SparkSession, *, entries: int, small: bool) -> Iterator[None]:
    """Let Spark plan for the size of a run; then as before.

    What was set since the session began stays as it is.

    Args:
        spark: The session.
        entries: Most answers or cells that a row of a geounit can have.
        small: Whether all tables of the run have few rows.
    """
    chosen = dict(_SMALL) if small else {}
    # For every row that joins a batch Spark sums up the bytes of all its columns, which were a third of the JVM's work
    # for a nation of blocks. Where even the largest rows fill no batch, there is nothing to look for.
    jvm: Any = spark.sparkContext._jvm
    most = jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(spark.conf.get(_BATCH_BYTES))
    if 0 < int(str(spark.conf.get(_BATCH_ROWS))) * entries * _ENTRY <= most:
        chosen[_BATCH_BYTES] = _ANY_BYTES
    began = spark.sparkContext.getConf()
    with temporary_properties(
        spark, {key: value for key, value in chosen.items() if began.get(key) in (None, spark.conf.get(key))}
    ):
        yield


@contextmanager
def adaptive(spark: SparkSession) -> Iterator[None]:
    """Let Spark size shuffles by what flows through them, for plans of many small tables; then as before."""
    # Where there is nothing to size, looking costs a plan for every shuffle.
    if spark.conf.get(_SHUFFLE_PARTITIONS) == "1":
        yield
        return
    with temporary_properties(spark, {_ADAPTIVE: "true"}):
        yield


@contextmanager
def temporary_properties(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set properties of Spark SQL for a while."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


def entries_of_one_task(spark: SparkSession) -> int:
    """How many children times cells a level may have that is not worth dividing, by the session's properties."""
    text = str(spark.conf.get(ONE_TASK, str(_USUAL_ENTRIES)))
    if not text.isdecimal():
        message = f"{ONE_TASK} is {text!r}, and must be a whole number of children times cells"
        raise EnvironmentProblemError(message, hint=f"write {_USUAL_ENTRIES}, or leave it out")
    return int(text)


def scratch_of(spark: SparkSession) -> Path | None:
    """The folder of this machine for what fits in no memory; None where it is elsewhere, or there is none."""
    context = spark.sparkContext
    if not in_local_mode(context):
        return None
    folders = dict(context.getConf().getAll()).get(_LOCAL_DIR, "/tmp")  # noqa: S108 - Spark's own default
    return Path(str(folders).split(",", maxsplit=1)[0])


def application_of(context: SparkContext) -> tuple[str, str]:
    """Id of the application, and number of its attempt, which YARN alone counts."""
    with suppress(Exception):
        return str(context.applicationId), str(context._jsc.sc().applicationAttemptId().get())
    return str(context.applicationId), ""


def in_local_mode(context: SparkContext) -> bool:
    """Whether the driver does all the work itself; "local-cluster[...]" has processes of its own, joined by sockets."""
    return re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None


def require_safe_session(spark: SparkSession, *, insecure: bool, synthetic: bool = False) -> None:
    """Refuse to draw under a real key where Spark would let key or confidential data reach a disk or wire in clear.

    Args:
        spark: The session, of whoever started it.
        insecure: Whether the noise comes from a test key, which protects nobody.
        synthetic: Whether the people are made up from a seed that everybody may know: nothing of them is confidential,
            and a key that hides them hides nothing.
    """
    if insecure or synthetic:
        return
    conf = spark.sparkContext.getConf()
    needed = ["spark.io.encryption.enabled"]
    if not in_local_mode(spark.sparkContext):
        needed += ["spark.authenticate", "spark.network.crypto.enabled"]
    missing = [key for key in needed if conf.get(key, "false") != "true"]
    if missing:
        message = f"the Spark session does not protect key and confidential data: {', '.join(missing)} must be true"
        lines = "".join(f'.config("{key}", "true")' for key in missing)
        raise PrivacyGuardError(
            message,
            hint="these are fixed when a session starts. In Python: SparkSession.getActiveSession().stop(), then "
            f"SparkSession.builder{lines}.getOrCreate(), or no session of your own: das_spark starts one with the "
            "properties of conf/spark. For a cluster: spark-submit.sh, or spark-submit "
            + " ".join(f"--conf {key}=true" for key in missing),
        )
    if conf.get("spark.eventLog.enabled", "false") == "true":
        _require_closed(str(conf.get("spark.eventLog.dir", _EVENT_LOGS)))


def _require_closed(address: str) -> None:
    """Refuse a local folder that others may enter; of a remote one its own store must take care."""
    folder = Path(address.removeprefix("file:"))
    if "://" not in address.removeprefix("file://") and folder.exists() and folder.stat().st_mode & 0o007:
        message = f"{folder}: Spark's event log tells of confidential row counts, and others may enter this folder"
        raise PrivacyGuardError(message, hint=f"chmod o-rwx {folder}, or leave spark.eventLog.enabled out")
