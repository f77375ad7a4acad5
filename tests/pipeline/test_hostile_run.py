"""A product whose texts are as hostile as they may be, from its file to every output of its run."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from test_product_from_data import RUN_FILE, VILLAGE, _write_census

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.pipeline import run_stages, verify_run

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

HOSTILE = "<b>V</b> | `x` [red]r <!-- # c **d** $e$ =1+1 :smile:"
ELSEWHERE = "../../../../../../../../../{}/x"


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.said, self.comments = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.said.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


def _files(folder, product):
    (folder / "village.toml").write_text(product)
    path = folder / "run.toml"
    path.write_text(RUN_FILE.format(census=folder / "census", root=folder / "runs"))
    return path


def test_it_reads_the_same_in_every_output(tmp_path, spark, tools, capsys):
    _write_census(tmp_path / "census")
    product = VILLAGE
    for said in ("Persons of a village that nobody lives in", "Two levels alike", "nobody of 65 at school"):
        product = product.replace(f'"{said}"', json.dumps(HOSTILE))
    for said in ("Sex by age", "Total population", "House"):
        product = product.replace(f'"{said}"', json.dumps(f"{HOSTILE} {said}"))
    product = product.replace('label = "Male"', f"label = {json.dumps(HOSTILE)}")
    plan = load_plan(_files(tmp_path, product))
    public = run_stages(plan, run_id="village", test_key=tools.TEST_KEY, spark=spark).layout.public
    assert verify_run(public.path, spark).passed

    text = public.privacy_statement.read_text()
    found = _Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert {"b", "del", "img", "a"}.isdisjoint(found.tags)
    assert not found.comments
    assert f"Privacy statement: {HOSTILE}" in found.said
    assert any(HOSTILE in said and "House" in said for said in found.said)
    assert any("INSECURE: A TEST KEY" in said for said in found.said)

    about = (public.tables.table("V1", "parquet") / "_about.txt").read_text()
    assert about.splitlines()[0] == f"V1. {HOSTILE} Sex by age"
    assert json.loads(public.manifest.read_text())["config"]["product"]["title"] == HOSTILE

    for command in (["product", "show", str(tmp_path / "village.toml")], ["show", str(public.path)]):
        capsys.readouterr()
        assert main(command) == 0
        printed = capsys.readouterr().out
        assert "[red]" in printed or command[0] == "show"
        assert "\U0001f604" not in printed
    assert main(["show", str(public.path), "--page", str(tmp_path / "run.html")]) == 0
    page = _Page((tmp_path / "run.html").read_text())
    assert "script" not in page.tags
    assert not page.comments


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_a_table_of_another_place_is_refused_before_anything_is_written(tmp_path, command, capsys):
    _write_census(tmp_path / "census")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in (ELSEWHERE.format(str(outside).lstrip("/")), str(outside / "x")):
        run_file = _files(tmp_path, VILLAGE.replace('name = "V1"', f'name = "{name}"'))
        assert main([command, str(run_file)]) == 2
        error = capsys.readouterr().err
        assert "tables[0]" in error
        assert "is no name that a file can have" in error
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "runs").exists()
