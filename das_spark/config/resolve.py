"""From a run file to a run plan: names are looked up, shares made exact, all cross-checks done. No Spark, no data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config.acknowledgements import given_up, may_acknowledge, resolve_acknowledgements
from das_spark.config.features import wanted_features
from das_spark.config.geography import resolve_geography, resolve_spine
from das_spark.config.inputs import check_dataset, check_input, check_published
from das_spark.config.levels import needs_of
from das_spark.config.load import (
    absolute_places,
    nearest,
)
from das_spark.config.model import DEFAULT_ESTIMATOR
from das_spark.config.needed_total import check_needed_total
from das_spark.config.plan import (
    EstimationSettings,
    LedgerSettings,
    OutputSettings,
    RunPlan,
)
from das_spark.config.product_files import find_product
from das_spark.config.sites import too_many_sites, undetermined
from das_spark.constraints import AddedConstraint, Invariants, Sense
from das_spark.core import ESTIMATORS
from das_spark.errors import BudgetError, Problems, QueryError
from das_spark.estimation import FAMILY_SOLVERS, OuterPass
from das_spark.limits import MOST_QUERIES
from das_spark.places import is_address
from das_spark.privacy import Budget, Cap, Framework, LevelBudget, QueryShare, sum_of_shares
from das_spark.products import Product
from das_spark.products.base import NO_TOTAL

if TYPE_CHECKING:
    from das_spark.config.model import (
        BudgetSection,
        CapSection,
        ConstraintSection,
        EstimationSection,
        LedgerSection,
        MeasurementRows,
        OutputSection,
        PassSection,
        RunFile,
        TableFormat,
    )
    from das_spark.histogram import Query, Schema
    from das_spark.products import Strategy

#: What a run by itself has before it in its joint run.
NO_PARTS: Mapping[str, str] = MappingProxyType({})
#: Folder in which a run is made that lies elsewhere, where the run file names none.
#: Formats of the tables of a product that has some, where the run file names none.
_TABLE_FORMATS: tuple[TableFormat, ...] = ("parquet", "csv")


def resolve(
    run_file: RunFile,
    problems: Problems,
    *,
    files: bool = True,
    named: bool = False,
    earlier: Mapping[str, str] = NO_PARTS,
) -> RunPlan | None:
    """Look everything up and check it together; `earlier` has the parts before it in a joint run: product -> record."""
    run_file = absolute_places(run_file, problems)
    section = run_file.estimation
    product = None
    with problems.at("run.product"):
        product = find_product(run_file.run.product)
    spine = resolve_spine(run_file, product, problems) if product else None
    levels = spine.names if spine else ()
    invariants = _invariants(run_file, product, levels, problems)
    units_invariant = invariants is not None and invariants.units
    check_input(run_file.input, product, units_invariant=units_invariant, files=files, problems=problems)
    check_estimation(section, run_file.measurement.rows, problems)
    if named or run_file.input.tables:  # of a table there are no bytes that could be its name
        check_dataset(run_file.input.reader, run_file.input.dataset, problems)
    ledger = resolve_ledger(run_file.ledger, problems)
    if product is None:
        return None
    part = earlier.get(product.published.product, "") if product.published is not None else ""
    # What the part of a joint run is held to is published by that run, whatever it names to be run by itself.
    given = run_file.input.model_copy(update={"published": None}) if part else run_file.input
    check_published(given, product, part, problems, files=files)
    _check_total_level(invariants, levels, problems)
    _check_level_names(run_file, levels, problems)
    output = resolve_output(run_file.output, product, problems)
    geography = resolve_geography(run_file, product, spine, problems, files=files) if spine else None
    budget = resolve_budget(run_file.budget, product, levels, problems)
    measured = measured_queries(*budget) if budget else None
    strategy = product.strategies.get(run_file.budget.strategy or "")
    if strategy and spine and invariants:
        check_needed_total(run_file.budget, strategy, product, spine, invariants, problems)
    passes = resolve_passes(section.passes, strategy, product.schema, levels, measured, problems)
    if budget:
        check_sites(section.estimator, product, budget[1].values(), problems)
    added = _added(run_file, product, levels, problems)
    needed = given_up(run_file.input, product, units_invariant=units_invariant)
    leaf = levels[-1] if levels else "geounit of the lowest geolevel"
    acknowledged = resolve_acknowledgements(
        run_file.privacy.acknowledge,
        needed,
        leaf,
        problems,
        optional=may_acknowledge(given, product, run_file.output),
    )
    if problems.found or spine is None or geography is None or budget is None or invariants is None:
        return None
    plan = RunPlan(
        name=run_file.run.name or product.name,
        product=product,
        spine=spine,
        geography=geography,
        strategy=run_file.budget.strategy,
        budget=budget[0],
        invariants=invariants,
        queries=MappingProxyType(budget[1]),
        added=added,
        input=given,
        output=output,
        estimation=estimation_settings(section, product, passes),
        measurement_rows=run_file.measurement.rows,
        evaluation=run_file.evaluation,
        acknowledged=acknowledged,
        ledger=ledger,
        published_part=part,
    )
    check_upward(plan, problems)
    return replace(plan, output=with_outputs(run_file.output, plan, problems))


def check_upward(plan: RunPlan, problems: Problems) -> None:
    """Refuse an estimator that combines geolevels whose measurements leave counts undetermined."""
    levels, estimator = needs_of(plan).upward_levels(plan.spine.names), plan.estimation.estimator
    if levels and (wrong := undetermined(plan, levels)):
        problems.add("estimation.estimator", f"'{estimator}' {wrong}, or set it to \"{DEFAULT_ESTIMATOR}\"")


def _invariants(
    run_file: RunFile, product: Product | None, levels: Sequence[str], problems: Problems
) -> Invariants | None:
    section = run_file.invariants
    total_at = section.total_at or (_usual_total_at(product, levels) if product else None)
    vacant = product is None or not product.vacant_counted
    with problems.at("invariants"):
        return Invariants(None if total_at == NO_TOTAL else total_at, units=section.units, vacant=vacant)
    return None


def _usual_total_at(product: Product, levels: Sequence[str]) -> str:
    """The product's level of exact totals, or the lowest of a run that ends above it: sums of exact ones are exact."""
    below = [level.name for level in product.geolevels]
    if levels and product.total_at in below[below.index(levels[-1]) :]:
        return levels[-1]
    return product.total_at


