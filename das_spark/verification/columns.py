"""What each column of the tables along a spine is compared with; one without a line here is an error of das_spark.

Two kinds of columns have no value that they must equal: noisy answers (given their number, and by
`das_spark.verification.noise` how far they may be from one another), and what a solver says of its own work (given its
range, and by the manifest its worst values and counts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PREFIX: Final = "a prefix of the geocode"
_SPINE: Final = "the levels of the spine"
_CELLS: Final = "children sum to parents; leaves equal the microdata"
_RANGE: Final = "its range; counts and worst values in the manifest"
#: Table -> column -> what verification compares it with.
RULES: Final[Mapping[str, Mapping[str, str]]] = {
    "geounits": {"geocode": _SPINE, "parent": _PREFIX, "children": "geounits one level below with that parent"},
    "invariants": {
        "geocode": "geounits",
        "parent": _PREFIX,
        "name": "declared invariants, each once",
        "values": "estimates, microdata and the bounds that follow",
    },
    "bounds": {
        "geocode": "what follows from the invariants, one step after the other",
        "parent": _PREFIX,
        **dict.fromkeys(
            ("name", "member", "lower", "upper"), "what follows from the invariants, one step after the other"
        ),
    },
    "measurements": {
        "geocode": "geounits that are measured",
        "parent": _PREFIX,
        "query": "queries of the budget, each once",
        "rows": "answers that the parent's estimate can touch, or all",
        "values": "number of answers; their noise by that of parents and children",
        "variance": "the mechanism of the budget",
    },
    "estimates": {"geocode": "geounits", "parent": "geounits", "cells": _CELLS, "counts": _CELLS},
    **{
        table: {
            "geocode": "geounits",
            "parent": "geounits; empty in upward_sums",
            "name": "names in the other geounits of its level, each once",
            "values": "that they are numbers; the estimator alone knows them",
        }
        for table in ("estimate_arrays", "upward", "upward_sums")
    },
    "published": {
        "geocode": "geounits, each once",
        "parent": "parents of geounits",
        "cells": "possible cells in order, with the answers of the estimates; children sum to parents",
        "counts": "answers of the estimates; children sum to parents",
    },
    "census_estimates": {
        "geocode": "blocks",
        "parent": _PREFIX,
        **dict.fromkeys(("cells", "counts"), "sums over the blocks of the spine"),
    },
    "diagnostics": {
        "geolevel": "the level of the folder",
        "family": "parents of geounits",
        "children": "geounits of the family",
        "status": "known ones, as the manifest counts them",
        "solver": "known ones, as the manifest counts them",
        "relaxed": "the manifest",
        "message": "empty unless relaxed",
        "problem": "empty",
        "rounding": "known ones",
        "gap": "the tolerance of the configuration; the worst in the manifest",
        **dict.fromkeys(("variables", "passes", "primal_residual", "iterations", "attempts", "rounding_gap"), _RANGE),
    },
    "shares": dict.fromkeys(("geocode", "parent", "share"), "paths of the spine"),
    "spine/blocks": {
        "block": "the end of its path",
        "path": "prefixes of its last geocode",
        "shares": "shares sum to 1 on every path",
    },
}
