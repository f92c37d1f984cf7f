"""Coverage-guided fuzzing of every place where bytes of strangers come in: `make fuzz`.

    python scripts/fuzz.py --seconds 60            all targets, so long each
    python scripts/fuzz.py --seconds 600 --only artifact

A target reads what it is given or refuses it with an error of its own kind. Anything else, or more
than two seconds or a gigabyte for one input, is a finding: it is kept in results/fuzz/.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOUND = ROOT / "results" / "fuzz"

Target = Callable[[bytes], None]

FORGED = ("least_change by score", "transport", "mixed columns", "mixed columns in Polars")
HEAD = 5
"""Bytes that say what is forged, before those that are put in."""


# -------------------------------------------------------------------- what is fed, and seeds


def artifact(folder: Path) -> Target:
    """The artifact's reader, given whole files."""
    from fairmend import ArtifactError, RepairedClassifier, datasets, load
    from fairmend.artifact import inspect

    people = datasets.toy_descent()
    X, y, s = people.sample(300, random_state=0)
    repaired = RepairedClassifier(people.decision, "fpr", favorable_label=0, random_state=0)
    repaired.fit(X, y, sensitive_features=s).save(folder / "whole")
    place = folder / "tried"

    def feed(data: bytes) -> None:
        place.write_bytes(data)
        for read in (inspect, load):
            with suppress(ArtifactError):
                read(place)

    return feed


def forged(folder: Path) -> Target:
    """The same reader, given a file whose hashes fit: the first bytes say which member and kind.

    The rest take the place of some of its bytes. Whatever loads must give people a chance.
    """
    sys.path.insert(0, str(ROOT / "experiments"))
    import _forged

    forgers = []
    for number, kind in enumerate(FORGED):
        whole = folder.with_name(f"{folder.name}-{number}")
        _forged.fitted(kind).save(whole)
        forgers.append(_forged.Forger(whole, _forged.model_of(kind)))
        whole.unlink()
        for member in range(4):
            (folder / f"{number}-{member}").write_bytes(bytes([number, member, 0, 0, 1]) + b"7")

    def feed(data: bytes) -> None:
        if len(data) < HEAD + 1:
            return
        forger = forgers[data[0] % len(forgers)]
        name = list(forger.members)[data[1] % len(forger.members)]
        content = bytearray(forger.members[name])
        start = int.from_bytes(data[2:4], "little") % (len(content) + 1)
        content[start : start + data[4]] = data[HEAD:]  # as many as data[4] says make way
        found = forger.judged({name: bytes(content)}, turn=start)
        assert found in ("refused", "sound"), found

    return feed


def table(folder: Path) -> Target:
    """The border for files: a CSV read, and audited if it has the columns."""
    from fairmend import FairmendError, audit
    from fairmend.data.tablefile import read_table

    (folder / "plain").write_bytes(b"y,s,p\n1,a,1\n0,b,0\n1,b,1\n0,a,0\n" * 5)
    (folder / "odd").write_bytes('\ufeffy;s;p\n"1";"=a";0,5\n0;;1\n'.encode())
    place = folder / "tried.csv"

    def feed(data: bytes) -> None:
        place.write_bytes(data)
        with suppress(FairmendError):
            audit("p", read_table(str(place)), "y", sensitive_features="s")

    return feed


def request(folder: Path) -> Target:
    """The protocols' readers, given bodies of requests and of responses."""
    from fairmend.model.protocols import protocol_named, protocol_names
    from fairmend.model.wire import BadAnswer, BadRequest

    protocols = [protocol_named(name) for name in protocol_names()]
    bodies = (
        b'{"dataframe_split": {"columns": ["a", "b"], "data": [[1, "x"], [2.5, null]]}}',
        b'{"dataframe_records": [{"a": 1, "b": true}]}',
        b'{"instances": [[1, 2], [3, 4]]}',
        b'{"inputs": [{"name": "a", "shape": [2, 1], "datatype": "FP64", "data": [1, 2.5]}]}',
        b'{"predictions": [0.5, 1]}',
        b"a,b\n1,2\n",
    )
    for number, body in enumerate(bodies):
        (folder / str(number)).write_bytes(body)

    def feed(data: bytes) -> None:
        for protocol in protocols:
            for read in (protocol.read, protocol.decode):
                with suppress(BadRequest, BadAnswer):
                    read(data)
            with suppress(BadRequest):
                protocol.read(data, "text/csv")

    return feed


def draw(folder: Path) -> Target:
    """The draw, given any text and numbers as ids."""
    from fairmend import DataError
    from fairmend.apply.draw import Drawer

    (folder / "ids").write_bytes("7\n007\nÅngström\n-3\n1e5\n".encode())
    drawer = Drawer(bytes(32), "fuzz")

    def feed(data: bytes) -> None:
        ids: list[str | int | float] = list(data.decode("utf-8", "surrogateescape").split("\n"))
        ids += [int.from_bytes(data[:12], "little", signed=True), float(len(data)) / 4]
        for one in ids:
            try:
                number = float(drawer.uniform([one])[0])
            except DataError:
                continue
            assert 0 <= number < 1
            assert number == float(drawer.uniform([one])[0])

    return feed


TARGETS: dict[str, Callable[[Path], Target]] = {
    "artifact": artifact, "forged": forged, "table": table, "request": request, "draw": draw,
}  # fmt: skip


# -------------------------------------------------------------------- running it


def fuzz_one(name: str, seconds: int) -> None:
    """In a process of its own: libFuzzer ends it."""
    import atheris

    with tempfile.TemporaryDirectory() as seeds, tempfile.TemporaryDirectory() as scratch:
        with atheris.instrument_imports(include=["fairmend"]):
            feed = TARGETS[name](Path(seeds))
            for seed in Path(seeds).iterdir():  # what is imported at first use is no slow input
                feed(seed.read_bytes())
        atheris.Setup(
            [sys.argv[0], seeds, f"-max_total_time={seconds}", "-timeout=2", "-rss_limit_mb=2048",
             "-max_len=65536", f"-artifact_prefix={FOUND / name}-", "-print_final_stats=1"],
            feed,
        )  # fmt: skip
        os.chdir(scratch)
        atheris.Fuzz()


def main() -> int:
    """Fuzz the targets one after the other and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--inside", choices=list(TARGETS), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        fuzz_one(chosen.inside, chosen.seconds)
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("fuzzing needs atheris: pip install atheris", file=sys.stderr)
        return 2
    FOUND.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in chosen.only:
        done = subprocess.run(
            [sys.executable, __file__, "--inside", name, "--seconds", str(chosen.seconds)],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        units = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        told = f"{int(units[1]):,} inputs" if units else "no count"
        good = done.returncode == 0
        print(f"{'ok  ' if good else 'FAIL'}  {name:<10} {told} in {chosen.seconds} s", flush=True)
        if not good:
            failed += 1
            print(done.stderr[-3000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
