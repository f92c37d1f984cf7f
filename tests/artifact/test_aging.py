"""Artifacts of earlier versions load and decide as they did; those of later ones name a version."""

import hashlib
import importlib.util
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import fairmend
from fairmend import ArtifactError
from fairmend.artifact.codec import Decoder, Encoder
from fairmend.artifact.container import MANIFEST, opened, pack
from fairmend.data.stored import stored

FIXTURES = Path(__file__).parent / "fixtures"
_SPEC = importlib.util.spec_from_file_location("make_fixtures", FIXTURES / "make.py")
make = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make)


@pytest.mark.parametrize("kind", make.KINDS)
def test_an_artifact_of_an_earlier_version_decides_as_it_did(kind):
    recorded = json.loads((FIXTURES / f"{kind}.json").read_text())
    model = make.model_of(kind)
    loaded = fairmend.load(FIXTURES / f"{kind}.fairmend", model, key=make.KEY)
    now = json.loads(json.dumps(make.decisions(loaded, kind)))
    assert now.pop("chance") == pytest.approx(recorded.pop("chance"), abs=1e-12)
    assert now == recorded


def test_the_fixtures_are_small_and_each_has_its_record():
    files = list(FIXTURES.glob("*.fairmend"))
    assert {file.stem for file in files} == set(make.KINDS)
    assert sum(file.stat().st_size for file in FIXTURES.iterdir() if file.is_file()) < 300_000


# -------------------------------------------------------------------- fields that come and go


@stored("tests.Person")
@dataclass(frozen=True)
class PersonBefore:
    name: str


@stored("tests.Renamed", names={"surname": "name"}, dropped=["title"])
@dataclass(frozen=True)
class PersonNow:
    surname: str
    age: int = 7


def decode(value, writer=fairmend.__version__):
    return Decoder(lambda _: b"", writer=writer).decode(value)


def test_a_field_that_an_older_file_lacks_takes_its_default():
    written = Encoder().encode(PersonBefore("Ada"), "x")
    assert written == {"$": "tests.Person", "name": "Ada"}
    older = {**written, "$": "tests.Renamed"}
    assert decode(older) == PersonNow("Ada", 7)
    assert decode({**older, "title": "Dr"}) == PersonNow("Ada", 7)
    assert Encoder().encode(PersonNow("Ada", 8), "x") == {**older, "age": 8}


def test_a_field_without_a_default_must_be_in_the_file():
    with pytest.raises(ArtifactError, match=r"tests.Renamed without surname"):
        decode({"$": "tests.Renamed", "age": 3})


@pytest.mark.parametrize(
    "value", [{"$": "tests.Person", "name": "Ada", "shoes": 2}, {"$": "tests.Shoe", "size": 2}]
)
def test_what_only_a_newer_version_knows_names_the_version_to_install(value):
    with pytest.raises(ArtifactError, match=r"[Ss]hoe.*Install fairmend 99\.1\.0 or newer"):
        decode(value, "99.1.0")
    with pytest.raises(ArtifactError, match=r"[Ss]hoe.*damaged"):
        decode(value)


# -------------------------------------------------------------------- whole files


def rewritten(tmp_path, change):
    """A fixture with a changed manifest and body, and hashes that fit."""
    with opened(FIXTURES / "least_change_scores.fairmend") as box:
        members = {name: box.unpack(name) for name in box.sizes}
    manifest, body = json.loads(members.pop(MANIFEST)), json.loads(members["repair.json"])
    change(manifest, body)
    members["repair.json"] = content = json.dumps(body).encode()
    listed = manifest["members"]["of"][0]
    listed.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    file = io.BytesIO()
    pack(file, {MANIFEST: json.dumps(manifest).encode(), **members})
    (tmp_path / "other").write_bytes(file.getvalue())
    return tmp_path / "other"


def without_settings(manifest, body):
    for settings in (manifest["about"]["settings"], body["settings"]):
        settings["of"] = [pair for pair in settings["of"] if pair[0] != "two_sided"]


def with_a_setting(manifest, body):
    manifest["fairmend"] = "99.1.0"
    for settings in (manifest["about"]["settings"], body["settings"]):
        settings["of"].append(["three_sided", True])


def with_an_entry(manifest, body):
    manifest.update(fairmend="99.1.0", signature="x")


def test_a_setting_that_an_older_file_lacks_keeps_its_default(tmp_path):
    path = rewritten(tmp_path, without_settings)
    loaded = fairmend.load(path, make.probability, key=make.KEY)
    assert loaded.two_sided is False


@pytest.mark.parametrize("change", [with_a_setting, with_an_entry])
def test_a_file_of_a_newer_version_names_the_version_to_install(tmp_path, change):
    with pytest.raises(ArtifactError, match=r"Install fairmend 99\.1\.0 or newer"):
        fairmend.load(rewritten(tmp_path, change), make.probability)


def test_a_newer_version_that_added_nothing_to_this_file_loads(tmp_path):
    path = rewritten(tmp_path, lambda manifest, body: manifest.update(fairmend="99.1.0"))
    assert fairmend.load(path, make.probability, key=make.KEY).plans_
