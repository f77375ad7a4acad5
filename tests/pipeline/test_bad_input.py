"""Every kind of bad input, as a whole command: one clear error, its exit code, nothing spent and nothing readable."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.features.microdata.feature import Microdata
from das_spark.pipeline import driver, levels, space
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline.stages import ingest as of_ingestion
from das_spark.spark import session as session_module
from das_spark.spark.leaves import LeafRules
from das_spark.store import hold_run, open_run, read_ledger

pytestmark = pytest.mark.slow

SECRET = 31337  # a value that stands in wrong records and must never be said
FAILED, WRONG, REFUSED = 1, 2, 3

Refused = Callable[..., str]


def readable(folder: Path) -> list[Path]:
    """Public level folders and files that look like results."""
    public = [path for path in folder.rglob("public") if path.is_dir()]
    found = [path for each in public for path in each.rglob("*") if path.is_file() and path.name != "run.json"]
    return [path for path in found if ".staging" not in path.parts or path.name.startswith("part-")]


def charged(folder: Path) -> list[Path]:
    """Ledgers in which a run is charged: one whose invariants were public for a moment is entered, and spent none."""
    ledgers = folder.rglob("*.privacy-ledger.jsonl")
    return [path for path in ledgers if any(entry.is_charged for entry in read_ledger(path).entries)]


def said(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, *needles: str) -> str:
    """Run a command that must be refused; its error in words."""
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert printed.err.count("das-spark: error: [DAS") == 1, printed.err
    assert "Traceback" not in printed.err
    assert str(SECRET) not in printed.out + printed.err
    for needle in needles:
        assert needle in printed.err, printed.err
    return printed.err


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must be refused before anything is spent or readable."""

    def check(bench: Any, code: int, *needles: str, arguments: list[str] | None = None) -> str:
        given = arguments or ["run", str(bench.run_file()), "--run-id", "bad", "--test-key", "x"]
        text = said(capsys, given, code, *needles)
        assert readable(bench.folder) == []
        assert charged(bench.folder) == []
        return text

    return check


