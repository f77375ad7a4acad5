"""What replicates tell the rest of a run: entries of the data dictionary, and folders that are declared once."""

from __future__ import annotations

from pathlib import Path

from quickstart_plans import plan

from das_spark.features import STANDING
from das_spark.features.replicates.settings import ReplicateSettings
from das_spark.pipeline.features import publications_of
from das_spark.pipeline.statement import dictionary_of
from das_spark.products import PRODUCTS
from das_spark.store import PublicLayout

TABLE = PRODUCTS["e2e_2018"].tables[4]
WANTED = 'output.replicates={runs=8, level="0.9", tables=["P5"]}'


def test_a_run_has_the_features_that_it_asks_for_and_no_others():
    standing = [name for name in STANDING if name != "census geounits"]
    assert [publication.name for publication in publications_of(plan())] == standing
    *others, feature = publications_of(plan(WANTED))
    assert [other.name for other in others] == standing
    assert (feature.name, type(feature.settings)) == ("replicates", ReplicateSettings)


def test_every_folder_is_declared_with_its_columns_and_those_beside_tables_are_counted():
    asked, public = plan(WANTED, "output.tables=[]"), PublicLayout(Path("public"))
    census = asked.product.census(asked.spine)
    *_, feature = publications_of(asked)
    folders = [name for output in feature.outputs() for name in output.folders(public)]
    assert folders == [
        *(f"replicate_errors/replicate={number}" for number in range(1, 9)),
        "replicate_offsets",
        *(f"replicate_intervals/P5.parquet/level={level}" for level in TABLE.levels(census)),
    ]
    assert feature.counted == ("replicate_intervals/P5.parquet",)
    assert all(len(output.schema.names) >= 5 for output in feature.outputs())


def test_the_dictionary_tells_of_replicates_behind_the_tables_and_only_of_those_that_there_are():
    without = dictionary_of(plan())
    found = dictionary_of(plan(WANTED))
    added = [each for each in found if each not in without]
    assert [each for each in found if each in without] == list(without)
    errors, offsets, last = added
    paths = [each["path"] for each in found]
    assert paths.index(last["path"]) > max(place for place, path in enumerate(paths) if path.startswith("tables/"))
    assert errors["path"] == "replicate_errors/replicate=<number>"
    assert [column["name"] for column in errors["columns"]] == ["level", "column", "class", "difference", "cases"]
    assert offsets["path"] == "replicate_offsets"
    assert [column["name"] for column in offsets["columns"]] == [
        *("level", "column", "class", "cases", "rmse", "low", "high"),
    ]
    assert last["path"] == "replicate_intervals/P5.<format>/level=<geolevel>"
    names = [f"{name}{end}" for name in TABLE.names for end in ("", "_rmse", "_low", "_high")]
    assert [column["name"] for column in last["columns"]] == ["geocode", *names]
    assert [column["type"] for column in last["columns"]][-4:] == ["long", "double", "long", "long"]
    assert last["columns"][-4]["meaning"] == (
        "Total: Noninstitutionalized population: Other noninstitutional facilities: the published count"
    )
