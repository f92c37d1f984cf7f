"""What others add from outside the package works end to end by its name."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fairmend
from fairmend import MetricWords, RateGap
from fairmend.data.limits import Chance
from fairmend.data.stored import stored
from fairmend.errors import ArtifactError, DataError
from fairmend.measure import disparity
from fairmend.repair import methods
from fairmend.repair.destinations import Donors
from fairmend.repair.plan import Plan, Route


def _omitted(h, y):
    return (1 - h) * y


def _declined(h, y):
    return 1 - h


def by_score(rows):
    return np.asarray(rows)[:, 0] > 2


@pytest.fixture
def omission(monkeypatch):
    """A metric that fairmend does not know, registered for one test."""
    monkeypatch.setattr(disparity, "_REGISTRY", dict(disparity._REGISTRY))
    return RateGap(
        "for",
        rate=_omitted,
        given=_declined,
        words=MetricWords(
            "false omission rate",
            "positive outcomes among negative decisions",
            event="turn out to have a positive outcome",
            among="a negative decision",
            complements=("npv",),
        ),
    )


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 4_000
    group = np.where(rng.random(n) < 0.5, "a", "b")
    score = rng.integers(0, 6, n)
    chance = np.where(group == "b", 0.5, 0.2) + 0.06 * score
    return score[:, None].astype(float), (rng.random(n) < chance).astype(int), group


def test_a_metric_is_one_declaration(omission, people, tmp_path):
    X, y, group = people
    audit = fairmend.audit(by_score, X, y, sensitive_features=group, metrics=["sp", "FOR"])
    line = "for: false omission rate, positive outcomes among negative decisions"
    assert line in str(audit)
    assert audit["for", "b"].gap > 0.2
    assert audit.to_dict()["metrics"]["for"] == omission.title

    with pytest.raises(DataError, match=r"one of sp, .*, for, .*'for': npv is 1 - for"):
        fairmend.audit(by_score, X, y, sensitive_features=group, metrics=["npv"])

    repaired = fairmend.RepairedClassifier(by_score, "for", key=bytes(32)).fit(
        X, y, sensitive_features=group
    )
    report = repaired.report(X, y, sensitive_features=group)
    verdict = " ".join(answer for _, answer in report.verdict())
    assert re.search(
        r"of those with a negative decision, .* of b and .* turn out to have a positive outcome",
        verdict,
    )
    assert "false omission rate" in report.to_html()

    repaired.save(tmp_path / "one.fairmend")
    loaded = fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))
    assert loaded.disparity == "for"
    ids = np.arange(len(X))
    before, after = (
        one.predict(X, sensitive_features=group, ids=ids) for one in (repaired, loaded)
    )
    assert np.array_equal(before, after)


def test_an_artifact_names_the_metric_that_is_not_registered(omission, people, tmp_path):
    X, y, group = people
    fairmend.RepairedClassifier(by_score, "for", key=bytes(32)).fit(
        X, y, sensitive_features=group
    ).save(tmp_path / "one.fairmend")
    del disparity._REGISTRY["for"]
    with pytest.raises(ArtifactError, match="registered"):
        fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))


def test_a_metric_of_fairmend_cannot_be_replaced(omission):
    with pytest.raises(DataError, match="'fnr'"):
        RateGap("fnr", rate=_omitted, given=_declined, words=omission.words)


def test_the_command_line_takes_a_metric(omission, people, tmp_path):
    from fairmend.cli import main

    X, y, group = people
    file = tmp_path / "people.csv"
    lines = [f"{s:g},{o},{g},{int(s > 2)}" for s, o, g in zip(X[:, 0], y, group, strict=True)]
    file.write_text("\n".join(["score,repaid,town,offered", *lines]))
    found = CliRunner().invoke(
        main.app,
        ["audit", str(file), "--group", "town", "--label", "repaid", "--predictions", "offered",
         "--metric", "for", "--json"],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["metrics"]["for"] == omission.title


def test_a_package_declares_a_metric_and_the_help_shows_it(tmp_path):
    (tmp_path / "omissions.py").write_text(
        "import fairmend\n"
        "FOR = fairmend.RateGap('for', lambda h, y: (1 - h) * y, lambda h, y: 1 - h,\n"
        "                       fairmend.MetricWords('false omission rate'))\n"
    )
    about = tmp_path / "omissions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: omissions\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fairmend.metrics]\nfor = omissions:FOR\n")
    asked = subprocess.run(
        [sys.executable, "-m", "fairmend", "audit", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "300", "TERM": "dumb"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "for (false omission rate)" in " ".join(asked.stdout.split())


# -------------------------------------------------------------------- a repair method


@stored("tests.Lottery")
@dataclass(frozen=True, eq=False)
class Lottery(Plan):
    """Everybody who was refused has the same chance of the nearest row that was not."""

    chance: Chance
    donors: Donors

    def route(self, rows, answers):
        refused = np.flatnonzero(answers.decision == 0)
        found = self.donors.nearest(rows.take(refused))
        return Route.flips(len(rows), refused, np.full(len(refused), self.chance), found)


@dataclass(frozen=True)
class LotteryOptions:
    most: float = 1.0


def lottery(problem):
    gap, decision = problem.gaps[0], problem.source.decision
    excess, all_accepted = gap.excess(decision), gap.excess(np.ones_like(decision))
    chance = min(excess / (excess - all_accepted), problem.options(LotteryOptions).most)
    return Lottery(**problem.common(), chance=chance, donors=problem.donors(1.0))


@pytest.fixture(scope="module")
def unequal(people):
    """People of whom those in a have higher scores."""
    X, y, group = people
    return np.c_[X[:, 0] + (group == "a"), np.arange(len(X)) % 3], y, group


@pytest.fixture
def registered(monkeypatch):
    """The method by its name, for one test."""
    monkeypatch.setattr(methods, "_REGISTERED", dict(methods.methods()))
    methods.repair_method(
        "lottery", help="one chance for all", uses=("level", "cost"), options=LotteryOptions
    )(lottery)


def test_a_method_is_one_function(registered, unequal, tmp_path):
    X, y, group = unequal
    repaired = fairmend.RepairedClassifier(
        by_score, "sp", method="lottery", immutable=["x1"], key=bytes(32)
    ).fit(X, y, sensitive_features=group)
    plan, data = repaired.plan_, repaired.data_
    assert (plan.method, plan.status.name) == ("lottery", "CLOSED")
    assert str(plan).startswith("Plan for b against a: sp by lottery")
    law = plan.route(data.table.take(data["b"].rows), data["b"].answers)
    np.testing.assert_allclose(np.bincount(law.row, law.probability), 1)
    np.testing.assert_allclose(
        data["b"].mass @ law.expected_decision(data["b"].answers),
        data["a"].mass @ data["a"].decision,
    )
    ids = np.arange(len(X))
    assert np.array_equal(repaired.transform(X, sensitive_features=group, ids=ids)[:, 1], X[:, 1])
    report = repaired.report(X, y, sensitive_features=group)
    assert "lottery" in str(report.provenance.settings)

    repaired.save(tmp_path / "one.fairmend")
    loaded = fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))
    before, after = (
        one.predict(X, sensitive_features=group, ids=ids) for one in (repaired, loaded)
    )
    assert np.array_equal(before, after)


def test_a_method_says_which_settings_and_options_it_has(registered, unequal):
    X, y, group = unequal
    base = {"method": "lottery", "key": bytes(32)}
    capped = fairmend.RepairedClassifier(by_score, method_options={"most": 0.01}, **base)
    assert capped.fit(X, y, sensitive_features=group).plan_.status.name == "REMAINS"
    for wrong in ({"rank": "cost"}, {"method_options": {"least": 0.01}}):
        with pytest.raises(DataError, match="lottery"):
            fairmend.RepairedClassifier(by_score, **base, **wrong).fit(
                X, y, sensitive_features=group
            )


def test_a_function_that_is_not_registered_is_a_method_too(unequal):
    X, y, group = unequal
    repaired = fairmend.RepairedClassifier(by_score, method=lottery, key=bytes(32))
    assert repaired.fit(X, y, sensitive_features=group).plan_.status.name == "CLOSED"


def test_the_command_line_offers_a_method(registered):
    from fairmend.cli import main

    found = CliRunner().invoke(main.app, ["repair", "--help"])
    assert "lottery" in found.output


# -------------------------------------------------------------------- a cost


def twice_the_distance(rows, others):
    return 2 * np.abs(rows[:, None, 0] - others[None, :, 0])


def test_a_cost_is_one_function(unequal, tmp_path):
    X, y, group = unequal
    usual = fairmend.RepairedClassifier(by_score, key=bytes(32)).fit(X, y, sensitive_features=group)
    repaired = fairmend.RepairedClassifier(by_score, cost=twice_the_distance, key=bytes(32))
    repaired.fit(X, y, sensitive_features=group)
    assert repaired.plan_.status.name == "CLOSED"
    assert repaired.plan_.outlook.edited == pytest.approx(usual.plan_.outlook.edited)
    assert repaired.plan_.outlook.cost >= 2
    costs = twice_the_distance(X[:50], X[:50])
    assert (costs >= 0).all()
    assert (np.diagonal(costs) == 0).all()
    assert "mean cost" in str(repaired.plan_)
    assert repaired.report(X, y, sensitive_features=group).after["sp", "b"].gap < 0.02
    with pytest.raises(ArtifactError, match="twice_the_distance"):  # an artifact holds no code
        repaired.save(tmp_path / "one.fairmend")


# -------------------------------------------------------------------- a protocol and a log backend


@pytest.fixture
def sidecar_parts(monkeypatch):
    """A protocol and a log backend that fairmend does not have, for one test."""
    from fairmend.model.protocols.instances import Instances
    from fairmend.model.registry import PROTOCOLS
    from fairmend.serve.log import LOGS
    from fairmend.serve.log.stores.sqlite import SQLiteLog

    for registry in (PROTOCOLS, LOGS):
        for name in registry.names():
            registry[name]  # a file that is first imported in the test would be lost after it
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))

    class Applicants(Instances):
        name = "applicants"
        paths = ("/score",)
        records_key = "applicants"
        answers_key = "scores"

        @staticmethod
        def fits(path):
            return path.endswith("/score-applicants")

        def encode(self, names, rows, kinds):
            records = [dict(zip(names, row, strict=True)) for row in rows]
            return json.dumps({"applicants": records}).encode()

        def decode(self, body):
            return json.loads(body)["scores"]

        def read(self, body, content_type="application/json"):
            return super().read(body.replace(b"applicants", b"instances", 1), content_type)

        def write(self, query, answers, more=None):
            return json.dumps({"scores": answers, **(more or {})}).encode()

    class Elsewhere(SQLiteLog):
        scheme = "elsewhere"

        def __init__(self, where, *, read_only):
            super().__init__(where.removeprefix("elsewhere://"), read_only=read_only)


@pytest.fixture
def scoring_server():
    """A vendor that speaks the protocol; its address, and the number of its calls."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.append(body)
            scores = [int(row["score"] > 2) for row in body["applicants"]]
            content = json.dumps({"scores": scores}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/score-applicants", calls
        server.shutdown()


def test_a_protocol_and_a_log_backend_are_one_class_each(
    sidecar_parts, scoring_server, people, tmp_path, monkeypatch
):
    import pandas as pd

    from fairmend.model.protocols import protocol_named, protocol_names
    from fairmend.serve.app import make_app
    from fairmend.serve.config import read_config
    from fairmend.serve.log import LogKey, open_store, verify
    from fairmend.serve.sidecar import Sidecar

    url, calls = scoring_server
    X, y, group = people
    X = pd.DataFrame({"score": X[:, 0]})
    model = fairmend.RemoteModel(url)  # the protocol is known by the address
    assert model.protocol.name == "applicants"
    repaired = fairmend.RepairedClassifier(model, "fnr", key=bytes(32))
    repaired.fit(X, y, sensitive_features=group).save(tmp_path / "one.fairmend")
    assert calls

    monkeypatch.setenv("FAIRMEND_KEY", "00" * 32)
    log = f"elsewhere://{tmp_path}/decisions.sqlite"
    config = read_config(
        None, artifact=str(tmp_path / "one.fairmend"), upstream=url, log=log, mode="shadow"
    )

    async def serve():
        sidecar = Sidecar(config)
        await sidecar.start()
        try:
            app = make_app(sidecar)
            assert "/score" in [route.path for route in app.routes]
            person = {"score": 3.0, "group": "b", "id": 7}
            body = json.dumps({"applicants": [person]}).encode()
            spoken = protocol_named("applicants")
            return await sidecar.answer(spoken, body, "application/json", {}, "/score")
        finally:
            await sidecar.stop()

    decided = asyncio.run(serve())
    assert json.loads(decided.content) == {"scores": [1]}
    assert "applicants" in protocol_names()
    verdict = verify(log, LogKey.derived(bytes(32)))
    assert verdict.holds
    assert verdict.rows["decisions"] == 1
    with open_store(log) as store:
        assert store.totals().decisions == 1


def test_a_package_declares_a_protocol_and_it_is_found_by_name(tmp_path):
    (tmp_path / "applicants.py").write_text(
        "from fairmend.model.protocols.instances import Instances\n"
        "class Applicants(Instances):\n"
        "    name = 'applicants'\n"
    )
    about = tmp_path / "applicants-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: applicants\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fairmend.protocols]\napplicants = applicants\n")
    code = (
        "from fairmend.model.protocols import protocol_named, protocol_names\n"
        "print(*protocol_names(), protocol_named('applicants'))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.startswith("applicants instances mlflow v2 <applicants.Applicants")


# -------------------------------------------------------------------- an engine


class Ledger:
    """Rows in a place of its own: a list of records, in parts."""

    def __init__(self, *parts):
        self.parts = parts


@pytest.fixture
def ledger_engine(monkeypatch):
    """An engine that fairmend does not know, registered by being declared, for one test."""
    from fairmend.engines import Engine
    from fairmend.engines.cells import count

    monkeypatch.setattr(Engine, "registered", dict(Engine.registered))
    monkeypatch.setattr(Ledger, "__module__", "ledgers.files")

    class LedgerEngine(Engine):
        name = "ledger"
        reads = ("ledgers",)

        def names(self, source):
            return list(source.data.parts[0].columns)

        def tabulate(self, source, columns, weight, small):
            every = pd.concat(source.data.parts, ignore_index=True)
            return small.of(count(every, columns, weight), columns)

        def map_rows(self, source, job, out, *, overwrite):
            return Ledger(*(job(part, f"part {i}") for i, part in enumerate(source.data.parts)))

    return LedgerEngine


def test_an_engine_from_outside(ledger_engine):
    """It is audited, repaired, applied and reported from, as a frame in memory is."""
    rng = np.random.default_rng(0)
    n = 600
    people = pd.DataFrame({"a": rng.integers(0, 2, n), "b": rng.integers(0, 3, n), "id": range(n)})
    people["sex"] = np.where(rng.random(n) < 0.3 + 0.3 * people["a"], "m", "f")
    people["y"] = (rng.random(n) < 0.2 + 0.5 * people["a"]).astype(int)
    place = Ledger(people[:100], people[100:])
    inputs = ["a", "b"]
    about = {"sensitive_features": "sex"}

    def vendor(rows):
        return 0.3 * rows["a"] + 0.25 * rows["b"]

    audited = fairmend.audit(vendor, fairmend.engines.source(place, inputs=inputs), "y", **about)
    values = {"sensitive_features": people["sex"]}
    expected = fairmend.audit(vendor, people[inputs], people["y"], **values)
    pd.testing.assert_frame_equal(audited.to_frame(), expected.to_frame())

    repaired = fairmend.RepairedClassifier(vendor, "sp", random_state=0)
    repaired.fit(fairmend.engines.source(place, inputs=inputs), "y", **about)
    decided = repaired.predict(place, ids="id", **about)
    assert isinstance(decided, Ledger)
    decision = pd.concat(decided.parts)["decision"]
    wanted = repaired.predict(people[inputs], ids=people["id"], **values)
    np.testing.assert_array_equal(decision, wanted)
    edited = pd.concat(repaired.transform(place, ids="id", **about).parts)
    moved = repaired.transform(people[inputs], ids=people["id"], **values)
    pd.testing.assert_frame_equal(edited[inputs], moved)
    report = repaired.report(place, "y", **about)
    assert abs(report.after.gaps[0].gap) < abs(report.before.gaps[0].gap)
    with pytest.raises(DataError, match="must be left out for ledger frames"):
        fairmend.engines.map_rows(repaired, place, out="x.parquet", **about)
