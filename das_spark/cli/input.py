"""`input`: what a run would read."""

from __future__ import annotations

from das_spark.cli.options import Conf, Json, Overlays, Settings, console, group, print_json
from das_spark.config import load_run, plans_in
from das_spark.report import number, table

app = group("input", "List what a run would read.")


@app.command("list")
def list_files(conf: Conf, overlay: Overlays = None, settings: Settings = None, as_json: Json = False) -> None:
    """List the files that a run would read, with size, records and SHA-256, to be held against the delivery note.

    RESTRICTED: numbers of records tell of the input. Tables of a catalog are not listed.

    Example: das-spark input list conf/pl94_2020_simulated.toml --set input.path=nation
    """
    loaded = load_run(conf, overlay or (), settings or (), named=False)
    # Wrong keys are said before libraries are imported.
    from das_spark.pipeline.delivery import delivered_files, files_passed_over  # noqa: PLC0415

    found = {file.path: file for plan in plans_in(loaded) for file in delivered_files(plan.input)}
    if as_json:
        print_json(
            [
                {"file": each.path, "bytes": each.size, "records": each.records, "sha256": each.sha256}
                for each in found.values()
            ]
        )
        return
    rows = [(each.path, number(each.size), number(each.records), each.sha256) for each in found.values()]
    console().print(table("RESTRICTED: what a run would read", ("file", "bytes", "records", "sha256"), rows, left=1))
    for name in dict.fromkeys(name for plan in plans_in(loaded) for name in files_passed_over(plan.input)):
        console().print(f"passed over, since it holds no record by its name: {name}", markup=False)
