"""How runs end when something goes wrong: real processes, signals, full disks, closed pipes."""

import contextlib
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from disks import null_device

from .conftest import IGNORED, NAMED, environment, process, write_applicants

pytestmark = pytest.mark.slow
APPLY = ("apply", "repaired.fairmend", "-", "--missing", "n/a", "--emit", "rows", "-o")
ENOUGH = 5 << 20
"""Bytes that make apply write: more than one block."""


@pytest.fixture(scope="module")
def much(workdir):
    """A header, and a file's rows again and again."""
    header, _, rows = (workdir / "new.csv").read_bytes().partition(b"\r\n")
    return header + b"\r\n" + rows * (ENOUGH // len(rows) + 1)


def written_into(folder, pid):
    """How many bytes a process has written into files of a folder, with a name or without."""
    total = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(entry).startswith(f"{folder}/"):
                total += entry.stat().st_size
    return total


@contextlib.contextmanager
def half_way(workdir, out, much, **more):
    """A process that has written a part of its output and waits for more input."""
    running = subprocess.Popen(
        [sys.executable, "-m", "fairmend", *APPLY, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=workdir,
        env=environment(FAIRMEND_KEY="00" * 32),
        **more,
    )
    try:
        running.stdin.write(much)
        running.stdin.flush()
        deadline = time.monotonic() + 60
        while not written_into(out.parent, running.pid):
            assert running.poll() is None, running.stderr.read().decode()
            assert time.monotonic() < deadline, "nothing was written"
            time.sleep(0.02)
        yield running
    finally:
        running.kill()
        running.wait()
        with contextlib.suppress(BrokenPipeError):
            running.stdin.close()
        running.stderr.close()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, b"fairmend: interrupted; no unfinished file is left\n"),
        (signal.SIGTERM, 143, b"fairmend: stopped by SIGTERM; no unfinished file is left\n"),
    ],
)
def test_told_to_stop_it_leaves_nothing(  # noqa: PLR0917
    number, code, message, workdir, much, tmp_path
):
    with half_way(workdir, tmp_path / "out.csv", much) as running:
        running.send_signal(number)
        assert running.wait(30) == code
        assert running.stderr.read().endswith(message)
    assert list(tmp_path.iterdir()) == []


def test_killed_it_leaves_nothing(workdir, much, tmp_path):
    (tmp_path / "out.csv").write_text("what was there before")
    with half_way(workdir, tmp_path / "new.csv", much) as running:
        running.kill()
        assert running.wait(30) == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "what was there before"


