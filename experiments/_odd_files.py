"""Odd files: encodings, quotes, line ends, cells, formats, and things that are no tables."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import socket
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from _odd_people import COLUMNS, SCORED, Case, Row, as_csv, people, with_cells, without

Content = str | bytes | Callable[[Path], Any]
File = tuple[str, Content, str, Sequence[Row] | None, tuple[str, ...]]
"""Name, content, what must come of it, the people it means, further options."""

PLAIN = as_csv(people())
LINES = PLAIN.splitlines()
BYTES = PLAIN.encode()
_NONE: tuple[str, ...] = ()


def _table() -> Any:
    import polars as pl

    return pl.read_csv(BYTES, schema_overrides={"no": pl.String})


def _parquet(change: Callable[[bytes], bytes] = bytes, **settings: Any) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        _table().write_parquet(place, **settings)
        place.write_bytes(change(place.read_bytes()))

    return make


def _arrow(change: Callable[[bytes], bytes] = bytes) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        _table().write_ipc(place)
        place.write_bytes(change(place.read_bytes()))

    return make


def _as_frame(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda place: change(_table()).write_parquet(place)


def _spoilt(at: float, byte: int = 0xFF) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        place = int(at * (len(content) - 1))
        return content[:place] + bytes([byte]) + content[place + 1 :]

    return change


def _swapped(line: int, text: str) -> str:
    """The plain file with one line replaced; the header is line 1."""
    return "\n".join([*LINES[: line - 1], text, *LINES[line:]]) + "\n"


def _joined(rows: Sequence[Row], separator: str) -> str:
    return "\n".join(separator.join(row) for row in (COLUMNS, *rows)) + "\n"


def texts() -> Iterator[File]:
    """CSV files that are whole, in the many ways that people's programs write them."""
    yield "plain", PLAIN, "same", (), _NONE
    yield "semicolons", as_csv(people(), separator=";"), "same", (), _NONE
    yield "tabs", as_csv(people(), separator="\t"), "same", (), _NONE
    yield "bars", as_csv(people(), separator="|"), "either", (), _NONE
    yield "byte-order mark", b"\xef\xbb\xbf" + BYTES, "same", (), _NONE
    yield "line ends of Windows", as_csv(people(), newline="\r\n"), "same", (), _NONE
    yield "line ends of old Macs", as_csv(people(), newline="\r"), "either", (), _NONE
    yield "mixed line ends", BYTES.replace(b"\n", b"\r\n", 40), "either", (), _NONE
    yield "no last line end", PLAIN.rstrip("\n"), "same", (), _NONE
    yield "blank lines at the end", PLAIN + "\n\n", "either", (), _NONE
    yield "blank line in the middle", PLAIN.replace("\n", "\n\n", 20), "either", (), _NONE
    yield "everything in quotes", as_csv(people(), quoting=1), "same", (), _NONE
    yield "latin-1 text", with_text("tempé").encode("latin-1"), "refused", None, _NONE
    yield "UTF-8 text", with_text("tempé"), "same", (), _NONE
    yield "text in other alphabets", with_text("временная 臨時 مؤقت"), "same", (), _NONE
    yield "emoji", with_text("👩🏽‍💼"), "same", (), _NONE
    yield "UTF-16 with a mark", PLAIN.encode("utf-16"), "either", (), _NONE
    yield "UTF-16 without a mark", PLAIN.encode("utf-16-le"), "either", (), _NONE
    yield "UTF-32", PLAIN.encode("utf-32"), "either", (), _NONE
    yield "NUL bytes in a cell", with_text("a\0b"), "either", (), _NONE
    yield "only NUL bytes", b"\0" * 4096, "refused", None, _NONE
    yield "escape codes in a cell", with_text("\x1b[31mred"), "either", (), _NONE
    yield "formulas in cells", with_text('=cmd|"/C calc"!A0'), "either", (), _NONE
    yield "line breaks in cells", with_text("two\nlines"), "same", (), _NONE
    yield "quotes in cells", with_text('said "so"'), "same", (), _NONE
    yield "a cell of 100,000 letters", with_text("x" * 100_000), "either", (), _NONE
    yield "an unclosed quote", _swapped(9, LINES[8].replace(",", ',"', 1)), "refused", None, _NONE
    yield (
        "a quote within a cell",
        _swapped(9, LINES[8].replace("temp", 'te"mp')),
        "either",
        (),
        _NONE,
    )
    yield "blanks around commas", PLAIN.replace(",", " , "), "either", (), _NONE
    yield "comment first", "# made by hand\n" + PLAIN, "refused", None, _NONE
    yield "title line first", "Applicants of 2026,,,,,,\n" + PLAIN, "refused", None, _NONE
    yield "no header", "\n".join(LINES[1:]), "refused", None, _NONE
    yield "header twice", LINES[0] + "\n" + PLAIN, "refused", None, _NONE
    yield "header only", LINES[0] + "\n", "either", (), _NONE
    yield "header without a line end", LINES[0], "either", (), _NONE
    yield "empty", b"", "refused", None, _NONE
    yield "only blanks", b"  \n \n", "refused", None, _NONE
    yield "a row cut short", _swapped(9, LINES[8].rsplit(",", 2)[0]), "refused", None, _NONE
    yield "a row with a cell too many", _swapped(9, LINES[8] + ",7"), "refused", None, _NONE
    yield "a comma behind every row", _more(","), "refused", None, _NONE
    yield "a comma behind rows and header", "".join(f"{e},\n" for e in LINES), "either", (), _NONE
    yield "two cells too many in every row", _more(",1,2"), "refused", None, _NONE
    yield "amounts cut by their comma", _joined(_amounts("3,515"), ","), "refused", None, _NONE
    yield "one column twice", PLAIN.replace("age", "job", 1), "refused", None, _NONE
    yield "group column twice", PLAIN.replace("age", "sex", 1), "refused", None, _NONE
    yield "a column without a name", PLAIN.replace("age", "", 1), "either", (), _NONE
    yield "names in quotes", PLAIN.replace("age", '"age"', 1), "same", (), _NONE
    yield "names with blanks", PLAIN.replace("age", " age ", 1), "either", (), _NONE
    yield "a name of 200,000 letters", PLAIN.replace("age", "x" * 200_000, 1), "either", (), _NONE
    yield "group column named otherwise", PLAIN.replace("sex", "Sex", 1), "refused", None, _NONE
    yield "score column named otherwise", PLAIN.replace("score", "Score", 1), "refused", None, _NONE
    yield "one person", "\n".join(LINES[:2]), "either", (), _NONE
    yield "two people", "\n".join(LINES[:3]), "either", (), _NONE
    yield "columns in another order", _reordered(), "same", (), _NONE
    yield "rows in another order", _turned(), "same", (), _NONE


