"""The rules of the house, checked on the text of the project itself.

Each rule is a function from source text to the places that break it, so that a planted fault can show that it works.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "das_spark"

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "misc"}

# Where a module must be named in a mapping, one line each: package, and the name of its mapping.
REGISTRIES = {
    "das_spark.products": "PRODUCTS",
    "das_spark.io.readers": "READERS",
    "das_spark.io.geography": "GEOGRAPHY_READERS",
    "das_spark.io.writers": "WRITERS",
    "das_spark.estimation.solvers": "SOLVERS",
    "das_spark.core.estimators": "ESTIMATORS",
}
UNREGISTERED = {"base"}  # what the others in such a package share; so may modules whose name begins with "_"

PURE_ROOMS = [
    "histogram",
    "report",
    "privacy",
    "geography",
    "constraints",
    "estimation",
    "core",
    "evaluation",
    "tabulation",
    "products",
    "simulation",
    "config",
    "store",
]
BLOCKED = ["pyspark", "py4j", "pandas", "typer", "rich"]

# A hint goes on from its message, so that it begins small. These words are names, and keep their capital.
CAPITALS_OF_HINTS = {"CSV", "DAS_SPARK_DATA", "GRF-C", "Java", "Parquet", "Spark", "TOML"}

# Home folders, and where the project is worked on; written so that this file does not break its own rule.
MACHINE_PATHS = re.compile(
    r"(?<![\w.-])/(?:work|home|Users|root)/\w|\bwork/(?:main|shared)\b|\.\./shared\b|\.librar[y]\b|/tmp/(?:plan|bash_jobs)"
)
NOT_OURS = {"runs", "build", "dist", "__pycache__", "spark-warehouse", "metastore_db"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

MODULES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prints(source: str) -> list[int]:
    """Lines that call print; text and comments that mention it do not count."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def undocumented(source: str) -> list[str]:
    """The module itself, public classes, public functions, and public methods of public classes without docstring."""
    tree = ast.parse(source)
    found = [] if ast.get_docstring(tree) else ["the module"]
    return found + [name for name, node in public_definitions(tree.body, "") if ast.get_docstring(node) is None]


def public_definitions(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, FunctionNode | ast.ClassDef]]:
    for node in body:
        if not isinstance(node, FunctionNode | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not any(is_overload(decorator) for decorator in node.decorator_list):
            yield owner + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body, f"{owner}{node.name}.")


def is_overload(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "overload"


def hints_with_a_capital(source: str) -> list[str]:
    """Hints of errors that begin with a capital letter: given as `hint=`, or by way of a variable that is."""
    tree = ast.parse(source)
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "hint"]
    variables = {node.id for value in given for node in ast.walk(value) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            given += [node.value for target in targets if isinstance(target, ast.Name) and target.id in variables]
    return [text for value in given for text in beginnings(value) if has_wrong_capital(text)]


def beginnings(value: ast.expr) -> Iterator[str]:
    """The texts with which an expression can begin; a guess that may be empty does not count as the beginning."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield from (str(part.value) for part in parts[:2] if isinstance(part, ast.Constant))
        case ast.BinOp(left=left):
            yield from beginnings(left)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*beginnings(body), *beginnings(orelse))
        case ast.BoolOp(values=choices):
            yield from (text for each in choices for text in beginnings(each))


def has_wrong_capital(text: str) -> bool:
    return text[:1].isupper() and re.split(r"[\s:;,.]", text, maxsplit=1)[0] not in CAPITALS_OF_HINTS


def machine_paths(text: str) -> list[str]:
    return [match.group() for match in MACHINE_PATHS.finditer(text)]


def assigned_names(source: str) -> set[str]:
    """Names that a module makes at its top level, as opposed to those that it imports."""
    targets = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return {target.id for target in targets if isinstance(target, ast.Name)}


def is_registered(module_name: str, registry: Mapping[str, object]) -> bool:
    """Whether a value of the registry is defined in the module: its class or function, or a constant made there."""
    if any(getattr(value, "__module__", None) == module_name for value in registry.values()):
        return True
    module = importlib.import_module(module_name)
    assert module.__file__ is not None
    made_here = assigned_names(Path(module.__file__).read_text(encoding="utf-8"))
    return any(getattr(module, name, None) is value for name in made_here for value in registry.values())


def registrable_modules(package_name: str) -> list[str]:
    """Modules and packages that lie directly in a package, without the shared base and private ones."""
    folder = ROOT.joinpath(*package_name.split("."))
    names = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    return sorted(f"{package_name}.{name}" for name in names if name not in UNREGISTERED and not name.startswith("_"))


def project_texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project, without run outputs, caches and environments."""
    for folder, subfolders, files in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if is_ours(name)]
        for name in files:
            if name == ".git":  # of a worktree: where git keeps the rest, on this machine
                continue
            path = Path(folder, name)
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def is_ours(folder: str) -> bool:
    hidden = folder.startswith(".") and folder not in {".ci", ".github"}
    made_by_runs = folder in NOT_OURS or folder.startswith("population") or folder.endswith(".egg-info")
    return not hidden and not made_by_runs


