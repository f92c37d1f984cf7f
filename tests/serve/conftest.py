import os
import signal

import pytest

import fairmend
import postgres
import serving
import vendors

# lines are counted in processes that are started anew
serving.Sidecar.forked = not any(name.startswith("COVERAGE_PROCESS") for name in os.environ)


def pytest_itemcollected(item):
    """A test with a sidecar of its own takes about a second."""
    if {"start", "serve"} & set(item.fixturenames):
        item.add_marker("slow")


@pytest.fixture(scope="session")
def fitted():
    """A repair of the stand-in vendor's model, whose edits need its word about mixtures."""
    X, y, group = vendors.people()
    repaired = fairmend.RepairedClassifier(
        serving.decide, "fnr", immutable=["age"], key=bytes.fromhex(serving.KEY)
    )
    return repaired.fit(X, y, sensitive_features=group)


@pytest.fixture(scope="session")
def postgresql():
    """A server of PostgreSQL; where none can be run, its tests are skipped."""
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    server = postgres.Server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """The address of a log that is still empty, in each database."""
    if request.param == "sqlite":
        return tmp_path / "log.sqlite"
    return request.getfixturevalue("postgresql").database()


@pytest.fixture(scope="session")
def artifact(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("artifact") / "repair.zip"
    fitted.save(path)
    return path


@pytest.fixture(scope="session")
def vendor():
    vendor = serving.Vendor()
    yield vendor
    vendor.close()


@pytest.fixture(scope="session")
def leaving():
    """Sidecars that were told to stop: nobody waits for each, but all must have ended."""
    told = []
    yield told
    for sidecar in told:
        sidecar.stop()


@pytest.fixture
def start(tmp_path, artifact, vendor, leaving):
    """Start sidecars that are told to stop at the end of the test."""
    running = []
    vendor.behave("well")

    def start(**settings):
        upstream = settings.pop("upstream", vendor.url)
        sidecar = serving.Sidecar(
            tmp_path, settings.pop("artifact", artifact), upstream, **settings
        )
        running.append(sidecar)
        return sidecar

    yield start
    vendor.behave("well")
    for sidecar in running:
        sidecar.process.send_signal(signal.SIGTERM)
    leaving.extend(running)


@pytest.fixture(scope="session")
def shared(tmp_path_factory, artifact, vendor):
    """Sidecars that several tests use, one a mode; they ask quickly-failing vendors again soon."""
    running = {
        mode: serving.Sidecar(
            tmp_path_factory.mktemp(mode), artifact, vendor.url, mode=mode, concurrency=200,
            timeout=1.0, breaker_failures=1_000, most_failed_rows=1_000_000,
        )
        for mode in ("shadow", "repair")
    }  # fmt: skip
    yield running
    for sidecar in running.values():
        assert sidecar.stop() == 0


@pytest.fixture
def shadow(shared, vendor):
    yield shared["shadow"]
    vendor.behave("well")


@pytest.fixture
def repair(shared, vendor):
    yield shared["repair"]
    vendor.behave("well")
