"""COMPAS with a model, and a real browser for pages: offline and watched."""

import os
import shutil
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from sparks import QUICK

# The same examples on every machine: a change lands or fails by what it changes, not by luck.
# HYPOTHESIS_PROFILE=default looks for new ones; `make theory` and `make coverage` do.
settings.register_profile("repeatable", derandomize=True, deadline=None)  # machines are shared
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def nobody_has_judged_yet():
    """Searches of other tests in this process do not spend the people of this one."""
    find = sys.modules.get("fairmend.search.find")
    if find is not None:
        find._spent.clear()


@pytest.fixture(scope="session")
def compas():
    """A model fitted on 1,850 people, and the inputs, outcomes and groups of all others."""
    from sklearn.linear_model import LogisticRegression

    from fairmend import datasets

    bunch = datasets.load_compas(backend="numpy")
    order = np.random.default_rng(0).permutation(len(bunch.y))
    train, audit = order[:1850], order[1850:]
    model = LogisticRegression(C=100, max_iter=500).fit(bunch.X[train], bunch.y[train])
    return model, *(part[audit] for part in (bunch.X, bunch.y, bunch.sensitive_features))


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_browser():
    """The path of a browser; None where there is none. `make browser` installs one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@dataclass
class Opened:
    """A page, and everything it complained about or asked for."""

    page: object
    errors: list = field(default_factory=list)
    requests: list = field(default_factory=list)


@pytest.fixture(scope="module")
def browser():
    """Of a module, because its event loop must be gone before other modules want one."""
    path = find_browser()
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the PATH; try `make browser`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def open_page(browser):
    """Open a file without a network, and watch what the page does."""
    contexts = []

    def opened(path, *, width=1180, script=True, theme="light"):
        context = browser.new_context(
            offline=True,
            color_scheme=theme,
            viewport={"width": width, "height": 900},
            java_script_enabled=script,
            accept_downloads=True,
        )
        contexts.append(context)
        seen = Opened(context.new_page())
        said = ("error", "warning")
        seen.page.on("console", lambda m: m.type in said and seen.errors.append(m.text))
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("dialog", lambda dialog: seen.errors.append(dialog.message))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(Path(path).as_uri())
        return seen

    yield opened
    for context in contexts:
        context.close()


# -------------------------------------------------------------------- clusters, started once

CLUSTERS = ("dask", "spark")
"""Kinds of clusters, as the parameters of tests call them."""
running = {}
"""What is started, and how it is stopped: an idle cluster takes a share of a core."""


def cluster_of(item):
    """The cluster that a test is parametrised with, if any."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((kind for kind in CLUSTERS if kind in filter(is_text, parameters)), None)


def is_text(value):
    return isinstance(value, str)


def pytest_itemcollected(item):
    if cluster_of(item) is not None:
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """One cluster after the other, and then all that needs none."""
    items.sort(key=lambda item: [*CLUSTERS, None].index(cluster_of(item)))


@pytest.hookimpl(trylast=True)  # after the fixtures that use it
def pytest_runtest_teardown(item, nextitem):
    kind = cluster_of(item)
    if kind in running and (nextitem is None or cluster_of(nextitem) != kind):
        stop(kind)


def pytest_unconfigure():
    for kind in [*running]:
        stop(kind)


def stop(kind):
    _, end = running.pop(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        end()


@pytest.fixture
def spark():
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    if "spark" not in running:
        running["spark"] = start_spark()
    return running["spark"][0]


def start_spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, about pandas 3 and its dependencies
        from pyspark.sql import SparkSession

        session = (
            # Python workers are processes of their own; a task is tried four times, as on a cluster
            SparkSession.builder.master(os.environ.get("FAIRMEND_SPARK", "local[2,4]"))
            .config(map=QUICK)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    return session, session.stop


@pytest.fixture
def dask_client(tmp_path_factory):
    if "dask" not in running:
        running["dask"] = start_dask(tmp_path_factory.mktemp("dask"))
    return running["dask"][0]


def start_dask(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(folder)
        )
        client = Client(cluster)

    def end():
        client.close()
        cluster.close()

    return client, end
