"""What every registered product must keep."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction
from math import prod

import numpy as np
import pytest

from das_spark.config import known_levels
from das_spark.constraints import divisible
from das_spark.errors import ConfigurationError, GeographyError
from das_spark.evaluation import single_answers
from das_spark.products import PRODUCTS, MicrodataColumn, Product, product
from das_spark.products import base as vocabulary

EVERY = pytest.mark.parametrize("each", PRODUCTS.values(), ids=list(PRODUCTS))
#: Sources without arguments: of what is counted, and of the units that people are assigned to.
PLAIN = {
    "counted": {"record_type", "record_number", "unit_number", "person_number"},
    "assigned": {"record_type", "unit_number", "population", "tenure", "vacancy"},
}
FILES = pytest.mark.parametrize(
    ("each", "file"),
    [(each, file) for each in PRODUCTS.values() for file in each.files(units=True)],
    ids=[f"{each.name}-{file}" for each in PRODUCTS.values() for file in each.files(units=True)],
)


@EVERY
def test_the_registry_knows_a_product_by_its_own_name(each: Product) -> None:
    assert product(each.name) is each
    assert each.title


def test_an_unknown_product_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError) as caught:
        product("e2e_1941")
    assert "'e2e_1940'" in caught.value.hint


@EVERY
def test_default_levels_are_levels_of_the_product_down_to_its_leaf(each: Product) -> None:
    spine = each.spine()
    assert spine.names == each.default_levels
    assert spine.leaf == each.geolevels[-1]
    assert each.total_at in (*each.default_levels, "none")


@EVERY
def test_a_run_may_take_other_levels_but_only_known_ones_in_order(each: Product) -> None:
    assert each.spine([each.geolevels[-1].name]).leaf == each.geolevels[-1]
    with pytest.raises(GeographyError):
        each.spine(["Galaxy"])
    with pytest.raises(GeographyError):
        each.spine(each.default_levels[::-1])


@EVERY
def test_shares_sum_to_exactly_one_over_levels_and_over_queries(each: Product) -> None:
    assert each.strategies
    for name, strategy in each.strategies.items():
        assert strategy.name == name
        assert strategy.title
        budget = strategy.budget
        assert strategy.geolevels == tuple(level.geolevel for level in budget.levels)
        # Production spines have levels of their own.
        known = [[level.name for level in known_levels(each, kind)] for kind in ("census", "dhc")]
        assert any(
            [name for name in names if name in strategy.geolevels] == list(strategy.geolevels) for names in known
        )
        assert sum(level.share for level in budget.levels) == Fraction(1)
        for level in budget.levels:
            assert sum(query.share for query in level.queries) == Fraction(1)


@EVERY
def test_a_strategy_that_needs_exact_totals_measures_none_of_them_and_knows_their_level(each: Product) -> None:
    for strategy in each.strategies.values():
        if strategy.needs_total_at:
            assert strategy.needs_total_at in strategy.geolevels
            queries = strategy.budget.level(strategy.needs_total_at).queries
            assert all(each.schema.query(share.query).rows > 1 for share in queries)


@EVERY
def test_the_usual_strategy_is_one_for_the_usual_levels(each: Product) -> None:
    assert next(iter(each.strategies.values())).geolevels == each.default_levels


@EVERY
def test_passes_name_queries_canonically_fit_each_once_and_end_with_every_cell(each: Product) -> None:
    for strategy in each.strategies.values():
        assert set(strategy.passes) <= set(strategy.geolevels)
        for level, passes in strategy.passes.items():
            measured = {item.query for item in strategy.budget.level(level).queries}
            fitted = [name for outer in passes for inner in outer.least_squares for name in inner]
            assert len(set(fitted)) == len(fitted)
            assert set(fitted) <= measured
            assert all(each.schema.query(name).name == name for outer in passes for name in outer.names)
            assert each.schema.query("detailed") in [each.schema.query(name) for name in passes[-1].rounding[-1]]


@EVERY
def test_every_measured_query_exists_counts_every_cell_once_and_bears_its_canonical_name(each: Product) -> None:
    for strategy in each.strategies.values():
        for level in strategy.budget.levels:
            for share in level.queries:
                query = each.schema.query(share.query)
                assert query.name == share.query
                assert query.is_partition


@EVERY
def test_answers_that_reports_compare_alone_are_those_of_attributes_or_recodes(each: Product) -> None:
    for name in each.reported:
        assert sum(query.rows for query in single_answers(each.schema, name).values()) == each.schema.query(name).rows


@EVERY
def test_texts_of_tables_have_the_article_that_a_vowel_needs(each: Product) -> None:
    wrong = re.compile(r"\b(a [AEIO]|an [^aeiouAEIOU])")
    assert not [text for table in each.tables for text in (table.title, table.universe) if wrong.search(text)]


@EVERY
def test_strata_partition_the_cells(each: Product) -> None:
    assert each.schema.query(each.strata).is_partition


@EVERY
def test_units_have_a_label_and_bounds_for_every_class(each: Product) -> None:
    assert len(each.unit_classes) == len(set(each.unit_classes))
    assert (each.unit_bounds is None) == (not each.class_query)
    if each.unit_bounds is None:
        return
    query = each.schema.query(each.class_query)
    assert query.is_partition
    if each.record == "person":
        assert len(each.unit_classes) == query.rows
    assert len(each.unit_bounds.least) == query.rows <= len(each.unit_classes)
    one_of_each = np.ones((1, query.rows), dtype=np.int64)
    assert divisible(each.unit_bounds.lower(one_of_each), each.unit_bounds.upper(one_of_each)).all()


@EVERY
def test_structural_zeros_select_some_cells_and_leave_room_in_every_class(each: Product) -> None:
    zero = np.zeros(each.schema.size, dtype=np.bool_)
    for rule in each.structural_zeros:
        mask = rule.mask(each.schema)
        assert rule.meaning
        assert mask.any()
        zero |= mask
    if not each.class_query:
        assert not zero.all()
        return
    possible = each.schema.query(each.class_query).answer_dense((~zero).astype(np.int64))
    assert (possible > 0).all()


def codes_wanted(each: Product, file: str, attribute: str) -> int:
    """How many codes a `recode` column needs."""
    if file != each.record or attribute == "unit_class":
        assert (file, attribute) == ("unit", "unit_class") or each.listed
        return len(each.unit_classes) + 1
    sizes = {known.name: known.size for known in each.schema.attributes}
    return bool(each.listed) + prod(sizes[name] for name in attribute.split("*"))


def check_source(each: Product, file: str, column: MicrodataColumn) -> list[str]:
    """Check the source of a column, and give the texts that it can hold, as far as the product knows them."""
    kind, _, rest = column.source.partition(":")
    if kind == "constant":
        assert rest
        return [rest]
    if kind in {"recode", "divided"}:
        attribute, _, codes = rest.partition(":")
        texts = codes.split(",")
        assert (kind == "divided") <= (each.first_divided is not None)
        assert len(texts) == codes_wanted(each, file, attribute) + (kind == "divided")
        return texts
    if kind == "vacancy" and rest:
        assert len(rest.split(",")) == each.vacant_kinds > 1
        return ["0", *rest.split(",")]
    if part := re.fullmatch(r"geocode\[(\d+):(\d+)\]", column.source):
        return ["0" * (int(part[2]) - int(part[1]))]
    assert column.source in PLAIN["counted" if file == each.record and file != "household" else "assigned"]
    return []


@EVERY
def test_a_product_has_columns_for_exactly_the_files_that_its_runs_write(each: Product) -> None:
    written = set(each.files(units=True))
    file = {"person": "person", "unit": "unit", "household": "unit"}  # households are occupied housing units
    assert {of for of in ("person", "unit") if each.microdata.columns(of)} == {file[kind] for kind in written}
    assert each.files(units=False) == (each.record,)


@EVERY
def test_a_public_layout_is_for_the_same_files(each: Product) -> None:
    assert each.layout("parquet") is each.layout("text") is each.microdata
    if each.ppmf is None:
        with pytest.raises(ConfigurationError, match="no public layout"):
            each.layout("ppmf")
        return
    assert each.layout("ppmf") is each.ppmf
    for file in ("person", "unit"):
        columns = each.ppmf.columns(file)
        assert bool(columns) == bool(each.microdata.columns(file))
        assert len({column.name for column in columns}) == len(columns)
        for column in columns:
            kind = re.fullmatch(r"(CHAR|INT)([1-9][0-9]*)", column.type)
            assert kind, column.name
            assert all(len(text) <= int(kind[2]) for text in check_source(each, file, column)), column.name


@EVERY
def test_no_constant_of_a_text_holds_what_stands_between_fields(each: Product) -> None:
    for layout in (each.microdata, *([each.ppmf] if each.ppmf else [])):
        for column in (*layout.person, *layout.unit):
            if column.source.startswith("constant:"):
                assert not set(column.source) & {layout.delimiter, "\n", '"'}


@FILES
def test_every_microdata_column_has_a_source_and_fits_its_type(each: Product, file: str) -> None:
    columns = each.microdata.columns(file)
    assert len({column.name for column in columns}) == len(columns)
    for column in columns:
        kind = re.fullmatch(r"(CHAR|INT)([1-9])", column.type)
        assert kind, column.name
        assert all(len(text) <= int(kind[2]) for text in check_source(each, file, column)), column.name
        if column.source.startswith("geocode"):
            assert kind[1] == "CHAR"


@FILES
def test_the_geocode_can_be_put_together_again_from_a_record(each: Product, file: str) -> None:
    parts = [column.source for column in each.microdata.columns(file) if column.source.startswith("geocode")]
    reached = 0
    for part in parts:
        first, last = (int(number) for number in part.removeprefix("geocode[").removesuffix("]").split(":"))
        assert first == reached
        reached = last
    assert reached == each.geolevels[-1].length


#: Attributes that the published files of a product left out.
NOT_RELEASED = {"ddp_2010_person": {"citizen"}}


@EVERY
def test_persons_in_different_cells_differ_in_the_file_but_for_the_kind_of_facility(each: Product) -> None:
    """Each attribute is told by a column with one code for each level; but the class may stand in the unit."""
    told = {
        name
        for column in each.microdata.columns(each.record)
        if column.source.startswith(("recode:", "divided:")) and len(set(check_source(each, each.record, column))) > 1
        for name in column.source.split(":")[1].split("*")
    } - ({"unit_class"} if each.listed else set())
    attributes = {attribute.name for attribute in each.schema.attributes}
    if len(each.files(units=True)) == 1:
        assert told == attributes - NOT_RELEASED.get(each.name, set())
        return
    assert told == attributes - {each.class_query}
    assert any(column.source == "unit_number" for column in each.microdata.person)
    assert any(column.source.startswith("recode:unit_class:") for column in each.microdata.unit)


@EVERY
def test_the_comment_of_a_file_is_one_comment_line(each: Product) -> None:
    for layout in (each.microdata, *([each.ppmf] if each.ppmf else [])):
        assert not layout.comment or (layout.comment.startswith("# ") and "\n" not in layout.comment)


@EVERY
def test_the_vocabulary_of_sources_is_documented(each: Product) -> None:
    text = vocabulary.__doc__ or ""
    for column in (*each.microdata.person, *each.microdata.unit):
        assert re.split(r"[:\[]", column.source)[0] in text


@EVERY
def test_a_product_travels_to_workers(each: Product) -> None:
    assert pickle.loads(pickle.dumps(each)) == each


@EVERY
def test_tables_sum_cells_of_the_schema_of_the_product_under_names_of_their_own(each: Product) -> None:
    assert all(table.schema == each.schema for table in each.tables)
    names = [table.name for table in each.tables]
    columns = [column for table in each.tables for column in table.names]
    assert len(set(names)) == len(names)
    assert len(set(columns)) == len(columns)
    assert all("." not in name and "/" not in name for name in names), "names of tables are names of folders"
