"""A project: a folder with settings, the file that was opened, and what was found."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fairmend.apply.draw import write_key
from fairmend.data.filekind import SUFFIXES
from fairmend.data.files import writing
from fairmend.errors import DataError, FairmendError, check, unreadable
from fairmend.studio.runs import Run, hold
from fairmend.studio.settings import Settings

SETTINGS, KEY = "studio.toml", "key.txt"
UPLOADED = (*SUFFIXES, ".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
_ODD = re.compile(r"[^\w.() +-]")
MOST_OF_A_NAME = 200
"""Bytes; systems take 255, and a file that is not whole yet has a longer name."""
OWN = (SETTINGS, KEY, ".lock", "runs", "data", "filed")


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
            _refuse_others(place)
            for name in ("runs", "data", "filed"):
                (place / name).mkdir(mode=0o700, exist_ok=True)
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
        return self.read()[0]

    def read(self) -> tuple[Settings, str]:
        """The settings, and their version: two pages must not overwrite each other's."""
        text = _text(self.folder / SETTINGS)
        return Settings.from_toml(text, SETTINGS), sha256(text.encode()).hexdigest()[:12]

    def change(self, make: Callable[[Settings], Settings], version: str | None = None) -> None:
        """Change settings; ``version`` is that of the page which asks for it."""
        with self._alone():
            before, now = self.read()
            if version is not None and version != now:
                raise Outdated
            changed = make(before)
            if changed != before:
                with writing(self.folder / SETTINGS, overwrite=True) as file:
                    file.write(changed.to_toml().encode())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time, of the threads of this studio and of other studios on this folder."""
        with self._lock, (self.folder / ".lock").open("ab") as lock:
            hold(lock)
            yield

    # ---------------------------------------------------------------- files

    def place_of(self, name: str) -> Path:
        """Where an uploaded file of this name is kept: in the data folder, whatever its name."""
        last = re.split(r"[/\\]", name)[-1]
        short = _ODD.sub("_", last).encode()[-MOST_OF_A_NAME:].decode(errors="ignore")
        plain = short.lstrip(". -")
        check(
            Path(plain).suffix.lower() in UPLOADED,
            f"file {last!r}",
            "must be CSV, Parquet, Arrow or a spreadsheet",
            f"its name ends in {Path(plain).suffix or 'nothing'}",
            "Export it as CSV UTF-8.",
        )
        return self.folder / "data" / plain

    def open(self, path: str) -> str:
        """A file of this machine, by its path; it stays where it is."""
        place = file_at(self.folder, path)
        self.name_file(place)
        return str(place)

    def name_file(self, place: Path) -> None:
        """Go on with this file; what was said about another one's columns is forgotten."""
        within = place.is_relative_to(self.folder / "data")  # no option and no pattern
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

    def runs(self) -> list[Run]:
        """All runs that were begun, the latest first."""
        found = []
        for call in (self.folder / "runs").glob("*/call.json"):
            try:
                told = json.loads(call.read_bytes())
                step = call.parent.name.partition("-")[0]
                run = Run(self.folder, step, tuple(told["arguments"]), told["file"])
                if run.name == call.parent.name:
                    found.append((call.stat().st_mtime, run))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return [run for _, run in sorted(found, key=lambda each: -each[0])]

    def _about(self, settings: Settings) -> str:
        """What tells whether the file has changed, or the model, where it is a file."""
        names = [name for name in (settings.file, settings.model) if name is not None]
        return " ".join(one for name in names for one in _stamp(self.folder / name))

    def begin(self, step: str) -> Run:
        """Begin the run of a step, with the settings it was made by beside it."""
        with self._alone():
            settings = self.settings()
            run = self.run(step, settings)
            if run.state in ("running", "done"):
                return run
            try:
                if step == "repair" and not os.path.lexists(self.folder / KEY):
                    write_key(self.folder / KEY)
                run.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with writing(run.folder / SETTINGS, overwrite=True) as file:
                    file.write(settings.to_toml().encode())
                run.begin()
            except FairmendError:
                raise
            except (OSError, ValueError) as error:
                what, must = f"step {step!r}", "must be able to start a process in the project"
                got = f"it is not: {getattr(error, 'strerror', None) or error}"
                fix = "Make room, or choose another project folder."
                raise DataError(what, must, got, fix) from None
        return run

    def settings_of(self, run: Run) -> Settings:
        """The settings that a run was made by."""
        return Settings.from_toml(_text(run.folder / SETTINGS), f"{run.name}/{SETTINGS}")


def file_at(folder: Path, path: str) -> Path:
    """A file that can be read, by its path from a folder."""
    what, fix = f"file {path!r}", "Check the name."
    try:
        place = folder / Path(path).expanduser()
    except RuntimeError:  # ~ of nobody
        raise DataError(what, "must be on this machine", "it is not", fix) from None
    try:
        is_file = place.is_file()
        place.open("rb").close() if is_file else place.stat()
    except OSError as error:
        raise unreadable(what, error) from None
    except ValueError:
        raise DataError(what, "must be a path", "it holds a NUL byte", fix) from None
    got = "it is a folder" if place.is_dir() else "it is a device or a pipe"
    check(is_file, what, "must be a file", got, "Name one file with a table.")
    return place


def _text(place: Path) -> str:
    """A file of settings; one that is not there says nothing."""
    try:
        return place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        fix = "Correct it, or remove it to begin anew."
        raise DataError(place.name, "must be readable text", f"it is not: {error}", fix) from None


def _stamp(place: Path) -> Iterator[str]:
    """The size of a file and when it was written."""
    try:
        known = place.stat()
    except (OSError, ValueError):
        return
    yield from (str(known.st_size), str(known.st_mtime_ns))


def _refuse_others(place: Path) -> None:
    """A folder that others may write, or with links in it, could lead us to what they want."""
    known, what = place.stat(), f"project {str(place)!r}"
    if hasattr(os, "geteuid"):
        must = "must belong to you, and others must not be able to write in it"
        foreign = known.st_uid != os.geteuid()
        got = "it belongs to another user" if foreign else "others can write in it"
        fix = "Choose another folder." if foreign else f"Run: chmod 700 {shlex.quote(str(place))}"
        check(not foreign and not known.st_mode & stat.S_IWOTH, what, must, got, fix)
    own = [place / name for name in OWN]
    inside = [one for name in ("runs", "filed") for one in (place / name).rglob("*")]
    link = next((one for one in [*own, *inside] if one.is_symlink()), None)
    got = f"{None if link is None else str(link.relative_to(place))!r} is one"
    check(link is None, what, "must hold no links", got, "Remove it, or choose another folder.")
