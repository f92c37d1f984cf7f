"""A studio as a process: a page on this machine alone, until it is stopped."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from fairmend.errors import DataError
from fairmend.studio.app import Studio
from fairmend.studio.guard import Guard
from fairmend.studio.project import Project
from fairmend.studio.runs import stop_all

HOST = "127.0.0.1"


def run(project: Project, port: int, *, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until a signal to stop. Workers end with the studio; what they had found stays."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        got = f"it is not: {error.strerror}"
        fix = "Choose another port."
        raise DataError(f"{HOST}:{port}", "must be free to listen at", got, fix) from None
    port = listening.getsockname()[1]
    guard = Guard(Studio(project).app(), port, lambda address: say(f"another browser: {address}"))
    say(f"project {project.folder}")
    say(f"open {guard.address}")
    config = uvicorn.Config(
        guard, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    door = _door(guard.address) if browser else None
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        stop_all()
        if door is not None:
            door.unlink(missing_ok=True)


def _door(address: str) -> Path:
    """Open the browser by a file of the owner's: the arguments of a program can be seen by all."""
    handle, name = tempfile.mkstemp(suffix=".html", prefix="fairmend-studio-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
    webbrowser.open(Path(name).as_uri())
    return Path(name)