def with_text(job: str) -> str:
    """The job of every eighth person in other words: an input that no figure depends on."""
    return as_csv(with_cells("job", lambda _: job, every=8))


def _more(cells: str) -> str:
    return "\n".join([LINES[0], *(line + cells for line in LINES[1:])]) + "\n"


def _amounts(text: str) -> list[Row]:
    return with_cells("income", lambda _: text, every=3)


def _reordered() -> str:
    lines = [line.split(",") for line in LINES]
    return "\n".join(",".join([*line[3:], *line[:3]]) for line in lines) + "\n"


def _turned() -> str:
    return "\n".join([LINES[0], *reversed(LINES[1:])]) + "\n"


def cells() -> Iterator[File]:
    """Cells that are easily misread."""

    def changed(column: str, change: Callable[[str], str], every: int = 1) -> str:
        return as_csv(with_cells(column, change, every))

    def thousands(mark: str) -> Callable[[str], str]:
        return lambda text: f"{float(text):,.2f}".replace(",", mark)

    yield "amounts 3,392.88 in quotes", changed("income", thousands(",")), "either", (), _NONE
    yield "amounts 3'392.88", changed("income", thousands("'")), "either", (), _NONE
    yield "amounts 3 392.88", changed("income", thousands(" ")), "either", (), _NONE
    yield "amounts $3392.88", changed("income", lambda t: f"${t}"), "either", (), _NONE
    yield "amounts 3392.88 EUR", changed("income", lambda t: f"{t} EUR"), "either", (), _NONE
    yield (
        "amounts 3392,88",
        changed("income", lambda t: t.replace(".", ",")),
        "refused",
        None,
        _NONE,
    )
    yield ("amounts 3392,88 as told", changed("income", lambda t: t.replace(".", ",")), "either", (),
           ("--decimal", ","))  # fmt: skip
    yield "scores 0,731", changed("score", lambda t: t.replace(".", ",")), "refused", None, _NONE
    yield (
        "scores in percent",
        changed("score", lambda t: f"{100 * float(t):.1f}%"),
        "either",
        (),
        _NONE,
    )
    yield (
        "scores from 0 to 100",
        changed("score", lambda t: f"{100 * float(t):.1f}"),
        "either",
        (),
        _NONE,
    )
    for token in ("NA", "N/A", "-", "?", "null", "None", "NaN", "#N/A", ".", "missing", "unknown"):
        for every in (5, 9):
            yield (f"{token} in one of {every} incomes", changed("income", lambda _, t=token: t, every),
                   "either", (), _NONE)  # fmt: skip
    yield (
        "NA in one of 5 incomes, told",
        changed("income", lambda _: "NA", 5),
        "either",
        (),
        ("--missing", "NA"),
    )
    yield "infinite income", changed("income", lambda _: "inf", 50), "either", (), _NONE
    yield "income 1e308", changed("income", lambda _: "1e308", 50), "either", (), _NONE
    yield "income 1e999", changed("income", lambda _: "1e999", 50), "either", (), _NONE
    yield "income of 25 digits", changed("income", lambda _: "1" * 25, 50), "either", (), _NONE
    yield "negative zero", changed("income", lambda _: "-0.0", 50), "either", (), _NONE
    yield "hexadecimal", changed("income", lambda _: "0x1F", 50), "either", (), _NONE
    yield "numbers with blanks", changed("income", lambda t: f" {t} "), "either", (), _NONE
    yield "numbers with a plus", changed("income", lambda t: f"+{t}"), "either", (), _NONE
    yield "numbers in Arabic digits", changed("age", _arabic), "either", (), _NONE
    yield "ages as 45.0", changed("age", lambda t: f"{t}.0"), "either", (), _NONE
    yield "ages 045", changed("age", lambda t: f"0{t}"), "either", (), _NONE
    yield "some groups missing", changed("sex", lambda _: "", 7), "either", without(7), _NONE
    yield "group with a blank behind", changed("sex", lambda t: f"{t} ", 7), "either", (), _NONE
    yield "all groups missing", changed("sex", lambda _: ""), "refused", None, _NONE
    yield "one group only", changed("sex", lambda _: "f"), "refused", None, _NONE
    yield "some outcomes missing", changed("paid", lambda _: "", 7), "either", without(7), _NONE
    yield "all outcomes missing", changed("paid", lambda _: ""), "refused", None, _NONE
    yield "one outcome only", changed("paid", lambda _: "yes"), "refused", None, _NONE
    yield "three outcomes", changed("paid", lambda _: "perhaps", 7), "refused", None, _NONE
    yield "outcomes in capitals now and then", changed("paid", str.upper, 7), "refused", None, _NONE
    yield "outcome with a blank behind", changed("paid", lambda t: f"{t} ", 7), "either", (), _NONE
    yield "a score missing", changed("score", lambda _: "", 50), "refused", None, _NONE
    yield "a word among scores", changed("score", lambda _: "error", 50), "refused", None, _NONE
    yield "a score of NaN", changed("score", lambda _: "nan", 50), "refused", None, _NONE
    for number in ("2", "-1"):
        odd = with_cells("score", lambda _, n=number: n, 50)
        yield f"a score of {number}", as_csv(odd), "either", odd, _NONE
    yield "a score of 1e400", changed("score", lambda _: "1e400", 50), "refused", None, _NONE
    same = with_cells("score", lambda _: "0.7")
    yield "scores all the same", as_csv(same), "either", same, _NONE
    yield "ids missing", changed("no", lambda _: "", 50), "refused", None, _NONE
    for name, change in (("as 5.0", lambda t: f"{int(t)}.0"), ("of 32 digits", lambda t: t * 8)):
        odd = with_cells("no", change)
        yield f"ids {name}", as_csv(odd), "either", odd, _NONE
    twice = [row for row in people() for _ in range(2)]
    yield "ids twice", as_csv(twice), "either", twice, _NONE


