"""What is filed: report, artifact, dossier, and what reproduces every figure."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from fairmend.errors import DataError, check
from fairmend.studio.code import commands, python_code
from fairmend.studio.project import SETTINGS, Project
from fairmend.studio.runs import ARTIFACT, PAGES
from fairmend.studio.screens import columns_of
from fairmend.studio.settings import STEPS

COMMANDS, PYTHON = "commands.sh", "figures.py"
_WHAT = {
    "audit.html": "the audit, as a page",
    "repair.html": "the report on a holdout, as a page",
    "dossier.html": "the search for alternatives, as a page",
    ARTIFACT: "the repair, to apply and to deploy",
    COMMANDS: "the commands that give every figure",
    PYTHON: "the same in Python",
    SETTINGS: "the settings",
}


@dataclass(frozen=True)
class Filed:
    """A folder of files that belong together."""

    name: str
    files: dict[str, str]
    """Each with what it is."""


def filed(project: Project) -> list[Filed]:
    """What was filed so far, the latest first."""
    folders = sorted((project.folder / "filed").glob("[0-9]*"), reverse=True)
    return [
        Filed(one.name, {name: what for name, what in _WHAT.items() if (one / name).is_file()})
        for one in folders
    ]


def file_project(project: Project) -> Path:
    """Copy what was found by the settings of now into a folder of its own, whole or not at all."""
    settings = project.settings()
    done = {step: project.run(step, settings) for step in STEPS}
    done = {step: run for step, run in done.items() if run.state == "done"}
    check(
        "repair" in done or "audit" in done,
        "the file",
        "must have something to hold",
        "nothing was measured with these settings",
        "Measure first.",
    )
    place = project.folder / "filed" / time.strftime("%Y-%m-%d-%H%M%S", time.gmtime())
    while place.exists():  # filed twice within a second
        place = place.with_name(f"{place.name}-2")
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir(mode=0o700, parents=True)
        for step, run in done.items():
            for name in (PAGES.get(step, ""), ARTIFACT if step == "repair" else ""):
                if name and (run.folder / name).is_file():
                    shutil.copy2(run.folder / name, part / name)
        (part / COMMANDS).write_text(commands(project, settings), encoding="utf-8")
        columns = columns_of(project.run("columns", settings))
        code = python_code(project, settings, columns)
        (part / PYTHON).write_text(code, encoding="utf-8")
        (part / SETTINGS).write_text(settings.to_toml(), encoding="utf-8")
        part.rename(place)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        got = f"it is not: {error.strerror}"
        fix = "Make room, or choose another project folder."
        raise DataError("the file", "must be writable", got, fix) from None
    return place
