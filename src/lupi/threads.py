"""How many threads the core may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

# Below this many kernel evaluations starting a thread costs more than it brings.
_WORTH_A_THREAD = 500_000
_limit: ContextVar[int] = ContextVar("lupi_threads", default=2**30)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def n_threads(kernel_evaluations: float) -> int:
    """Threads for work of this size: at most the processors, and at most what BLAS may use.

    So ``threadpoolctl.threadpool_limits``, ``OMP_NUM_THREADS`` and joblib's rules for nested
    parallelism hold for this library too. The result of a solve does not depend on the number.
    """
    if kernel_evaluations < _WORTH_A_THREAD:
        return 1
    limits = [lib["num_threads"] for lib in _controller().info() if lib["user_api"] == "blas"]
    return max(1, min([joblib.cpu_count(), _limit.get(), *limits]))


_lock = Lock()
_inside = 0
_limiter: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context in which BLAS uses one thread, for many small factorisations and products.

    Measured on 2 cores with 400 x 400 matrices and 400 x 4,000 products: ten times faster than two
    threads, which wait for each other longer than they work, NumPy's BLAS and SciPy's being two
    libraries with a pool each.

    The limit is the process's: threads that are inside at the same time share it, and the last one
    that leaves lifts it.
    """
    global _inside, _limiter
    with _lock:
        if _inside == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limiter.restore_original_limits()


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """At most so many threads in this block, in the calling thread only.

    For workers that are threads of one process, each with its share of the processors.
    """
    token = _limit.set(min(threads, _limit.get()))
    try:
        yield
    finally:
        _limit.reset(token)


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> list[Result]:
    """The results of the items in their order, so many at a time, each on a thread of its own.

    For functions that spend their time in LAPACK or in the core, which release Python's lock.
    """
    items = list(items)
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]

    def alone(item: Item) -> Result:
        with limited(1):
            return function(item)

    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(alone, items))
