"""How the codes in a product's microdata files relate to cells and classes, by the layout alone.

Verification reads files with this; it shares no code with the writer of the files, so that a slip in one of the two is
found by the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.geography import PADDING
from das_spark.histogram import Query, Schema
from das_spark.products.base import PPMF, WITHOUT_UNITS, Header, MicrodataColumn, MicrodataLayout, Product

#: Stands between the codes of one record where they are put together.
#: In the place of a cell: records of another product that are told apart, whatever their cells.
TOLD: Final = -1
CODE_SEPARATOR: Final = "|"

#: Rules that are looked at part by part, as verification calls them: who reads a part says which one it breaks.
PERSONS_EQUAL: Final = "microdata equal estimates"
PERSONS_IN_UNITS: Final = "persons in units"
UNIT_NUMBERS: Final = "unit numbers"
RECORD_NUMBERS: Final = "record numbers"
COLUMNS_AS_DECLARED: Final = "columns of microdata"
ROW_ORDER: Final = "order of records"
PART_RULES: Final = (PERSONS_EQUAL, PERSONS_IN_UNITS, UNIT_NUMBERS, RECORD_NUMBERS, COLUMNS_AS_DECLARED, ROW_ORDER)


class ColumnRule(StrEnum):
    """What verification compares a column of a microdata file with; every source of a layout has one."""

    CONSTANT = "constant"  # the text of the layout, in every record
    PLACE = "place"  # the geocodes of the estimates, joined with the other columns of this rule
    CODE = "code"  # the codes of cells and classes, joined likewise, as often as there are people or units
    RECORD_NUMBER = "record_number"  # 0, 1, ... over the whole file
    UNIT_NUMBER = "unit_number"  # units: 0, 1, ... over the whole file; persons: a unit of their geounit
    PERSON_NUMBER = "person_number"  # 1 to the population of the unit
    POPULATION = "population"  # the persons who name the unit

    @property
    def is_number(self) -> bool:
        """Whether the column holds whole numbers."""
        return self not in {ColumnRule.CONSTANT, ColumnRule.PLACE, ColumnRule.CODE}


#: Words before the first colon (or bracket) of a source -> its rule.
SOURCE_RULES: Final[Mapping[str, ColumnRule]] = {
    "geocode": ColumnRule.PLACE,
    **dict.fromkeys(("recode", "divided", "record_type", "tenure", "vacancy"), ColumnRule.CODE),
    **{str(rule): rule for rule in ColumnRule if rule.is_number or rule is ColumnRule.CONSTANT},
}


def column_rule(column: MicrodataColumn, *, assigned: bool) -> ColumnRule:
    """What a column is compared with.

    Args:
        column: Of a layout.
        assigned: Whether people are assigned to units; where not, numbers of units and of persons in them are constant.

    Raises:
        ConfigurationError: The source of the column has no rule, so that nothing would find a wrong value in it.
    """
    rule = SOURCE_RULES.get(column.source.split(":", 1)[0].split("[", 1)[0])
    if rule is None:
        raise ConfigurationError(f"microdata column {column.name}: verification has no rule for {column.source!r}")
    return ColumnRule.CONSTANT if column.source in WITHOUT_UNITS and not assigned else rule


@dataclass(frozen=True, slots=True)
class FileForm:
    """The columns of a format, and how files hold them.

    Attributes:
        delimiter: What stands between the fields of a text.
        header: Where a text in parts has a line of the names of its columns.
        rules: Kind of file -> every column of it, in order -> what it is compared with.
        constants: Kind of file -> constant column -> its text.
        integers: Kind of file -> columns that Parquet files hold as whole numbers.
    """

    delimiter: str
    header: Header
    rules: Mapping[str, Mapping[str, ColumnRule]]
    constants: Mapping[str, Mapping[str, str]]
    integers: Mapping[str, frozenset[str]]

    @property
    def names_inside(self) -> bool:
        """Whether each part, whole by itself, begins with the names of its columns."""
        return self.header == "inside"

    def record_number(self, kind: str) -> str:
        """The column of a file with the running number of the record; empty where it has none."""
        found = (name for name, rule in self.rules[kind].items() if rule is ColumnRule.RECORD_NUMBER)
        return next(found, "")


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A column whose text depends on the cell."""

    name: str
    attributes: tuple[str, ...]  # whose levels together have the texts; none where the kind of unit tells
    texts: tuple[str, ...]  # of the levels, where others are listed a last one for them; or by kind, vacant ones last
    divided: str = ""  # of the records of the last level that another product tells apart; empty where none are


