"""A real file system that is small, for tests of full disks; no privileges are needed to make it.

A process in a user and mount namespace of its own mounts a tmpfs and keeps it. Others enter the
namespace to write there; from outside the files are seen under ``/proc``.
"""

import contextlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && exec cat'


class SmallDisk:
    """A file system of its own at a folder, for those who enter through ``wrapper``."""

    def __init__(self, place, holder):
        self.place = Path(place)
        inside = ("--user", "--mount", "--preserve-credentials")
        self.wrapper = ["nsenter", f"--target={holder.pid}", *inside, "--"]
        self.seen = Path(f"/proc/{holder.pid}/root") / self.place.relative_to("/")
        """The same folder for those outside, who see another beneath ``place``."""

    @property
    def names(self):
        return sorted(path.name for path in self.seen.iterdir())

    def fill(self, *, leave=0):
        """Take all the room there is, but for some bytes."""
        with (self.seen / "filler").open("ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))
            file.truncate(max(0, file.tell() - leave))

    def make_room(self):
        (self.seen / "filler").unlink()

    def run(self, *command, **more):
        """A command beside the files, as somebody who has them."""
        return subprocess.run(
            [*self.wrapper, *map(str, command)], capture_output=True, check=False, timeout=120,
            **more,
        )  # fmt: skip


@contextlib.contextmanager
def small_disk(place, size="1m"):
    """A file system of a size at an empty folder; where none can be made, the test is skipped."""
    place.mkdir()
    try:
        holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, place, size],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no unshare to make a small file system with")
    with holder:  # its standard input is closed at the end, and so the file system goes
        if holder.stdout.readline() != b"mounted\n":
            why = holder.stderr.read().decode(errors="replace").strip()
            pytest.skip(f"no namespace with a small file system can be made here: {why}")
        yield SmallDisk(place, holder)


def null_device(place):
    """A device like /dev/null at a place of its own."""
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        with place.open("wb"):
            pass
    except PermissionError:
        pytest.skip("devices are for root")
    return place
