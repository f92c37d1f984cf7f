"""Results of a repair as files that are whole or not there, and how a run goes on after an end.

Of many files a record lies in the folder of the outputs: which repair made them, by which settings,
and from which inputs. A Parquet file that an engine wrote carries the same as a stamp. A run that
ended early is gone on with by the same call: what is done is not done again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend.data.addresses import is_address, opened
from fairmend.data.files import is_there, unwritable, writing
from fairmend.errors import check, listed, require

RECORD = "_fairmend_applied.json"
"""Engines that read whole folders pass by names that begin like this."""
_STAMP = "fairmend.apply"


def file_state(file: str) -> dict[str, int]:
    """What tells whether a file is still the same."""
    about = Path(file).stat()
    return {"size": about.st_size, "changed": about.st_mtime_ns}


# -------------------------------------------------------------------- a folder with a record


@dataclass
class Outputs:
    """A folder of outputs, and the record of what is done."""

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
        check(
            folder.is_dir() or not folder.exists(),
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
        return cls(folder, made_by, {} if overwrite else _recorded(folder, made_by), overwrite)

    def places(self, files: Sequence[str]) -> dict[str, Path]:
        """Where the output of each file goes; nothing that is there already may be lost."""
        names = [Path(file).name for file in files]
        twice = sorted({name for name in names if names.count(name) > 1})
        check(
            not twice,
            "the files",
            "must have different names, which their outputs get",
            f"{listed(twice)} is there twice",
            "Put them through one folder at a time.",
        )
        places = {file: self.folder / name for file, name in zip(files, names, strict=True)}
        for file, place in places.items():
            if not place.exists():
                continue
            what = f"output {str(place)!r}"
            check(
                not place.samefile(file), what, "must not be the file it is made from", "it is",
                "Name another folder.",
            )  # fmt: skip
            check(
                place.name in self.done or self.overwrite,
                what,
                "must not be there already",
                "it is, and not on record as made by this repair",
                "Use --force to replace it, or name another folder.",
            )
        return places

    def is_done(self, file: str, place: Path) -> bool:
        """Whether a file need not be done again: its output is there, its input as it was."""
        entry = self.done.get(place.name)
        if entry is None or not place.exists():
            return False
        check(
            {key: entry[key] for key in ("size", "changed")} == file_state(file),
            f"file {file!r}",
            "must be as it was when its output was made",
            "it has changed since",
            "Use --force to do all files again, or name another folder.",
        )
        return True

    def record(self, file: str, place: Path, rows: int) -> None:
        """A file is done: recorded at once, whole or not at all."""
        self.done[place.name] = {**file_state(file), "rows": rows}
        content = {"made_by": dict(self.made_by), "done": self.done}
        with writing(self.folder / RECORD, overwrite=True) as file_:
            file_.write(json.dumps(content, indent=1).encode() + b"\n")


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
    check(
        sound,
        f"file {str(path)!r}",
        "must be the record of an earlier run",
        "it cannot be read",
        "Use --force to do all files again.",
    )
    other = [name for name, value in made_by.items() if before.get(name) != value]
    check(
        not other,
        f"output {str(folder)!r}",
        "must hold outputs of this repair by these settings alone",
        f"those in it differ in {listed(other)}",
        "Name another folder, or use --force to do all files again.",
    )
    return dict(done)


# -------------------------------------------------------------------- Parquet files with a stamp


@dataclass(frozen=True)
class WrittenFiles:
    """What an engine has written, and what it found finished."""

    written: tuple[str, ...]
    skipped: tuple[str, ...]
    rows: int
    """In all of them."""

    @classmethod
    def joined(cls, parts: Sequence[WrittenFiles]) -> WrittenFiles:
        """Several as one."""
        return cls(
            tuple(name for part in parts for name in part.written),
            tuple(name for part in parts for name in part.skipped),
            sum(part.rows for part in parts),
        )


def unknown_origin(columns: Sequence[str]) -> dict[str, Any]:
    """The origin of rows whose changes cannot be seen: no result counts as finished."""
    return {"columns": list(columns), "run": secrets.token_hex(8)}


def output_place(out: str | Path) -> Path | str:
    """An address as it is, anything else as a path."""
    if isinstance(out, str) and is_address(out):
        return out
    must, fix = "must be text where it is an address", "Pass it as it is, without Path(...)."
    check(not str(out).startswith(("s3:/", "s3a:/")), "out", must, f"got {out!r}", fix)
    return Path(out)


def is_finished(out: Path | str, stamp: Mapping[str, Any], *, overwrite: bool) -> bool:
    """Whether the file is there and has this stamp; a file with another one is an error."""
    if not is_there(out):
        return False
    try:
        there = (_metadata(out).metadata or {}).get(_STAMP.encode(), b"").decode()
    except (OSError, ValueError):  # no Parquet file
        there = ""
    same = bool(there == _text(stamp))
    check(
        same or overwrite,
        f"output {str(out)!r}",
        "must not exist yet, or be a result of the same repair on the same input",
        "there is such a file, made otherwise",
        "Choose another place, or allow it to be overwritten (overwrite=True).",
    )
    return same


def write_parquet(
    out: Path | str, stamp: Mapping[str, Any], rows: Callable[[], Any], *, overwrite: bool
) -> WrittenFiles:
    """Write a lazy Polars frame or an Arrow reader, streamed, unless that is done already."""
    if is_finished(out, stamp, overwrite=overwrite):
        return WrittenFiles((), (str(out),), _metadata(out).num_rows)
    source = rows()
    if hasattr(source, "sink_parquet"):
        with writing(out, overwrite=overwrite) as file:
            source.sink_parquet(file, metadata={_STAMP: _text(stamp)}, maintain_order=True)
    else:
        save_reader(out, source, {_STAMP: _text(stamp)}, overwrite=overwrite)
    return WrittenFiles((str(out),), (), _metadata(out).num_rows)


def save_reader(
    out: Path | str,
    reader: Any,
    metadata: Mapping[str, str] | None = None,
    *,
    overwrite: bool = False,
) -> int:
    """Write an Arrow reader's batches as they come; how many rows they had."""
    rows = 0
    with (
        writing(out, overwrite=overwrite) as file,
        _parquet().ParquetWriter(file, reader.schema, compression="zstd") as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
            rows += len(batch)
        writer.add_key_value_metadata(dict(metadata or {}))
    return rows


def _text(stamp: Mapping[str, Any]) -> str:
    return json.dumps(stamp, sort_keys=True)


def _metadata(out: Path | str) -> Any:
    if isinstance(out, Path):
        return _parquet().read_metadata(out)
    with opened(out) as file:
        return _parquet().read_metadata(file)


def _parquet() -> Any:
    return require("pyarrow.parquet", extra="duckdb", why="Parquet files")
