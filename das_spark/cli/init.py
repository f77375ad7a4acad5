"""`init`: a run file from questions or options, for whoever has none to copy from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import Json, Settings, console, listed, print_json, refuse_address, write_new
from das_spark.config import (
    READER_NEEDS,
    SIMULATED,
    Draft,
    acknowledgement_sentences,
    draft_run_file,
    find_product,
    levels_of,
    load_plan,
    nearest,
    readers_of,
)
from das_spark.errors import ConfigurationError, DasError, did_you_mean

if TYPE_CHECKING:
    from das_spark.products import Product


def init(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    out: Annotated[
        Path, typer.Argument(metavar="[OUT.toml]", help="Run file to write.", callback=refuse_address)
    ] = Path("run.toml"),
    product: Annotated[
        str | None,
        typer.Option(
            "--product",
            metavar="PRODUCT",
            help="Name of a product, or file such as my_census.toml.",
            autocompletion=completion.products,
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--reader",
            metavar="NAME",
            help=f"Who reads the input: {', '.join(READER_NEEDS)}.",
            autocompletion=completion.readers,
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--input", metavar="PATH", help="File or folder of the input, for the reader.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="NAME", help="Name of the people in the input, such as census-2020."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="One of the product's; by default its first.",
            autocompletion=completion.strategies,
        ),
    ] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", metavar="NUMBER", help="The total, exact: 1/4.")] = None,
    rho: Annotated[
        str | None, typer.Option("--rho", metavar="NUMBER", help="The total, where the strategy is one of zCDP.")
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            "--levels",
            metavar="LIST",
            help="Geolevels, root first: State,County,Tract.",
            autocompletion=completion.level_lists,
        ),
    ] = None,
    acknowledge: Annotated[
        list[str] | None,
        typer.Option(
            "--acknowledge", metavar="NAME", help="What the run may publish exactly although it follows from people."
        ),
    ] = None,
    settings: Settings = None,
    ask: Annotated[
        bool | None, typer.Option("--ask/--no-ask", help="Ask for what no option says; by default in a terminal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run file with a comment on each key, from questions or from options. Nothing is overwritten.

    Example: das-spark init my_run.toml --product e2e_2018 --reader simulated --epsilon 2
    """
    if out.suffix != ".toml":
        raise ConfigurationError(f"{out}: a run file is called .toml", hint=f"write {out.stem}.toml")
    if epsilon is not None and rho is not None:
        raise typer.BadParameter("--epsilon and --rho are both given; a run has one of them")
    asking = sys.stdin.isatty() and sys.stdout.isatty() and not as_json if ask is None else ask
    total = next(((key, value) for key, value in (("epsilon", epsilon), ("rho", rho)) if value is not None), None)
    questions = _Questions(asking)
    named = questions.product(product)
    read_by = questions.reader(named, reader)
    draft = Draft(
        product=named,
        reader=read_by,
        input=questions.of_files(read_by, "--input", "File or folder of the input", source),
        dataset=questions.of_files(read_by, "--dataset", "Name of the people in it, such as census-2020", dataset),
        strategy=strategy,
        total=total,
        levels=None if levels is None else listed(levels),
        acknowledged=tuple(acknowledge or ()),
        settings=tuple(settings or ()),
    )
    draft = questions.rest(draft, out)
    text = draft_run_file(draft, out)
    write_new(out, text)
    plan = load_plan(out, files=False)
    spent = f"{plan.budget.framework.symbol} = {plan.budget.total}"
    if as_json:
        facts = {"run": plan.name, "product": plan.product.name, "reader": plan.input.reader}
        total_of = {"framework": str(plan.budget.framework), "total": str(plan.budget.total)}
        print_json({"path": out, **facts, **total_of, "geolevels": plan.spine.names})
        return
    screen = console()
    screen.print(f"{out}: a run of {plan.product.name} by {plan.input.reader}, {spent}, {', '.join(plan.spine.names)}")
    screen.print(f"Next: das-spark check {out}")


