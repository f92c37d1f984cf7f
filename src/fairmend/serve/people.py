"""Who a request is about: rows, groups and ids, from the body, its parameters and headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fairmend.data.ids import is_id
from fairmend.model.wire import JSON, BadRequest, Protocol, Query
from fairmend.serve.config import Config
from fairmend.serve.repairer import Answer, Repairer
from fairmend.serve.schema import Row, missing_column

__all__ = ["GROUP_HEADER", "ID_HEADER", "Person", "read_people"]

GROUP_HEADER, ID_HEADER = "fairmend-group", "fairmend-id"
"""Headers that say who a row is about."""
Columns = dict[str, list[Any]]


@dataclass(slots=True)
class Person:
    """One row on its way through."""

    row: Row
    group: str | None
    id: Any
    raw: Any = None
    """The vendor's answer, as it came and as it is read."""
    answer: Answer | None = None
    edited: Row | None = None
    """The edited row; None where nothing is edited."""
    edited_raw: Any = None
    edited_answer: Answer | None = None


def read_people(
    config: Config,
    serving: Repairer,
    protocol: Protocol,
    body: bytes,
    content_type: str,
    headers: Mapping[str, str],
) -> tuple[Query, list[Person]]:
    """A request and its people; a `BadRequest` says what is wrong with it."""
    schema, read = serving.schema, None
    if protocol.records_key and content_type == JSON:  # the usual form, in one step
        read = schema.read_records(protocol.records_key, body)
    query = Query(None, read[0]) if read is not None else protocol.read(body, content_type)
    if len(query.rows) > config.most_rows:
        raise BadRequest("too_many_rows", f"at most {config.most_rows} rows", 413)
    rows, columns = schema.read(query) if read is None else read
    came = set(columns)
    _add_parameters(config, columns, query.parameters, len(rows))
    _add_headers(config, columns, headers, len(rows))
    for name in columns.keys() - came:
        if name in schema.personal:  # it came beside the rows, but the vendor reads it
            raise missing_column(name)
    groups = [columns.get(name) for name in config.groups]
    ids = columns.get(config.id)
    people = []
    for i, row in enumerate(rows):
        labels = [None if column is None else column[i] for column in groups]
        person = None if ids is None else ids[i]
        if person is not None and not is_id(person):
            raise BadRequest("bad_id", "ids are whole numbers or text that is not empty", 422)
        people.append(Person(row, serving.group(labels), person))
    return query, people


def _add_parameters(
    config: Config, columns: Columns, parameters: Mapping[str, Any], n: int
) -> None:
    for name, value in parameters.items():
        if name not in (*config.groups, config.id) or name in columns:
            raise BadRequest("bad_parameter", "a parameter does not belong here", 422)
        columns[name] = value if isinstance(value, list) else [value] * n
        if len(columns[name]) != n:
            message = "a parameter must have one value, or one per row"
            raise BadRequest("bad_parameter", message, 422)


def _add_headers(config: Config, columns: Columns, headers: Mapping[str, str], n: int) -> None:
    groups, id_column = config.groups, config.id
    if GROUP_HEADER in headers and groups[0] not in columns:
        labels = [_from_header(label) for label in headers[GROUP_HEADER].split("&")]
        if len(labels) != len(groups):
            raise BadRequest("bad_group", "Fairmend-Group has one label per attribute", 422)
        for name, label in zip(groups, labels, strict=True):
            columns[name] = [label.strip()] * n
    if ID_HEADER in headers and id_column not in columns:
        if n != 1:
            raise BadRequest("bad_id", "Fairmend-Id is for one row; use a column", 422)
        columns[id_column] = [_from_header(headers[ID_HEADER])]


def _from_header(text: str) -> str:
    """Headers are Latin letters; anything else comes percent-encoded."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("bad_header", "headers are percent-encoded UTF-8", 400) from None
