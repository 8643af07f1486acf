r"""A slow, obvious solver for the dual of the weighted SVM, to test the fast ones against.

Problem
    max  sum(alpha) - 1/2 alpha' YKY alpha   s.t.  y'alpha = 0,  0 <= alpha <= c   (eq:svmw_dual)
Method
    Mehrotra's predictor-corrector interior point, dense, on n variables; the whole kernel matrix.
    With z, u > 0 the multipliers of alpha >= 0 and alpha <= c, and b that of y'alpha = 0:

        Q alpha - 1 + b y - z + u = 0,   y'alpha = 0,   alpha z = mu,   (c - alpha) u = mu.

    Eliminating z and u leaves (Q + diag(z / alpha + u / (c - alpha))) d_alpha + y d_b = r.
Stopping rule
    Complementarity below 1e-15 of its scale, or no more progress; the status says whether the gap
    of the answer is below 1e-6 of the objective.
Answer
    alpha strictly inside its bounds: rounded to a vertex by nobody. Compare objectives, not duals.
Source
    S. Mehrotra, SIAM J. Optimization 2(4), 1992.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as la

from ..certificates import wsvm_certificate
from ..problems import Vector, WSVMProblem
from ..solution import Solution, Status, WSVMDual, WSVMPrimal


def solve(problem: WSVMProblem, init: Solution | None = None, *, max_iter: int = 200) -> Solution:
    """Solve by a dense interior-point method; `init` is not used."""
    rows = np.flatnonzero(problem.c)
    y, c = problem.y[rows], problem.c[rows]
    alpha = np.zeros(problem.n)
    n_iter = 0
    if (y > 0).any() and (y < 0).any():
        K = problem.kernel.dense()[np.ix_(rows, rows)]
        with np.errstate(all="ignore"):  # where numbers run out the last good iterate is returned
            alpha[rows], n_iter = _interior_point(y[:, None] * K * y, y, c, max_iter)
    certificate = wsvm_certificate(problem, alpha)
    gap = certificate.primal_objective - certificate.dual_objective
    return Solution(
        primal=WSVMPrimal(certificate.b, certificate.b_interval, certificate.slack),
        dual=WSVMDual(alpha, problem.c - alpha),
        primal_objective=certificate.primal_objective,
        dual_objective=certificate.dual_objective,
        violation=certificate.violation,
        status=Status.OPTIMAL
        if gap <= 1e-6 * max(1.0, abs(certificate.dual_objective))
        else Status.MAX_ITER,
        n_iter=n_iter,
    )


def _interior_point(Q: np.ndarray, y: Vector, c: Vector, max_iter: int) -> tuple[Vector, int]:
    n = len(y)
    # Feasible start: half of a common total, spread over each class in proportion to its weights.
    positive = y > 0
    total = 0.5 * min(c[positive].sum(), c[~positive].sum())
    alpha = np.where(positive, c * total / c[positive].sum(), c * total / c[~positive].sum())
    scale = max(1.0, float(np.abs(Q @ alpha).max()))
    z, u, b = np.full(n, scale), np.full(n, scale), 0.0
    mu_start = (alpha @ z + (c - alpha) @ u) / (2 * n)
    for iteration in range(max_iter):
        room = c - alpha
        mu = (alpha @ z + room @ u) / (2 * n)
        if mu <= 1e-15 * mu_start or min(alpha.min(), room.min()) <= 0:
            return np.clip(alpha, 0.0, c), iteration
        dual_residual = 1 - Q @ alpha - b * y + z - u
        primal_residual = -(y @ alpha)
        try:
            factor = la.cho_factor(Q + np.diag(z / alpha + u / room), check_finite=False)
        except la.LinAlgError:
            return alpha, iteration
        Hy = la.cho_solve(factor, y)

        def direction(
            target: float, dz_da: np.ndarray | float, du_da: np.ndarray | float
        ) -> tuple[Vector, float, Vector, Vector]:
            cz = (target - dz_da) / alpha - z  # noqa: B023
            cu = (target + du_da) / room - u  # noqa: B023
            r = la.cho_solve(factor, dual_residual + cz - cu)  # noqa: B023
            db = (y @ r - primal_residual) / (y @ Hy)  # noqa: B023
            da = r - db * Hy  # noqa: B023
            return da, db, cz - z / alpha * da, cu + u / room * da  # noqa: B023

        def longest(x: Vector, dx: Vector) -> float:
            falling = dx < 0
            return min(1.0, float((-x[falling] / dx[falling]).min(initial=np.inf)))

        da, db, dz, du = direction(0.0, 0.0, 0.0)
        t_primal = min(longest(alpha, da), longest(room, -da))
        t_dual = min(longest(z, dz), longest(u, du))
        reached = (alpha + t_primal * da) @ (z + t_dual * dz)
        reached += (room - t_primal * da) @ (u + t_dual * du)
        sigma = (reached / (2 * n) / mu) ** 3
        da, db, dz, du = direction(sigma * mu, da * dz, da * du)
        t = 0.995 * min(longest(alpha, da), longest(room, -da), longest(z, dz), longest(u, du))
        if not np.isfinite(t) or t < 1e-12:
            return alpha, iteration
        alpha, b, z, u = alpha + t * da, b + t * db, z + t * dz, u + t * du
    return alpha, max_iter
