"""Product files and run files that no census needs: one sentence that names limit and key, and never exit code 0.

Files are refused before work of their size is done; that is counted here, and never timed.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import tomllib
from fractions import Fraction
from itertools import count, islice
from pathlib import Path

import pytest
import tomli_w
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from das_spark import errors, limits
from das_spark.cli import main as door
from das_spark.cli import product as product_command
from das_spark.config import load_sweep
from das_spark.config.load import apply_setting, read_toml
from das_spark.config.run_files import plan_of
from das_spark.errors import BudgetError, ConfigurationError, InputError, OutputError, PrivacyGuardError, Problems
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.io.boundary_files import read_boundaries
from das_spark.privacy import LevelBudget, QueryShare, exact
from das_spark.products import PRODUCTS, code_ranges, product_data, product_from
from das_spark.store import PublicManifest
from das_spark.tabulation import Line, Table

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART = (CONF / "quickstart.toml").read_text()
#: Two times as many characters as a page of a terminal has: a message is read by a person.
READABLE = 20_000


def village(**changes):
    """A small product as plain data, with other tables."""
    text = product_command._TEMPLATE % {"name": "village"}
    return {**tomllib.loads(text), **changes}


def refused(make, *given):
    """Try something that may raise an error of ours, and no other."""
    with contextlib.suppress(ConfigurationError):
        make(*given)


def with_queries(shares, **changes):
    strategy = {**village()["strategies"][0], "queries": shares}
    return village(strategies=[strategy], tables=[], **changes)


def with_total(total):
    return village(strategies=[{**village()["strategies"][0], "total": total}])


def first_table(**changes):
    return {**village()["tables"][0], **changes}


def numbers(most):
    return [str(number) for number in range(most)]


def recodes(most):
    return [{"name": f"r{number}", "groups": {"a": [0], "b": [1]}} for number in range(most)]


TOTAL, FEMALE, _ = village()["tables"][0]["lines"]
SEX = {"name": "sex", "levels": ["Female", "Male"]}
TENS = [{"name": f"a{place}", "levels": numbers(10)} for place in range(7)]

#: Product as text or as data, words of the answer.
PRODUCTS_REFUSED = {
    "nested lists": ("name = " + "[" * 5_000 + "]" * 5_000, "more than 32 lists and tables within each other"),
    "nested tables": ("name = " + "{a = " * 5_000 + "1" + "}" * 5_000, "more than 32 lists and tables"),
    "a little too deep": (village(x=json.loads("[" * 40 + "]" * 40)), "x[0][0]", "more than 32 lists and tables"),
    "number of 5,000 digits": (f"x = {'1' * 5_000}", "a number has more than 300 digits"),
    "number of 301 digits": (f"[a]\nx = {'1' * 301}", "a.x has more than 300 digits"),
    "hexadecimal number": (f"x = 0x{'1' * 50_000}", "x has more than 300 digits"),
    "dotted key": ("a." * 20_000 + "a = 1", "a key has more than 32 names between dots"),
    "dotted key of quoted names": ('"a".' * 20_000 + "a = 1", "a key has more than 32 names between dots"),
    "no geolevel": (village(geolevels=[]), "geolevels: there is none"),
    "bytes": ("#" * 5_000_001, "has more than 5,000,000 bytes"),
    "lines": ("\n" * 1_000_001, "has more than 1,000,000 keys, values and lines"),
    "values": ("x = [" + "1," * 1_000_001 + "]", "has more than 1,000,000 keys, values and lines"),
    "keys": ("".join(f"k{number} = 1\n" for number in range(20_001)), "has more than 20,000 entries"),
    "text": (village(title="x" * 200_001), "title has more than 200,000 characters"),
    "key": (village(**{"x" * 200_001: 1}), "has more than 200,000 characters in a key"),
    "attributes": (village(attributes=[SEX] * 51), "attributes has more than 50 entries"),
    "levels": (village(attributes=[{"name": "a", "levels": numbers(20_001)}]), "attributes[0].levels has more than 20"),
    "recodes": (village(attributes=[{**SEX, "recodes": recodes(1_001)}]), "attributes[0].recodes has more than 1,000"),
    "cells": (village(attributes=[*TENS[:4], {"name": "b", "levels": numbers(2_001)}]), "20,010,000 cells, and 20,00"),
    "geolevels": (village(geolevels=[{"name": f"L{n}", "length": n} for n in range(98)]), "geolevels has more than 97"),
    "strategies": (village(strategies=village()["strategies"] * 101), "strategies has more than 100 entries"),
    "queries": (with_queries({f"q{n}": "1/1001" for n in range(1_001)}), "strategies[0].queries has more than 1,000"),
    "tables": (village(tables=[first_table()] * 1_001), "tables has more than 1,000 entries"),
    "lines of a table": (
        village(tables=[first_table(lines=[TOTAL] + [FEMALE] * 2_000)]),
        "tables[0].lines has more th",
    ),
    "tallied": (village(tables=[first_table(lines=[{**TOTAL, "tallied": [{}] * 101}])]), "lines[0].tallied has more t"),
    "zeros": (
        village(structural_zeros=[{"name": "z", "selection": {}}] * 1_001),
        "structural_zeros has more than 1,00",
    ),
    "columns": (
        village(microdata={"name": "m", "person": [{}] * 501, "unit": []}),
        "microdata.person has more than 500",
    ),
    "digits of a share": (with_total(f"1/{'7' * 100_000}"), "strategies[0].total", "has more than 300 digits"),
    "exponent": (with_total("1e999999999"), "strategies[0].total", "has more than 300 digits"),
    "exponent below 0": (with_total("1e-1000000"), "strategies[0].total", "has more than 300 digits"),
    "exponent with underscores": (with_total("1e99_999_9"), "strategies[0].total", "has more than 300 digits"),
    "exponent in other digits": (
        with_total("1e\u0669\u0669\u0669\u0669\u0669"),
        "strategies[0].total",
        "is not a number",
    ),
    "other digits": (with_total("\u0661/\u0664"), "strategies[0].total", "is not a number"),
    "minus 0": (with_total("-0"), "must be greater than 0, is 0"),
    "list for a number": (with_total([1] * 10_000), "strategies[0].total", "expected an exact number, found list"),
}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder: its exit code and all that it printed."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = door.main(list(words))
        out = capsys.readouterr()
        assert len(out.out + out.err) < READABLE
        return code, out.out + out.err

    return command


def written(name, content):
    Path(name).write_text(content if isinstance(content, str) else tomli_w.dumps(content))
    return name


@pytest.mark.parametrize("name", PRODUCTS_REFUSED)
def test_a_product_file_beyond_a_limit_is_refused_in_a_sentence(run, name):
    content, *words = PRODUCTS_REFUSED[name]
    code, said = run("product", "check", written("mine.toml", content))
    assert code == 2
    for word in ("mine.toml", *words):
        assert word in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_what_tallied_lines_compare_is_bounded_over_all_tables(run):
    everything = {f"a{place}": [1] for place in range(7)}
    lines = [{**TOTAL, "tallied": [everything] * 3}]
    content = with_queries({"detailed": "1"}, attributes=TENS)
    content["tables"] = [first_table(name=f"T{number}", prefix=f"P{number}_", lines=lines) for number in range(7)]
    code, said = run("product", "check", written("mine.toml", content))
    assert code == 2
    assert "tables[6]: tallied lines of more than 200,000,000 cells times selections" in said


def test_queries_are_counted_over_all_strategies(run):
    attributes = [{**SEX, "recodes": recodes(600)}, {"name": "a", "levels": ["x", "y"], "recodes": []}]
    strategy = village()["strategies"][0]
    strategies = [
        {**strategy, "name": name, "queries": {f"r{n}{more}": "1/600" for n in range(600)}}
        for name, more in (("one", ""), ("two", " * a"))
    ]
    content = village(attributes=attributes, strategies=strategies, tables=[])
    code, said = run("product", "check", written("mine.toml", content))
    assert code == 2
    assert "strategies: more than 1,000 different queries" in said


RUNS_REFUSED = {
    "nested": ("x = " + "[" * 5_000 + "]" * 5_000 + "\n" + QUICKSTART, "more than 32 lists and tables"),
    "digits": ("x = " + "1" * 5_000 + "\n" + QUICKSTART, "a number has more than 300 digits"),
    "keys of a table": (
        QUICKSTART + "\n[x]\n" + "".join(f"k{n} = 1\n" for n in range(20_001)),
        "x has more than 20,000",
    ),
    "constraints": (QUICKSTART + "\n[[constraints]]" * 1_001, "constraints has more than 1,000 entries"),
    "queries": (
        QUICKSTART + "\n[budget.queries]\n" + "".join(f"q{n} = 1\n" for n in range(1_001)),
        "budget.queries has",
    ),
    "queries of a level": (
        QUICKSTART + "\n[budget.level_queries.County]\n" + "".join(f'q{n} = "1/1001"\n' for n in range(1_001)),
        "budget.level_queries.County: more than 1,000 different queries",
    ),
}


@pytest.mark.parametrize("name", RUNS_REFUSED)
@pytest.mark.parametrize("command", [("check",), ("plan",), ("sweep", "--epsilon", "1", "--out", "sweep")])
def test_a_run_file_beyond_a_limit_is_refused_in_a_sentence(run, command, name):
    content, word = RUNS_REFUSED[name]
    code, said = run(command[0], written("run.toml", content), *command[1:])
    assert code == 2
    assert "run.toml: " in said
    assert word in said


def test_overlays_options_and_products_of_run_files_have_the_same_limits(run):
    deep = "[" * 5_000 + "]" * 5_000
    written("run.toml", QUICKSTART)
    written("deep.toml", f"x = {deep}")
    for words in [
        ("plan", "run.toml", "--overlay", "deep.toml"),
        ("plan", "run.toml", "--set", f"estimation.solvers={deep}"),
        ("plan", "run.toml", "--set", "a." * 5_000 + "a=1"),
        ("plan", "run.toml", "--set", f"invariants.total_at={'1' * 5_000}"),
        ("plan", "run.toml", "--set", "run.product=deep.toml"),
        ("init", "new.toml", "--product", "deep.toml", "--reader", "simulated"),
        ("budget", "suggest", "deep.toml", "--target", "total@County:sd<=5"),
    ]:
        code, said = run(*words)
        assert code == 2, words
        assert "more than 32" in said or "more than 300 digits" in said
    assert not Path("new.toml").exists()


def test_the_points_of_a_sweep_are_counted_before_they_are_made(tmp_path):
    conf = tmp_path / "run.toml"
    conf.write_text(QUICKSTART)
    tolerances = ",".join(f"1e-{number}" for number in range(1, 102))
    vary = [
        f"estimation.gap_tolerance={tolerances}",
        "measurement.rows=support,all",
        "estimation.rounding=nearest,released",
    ]
    with pytest.raises(ConfigurationError, match="more than 1,000 points"):
        load_sweep(conf, epsilon=["1", "2", "3"], vary=vary, files=False)
    with pytest.raises(ConfigurationError, match="1 to 1,000 runs"):
        load_sweep(conf, epsilon=["1"], runs=10**9, files=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit()", "SystemExit"),
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class Mine(BaseException): pass\nraise Mine('words')", "Mine: words"),
        ("def deep(): deep()\ndeep()", "RecursionError"),
        ("raise MemoryError", "MemoryError"),
        ("def __getattr__(name): raise SystemExit(0)", "SystemExit: 0"),
        ("def PRODUCT(): raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_whatever_ends_the_module_of_a_product_is_a_fault_of_its_file(run, text, said):
    written("my.py", text)
    code, answer = run("product", "check", "my.py:PRODUCT")
    assert code == 2
    assert "my.py" in answer
    assert said in answer
    assert answer.count("\n") == 1
    written("run.toml", QUICKSTART)
    assert run("plan", "run.toml", "--set", "run.product=my.py:PRODUCT")[0] == 2
    debugged = run("--debug", "product", "check", "my.py:PRODUCT")
    assert debugged[0] == 2
    assert "Traceback" in debugged[1]


def test_an_interruption_while_a_product_is_imported_stays_one(run):
    written("my.py", "raise KeyboardInterrupt")
    assert run("product", "check", "my.py:PRODUCT")[0] == door.INTERRUPTED


@pytest.mark.parametrize("code", [0, None, 256, "words"])
def test_a_command_that_is_ended_from_within_has_not_succeeded(run, monkeypatch, code):
    def end(named):
        raise SystemExit(code)

    monkeypatch.setattr(product_command, "find_product", end)
    found, said = run("product", "check", "e2e_1940")
    assert found == 1
    assert f"SystemExit: {code}" in said


# Whatever else is raised (GeneratorExit, a BaseException of a library) ends Python itself with exit code 1.
@pytest.mark.parametrize("error", [RecursionError(), MemoryError()])
def test_whatever_comes_out_of_a_command_is_a_failure(run, monkeypatch, error):
    def fail(named):
        raise error

    monkeypatch.setattr(product_command, "find_product", fail)
    found, said = run("product", "check", "e2e_1940")
    assert found == 1
    assert type(error).__name__ in said


@pytest.mark.parametrize(("code", "end"), [(3, SystemExit(3)), (3, typer.Exit(3)), (0, typer.Exit(0))])
def test_an_exit_code_that_a_command_gives_is_kept(run, monkeypatch, code, end):
    def leave(named):
        raise end

    monkeypatch.setattr(product_command, "find_product", leave)
    assert run("product", "check", "e2e_1940")[0] == code


def test_a_text_that_is_too_large_is_not_parsed(monkeypatch):
    def parsed(*_, **__):
        pytest.fail("was parsed")

    monkeypatch.setattr(limits.tomllib, "loads", parsed)
    for text in ["\n" * 1_000_001, "[[a]]\n" * 400_000, "a." * 100 + "a = 1", "[" * 600_000]:
        with pytest.raises(ConfigurationError, match="more than"):
            limits.parse_toml(text, "x")


def test_no_more_of_a_file_is_read_than_it_may_have():
    with pytest.raises(ConfigurationError, match="more than 5,000,000 bytes"):
        read_toml(Path("/dev/zero"))


def test_signs_in_texts_and_comments_are_no_values():
    commas, dots = "," * 1_000_001, ".x" * 100
    text = f'a = \'{dots}\' # {commas}\nb = "{dots}\\"{dots}"\nc = \'\'\'\n{dots}\'\'\'\nd = """{dots}""{dots}"""\n'
    assert limits.parse_toml(text, "x") == tomllib.loads(text)


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_product_that_ships_is_far_below_the_limits(name):
    data = product_data(PRODUCTS[name])
    text = tomli_w.dumps(data)
    assert len(text) * 2 < limits.SETTINGS.size
    assert limits.parse_toml(text, name) == tomllib.loads(text)
    assert PRODUCTS[name].schema.size * 10 < limits.MOST_CELLS
    limits.check_sizes(data, name)


def test_fifty_problems_are_printed_and_the_others_counted(run, monkeypatch):
    compared = []
    monkeypatch.setattr(
        errors, "get_close_matches", lambda *given: compared.append(given) or difflib.get_close_matches(*given)
    )
    keys = {f"key{number}": 1 for number in range(5_000)}
    code, said = run("product", "check", written("mine.toml", village(**keys)))
    assert code == 2
    assert said.count("\n  - ") == errors.MOST_PROBLEMS
    assert "50 problems, and 4,950 more" in said
    assert len(compared) == errors.MOST_PROBLEMS + 1
    compared.clear()
    code, said = run("plan", written("run.toml", "".join(f"{key} = 1\n" for key in keys) + QUICKSTART))
    assert code == 2
    assert "50 problems, and 4,950 more" in said
    assert len(compared) == errors.MOST_PROBLEMS + 1


def test_problems_that_are_repeated_or_muted_do_not_count():
    problems = Problems("file", muted={"a.b"})
    for _ in range(1_000):
        problems.add("c", "is wrong")
        problems.add("a.b.c", "is wrong")
    problems.add("a.bc", "is wrong")
    assert list(problems.found) == [("c", "is wrong"), ("a.bc", "is wrong")]


def test_names_that_were_meant_are_guessed_among_so_many_of_such_a_length(monkeypatch):
    seen = []
    monkeypatch.setattr(errors, "get_close_matches", lambda name, known, *_: seen.append(len(known)) or [])
    assert errors.did_you_mean("x" * 101, ["y"]) == ""
    assert errors.did_you_mean("x", (str(number) for number in count())) == ""
    assert errors.did_you_mean("x", ["y" * 101, "z"]) == ""
    assert seen == [1_000, 1]
    assert errors.listed(numbers(100)).endswith("59 and 40 more")


class Compared(str):
    """A text that counts how often it is compared."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.times += 1
        return str.__eq__(self, other)


