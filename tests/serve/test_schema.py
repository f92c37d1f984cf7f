"""Rows from outside in the types of the audit; reading in one step refuses nothing else."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.data.columns import Frame
from fairmend.model.protocols import protocol_named
from fairmend.model.wire import BadRequest
from fairmend.serve.schema import Schema

TABLE = pd.DataFrame(
    {
        "age": [1, 2],
        "dose": [0.5, np.nan],
        "name": ["x", "y"],
        "old": [True, False],
        "class": ["a", None],
    }
)
WHO = ("group", "id")
SCHEMA = Schema.of(Frame.read(TABLE), WHO)
ORDER = [*TABLE, *WHO]


def fast(name, body, schema=SCHEMA):
    return schema.read_records(protocol_named(name).records_key, body)


def slow(name, body, schema=SCHEMA):
    return schema.read(protocol_named(name).read(body))


cell = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.just(2**70), st.floats(-2, 2),
    st.sampled_from(["", "x", "a:b", "é"]),
)  # fmt: skip
good = st.fixed_dictionaries(
    {
        "age": st.integers(-5, 5),
        "dose": st.none() | st.floats(-2, 2),
        "name": st.text(max_size=3),
        "old": st.booleans(),
        "class": st.none() | st.text(max_size=3),
    },
    optional={"group": st.text(max_size=2), "id": st.integers(0, 9)},
)


@st.composite
def requests(draw):
    """Records or a split frame, mostly sound, with something wrong now and then."""
    records = draw(st.lists(good, max_size=3))
    if records and draw(st.booleans()):
        broken = dict(draw(st.sampled_from(records)))
        name = draw(st.sampled_from([*ORDER, "other"]))
        if draw(st.booleans()):
            broken[name] = draw(cell)
        else:
            broken.pop(name, None)
        records.append(broken)
    form = draw(st.sampled_from(["instances", "dataframe_records", "dataframe_split"]))
    if form != "dataframe_split":
        body = {form: records}
    else:
        names = draw(st.permutations(list(records[0]))) if records else []
        body = {form: {"columns": names, "data": [list(map(r.get, names)) for r in records]}}
    text = json.dumps(body)
    if draw(st.integers(0, 9)) == 0:
        text = text.replace('{"age"', '{"age": 1, "age"', 1)
    return "instances" if form == "instances" else "mlflow", text.encode()


@given(requests())
def test_both_ways_agree(request):
    name, body = request
    quick = fast(name, body)
    if quick is None:
        return
    careful = slow(name, body)
    assert quick == careful
    types = [[list(map(type, row)) for row in read[0]] for read in (quick, careful)]
    assert types[0] == types[1]


def test_usual_requests_are_read_in_one_step():
    record = {"age": 1, "dose": 2, "name": "x", "old": True, "class": None, "group": "b", "id": 7}
    rows = [(1, 2.0, "x", True, None)]
    apart = {"group": ["b"], "id": [7]}
    bodies = [
        ("instances", {"instances": [record]}),
        ("mlflow", {"dataframe_records": [record]}),
    ]
    for name, body in bodies:
        assert fast(name, json.dumps(body).encode()) == (rows, apart)
    split = {"dataframe_split": {"columns": [*record], "data": [[*record.values()]]}}
    assert slow("mlflow", json.dumps(split).encode()) == (rows, apart)
    bare = {key: value for key, value in record.items() if key not in WHO}
    assert fast("instances", json.dumps({"instances": [bare] * 2}).encode()) == (rows * 2, {})


def test_what_is_an_input_and_set_apart_is_read_the_long_way():
    both = Schema.of(Frame.read(TABLE), ("name", "id"))
    body = json.dumps({"instances": TABLE[:1].to_dict("records")}).encode()
    assert fast("instances", body, both) is None
    assert slow("instances", body, both) == ([(1, 0.5, "x", True, "a")], {"name": ["x"]})


def test_who_somebody_is_may_be_left_out_where_it_is_an_input_but_nothing_else_may():
    schema = Schema.of(Frame.read(TABLE), ("name", "id"))
    record = {"age": 1, "dose": 2.5, "name": None, "old": True, "class": "a"}
    lacking = {key: cell for key, cell in record.items() if key != "name"}

    def read(*records):
        body = json.dumps({"instances": records}).encode()
        assert fast("instances", body, schema) is None
        return slow("instances", body, schema)

    row = (1, 2.5, None, True, "a")
    assert read(record) == ([row], {"name": [None]})
    assert read(lacking) == ([row], {})
    assert read(record, lacking) == ([row, row], {"name": [None, None]})
    for name in ("age", "dose", "old", "class"):  # the dose may be null, but not left out
        other = {key: cell for key, cell in record.items() if key != name}
        for records in ((other,), (record, other), (other, record)):
            with pytest.raises(BadRequest, match=f"'{name}' is missing"):
                read(*records)
    with pytest.raises(BadRequest, match="must hold whole numbers"):
        read({**record, "age": None})


@pytest.mark.parametrize("column", ["age", "dose"])
def test_a_number_that_is_too_large_is_refused_both_ways(column):
    body = json.dumps({"instances": [{**TABLE.iloc[0].to_dict(), column: 2**64}]}, default=bool)
    assert fast("instances", body.encode()) is None
    with pytest.raises(BadRequest) as told:
        protocol_named("instances").read(body.encode())
    assert told.value.status == 422


def test_a_repeated_key_is_not_hidden_by_one_that_another_record_lacks():
    """As many colons as keys: only the second record lacks its id."""
    record = {"age": 1, "dose": 2.5, "name": "x", "old": True, "class": None, "id": 7}
    whole = json.dumps(record)
    other = whole.replace('"id": 7', '"age": 2')
    body = f'{{"instances": [{whole}, {other}]}}'.encode()
    assert fast("instances", body) is None
    with pytest.raises(BadRequest, match="key twice"):
        slow("instances", body)


def test_odd_names_are_read_the_long_way():
    odd = Schema.of(Frame.read(pd.DataFrame({'a "quoted" name': [1, 2]})), WHO)
    body = json.dumps({"instances": [{'a "quoted" name': 1}]}).encode()
    assert fast("instances", body, odd) is None
    assert slow("instances", body, odd) == ([(1,)], {})


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"records": []}', b'{"split": 1}',
        b'{"instances": []}', b'{"dataframe_records": []}', b'{"dataframe_records": null}',
        b'{"dataframe_split": null}', b'{"dataframe_split": {"columns": [], "data": []}}',
    ],
)  # fmt: skip
def test_what_holds_no_rows_is_read_the_long_way(body):
    assert all(fast(name, body) is None for name in ("instances", "mlflow"))


def test_rows_in_two_forms_are_read_the_long_way():
    """Each alone would be read; together they are refused there."""
    record = {"age": 1, "dose": 2.5, "name": "x", "old": True, "class": None}
    split = {"columns": [*record], "data": [[*record.values()]]}
    assert fast("mlflow", json.dumps({"dataframe_records": [record]}).encode()) is not None
    body = json.dumps({"dataframe_records": [record], "dataframe_split": split}).encode()
    assert fast("mlflow", body) is None
    with pytest.raises(BadRequest):
        protocol_named("mlflow").read(body)


def test_text_for_a_missing_value_is_read_as_in_the_audit_file():
    marked = Schema.of(Frame.read(TABLE), WHO, ("n/a",))
    record = {"age": 1, "dose": "n/a", "name": "x", "old": True, "class": "n/a", "group": "b"}
    row = (1, None, "x", True, None)
    for dose in ("n/a", None):  # the long way, and in one step
        body = json.dumps({"instances": [record | {"dose": dose}] * 2}).encode()
        assert slow("instances", body, marked) == ([row] * 2, {"group": ["b"] * 2})
        quick = fast("instances", body, marked)
        assert quick == (None if dose else ([row] * 2, {"group": ["b"] * 2}))
    never_empty = json.dumps({"instances": [record | {"name": "n/a", "dose": 1.0}]}).encode()
    assert fast("instances", never_empty, marked) is None
    with pytest.raises(BadRequest, match="'name' must hold text"):
        slow("instances", never_empty, marked)
