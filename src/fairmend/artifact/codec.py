"""Values as JSON and tables, and back: a list of classes by tag, nothing found by import.

Plain values are themselves; anything else is an object whose ``$`` says what it is. A class comes
back only if it is registered (`fairmend.data.stored`), with its fields alone, each of the type its
annotation says, and in shapes that fit together. A field that an older file lacks takes its
default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import numpy as np

import fairmend.classifier  # noqa: F401 - its imports register every class that is stored
from fairmend._version import __version__
from fairmend.artifact.buffers import arrow, read_table, write_table
from fairmend.artifact.frames import StoredFrame, Tables, load_frame, store_frame
from fairmend.data.columns import Frame, scalar
from fairmend.data.limits import disagreement, field_fault
from fairmend.data.stored import Stored, stored_by_tag, stored_class
from fairmend.errors import DAMAGED, ArtifactError
from fairmend.measure.disparity import Disparity, find_metric, metric_names
from fairmend.model.blackbox import BlackBox
from fairmend.status import PlanStatus

MOST_JSON = 8 << 20
MOST_VALUES = 400_000
"""Of one JSON member: parsing more could take more memory than is worth the risk."""
_MANY = 256
"""A tuple of more texts than this becomes a table."""


class NotStored:
    """Stands for code of the caller's that a repair needs no more once it is fitted."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<{self.__name__}, not stored>"

    def __call__(self, *_: Any) -> NoReturn:
        raise ArtifactError(
            self.__name__,
            "must be given again for this",
            "it is code of yours, which an artifact does not hold",
            "Set it with set_params(outcome_model=...), or in method_options.",
        )

    @property
    def predict_proba(self) -> NoReturn:
        """A model of outcomes is asked for this; the answer says what to do."""
        self()


_DTYPES = ("float64", "int64", "bool")


# -------------------------------------------------------------------- JSON, strictly


