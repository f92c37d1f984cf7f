"""One odd input at a time, in a process of its own that is a copy of this one."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from _odd_people import Case, Row, gaps, people

SECONDS = 60
LONGEST_MESSAGE = 4_000
"""What is said about one mistake is read by a person."""
CLOSE = 1e-9


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Negative: by a signal."""
    out: bytes
    err: str
    seconds: float


def carried_out(case: Case, folder: Path) -> Ended:
    """The call in a child process, with its own folder and standard streams."""
    for name, content in ((".in", case.stdin), (".out", b""), (".err", b"")):
        (folder / name).write_bytes(content)
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        _be_the_child(case, folder)
    _, status = os.waitpid(child, 0)
    seconds = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    read = (folder / name for name in (".out", ".err"))
    out, err = (place.read_bytes() for place in read)
    return Ended(code, out, err.decode(errors="replace"), seconds)


def _lay_out(files: dict[str, Any], folder: Path) -> None:
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(place)
        else:
            place.write_bytes(content.encode() if isinstance(content, str) else content)
            place.chmod(0o600)  # a key that others may read is refused


def _be_the_child(case: Case, folder: Path) -> None:
    code = 70
    try:
        os.chdir(folder)
        _lay_out(case.files, folder)  # not in the parent: a library's threads do not survive a fork
        for number, name in enumerate((".in", ".out", ".err")):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY
            os.dup2(os.open(name, flags), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", closefd=False)
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        os.environ.update({"NO_COLOR": "1", "COLUMNS": "100", **case.environment})
        sys.path.insert(0, str(folder))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        code = _called(case)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else (0 if end.code is None else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code & 255)


def _called(case: Case) -> int:
    if callable(case.call):
        from fairmend import FairmendError

        try:
            found = case.call()
        except FairmendError as error:
            print(f"fairmend: {error}", file=sys.stderr)
            return 3
        print(json.dumps(found))
        return 0
    from fairmend.cli.main import main

    sys.argv = ["fairmend", *map(str, case.call)]
    main()
    return 0


def judged(case: Case) -> dict[str, Any]:
    """What came of it: same, refused, done, or how it is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        ended = carried_out(case, folder)
        outcome = _outcome(case, ended, folder)
    return {
        "kind": case.kind, "name": case.name, "outcome": outcome, "code": ended.code,
        "said": ended.err[-300:] if outcome not in ("same", "refused", "done") else "",
        "seconds": round(ended.seconds, 2),
    }  # fmt: skip


def _outcome(case: Case, ended: Ended, folder: Path) -> str:
    fault = _fault(ended)
    if fault:
        return fault
    there = case.output is not None and (folder / case.output).exists()
    left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    if left:
        return f"half-written: {left[0]}"
    if case.must == "any" and ended.code in (0, 1, *case.codes):
        return "done" if ended.code in (0, 1) else "refused"
    if ended.code in case.codes:
        if case.must in ("same", "done"):
            return "refused, though it is right"
        if there:
            return "refused, but a file is there"
        return "refused" if ended.err.strip() else "refused without a word"
    if ended.code not in (0, 1):
        return f"ended with {ended.code}"
    if case.must == "refused" or case.means is None:
        return "taken, though it is wrong"
    if case.output is not None and not there:
        return "done, but no file is there"
    if case.must == "done":
        return "done"
    wrong = _differs(case, ended, folder)
    return wrong or "same"


def _fault(ended: Ended) -> str:
    if ended.code == -signal.SIGALRM:
        return f"took more than {SECONDS} s"
    if ended.code < 0:
        return f"died of signal {-ended.code}"
    if "Traceback (most recent" in ended.err or ended.code == 70:
        return "traceback"
    if "\x1b" in ended.err or b"\x1b" in ended.out:
        return "control characters reach the terminal"
    if len(ended.err) > LONGEST_MESSAGE:
        return "a message of more than 4,000 characters"
    return ""


def _differs(case: Case, ended: Ended, folder: Path) -> str:
    """How the figures differ from those of the people meant; empty if they do not."""
    meant = case.means or people()
    if not callable(case.call) and case.call[0] == "apply":
        return _other_decisions(meant, (folder / str(case.output)).read_bytes(), folder)
    try:
        found = json.loads(ended.out)
    except ValueError:
        return "no JSON on standard output"
    found = found.get("results", found)
    audited = found.get("before", found)
    if not callable(case.call) and case.call[0] == "repair":
        return ""  # its holdout is a part of the people; what it fits is judged by apply
    truth = gaps(meant)
    said = {gap["metric"]: gap["gap"] for gap in audited["gaps"]}
    for metric, gap in said.items():
        if gap is not None and metric in truth and abs(gap - truth[metric]) > CLOSE:
            return f"another figure: {metric} is {gap:.4f}, not {truth[metric]:.4f}"
    return "" if said else "no figures"


def _other_decisions(meant: list[Row], written: bytes, folder: Path) -> str:
    """Of an output of `apply` in CSV: everybody there, with the decision of the plain file."""
    expected = json.loads((folder / "expected.json").read_text())
    head, rows = _table(written)
    if not {"no", "decision"} <= set(head):
        return "no ids or no decisions in the output"
    got = {row[head.index("no")]: row[head.index("decision")] for row in rows}
    if len(rows) != len(meant):
        return f"{len(rows)} rows, not {len(meant)}"
    for row in meant:
        if got.get(row[0]) != expected[row[0]]:
            return f"another decision about {row[0]}"
    return ""


def _table(written: bytes) -> tuple[list[str], list[list[str]]]:
    """Names and rows of an output in CSV, Parquet or Arrow, all as text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    readers = {
        b"PAR1": pq.read_table,
        b"ARROW1": lambda file: pa.ipc.open_file(file).read_all(),
        b"\xff\xff\xff\xff": lambda file: pa.ipc.open_stream(file).read_all(),
    }
    for magic, read in readers.items():
        if written.startswith(magic):
            table = read(pa.BufferReader(written))
            columns = [map(str, column.to_pylist()) for column in table.columns]
            return table.column_names, [list(row) for row in zip(*columns, strict=True)]
    text = written.decode("utf-8-sig")
    separator = max(",;\t|", key=text.split("\n", 1)[0].count)
    head, *rows = csv.reader(text.splitlines(), delimiter=separator)
    return head, [row for row in rows if row]
