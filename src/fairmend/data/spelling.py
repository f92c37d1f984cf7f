"""How the cells of a file are spelt: numbers, and what stands for a missing value.

A column of text that is mostly numbers is read as numbers or refused, never taken for words without
a note: every amount would count as a category of its own. `Spelling` holds the options of the
reader; `Findings` is what the cells are under these options.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairmend.data.stored import stored
from fairmend.errors import DataError, check, check_choice, warn

if TYPE_CHECKING:
    import polars as pl

MISSING = ("NA", "N/A", "na", "n/a", "NaN", "nan", "null", "NULL", "None", "-", "--", "?", ".")
"""What stands for a missing value among numbers, whoever wrote the file."""
FEW_DISTINCT = 500_000
"""A column of fewer distinct cells is read by these, each counted."""
MOSTLY = 0.5
"""A column with a larger share of numbers is meant as numbers."""
_EXPONENT = r"(?:[eE][-+]?\d+)?"
_BLANKS = " \t\u00a0\u202f"
_CURRENCIES = r"[$€£¥₹₽₩₺₪฿₫₴₦]|[A-Z]{3}|Fr\.|kr\.?|zł|Kč"
_GROUPS = {",": ",", ".": r"\.", "'": "'’", " ": _BLANKS, "_": "_"}
"""Marks between thousands, each with the characters that are one and the same to people."""
_LOOKS = re.compile(
    rf"[-+−]?\s*(?P<before>{_CURRENCIES})?\s*[-+−]?"
    rf"(?P<number>\d{{1,3}}(?:(?P<mark>[,.'’_{_BLANKS}])\d{{3}})+(?:[.,]\d*)?"
    rf"|\d+(?:\.\d*)?{_EXPONENT}|\.\d+|\d*,\d+)"
    rf"\s*(?P<after>{_CURRENCIES})?\s*(?P<percent>%)?"
)
"""A number in some spelling."""


@stored("Spelling")
@dataclass(frozen=True)
class Spelling:
    """The options by which the cells of a file are read."""

    missing: tuple[str, ...] = ()
    """What stands for a missing value in any column, beside an empty cell."""
    decimal: str | None = None
    """The decimal mark; None is a point by default."""
    thousands: str | None = None
    currency: str | None = None
    percent: bool = False
    words: tuple[str, ...] = ()
    """Columns that hold words though most of them look like numbers."""

    def __post_init__(self) -> None:
        if self.decimal is not None:
            check_choice("--decimal", self.decimal, (".", ","))
        if self.thousands is not None:
            fix = "It is the mark between thousands, as in 3,392.88."
            check_choice("--thousands", self.thousands, _GROUPS, fix)
        must, got = "must be another mark than that of decimals", f"got {self.thousands!r} for both"
        fix = "Say what the other is with --decimal."
        check(self.thousands != self.mark, "--thousands", must, got, fix)
        sign = "$" if self.currency is None else self.currency.strip()
        must, got = "must be the sign of a currency", f"got {self.currency!r}"
        fix = "For example --currency '$' or --currency EUR."
        check(sign and not re.search(r"\d", sign), "--currency", must, got, fix)

    @property
    def mark(self) -> str:
        return self.decimal or "."

    def options(self) -> Iterator[tuple[str, str]]:
        """The same as it is typed on a command line, each option with its field's name."""
        for name in ("decimal", "thousands", "currency"):
            if (value := getattr(self, name)) is not None:
                yield f"--{name} {shlex.quote(value)}", name
        if self.percent:
            yield "--percent", "percent"
        for name in ("missing", "words"):
            for one in getattr(self, name):
                yield f"--{name} {shlex.quote(one)}", name

    @cached_property
    def _between(self) -> str:
        """The characters that may stand between thousands."""
        if self.thousands is not None:
            return _GROUPS[self.thousands]
        return rf"\.{_BLANKS}" if self.decimal == "," else ""

    @cached_property
    def pattern(self) -> str:
        """What a number looks like; its sign is in the first two groups, then the number itself."""
        point, whole = re.escape(self.mark), r"\d+"
        if self._between:
            whole = rf"(?:\d+|\d{{1,3}}(?:[{self._between}]\d{{3}})+)"
        body = rf"{whole}(?:{point}\d*)?{_EXPONENT}|{point}\d+{_EXPONENT}"
        sign = f"(?:{re.escape(self.currency.strip())})?" if self.currency else ""
        return rf"^\s*([-+−]?)\s*{sign}\s*([-+−]?)({body})\s*{sign}\s*$"

    def plain(self, cells: pl.Expr) -> pl.Expr:
        """Numbers as programs write them; null for whatever is none."""
        import polars as pl

        bare = cells.str.replace(self.pattern, "${1}${2}${3}")
        if self._between:
            bare = bare.str.replace_all(f"[{self._between}]", "")
        if self.mark != ".":
            bare = bare.str.replace(self.mark, ".", literal=True)
        bare = bare.str.replace("−", "-", literal=True).str.strip_prefix("+")
        return pl.when(cells.str.contains(self.pattern)).then(bare)

    def advice(self, cell: str, column: str | None = None) -> str:
        """What to type so that a cell among numbers is read; a named column may hold words."""
        cell = cell.strip()
        words = f"; if the column holds words, --words {shlex.quote(column)}" if column else ""
        looks = _LOOKS.fullmatch(cell)
        if looks is None:
            return f"If that stands for a missing value, say --missing {shlex.quote(cell)}{words}."
        if re.fullmatch(r"[-+]?\d{19,}", cell):
            return f"No number of 64 bits holds it. If it is an id, name it with --id{words}."
        options = []
        if currency := looks["before"] or looks["after"]:
            options.append(f"--currency {shlex.quote(currency)}")
        if looks["percent"]:
            options.append("--percent")
        number, mark = looks["number"], looks["mark"]
        if number.count(",") == 1 and mark == "," and "." not in number:  # 1,234
            both = " ".join([*options, ""])
            whole, decimal = number.replace(",", ""), number.replace(",", ".")
            return (
                f"Say {both}--thousands , if that is {whole}, or "
                f"{both}--decimal , if it is {decimal}{words}."
            )
        comma = "," in number and mark != ","
        if comma or number.count(".") > 1:
            options.append("--decimal ,")  # and then dots or blanks stand between thousands
        if mark and not (mark == "." or (comma and mark.isspace())):
            between = next(key for key, marks in _GROUPS.items() if mark in marks)
            options.append("--thousands " + ('"\'"' if between == "'" else shlex.quote(between)))
        if not options:  # a decimal point where a comma is the mark, or no percent sign
            return f"Write all of the column in one way{words}."
        return f"If that is a number, say {' '.join(options)}{words}."

    def looks_like_number(self, cell: pl.Expr) -> pl.Expr:
        """Whether text is a number in some spelling, not only in this one."""
        alike = cell.str.strip_chars().str.contains(f"^(?:{_LOOKS.pattern})$")
        if self.decimal == ".":  # whoever sets it has seen the commas
            alike &= ~cell.str.contains(r"^[-+]?\d*,\d+$")
        return alike