@dataclass(frozen=True, slots=True, eq=False)
class MicrodataCodes:
    """The columns of both files by what they hold, and the codes of each cell and class.

    `person` stands for what is counted, also where that is units; `unit` for the units that people are assigned to,
    whose columns are none where they are not assigned.

    Attributes:
        record: What is counted, and the kind of its file.
        forms: Format -> its columns, and how text files hold them.
        person_place: Person columns that make up the geocode when joined.
        unit_place: Unit columns that do.
        spans: Where in the geocode their codes stand, where these are codes of their own of geolevels; else none.
        person_columns: Person columns with codes that depend on the cell.
        unit_columns: Unit columns with codes that depend on the class of the unit.
        schema: Of what is counted.
        coded: The columns `person_columns`, with the texts of their levels.
        kinds: Codes of a unit, joined likewise -> its class; vacant units have the number of classes.
        class_query: Whose answer that counts a cell is the class of its unit; where there is none, cells are of the
            first class.
        listed: Kinds of units that are listed behind what is counted; codes follow those of the cells.
        vacant_kinds: How many of the last kinds are vacant units.
        first_divided: Code of the first cell among records that another product tells apart; None where none are.
        unit_number: Column with the number of the unit, in both files.
        person_number: Person column with the number of the person in the unit.
        population: Unit column with the number of its people.
    """

    record: str
    forms: Mapping[str, FileForm]
    person_place: tuple[str, ...]
    unit_place: tuple[str, ...]
    person_columns: tuple[str, ...]
    unit_columns: tuple[str, ...]
    schema: Schema
    coded: tuple[CodedColumn, ...]
    kinds: Mapping[str, int]
    class_query: Query | None
    listed: tuple[int, ...]
    vacant_kinds: int
    first_divided: int | None
    unit_number: str
    person_number: str
    population: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def vacant(self) -> int:
        """What stands for vacant units: one more than the last class."""
        return max(self.kinds.values(), default=0)

    def place_of(self, geocode: str) -> str:
        """What the columns of a place hold of a geounit, joined."""
        parts = [geocode[begin:end].rstrip(PADDING) for begin, end in self.spans]
        return "".join(parts) if parts else geocode

    @property
    def assigned(self) -> bool:
        """Whether there is a file of units that people are assigned to."""
        return bool(self.kinds)

    @property
    def lists_vacant(self) -> bool:
        """Whether the last listed kinds are vacant units, which are those that are not counted."""
        return self.record == "household"

    @property
    def tells_apart(self) -> bool:
        """Whether counts of another product tell some of the records from others, or vacant units by kind."""
        return any(each.divided for each in self.coded) or (self.lists_vacant and self.vacant_kinds > 1)

    def classes_of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Class of the unit of some cells, and kind of what is listed, (cells,); -1 where there is none."""
        if self.class_query is None:
            divided = np.zeros(cells.shape, dtype=bool) if self.first_divided is None else cells >= self.first_divided
            return np.where(divided, 0, np.maximum(cells - self.schema.size + 1, 0))
        return self.class_query.row_of(cells)

    def codes_of(self, cells: NDArray[np.int64]) -> list[str]:
        """Texts of some cells in the columns with codes, joined by `CODE_SEPARATOR`."""
        texts = []
        divided = np.zeros(cells.shape, dtype=bool)
        if self.first_divided is not None:
            divided = cells >= self.first_divided
            cells = np.where(divided, cells - self.first_divided, cells)
        levels = np.unravel_index(np.minimum(cells, self.schema.size - 1), self.schema.shape)
        for column in self.coded:
            own = self.classes_of(cells)
            if column.attributes:
                together = np.zeros_like(cells)
                for axis in map(self.schema.axis, column.attributes):
                    together = together * self.schema.shape[axis] + levels[axis]
                own = np.where(cells >= self.schema.size, len(column.texts) - 1, together)
            found = [column.texts[each] for each in own.tolist()]
            if column.divided:
                found = [column.divided if other else text for text, other in zip(found, divided, strict=True)]
            texts.append(found)
        return [CODE_SEPARATOR.join(codes) for codes in zip(*texts, strict=True)]


def microdata_codes(product: Product, *, units: bool = True) -> MicrodataCodes:
    """Read the column sources of a product's layouts.

    Args:
        product: Whose layout; the vocabulary is that of `das_spark.products.base`.
        units: Whether the run knows units.

    Raises:
        ConfigurationError: Two classes of units have the same codes, a number column is missing, a column has no rule,
            or the public layout has other columns with places, codes or numbers of units than the microdata.
    """
    layout = product.microdata
    counted = layout.columns(product.record)
    assigned = layout.unit if len(product.files(units=units)) > 1 else ()
    of_persons = _person_codes(product)
    of_units = _unit_codes(product) if assigned else {}
    names = {column.source: column.name for column in (*assigned, *counted)}
    numbers = ("unit_number", "person_number", "population")
    missing = set(numbers) - set(names) if assigned else set()
    joined = [CODE_SEPARATOR.join(codes) for codes in zip(*of_units.values(), strict=True)]
    if missing or len(set(joined)) != len(joined):
        raise ConfigurationError(
            f"microdata layout {layout.name}: {'two classes of units share their codes' if not missing else ''}"
            f"{', '.join(f'no column of source {name}' for name in sorted(missing))}"
        )
    return MicrodataCodes(
        record=product.kind,
        forms=_forms(product, assigned=bool(assigned)),
        person_place=_place(counted),
        unit_place=_place(assigned),
        person_columns=tuple(column.name for column in of_persons),
        unit_columns=tuple(of_units),
        schema=product.schema,
        coded=of_persons,
        kinds={codes: place for place, codes in enumerate(joined)},
        class_query=_class_query(product),
        listed=product.listed,
        vacant_kinds=product.vacant_kinds,
        first_divided=product.first_divided,
        spans=_spans(counted) if product.geolevels[-1].code else (),
        unit_number=names.get("unit_number", ""),
        person_number=names.get("person_number", ""),
        population=names.get("population", ""),
    )


def _forms(product: Product, *, assigned: bool) -> dict[str, FileForm]:
    """The files of every format that the product has; what is read of them must be the same in all."""
    layouts = dict.fromkeys(("parquet", "text"), product.microdata)
    if product.ppmf is not None:
        layouts[PPMF] = product.ppmf
    read = [
        [
            column
            for kind in product.files(units=assigned)
            for column in layout.columns(kind)
            if not column.source.startswith("constant:") and column.source != "record_number"
        ]
        for layout in layouts.values()
    ]
    if any(each != read[0] for each in read[1:]):
        raise ConfigurationError(f"product {product.name}: its public layout has other codes than its microdata")
    kinds = product.files(units=assigned)
    return {format: _form(layout, kinds, assigned=assigned) for format, layout in layouts.items()}


def _form(layout: MicrodataLayout, kinds: Iterable[str], *, assigned: bool) -> FileForm:
    rules: dict[str, dict[str, ColumnRule]] = {}
    texts: dict[str, dict[str, str]] = {}
    integers: dict[str, frozenset[str]] = {}
    for kind in kinds:
        columns = layout.columns(kind)
        rules[kind] = {column.name: column_rule(column, assigned=assigned) for column in columns}
        texts[kind] = {
            column.name: WITHOUT_UNITS.get(column.source, column.source.removeprefix("constant:"))
            for column in columns
            if rules[kind][column.name] is ColumnRule.CONSTANT
        }
        integers[kind] = frozenset(
            column.name for column in columns if _holds_integers(column, rules[kind][column.name])
        )
    return FileForm(layout.delimiter, layout.header, rules, texts, integers)


def _holds_integers(column: MicrodataColumn, rule: ColumnRule) -> bool:
    filler = WITHOUT_UNITS.get(column.source)
    texts = column.texts if filler is None else (filler,)
    return rule.is_number or (rule is not ColumnRule.PLACE and column.holds_integers(texts))


def _class_query(product: Product) -> Query | None:
    named = product.record == "person" and product.class_query
    return product.schema.query(product.class_query) if named else None


def _place(columns: Iterable[MicrodataColumn]) -> tuple[str, ...]:
    """Names of the columns with parts of the geocode, from its first digits to its last."""
    parts = [column for column in columns if column.source.startswith("geocode[")]
    parts.sort(key=lambda column: _span(column)[0])
    return tuple(column.name for column in parts)


def _spans(columns: Iterable[MicrodataColumn]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(_span(column) for column in columns if column.source.startswith("geocode[")))


def _span(column: MicrodataColumn) -> tuple[int, int]:
    begin, end = column.source.removeprefix("geocode[").removesuffix("]").split(":")
    return int(begin), int(end)


def _person_codes(product: Product) -> tuple[CodedColumn, ...]:
    """The columns of what is counted whose texts depend on the cell."""
    others = len(product.unit_classes) - 1
    by_kind = _texts_by_kind(product)
    if product.record == "person":
        by_kind = {"record_type": ["3", *["5"] * others]}
    coded = []
    for column in product.microdata.columns(product.record):
        source, *codes = column.source.split(":", 2)
        if source == "vacancy" and codes:
            coded.append(CodedColumn(column.name, (), (*["0"] * (others + 1), *codes[0].split(","))))
        elif source == "divided":
            *texts, own, last = codes[1].split(",")
            coded.append(CodedColumn(column.name, (codes[0],), (*texts, last), own))
        elif source in by_kind:
            coded.append(CodedColumn(column.name, (), tuple(by_kind[source])))
        elif source == "recode":
            texts = codes[1].split(",")
            if codes[0] == "unit_class":
                texts += texts[-1:] * (product.vacant_kinds - 1)
            attributes = () if codes[0] == "unit_class" else tuple(codes[0].split("*"))
            coded.append(CodedColumn(column.name, attributes, tuple(texts)))
    return tuple(coded)


def _unit_codes(product: Product) -> dict[str, list[str]]:
    """Code of every class of units and of vacant ones, by column."""
    known = _texts_by_kind(product)
    codes: dict[str, list[str]] = {}
    for column in product.microdata.unit:
        if column.source.startswith("recode:"):
            codes[column.name] = column.source.split(":", 2)[2].split(",")
        elif column.source in known:
            codes[column.name] = known[column.source]
    return codes


def _texts_by_kind(product: Product) -> dict[str, list[str]]:
    """Source -> text of every class of units, and of vacant ones."""
    classes, vacant = len(product.unit_classes), product.vacant_kinds
    return {
        "record_type": ["2", *["4"] * (classes - 1), *["2"] * vacant],
        "tenure": ["9", *["0"] * (classes - 1 + vacant)],
        "vacancy": [*["0"] * classes, *["9"] * vacant],
    }
