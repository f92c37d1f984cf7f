"""Commands whose output goes to a disk that is full: a code, a line, and nothing half-written."""

import sys

import pytest

from disks import small_disk

from .conftest import IGNORED, NAMED, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "small") as disk:
        yield disk


@pytest.fixture(scope="module")
def long(workdir):
    """A scored file of more bytes than the small disk has."""
    header, _, rows = (workdir / "new.csv").read_bytes().partition(b"\r\n")
    (workdir / "long.csv").write_bytes(header + b"\r\n" + rows * ((2 << 20) // len(rows) + 1))
    return workdir / "long.csv"


def fairmend(disk, *arguments):
    return disk.run(
        sys.executable, "-m", "fairmend", *arguments,
        env=environment(FAIRMEND_KEY="00" * 32, COLUMNS="300"),
    )  # fmt: skip


def refused(done, place):
    """It says which file, why and what to do, and exits as for any other bad place."""
    assert done.returncode == 3, done.stderr
    assert done.stderr.decode().splitlines()[-1] == (
        f"fairmend: output '{place}': must be writable; it is not: No space left on device. "
        "Nothing was written to it. Make room, or choose another place."
    )


@pytest.mark.parametrize("emit", ["rows", "decisions"])  # the latter are written by Polars
def test_apply_fills_the_disk(workdir, long, disk, emit):
    if emit == "decisions":
        disk.fill(leave=8_192)
    out = disk.place / "out.csv"
    refused(fairmend(disk, "apply", workdir / "repaired.fairmend", long, "--missing", "n/a",
                     "--emit", emit, "-o", out), out)  # fmt: skip
    assert disk.names == (["filler"] if emit == "decisions" else [])


def test_apply_on_a_full_disk_keeps_what_was_there(workdir, disk):
    out = disk.place / "out.csv"
    (disk.seen / "out.csv").write_bytes(b"what was there before")
    disk.fill()
    arguments = ("apply", workdir / "repaired.fairmend", workdir / "new.csv", "--missing", "n/a",
                 "--emit", "rows", "--force", "-o", out)  # fmt: skip
    refused(fairmend(disk, *arguments), out)
    assert disk.names == ["filler", "out.csv"]
    assert (disk.seen / "out.csv").read_bytes() == b"what was there before"
    disk.make_room()
    done = fairmend(disk, *arguments)
    assert done.returncode == 0, done.stderr
    assert disk.names == ["out.csv"]
    lines = (disk.seen / "out.csv").read_bytes().count(b"\r\n")
    assert lines == (workdir / "new.csv").read_bytes().count(b"\r\n")


def repair(workdir, disk):
    return fairmend(
        disk, "repair", workdir / "applicants.csv", *NAMED, *IGNORED, "--immutable", "Age (years)",
        "-o", disk.place / "new.fairmend",
    )  # fmt: skip


def test_repair_on_a_full_disk(workdir, disk):
    disk.fill()
    refused(repair(workdir, disk), disk.place / "new.fairmend")
    assert disk.names == ["filler"]


def test_a_repair_whose_report_does_not_fit(workdir, disk):
    """Two files, each whole or not there: the artifact fits, the page beside it does not."""
    room = (workdir / "repaired.fairmend").stat().st_size + 8_192
    assert (workdir / "repaired.html").stat().st_size > room
    disk.fill(leave=room)
    said = repair(workdir, disk)
    refused(said, disk.place / "new.html")
    assert f"fairmend: wrote {disk.place / 'new.fairmend'}\n" in said.stderr.decode()
    assert disk.names == ["filler", "new.fairmend"]
    done = fairmend(disk, "inspect", disk.place / "new.fairmend")
    assert done.returncode == 0, done.stderr


def test_a_report_on_a_full_disk(workdir, disk):
    disk.fill()
    page = disk.place / "page.html"
    done = fairmend(
        disk, "report", workdir / "repaired.fairmend", workdir / "applicants.csv", "--no-frontier",
        "--label", "approved?", "--predictions", "score", "--missing", "n/a", "-o", page,
    )  # fmt: skip
    refused(done, page)
    assert disk.names == ["filler"]


def test_a_key_on_a_full_disk(disk):
    disk.fill()
    refused(fairmend(disk, "key", disk.place / "new.key"), disk.place / "new.key")
    assert disk.names == ["filler"]
