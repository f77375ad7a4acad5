"""A product of very many cells, made from data, through a whole run with verification: a state of twenty blocks.

`python many_cells_run.py KINDS FOLDER` prints as JSON the cells of the schema (29,232 a kind), the checks that
failed, and the most memory that the driver, any Python worker and the JVM had, in bytes. It runs in a
process of its own because the peak of a process counts all that it ever did.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.config import load_plan
from das_spark.pipeline import run_stages
from das_spark.products import product_from, register

STATE, BLOCKS, GROUPS = "01", 20, 6
MEASURED = ("total", "kind", "kind * sex", "sex * age", "hispanic * race", "detailed")
RUN_FILE = """
config_version = 1
[run]
name = "many"
product = "many"
[input]
reader = "tidy_counts"
dataset = "many"
path = "{census}"
[output]
root = "{root}"
microdata = ["parquet", "text"]
[budget]
strategy = "many"
[evaluation]
enabled = false
"""


def product(kinds: int) -> dict:
    """Persons by relationship, sex, age, ethnicity and race; the last six kinds live in group quarters."""
    sizes = {"kind": kinds, "sex": 2, "age": 116, "hispanic": 2, "race": 63}
    attributes = [{"name": name, "levels": [f"{name}{i}" for i in range(size)]} for name, size in sizes.items()]
    quarters = [[kind] for kind in range(kinds - GROUPS, kinds)]
    homes = {
        "household": list(range(kinds - GROUPS)),
        **{f"quarters{i}": quarter for i, quarter in enumerate(quarters)},
    }
    attributes[0]["recodes"] = [{"name": "home", "groups": homes}]
    attributes[2]["recodes"] = [{"name": "adult", "groups": {"minor": list(range(18)), "adult": list(range(18, 116))}}]
    classes = GROUPS + 1
    place = [
        {"name": "STATE", "source": "geocode[0:2]", "type": "CHAR2"},
        {"name": "BLOCK", "source": "geocode[2:6]", "type": "CHAR4"},
        {"name": "UNIT", "source": "unit_number", "type": "INT9"},
    ]
    codes = {name: ",".join(f"{i:03d}" for i in range(size)) for name, size in sizes.items()}
    # The kind itself is no column: only the unit tells the kinds of group quarters apart.
    person = [
        {"name": name.upper(), "source": f"recode:{name}:{codes[name]}", "type": "CHAR3"} for name in list(codes)[1:]
    ]
    numbered = [
        {"name": "PERSON", "source": "person_number", "type": "INT5"},
        {"name": "HOME", "source": "record_type"},
    ]
    unit = [
        {"name": "KIND", "source": f"recode:unit_class:{','.join(map(str, range(classes + 1)))}", "type": "CHAR1"},
        {"name": "POPULATION", "source": "population", "type": "INT5"},
    ]
    file_codes = {name: {"name": name, "levels": [str(i) for i in range(size)]} for name, size in sizes.items()}
    passes = [
        {"least_squares": [["kind"]], "rounding": [["kind"]]},
        {"least_squares": [["detailed", "kind * sex"]], "rounding": [["detailed"]]},
    ]
    lines = [{"depth": 0, "label": "Total", "levels": {}}]
    for sex in range(2):
        lines.append({"depth": 1, "label": f"sex {sex}", "levels": {"sex": [sex]}})
        lines += [{"depth": 2, "label": f"{age}", "levels": {"sex": [sex], "age": [age]}} for age in range(116)]
    return {
        "name": "many",
        "title": "Persons in very many cells",
        "default_levels": ["State", "Block"],
        "unit_classes": list(homes),
        "class_query": "home",
        "strata": "hispanic * race",
        "total_at": "State",
        "geolevels": [{"name": "State", "length": 2}, {"name": "Block", "length": 6}],
        "unit_bounds": {"least": [0] * classes, "most": [99999] * classes, "cap_when_total_known": False},
        "structural_zeros": [
            {"name": "no_young_heads", "selection": {"kind": [0], "age": list(range(15))}, "meaning": "none below 15"}
        ],
        "attributes": attributes,
        "strategies": [
            {
                "name": "many",
                "title": "Two levels alike",
                "framework": "zcdp",
                "total": "1",
                "geolevels": {"State": "1/2", "Block": "1/2"},
                "queries": dict.fromkeys(MEASURED, "1/6"),
                "passes": {"Block": passes},
            }
        ],
        "file_recodes": {
            "tidy_counts": {
                "unit_class": {"name": "home", "levels": [str(each) for each in range(classes)]},
                "attributes": file_codes,
            }
        },
        "tables": [{"name": "T1", "title": "Sex by age", "universe": "All", "prefix": "T001", "lines": lines}],
        "microdata": {"name": "many", "header": "beside", "person": place + numbered + person, "unit": place + unit},
    }


def write_census(folder: Path, kinds: int) -> None:
    """20 to 200 people a block; none of the first kind is younger than 15."""
    generator = np.random.default_rng(5)
    persons: list[tuple] = []
    units: list[tuple] = []
    for block in range(BLOCKS):
        geocode = f"{STATE}{block:04d}"
        people = Counter(
            (int(generator.integers(kinds)), *(int(generator.integers(size)) for size in (2, 116, 2, 63)))
            for _ in range(int(generator.integers(20, 200)))
        )
        counts: Counter[int] = Counter()
        for (kind, sex, age, *rest), count in people.items():
            persons.append((geocode, kind, sex, max(age, 15) if kind == 0 else age, *rest, count))
            counts[max(0, kind - (kinds - GROUPS) + 1)] += count
        units += [(geocode, home, max(1, number // 2)) for home, number in sorted(counts.items())]
    folder.mkdir()
    names = ("geocode", "kind", "sex", "age", "hispanic", "race", "count")
    pq.write_table(pa.table(dict(zip(names, zip(*persons, strict=True), strict=True))), folder / "persons.parquet")
    columns = dict(zip(("geocode", "home", "units"), zip(*units, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "units.parquet")


class Peaks(threading.Thread):
    """The most memory of every process below this one, by what it runs; looked at all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: dict[int, tuple[str, int]] = {}

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(0.2)

    def look(self) -> None:
        waiting = [os.getpid()]
        while waiting:
            process = waiting.pop()
            folder = Path(f"/proc/{process}")
            try:
                status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                waiting += [int(each) for file in folder.glob("task/*/children") for each in file.read_text().split()]
            except OSError:
                continue  # it has ended meanwhile
            if "VmHWM" in status:
                name = "driver" if process == os.getpid() else "jvm" if status["Name"].strip() == "java" else "worker"
                self.found[process] = (name, int(status["VmHWM"].split()[0]) * 1024)

    def most(self) -> dict[str, int]:
        """Bytes by what a process is."""
        self.look()
        found = list(self.found.values())
        return {kind: max(peak for name, peak in found if name == kind) for kind in ("driver", "worker", "jvm")}


def main(kinds: int, folder: Path) -> None:
    """Run, and print what was found."""
    peaks = Peaks()
    peaks.start()
    made = product_from(product(kinds))
    register(made)
    write_census(folder / "census", kinds)
    run_file = folder / "run.toml"
    run_file.write_text(RUN_FILE.format(census=folder / "census", root=folder / "runs"))
    run = run_stages(load_plan(run_file), run_id="many", test_key="many")
    report = json.loads(run.layout.public.verification.read_text())
    found = {
        "cells": made.schema.size,
        "checks": len(report["checks"]),
        "failed": [check for check in report["checks"] if not check["passed"]],
        **peaks.most(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
