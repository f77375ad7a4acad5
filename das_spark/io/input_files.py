"""How input files begin, seen without Spark: whether they are what their names say, and which columns they have.

Spark would say the same of a wrong file late, in a hundred lines, and not always: it takes columns between semicolons
for one column, and compressed bytes under another name for text. No message quotes a file: without its header, a
table begins with a record. Remote files and patterns are left to Spark.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from glob import glob
from typing import Literal

import pyarrow as pa
from pyarrow import parquet

from das_spark.errors import ConfigurationError, InputError
from das_spark.store import POSIX, files_below

CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
"""Endings of names of CSV files."""
_LONGEST_LINE = 1 << 20
_SAMPLE = 16
"""Bytes of ASCII in UTF-16 of which every other one is 0."""
_PARQUET = b"PAR1"
_LEAST_PARQUET = 12
#: How compressed files begin, and the endings by which Spark knows to open them; none: it cannot.
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PK\x03\x04": ("ZIP", ""),
}
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How tables of CSV are written.

    Attributes:
        delimiter: Between the fields; one character.
        encoding: Of the text.
    """

    delimiter: str = ","
    encoding: str = "UTF-8"


PLAIN_CSV = CsvForm()


def is_remote(path: str) -> bool:
    """Whether a path names a file system, such as ``s3a://bucket/file``."""
    return "://" in path


def is_folder(path: str) -> bool:
    """Whether a local path is a folder; of a remote one, whether its last name has no ending."""
    return "." not in path.rstrip("/").rsplit("/", 1)[-1] if is_remote(path) else POSIX.is_folder(path)


def _exists(path: str) -> bool:
    return POSIX.is_file(path) or POSIX.is_folder(path)


def data_files(path: str) -> list[str]:
    """The files of a table or a file of records, in order; none where they are left to Spark.

    Of a folder those that hold data by their names: Spark skips the others, as Hadoop does, markers and checksums.
    """
    if is_remote(path) or is_catalog_table(path):
        return []
    if POSIX.is_folder(path):
        below = (name for name in files_below(path) if not any(part[0] in "._" for part in name.split("/")))
        return [f"{path.rstrip('/')}/{name}" for name in below]
    return [path] if POSIX.is_file(path) else [file for file in sorted(glob(path)) if POSIX.is_file(file)]


def first_line(file: str, encoding: str = PLAIN_CSV.encoding) -> str:
    """The first line of a text file, plain or compressed, without its end."""
    line = _begin(file).partition(b"\n")[0].rstrip(b"\r")
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        raise InputError(
            f"{file}: its first line is no UTF-8 text",
            hint="save as UTF-8: iconv -f ENCODING -t UTF-8, where ENCODING is that of the file, such as ISO-8859-1, "
            "which a table of [input] may have, too: input.encoding",
        ) from None


