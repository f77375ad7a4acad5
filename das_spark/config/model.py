"""The keys of a run file: names, types and defaults. What they mean together is checked in `resolve`.

Every class is one table of the TOML file. Strict: no key beyond these, no text for a number, no float where privacy is
decided. `conf/reference.toml` explains every key to users; a test keeps it complete.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict

from das_spark.config.catalog import is_catalog_table
from das_spark.errors import BudgetError, ConfigurationError
from das_spark.limits import require_level
from das_spark.names import check_name
from das_spark.privacy import exact

#: Version of the keys of a run file that this software reads.
CONFIG_VERSION: Final = 1

UnitConflicts = Literal["fail", "from_people"]
Identity = Literal["normalised", "bytes"]
Rounding = Literal["nearest", "released"]
MeasurementRows = Literal["support", "all"]
MicrodataFormat = Literal["parquet", "text", "ppmf"]
MicrodataFiles = Literal["parts", "concatenate", "single"]
TableFormat = Literal["parquet", "csv"]

#: Roots of a run, by section and key.
ROOTS: Final = (("output", "root"), ("output", "public"), ("output", "restricted"))
#: Those of its sources that may be tables of Spark's catalog.
TABLES: Final = (("input", "persons"), ("input", "units"), ("input", "geography"))
#: What a run reads.
SOURCES: Final = (
    ("input", "path"),
    ("input", "persons"),
    ("input", "units"),
    ("input", "geography"),
    ("input", "published"),
    ("input", "expected"),
    ("geography", "path"),
    ("geography", "crosswalk"),
    ("geography", "parents"),
    ("evaluation", "areas"),
)
#: Every place of a machine that a run file names.
PATH_KEYS: Final = (*SOURCES, *ROOTS, ("output", "work"), ("ledger", "path"))

#: Name of the reader of synthetic populations.
SIMULATED: Final = "simulated"
#: Name of the estimator where a run file names none, one of `das_spark.core.ESTIMATORS`.
DEFAULT_ESTIMATOR: Final = "top_down"


def _exact(value: object) -> Fraction:
    """Read a number that decides privacy; a float has lost digits before we see it."""
    if isinstance(value, float):
        example = Fraction(repr(value)) if math.isfinite(value) else "1/4"
        message = f'{value!r} is a float; write an exact fraction as a string, e.g. "{example}"'
        raise ValueError(message)
    try:
        return exact(value, "")  # type: ignore[arg-type]  # whatever TOML gives: `exact` refuses the rest
    except BudgetError as error:
        raise ValueError(f"{error.message.removeprefix(': ')}; {error.hint}") from error


def _tolerance(value: object) -> object:
    """Accept the text that `--set` makes of a decimal."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError as error:
            message = f"{value!r} is not a number"
            raise ValueError(message) from error
    return value


def _text(value: object) -> object:
    """Let a whole number stand for a name of digits, such as 1940: TOML and `--set` take it for a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _name(value: str) -> str:
    """Refuse a name that could not be part of the name of a run or of a ledger."""
    try:
        check_name(value, "", also=".")
    except ConfigurationError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return value


def _level(value: Fraction) -> Fraction:
    """Refuse a probability of intervals that is too near to 0 or 1."""
    try:
        require_level(value, "")
    except ConfigurationError as error:
        raise ValueError(f"{error.message.removeprefix(': ')}; {error.hint}") from error
    return value


def _one_or_many(value: object) -> object:
    """Let a single right-hand side stand for a list of one."""
    return [value] if isinstance(value, int) else value


Exact = Annotated[Fraction, BeforeValidator(_exact), PlainSerializer(str)]
Level = Annotated[Exact, AfterValidator(_level)]
Shares = dict[str, Exact]
Tolerance = Annotated[float, BeforeValidator(_tolerance), Field(gt=0, lt=1)]
# TOML has arrays only; a plan has tuples only.
Names = Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]
InnerPasses = Annotated[tuple[Names, ...], Strict(False), Field(min_length=1)]
RightHandSides = Annotated[tuple[int, ...], Strict(False), BeforeValidator(_one_or_many), Field(min_length=1)]
Name = Annotated[str, BeforeValidator(_text), AfterValidator(_name)]


ConfigVersion = Literal[1]  # CONFIG_VERSION


class Section(BaseModel):
    """A table of the run file: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RunSection(Section):
    """`[run]`: name and product."""

    name: Name | None = None
    product: str