# -------------------------------------------------------------------- what the cells are

_TIMES = "\0times"

MOST_DOUBTS = 4
"""Columns that one error names, so that nobody has to try again for each."""


@dataclass
class Findings:
    """The types of a file's columns, by all of their cells."""

    expressions: dict[str, pl.Expr] = field(default_factory=dict)
    """How columns of text become numbers or truth values; those that are words are left out."""
    notes: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, Callable[[], DataError]] = field(default_factory=dict)
    """Columns that are mostly numbers and cannot be read so."""

    def use(
        self,
        numbers: Iterable[str],
        labels: Collection[str] = (),
        show: Callable[[str], None] | None = None,
        shown: set[str] | None = None,
    ) -> None:
        """Refuse doubtful columns among those that are used, and show the notes on the others.

        ``labels`` are columns in which any word will do, such as groups. Without ``show`` notes are
        warnings. Notes on the columns in ``shown`` are left out; it grows by those that were shown.
        """
        used = [name for name in dict.fromkeys(numbers) if name not in labels]
        doubtful = [self.doubts[name]() for name in used if name in self.doubts]
        if doubtful:
            first, *others = doubtful[:MOST_DOUBTS]
            also = (f"Also {one.what}: {one.got}. {one.fix}" for one in others)
            raise DataError(first.what, first.must, first.got, " ".join([first.fix, *also]))
        shown = set() if shown is None else shown
        for name in (*used, *labels):
            if name in self.notes and name not in shown:
                (show or warn)(self.notes[name])
                shown.add(name)

    def note_tokens(self, tokens: Mapping[str, Mapping[str, int]]) -> None:
        """What was taken for missing values in columns whose type was known."""
        self.notes |= {name: note_on_missing(name, each) for name, each in tokens.items()}

    @classmethod
    def of(
        cls,
        rows: pl.LazyFrame,
        names: Sequence[str],
        spelling: Spelling,
        where: Callable[[str, int], str],
    ) -> Findings:
        """What columns of text hold; ``where`` names the place of a row of a column."""
        import polars as pl

        findings = cls()
        names = [name for name in names if name not in spelling.words]
        counts = rows.select(
            _counts(pl.col(name), spelling).alias(str(j)) for j, name in enumerate(names)
        )
        row = counts.collect(engine="streaming").row(0) if names else ()
        for name, count in zip(names, row, strict=True):
            cell, filled = pl.col(name), count["filled"]
            if filled == 0:
                continue
            if count["whole"] == filled:
                findings.expressions[name] = cell.cast(pl.Int64)
            elif filled == _item(rows, _truth(cell).count()):
                findings.expressions[name] = _truth(cell)
            elif count["real"] == filled and not _item(rows, _is_huge(cell).any()):
                findings.expressions[name] = cell.cast(pl.Float64)
            else:
                few = count["distinct"] < FEW_DISTINCT
                findings._read_closely(rows, name, spelling, where, few=few)
        return findings

    def _read_closely(
        self,
        rows: pl.LazyFrame,
        name: str,
        spelling: Spelling,
        where: Callable[[str, int], str],
        *,
        few: bool,
    ) -> None:
        """Cell by cell, with marks between thousands and the like; ``few`` are read once each."""
        import polars as pl

        all_rows, times = rows, pl.lit(1)
        if few:
            rows = rows.select(pl.col(name).value_counts(name=_TIMES)).unnest(name).collect().lazy()
            times = pl.col(_TIMES)
        cell = pl.col(name)
        token, percent = _is_token(cell), _is_percent(cell)
        kept = cell.is_not_null() & ~token
        in_percent = spelling.percent and _item(rows, percent.any())
        number = _number(cell, spelling, in_percent=in_percent)
        huge = _is_huge(spelling.plain(cell))
        fits = spelling.plain(cell).cast(pl.Int64, strict=False).is_not_null()
        alike = number.is_not_null() | spelling.looks_like_number(cell)
        counts = rows.select(
            kept=(times * kept).sum(),
            numbers=(times * (kept & number.is_not_null())).sum(),
            whole=(times * (kept & fits)).sum(),
            huge=(times * (kept & huge)).sum(),
            alike=(times * (kept & alike)).sum(),
        ).collect(engine="streaming").row(0, named=True)  # fmt: skip
        if counts["kept"] == 0:
            return
        all_whole = counts["whole"] + counts["huge"] == counts["kept"] and not in_percent
        if counts["numbers"] == counts["kept"] and not (all_whole and counts["huge"]):
            read = spelling.plain(cell).cast(pl.Int64) if all_whole else number
            self.expressions[name] = pl.when(~token).then(read)
            self._note_missing(rows, name, token, times)
        elif counts["alike"] > MOSTLY * counts["kept"]:
            odd = kept & (huge if all_whole and counts["huge"] else number.is_null())

            def doubt() -> DataError:
                first = all_rows.select(cell, odd=odd).with_row_index("\0row").filter("odd").head(1)
                at, text, _ = first.collect(engine="streaming").row(0)
                must = "must be a number, as most cells of the column are"
                fix = spelling.advice(text, name)
                return DataError(where(name, at), must, f"got {text!r}", fix)

            self.doubts[name] = doubt

    def _note_missing(self, rows: pl.LazyFrame, name: str, token: pl.Expr, times: pl.Expr) -> None:
        import polars as pl

        cell = pl.col(name).str.strip_chars()
        counted = (
            rows.filter(token)
            .group_by(cell)
            .agg((times * pl.col(name).is_not_null()).sum().alias(_TIMES))
        )
        tokens = counted.sort(_TIMES, name, descending=[True, False]).collect()
        if tokens.height:
            self.notes[name] = note_on_missing(name, dict(tokens.rows()))


