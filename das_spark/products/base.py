"""What a product is: its schema, geography, constraints, strategies and microdata layout, as one frozen table.

The source of a microdata column is a short text. `CODE` stands for texts separated by commas:

    constant:TEXT            the same text in every row
    geocode[START:END]       the digits START (inclusive, from 0) to END (exclusive) of the geocode of the leaf
    recode:ATTRIBUTE:CODE    what is counted: one text for each level of the attribute; where units are counted, a last
                             one for group quarters, which are listed and not counted
    recode:unit_class:CODE   units: one text for each class of units, and a last one for vacant units
    record_type              persons: 3 in a household, 5 in group quarters; units: 2 and 4
    record_number            what is counted: running number of the record in the file, from 0
    unit_number              running number of the unit in the file; 999999999 where people are assigned to none
    person_number            number of the person in the unit, from 1; 99999 where people are assigned to none
    population               units: people in the unit
    tenure                   units: 9 for an occupied housing unit, else 0
    vacancy                  units: 9 for a vacant housing unit, else 0
    vacancy:CODE             units: one text for each kind of vacant housing units that another product tells apart,
                             else 0
    divided:ATTRIBUTE:CODE   what is counted: as for recode, with one more text behind those of the levels for the
                             records of the last level that another product tells apart (`PublishedCounts.divided`)

What is counted, persons, units or households, has one record for each in the file of its kind. Where persons are
counted and the layout has columns for units, they are assigned to the units of the run, and the units are written, too.
Where units are counted, those of all classes but the first (group quarters) are listed behind them, one record each;
behind households, which are the occupied units of the first class, also the vacant ones. `recode:ATTRIBUTE:CODES` of
such a file has a last code for all that is listed, while `recode:unit_class`, `tenure` and `vacancy` tell its kinds
(vacant units are one kind, unless `PublishedCounts.vacancies` names more);
several attributes are joined by "*", and have a code for each combination of levels, the last attribute fastest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.errors import ConfigurationError
from das_spark.estimation import OuterPass
from das_spark.geography import Geolevel, Spine, SpineSettings
from das_spark.histogram import Attribute, Schema
from das_spark.names import LONGEST_NAME, check_heading, check_name, check_text, is_formula
from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.products._file_recodes import FileRecodes
from das_spark.tabulation import MedianTable, Table, TableShell

Record = Literal["person", "unit", "household"]
#: Where text files have the names of their columns: nowhere, in a file beside the parts, or as first line of each part.
Header = Literal["none", "beside", "inside"]
#: The format of microdata files that has a layout of its own, and that not every product offers.
PPMF: Final = "ppmf"
PLAIN_SPINE: Final = SpineSettings()
#: In place of a geolevel of exact totals, where no totals are exact.
NO_TOTAL: Final = "none"
#: Source of a number column -> what stands in it where people are assigned to no units.
WITHOUT_UNITS: Final[Mapping[str, str]] = {"unit_number": "999999999", "person_number": "99999"}
#: What one record is -> what many are, in sentences.
COUNTED: Final[Mapping[Record, str]] = {"person": "people", "unit": "housing units", "household": "households"}
#: Kinds of records that are units, occupied or not: their files have other columns than those of people.
OF_UNITS: Final[tuple[Record, ...]] = ("unit", "household")
#: Of at most nine digits, which 32 bits hold, and no zero before others.
_PLAIN_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
#: Form of a noun: it names folders and files, too.
_NOUN: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ -][A-Za-z0-9]+)*")

#: Columns that both microdata files of the End-to-End test carry without content, with the text that fills them.
PERSON_FILLERS: Final = {
    **dict.fromkeys(("QSPANX", *(f"QRACE{number}" for number in range(1, 9))), ("CHAR4", "9999")),
    "CIT": ("CHAR1", "9"),
}
UNIT_FILLERS: Final = {
    "HHT": ("CHAR1", "9"),
    "HHT2": ("CHAR2", "99"),
    "NPF": ("CHAR2", "99"),
    "CPLT": ("CHAR1", "9"),
    "UPART": ("CHAR1", "9"),
    "MULTG": ("CHAR1", "9"),
    "HHLDRAGE": ("INT3", "999"),
    "HHSPAN": ("CHAR1", "9"),
    "HHRACE": ("CHAR2", "99"),
    "PAOC": ("CHAR1", "9"),
    **dict.fromkeys(("P18", "P60", "P65", "P75"), ("INT2", "99")),
}


@dataclass(frozen=True, slots=True)
class Records:
    """What the records of a product are that are no people, such as hospital stays, and whose they are.

    A contributor is whoever is protected: all records of one are replaced by others between neighbours.

    Attributes:
        singular: What one of them is, such as `hospital stay`; empty where people are counted.
        plural: What many are.
        at_most: Most records of one contributor; noise is wider as this is more (lemma 12 of the privacy package).
        contributor: Column of the records that identifies their contributor, by which ingestion enforces the bound;
            empty where the office answers for it. It goes no further than that.
        contributed_by: What a contributor is, such as `patient`.
        over: What becomes of a contributor with more records: "refuse" the input, or "drop" those beyond, in an order
            that follows from the records alone.

    Raises:
        ConfigurationError: One noun is there without the other, or is no noun of letters, digits and single spaces; the
            bound is below 1; or records are to be dropped, and no column says whose they are.
    """

    singular: str = ""
    plural: str = ""
    at_most: int = 1
    contributor: str = ""
    contributed_by: str = "contributor"
    over: Literal["refuse", "drop"] = "refuse"

    def __post_init__(self) -> None:
        """Refuse what could not stand in a sentence and in the name of a folder."""
        if bool(self.singular) != bool(self.plural):
            raise ConfigurationError("singular and plural are both there, or neither is")
        if self.at_most < 1:
            raise ConfigurationError(f"at_most is 1 or more, and not {self.at_most}")
        if self.over == "drop" and not self.contributor:
            raise ConfigurationError('over = "drop" needs the column that says whose a record is (contributor)')
        for noun in filter(None, (self.singular, self.plural, self.contributed_by)):
            if not _NOUN.fullmatch(noun):
                raise ConfigurationError(
                    f"{noun!r} is no noun", hint="use letters and digits, words with a space or hyphen between them"
                )
            check_text(noun, "records", most=LONGEST_NAME)
        check_text(self.contributor, "contributor", most=LONGEST_NAME)
        if self.folder in OF_UNITS:
            raise ConfigurationError(f"a record that is a {self.singular} is said by record = {self.folder!r}")

    @property
    def folder(self) -> str:
        """The singular as it stands in the names of folders and files; empty where there is none."""
        return re.sub("[ -]", "_", self.singular.lower())


PEOPLE: Final = Records()


@dataclass(frozen=True, slots=True)
class MicrodataColumn:
    """A column of a microdata file.

    Attributes:
        name: Name of the column.
        source: Where its text comes from, in the vocabulary of this module.
        type: CHAR (zeros kept) or INT (plain number), and the greatest width; for the data dictionary.

    Raises:
        ConfigurationError: The name is no heading, or a text of the source is not one line or begins as a formula does.
    """

    name: str
    source: str
    type: str = ""

    def __post_init__(self) -> None:
        """Refuse what a file of text could not hold, or a spreadsheet would carry out."""
        check_heading(self.name, "microdata column")
        check_text(self.source, f"microdata column {self.name}: source", most=len(self.source))
        check_text(self.type, f"microdata column {self.name}: type", most=LONGEST_NAME)
        formula = next(filter(is_formula, self.texts), None)
        if formula is not None:
            raise ConfigurationError(
                f"microdata column {self.name}: a spreadsheet takes the code {formula!r} for a formula",
                hint="let codes begin with a letter or digit",
            )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of which its source says that one stands in every row."""
        kind, _, rest = self.source.partition(":")
        if kind == "constant":
            return (rest,)
        return tuple(rest.rpartition(":")[2].split(",")) if rest and "[" not in kind else ()

    def holds_integers(self, texts: Iterable[str]) -> bool:
        """Return whether Parquet files have the texts of the column as whole numbers: its type is INT, and they can."""
        return self.type.startswith("INT") and all(map(_PLAIN_INTEGER.fullmatch, texts))


