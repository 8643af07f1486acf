"""The fast solver of the weighted SVM.

Problem
    eq:svmw_dual in signed variables a = y alpha (see ``_core/wsvm.hpp``).
Method
    1. Working sets to a fair start, then two-variable descent over cached kernel rows, which are
       kept in 16 bits (rbf) or float32 and for the active variables only (``_core/wsvm.cpp``).
    2. An active-set finish in float64 (``_core/active_set.cpp``) that ends at the exact optimum;
       always on small problems, and wherever it costs less than the descent or `tol` asks for it.
    3. The certificate, in float64, from alpha alone. If it does not confirm `tol` (short rows lose
       digits), its residuals start another round.
Stopping rule
    The certificate's violation is at most `tol`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core import core
from ..certificates import WSVMCertificate, wsvm_certificate
from ..kernels import KernelMatrix
from ..problems import Vector, WSVMProblem
from ..solution import Solution, Status, WSVMDual, WSVMPrimal
from ..threads import n_threads

# Up to here the whole kernel fits in fast memory in float64 and one call does everything.
_SMALL = 1000
# The finish aims here: well below the 1e-9 that repeated rows and weights need to agree to 1e-7.
_POLISH_TOL = 1e-10
# Free variables up to which the finish costs less than the descent before it.
_CHEAP_POLISH = 400
# Bytes of a stored kernel value, the fastest first.
_ROW_BYTES = (2, 4, 8)
# Below this float32 rows cannot steer the descent.
_SINGLE_TOL = 1e-5
# Bound on the steps when max_iter is -1: far above any problem seen, so that time is finite.
_MANY_STEPS = 10_000_000


def solve(
    problem: WSVMProblem,
    init: Solution | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 1000.0,
    verbose: int = 0,
) -> Solution:
    """Solve the weighted SVM to a KKT violation of at most `tol`.

    Parameters
    ----------
    problem : WSVMProblem
    init : Solution, optional
        A start; its alpha is cut to this problem's bounds and balanced.
    tol : float
        Largest KKT violation, in units of the decision function.
    max_iter : int
        Bound on the two-variable steps; -1: a generous one.
    cache_size : float
        MB for kernel rows and factorisations.
    verbose : int
        Positive: print the progress.

    Returns
    -------
    Solution
    """
    n, y = problem.n, problem.y
    limit = memory_limit(cache_size, n)
    signed_c = y * problem.c
    lo, hi = np.minimum(signed_c, 0.0), np.maximum(signed_c, 0.0)
    max_steps = min(max_iter, 2**62) if max_iter >= 0 else max(_MANY_STEPS, 100 * n)
    if init is None:
        a, v = np.zeros(n), y.copy()
    else:
        a = feasible_start(y, problem.c, init.dual.alpha)
        v = y - problem.kernel.dot(a)

    if n <= _SMALL and 16 * n * n <= limit:
        steps, _, polish_steps, indefinite = core.wsvm_small(
            problem.kernel.handle,
            y,
            lo,
            hi,
            a,
            v,
            tol,
            max_steps,
            min(tol, _POLISH_TOL),
        )
        if verbose:
            print(f"[lupi] {steps} steps, {polish_steps} active-set iterations")
        stats: dict[str, float] = {"polish": polish_steps}
        _snap(problem, a)
        certificate = wsvm_certificate(problem, np.abs(a))
    else:
        steps, indefinite, stats, certificate = _large(
            problem, lo, hi, a, v, init is not None, tol, max_steps, limit, verbose
        )

    status = judge(certificate, tol, steps >= max_steps)
    if indefinite or not problem.kernel.psd_among(a.nonzero()[0], limit):
        status = Status.INDEFINITE
    alpha = np.abs(a)
    if verbose:
        print(
            f"[lupi] {status.value}: objective {certificate.dual_objective:.9g}, "
            f"gap {certificate.primal_objective - certificate.dual_objective:.3g}, "
            f"violation {certificate.violation:.3g}"
        )
    return Solution(
        primal=WSVMPrimal(certificate.b, certificate.b_interval, certificate.slack),
        dual=WSVMDual(alpha, problem.c - alpha),
        primal_objective=certificate.primal_objective,
        dual_objective=certificate.dual_objective,
        violation=certificate.violation,
        status=status,
        n_iter=max(1, steps),
        stats=stats,
    )


def _large(
    problem: WSVMProblem,
    lo: Vector,
    hi: Vector,
    a: Vector,
    v: Vector,
    warm: bool,
    tol: float,
    max_steps: int,
    limit: float,
    verbose: int,
) -> tuple[int, bool, dict[str, float], WSVMCertificate]:
    """Descent, finish and certificate in rounds; `a` is updated in place."""
    n, y, handle = problem.n, problem.y, problem.kernel.handle
    threads = n_threads(float(n) * n)
    report: Callable[[int, float], None] | None = None
    if verbose:

        def report(steps: int, violation: float) -> None:
            print(f"[lupi] {steps:9d} steps, violation {violation:.3e}", flush=True)

    # The finish needs a square of the free variables beside the rows: they share cache_size.
    largest_polish = int(np.sqrt(0.5 * limit / 8))
    widths = [width for width in _ROW_BYTES if width_serves(width, problem.kernel, tol)]
    steps = polish_steps = rows = rounds = 0
    indefinite = False
    cache = None
    before, expansion = a.copy(), y - v  # expansion = K before, in float64 throughout
    # v errs a little in the descent, and reaching a little further is cheap.
    target, previous = 0.95 * tol, np.inf
    while True:
        rounds += 1
        if cache is None:
            capacity = max(2, min(n, int(limit // (widths[0] * n))))
            cache = core.row_cache(handle, capacity, widths[0])
        cold = rounds == 1 and not warm
        more, _, partial = core.wsvm_descend(
            cache, y, lo, hi, a, v, target, max_steps - steps, cold, threads, report
        )
        steps += more
        rows = max(rows, cache.computed)
        free = int(np.count_nonzero((a > lo) & (a < hi)))
        exact = tol < _SINGLE_TOL and free <= largest_polish
        if (free <= _CHEAP_POLISH or exact) and steps < max_steps:
            most = largest_polish if exact else _CHEAP_POLISH
            if partial:
                v[:] = y - problem.kernel.dot(a)
            _, more, indefinite, _ = core.wsvm_polish(
                handle, y, lo, hi, a, v, min(tol, _POLISH_TOL), most, 200, threads
            )
            polish_steps += more
            _snap(problem, a)
            expansion = problem.kernel.dot(a)
        else:
            _snap(problem, a)
            change = a - before
            if np.count_nonzero(change) < 0.5 * np.count_nonzero(a):
                expansion = expansion + problem.kernel.dot(change)
            else:
                expansion = problem.kernel.dot(a)
        certificate = wsvm_certificate(problem, np.abs(a), expansion)
        if certificate.violation <= tol or steps >= max_steps or indefinite:
            break
        if certificate.violation > 0.5 * previous:
            # Another round brought little: wider rows, then give up.
            widths = widths[1:]
            if not widths:
                break
            cache, previous = None, np.inf
        else:
            previous = certificate.violation
        before = a.copy()
        v[:] = certificate.residual
    stats: dict[str, float] = {"polish": polish_steps, "rows": rows, "rounds": rounds}
    return steps, indefinite, stats, certificate


def memory_limit(cache_size: float, n: int) -> float:
    """`cache_size` in bytes; an error where two rows of the kernel do not fit."""
    limit = float(cache_size) * 1e6
    if 2 * 4 * n > limit:
        raise ValueError(
            f"cache_size={cache_size} MB is too small for two kernel rows of {n} entries; "
            f"at least {8 * n / 1e6:.3g} MB are needed."
        )
    return limit


def judge(certificate: WSVMCertificate, tol: float, out_of_steps: bool) -> Status:
    """The status that the certificate supports."""
    if certificate.violation <= tol:
        return Status.OPTIMAL
    if not out_of_steps and certificate.violation <= 1e3 * certificate.rounding:
        return Status.AT_PRECISION
    return Status.MAX_ITER


def width_serves(width: int, kernel: KernelMatrix, tol: float) -> bool:
    """Whether kernel rows of so many bytes a value can steer the descent to `tol`."""
    if width == 8:
        return True
    if kernel.largest > 1e30:  # sums of its values leave the range of float32
        return False
    return kernel.is_rbf and tol >= 1e-4 if width == 2 else tol >= _SINGLE_TOL


def _snap(problem: WSVMProblem, a: Vector) -> None:
    """Put the entries of y alpha that are within rounding of a bound on it, in place.

    Weights such as 0.1 + 0.2 against 0.3 leave a variable 1e-17 short of its bound, which would
    make a unique offset out of an interval.
    """
    alpha = np.abs(a)
    near = 1e-15 * float(alpha.sum())
    positive = alpha > 0
    full = positive & (problem.c - alpha <= near)
    if (full & (alpha < problem.c)).any():
        np.copyto(a, problem.y * problem.c, where=full)
    empty = positive & (alpha <= near) & ~full
    if empty.any():
        a[empty] = 0.0


def feasible_start(y: Vector, c: Vector, alpha: Vector) -> Vector:
    """The signed start closest in spirit to alpha: cut to [0, c], the heavier class scaled down."""
    alpha = np.clip(alpha, 0.0, c)
    positive = y > 0
    up, down = float(alpha[positive].sum()), float(alpha[~positive].sum())
    if up > down:
        alpha[positive] *= down / up
    elif down > up:
        alpha[~positive] *= up / down
    return y * alpha
