"""Contributors: whose a record is, and how many records of each there may be.

Identities are texts that somebody typed or a program padded: one person may be written in two ways. By default an input
is refused in which two identities agree when normalised and differ as bytes; `input.identity` says which is meant.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from das_spark.spark.problems import Problem, refuse

if TYPE_CHECKING:
    from das_spark.products import Records

#: Something besides separators, control characters and format characters.
VISIBLE: Final = r"[^\p{Z}\p{Cc}\p{Cf}]"
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]+)")


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


def let_pass(
    facts: Sequence[Mapping[str, Any]], records: Records, identity: str | None, file: str, field: str
) -> tuple[Problem, ...]:
    """Refuse records of contributors who have more than are protected; return what was let pass.

    Args:
        facts: What tasks tell of contributors: pairs of spellings, alike (records with them), contributors, over
            (records of contributors with more than are protected).
        records: What the product says of contributors.
        identity: How identities are compared: `input.identity`.
        file: Where contributors stand.
        field: What they are called there.

    Raises:
        BadInputError: Some contributor has more records and the product does not drop them, or identities that agree
            when normalised differ as bytes and the run file does not say what that means.
    """
    pairs, alike, contributors, over = (
        sum(int(fact[name]) for fact in facts) for name in ("pairs", "alike", "contributors", "over")
    )
    who, problems = records.contributed_by, []
    if alike:
        spelling = f"one spelling of the identity of each {who}"
        problems.append(Problem(file, field, spelling, alike, note=f"pairs of identities: {pairs:,}"))
    if problems and identity is None:
        hint = (
            f'set input.identity = "normalised" where such identities are of one {who}, or "bytes" where they are not'
        )
        refuse(problems, hint=hint)
    if over:
        bound = f"at most {records.at_most:,} records of each {who}"
        problems.append(Problem(file, field, bound, over, note=f"contributors: {contributors:,}"))
        if records.over == "refuse":
            refuse(problems[-1:])
    return tuple(problems)
