"""How many threads the mathematical libraries use: one for sums of ours, all for somebody's model.

Our sums are small. With several threads each waits for the others at full speed, which costs more
than it saves, and the last bits of a sum depend on the number of cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

_limit: ContextVar[tuple[Any, Any] | None] = ContextVar("limit", default=None)
"""The libraries under the outermost limit, and what they had before."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the libraries that are loaded by now to one thread."""
    pools = _thread_pools(len(sys.modules))
    before = pools.limit(limits=1)
    token = _limit.set((pools, before)) if _limit.get() is None else None
    try:
        yield
    finally:
        before.restore_original_limits()
        if token is not None:
            _limit.reset(token)


@contextmanager
def all_threads() -> Iterator[None]:
    """Within `one_thread`, as many as there were before: for code that is not ours."""
    limit = _limit.get()
    if limit is None:
        yield
        return
    pools, before = limit
    before.restore_original_limits()
    token = _limit.set(None)
    try:
        yield
    finally:
        _limit.reset(token)
        pools.limit(limits=1)


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> Any:
    """The libraries with threads that are loaded with so many modules; finding them takes long."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