class TestConfiguration:
    """What is wrong in the run file is found before Spark is imported."""

    @pytest.fixture(autouse=True)
    def no_spark(self, monkeypatch):
        monkeypatch.setattr(session_module, "session", lambda *_, **__: pytest.fail("Spark was asked for"))
        monkeypatch.setattr(driver, "session", lambda *_, **__: pytest.fail("Spark was asked for"))

    @pytest.mark.parametrize(
        ("change", "needles"),
        [
            (("hhgq =", "hgq ="), ["budget.queries.hgq", "hhgq"]),
            (('"Enumdist"]', '"Enumdst"]'), ["geography.levels", "Enumdst", "Enumdist"]),
            (('County = "1/4"', 'Conty = "1/4"'), ["budget.geolevels.Conty", "County"]),
            (('Enumdist = "1/2"', 'Enumdist = "1/4"'), ["budget.geolevels", "sum to 3/4, not 1"]),
            (('detailed = "1/2"', 'detailed = "1/3"'), ["budget.queries", "sum to 5/6, not 1"]),
            (('epsilon = "4"', "epsilon = 0.25"), ["budget.epsilon", "0.25 is a float", '"1/4"']),
            (('epsilon = "4"', 'epsilon = "0"'), ["budget.epsilon", "greater than 0"]),
            (('epsilon = "4"', 'epsilon = "-1/2"'), ["budget.epsilon", "greater than 0"]),
            (('County = "1/4"', ""), ["budget.geolevels", "'County' has no budget"]),
            (('reader = "tidy_counts"', 'reader = "tidy_count"'), ["input.reader", "tidy_counts"]),
            (("[evaluation]", "[evaluations]"), ["evaluations", "evaluation"]),
        ],
        ids=lambda value: value[1] if isinstance(value, tuple) else "",
    )
    def test_a_wrong_key_is_named_with_its_path(self, dry_workshop, refused, change, needles):
        path = dry_workshop.run_file(change=change)
        refused(dry_workshop, WRONG, *needles, arguments=["run", str(path), "--run-id", "bad"])
        assert not dry_workshop.root.exists()

    def test_a_missing_file_is_named_with_its_key(self, dry_workshop, refused):
        path = dry_workshop.run_file(change=("census", "senses"))
        refused(dry_workshop, WRONG, "input.path", "senses", arguments=["run", str(path)])

    def test_occupied_cells_without_a_geography_are_refused(self, dry_workshop, refused):
        path = dry_workshop.run_file(change=("path = ", "persons = "))
        text = path.read_text().replace(str(dry_workshop.census), f"{dry_workshop.census}/persons.parquet")
        path.write_text(text + "[invariants]\nunits = false\n")
        needles = ("nothing says which geounits exist", "input.units")
        refused(dry_workshop, WRONG, *needles, arguments=["run", str(path)])

    def test_two_runs_into_one_output(self, dry_workshop, capsys):
        path = dry_workshop.run_file()
        layout = dry_workshop.layout("busy")
        open_run(layout, dry_workshop.plan().config_hash)
        with hold_run(layout):
            arguments = ["run", str(path), "--run-id", "busy", "--test-key", "x"]
            said(capsys, arguments, FAILED, "busy", "another driver is at work")
        assert charged(dry_workshop.folder) == []

    def test_the_output_folder_of_another_run(self, dry_workshop, capsys):
        path = dry_workshop.run_file()
        open_run(dry_workshop.layout("taken"), "another configuration")
        dry_workshop.layout("taken").public.table("geounits").mkdir()
        said(capsys, ["run", str(path), "--run-id", "taken"], FAILED, "taken", "belongs to another run")

    def test_an_output_folder_that_is_no_run(self, dry_workshop, capsys):
        path = dry_workshop.run_file()
        place = dry_workshop.root / "mine" / "public"
        place.mkdir(parents=True)
        (place / "thesis.txt").write_text("years of work")
        said(capsys, ["run", str(path), "--run-id", "mine"], FAILED, "mine", "not a run folder")
        assert (place / "thesis.txt").read_text() == "years of work"

    def test_a_disk_that_is_nearly_full_is_refused_at_once(self, dry_workshop, refused, monkeypatch):
        monkeypatch.setattr(space, "LEAST_SPACE", 1 << 62)
        refused(dry_workshop, FAILED, "are free", "make room")


class TestBeginnings:
    """What is wrong with how the input begins is found by `check`, and by `run` before Spark and before a folder."""

    @pytest.fixture(autouse=True)
    def no_spark(self, monkeypatch):
        monkeypatch.setattr(driver, "session", lambda *_, **__: pytest.fail("Spark was asked for"))

    @pytest.fixture
    def not_begun(self, dry_workshop, capsys):
        """The run file is refused by both commands, with the same words; nothing is made."""

        def check(path: Path, *needles: str) -> None:
            for arguments in (["check", str(path)], ["run", str(path), "--run-id", "bad", "--test-key", "x"]):
                said(capsys, arguments, FAILED, *needles)
                assert not dry_workshop.root.exists()
                assert charged(dry_workshop.folder) == []

        return check

    def test_a_folder_without_any_official_file(self, dry_workshop, not_begun):
        path = dry_workshop.run_file()
        for change in (("e2e_1940", "e2e_2018"), ("tidy_counts", "pl94_summary")):
            path.write_text(path.read_text().replace(*change))
        path.write_text(path.read_text().replace('["State", "County", "Enumdist"]', '["State", "County", "Block"]'))
        text = path.read_text().replace("Enumdist =", "Block =")
        path.write_text(f'{text}\n[privacy]\nacknowledge = ["facilities_from_people"]\n')
        not_begun(path, "no official summary file", "unzip")

    def test_a_file_that_is_cut_off(self, dry_workshop, not_begun):
        path = dry_workshop.run_file()
        (dry_workshop.census / "persons.parquet").write_bytes(b"PAR1" + str(SECRET).encode() * 99)
        not_begun(path, "persons.parquet", "cannot be read")

    def test_a_person_file_that_is_its_header_alone(self, dry_workshop, not_begun, tools):
        path = dry_workshop.run_file()
        persons, _ = tools.census_tables()
        (dry_workshop.census / "persons.parquet").unlink()
        (dry_workshop.census / "persons.csv").write_text(",".join(persons) + "\n")
        not_begun(path, "persons.csv", "there is no record to protect")

    def test_columns_between_semicolons(self, dry_workshop, not_begun, tools):
        path = dry_workshop.run_file()
        persons, _ = tools.census_tables()
        (dry_workshop.census / "persons.parquet").unlink()
        (dry_workshop.census / "persons.csv").write_text(";".join(persons) + f"\n{SECRET}\n")
        not_begun(path, "persons.csv", "delimited by semicolons")

    def test_a_table_without_a_column(self, dry_workshop, not_begun, tools):
        path = dry_workshop.run_file()
        persons, _ = tools.census_tables()
        tools.write_census(dry_workshop.census, {name: values for name, values in persons.items() if name != "race"})
        not_begun(path, "persons.parquet", "no column 'race'")


