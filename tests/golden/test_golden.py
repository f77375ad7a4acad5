"""What is published is what was published when the record was made; digests tell a row or a letter from another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.golden import COMMANDS, DIGESTS, differences, digests_of, kernels_here

RECORDED = json.loads(DIGESTS.read_text())


@pytest.mark.slow
@pytest.mark.whole_run
@pytest.mark.skipif(kernels_here() != RECORDED["kernels"], reason=f"kernels {RECORDED['kernels']} are not to be had")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.unit(f"golden {name}")) for name in COMMANDS])
def test_every_group_publishes_what_it_published(name):
    command = [sys.executable, str(DIGESTS.with_name("golden.py")), name]
    compared = subprocess.run(command, check=False, capture_output=True, text=True)
    assert compared.returncode == 0, compared.stdout + compared.stderr[-2000:]


def test_the_record_has_all_groups():
    assert RECORDED.keys() - {"kernels"} == COMMANDS.keys()
    assert all(len(RECORDED[name]) > 30 for name in COMMANDS)


def test_another_checkout_makes_no_other_digest(tmp_path: Path):
    text, digests = tmp_path / "dictionary.md", []
    for conf in (str(DIGESTS.parents[2] / "conf"), "conf"):
        text.write_text(f"simulate --like {conf}/products/a.toml\n")
        digests.append(digests_of(tmp_path))
    assert digests[0] == digests[1]


def test_a_row_and_a_letter_make_another_digest(tmp_path: Path):
    table = pa.table({"geocode": ["1", "2"], "counts": [[1, 2], [3]]})
    rows, text = tmp_path / "estimates" / "part.parquet", tmp_path / "statement.md"
    rows.parent.mkdir()
    pq.write_table(table, rows)
    text.write_text("rho = 1\n")
    before = digests_of(tmp_path)
    pq.write_table(table, rows, compression="none", row_group_size=1)
    assert digests_of(tmp_path) == before, "the same rows in other bytes are no difference"
    pq.write_table(table.slice(1), rows)
    text.write_text("rho = 2\n")
    text.with_name("another.md").write_text("")
    assert differences(before, digests_of(tmp_path)) == ["./*.md: differs", "estimates/*.parquet: differs"]
    text.unlink()
    text.with_name("another.md").unlink()
    assert differences(before, digests_of(tmp_path)) == ["./*.md: missing", "estimates/*.parquet: differs"]
