"""One phenomenon: what was published of it, what is found here, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A published phenomenon beside ours.

    Attributes:
        key: Short name, such as "VR3".
        what: The phenomenon, in words.
        published: What was published of it; empty where it is a rule that must hold.
        found: What is found here.
        holds: Whether the phenomenon is there, by the criterion that `what` states.
    """

    key: str
    what: str
    published: str
    found: str
    holds: bool