def changed(table: dict[str, list[Any]], row: int, **values: Any) -> dict[str, list[Any]]:
    """A table with other values in one row."""
    return {name: [*v[:row], values.get(name, v[row]), *v[row + 1 :]] for name, v in table.items()}


def as_type(table: dict[str, list[Any]], name: str, kind: pa.DataType) -> dict[str, Any]:
    return table | {name: pa.array(table[name], kind)}


@pytest.mark.spark
class TestTables:
    """Wrong rows in tidy tables."""

    @pytest.mark.parametrize(
        ("wrong", "needles"),
        [
            ({"race": SECRET}, ["persons.parquet, race", "a code from 0 to 5"]),
            ({"geocode": "0999999999"}, ["persons.parquet, geocode", "a geocode that is in", "units.parquet"]),
            ({"geocode": "01"}, ["persons.parquet, geocode", "10 digits"]),
            ({"count": -SECRET}, ["persons.parquet, count", "0 or more"]),
            ({"count": SECRET + 0.5}, ["persons.parquet, count", "a whole number"]),
            ({"count": Decimal(SECRET) * 10**16}, ["persons.parquet, count", "9,223,372,036,854,775,807"]),
            ({"count": 2**63 - 1}, ["persons.parquet, count", "sum over all rows"]),
        ],
        ids=["code", "spine", "length", "negative", "fraction", "int64", "sum"],
    )
    def test_a_wrong_row_is_named_by_file_field_and_rule(self, workshop, refused, tools, wrong, needles):
        persons, _ = tools.census_tables()
        table: dict[str, Any] = changed(persons, 3, **wrong)
        if "count" in wrong and not isinstance(wrong["count"], int):
            kind = pa.float64() if isinstance(wrong["count"], float) else pa.decimal128(38, 0)
            table = as_type(table, "count", kind)
        tools.write_census(workshop.census, table)
        text = refused(workshop, FAILED, *needles)
        assert str(2**63 - 2) not in text
        problems = workshop.layout("bad").restricted.input_problems
        assert f"{problems} says in how many rows, and in which" in text
        kept = [json.loads(line) for line in problems.read_text().splitlines()]
        if "sum over all rows" not in needles:
            assert all(each["rows"] == 1 for each in kept)
            assert [4] in [each["examples"] for each in kept] or kept[0]["geounits"] == ["0999999999"]
        assert "0999999999" not in text
        assert re.findall(r"[0-9,]+ rows?\b", text) == []

    def test_numbers_of_wrong_rows_are_on_no_screen_and_in_no_line_for_collectors(self, workshop, capsys, tools):
        """As a person and as a collector of logs sees it; the restricted record has the number."""
        persons, _ = tools.census_tables()
        wrong = len(persons["race"]) - 1
        tools.write_census(workshop.census, persons | {"race": [SECRET] * wrong + persons["race"][wrong:]})
        path = str(workshop.run_file())
        for form in ("text", "json"):
            assert main(["run", path, "--run-id", f"bad-{form}", "--test-key", "x", "--log-format", form]) == FAILED
            printed = capsys.readouterr()
            said_of_it = (printed.out + printed.err).replace(str(workshop.folder), "")
            assert "persons.parquet, race: expected a code from 0 to 5; not so in some rows" in said_of_it
            assert re.findall(rf"\b{wrong:,}\b|\b{wrong}\b", said_of_it) == []
            record = workshop.layout(f"bad-{form}").restricted.input_problems
            assert [json.loads(line)["rows"] for line in record.read_text().splitlines()] == [wrong]

    def test_wrong_units_are_named_too(self, workshop, refused, tools):
        _, units = tools.census_tables()
        tools.write_census(workshop.census, units=changed(units, 8, units=-SECRET))
        refused(workshop, FAILED, "units.parquet, units", "0 or more")

    def test_a_file_that_cannot_be_read(self, workshop, refused, tools):
        tools.write_census(workshop.census)
        (workshop.census / "persons.parquet").write_bytes(b"PAR1" + str(SECRET).encode() * 99)
        refused(workshop, FAILED, "persons.parquet", "cannot be read")

    def test_a_missing_column(self, workshop, refused, tools):
        persons, _ = tools.census_tables()
        persons["ethnicity"] = persons.pop("hispanic")
        tools.write_census(workshop.census, persons)
        refused(workshop, FAILED, "persons.parquet: no column 'hispanic'", "input.columns.persons.hispanic")

    def test_a_folder_without_units_is_refused_by_the_guard(self, workshop, refused, tools):
        path = workshop.run_file("[invariants]\nunits = false\n")
        (workshop.census / "units.parquet").unlink()
        arguments = ["run", str(path), "--run-id", "bad", "--test-key", "x"]
        refused(workshop, REFUSED, "without a geography", "input.geography", arguments=arguments)

    def test_units_that_contradict_the_people(self, workshop, refused, tools):
        _, units = tools.census_tables()
        tools.write_census(workshop.census, units=changed(units, 0, units=SECRET))
        refused(workshop, FAILED, "0100100000 (class 0)", "from_people")

    def test_invariants_that_contradict_each_other_are_found_before_any_measurement(
        self, workshop, refused, tools, monkeypatch
    ):
        # Units against people are found in the districts; here that guard sleeps, and the next one must be awake.
        monkeypatch.setattr(ingest_stage, "_leaf_rules", lambda _: LeafRules(ingest_stage.NAMED))
        _, units = tools.census_tables()
        tools.write_census(workshop.census, units=changed(units, 0, units=SECRET))
        refused(workshop, FAILED, "such as 0", "hhgq_total_lb", "[invariants]")

    def test_added_rules_against_the_invariants_are_found_before_any_measurement(self, workshop, refused):
        rule = '[[constraints]]\nname = "{}"\ngeolevel = "State"\nquery = "{}"\nsense = "{}"\nright = [{}]\n'
        rules = [
            rule.format("nobody", "total", "=", 1),
            rule.format("few", "hhgq", "<=", "1, 1, 1, 1, 1, 1, 1, 1"),
            rule.format("crowd", "gqTotal", ">=", 10**6),
            rule.format("possible", "hhgq", "<=", 10**6),
        ]
        arguments = ["run", str(workshop.run_file("".join(rules))), "--run-id", "bad", "--test-key", "x"]
        named = "01 (crowd), 01 (few), 01 (nobody), 02 (crowd), 02 (few)"
        refused(workshop, FAILED, named, "[[constraints]]", arguments=arguments)

    def test_person_without_a_household_and_a_household_twice_in_records(self, workshop, refused, tools):
        records = {"unit": [1, SECRET], "hhgq": [0, 0], "age18plus": [1, 1], "hispanic": [0, 0], "race": [0, 0]}
        homes = {"unit": [1, 2, 2], "geocode": ["0100100001"] * 3, "hhgq": [0, 0, 0], "vacant": [0, 1, 1]}
        path = workshop.run_file(change=("tidy_counts", "tidy_records"))
        pq.write_table(pa.table(records), workshop.census / "persons.parquet")
        pq.write_table(pa.table(homes), workshop.census / "units.parquet")
        arguments = ["run", str(path), "--run-id", "bad", "--test-key", "x"]
        refused(workshop, FAILED, "units.parquet, unit", arguments=arguments)
        pq.write_table(pa.table({k: v[:2] for k, v in homes.items()}), workshop.census / "units.parquet")
        refused(workshop, FAILED, "persons.parquet, unit", arguments=arguments)


