"""A run: one step of a project, done by the command line in a process of its own.

All that is known of a run is in its folder. So the studio may end, even be killed, while a run goes
on, and finds its result later. The same step with the same settings on the same file is the same
run: it is not done again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal

from fairmend._version import __version__
from fairmend.config import PREFIX
from fairmend.data.files import writing
from fairmend.errors import DataError
from fairmend.progress import VARIABLE

try:
    import fcntl
except ImportError:  # Windows: a run that another studio began counts as interrupted
    fcntl = None  # type: ignore[assignment]

State = Literal["new", "running", "done", "failed", "cancelled", "interrupted"]
PAGES = {"audit": "audit.html", "repair": "repair.html", "alternatives": "dossier.html"}
ARTIFACT = "repair.fairmend"
OF_A_RUN = ("result.json", "ended.json", "cancel", "progress.json", *PAGES.values(), ARTIFACT)
"""What an earlier attempt may have left; the result goes first: it is not to be taken for done."""
_GAP_LEFT, _LATE_S = 1, 10.0
_STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a worker that ended with its studio."""
NO_SETTINGS = ("--config", os.devnull)
"""What the screens show is all that a worker goes by: no settings file of the folder acts on it."""
_COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS")
_MESSAGE = re.compile(r"^fairmend: (?!note: |wrote )", re.MULTILINE)
_own: dict[Path, subprocess.Popen[bytes]] = {}
"""Processes that this one has begun and not seen end."""


