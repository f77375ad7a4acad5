"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Conf = Annotated[Path, typer.Argument(metavar="CONF", help="Run file, such as conf/quickstart.toml.")]
Overlays = Annotated[
    list[Path] | None, typer.Option("--overlay", metavar="FILE", help="Run file laid over CONF; may be repeated.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One key, such as budget.epsilon=0.5; may be repeated."),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, such as runs/latest.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]
