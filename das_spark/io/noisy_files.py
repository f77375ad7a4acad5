"""Files of noisy measurements, in the tree and the columns of the Bureau's published ones: where they lie, their rows.

    <dataset>/<Geolevel>.parquet/{DPQuery|Constraint}/[State=.../[County=.../]]part-*.parquet

`DPQuery` holds what was measured, `Constraint` what is published exactly; a row is a geounit and a query:

    geocode        string; empty at a root that is one geounit by definition, such as the nation
    query_name     string: the query with "_dpq" (measured) or "_con" (exact) behind it
    <attribute>    string, one column for each attribute of the histogram: "*" where it is summed over, the attribute's
                   name where every level has answers of its own, otherwise the name of a recode; "detailed" in all
                   columns of the query "detailed". So the columns without "*", joined by " * ", are the query
    query_shape    list of int: answers along each attribute, 1 where it is summed over
    value          list of int, row-major over query_shape; may be negative where it was measured
    variance       float: of the noise of each value, in people^2 (or units^2); 0 in constraints
    plb            what was spent on the query
    sign           constraints: "=", "<=" or ">="

The published files partition by State and County, leave `sign` out where nothing has one, write integers of several
widths and variances of single precision. `read_rows` reads all of that, and what `das_spark` writes itself: no
partitions, 64-bit integers, variances of double precision (the nearest to the exact one), `plb` as an exact fraction
(text), `sign` always there and null where something was measured. Earlier folders of ours say "detailed" of every
attribute that is kept whole, and "0" at such a root: they are read, too. Beside the dataset, a folder has what the
published files lack: `geounits/` and `invariants/` as in the public folder of a run, and `measurements.json`
(`das_spark.store.manifest.MeasurementsManifest`) with product, schema, configuration, ledger entry and checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from das_spark.errors import InputError
from das_spark.histogram import DETAILED
from das_spark.places import Place, as_input, inside, place_of, seen_from, system_of
from das_spark.store import FileRecord, files_below, level_folder, names_in, record_of

DPQUERY: Final = "DPQuery"
CONSTRAINT: Final = "Constraint"
RECORD: Final = "measurements.json"
ABOUT: Final = "_about.txt"
#: Tables of a run that estimation needs and the published layout has no place for.
EXTRA_TABLES: Final = ("geounits", "invariants")
#: Columns in front of and behind those of the attributes.
_FRONT: Final = ("geocode", "query_name")
_BACK: Final = ("query_shape", "value", "variance", "plb", "sign")
#: Columns that files may leave out.
_OPTIONAL: Final = ("plb", "sign")
#: What `read_rows` gives: `bins` are the texts of the attribute columns, in the order of the schema, the attribute's
#: name where every level is kept, however the file spells that.
ROWS: Final = pa.schema(
    [
        ("level", pa.string()),
        ("kind", pa.string()),
        ("geocode", pa.string()),
        ("query_name", pa.string()),
        ("bins", pa.list_(pa.string())),
        ("query_shape", pa.list_(pa.int32())),
        ("value", pa.list_(pa.int64())),
        ("variance", pa.float64()),
        ("plb", pa.string()),
        ("sign", pa.string()),
    ]
)
#: Values that a task holds at once, about: bounds its memory whatever the size of the histogram.
_VALUES: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class NoisyLayout:
    """Paths of a folder of measurements."""

    path: Place

    @property
    def record(self) -> Place:
        """What the folder says of itself."""
        return self.path / RECORD

    @property
    def about(self) -> Place:
        """The same in words."""
        return self.path / ABOUT

    @property
    def raw(self) -> Place:
        """Rows as one job writes them, before each file is put where it belongs."""
        return self.path / ".rows"

    def dataset(self, name: str) -> Place:
        """The folder of a dataset, which holds one folder a geolevel."""
        return inside(self.path, name)

    def rows(self, dataset: str, geolevel: str, kind: str) -> Place:
        """The folder of the rows of a geolevel."""
        return inside(_level_folder(self.dataset(dataset), geolevel), kind)

    def table(self, name: str, geolevel: str) -> Place:
        """The folder of a level of a table that stands beside the datasets."""
        return inside(self.path, name, level_folder(geolevel))


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows of a geolevel; its kind is `DPQuery` or `Constraint`."""

    level: str
    kind: str
    path: Place


def _level_folder(dataset: Place, geolevel: str) -> Place:
    """The folder of a geolevel in a dataset."""
    return inside(dataset, f"{geolevel}.parquet")


def find_dataset(path: Place, geolevels: Sequence[str]) -> Place:
    """The dataset that a path names: the folder itself, or the only one in it."""
    if not path.is_dir():
        raise InputError(f"{path}: no such folder", hint="name a folder of measurement files")
    entries = system_of(path).entries(str(path))
    candidates = [path, *(path / entry.name for entry in entries if entry.is_folder)]
    found = [
        candidate for candidate in candidates if any(_level_folder(candidate, name).is_dir() for name in geolevels)
    ]
    if len(found) == 1 or path in found:
        return found[0]
    if found:
        names = ", ".join(folder.name for folder in found)
        raise InputError(f"{path}: holds several datasets ({names})", hint="name the folder of one of them")
    expected = ", ".join(f"{name}.parquet" for name in geolevels)
    raise InputError(f"{path}: holds no measurement files of these geolevels (expected folders {expected})")


