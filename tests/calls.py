"""Checks that the tests call what there is with the arguments that it takes.

    python tests/calls.py

A slow test has its turn once in ten commits: one that calls a function whose arguments have changed fails weeks later.
mypy reads all tests in a minute. Only its errors about arguments count here, since tests have few types.

Exits with 1 and the calls where there are any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mypy import api

#: A file, a line, and an error about arguments.
_WRONG = re.compile(r"tests/.*\[call-arg\]$")


def main() -> int:
    """Print the wrong calls; return the exit code."""
    lines, complaint, status = api.run(["--explicit-package-bases", "--check-untyped-defs", "tests"])
    if status not in (0, 1):
        print(lines, complaint, sep="\n", file=sys.stderr)
        return status
    wrong = [line for line in lines.splitlines() if _WRONG.match(line)]
    print("\n".join(wrong) or f"the calls in {len(list(Path('tests').rglob('*.py')))} files of tests fit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
