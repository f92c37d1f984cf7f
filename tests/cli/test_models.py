"""Models that do what they should not: print, exit, and keep their cut to themselves."""

import json
import textwrap

import pytest

from .conftest import in_process, process

ANSWER = """
import os, sys, threading, time, warnings
import numpy as np

def answer(rows):
    return 1 / (1 + np.exp(3.2 - rows["x"].to_numpy()))
"""
PEOPLE = ("--group", "g", "--label", "y", "--id", "id", "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People, a model that behaves, and a repair of it."""
    place = tmp_path_factory.mktemp("models")
    lines = ["id,x,g,y"]
    for i in range(400):
        group = "ab"[i % 2]
        lines.append(f"p{i},{(i * 7) % 8 - 2 * (group == 'b')},{group},{int((i * 5) % 11 > 5)}")
    (place / "people.csv").write_text("\n".join(lines) + "\n")
    (place / "good.py").write_text(ANSWER)
    assert in_process("key", "k", cwd=place).code == 0
    done = in_process("repair", "people.csv", *PEOPLE, "--model", "good:answer", "--key-file", "k",
                      "-o", "r.fairmend", "--allow-partial", cwd=place)  # fmt: skip
    assert done.code == 0, done.err
    return place


def calls(folder, body, name):
    """The three commands that run a model, with another of ours in its place."""
    (folder / f"{name}.py").write_text(ANSWER + textwrap.dedent(body))
    output = folder / f"{name}.out"
    model = ("--model", f"{name}:model")
    repair = ("-o", folder / f"{name}.fairmend", "--report", output, "--allow-partial")
    apply = ("apply", "r.fairmend", "people.csv", "--id", "id", "--key-file", "k")
    return {
        "audit": ("audit", "people.csv", *PEOPLE, *model),
        "repair": ("repair", "people.csv", *PEOPLE, *model, *repair),
        "apply": (*apply, *model, "-o", folder / f"{name}.csv"),
        "apply -o -": (*apply, *model, "-o", "-"),
    }


EXITS = {
    "exits": "def model(rows): sys.exit(0)",
    "booms": "raise SystemExit('boom')",
    "looks": "class M:\n  @property\n  def predict(self): sys.exit(0)\nmodel = M()",
}


@pytest.mark.parametrize("command", ["audit", "repair", "apply"])
@pytest.mark.parametrize("name", EXITS)
def test_a_model_that_exits_has_failed(command, name, folder, call):
    done = call(*calls(folder, EXITS[name], name)[command], cwd=folder)
    assert (done.code, done.out) == (4, ""), done.err
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1].startswith("fairmend: ")
    assert not list(folder.glob(f"{name}.[fco]*"))


def test_a_process_does_not_end_as_its_model_wants(folder):
    done = process(*calls(folder, EXITS["exits"], "exits")["audit"], cwd=folder)
    assert (done.returncode, done.stdout) == (4, b""), done.stderr
    assert b"it raised SystemExit: 0" in done.stderr.splitlines()[-1]


PRINTS = """
    def model(rows):
        print("PRINTED")
        os.write(1, b"PRINTED\\n")
        os.system("echo PRINTED")
        def late():
            time.sleep(0.5)
            print("PRINTED")
        threading.Thread(target=late).start()
        return answer(rows)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["audit", "repair", "apply -o -"])
def test_what_a_model_prints_is_no_figure(command, folder):
    done = process(*calls(folder, PRINTS, "prints")[command], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert b"PRINTED" not in done.stdout
    assert done.stderr.count(b"PRINTED") >= 4
    if command == "apply -o -":
        assert len(done.stdout.splitlines()) == 401
    else:
        assert json.loads(done.stdout)["schema"].startswith("fairmend.")


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "def model(rows): sys.stdout.close(); sys.stderr.close(); return answer(rows)",
        "def model(rows): os.dup2(os.open(os.devnull, 1), 1); os.dup2(1, 2); return answer(rows)",
        "def model(rows): sys.stdout = sys.stderr = None; return answer(rows)",
    ],
)
def test_a_model_that_takes_the_streams_away_does_not_take_ours(body, folder):
    done = process(*calls(folder, body, "closes")["audit"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gaps"]


@pytest.mark.slow
@pytest.mark.filterwarnings("always::fairmend.FairmendWarning")  # printed as a note
def test_a_models_own_cut_is_found_and_kept(folder, call):
    body = """
    class Lenient:
        def predict_proba(self, rows):
            p = 1 / (1 + np.exp(3.2 - np.asarray(rows)[:, 0].astype(float)))
            return np.stack([1 - p, p], axis=1)
        def predict(self, rows):
            return (self.predict_proba(rows)[:, 1] > 0.3).astype(int)
    model = Lenient()
    """
    made = calls(folder, body, "lenient")
    done = call(*made["repair"], "--metric", "sp", cwd=folder)
    assert done.code == 0, done.err
    assert "predict_proba > 0.3 does, not > 0.5" in done.err
    inspected = call("inspect", "lenient.fairmend", "--json", cwd=folder)
    assert json.loads(inspected.out)["model"]["threshold"] == 0.3
    other = ("apply", "lenient.fairmend", "people.csv", "--id", "id", "-o", "never.csv",
             "--model", "lenient:model", "--threshold")  # fmt: skip
    refused = call(*other, "0.5", cwd=folder)
    assert refused.code == 2
    assert "--threshold: must be 0.3, as in the repair" in refused.err


def test_a_long_error_of_a_vendor_is_cut_and_cleaned(folder):
    body = 'def model(rows): raise ValueError("\\x1b[31m" + "z" * 100_000 + " https://v/?key=abc")'
    done = process(*calls(folder, body, "loud")["audit"], cwd=folder)
    assert done.returncode == 4
    assert len(done.stderr) < 1_000
    assert b"\x1b" not in done.stderr
    assert b"abc" not in done.stderr


def test_a_warning_of_a_vendor_moves_no_cursor(folder):
    body = 'def model(rows): warnings.warn("\\x1b[2J gone"); return answer(rows)'
    done = process(*calls(folder, body, "warns")["audit"], cwd=folder)
    assert done.returncode == 0
    assert b"gone" in done.stderr
    assert b"\x1b" not in done.stderr