_Like = Literal["quickstart", "1940", "2020", "2020-state", "2010-state"]


class SimulateSettings(Section):
    """`[input.simulate]`: which synthetic population the reader "simulated" makes.

    Attributes:
        like: Name of the population.
        seed: Decides about everything random.
        share: How much of it.
    """

    like: Annotated[_Like, BeforeValidator(_text)] = "quickstart"
    seed: Annotated[int, Field(ge=0)] = 0
    share: Annotated[Exact, Field(gt=0, le=1)] = Fraction(1)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for the identity of the input."""
        return self.model_dump(mode="json")


class CellSection(Section):
    """`[[input.cells]]`: which cell a column of published counts is of.

    Attributes:
        column: Column of the file.
        minus: Columns that are taken from it: what is left of a total that others are parts of.
        levels: Attribute -> its level, by label or by number from 0.
    """

    column: str
    minus: Annotated[tuple[str, ...], Strict(False)] = ()
    levels: dict[str, str | int] = {}


class InputSettings(Section):
    """`[input]`: where the confidential records are and how their columns are called.

    Attributes:
        reader: Name in the registry of readers.
        dataset: What the operator calls the people of the input: all runs on them are counted together under this name.
        path: File or folder of a reader that takes one; None otherwise.
        persons: Person records or counts, for readers that take files one by one; they, units and geography may each be
            a table of Spark's catalog, `table:database.table`.
        units: Housing units and group quarters by class.
        geography: Table of the geounits that exist, where no unit file says so.
        columns: Field of the system -> column of the file; a field without a row here is named alike in the file. Under
            the name of a table (`persons`, `units`, `geography`) the same for that table alone.
        code_base: Field -> first code in the file (1 where the file counts from one); 0 where missing.
        labels: Attributes whose fields hold the labels of the levels, as the product spells them, in place of codes.
        delimiter: What stands between the fields of CSV.
        encoding: How CSV is encoded.
        identity: How the identities of contributors are compared: "normalised", or by their "bytes". None refuses an
            input in which the two differ.
        unit_conflicts: Where units and people contradict each other: "fail", or take the units "from_people".
        units_from_people: Whether the units of each class are made from the people, where no counts are published.
        simulate: Arguments of the simulator; None where the run file has none.
        published: Folder of the finished run whose published counts every estimate is held to, or its public folder;
            for products that have `published`.
        cells: Which cell each column is of, for the reader of published tables; one cell may have several columns.
        expected: Table that came with the delivery: name, records and sha256 of each file. None where there is none.
    """

    reader: str
    dataset: Name | None = None
    path: str | None = None
    persons: str | None = None
    units: str | None = None
    geography: str | None = None
    columns: dict[str, str | dict[str, str]] = {}
    code_base: dict[str, int] = {}
    labels: Annotated[tuple[str, ...], Strict(False)] = ()
    delimiter: Annotated[str, Field(pattern=r'^[^"\\\r\n]$')] = ","
    encoding: Literal["UTF-8", "ISO-8859-1"] = "UTF-8"
    identity: Identity | None = None
    unit_conflicts: UnitConflicts = "fail"
    units_from_people: bool = False
    simulate: SimulateSettings | None = None
    published: str | None = None
    cells: Annotated[tuple[CellSection, ...], Strict(False)] = ()
    expected: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether the records are a synthetic population, made while reading: there are no files then."""
        return self.reader == SIMULATED

    def columns_of(self, table: str) -> dict[str, str]:
        """Return what a table calls the fields, where it calls them otherwise.

        Args:
            table: `persons`, `units` or `geography`.
        """
        of_all = {field: column for field, column in self.columns.items() if isinstance(column, str)}
        own = self.columns.get(table)
        return of_all | (own if isinstance(own, dict) else {})

    @property
    def tables(self) -> dict[str, str]:
        """Key -> table of Spark's catalog that it names; of files there is none."""
        named = {key: getattr(self, key) for _, key in TABLES}
        return {key: value for key, value in named.items() if value is not None and is_catalog_table(value)}

    @property
    def population(self) -> SimulateSettings:
        """What the simulator makes, for the reader "simulated"."""
        return self.simulate or SimulateSettings()