def note_on_missing(name: str, tokens: Mapping[str, int]) -> str:
    """A note on words that were taken for missing values."""
    often = sorted(tokens.items(), key=lambda each: -each[1])
    cells = ", ".join(f"{token!r} in {count:,}" for token, count in often)
    are = "cells are" if sum(tokens.values()) > 1 else "cell is"
    return f"column {name!r} is read as numbers; {cells} {are} taken for missing values"


def _counts(cell: pl.Expr, spelling: Spelling) -> pl.Expr:
    """How many cells there are, and are numbers as programs write them; quick to count."""
    import polars as pl

    real = cell.cast(pl.Float64, strict=False).fill_nan(None)
    return pl.struct(
        filled=cell.count(),
        distinct=cell.approx_n_unique(),
        whole=cell.cast(pl.Int64, strict=False).count(),
        real=real.count() if spelling.mark == "." else pl.lit(0),
    )


def _item(rows: pl.LazyFrame, figure: pl.Expr) -> Any:
    return rows.select(figure).collect(engine="streaming").item()


def _is_huge(cell: pl.Expr) -> pl.Expr:
    """Whether text is a whole number that 64 bits do not hold."""
    import polars as pl

    return cell.str.contains(r"^[-+]?\d{19,}$") & cell.cast(pl.Int64, strict=False).is_null()