def _arabic(text: str) -> str:
    return text.translate({ord("0") + k: 0x660 + k for k in range(10)})


def others() -> Iterator[File]:
    """Formats that are no CSV, whole and damaged."""
    import polars as pl

    yield "Parquet", _parquet(), "same", (), _NONE
    for codec in ("snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed"):
        yield f"Parquet, {codec}", _parquet(compression=codec), "same", (), _NONE
    yield "Parquet named CSV", _parquet(), "same", (), _NONE
    yield "Parquet cut short", _parquet(lambda b: b[: len(b) // 2]), "refused", None, _NONE
    yield "Parquet without its end", _parquet(lambda b: b[:-8]), "refused", None, _NONE
    yield "Parquet, its first four bytes", b"PAR1", "refused", None, _NONE
    for at in (0.05, 0.3, 0.6, 0.9, 0.99, 0.999):
        for byte in (0x00, 0x7F, 0xFF):
            yield (
                f"Parquet with {byte:#04x} at {at:.1%}",
                _parquet(_spoilt(at, byte)),
                "either",
                (),
                _NONE,
            )
    yield "Parquet, no rows", _as_frame(lambda t: t.head(0)), "either", (), _NONE
    yield (
        "Parquet, lists in a column",
        _as_frame(lambda t: t.with_columns(pl.concat_list("age", "age").alias("age"))),
        "refused",
        None,
        _NONE,
    )
    yield (
        "Parquet, structs in a column",
        _as_frame(lambda t: t.with_columns(pl.struct("age").alias("age"))),
        "refused",
        None,
        _NONE,
    )
    yield (
        "Parquet, bytes in a column",
        _as_frame(lambda t: t.with_columns(pl.col("job").cast(pl.Binary))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, categories",
        _as_frame(lambda t: t.with_columns(pl.col("job").cast(pl.Categorical))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, decimals",
        _as_frame(lambda t: t.with_columns(pl.col("income").cast(pl.Decimal(12, 2)))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, 32-bit numbers",
        _as_frame(lambda t: t.with_columns(pl.col("income").cast(pl.Float32))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, dates among inputs",
        _as_frame(lambda t: t.with_columns(pl.lit("2026-01-02").str.to_date().alias("age"))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, times with a zone",
        _as_frame(
            lambda t: t.with_columns(
                pl.lit("2026-01-02").str.to_datetime().dt.replace_time_zone("UTC").alias("age")
            )
        ),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, durations",
        _as_frame(lambda t: t.with_columns(pl.duration(days=pl.col("age")).alias("age"))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, all of a column missing",
        _as_frame(lambda t: t.with_columns(pl.lit(None).alias("age"))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, groups true and false",
        _as_frame(lambda t: t.with_columns((pl.col("sex") == "f").alias("sex"))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, outcomes true and false",
        _as_frame(lambda t: t.with_columns((pl.col("paid") == "yes").alias("paid"))),
        "either",
        (),
        _NONE,
    )
    yield (
        "Parquet, ids are numbers",
        _as_frame(lambda t: t.with_columns(pl.col("no").cast(pl.Int64))),
        "either",
        with_cells("no", lambda t: f"{int(t)}"),
        _NONE,
    )
    yield "Arrow file", _arrow(), "same", (), _NONE
    yield "Arrow cut short", _arrow(lambda b: b[: len(b) // 2]), "refused", None, _NONE
    for at in (0.02, 0.2, 0.5, 0.9, 0.995):
        yield f"Arrow with 0xff at {at:.1%}", _arrow(_spoilt(at)), "either", (), _NONE
    yield "Arrow stream", lambda place: _table().write_ipc_stream(place), "either", (), _NONE
    yield "gzip", gzip.compress(BYTES), "either", (), _NONE
    yield "bzip2", bz2.compress(BYTES), "either", (), _NONE
    yield "xz", lzma.compress(BYTES), "either", (), _NONE
    yield "zip", _zipped, "either", (), _NONE
    yield "JSON", json.dumps(_records()), "either", (), _NONE
    yield "JSON lines", "\n".join(map(json.dumps, _records())), "either", (), _NONE
    yield "Excel of today", _excel, "either", (), _NONE
    yield "Excel of old", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 3000, "refused", None, _NONE
    yield "a picture", b"\x89PNG\r\n\x1a\n" + os.urandom(2000), "refused", None, _NONE
    yield "a PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "refused", None, _NONE
    yield "a program", b"\x7fELF" + os.urandom(500), "refused", None, _NONE
    yield "HTML", "<!doctype html><html><body><table></table></body></html>", "refused", None, _NONE
    yield "SQLite", b"SQLite format 3\0" + b"\0" * 4000, "refused", None, _NONE
    yield "random bytes", os.urandom(5000), "refused", None, _NONE
    yield "an artifact", b"PK\x03\x04" + os.urandom(300), "refused", None, _NONE
    yield "a folder", lambda place: place.mkdir(), "refused", None, _NONE
    yield "a link to nothing", lambda place: place.symlink_to("nowhere"), "refused", None, _NONE
    yield "a link to itself", lambda place: place.symlink_to(place.name), "refused", None, _NONE
    yield "a socket", _socket, "refused", None, _NONE
    yield "endless zeros", lambda place: place.symlink_to("/dev/zero"), "refused", None, _NONE
    yield "endless noise", lambda place: place.symlink_to("/dev/urandom"), "refused", None, _NONE
    yield "the null device", lambda place: place.symlink_to("/dev/null"), "refused", None, _NONE


def _zipped(place: Path) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("people.csv", PLAIN)


def _records() -> list[dict[str, str]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in people()]


def _excel(place: Path) -> None:
    """The smallest file that looks like a workbook from outside."""
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")


def _socket(place: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(place))


_SUFFIX = {"Parquet": ".parquet", "Arrow": ".arrow", "Parquet named CSV": ".csv"}


def cases(base: dict[str, bytes]) -> Iterator[Case]:
    """Every file through every command that reads one; ``base`` is a repair of the plain file."""
    for kind, listed in (("text", texts()), ("cells", cells()), ("formats", others())):
        for name, content, must, means, options in listed:
            known = next((s for start, s in _SUFFIX.items() if name == start), None)
            suffix = known or next((s for w, s in _SUFFIX.items() if name.startswith(w)), ".csv")
            file, files = f"people{suffix}", {f"people{suffix}": content}
            not_read = name in _INPUTS_ALONE
            yield Case(f"files, {kind}", f"audit: {name}",
                       ("audit", file, *SCORED, *options, "--reference", "m", "--json"),
                       files, () if not_read else means, "either" if not_read else must)  # fmt: skip
            yield Case(f"files, {kind}", f"repair: {name}",
                       ("repair", file, *SCORED, *options, "--metric", "sp", "--json",
                        "--allow-partial", "-o", "new.fairmend"), files, means,
                       must if must == "refused" else "either", output="new.fairmend")  # fmt: skip
            if means:  # other people, about whom the base repair decides otherwise
                continue
            about_outcomes, few = "outcome" in name, name in _FEW or name in _FINE_TO_APPLY
            yield Case(f"files, {kind}", f"apply: {name}",
                       ("apply", "base.fairmend", file, "-o", "out", "--id", "no", "--key-file",
                        "base.key", "--emit", "both", *options), {**files, **base},
                       () if about_outcomes or few else means,
                       "done" if few else "either" if about_outcomes else must,
                       output="out")  # fmt: skip


_INPUTS_ALONE = ("Parquet, lists in a column", "Parquet, structs in a column")
"""Of an input, which an audit of recorded scores does not read: the figures stand."""
_FINE_TO_APPLY = ("all groups missing", "one group only", "ids missing")
"""Nobody to repair, or nobody among them whose edit is drawn: the decisions stand."""
_FEW = ("header only", "header without a line end", "one person", "two people", "Parquet, no rows")
"""To decide about one person or nobody is no mistake."""


def folders(base: dict[str, bytes]) -> Iterator[Case]:
    """Many files at once, one of them odd."""
    for name, content, must, _, options in (*texts(), *others()):
        if must != "refused" or name == "a folder":  # which a pattern may well match
            continue
        odd = {"in/a.csv": PLAIN, "in/b.csv": content}
        yield Case("folders", f"apply: {name} among others",
                   ("apply", "base.fairmend", "in/*.csv", "-o", "out", "--id", "no", "--key-file",
                    "base.key", "--emit", "both", *options), {**odd, **base}, None, "refused")  # fmt: skip
        yield Case("folders", f"audit: {name} among others",
                   ("audit", "in/*.csv", *SCORED, "--reference", "m", "--json"), odd, None,
                   "refused")  # fmt: skip
