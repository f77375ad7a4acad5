"""Every mistake in a run file is said with its key path, and all of them together."""

from __future__ import annotations

import pytest

from das_spark.config import load_plan
from das_spark.errors import ConfigurationError

SPELLED_OUT = """
[budget.geolevels]
National = "1/2"
State = "1/2"
[budget.queries]
hhgq = "1/2"
detailed = "1/2"
[geography]
levels = ["National", "State"]
"""


def problems_of(path, *settings, **options):
    with pytest.raises(ConfigurationError) as caught:
        load_plan(path, settings=settings, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("budget.epsilom=1", "budget.epsilom: unknown key; did you mean 'epsilon'?"),
        ("budgets.epsilon=1", "budgets: unknown key; did you mean 'budget'?"),
        ("budget.epsilon=0", "budget.epsilon: must be greater than 0, is 0"),
        ("budget.epsilon=-1/4", "budget.epsilon: must be greater than 0, is -1/4"),
        ("budget.epsilon=much", "budget.epsilon: 'much' is not a number"),
        ("budget.epsilon=nan", "budget.epsilon: 'nan' is not a number"),
        ("budget.epsilon=1/0", "budget.epsilon: '1/0' is not a number"),
        ("budget.epsilon=true", "budget.epsilon: expected an exact number"),
        ("budget.rho=1", "budget.rho: the framework is pure_dp, whose total is called epsilon"),
        ("budget.strategy=e2e_1941", "budget.strategy: unknown strategy 'e2e_1941'; did you mean 'e2e_1940'?"),
        ("run.product=e2e_194", "run.product: unknown product 'e2e_194'; did you mean 'e2e_1940'?"),
        ("run.name=a b", "run.name: 'a b' is no name that a file can have"),
        ("input.reader=tidy_count", "input.reader: unknown reader 'tidy_count'; did you mean 'tidy_counts'?"),
        ("input.columns.rase=x", "input.columns.rase: there is no such field; did you mean 'race'?"),
        ("input.columns.units.rase=x", "input.columns.units.rase: there is no such field; did you mean 'race'?"),
        ("input.columns.unit.race=x", "input.columns.unit: there is no such table; did you mean 'units'?"),
        ("input.code_base.rase=1", "input.code_base.rase: there is no such field; did you mean 'race'?"),
        ("input.path=.", "input: path (a folder of tables) and persons are both given"),
        ("input.persons=/no/such.csv", "input.persons: there is no file or folder /no/such.csv"),
        ("input.units=/no/such.csv", "input.units: there is no file or folder /no/such.csv"),
        ("geography.levels=['State', 'Conty']", "geography.levels: the product has no geolevel 'Conty'; did you mean"),
        ("geography.levels=['County', 'State']", "geography.levels: geolevel 'State' has geocodes of 2 digits"),
        ("geography.levels=['State', 'County']", "budget.geolevels.National: there is no such geolevel in the run"),
        ("invariants.total_at=Stat", "invariants.total_at: 'Stat' is no geolevel of the run; did you mean 'State'?"),
        ("invariants.units=yes", "invariants.units: must be true or false, found 'yes'"),
        ("estimation.solvers=['pigp']", "estimation.solvers: 'pigp' is no solver of least squares"),
        ("estimation.solvers=['highs']", "estimation.solvers: 'highs' is no solver of least squares"),
        ("estimation.rounding=up", "estimation.rounding: 'up' is not one of 'nearest' or 'released'"),
        ("estimation.failsafe=true", 'estimation.failsafe: needs every noisy answer: set measurement.rows = "all"'),
        ("measurement.rows=some", "measurement.rows: 'some' is not one of 'support' or 'all'"),
        ("output.microdata=['pdf']", "output.microdata.0: 'pdf' is not one of 'parquet', 'text' or 'ppmf'"),
        (
            "output.microdata=['text', 'ppmf']",
            "output.microdata: product 'e2e_1940' has no public layout of its microdata",
        ),
        ("config_version=2", "config_version: must be 1, the version that this das_spark reads, found 2"),
        ("budget.level_queries.Stat.hhgq=1", "budget.level_queries.Stat: there is no such geolevel in the run"),
    ],
)
def test_a_wrong_setting_is_said_with_its_key_path(write_run_file, setting, expected):
    assert expected in problems_of(write_run_file(), setting)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('National = "1/2"', 'National = "1/3"'), "budget.geolevels: shares sum to 5/6, not 1"),
        (('hhgq = "1/2"', 'hhgq = "1/3"'), "budget.queries: shares sum to 5/6, not 1"),
        (('National = "1/2"', ""), "budget.geolevels: geolevel 'National' has no budget"),
        (('National = "1/2"', 'Nation = "1/2"'), "budget.geolevels.Nation: there is no such geolevel in the run; did"),
        (('hhgq = "1/2"', 'hhgqq = "1/2"'), "budget.queries.hhgqq: query 'hhgqq'"),
        (('hhgq = "1/2"', '"hhgq *" = "1/2"'), "where a name should be"),
        (
            ('hhgq = "1/2"', "hhgq = 0.5"),
            'budget.queries.hhgq: 0.5 is a float; write an exact fraction as a string, e.g. "1/2"',
        ),
        (('hhgq = "1/2"', 'hhgq = "0"\n"race" = "1/2"'), "budget.queries.hhgq: a share must be greater than 0, is 0"),
        (('hhgq = "1/2"', 'gqTotal = "1/2"'), "budget.queries.gqTotal: leaves out some cells"),
        (
            ('hhgq = "1/2"', '"hhgq * age18plus * hispanic * race" = "1/2"'),
            "is the query 'hhgq * age18plus * hispanic * race', which has a share already",
        ),
    ],
)
def test_wrong_shares_are_said_with_their_key_path(write_run_file, change, expected):
    path = write_run_file(SPELLED_OUT.replace(*change))
    assert expected in problems_of(path)


