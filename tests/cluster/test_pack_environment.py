"""The archive of an environment: what das_spark needs and nothing else, the same bytes for the same environment."""

from __future__ import annotations

import tarfile
import time
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import typer.main  # noqa: F401 - what is imported is compiled
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@pytest.fixture
def whole_job():
    spec = spec_from_file_location("pack_environment", ROOT / "jobs" / "pack_environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def job(whole_job, monkeypatch):
    """The job, whose environment is one small package."""
    small = [
        requirement
        for requirement in whole_job.requirements("das_spark")
        if requirement.name.lower() in {"typer", "das_spark"}
    ]
    monkeypatch.setattr(whole_job, "requirements", lambda _: iter(small))
    return whole_job


def test_what_a_checkout_needs_is_what_it_says_and_not_what_was_installed_once(whole_job, monkeypatch):
    """A checkout goes on to later commits, and the link to it in the environment does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in whole_job.STORES for text in project["optional-dependencies"][extra]),
    ]
    names = {whole_job.canonical(Requirement(text).name) for text in texts} - whole_job.BROUGHT_BY_SPARK
    monkeypatch.setattr(whole_job.Distribution, "requires", [])
    assert names | {"das-spark"} == {
        whole_job.canonical(requirement.name) for requirement in whole_job.requirements("das_spark")
    }


def test_the_same_environment_gives_the_same_bytes(job, tmp_path):
    first, second = tmp_path / "first.tar.gz", tmp_path / "second.tar.gz"
    job.pack(first, ROOT / "das_spark" / "privacy")
    time.sleep(1.1)  # times in archives are whole seconds
    assert job.pack(second, ROOT / "das_spark" / "privacy") == 2
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.tar.gz", "second.tar.gz"]


def test_compiled_modules_come_along_and_are_still_valid(job, tmp_path):
    job.pack(tmp_path / "packed.tar.gz", ROOT / "das_spark" / "privacy")
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        members = {member.name: member for member in archive}
        sources = [name for name in members if name.endswith("typer/main.py")]
        (source,) = sources
        compiled = [name for name in members if "typer/__pycache__/main." in name]
        assert members["bin/python"].issym()
        assert not [name for name in members if "/pyspark/" in name or "/pytest/" in name]
        for name in compiled:
            content = archive.extractfile(members[name])
            assert content is not None
            # A compiled module is used where it names the time of its source.
            assert int.from_bytes(content.read(12)[8:], "little") == int(members[source].mtime)
    assert compiled
