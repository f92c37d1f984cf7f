"""A project: a folder with settings, the file that was opened, and what was found."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fairmend.apply.draw import write_key
from fairmend.data.files import writing
from fairmend.errors import DataError, check, unreadable
from fairmend.studio.runs import Run
from fairmend.studio.settings import Settings

SETTINGS, KEY = "studio.toml", "key.txt"
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".ipc", ".xlsx", ".xls",
            ".xlsb", ".ods")  # fmt: skip
_ODD = re.compile(r"[^\w.() +-]")
MOST_OF_A_NAME = 120


class Outdated(Exception):
    """The settings were changed elsewhere since the page was shown."""


@dataclass(frozen=True)
class Project:
    """A folder on this machine; every change is on disk before it is answered."""

    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> Project:
        """The project in a folder, which is made if it is not there; only its owner may read it."""
        place = Path(os.path.realpath(folder))
        try:
            if not place.exists():
                place.mkdir(mode=0o700, parents=True)
            (place / "runs").mkdir(mode=0o700, exist_ok=True)
            (place / "data").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            what, got = f"project {str(folder)!r}", f"it is not: {error.strerror}"
            fix = "Choose another folder."
            raise DataError(what, "must be a folder that can be written", got, fix) from None
        project = cls(place)
        project.settings()
        return project

    # ---------------------------------------------------------------- settings

    def settings(self) -> Settings:
        """What was decided so far."""
        return Settings.from_toml(self._text(), SETTINGS)

    @property
    def version(self) -> str:
        """Another one after each change, so that two pages do not overwrite each other."""
        return sha256(self._text().encode()).hexdigest()[:12]

    def _text(self) -> str:
        try:
            return (self.folder / SETTINGS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            fix = "Correct it, or remove it to begin anew."
            got = f"it is not: {error}"
            raise DataError(SETTINGS, "must be readable text", got, fix) from None

    def change(self, make: Callable[[Settings], Settings], version: str | None = None) -> None:
        """Change settings; ``version`` is that of the page which asks for it."""
        with self._lock:
            if version is not None and version != self.version:
                raise Outdated
            changed = make(self.settings())
            with writing(self.folder / SETTINGS, overwrite=True) as file:
                file.write(changed.to_toml().encode())

    # ---------------------------------------------------------------- files

    def place_of(self, name: str) -> Path:
        """Where an uploaded file of this name is kept: in the data folder, whatever its name."""
        last = re.split(r"[/\\]", name)[-1]
        plain = _ODD.sub("_", last).lstrip(". ")[-MOST_OF_A_NAME:]
        check(
            Path(plain).suffix.lower() in SUFFIXES,
            f"file {last!r}",
            "must be CSV, Parquet, Arrow or a spreadsheet",
            f"its name ends in {Path(plain).suffix or 'nothing'}",
            "Export it as CSV UTF-8.",
        )
        return self.folder / "data" / plain

    def open(self, path: str) -> str:
        """A file of this machine, by its path; it stays where it is."""
        place = Path(path).expanduser()
        place = place if place.is_absolute() else self.folder / place
        try:
            place.open("rb").close()
        except OSError as error:
            raise unreadable(f"file {path!r}", error) from None
        self.name_file(place)
        return str(place)

    def name_file(self, place: Path) -> None:
        """Go on with this file; what was said about another one's columns is forgotten."""
        within = place.is_relative_to(self.folder)
        name = str(place.relative_to(self.folder)) if within else str(place)
        self.change(lambda old: old if old.file == name else Settings(file=name))

    # ---------------------------------------------------------------- runs

    def run(self, step: str, settings: Settings | None = None) -> Run:
        """The run of a step by the settings of now, whether it was begun or not."""
        settings = settings or self.settings()
        arguments = settings.arguments(step)
        if step == "repair":
            arguments += ["--key-file", KEY]
        return Run(self.folder, step, tuple(arguments), self._about(settings))

    def runs(self, step: str) -> list[Run]:
        """All runs of a step that were begun, the latest first."""
        found = []
        for call in (self.folder / "runs").glob(f"{step}-*/call.json"):
            try:
                told = json.loads(call.read_bytes())
                run = Run(self.folder, step, tuple(told["arguments"]), told["file"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if run.name == call.parent.name:
                found.append((call.stat().st_mtime, run))
        return [run for _, run in sorted(found, key=lambda each: -each[0])]

    def _about(self, settings: Settings) -> str:
        """What tells whether the file has changed."""
        if settings.file is None:
            return ""
        try:
            stat = (self.folder / settings.file).stat()
        except OSError:
            return "missing"
        return f"{stat.st_size} {stat.st_mtime_ns}"

    def begin(self, step: str) -> Run:
        """Begin the run of a step, with the settings it was made by beside it."""
        settings = self.settings()
        run = self.run(step, settings)
        if step == "repair" and not (self.folder / KEY).exists():
            write_key(self.folder / KEY)
        if run.state not in ("running", "done"):
            run.folder.mkdir(parents=True, exist_ok=True)
            with writing(run.folder / SETTINGS, overwrite=True) as file:
                file.write(settings.to_toml().encode())
            run.begin()
        return run

    def settings_of(self, run: Run) -> Settings:
        """The settings that a run was made by."""
        text = (run.folder / SETTINGS).read_text(encoding="utf-8")
        return Settings.from_toml(text, f"{run.name}/{SETTINGS}")
