import pytest

import vendors


@pytest.fixture(scope="session")
def model():
    return vendors.vendor_model()


@pytest.fixture(scope="session")
def mlflow_url(tmp_path_factory, model):
    with vendors.mlflow_server(
        tmp_path_factory.mktemp("mlflow"), model, vendors.people()[0]
    ) as url:
        yield url


@pytest.fixture(scope="session")
def mlserver_url(tmp_path_factory, model):
    with vendors.mlserver(tmp_path_factory.mktemp("mlserver"), model) as url:
        yield url
