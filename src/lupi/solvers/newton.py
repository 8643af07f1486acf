r"""Newton's method in the primal for the weighted SVM with a smooth loss.

Problem
    min  1/2 a'Ka + sum_i c_i l(y_i f_i),   f = K a + b            (eq:wlearning:fopt; kernel form)
    min  1/2 |w|^2 + sum_i c_i l(y_i f_i),  f = X w + b            (linear form)
Given
    K or X, y, c >= 0, a loss with two derivatives; optionally a point to start from.
Method
    With u_i = y_i l'(y_i f_i) and v_i = c_i l''(y_i f_i), a Newton step is

        da + v (K da + db) = -(a + c u),    sum(a + da) = 0.

    Where v_i = 0 it reads a_i + da_i = -c_i u_i, so only the *curved* rows S, v_i > 0, enter a
    factorisation, that of B = I + V^1/2 K_SS V^1/2, whose eigenvalues are at least 1 whatever K
    is. In the linear form the offset is measured at the v-weighted mean of the rows, which
    takes it out of the Newton system: (I + X~'V X~) dw = -gradient with X~ the centred rows.
    f is linear in the step, so a line search costs O(n) per trial. With no curved row b is not
    determined to second order and is minimised over by itself.
Stopping rule
    The gradient in slopes of the loss, ``SmoothSolution.violation``, is at most `tol`; or no step
    decreases the objective beyond rounding.
Answer
    a = -c u up to tol, b, f. `Curvature` at the answer solves the adjoint system of
    thm:derivatives.
Source
    O. Chapelle, Training a support vector machine in the primal, Neural Computation 19, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from ..certificates import smooth_certificate
from ..losses import Loss
from ..problems import SmoothWSVMProblem, Vector
from ..solution import SmoothSolution, Status

# Rows of X that are centred and scaled at once: they stay in the cache for their product.
_CHUNK = 2048
# A factor is used again while a step with it leaves at most this share of the violation.
_KEEP = 0.1
# Newton's method takes up to 44 steps in 99 of 100 problems whose weights spread over twelve orders
# of magnitude. Beyond so many it goes on by another way, by caps on the weights.
_PATIENCE = 60
_CAP_GROWTH, _MOST_CAPS = 16.0, 10
# A step may leave at most this share of the slope along it, or the line search goes on.
_SLOPE_LEFT = 0.1


def solve(
    problem: SmoothWSVMProblem,
    init: SmoothSolution | None = None,
    *,
    curvature: Curvature | None = None,
    tol: float = 1e-10,
    max_iter: int = 200,
    certify: bool = True,
) -> SmoothSolution:
    """Solve the weighted SVM with a smooth loss.

    Parameters
    ----------
    problem : SmoothWSVMProblem
    init : SmoothSolution, optional
        Where to start: the solution of a problem with the same rows, labels and kernel, and other
        weights. From a point with another kernel, or other rows, start afresh.
    curvature : Curvature, optional
        At `init`, for its factor.
    tol : float
        Bound on the violation.
    max_iter : int
        Bound on the Newton steps.
    certify : bool
        Whether to compute objectives and gap; costs one to two products with the matrix.

    Returns
    -------
    SmoothSolution
    """
    found = _descend(problem, init, curvature, tol, min(max_iter, _PATIENCE))
    if found.status is Status.MAX_ITER and max_iter > _PATIENCE:
        found = _from_small_weights(problem, found, tol, max_iter)
    if not certify:
        return found
    certificate = smooth_certificate(problem, found.expansion, found.b)
    return replace(
        found,
        primal_objective=certificate.primal_objective,
        dual_objective=certificate.dual_objective,
    )


def _from_small_weights(
    problem: SmoothWSVMProblem, stuck: SmoothSolution, tol: float, max_iter: int
) -> SmoothSolution:
    """The solution by way of the problems with weights min(c, cap), cap growing up to max(c).

    Where few rows are curved and weights are huge, a Newton step knows little of the other rows,
    and is cut short where they come in: on the way, these problems are near to each other.
    """
    c = problem.c
    caps = [float(c.max())]
    while len(caps) < _MOST_CAPS and caps[-1] > float(c[c > 0].min()):
        caps.append(caps[-1] / _CAP_GROWTH)
    at: SmoothSolution | None = None
    steps, factorisations = stuck.n_iter, stuck.stats["factorisations"]
    for cap in reversed(caps):
        last = cap == caps[0]
        at = _descend(
            problem.with_weights(np.minimum(c, cap)),
            at,
            None,
            tol if last else max(tol, 1e-3),
            max(0, max_iter - steps) if last else min(_PATIENCE, max(0, max_iter - steps)),
        )
        steps += at.n_iter
        factorisations += at.stats["factorisations"]
    assert at is not None
    best = at if at.violation < stuck.violation else stuck
    return replace(best, n_iter=steps, stats={"factorisations": factorisations})


def _descend(
    problem: SmoothWSVMProblem,
    init: SmoothSolution | None,
    curvature: Curvature | None,
    tol: float,
    max_iter: int,
) -> SmoothSolution:
    """Newton steps from one start; no objectives."""
    y, c, loss = problem.y, problem.c, problem.loss
    form = _form(problem)
    coef, g, b = form.start(init)
    largest = max(float(c.max()), 1e-300)
    status, steps, factorisations = Status.MAX_ITER, 0, 0
    violation, size = np.inf, 1.0
    factor, curved = (None, None) if curvature is None else (curvature._factor, curvature.curved)
    while True:
        margin = y * (g + b)
        d1, d2 = loss.derivatives(margin)
        cu, v = c * y * d1, c * d2
        residual = form.residual(coef, cu)
        total = float(cu.sum())
        before = violation
        violation = max(float(np.abs(residual).max(initial=0.0)), abs(total)) / largest
        if violation <= tol:
            status = Status.OPTIMAL
            break
        if steps >= max_iter:
            break
        # The factor of an earlier point gives a direction of descent too, and costs nothing.
        fresh = factor is None or size < 1.0 or violation > _KEEP * before
        if fresh:
            curved = v.nonzero()[0]
            factor = form.factor(curved, v) if len(curved) else None
            if factor is None and len(curved):
                status = Status.INDEFINITE
                break
            factorisations += len(curved) > 0
        if factor is None:
            d_coef, d_g, d_b = -residual, problem.matrix @ -residual, 0.0
        else:
            d_coef, d_g, d_b = form.solved(factor, curved, coef, residual, total)
        along = d_g + d_b
        q1, q2 = form.along(coef, g, d_coef, d_g)
        slope = q1 + float(cu @ along)
        size = 0.0
        if slope < 0:
            size = _line_search(loss, c * y, y, margin, along, q1, q2, slope, c)
        if size > 0:
            coef, g, b = coef + size * d_coef, g + size * d_g, b + size * d_b
        if size == 0.0 and not fresh:
            continue
        if factor is None or size < 0.25:
            b_better = _best_offset(loss, y, c, g, b)
            if size == 0.0 and (b_better == b or not abs(total) > 1e-15 * largest):
                status = Status.AT_PRECISION if violation <= 1e-4 else Status.MAX_ITER
                break
            b = b_better
        steps += 1
    # a from the slopes in the linear form; in the kernel form it is the unknown itself.
    expansion = coef if not problem.linear else -cu
    return SmoothSolution(
        expansion=expansion,
        b=b,
        w=coef if problem.linear else None,
        values=g + b,
        primal_objective=np.nan,
        dual_objective=np.nan,
        violation=violation,
        status=status,
        n_iter=steps,
        stats={"factorisations": factorisations},
    )


def _line_search(
    loss: Loss,
    cy: Vector,
    y: Vector,
    margin: Vector,
    along: Vector,
    q1: float,
    q2: float,
    slope: float,
    c: Vector,
) -> float:
    """A step s > 0 that decreases phi(s) = 1/2 |w + s dw|^2 + sum c l(margin + s y along).

    phi is convex. The full step is taken where phi still falls, or has nearly stopped to and is
    not larger than at 0; otherwise phi' is brought near zero from the left, by Illinois' rule.
    """
    change = y * along

    def derivative(s: float) -> float:
        return q1 + s * q2 + float((cy * loss.d1(margin + s * change)) @ along)

    at_one = derivative(1.0)
    if at_one <= 0.0:
        return 1.0
    if at_one <= -_SLOPE_LEFT * slope:
        before = float(c @ loss.value(margin))
        after = q1 + 0.5 * q2 + float(c @ loss.value(margin + change))
        if after - before <= 1e-14 * abs(before):
            return 1.0
    left, right, f_left, f_right = 0.0, 1.0, slope, at_one
    for _ in range(60):
        s = left - f_left * (right - left) / (f_right - f_left)
        if not left < s < right:
            s = 0.5 * (left + right)
            if not left < s < right:
                break
        at_s = derivative(s)
        if at_s <= 0.0:
            if at_s >= 0.5 * slope:
                return s
            left, f_left = s, at_s
            f_right *= 0.5
        else:
            right, f_right = s, at_s
            f_left *= 0.5
    return left


def _best_offset(loss: Loss, y: Vector, c: Vector, g: Vector, b: float) -> float:
    """A minimiser over b of sum_i c_i l(y_i (g_i + b)), the one near the given b.

    The derivative grows with b; it is bracketed by doubling steps, then bisected.
    """
    cy = c * y

    def derivative(at: float) -> float:
        return float(cy @ loss.d1(y * (g + at)))

    here = derivative(b)
    if here == 0.0:
        return b
    direction = -1.0 if here > 0 else 1.0
    near, reach = b, 1.0
    while True:
        far = b + direction * reach
        there = derivative(far)
        if there == 0.0 or not np.isfinite(there):
            break
        if (there > 0) != (here > 0):
            break
        near, reach = far, 2.0 * reach
        if reach > 1e10:
            return near
    for _ in range(200):
        middle = 0.5 * (near + far)
        if middle in (near, far):
            break
        value = derivative(middle)
        if value != 0.0 and (value > 0) == (here > 0):
            near = middle
        else:
            far = middle
    return far


def _form(problem: SmoothWSVMProblem) -> Any:
    return _Linear(problem) if problem.linear else _Kernel(problem)


class _Kernel:
    """The kernel form: the unknown is a, and g = K a."""

    def __init__(self, problem: SmoothWSVMProblem) -> None:
        self.K = problem.matrix

    def start(self, init: SmoothSolution | None) -> tuple[Vector, Vector, float]:
        if init is None:
            n = len(self.K)
            return np.zeros(n), np.zeros(n), 0.0
        return init.expansion, init.values - init.b, init.b

    def residual(self, a: Vector, cu: Vector) -> Vector:
        return a + cu

    def factor(self, curved: NDArray[np.int64], v: Vector) -> _BorderedKernel | None:
        return _BorderedKernel.of(self.K, curved, v)

    def solved(
        self, factor: Any, curved: NDArray[np.int64], a: Vector, residual: Vector, total: float
    ) -> tuple[Vector, Vector, float]:
        """The step (da, K da, db) that takes away the residual, to first order."""
        d_a = -residual
        curved_part = d_a[curved]
        d_a[curved] = 0.0
        # Rows whose part of the step is known beforehand: few, but for a first step.
        known = d_a.nonzero()[0]
        d_g = d_a[known] @ self.K[known]
        root = factor.root
        z, d_b = factor.solve(
            curved_part / root - root * d_g[curved], -float(a.sum()) - float(d_a.sum())
        )
        spread = np.zeros(len(d_a))
        spread[curved] = d_a[curved] = root * z
        d_g += self.K @ spread
        return d_a, d_g, d_b

    def along(self, a: Vector, g: Vector, d_a: Vector, d_g: Vector) -> tuple[float, float]:
        return float(a @ d_g), float(d_a @ d_g)


class _BorderedKernel:
    """Solves [[B, r], [r', 0]] (z, mu) = (rho, tau), B = I + R K_SS R, R = diag(r), r^2 = v."""

    __slots__ = ("L", "border", "root")

    def __init__(self, L: Vector, root: Vector) -> None:
        self.L, self.root = L, root
        self.border = dtrtrs(L, root, lower=1)[0]  # L^-1 r

    @classmethod
    def of(cls, K: Vector, curved: NDArray[np.int64], v: Vector) -> _BorderedKernel | None:
        root = np.sqrt(v[curved])
        # Column-major without a copy in LAPACK: B is symmetric, so its transpose will do.
        # Two takes cost a quarter of one double index.
        B = K.take(curved, 0).take(curved, 1) if len(curved) < len(K) else K.copy()
        B *= root
        B *= root[:, None]
        B.ravel()[:: len(root) + 1] += 1.0
        L, info = dpotrf(B.T, lower=1, clean=0, overwrite_a=1)
        return cls(L, root) if info == 0 else None

    def solve(self, rho: Vector, tau: float) -> tuple[Vector, float]:
        half = dtrtrs(self.L, rho, lower=1)[0]
        mu = (float(self.border @ half) - tau) / float(self.border @ self.border)
        return dtrtrs(self.L, half - mu * self.border, lower=1, trans=1)[0], mu


class _Linear:
    """The linear form: the unknown is w, and g = X w."""

    def __init__(self, problem: SmoothWSVMProblem) -> None:
        self.X = problem.matrix

    def start(self, init: SmoothSolution | None) -> tuple[Vector, Vector, float]:
        n, d = self.X.shape
        if init is None or init.w is None:
            return np.zeros(d), np.zeros(n), 0.0
        return init.w, init.values - init.b, init.b

    def residual(self, w: Vector, cu: Vector) -> Vector:
        return w + cu @ self.X

    def factor(self, curved: NDArray[np.int64], v: Vector) -> _CentredRows:
        return _CentredRows(self.X, curved, v)

    def solved(
        self, factor: Any, curved: NDArray[np.int64], w: Vector, residual: Vector, total: float
    ) -> tuple[Vector, Vector, float]:
        d_w, d_b = factor.solve(-residual, -total)
        return d_w, self.X @ d_w, d_b

    def along(self, w: Vector, g: Vector, d_w: Vector, d_g: Vector) -> tuple[float, float]:
        return float(w @ d_w), float(d_w @ d_w)


class _CentredRows:
    """Solves [[I + X_S'V X_S, X_S'v], [v'X_S, 1'v]] (w, b) = (p, q).

    With the mean m of the curved rows, weighted by v, the offset at the mean is b + <m, w>, and in
    (w, b + <m, w>) the matrix is block diagonal: I + sum_S v (x - m)(x - m)', and 1'v.
    """

    __slots__ = ("L", "mean", "total")

    def __init__(self, X: Vector, curved: NDArray[np.int64], v: Vector) -> None:
        weight = v[curved]
        self.total = float(weight.sum())
        self.mean = v @ X / self.total
        H = np.eye(X.shape[1])
        root = np.sqrt(weight)
        for start in range(0, len(curved), _CHUNK):
            rows = X[curved[start : start + _CHUNK]]
            rows -= self.mean
            rows *= root[start : start + _CHUNK, None]
            H += rows.T @ rows
        self.L = dpotrf(H, lower=1, clean=0, overwrite_a=1)[0]

    def solve(self, p: Vector, q: float) -> tuple[Vector, float]:
        half = dtrtrs(self.L, p - self.mean * q, lower=1)[0]
        w = dtrtrs(self.L, half, lower=1, trans=1)[0]
        return w, q / self.total - float(self.mean @ w)


@dataclass(frozen=True, eq=False)
class Curvature:
    """The factorised second derivative at a point, for the linear systems of thm:derivatives.

    Attributes
    ----------
    margin, u, v : ndarray of shape (n,)
        y f, y l'(margin), c l''(margin) of thm:derivatives.
    curved : ndarray of int64
        The rows with v > 0.
    """

    problem: SmoothWSVMProblem
    margin: Vector
    u: Vector
    v: Vector
    curved: NDArray[np.int64]
    _factor: Any

    @classmethod
    def at(cls, problem: SmoothWSVMProblem, values: Vector) -> Curvature:
        """Factorise at the training values f."""
        margin = problem.y * values
        d1, d2 = problem.loss.derivatives(margin)
        v = problem.c * d2
        curved = v.nonzero()[0]
        factor = None
        if len(curved):
            factor = _form(problem).factor(curved, v)
            if factor is None:
                raise ValueError(
                    "the kernel matrix is not positive semidefinite among the curved rows: the "
                    "solution is not a differentiable function of the weights."
                )
        return cls(problem, margin, problem.y * d1, v, curved, factor)

    def adjoint(self, g: Vector, g_b: float) -> Vector:
        """Lambda with dE/dc_i = -u_i lambda_i for dE = g.da + g_b db (kernel), g.dw + g_b db.

        Kernel form: the transpose of the matrix of eq:gradient, (I + K V) lambda + mu 1 = g,
        v'lambda = g_b. With z = V^1/2 lambda on the curved rows that is the bordered system of the
        Newton step, and lambda = g - K_S V lambda_S - mu everywhere.
        Linear form: q = H^-1 (g, g_b) and lambda_i = <x_i, q_w> + q_b.
        Without a curved row b is considered fixed, eq:gradient_vzero: lambda = g.
        """
        A = self.problem.matrix
        if self._factor is None:
            return A @ g if self.problem.linear else g
        if self.problem.linear:
            q_w, q_b = self._factor.solve(g, g_b)
            return A @ q_w + q_b
        root = self._factor.root
        z, mu = self._factor.solve(root * g[self.curved], g_b)
        spread = np.zeros(len(g))
        spread[self.curved] = root * z
        return g - A @ spread - mu
