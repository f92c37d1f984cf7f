"""The table of odd inputs finds each kind of fault, and finds none in a sample of the cases."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from scripts import FOLDER, loaded

NAMES = ("_shared", "_odd_people", "_odd_run", "_odd_files", "_odd_models", "_odd_options",
         "_odd_artifacts", "_odd_library", "odd")  # fmt: skip


@pytest.fixture(scope="module")
def scripts():
    with loaded(*NAMES) as found:
        yield found


def outcome(scripts, call, **settings):
    return scripts.odd_run.judged(scripts.odd_people.Case("planted", "", call, **settings))[
        "outcome"
    ]


def as_audited(scripts, **changed):
    truth = scripts.odd_people.gaps(scripts.odd_people.people()) | changed
    return {"gaps": [{"metric": metric, "gap": gap} for metric, gap in truth.items()]}


def test_right_figures_are_the_same(scripts):
    assert outcome(scripts, lambda: as_audited(scripts)) == "same"


def test_another_figure_is_found(scripts):
    assert "another figure: fnr" in outcome(scripts, lambda: as_audited(scripts, fnr=0.5))


def test_a_traceback_is_found(scripts):
    assert outcome(scripts, lambda: 1 / 0) == "traceback"


def test_a_death_is_found(scripts):
    assert outcome(scripts, lambda: os.kill(os.getpid(), signal.SIGKILL)) == "died of signal 9"


def test_a_hang_is_found(scripts, monkeypatch):
    monkeypatch.setattr(scripts.odd_run, "SECONDS", 1)
    assert "took more than" in outcome(scripts, lambda: time.sleep(30))


def test_a_silent_refusal_is_found(scripts):
    assert outcome(scripts, lambda: sys.exit(3)) == "refused without a word"


def test_a_refusal_of_what_is_right_is_found(scripts):
    def refuse():
        print("no", file=sys.stderr)
        sys.exit(3)

    assert outcome(scripts, refuse) == "refused"
    assert outcome(scripts, refuse, must="same") == "refused, though it is right"


def test_an_acceptance_of_what_is_wrong_is_found(scripts):
    call = lambda: as_audited(scripts)  # noqa: E731
    assert outcome(scripts, call, means=None, must="refused") == "taken, though it is wrong"


def test_a_file_left_behind_is_found(scripts):
    def half():
        with open(".out.csv.part", "w", encoding="utf-8") as file:
            file.write("half")
        return as_audited(scripts)

    assert "half-written" in outcome(scripts, half)


def test_control_characters_are_found(scripts):
    def shout():
        print("\x1b[31mno", file=sys.stderr)
        sys.exit(3)

    assert "control characters" in outcome(scripts, shout)


def test_the_counted_gaps_are_those_of_an_audit(scripts):
    library = scripts.odd_library
    audited = library.audited(library.H, None, library.Y, sensitive_features=library.SEX)()
    truth = scripts.odd_people.gaps(scripts.odd_people.people())
    for gap in audited["gaps"]:
        assert gap["gap"] == pytest.approx(truth[gap["metric"]], abs=1e-12)


@pytest.mark.slow
def test_a_sample_of_the_cases_has_no_finding(tmp_path):
    script = [sys.executable, FOLDER / "odd.py", "--every", "80", "--jobs", "1"]
    done = subprocess.run([*script, "--out", tmp_path / "odd.json"], check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads((tmp_path / "odd.json").read_text())["cases"]) >= 15


@pytest.mark.slow
def test_cases_are_named_apart(scripts):
    every = scripts.odd.all_cases(scripts.odd.base())
    assert len(every) >= 600
    assert len({(case.kind, case.name) for case in every}) == len(every)


def test_the_script_fails_where_there_is_a_finding(scripts, monkeypatch, tmp_path, capsys):
    finding = {"kind": "planted", "name": "x", "outcome": "traceback", "code": 70, "said": ""}
    fine = {**finding, "name": "y", "outcome": "same", "code": 0}
    monkeypatch.setattr(scripts.odd, "run", lambda *_: [fine, finding])
    assert scripts.odd.main(["--out", str(tmp_path / "odd.json")]) == 1
    assert "traceback" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "odd.json").read_text())["cases"]) == 2
    monkeypatch.setattr(scripts.odd, "run", lambda *_: [fine])
    assert scripts.odd.main(["--out", str(tmp_path / "odd.json")]) == 0
