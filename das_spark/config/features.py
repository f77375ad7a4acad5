"""Outputs that not every run has, by their tables of a run file: `[output.NAME]`.

Each is a folder of `das_spark.features` and a line of `FEATURES`. What it may be told stands in its `settings` module,
which is imported by name when a run file is read: features lie above the configuration that they are a part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, create_model

from das_spark.config.model import OutputSection, RunFile, Section
from das_spark.features import FEATURES

if TYPE_CHECKING:
    from fractions import Fraction

    from das_spark.config.plan import RunPlan
    from das_spark.errors import Problems

_Model = TypeVar("_Model", bound=Section)


class FeatureSettings(Section):
    """`[output.NAME]`: what a run file says of a feature and, once it is resolved, what follows for the run.

    Its values as JSON stand in the manifest of a run.
    """

    name: ClassVar[str]  # of the feature: its table of a run file, and its stage
    sources: ClassVar[tuple[str, ...]] = ()  # its keys that name files; a plan has their paths, absolute

    @property
    def of_measurements(self) -> Fraction | None:
        """The probability of the intervals by the measurements alone that it publishes; None where it has none."""
        return None

    @property
    def named_tables(self) -> tuple[str, ...]:
        """Names of the tables that it goes with (its key `tables`), once they are resolved."""
        return getattr(self, "tables", None) or ()

    @property
    def named_geolevels(self) -> tuple[str, ...]:
        """Names of the geolevels that it is made for (its key `geolevels`), once they are resolved."""
        return getattr(self, "geolevels", None) or ()

    def resolved(self, plan: RunPlan, problems: Problems) -> Self:
        """Look up what is named, and fill in what is not.

        Args:
            plan: Everything else of the run.
            problems: Is given what is wrong.
        """
        raise NotImplementedError


@cache
def feature_settings() -> Mapping[str, type[FeatureSettings]]:
    """Return the classes of settings of all features, by name."""
    classes = (import_module(f"das_spark.features.{name}.settings").SETTINGS for name in FEATURES)
    return MappingProxyType({each.name: each for each in classes})


@cache
def feature_sources() -> tuple[tuple[str, ...], ...]:
    """Return the keys of features that name files, by the tables of a run file that they stand in."""
    return tuple(("output", name, key) for name, kind in feature_settings().items() for key in kind.sources)


@cache
def output_section() -> type[OutputSection]:
    """Make `[output]` with the tables of all features."""
    tables: dict[str, Any] = {name: (kind | None, None) for name, kind in feature_settings().items()}
    return create_model("OutputSection", __base__=OutputSection, **tables)


def with_features(model: type[_Model]) -> type[_Model]:
    """Make a model whose `[output]` has the tables of all features.

    Args:
        model: Has a field `output` with those that every run may have.
    """
    output: Any = output_section()
    usual: Any = ... if model.model_fields["output"].is_required() else output()
    return create_model(model.__name__, __base__=model, output=(output, usual))


def wanted_features(section: OutputSection) -> tuple[FeatureSettings, ...]:
    """Return the settings of the features that a run file has a table of."""
    every = (getattr(section, name, None) for name in FEATURES)
    return tuple(each for each in every if each is not None)


def run_file_keys(model: type[BaseModel] | None = None, before: str = "") -> Iterator[str]:
    """Iterate over all keys of a run file by their paths, tables among them."""
    known = with_features(RunFile) if model is None else model
    for name, field in known.model_fields.items():
        yield f"{before}{name}"
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from run_file_keys(kind, f"{before}{name}.")