class OutputSection(Section):
    """`[output]`: where the run is written, and as what; `das_spark.config.features` adds the tables of features."""

    root: str = "runs"
    public: str | None = None
    restricted: str | None = None
    work: str | None = None
    microdata: Annotated[tuple[MicrodataFormat, ...], Strict(False), Field(min_length=1)] = ("parquet",)
    microdata_files: MicrodataFiles = "parts"
    tables: Annotated[tuple[TableFormat, ...], Strict(False)] | None = None


class CapSection(Section):
    """`ledger.cap`: an epsilon, with the delta at which it is meant, or a rho."""

    epsilon: Exact | None = None
    delta: Exact | None = None
    rho: Exact | None = None


class LedgerSection(Section):
    """`[ledger]`: where the privacy ledger of the dataset is kept, and the most that all runs may cost together."""

    path: str | None = None
    cap: CapSection | None = None
    cap_was: CapSection | None = None


class GeographySection(Section):
    """`[geography]`: the levels of the spine, root first, and how the spine is made."""

    levels: Names | None = None
    spine: Literal["census", "aian", "optimised", "dhc"] = "census"
    reader: str | None = None
    path: str | None = None
    crosswalk: str | None = None
    parents: str | None = None
    fanout_cutoff: Annotated[int, Field(ge=0)] | None = None
    bypass_cutoff: Annotated[int, Field(ge=0)] | None = None
    entity_threshold: Annotated[int, Field(ge=0)] | None = None
    group_type: Literal["orig", "even"] | None = None
    merge: Literal["none", "paper", "released"] | None = None
    aian_categories: Names | None = None
    consider_gq: bool | None = None


class BudgetSection(Section):
    """`[budget]`: the total, and how levels and queries share it."""

    framework: Literal["pure_dp", "zcdp"] | None = None
    epsilon: Exact | None = None
    rho: Exact | None = None
    strategy: str | None = None
    geolevels: Shares | None = None
    queries: Shares | None = None
    level_queries: dict[str, Shares] = {}


class PrivacySection(Section):
    """`[privacy]`: what the run gives up knowingly."""

    acknowledge: Annotated[tuple[str, ...], Strict(False)] = ()


class InvariantsSection(Section):
    """`[invariants]`: what is published exactly."""

    total_at: str | None = None
    units: bool = True


class ConstraintSection(Section):
    """`[[constraints]]`: a linear rule with public constants that estimates must keep."""

    name: str
    geolevel: str
    query: str
    sense: Literal["=", "<=", ">="]
    right: RightHandSides


class MeasurementSection(Section):
    """`[measurement]`: which noisy answers are kept."""

    rows: MeasurementRows = "support"


class PassSection(Section):
    """`[[estimation.passes]]`: an outer pass of some geolevels."""

    geolevels: Names
    least_squares: InnerPasses
    rounding: InnerPasses


class EstimationSection(Section):
    """`[estimation]`: how families are solved, rounded and certified."""

    estimator: str = DEFAULT_ESTIMATOR
    solvers: Names | None = None
    gap_tolerance: Tolerance = 1e-6
    rounding: Rounding = "nearest"
    failsafe: bool = False
    accept_uncertified: bool = False
    partitions_per_core: Annotated[int, Field(ge=1, le=1000)] = 4
    passes: Annotated[tuple[PassSection, ...], Strict(False)] = ()


class EvaluationSettings(Section):
    """`[evaluation]`: whether estimates are compared with the confidential histograms (restricted).

    Attributes:
        enabled: Whether `run` writes the accuracy report.
        areas: CSV of leaf geocode and area (such as a precinct), for errors of areas off the spine; None for none.
    """

    enabled: bool = True
    areas: str | None = None


class RunFile(Section):
    """A whole run file."""

    config_version: ConfigVersion
    run: RunSection
    input: InputSettings
    output: OutputSection = OutputSection()
    ledger: LedgerSection = LedgerSection()
    geography: GeographySection = GeographySection()
    budget: BudgetSection = BudgetSection()
    privacy: PrivacySection = PrivacySection()
    invariants: InvariantsSection = InvariantsSection()
    constraints: Annotated[tuple[ConstraintSection, ...], Strict(False)] = ()
    measurement: MeasurementSection = MeasurementSection()
    estimation: EstimationSection = EstimationSection()
    evaluation: EvaluationSettings = EvaluationSettings()