def household(serial: int, geocode: str = "0100100001") -> str:
    line = ["0"] * 159
    line[0], line[7:15], line[53:59] = "H", f"{serial:08d}", geocode[:6]
    line[93], line[124:128] = "1", geocode[6:]
    return "".join(line)


def person(serial: int, race: str = "1") -> str:
    line = ["0"] * 273
    line[0], line[7:15], line[73:76], line[84] = "P", f"{serial:08d}", "030", race
    return "".join(line)


@pytest.mark.spark
class TestFixedWidth:
    """Wrong lines in the extract of 1940."""

    @pytest.mark.parametrize(
        ("lines", "needles"),
        [
            ([household(1), person(1) + str(SECRET)], ["census.dat", "characters"]),
            ([household(1), household(SECRET), person(1)[:100]], ["census.dat", "characters"]),
            ([household(1), person(1, race="x")], ["census.dat", "RACE"]),
            ([household(1), person(1), person(SECRET)], ["census.dat", "household"]),
            ([household(SECRET), household(2), household(SECRET)], ["census.dat", "household"]),
            ([household(1, "01001x0001"), person(1)], ["census.dat"]),
        ],
        ids=["long", "short", "code", "no-household", "twice", "geocode"],
    )
    def test_a_wrong_line_is_named_by_file_field_and_rule(self, workshop, refused, lines, needles):
        path = workshop.run_file(change=("tidy_counts", "ipums_1940"))
        file = workshop.folder / "census.dat"
        file.write_text("\n".join(lines) + "\n")
        path.write_text(path.read_text().replace(str(workshop.census), str(file)))
        refused(workshop, FAILED, *needles, arguments=["run", str(path), "--run-id", "bad", "--test-key", "x"])


