"""Lines whose fields are delimited, without quotes: named by the first line of each file, or by their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.io.input_files import first_line
from das_spark.io.text_lines import LINE

if TYPE_CHECKING:
    from das_spark.io.input_fields import Flags, Rows

#: Between fields.
DELIMITER: Final = "|"


@dataclass(frozen=True, slots=True)
class LineFields:
    """The fields of lines.

    Attributes:
        names: Of all fields of a line.
        named: Whether the first line of a file holds their names.
    """

    names: tuple[str, ...]
    named: bool = True

    @classmethod
    def of(cls, files: Sequence[str], wanted: Sequence[str], *, file: str, kind: str) -> LineFields:
        """Read the names in the first lines of files, which are the same in all.

        Args:
            files: Paths.
            wanted: Names of which none may be missing.
            file: What messages call the files.
            kind: What they are, for messages.

        Raises:
            InputError: A file is empty, has other names than the one before, or one that is wanted is missing.
        """
        lines = {path: first_line(path, "latin-1") for path in files}
        if not all(lines.values()):
            raise InputError(f"{file}: the file is empty, so no geounit exists")
        names = [tuple(name.strip() for name in line.split(DELIMITER)) for line in lines.values()]
        for path, own_names in zip(lines, names, strict=True):
            if missing := [name for name in wanted if name not in own_names]:
                raise InputError(
                    f"{file}: no column {', '.join(missing)}",
                    hint=f"the first line names the columns, delimited by {DELIMITER}, as in {kind}",
                )
            if own_names != names[0]:
                raise InputError(f"{path}: has other columns than {files[0]}", hint="take all from the same release")
        return cls(names[0])

    def cut(self, rows: Rows, wanted: Sequence[str]) -> Rows:
        """Return the lines that have all fields, as rows with some of them, without spaces around.

        Args:
            rows: Lines.
            wanted: Names of fields.
        """
        whole, fields = self.all_of(rows)
        lines = np.arange(int(whole.sum())) * len(self.names)
        places = {name: self.names.index(name) for name in wanted}
        columns = {name: fields.take(pa.array(lines + position)) for name, position in places.items()}
        return rows.of(whole, {name: pc.utf8_trim(column, " ") for name, column in columns.items()})

    def all_of(self, rows: Rows) -> tuple[Flags, pa.Array]:
        """Return which lines have all fields, and these, one line after the other."""
        parts = pc.split_pattern(rows.column(LINE), DELIMITER)
        of = rows.numbers > 1 if self.named else np.ones(len(rows), dtype=np.bool_)
        whole = of & (np.asarray(pc.list_value_length(parts)) == len(self.names))
        rows.check("", f"{len(self.names)} columns{', as in the first line' if self.named else ''}", of & ~whole)
        return whole, parts.filter(pa.array(whole)).flatten()
