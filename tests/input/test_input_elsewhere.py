"""Inputs in a store of objects: the very same is read as from a folder of a disk."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import servers
import shapefile
from pyarrow import csv, parquet
from readings import ingest
from spark.readers.conftest import Cef, Ipums, OfficialFiles
from spark.readers.geography.conftest import Assignment, Grfc, Header, TidyTable

from das_spark.cli.main import main
from das_spark.config import InputSettings, load_plan
from das_spark.config.sources import require_source
from das_spark.errors import ConfigurationError, InputError, Problems
from das_spark.geography import Geolevel, Spine
from das_spark.io.area_files import look_at_areas
from das_spark.io.boundary_files import read_boundaries
from das_spark.io.input_tables import InputTable
from das_spark.io.parents_file import read_parents
from das_spark.io.population_files import simulate
from das_spark.io.table_folder import named_files, record_files, table_files
from das_spark.io.text_lines import LINE, TextLines
from das_spark.pipeline.delivery import delivered_files, files_passed_over
from das_spark.pipeline.input_record import fingerprint, is_unchanged, require_unchanged
from das_spark.places import Location, place_of, remote, system_of
from das_spark.products import PRODUCTS
from das_spark.spark.readers import GEOGRAPHY_READERS, READERS, look_at_crosswalk
from das_spark.spark.readers._gathered import Gathering

BLOCK, GEOCODE = "530010001001000", "5300100010011000"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """A folder of a server of S3, to which the clients of this process are led."""
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as server, servers.reached(server.environment):
        yield place_of(f"{server.url}/input")


@pytest.fixture
def upload(store: Location) -> Callable[[Path], Location]:
    """Put what is in a folder, or a file, into the store."""

    def put(source: Path) -> Location:
        home = store / secrets.token_hex(4)
        for each in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if each.is_file():
                write(home / each.relative_to(source.parent).as_posix(), each.read_bytes())
        return home / source.name

    return put


def write(place: Location, content: bytes) -> None:
    with system_of(place).open_output(str(place)) as file:
        file.write(content)


# A population for each reader: written into a folder, and named by the keys of [input].


def tidy_counts(folder: Path) -> dict[str, str]:
    simulate(folder, share=Fraction(1, 2000))
    return {}


def of_csv(folder: Path, compress: Callable[[bytes], bytes] = bytes, ending: str = ".csv") -> None:
    """The tables of a folder as CSV, that of persons in two parts below folders of two states, and with marks."""
    for file in sorted(folder.glob("*.parquet")):
        table = parquet.read_table(file)
        file.unlink()
        (folder / "whole").mkdir(exist_ok=True)
        halves = [table.slice(0, 50), table.slice(50)] if file.stem == "persons" else [table]
        for number, half in enumerate(halves):
            csv.write_csv(half, written := folder / "whole" / f"{file.stem}-{number}.csv")
            place = f"{file.stem}.csv/part={number}/x" if len(halves) > 1 else file.stem
            named = folder / f"{place}{ending}"
            named.parent.mkdir(parents=True, exist_ok=True)
            named.write_bytes(compress(written.read_bytes()))
        shutil.rmtree(folder / "whole")
    (folder / "persons.csv" / "_SUCCESS").write_bytes(b"")


def tidy_csv(folder: Path) -> dict[str, str]:
    tidy_counts(folder)
    of_csv(folder)
    return {}


def tidy_gzip(folder: Path) -> dict[str, str]:
    tidy_counts(folder)
    of_csv(folder, gzip.compress, ".csv.gz")
    return {}


def tables_one_by_one(folder: Path) -> dict[str, str]:
    tidy_counts(folder)
    return {"persons": "persons.parquet", "units": "units.parquet"}


def ipums(folder: Path) -> dict[str, str]:
    lines = [Ipums.household(1), Ipums.person(1), Ipums.person(1, "017"), Ipums.household(2, "5300100002", "4", "9")]
    lines.append(Ipums.person(2))
    for number, some in enumerate((lines[:3], lines[3:])):
        text = "".join(f"{line}\n" for line in some)
        (folder / f"EXT1940USCB_{number}.dat.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "README.txt").write_text("about the extract\n")
    return {}


def cef(folder: Path) -> dict[str, str]:
    home, group = 200_000_001, 200_000_002
    persons = [Cef.person(home, 1), Cef.person(home, 2, age=17), Cef.person(group, 1, gq="501")]
    units = [Cef.unit(home, 11, pop=2), Cef.unit(group, 12, pop=1, gq="501")]
    Cef.write(folder, persons, units, [Cef.block(GEOCODE, 11), Cef.block("5300100010011001", 12)])
    return {}


def pl94(folder: Path) -> dict[str, str]:
    made = OfficialFiles()
    made.block(BLOCK, {(1, 0, 0): 3, (0, 1, 5): 2, (1, 1, 2): 1}, {2: 1, 4: 1}, (2, 4))
    made.block("530010001002003", housing=(0, 7))
    made.write(folder / "below")
    return {}


#: What is read -> reader, product, and who writes it.
INPUTS: dict[str, tuple[str, str, Callable[[Path], dict[str, str]]]] = {
    "Parquet": ("tidy_counts", "e2e_1940", tidy_counts),
    "CSV": ("tidy_counts", "e2e_1940", tidy_csv),
    "CSV, packed": ("tidy_counts", "e2e_1940", tidy_gzip),
    "tables": ("tidy_counts", "e2e_1940", tables_one_by_one),
    "1940": ("ipums_1940", "e2e_1940", ipums),
    "CEF": ("cef_2020", "pl94_2020_person", cef),
    "P.L. 94-171": ("pl94_summary", "e2e_2018", pl94),
}


def settings_of(name: str, home: Path | Location, named: dict[str, str], **more: Any) -> InputSettings:
    places = {key: str(home / file) for key, file in named.items()} or {"path": str(home)}
    return InputSettings(reader=INPUTS[name][0], **places, **more)


def seen(home: Path | Location, text: str) -> str:
    """What is said of an input, wherever it lies."""
    return text.replace(str(home), "HOME")


def all_of(name: str, home: Path | Location, named: dict[str, str]) -> dict[str, Any]:
    """Everything that is made of an input without Spark."""
    given, product = settings_of(name, home, named), PRODUCTS[INPUTS[name][1]]
    spine = Spine(tuple(level for level in product.geolevels if level.name in product.default_levels))
    reader = READERS[given.reader]
    reader.look(given, product, spine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gathering, "read", lambda gathering, _: ingest(gathering))
        made = reader.read(None, given, product, spine)
    identity, files = fingerprint(given)
    assert is_unchanged(given, files)
    told = ("mtime_ns", "node", "version")
    assert {each for file in files for each in told if each in file} == (
        {"version"} if isinstance(home, Location) else {"mtime_ns", "node"}
    )
    return {
        "identity": identity,
        "files": [{key: value for key, value in file.items() if key not in told} for file in files],
        "delivered": [(file.path, file.size, file.sha256, file.records) for file in delivered_files(given)],
        "passed over": files_passed_over(given),
        "leaves": sorted(made.leaves, key=lambda row: row["geocode"]),
        "problems": made.problems,
        "digests": dict(sorted(made.digests.items())),
    }


@pytest.mark.parametrize("name", INPUTS)
def test_every_reader_makes_the_same_of_a_store(tmp_path: Path, upload: Callable, name: str) -> None:
    folder = tmp_path / "delivered"
    if name in ("1940", "CEF", "P.L. 94-171"):
        folder.mkdir()
    named = INPUTS[name][2](folder)
    home = upload(folder)
    local, other = (all_of(name, each, named) for each in (folder, home))
    assert local["leaves"]
    assert seen(folder, repr(local)) == seen(home, repr(other))


def test_an_input_may_lie_in_two_places(tmp_path: Path, upload: Callable) -> None:
    named = tables_one_by_one(tmp_path / "made")
    persons, units = upload(tmp_path / "made") / named["persons"], tmp_path / "made" / named["units"]
    given = InputSettings(reader="tidy_counts", persons=str(persons), units=str(units))
    assert [file.path for file in delivered_files(given)] == [str(units), str(persons)]


def test_what_is_odd_in_a_folder_is_refused_there_too(tmp_path: Path, upload: Callable) -> None:
    (tmp_path / "t").mkdir()
    for name in ("a.csv", ".b.csv", "c.csv.bak"):
        (tmp_path / "t" / name).write_text("geocode\n")
    home = upload(tmp_path / "t")
    for listed in (table_files, record_files, lambda path: named_files(path, ["*.csv"])):
        said = []
        for place in (tmp_path / "t", home):
            with pytest.raises(InputError) as caught:
                listed(str(place))
            said.append(seen(place, str(caught.value)))
        assert said[0] == said[1]
    assert str(home) in str(caught.value)


def run_file(folder: Path, home: Path | Location, **more: str) -> Path:
    given = "".join(f'{key} = "{value}"\n' for key, value in more.items())
    conf = folder / "run.toml"
    conf.write_text(
        'config_version = 1\n[run]\nname = "elsewhere"\nproduct = "e2e_1940"\n'
        f'[input]\nreader = "tidy_counts"\npath = "{home}"\ndataset = "people"\n{given}'
        f'[output]\nroot = "{folder / "runs"}"\n[budget]\nstrategy = "e2e_1940"\nepsilon = "1"\n'
    )
    return conf


def test_commands_list_and_check_an_input_in_a_store(tmp_path: Path, upload: Callable, capsys) -> None:
    folder = tmp_path / "delivered"
    tidy_gzip(folder)
    lines = [(file.path.removeprefix(str(folder)), file) for file in delivered_files(settings_of("CSV", folder, {}))]
    note = "name,records,sha256\n" + "".join(f"{name[1:]},{each.records},{each.sha256}\n" for name, each in lines)
    (tmp_path / "note.csv").write_text(note)
    home, expected = upload(folder), upload(tmp_path / "note.csv")
    conf = run_file(tmp_path, f"{home}/", expected=str(expected))
    assert load_plan(conf).input.path == str(home)
    assert main(["input", "list", str(conf), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["file"] for each in listed] == [f"{home}{name}" for name, _ in lines]
    assert [each["sha256"] for each in listed] == [each.sha256 for _, each in lines]
    assert main(["check", str(conf)]) == 0
    capsys.readouterr()
    write(expected, note.replace(lines[0][1].sha256, "0" * 64).encode())
    assert main(["input", "list", str(conf)]) == 1
    assert f"{expected}: the input is not what was delivered" in " ".join(capsys.readouterr().err.split())


# What changes, and what is missing.


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, store: Location) -> None:
    place = store / secrets.token_hex(4) / "lines.txt"
    write(place, b"0123456\n" * (3 << 20))
    lines = TextLines.of([str(place)])
    batches = lines.read(lines.parts[0], size=1 << 20)
    assert next(batches).column(LINE)[0].as_py() == "0123456"
    write(place, b"6543210\n" * (3 << 20))
    with pytest.raises(InputError, match=f"{place}: changed while it was read"):
        list(batches)


def test_an_input_that_changes_between_two_stages_is_refused(tmp_path: Path, upload: Callable) -> None:
    tidy_counts(tmp_path / "made")
    home = upload(tmp_path / "made")
    given = settings_of("Parquet", home, {})
    _, files = fingerprint(given)
    table = InputTable.open(str(home / "units.parquet"))
    require_unchanged(given, files)
    write(home / "units.parquet", (tmp_path / "made" / "units.parquet").read_bytes() + b"more")
    assert not is_unchanged(given, files)
    with pytest.raises(InputError, match=f"{home}/units.parquet: changed while it was read"):
        require_unchanged(given, files)
    with pytest.raises(InputError, match=f"{home}/units.parquet: changed while it was read"):
        list(table.read(table.parts[0]))
    home.system.remove(str(home / "units.parquet"))
    assert not is_unchanged(given, files)
    with pytest.raises(InputError, match=rf"{home}/units.parquet: cannot be read \(.*\)"):
        list(table.read(table.parts[0]))


@pytest.mark.parametrize("key", ["path", "expected"])
def test_a_place_where_nothing_is_has_one_error_that_names_it(tmp_path: Path, upload: Callable, capsys, key) -> None:
    tidy_counts(tmp_path / "made")
    home = upload(tmp_path / "made")
    missing = home.with_name("nothing")
    conf = run_file(tmp_path, home)
    assert main(["check", str(conf), "--set", f"input.{key}={missing}"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"input.{key}: there is no file or folder {missing}" in said
    assert said.count(str(missing)) == 1
    for look in (table_files, record_files, InputTable.open):
        with pytest.raises(InputError, match=f"{missing}: no such file or folder"):
            look(str(missing))


def test_a_store_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise OSError(5, "NoCredentialsError: unable to locate credentials")

    monkeypatch.setattr(remote.RemoteFileSystem, "is_file", refuse)
    problems = Problems("run")
    require_source("input.path", "s3://bucket/x", problems, "there is none")
    with pytest.raises(ConfigurationError, match=r"input\.path: s3://bucket/x cannot be looked for \(NoCredentials"):
        problems.raise_if_any()
    with pytest.raises(InputError, match=r"s3://bucket/x: cannot be read \(NoCredentialsError"):
        table_files("s3://bucket/x")


# Geography, areas, parents.


@pytest.fixture
def geographies(tmp_path: Path) -> dict[str, Path]:
    """Reader -> the same three blocks in its files."""
    folder = tmp_path / "geographies"
    folder.mkdir()
    return {
        "grfc": Grfc.write(folder / "geography.txt"),
        "block_assignment": Assignment.write(folder / "assignment"),
        "pl94_header": Header.write(folder / "header"),
        "tidy": TidyTable.write(folder / "blocks.csv"),
    }


def test_files_of_geography_are_found_in_a_store(geographies: dict[str, Path], upload: Callable) -> None:
    for name, source in geographies.items():
        home, reader = upload(source), GEOGRAPHY_READERS[name]
        reader.look(str(home))
        assert [seen(home, file) for file in reader.files(str(home))] == [
            seen(source, file) for file in reader.files(str(source))
        ]


def test_small_tables_of_a_run_are_read_in_a_store(tmp_path: Path, upload: Callable) -> None:
    spine = PRODUCTS["e2e_1940"].spine()
    (tmp_path / "areas.csv").write_text(f"geocode,area\n{'1' * spine.leaf.length},north\n")
    look_at_areas(upload(tmp_path / "areas.csv"), spine)
    (tmp_path / "crosswalk.csv").write_text(f"block,prim\n{BLOCK},one\n")
    crosswalk = upload(tmp_path / "crosswalk.csv")
    look_at_crosswalk(str(crosswalk))
    parents = tmp_path / "parents.csv"
    parents.write_text("child,parent\n0001,01\n")
    levels = (Geolevel("A", 2, letters=True, code=2), Geolevel("B", 6, letters=True, code=4))
    assert read_parents(str(upload(parents)), levels, levels[1]) == {"0001": "010001"}


@pytest.mark.parametrize("ending", ["shp", "zip", "geojson"])
def test_boundaries_are_read_in_a_store(tmp_path: Path, upload: Callable, ending: str) -> None:
    ring, folder = [[0.0, 0.0], [0.0, 2.0], [2.0, 2.0], [0.0, 0.0]], tmp_path / "areas"
    folder.mkdir()
    with shapefile.Writer(str(folder / "areas")) as writer:
        writer.field("GEOID", "C", 15)
        writer.poly([ring])
        writer.record("01")
    shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    (tmp_path / "packed.zip").rename(folder / "areas.zip")
    geometry = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "properties": {"GEOID": "01"}, "geometry": geometry}
    (folder / "areas.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    local, other = (read_boundaries(home / f"areas.{ending}") for home in (folder, upload(folder)))
    assert local.areas == other.areas
    assert local.codes() == ("GEOID", ["01"])


@pytest.mark.spark
def test_tasks_read_a_store(spark, tmp_path: Path, upload: Callable, geographies: dict[str, Path], monkeypatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])  # its JVM may be older
    product = PRODUCTS["e2e_1940"]
    tidy_csv(tmp_path / "made")
    found = []
    for home in (tmp_path / "made", upload(tmp_path / "made")):
        tables = READERS["tidy_counts"].read(spark, settings_of("CSV", home, {}), product, product.spine())
        found.append(sorted(map(repr, tables.leaves.collect())))
        assert len(tables.digests) == 3
        assert all(seen(home, digest).startswith("HOME/") for digest in tables.digests)
        tables.release()
    assert found[0] == found[1] != []
    for name in ("grfc", "block_assignment"):
        source = geographies[name]
        blocks = [GEOGRAPHY_READERS[name].read(spark, str(each)).blocks for each in (source, upload(source))]
        assert sorted(blocks[0].collect()) == sorted(blocks[1].collect()) != []
