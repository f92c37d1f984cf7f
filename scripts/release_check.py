"""What must hold before strangers install a release: `make release-check`.

Builds the wheel and looks at it from outside: alone in a clean environment, on every Python at
hand, with the oldest and the newest versions it allows, against the known vulnerabilities. Every
check says what it measured. One that could not be made is a failure too: nobody knows then.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
MOST_WHEEL, MOST_CORE, MOST_HELP = 1e6, 250e6, 0.5
"""Bytes of the wheel, bytes of a core installation, seconds until the help is there."""

SMOKE = """
import fairmend
from fairmend import datasets

people = datasets.toy_descent()
X, y, s = people.sample(4_000, random_state=0)
found = fairmend.audit(people.decision, X, y, sensitive_features=s)
assert max(gap.gap for gap in found.gaps if gap.metric == "fpr") > 0.2
explained = fairmend.counterfactual(
    people.decision, X, y, sensitive_features=s, disparity="fpr"
)
assert abs(explained.after) < 1e-9
repaired = fairmend.RepairedClassifier(people.decision, "fpr", favorable_label=0, random_state=0)
repaired.fit(X, y, sensitive_features=s)
assert abs(repaired.plan_.outlook.gap_after) < 0.001
print(repaired.report(X, y, sensitive_features=s))
"""


@dataclass(frozen=True)
class Result:
    """One thing looked at."""

    check: str
    good: bool
    measured: str


class CheckFailed(Exception):
    """A command failed; its last line says why."""


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a command and give back what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise CheckFailed(lines[-1])
    return done.stdout


class Environment:
    """A virtual environment that goes when we do."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        run(python, "-m", "venv", folder)
        self.folder = folder
        self.python = folder / "bin" / "python"

    def install(self, *what: str | Path) -> None:
        run(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def size(self) -> tuple[int, int]:
        """Bytes of what packages bring, and of the bytecode made of it here; pip itself apart."""
        site = next(self.folder.glob("lib/python*/site-packages"))
        own = {"pip", "setuptools", "_distutils_hack", "pkg_resources"}
        brought = compiled = 0
        for file in site.rglob("*"):
            if file.is_file() and file.relative_to(site).parts[0].split("-")[0] not in own:
                size = file.stat().st_size
                brought, compiled = (
                    (brought, compiled + size)
                    if file.suffix == ".pyc"
                    else (brought + size, compiled)
                )
        return brought, compiled


def checks(folder: Path) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Every check by its name, in an order in which they can be made."""
    wheel = build(folder)
    constraints = ROOT / "constraints.txt"

    def size_of_wheel() -> Result:
        size = wheel.stat().st_size
        return Result("wheel", size < MOST_WHEEL, f"{size / 1e3:,.0f} kB")

    def contents() -> Result:
        names = zipfile.ZipFile(wheel).namelist()
        strangers = [n for n in names if not re.match(r"fairmend(-[^/]+\.dist-info)?/", n)]
        typed = "fairmend/py.typed" in names
        told = f"{len(names)} files" + (f", strangers: {strangers[:3]}" if strangers else "")
        return Result("contents", typed and not strangers, told)

    def core() -> Result:
        env = Environment(folder / "core")
        env.install("-c", constraints, wheel)
        run(env.python, "-c", SMOKE)
        size, compiled = env.size()
        told = f"{size / 1e6:,.0f} MB (bytecode {compiled / 1e6:,.0f} MB), smoke test passed"
        return Result("core install", size < MOST_CORE, told)

    def lowest() -> Result:
        env = Environment(folder / "lowest", interpreter("3.11") or sys.executable)
        pins = [pin for bound in core_dependencies() for pin in lowest_version(bound)]
        env.install(wheel, *pins)
        run(env.python, "-c", SMOKE)
        return Result("oldest versions", True, ", ".join(pins))

    def help_time() -> Result:
        env = Environment(folder / "cli")
        env.install("-c", constraints, f"{wheel}[cli]")
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            run(env.folder / "bin" / "fairmend", "--help")
            times.append(time.perf_counter() - begun)
        middle = statistics.median(times)
        return Result("fairmend --help", middle < MOST_HELP, f"{middle:.2f} s, median of 5")

    def audited() -> Result:
        env = Environment(folder / "tools")
        env.install("pip-audit", "cyclonedx-bom")
        requirements = folder / "core.txt"
        installed = run(folder / "core" / "bin" / "python", "-m", "pip", "freeze")
        requirements.write_text(
            "".join(f"{line}\n" for line in installed.splitlines() if "==" in line)
        )
        bom = ROOT / "dist" / "sbom.json"
        run(env.folder / "bin" / "cyclonedx-py", "environment", folder / "core", "-o", bom)
        run(env.folder / "bin" / "pip-audit", "--strict", "--no-deps", "--disable-pip",
            "-r", requirements)  # fmt: skip
        return Result("vulnerabilities", True, f"none known; bill of materials in {bom.name}")

    yield "wheel", size_of_wheel
    yield "contents", contents
    yield "core install", core
    yield "oldest versions", lowest
    for version in PYTHONS:
        yield f"Python {version}", lambda version=version: on_python(version, wheel, folder)
    yield "fairmend --help", help_time
    yield "vulnerabilities", audited


def build(folder: Path) -> Path:
    """The wheel, built as a release is: in an environment of its own."""
    env = Environment(folder / "build")
    env.install("build")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(env.python, "-m", "build", "--outdir", ROOT / "dist")
    return next((ROOT / "dist").glob("*.whl"))


def on_python(version: str, wheel: Path, folder: Path) -> Result:
    """The wheel with the newest versions of everything, on one Python."""
    python = interpreter(version)
    if python is None:
        return Result(f"Python {version}", False, "no such Python here")
    env = Environment(folder / version, python)
    env.install(wheel)
    run(env.python, "-c", SMOKE)
    return Result(f"Python {version}", True, "smoke test passed with the newest versions")


def interpreter(version: str) -> str | None:
    """A Python of that version: on the path, or among those of pyenv."""
    places = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for place in places:
        if place is not None:
            try:
                told = run(place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
            except (CheckFailed, OSError):
                continue
            if told.strip() == version:
                return place
    return None


def core_dependencies() -> list[str]:
    """What a plain installation brings, with its bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def lowest_version(bound: str) -> list[str]:
    """The oldest version a requirement allows, as a pin."""
    name, _, version = bound.partition(">=")
    return [f"{name}=={version}.*"] if version else []


def main() -> int:
    """Make every check, and say how each went as it goes."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, check in checks(Path(folder)):
            try:
                result = check()
            except CheckFailed as error:
                result = Result(name, False, str(error))
            results.append(result)
            print(f"{'ok  ' if result.good else 'FAIL'}  {result.check:<18} {result.measured}",
                  flush=True)  # fmt: skip
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
