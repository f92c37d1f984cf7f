"""A repair on many files: one output each, and a record of what is done, to go on from.

The record lies in the folder of the outputs. It says which repair made them, by which settings, and
from which inputs. A run that ends early is gone on with by the same call: what is recorded is not
done again, and what is not recorded was never written, as files appear whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fairmend.apply.mender import Mender, Tally, Wanted
from fairmend.apply.rowstream import open_rows
from fairmend.data.files import unwritable, writing
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, FairmendError, listed

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier

__all__ = ["RECORD", "Applying", "Outputs", "naming_the_file"]

RECORD = "_fairmend_applied.json"
"""Engines that read whole folders pass by names that begin like this."""


@dataclass
class Applying:
    """A repair on one file after the other; what one has taught, the next ones know."""

    mended: RepairedClassifier
    groups: Callable[[Sequence[str]], Sequence[str]]
    """Which of a file's columns hold people's groups."""
    id_: str | None
    wanted: Wanted
    spelling: Spelling
    mender: Mender | None = None

    @property
    def tally(self) -> Tally:
        """What became of the rows so far."""
        return Tally() if self.mender is None else self.mender.tally

    def through(self, file: str, out: IO[bytes]) -> None:
        """One file onto another."""
        with open_rows(file, spelling=self.spelling) as stream:
            if self.mender is None:
                self.mender = Mender(self.mended, self.groups(stream.names), self.id_, self.wanted)
            self.mender.through(stream, out)

    def through_all(self, files: Sequence[str], outputs: Outputs) -> int:
        """Many files into a folder; how many of them an earlier run had done."""
        places = outputs.places(files)
        waiting = [file for file in files if not outputs.is_done(file, places[file])]
        for file in waiting:
            before = self.tally.rows
            with naming_the_file(file), writing(places[file], overwrite=True) as out:
                self.through(file, out)
            outputs.record(file, places[file], self.tally.rows - before)
        return len(files) - len(waiting)


@contextmanager
def naming_the_file(file: str) -> Iterator[None]:
    """Errors about one of many files say about which."""
    try:
        yield
    except FairmendError as error:
        if file in error.what:
            raise
        said = (error.what, error.must, f"{error.got}, in file {file!r}", error.fix)
        raise type(error)(*said) from None


@dataclass
class Outputs:
    """A folder of outputs, and what is known of them."""

    folder: Path
    made_by: Mapping[str, Any]
    """The repair and the settings; outputs of another have no business here."""
    done: dict[str, dict[str, int]]
    """For each finished file what its input was: size, time of change, rows."""
    overwrite: bool

    @classmethod
    def open(cls, folder: str | Path, made_by: Mapping[str, Any], *, overwrite: bool) -> Outputs:
        """A folder to write to, new or half full of outputs of the same repair."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise DataError(
                f"output {str(folder)!r}",
                "must be a folder where there are many files",
                "there is a file of that name",
                "Name another place.",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from None
        made_by = json.loads(json.dumps(made_by))  # as the record has it
        done: dict[str, dict[str, int]] = {}
        if not overwrite:
            done = _recorded(folder, made_by)
        return cls(folder, made_by, done, overwrite)

    def places(self, files: Sequence[str]) -> dict[str, Path]:
        """Where the output of each file goes; nothing that is there already may be lost."""
        names = [Path(file).name for file in files]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(
                "the files",
                "must have names of their own, which their outputs bear",
                f"{listed(twice)} is there twice",
                "Put them through one folder at a time.",
            )
        places = {file: self.folder / name for file, name in zip(files, names, strict=True)}
        for file, place in places.items():
            if place.exists() and place.samefile(file):
                raise DataError(
                    f"output {str(place)!r}",
                    "must not be the file it is made from",
                    "it is",
                    "Name another folder.",
                )
            if place.exists() and place.name not in self.done and not self.overwrite:
                raise DataError(
                    f"output {str(place)!r}",
                    "must not be there already",
                    "it is, and not on record as made by this repair",
                    "Use --force to replace it, or name another folder.",
                )
        return places

    def is_done(self, file: str, place: Path) -> bool:
        """Whether a file need not be done again: its output is there, its input as it was."""
        known = self.done.get(place.name)
        if known is None or not place.exists():
            return False
        if {key: known[key] for key in ("size", "changed")} != _state(file):
            raise DataError(
                f"file {file!r}",
                "must be as it was when its output was made",
                "it has changed since",
                "Use --force to do all files again, or name another folder.",
            )
        return True

    def record(self, file: str, place: Path, rows: int) -> None:
        """A file is done: written down at once, whole or not at all."""
        self.done[place.name] = {**_state(file), "rows": rows}
        content = {"made_by": dict(self.made_by), "done": self.done}
        with writing(self.folder / RECORD, overwrite=True) as file_:
            file_.write(json.dumps(content, indent=1).encode() + b"\n")


def _state(file: str) -> dict[str, int]:
    about = Path(file).stat()
    return {"size": about.st_size, "changed": about.st_mtime_ns}


def _recorded(folder: Path, made_by: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    path = folder / RECORD
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_bytes())
        before, done = content["made_by"], content["done"]
        entries = [(one["size"], one["changed"], one["rows"]) for one in done.values()]
        sound = all(isinstance(number, int) for entry in entries for number in entry)
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise DataError(
            f"file {str(path)!r}",
            "must be the record that a run before this one kept",
            "it cannot be read",
            "Use --force to do all files again.",
        )
    other = [name for name, value in made_by.items() if before.get(name) != value]
    if other:
        raise DataError(
            f"output {str(folder)!r}",
            "must hold outputs of this repair by these settings alone",
            f"those in it differ in {listed(other)}",
            "Name another folder, or use --force to do all files again.",
        )
    return dict(done)