@dataclass(frozen=True, slots=True)
class MicrodataLayout:
    """The two microdata files of a product.

    Attributes:
        name: How manifests call the layout.
        person: Columns of the person file, in order; none where the product writes no such file.
        unit: Columns of the unit file, in order; none where the product writes no such file.
        comment: First line of each file, beginning with "#"; empty where there is none.
        header: Where text files have the names of their columns.
        delimiter: What stands between the fields of a text file.

    Raises:
        ConfigurationError: Name or comment is not one line of text, the delimiter is no single sign, or a column's name
            or code contains it.
    """

    name: str
    person: tuple[MicrodataColumn, ...]
    unit: tuple[MicrodataColumn, ...]
    comment: str = ""
    header: Header = "none"
    delimiter: str = "|"

    def __post_init__(self) -> None:
        """Refuse what would stand in lines of the files otherwise than it is meant."""
        check_text(self.name, "microdata layout", most=LONGEST_NAME)
        check_text(self.comment, f"microdata layout {self.name}: comment")
        if self.delimiter != "\t" and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self._reads_as_text()
        ):
            raise ConfigurationError(
                f"microdata layout {self.name}: delimiter {self.delimiter!r} cannot stand between fields",
                hint="use one sign, such as | or ; or a comma",
            )
        for column in (*self.person, *self.unit):
            if any(self.delimiter in text for text in (column.name, *column.texts)):
                raise ConfigurationError(
                    f"microdata layout {self.name}: column {column.name} has the delimiter {self.delimiter!r} in its "
                    "name or in a code",
                    hint="use another delimiter, or other codes",
                )

    def _reads_as_text(self) -> bool:
        return self.delimiter.isalnum() or self.delimiter in "\"'-._" or not self.delimiter.isprintable()

    def columns(self, kind: str) -> tuple[MicrodataColumn, ...]:
        """Columns of the file of a kind.

        Args:
            kind: What one record of the file is: "unit", "household", or whatever else the product counts.

        Returns:
            The columns in order; none where the product writes no such file.
        """
        return self.unit if kind in OF_UNITS else self.person


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named way to spend a budget.

    Attributes:
        name: Name in the product.
        budget: Exact total and shares.
        title: What it is, in a few words.
        passes: Geolevel -> its outer passes of estimation, in order, by names of queries; geolevels that are missing
            are estimated by one fit of all that is measured and the cell-wise rounder.
        needs_total_at: Geolevel whose totals it does not measure, since they must be invariant; empty where none must.

    Raises:
        ConfigurationError: Name or title is not one line of text.
    """

    name: str
    budget: Budget
    title: str
    passes: Mapping[str, tuple[OuterPass, ...]] = field(default_factory=dict)
    needs_total_at: str = ""

    def __post_init__(self) -> None:
        """Check the texts."""
        check_text(self.name, "strategy", most=LONGEST_NAME)
        check_text(self.title, f"strategy {self.name}: title")

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Names of the geolevels that have a share, root first."""
        return tuple(level.geolevel for level in self.budget.levels)


