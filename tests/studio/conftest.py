"""A studio as people have it: a process of its own, opened by a browser with its token."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import pytest

from fairmend.studio.project import Project
from fairmend.studio.runs import options_set
from fairmend.studio.screens import columns_of, guessed
from fairmend.studio.settings import STEPS

ADDRESS = re.compile(r"(?:open|another browser:) (http://\S+)")


def write_loans(path, n=900, seed=7):
    """Applicants as a spreadsheet in Europe exports them; women work fewer hours."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(n) < 0.4, "woman", "man")
    origin = rng.choice(["here", "abroad"], n, p=[0.7, 0.3])
    income = np.exp(rng.normal(7.6, 0.5, n)) * np.where(sex == "woman", 0.85, 1)
    years = np.round(rng.uniform(0, 30, n), 1)
    hours = np.where(
        sex == "woman", rng.choice([20, 30, 40], n), rng.choice([20, 30, 40], n, p=[0.1, 0.2, 0.7])
    )
    merit = 0.0006 * (income - 2000) + 0.03 * (years - 15) + 0.02 * (hours - 30)
    paid = rng.random(n) < 1 / (1 + np.exp(-merit))
    accepted = merit + 0.035 * (hours - 33) + rng.normal(0, 0.2, n) > 0.1
    unknown = rng.random(n) < 0.03

    def number(value):
        return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")

    lines = ["applicant no;sex;origin;monthly income;years employed;hours;applied on;paid back;"
             "vendor decision"]  # fmt: skip
    lines += [
        f"{100_000 + i};{sex[i]};{origin[i]};{'n/a' if unknown[i] else number(income[i])};"
        f"{str(years[i]).replace('.', ',')};{hours[i]};2026-0{1 + i % 9}-1{i % 9};"
        f"{'yes' if paid[i] else 'no'};{'accept' if accepted[i] else 'refuse'}"
        for i in range(n)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def no_options_from_outside(monkeypatch):
    """Variables of whoever runs the tests would stand in the commands shown."""
    for name in options_set():
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """A folder that all workers of a test run share, and how to make something in it once."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "studio"
    shared.mkdir(exist_ok=True)

    def make(name, maker):
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / f"{name}.made").exists():
                maker(shared / name)
                (shared / f"{name}.made").touch()
        return shared / name

    return make


@pytest.fixture(scope="session")
def loans(once):
    return once("loans 2026.csv", write_loans)


def done(project, step):
    """Do a step and wait for its end."""
    run = project.begin(step)
    until = time.monotonic() + 120
    while run.state == "running":
        assert time.monotonic() < until, "it never ended"
        time.sleep(0.05)
    assert run.state == "done", run.error
    return run


def finish(folder, file, cells, decisions, steps=STEPS):
    """A project in which steps are done, without a browser."""
    project = Project.at(folder)
    project.open(str(file))
    project.change(lambda old: replace(old, **cells))
    columns = columns_of(done(project, "columns"))
    project.change(lambda old: replace(guessed(old, columns), **decisions))
    for step in steps:
        done(project, step)
    return project


@pytest.fixture(scope="session")
def finished(once, loans):
    """Of the applicants, by intersections, with rules for edits."""
    decisions = {
        "group": ["sex", "origin"], "metric": ["fnr"], "one_way": {"hours": "up"},
        "cost": {"hours": 2.0},
    }  # fmt: skip
    place = once("finished", lambda at: finish(at, loans, {"decimal": ","}, decisions))
    return Project.at(place)


@pytest.fixture(scope="session")
def explained(once, loans):
    """Of the applicants, as far as the explanation of a gap."""
    gap = {"metric": ["fnr"], "target": "woman", "reference": "man"}
    steps = ("audit", "explain")
    return Project.at(once("explained", lambda at: finish(at, loans, {"decimal": ","}, gap, steps)))


@dataclass
class Running:
    """A studio that was started on a folder."""

    process: subprocess.Popen
    folder: object
    address: str
    cookie: str = ""
    base: str = ""
    """The secret folder of its pages, once the token was exchanged."""

    @property
    def port(self):
        return urlsplit(self.address).port

    def ask(self, method, path, body=None, **headers):
        """A request by hand; its status, headers and text."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        own = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        own |= {"Origin": f"http://127.0.0.1:{self.port}"} if method == "POST" else {}
        place = path if path.startswith("/?") else f"{self.base}{path}"
        connection.request(method, place, body, own | headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        told = {name.lower(): value.removeprefix(self.base) for name, value in answer.getheaders()}
        return answer.status, told, text

    def enter(self):
        """Exchange the token for the cookie, as a browser does."""
        status, headers, text = self.ask("GET", f"/?{urlsplit(self.address).query}")
        assert status == 200
        self.cookie = headers["set-cookie"].split(";")[0]
        self.base = re.search(r'href="(/[^"]+)/"', text)[1]
        return self

    def next_address(self):
        return ADDRESS.search(self.process.stderr.readline())[1]


@pytest.fixture
def start():
    """Start a studio on a folder; it is killed when the test ends."""
    started = []

    def begin(folder, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "fairmend", "studio", "--no-browser", "--project", str(folder),
             *map(str, arguments)],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        started.append(process)
        for line in process.stderr:
            if found := ADDRESS.search(line):
                return Running(process, folder, found[1])
        raise AssertionError("the studio ended before it had an address")

    yield begin
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        process.stderr.close()
