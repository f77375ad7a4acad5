"""What stands before the records of a text file of microdata, by the form of the files: metadata, and column names.

`parts`: each part is whole by itself; metadata, and names that the release has in a file of their own, lie beside.
`concatenate`: `0_metadata`, `1_header` and the parts, joined in the order of their names, are the file.
`single`: they are joined already, under the name that the release gives the file.

Comments stand in no CSV, which programs read without options: there the metadata lie beside whatever the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from das_spark.io.writers import WRITERS
from das_spark.io.writers.text import name_line

if TYPE_CHECKING:
    from das_spark.io.writers._columns import FileColumns
    from das_spark.products.base import Product

PARTS: Final = "parts"
CONCATENATE: Final = "concatenate"
SINGLE: Final = "single"

METADATA: Final = "metadata"
#: Beside the parts of a text file whose layout has it there: metadata, header and parts, joined, are the file.
HEADER: Final = "header"
_BEFORE_PARTS: Final = {METADATA: "0_metadata", HEADER: "1_header"}

_RECORDS: Final = "Records"
#: What the lines of the releases say, in their order: of 2018 and 1940 (no column names), of 2020 (column names).
_UNAME: Final = ("os_sysname", "host", "os_release", "os_version", "arch")
_WHO: Final = ("Command line", "uid", "username", "Boot Time", "Start Time")
_RELEASED: Final = {
    False: ("Created", _RECORDS, *_WHO, *_UNAME),
    True: ("Created", _RECORDS, *_WHO, "Git Repo Info", "PLB allocation table", *_UNAME),
}
#: Of what names a person or a machine, or tells when it was at work.
_WITHHELD: Final = "withheld"


@dataclass(frozen=True, slots=True)
class Heads:
    """The texts of one file.

    Attributes:
        before: What a single file begins with; empty in other forms.
        beside: Texts beside the records, by name.
    """

    before: str
    beside: Mapping[str, str]


def heads_of(
    product: Product,
    flavour: str,
    columns: FileColumns,
    form: str,
    *,
    rows: int,
    created: str,
    notices: tuple[str, ...],
    software: str = "",
) -> Heads:
    """The texts before and beside the records of a file; none names a person, a machine or a path.

    Args:
        product: Whose layout.
        flavour: Name in `WRITERS`.
        columns: What the file holds.
        form: One of `PARTS`, `CONCATENATE` and `SINGLE`.
        rows: Records.
        created: When, as it shall stand in the metadata.
        notices: Sentences that the file must carry.
        software: Version of das_spark that wrote the file; this one where it is empty.
    """
    if not WRITERS[flavour].has_metadata_file:
        return Heads("", {})
    layout = product.layout(flavour)
    as_released = form != PARTS and layout.header != "inside"
    software = f"das_spark {software or version('das_spark')}"
    facts = {"Product": product.name, "Created": created, "Software": software, _RECORDS: str(rows)}
    if as_released:
        known = facts | {"Git Repo Info": software, "PLB allocation table": "privacy_ledger.json"}
        labels = (*_RELEASED[layout.header == "beside"], "Product", "Software")
        facts = {label: known.get(label, _WITHHELD) for label in labels}
    first = [layout.comment] if layout.comment else []
    lines = [*first, *notices, *(f"{label}: {value}" for label, value in facts.items())]
    texts = {METADATA: "".join(f"{line if line.startswith('#') else f'# {line}'}\n" for line in lines)}
    if layout.header == "beside" or (layout.header == "inside" and form != PARTS):
        texts[HEADER] = name_line(columns)
    if form == PARTS:
        return Heads("", texts)
    if form == SINGLE:
        return Heads("".join(texts.values()), {}) if as_released else Heads(texts.pop(HEADER), texts)
    return Heads("", {_BEFORE_PARTS[name] if as_released or name == HEADER else name: texts[name] for name in texts})