@dataclass(frozen=True, slots=True)
class PublishedCounts:
    """Counts that another product has published, and that every estimate of this one is held to.

    They are estimates, not declared invariants: whatever protects them was spent when they were published, and they are
    read from the public folder of that product's run.

    Attributes:
        name: Name of the equality, for bounds and messages.
        product: Name of the product that published them.
        query: Query of this product whose answers they are, in every geounit.
        of: Query of that product with the same answers: as many rows, in the same order.
        vacancies: Query of that product that counts vacant housing units, one answer for each kind that the microdata
            of this one list; empty where they list one kind, whatever is not counted.
        kinds: Number of these answers.
        divided: Query of that product with one answer, a part of the last answer of `of`: as many of the records that
            the last answer of `query` counts, the last ones of every leaf, have a code of their own in the microdata;
            empty where none have.
        attributes: Attributes of that product, where das_spark does not know it by its name; a product file that names
            another file has them from there.
        undivided: Query of this product with the answers of `of`, where those of `query` are parts of them by class of
            units: each leaf's published counts are divided among the classes of which it has units. Empty where the
            answers of `query` are those of `of`.

    Raises:
        ConfigurationError: The name is not one line of text, or the product has none that a file can have.
    """

    name: str
    product: str
    query: str
    of: str
    vacancies: str = ""
    kinds: int = 1
    divided: str = ""
    attributes: tuple[Attribute, ...] = ()
    undivided: str = ""

    def __post_init__(self) -> None:
        """Check name and product."""
        check_text(self.name, "published counts", most=LONGEST_NAME)
        check_name(self.product, f"published counts {self.name}: product")