@pytest.fixture
def small_disk(workshop: Any) -> Iterator[Path]:
    """A disk of two megabytes where the runs lie."""
    place = workshop.root
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def fill(place: Path) -> Path:
    """Use up a disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


@pytest.mark.spark
@pytest.mark.long
class TestFullDisk:
    """A disk that fills while a run is made, and has room again when it is resumed."""

    @pytest.fixture(autouse=True)
    def begin_anyway(self, monkeypatch):
        monkeypatch.setattr(space, "LEAST_SPACE", 0)

    @pytest.mark.parametrize("stage", ["ingest", "measure", "estimate", "publish"])
    def test_it_is_one_error_and_the_run_resumes(self, workshop, small_disk, capsys, monkeypatch, tools, calm, stage):
        arguments = ["run", str(workshop.run_file()), "--run-id", "full", "--test-key", tools.TEST_KEY]
        if stage != "ingest":
            workshop.ingested("full", calm)
        with monkeypatch.context() as patch:
            module = {"ingest": of_ingestion, "publish": Microdata}.get(stage, levels)
            original = getattr(module, stage)

            def filled(*given: Any) -> None:
                fill(small_disk)
                original(*given)

            patch.setattr(module, stage, filled)
            said(capsys, arguments, FAILED, "no space left on the disk", "make room")
        layout = workshop.layout("full")
        assert not layout.public.manifest.exists()
        if stage in ("ingest", "measure"):
            assert not list(layout.public.path.rglob("measurements/level=*/_SUCCESS"))
        (small_disk / "filler").unlink()
        assert main(arguments) == 0
        assert tools.level_rows(layout.public.path) == tools.level_rows(calm.public.path)


@pytest.mark.spark
class TestGuards:
    """What the guards of privacy refuse, with exit code 3."""

    @pytest.mark.parametrize("first", ["a test key", "a real key"])
    def test_a_run_goes_on_under_the_kind_of_key_it_was_begun_with(self, workshop, capsys, monkeypatch, first, calm):
        for module in (levels, driver):
            monkeypatch.setattr(module, "require_safe_session", lambda *_, **__: None)
        workshop.ingested("begun", calm)
        keys = [["--test-key", "x"], []]
        before, after = keys if first == "a test key" else reversed(keys)
        arguments = ["run", str(workshop.run_file()), "--run-id", "begun"]
        with monkeypatch.context() as patch:
            patch.setattr(levels, "estimate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            assert main([*arguments, *before]) == 130
        ledger, tables = workshop.ledger(), list(workshop.root.rglob("part-*"))
        capsys.readouterr()
        said(capsys, [*arguments, *after], REFUSED, f"begun under {first}")
        assert workshop.ledger() == ledger
        assert list(workshop.root.rglob("part-*")) == tables

    def test_a_real_key_in_a_session_without_encryption(self, workshop, refused, monkeypatch):
        encrypted = workshop.spark.sparkContext.getConf().set("spark.io.encryption.enabled", "false")
        monkeypatch.setattr(type(workshop.spark.sparkContext), "getConf", lambda _: encrypted)
        arguments = ["run", str(workshop.run_file()), "--run-id", "bad"]
        refused(workshop, REFUSED, "spark.io.encryption.enabled must be true", arguments=arguments)

    def test_measurements_that_the_journal_does_not_know(self, workshop, capsys, calm):
        context = workshop.ingested("foreign", calm)
        target = context.layout.public.level("measurements", "State")
        target.mkdir(parents=True)
        (target / "part-0.parquet").write_bytes(b"from somewhere else")
        arguments = ["run", str(workshop.run_file()), "--run-id", "foreign", "--test-key", "x"]
        said(capsys, arguments, REFUSED, "measurements of level State")

    def test_a_ledger_that_was_edited(self, workshop, capsys, calm):
        workshop.ingested("edited", calm)
        file = workshop.ledger_file
        file.write_text('{"format": 1}\n')
        arguments = ["run", str(workshop.run_file()), "--run-id", "edited", "--test-key", "x"]
        said(capsys, arguments, REFUSED, "privacy ledger, line 1")
        assert not workshop.layout("edited").public.table("measurements").exists()


@pytest.mark.spark
def test_units_that_are_not_those_that_are_counted_are_refused(capsys, tmp_path, spark):
    """Of housing units, which are counted, as many are declared: the total and the units of the first class are one."""
    blocks = [f"440010001001{number:04d}" for number in (1000, 1001)]
    counted = {"geocode": [*blocks, blocks[1]], "h1": [1, 1, 0], "count": [5, 3, 1]}
    pq.write_table(pa.table(counted), tmp_path / "records.parquet")
    units = {"geocode": blocks, "units_0": [5, 3], **{f"units_{kind}": [0, 0] for kind in range(1, 8)}}
    pq.write_table(pa.table(units), tmp_path / "units.parquet")
    given = {
        "input.reader": "tidy_counts",
        "input.persons": tmp_path / "records.parquet",
        "input.units": tmp_path / "units.parquet",
        "privacy.acknowledge": "[]",
        "budget.strategy": "state",
        "output.root": tmp_path / "runs",
    }
    settings = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    conf = Path(__file__).parents[2] / "conf" / "pl94_2020_unit.toml"
    arguments = ["run", str(conf), "--run-id", "bad", "--test-key", "x", *settings]
    text = said(capsys, arguments, FAILED, "are not as many as the housing units that are counted", blocks[1])
    assert blocks[0] not in text
    assert readable(tmp_path) == charged(tmp_path) == []