def test_a_limit_on_the_size_of_files(workdir, much, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fairmend", *APPLY, str(tmp_path / "out.csv")],
        input=much,
        capture_output=True,
        cwd=workdir,
        env=environment(FAIRMEND_KEY="00" * 32),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert b"must be writable; it is not: File too large." in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_standard_output_on_a_full_disk(workdir):
    with open("/dev/full", "wb") as nowhere:
        done = subprocess.run(
            [sys.executable, "-m", "fairmend", "inspect", "repaired.fairmend"],
            stdout=nowhere, stderr=subprocess.PIPE, cwd=workdir, env=environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == b"fairmend: the system refused: No space left on device\n"


@pytest.mark.parametrize("emit", ["both", "decisions"])  # the latter are written by Polars
def test_a_reader_that_goes_away(workdir, much, tmp_path, emit):
    (tmp_path / "much.csv").write_bytes(much)
    running = subprocess.Popen(
        [sys.executable, "-m", "fairmend", "apply", "repaired.fairmend", tmp_path / "much.csv",
         "--missing", "n/a", "--id", "customer no", "--emit", emit, "-o", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workdir,
        env=environment(FAIRMEND_KEY="00" * 32),
    )  # fmt: skip
    assert running.stdout.read(3) == b"\xef\xbb\xbf"
    running.stdout.close()
    lines = running.stderr.read().splitlines()
    assert all(line.startswith(b"fairmend: note: the repair was made without") for line in lines)
    assert running.wait(60) == 141
    running.stderr.close()


@pytest.mark.parametrize("arguments", [("--help",), ("apply", "--help"), ("inspect", "x.fairmend")])
def test_a_reader_that_never_was(workdir, tmp_path, arguments):
    """A pipe whose other end is closed before anything is written."""
    (tmp_path / "x.fairmend").write_bytes((workdir / "repaired.fairmend").read_bytes())
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fairmend", *arguments],
        stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(), check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_what_is_there_stays_unless_forced(workdir, call, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("precious")
    arguments = ("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--emit", "rows",
                 "--key-file", "secret.key", "-o", out)  # fmt: skip
    refused = call(*arguments, cwd=workdir)
    assert (refused.code, out.read_text()) == (3, "precious")
    assert refused.err == (
        f"fairmend: output '{out}': must not exist yet; there is such a file. "
        "Choose another name, or allow it to be overwritten (--force).\n"
    )
    assert call(*arguments, "--force", cwd=workdir).code == 0
    assert out.read_bytes().startswith(b"\xef\xbb\xbf")


def test_bad_data_far_into_the_file_leaves_nothing(workdir, call, tmp_path):
    bad = tmp_path / "bad.csv"
    write_applicants(bad, 300, seed=2)
    lines = bad.read_bytes().split(b"\r\n000150;")
    rest = lines[1].split(b";")
    rest[0] = b"forty"
    bad.write_bytes(lines[0] + b"\r\n000150;" + b";".join(rest))
    line = lines[0].count(b"\n") + 2  # remarks are of several lines
    out = tmp_path / "out.csv"
    done = call("apply", "repaired.fairmend", bad, "--missing", "n/a", "--key-file", "secret.key",
                "-o", out, cwd=workdir)  # fmt: skip
    assert done.code == 3
    assert done.err.endswith(
        f"fairmend: column 'Age (years)', line {line}: must be a number, as in the audit data; "
        "got 'forty'. If that stands for a missing value, say --missing forty.\n"
    )
    assert not out.exists()
    assert os.listdir(tmp_path) == ["bad.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must hold a header and rows; it is empty"),
        (b"\xff\xfea\x00", "must be text in UTF-8; got UTF-16"),
        (b'sex;score;zip\r\n"female;0.3;1\r\n', "must have every input of the repair as a column"),
        (b"\x1f\x8b\x08\x00", "must be CSV, Parquet or Arrow as it is; got gzip. Unpack it on"),
        (b"sex;gr\xf6\xdfe\r\n", "line 1: must be text in UTF-8; got bytes of another"),
        (b"sex;score\rfemale;0.3\r", "line 1: must end with a line feed; got a carriage return"),
        (b'[{"sex": "female"}]', "got JSON. Convert it"),
        (b"x" * 140_000 + b";score\n", "line 1: must hold names of columns, of at most"),
        ("sex;score\nm;1\n".encode("utf-16-le"), "must be text in UTF-8; got UTF-16"),
    ],
)
def test_files_that_are_none(content, message, workdir, call, tmp_path):
    (tmp_path / "odd.csv").write_bytes(content)
    done = call("apply", "repaired.fairmend", tmp_path / "odd.csv", "--key-file", "secret.key",
                "-o", tmp_path / "out.csv", cwd=workdir)  # fmt: skip
    assert (done.code, done.out) == (3, "")
    assert message in done.err
    assert not (tmp_path / "out.csv").exists()


def test_an_artifact_that_is_none_is_refused(workdir, call, tmp_path):
    for command in (("inspect",), ("apply", "new.csv", "-o", tmp_path / "o")):
        name, *rest = command
        done = call(name, "applicants.csv", *rest, cwd=workdir)
        assert done.code == 5
        assert "artifact 'applicants.csv': must begin as a zip does" in done.err
        assert "the artifact comes first, then the file" in done.err


# -------------------------------------------------------------------- streams that are none

AUDIT = ("audit", "applicants.csv", *NAMED)


def shell(line, cwd, **more):
    """A process of a shell, which can close streams."""
    program = shlex.join([sys.executable, "-m", "fairmend"])
    return subprocess.run(
        ["sh", "-c", line.replace("fairmend", program, 1)],
        capture_output=True, cwd=cwd, env=environment(FAIRMEND_KEY="00" * 32, **more), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])  # test_demo.py has UTF-8
def test_no_encoding_of_the_terminal_is_too_narrow(encoding, workdir):
    done = process("report", "repaired.fairmend", "new.csv", "--label", "approved?", "--missing",
                   "n/a", "--no-frontier", cwd=workdir, PYTHONIOENCODING=encoding)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout.decode(encoding)


def test_the_demo_fits_the_narrowest_terminal(tmp_path):
    demo = process("demo", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert demo.returncode == 0, demo.stderr
    assert b"The realised gap is closed" in demo.stdout


def test_standard_output_that_is_closed(workdir, tmp_path):
    done = shell(f"fairmend {shlex.join(AUDIT)} >&-", workdir)
    assert done.returncode == 3
    assert b"standard output: must be open; it is closed" in done.stderr
    out = tmp_path / "out.csv"
    apply = shlex.join(
        ["apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "-o", str(out)]
    )
    done = shell(f"fairmend {apply} <&- >&-", workdir)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"\xef\xbb\xbf")
    repair = shlex.join(["repair", "applicants.csv", *NAMED, *IGNORED, "-o", str(tmp_path / "r.f")])
    done = shell(f"fairmend {repair} --allow-partial >&- 2>&-", workdir)
    assert done.returncode == 0
    assert (tmp_path / "r.f").read_bytes().startswith(b"PK")
    assert (tmp_path / "r.html").stat().st_size > 10_000


def test_standard_input_that_is_closed(workdir):
    done = shell(f"fairmend {shlex.join(('audit', '-', *NAMED))} <&-", workdir)
    assert done.returncode == 3
    assert b"standard input: must be open; it is closed" in done.stderr
    assert shell(f"fairmend {shlex.join(AUDIT)} <&-", workdir).returncode == 0


def test_interrupted_while_it_is_imported(workdir):
    """A module that we import stops until the signal has come."""
    program = (
        "import os, runpy, signal, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'narwhals': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.orig_argv = ['python', '-m', 'fairmend']\n"
        "runpy.run_module('fairmend', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"fairmend: interrupted\n")


def test_the_version_can_be_asked_for():
    done = process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"fairmend ")


# -------------------------------------------------------------------- places that are no files


def test_a_device_takes_the_output_and_stays_one(workdir, call, tmp_path):
    place = null_device(tmp_path / "null")
    for force in ((), ("--force",)):
        done = call("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--key-file",
                    "secret.key", "-o", place, *force, cwd=workdir)  # fmt: skip
        assert done.code == 0, done.err
        assert place.is_char_device()


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--config", "/dev/zero", "audit", "new.csv"), 2, "config '/dev/zero'"),
        (("audit", "/dev/zero", *NAMED), 3, "file '/dev/zero'"),
        (("apply", "repaired.fairmend", "/dev/zero", "-o", "-"), 3, "file '/dev/zero'"),
        (("apply", "repaired.fairmend", "new.csv", "--key-file", "/dev/zero", "-o", "-"), 3,
         "key file '/dev/zero'"),
    ],
)  # fmt: skip
def test_what_has_no_end_is_not_read_to_it(workdir, call, arguments, code, what):
    if what.startswith("file") and "apply" in arguments:
        arguments = (*arguments, "--key-file", "secret.key")
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (code, "")
    assert what in done.err


SLOW = """
import pathlib, time

def cut(rows):
    if pathlib.Path("asked").exists():
        pathlib.Path("again").touch()
        time.sleep(60)
    if len(rows) > 100:
        pathlib.Path("asked").touch()
    return (rows["score"] > 0.5).to_numpy()
"""


def test_an_interrupted_repair_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["m", "f"], 400)
    score = (rng.random(400) - 0.1 * (sex == "f")).round(4)
    pd.DataFrame({"sex": sex, "score": score, "y": rng.integers(0, 2, 400)}).to_csv(
        tmp_path / "people.csv", index=False
    )
    (tmp_path / "slow.py").write_text(SLOW)
    running = subprocess.Popen(
        [sys.executable, "-m", "fairmend", "repair", "people.csv", "--label", "y", "--group",
         "sex", "--model", "slow:cut", "--metric", "sp", "--input", "score", "-o", "m.fairmend"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (tmp_path / "again").exists():
        assert running.poll() is None, running.stderr.read().decode()
        assert time.monotonic() < deadline, "the model was not asked"
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert (out, said.splitlines()[-1]) == (
        b"",
        b"fairmend: interrupted; no unfinished file is left",
    )
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"people.csv", "slow.py", "asked", "again"}
