"""Who a request is about, and what of it the vendor may see.

A request is read in two steps. `Reading` finds its rows and takes out the columns that say who
somebody is. `read_people` then reads each row by the audit's columns; what is wrong with one row is
kept beside it, because only people who may be edited have to be understood.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from msgspec import UNSET

from fairmend.data.ids import is_id
from fairmend.model.wire import JSON, BadRequest, Protocol, Query, media_type
from fairmend.serve.config import Config
from fairmend.serve.repairer import Answer, Repairer
from fairmend.serve.schema import ReadEach, Row, Schema, missing_column

__all__ = ["GROUP_HEADER", "ID_HEADER", "Incoming", "Person", "Reading", "read_people"]

GROUP_HEADER, ID_HEADER = "fairmend-group", "fairmend-id"
"""Headers that say who a row is about."""
Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request for predictions, as it came."""

    protocol: Protocol
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    """By their names in small letters."""
    path: str = ""
    query: str = ""
    rest: AsyncIterator[bytes] | None = None
    """What follows a body that is too long to be read."""


@dataclass(slots=True)
class Person:
    """One row on its way through."""

    row: Row | None
    """The model's inputs; None where they cannot be read as those of the audit."""
    group: str | None = None
    place: int | None = None
    """The plan's; None for people who are not repaired."""
    id: Any = None
    problem: BadRequest | None = None
    """What is wrong with the row; it matters only if somebody is edited."""
    unknown: BadRequest | None = None
    """Why it cannot be said whether somebody is repaired."""
    raw: Any = None
    """The vendor's answer, as it came and as it is read."""
    answer: Answer | None = None
    edited: Row | None = None
    """The edited row; None where nothing is edited."""
    edited_raw: Any = None
    edited_answer: Answer | None = None


@dataclass(slots=True)
class Reading:
    """The rows of a request, before anything is made of them."""

    query: Query
    each: ReadEach
    names: tuple[str, ...] | None
    """The columns that the vendor is sent, and their places in the query."""
    places: list[int] | None
    parameters: dict[str, Any]
    """Those that the vendor is sent."""
    is_whole: bool
    """Whether nothing is taken out: the body can go to the vendor as it came."""
    people: list[Person] = field(default_factory=list)

    @classmethod
    def of(cls, config: Config, schema: Schema, incoming: Incoming) -> Reading:
        """A `BadRequest` where the rows cannot be found."""
        protocol, person = incoming.protocol, (*config.groups, config.id)
        if protocol.records_key and media_type(incoming.content_type) == JSON:
            read = schema.read_records(protocol.records_key, incoming.body)
            if read is not None:  # the usual form, in one step
                rows, columns = read
                query = Query(schema.names, rows)
                each: ReadEach = (list(rows), [None] * len(rows), columns)
                return cls(query, each, schema.names, None, {}, not columns)
        query = protocol.read(incoming.body, incoming.content_type)
        if len(query.rows) > config.most_rows:
            raise BadRequest("too_many_rows", f"at most {config.most_rows} rows", 413)
        names, places = query.names, None
        if names is not None and not schema.who.isdisjoint(names):
            places = [j for j, name in enumerate(names) if name not in schema.who]
            names = tuple(names[j] for j in places)
        own = {name: v for name, v in query.parameters.items() if name not in person}
        is_whole = places is None and len(own) == len(query.parameters)
        return cls(query, schema.read_each(query), names, places, own, is_whole)

    def ask(self, protocol: Protocol) -> None:
        """Ask for the output that decisions are read from, whatever else the client asks for."""
        query = protocol.with_output(self.query)
        self.is_whole = self.is_whole and query is self.query
        self.query = query

    def row(self, i: int) -> list[Any]:
        """The cells of a row that the vendor is sent."""
        row = self.query.rows[i]
        return list(row) if self.places is None else [row[j] for j in self.places if j < len(row)]

    def edited_rows(self, schema: Schema, people: Mapping[int, Person]) -> list[list[Any]] | None:
        """Rows as they came but for what is edited; None where an edited column did not come."""
        rows = []
        names = schema.names if self.names is None else self.names
        spot = {name: j for j, name in enumerate(names)}
        for i, each in people.items():
            assert each.row is not None
            assert each.edited is not None
            cells = self.row(i)
            for name, old, new in zip(schema.names, each.row, each.edited, strict=True):
                if old != new or type(old) is not type(new):
                    if name not in spot or cells[spot[name]] is UNSET:
                        return None
                    cells[spot[name]] = _as_text(new) if self.query.text else new
            rows.append(cells)
        return rows


