"""The Spark properties that are shipped: each says why, all exist in Spark, and what must be the same is the same."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pyspark
import pytest
from standalone import RECOVERY, ROOT

from das_spark.spark.executors import DEFAULT_TIMEOUT, TIMEOUT
from das_spark.spark.session import properties

FOLDER = ROOT / "conf" / "spark"
FILES = sorted(FOLDER.glob("*.conf"))
CLUSTERS = ("standalone", "yarn", "kubernetes")

SAFE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
}

#: What decides bytes or the moment at which they become visible.
SAME_EVERYWHERE = (
    "spark.sql.adaptive.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.parquet.compression.codec",
    "spark.sql.sources.commitProtocolClass",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs",
    "spark.sql.catalogImplementation",
)

#: Families of names that are open: Spark hands on what follows, or a part of the name is ours to choose.
OPEN_NAMES = (
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.kubernetes.executor.secrets.",
    "spark.kubernetes.executor.volumes.",
    "spark.kubernetes.authenticate.executor.",  # Spark joins it from two texts
)


def unexplained(text: str) -> list[str]:
    """Property lines without a comment line right above them, and comment lines that two properties would share."""
    lines = [line.strip() for line in text.splitlines()]
    return [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if is_property(line) and not above.startswith("# ")
    ]


def is_property(line: str) -> bool:
    return bool(line) and not line.startswith("#")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_property_has_a_line_that_says_why(file):
    assert unexplained(file.read_text(encoding="utf-8")) == []
    names = [line.split()[0] for line in file.read_text(encoding="utf-8").splitlines() if is_property(line)]
    assert len(names) == len(set(names)), "a property stands twice"


def test_a_property_without_its_reason_is_found():
    assert unexplained("# why\nspark.a 1\n\nspark.b 2\nspark.c 3\n#spark.d\nspark.e 5") == [
        "spark.b 2",
        "spark.c 3",
        "spark.e 5",
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_everything_that_protects_is_on_in_every_file(file):
    pairs = properties(file)
    assert {name: pairs.get(name) for name in SAFE} == SAFE
    assert not [name for name in pairs if name == "spark.authenticate.secret"], (
        "a secret belongs into no file of this folder"
    )


def test_what_decides_bytes_is_the_same_in_every_file():
    found = {file.stem: {name: properties(file).get(name) for name in SAME_EVERYWHERE} for file in FILES}
    assert set(found) == {"local", "test", "databricks", *CLUSTERS}
    assert all(each == found["local"] for each in found.values())
    assert None not in found["local"].values()


def test_clusters_share_everything_but_their_manager():
    plain = properties(FOLDER / "standalone.conf")
    for name in ("yarn", "kubernetes"):
        pairs = properties(FOLDER / f"{name}.conf")
        assert {key: pairs.get(key) for key in plain} == plain
        own = set(pairs) - set(plain)
        assert all(
            key.startswith(
                (f"spark.{name}.", "spark.authenticate.secret.", "spark.submit.", "spark.dynamicAllocation.")
            )
            or key in ("spark.executor.instances", "spark.executor.memoryOverhead", "spark.pyspark.python")
            for key in own
        )


def test_one_machine_of_a_service_is_as_one_of_our_own():
    plain, pairs = properties(FOLDER / "local.conf"), properties(FOLDER / "databricks.conf")
    assert pairs.pop("spark.master").startswith("local[")
    assert {key: plain[key] for key in pairs} == pairs


def test_the_installed_spark_knows_every_property():
    """Names stand as texts in Spark's own classes; what no class mentions is misspelt, or gone."""
    names = {name for file in FILES for name in properties(file) if not name.startswith(OPEN_NAMES)}
    assert TIMEOUT in names
    names.remove(TIMEOUT)  # our own
    unknown = names | {"spark.kubernetes.no.such.property"}
    for jar in sorted((Path(str(pyspark.__file__)).parent / "jars").glob("spark-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class") and unknown:
                    content = archive.read(entry)
                    unknown = {name for name in unknown if name.encode() not in content}
    assert unknown == {"spark.kubernetes.no.such.property"}


def test_the_shipped_timeout_is_that_of_the_code():
    assert {properties(FOLDER / f"{name}.conf")[TIMEOUT] for name in CLUSTERS} == {DEFAULT_TIMEOUT}


def test_the_documented_file_of_the_daemons_has_what_drivers_ask_for(tmp_path):
    text = (ROOT / "jobs" / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^       umask 077\n(?:       .*\n)*", text, re.MULTILINE)
    assert found is not None
    block = textwrap.dedent(found[0])
    written = block.replace("> spark-daemons.conf", f"> {tmp_path}/spark-daemons.conf").split("spark-class")[0]
    subprocess.run(["bash", "-euo", "pipefail", "-c", written], cwd=ROOT, check=True)
    path = tmp_path / "spark-daemons.conf"
    pairs, drivers = properties(path), properties(FOLDER / "standalone.conf")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(pairs.pop("spark.authenticate.secret")) == 64
    assert pairs.pop("spark.ui.killEnabled") == "false"
    assert {name: pairs.pop(name) for name in RECOVERY} == {
        name: value.format(folder=ROOT) for name, value in RECOVERY.items()
    }
    ours = {name: value for name, value in drivers.items() if name.startswith(("spark.authenticate", "spark.network."))}
    assert pairs == ours
    assert "spark.network.crypto.saslFallback" in pairs


@pytest.mark.parametrize("page", ["jobs/README.md", "das_spark/store/README.md"])
def test_documented_daemons_are_found_in_the_environment_of_the_checkout(tmp_path, page):
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = (ROOT / page).read_text(encoding="utf-8")
    (activation,) = set(re.findall(r"^ *(source [.\w/]+)", text, re.MULTILINE))
    commands = re.findall(r"(\S*spark-class org\.apache\S+)", text)
    assert commands
    script = "\n".join([activation, *(f"{command} --help" for command in commands)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "VIRTUAL"))}
    kept["PATH"] = "/usr/bin:/bin"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=kept, check=True)