def row_files(dataset: Place, geolevels: Sequence[str]) -> tuple[RowFile, ...]:
    """The files of a dataset, partitioned or not."""
    files = []
    for name in geolevels:
        for kind in (DPQUERY, CONSTRAINT):
            folder = _level_folder(dataset, name) / kind
            parts = row_parts(folder)
            if not parts and kind == DPQUERY:
                there = sorted(name for name in names_in(dataset) if name.endswith(".parquet"))
                raise InputError(
                    f"{dataset}: the measurements of geolevel {name} are missing ({seen_from(dataset, folder)})",
                    hint=f"there are {', '.join(there) or 'none'}",
                )
            files += [RowFile(name, kind, folder / part) for part in parts]
    return tuple(files)


def row_parts(folder: Place) -> list[str]:
    """The data files in a folder and below it, as seen from there; none where there is no such folder."""
    return [name for name in files_below(folder) if name.rpartition("/")[2].startswith("part-")]


def check_whole(files: Sequence[RowFile], attributes: Sequence[str], *, below: Place) -> None:
    """Read the footer of every file: is it a whole Parquet file, of this schema?"""
    for file in files:
        name = seen_from(below, file.path)
        try:
            schema = parquet.read_schema(as_input(file.path))
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{name}: is not a whole Parquet file", hint="copy or download it again") from error
        _check_columns(name, schema, attributes)


def check_records(folder: Place, records: Sequence[FileRecord]) -> None:
    """Compare files with what was recorded of them when they were written; a record leads to no file elsewhere."""
    found = set(row_parts(folder))
    for record in records:
        if record.name not in found:
            raise InputError(f"{folder}: {record.name} is missing", hint="copy or download the folder again")
        if record_of(folder / record.name, record.name) != record:
            raise InputError(
                f"{folder}: {record.name} is not as it was published (its checksum is another one)",
                hint="measurements are never edited; copy or download the folder again",
            )
    unknown = sorted(found - {record.name for record in records})
    if unknown:
        raise InputError(f"{folder}: {unknown[0]} is not part of what was published", hint="remove it")


def written_schema(attributes: Sequence[str]) -> tuple[str, ...]:
    """Columns of the files that are written, in order."""
    return (*_FRONT, *attributes, *_BACK)


def about(facts: Sequence[str], dictionary: Sequence[Mapping[str, object]]) -> str:
    """What a folder holds, in words."""
    lines = ["Noisy measurements of a run of das_spark", "", *facts, ""]
    for entry in dictionary:
        lines += [f"{entry['path']}: {entry['row']}"]
        columns = entry["columns"] if isinstance(entry["columns"], list) else []
        lines += [f"    {column['name']} ({column['type']}): {column['meaning']}" for column in columns]
    return "\n".join(lines) + "\n"


def _check_columns(name: str, schema: pa.Schema, attributes: Sequence[str]) -> None:
    found = set(schema.names)
    needed = [*_FRONT, *attributes, *(each for each in _BACK if each not in _OPTIONAL)]
    missing = [column for column in needed if column not in found]
    others = sorted(found - set(needed) - set(_OPTIONAL))
    if missing or others:
        differences = [
            f"without {', '.join(missing)}" if missing else "",
            f"with {', '.join(others)}" if others else "",
        ]
        raise InputError(
            f"{name}: its columns are not those of the product ({'; '.join(each for each in differences if each)})",
            hint=f"the attributes of the product are {', '.join(attributes)}; is it another product's file?",
        )
    for column in ("query_shape", "value"):
        kind = schema.field(column).type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_integer(kind.value_type):
            raise InputError(f"{name}: column {column} must hold lists of whole numbers, not {kind}")
    if not pa.types.is_floating(schema.field("variance").type):
        raise InputError(f"{name}: column variance must hold floating-point numbers")


def rows_of_file(file: Mapping[str, str], attributes: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file in the columns `ROWS`, whatever the widths of its numbers."""
    rows_at_once = max(1, min(4096, _VALUES // max(size, 1)))
    with parquet.ParquetFile(as_input(place_of(file["path"]))) as source:
        there = [name for name in written_schema(attributes) if name in source.schema_arrow.names]
        for batch in source.iter_batches(batch_size=rows_at_once, columns=there):
            yield _as_rows(batch, file, attributes)


def _as_rows(batch: pa.RecordBatch, file: Mapping[str, str], attributes: Sequence[str]) -> pa.RecordBatch:
    count = batch.num_rows
    constant = {name: pa.array([file[name]] * count, pa.string()) for name in ("level", "kind")}
    bins = [_spelled_out(batch.column(name).cast(pa.string()), name) for name in attributes]
    columns = {**constant, "bins": _side_by_side(bins, count)}
    for field in ROWS:
        if field.name in columns:
            continue
        if field.name in _OPTIONAL and not _is_text(batch, field.name):
            columns[field.name] = pa.nulls(count, pa.string())  # numbers of another vocabulary than ours
        else:
            columns[field.name] = batch.column(field.name).cast(field.type)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in ROWS], schema=ROWS)


def _spelled_out(column: pa.Array, attribute: str) -> pa.Array:
    """Call what keeps every level by the attribute's name; "detailed" says the same."""
    return pc.if_else(pc.equal(column, DETAILED), attribute, column)


def _is_text(batch: pa.RecordBatch, name: str) -> bool:
    if name not in batch.schema.names:
        return False
    kind = batch.schema.field(name).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _side_by_side(columns: Sequence[pa.Array], count: int) -> pa.Array:
    """Columns of text as one column of lists."""
    width = len(columns)
    flat = np.empty((count, width), dtype=object)
    for place, column in enumerate(columns):
        flat[:, place] = column.to_pylist()
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, pa.array(flat.ravel(), pa.string()))