class _Questions:
    """Asks for what no option says, where somebody can answer."""

    def __init__(self, asking: bool) -> None:
        self.asking = asking

    def product(self, given: str | None) -> str:
        if given is not None or not self.asking:
            return self._required("--product", given)
        from das_spark.products import PRODUCTS  # noqa: PLC0415 - importing all of them takes a moment

        for each in PRODUCTS.values():
            typer.echo(f"  {each.name}: {each.title}")
        return _prompt("Product, or file of one", _found_product, None)

    def reader(self, product: str, given: str | None) -> str:
        if given is not None and given not in READER_NEEDS:
            raise ConfigurationError(f"--reader: unknown reader '{given}'; {nearest(given, READER_NEEDS)}")
        if given is not None or not self.asking:
            return self._required("--reader", given)
        names = readers_of(find_product(product))
        for name in names:
            typer.echo(f"  {name}: {READER_NEEDS[name].what}")
        return _prompt("Reader of the input", _one_of(READER_NEEDS), names[0])

    def of_files(self, reader: str, option: str, question: str, given: str | None) -> str | None:
        """What is asked of inputs that are files; the simulator has none."""
        if reader == SIMULATED or given is not None:
            return given
        return _prompt(question, str.strip, None) if self.asking else self._required(option, None)

    def rest(self, draft: Draft, out: Path) -> Draft:
        """What has a default: strategy, total, levels; and what must be acknowledged."""
        if not self.asking:
            return draft
        found = find_product(draft.product)
        draft = replace(draft, strategy=self._strategy(found, draft.strategy))
        draft = self._total(found, draft)
        if draft.levels is None:
            usual = ",".join(levels_of(found, draft.strategy))
            said = _prompt("Geolevels, root first", str.strip, usual)
            draft = replace(draft, levels=None if said == usual else listed(said))
        for name, sentence in acknowledgement_sentences(draft, out):
            if name not in draft.acknowledged:
                typer.echo(sentence)
                if typer.confirm(f"Acknowledge {name}?", default=False):
                    draft = replace(draft, acknowledged=(*draft.acknowledged, name))
        return draft

    @staticmethod
    def _strategy(product: Product, given: str | None) -> str | None:
        if given is not None or len(product.strategies) <= 1:
            return given
        for strategy in product.strategies.values():
            typer.echo(
                f"  {strategy.name}: {strategy.budget.framework.symbol} = {strategy.budget.total}. {strategy.title}"
            )
        return _prompt("Strategy", _one_of(product.strategies), next(iter(product.strategies)))

    @staticmethod
    def _total(product: Product, draft: Draft) -> Draft:
        usual = product.strategies.get(draft.strategy or next(iter(product.strategies), ""))
        if draft.total is not None or usual is None:
            return draft
        key, value = usual.budget.framework.symbol, str(usual.budget.total)
        said = _prompt(f"Total, {key}, exact (such as 1/4)", str.strip, value)
        return draft if said == value else replace(draft, total=(key, said))

    @staticmethod
    def _required(option: str, given: str | None) -> str:
        if given is None:
            hint = "name it, or call das-spark init in a terminal, where it asks for what is missing"
            raise ConfigurationError(f"{option}: is missing", hint=hint)
        return given


def _prompt(question: str, read: Callable[[str], str], default: str | None) -> str:
    """Ask until the answer can be read."""
    answer: str = typer.prompt(question, default=default, value_proc=read)
    return answer


def _found_product(named: str) -> str:
    try:
        find_product(named.strip())
    except DasError as error:
        raise typer.BadParameter(f"{error.message}. {error.hint}") from error
    return named.strip()


def _one_of(known: Iterable[str]) -> Callable[[str], str]:
    names = list(known)

    def read(answer: str) -> str:
        if answer.strip() not in names:
            raise typer.BadParameter(f"{answer!r} is none of {', '.join(names)}. {did_you_mean(answer, names)}")
        return answer.strip()

    return read
