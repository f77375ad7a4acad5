"""No error text of a library gets out of a task: wherever Python workers are given rows, by one wrapper."""

from __future__ import annotations

import ast
import errno
import pickle
import traceback
from pathlib import Path

import pytest

import das_spark
from das_spark.errors import DasError, EstimationError, TaskError, error_text_withheld, without_values
from das_spark.places import want_of_room

PACKAGE = Path(das_spark.__file__).parent
#: What gives rows to Python workers; all but the first are used nowhere.
WITH_WORKERS = {
    "mapInArrow",
    "mapInPandas",
    "applyInArrow",
    "applyInPandas",
    "mapPartitions",
    "mapPartitionsWithIndex",
    "foreachPartition",
    "foreachBatch",
    "toLocalIterator",
    "flatMap",
    "rdd",
    "udf",
    "udtf",
    "pandas_udf",
    "arrow_udf",
    "transformWithState",
}


def unguarded(source: str) -> list[int]:
    """Lines that give rows to Python workers by something else than `mapInArrow(without_values(...), ...)`."""
    tree, found = ast.parse(source), []
    # A function may have a name of its own, given to it once.
    guarded = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_guarded(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    allowed = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node.func) == "mapInArrow" and is_guarded(node.args[0], guarded)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and name_of(node) in WITH_WORKERS and id(node) not in allowed:
            found.append(node.lineno)
    return sorted(found)


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_guarded(node: ast.expr, guarded: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in guarded
    return isinstance(node, ast.Call) and name_of(node.func) == "without_values"


def test_every_function_that_workers_are_given_holds_back_the_text_of_errors():
    calls = {path: unguarded(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {path.name: lines for path, lines in calls.items() if lines} == {}
    assert {path.name for path in calls if "mapInArrow(" in path.read_text()} == {"engine.py"}
    assert sum(path.read_text().count("_tasks(") for path in calls) >= 20


def test_the_rule_finds_planted_calls():
    planted = "a.mapInArrow(f, s)\nb.mapInPandas(g, s)\nc.rdd.map(h)\nF.udf(i)\nd.applyInArrow(without_values(f), s)\n"
    assert unguarded(planted) == [1, 2, 3, 4, 5]
    assert unguarded("a.mapInArrow(without_values(f), s)\ntask = without_values(g)\nb.mapInArrow(task, s)\n") == []


def fails(rows):
    yield from rows
    raise ValueError("31337 people")


def refuses(rows):
    yield from rows
    raise EstimationError("no solution")


def test_an_error_gets_out_with_kind_and_place_alone():
    rows = without_values(fails)(iter([1, 2]))
    assert [next(rows), next(rows)] == [1, 2]
    with pytest.raises(TaskError, match=r"^\[DAS310\] ValueError in test_withheld\.py, line \d+$") as caught:
        next(rows)
    assert "31337" not in "".join(traceback.format_exception(caught.value))


def test_an_error_of_ours_gets_out_as_it_is():
    with pytest.raises(EstimationError, match="no solution"):
        list(without_values(refuses)(iter(())))


def test_a_task_travels_to_its_workers():
    assert list(pickle.loads(pickle.dumps(without_values(iter)))([1])) == [1]


def test_a_full_disk_is_still_known_as_one():
    with pytest.raises(DasError) as caught, error_text_withheld():
        raise OSError(errno.ENOSPC, "cannot append 31337 rows")
    assert want_of_room(RuntimeError(str(caught.value)))
    assert "31337" not in str(caught.value)


@pytest.mark.spark
def test_what_a_task_of_spark_raises_holds_no_value(spark):
    def quotes(batches):
        for batch in batches:
            raise ValueError(f"value {batch.column('id')[0]}")
        yield

    with pytest.raises(Exception, match="TaskError") as caught:
        spark.range(31337, 31338, 1, 1).mapInArrow(without_values(quotes), "id long").collect()
    assert "31337" not in str(caught.value)