def write(value: Any) -> bytes:
    """JSON of one spelling: the same values give the same bytes."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), indent=None).encode("ascii")
    if len(text) > MOST_JSON or _values(text) > MOST_VALUES:
        raise ArtifactError(
            "the repair",
            f"must have fewer than {MOST_VALUES:,} values outside its tables",
            f"got about {_values(text):,}",
            "Bin columns of very many distinct dates or categories.",
        )
    return text


def parse(what: str, content: bytes) -> Any:
    """JSON without repeated keys, NaN or more values and nesting than we write."""

    def refuse(got: str) -> NoReturn:
        raise ArtifactError(what, "must be plain JSON", got, DAMAGED)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(pairs) if len(dict(pairs)) == len(pairs) else refuse("a key is there twice")

    def number(text: str) -> float:
        return float(text) if np.isfinite(float(text)) else refuse(f"it holds {text}")

    if len(content) > MOST_JSON or _values(content) > MOST_VALUES:
        refuse(f"it holds {len(content):,} bytes and about {_values(content):,} values")
    try:
        return json.loads(
            content.decode("ascii"),
            object_pairs_hook=once,
            parse_constant=number,
            parse_float=number,
        )
    except RecursionError:
        refuse("it is nested too deeply")
    except ArtifactError:
        raise
    except ValueError as error:
        refuse(f"it is not: {str(error)[:100]}")


def _values(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


# -------------------------------------------------------------------- to JSON


class Encoder:
    """Collects the tables that values need."""

    def __init__(self) -> None:
        self.members: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._frames: list[tuple[Frame, StoredFrame]] = []
        self._types: list[dict[str, Any]] = []

    def encode(self, given: Any, where: str) -> Any:
        """A value as JSON; ``where`` names it to the user, should it be impossible."""
        value: Any = scalar(given)
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            finite = not isinstance(value, float) or np.isfinite(value)
            return value if finite else {"$": "float", "is": str(value)}
        for tag, (cls_, spell, _) in _SCALARS.items():
            if type(value) is cls_:
                return {"$": tag, "is": spell(value)}
        if type(value).__name__ in ("NAType", "NaTType"):
            return {"$": "missing", "is": type(value).__name__}
        if isinstance(value, tuple | list):
            if len(value) > _MANY and all(isinstance(one, str) for one in value):
                table = self._put({"values": arrow().array(value, "string")})
                kind = type(value).__name__
                return {"$": "texts", "of": kind, "table": table, "rows": len(value)}
            return {
                "$": "tuple" if isinstance(value, tuple) else "list",
                "of": [self.encode(one, where) for one in value],
            }
        if isinstance(value, Mapping):
            within = f"{where}[{{!r}}]" if where else "{}"
            pairs = [(self.encode(k, where), self.encode(v, within.format(k)))
                     for k, v in value.items()]  # fmt: skip
            return {"$": "dict", "of": pairs}
        if isinstance(value, BlackBox):
            return {"$": "box"}
        if isinstance(value, np.ndarray) and value.dtype.name in _DTYPES:
            return self._array(value)
        if isinstance(value, Frame):
            return {"$": "frame", "of": self.encode(self._frame(value), where)}
        cls: type = type(value)
        if (about := stored_class(cls)) is not None:
            return {"$": about.tag} | {
                name: self.encode(getattr(value, attribute), f"{where}.{attribute}")
                for name, attribute in about.fields.items()
            }
        if isinstance(value, Disparity) and find_metric(value.name) == value:
            return {"$": "rate", "is": value.name}
        raise _not_storable(where, value)

    def _array(self, array: Any) -> dict[str, Any]:
        flat = arrow().array(array.ravel())
        return {
            "$": "array",
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "table": self._put({"values": flat}),
        }

    def _frame(self, frame: Frame) -> StoredFrame:
        for other, stored in self._frames:
            if other is frame:
                return stored
        stored = store_frame(frame, Tables(self._put, self._get, _spell, _read))
        self._frames.append((frame, stored))
        return stored

    def _put(self, columns: dict[str, Any]) -> int:
        """The place of a table; one that is there already is not stored twice."""
        content = write_table(columns)
        if content not in self._places:
            self._places[content] = len(self.members)
            self.members.append(content)
        return self._places[content]

    def _get(self, place: int, types_: dict[str, Any], rows: int) -> Any:
        return read_table("a table", self.members[place], types_, rows)


def _spell(value: Any) -> str:
    """An entry of a column of objects, as text."""
    if isinstance(value, np.generic):
        raise ArtifactError("an entry", "must be a plain Python value", f"got {value!r}",
                            "Give the column a NumPy type.")  # fmt: skip
    return write(Encoder().encode(value, "an entry")).decode("ascii")


def _read(text: str) -> Any:
    entry = Decoder(lambda _: b"").decode(parse("an entry", text.encode("ascii")))
    if isinstance(entry, list | tuple | dict):
        raise ArtifactError("an entry", "must be a single value", "got several", DAMAGED)
    return entry


def _not_storable(where: str, value: Any) -> ArtifactError:
    first = where.replace("[", ".").split(".", maxsplit=1)[0]
    fixes = {
        "cost": "Use 'l1', 'l2' or 'squared_l2' with weights, immutable, one_way and max_edits.",
        "disparity": f"Use {', '.join(metric_names())} or sums of them, or register yours: give it "
        "words with a title.",
        "groups_from": "Name the column of X that holds the groups.",
        "outcome_model": "Use 'auto', 'logistic' or 'empirical'.",
    }
    got = f"got {value!r:.80}"
    if isinstance(value, Disparity):
        got = f"got {value.name!r}, a metric of your own"
    elif callable(value):
        got = f"got the function {getattr(value, '__name__', value)!r:.80}"
    return ArtifactError(
        where,
        "must be data to be stored: an artifact holds no code",
        got,
        fixes.get(first, "Give it as numbers or text."),
    )


# -------------------------------------------------------------------- from JSON


class Decoder:
    """Makes values of JSON again; tables are asked for by their place, and read once."""

    def __init__(
        self, member: Callable[[int], bytes], model: BlackBox | None = None, writer: str = ""
    ) -> None:
        self.used: set[int] = set()
        self._member, self._model, self._writer = member, model, writer
        self.frames: dict[str, Frame] = {}
        self.made: list[Any] = []
        """Every object of a class, for those who must see that they agree."""

    def decode(self, value: Any) -> Any:
        """A value of JSON; ArtifactError for anything that we would not have written."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return _text(value)
        if not isinstance(value, dict) or not isinstance(value.get("$"), str):
            raise _odd("a value that says not what it is")
        tag, rest = value["$"], {key: one for key, one in value.items() if key != "$"}
        if (about := stored_by_tag(tag)) is not None:
            return self._object(about, rest)
        if tag not in _TAGS or sorted(rest) != sorted(_TAGS[tag]):
            raise unknown(f"{tag!r:.60}", self._writer)
        try:
            if tag in _SCALARS:
                return _SCALARS[tag][2](rest["is"])
            return getattr(self, f"_{tag}")(**rest)
        except (TypeError, ValueError, KeyError, OverflowError, InvalidOperation) as error:
            if isinstance(error, ArtifactError):
                raise
            raise _odd(f"{tag!r} of {rest!r:.60}") from None

    # ---------------------------------------------------------------- one method per tag

    def _float(self, **rest: Any) -> float:
        return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[rest["is"]]

    def _missing(self, **rest: Any) -> Any:
        import pandas as pd

        return {"NAType": pd.NA, "NaTType": pd.NaT}[rest["is"]]

    def _rate(self, **rest: Any) -> Disparity:
        metric = find_metric(_text(rest["is"]))
        if metric is None:
            raise ArtifactError(
                "artifact",
                "must use metrics that are registered here",
                f"got {rest['is']!r:.60}",
                "Import the module that declares the metric first, or install its package.",
            )
        return metric

    def _box(self) -> BlackBox:
        if self._model is None or not self._model.can_query:
            raise _odd("a model")
        return self._model

    def _tuple(self, of: Any) -> tuple[Any, ...]:
        return tuple(map(self.decode, _listed(of)))

    def _list(self, of: Any) -> list[Any]:
        return list(map(self.decode, _listed(of)))

    def _dict(self, of: Any) -> dict[Any, Any]:
        pairs = [(self.decode(key), self.decode(one)) for key, one in _listed(of)]
        if len(dict(pairs)) < len(pairs):
            raise _odd("a key that is there twice")
        return dict(pairs)

    def _texts(self, of: str, table: int, rows: int) -> Any:
        column = self.table(table, {"values": arrow().string()}, rows)["values"]
        return {"tuple": tuple, "list": list}[of](column.to_pylist())

    def _array(self, dtype: str, shape: Any, table: int) -> Any:
        sizes = [_whole(size) for size in _listed(shape)]
        if dtype not in _DTYPES or not 1 <= len(sizes) <= 2:
            raise _odd(f"an array of {dtype!r}")
        kind = {"float64": arrow().float64(), "int64": arrow().int64(), "bool": arrow().bool_()}
        rows = sizes[0] * (sizes[1] if len(sizes) == 2 else 1)
        column = self.table(table, {"values": kind[dtype]}, rows)["values"]
        array = column.to_numpy(zero_copy_only=False).reshape(sizes)
        array.setflags(write=False)
        return array

    def _frame(self, of: Any) -> Frame:
        key = json.dumps(of, sort_keys=True)
        if key not in self.frames:
            stored = self.decode(of)
            if not isinstance(stored, StoredFrame):
                raise _odd("a table")
            self._check_stored(stored)
            try:
                self.frames[key] = load_frame(
                    stored, Tables(lambda _: 0, self.table, _spell, _read)
                )
            except ArtifactError:
                raise
            except Exception:  # whatever a container says to columns it would not have made
                raise _odd(f"a {stored.kind} table with columns of other types") from None
        return self.frames[key]

    def _check_stored(self, stored: StoredFrame) -> None:
        if not len(stored.names) == len(stored.columns) > 0 or stored.rows < 0:
            raise _odd("a table without columns")
        if not all(type(name) in (str, int) for name in stored.names):
            raise _odd("a table whose columns have no names")
        if len(set(stored.names)) < len(stored.names):
            raise _odd("a table that names a column twice")

    def table(self, place: int, types_: dict[str, Any], rows: int) -> Any:
        """A member as Arrow arrays by name."""
        self.used.add(_whole(place))
        return read_table(f"artifact member {place}", self._member(place), types_, _whole(rows))

    def _object(self, about: Stored, rest: dict[str, Any]) -> Any:
        if more := rest.keys() - about.fields.keys() - about.dropped:
            names = ", ".join(f"{about.tag}.{name:.60}" for name in sorted(more))
            raise unknown(names, self._writer)
        values = {
            about.fields[name]: self.decode(value)
            for name, value in rest.items()
            if name in about.fields
        }
        if missing := about.needed - values.keys():
            raise _odd(f"{about.tag} without {', '.join(sorted(missing))}")
        if any(isinstance(value, NotStored) for value in values.values()):
            raise _odd(f"{about.tag} with code")
        if (wrong := field_fault(about.cls, values)) is not None:
            raise _odd(wrong)
        made = about.cls(**values)
        if (wrong := disagreement(made)) is not None:
            raise _odd(wrong)
        self.made.append(made)
        return made


