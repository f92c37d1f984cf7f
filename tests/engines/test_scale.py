"""The benchmark of scale, two million rows: the bars that do not depend on the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "scale.py"


@pytest.mark.slow
def test_two_million_rows_keep_to_the_bars(tmp_path):
    out = tmp_path / "scale.json"
    command = [
        sys.executable, str(SCRIPT), "--rows", "2000000", "--floats", "500000",
        "--folder", str(tmp_path), "--out", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(out.read_text())
    assert said["walks"]["2000000"]["rows"] == 2_000_000
    assert said["counted_floats"]["cells"] == 500_000
