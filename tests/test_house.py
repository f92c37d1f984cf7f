"""The house: which room may import which, and what a user sees at the door."""

import ast
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairmend

ROOT = Path(__file__).resolve().parents[1]
# each of these once tied most of the package into one knot
OLD_EDGES = [
    ("measure/tabulate.py", "fairmend.engines.verbs", "gather"),
    ("model/blackbox.py", "fairmend.measure.tabulate", "Population"),
    ("measure/audit.py", "fairmend.report.html.build", "of_audit"),
    ("report/report.py", "fairmend.report.html.build", "of_report"),
    ("classifier.py", "fairmend.artifact", "save"),
]


def lint(folder):
    """The exit status and the words of the linter on a copy of the package."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.npz")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_law_of_imports_holds(copy):
    status, words = lint(copy)
    assert status == 0, words


@pytest.mark.parametrize(("file", "module", "name"), OLD_EDGES)
def test_an_old_edge_breaks_the_law(copy, file, module, name):
    """Inside a function too."""
    path = copy / "src" / "fairmend" / file
    edge = f"\n\ndef _knot() -> object:\n    from {module} import {name}\n\n    return {name}\n"
    path.write_text(path.read_text(encoding="utf-8") + edge, encoding="utf-8")
    status, words = lint(copy)
    assert status != 0
    assert module in words or "cycle" in words


def test_few_files_lie_at_the_top():
    assert len(list((ROOT / "src" / "fairmend").glob("*.py"))) <= 10


def test_dir_lists_the_public_names_and_no_more():
    assert dir(fairmend) == sorted(fairmend.__all__)
    for name in fairmend.__all__:
        assert getattr(fairmend, name) is not None


@pytest.mark.parametrize("name", [n for n in fairmend.__all__ if n != "__version__"])
def test_help_opens_with_one_sentence(name):
    thing = getattr(fairmend, name)
    described = thing if isinstance(thing, type) or not hasattr(thing, "words") else type(thing)
    first = (described.__doc__ or "").split("\n\n")[0].strip()
    assert first.endswith("."), first
    assert len(first) < 200


@functools.cache
def functions_and_classes():
    """Each with its file, and whether it stands at the top of it."""
    return [
        (path.relative_to(ROOT).as_posix(), node, at_top)
        for path in sorted((ROOT / "src" / "fairmend").rglob("*.py"))
        for node, at_top in definitions(ast.parse(path.read_text(encoding="utf-8")))
    ]


def definitions(block, *, at_top=True):
    """The functions and classes of a block of statements, and within them."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(block, name, ()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node, at_top
            yield from definitions(node, at_top=False)


def test_no_function_is_longer_than_80_lines():
    """Commands aside: their options are parameters."""
    long = {
        f"{path}: {node.name}"
        for path, node, _ in functions_and_classes()
        if not isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno >= 80
    }
    assert long <= {f"src/fairmend/cli/{name}.py: {name}" for name in (
        "alternatives", "apply", "repair")}  # fmt: skip


def test_no_two_public_classes_share_a_name():
    places = {}
    for path, node, at_top in functions_and_classes():
        if at_top and isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
