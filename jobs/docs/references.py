"""Pages of reference made from the code: commands, errors, the Python interface, and licences of dependencies."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer
from typer.cli import get_docs_for_click

from das_spark import errors, features
from das_spark.cli.main import app

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "das_spark"

#: Name of a page of the Python interface -> its title; the module is the name, below das_spark.
MODULES: Final = {
    "das_spark": "das_spark",
    "results": "results: what a run published",
    "config": "config: a run as a plan",
    "products": "products: what is counted",
    "histogram": "histogram: attributes and queries",
    "privacy": "privacy: budgets and noise",
    "geography": "geography: spines",
    "core": "core: the algorithm",
    "estimation": "estimation: families",
    "evaluation": "evaluation: errors of estimates",
    "errors": "errors: the exceptions",
    **{
        f"features.{folder}": f"features.{folder}"
        for folder in (*features.STANDING.values(), *features.FEATURES)
        if hasattr(importlib.import_module(f"das_spark.features.{folder}"), "__all__")
    },
}


_ERRORS: Final = """\
# Errors

Every error that das_spark raises on purpose has a code, says what was found and where, and has a hint where there is
something to do about it: `das-spark: error: [DAS100] ... Hint: ...`. No message holds a confidential value. In Python
they are exceptions of [`das_spark.errors`](python/errors.md), all of which are a `DasError`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the run failed |
| 2 | usage or configuration |
| 3 | refused by a guard of the privacy guarantee |
| 129, 130, 143 | interrupted by SIGHUP (a closed terminal), Ctrl-C, SIGTERM (a scheduler) |

| code | error | exit code | meaning |
|---|---|---|---|
"""
_LICENCES: Final = """\
# Licences of what it needs

das_spark is licensed under the [Apache License 2.0](../LICENSE.md). It contains no census data: populations that it
simulates are made up, and files that it reads are yours, under the terms of whoever published them.

The packages that it needs, as `conf/environment.lock` has them, under the licences that they state:

| package | version | licence |
|---|---|---|
"""


def pages() -> dict[str, str]:
    """Place of each page -> its Markdown."""
    made = {f"reference/python/{name}.md": python_page(name) for name in MODULES}
    return made | {
        "reference/commands.md": commands_page(),
        "reference/errors.md": errors_page(),
        "reference/licences.md": licences_page(),
    }


def interface(name: str) -> list[str]:
    """Names of the classes and functions that a module offers, in the order of its `__all__` or of its text."""
    module = importlib.import_module("das_spark" if name == "das_spark" else f"das_spark.{name}")
    offered = getattr(module, "__all__", None)
    if offered is None:
        own = {each for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        offered = [each for each in vars(module) if each in own and not each.startswith("_")]
    return [each for each in offered if inspect.isclass(value := getattr(module, each)) or inspect.isfunction(value)]


def python_page(name: str) -> str:
    """The page of a module: what it says of itself, and its interface."""
    module = "das_spark" if name == "das_spark" else f"das_spark.{name}"
    words = inspect.getdoc(importlib.import_module(module)) or ""
    members = "\n\n".join(f"::: {module}.{each}" for each in interface(name))
    return f"# {module}\n\n{words}\n\n{members}\n"


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` says it."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="das-spark")
    text = text.replace("# `das-spark`\n", "# Commands\n", 1)
    # Words such as <path> are no HTML; in code they stand as they are.
    return re.sub(r"(`[^`]*`)|<(?=\w)", lambda found: found[1] or "&lt;", text)


def tree_of_errors() -> list[type[errors.DasError]]:
    """All kinds of errors by their codes."""
    found = [errors.DasError]
    for kind in found:
        found += kind.__subclasses__()
    return sorted((each for each in found if each.__module__ == errors.__name__), key=lambda each: each.code)


def raised() -> Iterator[tuple[str, str, str]]:
    """Kind, message and hint of every error that the package raises with a hint; "…" is what differs each time."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef):
                texts = {name: value for node in ast.walk(scope) for name, value in _assigned(node)}
                yield from (found for node in ast.walk(scope) if (found := _raised(node, texts)))


def _assigned(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (text := _text(node.value, {})):
        yield node.targets[0].id, text


def _raised(node: ast.AST, texts: dict[str, str]) -> tuple[str, str, str] | None:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")):
        return None
    hints = [_text(each.value, texts) for each in node.keywords if each.arg == "hint"]
    message = _text(node.args[0], texts) if node.args else ""
    return (node.func.id, message, hints[0]) if hints and hints[0] and message else None


def _text(node: ast.expr, texts: dict[str, str]) -> str:
    """What an expression says, as far as it is written there."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return texts.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, texts) if isinstance(each, ast.Constant) else "…" for each in node.values)
    return ""


def errors_page() -> str:
    """Codes, exit codes and what to do."""
    lines = _ERRORS.splitlines()
    kinds = tree_of_errors()
    for kind in kinds:
        words = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        lines.append(f"| [{kind.code}](#{kind.code.lower()}) | `{kind.__name__}` | {kind.exit_code} | {words} |")
    found = sorted(set(raised()))
    lines += [
        "",
        "Below, for each code, messages and their hints as they stand in the code; … differs from case to case.",
    ]
    for kind in kinds:
        own = [(message, hint) for name, message, hint in found if name == kind.__name__]
        lines += ["", f"## {kind.code}", "", f"`{kind.__name__}`, exit code {kind.exit_code}."]
        if own:
            lines += ["", "| message | hint |", "|---|---|"]
            lines += [f"| {_cell(message)} | {_cell(hint)} |" for message, hint in own]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text as it stands, in a cell of a table."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text.replace("\n", " "))


def licences_page() -> str:
    """What das_spark and the packages of conf/environment.lock are licensed under."""
    lines = _LICENCES.splitlines()
    lock = (ROOT / "conf" / "environment.lock").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([\w-]+)==(\S+)", lock, flags=re.MULTILINE):
        lines.append(f"| {name} | {version} | {_cell(_licence(name))} |")
    return "\n".join(lines) + "\n"


def _licence(package: str) -> str:
    metadata = importlib.metadata.metadata(package)
    stated = metadata.get("License-Expression")
    if stated is None:
        classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
        stated = ", ".join(each.split(" :: ")[-1] for each in classifiers) or metadata.get("License") or "not stated"
    return stated.strip().splitlines()[0]
