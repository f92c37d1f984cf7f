"""A project on a disk that is full: nothing half-written, no false result, and it goes on later."""

import json
import os
import subprocess
import sys
import time

import pytest
from tests.studio.conftest import ADDRESS, Running

from disks import small_disk

pytestmark = pytest.mark.slow
TABLE = b"sex,decision,x\n" + b"f,yes,1\nm,no,2\nf,no,3\nm,yes,4\n" * 50


@pytest.fixture
def studio(tmp_path):
    """A studio whose project is on a small disk."""
    with small_disk(tmp_path / "small", "4m") as disk:
        process = subprocess.Popen(
            [*disk.wrapper, sys.executable, "-m", "fairmend", "studio", "--no-browser",
             "--project", disk.place / "p"],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        with process:
            found = (ADDRESS.search(line) for line in process.stderr)
            address = next(one[1] for one in found if one)
            running = Running(process, disk.seen / "p", address).enter()
            running.disk = disk
            yield running
            process.terminate()


def page(studio, name):
    """A page once its work has ended."""
    until = time.monotonic() + 60
    while "data-run=" in (text := studio.ask("GET", f"/{name}")[2]):
        assert time.monotonic() < until
        time.sleep(0.05)
    return text


def test_a_full_disk_is_told_and_with_room_the_project_goes_on(studio):
    assert studio.ask("POST", "/upload?name=a.csv", TABLE)[0] == 200
    page(studio, "data")
    assert "sex" in page(studio, "data")
    before = (studio.folder / "studio.toml").read_bytes()
    studio.disk.fill()
    status, _, text = studio.ask("POST", "/upload?name=b.csv", TABLE * 99)
    assert (status, "No space left on device" in text) == (400, True)
    assert os.listdir(studio.folder / "data") == ["a.csv"]
    status, headers, _ = studio.ask("POST", "/settings", "screen=measure&has=attention&attention=7")
    assert (status, "No%20space%20left" in headers["location"]) == (303, True)
    assert (studio.folder / "studio.toml").read_bytes() == before
    shown = page(studio, "measure")
    assert "No space left on device" in shown
    assert "get a negative decision" not in shown
    studio.disk.make_room()
    shown = page(studio, "measure")
    if "Do it again" in shown:
        studio.ask("POST", "/begin", "screen=measure&step=audit")
        shown = page(studio, "measure")
    assert "Gaps of every group" in shown


def test_a_worker_that_meets_a_full_disk_has_no_result(studio):
    """It begins with room for a few files, not for what it finds."""
    studio.ask("POST", "/upload?name=a.csv", TABLE)
    page(studio, "data")
    page(studio, "data")
    studio.disk.fill(leave=24_576)
    shown = page(studio, "measure")
    assert "Gaps of every group" not in shown
    assert "Do it again" in shown
    [run] = (studio.folder / "runs").glob("audit-*")
    assert not (run / "audit.html").exists()
    with pytest.raises(ValueError, match=r"Expecting value|Unterminated|delimiter"):
        json.loads((run / "result.json").read_bytes())
    studio.disk.make_room()
    studio.ask("POST", "/begin", "screen=measure&step=audit")
    assert "Gaps of every group" in page(studio, "measure")


def test_a_folder_that_cannot_be_written_is_told_on_every_page(studio):
    """Not as a fault of the program, whatever it is that is in the way."""
    studio.ask("POST", "/upload?name=a.csv", TABLE)
    os.rename(studio.folder / "runs", studio.folder / "before")
    (studio.folder / "runs").write_bytes(b"")
    assert "must be able to start a process in the project" in page(studio, "data")
    os.unlink(studio.folder / "runs")
    os.rename(studio.folder, studio.folder.with_name("gone"))
    status, _, text = studio.ask("POST", "/settings", "screen=measure&has=attention&attention=7")
    assert (status, "fault of fairmend" in text) == (303, False)