def _check_total_level(invariants: Invariants | None, levels: Sequence[str], problems: Problems) -> None:
    level = invariants.total_at if invariants else None
    if levels and level is not None and level not in levels:
        sentence = f"'{level}' is no geolevel of the run; {nearest(level, levels)}; \"{NO_TOTAL}\" for no exact total"
        problems.add("invariants.total_at", sentence)


def _check_level_names(run_file: RunFile, levels: Sequence[str], problems: Problems) -> None:
    for level in run_file.budget.level_queries:
        if levels and level not in levels:
            key = f"budget.level_queries.{level}"
            problems.add(key, f"there is no such geolevel in the run; {nearest(level, levels)}")


def resolve_output(section: OutputSection, product: Product, problems: Problems) -> OutputSettings:
    """Check `[output]` against what the product can be written as."""
    if section.tables and not product.every_table:
        problems.add("output.tables", f"product '{product.name}' has no tables; leave the key out")
    for name in section.microdata:
        with problems.at("output.microdata"):
            product.layout(name)
    if section.microdata_files != "parts" and set(section.microdata) == {"parquet"}:
        sentence = 'Parquet is always in parts; add "text" or "ppmf" to output.microdata, or leave the key out'
        problems.add("output.microdata_files", sentence)
    usual = _TABLE_FORMATS if product.every_table else ()
    return OutputSettings(
        root=section.root,
        public=section.public,
        restricted=section.restricted,
        work=_work(section, problems),
        microdata=section.microdata,
        microdata_files=section.microdata_files,
        tables=usual if section.tables is None else section.tables,
    )


def _work(section: OutputSection, problems: Problems) -> str | None:
    """Where a run writes what will be public, before it is published; None where it writes it there from the first."""
    if section.work is None or is_address(section.public or section.root):
        return section.work
    problems.add("output.work", "what is public is written where it lies, on a disk; leave the key out")
    return None


def with_outputs(section: OutputSection, plan: RunPlan, problems: Problems) -> OutputSettings:
    """The output of a run with what not every run has.

    Args:
        section: The table of the run file.
        plan: Everything else of the run.
        problems: Is given what is wrong.
    """
    return replace(
        plan.output,
        features=tuple(feature.resolved(plan, problems) for feature in wanted_features(section)),
    )