def _days(parts: Any) -> timedelta:
    if any(type(part) is not int for part in _listed(parts)):
        raise _odd(f"{parts!r:.60} for whole numbers")
    return timedelta(*parts)


def _from_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: read(_text(value))


_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Decimal": (Decimal, str, _from_text(Decimal)),
    "PlanStatus": (PlanStatus, lambda one: one.name, _from_text(PlanStatus.__getitem__)),
    "bytes": (bytes, bytes.hex, _from_text(bytes.fromhex)),
    "date": (date, date.isoformat, _from_text(date.fromisoformat)),
    "datetime": (datetime, datetime.isoformat, _from_text(datetime.fromisoformat)),
    "not stored": (NotStored, lambda one: one.__name__, _from_text(NotStored)),
    "time": (time, time.isoformat, _from_text(time.fromisoformat)),
    "timedelta": (timedelta, lambda one: [one.days, one.seconds, one.microseconds], _days),
}
"""Values that JSON does not know: their type, how they are written, and how they are read."""
_TAGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*_SCALARS, "float", "missing", "rate"), ("is",)),
    **dict.fromkeys(("tuple", "list", "dict", "frame"), ("of",)),
    "texts": ("of", "table", "rows"),
    "array": ("dtype", "shape", "table"),
    "box": (),
}


def _odd(got: str) -> ArtifactError:
    return ArtifactError("artifact", "must hold only what fairmend writes", f"got {got}", DAMAGED)


def unknown(what: str, writer: str) -> ArtifactError:
    """The refusal of a field or tag that this version does not know; newer ones may have more."""
    if _release(writer) <= _release(__version__):
        return _odd(what)
    return ArtifactError(
        "artifact",
        f"must hold what fairmend {__version__} can read",
        f"got {what}, written by fairmend {writer}",
        f"Install fairmend {writer} or newer.",
    )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version.partition("+")[0])[:3])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _odd(f"{value!r:.60} for text")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _odd("half of a letter")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise _odd(f"{value!r:.60} for a number of rows")
    return value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _odd(f"{value!r:.60} for a list")
    return value


WORDS = (bool, int, float, str, date, Decimal)
"""Types that a label of y may have in an artifact."""
