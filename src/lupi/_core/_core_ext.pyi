from collections.abc import Callable
from typing import Any

class Points:
    n: int
    d: int

class Kernel:
    n: int
    def diagonal(self, out: Any) -> None: ...
    def combine(self, idx: Any, coef: Any, out: Any, threads: int) -> None: ...
    def square_block(self, idx: Any, out: Any, threads: int) -> None: ...

class RowCache:
    capacity: int
    computed: int

def isa() -> str: ...
def dense_points(X: Any) -> Points: ...
def sparse_points(values: Any, indptr: Any, indices: Any, d: int) -> Points: ...
def kernel(points: Points, kind: str, gamma: float, degree: int, coef0: float) -> Kernel: ...
def gram_kernel(gram: Any) -> Kernel: ...
def cross_combine(
    basis: Points,
    query: Points,
    kind: str,
    gamma: float,
    degree: int,
    coef0: float,
    coef: Any,
    out: Any,
    threads: int,
) -> None: ...
def cross_kernel(
    basis: Points,
    query: Points,
    kind: str,
    gamma: float,
    degree: int,
    coef0: float,
    out: Any,
    threads: int,
) -> None: ...
def row_cache(kernel: Kernel, capacity: int, bytes: int) -> RowCache: ...
def wsvm_descend(
    cache: RowCache,
    y: Any,
    lo: Any,
    hi: Any,
    a: Any,
    v: Any,
    tol: float,
    max_steps: int,
    sweep: bool,
    threads: int,
    report: Callable[[int, float], None] | None = ...,
) -> tuple[int, float, bool]: ...
def wsvm_polish(
    kernel: Kernel,
    y: Any,
    lo: Any,
    hi: Any,
    a: Any,
    v: Any,
    tol: float,
    max_free: int,
    max_iterations: int,
    threads: int,
) -> tuple[float, int, bool, bool]: ...
def wsvm_small(
    kernel: Kernel,
    y: Any,
    lo: Any,
    hi: Any,
    a: Any,
    v: Any,
    tol: float,
    max_steps: int,
    polish_tol: float,
) -> tuple[int, float, int, bool]: ...
def is_positive_definite(A: Any, threads: int) -> bool: ...
def judge_smooth_hinge(
    K: Any,
    y: Any,
    a: Any,
    b: float,
    delta: float,
    f: Any,
    g: Any,
    p: Any,
    threads: int,
) -> float: ...
def svmplus_solve(
    kernel: Kernel,
    kernel_corr: Kernel,
    y: Any,
    C: Any,
    priv: Any,
    inverse_reg: float,
    offset: Any,
    alpha: Any,
    zeta: Any,
    delta: Any,
    tol: float,
    max_iter: int,
    memory: float,
    threads: int,
    report: Callable[[int, int, int, int, float, float, float], None] | None = ...,
) -> tuple[float, float, float, int, int, int, int, bool]: ...
def gram_matrices(
    points: Points, kernels: list[tuple[str, float, int, float]], out: Any, threads: int
) -> None: ...
def cross_expand(
    basis: Points,
    query: Points,
    expansions: list[tuple[str, float, int, float, Any, Any, Any, Any]],
    sign: Any,
    threads: int,
) -> None: ...
def large_room(n: int) -> int: ...
def wsvm_large_path(
    path: tuple[Any, ...],
    tol: float,
    polish_tol: float,
    early: float,
    few: int,
    max_steps: int,
    room: Any,
    stop: Callable[[], None],
) -> None: ...
def wsvm_paths(
    paths: list[tuple[Any, ...]],
    tol: float,
    max_steps: int,
    polish_tol: float,
    threads: int,
) -> None: ...
def svmplus_paths(
    paths: list[tuple[Any, ...]],
    tol: float,
    max_iter: int,
    memory: float,
    threads: int,
) -> None: ...
