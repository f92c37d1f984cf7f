"""Reading and writing each protocol: there and back again, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from fairmend import DataError
from fairmend.model.protocols import protocol_for, protocol_named, protocol_names
from fairmend.model.wire import BadAnswer, BadRequest, per_row

NAMES = protocol_names()
JSON_CELLS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(),
)
KIND = {int: "int", float: "float", bool: "bool", str: "str", type(None): "str"}


@st.composite
def tables(draw):
    """Names and rows whose columns each hold one type, or nothing."""
    columns = draw(st.lists(st.sampled_from([int, float, bool, str]), min_size=1, max_size=4))
    names = draw(st.lists(st.text(max_size=6), min_size=len(columns), max_size=len(columns),
                          unique=True))  # fmt: skip
    n = draw(st.integers(1, 5))
    of_type = {
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        str: st.text(),
    }
    cells = [draw(st.lists(of_type[kind] | st.none(), min_size=n, max_size=n)) for kind in columns]
    return names, [list(row) for row in zip(*cells, strict=True)], [KIND[kind] for kind in columns]


@pytest.mark.parametrize("name", NAMES)
@given(table=tables())
def test_what_a_client_writes_a_server_reads(name, table):
    names, rows, kinds = table
    protocol = protocol_named(name)
    asked = protocol.read(protocol.encode(names, rows, kinds))
    assert asked.names == tuple(names)
    assert asked.rows == rows
    assert [list(map(type, row)) for row in asked.rows] == [list(map(type, row)) for row in rows]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[[1, 2], [3, 4]], [[0.5, 1.0]]])
def test_arrays_travel_without_names(name, rows):
    protocol = protocol_named(name)
    kind = KIND[type(rows[0][0])]
    asked = protocol.read(protocol.encode(None, rows, [kind] * 2))
    assert (asked.names, asked.rows) == (None, rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "answers", [[0, 1, 1], [0.25, 0.5], ["yes", "no"], [[0.25, 0.75], [0.5, 0.5]], [True]]
)
def test_what_a_server_answers_a_client_reads(name, answers):
    protocol = protocol_named(name)
    asked = protocol.read(protocol.encode(["a"], [[1]] * len(answers), ["int"]))
    assert protocol.decode(protocol.write(asked, answers)) == answers
    more = json.loads(protocol.write(asked, answers, {"fairmend": {"mode": "shadow"}}))
    assert "shadow" in json.dumps(more)


def test_mlflow_reads_every_form_alike():
    protocol = protocol_named("mlflow")
    bodies = [
        b'{"dataframe_split": {"columns": ["a", "b"], "index": [7, 8], "data": [[1, 2], [3, 4]]}}',
        b'{"dataframe_records": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]}',
        b'{"instances": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}',
        b'{"inputs": {"a": [1, 3], "b": [[2], [4]]}}',
    ]
    for body in bodies:
        asked = protocol.read(body)
        assert (asked.names, asked.rows) == (("a", "b"), [[1, 2], [3, 4]]), body
    csv = protocol.read(b'a,b\r\n1,2\n3,\n"x, y",4\n', "text/csv; charset=utf-8")
    assert csv.text
    assert (csv.names, csv.rows) == (("a", "b"), [["1", "2"], ["3", None], ["x, y", "4"]])


@pytest.mark.parametrize("name", ["mlflow", "instances"])
def test_what_a_record_lacks_is_told_from_null(name):
    asked = protocol_named(name).read(b'{"instances": [{"a": 1}, {"b": 2, "a": null}, {"b": 3}]}')
    assert (asked.names, asked.rows) == (("a", "b"), [[1, UNSET], [None, 2], [UNSET, 3]])


def test_a_small_body_makes_no_huge_table():
    """Each record its own key: as a table that would be ten billion cells."""
    body = json.dumps({"instances": [{f"k{i}": 1} for i in range(100_000)]}).encode()
    with pytest.raises(BadRequest, match="same keys"):
        protocol_named("instances").read(body)


def test_colons_in_text_do_not_look_like_keys():
    protocol = protocol_named("mlflow")
    asked = protocol.read(b'{"dataframe_records": [{"at": "12:30:00", "a:b": ":"}]}')
    assert asked.rows == [["12:30:00", ":"]]
    with pytest.raises(BadRequest, match="key twice"):
        protocol.read(b'{"dataframe_records": [{"at": "12:30", "at": 1}]}')


HOSTILE = [
    b"", b"null", b"[]", b"{}", b'"x"', b"{", b'{"instances": [[NaN]]}',
    b'{"instances": [[Infinity]]}', b'{"instances": [[1e999]]}',
    b'{"instances": [[123456789012345678901234567890]]}', b'{"instances": [[01]]}',
    b'{"instances": [[1]], "instances": [[2]]}', b'{"instances": [[1], {"a": 1}]}',
    b'{"instances": [{"a": 1}, {}, {}, {}, {}]}',
    b'{"instances": [[[1]]]}', b'{"instances": [[{"secret": 1}]]}', b'{"instances": [["\xff"]]}',
    b'{"instances": [["\\ud800"]]}', b'{"instances": [[1]], "secret": 1}', b'\xef\xbb\xbf{}',
    b'{"instances": ' + b"[" * 100_000, b'{"instances": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"instances": [[1]]} secret',
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bodies_are_refused_without_repeating_them(name, body):
    with pytest.raises(BadRequest) as told:
        protocol_named(name).read(body)
    assert "secret" not in told.value.message
    assert told.value.status in (400, 422)
    assert b"secret" not in protocol_named(name).error(told.value.code, told.value.message)


TENSOR = {"name": "a", "shape": [2, 1], "datatype": "INT64", "data": [1, 2]}


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [3]}, {"shape": []}, {"shape": [-2]}, {"shape": [1, 1, 2]}, {"shape": [1 << 40]},
        {"datatype": "FP128"}, {"data": [1, 2.5]}, {"data": [True, False]}, {"data": ["1", "2"]},
        {"data": [[1, 2]]}, {"data": [[1], 2]}, {"datatype": "BYTES"},
    ],
)  # fmt: skip
def test_tensors_must_be_what_they_say(change):
    body = json.dumps({"inputs": [TENSOR | change]}).encode()
    with pytest.raises(BadRequest):
        protocol_named("v2").read(body)


def test_tensors_in_every_shape():
    read = protocol_named("v2").read
    for change in ({}, {"shape": [2]}, {"data": [[1], [2]]}):
        assert read(json.dumps({"inputs": [TENSOR | change]}).encode()).rows == [[1], [2]]
    wide = TENSOR | {"shape": [1, 2]}
    asked = read(json.dumps({"id": "x", "inputs": [wide]}).encode())
    assert (asked.names, asked.rows, asked.id) == (None, [[1, 2]], "x")
    with pytest.raises(BadRequest, match="one shape"):
        read(json.dumps({"inputs": [TENSOR, TENSOR | {"name": "b", "shape": [1], "data": [1]}]})
             .encode())  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("mlflow", b"<html>"), ("mlflow", b'{"predictions": 1}'), ("mlflow", b"[" * 99_999),
        ("v2", b"{}"), ("v2", b'{"outputs": []}'),
        ("v2", b'{"outputs": [{"name": "p", "shape": [3], "data": [1]}]}'),
        ("v2", b'{"outputs": [{"name": "p", "shape": [1, 1, 1], "data": [1]}]}'),
        ("v2", b'{"outputs": [{"name": "p", "shape": [1], "data": [1]},'
               b'{"name": "q", "shape": [2], "data": [1, 2]}]}'),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_read(name, body):
    with pytest.raises(BadAnswer):
        protocol_named(name).decode(body)


def test_several_outputs_are_told_by_name():
    body = (
        b'{"outputs": [{"name": "predict", "shape": [1], "data": [1]},'
        b'{"name": "predict_proba", "shape": [1, 2], "data": [0.25, 0.75]}]}'
    )
    answers = protocol_named("v2").decode(body)
    assert per_row(answers, "predict_proba") == [0.75]
    with pytest.raises(BadAnswer, match="say which"):
        per_row(answers)
    assert protocol_named("v2", output="predict").decode(body) == [1]


def test_addresses_tell_the_protocol():
    assert protocol_for("http://h/a/invocations/") == "mlflow"
    assert protocol_for("http://h/v2/models/m/versions/3/infer") == "v2"
    assert protocol_for("http://h/v1/models/m:predict") == "instances"
    assert protocol_named("mlflow").path("/prefix") == "/prefix/invocations"
    versioned = protocol_named("v2").path("/v2/models/m/versions/3")
    assert versioned == "/v2/models/m/versions/3/infer"
    with pytest.raises(DataError, match="without a path"):
        protocol_for("http://h/")
