"""The files of docker/ as text: linted, in step with the project, and no service more open than it must be."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from das_spark.spark.session import properties

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
HADOLINT = Path(sys.executable).with_name("hadolint")
LOOPBACK = "127.0.0.1:"


def lint(text: str) -> list[str]:
    """What hadolint says of a Dockerfile."""
    done = subprocess.run([HADOLINT, "--no-color", "-"], input=text, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile with their arguments; comments left out, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def copied(text: str) -> list[str]:
    """What a Dockerfile takes from the checkout."""
    found = []
    for name, arguments in instructions(text):
        if name == "COPY" and "--from=" not in arguments:
            found += [each for each in arguments.split()[:-1] if not each.startswith("--")]
    return found


def sent(name: str, ignored: list[str]) -> bool:
    """Whether a path is sent to the engine, by the rules of an ignore file: the last line that fits decides."""
    kept = True
    for line in ignored:
        pattern = line.removeprefix("!")
        if fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/"):
            kept = line.startswith("!")
    return kept


def parsed(text: str) -> compose_spec.PyCompose:
    """A compose file by the specification: every key known, every value of its kind, every name declared.

    Raises:
        ValueError: It is not valid.
    """
    # Variables are filled in before: by their defaults, or by a path where they have none.
    filled = re.sub(r"\$\{\w+:([-?])([^}]*)\}", lambda found: found[2] if found[1] == "-" else "/given", text)
    merged = yaml.safe_dump(yaml.safe_load(filled))  # without anchors and merge keys
    compose = compose_spec.PyCompose.from_yaml(merged)
    compose.validate()
    return compose


def services(text: str = COMPOSE) -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(text)["services"])


def problems(text: str) -> list[str]:
    """What is more open in a compose file than it must be."""
    found = []
    for name, service in services(text).items():
        found += [f"{name}: port {port}" for port in service.get("ports", ()) if not str(port).startswith(LOOPBACK)]
        wanted = {"read_only": True, "cap_drop": ["ALL"], "secrets": ["spark_secret"], "ulimits": {"core": 0}}
        found += [f"{name}: {key}" for key, value in wanted.items() if service.get(key) != value]
        found += [f"{name}: privileges"] * ("no-new-privileges:true" not in service.get("security_opt", ()))
        found += [f"{name}: privileged"] * bool(service.get("privileged") or service.get("network_mode") == "host")
        # Compose cannot put a text of its own into a container whose file system is read-only.
        found += [f"{name}: configs"] * bool(service.get("configs"))
        found += [f"{name}: a secret in its environment"] * ("SECRET" in str(service.get("environment", "")).upper())
    return found


def test_hadolint_has_nothing_to_say():
    assert lint(DOCKERFILE) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("USER 10001:10001", "USER root"), "DL3002"),
        (("=17.*", ""), "DL3008"),
        (("=python:3.11.14-slim-bookworm\n", "=python:latest\n"), "DL3007"),
        (('ENTRYPOINT ["tini", "--", "das-spark-container"]', "ENTRYPOINT das-spark-container"), "DL3025"),
    ],
)
def test_hadolint_finds_planted_faults(change, rule):
    planted = DOCKERFILE.replace(*change)
    if rule == "DL3007":  # hadolint does not follow arguments
        planted = planted.replace("FROM ${BASE}", "FROM python:latest")
    assert planted != DOCKERFILE
    assert any(rule in line for line in lint(planted))


def test_everything_that_is_copied_is_there_and_is_sent():
    ignored = [line for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] not in "#"]
    sources = copied(DOCKERFILE)
    assert {"conf/environment.lock", "docker/entrypoint.sh", "das_spark"} <= set(sources)
    assert [name for name in sources if not (ROOT / name).exists() or not sent(name, ignored)] == []
    assert not any(sent(name, ignored) for name in ("runs", ".venv/bin/python", "tests/run", "das_spark/__pycache__"))


def test_packages_are_installed_by_hash_only():
    steps = re.findall(r"(\S+)/bin/pip (install|wheel) ([^&]*)", " ".join(rest for _, rest in instructions(DOCKERFILE)))
    assert [(place, verb) for place, verb, _ in steps] == [
        ("tools", "install"),
        ("tools", "wheel"),
        ("/opt/das_spark", "install"),
        ("/opt/das_spark", "install"),
    ]
    assert [each for _, _, each in steps if "--require-hashes" not in each and "--no-index --no-deps" not in each] == []


def test_versions_are_those_of_the_project():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (base,) = re.findall(r"^ARG BASE=(\S+)", DOCKERFILE, re.MULTILINE)
    assert f'image.version="{version}"' in DOCKERFILE
    assert f'image.base.name="docker.io/library/{base}"' in DOCKERFILE
    assert {service["image"] for service in services().values()} == {f"das_spark:{version}"}
    locked = re.search(r"CPython (\d+\.\d+)", (ROOT / "conf" / "environment.lock").read_text())
    assert locked is not None
    assert re.fullmatch(rf"python:{locked.group(1)}\.\d+-slim-[a-z]+", base)
    assert "openjdk-17-jre-headless=17." in DOCKERFILE


def test_nothing_runs_as_root():
    users = [rest for name, rest in instructions(DOCKERFILE) if name == "USER"]
    assert users == ["10001:10001"]
    last = [name for name, _ in instructions(DOCKERFILE)]
    assert last.index("USER") < last.index("ENTRYPOINT")
    assert last.index("RUN", last.index("LABEL")) < last.index("USER"), "what needs root comes before"


def test_compose_is_valid():
    assert set(parsed(COMPOSE).services) == {"master", "worker-1", "worker-2", "history", "submit"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("read_only: true", "readonly: true"), "readonly"),
        (("networks: [cluster]", "networks: [claster]"), "claster"),
        (("core: 0", "core: none"), "core|ulimit|int"),
        (("secrets: [spark_secret]", "secrets: [sparks_secret]"), "sparks_secret"),
    ],
)
def test_a_wrong_compose_file_is_not(change, reason):
    assert change[0] in COMPOSE
    with pytest.raises(ValueError, match=reason):
        parsed(COMPOSE.replace(*change))


def test_no_service_is_more_open_than_it_must_be():
    assert problems(COMPOSE) == []


@pytest.mark.parametrize(
    "change",
    [
        ("127.0.0.1:18080:18080", "18080:18080"),
        ("read_only: true", "read_only: false"),
        ("cap_drop: [ALL]", "cap_drop: []"),
        ("    core: 0", "    core: -1"),
        ("DAS_SPARK_EVENTS: /data/events", "SPARK_AUTHENTICATE_SECRET: abc"),
        ("    command: [history]", "    command: [history]\n    configs: [sizes]"),
    ],
)
def test_planted_openings_are_found(change):
    assert problems(COMPOSE.replace(*change))


def test_volumes_hold_to_the_two_sides():
    mounted = {
        name: {volume.split(":")[0] for volume in service.get("volumes", ())} for name, service in services().items()
    }
    # Workers measure, so that they need the restricted side; master and history server see no table.
    assert all({"public", "restricted"} <= mounted[name] for name in ("worker-1", "worker-2", "submit"))
    assert not {"public", "restricted"} & (mounted["master"] | mounted["history"])
    # Local files of Spark are shared with nobody.
    scratch = [volume for volumes in mounted.values() for volume in volumes if volume.startswith("scratch")]
    assert len(scratch) == len(set(scratch)) == len(mounted)
    declared = set(yaml.safe_load(COMPOSE)["volumes"])
    used = {volume for volumes in mounted.values() for volume in volumes if re.fullmatch(r"\w+", volume)}
    assert used == declared


def test_the_entry_script_is_sound():
    script = DOCKER / "entrypoint.sh"
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "set -euo pipefail" in script.read_text()


@pytest.fixture
def entry(tmp_path) -> Any:
    """Carry out the entry script outside a container: its folder in memory is another one, daemons are only named."""
    runtime, programs = tmp_path / "run", tmp_path / "bin"
    runtime.mkdir()
    programs.mkdir()
    script = tmp_path / "entrypoint.sh"
    script.write_text((DOCKER / "entrypoint.sh").read_text().replace("/run/das_spark", str(runtime)))
    for name in ("spark-class", "spark-submit", "java"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python").chmod(0o755)

    def carry_out(*arguments: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        path = f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "10.0.0.7"} | variables
        command = ["bash", str(script), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done, runtime / "spark.conf"

    return carry_out


def test_the_secret_goes_into_a_file_of_its_user_and_onto_no_command_line(entry, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    done, written = entry("master", DAS_SPARK_SECRET_FILE=str(secret))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("spark-class org.apache.spark.deploy.master.Master --properties-file ")
    assert secret.read_text() not in done.stdout
    pairs = properties(written)
    assert pairs["spark.authenticate.secret"] == secret.read_text()
    assert pairs["spark.network.crypto.saslFallback"] == "false"
    assert pairs["spark.driver.host"] == "10.0.0.7"
    assert (pairs["spark.deploy.recoveryMode"], pairs["spark.deploy.recoveryDirectory"]) == (
        "FILESYSTEM",
        "/scratch/master",
    )
    assert written.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no shared secret"), ("", "has 0 characters"), ("short", "has 5 characters")]
)
def test_a_secret_that_lets_everybody_in_is_refused(entry, tmp_path, content, said):
    secret = tmp_path / "secret"
    if content is None:
        secret.mkdir()  # what an engine makes of a file that is not there
    else:
        secret.write_text(content)
    done, _ = entry("master", DAS_SPARK_SECRET_FILE=str(secret))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_sizes_and_properties_of_ones_own_win(entry, tmp_path):
    (tmp_path / "own.conf").write_text("spark.executor.cores 3\n")
    own = {"DAS_SPARK_PROPERTIES": str(tmp_path / "own.conf"), "DAS_SPARK_EXECUTOR_MEMORY": "1g"}
    done, written = entry("list", "products", **own)
    assert done.stdout.startswith("spark-submit --master local[*,2] ")
    assert done.stdout.endswith("/opt/das_spark/jobs/run.py list products\n")
    pairs = properties(written)
    assert (pairs["spark.executor.memory"], pairs["spark.executor.cores"]) == ("1g", "3")
    assert "spark.authenticate.secret" not in pairs


def test_kubernetes_has_its_own_properties_and_executors(entry):
    done, written = entry("list", "products", SPARK_MASTER="k8s://https://kubernetes.default.svc")
    assert done.returncode == 0, done.stderr
    pairs = properties(written)
    assert pairs["spark.kubernetes.namespace"] == "das-spark"
    assert pairs["spark.driver.host"] == "10.0.0.7"
    assert pairs["spark.pyspark.python"] == "/opt/das_spark/bin/python"
    given = {
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_JAVA_OPT_0": "-Da=b=c",
        "SPARK_JAVA_OPT_1": "-Dd e",
    }
    words = entry("executor", **given)[0].stdout
    assert words.startswith("java -Da=b=c -Dd e -Xms1g -Xmx1g -cp ")
    assert words.endswith("--hostname 10.0.0.8 --resourceProfileId 0 --podName pod\n")
