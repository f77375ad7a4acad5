"""The Spark session of a run: found or started, described, and checked against the guards of privacy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from das_spark.errors import EnvironmentProblemError, PrivacyGuardError

#: Names another file of Spark properties than conf/spark/local.conf, where a session has to be started.
PROPERTIES_VARIABLE = "DAS_SPARK_PROPERTIES"


def session(name: str) -> SparkSession:
    """The active session (of spark-submit or of the caller), or a new one with the properties of `conf/spark`.

    Raises:
        EnvironmentProblemError: If Spark or Java cannot be started.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName(name)
    # Workers run this interpreter, whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Not under spark-submit: the properties are ours to find.
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
        for key, value in properties().items():
            builder = builder.config(key, value)
    try:
        started = builder.getOrCreate()
    except Exception as error:
        message = f"Spark could not be started: {error}"
        raise EnvironmentProblemError(message, hint="run `das-spark doctor`; Spark needs Java 17 or later") from error
    started.sparkContext.setLogLevel("ERROR")
    return started


def properties(file: Path | None = None) -> dict[str, str]:
    """Spark properties from a file of `key value` lines; `#` starts a comment.

    Args:
        file: The file; by default the one that DAS_SPARK_PROPERTIES names, else conf/spark/local.conf of the working
            folder or of the checkout that the package lies in. No file at all gives no properties.
    """
    candidates = [
        file,
        Path(os.environ[PROPERTIES_VARIABLE]) if PROPERTIES_VARIABLE in os.environ else None,
        Path("conf/spark/local.conf"),
        Path(__file__).parents[2] / "conf" / "spark" / "local.conf",
    ]
    found = next((each for each in candidates if each is not None and each.is_file()), None)
    if found is None:
        return {}
    pairs = {}
    for line in found.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            key, _, value = text.partition(" ")
            pairs[key] = value.strip()
    return pairs


def require_safe_session(spark: SparkSession, *, insecure: bool) -> None:
    """Refuse to draw under a real key where Spark would let key or confidential data reach a disk or wire in clear.

    Args:
        spark: The session.
        insecure: Whether the run is made under a test key, whose outputs are marked insecure anyway.

    Raises:
        PrivacyGuardError: If encryption of local files is off, or, beyond local mode, that of the network.
    """
    if insecure:
        return
    conf = spark.sparkContext.getConf()
    needed = ["spark.io.encryption.enabled"]
    if not spark.sparkContext.master.startswith("local"):
        needed += ["spark.authenticate", "spark.network.crypto.enabled"]
    missing = [key for key in needed if conf.get(key, "false") != "true"]
    if missing:
        message = f"the Spark session does not protect key and confidential data: {', '.join(missing)} must be true"
        raise PrivacyGuardError(message, hint="submit with the properties of conf/spark (spark-submit.sh does)")
