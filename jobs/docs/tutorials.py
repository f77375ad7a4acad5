"""Tutorials: each stands once, as Markdown; it becomes a notebook, is carried out, and becomes a page of the site."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from das_spark.process import same_numbers

FOLDER: Final = Path(__file__).parent / "tutorials"
#: Tutorials in their order.
TITLES: Final = {
    "protect_a_census": "Protect a census",
    "choose_a_budget": "Choose a budget",
    "measurements_and_intervals": "Measurements and intervals",
}
#: Seconds that a cell may take. A tutorial takes some minutes on a busy machine.
_TIMEOUT: Final = 600
#: How a cell of commands begins: any of them that fails fails the cell.
_BASH: Final = "%%bash -euo pipefail\n"
#: Carried out first, and not kept: commands print as they do to a file, since IPython asks them for colours.
_PLAIN: Final = "import os\nfor name in ('FORCE_COLOR', 'CLICOLOR_FORCE'):\n    os.environ.pop(name, None)"


@dataclass(frozen=True, slots=True)
class TutorialPage:
    """A tutorial as the site shows it."""

    text: str  # Markdown
    files: dict[str, bytes]  # what lies beside it: figures, and the notebook


def notebook_of(name: str) -> NotebookNode:
    """The notebook of a tutorial, without results."""
    notebook = jupytext.read(FOLDER / f"{name}.md")
    for cell in notebook.cells:
        cell.source = re.sub(r"^%%bash\n", _BASH, cell.source)
    return notebook


def carry_out(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells of a notebook, and keep what they show.

    Args:
        notebook: The notebook.
        folder: Where it works.

    Raises:
        CellExecutionError: Of the cell that fails.
    """
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    environment |= {"COLUMNS": "120"} | same_numbers()
    plain = new_code_cell(_PLAIN)
    notebook.cells.insert(0, plain)
    # Sockets of the file system: no other user of the machine can speak to the kernel.
    config = Config({"AsyncKernelManager": {"transport": "ipc", "ip": str(folder / ".kernel")}})
    resources = {"metadata": {"path": folder}}
    client = NotebookClient(
        notebook, config=config, timeout=_TIMEOUT, resources=resources, record_timing=False, coalesce_streams=True
    )
    client.execute(env=environment)
    notebook.cells.remove(plain)
    for output in (each for cell in notebook.cells for each in cell.get("outputs", ())):
        if "text" in output:  # a reader works elsewhere
            output.text = output.text.replace(f"{folder}/", "")


def pages(scratch: Path, *, carried_out: bool = True) -> dict[str, TutorialPage]:
    """The pages of all tutorials, which are carried out at the same time, each in a folder of its own."""
    with ThreadPoolExecutor() as threads:
        found = threads.map(lambda name: page_of(name, scratch, carried_out=carried_out), TITLES)
        return dict(zip(TITLES, found, strict=True))


def page_of(name: str, scratch: Path, *, carried_out: bool = True) -> TutorialPage:
    """Carry a tutorial out in a folder of its own, and make its page.

    Args:
        name: One of `TITLES`.
        scratch: Where that folder is made.
        carried_out: Whether it is carried out; else it has no results.
    """
    notebook = notebook_of(name)
    if carried_out:
        folder = scratch / name
        folder.mkdir(parents=True)
        carry_out(notebook, folder)
    files = {f"{name}.ipynb": nbformat.writes(notebook).encode()}
    parts = [part for cell in notebook.cells for part in _cell(cell, name, files)]
    parts.append(f"---\n\nThe same [as a notebook]({name}.ipynb).")
    return TutorialPage("\n\n".join(parts) + "\n", files)


def _cell(cell: NotebookNode, name: str, files: dict[str, bytes]) -> Iterator[str]:
    """A cell and what it shows, as blocks of Markdown; figures are added to the files."""
    if cell.cell_type != "code":
        yield cell.source
        return
    # The magic of a cell is for the notebook alone: the page shows the language.
    language, source = ("bash", cell.source[len(_BASH) :]) if cell.source.startswith(_BASH) else ("python", cell.source)
    yield f"````{language}\n{source}\n````"
    printed = ""
    for output in cell.outputs:
        if output.output_type == "stream":
            printed += output.text
            continue
        data = output.data
        if "image/png" in data:
            figure = f"{name}-{len(files)}.png"
            files[figure] = base64.b64decode(data["image/png"])
            yield f"![{cell.metadata.get('alt', 'Figure')}]({figure})"
        elif "text/html" in data:
            # Without its own style, and without empty lines, at which Markdown would take up its text again.
            html = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
            yield '<div class="printed">\n' + "\n".join(filter(str.strip, html.splitlines())) + "\n</div>"
        else:
            printed += data["text/plain"] + "\n"
    if printed.strip():
        yield f'<div class="printed" markdown>\n\n````text\n{printed.rstrip()}\n````\n\n</div>'
