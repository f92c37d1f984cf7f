"""Files as people bring them, and the command line as they call it."""

import contextlib
import csv
import functools
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from fairmend.cli.main import main

COLUMNS = (
    "customer no", "Age (years)", "<b>Income</b>", "Employment type", "zip", "=risk flag",
    "score", "sex", "approved?", "remarks; free text",
)  # fmt: skip
NAMED = ("--label", "approved?", "--positive", "yes", "--group", "sex", "--predictions", "score",
         "--missing", "n/a", "--id", "customer no")  # fmt: skip
IGNORED = ("--ignore", "remarks; free text", "--ignore", "zip", "--ignore", "=risk flag")


def applicants(n, seed=0):
    """Rows of a scored file: every kind of cell that people's spreadsheets have."""
    rng = np.random.default_rng(seed)

    def sometimes(share, odd, usual):
        return odd if rng.random() < share else usual

    for i in range(n):
        sex = sometimes(0.02, "", rng.choice(["female", "male"]))
        age, income = int(rng.integers(18, 80)), rng.normal(2600 if sex == "female" else 3000, 900)
        job = str(rng.choice(["permanent", "temp", "self-employed", ""]))
        merit = (income - 2800) / 700 + (age - 45) / 40 + 0.6 * (job == "permanent")
        paid = rng.random() < 1 / (1 + np.exp(-merit - 0.5 * (sex == "female")))
        yield (
            f"{i:06d}",
            sometimes(0.03, "", age),
            sometimes(0.02, "n/a", f"{income:.0f}"),
            job,
            f"{rng.integers(0, 99_999):05d}",
            str(rng.choice(["=1+1", "=cmd|' /C calc'!A0", "-", "+x"])),
            f"{1 / (1 + np.exp(-merit)):.3f}",
            sex,
            sometimes(0.01, "", "yes" if paid else "no"),
            str(rng.choice(["ok", 'said "later"', "two\r\nlines", "a;b", ""])),
        )


def write_applicants(path, n, seed=0):
    """With a byte-order mark, semicolons, and the line ends of a spreadsheet."""
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerow(COLUMNS)
        writer.writerows(applicants(n, seed))
    return path


def environment(**more):
    names = ("PATH", "HOME", "OMP_NUM_THREADS")  # as many threads as the tests have themselves
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "NO_COLOR": "1", "COLUMNS": "80", **more}


def process(*arguments, cwd=None, stdin=None, **more):
    """A real process, with nothing of our environment but what it needs."""
    return subprocess.run(
        [sys.executable, "-m", "fairmend", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        input=stdin,
        check=False,
        timeout=120,
        env=environment(**more),
    )


class Done:
    """What a call in this process gave: cheaper than a process where only the answer matters."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def in_process(*arguments, cwd):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["fairmend", *map(str, arguments)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            with pytest.raises(SystemExit) as ended:
                main()
            out.flush()
            err.flush()
    return Done(ended.value.code or 0, *(s.buffer.getvalue().decode() for s in (out, err)))


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # a message in one line, unless a test says otherwise
    return functools.partial(in_process, cwd=tmp_path)


@pytest.fixture(scope="session")
def workdir(tmp_path_factory):
    """A folder with a person's file and a repair made from it on the command line."""
    folder = tmp_path_factory.mktemp("person")
    write_applicants(folder / "applicants.csv", 1_500)
    write_applicants(folder / "new.csv", 1_000, seed=1)
    done = in_process(
        "repair", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr",
        "--immutable", "Age (years)", "-o", "repaired.fairmend", "--json", cwd=folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    (folder / "repair.json").write_text(done.out)
    (folder / "repaired.err").write_text(done.err)
    assert in_process("key", "secret.key", cwd=folder).code == 0
    return folder
