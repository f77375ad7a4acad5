"""The locks of conf/: exact, with hashes, and in step with pyproject.toml. What they hold was not changed by hand."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent))

from audit import FIXED_IN, outdated
from locks import CONF, EXTRAS, HEADS, LINE, normal, pins, ranges

LOCKS = sorted(HEADS)


def unmet(requirements: list[str], locked: dict[str, str]) -> list[str]:
    """Requirements that a lock does not answer."""
    found = []
    for requirement in map(Requirement, requirements):
        version = locked.get(normal(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement}: {version}")
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_has_a_version_and_hashes(lock):
    lines = (CONF / f"{lock}.lock").read_text().splitlines()
    assert lines[0].startswith("# ")
    packages = [line for line in lines if not line.startswith("#")]
    assert len(packages) > 3
    assert [line for line in packages if not LINE.fullmatch(line)] == []
    names = [line.split("==")[0] for line in packages]
    assert names == sorted(set(names))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_answers_what_pyproject_asks(lock):
    locked = pins("environment") | pins(lock) if lock in EXTRAS else pins(lock)
    assert unmet(ranges(lock), locked) == []


def test_every_lock_is_of_the_same_machine():
    heads = {re.search(r"For (.*): pip", (CONF / f"{lock}.lock").read_text()) for lock in LOCKS}
    assert None not in heads
    assert {found.group(1) for found in heads if found} == {"CPython 3.11 on Linux x86_64"}


def test_what_is_tested_is_what_is_shipped():
    shared = pins("environment") | pins("build")
    for lock in EXTRAS:  # one after the other: they are installed side by side
        pinned = pins(lock)
        assert not pinned.keys() & pins("environment").keys()
        assert {name: v for name, v in pinned.items() if shared.get(name, v) != v} == {}
        shared |= pinned


#: The first release of the Python that the locks are for: systems keep an early one for years.
OLDEST = "3.11.0"


def too_new(requires: dict[str, str | None]) -> list[str]:
    """Packages, of which it is said which Python they require, that the oldest cannot have."""
    return [name for name, require in requires.items() if require and not SpecifierSet(require).contains(OLDEST)]


def test_the_oldest_python_can_have_every_package_that_is_locked():
    locked = {name: version for lock in LOCKS for name, version in pins(lock).items()}
    here = {normal(distribution.metadata["Name"]): distribution for distribution in distributions()}
    requires = {
        name: here[name].metadata["Requires-Python"]
        for name, version in locked.items()
        if name in here and here[name].version == version
    }
    assert len(requires) > len(locked) / 2, "the environment of the tests is that of the locks"
    assert too_new(requires) == []
    assert too_new({"pymdown-extensions": ">=3.11.5", "numpy": ">=3.11", "unsaid": None}) == ["pymdown-extensions"]


def test_planted_gaps_are_found():
    locked = pins("environment")
    assert unmet(["numpy>=99"], locked) == [f"numpy>=99: {locked['numpy']}"]
    assert unmet(["nothing>=1"], locked) == ["nothing>=1: None"]
    assert not LINE.fullmatch("numpy==2.4.6")
    assert not LINE.fullmatch("numpy==2.4.6 --hash=sha256:abc")
    assert not LINE.fullmatch(f"numpy>=2.4.6 --hash=sha256:{'a' * 64}")


@pytest.mark.parametrize("lock", LOCKS)
def test_no_pin_has_a_flaw_that_we_know_of(lock):
    assert outdated(pins(lock)) == []


def test_a_planted_old_version_is_found():
    assert outdated({"pillow": "9.0.0", "jinja2": "3.1.6"}) == ["pillow 9.0.0: CVE-2024-28219, fixed in 10.3.0"]
    assert all(Version(version) for version, _ in FIXED_IN.values())
