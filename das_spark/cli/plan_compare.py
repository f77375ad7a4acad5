"""`plan compare`: two budgets side by side, A as its file has it and B beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from das_spark.cli import completion
from das_spark.cli.options import Geounits, Json, Overlays, Settings, console, print_json, refuse_address
from das_spark.config import load_run
from das_spark.planning import comparison_record
from das_spark.privacy import rounded_up
from das_spark.report import known, number, table

if TYPE_CHECKING:
    from rich.console import Console

#: Characters of a setting that are printed.
_SHOWN: Final = 60
#: What is said where a run has no such figure, or nothing that it measures determines an answer.
_NONE: Final = "-"


def compare(
    other: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="Run file, taken as it is.", callback=refuse_address, autocompletion=completion.run_files
        ),
    ],
    conf: Annotated[
        Path,
        typer.Argument(
            metavar="B",
            help="Run file beside it, which --overlay and --set change.",
            callback=refuse_address,
            autocompletion=completion.run_files,
        ),
    ],
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Geounits = None,
    statistics: Annotated[
        list[str] | None,
        typer.Option(
            "--statistic",
            metavar="QUERY@GEOLEVEL",
            help="Answers whose standard errors are shown; may be repeated. All that is measured otherwise.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show two budgets side by side: their cost, partial losses, and expected standard errors.

    Example: das-spark plan compare conf/e2e_1940.toml conf/e2e_1940.toml --set budget.epsilon=1
    """
    # Nothing will be spent after this: a budget can be looked at whose people have no name yet.
    plans = load_run(other, files=False), load_run(conf, overlay or (), settings or (), files=False)
    found = comparison_record(*plans, statistics or (), geounits or ())
    if as_json:
        print_json({"run_files": (other, conf), **found})
    else:
        _print(found, (other, conf), console())


def _print(found: Mapping[str, Any], files: Sequence[object], out: Console) -> None:
    for side, file, run in zip("AB", files, found["runs"], strict=True):
        out.print(f"{side}: {file} ({run})")
    for side, only in zip("AB", found["only_in"], strict=True):
        if only:
            out.print(f"only {side} counts records of: {', '.join(only)}")
    for part in found["parts"]:
        _print_part(part, out, several=len(found["parts"]) > 1)
    if found["together"] is not None:
        _print_costs("\nAll parts together", found["together"], out)


def _print_part(part: Mapping[str, Any], out: Console, *, several: bool) -> None:
    if several:
        out.print(f"\nRecords: {part['part']}", style="bold")
    if part["products"][0] != part["products"][1]:
        out.print(f"products: A {part['products'][0]}, B {part['products'][1]}; what both have is compared")
    for side, only in zip("AB", part["geolevels"]["only_in"], strict=True):
        if only:
            out.print(f"only {side} has the geolevels {', '.join(only)}")
    _print_costs("\nExpense of privacy", part["costs"], out)
    for side, holds in zip("AB", part["holds_for"], strict=True):
        if holds is None:
            out.print(f"{side}: no exact composition of Gaussian noise for several records of a contributor is known")
    _print_losses(part, out)
    _print_statistics(part, out)
    rows = [
        (each["table"], each["geolevel"], *_spelled(each, "total"), *_spelled(each, "mean_of_columns"))
        for each in part["tables"]
    ]
    if rows:
        heads = ("table", "geolevel", "total, A", "B", "B / A", "mean of columns, A", "B", "B / A")
        out.print(table(f"\nExpected standard errors of published tables: {part['counts']}", heads, rows, left=2))
        out.print("of a geounit where people of all classes can be, by measurements alone")
    differing = [(key, *map(_setting, pair)) for key, pair in part["differing_settings"].items()]
    if differing:
        out.print(table("\nSettings that differ", ("setting", "A", "B"), differing, left=3))
    else:
        out.print("\nno setting that decides about estimates differs")


def _print_losses(part: Mapping[str, Any], out: Console) -> None:
    for title, key, spell in (
        ("\nPartial losses: epsilon, exact composition, at most", "exact_epsilon_at_most", rounded_up),
        ("\nPartial losses: epsilon by the conversion", "epsilon", number),
    ):
        rows = [
            (loss["about"], loss["name"], *(known(value, spell) for value in loss[key]), _ratio(loss[f"{key}_ratio"]))
            for loss in part["losses"]
        ]
        if rows:
            out.print(table(title, ("about", "name", "A", "B", "B / A"), rows, left=2))


def _print_statistics(part: Mapping[str, Any], out: Console) -> None:
    found = part["statistics"]
    rows = [
        (
            statistic["query"],
            statistic["geolevel"],
            *(known(value, number) for value in statistic["standard_error"]),
            _ratio(statistic["ratio"]),
        )
        for statistic in found["statistics"]
    ]
    if rows:
        heads = ("query", "geolevel", "A", "B", "B / A")
        out.print(table(f"\nStandard errors of named statistics: {part['counts']}", heads, rows, left=2))
        out.print(f"{found['meaning']}; {_NONE}: not determined by what is measured")
    for side, only in zip("AB", found["only_in"], strict=True):
        if only:
            out.print(f"only {side} has, or with other answers: {', '.join(only)}")


def _print_costs(title: str, costs: Sequence[Mapping[str, Any]], out: Console) -> None:
    rows = []
    for cost in costs:
        texts = cost["exact"] or [known(value, rounded_up) for value in cost["values"]]
        rows.append((cost["name"], *(text or _NONE for text in texts), _ratio(cost["ratio"])))
    out.print(table(title, ("", "A", "B", "B / A"), rows))


def _spelled(each: Mapping[str, Any], key: str) -> Iterator[str]:
    yield from (number(value) for value in each[key])
    yield _ratio(each[f"{key}_ratio"])


def _ratio(value: float | None) -> str:
    return known(value, "{:.3f}".format)


def _setting(value: object) -> str:
    text = _NONE if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
