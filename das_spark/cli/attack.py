"""`attack`: what somebody could learn of a person from what a run publishes."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import Data, Json, Run, console, print_found
from das_spark.places import place_of
from das_spark.privacy import exact


def attack(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    run: Run,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ATTACK",
            help="One of them, such as linkage; may be repeated; all that are possible otherwise.",
            autocompletion=completion.attacks,
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            metavar="RUN",
            help="Take the confidential histograms of this run.",
            autocompletion=completion.runs,
        ),
    ] = None,
    second: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Of differencing: another run on the same dataset.",
            autocompletion=completion.runs,
        ),
    ] = None,
    known: Annotated[
        str, typer.Option("--known", metavar="QUERY", help='Of linkage: what is known, such as "sex * age".')
    ] = "",
    learned: Annotated[str, typer.Option("--learn", metavar="QUERY", help="Of linkage: what is learned.")] = "",
    blocks: Annotated[
        int, typer.Option("--blocks", min=1, help="Geounits of the lowest geolevel that are reconstructed; a sample.")
    ] = 400,
    draws: Annotated[
        int, typer.Option("--draws", min=1, help="Draws of the noise under each of two records.")
    ] = 100_000,
    level: Annotated[float, typer.Option("--level", help="Confidence of all findings on noise together.")] = 0.95,
    swapped: Annotated[
        str, typer.Option("--swapped", metavar="SHARE", help="Of records that the baseline of swapping exchanges.")
    ] = "1/20",
    seed: Annotated[int, typer.Option("--seed", help="Of samples and of the baseline of swapping.")] = 0,
    test_key: Annotated[
        str | None, typer.Option("--test-key", metavar="TEXT", help="INSECURE: keys from a text, to repeat draws.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write attack.json, attack.html and CSV files there.")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """What somebody could learn of a person from what a run publishes. RESTRICTED: it is compared with the truth.

    Each attack has its baseline beside it: what is found without a record of the place or the person. Exit 1 where the
    noisy answers tell more than is claimed of them.

    Example: das-spark attack runs/latest --out attack
    """
    if data is not None and out is None:
        raise typer.BadParameter("--data goes with --out")
    from das_spark.attack import AttackSettings, present_attacks  # noqa: PLC0415 - needs statistics
    from das_spark.pipeline.attack import attack_run, write_attacks  # noqa: PLC0415 - needs Spark's packages

    settings = AttackSettings(
        blocks=blocks,
        draws=draws,
        level=level,
        swapped=exact(swapped, "--swapped"),
        seed=seed,
        known=known,
        learned=learned,
        test_key=test_key,
    )
    progress = (lambda _: None) if as_json else console(err=True).print
    report = attack_run(
        place_of(run),
        settings,
        attacks=only or (),
        second=place_of(second),
        truth=place_of(truth),
        progress=progress,
    )
    written, target = "", place_of(out)
    if target is not None:
        written = f"{target} (restricted): {', '.join(write_attacks(report, target, place_of(data)))}"
    print_found(report.to_json, partial(present_attacks, report), written, as_json=as_json)
    if report.convicts:
        raise typer.Exit(1)
