"""The walk of docs/deploy.md, typed into a shell from its first block to its last."""

import doctest
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from shutil import which

import pytest

from vendors import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shell:
    """A shell that is typed into; what it prints is read up to a mark."""

    def __init__(self, folder):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**{k: v for k, v in os.environ.items() if k != "FAIRMEND_KEY"}, "PATH": path},
        )  # fmt: skip

    def type(self, text):
        self.process.stdin.write(f"{text}\necho; echo done $?\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if re.fullmatch(r"done \d+\n", line):
                assert line == "done 0\n", printed
                return printed.strip() + "\n"
            printed += line
        raise AssertionError(f"the shell ended: {printed}")

    def close(self):
        self.process.stdin.write("kill $(jobs -p) 2> /dev/null; wait\n")
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


def wait_for(port, seconds=60):
    url = f"http://127.0.0.1:{port}/ping"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return  # not this page, but it is there
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"nobody listens at {url}")


@pytest.mark.slow
@pytest.mark.skipif(not (which("bash") and which("curl")), reason="needs bash and curl")
def test_the_walk_works_as_typed(tmp_path, postgresql):
    page = PAGE.read_text(encoding="utf-8")
    start = page.index("## A walk")
    text = page[start : page.index("\n## ", start)]
    numbers = ("9000", "8080", "8081", "8082", "8083", "8084", "8085")
    ports = {number: str(free_port()) for number in numbers}
    database = re.search(r"postgresql://\S+?/decisions", text)[0]
    text = text.replace(database, postgresql.database())
    for number, free in ports.items():
        text = re.sub(rf"\b{number}\b", free, text)
    blocks = [block for block in BLOCK.findall(text) if "pip install" not in block[1]]
    assert len(blocks) == text.count("```") // 2 - 1
    same, shell, printed, shown = doctest.OutputChecker(), Shell(tmp_path), "", 0
    settings = f"port = {ports['8080']}\nadmin_port = {ports['8081']}\ndrain_seconds = 0.1\n"
    try:
        for language, code in blocks:
            if language in ("py", "toml"):
                name = re.match(r"# ([\w.]+)\n", code)[1]
                (tmp_path / name).write_text(code + (settings if language == "toml" else ""))
            elif language == "sh":
                printed = shell.type(code)
                if code.endswith("&\n"):
                    own = re.search(r"--port (\d+)", code)
                    usual = ports["9000" if "vendor.py" in code else "8080"]
                    wait_for(own[1] if own else usual)
            else:
                assert same.check_output(code, printed, doctest.ELLIPSIS), (code, printed)
                shown += 1
        assert shell.process.poll() is None
    finally:
        shell.close()
    assert shown >= 5
    assert (tmp_path / "decisions.parquet").read_bytes()[:4] == b"PAR1"
    said = (tmp_path / "serve.log").read_text()
    assert '"event":"probed","changed":0' in said
    assert '"level":"error"' not in said
