"""Artifacts by a careful forger: contents changed at will, and every hash made to fit.

Small repairs of every kind, their members, and what becomes of a file that was made of other
members: it must be refused with an `ArtifactError`, or load and give everybody a chance in [0, 1].
"""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from fairmend import ArtifactError, BlackBox, FairmendWarning, load
from fairmend.artifact import inspect, store
from fairmend.artifact.container import MANIFEST, _entry, opened
from fairmend.artifact.manifest import Member, write_manifest
from fairmend.classifier import RepairedClassifier

KEY = bytes(range(32))
ASKED = 6
"""Rows that are put to a repair."""

# -------------------------------------------------------------------- people and vendors


def people(n: int = 40) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """In group b incomes are lower, and the vendor's cut refuses more of them."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 2, n)
    income = np.round(rng.normal(3.0 - 1.2 * place, 1.0, n), 1)
    X = pd.DataFrame({"income": income, "member": rng.integers(0, 2, n)})
    y = (rng.random(n) < 1 / (1 + np.exp(-(income - 2.5)))).astype(int)
    return X, y, np.array(["a", "b"])[place]


def recorded(X: pd.DataFrame) -> pd.DataFrame:
    """With the vendor's answers, of which some rest on what nobody recorded."""
    return X.assign(said=np.round(np.clip(vendor(X) + 0.05 * X.member, 0, 1), 2))


def mixed(X: pd.DataFrame) -> pd.DataFrame:
    """Text, truth values, dates, categories, objects, and missing values among them."""
    rng = np.random.default_rng(1)
    n = len(X)
    holes = rng.random(n) < 0.2
    day = np.datetime64("2020-01-01") + rng.integers(0, 3, n)
    return X.assign(
        town=pd.Series(rng.choice(["Aix", "Ålborg"], n), dtype="str").mask(holes),
        job=pd.Categorical(rng.choice(["x", "y"], n), ["z", "y", "x"], ordered=True),
        since=pd.Series(day.astype("datetime64[us]")).mask(holes),
        zone=pd.Series(day.astype("datetime64[ns]")).dt.tz_localize("Europe/Berlin"),
        cars=pd.Series(rng.integers(0, 3, n), dtype="Int64").mask(holes),
        owns=pd.Series(rng.random(n) < 0.5, dtype="boolean").mask(holes),
        flag=rng.random(n) < 0.5,
        odd=rng.choice(np.array(["t", 1, 2.5, None, True], object), n),
    )


def mixed_polars(X: pd.DataFrame) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    n = len(X)
    words = rng.choice(["x", "y"], n).tolist()
    clock = pl.Series(rng.integers(0, 2, n) * 3_600_000_000_000).cast(pl.Time)
    return pl.DataFrame(
        {
            "income": X.income.to_numpy(),
            "town": pl.Series([None if one == "x" else one for one in words]),
            "job": pl.Series(words, dtype=pl.Categorical),
            "enum": pl.Series(words, dtype=pl.Enum(["x", "y", "z"])),
            "day": pl.Series(np.datetime64("2020-01-01") + rng.integers(0, 3, n)),
            "clock": clock,
            "flag": rng.random(n) < 0.5,
        }
    )


def told(X: pd.DataFrame) -> pd.DataFrame:
    """With an input that tells the group, which a blind rule keeps out."""
    return X.assign(sex=people(len(X))[2])


def vendor(rows: Any) -> np.ndarray:
    """A chance by the first column; whatever it holds, there is an answer."""
    frame = rows if isinstance(rows, np.ndarray) else rows.to_numpy()
    first = pd.to_numeric(pd.Series(frame[:, 0], dtype=object), errors="coerce").to_numpy(float)
    score = np.clip(np.nan_to_num(first, nan=0.0, posinf=9.0, neginf=-9.0), -9, 9)
    return np.round(1 / (1 + np.exp(-(score - 2.0))), 2)


def labels(rows: Any) -> np.ndarray:
    return (vendor(rows) > 0.5).astype(int)


def soft() -> BlackBox:
    return BlackBox(vendor, soft=True)


KINDS: dict[str, dict[str, Any]] = {
    "least_change by score": {},
    "least_change by outcome": {"model": labels, "disparity": "fnr"},
    "least_change by cost": {"rank": "cost"},
    "order": {"method": "order"},
    "order, soft": {"method": "order", "model": soft},
    "soft": {"model": soft, "disparity": "fnr"},
    "transport": {"method": "transport", "data": lambda X: X.round().to_numpy()},
    "joint": {"disparity": ["fnr", "fpr"]},
    "two_sided": {"two_sided": True},
    "do_no_harm": {"disparity": ["sp", "fpr"], "do_no_harm": True, "favorable_label": 1},
    "weights": {"weighted": True, "immutable": ["x1"]},
    "mixed columns": {"data": mixed, "one_way": {"income": "up"}, "immutable": ["zone"]},
    "mixed columns in Polars": {"data": mixed_polars},
    "recorded": {"model": "said", "data": recorded},
    "blind": {"blind": True, "disparity": "fnr", "data": told},
    "blind, joint": {"blind": True, "disparity": ["fnr", "fpr"],
                     "rank": {"false_positive": 1, "false_negative": 2}},
}  # fmt: skip