def _as_text(cell: Any) -> Any:
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell if cell is None else str(cell)


# -------------------------------------------------------------------- who is who


def read_people(
    config: Config, serving: Repairer, reading: Reading, headers: Mapping[str, str]
) -> list[Person]:
    """The people of a request; a `BadRequest` where it cannot be said who they are."""
    rows, problems, columns = reading.each
    came, schema = set(columns), serving.schema
    _add_parameters(config, columns, reading.query.parameters, len(rows))
    _add_headers(config, serving, columns, headers, len(rows))
    beside = next((name for name in columns.keys() - came if name in schema.personal), None)
    groups = [columns.get(name) for name in config.groups]
    ids = columns.get(config.id)
    people = []
    for i, (row, problem) in enumerate(zip(rows, problems, strict=True)):
        person = Person(row, problem=problem)
        labels = [None if column is None else column[i] for column in groups]
        try:
            person.group = serving.group(labels)
            person.place = serving.plan_place(person.group)
        except BadRequest as error:
            person.unknown = error
        if beside is not None:  # it came beside the rows, but the vendor reads it
            person.unknown = missing_column(beside)
        if ids is not None and ids[i] is not None:
            if is_id(ids[i]):
                person.id = ids[i]
            elif person.place is not None:
                message = "ids are whole numbers or text that is not empty"
                person.unknown = BadRequest("bad_id", message, 422)
        people.append(person)
    return people


def _add_parameters(
    config: Config, columns: Columns, parameters: Mapping[str, Any], n: int
) -> None:
    for name in (*config.groups, config.id):
        if name not in parameters:
            continue
        if name in columns:
            raise BadRequest("bad_parameter", "a parameter does not belong here", 422)
        value = parameters[name]
        columns[name] = value if isinstance(value, list) else [value] * n
        if len(columns[name]) != n:
            message = "a parameter must have one value, or one per row"
            raise BadRequest("bad_parameter", message, 422)


def _add_headers(
    config: Config, serving: Repairer, columns: Columns, headers: Mapping[str, str], n: int
) -> None:
    """Labels and ids of headers; where there are columns too, both must say the same."""
    names = config.groups
    labels = labels_of(config, headers)
    if labels is not None:
        came = [columns.get(name) for name in names]
        differ = serving.reads_groups and any(column is not None for column in came)
        for i in range(n) if differ else ():
            other = [None if column is None else column[i] for column in came]
            if not serving.is_same_group(labels, other):
                message = "the group in the header is not the one in the rows"
                raise BadRequest("contradicting_group", message, 422)
        for name, label in zip(names, labels, strict=True):
            columns.setdefault(name, [label] * n)
    if ID_HEADER in headers:
        given = _from_header(headers[ID_HEADER])
        if n != 1:
            raise BadRequest("bad_id", "Fairmend-Id is for one row; use a column", 422)
        if config.id in columns and str(columns[config.id][0]) != given:
            message = "the id in the header is not the one in the row"
            raise BadRequest("contradicting_id", message, 422)
        columns.setdefault(config.id, [given])


def labels_of(config: Config, headers: Mapping[str, str]) -> list[str] | None:
    """The labels of the header, one per attribute."""
    if GROUP_HEADER not in headers:
        return None
    labels = [_from_header(label).strip() for label in headers[GROUP_HEADER].split("&")]
    if len(labels) != len(config.groups):
        raise BadRequest("bad_group", "Fairmend-Group has one label per attribute", 422)
    return labels


def _from_header(text: str) -> str:
    """Headers are Latin letters; anything else comes percent-encoded."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("bad_header", "headers are percent-encoded UTF-8", 400) from None


def concerns_nobody_repaired(config: Config, serving: Repairer, headers: Mapping[str, str]) -> bool:
    """Whether the header alone says that everybody keeps the vendor's answer."""
    try:
        labels = labels_of(config, headers)
        return (
            labels is not None
            and serving.reads_groups
            and serving.plan_place(serving.group(labels)) is None
        )
    except BadRequest:
        return False


def plain_rows(reading: Reading) -> Sequence[Sequence[Any]]:
    """All rows as they came, for another protocol; a cell that was left out is missing."""
    rows = (reading.row(i) for i in range(len(reading.query.rows)))
    return [[None if cell is UNSET else cell for cell in row] for row in rows]
