"""What the data dictionary says for programs is what the system does: columns, queries and codes of every product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.histogram import NO_GROUP, Schema
from das_spark.io.definitions import counted_cells, definitions, in_words, ranges
from das_spark.io.dictionary import data_dictionary, microdata_dictionary, tables_dictionary
from das_spark.io.microdata_formats import record_columns, unit_columns
from das_spark.products import PRODUCTS, Product

EVERY = pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))


def levels_of(text: str) -> set[int]:
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return {level for run in ends for level in range(run[0], run[-1] + 1)}


def some_cells(schema: Schema, number: int) -> np.ndarray:
    return np.unique(np.random.default_rng(2027).integers(0, schema.size, number))


def levels_in(schema: Schema, cells: np.ndarray) -> dict[str, np.ndarray]:
    """Attribute -> level of each cell, from the last attribute to the first: the fastest comes last."""
    levels, rest = {}, cells
    for attribute in reversed(schema.attributes):
        rest, levels[attribute.name] = np.divmod(rest, attribute.size)
    return levels


def entries_of(product: Product, *, units: bool) -> dict[str, dict[str, Any]]:
    formats = ["parquet", "text", *(["ppmf"] if product.ppmf else [])]
    return {entry["path"]: entry for entry in described(product, formats, units=units)}


def described(product: Product, formats: list[str], *, units: bool) -> tuple[dict[str, Any], ...]:
    tables = tables_dictionary(product.tables_with(units=units), of_cells=product.tables)
    return data_dictionary(product, described=(*microdata_dictionary(product, formats, units=units), *tables))


@given(st.sets(st.integers(0, 60), min_size=1))
def test_ranges_name_their_levels(levels):
    assert levels_of(ranges(levels)) == levels


@EVERY
def test_a_column_of_a_table_counts_the_cells_that_the_dictionary_names(product):
    cells = some_cells(product.schema, 300)
    levels = levels_in(product.schema, cells)
    numbers = np.random.default_rng(2028)
    for table in product.tables:
        for place in numbers.choice(len(table.columns), min(len(table.columns), 12), replace=False):
            column = table.columns[place]
            said = counted_cells(column)
            times = np.zeros(len(cells), dtype=np.int64)
            for selection in said["counts"]:
                met = [np.isin(levels[name], sorted(levels_of(text))) for name, text in selection.items()]
                times += np.all(met, axis=0) if met else 1
            expected = times if "tallied" in said else np.minimum(times, 1)
            chosen = [np.all([np.isin(levels[n], v) for n, v in each], axis=0) for each in column.where if each]
            whole = len(column.where) - len(chosen)
            found = np.sum([*chosen, np.full(len(cells), whole)], axis=0)
            assert np.array_equal(expected, found if column.tallies else np.minimum(found, 1)), column.name


@EVERY
def test_tables_of_other_things_than_cells_say_no_cells(product):
    entries = entries_of(product, units=True)
    for table in (*product.occupancy, *product.medians):
        columns = entries[f"tables/{table.name}.<format>/level=<geolevel>"]["columns"]
        assert not any("counts" in column for column in columns)
    for table in product.tables:
        geocode, *columns = entries[f"tables/{table.name}.<format>/level=<geolevel>"]["columns"]
        assert "counts" not in geocode
        assert all("counts" in column for column in columns)


@EVERY
def test_an_answer_of_a_query_counts_the_cells_that_the_dictionary_names(product):
    schema, cells = product.schema, some_cells(product.schema, 300)
    levels = levels_in(schema, cells)
    budgets = [strategy.budget for strategy in product.strategies.values()]
    names = {query.query for budget in budgets for level in budget.levels for query in level.queries}
    queries = {name: schema.query(name) for name in sorted(names)}
    entries = {entry["path"]: entry for entry in definitions(product.spine(), schema, queries, {}, ())}
    assert [column["name"] for column in entries["(queries)"]["columns"]] == list(queries)
    for column in entries["(queries)"]["columns"]:
        answer, outside = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=bool)
        for name, groups in column["groups"].items():
            group = np.full(len(cells), NO_GROUP)
            for number, text in enumerate(groups):
                group[np.isin(levels[name], sorted(levels_of(text)))] = number
            answer, outside = answer * len(groups) + group, outside | (group == NO_GROUP)
        answer[outside] = NO_GROUP
        assert np.array_equal(answer, queries[column["name"]].row_of(cells)), column["name"]
        assert column["type"] == f"{queries[column['name']].rows} answers"


@EVERY
@pytest.mark.parametrize("units", [True, False])
def test_codes_are_those_that_files_are_written_with(product, units):
    entries, cells = entries_of(product, units=units), some_cells(product.schema, 200)
    levels = levels_in(product.schema, cells)
    assigned, sizes = (
        len(product.files(units=units)) > 1,
        {attribute.name: attribute.size for attribute in product.schema.attributes},
    )
    for path, entry in entries.items():
        if not path.startswith("microdata/"):
            continue
        kind, format = path.removeprefix("microdata/").split(".")
        of_units = kind != product.kind
        written = unit_columns(product, format) if of_units else record_columns(product, format, units=assigned)
        for column, said in zip(written.columns, entry["columns"], strict=True):
            keys = {key for key in ("constant", "digits", "number", "texts") if key in said}
            assert len(keys) == 1, (path, said)
            if "constant" in said:
                assert said["constant"] == column.values[0]
            elif "by" in said:
                together = np.zeros(len(cells), dtype=np.int64)
                for name in said["by"]:
                    together = together * sizes[name] + levels[name]
                assert [said["texts"][level] for level in together] == column.texts(cells)
            elif "texts" in said and of_units:
                assert said["texts"] == column.texts(np.arange(len(said["texts"])))


def test_without_keys_for_programs_words_stay_in_their_order():
    product = PRODUCTS["e2e_2018"]
    entries = list(described(product, ["text"], units=True))
    words = in_words(entries)
    assert [entry["path"] for entry in words] == [entry["path"] for entry in entries]
    for before, after in zip(entries, words, strict=True):
        assert list(after) == [key for key in before if key not in ("delimiter", "header")]
        for full, bare in zip(before["columns"], after["columns"], strict=True):
            assert list(bare) == ["name", "type", "meaning"]
            assert all(full[key] == bare[key] for key in bare)


@EVERY
def test_structural_zeros_are_the_cells_that_the_dictionary_names(product):
    schema, zeros = product.schema, product.structural_zeros
    *_, entry = definitions(product.spine(), schema, {}, {}, zeros)
    cells = some_cells(schema, 300)
    levels = levels_in(schema, cells)
    assert [column["name"] for column in entry["columns"]] == [zero.name for zero in zeros]
    for zero, column in zip(zeros, entry["columns"], strict=True):
        (selection,) = column["counts"]
        met = [np.isin(levels[name], sorted(levels_of(text))) for name, text in selection.items()]
        assert (np.logical_and.reduce(met) == zero.mask(schema)[cells]).all()
