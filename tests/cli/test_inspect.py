"""What text and JSON say of an artifact, a key and an explanation is the same."""

import io
import json
import os
import warnings
import zipfile

import pytest

from fairmend import ArtifactError
from fairmend.artifact import inspect as look

from .conftest import IGNORED, NAMED


@pytest.mark.slow
def test_rules_for_edits_are_shown(workdir, call, tmp_path):
    made = call(
        "repair", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", "--do-no-harm",
        "--immutable", "Age (years)", "--immutable", "Employment type",
        "--one-way", "<b>Income</b>:up", "--allow-partial", "-o", tmp_path / "m.fairmend",
        cwd=workdir,
    )  # fmt: skip
    assert made.code == 0, made.err
    text = call("inspect", tmp_path / "m.fairmend").out
    assert text.endswith(
        "Rules for edits\n"
        "rule        is\n"
        "immutable   Age (years), Employment type\n"
        "one way     <b>Income</b> up\n"
        "do no harm  yes\n"
    )
    said = json.loads(call("inspect", tmp_path / "m.fairmend", "--json").out)["settings"]
    assert said["immutable"] == ["Age (years)", "Employment type"]
    assert (said["one_way"], said["do_no_harm"]) == ({"<b>Income</b>": "up"}, True)
    without = call("inspect", "repaired.fairmend", cwd=workdir).out
    assert without.endswith(
        "immutable   Age (years)\none way     none\ndo no harm  no\n",
    )


def test_an_old_key_is_kept_for_old_repairs(workdir, call):
    done = call("key", "secret.key", cwd=workdir)
    assert done.code == 3
    assert done.err.endswith(
        "Choose another name: a key is never overwritten. "
        "Repairs made with the old key need the old key.\n"
    )


def test_an_explanation_has_the_difference_at_equal_inputs(workdir, call):
    arguments = ("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "sp")
    found = json.loads(call(*arguments, "--json", cwd=workdir).out)["decision_difference"]
    assert found["recorded"] is True
    text = call(*arguments, cwd=workdir).out
    assert f"{100 * found['target_share']:.1f} % of the target group" in text
    # a score to three digits: equal inputs got one decision, and nothing is left to test
    assert (found["differing"], found["p_value"]) == (0.0, None)


def zipped(*members, **marks):
    """A zip by Python's own writer; ``marks`` are set on every member."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # about names that come twice
        for name, content in members:
            info = zipfile.ZipInfo(name)
            for mark, value in marks.items():
                setattr(info, mark, value)
            archive.writestr(info, content)
    return file.getvalue()


def encrypted(content):
    """The first member's flag set, in both directories."""
    changed = bytearray(content)
    changed[6] |= 1
    changed[content.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


ODD = {
    "empty": lambda good: b"",
    "not a zip": lambda good: b"MZ" + bytes(1_000),
    "a bomb": lambda good: zipped(("manifest.json", bytes(200 << 20))),
    "a name twice": lambda good: zipped(("manifest.json", "{}"), ("manifest.json", "{}")),
    "out of itself": lambda good: zipped(("../../etc/cron.d/x.json", "{}")),
    "from the root": lambda good: zipped(("/etc/cron.d/x.json", "{}")),
    "encrypted": encrypted,
    "an artifact in a zip": lambda good: zipped(("repaired.fairmend", good)),
    "a zip for a manifest": lambda good: zipped(("manifest.json", good)),
    "a symbolic link": lambda good: zipped(
        ("manifest.json", "/etc/passwd"), create_system=3, external_attr=0o120777 << 16
    ),
    "two in a row": lambda good: good + good,
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_file_is_refused_in_a_line(odd, workdir, call, tmp_path):
    (tmp_path / "odd").write_bytes(ODD[odd]((workdir / "repaired.fairmend").read_bytes()))
    assert_refused(call("inspect", tmp_path / "odd"), "odd")


def assert_refused(done, name):
    assert (done.code, done.out) == (5, "")
    assert done.err.count("\n") == 1
    assert name in done.err


def test_what_is_no_file_is_refused_without_reading_on(workdir, call, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "folder", tmp_path / "pipe", "/dev/zero", tmp_path / "nowhere"):
        assert_refused(call("inspect", name), str(name))


def test_an_artifact_cut_short_anywhere_is_refused(workdir, tmp_path):
    whole, path = (workdir / "repaired.fairmend").read_bytes(), tmp_path / "short"
    places = [*range(300), *range(300, len(whole) - 300, 97), *range(len(whole) - 300, len(whole))]
    for end in places:
        path.write_bytes(whole[:end])
        with pytest.raises(ArtifactError):
            look(path)


def test_an_artifact_changed_after_a_look_is_checked_anew(workdir, call, tmp_path, monkeypatch):
    """The command looks first and loads then; what it looked at is not trusted."""
    whole, path = (workdir / "repaired.fairmend").read_bytes(), tmp_path / "changing.fairmend"
    path.write_bytes(whole)

    def changes(place):
        told = look(place)
        path.write_bytes(whole[:-200] + bytes(200))
        return told

    monkeypatch.setattr("fairmend.artifact.inspect", changes)
    out = tmp_path / "out.csv"
    done = call("apply", path, workdir / "new.csv", "--key-file", workdir / "secret.key", "-o", out)
    assert done.code == 5
    assert "changing.fairmend" in done.err
    assert not out.exists()