def chosen_tables(
    key: str, names: Sequence[str] | None, plan: RunPlan, geolevels: Sequence[str] | None, problems: Problems
) -> tuple[str, ...]:
    """Tables of sums by their names that some geolevel has; all such tables of the product where none are named.

    Args:
        key: Table of the run file that names them.
        names: Those that are wanted; None for all.
        plan: The run.
        geolevels: Of the census, those that are wanted; None for all.
        problems: Is given what is wrong.
    """
    known = {table.name: table for table in plan.product.tables}
    if not known:
        problems.add(key, f"product '{plan.product.name}' has no tables; leave the section out")
    census = plan.product.census(plan.spine)
    there = [name for name, table in known.items() if table.levels(census, geolevels)]
    others = {table.name: "medians" for table in plan.product.medians}
    others |= {table.name: "vacant units" for table in plan.product.occupancy}
    for name in names or ():
        if name in others:
            problems.add(f"{key}.tables", f"'{name}' holds {others[name]}, which have no intervals; leave it out")
        elif name not in known:
            problems.add(f"{key}.tables", f"'{name}' is no table of the product; {nearest(name, tuple(known))}")
        elif name not in there:
            problems.add(f"{key}.tables", f"'{name}' is published for none of the geolevels that are wanted")
    return tuple(name for name in there if name in (names or known))


def _added(
    run_file: RunFile, product: Product, levels: Sequence[str], problems: Problems
) -> tuple[AddedConstraint, ...]:
    added = []
    names: set[str] = set()
    for place, section in enumerate(run_file.constraints):
        key = f"constraints.{place}"
        if levels and section.geolevel not in levels:
            sentence = f"there is no such geolevel in the run; {nearest(section.geolevel, levels)}"
            problems.add(f"{key}.geolevel", f"'{section.geolevel}': {sentence}")
        if section.name in names:
            problems.add(f"{key}.name", f"another constraint is called '{section.name}'")
        names.add(section.name)
        with problems.at(key):
            constraint = added_constraint(section)
            constraint.resolve(product.schema)
            added.append(constraint)
    return tuple(added)


def added_constraint(section: ConstraintSection) -> AddedConstraint:
    """A table of `[[constraints]]`, as the rule that it is."""
    return AddedConstraint(section.name, section.geolevel, section.query, Sense(section.sense), section.right)


def check_estimation(section: EstimationSection, rows: MeasurementRows, problems: Problems) -> None:
    """Check estimator, solvers and failsafe of `[estimation]`; its passes are checked where they are resolved."""
    if section.estimator not in ESTIMATORS:
        sentence = f"'{section.estimator}' is no estimator; {nearest(section.estimator, ESTIMATORS)}"
        problems.add("estimation.estimator", sentence)
    for name in section.solvers or ():
        if name not in FAMILY_SOLVERS:
            sentence = f"'{name}' is no solver of least squares; {nearest(name, FAMILY_SOLVERS)}"
            problems.add("estimation.solvers", sentence)
    if section.solvers and len(set(section.solvers)) != len(section.solvers):
        problems.add("estimation.solvers", "a solver stands twice in the chain")
    if section.failsafe and rows != "all":
        problems.add("estimation.failsafe", 'needs every noisy answer: set measurement.rows = "all"')


def check_sites(estimator: str, product: Product, queries: Collection[Query], problems: Problems) -> None:
    """Refuse an estimator whose solvers take fewer cells, or whose covariances the measured queries leave too large."""
    if estimator not in ESTIMATORS:
        return
    needs, other = ESTIMATORS[estimator].needs, f'set it to "{DEFAULT_ESTIMATOR}"'
    if needs.most_cells is not None and product.schema.size > needs.most_cells:
        sentence = f"takes {needs.most_cells:,} cells at most, and {product.name} has {product.schema.size:,}; {other}"
        problems.add("estimation.estimator", f"'{estimator}' {sentence}")
    elif needs.most_sites is not None and (wrong := too_many_sites(product, queries, needs.most_sites)):
        fix = f"measure fewer queries that group levels (budget.queries), or {other}"
        problems.add("estimation.estimator", f"'{estimator}' {wrong}; {fix}")