def test_a_float_budget_is_refused_in_the_file(write_run_file):
    text = problems_of(write_run_file("epsilon = 0.25\n"))
    assert 'budget.epsilon: 0.25 is a float; write an exact fraction as a string, e.g. "1/4"' in text


def test_nothing_that_says_the_shares_is_refused(write_run_file):
    path = write_run_file()
    path.write_text(path.read_text().replace('strategy = "e2e_1940"', 'epsilon = "1"'))
    assert "name a strategy of the product (e2e_1940) or spell out" in problems_of(path)


def test_a_run_on_occupied_cells_alone_is_refused(write_run_file):
    path = write_run_file("[invariants]\nunits = false\n")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith('units = "')))
    assert "nothing says which geounits exist" in problems_of(path)


def test_invariant_units_need_units(write_run_file, tmp_path):
    path = write_run_file()
    geography = f'geography = "{tmp_path}/units.csv"'
    lines = [geography if line.startswith('units = "') else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    assert "the units are declared invariant, and nothing gives them" in problems_of(path)


def test_a_missing_input_is_no_problem_of_a_plan_that_is_only_looked_at(write_run_file):
    plan = load_plan(write_run_file(), settings=["input.persons=/no/such.csv"], files=False)
    assert plan.input.persons == "/no/such.csv"


def test_all_problems_are_reported_together(write_run_file):
    text = problems_of(
        write_run_file("epsilon = 0.25\nepsilom = 1\n"),
        "input.persons=/no/such.csv",
        "estimation.solvers=['pigp']",
        "invariants.total_at=Stat",
    )
    assert text.count("\n  - ") == 5
    for key in ("budget.epsilon:", "budget.epsilom:", "input.persons:", "estimation.solvers:", "invariants.total_at:"):
        assert key in text


def test_a_wrong_entry_says_nothing_of_what_follows_from_it(write_run_file):
    text = problems_of(write_run_file(SPELLED_OUT.replace('hhgq = "1/2"', "hhgq = 0.5")))
    assert "shares sum" not in text


CONSTRAINT = '\n[[constraints]]\nname = "a"\ngeolevel = "State"\nquery = "hhgq"\nsense = "<="\nright = 3\n'


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('"State"', '"Stat"'), "constraints.0.geolevel: 'Stat': there is no such geolevel in the run"),
        (('"hhgq"', '"hgq"'), "constraints.0: query 'hgq'"),
        (("= 3", "= [1, 2]"), "constraints.0: constraint 'a': 2 right-hand sides for the 8 answers"),
        (("= 3", "= -3"), "constraints.0: constraint 'a': right-hand sides are whole numbers"),
        (('"<="', '"<"'), "constraints.0.sense: '<' is not one of"),
    ],
)
def test_a_wrong_constraint_is_said_with_its_place(write_run_file, change, expected):
    assert expected in problems_of(write_run_file(CONSTRAINT.replace(*change)))


def test_two_constraints_of_one_name_are_refused(write_run_file):
    assert "another constraint is called 'a'" in problems_of(write_run_file(CONSTRAINT + CONSTRAINT))


def test_a_constraint_becomes_part_of_the_plan(write_run_file):
    (added,) = load_plan(write_run_file(CONSTRAINT)).added
    assert (added.geolevel, added.query, str(added.sense), added.right) == ("State", "hhgq", "<=", (3,))
