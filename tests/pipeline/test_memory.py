"""What fits into the memory of this machine, and so may be done by Sail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from das_spark.config import load_plan
from das_spark.pipeline import memory

MEGABYTE = 1 << 20


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose system says that so many kilobytes are available."""

    def of(kilobytes):
        file = tmp_path / "meminfo"
        file.write_text(f"MemTotal:  99999999 kB\nMemAvailable:   {kilobytes} kB\n")
        monkeypatch.setattr(memory, "_MEMORY", file)

    return of


@pytest.fixture
def plan(tmp_path):
    for name in ("persons.csv", "units.csv"):
        (tmp_path / name).touch()
    settings = [f"input.persons={tmp_path / 'persons.csv'}", f"input.geography={tmp_path / 'units.csv'}"]
    return load_plan("conf/pl94_2020_state.toml", settings=settings)


def files(*sizes):
    return [{"file": f"/data/{place}.parquet", "bytes": size} for place, size in enumerate(sizes)]


def test_an_input_fits_with_what_is_made_of_it(machine, plan):
    machine(8_000_000)
    assert memory.input_fits(plan, files(3 * MEGABYTE, 4 * MEGABYTE))
    assert not memory.input_fits(plan, files(3 * MEGABYTE, 6 * MEGABYTE))


def test_a_product_of_many_cells_needs_more(machine, plan):
    machine(8_000_000)
    product = SimpleNamespace(schema=SimpleNamespace(size=10 * 2_016))
    many = SimpleNamespace(input=plan.input, product=product)
    assert not memory.input_fits(many, files(MEGABYTE))
    assert memory.input_fits(many, files(MEGABYTE // 2))


def test_of_what_is_not_known_it_is_not_said_that_it_fits(machine, plan, monkeypatch):
    machine(8_000_000)
    assert not memory.input_fits(plan, [])
    assert not memory.input_fits(plan, [{"file": "hdfs://host/persons.parquet", "bytes": 1000}])
    monkeypatch.setattr(memory, "_MEMORY", memory._MEMORY / "nowhere")
    assert not memory.input_fits(plan, files(MEGABYTE))


def test_of_simulated_people_those_of_the_quickstart_fit(machine):
    machine(0)
    assert memory.input_fits(load_plan("conf/quickstart.toml"), [])
    assert not memory.input_fits(load_plan("conf/quickstart.toml", settings=["input.simulate.like=1940"]), [])


def test_tables_of_a_run_are_held_and_its_microdata_are_not(machine, tmp_path):
    machine(1_000)
    run = tmp_path / "run"
    for name, size in {"estimates/part.parquet": 100_000, "microdata/part.parquet": 10 * MEGABYTE}.items():
        (run / name).parent.mkdir(parents=True)
        (run / name).write_bytes(bytes(size))
    assert memory.runs_fit(run)
    assert not memory.runs_fit(run, run)
