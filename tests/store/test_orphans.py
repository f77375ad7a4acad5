"""What killed drivers and tasks leave is listed, and nothing of a result is; on disks and in stores."""

from __future__ import annotations

import json
import secrets

import pyarrow as pa
import pytest

from das_spark.cli.main import main
from das_spark.places import place_of, system_of
from das_spark.store import Journal, PublicManifest, RunLayout, finished, hold_run, open_run, orphans_of, public_files
from das_spark.store.parquet import ParquetTables, TableFolder, file_name
from das_spark.store.tables import GEOUNITS


@pytest.fixture(params=["disk", "store"])
def layout(request, tmp_path):
    root = tmp_path if request.param == "disk" else place_of(f"memory://{secrets.token_hex(4)}/runs")
    made = RunLayout.at(root, "mine")
    open_run(made, "hash")
    journal = Journal.of(made)
    for number in (1, 2):
        assert journal.next_step("County").number == number
        journal.open("County", number)
        draw(journal, number)
    journal.stage("County", 2)
    journal.promote("County", 2)
    PublicManifest("mine", "2020-04-01T00:00:00+00:00", files=public_files(made.public)).save(made.public.manifest)
    return made


def draw(journal, number):
    writer = ParquetTables({"geounits": TableFolder(journal.staging("County", number), GEOUNITS.schema)})
    row = pa.RecordBatch.from_pylist([{"geocode": "101", "parent": "", "children": 3}], schema=GEOUNITS.schema)
    writer.place([each for batch in writer([("geounits", file_name(0), row)]) for each in batch.to_pylist()])


def put(place, content=b"rows"):
    with system_of(place).open_output(str(place)) as file:
        file.write(content)
    return place


def test_a_run_without_accidents_has_none(layout):
    assert orphans_of(layout) == ()


def test_everything_that_is_left_behind_is_found_and_removed_and_nothing_else(layout, capsys):
    left = [
        put(layout.public.path / ".staging" / "0123" / "estimates" / "part-0").parent.parent,
        put(layout.restricted.path / ".staging" / "0123" / "leaves" / "part-0").parent.parent,
        put(layout.public.path.parent / ".tried-0123" / "file").parent,
        put(layout.public.path / "tables" / "stray.csv"),
    ]
    if not system_of(layout.public.path).capabilities.tombstones:
        late = Journal.of(layout).staging("County", 1)
        put(late / "part-0")
        left.append(late)
    found = orphans_of(layout)
    assert {str(each.place) for each in found} == {str(place) for place in left}
    assert all(each.size == 4 and each.why for each in found)
    place = str(layout.folder)
    with hold_run(layout):
        assert main(["tidy", place]) == 1, "a driver is at work"
    for each in found:  # a driver that holds a run removes what others have staged
        if each.place.name == "0123":
            put(each.place / "part-0")
    capsys.readouterr()
    assert main(["tidy", place, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (len(said["orphans"]), said["removed"]) == (len(left), False)
    assert main(["tidy", place, "--remove"]) == 0
    assert orphans_of(layout) == ()
    assert finished(layout.public.level("measurements", "County"))
    assert f"{len(left)} removed" in capsys.readouterr().out
