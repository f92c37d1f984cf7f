"""What a log says of one person, in plain words; and how it is erased."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairmend.serve.log.audit import ERASED
from fairmend.serve.log.chain import TABLES, LogKey, event
from fairmend.serve.log.store import EVER, LogStore, open_store
from fairmend.serve.log.writer import Amending, amended

__all__ = ["PersonalDecision", "decisions_of", "erase"]

_MOST_STARTS = 100_000
_LABELS = {1: "positive", 0: "negative", None: "none that could be read"}


@dataclass(frozen=True)
class PersonalDecision:
    """One decision about a person, as it is in the log."""

    row: dict[str, Any]
    """By the columns of the table of decisions."""
    basis: str
    """Why decisions could be changed then; empty if they could not."""
    outcomes: tuple[tuple[float, int], ...]
    """When it was told what became of it, and what: the last one counts."""

    @property
    def in_words(self) -> str:
        """What was decided, and why, for the person it is about."""
        row = self.row
        said = [f"{_time(row['at'])}, by {row['vendor']}, version {row['version']} "
                f"(decision {row['decision']})."]  # fmt: skip
        said.append(f"The model's own decision: {_decision(row, 'original')}.")
        if row["mode"] == "off":
            said.append("The repair was switched off: this decision was given.")
        elif row["status"] != "ok":
            said.append(f"The repair could not be applied ({row['status']}): "
                        "the model's own decision was given.")  # fmt: skip
        elif not row["edited"]:
            said.append("Nothing was edited: this decision was given.")
        else:
            said += self._edited()
        for at, y in self.outcomes:
            said.append(f"Outcome, recorded on {_time(at)}: {_LABELS[y]}.")
        if len({y for _, y in self.outcomes}) > 1:
            said.append("These contradict each other; the last one counts.")
        return "\n  ".join(said)

    def _edited(self) -> list[str]:
        """The edit, and which decision it led to."""
        row = self.row
        changes = _changes(row["features"]) or row["edited"].replace(",", ", ")
        then = _decision(row, "repaired")
        if row["mode"] != "repair":
            return [f"With the repair the model would have been queried with another {changes}, "
                    f"and its decision would have been: {then}.",
                    "The repair was only watched: the model's own decision was given."]  # fmt: skip
        return [
            "So that people of different groups are treated alike, the model was queried again "
            f"with another {changes}. Its decision then, which was given: {then}.",
            f"Basis: {self.basis or 'not on record'}.",
        ]

    def as_data(self) -> dict[str, Any]:
        """For programs: the row, the basis, the outcomes, and the words."""
        row = {name: value for name, value in self.row.items() if name != "features"}
        features = json.loads(self.row["features"]) if self.row["features"] else None
        outcomes = [{"at": at, "y": y} for at, y in self.outcomes]
        return {**row, "features": features, "basis": self.basis, "outcomes": outcomes,
                "in_words": self.in_words}  # fmt: skip


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%d %B %Y, %H:%M UTC")


def _decision(row: dict[str, Any], which: str) -> str:
    score = row[f"{which}_score"]
    return _LABELS[row[which]] + ("" if score is None else f" (score {score:.3g})")


def _changes(features: str | None) -> str:
    """The values that were replaced, where the log keeps them."""
    kept = json.loads(features) if features else {}
    return ", ".join(f"{name} ({value} instead of {kept['given'][name]})"
                     for name, value in (kept.get("edited") or {}).items())  # fmt: skip


def decisions_of(where: str | Path, person: str) -> list[PersonalDecision]:
    """The decisions about a person, by the pseudonym."""
    with open_store(where) as store, store.transaction():
        rows = store.decisions_of(person)
        starts = _starts(store) if rows else []
        return [
            PersonalDecision(row, _basis(row, starts), tuple(store.outcomes_named(row["decision"])))
            for row in rows
        ]


def _starts(store: LogStore) -> list[tuple[float, dict[str, Any]]]:
    return [(at, json.loads(detail))
            for at, _, detail in store.events_of(["start"], _MOST_STARTS, EVER)]  # fmt: skip


def _basis(row: dict[str, Any], starts: Sequence[tuple[float, dict[str, Any]]]) -> str:
    """That of the last start in this mode before the decision."""
    if row["mode"] != "repair":
        return ""
    before = (said for at, said in starts if at <= row["at"] and said["mode"] == "repair")
    return str(next(before, {}).get("basis", ""))


# -------------------------------------------------------------------- erasing


def erase(where: str | Path, key: LogKey, person: str) -> dict[str, int]:
    """Empty every row about a person; how many rows of which table.

    Numbers and times stay, and what the chain needs: a keyed hash of the row, which cannot be made
    again without the random part of the decision's id.
    """
    with amended(where, key) as store:
        with store.transaction():
            amending = Amending(store, key)
            rows = {"decisions": _rows(store, "decisions", "person", [person])}
            decisions = [row[1] for row in rows["decisions"]]
            rows["outcomes"] = _rows(store, "outcomes", "decision", decisions)
            if decisions:
                amending.untally("AND d.person = ?", person)
                for table, those in rows.items():
                    _empty(store, key, table, those)
                requests = [(decision.partition("/")[0],) for decision in decisions]
                store.execute_many("DELETE FROM replies WHERE decision = ?", requests)
                detail = {table: [row[0] for row in those] for table, those in rows.items()}
                amending.append("events", event(ERASED, {"rows": detail}))
                amending.end()
        if decisions:
            store.purge()
    return {table: len(those) for table, those in rows.items()}


def _rows(store: LogStore, table: str, column: str, values: Sequence[str]) -> list[tuple[Any, ...]]:
    """Number and values of rows."""
    query = f"SELECT seq, {', '.join(TABLES[table])} FROM {table} WHERE {column} IN (??)"
    return list(store.selected(query, values))


def _empty(store: LogStore, key: LogKey, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    gone = ", ".join(f"{name} = NULL" for name in TABLES[table] if name != "at")
    digests = [(key.digest(table, seq, values), seq) for seq, *values in rows]
    store.execute_many(f"UPDATE {table} SET {gone}, erased = ? WHERE seq = ?", digests)
