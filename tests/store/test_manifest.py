"""Manifests are whole, versioned, told apart, and say what every output is."""

import json

import pytest

from das_spark.errors import OutputError
from das_spark.io.dictionary import data_dictionary, measurements_dictionary, microdata_dictionary
from das_spark.io.noisy_files import written_schema
from das_spark.products import PRODUCTS
from das_spark.spark import tables
from das_spark.store import FileRecord, MeasurementsManifest, PublicManifest, RestrictedManifest, StageRecord

PUBLIC = PublicManifest(
    run_id="first",
    created="2030-01-01T00:00:00+00:00",
    product="e2e_1940",
    config={"epsilon": "1/4"},
    config_hash="abc",
    versions={"das_spark": "0.1.0"},
    invariants=("totals at State",),
    stages=(StageRecord("measure", "State", ("measurements/level=State",)),),
    rows={"estimates/State": 51},
    solver_status={"State": {"optimal": 1}},
    worst_residuals={"State": {"gap": 1e-9}},
    notices=("INSECURE: made under a test key",),
    data_dictionary=({"path": "x"},),
)
RESTRICTED = RestrictedManifest(
    run_id="first",
    created="now",
    input_rows={"persons": 3},
    seconds={"measure State": 1.5},
    metrics={"measure State": {"entered": 1, "tasks": 4}},
)
MEASUREMENTS = MeasurementsManifest(
    run_id="first",
    created="now",
    product="e2e_1940",
    invariants=("totals at State",),
    files=(FileRecord("e2e_1940/State.parquet/DPQuery/part-0.parquet", 7, "abc"),),
)


@pytest.mark.parametrize("manifest", [PUBLIC, RESTRICTED, MEASUREMENTS])
def test_a_manifest_survives_the_file(tmp_path, manifest):
    path = tmp_path / "manifest.json"
    manifest.save(path)
    loaded = type(manifest).load(path)
    assert loaded.to_json() == manifest.to_json()
    assert json.loads(path.read_text())["schema_version"] == manifest.schema_version


def test_the_stages_and_sentences_come_back_as_they_went(tmp_path):
    PUBLIC.save(tmp_path / "m")
    loaded = PublicManifest.load(tmp_path / "m")
    assert loaded.stages == PUBLIC.stages
    assert loaded.invariants == PUBLIC.invariants


def test_one_kind_is_not_read_as_the_other(tmp_path):
    RESTRICTED.save(tmp_path / "m")
    with pytest.raises(OutputError, match="restricted manifest"):
        PublicManifest.load(tmp_path / "m")


def test_a_restricted_manifest_of_the_first_version_is_refused_by_name(tmp_path):
    content = {**json.loads(RESTRICTED.to_json()), "schema_version": 1}
    (tmp_path / "m").write_text(json.dumps(content))
    with pytest.raises(OutputError, match="schema version 1, expected 3"):
        RestrictedManifest.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("version", "without"),
    [(3, ("estimation", "published", "uncertified")), (4, ("published", "uncertified")), (5, ("uncertified",))],
)
def test_a_public_manifest_of_an_earlier_version_is_read_and_says_nothing_of_what_came_later(
    tmp_path, version, without
):
    content = {**json.loads(PUBLIC.to_json()), "schema_version": version}
    for name in without:
        del content[name]
    (tmp_path / "m").write_text(json.dumps(content))
    assert PublicManifest.load(tmp_path / "m") == PublicManifest.load(saved(tmp_path / "n"))
    (tmp_path / "m").write_text(json.dumps({**content, without[-1]: ""}))
    with pytest.raises(OutputError, match=f"'{without[-1]}' is missing or unknown in version {version}"):
        PublicManifest.load(tmp_path / "m")


def saved(path):
    PUBLIC.save(path)
    return path


@pytest.mark.parametrize("change", [{"schema_version": 1}, {"surprise": 1}, {"kind": None}])
def test_another_version_or_an_unknown_field_is_refused(tmp_path, change):
    content = {**json.loads(PUBLIC.to_json()), **change}
    (tmp_path / "m").write_text(json.dumps(content))
    with pytest.raises(OutputError):
        PublicManifest.load(tmp_path / "m")


def test_a_missing_or_broken_manifest_is_a_clear_error(tmp_path):
    with pytest.raises(OutputError, match="no manifest"):
        PublicManifest.load(tmp_path / "m")
    (tmp_path / "m").write_text("{")
    with pytest.raises(OutputError, match="not readable"):
        PublicManifest.load(tmp_path / "m")


def described(product, formats, *, units):
    return data_dictionary(product, described=microdata_dictionary(product, formats, units=units))


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
@pytest.mark.parametrize("units", [True, False])
def test_the_dictionary_tells_of_every_table_and_file(product, units):
    entries = {entry["path"]: entry for entry in described(product, ["parquet", "text"], units=units)}
    files = product.files(units=units)
    assert {name for name in entries if name.startswith("microdata/")} == {
        f"microdata/{kind}.{format}" for kind in files for format in ("parquet", "text")
    }
    for kind in files:
        text = [column["name"] for column in entries[f"microdata/{kind}.text"]["columns"]]
        assert text == [column.name for column in product.microdata.columns(kind)]
    of_formats = [entries[f"microdata/{product.record}.{format}"]["columns"] for format in ("parquet", "text")]
    assert of_formats[0] == of_formats[1], "constant columns stand in both"
    assert all(column["meaning"] for entry in entries.values() for column in entry["columns"])


def test_the_dictionary_tells_of_the_public_copy_with_its_constant():
    for name, kind in (("pl94_2020_person", "person"), ("pl94_2020_unit", "unit")):
        product = PRODUCTS[name]
        entries = {entry["path"]: entry for entry in described(product, ["text", "ppmf"], units=True)}
        columns = entries[f"microdata/{kind}.ppmf"]["columns"]
        assert [column["name"] for column in columns] == [column.name for column in product.ppmf.columns(kind)]
        assert columns[0]["meaning"].startswith(f"always {name}_das_spark-")
        assert columns[0]["type"].startswith("CHAR")


def test_the_dictionary_has_the_columns_of_the_tables():
    entries = {entry["path"]: entry for entry in described(PRODUCTS["e2e_1940"], ["parquet"], units=True)}
    for name in ("geounits", "histograms", "invariants", "bounds", "measurements", "estimates", "diagnostics"):
        told = [(column["name"], column["type"]) for column in entries[f"{name}/level=<geolevel>"]["columns"]]
        schema = getattr(tables, name.upper())
        found = [(field.name, field.dataType.simpleString().replace("bigint", "long")) for field in schema.fields]
        assert told == found


def test_the_files_of_measurements_come_back_as_records(tmp_path):
    MEASUREMENTS.save(tmp_path / "m")
    assert MeasurementsManifest.load(tmp_path / "m").files == MEASUREMENTS.files
    with pytest.raises(OutputError, match="measurements manifest"):
        PublicManifest.load(tmp_path / "m")


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_the_dictionary_of_measurements_names_every_column_in_order(product):
    entries = {entry["path"]: entry for entry in measurements_dictionary(product)}
    columns = [column["name"] for column in entries[f"{product.name}/<geolevel>.parquet/DPQuery"]["columns"]]
    assert columns == list(written_schema([attribute.name for attribute in product.schema.attributes]))
    assert product.counted in str(entries[f"{product.name}/<geolevel>.parquet/Constraint"]["columns"])
