"""What a scheduler has to know of a run file to draw its tasks: its name and its stages. Standard library only.

A DAG file is read again every few seconds, on machines that need not have das_spark. So this reads the run file
itself, and `levels.json` beside it for what a run file leaves to its product. That it says what `das-spark plan
stages` says is tested for every run file of the project; the first task of a DAG compares both again.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Levels and tables by product; `tests/airflow/test_run_file.py` says how it is made.
PRODUCTS = Path(__file__).resolve().parent / "levels.json"
#: Estimator -> the levels of its pass upwards: all but the lowest, which only all rows bring in, or all.
UPWARD = {"blue_down": "inner"}
#: Ending of a product file.
PRODUCT_FILE = ".toml"
#: Levels of a spine with primitive geounits, between the county and block groups.
PRIMITIVE = ("Prim", "Tract_Subset_Group", "Tract_Subset")
#: Taking the counts that another product has published.
PUBLISHED = "published counts"
PREPARING = ("spine", "ingest", PUBLISHED)


@dataclass(frozen=True)
class RunFile:
    """What is known of a run file.

    Attributes:
        path: The file.
        name: `run.name`, or the name of its product.
        stages: Names of its stages, in order, as `das-spark run --until` takes them.
    """

    path: Path
    name: str
    stages: tuple[str, ...]


def read_run_file(path: Path) -> RunFile:
    """Read a run file, or that of a joint run with those of its parts.

    Args:
        path: The file.

    Raises:
        OSError: A file is not there.
        ValueError: It is no run file, or of an unknown product.
    """
    tables = _read(path)
    run = tables.get("run", {})
    if "parts" not in run:
        return RunFile(path, run.get("name") or str(run.get("product")), _stages(tables, path)[1])
    shared = {key: table for key, table in tables.items() if key != "run"}
    files = [_merged(_read(path.parent / part), shared) for part in run["parts"]]
    # Every part reads its input before any part draws; what an earlier part publishes is there only when that is done.
    first, later, before = [], [], set()
    for tables in files:
        record, stages = _stages(tables, path)
        product = _product(tables, path)
        awaited = product["published"] in before
        for stage in stages:
            prepares = stage in PREPARING and not (stage == PUBLISHED and awaited)
            (first if prepares else later).append(f"{record}: {stage}")
        before.add(tables["run"]["product"])
    return RunFile(path, str(run.get("name")), (*first, *later))


def task_id(stage: str) -> str:
    """The stage as the name of a task: letters, digits and `_`."""
    return re.sub(r"\W+", "_", stage)


def _read(path: Path) -> dict[str, Any]:
    """The tables of a file; a product file that it names lies where it says, seen from the file itself."""
    with path.open("rb") as file:
        tables = tomllib.load(file)
    run = tables.get("run")
    if isinstance(run, dict) and str(run.get("product")).endswith(PRODUCT_FILE):
        run["product"] = str(path.parent / run["product"])
    return tables


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One file laid over another, table by table."""
    result = dict(below)
    for key, value in above.items():
        inner = result.get(key)
        result[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _stages(tables: Mapping[str, Any], path: Path) -> tuple[str, tuple[str, ...]]:
    """What a run counts, and its stages in order."""
    product = _product(tables, path)
    geography = tables.get("geography", {})
    of_areas = geography.get("spine", "census") != "census"
    stages = [
        *(["spine"] if of_areas else []),
        "ingest",
        *([PUBLISHED] if product["published"] else []),
        *_of_levels(_levels(product, tables), tables),
        *(["census geounits"] if of_areas else []),
        "microdata",
        *(["tabulate"] if tables.get("output", {}).get("tables", product["tables"]) else []),
        *(kind for kind in ("intervals", "replicates") if kind in tables.get("output", {})),
        "verify",
        *(["evaluate"] if tables.get("evaluation", {}).get("enabled", True) else []),
    ]
    return product["record"], tuple(stages)


def _product(tables: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """What `levels.json` says of the product of a run, or the same of a product that stands in a file."""
    name = tables.get("run", {}).get("product")
    if str(name).endswith(PRODUCT_FILE):
        return _of_file(_read(Path(name)))
    products = json.loads(PRODUCTS.read_text(encoding="utf-8"))
    if name not in products:
        known = f"known: {', '.join(products)}, and product files ({PRODUCT_FILE})"
        raise ValueError(f"{path}: run.product {name!r} is unknown; {known}")
    found: Mapping[str, Any] = products[name]
    return found


def _of_file(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a product file says of levels and tables."""
    levels = [level["name"] for level in data["geolevels"]]
    above = levels[: levels.index("County") + 1] if "County" in levels else []
    below = [name for name in levels if name in {"Block_Group", "Block"}]
    return {
        "record": data.get("record", "person"),
        "tables": bool(data.get("tables")),
        "published": data.get("published", {}).get("product", ""),
        "levels": data.get("default_levels", levels),
        "dhc": [*above, *PRIMITIVE, *below],
        "strategies": {each["name"]: list(each["geolevels"]) for each in data["strategies"]},
    }


def _of_levels(levels: list[str], tables: Mapping[str, Any]) -> list[str]:
    """Stages of geolevels: those of a pass upwards come first, then each is measured, unless it is, and estimated."""
    upward = UPWARD.get(tables.get("estimation", {}).get("estimator", ""), "none")
    every = upward == "all" or (upward == "inner" and tables.get("measurement", {}).get("rows") == "all")
    first = [] if upward == "none" else levels if every else levels[:-1]
    stages = [f"measure {level}" for level in first] + [f"upward {level}" for level in reversed(first)]
    for level in levels:
        stages += [*([] if level in first else [f"measure {level}"]), f"estimate {level}"]
    return stages


def _levels(product: Mapping[str, Any], tables: Mapping[str, Any]) -> list[str]:
    """Those of the run file; else those of its kind of spine, its strategy or its product."""
    geography = tables.get("geography", {})
    if geography.get("levels"):
        return list(geography["levels"])
    strategy = tables.get("budget", {}).get("strategy")
    usual = product["strategies"].get(strategy, product["levels"])
    if geography.get("spine") == "dhc" and not set(usual) <= set(product["dhc"]):
        return list(product["dhc"])
    return list(usual)
