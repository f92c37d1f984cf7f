"""Files appear whole or not at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from disks import null_device, small_disk
from fairmend.data import files
from fairmend.data.files import _begin, read_small, writing
from fairmend.errors import DataError


def test_nothing_is_left_after_an_error(tmp_path):
    def fail():
        with writing(tmp_path / "out") as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_told(tmp_path):
    place = tmp_path / "out"
    place.write_bytes(b"old")
    with pytest.raises(DataError, match="must not exist yet"), writing(place) as file:
        file.write(b"new")
    assert place.read_bytes() == b"old"
    with writing(place, overwrite=True) as file:
        file.write(b"new")
    assert place.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_made_in_the_meantime_is_kept(tmp_path):
    place = tmp_path / "out"

    def race():
        with writing(place) as file:
            file.write(b"ours")
            place.write_bytes(b"theirs")

    with pytest.raises(DataError, match="must not exist yet"):
        race()
    assert place.read_bytes() == b"theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(DataError, match="No such file or directory"),
        writing(tmp_path / "no" / "out") as file,
    ):
        file.write(b"")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_killed_writer_leaves_nothing(tmp_path, overwrite):
    code = f"""
import os, signal
from fairmend.data.files import writing
with writing({str(tmp_path / "out")!r}, overwrite={overwrite}) as file:
    file.write(b"half" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir()]
    if _begin(tmp_path / "try")[1] is None:  # else the system has no files without a name
        assert left == []
    assert "out" not in left


def test_without_unnamed_files_it_is_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with writing(tmp_path / "out") as file:
        file.write(b"whole")
    with pytest.raises(DataError, match="must not exist yet"), writing(tmp_path / "out"):
        pass
    with writing(tmp_path / "out", overwrite=True) as file:
        file.write(b"again")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"again"]


def test_errors_of_the_caller_stay_its_own(tmp_path):
    with pytest.raises(FileNotFoundError), writing(tmp_path / "out"):
        (tmp_path / "input that is not there").read_bytes()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_what_was_there(tmp_path, named, overwrite):
    """With files that have no name until they are whole, and where the system lacks such."""
    code = """
import os, sys
if sys.argv[2] == "True":
    del os.O_TMPFILE
from fairmend.data.files import writing
with writing(sys.argv[1], overwrite=sys.argv[3] == "True") as file:
    file.write(bytes(2 << 20))
"""
    with small_disk(tmp_path / "small") as disk:
        if overwrite:
            (disk.seen / "out").write_bytes(b"old")
        done = disk.run(sys.executable, "-c", code, disk.place / "out", named, overwrite)
        assert done.returncode == 1
        assert done.stderr.decode().endswith(
            f"DataError: output '{disk.place / 'out'}': must be writable; it is not: No space left "
            "on device. Nothing was written to it. Make room, or choose another place.\n"
        )
        assert disk.names == (["out"] if overwrite else [])
        if overwrite:
            assert (disk.seen / "out").read_bytes() == b"old"


def test_a_device_is_written_through_and_stays_one(tmp_path):
    """Whoever may replace /dev/null must not do so."""
    place = null_device(tmp_path / "null")
    for overwrite in (True, False):
        with writing(place, overwrite=overwrite) as file:
            file.write(b"away")
        assert place.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["null"]


def test_a_pipe_is_written_through_and_a_socket_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with writing(pipe) as file:
        file.write(b"all of it")
    reader.join()
    assert (got, pipe.is_fifo()) == ([b"all of it"], True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for overwrite in (True, False):
            with (
                pytest.raises(DataError, match="it is a socket"),
                writing(tmp_path / "socket", overwrite=overwrite),
            ):
                pass
        assert (tmp_path / "socket").is_socket()


def test_a_link_is_followed(tmp_path):
    """A dangling one too: the file is made where it points."""
    link = tmp_path / "link"
    link.symlink_to("there")
    with writing(link) as file:
        file.write(b"one")
    assert (tmp_path / "there").read_bytes() == b"one"
    with pytest.raises(DataError, match="must not exist yet"), writing(link):
        pass
    with writing(link, overwrite=True) as file:
        file.write(b"two")
    assert link.is_symlink()
    assert (tmp_path / "there").read_bytes() == b"two"


def test_small_files_are_read_up_to_a_limit(tmp_path):
    (tmp_path / "key").write_bytes(b"ab")
    assert read_small(tmp_path / "key", 2, "key file") == b"ab"
    with pytest.raises(DataError, match="key file: must be at most 1 bytes; it is longer"):
        read_small(tmp_path / "key", 1, "key file")
    with pytest.raises(DataError, match="it is longer"):
        read_small("/dev/zero", 4096, "key file")


def test_a_pipe_is_read_once_somebody_writes_to_it(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        later = pool.submit((tmp_path / "pipe").write_bytes, b"ab")
        assert read_small(tmp_path / "pipe", 2, "key file") == b"ab"
        assert later.result() == 2
    monkeypatch.setattr(files, "PATIENCE", 0.01)
    with pytest.raises(DataError, match=r"written by somebody; got nothing in 0\.01"):
        read_small(tmp_path / "pipe", 2, "key file")
