"""The scripts of experiments/, loaded as they load each other when one of them is run."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).parent.parent / "experiments"


@contextmanager
def loaded(*names):
    """Scripts by their names, without a leading underscore; forgotten afterwards."""
    sys.path.insert(0, str(FOLDER))
    found = {name.removeprefix("_"): importlib.import_module(name) for name in names}
    sys.path.remove(str(FOLDER))
    yield SimpleNamespace(**found)
    for name in names:
        del sys.modules[name]
