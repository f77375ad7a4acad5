"""Checks that the tests call what there is with the arguments that it takes, and replace nothing that is gone.

    python tests/calls.py

A slow test has its turn once in ten commits: one that calls a function whose arguments have changed fails weeks later.
mypy reads all tests in a minute. Only its errors about arguments count here, since tests have few types. It does not
see what a test replaces by name: modules of das_spark are asked for those.

Exits with 1 and what is wrong where anything is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from mypy import api

#: A file, a line, and an error about arguments.
_WRONG = re.compile(r"tests/.*\[call-arg\]$")


def stale_doubles(path: Path) -> Iterator[str]:
    """Find what a file of tests names in a module of das_spark that does not have it.

    A module and a name stand beside each other in a call, such as ``patch.setattr(levels, "measurements", double)``,
    or in a tuple that becomes one.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = _modules(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            words = node.args
        elif isinstance(node, ast.Tuple):
            words = node.elts
        else:
            continue
        match words:
            case [ast.Name(id=owner), ast.Constant(value=str(name)), *_] if owner in modules and name.isidentifier():
                if not hasattr(modules[owner], name):
                    yield f"{path}:{node.lineno}: {modules[owner].__name__} has no {name}"


def _modules(tree: ast.Module) -> dict[str, ModuleType]:
    """The modules of das_spark that a file imports, by their names in it."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "das_spark":
            package = import_module(node.module or "")
            for alias in node.names:
                found = getattr(package, alias.name, None)
                if isinstance(found, ModuleType):
                    modules[alias.asname or alias.name] = found
                elif found is None:
                    modules[alias.asname or alias.name] = import_module(f"{node.module}.{alias.name}")
    return modules


def main() -> int:
    """Print what is wrong; return the exit code."""
    lines, complaint, status = api.run(["--explicit-package-bases", "--check-untyped-defs", "tests"])
    if status not in (0, 1):
        print(lines, complaint, sep="\n", file=sys.stderr)
        return status
    files = sorted(Path("tests").rglob("*.py"))
    wrong = [line for line in lines.splitlines() if _WRONG.match(line)]
    wrong += [line for path in files for line in stale_doubles(path)]
    print("\n".join(wrong) or f"the calls in {len(files)} files of tests fit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
