"""A run: one step of a project, done by the command line in a process of its own.

All that is known of a run is in its folder. So the studio may end, even be killed, while a run goes
on, and finds its result later. The same step with the same settings on the same file is the same
run: it is not done again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
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

from fairmend.data.files import writing
from fairmend.progress import VARIABLE

try:
    import fcntl
except ImportError:  # Windows: a run that another studio began counts as interrupted
    fcntl = None  # type: ignore[assignment]

State = Literal["new", "running", "done", "failed", "cancelled", "interrupted"]
PAGES = {"audit": "audit.html", "repair": "repair.html", "alternatives": "dossier.html"}
ARTIFACT = "repair.fairmend"
_CLOSED_GAP, _LATE_S = 1, 10.0
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
        told = json.dumps([self.arguments, self.about_file])
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

    @property
    def command(self) -> str:
        """The same to copy."""
        return shlex.join(["fairmend", *self.arguments])

    # ---------------------------------------------------------------- what became of it

    @property
    def state(self) -> State:
        ended = self._ended()
        if ended is not None:
            if ended["cancelled"]:
                return "cancelled"
            fine = ended["code"] in (0, _CLOSED_GAP) and self.result is not None
            return "done" if fine else "failed"
        if not (self.folder / "call.json").exists():
            return "new"
        if self._is_running():
            return "running"
        return "done" if self.result is not None else "interrupted"

    @property
    def result(self) -> dict[str, Any] | None:
        """What the command printed; None where it is not complete."""
        try:
            content = json.loads((self.folder / "result.json").read_bytes())
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

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
            name = signal.Signals(-ended["code"]).name
            return f"The worker was ended by {name}. Is there enough memory?"
        usage = [line.strip("│ ") for line in said.splitlines() if line.startswith("│")]
        return " ".join(usage) or said.strip()[-500:] or "It ended without a word."

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is."""
        try:
            told = json.loads((self.folder / "progress.json").read_bytes())
        except (OSError, ValueError):
            told = {"label": "starting", "total": None, "done": 0}
        return {**told, "seconds": round(time.time() - self.started)}

    @property
    def started(self) -> float:
        with suppress(OSError):
            return (self.folder / "call.json").stat().st_mtime
        return time.time()

    def _ended(self) -> dict[str, Any] | None:
        try:
            ended: dict[str, Any] = json.loads((self.folder / "ended.json").read_bytes())
        except (OSError, ValueError):
            return None
        return ended

    def _is_running(self) -> bool:
        process = _own.get(self.folder)
        if process is not None:
            return process.poll() is None
        if fcntl is None:
            return False
        with suppress(OSError), (self.folder / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # the worker holds it until its end
                return True
        return False

    # ---------------------------------------------------------------- begin and end

    def begin(self) -> None:
        """Start the worker, unless it runs or has a result."""
        if self.state in ("running", "done"):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("ended.json", "progress.json", *PAGES.values(), ARTIFACT):
            (self.folder / name).unlink(missing_ok=True)
        with (
            (self.folder / "result.json").open("wb") as out,
            (self.folder / "said.txt").open("wb") as said,
            (self.folder / "lock").open("wb") as lock,
        ):
            process = self._worker(out, said, lock)
        call = {"arguments": self.arguments, "file": self.about_file, "process": process.pid}
        _write(self.folder / "call.json", call)
        threading.Thread(target=self._wait, args=(process,), daemon=True).start()

    def _worker(self, out: IO[bytes], said: IO[bytes], lock: IO[bytes]) -> subprocess.Popen[bytes]:
        more: dict[str, Any] = {}
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            more = {"pass_fds": [lock.fileno()]}
        process = subprocess.Popen(
            [sys.executable, "-m", "fairmend", *self.call, "--json"],
            cwd=self.project, stdin=subprocess.DEVNULL, stdout=out, stderr=said,
            env={**os.environ, VARIABLE: str(self.folder / "progress.json"), "COLUMNS": "2000"},
            start_new_session=True, **more,
        )  # fmt: skip
        _own[self.folder] = process
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with suppress(OSError):  # the project may have been removed
            cancelled = (self.folder / "cancel").exists()
            _write(self.folder / "ended.json", {"code": code, "cancelled": cancelled})
            (self.folder / "cancel").unlink(missing_ok=True)
        _own.pop(self.folder, None)

    def cancel(self) -> None:
        """End the worker, who removes what is half-written."""
        if self.state != "running":
            return
        (self.folder / "cancel").touch()
        process = json.loads((self.folder / "call.json").read_bytes())["process"]
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        until = time.monotonic() + _LATE_S
        while self._is_running() and time.monotonic() < until:
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            if self._is_running():
                os.kill(process, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        if self._ended() is None and self.folder not in _own:  # begun by an earlier studio
            _write(self.folder / "ended.json", {"code": -signal.SIGTERM, "cancelled": True})


def stop_all() -> None:
    """End every worker of this process."""
    for process in list(_own.values()):
        process.terminate()


def _write(path: Path, content: Any) -> None:
    with writing(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())
