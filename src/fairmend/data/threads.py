"""Threads: reading ahead in one, and how many the mathematical libraries use.

They use one for sums of ours, and all for somebody's model.

Our sums are small. With several threads each waits for the others at full speed, which costs more
than it saves, and the last bits of a sum depend on the number of cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")
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


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; while one is used, the next is made in another thread.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
