"""Each protocol against a real server of its kind: the model's own answers, bit for bit."""

import json
import urllib.request

import numpy as np
import polars as pl
import pytest

import vendors
from fairmend import BlackBox, ModelError
from fairmend.model.protocols import protocol_named
from fairmend.model.remote import RemoteModel

pytestmark = pytest.mark.slow


def test_mlflow_answers_as_the_model_itself(mlflow_url, model):
    X, _, _ = vendors.people(300)
    expected = model.predict_proba(X)[:, 1]
    assert np.array_equal(RemoteModel(mlflow_url)(X), expected)
    # the size of a batch may move the last bits, so the model itself is queried by sevens too
    by_sevens = [model.predict_proba(X[i : i + 7])[:, 1] for i in range(0, len(X), 7)]
    in_polars = RemoteModel(mlflow_url, batch=7)(pl.from_pandas(X))
    assert np.array_equal(in_polars, np.concatenate(by_sevens))
    assert np.array_equal(RemoteModel(mlflow_url, answer=0)(X), model.predict_proba(X)[:, 0])


def test_mlserver_answers_as_the_model_itself(mlserver_url, model):
    X, _, _ = vendors.people(300)
    assert np.array_equal(RemoteModel(mlserver_url)(X), model.predict(X))
    by_chance = RemoteModel(mlserver_url, answer="predict_proba")
    assert np.array_equal(by_chance(X), model.predict_proba(X)[:, 1])
    # a server lays an array out in memory in its own way, which may move the last bit
    assert by_chance(X.to_numpy()) == pytest.approx(model.predict_proba(X)[:, 1], rel=1e-14)


def test_a_black_box_takes_the_address(mlflow_url, model):
    import fairmend

    X, y, group = vendors.people(500)
    remote = fairmend.audit(mlflow_url, X, y, sensitive_features=group)
    here = fairmend.audit(model, X, y, sensitive_features=group)
    assert remote.to_dict() == here.to_dict()


def test_our_reading_of_mlflow_forms_is_mlflows_own(mlflow_url, model):
    """What we read of a body and send on gets the answers that the body itself gets."""
    X, _, _ = vendors.people(5)
    records = X.to_dict("records")
    split = {"columns": list(X), "data": [list(record.values()) for record in records]}
    columns = {name: X[name].tolist() for name in X}
    bodies = [
        ({"dataframe_split": split}, "json"),
        ({"dataframe_records": records}, "json"),
        ({"instances": records}, "json"),
        ({"inputs": columns}, "json"),
        (X.to_csv(index=False), "csv"),
    ]
    protocol = protocol_named("mlflow")
    for body, kind in bodies:
        raw = body.encode() if kind == "csv" else json.dumps(body).encode()
        content_type = {"json": "application/json", "csv": "text/csv"}[kind]
        asked = protocol.read(raw, content_type)
        theirs = post(mlflow_url, raw, content_type)
        rows = [[float(cell) for cell in row] for row in asked.rows]
        again = protocol.encode(asked.names, [[int(a), b, int(c)] for a, b, c in rows], [])
        assert post(mlflow_url, again, "application/json") == theirs


def post(url, body, content_type):
    request = urllib.request.Request(url, body, {"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def test_errors_of_real_servers_are_told_without_rows(mlflow_url, mlserver_url):
    import pandas as pd

    bad = pd.DataFrame({"secret_column": ["secret value"]})
    for url in (mlflow_url, mlserver_url):
        with pytest.raises(ModelError, match="status 200") as told:
            BlackBox(RemoteModel(url))._call(bad)
        assert "secret" not in str(told.value)
