"""Published tables: columns are counts of cells, remainders are what is left of a total, contradictions are named."""

from __future__ import annotations

import pytest

from das_spark.config import InputSettings
from das_spark.errors import ConfigurationError, InputError
from das_spark.products import product_from
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEADER = "GEO_ID,Total,M_young,M_old,F_0_9,F_10_17"
ROWS = ["11,10,1,2,3,0", "12,0,0,0,0,0", "21,7,0,7,0,0"]
CELLS = (
    {"column": "M_young", "levels": {"sex": "Male", "age": "0 to 17"}},
    {"column": "M_old", "levels": {"sex": 1, "age": 1}},
    {"column": "F_0_9", "levels": {"sex": "Female", "age": "0 to 17"}},
    {"column": "F_10_17", "levels": {"sex": "Female", "age": "0 to 17"}},
    {
        "column": "Total",
        "minus": ["M_young", "M_old", "F_0_9", "F_10_17"],
        "levels": {"sex": "Female", "age": "18 and over"},
    },
)


def definition(**change):
    main = {"name": "main", "framework": "zcdp", "total": "1", "geolevels": {"A": "1/2", "B": "1/2"}}
    return product_from(
        {
            "name": "own",
            "geolevels": [{"name": "A", "length": 1}, {"name": "B", "length": 2}],
            "attributes": [
                {"name": "sex", "levels": ["Female", "Male"]},
                {"name": "age", "levels": ["0 to 17", "18 and over"]},
            ],
            "strategies": [main | {"queries": {"detailed": "1"}}],
            **change,
        }
    )


@pytest.fixture
def read(spark, tmp_path):
    """Reads a table given as lines."""

    def run(rows=ROWS, cells=CELLS, product=None, header=HEADER, **settings):
        own = product or definition()
        (tmp_path / "counts.csv").write_text("\n".join([header, *rows]) + "\n")
        paths = {"persons": str(tmp_path / "counts.csv"), "columns": {"geocode": "GEO_ID"}}
        chosen = InputSettings(reader="published_tables", cells=cells, **paths, **settings)
        READERS["published_tables"].look(chosen, own, own.spine())
        return READERS["published_tables"].read(spark, chosen, own, own.spine())

    return run


def test_columns_are_cells_several_of_one_are_summed_and_a_remainder_is_what_is_left(read, contents):
    counts, geounits = contents(read())
    assert counts == {("11", 2): 1, ("11", 3): 2, ("11", 0): 3, ("11", 1): 4, ("21", 3): 7}
    assert geounits == {"11": (None, None), "12": (None, None), "21": (None, None)}


def test_a_table_may_have_many_columns(read, contents):
    names = [f"C{number}" for number in range(40)]
    cells = [{"column": name, "levels": {"sex": "Male", "age": "0 to 17"}} for name in names]
    cells.append({"column": "Total", "minus": names, "levels": {"sex": "Female", "age": "0 to 17"}})
    row = ",".join(["11", "1000", *map(str, range(40))])
    counts, _ = contents(read([row], cells=tuple(cells), header=",".join(["GEO_ID", "Total", *names])))
    assert counts == {("11", 2): sum(range(40)), ("11", 0): 1000 - sum(range(40))}


def test_geounits_may_be_those_of_a_table_of_their_own(read, contents, tmp_path):
    (tmp_path / "geounits.csv").write_text("GEO_ID\n11\n12\n21\n22\n")
    counts, geounits = contents(read(geography=str(tmp_path / "geounits.csv")))
    assert set(geounits) == {"11", "12", "21", "22"}
    assert sum(counts.values()) == 17
    (tmp_path / "geounits.csv").write_text("GEO_ID\n11\n12\n")
    with pytest.raises(BadInputError, match=r"geocode that is in .*geounits.csv; not so in some rows"):
        read(geography=str(tmp_path / "geounits.csv"))


def test_parts_that_are_more_than_their_total_are_named_by_file_column_and_row(read):
    with pytest.raises(BadInputError) as found:
        read([*ROWS, "22,5,1,2,3,0", "13,1,2,0,0,0"])
    (problem,) = found.value.problems
    assert problem.file.endswith("counts.csv")
    assert (problem.field, problem.rows, problem.examples) == ("Total", 2, (4, 5))
    assert "no less than that of M_young and M_old and F_0_9 and F_10_17 together" in str(found.value)


def test_what_is_no_count_and_a_geounit_twice_are_refused(read):
    with pytest.raises(BadInputError, match="M_old: expected a whole number") as found:
        read(["11,10,1,x,3,0", "12,0,-1,0,0,0", "21,,0,0,0,0"])
    assert {problem.field for problem in found.value.problems} == {"M_old", "M_young", "Total"}
    with pytest.raises(BadInputError, match="each geounit in one row"):
        read([*ROWS, ROWS[0]])
    with pytest.raises(InputError, match="no column 'F_10_17'"):
        read(header="GEO_ID,Total,M_young,M_old,F_0_9,F_10_18")


@pytest.mark.parametrize(("cells", "said"), [
    ((), "input.cells: is missing"),
    ([{"column": "a", "levels": {"sex": "Male"}}], r"cells\[0\].levels: age is missing: a column counts one cell"),
    ([{"column": "a", "levels": {"sex": "Mal", "age": 0}}], r"\[0\].levels.sex: there is no level 'Mal'; .*'Male'"),
    ([{"column": "a", "levels": {"sex": 2, "age": 0}}], r"levels.sex: there is no level 2"),
    ([{"column": "a", "levels": {"sx": 1, "sex": 1, "age": 0}}], r"levels.sx: there is no such attribute; .*'sex'"),
    ([{"column": "a", "minus": ["a"], "levels": {"sex": 1, "age": 0}}], r"cells\[0\].minus: 'a' is taken from itself"),
    ([{"column": "a", "levels": {"sex": 1, "age": 1}}], r"cells\[0\].levels: is a structural zero"),
])  # fmt: skip
def test_a_mapping_that_fits_no_cell_is_said_by_its_key(read, cells, said):
    product = definition(structural_zeros=[{"name": "z", "selection": {"sex": [1], "age": [1]}, "meaning": "none"}])
    with pytest.raises(ConfigurationError, match=said):
        read(cells=cells, product=product)
