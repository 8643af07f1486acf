"""The solver of SVM+.

Problem
    eq:svmp_dual in (alpha, zeta), zeta = alpha + beta (see ``_core/svmplus.hpp``).
Method
    Cutting planes around an active-set Newton method, derived in docs/maths/svmplus_solver.md: the
    problem is solved exactly on a working set of rows, all others having alpha = beta = 0; rows
    whose conditions the solution violates enter, and so on. On a working set a Newton step
    minimises over the free variables, all variables of the wrong sign change sides at once, and
    where that does not get on, a monotone descent from the last feasible point takes over.

    correction_reg = 0: proximal steps in w* (the method of multipliers of the dual constraint
    sum_i alpha_corr_i z*_i = 0), each an SVM+ with a small correction_reg whose correcting function
    is counted from the last one.
Stopping rule
    The certificate's violation is at most `tol`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from .._core import core
from ..certificates import SVMPlusCertificate, svmplus_certificate
from ..kernels import KernelMatrix, given_matrix
from ..problems import SVMPlusProblem, Vector
from ..solution import Solution, Status, SVMPlusDual, SVMPlusPrimal
from ..threads import n_threads
from . import wsvm

# Bound on the Newton steps when max_iter is -1: far above any problem seen, so that time is finite.
_MANY_STEPS = 20_000
# correction_reg = 0: proximal steps at most, and the first parameter over sum(C) * mean K*_ii.
_MAX_PROXIMAL = 60
_FIRST_PROXIMAL = 1e-3


def solve(
    problem: SVMPlusProblem,
    init: Solution | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 1000.0,
    verbose: int = 0,
) -> Solution:
    """Solve SVM+ to a KKT violation of at most `tol`.

    Parameters
    ----------
    problem : SVMPlusProblem
    init : Solution, optional
        A start, feasible or not: the signs of its duals tell what is free at first.
    tol : float
        Largest KKT violation, in units of the decision function.
    max_iter : int
        Bound on the Newton steps; -1: a generous one.
    cache_size : float
        MB for kernel blocks and factorisations.
    verbose : int
        Positive: print the progress.

    Returns
    -------
    Solution
        With :class:`~lupi.solution.SVMPlusPrimal` and :class:`~lupi.solution.SVMPlusDual`.
    """
    n, y, C = problem.n, problem.y, problem.C
    present = C > 0
    if not (problem.privileged & present).any():
        return _without_privileged(problem, init, tol, max_iter, cache_size, verbose)
    limit = wsvm.memory_limit(cache_size, n)
    max_steps = max_iter if max_iter >= 0 else _MANY_STEPS
    alpha, zeta, delta = np.zeros(n), np.zeros(n), np.zeros(n)
    if init is not None:
        np.copyto(alpha, init.dual.alpha, where=present)
        np.copyto(zeta, init.dual.alpha + init.dual.beta, where=present)
    coef_corr: Vector | None = None
    if not ((y[present] > 0).any() and (y[present] < 0).any()):
        # One class: y'alpha = 0 leaves alpha = 0, and no correction is the best one.
        alpha, zeta = np.zeros(n), C.copy()
        steps, indefinite = 1, False
        stats: dict[str, float] = {}
        if problem.correction_reg == 0:
            coef_corr = np.zeros(problem.kernel_corr.n)
        beta = np.where(problem.privileged, zeta, C) - alpha
        certificate = svmplus_certificate(problem, alpha, beta, coef_corr=coef_corr)
    elif problem.correction_reg > 0:
        steps, indefinite, stats = _core(
            problem,
            1.0 / problem.correction_reg,
            None,
            alpha,
            zeta,
            delta,
            tol,
            max_steps,
            limit,
            verbose,
        )
        beta = np.where(problem.privileged, zeta, C) - alpha
        certificate = svmplus_certificate(problem, alpha, beta, alpha_corr=delta)
    else:
        alpha, beta, delta, coef_corr, certificate, steps, indefinite, stats = _unpenalised(
            problem, alpha, zeta, tol, max_steps, limit, verbose
        )
    status = wsvm.judge(certificate, tol, steps >= max_steps)
    if status is Status.OPTIMAL and stats.get("lack", 0.0) > 1e-6:
        status = Status.MAX_ITER  # correction_reg = 0: the constraint of the dual is not met
    rows = np.flatnonzero(problem.privileged & present)
    if indefinite or not (
        problem.kernel.psd_among(alpha.nonzero()[0], limit)
        and problem.kernel_corr.psd_among(problem.priv[rows], limit)
    ):
        status = Status.INDEFINITE
    if verbose:
        print(
            f"[lupi] {status.value}: objective {certificate.dual_objective:.9g}, "
            f"gap {certificate.primal_objective - certificate.dual_objective:.3g}, "
            f"violation {certificate.violation:.3g}"
        )
    if coef_corr is None:
        coef_corr = np.zeros(problem.kernel_corr.n)
        coef_corr[problem.priv[rows]] = delta[rows] / problem.correction_reg
    return Solution(
        primal=SVMPlusPrimal(
            certificate.b, certificate.b_interval, certificate.slack, certificate.b_corr, coef_corr
        ),
        dual=SVMPlusDual(alpha, beta, delta),
        primal_objective=certificate.primal_objective,
        dual_objective=certificate.dual_objective,
        violation=certificate.violation,
        status=status,
        n_iter=max(1, steps),
        stats=stats,
    )


def _without_privileged(
    problem: SVMPlusProblem,
    init: Solution | None,
    tol: float,
    max_iter: int,
    cache_size: float,
    verbose: int,
) -> Solution:
    """No privileged row of positive cost: the weighted SVM, with a correcting function of zero."""
    solution = wsvm.solve(
        problem.weighted_svm(),
        init,
        tol=tol,
        max_iter=max_iter,
        cache_size=cache_size,
        verbose=verbose,
    )
    primal, dual = solution.primal, solution.dual
    zero = np.zeros(problem.kernel_corr.n)
    return Solution(
        primal=SVMPlusPrimal(primal.b, primal.b_interval, primal.slack, 0.0, zero),
        dual=SVMPlusDual(dual.alpha, dual.beta, np.zeros(problem.n)),
        primal_objective=solution.primal_objective,
        dual_objective=solution.dual_objective,
        violation=solution.violation,
        status=solution.status,
        n_iter=solution.n_iter,
        stats=solution.stats,
    )


def _core(
    problem: SVMPlusProblem,
    inverse_reg: float,
    offset: Vector | None,
    alpha: Vector,
    zeta: Vector,
    delta: Vector,
    tol: float,
    max_steps: int,
    limit: float,
    verbose: int,
) -> tuple[int, bool, dict[str, float]]:
    """One call of the compiled solver; `alpha`, `zeta` and `delta` are updated in place."""
    report: Callable[[int, int, int, int, float, float, float], None] | None = None
    if verbose:

        def report(
            rounds: int,
            steps: int,
            rows: int,
            free: int,
            objective: float,
            gap: float,
            violation: float,
        ) -> None:
            print(
                f"[lupi] round {rounds:3d}, {steps:5d} Newton steps, {rows:6d} rows, {free:6d} "
                f"free, objective {objective:.9g}, gap {gap:.3g}, violation {violation:.3e}",
                flush=True,
            )

    n = problem.n
    _, _, _, steps, cautious, rounds, rows, indefinite = core.svmplus_solve(
        problem.kernel.handle,
        problem.kernel_corr.handle,
        problem.y,
        problem.C,
        problem.priv,
        inverse_reg,
        offset,
        alpha,
        zeta,
        delta,
        tol,
        max_steps,
        limit,
        n_threads(2.0 * n * n),
        report,
    )
    return steps, indefinite, {"cautious": cautious, "rounds": rounds, "rows": rows}


def _unpenalised(
    problem: SVMPlusProblem,
    alpha: Vector,
    zeta: Vector,
    tol: float,
    max_steps: int,
    limit: float,
    verbose: int,
) -> tuple[Vector, Vector, Vector, Vector, SVMPlusCertificate, int, bool, dict[str, float]]:
    """correction_reg = 0, by proximal steps in w*.

    With w* kept near the last one, w_k, by t/2 |w* - w_k|^2, the solution has
    t (w* - w_k) = sum_i alpha_corr_i z*_i. The right-hand side is what eq:svmp_kkt:cw still lacks;
    it goes to zero, faster the smaller t is, while rounding errors grow with 1/t. Every step is
    judged by its certificate, and the best one is the answer.

    Without a penalty only the functions that w* can take at the rows matter, not their norm. So the
    steps are taken in an orthonormal basis Q of them, the range of K*: the kernel Q Q' is as well
    conditioned as can be, whatever the scales of the features.
    """
    kernel_corr = problem.kernel_corr
    n, n_priv = problem.n, kernel_corr.n
    rows = np.flatnonzero(problem.privileged)
    pivots, L = _features(kernel_corr)
    Q, R = la.qr(L, mode="economic")
    projection = given_matrix(np.ascontiguousarray(Q @ Q.T))
    proximal_problem = replace(problem, kernel_corr=projection)
    size = float(projection.diagonal().max()) or 1.0
    t = _FIRST_PROXIMAL * float(problem.C[rows].sum()) * size
    w = np.zeros(Q.shape[1])
    delta = np.zeros(n)
    best: tuple[Vector, Vector, Vector, Vector, SVMPlusCertificate] | None = None
    steps = proximal = idle = 0
    least = before = relative = np.inf
    while True:
        proximal += 1
        more, indefinite, stats = _core(
            proximal_problem,
            1.0 / t,
            Q @ w,
            alpha,
            zeta,
            delta,
            tol,
            max_steps - steps,
            limit,
            verbose,
        )
        steps += more
        missing = Q.T @ _by_priv(problem, delta)
        w = w + missing / t
        coef = np.zeros(n_priv)
        if len(w):
            in_features = la.solve_triangular(R, w)
            coef[pivots] = la.solve_triangular(L[pivots], in_features, lower=True, trans="T")
        beta = np.where(problem.privileged, zeta, problem.C) - alpha
        certificate = svmplus_certificate(problem, alpha, beta, alpha_corr=delta, coef_corr=coef)
        # What the constraint lacks counts by what it could change of the objective: times the norm
        # of w*, and of a w* that moves some slack by 1.
        lack = float(la.norm(missing)) * (float(la.norm(w)) + 1.0)
        off = lack + abs(certificate.primal_objective - certificate.dual_objective)
        scale = max(1.0, abs(certificate.dual_objective))
        if best is None or off < least:
            best, least, idle = (alpha.copy(), beta, delta.copy(), coef, certificate), off, 0
            relative = off / scale
        else:
            idle += 1
        if certificate.violation <= tol and off <= min(1e-10, tol) * scale:
            break
        if idle >= 10 or proximal >= _MAX_PROXIMAL or steps >= max_steps or indefinite:
            break
        if lack > 0.05 * before:
            # As small as digits allow: xi is a sum of terms up to size * sum|delta| / t.
            t = max(0.1 * t, 1e-7 * size * float(np.abs(delta).sum()), 1e-300)
        before = lack
    return *best, steps, indefinite, {**stats, "proximal": proximal, "lack": relative}


def _by_priv(problem: SVMPlusProblem, values: Vector) -> Vector:
    """Values of the privileged rows, in the order of kernel_corr."""
    rows = np.flatnonzero(problem.privileged)
    out = np.zeros(problem.kernel_corr.n)
    out[problem.priv[rows]] = values[rows]
    return out


def _features(kernel: KernelMatrix) -> tuple[NDArray[np.int64], Vector]:
    """Independent rows p, and L (n, rank) with K = L L' and L[p] lower triangular."""
    K = kernel.dense()
    # Kernel values of equal rows differ by rounding: what is left below that is no feature.
    tol = 1e-13 * float(np.abs(K.diagonal()).max(initial=0.0))
    factor, pivots, rank, _ = la.lapack.dpstrf(K, tol=tol, lower=1)
    order = pivots - 1
    L = np.empty((kernel.n, rank))
    L[order] = np.tril(factor)[:, :rank]
    return order[:rank].astype(np.int64), L
