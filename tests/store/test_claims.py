"""What another process has put somewhere is never replaced."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from das_spark.store import commit as claims
from das_spark.store import create_exclusively


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_of_many_that_make_a_file_one_does(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(claims.os, "link", no_links)
    path, words = tmp_path / "x", [f"word {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda word: create_exclusively(path, word), words))
    assert [path.read_text()] == [word for word, mine in zip(words, made, strict=True) if mine]
    assert os.listdir(tmp_path) == ["x"]
