"""Noisy measurements published: what the folder holds, and what it does not tell."""

from __future__ import annotations

import json
import shutil

import pytest

from das_spark.cli.main import main
from das_spark.errors import OutputError
from das_spark.pipeline import publish_measurements
from das_spark.pipeline.statement import INSECURE
from das_spark.products import PRODUCTS
from das_spark.store import MeasurementsManifest, record_of

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

PRODUCT = PRODUCTS["e2e_1940"]
ATTRIBUTES = [attribute.name for attribute in PRODUCT.schema.attributes]
GEOUNITS = {"State": 2, "County": 5, "Enumdist": 25}
WRONG = 2


class TestPublished:
    """What the folder holds."""

    def test_measurements_stand_in_the_published_columns(self, measured, tools):
        recode_free = {"hhgq": ("hhgq", "*", "*", "*"), "detailed": ("detailed",) * 4}
        shapes = {"hhgq": [8, 1, 1, 1], "detailed": list(PRODUCT.schema.shape)}
        for level, count in GEOUNITS.items():
            rows = tools.rows_of(measured.folder / "nmf" / "e2e_1940" / f"{level}.parquet" / "DPQuery")
            assert len(rows) == 2 * count
            own = {
                (row["geocode"], row["query"]): (row["values"], row["variance"])
                for row in tools.rows_of(measured.layout("whole").public.level("measurements", level))
            }
            for row in rows:
                assert list(row) == [
                    "geocode",
                    "query_name",
                    *ATTRIBUTES,
                    "query_shape",
                    "value",
                    "variance",
                    "plb",
                    "sign",
                ]
                query = row["query_name"].removesuffix("_dpq")
                assert row["query_name"] == f"{query}_dpq"
                assert tuple(row[name] for name in ATTRIBUTES) == recode_free[query]
                assert row["query_shape"] == shapes[query]
                assert (row["value"], row["variance"]) == own.pop((row["geocode"], query))
                assert row["plb"] == {"State": "1/2", "County": "1/2", "Enumdist": "1"}[level]
                assert row["sign"] is None
            assert own == {}

    def test_constraints_are_the_exact_totals_and_bounds(self, measured, tools):
        rows = tools.rows_of(measured.folder / "nmf" / "e2e_1940" / "State.parquet" / "Constraint")
        totals = {
            row["geocode"]: row["values"]
            for row in tools.rows_of(measured.layout("whole").public.level("invariants", "State"))
        }
        found = {(row["geocode"], row["query_name"]): row for row in rows}
        for geocode, total in totals.items():
            assert found[geocode, "total_con"]["value"] == total
            assert found[geocode, "total_con"]["sign"] == "="
            assert [found[geocode, "total_con"][name] for name in ATTRIBUTES] == ["*"] * 4
            low, high = (found[geocode, f"hhgq_total_{side}_con"] for side in ("lb", "ub"))
            assert (low["sign"], high["sign"]) == (">=", "<=")
            assert low["query_shape"] == high["query_shape"] == [8, 1, 1, 1]
            assert all(least <= most for least, most in zip(low["value"], high["value"], strict=True))
            assert (low["variance"], low["plb"]) == (0.0, None)
        assert len(rows) == 3 * GEOUNITS["State"]

    def test_the_record_has_the_budget_the_schema_and_the_checksum_of_every_file(self, measured):
        folder = measured.folder / "nmf"
        record = MeasurementsManifest.load(folder / "measurements.json")
        files = {str(path.relative_to(folder)) for path in folder.rglob("part-*")}
        assert {file.name for file in record.files} == files
        assert all(record_of(folder / file.name, file.name) == file for file in record.files)
        assert record.ledger == json.loads(measured.layout("whole").public.privacy_ledger.read_text())
        assert [each["name"] for each in record.schema] == ATTRIBUTES
        assert record.rows["e2e_1940/County.parquet/DPQuery"] == 10
        assert INSECURE in record.notices
        assert INSECURE in (folder / "_about.txt").read_text()
        described = {each["path"] for each in record.data_dictionary}
        assert {"e2e_1940/<geolevel>.parquet/DPQuery", "geounits/level=<geolevel>"} <= described

    def test_the_folder_tells_nothing_of_the_input_and_holds_no_confidential_count(self, measured):
        names = {path.relative_to(measured.folder / "nmf").parts[0] for path in (measured.folder / "nmf").rglob("*")}
        assert names == {"e2e_1940", "geounits", "invariants", "measurements.json", "_about.txt"}
        restricted = json.loads(measured.layout("whole").restricted.manifest.read_text())
        text = (measured.folder / "nmf" / "measurements.json").read_text()
        assert not any(file["sha256"] in text for file in restricted["input_files"].values())

    def test_a_run_that_kept_its_support_only_is_refused_by_the_name_of_the_setting(self, measured, capsys):
        changed = measured.folder / "support"
        shutil.copytree(measured.layout("whole").public.path, changed)
        manifest = json.loads((changed / "manifest.json").read_text())
        manifest["config"]["measurement"]["rows"] = "support"
        (changed / "manifest.json").write_text(json.dumps(manifest))
        assert main(["measurements", str(changed), "--out", str(measured.folder / "none")]) == WRONG
        assert 'measurement.rows = "all"' in capsys.readouterr().err
        assert not (measured.folder / "none").exists()

    def test_a_folder_that_holds_something_is_refused_and_left_alone(self, measured, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(OutputError, match="empty"):
            publish_measurements(measured.layout("whole").folder, tmp_path, measured.spark)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_folder_that_could_not_be_finished_is_not_there(self, measured, tmp_path, monkeypatch):
        monkeypatch.setattr(MeasurementsManifest, "save", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish_measurements(measured.layout("whole").folder, tmp_path / "nmf", measured.spark)
        assert list(tmp_path.iterdir()) == []
