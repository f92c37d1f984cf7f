"""Odd options and surroundings: what is typed, and where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from _odd_files import PLAIN
from _odd_people import NAMED, SCORED, Case

_TYPED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("unknown metric", ("--metric", "sq"), "refused"),
    ("metric twice", ("--metric", "sp", "--metric", "sp"), "either"),
    ("empty metric", ("--metric", ""), "refused"),
    ("metric in capitals", ("--metric", "SP"), "either"),
    ("confidence 0", ("--confidence", "0"), "refused"),
    ("confidence 1", ("--confidence", "1"), "refused"),
    ("confidence 95", ("--confidence", "95"), "refused"),
    ("confidence nan", ("--confidence", "nan"), "refused"),
    ("confidence in words", ("--confidence", "high"), "refused"),
    ("unknown reference", ("--reference", "x"), "refused"),
    ("empty reference", ("--reference", ""), "refused"),
    ("unknown option", ("--colour", "red"), "refused"),
    ("threshold in words", ("--threshold", "half"), "refused"),
    ("threshold nan", ("--threshold", "nan"), "refused"),
    ("threshold inf", ("--threshold", "inf"), "refused"),
    ("threshold 1e400", ("--threshold", "1e400"), "refused"),
    ("threshold 2", ("--threshold", "2"), "any"),
    ("threshold 0.5", ("--threshold", "0.5"), "same"),
    ("unknown answers", ("--answers", "foo"), "refused"),
    ("answers are labels", ("--answers", "label"), "refused"),
    ("answers are probabilities", ("--answers", "probability"), "same"),
    ("answers are scores, no threshold", ("--answers", "score"), "refused"),
    ("unknown rows", ("--rows", "foo"), "refused"),
    ("rows without a model", ("--rows", "pandas"), "refused"),
    ("unknown protocol", ("--protocol", "foo"), "refused"),
    ("protocol without a model", ("--protocol", "v2"), "refused"),
    ("trust without a model", ("--trust", "a.B"), "refused"),
    ("unknown decimal mark", ("--decimal", ";"), "refused"),
    ("empty decimal mark", ("--decimal", ""), "refused"),
    ("limit without a number", ("--fail-on", "sp"), "refused"),
    ("limit of an unknown metric", ("--fail-on", "xy>0.1"), "refused"),
    ("limit of nothing", ("--fail-on", ""), "refused"),
    ("limit nan", ("--fail-on", "sp>nan"), "refused"),
    ("limit that holds", ("--fail-on", "sp>0.9"), "same"),
    ("limit in percent", ("--fail-on", "sp>90%"), "same"),
    ("weight that is no column", ("--weight", "w"), "refused"),
    ("weight of words", ("--weight", "job"), "refused"),
    ("weight that is the label", ("--weight", "paid"), "refused"),
    ("input that is the label", ("--input", "paid"), "refused"),
    ("input that is no column", ("--input", "agee"), "refused"),
    ("ignored that is no column", ("--ignore", "agee"), "refused"),
    ("another file", ("more.csv",), "refused"),
    ("no such model", ("--model", "nowhere:model"), "refused"),
    ("missing that is a number", ("--missing", "0.500"), "any"),
    ("positive decision without words", ("--positive-decision", "yes"), "refused"),
)
_REPAIR: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("unknown method", ("--method", "magic"), "refused"),
    ("method of the system", ("--method", "os:system"), "refused"),
    ("level 2", ("--level", "2"), "refused"),
    ("level -1", ("--level", "-1"), "refused"),
    ("level nan", ("--level", "nan"), "refused"),
    ("level 0", ("--level", "0"), "done"),
    ("one-way without a way", ("--one-way", "age"), "refused"),
    ("one-way sideways", ("--one-way", "age:sideways"), "refused"),
    ("one-way of a word", ("--one-way", "job:up"), "refused"),
    ("one-way of nobody's input", ("--one-way", "agee:up"), "refused"),
    ("immutable that is no input", ("--immutable", "agee"), "refused"),
    (
        "all inputs immutable",
        ("--immutable", "age", "--immutable", "income", "--immutable", "job"),
        "any",
    ),
    ("no edits", ("--max-edits", "0"), "refused"),
    ("edits -1", ("--max-edits", "-1"), "refused"),
    ("edits 1.5", ("--max-edits", "1.5"), "refused"),
    ("target is the reference", ("--target", "m", "--reference", "m"), "refused"),
    ("unknown target", ("--target", "x"), "refused"),
    ("favourable that is no label", ("--favourable", "maybe"), "refused"),
    ("seed -1", ("--seed", "-1"), "refused"),
    ("seed 1e9", ("--seed", "1e9"), "refused"),
    ("holdout share 0", ("--holdout-share", "0"), "any"),
    ("holdout share 1", ("--holdout-share", "1"), "refused"),
    ("holdout share 2", ("--holdout-share", "2"), "refused"),
    ("holdout share nan", ("--holdout-share", "nan"), "refused"),
    ("no such holdout", ("--holdout", "nowhere.csv"), "refused"),
    ("report in place of the artifact", ("--report", "new.fairmend"), "refused"),
    ("report in no folder", ("--report", "nowhere/report.html"), "refused"),
    ("no such key file", ("--key-file", "nowhere"), "refused"),
    ("the key itself for its file", ("--key-file", "00" * 32), "refused"),
    ("an empty key file", ("--key-file", "empty"), "refused"),
    ("a folder as key file", ("--key-file", "."), "refused"),
    ("endless key file", ("--key-file", "/dev/zero"), "refused"),
    ("two-sided by transport", ("--two-sided", "--method", "transport"), "refused"),
    ("several gaps by order", ("--metric", "fnr", "--method", "order"), "refused"),
)
_APPLY: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("unknown policy", ("--unknown-group", "kepp"), "refused"),
    ("policy keep", ("--unknown-group", "keep"), "same"),
    ("emit nothing", ("--emit", "none"), "refused"),
    ("emit rows", ("--emit", "rows"), "done"),
    ("threshold without answers", ("--threshold", "900"), "refused"),
    ("unknown answers", ("--answers", "foo"), "refused"),
    ("unknown rows", ("--rows", "foo"), "refused"),
    ("unknown protocol", ("--protocol", "foo"), "refused"),
    ("another threshold", ("--predictions", "score", "--threshold", "0.9"), "refused"),
    ("the same predictions", ("--predictions", "score"), "same"),
    ("predictions of another column", ("--predictions", "age"), "refused"),
    ("predictions that are no column", ("--predictions", "scores"), "refused"),
    ("id that is no column", ("--id", "number"), "refused"),
    ("group that is no column", ("--group", "gender"), "refused"),
    ("group of other values", ("--group", "job"), "refused"),
    ("decisions named as a column", ("--decision", "age"), "refused"),
    ("edited named as a column", ("--edited", "age"), "refused"),
    ("decisions and edited of one name", ("--edited", "decision"), "refused"),
    ("decisions without a name", ("--decision", ""), "refused"),
    ("JSON and rows on standard output", ("--json", "-o", "-"), "refused"),
    ("another key", ("--key-file", "other.key"), "refused"),
)


def typed(base: dict[str, bytes]) -> Iterator[Case]:
    """Wrong and unusual options."""
    files = {"people.csv": PLAIN, "empty": "", "other.key": "ab" * 32}
    for name, options, must in _TYPED:
        yield Case("options", f"audit: {name}",
                   ("audit", "people.csv", *SCORED, "--reference", "m", "--json", *options), files,
                   None if must == "refused" else (), must)  # fmt: skip
    for name, options, must in _REPAIR:
        yield Case("options", f"repair: {name}",
                   ("repair", "people.csv", *SCORED, "--metric", "sp", "-o", "new.fairmend",
                    "--allow-partial", *options), files, None if must == "refused" else (), must,
                   output="new.fairmend")  # fmt: skip
    for name, options, must in _APPLY:
        yield Case("options", f"apply: {name}",
                   ("apply", "base.fairmend", "people.csv", "-o", "out", "--id", "no",
                    "--emit", "both", "--key-file", "base.key", *options), {**files, **base},
                   None if must == "refused" else (), must, output="out")  # fmt: skip
    for command in ("audit", "explain", "repair", "apply", "report", "inspect", "key", "serve"):
        yield Case("options", f"{command}: nothing else", (command,), {}, None, "refused")
    for words in (("help",), ("audti", "people.csv"), ("--config", "nowhere.toml", "demo")):
        yield Case("options", " ".join(words), words, files, None, "refused")


_PLACES: tuple[tuple[str, object], ...] = (
    ("a folder", lambda place: place.mkdir()),
    ("a file that is there", "kept"),
    ("a link to nothing", lambda place: place.symlink_to("nowhere/at/all")),
    ("a link to itself", lambda place: place.symlink_to(place.name)),
)
_SETTINGS: tuple[tuple[str, str], ...] = (
    ("no TOML", "[audit\n"),
    ("unknown option", "[audit]\ncolour = 'red'\n"),
    ("unknown command", "[audti]\nmetric = ['sp']\n"),
    ("a number for a list", "[audit]\nmetric = 7\n"),
    ("a word for a switch", "[audit]\njson = 'maybe'\n"),
    ("a list for a number", "[audit]\nconfidence = [0.9]\n"),
    ("a wrong value", "[audit]\nanswers = 'foo'\n"),
    ("escape codes", "[audit]\n'\\u001b[31m' = 1\n"),
)


def surroundings(base: dict[str, bytes]) -> Iterator[Case]:
    """Places to write to, settings files, environments."""
    apply_ = ("apply", "base.fairmend", "people.csv", "--id", "no", "--key-file", "base.key")
    files = {"people.csv": PLAIN, **base}
    for name, make in _PLACES:
        yield Case("surroundings", f"apply: output is {name}", (*apply_, "-o", "there"),
                   {**files, "there": make}, None, "refused")  # fmt: skip
        yield Case("surroundings", f"repair: output is {name}",
                   ("repair", "people.csv", *SCORED, "--metric", "sp", "-o", "there"),
                   {**files, "there": make}, None, "refused")  # fmt: skip
    for place in ("/dev/null", "/dev/full", "nowhere/out.csv", "/proc/out.csv", ""):
        yield Case("surroundings", f"apply: output is {place!r}", (*apply_, "-o", place, "--force"),
                   files, (), "any")  # fmt: skip
    for name, text in _SETTINGS:
        yield Case("surroundings", f"settings: {name}",
                   ("audit", "people.csv", *SCORED, "--json"), {**files, "fairmend.toml": text},
                   None, "refused")  # fmt: skip
    yield Case("surroundings", "settings: endless", ("--config", "/dev/zero", "demo"), files, None,
               "refused")  # fmt: skip
    for encoding in ("latin-1", "ascii", "utf-16", "cp1252"):
        yield Case("surroundings", f"terminal in {encoding}",
                   ("audit", "people.csv", *SCORED, "--reference", "m", "--json"), files, (),
                   "same", environment={"PYTHONIOENCODING": encoding})  # fmt: skip
    for name in ("LC_ALL", "LANG"):
        yield Case("surroundings", f"{name}=C",
                   ("audit", "people.csv", *SCORED, "--reference", "m", "--json"), files, (),
                   "same", environment={name: "C", "PYTHONUTF8": "0"})  # fmt: skip
    audit = ("audit", "-", *SCORED, "--reference", "m", "--json")
    yield Case("surroundings", "file on standard input", audit, files, (), "same",
               stdin=PLAIN.encode())  # fmt: skip
    yield Case("surroundings", "nothing on standard input", audit, files, None, "refused")
    yield Case("surroundings", "Parquet bytes on standard input", audit, files, None, "refused",
               stdin=b"PAR1" * 100)  # fmt: skip
    yield Case("surroundings", "a token in the model's address",
               ("audit", "people.csv", *NAMED, "--model", "http://127.0.0.1:9/?token=secret"),
               files, None, "refused")  # fmt: skip
    yield Case("surroundings", "a key that is no key", ("key", "people.csv"), files, None,
               "refused")  # fmt: skip
    if hasattr(os, "mkfifo"):
        yield Case("surroundings", "a pipe that nobody writes to, as settings",
                   ("--config", "pipe", "demo"), {**files, "pipe": _pipe}, None,
                   "refused")  # fmt: skip


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def cases(base: dict[str, bytes]) -> Iterator[Case]:
    """Everything typed and everything around it."""
    yield from typed(base)
    yield from surroundings(base)
