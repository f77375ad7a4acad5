"""Rules that no other tool checks: registration, packages without Spark, and nothing of one machine in any text.

Import layers are checked by lint-imports. Each rule is a function, so that a planted fault can show that it works.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from das_spark.config.features import feature_settings
from das_spark.features import FEATURES, STANDING

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "das_spark"

# Where a module must be named in a mapping, one line each: package, and the names of its mappings.
REGISTRIES = {
    "das_spark.products": "PRODUCTS",
    "das_spark.spark.readers": "READERS GEOGRAPHY_READERS",
    "das_spark.estimation.solvers": "SOLVERS",
    "das_spark.core.estimators": "ESTIMATORS",
}
UNREGISTERED = {"base"}  # what the others in such a package share; so may modules whose name begins with "_"

PURE_PACKAGES = [
    "histogram",
    "report",
    "privacy",
    "geography",
    "constraints",
    "estimation",
    "core",
    "audit",
    "evaluation",
    "tabulation",
    "products",
    "simulation",
    "config",
    "store",
    "verification",
]
BLOCKED = ["pyspark", "py4j", "pandas", "typer", "rich"]

# What only spark/ may do: methods of DataFrames and their readers and writers that nothing else has.
DATAFRAME_METHODS = {
    *(
        "select",
        "where",
        "groupBy",
        "withColumn",
        "withColumns",
        "withColumnRenamed",
        "unionByName",
        "orderBy",
        "limit",
    ),
    *(
        "distinct",
        "dropDuplicates",
        "mapInArrow",
        "repartition",
        "repartitionById",
        "sortWithinPartitions",
        "crossJoin",
    ),
    *("collect", "toArrow", "toPandas", "isEmpty", "persist", "createDataFrame", "parquet", "partitionBy", "sql"),
}

# What stands for the folders of a run.
ROOTS = {"layout", "public", "restricted"}

# Home folders, and where the project is worked on; written so that this file does not break its own rule.
MACHINE_PATHS = re.compile(
    r"(?<![\w.-])/(?:work|home|Users|root)/\w|\bwork/(?:main|shared)\b|\.\./shared\b|\.librar[y]\b|/tmp/(?:plan|bash_jobs)"
)
NOT_OURS = {"runs", "build", "dist", "__pycache__", "spark-warehouse", "metastore_db"}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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


def dataframe_code(source: str) -> list[str]:
    """Imports of pyspark that are not for types alone, and calls of methods of DataFrames."""
    tree = ast.parse(source)
    for_types = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            # Columns, windows and types of columns are nothing that a stage need name.
            named = {name.name for name in node.names} <= {"DataFrame", "SparkContext", "SparkSession"}
            if any(module.split(".")[0] == "pyspark" for module in modules) and not (id(node) in for_types and named):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
            if node.func.attr in DATAFRAME_METHODS and not of_numpy:
                found.append(f".{node.func.attr}() in line {node.lineno}")
    return found


def joins_below_roots(source: str) -> list[str]:
    """Paths that are made by joining a name to a root of a run, or to what its layout names."""
    joins = (
        each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)
    )
    return [ast.unparse(join) for join in joins if ROOTS & set(names_of(join.left))]


def names_of(node: ast.expr) -> Iterator[str]:
    """Names on the way to a value: layout, public and table of `layout.public.table("bounds")`."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        node = node.value if isinstance(node, ast.Attribute) else node.func
    if isinstance(node, ast.Name):
        yield node.id


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


def test_every_module_of_a_registry_is_registered():
    for package, mapping in REGISTRIES.items():
        mappings = (getattr(importlib.import_module(package), name) for name in mapping.split())
        registry = {name: value for mapping in mappings for name, value in mapping.items()}
        modules = registrable_modules(package)
        assert modules, f"{package} holds no module to register"
        assert [name for name in modules if not is_registered(name, registry)] == []


def test_every_feature_is_registered_and_has_settings_of_its_name():
    folders = {path.parent.name for path in (PACKAGE / "features").glob("*/__init__.py")}
    assert folders == {*FEATURES, *STANDING.values()}
    assert set(FEATURES) == set(feature_settings())


def test_pure_packages_work_without_spark_and_the_command_line():
    program = (
        "import importlib, pkgutil, sys\n"
        f"sys.modules.update(dict.fromkeys({BLOCKED!r}))\n"
        f"for name in {PURE_PACKAGES!r}:\n"
        "    package = importlib.import_module('das_spark.' + name)\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_stages_hold_no_dataframe_code():
    modules = sorted((PACKAGE / "pipeline").rglob("*.py"))
    assert {path.name: code for path in modules if (code := dataframe_code(path.read_text(encoding="utf-8")))} == {}


def test_the_rule_of_stages_finds_planted_dataframe_code_and_forgives_types():
    assert dataframe_code("from pyspark.sql import functions as F") == ["from pyspark.sql import functions as F"]
    assert dataframe_code("rows = frame.where('a = 1').limit(2).collect()") == [
        ".collect() in line 1",
        ".limit() in line 1",
        ".where() in line 1",
    ]
    types = "if TYPE_CHECKING:\n    from pyspark.sql import {}\n"
    assert dataframe_code(types.format("DataFrame, SparkSession")) == []
    assert dataframe_code(types.format("Column")) == ["from pyspark.sql import Column"]
    assert (
        dataframe_code("rows = read_levels(spark, layout, 'bounds', levels)\nname = ', '.join(np.where(a, b, c))") == []
    )


def test_only_the_store_knows_where_the_files_of_a_run_lie():
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE / "store"]
    found = {named(path): joins for path in modules if (joins := joins_below_roots(path.read_text(encoding="utf-8")))}
    assert found == {}


def test_the_rule_of_the_store_finds_planted_paths_and_forgives_staging():
    planted = ["layout.path / 'rows'", "run.public.path / name", "context.layout.public.table('bounds') / 'x'"]
    assert [joins_below_roots(each) for each in planted] == [[each] for each in planted]
    assert joins_below_roots("staging_of(layout, layout.public) / 'leaves'") == []
    assert joins_below_roots("staging / table") == []


def test_no_text_names_a_folder_of_one_machine():
    # .ci/run alone says where the continuous integration keeps its data.
    found = {named(path): places for path, text in project_texts() if (places := machine_paths(text))}
    assert set(found) - {".ci/run"} == set()


def test_the_rule_of_paths_finds_planted_folders_and_forgives_addresses():
    home, work = "/ho" + "me/somebody/file", "/wo" + "rk/data"
    assert len(machine_paths(f"{home} and {work}")) == 2
    assert machine_paths("https://example.org/home/page, public/root, network/main, s3a://bucket/work/run") == []


def test_the_rule_of_registration_finds_a_module_that_only_imports_what_is_registered():
    assert is_registered(
        "das_spark.histogram.schema", {"schema": importlib.import_module("das_spark.histogram").Schema}
    )
    separator = importlib.import_module("das_spark.histogram").SEPARATOR
    assert is_registered("das_spark.histogram.schema", {"separator": separator})
    assert not is_registered("das_spark.constraints.declared", {"separator": separator})


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