#: The solver of families that are held to what another product has published.
_OF_KNOWN_SUMS: Final = "nested"


def usual_solvers(estimator: str, product: Product) -> tuple[str, ...]:
    """The chain of solvers of a run that names none: where all sums of some classes are known, nested ones first."""
    of_estimator = ESTIMATORS[estimator].needs.solvers if estimator in ESTIMATORS else ()
    return of_estimator if product.published is None else (_OF_KNOWN_SUMS, *of_estimator)


def estimation_settings(section: EstimationSection, product: Product, passes: Passes) -> EstimationSettings:
    """`[estimation]` with the passes of every level."""
    return EstimationSettings(
        solvers=section.solvers or usual_solvers(section.estimator, product),
        gap_tolerance=section.gap_tolerance,
        rounding=section.rounding,
        failsafe=section.failsafe,
        accept_uncertified=section.accept_uncertified,
        estimator=section.estimator,
        partitions_per_core=section.partitions_per_core,
        passes=passes,
    )


Shares = Mapping[str, Fraction]


def resolve_budget(
    section: BudgetSection, product: Product, levels: Sequence[str], problems: Problems
) -> tuple[Budget, dict[str, Query]] | None:
    """Make the budget of a run."""
    before = problems.met
    strategy = _strategy(section, product, problems)
    framework, total = _total(section, strategy, problems)
    geolevels = _geolevels(section, strategy)
    if levels and geolevels is not None:
        _check_levels(geolevels, levels, problems)
    queries: dict[str, Query] = {}
    level_budgets = []
    for level in levels:
        found = _queries(section, strategy, level)
        if found is None or geolevels is None:
            problems.add("budget", f"nothing says the shares of '{level}'; {_ways(product)}")
            break
        key, shares = found
        level_budgets.append((level, geolevels.get(level), _named_shares(key, shares, product, queries, problems)))
    if problems.met > before or framework is None or total is None:
        return None
    with problems.at("budget"):
        made = tuple(_level_budget(*budget) for budget in level_budgets)
        return Budget(framework, total, made, product.records.at_most), queries
    return None


def _ways(product: Product) -> str:
    names = ", ".join(product.strategies)
    return f"name a strategy of the product ({names}) or spell out [budget.geolevels] and [budget.queries]"


def _strategy(section: BudgetSection, product: Product, problems: Problems) -> Budget | None:
    if section.strategy is None:
        return None
    found = product.strategies.get(section.strategy)
    if found is None:
        problems.add(
            "budget.strategy", f"unknown strategy '{section.strategy}'; {nearest(section.strategy, product.strategies)}"
        )
        return None
    return found.budget


def _total(
    section: BudgetSection, strategy: Budget | None, problems: Problems
) -> tuple[Framework | None, Fraction | None]:
    """Framework and total: what the section says, else the strategy's."""
    if section.epsilon is not None and section.rho is not None:
        problems.add("budget", "epsilon and rho are both given; a run has one of them")
        return None, None
    if section.framework is not None:
        framework = Framework(section.framework)
    elif strategy is not None:
        framework = strategy.framework
    else:
        framework = Framework.ZCDP if section.rho is not None else Framework.PURE_DP
    key = framework.symbol
    other = "rho" if key == "epsilon" else "epsilon"
    if getattr(section, other) is not None:
        problems.add(f"budget.{other}", f"the framework is {framework}, whose total is called {key}")
        return None, None
    total: Fraction | None = getattr(section, key)
    if total is None and strategy is not None and strategy.framework is framework:
        total = strategy.total
    if total is None:
        problems.add(f"budget.{key}", "is missing")
    elif total <= 0:
        problems.add(f"budget.{key}", f"must be greater than 0, is {total}")
    return framework, total


def _geolevels(section: BudgetSection, strategy: Budget | None) -> Shares | None:
    if section.geolevels is not None:
        return section.geolevels
    return None if strategy is None else {level.geolevel: level.share for level in strategy.levels}


def _check_levels(shares: Shares, levels: Sequence[str], problems: Problems) -> None:
    key = "budget.geolevels"
    for level in levels:
        if level not in shares:
            problems.add(key, f"geolevel '{level}' has no budget; give it a share or take it out of geography.levels")
    for name in shares:
        if name not in levels:
            problems.add(f"{key}.{name}", f"there is no such geolevel in the run; {nearest(name, levels)}")
    _check_shares(key, shares, problems)


