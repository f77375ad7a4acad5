"""What later stages need is tried before anything is charged or made: every product, layout, format and option."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product as combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import held_runs
import many_cells_run
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from production_spine import geography_of, published_of

from das_spark.cli.main import main
from das_spark.config import (
    JointPlan,
    RunPlan,
    Stage,
    StageKind,
    level_plan,
    load_plan,
    load_sweep,
    plan_of,
    stages_from_measurements,
    stages_of,
)
from das_spark.core import ESTIMATORS
from das_spark.core.linear import decomposition
from das_spark.errors import (
    BudgetError,
    ConfigurationError,
    EstimationError,
    InputError,
    OutputError,
    PrivacyGuardError,
)
from das_spark.estimation import SOLVERS
from das_spark.features import STANDING
from das_spark.features.intervals import trials as interval_trials
from das_spark.features.microdata import trials as microdata_trials
from das_spark.features.replicates import trials
from das_spark.io.microdata_digest import digest_part
from das_spark.io.microdata_formats import Rows, Sink, TextFormat
from das_spark.pipeline import driver, estimate_from, preflight, rehearsal, run_parts, run_stages, space
from das_spark.pipeline.preflight import try_stages
from das_spark.pipeline.stages import STAGES, ingest, stages_by_kind
from das_spark.pipeline.sweep import carry_out
from das_spark.pipeline.trials import Ahead
from das_spark.products import _REGISTRY, PRODUCTS, MicrodataColumn, Product, product_from
from das_spark.spark import session as session_module
from das_spark.store import RunLayout, SweepLayout
from das_spark.tabulation import values

pytestmark = pytest.mark.slow

FORMS = ("parts", "concatenate", "single")


@pytest.fixture(autouse=True)
def without_spark(monkeypatch):
    for module in (session_module, driver):
        monkeypatch.setattr(module, "session", lambda *_, **__: pytest.fail("Spark was asked for"))


def planned(name: str, **sections: dict[str, Any]) -> RunPlan:
    """A plan of a product by its own defaults, whose files need not be there."""
    data: dict[str, Any] = {
        "config_version": 1,
        "run": {"product": name},
        "input": {"reader": "tidy_counts", "dataset": "people", "path": "nowhere", **published_of(name)},
        "budget": {"strategy": next(iter(PRODUCTS[name].strategies))},
    }
    for section, keys in sections.items():
        data[section] = {**data.get(section, {}), **keys}
    return plan_of(data, "test", files=False)


def tried(plan: RunPlan, tmp_path: Path, *kinds: str) -> None:
    stages = [Stage(kind) for kind in kinds] if kinds else stages_of(plan)
    try_stages(plan, RunLayout.at(tmp_path / "runs", "ahead"), stages, files=False)


def formats_of(product: Product) -> tuple[str, ...]:
    return ("parquet", "text", *(("ppmf",) if product.ppmf else ()))


EVERY_LAYOUT = [
    (name, format, form, units)
    for name, product in PRODUCTS.items()
    for format, form, units in combinations(formats_of(product), FORMS, (True, False))
    if format != "parquet" or form == "parts"
]


def test_every_kind_of_stage_has_an_entry_of_things_that_are_tried(tmp_path):
    assert {*STAGES, *STANDING} == set(StageKind)
    plan = planned("e2e_2018", geography={"path": "x", "reader": "tidy"}, evaluation={"areas": "areas.csv"})
    ahead = Ahead(plan, RunLayout.at(tmp_path, "ahead"), tmp_path, files=True)
    silent = {kind for kind, stage in stages_by_kind(plan).items() if not list(stage.trials(ahead))}
    # The first is a trial itself: of measurements that exist, before a folder. The estimator has no upward pass.
    assert silent == {StageKind.CHECK, StageKind.UPWARD}


def test_a_kind_without_an_entry_is_found(monkeypatch, tmp_path):
    monkeypatch.delitem(STAGES, StageKind.INGEST)
    with pytest.raises(KeyError):
        tried(planned("e2e_2018"), tmp_path)


@pytest.mark.parametrize(("name", "format", "form", "units"), EVERY_LAYOUT)
def test_every_layout_of_every_product_passes(tmp_path, name, format, form, units):
    plan = planned(name, output={"microdata": [format], "microdata_files": form}, invariants={"units": units})
    tried(plan, tmp_path, StageKind.MICRODATA)


@pytest.mark.parametrize("formats", [["parquet"], ["csv"], ["parquet", "csv"]], ids=" ".join)
@pytest.mark.parametrize("name", [name for name, product in PRODUCTS.items() if product.tables])
def test_every_table_of_every_product_passes_in_every_format(tmp_path, name, formats):
    tried(planned(name, output={"tables": formats}), tmp_path, StageKind.TABULATE)


#: Products whose queries and zeros tell too many combinations of levels apart for intervals of single answers.
TOO_MANY = {
    "ddp_2010_household": "these are 2,400 ",
    "dhc_2020_person": "these are 1,890 ",
    "dhc_2020_household": "these are 15,200 ",
}
#: Products of half a million cells and more: no solver takes so many with what is known of them from below.
TOO_LARGE = {"ddp_2010_person", "ddp_2010_household", "dhc_2020_person", "dhc_2020_household"}


def refused_by(estimator: str, name: str) -> str | None:
    """What a product is refused for by an estimator, whatever else a run file says."""
    too_large = estimator == "blue_down" and name in TOO_LARGE
    return f"'blue_down' takes 262,144 cells at most, and {name} has" if too_large else None


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", TOO_MANY)
def test_intervals_of_too_many_combinations_are_refused(estimator, name):
    words = f"{TOO_MANY[name]}.*, more than 1,024"
    with pytest.raises(ConfigurationError, match=refused_by(estimator, name) or words):
        planned(
            name,
            output={"intervals": {"level": "0.9"}},
            measurement={"rows": "all"},
            estimation={"estimator": estimator},
        )


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        (name, estimator)
        for name, product in PRODUCTS.items()
        for estimator in ESTIMATORS
        if product.tables and name not in TOO_MANY and refused_by(estimator, name) is None
    ],
)
def test_intervals_of_every_product_with_tables_pass(tmp_path, name, estimator):
    sections: dict[str, Any] = {"measurement": {"rows": "all"}, "estimation": {"estimator": estimator}}
    plan = planned(name, output={"intervals": {"level": "0.9"}}, **sections)
    tried(plan, tmp_path, "intervals")


@pytest.mark.parametrize("name", [name for name, product in PRODUCTS.items() if product.tables])
def test_intervals_of_published_counts_of_every_product_with_tables_pass(tmp_path, name):
    tried(planned(name, output={"replicates": {"runs": 8, "level": "0.9"}}), tmp_path, "replicates")


@pytest.mark.parametrize(
    ("name", "strategy"), [(name, strategy) for name, product in PRODUCTS.items() for strategy in product.strategies]
)
@pytest.mark.parametrize("units", [True, False], ids=["units", "no units"])
def test_every_strategy_of_every_product_passes_all_stages(tmp_path, name, strategy, units):
    geography = geography_of(name, strategy)
    tried(planned(name, budget={"strategy": strategy}, geography=geography, invariants={"units": units}), tmp_path)


OPTIONS: dict[str, dict[str, Any]] = {
    "all rows": {"measurement": {"rows": "all"}},
    "failsafe": {"measurement": {"rows": "all"}, "estimation": {"failsafe": True}},
    "all levels together": {"estimation": {"estimator": "blue_down"}},
    "all levels together, failsafe": {
        "measurement": {"rows": "all"},
        "estimation": {"estimator": "blue_down", "failsafe": True},
    },
    "released rounding": {"estimation": {"rounding": "released"}},
    "no exact total": {"invariants": {"total_at": "none"}},
    "nothing exact": {"invariants": {"total_at": "none", "units": False}},
    "no evaluation": {"evaluation": {"enabled": False}},
    "no tables": {"output": {"tables": []}},
    **{f"solver {name}": {"estimation": {"solvers": [name]}} for name in ("piqp", "clarabel", "osqp")},
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_schema_of_very_many_cells_is_rehearsed_on_some_of_them_by_every_estimator(monkeypatch, tmp_path, estimator):
    monkeypatch.setitem(_REGISTRY, "many", product_from(many_cells_run.product(7)))
    plan = planned("many", estimation={"estimator": estimator})
    assert plan.product.schema.size > 200_000
    algebra = decomposition(rehearsal.synthetic_level_plan(plan, "State").family)
    assert estimator == "top_down" or algebra.sites < 100
    tried(plan, tmp_path, StageKind.UPWARD, StageKind.ESTIMATE)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_intervals_of_very_many_cells_are_rehearsed_on_cells_that_are_alike(monkeypatch, tmp_path, estimator):
    monkeypatch.setitem(_REGISTRY, "many", product_from(many_cells_run.product(7)))
    sections: dict[str, Any] = {"measurement": {"rows": "all"}, "estimation": {"estimator": estimator}}
    plan = planned("many", output={"intervals": {"level": "0.9"}}, **sections)
    whole, some = (
        decomposition(each.family)
        for each in (level_plan(plan, "State"), rehearsal.synthetic_level_plan(plan, "State", box=True))
    )
    assert whole.sites <= some.sites < 100
    assert len(whole.components) <= len(some.components)
    tried(plan, tmp_path, "intervals")


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_option_passes_with_every_product(tmp_path, name, option):
    estimator = "blue_down" if option.startswith("all levels together") else "top_down"
    if words := refused_by(estimator, name):
        with pytest.raises(ConfigurationError, match=words):
            planned(name, **OPTIONS[option])
        return
    tried(planned(name, **OPTIONS[option]), tmp_path)


@pytest.mark.parametrize("option", [each for each in OPTIONS if each != "nothing exact"])
def test_every_option_passes_with_a_product_that_is_held_to_published_counts(monkeypatch, tmp_path, option):
    _, fine = held_runs.registered(monkeypatch)
    tried(planned(fine.name, **OPTIONS[option]), tmp_path)


def test_published_counts_with_other_answers_are_refused(monkeypatch):
    _, fine = held_runs.registered(monkeypatch)
    wrong = replace(fine, published=replace(fine.published, query="home * age"))
    monkeypatch.setitem(_REGISTRY, fine.name, wrong)
    with pytest.raises(ConfigurationError, match=r"'home \* age' has 6 answers, and 'detailed' of hamlet has 12"):
        planned(fine.name)
    nowhere = replace(fine, published=replace(fine.published, product="hamlets"))
    monkeypatch.setitem(_REGISTRY, fine.name, nowhere)
    with pytest.raises(ConfigurationError, match="there is no product 'hamlets'"):
        planned(fine.name)


def test_runs_on_a_part_of_the_levels_and_with_added_constraints_pass(tmp_path):
    rules = [
        {"name": "few", "geolevel": "State", "query": "hhgq", "sense": "<=", "right": 10**6},
        {"name": "many", "geolevel": "State", "query": "total", "sense": ">=", "right": [5]},
        {"name": "none", "geolevel": "National", "query": "total", "sense": "=", "right": [10**9]},
    ]
    shares = {"geolevels": {"National": "1/2", "State": "1/2"}, "queries": {"hhgq": "1/2", "detailed": "1/2"}}
    plan = planned(
        "e2e_1940",
        geography={"levels": ["National", "State"]},
        budget={"strategy": None, "epsilon": "1", **shares},
    )
    tried(plan, tmp_path)
    data: dict[str, Any] = {
        "config_version": 1,
        "run": {"product": "e2e_1940"},
        "input": {"reader": "tidy_counts", "dataset": "people", "path": "nowhere"},
        "budget": {"strategy": "e2e_1940"},
        "constraints": rules,
    }
    tried(plan_of(data, "test", files=False), tmp_path)
    alone = {"geolevels": {"National": "1"}, "queries": {"detailed": "1"}}
    top = planned("e2e_1940", geography={"levels": ["National"]}, budget={"strategy": None, "epsilon": "1", **alone})
    tried(top, tmp_path)


@pytest.mark.parametrize("kind", ["aian", "optimised", "dhc"])
def test_spines_of_areas_pass(tmp_path, kind):
    geography = {"spine": kind, "reader": "tidy", "path": "areas.parquet"}
    budget: dict[str, Any] = {"strategy": "us"}
    if kind == "dhc":
        names = ["US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block"]
        budget = {"strategy": None, "rho": "1", "geolevels": dict.fromkeys(names, "1/8"), "queries": {"detailed": "1"}}
        budget["framework"] = "zcdp"
    tried(planned("pl94_2020_person", geography=geography, budget=budget), tmp_path)


def write_text_by(monkeypatch, write: Callable[[Sink, Rows], None]) -> None:
    """Let the format "text" write rows by a faulty function, which is given the sink of the file."""
    honest = TextFormat.open

    def faulty(*given: Any) -> Any:
        sink = honest(*given)
        return SimpleNamespace(write=partial(write, sink), close=sink.close)

    monkeypatch.setattr(TextFormat, "open", faulty)


class TestWhatIsBroken:
    """Negative controls: a writer, layout, table, solver or product that fails later is found."""

    def test_a_writer_that_raises_is_named_with_its_format_and_product(self, monkeypatch, tmp_path):
        def broken(*_: Any) -> None:
            raise ValueError("the disk of this writer is made of cheese")

        monkeypatch.setattr(TextFormat, "open", broken)
        plan = planned("e2e_1940", output={"microdata": ["parquet", "text"]})
        with pytest.raises(ConfigurationError, match="cheese") as caught:
            tried(plan, tmp_path)
        assert caught.value.message.startswith("microdata: output.microdata = 'text' (parts), product 'e2e_1940': ")
        assert "leave the format out of output.microdata" in caught.value.hint

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("name", PRODUCTS)
    def test_a_writer_that_swaps_codes_is_found(self, monkeypatch, tmp_path, name, form):
        def swapped(sink: Sink, rows: Rows) -> None:
            owner, code = (np.repeat(each, rows.lengths) for each in (rows.owner, rows.code))
            turned = replace(rows, owner=owner, code=code[::-1].copy(), lengths=np.ones_like(code))
            sink.write(turned if len(set(code.tolist())) > 1 else rows)

        write_text_by(monkeypatch, swapped)
        plan = planned(name, output={"microdata": ["text"], "microdata_files": form})
        with pytest.raises(ConfigurationError, match="do not come back as they were written"):
            tried(plan, tmp_path, StageKind.MICRODATA)

    def test_a_writer_that_loses_records_is_found(self, monkeypatch, tmp_path):
        write_text_by(monkeypatch, lambda *_: None)
        with pytest.raises(ConfigurationError, match="do not come back"):
            tried(planned("pl94_2020_unit", output={"microdata": ["text"]}), tmp_path, StageKind.MICRODATA)

    @pytest.mark.parametrize(
        ("place", "source", "said"),
        [
            ("person", "recode:race:1,2", "2 codes, expected 6"),
            ("person", "nothing_known", "no source"),
            ("unit", "recode:unit_class:0,0,0,0,0,0,0,0,0", "share their codes"),
        ],
    )
    def test_a_layout_that_cannot_be_is_named_with_its_product(self, tmp_path, place, source, said):
        made = PRODUCTS["e2e_1940"]
        columns = [each for each in getattr(made.microdata, place) if each.name not in ("CENRACE", "GQTYPE", "RTYPE")]
        columns = [column for column in columns if column.source not in ("tenure", "vacancy")]
        layout = replace(made.microdata, **{place: (*columns, MicrodataColumn("X", source, "CHAR1"))})
        plan = replace(planned("e2e_1940"), product=replace(made, microdata=layout))
        with pytest.raises(ConfigurationError, match=said) as caught:
            tried(plan, tmp_path)
        assert "product 'e2e_1940'" in caught.value.message + caught.value.hint

    def test_a_table_of_another_schema_is_found(self, tmp_path):
        made = replace(PRODUCTS["e2e_2018"], tables=PRODUCTS["pl94_2020_unit"].tables)
        with pytest.raises((ConfigurationError, InputError), match="table H1"):
            tried(replace(planned("e2e_2018"), product=made), tmp_path, StageKind.TABULATE)

    def test_races_that_are_not_tallied_are_found_and_the_table_is_named(self, monkeypatch, tmp_path):
        made = PRODUCTS["dhc_2020_person"]
        tables = tuple(table for table in made.tables if table.name == "P6")
        plan = replace(planned(made.name), product=replace(made, tables=tables, medians=()))
        tried(plan, tmp_path, StageKind.TABULATE)
        real = values.incidence
        monkeypatch.setattr(values, "incidence", lambda own: replace(real(own), tallies=np.zeros(7, dtype=np.bool_)))
        with pytest.raises(ConfigurationError, match="table P6 of synthetic geounits"):
            tried(plan, tmp_path, StageKind.TABULATE)

    def test_medians_that_lie_in_another_year_are_found_and_the_table_is_named(self, monkeypatch, tmp_path):
        made = PRODUCTS["dhc_2020_person"]
        plan = replace(planned(made.name), product=replace(made, tables=(), medians=made.medians[:1]))
        tried(plan, tmp_path, StageKind.TABULATE)
        real = values.medians
        for wrong in (lambda found: found + 10, np.zeros_like):
            monkeypatch.setattr(values, "medians", lambda *given, wrong=wrong: wrong(real(*given)))
            with pytest.raises(ConfigurationError, match="table P13 of synthetic geounits"):
                tried(plan, tmp_path, StageKind.TABULATE)

    def test_a_solver_that_fails_is_named_although_others_come_before_it(self, monkeypatch, tmp_path):
        def broken(*_: Any) -> None:
            raise ImportError("libsolver.so: cannot open shared object file")

        monkeypatch.setattr(type(SOLVERS["osqp"]), "solve", broken)
        with pytest.raises(ConfigurationError, match=r"estimation.solvers = 'osqp'.*libsolver") as caught:
            tried(planned("e2e_1940"), tmp_path)
        assert "leave it out of estimation.solvers" in caught.value.hint

    def test_a_tolerance_that_no_solver_reaches_is_refused(self, tmp_path):
        plan = planned("e2e_1940", estimation={"gap_tolerance": 1e-300, "solvers": ["osqp"]})
        with pytest.raises(EstimationError, match="product 'e2e_1940' ends as uncertified") as caught:
            tried(plan, tmp_path)
        assert "estimation.gap_tolerance" in caught.value.hint or "gap_tolerance" in caught.value.message

    def test_a_plan_that_is_proved_of_a_handful_of_people_and_not_of_millions_is_refused(self, monkeypatch, tmp_path):
        only_its_total = 'budget.level_queries.NUTS1={total="1"}'
        plan = load_plan("conf/establishments_like.toml", (), [only_its_total], files=False)
        tried(plan, tmp_path, StageKind.ESTIMATE)
        monkeypatch.setattr("das_spark.estimation.certify._levelled_gap", lambda *_: np.inf)
        with pytest.raises(EstimationError, match=r"a synthetic family of NUTS1 .* ends as uncertified"):
            tried(plan, tmp_path, StageKind.ESTIMATE)

    def test_a_solver_that_has_no_bounds_is_refused_alone_where_the_product_has_some(self, tmp_path):
        with pytest.raises(EstimationError, match="ends as uncertified"):
            tried(planned("e2e_1940", estimation={"solvers": ["batched"]}), tmp_path)
        tried(planned("pl94_2020_unit", estimation={"solvers": ["batched"]}), tmp_path)

    def test_a_failsafe_that_does_not_relax_is_found(self, monkeypatch, tmp_path):
        monkeypatch.setattr("das_spark.estimation.family.relaxed_family", lambda *_: "broken")
        with pytest.raises(EstimationError, match="ends as infeasible"):
            tried(planned("e2e_1940", **OPTIONS["failsafe"]), tmp_path, StageKind.ESTIMATE)

    def test_noise_that_is_too_wide_for_its_table_is_refused_with_query_and_level(self, tmp_path):
        shares = {"detailed": "1/1000000000", "hhgq": "999999999/1000000000"}
        plan = planned("e2e_1940", budget={"queries": shares})
        with pytest.raises(BudgetError, match=r"measure: budget, detailed at National: noise with .* is too wide"):
            tried(plan, tmp_path, StageKind.MEASURE)

    def test_a_query_of_the_report_that_is_none_of_the_schema_is_found(self, tmp_path):
        made = replace(PRODUCTS["e2e_1940"], strata="age18plus * sex")
        with pytest.raises(ConfigurationError, match=r"evaluate: run.product: .*sex"):
            tried(replace(planned("e2e_1940"), product=made), tmp_path, StageKind.EVALUATE)

    def test_intervals_that_end_before_they_begin_are_found(self, monkeypatch, tmp_path):
        right = interval_trials.whole_intervals

        def turned(*given):
            low, high = right(*given)
            return high + 1, low

        monkeypatch.setattr(interval_trials, "whole_intervals", turned)
        plan = planned("e2e_2018", measurement={"rows": "all"}, output={"intervals": {"level": "0.9"}})
        with pytest.raises(ConfigurationError, match=r"intervals: output\.intervals: intervals of a synthetic"):
            tried(plan, tmp_path, "intervals")

    def test_intervals_that_do_not_hold_their_counts_are_found_and_the_table_is_named(self, monkeypatch, tmp_path):
        made = trials.count_intervals
        monkeypatch.setattr(trials, "count_intervals", lambda *given: (*made(*given)[:2], made(*given)[1] - 1))
        plan = planned("e2e_2018", output={"replicates": {"runs": 8, "level": "0.9", "tables": ["P4"]}})
        with pytest.raises(
            ConfigurationError, match=r"replicates: output\.replicates: .* of table P4 do not hold them"
        ):
            tried(plan, tmp_path, "replicates")

    def test_a_manifest_that_cannot_be_read_again_is_found(self, tmp_path):
        plan = planned("e2e_1940")
        broken = replace(plan, product=replace(plan.product, name="another", total_at="Nowhere"))
        with pytest.raises(ConfigurationError, match="total_at: 'Nowhere' is no geolevel"):
            tried(broken, tmp_path, StageKind.VERIFY)

    def test_all_problems_are_told_together_with_stage_setting_and_fix(self, monkeypatch, tmp_path):
        write_text_by(monkeypatch, lambda *_: None)
        plan = planned("e2e_1940", output={"microdata": ["text"]})
        plan = replace(plan, product=replace(plan.product, strata="age18plus * sex"))
        with pytest.raises(
            ConfigurationError, match="2 things that the run will need fail; nothing is charged"
        ) as caught:
            tried(plan, tmp_path)
        lines = caught.value.message.splitlines()
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["microdata", "evaluate"]

    def test_what_is_tried_leaves_nothing_behind(self, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        tried(planned("e2e_2018"), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_machine_without_temporary_files_is_said(self, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        with pytest.raises(OutputError, match="temporary files") as caught:
            tried(planned("e2e_2018"), tmp_path)
        assert "TMPDIR" in caught.value.hint


def classless(product: Product) -> Product:
    """People whom nothing divides by class of unit."""
    columns = tuple(each for each in product.microdata.person if each.source != "record_type")
    layout = replace(product.microdata, person=columns, unit=())
    return replace(product, class_query="", unit_bounds=None, microdata=layout, ppmf=None)


@pytest.mark.parametrize("units", [True, False], ids=["units", "no units"])
@pytest.mark.parametrize("name", ["e2e_1940", "e2e_2018", "dallas_2010", "pl94_2020_person"])
def test_people_without_classes_have_microdata(tmp_path, name, units):
    made = classless(PRODUCTS[name])
    plan = planned(name, output={"microdata": ["parquet", "text"]}, invariants={"units": units})
    tried(replace(plan, product=made), tmp_path)


@pytest.mark.parametrize("name", ["e2e_1940", "pl94_2020_person"])
def test_what_needs_a_class_is_refused_without_one_when_the_product_is_made(name):
    with pytest.raises(ConfigurationError, match=r"class_query is empty, and unit_bounds, .*record_type") as caught:
        replace(PRODUCTS[name], class_query="")
    assert "name the query that tells people by class of unit" in caught.value.hint


@pytest.fixture
def refused(dry_workshop, capsys):
    """`check` and `run` refuse a run in the same words; nothing is charged, and no folder made."""

    def both(code: int, *needles: str, settings: Sequence[str] = (), path: Path | None = None) -> None:
        conf = path or dry_workshop.run_file()
        given = [part for setting in settings for part in ("--set", setting)]
        said = []
        for command in (["check"], ["run", "--run-id", "bad", "--test-key", "x"]):
            assert main([command[0], str(conf), *command[1:], *given]) == code
            said.append(capsys.readouterr().err.replace("WARNING: a test key", "").splitlines()[-1])
            assert not dry_workshop.root.exists()
            assert list(dry_workshop.folder.rglob("*.jsonl")) == []
            assert list(dry_workshop.folder.rglob("latest")) == []
        assert said[0] == said[1]
        for needle in needles:
            assert needle in said[0]

    return both


EVALUATED = "evaluation.enabled=true"
GOOD = "geocode,precinct\n0100100000,a\n0100100001,b\n"


class TestFiles:
    """Files that only the last stage reads."""

    def test_areas_that_are_not_there(self, refused):
        settings = [EVALUATED, "evaluation.areas=nofile.csv"]
        refused(1, "evaluate: evaluation.areas:", "nofile.csv: no such file", settings=settings)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("geocode\n0100100000\n", "1 columns, expected 2"),
            ("", "is empty; its first line must hold the names of columns"),
            ("geocode,area\n100100000,a\n1001000,b\n", "expected geocodes of 10 digits"),
            ("geocode,area\nfirst,a\n", "not so in 1 of 1 rows"),
            (GOOD + "0100100001,c\n", "geocode 0100100001 stands twice"),
            ("geocode,area\n".encode("utf-16"), "UTF-16"),
            (gzip.compress(GOOD.encode(), mtime=0), "is compressed (gzip)"),
        ],
    )
    def test_areas_that_cannot_be_used(self, refused, dry_workshop, content, said):
        file = dry_workshop.folder / "areas.csv"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        refused(1, "evaluate: evaluation.areas:", said, settings=[EVALUATED, f"evaluation.areas={file}"])

    def test_good_areas_pass_and_are_not_looked_at_where_nothing_is_evaluated(self, dry_workshop, capsys):
        file = dry_workshop.folder / "areas.csv"
        file.write_text(GOOD)
        conf = str(dry_workshop.run_file())
        assert main(["check", conf, "--set", EVALUATED, "--set", f"evaluation.areas={file}"]) == 0
        assert main(["check", conf, "--set", "evaluation.areas=nofile.csv"]) == 0
        assert main(["check", conf, "--without-files", "--set", EVALUATED, "--set", "evaluation.areas=no.csv"]) == 0
        assert "no problem found" in capsys.readouterr().out

    def test_codes_of_census_blocks_are_areas_of_blocks_and_meet_their_geocodes(self, tmp_path):
        short, wide = "440070001001000", "4400700010011000"
        for codes, fine in ([short, "440070001001001"], True), ([short, wide], False), (["44007", wide], False):
            (tmp_path / "areas.csv").write_text("block,area\n" + "".join(f"{code},a\n" for code in codes))
            plan = planned("e2e_2018", evaluation={"areas": str(tmp_path / "areas.csv")})
            layout = RunLayout.at(tmp_path / "runs", "ahead")
            if fine:
                try_stages(plan, layout, [Stage(StageKind.EVALUATE)])
                continue
            with pytest.raises(InputError, match=r"stands twice|expected geocodes of 16 digits"):
                try_stages(plan, layout, [Stage(StageKind.EVALUATE)])

    @pytest.mark.parametrize("spine", ["census", "optimised"])
    def test_a_geography_without_its_columns(self, tmp_path, spine):
        pq.write_table(pa.table({"geocode": ["4400700010011000"], "placefp": ["1"]}), tmp_path / "areas.parquet")
        geography = {"spine": spine, "reader": "tidy", "path": str(tmp_path / "areas.parquet")}
        plan = planned("pl94_2020_person", geography=geography)
        kinds = [stage for stage in stages_of(plan) if stage.kind in (StageKind.SPINE, StageKind.EVALUATE)]
        with pytest.raises(InputError, match=r"(spine|evaluate): geography.path: .*no column 'aiannhce'"):
            try_stages(plan, RunLayout.at(tmp_path / "runs", "ahead"), kinds)

    def test_a_geography_that_was_read_may_be_withdrawn(self, tmp_path):
        areas = {"reader": "tidy", "path": str(tmp_path / "gone.parquet")}
        layout = RunLayout.at(tmp_path / "runs", "ahead")
        plan = planned("pl94_2020_person", geography={"spine": "optimised", **areas})
        with pytest.raises(InputError, match=r"spine: geography.path: .*no such file"):
            try_stages(plan, layout, [Stage(StageKind.SPINE)])
        layout.public.spine.mkdir(parents=True)
        (layout.public.spine / "_SUCCESS").touch()
        try_stages(plan, layout, [Stage(StageKind.SPINE)])
        try_stages(planned("pl94_2020_person", geography=areas), layout, [Stage(StageKind.EVALUATE)])

    def test_a_crosswalk_without_its_column(self, tmp_path):
        pq.write_table(pa.table({"geocode": ["4400700010011000"]}), tmp_path / "crosswalk.parquet")
        plan = planned("pl94_2020_person")
        plan = replace(plan, geography=replace(plan.geography, crosswalk=str(tmp_path / "crosswalk.parquet")))
        with pytest.raises(InputError, match=r"spine: geography.crosswalk: .*no column 'primitive'"):
            try_stages(plan, RunLayout.at(tmp_path / "runs", "ahead"), [Stage(StageKind.SPINE)])

    def test_an_error_of_a_library_about_a_file_is_not_quoted(self, monkeypatch, tmp_path):
        def leaking(*_: Any) -> None:
            raise ValueError("31337 people")

        monkeypatch.setattr(ingest, "look", leaking)
        with pytest.raises(Exception, match="ValueError") as caught:
            try_stages(planned("e2e_1940"), RunLayout.at(tmp_path, "ahead"), [Stage(StageKind.INGEST)])
        assert "31337" not in str(caught.value)


class TestPlaces:
    """Where a run will be written."""

    def test_a_root_below_a_file(self, refused, dry_workshop):
        path = dry_workshop.run_file()
        (dry_workshop.folder / "file").write_text("")
        refused(
            1,
            "output: output.public:",
            "is no folder",
            settings=[f"output.public={dry_workshop.folder}/file/x"],
            path=path,
        )

    def test_a_root_that_may_not_be_written(self, refused, dry_workshop, monkeypatch):
        path = dry_workshop.run_file()
        closed = dry_workshop.folder / "closed"
        closed.mkdir()
        allowed = preflight.require_writable.__globals__["os"].access
        monkeypatch.setattr(
            "das_spark.store.commit.os.access", lambda place, mode: place != closed and allowed(place, mode)
        )
        refused(1, "output: output.restricted:", "may not write", settings=[f"output.restricted={closed}/x"], path=path)

    def test_a_ledger_that_is_not_there(self, refused, dry_workshop):
        refused(3, "ledger.path", "never made by a run", settings=[f"ledger.path={dry_workshop.folder}/ledgers"])

    def test_a_disk_without_room(self, refused, monkeypatch):
        monkeypatch.setattr(space, "LEAST_SPACE", 1 << 60)
        refused(1, "GB are free", "make room")


def test_of_a_run_that_is_charged_its_disks_alone_are_tried(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "is_charged", lambda _: True)
    plan, layout = planned("e2e_1940"), RunLayout.at(tmp_path, "ahead")
    try_stages(plan, layout, stages_of(plan))  # no file is there
    monkeypatch.setattr(space, "LEAST_SPACE", 1 << 60)
    with pytest.raises(OutputError, match=r"output: .* are free"):
        try_stages(plan, layout, stages_of(plan))


class TestOrigins:
    """Every way to begin a run tries it first."""

    @pytest.fixture
    def broken(self, monkeypatch) -> None:
        write_text_by(monkeypatch, lambda *_: None)

    @pytest.mark.usefixtures("broken")
    def test_a_run(self, dry_workshop):
        with pytest.raises(ConfigurationError, match="microdata: "):
            run_stages(dry_workshop.plan('output.microdata=["text"]'), run_id="a", test_key="x", until="ingest")
        assert not dry_workshop.root.exists()

    @pytest.mark.usefixtures("broken")
    def test_a_joint_run(self, dry_workshop):
        plan = JointPlan("both", {"person": dry_workshop.plan('output.microdata=["text"]')})
        with pytest.raises(ConfigurationError, match="microdata: "):
            run_parts(plan, run_id="a", test_key="x")
        assert not dry_workshop.root.exists()

    @pytest.mark.usefixtures("broken")
    def test_a_sweep(self, dry_workshop):
        plan = load_sweep(dry_workshop.run_file(), epsilon=["1", "2"], runs=2, settings=['output.microdata=["text"]'])
        layout = SweepLayout(dry_workshop.folder / "sweep")
        with pytest.raises(ConfigurationError, match="microdata: "):
            carry_out(plan, layout, session=lambda: pytest.fail("Spark was asked for"), test_key="x")
        assert not layout.path.exists()
        assert not dry_workshop.root.exists()

    @pytest.mark.usefixtures("broken")
    def test_a_run_from_measurements(self, dry_workshop):
        plan = dry_workshop.plan('output.microdata=["text"]')
        source = SimpleNamespace(plan=plan, entry=None, check=lambda _: pytest.fail("examined"))
        with pytest.raises(ConfigurationError, match="microdata: "):
            estimate_from(source, run_id="a", spark=SimpleNamespace())
        assert not dry_workshop.root.exists()

    @pytest.mark.parametrize("name", PRODUCTS)
    def test_stages_from_measurements_pass(self, tmp_path, name):
        plan = planned(name)
        try_stages(plan, RunLayout.at(tmp_path, "ahead"), stages_from_measurements(plan), files=False)


def test_a_guard_that_refuses_keeps_its_kind_of_error(monkeypatch, tmp_path):
    def guarded(*_: Any) -> None:
        raise PrivacyGuardError("nothing says which geounits exist", hint="give them")

    monkeypatch.setattr(ingest, "look", guarded)
    with pytest.raises(PrivacyGuardError, match="ingest: nothing says") as caught:
        try_stages(planned("e2e_1940"), RunLayout.at(tmp_path, "ahead"), [Stage(StageKind.INGEST)])
    assert caught.value.hint == "give them"
    plan = replace(planned("e2e_1940"), product=replace(PRODUCTS["e2e_1940"], strata="age18plus * sex"))
    kinds = [Stage(StageKind.EVALUATE), Stage(StageKind.INGEST)]
    with pytest.raises(PrivacyGuardError, match="2 things that the run will need fail"):
        try_stages(plan, RunLayout.at(tmp_path, "ahead"), kinds)


def test_the_records_that_are_read_back_are_those_of_all_possible_cells(monkeypatch, tmp_path):
    read = []

    def kept(part: Any, codes: Any) -> Any:
        for batch in digest_part(part, codes):
            read.append(batch)
            yield batch

    monkeypatch.setattr(microdata_trials, "digest_part", kept)
    tried(planned("pl94_2020_person", output={"microdata": ["text"]}), tmp_path, StageKind.MICRODATA)
    people = sum(row["people"] or 0 for batch in read for row in batch.to_pylist() if row["record"] == "part")
    # Nobody under 18 is in a nursing facility: two origins by 63 races less.
    assert people == PRODUCTS["pl94_2020_person"].schema.size - 2 * 63 + 2


@pytest.mark.parametrize("measured", [False, True])
def test_a_store_is_tried_in_its_roots_by_every_driver_that_measures(dry_workshop, monkeypatch, measured):
    """What is left of a trial that was cut short must not lie in the folder of a run."""
    plan = dry_workshop.plan("output.public=memory://public/runs", "output.restricted=memory://closed/runs")
    tried = {name: [] for name in ("require_exclusive", "require_encrypted", "require_destroying")}
    for name, places in tried.items():
        monkeypatch.setattr(preflight, name, places.append)
    monkeypatch.setattr(preflight, "is_measured", lambda *_: measured)
    monkeypatch.setattr(preflight, "is_charged", lambda _: True)
    try_stages(plan, RunLayout.of(plan.output, "mine"), (), until="estimate State")
    found = {name: {str(place) for place in places} for name, places in tried.items()}
    closed = "memory://closed/runs"
    assert found.pop("require_destroying") >= {closed}
    assert [closed in places for places in found.values()] == [not measured] * 2
    assert "memory://public/runs" not in tried["require_encrypted"]
    assert not any("mine" in str(place) for places in tried.values() for place in places)