@pytest.mark.parametrize("path", [path for path in MODULES if PACKAGE / "cli" not in path.parents], ids=named)
def test_only_the_command_line_prints(path):
    assert prints(path.read_text(encoding="utf-8")) == []


def test_nothing_is_called_by_a_name_that_says_nothing():
    parts = {named(path): set(path.relative_to(PACKAGE).with_suffix("").parts) for path in MODULES}
    assert [name for name, words in parts.items() if words & FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_everything_public_is_documented(path):
    assert undocumented(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_hints_begin_with_a_small_letter(path):
    assert hints_with_a_capital(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(("package", "mapping"), REGISTRIES.items(), ids=REGISTRIES)
def test_every_module_of_a_registry_is_registered(package, mapping):
    registry = getattr(importlib.import_module(package), mapping)
    modules = registrable_modules(package)
    assert modules, f"{package} holds no module to register"
    assert [name for name in modules if not is_registered(name, registry)] == []


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_pure_rooms_work_without_spark_and_the_command_line(room):
    program = (
        "import importlib, pkgutil, sys\n"
        f"sys.modules.update(dict.fromkeys({BLOCKED!r}))\n"
        f"package = importlib.import_module('das_spark.{room}')\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_no_text_names_a_folder_of_one_machine():
    # .ci/run alone says where the continuous integration keeps its data.
    found = {named(path): places for path, text in project_texts() if (places := machine_paths(text))}
    assert set(found) - {".ci/run"} == set()


def test_the_rule_of_printing_finds_a_planted_call_only():
    assert prints('"""print(1)"""\n# print(2)\nprint(3)\nlog.print(4)\n') == [3]


def test_the_rule_of_documentation_finds_planted_gaps():
    source = "class A:\n    def b(self): ...\n    def _c(self): ...\nclass _D:\n    def e(self): ...\ndef f(): ...\n"
    assert undocumented(source) == ["the module", "A", "A.b", "f"]


def test_the_rule_of_hints_finds_planted_capitals_and_forgives_names():
    source = (
        'again = "Build it" if new else f"Make {it}"\n'
        'title = "A title"\n'
        'A(hint=again, title=title), A(hint=f"{guess}The file"), A(hint=guess or "Choose" + name)\n'
        'A(hint="Spark needs Java"), A(hint="CSV: name it"), A(hint="finish it. Then go on"), A(hint=f"{x} The rest")\n'
    )
    assert sorted(hints_with_a_capital(source)) == ["Build it", "Choose", "Make ", "The file"]


def test_the_rule_of_paths_finds_planted_folders_and_forgives_addresses():
    home, work = "/ho" + "me/somebody/file", "/wo" + "rk/data"
    assert len(machine_paths(f"{home} and {work}")) == 2
    assert machine_paths("https://example.org/home/page, public/root, network/main, s3a://bucket/work/run") == []


def test_the_rule_of_registration_finds_a_module_that_only_imports_what_is_registered():
    assert is_registered(
        "das_spark.histogram.schema", {"schema": importlib.import_module("das_spark.histogram").Schema}
    )
    separator = importlib.import_module("das_spark.histogram.parser").SEPARATOR
    assert is_registered("das_spark.histogram.parser", {"separator": separator})
    assert not is_registered("das_spark.histogram.schema", {"separator": separator})


def modules_of_one_name(paths: list[Path]) -> list[str]:
    """Modules that tests import by their bare name, where two folders hold one of that name: the first one wins."""
    shared = [path for path in paths if not path.name.startswith("test_") and path.name != "conftest.py"]
    return sorted({path.name for path in shared if sum(path.name == other.name for other in shared) > 1})


def test_no_two_folders_of_tests_share_a_module_name():
    ours = [path for path in sorted((ROOT / "tests").rglob("*.py")) if ".venv" not in path.parts]
    assert modules_of_one_name(ours) == []
    assert modules_of_one_name([Path("a/made.py"), Path("b/made.py"), Path("a/test_x.py"), Path("b/test_x.py")]) == [
        "made.py"
    ]