def test_names_are_compared_once_to_find_what_stands_twice():
    Compared.times = 0
    Attribute("a", tuple(Compared(number) for number in range(3_000)))
    assert Compared.times < 3_000


def test_tallied_columns_are_compared_on_the_attributes_that_they_name(monkeypatch):
    attributes = tuple(Attribute(f"a{place}", tuple(numbers(10))) for place in range(6))
    sizes = []
    select = Schema.select
    monkeypatch.setattr(Schema, "select", lambda self, **levels: sizes.append(self.size) or select(self, **levels))
    parts = ({"a1": (1,)}, {"a1": (1, 2)})
    lines = [Line(0, "all", {}, parts), Line(1, "some", {"a2": (3,)}, parts), Line(1, "one", {"a1": (1,)})]
    words = {"name": "T", "title": "t", "universe": "u", "prefix": "P"}
    schema = Schema("s", attributes)
    Table.of(**words, schema=schema, lines=lines)
    assert sizes
    assert max(sizes) == 100
    with pytest.raises(errors.QueryError, match="or more than its heading"):
        Table.of(**words, schema=schema, lines=[lines[0], Line(1, "more", {}, (*parts, {"a1": (2,)}))])


def test_shares_without_a_common_denominator_are_refused_before_they_are_summed():
    queries = tuple(QueryShare(f"q{place}", Fraction(1, 10**200 + 2 * place + 1)) for place in range(1_000))
    with pytest.raises(BudgetError, match="common denominator of more than 1,000 digits"):
        LevelBudget("County", Fraction(1), queries)
    same = tuple(QueryShare(f"q{place}", Fraction(1, 1_000)) for place in range(1_000))
    assert LevelBudget("County", Fraction(1), same).share_of("q999") == Fraction(1, 1_000)


