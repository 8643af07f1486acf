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

import numpy as np

from .._core import core
from ..certificates import svmplus_certificate
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
    alpha, zeta = np.zeros(n), np.zeros(n)
    if init is not None:
        np.copyto(alpha, init.dual.alpha, where=present)
        np.copyto(zeta, init.dual.alpha + init.dual.beta, where=present)
    coef_corr: Vector | None
    if not ((y[present] > 0).any() and (y[present] < 0).any()):
        # One class: y'alpha = 0 leaves alpha = 0, and no correction is the best one.
        alpha, zeta = np.zeros(n), C.copy()
        coef_corr, steps, indefinite = np.zeros(problem.kernel_corr.n), 1, False
        stats: dict[str, float] = {}
    elif problem.correction_reg > 0:
        coef_corr = None
        steps, indefinite, stats = _core(
            problem, 1.0 / problem.correction_reg, None, alpha, zeta, tol, max_steps, limit, verbose
        )
    else:
        coef_corr, steps, indefinite, stats = _unpenalised(
            problem, alpha, zeta, tol, max_steps, limit, verbose
        )
    beta = np.where(problem.privileged, zeta, C) - alpha
    certificate = svmplus_certificate(problem, alpha, beta, coef_corr=coef_corr)
    status = wsvm.judge(certificate, tol, steps >= max_steps)
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
    alpha_corr = np.where(problem.privileged, alpha + beta - C, 0.0)
    if coef_corr is None:
        coef_corr = np.zeros(problem.kernel_corr.n)
        coef_corr[problem.priv[rows]] = alpha_corr[rows] / problem.correction_reg
    return Solution(
        primal=SVMPlusPrimal(
            certificate.b, certificate.b_interval, certificate.slack, certificate.b_corr, coef_corr
        ),
        dual=SVMPlusDual(alpha, beta, alpha_corr),
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
    tol: float,
    max_steps: int,
    limit: float,
    verbose: int,
) -> tuple[int, bool, dict[str, float]]:
    """One call of the compiled solver; `alpha` and `zeta` are updated in place."""
    report: Callable[[int, int, int, int, float, float], None] | None = None
    if verbose:

        def report(
            rounds: int, steps: int, rows: int, free: int, objective: float, violation: float
        ) -> None:
            print(
                f"[lupi] round {rounds:3d}, {steps:5d} Newton steps, {rows:6d} rows, {free:6d} "
                f"free, objective {objective:.9g}, violation {violation:.3e}",
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
) -> tuple[Vector, int, bool, dict[str, float]]:
    """correction_reg = 0, by proximal steps in w*; returns its coefficients first.

    With w* kept near the last one, <w_k, .>, by t/2 |w* - w_k|^2, the solution has
    t (w* - w_k) = sum_i alpha_corr_i z*_i. The right-hand side is what eq:svmp_kkt:cw still lacks;
    it goes to zero, faster the smaller t is.
    """
    kernel_corr = problem.kernel_corr
    rows = np.flatnonzero(problem.privileged)
    size = float(np.abs(kernel_corr.diagonal()).mean())
    t = _FIRST_PROXIMAL * float(problem.C[rows].sum()) * (size if size > 0 else 1.0)
    coef, offset = np.zeros(kernel_corr.n), np.zeros(kernel_corr.n)
    steps = proximal = 0
    for _ in range(_MAX_PROXIMAL):
        proximal += 1
        more, indefinite, stats = _core(
            problem, 1.0 / t, offset, alpha, zeta, tol, max_steps - steps, limit, verbose
        )
        steps += more
        delta = np.zeros(kernel_corr.n)
        delta[problem.priv[rows]] = np.where(problem.C > 0, zeta - problem.C, 0.0)[rows]
        lack = kernel_corr.dot(delta)  # <sum_i alpha_corr_i z*_i, z*_j>
        coef += delta / t
        offset = kernel_corr.dot(coef)
        if abs(float(delta @ offset)) <= 1e-10 * max(1.0, float(alpha.sum())) and float(
            np.abs(lack).max()
        ) <= 1e-9 * max(1.0, float(problem.C.max())) * max(1.0, size):
            break
        if steps >= max_steps or indefinite:
            break
        t = max(0.2 * t, 1e-9 * float(problem.C[rows].sum()) * (size if size > 0 else 1.0))
    return coef, steps, indefinite, {**stats, "proximal": proximal}