def _begin(file: str) -> bytes:
    """The first bytes of a text, without a mark of their order."""
    with _readable(file), POSIX.open_input(file) as opened:
        magic = opened.read(4)
    packed, ending = next((kind for begin, kind in _COMPRESSED.items() if magic.startswith(begin)), ("", ""))
    named = next((each for _, each in _COMPRESSED.values() if each and file.endswith(each)), "")
    if packed and (ending != named or not ending):
        hint = f"rename it to end in {ending}" if ending else "unpack it"
        raise InputError(f"{file}: is compressed ({packed}), and not by its name", hint=hint)
    if named and not packed:
        hint = f"rename it without {named}, or copy it again"
        raise InputError(f"{file}: its name ends in {named}, and it is not compressed so", hint=hint)
    if magic == _PARQUET:
        raise InputError(f"{file}: is a Parquet file, and not by its name", hint="rename it to end in .parquet")
    with _readable(file), pa.input_stream(file, compression="detect") as stream:
        begin: bytes = stream.read(_LONGEST_LINE)
    start = begin[:_SAMPLE]
    if begin.startswith(_UTF_16) or (len(start) == _SAMPLE and any(not any(start[odd::2]) for odd in (0, 1))):
        raise InputError(f"{file}: is text in UTF-16, and UTF-8 is read", hint="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in start:
        raise InputError(f"{file}: is no text", hint="is it the right file? Text and Parquet are read")
    return begin.removeprefix(_BOM)


def _columns_of(path: str, files: Sequence[str], form: CsvForm) -> tuple[str, ...]:
    """Names of the columns of a table, whose files all have the same."""
    columns = _parquet_columns if _is_parquet(files) else partial(_csv_columns, form=form)
    if not _is_parquet(files):
        files = [file for file in files if POSIX.size(file)] or files[:1]
    first, *others = files
    names = columns(first)
    for file in others:
        if columns(file) != names:  # another first line may be a record: Spark would quote it
            what = "its columns are not those" if _is_parquet(files) else "its first line is not that"
            hint = "every file of a folder has the same columns, and CSV begins with the same line of their names"
            raise InputError(f"{file}: {what} of {first}", hint=hint)
    # Folders such as year=2020 are columns, too.
    below = first.removeprefix(path).split("/")[:-1] if POSIX.is_folder(path) else ()
    return (*names, *(part.partition("=")[0] for part in below if "=" in part))


def _is_parquet(files: Iterable[str]) -> bool:
    """Whether the files of a table are Parquet by their names: CSV has names that say so, and a table has one kind."""
    return not any(file.lower().endswith(CSV) for file in files)


def _csv_columns(file: str, form: CsvForm) -> tuple[str, ...]:
    line = first_line(file, form.encoding)
    names = next(csv.reader([line], delimiter=form.delimiter), [])
    if len(names) == 1:
        for sign, name in _DELIMITERS.items():
            if sign in line and sign != form.delimiter:
                read = _DELIMITERS.get(form.delimiter, f"signs {form.delimiter!r}")
                said = "\\t" if sign == "\t" else sign
                hint = (
                    f'say so by input.delimiter = "{said}" where the table is one of [input], or write it with commas'
                )
                raise InputError(f"{file}: its columns are delimited by {name}, and {read} are read", hint=hint)
    return tuple(names)


def _parquet_columns(file: str) -> tuple[str, ...]:
    with _readable(file), POSIX.open_input(file) as opened:
        begin = opened.read(len(_PARQUET))
        size = opened.seek(0, 2)
        opened.seek(max(size - len(_PARQUET), 0))
        end = opened.read()
    if begin != _PARQUET:
        hint = "name a table of CSV to end in .csv (or .csv.gz), and one of Parquet in .parquet"
        raise InputError(f"{file}: cannot be read: it is no Parquet file, and has no name of CSV", hint=hint)
    if size < _LEAST_PARQUET or end != _PARQUET:
        raise InputError(
            f"{file}: cannot be read: it begins as Parquet, and does not end so", hint="copy it again, whole"
        )
    with _readable(file):
        return tuple(parquet.read_schema(file).names)


def has_rows(files: Sequence[str]) -> bool:
    """Whether a table has a row at all."""
    for file in files:
        with _readable(file):
            if _is_parquet(files):
                found = parquet.read_metadata(file).num_rows > 0
            else:
                found = bool(_begin(file).partition(b"\n")[2].strip())
        if found:
            return True
    return False


def look_at_lines(path: str, parts: Sequence[str], is_record: Callable[[str], bool], expected: str) -> None:
    """See that files of records, one a line, begin with one."""
    files = data_files(path)
    if POSIX.is_folder(path):
        names = [name for name in POSIX.names(path) if any(fnmatch(name, part) for part in parts)]
        files = [f"{path.rstrip('/')}/{name}" for name in names]
        if not files:
            raise InputError(f"{path}: the folder holds no file of records", hint=f"their names are {', '.join(parts)}")
    lines = {file: first_line(file) for file in sorted(files)}
    for file, line in lines.items():
        if line and not is_record(line):
            hint = "is it the right file, in the layout that the reader expects?"
            raise InputError(f"{file}: does not begin with {expected}", hint=hint)
    if lines and not any(lines.values()):
        raise InputError(f"{path}: holds no record", hint="is it whole?")


@contextmanager
def _readable(file: str) -> Iterator[None]:
    """Turn errors about a file into one that names it, and quotes nothing of it or of a library."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = type(error).__name__
        raise InputError(f"{file}: cannot be read ({reason})", hint="is the file whole, and may it be read?") from None


Format = Literal["parquet", "csv"]


def required(path: str | None, key: str, reader: str) -> str:
    """The path that a reader cannot do without."""
    if not path:
        raise ConfigurationError(f"reader {reader!r} needs {key}", hint=f"set it with --set {key}=FILE")
    return path


def is_catalog_table(place: str) -> bool:
    """Whether a place is a table of the session's catalog, and no file or folder."""
    from das_spark import config  # noqa: PLC0415 - tasks import this module, and no configuration

    return config.is_catalog_table(place)


def require_path(path: str) -> None:
    """Refuse a local path that does not exist, or an empty folder, before Spark is asked; tables are left to it."""
    if is_remote(path) or is_catalog_table(path) or any(character in path for character in "*?["):
        return
    if not _exists(path):
        raise InputError(f"{path}: no such file or folder", hint="check the paths of [input]")
    if not data_files(path):
        raise InputError(f"{path}: the folder holds no file")


def format_of(path: str) -> Format:
    """Whether a file or folder holds CSV or Parquet, by the names of its files; a remote one, by its own name."""
    if is_remote(path) or not POSIX.is_folder(path):
        return "csv" if path.lower().endswith(CSV) else "parquet"
    names = [file.lower() for file in data_files(path)]
    csv, parquet = any(name.endswith(CSV) for name in names), any(name.endswith(".parquet") for name in names)
    if csv == parquet:
        found = "both CSV and Parquet files" if csv else "neither CSV nor Parquet files"
        raise InputError(f"{path}: the folder holds {found}", hint="name one kind by .csv or .parquet")
    return "csv" if csv else "parquet"


def columns_in(path: str, form: CsvForm = PLAIN_CSV) -> tuple[str, ...] | None:
    """Names of the columns of a table, seen without Spark; None where it is left to Spark."""
    require_path(path)
    files = data_files(path)
    if not files:
        return None
    format_of(path)
    return _columns_of(path, files, form)


def companion(folder: str, name: str) -> str | None:
    """A table of a known name in a folder: `name`.parquet or `name`.csv, as a file or a folder; None without one."""
    return named_in(folder, name, (".parquet", *CSV))


def named_in(folder: str, name: str, endings: Sequence[str]) -> str | None:
    """A file or folder of a known name in a folder; a remote one is expected to hold the first ending."""
    places = [f"{folder.rstrip('/')}/{name}{ending}" for ending in endings]
    return places[0] if is_remote(folder) else next(filter(_exists, places), None)
