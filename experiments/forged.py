"""Every byte of every kind of artifact changed, and what becomes of it.

    python experiments/forged.py [--kinds PATTERN] [--every 1] [--jobs 2] [--out FILE]

Small repairs of every kind are saved. Then, one at a time, each byte of each part of each file gets
other values, all hashes are made to fit, and the file is loaded and used. It must be refused with
an `ArtifactError`, or give everybody a finite chance in [0, 1]: a repair with another income in it
is still a repair. Anything else counts as a failure: another error, a crash, more than ten seconds,
more than a gigabyte. Many are tried in one process; one that dies is counted and followed by
another. ``--every 50`` tries each fiftieth.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _forged import KINDS, Forger, fitted, model_of
from _shared import RESULTS, Record, run_as_script, write_json

SECONDS, ROOM = 10, 1 << 30
LETTERS = {"refused": b"r", "sound": b"s"}


def values(member: str, place: int, byte: int) -> Iterator[int]:
    """What a byte is changed to, in turn: a neighbour, another sign or size, an end, a digit."""
    if member.endswith(".json"):
        tried = [byte ^ 1, *b"09-]", byte ^ 0x20]
        yield next(one for one in tried[place % 6 :] + tried if one != byte)
    else:
        yield byte ^ (0x80, 1, 0x7F, 0xFF, 0x10)[place % 5]


def cases(members: Mapping[str, bytes], every: int) -> list[tuple[str, int, int]]:
    """Which byte of which member gets which value; fewer of large ones, which take longer."""
    every *= 1 + sum(map(len, members.values())) // 25_000
    found = [
        (name, place, value)
        for name, content in members.items()
        for place, byte in enumerate(content)
        for value in values(name, place, byte)
    ]
    return found[::every]


# -------------------------------------------------------------------- in a process of its own


def sweep(kind: str, folder: Path, every: int) -> None:
    """Try what the log does not know yet: a letter a case, so that its length is where it died."""
    forger = Forger(folder / "whole", model_of(kind))
    log, notes = folder / "log", folder / "notes"
    warnings.simplefilter("ignore")
    forger.judged({})  # everything that is imported is there now
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    done = log.stat().st_size if log.exists() else 0
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for name, place, value in cases(forger.members, every)[done:]:
        content = bytearray(forger.members[name])
        content[place] = value
        signal.alarm(SECONDS)
        try:
            found = forger.judged({name: bytes(content)}, turn=place)
        except BaseException as error:  # a panic in Rust is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            found = f"{type(error).__name__}: {error}"
        signal.alarm(0)
        if found not in LETTERS:
            with notes.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{name}[{place}] = {value}: {' '.join(found.split())[:300]}\n")
        os.write(out, LETTERS.get(found, b"x"))


def too_long(*_: Any) -> None:
    """End a case that takes too long."""
    raise TimeoutError(f"more than {SECONDS} s")


# -------------------------------------------------------------------- over all kinds


def sweep_kind(kind: str, every: int) -> Record:
    """Every case of one kind of artifact, by processes that may die."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # quicker than a disk
    with tempfile.TemporaryDirectory(dir=memory) as place:
        folder = Path(place)
        mended = fitted(kind)
        mended.save(folder / "whole")
        members = Forger(folder / "whole", mended.model).members
        tried, log = cases(members, every), folder / "log"
        deaths: list[str] = []
        while True:
            ran = subprocess.run(
                [sys.executable, __file__, "--inside", place, "--kinds", kind, "--every",
                 str(every)], check=False, capture_output=True, text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            done = log.stat().st_size if log.exists() else 0
            if done >= len(tried):
                break
            if ran.returncode in (-signal.SIGINT, -signal.SIGTERM, 130, 143):
                raise InterruptedError("told to stop")
            deaths.append(f"{tried[done]}: status {ran.returncode}. {ran.stderr[-300:]}")
            with log.open("ab") as file:
                file.write(b"d")
        notes = folder / "notes"
        said = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
        return {
            "kind": kind,
            "plans": [type(plan).__name__ for plan in mended.plans_.values()],
            "members": by_member(tried, log.read_bytes()),
            "failures": [*deaths, *said][:50],
        }


def by_member(tried: Sequence[tuple[str, int, int]], log: bytes) -> Record:
    """How many were tried in each member, and what became of them."""
    words = {ord("r"): "refused", ord("s"): "loaded and sound"}
    counts: dict[str, Counter[str]] = {}
    for (name, _, _), letter in zip(tried, log, strict=True):
        part = name if name.endswith(".json") else "tables"
        counts.setdefault(part, Counter())[words.get(letter, "anything else")] += 1
    names = ("refused", "loaded and sound", "anything else")
    return {part: {name: found[name] for name in names} for part, found in counts.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, print, write; 1 where anything but a refusal or a sound repair came of a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kinds", default="", metavar="PATTERN", help="kinds to try, a regex")
    parser.add_argument("--every", type=int, default=1, help="try each so many-th case")
    parser.add_argument("--jobs", type=int, default=2, help="processes, one thread each")
    parser.add_argument("--out", type=Path, default=RESULTS / "forged.json")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        signal.signal(signal.SIGALRM, too_long)
        sweep(options.kinds, options.inside, options.every)
        return 0
    kinds = [kind for kind in KINDS if re.search(options.kinds, kind)]
    started = time.perf_counter()
    found = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(sweep_kind, kinds, [options.every] * len(kinds)):
            found.append(one)
            total = sum(map(Counter, one["members"].values()), Counter())
            print(f"{one['kind']:26} {total.total():8,} tried  {dict(total)}", flush=True)
            for failure in one["failures"]:
                print(f"    {failure}", flush=True)
    total = sum((Counter(part) for one in found for part in one["members"].values()), Counter())
    names = ("refused", "loaded and sound", "anything else")
    record = {
        "tried": total.total(),
        **{name: total[name] for name in names},
        "every": options.every,
        "seconds": round(time.perf_counter() - started, 1),
        "kinds": found,
    }
    write_json(options.out, record)
    print(f"{record['tried']:,} forged bytes tried in {record['seconds']:.0f} s: "
          + ", ".join(f"{total[name]:,} {name}" for name in names))  # fmt: skip
    return 1 if total["anything else"] else 0


if __name__ == "__main__":
    run_as_script(main)
