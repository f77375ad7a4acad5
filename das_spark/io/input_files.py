"""How input files begin: whether they are what their names say, and which columns CSV has.

No message quotes a file: without its header, a table begins with a record. No path or address is a pattern.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from das_spark.errors import ConfigurationError, InputError
from das_spark.io.input_places import entries, holds_file, is_file, is_folder, is_there, readable
from das_spark.io.table_folder import is_note, record_files
from das_spark.names import CSV_ENDINGS, PARQUET_ENDING
from das_spark.places import place_of

if TYPE_CHECKING:
    from das_spark.config import InputSettings

_LONGEST_LINE = 1 << 20
_SAMPLE = 16
"""Bytes of ASCII in UTF-16 of which every other one is 0."""
_PARQUET = b"PAR1"
#: How compressed files begin, and the endings by which Spark knows to open them; none: it cannot.
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PK\x03\x04": ("ZIP", ""),
}
#: Ending of a name -> what opens such a file.
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
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

    @classmethod
    def of(cls, settings: InputSettings) -> CsvForm:
        """Return how the tables of a run are written."""
        return cls(settings.delimiter, settings.encoding)


PLAIN_CSV = CsvForm()


def codec_of(file: str) -> str | None:
    """Return how a file is compressed by its name; None where it is not."""
    return next((codec for ending, codec in _CODECS.items() if file.lower().endswith(ending)), None)


def first_line(file: str, encoding: str = PLAIN_CSV.encoding) -> str:
    """The first line of a text file, plain or compressed, without its end."""
    return _first_of(_begin(file), file, encoding)


def _first_of(begin: bytes, file: str, encoding: str) -> str:
    line = re.split(rb"[\r\n]", begin, maxsplit=1)[0]
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
    with readable(file), place_of(file).open("rb") as opened:
        _require_form(file, opened.read(4))
        opened.seek(0)
        with pa.input_stream(opened, compression=codec_of(file)) as stream:
            begin: bytes = stream.read(_LONGEST_LINE)
    start = begin[:_SAMPLE]
    if begin.startswith(_UTF_16) or (len(start) == _SAMPLE and any(not any(start[odd::2]) for odd in (0, 1))):
        raise InputError(f"{file}: is text in UTF-16, and UTF-8 is read", hint="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in start:
        raise InputError(f"{file}: is no text", hint="is it the right file? Text and Parquet are read")
    return begin.removeprefix(_BOM)


def _require_form(file: str, magic: bytes) -> None:
    """Refuse a file that is not compressed, or not text, as its name says."""
    packed, ending = next((kind for begin, kind in _COMPRESSED.items() if magic.startswith(begin)), ("", ""))
    named = next((each for _, each in _COMPRESSED.values() if each and file.lower().endswith(each)), "")
    if packed and (ending != named or not ending):
        hint = f"rename it to end in {ending}" if ending else "unpack it"
        raise InputError(f"{file}: is compressed ({packed}), and not by its name", hint=hint)
    if named and not packed:
        hint = f"rename it without {named}, or copy it again"
        raise InputError(f"{file}: its name ends in {named}, and it is not compressed so", hint=hint)
    if magic == _PARQUET:
        raise InputError(f"{file}: is a Parquet file, and not by its name", hint="rename it to end in .parquet")


def csv_names(file: str, form: CsvForm) -> tuple[str, ...]:
    """Find the names of the columns of a CSV file in its first line."""
    line = _first_of(begin := _begin(file), file, form.encoding)
    # Names may stand in quotes, with line ends in them; what follows the first line is not read yet.
    text = io.StringIO(begin.decode(form.encoding, "replace"), newline="")
    try:
        names = next(filter(None, csv.reader(text, delimiter=form.delimiter, strict=True)), [])
    except csv.Error:
        raise InputError(f"{file}: the line of names has quotes that are not around whole fields") from None
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


def look_at_lines(path: str, parts: Sequence[str], is_record: Callable[[str], bool], expected: str) -> None:
    """See that files of records, one a line, begin with one."""
    lines = {file: first_line(file) for file in record_files(path, parts)}
    for file, line in lines.items():
        if line and not is_record(line):
            hint = "is it the right file, in the layout that the reader expects?"
            raise InputError(f"{file}: does not begin with {expected}", hint=hint)
    if lines and not any(lines.values()):
        raise InputError(f"{path}: holds no record", hint="is it whole?")


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
    """Refuse a path at which there is nothing, or an empty folder; tables of a catalog are left to the session."""
    if is_catalog_table(path):
        return
    if is_file(path):
        return
    if not is_folder(path):
        raise InputError(f"{path}: no such file or folder", hint="check the paths of [input]")
    if not holds_file(path):
        raise InputError(f"{path}: the folder holds no file")


def companion(folder: str, name: str) -> str | None:
    """A table of a known name in a folder: `name`.parquet or `name`.csv, as a file or a folder; None without one.

    Raises:
        InputError: There are several, or what is called so has another ending: a list would not be read, and nobody
            would know.
    """
    endings = (PARQUET_ENDING, *CSV_ENDINGS)
    table = named_in(folder, name, endings)
    for other in (each.name for each in (entries(folder) if table is None else ())):
        if other.lower().lstrip("._").partition(".")[0] == name and not is_note(other):
            raise InputError(
                f"{folder}: {other!r} is called as the table {name!r}, and is none that is read",
                hint=f"rename it to end in {', '.join(endings)}, or move it elsewhere",
            )
    return table


def named_in(folder: str, name: str, endings: Sequence[str]) -> str | None:
    """A file or folder of a known name in a folder, with one of some endings; None without one.

    Raises:
        InputError: There are several: which one holds the records is not known.
    """
    places = [place for ending in endings if is_there(place := f"{folder.rstrip('/')}/{name}{ending}")]
    if len(places) > 1:
        raise InputError(
            f"{places[0]}: {places[1]} lies beside it", hint="which is the table? Move the other elsewhere"
        )
    return places[0] if places else None