@dataclass(frozen=True, slots=True)
class Product:
    """Everything that is fixed about a publication before any data are read.

    Attributes:
        name: Name in the registry.
        title: What it is, in a few words.
        schema: Attributes of what is counted.
        geolevels: Every level that the leaf's geocode knows, root first.
        default_levels: Levels of a run that names none.
        unit_classes: Labels of the classes of units, in the order of the answers of `class_query`.
        class_query: Query whose answers the units bound: people by class of unit; empty where units bound nothing. A
            product of persons without it has one class of people: no unit bounds, no file of units that people are
            assigned to, and no column of source `record_type`, which tells the class.
        strata: Query of the stratified counts in accuracy reports.
        reported: Attributes and recodes of which accuracy reports compare every answer by itself, with its bias: the
            bias of all answers together says nothing where their sum is exact.
        unit_bounds: Fewest and most people by class; None where units bound nothing.
        structural_zeros: Cells in which nobody can be.
        strategies: Ways to spend a budget by name; the first is the usual one.
        microdata: Layout of the microdata files, in Parquet and in text.
        total_at: Geolevel whose totals are invariant unless a run says otherwise; "none" where no totals are.
        record: What is counted; one record of the microdata file of that kind. "person" stands for any records that
            are assigned to units or to none.
        records: What these are called, where they are no people.
        vacant_counted: Whether vacant units are counted among the units of the first class, and nothing exact tells
            how many they are.
        tables: Published tables: sums over the cells of the schema, made for every geolevel of a run down to their
            lowest one.
        medians: Published tables of medians, made, written and verified beside those of sums. They have no intervals:
            these are of sums over cells, whose errors are those of counts.
        occupancy: Published tables of housing units, occupied and vacant, where a product counts households and the
            housing units are exact. They are made of the households, and of the vacant units in `vacant_cell`. They
            have no intervals, and a run that does not know units has none of them.
        vacant_cell: Cell of these tables that counts vacant units; no household can be in it.
        ppmf: Layout of the public copy of the microdata files (format "ppmf"): the same records of the same files, and
            the same columns with codes, fewer of the others; None where there is none.
        file_recodes: Reader -> how what it delivers is recoded to the schema; tidy files need none, whose columns are
            the attributes.
        spine_settings: Shape of a spine that is made of areas, where a run does not say otherwise; the kind is the
            run's.
        published: Counts of another product that estimates are held to; None where they are held to none.

    Raises:
        ConfigurationError: The name cannot be that of a file, a text is not one line, or two tables have one name; or
            something of it needs the class of unit that people live in, and no query tells it.
    """

    name: str
    title: str
    schema: Schema
    geolevels: tuple[Geolevel, ...]
    default_levels: tuple[str, ...]
    unit_classes: tuple[str, ...]
    class_query: str
    strata: str
    unit_bounds: UnitBounds | None
    structural_zeros: tuple[StructuralZero, ...]
    strategies: Mapping[str, Strategy]
    microdata: MicrodataLayout
    total_at: str
    record: Record = "person"
    vacant_counted: bool = False
    reported: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    ppmf: MicrodataLayout | None = None
    spine_settings: SpineSettings = PLAIN_SPINE
    file_recodes: Mapping[str, FileRecodes] = field(default_factory=dict)
    published: PublishedCounts | None = None
    medians: tuple[MedianTable, ...] = ()
    records: Records = PEOPLE
    occupancy: tuple[Table, ...] = ()
    vacant_cell: int = 0

    def __post_init__(self) -> None:
        """Refuse what could not be made of people without classes, before a run can be charged for it."""
        self._check_names()
        if self.record != "person" and self.records != PEOPLE:
            raise ConfigurationError(
                f"product {self.name!r}: records says what others than units are, and record is {self.record!r}",
                hint="leave one of the two out",
            )
        nested = not any(level.code for level in self.geolevels)
        if self.occupancy and not (self.record == "household" and self.vacant_counted and nested):
            raise ConfigurationError(
                f"product {self.name!r}: tables of occupancy need households, housing units with the vacant ones among "
                "them, and geocodes that begin with those of the geounits above",
                hint="leave occupancy out",
            )
        for reader, recodes in self.file_recodes.items():
            recodes.check(self.schema, len(self.unit_classes), f"product {self.name!r}, reader {reader!r}")
        if self.class_query:
            return
        layouts = [layout for layout in (self.microdata, self.ppmf) if layout is not None]
        needing = ["unit_bounds"] if self.unit_bounds is not None else []
        if self.record == "person":
            needing += [f"the unit file of layout {layout.name!r}" for layout in layouts if layout.unit]
            needing += [
                f"column {column.name} of layout {layout.name!r} (source record_type)"
                for layout in layouts
                for column in layout.person
                if column.source == "record_type"
            ]
        if needing:
            raise ConfigurationError(
                f"product {self.name!r}: class_query is empty, and {', '.join(needing)} needs the class of people",
                hint="name the query that tells people by class of unit, or leave these out of the product",
            )

    def _check_names(self) -> None:
        check_name(self.name, "product")
        check_text(self.title, f"product {self.name}: title")
        for place, label in enumerate(self.unit_classes):
            check_text(label, f"product {self.name}: unit_classes[{place}]")
        # Some disks take small letters for large ones.
        folders = Counter(table.name.casefold() for table in self.every_table)
        if twice := [table.name for table in self.every_table if folders[table.name.casefold()] > 1]:
            raise ConfigurationError(
                f"product {self.name}: tables {' and '.join(twice)} would lie in one folder", hint="rename one of them"
            )

    @property
    def counted(self) -> str:
        """What is counted, in the plural, for sentences."""
        return self.records.plural or COUNTED[self.record]

    @property
    def noun(self) -> str:
        """What one record is, for sentences."""
        return self.records.singular or self.record

    @property
    def kind(self) -> str:
        """What one record is, for the names of folders and files."""
        return self.records.folder or self.record

    @property
    def listed(self) -> tuple[int, ...]:
        """The kinds of units that are listed behind what is counted, ascending.

        A kind is the class of a unit, and one more than the last class for vacant units, or several more where their
        kinds are told apart; kinds that are counted, or that people are assigned to, are not listed. In codes, a listed
        kind follows the cells: kind k has the code `schema.size + k - 1`.
        """
        classes = len(self.unit_classes)
        end = {"person": 1, "unit": classes, "household": classes + self.vacant_kinds}
        return tuple(range(1, end[self.record]))

    @property
    def vacant_kinds(self) -> int:
        """How many kinds of vacant units microdata tell apart."""
        return self.published.kinds if self.published is not None else 1

    @property
    def first_divided(self) -> int | None:
        """Code of the first cell among the codes of records that another product tells apart; None where none are.

        They follow all other codes: a record of cell c has the code `first_divided + c`.
        """
        divided = self.published is not None and self.published.divided
        return self.schema.size + len(self.listed) if divided else None

    @property
    def codes(self) -> int:
        """Number of codes of records: of cells, of what is listed, and of what another product tells apart."""
        return self.schema.size + len(self.listed) + (self.schema.size if self.first_divided is not None else 0)

    @property
    def counted_in_totals(self) -> str:
        """What exact totals are numbers of, for sentences; of housing units both kinds are counted."""
        return f"{self.counted} (occupied plus vacant)" if self.record == "unit" else self.counted

    def files(self, *, units: bool) -> tuple[str, ...]:
        """The kinds of microdata files of a run: what is counted first.

        Args:
            units: Whether the run knows units.
        """
        assigned = units and self.record == "person" and self.microdata.unit
        return (self.kind, "unit") if assigned else (self.kind,)

    def zero_cells(self) -> NDArray[np.bool_]:
        """Whether a cell is a structural zero, in which nobody can be, shape (cells,); not to be written to."""
        return _zero_cells(self.schema, self.structural_zeros)

    def layout(self, format: str) -> MicrodataLayout:
        """The layout of the microdata files of a format.

        Args:
            format: Name of a writer.

        Raises:
            ConfigurationError: The product has no such layout.
        """
        layout = self.ppmf if format == PPMF else self.microdata
        if layout is None:
            raise ConfigurationError(f"product '{self.name}' has no public layout of its microdata; leave '{PPMF}' out")
        return layout

    def census(self, spine: Spine) -> Spine:
        """The levels of the census that a spine spans, from its top to its leaf: those of tables and of accuracy.

        Args:
            spine: The spine of a run; it is given back where it is that of the census.
        """
        if spine.is_census:
            return spine
        names = [level.name for level in self.geolevels]
        return Spine(self.geolevels[names.index(spine.names[0]) : names.index(spine.leaf.name) + 1])

    @property
    def every_table(self) -> tuple[TableShell, ...]:
        """All published tables: those of sums, of occupancy, then those of medians."""
        return self.tables_with(units=True)

    def tables_with(self, *, units: bool) -> tuple[TableShell, ...]:
        """The published tables of a run, in order.

        Args:
            units: Whether the run knows units.
        """
        return (*self.tables, *(self.occupancy if units else ()), *self.medians)

    def tables_on(self, spine: Spine) -> tuple[Table, ...]:
        """The tables of sums of a run on a spine: those that have a geolevel of it, in order.

        Args:
            spine: The spine of the run.
        """
        census = self.census(spine)
        return tuple(table for table in self.tables if table.levels(census))

    def every_table_on(self, spine: Spine, *, units: bool) -> tuple[TableShell, ...]:
        """The same of all published tables.

        Args:
            spine: The spine of the run.
            units: Whether the run knows units.
        """
        census = self.census(spine)
        return tuple(table for table in self.tables_with(units=units) if table.levels(census))

    def spine(self, levels: Sequence[str] | None = None) -> Spine:
        """The spine of a run.

        Args:
            levels: Names of the levels that the run has, root first; None for the default ones.

        Raises:
            GeographyError: A name is unknown, or the levels do not nest in the order given.
        """
        every = Spine(self.geolevels)
        return Spine(tuple(every.level(name) for name in (self.default_levels if levels is None else levels)))


