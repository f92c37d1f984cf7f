"""Odd models: what vendors' code does beside answering."""

from __future__ import annotations

from collections.abc import Iterator

from _odd_files import PLAIN
from _odd_people import NAMED, Case

_START = """
import os, sys, time, warnings, threading
import numpy as np

def score(rows):
    age, income = (np.asarray(rows[name], float) for name in ("age", "income"))
    return np.round(1 / (1 + np.exp(-((income - 2800) / 700 + (age - 45) / 40))), 3)

"""
_INPUTS = ("--input", "age", "--input", "income", "--input", "job")
Model = tuple[str, str, str]
"""Name, the body of its module, what must come of it."""


def models() -> Iterator[Model]:
    """Each defines `model`."""
    yield "plain", "def model(rows): return score(rows)", "same"
    yield "labels", "def model(rows): return (score(rows) > 0.5).astype(int)", "same"
    yield "booleans", "def model(rows): return score(rows) > 0.5", "same"
    yield (
        "words of the label",
        "def model(rows): return np.where(score(rows) > 0.5, 'yes', 'no')",
        "same",
    )
    yield (
        "other words",
        "def model(rows): return np.where(score(rows) > 0.5, 'ok', 'ko')",
        "refused",
    )
    yield "a list", "def model(rows): return score(rows).tolist()", "same"
    yield "a tuple", "def model(rows): return tuple(score(rows))", "either"
    yield "a generator", "def model(rows): return (s for s in score(rows))", "either"
    yield "a column of shape (n, 1)", "def model(rows): return score(rows)[:, None]", "either"
    yield (
        "two columns",
        "def model(rows): s = score(rows); return np.stack([1 - s, s], 1)",
        "either",
    )
    yield (
        "two columns the other way",
        "def model(rows): s = score(rows); return np.stack([s, 1 - s], 1)",
        "any",
    )
    yield (
        "three columns",
        "def model(rows): s = score(rows); return np.stack([s, s, s], 1)",
        "refused",
    )
    yield "three dimensions", "def model(rows): return score(rows)[:, None, None]", "either"
    yield "a number", "def model(rows): return 0.7", "refused"
    yield "nothing", "def model(rows): return None", "refused"
    yield "a string", "def model(rows): return 'yes'", "refused"
    yield "a dictionary", "def model(rows): return {'score': score(rows)}", "refused"
    yield "one answer too few", "def model(rows): return score(rows)[:-1]", "refused"
    yield "one answer too many", "def model(rows): return np.append(score(rows), 0.5)", "refused"
    yield "no answers", "def model(rows): return score(rows)[:0]", "refused"
    yield "a NaN", "def model(rows): s = score(rows); s[3:4] = np.nan; return s", "refused"
    yield (
        "an infinite score",
        "def model(rows): s = score(rows); s[3:4] = np.inf; return s",
        "refused",
    )
    yield (
        "a None among answers",
        "def model(rows): s = score(rows).astype(object); s[3:4] = None; return s",
        "refused",
    )
    yield (
        "a word among answers",
        "def model(rows): s = score(rows).astype(object); s[3:4] = 'x'; return s",
        "refused",
    )
    yield "complex numbers", "def model(rows): return score(rows) + 0j", "either"
    yield "text numbers", "def model(rows): return score(rows).astype(str)", "either"
    yield (
        "logits",
        "def model(rows): s = np.clip(score(rows), .001, .999); return np.log(s / (1 - s))",
        "either",
    )
    yield "16-bit numbers", "def model(rows): return score(rows).astype(np.float16)", "either"
    yield "a masked array", "def model(rows): return np.ma.array(score(rows), mask=False)", "either"
    yield (
        "a masked answer",
        "def model(rows): s = score(rows); return np.ma.array(s, mask=np.arange(len(s)) == 3)",
        "either",
    )
    yield (
        "a sparse column",
        "import scipy.sparse as sp\ndef model(rows): return sp.csr_matrix((score(rows) > 0.5).astype(int)[:, None])",
        "either",
    )
    yield (
        "a pandas series",
        "import pandas as pd\ndef model(rows): return pd.Series(score(rows))",
        "same",
    )
    yield (
        "a pandas series, shuffled index",
        "import pandas as pd\ndef model(rows): s = score(rows); return pd.Series(s, index=np.arange(len(s))[::-1])",
        "either",
    )
    yield (
        "a pandas frame",
        "import pandas as pd\ndef model(rows): return pd.DataFrame({'s': score(rows)})",
        "either",
    )
    yield (
        "a polars series",
        "import polars as pl\ndef model(rows): return pl.Series(score(rows))",
        "same",
    )
    yield (
        "an Arrow array",
        "import pyarrow as pa\ndef model(rows): return pa.array(score(rows))",
        "either",
    )
    yield "raises ValueError", "def model(rows): raise ValueError('no such column')", "refused"
    yield "raises with 100 kB", "def model(rows): raise ValueError('x' * 100_000)", "refused"
    yield (
        "raises with escape codes",
        "def model(rows): raise ValueError('\\x1b[2J\\x1b[31mhacked\\n\\nfairmend: done')",
        "refused",
    )
    yield "raises KeyboardInterrupt", "def model(rows): raise KeyboardInterrupt", "interrupted"
    yield "raises MemoryError", "def model(rows): raise MemoryError", "refused"
    yield "raises StopIteration", "def model(rows): raise StopIteration", "refused"
    yield "raises GeneratorExit", "def model(rows): raise GeneratorExit", "either"
    yield "recurses for ever", "def model(rows): return model(rows)", "refused"
    yield "sys.exit(0)", "def model(rows): sys.exit(0)", "refused"
    yield "sys.exit('boom')", "def model(rows): sys.exit('boom')", "refused"
    yield "sys.exit(0) when imported", "sys.exit(0)", "refused"
    yield "SystemExit('boom') when imported", "raise SystemExit('boom')", "refused"
    yield "an error when imported", "raise RuntimeError('licence')", "refused"
    yield "a syntax error", "def model(rows) return 1", "refused"
    yield "no such name", "other = 1", "refused"
    yield "a number instead of a function", "model = 7", "refused"
    yield "prints", "def model(rows): print('hello'); return score(rows)", "same"
    yield "prints when imported", "print('hello')\ndef model(rows): return score(rows)", "same"
    yield (
        "writes to descriptor 1",
        "def model(rows): os.write(1, b'hello'); return score(rows)",
        "same",
    )
    yield (
        "prints escape codes",
        "def model(rows): sys.stderr.write('warned'); return score(rows)",
        "same",
    )
    yield (
        "closes standard output",
        "def model(rows): sys.stdout.close(); return score(rows)",
        "either",
    )
    yield (
        "replaces standard output",
        "def model(rows): sys.stdout = None; return score(rows)",
        "either",
    )
    yield "warns", "def model(rows): warnings.warn('old'); return score(rows)", "same"
    yield (
        "warnings are errors",
        "def model(rows): warnings.simplefilter('error'); return score(rows)",
        "same",
    )
    yield (
        "changes its rows in place",
        "def model(rows): s = score(rows); rows['age'] = 0; return s",
        "either",
    )
    yield (
        "changes numpy rows in place",
        "def model(rows): s = score(rows); np.asarray(rows['age']).setflags(write=True); return s",
        "either",
    )
    yield (
        "starts a thread",
        "def model(rows): t = threading.Thread(target=time.sleep, args=(0.01,)); t.start(); return score(rows)",
        "same",
    )
    yield "changes the folder", "def model(rows): os.chdir('/'); return score(rows)", "either"
    yield (
        "changes the locale",
        "import locale\ndef model(rows): locale.setlocale(locale.LC_ALL, 'C'); return score(rows)",
        "same",
    )
    yield "seeds numpy", "def model(rows): np.random.seed(0); return score(rows)", "same"
    yield (
        "numpy errors are raised",
        "np.seterr(all='raise')\ndef model(rows): return score(rows)",
        "same",
    )
    yield (
        "answers at random",
        "def model(rows): return np.random.default_rng().random(len(rows))",
        "any",
    )
    yield (
        "answers by what it saw before",
        "seen = []\ndef model(rows): seen.append(1); return score(rows) * (len(seen) % 2)",
        "any",
    )
    yield (
        "predict alone",
        "class M:\n  def predict(self, rows): return (score(rows) > 0.5).astype(int)\nmodel = M()",
        "either",
    )
    yield (
        "predict_proba alone",
        "class M:\n  def predict_proba(self, rows): s = score(rows); return np.stack([1 - s, s], 1)\nmodel = M()",
        "either",
    )
    yield (
        "another cut than 0.5",
        "class M:\n  classes_ = np.array(['no', 'yes'])\n  def predict_proba(self, rows): s = score(rows) ** 2; return np.stack([1 - s, s], 1)\n  def predict(self, rows): return np.where(score(rows) > 0.5, 'yes', 'no')\nmodel = M()",
        "either",
    )
    yield (
        "decisions that no cut explains",
        "class M:\n  classes_ = np.array(['no', 'yes'])\n  def predict_proba(self, rows): s = score(rows); return np.stack([1 - s, s], 1)\n  def predict(self, rows): return np.where(np.arange(len(rows)) % 2, 'yes', 'no')\nmodel = M()",
        "refused",
    )
    yield (
        "three classes",
        "class M:\n  classes_ = np.array(['a', 'b', 'c'])\n  def predict_proba(self, rows): s = score(rows); return np.stack([1 - s, s / 2, s / 2], 1)\nmodel = M()",
        "refused",
    )
    yield (
        "classes the other way",
        "class M:\n  classes_ = np.array(['yes', 'no'])\n  def predict_proba(self, rows): s = score(rows); return np.stack([s, 1 - s], 1)\nmodel = M()",
        "same",
    )
    yield (
        "probabilities beyond 1",
        "class M:\n  classes_ = np.array(['no', 'yes'])\n  def predict_proba(self, rows): s = 2 * score(rows); return np.stack([1 - s, s], 1)\nmodel = M()",
        "refused",
    )
    yield (
        "an attribute that raises",
        "class M:\n  def __getattr__(self, name): raise RuntimeError(name)\nmodel = M()",
        "refused",
    )
    yield (
        "any attribute",
        "class M:\n  def __getattr__(self, name): return lambda *a, **k: None\nmodel = M()",
        "refused",
    )
    yield "a class", "class model:\n  def predict(self, rows): return score(rows) > 0.5", "either"
    yield "a coroutine", "async def model(rows): return score(rows)", "refused"
    yield "two arguments", "def model(rows, more): return score(rows)", "refused"
    yield "no arguments", "def model(): return 1", "refused"


def cases(base: dict[str, bytes]) -> Iterator[Case]:
    """Every model audited, repaired and, behind a repair of the plain one, applied."""
    del base
    for name, body, must in models():
        files = {"people.csv": PLAIN, "vendor.py": _START + body + "\n"}
        codes = (130,) if must == "interrupted" else (3, 4)
        expected = "refused" if must == "interrupted" else must
        means = None if expected == "refused" else ()
        called = ("--model", "vendor:model", *NAMED, *_INPUTS, "--ignore", "score")
        yield Case("models", f"audit: {name}",
                   ("audit", "people.csv", *called, "--reference", "m", "--json"), files, means,
                   expected, codes)  # fmt: skip
        yield Case("models", f"repair: {name}",
                   ("repair", "people.csv", *called, "--metric", "sp", "--json", "--allow-partial",
                    "-o", "new.fairmend"), files, means,
                   "refused" if expected == "refused" else "either", codes,
                   output="new.fairmend")  # fmt: skip
