"""What the screens say in a headline, against the figures behind it."""

from dataclasses import replace

import pytest

from fairmend.data.plain import as_plain, from_plain
from fairmend.report.findings import Explanation
from fairmend.status import Status
from fairmend.studio.screens import RESULTS, STEP_OF

pytestmark = pytest.mark.slow


@pytest.fixture
def found(finished):
    return from_plain(Explanation, finished.run("explain").result["explanation"])


def headline(found):
    from fairmend.studio.screens import _can_it_be_closed

    return _can_it_be_closed(found)


def test_the_explanation_opens_with_the_gap_and_whether_it_can_be_closed(found):
    target, baseline = found.group_names
    gap = (
        f"The gap in false negative rate of {target} against {baseline} is "
        f"{100 * found.before:+.1f} points."
    )
    by_model = f"By the fitted model of outcomes, the{gap.removeprefix('The')}"
    assert abs(found.after) < 1e-6 < abs(found.before)
    assert found.modelled, "it differs from the gap that is counted"
    assert headline(found) == f"{by_model} Other values of these inputs close it."
    found = replace(found, modelled=False)
    assert headline(found) == f"{gap} Other values of these inputs close it."
    assert headline(replace(found, closed=False)) == (
        f"{gap} The search found no other values of these inputs that close it."
    )
    never = replace(found, closed=False, irreconcilable=True, certain=True)
    assert headline(never) == f"{gap} No other values of these inputs close it."
    assert "leave room for the opposite" in headline(replace(never, certain=False))
    none = replace(found, before=0.0, closed=False, status=Status.NOTHING_TO_DO.value)
    assert (
        headline(none) == f"There is no gap in false negative rate of {target} against {baseline}."
    )
    shown = RESULTS["explain"](None, {"explanation": as_plain(none)})
    assert (shown["certificate"], shown["carried"]) == (none.status, "")


def test_whether_there_was_an_alternative_is_as_the_search_found(finished):
    result = finished.run("alternatives").result
    passed = [one["candidate"] for one in result["candidates"] if one["passed"]]
    said = RESULTS["alternatives"](finished.settings(), result)["headline"]
    assert (result["best"] in passed) == bool(passed)
    if passed:
        assert said == f"There is a less discriminatory alternative: {result['best']}."
    else:
        assert said == "No less discriminatory alternative was shown to perform as well."
    other = {**result, "best": "another one"} if not passed else {**result, "best": None}
    assert RESULTS["alternatives"](finished.settings(), other)["headline"] != said


def test_every_screen_of_a_step_has_a_result():
    assert set(RESULTS) <= set(STEP_OF)