def _truth(cell: pl.Expr) -> pl.Expr:
    import polars as pl

    cases = (str.lower, str.upper, str.title)
    words = {case(word): word == "true" for word in ("true", "false") for case in cases}
    return cell.replace_strict(words, default=None, return_dtype=pl.Boolean)


def _is_token(cell: pl.Expr) -> pl.Expr:
    return cell.str.strip_chars().is_in(list(MISSING))


def _is_percent(cell: pl.Expr) -> pl.Expr:
    return cell.str.contains(r"\d\s*%\s*$")


def _number(cell: pl.Expr, spelling: Spelling, *, in_percent: bool) -> pl.Expr:
    """Text as numbers; in a column of percentages, only with the sign."""
    import polars as pl

    if not in_percent:
        return spelling.plain(cell).cast(pl.Float64, strict=False)
    bare = cell.str.replace(r"\s*%\s*$", "")
    # moved in the text: a division would not give back every number
    value = (spelling.plain(bare) + "e-2").cast(pl.Float64, strict=False)
    return pl.when(_is_percent(cell)).then(value)


# -------------------------------------------------------------------- types that are known


def as_known(
    column: pl.Series,
    kind: Any,
    spelling: Spelling,
    tokens: dict[str, Counter[str]],
    in_percent: dict[str, bool],
) -> tuple[pl.Series, int | None]:
    """Text in the type it has in the audit data, and the first row that is not of that type.

    Whole numbers may have become others. ``tokens`` counts what was taken for missing, by column;
    ``in_percent`` remembers which columns have percent signs.
    """
    import polars as pl

    rows, cell = column.to_frame(), pl.col(column.name)

    def read(expression: pl.Expr) -> pl.Series:
        return rows.select(expression.alias(column.name)).to_series()

    def first_lost(values: pl.Series, kept: pl.Series) -> int | None:
        lost = values.is_null() & kept
        return int(lost.arg_max() or 0) if lost.any() else None

    if not kind.is_numeric():
        truth = _truth(cell.str.to_lowercase()) if kind == pl.Boolean else None
        values = read(cell.cast(kind, strict=False) if truth is None else truth)
        return values, first_lost(values, column.is_not_null())
    token = read(_is_token(cell).fill_null(value=False))
    kept = column.is_not_null() & ~token
    if spelling.percent and column.name not in in_percent and kept.any():
        in_percent[column.name] = bool(read(_is_percent(cell)).any())
    signed = in_percent.get(column.name, False)
    values = read(spelling.plain(cell).cast(kind, strict=False))
    if signed or (kind.is_integer() and (values.is_null() & kept).any()):
        # what is too long for a whole number is too long for any
        huge = spelling.plain(cell).str.contains(r"^-?\d{19,}$").fill_null(value=False)
        values = read(pl.when(~huge).then(_number(cell, spelling, in_percent=signed)))
    values = values.set(token, None)
    row = first_lost(values, kept)
    if row is None:
        counts = dict(column.filter(token).str.strip_chars().value_counts().rows())
        if counts:
            tokens.setdefault(column.name, Counter()).update(counts)
    return values, row
