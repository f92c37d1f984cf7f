"""What `import fairmend` must not drag in, seen by name in a fresh interpreter."""

import subprocess
import sys

HEAVY = (
    "altair", "matplotlib", "ot", "pandas", "polars", "pyarrow", "rich", "sklearn",
)  # fmt: skip

AUDIT = """
import fairmend
result = fairmend.audit(
    [0, 1] * 20, None, [0, 1, 1, 0] * 10, sensitive_features=["a"] * 20 + ["b"] * 20
)
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_import_stays_light():
    done = run("import sys, fairmend; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    modules = done.stdout.split()
    assert not {*HEAVY, "scipy"} & {name.split(".")[0] for name in modules}
    assert not [name for name in modules if name.startswith(("fairmend.engines", "fairmend.apply"))]


def test_engines_come_when_they_are_needed():
    done = run(
        "import sys, fairmend\n"
        "from fairmend import engines\n"
        "assert engines is fairmend.engines is sys.modules['fairmend.engines']\n"
    )
    assert done.returncode == 0, done.stderr


def test_an_audit_of_plain_lists_needs_none_of_them():
    block = f"import sys; sys.modules.update(dict.fromkeys({HEAVY}))"
    done = run(f"{block}\n{AUDIT}print(result)")
    assert done.returncode == 0, done.stderr
    assert "fnr" in done.stdout


def test_without_pandas_a_frame_answers_with_the_pip_line():
    done = run(
        "import sys; sys.modules['pandas'] = None\n"
        f"{AUDIT}"
        "try:\n    result.to_frame()\n"
        "except fairmend.MissingExtra as error:\n    print(error)\n"
    )
    assert done.stdout.strip() == (
        "Audit.to_frame(): needs the optional package 'pandas'; it is not installed. "
        "Run: pip install 'fairmend[pandas]'"
    ), done.stderr
