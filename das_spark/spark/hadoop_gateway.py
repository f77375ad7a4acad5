"""A JVM through which Hadoop's file systems are used: that of Spark where there is one, else a small one of its own.

The small one is for commands and for runs in memory, which have no Spark: it is started when the first address is
opened, has Spark's and Hadoop's own classes (`$SPARK_HOME/jars`), listens to this machine alone, obeys nobody who does
not know a secret word, and ends with this process.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from das_spark.errors import EnvironmentProblemError
from das_spark.process import closed_umask
from das_spark.spark.java import usable_java
from das_spark.spark.session import properties, properties_file

#: Set by spark-submit, whose JVM is there before any session.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_SERVER: Final = "org.apache.spark.api.python.PythonGatewayServer"
#: Folders of Hadoop's configuration, such as core-site.xml.
_CONFIGURATIONS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: Longer than this no JVM takes to start.
_SECONDS: Final = 120
#: What Hadoop needs of a JVM, as Spark's own launcher says it.
_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
_HADOOP: Final = "spark.hadoop."


def gateway() -> Any:  # noqa: ANN401 - py4j has no types
    """The gateway to the JVM of this process."""
    from pyspark import SparkContext  # noqa: PLC0415 - only addresses of Hadoop need it

    if SparkContext._gateway is None and _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
    return SparkContext._gateway or _own_gateway()


def configuration() -> Any:  # noqa: ANN401 - py4j has no types
    """Hadoop's configuration as Spark would have it: core-site.xml, and the properties `spark.hadoop.*`."""
    jvm = gateway().jvm
    found = jvm.org.apache.hadoop.conf.Configuration()
    for key, value in _spark_properties(jvm).items():
        if key.startswith(_HADOOP):
            found.set(key.removeprefix(_HADOOP), value)
    return found


def _spark_properties(jvm: Any) -> dict[str, str]:  # noqa: ANN401 - py4j has no types
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - as above

    active = SparkContext._active_spark_context
    if active is not None:
        return dict(active.getConf().getAll())
    if _SUBMITTED in os.environ:
        return dict(SparkConf(_jvm=jvm).getAll())
    return properties(properties_file())


@cache
def _own_gateway() -> Any:  # noqa: ANN401 - py4j has no types
    from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415 - as above
    from pyspark.serializers import UTF8Deserializer, read_int  # noqa: PLC0415

    java, _ = usable_java()
    with tempfile.TemporaryDirectory(prefix="das_spark-") as folder:  # its owner alone may enter: the word is in it
        told = Path(folder) / "gateway"
        process = subprocess.Popen(  # noqa: S603 - the Java that Spark would start, with Spark's own program
            [java, *_OPTIONS, "-cp", os.pathsep.join(_class_path()), _SERVER],
            stdin=subprocess.PIPE,
            env={**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)},
            umask=closed_umask(),
            process_group=0,  # Ctrl-C is for the command, which still has something to say to it
        )
        _wait(told.is_file, process)
        with told.open("rb") as file:
            port, word = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    parameters = GatewayParameters(address="127.0.0.1", port=port, auth_token=word, auto_convert=True)
    found = JavaGateway(gateway_parameters=parameters)
    atexit.register(_end, process, found.shutdown)
    return found


def _class_path() -> list[str]:
    """Hadoop's configuration goes first, and that of Spark's logs behind it."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        found = find_spec("pyspark")
        home = next(iter((found and found.submodule_search_locations) or []), "")
    jars = Path(home) / "jars"
    if not jars.is_dir():
        raise EnvironmentProblemError(
            f"{jars}: not there, and the classes of Hadoop's file systems are in it", hint="set SPARK_HOME to Spark"
        )
    named = [os.environ[name] for name in _CONFIGURATIONS if os.environ.get(name)]
    logs = os.environ.get("SPARK_CONF_DIR") or str(properties_file().parent.resolve())
    return [*named, logs, str(jars / "*")]


def _wait(done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while not done():
        if process.poll() is not None or time.monotonic() - began > _SECONDS:
            raise EnvironmentProblemError(
                "the JVM for Hadoop's file systems did not start", hint="see its message above; is Java in order?"
            )
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes], shutdown: Callable[[], None]) -> None:
    shutdown()
    if process.stdin is not None:
        process.stdin.close()  # it ends when there is nothing left to read
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
