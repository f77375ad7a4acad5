"""What a product file writes once and means in several places, written out: plain data in, plain data out.

- `attributes`: ``{shared = "cenrace"}`` stands for one that several products have (`SHARED`).
- `passes`: outer passes by name; in the passes of a strategy, the name stands for them.
- ``like`` in a strategy: an earlier one of the file, all of whose keys it has that it does not say itself. Queries and
  passes are taken level by level, and only of geolevels to which it gives a share.
- ``constant:...{version}`` as the source of a column: the version of this software. Its type may be "CHAR": as wide as
  that is.

What is not of the form that is looked for stays as it is, for those who decode it to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from das_spark.histogram import Attribute
from das_spark.products._redistricting import PERSON_ATTRIBUTES
from das_spark.products._to_data import encoded

if TYPE_CHECKING:
    from das_spark.errors import Problems

#: Attributes by their names.
SHARED: Final[Mapping[str, Attribute]] = MappingProxyType(
    {attribute.name: attribute for attribute in PERSON_ATTRIBUTES}
)
_VERSION: Final = "{version}"
_CONSTANT: Final = "constant:"


def written_out(data: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The same product without what this module says.

    Args:
        data: A product as plain data.
        problems: Gets names that nothing has.
    """
    found = dict(data)
    named = found.pop("passes", {})
    if isinstance(found.get("attributes"), list):
        places = enumerate(found["attributes"])
        found["attributes"] = [_attribute(each, f"attributes[{place}]", problems) for place, each in places]
    if isinstance(found.get("strategies"), list):
        found["strategies"] = _strategies(found["strategies"], named, problems)
    for key in ("microdata", "ppmf"):
        if isinstance(found.get(key), Mapping):
            found[key] = {name: _columns(each) for name, each in found[key].items()}
    return found


def _attribute(given: Any, where: str, problems: Problems) -> Any:  # noqa: ANN401 - whatever a file holds
    if not isinstance(given, Mapping) or set(given) != {"shared"}:
        return given
    if given["shared"] in SHARED:
        return encoded(Attribute, SHARED[given["shared"]])
    problems.add(f"{where}.shared", f"{given['shared']!r} is none of {', '.join(SHARED)}")
    return given


def _strategies(given: list[Any], named: Any, problems: Problems) -> list[Any]:  # noqa: ANN401 - whatever a file holds
    found: dict[str, dict[str, Any]] = {}
    made = []
    for place, each in enumerate(given):
        strategy = each
        if isinstance(each, Mapping):
            strategy = dict(each)
            like, passes = strategy.pop("like", None), strategy.get("passes")
            if isinstance(passes, Mapping):
                at = f"strategies[{place}].passes"
                strategy["passes"] = {
                    level: _named(own, named, f"{at}.{level}", problems) for level, own in passes.items()
                }
            if like is not None and like not in found:
                earlier = ", ".join(found) or "no strategy"
                problems.add(f"strategies[{place}].like", f"{like!r} is none of those above it: {earlier}")
            elif like is not None:
                strategy = _like(found[like], strategy)
            found[str(strategy.get("name"))] = strategy
        made.append(strategy)
    return made


def _like(earlier: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A strategy with what it does not say taken from another one."""
    found = {**earlier, **own}
    levels = found.get("geolevels", {})
    for key in ("queries", "passes"):
        parts = [each.get(key, {}) for each in (earlier, own)]
        if all(map(_is_by_level, parts)):
            both = {**parts[0], **parts[1]}
            found[key] = {level: both[level] for level in levels if level in both}
    return {key: value for key, value in found.items() if value != {}}


def _is_by_level(value: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    """Whether a table holds more than shares."""
    return isinstance(value, Mapping) and all(isinstance(each, Mapping | list) for each in value.values())


def _named(passes: Any, named: Any, where: str, problems: Problems) -> Any:  # noqa: ANN401 - whatever a file holds
    if not isinstance(passes, str):
        return passes
    if isinstance(named, Mapping) and passes in named:
        return named[passes]
    known = ", ".join(named) if isinstance(named, Mapping) and named else "none"
    problems.add(where, f"there are no passes {passes!r}; named are {known}")
    return []


def _columns(given: Any) -> Any:  # noqa: ANN401 - whatever a file holds
    """The columns of a file, with the version of the software where it is asked for."""
    if not isinstance(given, list):
        return given
    return [_column(each) if isinstance(each, Mapping) else each for each in given]


def _column(given: Mapping[str, Any]) -> dict[str, Any]:
    source = given.get("source")
    if not isinstance(source, str) or not source.startswith(_CONSTANT) or _VERSION not in source:
        return dict(given)
    text = source.removeprefix(_CONSTANT).replace(_VERSION, version("das_spark"))
    kind = f"CHAR{len(text)}" if given.get("type") == "CHAR" else given.get("type")
    return {**given, "source": _CONSTANT + text, "type": kind}
