"""What text and JSON say of an artifact, a key and an explanation is the same."""

import json

from .conftest import IGNORED, NAMED


def test_rules_for_edits_are_shown(mended, call, tmp_path):
    made = call(
        "repair", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", "--do-no-harm",
        "--immutable", "Age (years)", "--immutable", "Employment type",
        "--one-way", "<b>Income</b>:up", "--allow-partial", "-o", tmp_path / "m.fairmend",
        cwd=mended,
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
    without = call("inspect", "mended.fairmend", cwd=mended).out
    assert without.endswith(
        "immutable   Age (years)\none way     none\ndo no harm  no\n",
    )


def test_an_old_key_is_kept_for_old_repairs(mended, call):
    done = call("key", "secret.key", cwd=mended)
    assert done.code == 3
    assert done.err.endswith(
        "Choose another name: a key is never overwritten. "
        "Repairs made with the old key need the old key.\n"
    )


def test_an_explanation_has_the_difference_at_equal_inputs(mended, call):
    arguments = ("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "sp")
    found = json.loads(call(*arguments, "--json", cwd=mended).out)["decision_difference"]
    assert found["recorded"] is True
    text = call(*arguments, cwd=mended).out
    assert f"{100 * found['target_share']:.1f} % of the target group" in text
    # a score to three digits: equal inputs got one decision, and nothing is left to test
    assert (found["differing"], found["p_value"]) == (0.0, None)