@given(st.from_regex(r"\A[+-]?[0-9_]{0,4}[./]?[0-9_]{0,4}([eE][+-]?[0-9_]{1,9})?\Z") | st.text(max_size=12))
def test_a_number_is_that_of_the_library_or_refused(text):
    try:
        found = exact(text, "x")
    except BudgetError:
        return
    assert max(found.numerator, found.denominator) < 10**limits.MOST_DIGITS
    assert found == Fraction(text)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1/4", "sex", "total"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(sorted({*village(), "medians", "microdata", "structural_zeros", "unit_bounds", "records"}))


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(KEYS, PLAIN, max_size=3))
def test_a_product_of_whatever_plain_data_is_made_or_refused(changes):
    refused(product_from, village(**changes), "mine")


def keys_of(data, above=()):
    """Paths of all values in tables and lists."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield (*above, key)
        yield from keys_of(value, (*above, key))


def with_value(data, path, value):
    """A copy of the data with another value at a path."""
    key, *below = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[key] = with_value(data[key], below, value) if below else value
    return copy


CODED = product_data(PRODUCTS["pl94_2020_unit"])
ODD = st.sampled_from(
    [-1, 0, 10**20, 1.5, float("nan"), "", "\0", "\ud800", "\u00b2", [], [[]], {}, {"": 1}, "geocode[5:1]"]
)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([(data, path) for data in (village(), CODED) for path in keys_of(data)]), ODD | PLAIN)
def test_a_product_with_any_value_in_the_place_of_one_is_made_or_refused(place, value):
    data, path = place
    refused(product_from, with_value(data, path, value), "mine")


RUN = tomllib.loads((CONF / "reference.toml").read_text())


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(list(keys_of(RUN))), ODD | PLAIN)
def test_a_run_file_with_any_value_in_the_place_of_one_is_planned_or_refused(path, value):
    with contextlib.suppress(PrivacyGuardError):
        refused(lambda: plan_of(with_value(RUN, path, value), "run.toml", files=False))


@pytest.mark.parametrize("codes", ["1" * 5_000, "1-" + "1" * 5_000, "\u00b2", "\u0661", "2-1", "1 - 2", "-1", "x"])
def test_codes_are_short_numbers_of_ascii(codes):
    with pytest.raises(ConfigurationError, match="no code and no range of codes"):
        list(code_ranges(codes, "field"))
    assert list(code_ranges("3, 1-2,blank,7-", "field")) == [(3, 3), (1, 2), (7, 7)]


@pytest.mark.parametrize("digits", [-1, 0, 10**9])
def test_the_number_of_a_column_has_few_digits(run, digits):
    code, said = run("product", "check", written("mine.toml", village(tables=[first_table(digits=digits)])))
    assert code == 2
    assert "tables[0]: table T1: the number of a column has 1 to 20 digits" in said


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60) | st.text(alphabet="[]{}=,.\"'#\n\\ae1 ", max_size=60))
def test_whatever_text_is_parsed_or_refused(tmp_path, text):
    place = tmp_path / "any.toml"
    place.write_bytes(text.encode("utf-8", "surrogatepass"))
    refused(read_toml, place)
    refused(apply_setting, {}, f"a={text}")
    refused(apply_setting, {}, text)


@given(st.integers(33, 3_000), st.sampled_from(["[", '{"a":']))
def test_json_of_any_depth_is_refused_in_a_sentence(depth, opening):
    closing = "]" if opening == "[" else "}"
    with pytest.raises(ConfigurationError, match="more than 32 lists and tables"):
        limits.parse_json(opening * depth + "1" + closing * depth, "x", limits.MANIFEST)


def test_manifests_and_boundaries_of_others_have_limits_too(tmp_path):
    place = tmp_path / "file.json"
    place.write_text('{"a":' * 5_000 + "1" + "}" * 5_000)
    with pytest.raises(OutputError, match=r"file\.json: has more than 32 lists and tables"):
        PublicManifest.load(place)
    with pytest.raises(ConfigurationError, match=r"file\.json: has more than 32 lists and tables"):
        read_boundaries(place)
    place.write_text(f'{{"a": {"1" * 5_000}}}')
    with pytest.raises(OutputError, match="a number has more than 300 digits"):
        PublicManifest.load(place)
    place.write_text("{")
    with pytest.raises(InputError, match="cannot be read as a file of boundaries"):
        read_boundaries(place)


def test_a_recode_of_all_levels_is_checked_in_one_pass():
    assert Recode("r", (("a", tuple(islice(count(), 20_000))),)).group_of(20_000).tolist() == [0] * 20_000
