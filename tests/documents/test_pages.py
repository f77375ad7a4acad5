"""No document shows a command that no test runs."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from documents import carrying_out, test_run_files, test_worked_examples
from documents.pages import blocks, documents, plain_commands

ROOT = Path(__file__).parents[2]
_SITE = "tests/docs/test_site.py::test_every_page_of_the_repository_and_of_the_contents_is_there"
_TUTORIAL = "tests/docs/test_site.py::test_a_tutorial_was_carried_out_and_shows_its_results"
#: Pages whose commands other tests carry out: page -> test.
ELSEWHERE = {
    "jobs/docs/README.md": _SITE,
    "jobs/docs/tutorials/choose_a_budget.md": _TUTORIAL,
    "jobs/docs/tutorials/measurements_and_intervals.md": _TUTORIAL,
    "jobs/docs/tutorials/protect_a_census.md": _TUTORIAL,
}
_SERVER = "tests/pipeline/test_history_server.py::test_the_server_lists_the_application_and_its_stages"
_CLUSTER = "tests/cluster/test_the_manual.py::test_the_page_is_followed_line_by_line"
_SCHEDULER = "tests/airflow/with_airflow/test_quickstart.py::test_the_cleared_dag_run_succeeds_as_the_same_run"
#: Pages whose commands stand in plain text, for they need more than a checkout -> a test that has it.
WITH_MORE = {
    "das_spark/store/README.md": _SERVER,
    "docker/README.md": "tests/docker/test_image.py::test_every_step_was_carried_out",
    "jobs/README.md": _CLUSTER,
    "jobs/airflow/README.md": _SCHEDULER,
}
#: Words of commands that no test carries out: they stand under a heading that says so.
NOT_TRIED = ("SPARK_MASTER=yarn", "kubectl")
#: Pages for those who work on the project, whose commands carry out these tests, or measure.
FOR_DEVELOPERS = {
    ".github/CONTRIBUTING.md",
    "tests/README.md",
    "tests/benchmarks/README.md",
    "tests/cluster/README.md",
    "tests/install/README.md",
}


def test_every_page_with_commands_is_carried_out_by_a_test():
    here = {"README.md", *test_worked_examples.PAGES, *test_run_files.RUN_FILES}
    with_commands = {page for page in documents() if blocks(page)}
    assert with_commands - here - FOR_DEVELOPERS == set(ELSEWHERE)


def test_commands_in_plain_text_need_more_than_a_checkout_and_say_whether_they_were_tried():
    shown = [command for page in documents() for command in plain_commands(page)]
    assert {command.page for command in shown} - FOR_DEVELOPERS == set(WITH_MORE)
    for command in shown:
        untried = any(words in command.text for words in NOT_TRIED)
        assert untried == ("(not tried)" in command.section), command


@pytest.mark.parametrize("test", sorted({*ELSEWHERE.values(), *WITH_MORE.values()}))
def test_the_tests_that_are_named_are_there(test: str):
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_run_file_is_carried_out_alone_or_in_a_joint_run():
    shown = [block.text for page in documents() for block in blocks(page)]
    commanded = {page for page in test_run_files.RUN_FILES if any(page in text for text in shown)}
    runs = [tomllib.loads((ROOT / page).read_text(encoding="utf-8"))["run"] for page in commanded]
    parts = {f"conf/{part}" for run in runs for part in run.get("parts", [])}
    assert commanded | parts == set(test_run_files.RUN_FILES)


def test_what_is_made_smaller_is_in_the_documents():
    texts = {page: "".join(block.text for block in blocks(page)) for page in documents()}
    assert [entry for entry in carrying_out.SMALLER if entry[1] not in texts[entry[0]]] == []
    assert set(carrying_out.GIVEN) <= set(texts)


def test_the_readme_shows_the_test_command():
    assert "tests/run\n" in [block.text for block in blocks("README.md")]
