"""Contributors: whose a record is, and how many records of each there may be.

Identities are texts that somebody typed or a program padded: one person may be written in two ways. By default an input
is refused in which two identities agree when normalised and differ as bytes; `input.identity` says which is meant.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DecimalType, IntegralType, StringType

from das_spark.errors import InputError
from das_spark.spark.engine import in_tasks
from das_spark.spark.problems import GEOCODE, Problem, is_not, reading, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.products import Records
    from das_spark.spark.readers._tables import TidyTable

#: Column of whose a record is, as the file writes it; it is dropped with the records, as soon as they are counted.
CONTRIBUTOR: Final = "contributor"
_PERSON, _ROWS, _SPELLINGS = "person", "rows", "spellings"
#: In both engines: something besides separators, control characters and format characters.
_VISIBLE: Final = r"[^\p{Z}\p{Cc}\p{Cf}]"
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]+)")
_SCHEMA: Final = pa.schema([(CONTRIBUTOR, pa.string()), (_PERSON, pa.string()), (_ROWS, pa.int64())])


def normalised(identity: str) -> str:
    """Return the form in which two ways to write an identity agree.

    Unicode NFC; separators and control characters of every kind are white space, which is removed at the ends and
    becomes one space within; format characters, which have no width, are removed; an identity that is then an integer
    (an optional sign and the digits 0 to 9) is its value. Upper and lower case stay different.

    No identity has a say in the form of another one: otherwise the records of one contributor could decide whether
    those of others are counted together, and the bound would not bound what a contributor changes.
    """
    text = identity if identity.isprintable() else "".join(map(_shown, identity))
    text = " ".join(unicodedata.normalize("NFC", text).split())
    number = _INTEGER.fullmatch(text)
    if number is None:
        return text
    return f"-{number[2]}" if number[1] == "-" and number[2] != "0" else number[2]


def _shown(character: str) -> str:
    kind = unicodedata.category(character)
    return "" if kind == "Cf" else " " if kind == "Cc" or kind.startswith("Z") else character


def whose(table: TidyTable, records: Records) -> list[Column]:
    """Return the column that says whose each record is, where the product names it."""
    field = records.contributor
    if not field:
        return []
    column, kind = table.column(field), table.frame.schema[table.of(field)].dataType
    if not isinstance(kind, StringType | IntegralType | DecimalType):
        raise InputError(
            f"{table.file}: column {table.of(field)!r} holds neither texts nor whole numbers",
            hint=f"it is {kind.simpleString()}, which does not tell every {records.contributed_by} from all others",
        )
    identity = column.cast("string")
    table.check(field, f"what identifies a {records.contributed_by} in every row", is_not(identity.rlike(_VISIBLE)))
    return [identity.alias(CONTRIBUTOR)]


def within_bound(
    table: TidyTable, rows: DataFrame, records: Records, identity: str | None
) -> tuple[DataFrame, tuple[Problem, ...]]:
    """Return the records that are counted, as many of each contributor as are protected, and what was let pass.

    Args:
        table: The table of the records, for messages.
        rows: The records, with the column `CONTRIBUTOR`.
        records: What the product says of contributors.
        identity: How identities are compared: `input.identity`.

    Raises:
        BadInputError: Some contributor has more records and the product does not drop them, or identities that agree
            when normalised differ as bytes and the run file does not say what that means.
    """
    if not records.contributor:
        return rows, ()
    field, who = table.of(records.contributor), records.contributed_by
    with reading(table.file):
        spelled = rows.groupBy(CONTRIBUTOR).agg(F.count(F.lit(1)).alias(_ROWS))
        if identity == "bytes":
            people = spelled.withColumn(_PERSON, F.col(CONTRIBUTOR))
        else:
            people = in_tasks(spelled.select(CONTRIBUTOR, _ROWS), _with_person, from_arrow_schema(_SCHEMA))
        alike, over = _counted(people, records.at_most)
    problems = []
    if alike.rows:
        spelling = f"one spelling of the identity of each {who}"
        problems.append(Problem(table.file, field, spelling, alike.rows, note=f"pairs of identities: {alike.number:,}"))
    if problems and identity is None:
        hint = (
            f'set input.identity = "normalised" where such identities are of one {who}, or "bytes" where they are not'
        )
        refuse(problems, hint=hint)
    if over.rows:
        bound = f"at most {records.at_most:,} records of each {who}"
        problems.append(Problem(table.file, field, bound, over.rows, note=f"contributors: {over.number:,}"))
        if records.over == "refuse":
            refuse(problems[-1:])
        if alike.rows:
            known = people.select(CONTRIBUTOR, F.col(_PERSON))
            rows = rows.join(known, CONTRIBUTOR).drop(CONTRIBUTOR).withColumnRenamed(_PERSON, CONTRIBUTOR)
        rows = _first_of_each(rows, records.at_most)
    return rows, tuple(problems)


@dataclass(frozen=True, slots=True)
class _Breach:
    """How many pairs or contributors break a rule, and how many records they have."""

    number: int
    rows: int


def _counted(people: DataFrame, most: int) -> tuple[_Breach, _Breach]:
    """Count the pairs of spellings of one identity, and the contributors with more records than are protected."""
    spellings, rows = F.col(_SPELLINGS), F.col(_ROWS)
    persons = people.groupBy(_PERSON).agg(F.sum(_ROWS).alias(_ROWS), F.count(F.lit(1)).alias(_SPELLINGS))
    none = F.lit(0).cast("long")
    counts = (
        F.when(spellings > 1, spellings * (spellings - 1)).otherwise(none),
        F.when(spellings > 1, rows).otherwise(none),
        F.when(rows > most, F.lit(1).cast("long")).otherwise(none),
        F.when(rows > most, rows).otherwise(none),
    )
    pairs, alike, contributors, more = persons.agg(*map(F.sum, counts)).collect()[0]
    return _Breach((pairs or 0) // 2, alike or 0), _Breach(contributors or 0, more or 0)


def _with_person(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the normalised form to distinct identities with their numbers of records."""
    for batch in batches:
        spelled = batch.column(CONTRIBUTOR).cast(pa.string())
        persons = pa.array(map(normalised, spelled.to_pylist()), pa.string())
        yield pa.RecordBatch.from_arrays([spelled, persons, batch.column(_ROWS)], schema=_SCHEMA)


def _first_of_each(rows: DataFrame, most: int) -> DataFrame:
    """As many records of each contributor, in an order that follows from the records alone.

    The order is that of a digest of contributor, place and cell, which prefers no place and no cell. Records that agree
    in all of these are the same to whatever is counted, so that the order of rows, files and tasks decides nothing.
    """
    mixed = F.sha2(F.concat_ws("|", CONTRIBUTOR, GEOCODE, F.col("cell").cast("string")), 256)
    order = Window.partitionBy(CONTRIBUTOR).orderBy(mixed, GEOCODE, "cell")
    return rows.withColumn("place", F.row_number().over(order)).where(F.col("place") <= most).drop("place")