def pure_strategy(
    name: str, title: str, *, epsilon: str, geolevels: Mapping[str, str], queries: Mapping[str, str]
) -> Strategy:
    """A strategy under pure differential privacy that asks the same queries in every geolevel."""
    shares = tuple(QueryShare(query, exact(share, f"{name}: {query}")) for query, share in queries.items())
    levels = tuple(LevelBudget(level, exact(share, f"{name}: {level}"), shares) for level, share in geolevels.items())
    return Strategy(name, Budget(Framework.PURE_DP, exact(epsilon, f"{name}: epsilon"), levels), title)


@lru_cache(maxsize=8)  # of a million cells it takes as long as a small family's estimate
def _zero_cells(schema: Schema, zeros: tuple[StructuralZero, ...]) -> NDArray[np.bool_]:
    zero = np.zeros(schema.size, dtype=bool)
    for each in zeros:
        zero |= each.mask(schema)
    zero.setflags(write=False)
    return zero


def concentrated_strategy(
    name: str,
    title: str,
    *,
    rho: str,
    geolevels: Mapping[str, Fraction | str],
    queries: Mapping[str, Mapping[str, Fraction | str]],
    passes: Mapping[str, tuple[OuterPass, ...]],
    needs_total_at: str = "",
) -> Strategy:
    """A strategy under zero-concentrated differential privacy, with queries and passes of each geolevel's own."""
    levels = []
    for level, share in geolevels.items():
        where = f"{name}: {level}"
        shares = [QueryShare(query, exact(part, f"{where}: {query}")) for query, part in queries[level].items()]
        levels.append(LevelBudget(level, exact(share, where), tuple(shares)))
    budget = Budget(Framework.ZCDP, exact(rho, f"{name}: rho"), tuple(levels))
    of_levels = {level: passes[level] for level in geolevels if level in passes}
    return Strategy(name, budget, title, of_levels, needs_total_at)


def parts(names: Sequence[str], numerators: Sequence[int], denominator: int) -> dict[str, Fraction]:
    """Shares with one denominator, as tables write them."""
    pairs = zip(names, numerators, strict=True)
    return {name: Fraction(numerator, denominator) for name, numerator in pairs if numerator}


def by_name(strategies: Iterable[Strategy]) -> dict[str, Strategy]:
    """The strategies of a product under their names, in order."""
    return {strategy.name: strategy for strategy in strategies}


def fillers(columns: Mapping[str, tuple[str, str]]) -> tuple[MicrodataColumn, ...]:
    """Columns without content."""
    return tuple(MicrodataColumn(name, f"constant:{text}", kind) for name, (kind, text) in columns.items())