def _check_shares(key: str, shares: Shares, problems: Problems) -> None:
    for name, share in shares.items():
        if share <= 0:
            problems.add(f"{key}.{name}", f"a share must be greater than 0, is {share}")
    with problems.at(key):
        if (total := sum_of_shares(shares.values(), "sum")) != 1:
            problems.add(key, f"shares sum to {total}, not 1")


def _queries(section: BudgetSection, strategy: Budget | None, level: str) -> tuple[str, Shares] | None:
    """Key path and query shares of a level: its own, those of all levels, or the strategy's."""
    if level in section.level_queries:
        return f"budget.level_queries.{level}", section.level_queries[level]
    if section.queries is not None:
        return "budget.queries", section.queries
    for found in strategy.levels if strategy is not None else ():
        if found.geolevel == level:
            return "budget.strategy", {item.query: item.share for item in found.queries}
    return None


def _named_shares(
    key: str, shares: Shares, product: Product, queries: dict[str, Query], problems: Problems
) -> dict[str, Fraction]:
    """Shares under the canonical names of their queries; every query goes into `queries`."""
    if _too_many(problems, key, queries.keys() | shares.keys()):
        return {}
    _check_shares(key, shares, problems)
    named: dict[str, Fraction] = {}
    twins: dict[Query, str] = {}
    for text, share in shares.items():
        try:
            query = queries[text] if text in queries else product.schema.query(text)
        except QueryError as error:
            problems.add(f"{key}.{text}", f"{error.message}; {error.hint}")
            continue
        if (twin := twins.get(query)) is not None:
            problems.add(f"{key}.{text}", f"is the query '{twin}', which has a share already")
        elif not query.is_partition:
            problems.add(
                f"{key}.{text}", "leaves out some cells; a measured query counts every cell in exactly one answer"
            )
        else:
            queries[query.name] = query
            named[query.name] = share
            twins[query] = query.name
    return named


def _level_budget(level: str, share: Fraction | None, queries: Shares) -> LevelBudget:
    return LevelBudget(level, share or Fraction(0), tuple(QueryShare(name, part) for name, part in queries.items()))


def _too_many(problems: Problems, key: str, names: Collection[str]) -> bool:
    """Whether more queries are named than a run may have: each is made, and compared with others."""
    if len(names) <= MOST_QUERIES:
        return False
    problems.add(key, f"more than {MOST_QUERIES:,} different queries, the most that are possible; name fewer")
    return True


Passes = Mapping[str, tuple[OuterPass, ...]]
#: Geolevel -> measured queries by name.
Measured = Mapping[str, Mapping[str, "Query"]]
KEY = "estimation.passes"


def resolve_passes(
    sections: Sequence[PassSection],
    strategy: Strategy | None,
    schema: Schema,
    levels: Sequence[str],
    measured: Measured | None,
    problems: Problems,
) -> dict[str, tuple[OuterPass, ...]]:
    """Find the passes of every level.

    A level that a section names has the passes of the sections that name it, in their order, and no others; any other
    level has those of the strategy.
    """
    inner = [each for section in sections for each in (*section.least_squares, *section.rounding)]
    if _too_many(problems, KEY, {name for names in inner for name in names}):
        return {}
    spelled = _Spelled(schema, measured, problems)
    own: dict[str, tuple[OuterPass, ...]] = {}
    last_key: dict[str, str] = {}
    for place, section in enumerate(sections):
        key = f"{KEY}.{place}"
        for level in dict.fromkeys(section.geolevels):
            if levels and level not in levels:
                sentence = f"there is no such geolevel in the run; {nearest(level, levels)}"
                problems.add(f"{key}.geolevels", f"'{level}': {sentence}")
                continue
            own[level] = (*own.get(level, ()), spelled.outer(key, section, level))
            last_key[level] = f"{key}.rounding"
    for level, passes in own.items():
        spelled.check_end(last_key[level], passes, level)
    given = {} if strategy is None else strategy.passes
    found = {}
    for level in levels:
        if level in own:
            found[level] = own[level]
        elif level in given:
            spelled.check_given(given[level], level)
            found[level] = given[level]
    return found


