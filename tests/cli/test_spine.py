"""`spine build` from end to end, and what it says to bad input."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import servers

from das_spark.cli.main import main
from das_spark.io.population_files import simulate
from das_spark.places import place_of
from das_spark.spark.census import read_spine
from das_spark.store import files_below

pytestmark = pytest.mark.slow

SHARES = ["--product", "pl94_2020_person", "--strategy", "us"]
HEADER = "geocode,aiannhce,cousubfp,cousubfs,placefp,placefs,sdunilea,sdseclea,sdelmlea"
ROWS = [f"440010{tract:05d}1100{block},9999,05140,A,,,00030,," for tract in (100, 200) for block in range(9)]


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population") / "files"
    return folder, simulate(folder, "2020", Fraction(1, 20_000), "cef")


@pytest.fixture
def table(tmp_path):
    def write(rows=ROWS, header=HEADER):
        path = tmp_path / "blocks.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


@pytest.fixture
def build(tmp_path):
    def run(geography, *options, reader="tidy", spine="optimised", shares=SHARES):
        place = ["--geography", str(geography), "--reader", reader, "--out", str(tmp_path / "spine")]
        return main(["spine", "build", *place, "--spine", spine, *shares, *options])

    return run


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["census", "aian", "optimised"])
def test_a_spine_of_a_simulated_population(spark, capsys, tmp_path, build, population, kind):
    folder, summary = population
    assert build(folder / "geography.txt", reader="grfc", spine=kind) == 0
    printed = capsys.readouterr().out
    assert f"Spine '{kind}' of {summary.geounits:,} blocks" in printed
    assert all(level in printed for level in ("US", "Tract", "Block_Group", "unmeasured"))
    stored = read_spine(spark, tmp_path / "spine")
    rows = stored.blocks.collect()
    assert len({row["block"] for row in rows}) == stored.record.blocks == summary.geounits
    assert {sum(map(Fraction, row["shares"])) for row in rows} == {1}
    assert dict(stored.record.facts) == {"reader": "grfc", "product": "pl94_2020_person", "strategy": "us"}


@pytest.mark.spark
def test_group_quarters_settings_and_json(capsys, tmp_path, build, table):
    units = tmp_path / "units.csv"
    names = ",".join(f"units_{number}" for number in range(1, 8))
    units.write_text(f"geocode,{names}\n{ROWS[0][:16]},0,0,1,0,0,0,0\n")
    assert build(table(), "--units", str(units), "--set", "spine.fanout_cutoff=0", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["settings"]["fanout_cutoff"] == 0
    assert data["notes"] == []
    # Nine blocks a tract, four at most in a group; the one with group quarters is apart.
    assert [level["geounits"] for level in data["levels"]][3:] == [2, 6, 18]


@pytest.mark.spark
def test_the_file_of_units_must_be_of_the_same_blocks(capsys, tmp_path, build, table):
    units = tmp_path / "units.csv"
    names = ",".join(f"gq{number}" for number in range(1, 8))
    units.write_text(f"geocode,{names}\n4400100090011000,0,0,1,0,0,0,0\n")
    assert build(table(), "--units", str(units)) == 1
    assert "expected blocks of the geography; not so in 1 row (geounits 4400100090011000)" in capsys.readouterr().err


DHC = """\
[budget]
rho = "1"
geolevels = { US = "1/8", State = "1/8", County = "1/8", Prim = "1/8", Tract_Subset_Group = "1/8", \
Tract_Subset = "1/8", Block_Group = "1/8", Block = "1/8" }
"""


@pytest.mark.spark
def test_a_crosswalk_that_splits_a_block_is_refused(capsys, tmp_path, build, table):
    shares, crosswalk = tmp_path / "dhc.toml", tmp_path / "crosswalk.csv"
    shares.write_text(DHC)
    pairs = [f"{row[:16]},one" for row in ROWS]
    options = {"spine": "dhc", "shares": ["--shares", str(shares)]}
    crosswalk.write_text("\n".join(["geocode,primitive", *pairs, f"{ROWS[0][:16]},two"]) + "\n")
    assert build(table(), "--crosswalk", str(crosswalk), **options) == 2
    said = capsys.readouterr().err
    assert f"the crosswalk splits 1 blocks between primitive geounits, '{ROWS[0][:16]}'" in said
    crosswalk.write_text("\n".join(["geocode,primitive", *pairs]) + "\n")
    assert build(table(), "--crosswalk", str(crosswalk), **options) == 0
    assert "Tract_Subset_Group" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "header", "words"),
    [
        ([*ROWS, ROWS[3]], HEADER, "blocks.csv, geocode: expected each block once; not so in 2 rows"),
        (ROWS, HEADER.replace("placefs", "status"), "blocks.csv: no column 'placefs'"),
        ([ROWS[0].replace("9999", "4993"), *ROWS[1:]], HEADER, "aiannhce: expected a code that is assigned"),
        ([ROWS[0].replace("05140", "5140"), *ROWS[1:]], HEADER, "cousubfp: expected 5 digits"),
    ],
)
def test_bad_geography_is_refused(capsys, tmp_path, build, table, rows, header, words):
    assert build(table(rows, header)) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "spine").exists()


@pytest.mark.spark
def test_a_block_in_two_tracts_is_refused(capsys, tmp_path, build, population):
    lines = (population[0] / "geography.txt").read_text().splitlines()
    names = lines[0].split("|")
    first, last = lines[1].split("|"), lines[-1].split("|")
    last[names.index("OIDTABBLK")] = first[names.index("OIDTABBLK")]
    (tmp_path / "geography.txt").write_text("\n".join([*lines[:-1], "|".join(last)]) + "\n")
    assert build(tmp_path / "geography.txt", reader="grfc") == 1
    assert "OIDTABBLK: expected one block, in one tract, for each key; not so in 2 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "budget.geolevels.US=0.1a"], "budget.geolevels.US: '0.1a' is not a number"),
        (["--set", "budget.geolevels.US=1/2"], "the shares of the geolevels sum to"),
        (["--set", "spine.group_type=odd"], "no group type is called 'odd'"),
        (["--preset", "pl95"], "--preset pl95"),
        (["--strategy", "us_rebalanced"], "--spine 'optimised' divides geounits of State"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(capsys, tmp_path, build, options, words):
    assert build(tmp_path / "nowhere", *options) == 2
    assert words in capsys.readouterr().err


@pytest.mark.spark
def test_an_unknown_reader_and_a_full_folder_are_refused(capsys, tmp_path, build, table):
    assert build(table(), reader="grf") == 2
    assert "did you mean 'grfc'" in capsys.readouterr().err
    (tmp_path / "spine").mkdir()
    (tmp_path / "spine" / "mine").touch()
    assert build(table()) == 1
    assert "there is something already" in capsys.readouterr().err


def test_the_command_is_explained(capsys):
    assert main(["spine", "build", "--help"]) == 0
    assert "--crosswalk" in capsys.readouterr().out
    assert main(["spine"]) in (0, 2)


@pytest.mark.spark
def test_a_spine_and_its_report_lie_in_a_store_as_on_a_disk(spark, capsys, tmp_path, table):
    rows = table()
    with servers.s3_server(tmp_path / "s3") as server, servers.reached(server.environment, spark):
        places = [tmp_path / "here", place_of(f"{server.url}/there")]
        geography = places[1] / "blocks.csv"
        geography.system.write(str(geography), rows.read_bytes())
        for place, blocks in zip(places, (rows, geography), strict=True):
            given = ["--geography", str(blocks), "--reader", "tidy"]
            built = ["--spine", "optimised", *SHARES, "--out", f"{place}/spine"]
            assert main(["spine", "build", *given, *built]) == 0
            assert f"written: {place}/spine" in capsys.readouterr().out
            reported = ["--out", f"{place}/report", "--data", f"{place}/data"]
            assert main(["spine", "report", f"{place}/spine", *given, *reported]) == 0
            assert main(["spine", "build", *given, *built]) == 1
            assert "there is something already" in capsys.readouterr().err
        here, there = ({name: (place / name).read_bytes() for name in files_below(place)} for place in places)
        del there["blocks.csv"]
        assert there == here
        assert {"spine/spine.json", "spine/_SUCCESS", "report/spine_report.html"} < there.keys()
        missing = ["--geography", f"{server.url}/nothing", "--reader", "tidy"]
        assert main(["spine", "report", f"{places[1]}/spine", *missing]) == 1
        assert f"{server.url}/nothing: no such file or folder" in capsys.readouterr().err
