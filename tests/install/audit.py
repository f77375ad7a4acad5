"""Audit the locks of conf/ for packages with known flaws.

    python tests/install/audit.py

pip-audit asks the advisories of the Python Packaging Authority, by way of the package index and of OSV. Where neither
can be reached, a short list in this file is all that is compared: flaws that the authors knew of when they wrote it,
and which a lock must never fall back behind. It is not complete, and says nothing of flaws found since.

Exits with 0 where an advisory service knew all packages and no flaw, 1 where a flaw is known, 3 where none answered.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent))

from locks import HEADS, pins

SERVICES = ("pypi", "osv")
WRITTEN = "2026-11-22"
#: First version without a flaw, and the flaw, by package.
FIXED_IN = {
    "cryptography": ("44.0.1", "CVE-2024-12797"),
    "fonttools": ("4.60.2", "CVE-2025-66034"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "joblib": ("1.2.0", "CVE-2022-21797"),
    "pillow": ("10.3.0", "CVE-2024-28219"),
    "pyarrow": ("14.0.1", "CVE-2023-47248"),
    "pygments": ("2.15.0", "CVE-2022-40896"),
    "pyspark": ("3.4.0", "CVE-2023-22946"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "scipy": ("1.10.0", "CVE-2023-25399"),
    "setuptools": ("78.1.1", "CVE-2025-47273"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
}
NOT_REACHED = 3


def outdated(locked: Mapping[str, str]) -> list[str]:
    """Pins that lie before the fix of a flaw of the list."""
    return [
        f"{name} {version}: {FIXED_IN[name][1]}, fixed in {FIXED_IN[name][0]}"
        for name, version in locked.items()
        if name in FIXED_IN and Version(version) < Version(FIXED_IN[name][0])
    ]


def asked(service: str, locked: Mapping[str, str]) -> tuple[list[str], list[str]] | None:
    """What a service knows of: flaws, and packages that it could not find; None where it does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f"{name}=={version}\n" for name, version in locked.items())
        Path(folder, "pins.txt").write_text(lines)
        command = [sys.executable, "-m", "pip_audit", "--format", "json", "--vulnerability-service", service]
        command += ["--disable-pip", "--no-deps", "--progress-spinner", "off", "--requirement", "pins.txt"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        return None
    skipped = [each["name"] for each in found if "skip_reason" in each]
    flaws = [
        f"{each['name']} {each['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in found
        for flaw in each.get("vulns", ())
    ]
    return None if len(skipped) == len(locked) else (flaws, skipped)


def main() -> int:
    locked = {name: version for lock in HEADS for name, version in pins(lock).items()}
    flaws = outdated(locked)
    print(f"{len(locked)} packages; list of {WRITTEN}, {len(FIXED_IN)} flaws: {len(flaws)} found")
    answers = {service: asked(service, locked) for service in SERVICES}
    for service, answer in answers.items():
        if answer is None:
            print(f"{service}: not reached")
        else:
            print(f"{service}: {len(answer[0])} flaws found, {len(answer[1])} packages unknown to it")
            flaws += answer[0]
    print(*flaws, sep="\n")
    if flaws:
        return 1
    return 0 if any(answer is not None and not answer[1] for answer in answers.values()) else NOT_REACHED


if __name__ == "__main__":
    sys.exit(main())