def model_of(kind: str) -> Any:
    """The vendor of a kind of repair."""
    model = KINDS[kind].get("model", vendor)
    return model() if model is soft else model


def fitted(kind: str) -> RepairedClassifier:
    """A small repair of a kind."""
    about = KINDS[kind]
    X, y, s = people()
    settings = {k: v for k, v in about.items() if k not in ("model", "data", "weighted")}
    weight = np.random.default_rng(2).random(len(y)) if about.get("weighted") else None
    mended = RepairedClassifier(model_of(kind), **{"key": KEY, "random_state": 0, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return mended.fit(about.get("data", pd.DataFrame.to_numpy)(X), y, sensitive_features=s,
                          sample_weight=weight)  # fmt: skip


# -------------------------------------------------------------------- the forger


class Forger:
    """Makes artifacts of the members of a good one, and sees what becomes of them."""

    def __init__(self, whole: Path, model: Any) -> None:
        with opened(whole) as box:
            self.members = {name: box.unpack(name) for name in box.sizes}
        self.manifest, self.model = inspect(whole), model
        self._box = model if isinstance(model, BlackBox) else BlackBox(model)
        self._place = whole.with_name("forged")

    def forged(self, changed: Mapping[str, bytes]) -> bytes:
        """The artifact with other members, and a manifest that fits: hashes and description."""
        members = {**self.members, **changed}
        if MANIFEST in changed:
            return stored(members)
        try:
            body = store._read_body(members.__getitem__, self._box, len(members) - 2)
            about = store._describe(body, self.manifest.about.key_fingerprint)
        except Exception:  # what cannot be read cannot be described: `load` is to say why
            about = self.manifest.about
        listed = tuple(
            Member(one.name, len(members[one.name]), sha256(members[one.name]).hexdigest())
            if one.name in changed
            else one
            for one in self.manifest.members
        )
        told = replace(self.manifest, about=about, members=listed)
        return stored({**members, MANIFEST: write_manifest(told)})

    def judged(self, changed: Mapping[str, bytes], turn: int = 0) -> str:
        """``refused``, ``sound``, or what is wrong with what loads.

        A few rows are put to what loads, others each ``turn``, and all that it can do each tenth.
        """
        self._place.write_bytes(self.forged(changed))
        try:
            found = load(self._place, self.model, key=KEY, check_model=False)
        except ArtifactError:
            return "refused"
        if turn % 10 == 0:
            str(inspect(self._place))
        return used(found, turn)


def stored(members: Mapping[str, bytes]) -> bytes:
    """The artifact of these members, not packed: that is quicker."""
    file, directory = [], []
    at = 0
    for name, content in members.items():
        crc, size = zlib.crc32(content), len(content)
        local, central = _heads(name)
        sizes = struct.pack("<3L", crc, size, size)
        file += [local[:14], sizes, local[26:], content]
        directory += [central[:16], sizes, central[28:42], struct.pack("<L", at), central[46:]]
        at += len(local) + size
    entries = b"".join(directory)
    n = len(members)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, n, n, len(entries), at, 0)
    return b"".join([*file, entries, end])


@cache
def _heads(name: str) -> tuple[bytes, bytes]:
    """How a zip of ours speaks of an empty member, before it and in the directory."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_entry(name), b"")
    whole = file.getvalue()
    start = whole.index(b"PK\1\2")
    return whole[:start], whole[start : whole.index(b"PK\5\6")]


def used(found: RepairedClassifier, turn: int) -> str:
    """Whether a repair that was loaded gives people of its own audit a chance."""
    groups, table = found.data_.groups, found.data_.table
    assert table is not None
    at = (turn + np.arange(ASKED)) % len(table)
    rows = table.take(np.tile(at, len(groups))).native
    labels = np.empty(len(at) * len(groups), object)
    labels[:] = [group for group in groups for _ in at]
    who = None if found.blind else labels
    if found.box_.column is not None:
        rows = rows.assign(**{found.box_.column: vendor(rows)})
    chance = found.predict_proba(rows, sensitive_features=who)
    if not ((chance >= 0) & (chance <= 1)).all():
        return f"a chance of {chance.min()} or {chance.max()}"
    if turn % 10 == 0:
        found.predict(rows, sensitive_features=who, ids=np.arange(len(labels)))
        found.transform(rows, sensitive_features=who, ids=np.arange(len(labels)))
    return "sound"
