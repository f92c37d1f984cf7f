"""In front of real servers: the library's own decisions, bit for bit, in every form."""

import numpy as np
import pytest

import fairmend
import serving
import vendors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    return vendors.vendor_model()


@pytest.fixture(scope="module")
def fitted(model, tmp_path_factory):
    """A repair of the model itself, without any server, and its artifact."""
    X, y, group = vendors.people()
    repaired = fairmend.RepairedClassifier(
        model, "fnr", immutable=["age"], key=bytes.fromhex(serving.KEY)
    ).fit(X, y, sensitive_features=group)
    path = tmp_path_factory.mktemp("fitted") / "repair.zip"
    repaired.save(path)
    return repaired, path


def check(sidecar, name, repaired, model):
    X, _, group = vendors.people(200, seed=11)
    ids = np.arange(200)
    expected = repaired.predict(X, sensitive_features=group, ids=ids)
    edited = repaired.transform(X, sensitive_features=group, ids=ids)
    assert (edited != X).to_numpy().any(), "somebody is edited, or this shows nothing"
    for path, body in serving.bodies(X, group, ids):
        kind = "text/csv" if isinstance(body, bytes) else "application/json"
        url = sidecar.url + path.replace("{model}", name)
        status, content, _ = serving.post(url, body, content_type=kind)
        assert status == 200, (path, content)
        more = content.get("fairmend") or content["parameters"]["fairmend"]
        assert more["repaired"] == expected.tolist(), path
        said = np.array(serving.answers(content)).reshape(200, -1)[:, -1]
        # the vendor is queried about the edited people in a batch of their own: last bits may move
        np.testing.assert_allclose(said, model.predict_proba(edited)[:, 1], rtol=1e-12)
    with_types = serving.post(sidecar.url + "/predict", {"instances": [[40.0, 1, 0.0]]})
    assert with_types[0] == 200, "whole numbers reach an integer column as integers"


def test_mlflow(tmp_path, fitted, model):
    repaired, path = fitted
    with vendors.mlflow_server(tmp_path, model, vendors.people()[0]) as url:
        sidecar = serving.Sidecar(tmp_path, path, url, mode="repair", explain=True)
        try:
            check(sidecar, "fairmend", repaired, model)
        finally:
            assert sidecar.stop() == 0


def test_mlserver(tmp_path, fitted, model):
    repaired, path = fitted
    with vendors.mlserver(tmp_path, model) as url:
        sidecar = serving.Sidecar(
            tmp_path, path, url, mode="repair", explain=True, answer="predict_proba"
        )
        try:
            check(sidecar, "credit", repaired, model)
        finally:
            assert sidecar.stop() == 0