@dataclass(frozen=True)
class Run:
    """A step with its arguments, in a folder of the project."""

    project: Path
    step: str
    arguments: tuple[str, ...]
    """As they are typed, without outputs."""
    about_file: str
    """What tells one content of the file from another."""

    @property
    def name(self) -> str:
        told = json.dumps([__version__, self.arguments, self.about_file])
        return f"{self.step}-{sha256(told.encode()).hexdigest()[:10]}"

    @property
    def folder(self) -> Path:
        return self.project / "runs" / self.name

    @property
    def call(self) -> list[str]:
        """The arguments with the outputs of this step."""
        here = f"runs/{self.name}"
        outputs: list[str] = []
        if self.step == "repair":
            outputs = ["-o", f"{here}/{ARTIFACT}", "--report", f"{here}/{PAGES['repair']}"]
        elif self.step in PAGES:
            outputs = ["-o", f"{here}/{PAGES[self.step]}"]
        if self.step == "alternatives":
            outputs += ["--save", f"{here}/{ARTIFACT}"]
        return [*self.arguments, *outputs]

    # ---------------------------------------------------------------- what became of it

    @property
    def state(self) -> State:
        if self._is_running():
            return "running"
        ended = self._ended()
        if ended is None:
            if not (self.folder / "call.json").exists():
                return "new"
            return "done" if self.result is not None else "interrupted"
        if ended.get("cancelled"):
            return "cancelled"
        if ended.get("code") in _STOPPED:
            return "interrupted"
        ended_well = ended.get("code") in (0, _GAP_LEFT) and self.result is not None
        return "done" if ended_well else "failed"

    @property
    def result(self) -> dict[str, Any] | None:
        """What the command printed; None where it is not complete."""
        return _read(self.folder / "result.json")

    @property
    def said(self) -> str:
        """What the command said beside its figures."""
        with suppress(OSError):
            return (self.folder / "said.txt").read_text(encoding="utf-8", errors="replace")
        return ""

    @property
    def notes(self) -> list[str]:
        """What it said that a reader of the figures must know."""
        mark = "fairmend: note: "
        return [line.removeprefix(mark) for line in self.said.splitlines() if line.startswith(mark)]

    @property
    def error(self) -> str:
        """Why it failed, in a sentence."""
        said = self.said
        own = [said[one.end() :].split("\nfairmend: ")[0] for one in _MESSAGE.finditer(said)]
        if own:
            return own[-1].strip()
        ended = self._ended() or {}
        if ended.get("code", 0) < 0:
            with suppress(ValueError):  # a signal without a name
                name = signal.Signals(-ended["code"]).name
                return f"The worker was ended by {name}. Is there enough memory?"
        usage = [line.strip("│ ") for line in said.splitlines() if line.startswith("│")]
        return " ".join(usage) or said.strip()[-500:] or "It said nothing. Is the disk full?"

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is."""
        told = _read(self.folder / "progress.json") or {}
        at_first = {"label": "starting", "total": None, "done": 0}
        return {**at_first, **told, "seconds": max(0, round(time.time() - self.started))}

    @property
    def started(self) -> float:
        with suppress(OSError):
            return (self.folder / "call.json").stat().st_mtime
        return time.time()

    def _ended(self) -> dict[str, Any] | None:
        return _read(self.folder / "ended.json")

    def _is_running(self) -> bool:
        if self.folder in _own:  # until its end is on disk
            return True
        if fcntl is None:
            return False
        with suppress(OSError), (self.folder / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # the worker holds it until its end
                return True
        return False

    # ---------------------------------------------------------------- begin and end

    def begin(self) -> None:
        """Start the worker of a run that is neither running nor done; for one caller at a time."""
        for name in OF_A_RUN:
            (self.folder / name).unlink(missing_ok=True)
        _write(self.folder / "call.json", {"arguments": self.arguments, "file": self.about_file})
        with (
            (self.folder / "result.json").open("wb") as out,
            (self.folder / "said.txt").open("wb") as said,
            (self.folder / "lock").open("ab") as lock,
        ):
            process = self._worker(out, said, lock)
            threading.Thread(target=self._wait, args=(process,), daemon=True).start()
            lock.truncate(0)
            lock.write(str(process.pid).encode())

    def _worker(self, out: IO[bytes], said: IO[bytes], lock: IO[bytes]) -> subprocess.Popen[bytes]:
        more: dict[str, Any] = {}
        if fcntl is not None:
            hold(lock)
            more = {"pass_fds": [lock.fileno()]}
        own = {VARIABLE: str(self.folder / "progress.json"), "COLUMNS": "2000", "NO_COLOR": "1",
               "PYTHONIOENCODING": "utf-8"}  # fmt: skip
        process = subprocess.Popen(
            # -P: a file of the project's folder is never taken for a module of ours
            [sys.executable, "-P", "-m", "fairmend", *NO_SETTINGS, *self.call, "--json"],
            cwd=self.project, stdin=subprocess.DEVNULL, stdout=out, stderr=said,
            env={name: value for name, value in os.environ.items() if not _acts(name)} | own,
            start_new_session=True, **more,
        )  # fmt: skip
        _own[self.folder] = process
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        self._record(process.wait())
        _own.pop(self.folder, None)

    def _record(self, code: int) -> None:
        with suppress(OSError, DataError):  # the project may have been removed, the disk be full
            cancelled = (self.folder / "cancel").exists()
            _write(self.folder / "ended.json", {"code": code, "cancelled": cancelled})
            (self.folder / "cancel").unlink(missing_ok=True)

    def cancel(self) -> None:
        """End the worker, who removes what is half-written."""
        if self.state != "running":
            return
        with suppress(OSError):
            (self.folder / "cancel").touch()
        own = _own.get(self.folder)
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            with suppress(OSError, ValueError):  # it has ended, or has no number yet
                os.kill(own.pid if own else int((self.folder / "lock").read_text()), number)
            until = time.monotonic() + _LATE_S
            while (running := self._is_running()) and time.monotonic() < until:
                time.sleep(0.02)
            if not running:
                break
        if self._ended() is None:  # begun by an earlier studio
            self._record(-signal.SIGTERM)


def options_set() -> list[str]:
    """The variables of the environment that would set options of a command."""
    return sorted(
        name for name in os.environ
        if name.startswith(PREFIX) and name not in ("FAIRMEND_UPSTREAM_TOKEN", VARIABLE)
    )  # fmt: skip


def _acts(name: str) -> bool:
    return name in _COLOURS or name in options_set()


def hold(lock: IO[bytes]) -> None:
    """Keep others off until this file is closed, here and in processes that it was passed to."""
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)


def stop_all() -> None:
    """End every worker of this process."""
    for process in list(_own.values()):
        process.terminate()


def _read(path: Path) -> dict[str, Any] | None:
    """An object of JSON; None where there is none, or not all of it."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _write(path: Path, content: Any) -> None:
    with writing(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())