def measured_queries(budget: Budget, queries: Mapping[str, Query]) -> dict[str, dict[str, Query]]:
    """What each level measures."""
    return {level.geolevel: {item.query: queries[item.query] for item in level.queries} for level in budget.levels}


def unused_queries(passes: Passes, level: str, measured: Sequence[str]) -> tuple[str, ...]:
    """Measured queries that no pass of a level reads; none where the level has no passes, since all are read then."""
    if level not in passes:
        return ()
    read = {name for each in passes[level] for inner in each.least_squares for name in inner}
    return tuple(name for name in measured if name not in read)


@dataclass(frozen=True, slots=True)
class _Spelled:
    """What names of queries mean in a run."""

    schema: Schema
    measured: Measured | None
    problems: Problems
    made: dict[str, Query] = field(default_factory=dict)  # what was made already, by its spelling
    names: dict[str, dict[Query, str]] = field(default_factory=dict)  # geolevel -> the measured queries there

    def outer(self, key: str, section: PassSection, level: str) -> OuterPass:
        """A section as the pass of a level, right or wrong."""
        return OuterPass(
            tuple(
                self._inner(f"{key}.least_squares.{place}", inner, level)
                for place, inner in enumerate(section.least_squares)
            ),
            tuple(self._inner(f"{key}.rounding.{place}", inner) for place, inner in enumerate(section.rounding)),
        )

    def check_end(self, key: str, passes: Sequence[OuterPass], level: str) -> None:
        """Whether the last rounding leaves nothing open."""
        last = passes[-1].rounding[-1]
        detailed = self.schema.query("detailed")
        if all(self.schema.query(name) != detailed for name in last):
            sentence = "must end with an inner pass that has 'detailed', or cells are left open"
            self.problems.add(key, f"the last rounding of {level} {sentence}")

    def check_given(self, passes: Sequence[OuterPass], level: str) -> None:
        """Whether what the passes of the strategy fit is measured."""
        if self.measured is None:
            return
        names = dict.fromkeys(name for each in passes for inner in each.least_squares for name in inner)
        missing = [name for name in names if name not in self.measured[level]]
        if missing:
            sentence = f"the strategy's passes fit '{missing[0]}' at {level}, which the run does not measure there"
            self.problems.add(KEY, f"{sentence}; spell out the passes of {level} in [[{KEY}]]")

    def _inner(self, key: str, texts: Sequence[str], fitted_at: str | None = None) -> tuple[str, ...]:
        """Canonical names of an inner pass, without those that are wrong; of what is fitted, the measured names."""
        names: dict[str, None] = {}
        for text in texts:
            try:
                query = self.made[text] = self.made.get(text) or self.schema.query(text)
            except QueryError as error:
                self.problems.add(key, f"{error.message}; {error.hint}")
                continue
            name = query.name
            if fitted_at is not None and self.measured is not None:
                known = self._measured_at(fitted_at, self.measured)
                name = known.get(query, "")
                if not name:
                    sentence = f"'{text}' is not measured at {fitted_at}; {nearest(text, known.values())}"
                    self.problems.add(key, sentence)
                    continue
            if name in names:
                self.problems.add(key, f"'{text}' stands twice")
                continue
            names[name] = None
        return tuple(names)

    def _measured_at(self, level: str, measured: Measured) -> dict[Query, str]:
        """The measured queries of a geolevel with their names."""
        if level not in self.names:
            self.names[level] = {query: name for name, query in measured[level].items()}
        return self.names[level]


def resolve_ledger(section: LedgerSection, problems: Problems) -> LedgerSettings:
    """Check `[ledger]`."""
    cap, was = (_cap(name, getattr(section, name), problems) for name in ("cap", "cap_was"))
    if section.cap_was is not None and section.cap is None:
        problems.add("ledger.cap_was", "says which cap is raised; give the new one as ledger.cap")
    elif cap is not None and was is not None and cap.kind != was.kind:
        problems.add("ledger.cap_was", f"is a cap on {was.kind}, and ledger.cap one on {cap.kind}")
    return LedgerSettings(section.path, cap, was)


def _cap(name: str, section: CapSection | None, problems: Problems) -> Cap | None:
    if section is None:
        return None
    try:
        return Cap(section.epsilon, section.rho, section.delta)
    except BudgetError as error:
        problems.add(f"ledger.{name}", f"{error.message}; {error.hint}" if error.hint else error.message)
        return None
