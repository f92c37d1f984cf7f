"""The demo, run as a newcomer runs it: a process of its own, and what it prints."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
WIDTH = 100
WITHOUT = """
import sys
absent = set(sys.argv[1:])

class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from fairmend.cli.walk import main
main()
"""


def run(*arguments, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def printed(folder):
    done = run("-m", "fairmend", "demo", folder=folder)
    assert done.stderr == ""
    return done.stdout


def test_the_audit_finds_the_gap(printed):
    assert "On 16,281 people the model has not seen" in printed
    gap = re.search(r"^fnr +Female +Male .* \+(\d+\.\d) ", printed, re.MULTILINE)
    assert 15 < float(gap[1]) < 25  # the paper's models have some 18 points
    assert "significant at 95 % confidence" in printed


def test_the_explanation_closes_it_and_names_the_inputs(printed):
    assert "The gap can be closed" in printed
    assert re.search(r"It was \d+\.\d points and is 0\.0\.", " ".join(printed.split()))
    assert re.search(r"^Married +\d+\.\d % ", printed, re.MULTILINE)
    assert "Joint proxies" in printed


def test_the_repair_closes_it_for_people_not_seen_before(printed):
    assert "The realised gap is closed on the audit data." in printed
    line = r"^fnr +Female +Male +(\S+) +\[.*?\] +(\S+) +\[(\S+), (\S+)\]"
    before, after, low, high = map(float, re.search(line, printed, re.MULTILINE).groups())
    assert low <= 0 <= high  # at 95 % confidence no gap is left
    assert abs(after) < abs(before)
    assert not re.search(r"^Female +(Married|Immigrant|Age_leq_30) ", printed, re.MULTILINE)


def test_it_fits_the_terminal(printed):
    assert [line for line in printed.splitlines() if len(line) > WIDTH] == []


def test_the_page_is_written_and_named(printed, folder):
    assert printed.rstrip().endswith("fairmend-demo.html")
    page = (folder / "fairmend-demo.html").read_text(encoding="utf-8")
    assert "Fairness report: false negative rate by Sex" in page
    assert "python -m fairmend demo" in page
    assert [path.name for path in folder.iterdir()] == ["fairmend-demo.html"]


@pytest.mark.parametrize("other", ["pandas", "polars"])
def test_it_says_the_same_every_time_and_needs_only_pandas_or_polars(printed, tmp_path, other):
    absent = ("altair", "jinja2", "ortools", "ot", other)
    again = run("-c", WITHOUT, *absent, folder=tmp_path).stdout
    end = printed.index("All of it as one page")
    assert again[:end] == printed[:end]
    assert again[end:].startswith("No page was written.")
    assert "pip install 'fairmend[report]'" in " ".join(again[end:].split())
    assert list(tmp_path.iterdir()) == []
