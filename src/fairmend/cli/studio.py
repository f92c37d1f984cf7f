"""``fairmend studio``: from a vendor's file to a filed report in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.streams import messages
from fairmend.errors import require


def studio(
    file: Annotated[
        str | None,
        typer.Argument(
            help="The file to begin with: CSV, Parquet, Arrow or a spreadsheet.", metavar="[FILE]"
        ),
    ] = None,
    project: Annotated[
        str,
        o.option(
            "The folder of the project, which is made if it is not there. It holds everything: "
            "settings, uploaded files, reports.",
            "FOLDER",
        ),
    ] = "fairmend-studio",
    port: Annotated[int, o.option("The port; 0 takes a free one.", "N", min=0, max=65_535)] = 0,
    browser: Annotated[bool, o.option("Open the browser.")] = True,
) -> None:
    """Open a page on this machine that goes from a vendor's file to a filed report.

    Nothing leaves the machine, and other users of it cannot see the page. Ctrl-C ends it; started
    again on the same folder it goes on.
    """
    for module in ("starlette", "uvicorn", "jinja2"):
        require(module, extra="studio", why="fairmend studio")
    from fairmend.studio.project import Project, file_at
    from fairmend.studio.run import run

    at = None if file is None else file_at(Path.cwd(), file)  # before a folder is made for it
    place = Project.at(project)
    if at is not None:
        place.open(str(at))
    run(place, port, browser=browser, say=_tell)


def _tell(text: str) -> None:
    """To the terminal alone, with the token that other messages would leave out of an address."""
    messages().write(f"fairmend: {text}\n")
    messages().flush()
