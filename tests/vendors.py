"""Real model servers for tests: MLflow and MLServer, each in a virtual environment of its own.

Their pins clash with ours. uv makes an environment in seconds, pip, where uv has no success, in
minutes; it is kept in ``.cache/vendors`` at the root of the project. Where it cannot be made, tests
are skipped with the reason.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "vendors"
NEEDS = {
    "mlflow": ["mlflow-skinny==3.17.2"],
    "mlserver": ["mlserver==1.7.1", "mlserver-sklearn==1.7.1"],
}
# a model must be read by the versions that wrote it
SHARED = ("numpy", "pandas", "scikit-learn")

SAVE_FOR_MLFLOW = """
import sys, joblib, mlflow, pandas
model, columns = joblib.load(sys.argv[1])
X = pandas.DataFrame(columns)
signature = mlflow.models.infer_signature(X, model.predict_proba(X))
mlflow.sklearn.save_model(
    model, sys.argv[2], signature=signature, pyfunc_predict_fn="predict_proba",
    serialization_format="cloudpickle",
)
"""


def environment(name):
    """The folder of programs of a vendor's environment, made if it is not there yet."""
    pins = dict(
        re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    )
    wanted = NEEDS[name] + [f"{package}=={pins[package]}" for package in SHARED]
    place = CACHE / name
    stamp = place / "made-of.json"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if not (stamp.exists() and json.loads(stamp.read_text()) == wanted):
            if (failure := made(place, wanted, uv=True)) and (failure := made(place, wanted)):
                pytest.skip(f"no environment for {name}: {failure}")
            stamp.write_text(json.dumps(wanted))
    return place / "bin"


def made(place, wanted, *, uv=False):
    """Make an environment; why it could not be made, or an empty text."""
    python = str(place / "bin" / "python")
    if uv:
        make = [sys.executable, "-m", "uv", "venv", "-q", "--clear", "-p", sys.executable]
        install = [sys.executable, "-m", "uv", "pip", "install", "-q", "-p", python]
    else:
        make = [sys.executable, "-m", "venv", "--clear"]
        install = [python, "-m", "pip", "install", "-q"]
    for step in ([*make, str(place)], [*install, *wanted]):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()[-200:]
    return ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, ready, *, log, folder, env=None, seconds=60):
    """A server's process, from the moment it answers until the end of the block."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=env,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + seconds
        while not answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"{command[0]} did not start: {log.read_text()[-300:]}")
            time.sleep(0.1)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(10)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


def people(n=4_000, seed=0):
    """Applicants of two groups with integers, numbers and yes-or-no, and what became of them."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "b", "a")
    X = pd.DataFrame(
        {
            "age": rng.integers(20, 60, n) // 5 * 5,
            "dose": (rng.integers(0, 9, n) - 2 * (group == "b")) / 4,
            "urban": rng.integers(0, 2, n),
        }
    )
    chance = 1 / (1 + np.exp(-(X.age / 20 + 1.5 * X.dose + 0.5 * X.urban - 3.5)))
    return X, (rng.random(n) < chance).astype(int), pd.Series(group, name="group")


def vendor_model():
    X, y, _ = people(seed=1)
    return LogisticRegression(max_iter=1_000).fit(X, y)


@contextlib.contextmanager
def mlflow_server(folder, model, X):
    """The address of the model behind ``mlflow models serve``."""
    programs = environment("mlflow")
    joblib.dump((model, X.to_dict("list")), folder / "model.joblib")
    saved = folder / "mlflow-model"
    subprocess.run(
        [programs / "python", "-c", SAVE_FOR_MLFLOW, folder / "model.joblib", saved],
        check=True, capture_output=True,
    )  # fmt: skip
    port = free_port()
    command = [
        str(programs / "mlflow"), "models", "serve", "-m", str(saved), "-h", "127.0.0.1",
        "-p", str(port), "--env-manager", "local", "-w", "1",
    ]  # fmt: skip
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/ping", log=folder / "mlflow.log", folder=folder, env=env):
        yield f"{url}/invocations"


@contextlib.contextmanager
def mlserver(folder, model):
    """The address of the model behind MLServer."""
    programs = environment("mlserver")
    place = folder / "mlserver-model"
    place.mkdir()
    joblib.dump(model, place / "model.joblib")
    port, grpc, metrics = free_port(), free_port(), free_port()
    (place / "settings.json").write_text(
        json.dumps(
            # workers of their own crash over and over with this uvloop
            {"parallel_workers": 0, "host": "127.0.0.1", "http_port": port, "grpc_port": grpc,
             "metrics_port": metrics}
        )
    )  # fmt: skip
    (place / "model-settings.json").write_text(
        json.dumps(
            {"name": "credit", "implementation": "mlserver_sklearn.SKLearnModel",
             "parameters": {"uri": "./model.joblib"}}
        )
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v2"
    command = [str(programs / "mlserver"), "start", str(place)]
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ready = f"{url}/models/credit/ready"
    with running(command, ready, log=folder / "mlserver.log", folder=place, env=env):
        yield f"{url}/models/credit"
