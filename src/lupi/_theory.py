"""What the theory shares: a view of a fitted model, null spaces, and small linear programmes.

Nothing here trains anything, or knows a solver of the two machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.optimize import linprog

from .problems import SVMPlusProblem, Vector, WSVMProblem
from .solution import Solution

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted binary model, as the theory sees it.

    Attributes
    ----------
    name : str
        Class of the model, for messages.
    problem, solution
        What was solved, and the answer.
    expansion : ndarray of shape (n,)
        <w, z_i>, recomputed from the duals.
    room : float
        Decision values that differ by less count as equal: a few times the KKT violation of the
        solution and the size of rounding.
    """

    name: str
    problem: WSVMProblem | SVMPlusProblem
    solution: Solution
    expansion: Vector
    room: float

    @property
    def is_svm_plus(self) -> bool:
        return isinstance(self.problem, SVMPlusProblem)

    @property
    def y(self) -> Vector:
        return self.problem.y

    @property
    def alpha(self) -> Vector:
        return self.solution.dual.alpha

    @property
    def beta(self) -> Vector:
        return self.solution.dual.beta

    @property
    def weights(self) -> Vector:
        """Alpha + beta: the weights of the (replicating) weighted SVM."""
        if isinstance(self.problem, WSVMProblem):
            return self.problem.c  # to the bit
        return self.alpha + self.beta

    @property
    def cost(self) -> Vector:
        """C of the weighted SVM, C of SVM+; zero where a row is absent."""
        return self.problem.C if isinstance(self.problem, SVMPlusProblem) else self.problem.c

    @property
    def b(self) -> float:
        return self.solution.primal.b

    @property
    def squared_norm(self) -> float:
        return float((self.y * self.alpha) @ self.expansion)

    @property
    def margin(self) -> Vector:
        """y_i f(x_i)."""
        return self.y * (self.expansion + self.b)

    @property
    def hinge(self) -> Vector:
        """h_i, zero where the margin is met up to `room`."""
        short = 1.0 - self.margin
        return np.where(short > self.room, short, 0.0)


def fitted(model: Any, *, svm_plus: bool | None = None, allow_inexact: bool = False) -> Fitted:
    """The view of a model, or an error that says why it cannot be looked at."""
    wanted = {None: "WeightedSVC or SVMPlusClassifier", False: "WeightedSVC"}.get(
        svm_plus, "SVMPlusClassifier"
    )
    name = type(model).__name__
    if not hasattr(model, "_training_problem"):
        raise TypeError(f"model must be a fitted {wanted}; got {name}.")
    problem, solution = model._training_problem()
    if svm_plus is not None and isinstance(problem, SVMPlusProblem) != svm_plus:
        raise TypeError(f"model must be a fitted {wanted}; got {name}.")
    if not (solution.status.converged or allow_inexact):
        raise ValueError(
            f"model did not converge (status {solution.status.value!r}, KKT violation "
            f"{solution.violation:.3g}, duality gap {solution.gap:.3g}): what holds for an optimum "
            "may not hold for it. Fit it further, or pass allow_inexact=True. "
            f"{solution.status.advice}"
        )
    signed = problem.y * solution.dual.alpha
    expansion = problem.kernel.dot(signed)
    squared_norm = float(signed @ expansion)
    root = np.sqrt(np.abs(problem.kernel.diagonal()))
    rounding = 1e-14 * max(1.0, float(root.max() * (root @ solution.dual.alpha)))
    view = Fitted(
        name=name,
        problem=problem,
        solution=solution,
        expansion=expansion,
        room=max(1e-9, 4.0 * solution.violation, rounding),
    )
    _check_rows_unchanged(view, squared_norm)
    return view


def _check_rows_unchanged(view: Fitted, squared_norm: float) -> None:
    """The rows are the caller's array: whoever writes into it after `fit` asks about others."""
    problem, solution = view.problem, view.solution
    penalty = 0.0
    if isinstance(problem, SVMPlusProblem):
        if problem.correction_reg == 0:  # the dual objective has a term that the duals do not give
            return
        coef = solution.primal.coef_corr  # type: ignore[attr-defined]
        penalty = problem.correction_reg * float(coef @ problem.kernel_corr.dot(coef))
    value = (
        problem.dual(squared_norm, penalty, view.alpha)
        if isinstance(problem, SVMPlusProblem)
        else problem.dual(squared_norm, view.alpha)
    )
    scale = float(view.alpha.sum()) + squared_norm + penalty
    if abs(value - solution.dual_objective) > 1e-6 * scale + abs(solution.gap):
        raise ValueError(
            f"the training rows of this {view.name} are not those it was fitted on: its dual "
            f"objective was {solution.dual_objective:.9g} and is {value:.9g} now. Was the array "
            "written to? Fit again."
        )


# ---- Null spaces --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Factor:
    r"""Pivoted Cholesky factor of a positive semidefinite matrix, H = L L' up to rounding.

    Rows of L in the order of H. With the first ``rank`` pivots first, L = [L1; L2], L1 lower
    triangular, and

    .. math:: Hd = 0 \iff L_1^\top d_1 + L_2^\top d_2 = 0
              \iff d_1 = -T d_2,\quad T = L_1^{-\top} L_2^\top .

    The rank is the number of pivots above ``n eps max_i H_ii``: what is left of H then has no entry
    that is larger, so that a direction d of the null space that is found has
    :math:`d^\top H d \le` that times :math:`\|d\|_1^2`.
    """

    L: NDArray[np.float64]
    pivots: Index
    rank: int
    tolerance: float

    @property
    def first(self) -> Index:
        """The pivots: rows that are independent."""
        return self.pivots[: self.rank]

    @property
    def rest(self) -> Index:
        """The rows that depend on the pivots."""
        return self.pivots[self.rank :]

    @property
    def n_null(self) -> int:
        """Dimension of the null space."""
        return len(self.pivots) - self.rank

    def solve_transposed(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """L1^-T rhs."""
        L1 = self.L[self.first]
        return np.asarray(la.solve_triangular(L1, rhs, lower=True, trans="T", check_finite=False))

    def solve(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """L1^-1 rhs."""
        L1 = self.L[self.first]
        return np.asarray(la.solve_triangular(L1, rhs, lower=True, check_finite=False))

    def dependence(self) -> NDArray[np.float64]:
        """T of shape (rank, n_null)."""
        return self.solve_transposed(self.L[self.rest].T)


def factor(H: NDArray[np.float64]) -> Factor:
    """Pivoted Cholesky (LAPACK's dpstrf) of a positive semidefinite matrix."""
    n = len(H)
    largest = float(H.diagonal().max(initial=0.0))
    tolerance = max(n, 10) * np.finfo(np.float64).eps * largest
    if largest <= 0.0:
        return Factor(np.zeros((n, 0)), np.arange(n), 0, tolerance)
    packed, piv, rank, _ = la.lapack.dpstrf(H, tol=tolerance, lower=1)
    order = piv.astype(np.int64) - 1
    L = np.empty((n, rank))
    L[order] = np.tril(packed)[:, :rank]
    return Factor(L, order, int(rank), tolerance)


def signed_gram(problem: WSVMProblem | SVMPlusProblem, rows: Index) -> NDArray[np.float64]:
    """YKY + s yy' among some rows, s the mean of K's diagonal: null are the d with y'd = 0 and
    sum_i d_i y_i z_i = 0.
    """
    y = problem.y[rows]
    K = problem.kernel.block(rows)
    K += offset_weight(K)
    K *= y
    K *= y[:, None]
    return K


def offset_weight(K: NDArray[np.float64]) -> float:
    """The s of :func:`signed_gram`: the feature that stands for the offset has this square."""
    s = float(K.diagonal().mean()) if len(K) else 0.0
    return s if s > 0.0 else 1.0


# ---- Linear programmes --------------------------------------------------------------------------

# The smallest that HiGHS takes; its default of 1e-7 would show in the weights.
_FEASIBILITY = 1e-10


# Entries from which on the interior point method is faster: three to five times on dense constraint
# matrices of 1000 x 800 and 1000 x 1000.
_LARGE = 200_000


def solve_lp(
    cost: Vector, *, what: str, may_be_infeasible: bool = False, **constraints: Any
) -> Any:
    """The minimum of a bounded linear programme, by HiGHS; None where it is infeasible.

    An error where HiGHS gives up.
    """
    size = sum(np.size(constraints.get(name, ())) for name in ("A_ub", "A_eq"))
    methods = ("highs-ipm", "highs-ds") if size > _LARGE else ("highs-ds", "highs-ipm")
    for method in methods:
        result = linprog(
            cost,
            method=method,
            options={
                "primal_feasibility_tolerance": _FEASIBILITY,
                "dual_feasibility_tolerance": _FEASIBILITY,
            },
            **constraints,
        )
        if result.status == 0:
            return result
        if may_be_infeasible and result.status == 2:
            return None
    raise RuntimeError(
        f"the linear programme for {what} was not solved: {result.message} It has "
        f"{len(cost)} variables. Scale the features, so that kernel values are near one."
    )


def positive_combination(L: NDArray[np.float64]) -> Vector | None:
    r"""A vector d >= 0, not zero, with L'd = 0; None where there is none (Gordan's alternatives).

    There is none iff some u has Lu > 0. Both come from the smallest value of
    :math:`\tfrac12 \sum_i [1 - (Lu)_i]_+^2`: if it is zero, u separates; else
    :math:`d = [1 - Lu]_+` is not zero, and the gradient :math:`-L^\top d` is. Newton's method ends
    at the exact minimum after finitely many steps, because the function is quadratic between kinks;
    this is several times faster than a linear programme and yields d to full precision.
    """
    n, r = L.shape
    largest = float(np.sqrt((L * L).sum(axis=1).max(initial=0.0)))
    if n == 0 or largest == 0.0:  # no row, or zero rows only
        return np.ones(n) if n else None
    L = L / largest
    u = np.zeros(r)
    values = L @ u
    for _ in range(100):
        short = np.maximum(1.0 - values, 0.0)
        if float(values.min()) > 1e-13 * float(np.abs(u).sum()):
            return None
        gradient = -(L.T @ short)
        if np.abs(gradient).max() <= 1e-12 * float(short.sum()):
            return short / short.sum()
        on = short > 0
        H = la.blas.dsyrk(1.0, L[on].T, lower=1)  # the lower triangle of L_on' L_on
        H[np.diag_indices(r)] += 1e-13 * float(H.diagonal().max())
        try:
            root = la.cho_factor(H, lower=True, check_finite=False)
            step = -la.cho_solve(root, gradient, check_finite=False)
        except la.LinAlgError:
            step = np.linalg.lstsq(L[on], short[on], rcond=None)[0]
        change = L @ step
        # Exact line search: the slope along the step is piecewise linear and rises through zero.
        u, values = _line_minimum(u, values, step, change)
    # Neither to full precision: the rows are close to what separates the two cases.
    result = solve_lp(
        np.zeros(n),
        what="a ray of the family of weights",
        may_be_infeasible=True,
        A_eq=np.vstack([L.T, np.ones(n)]),
        b_eq=np.r_[np.zeros(r), 1.0],
        bounds=(0.0, None),
    )
    return None if result is None else np.maximum(result.x, 0.0)


def _line_minimum(u: Vector, values: Vector, step: Vector, change: Vector) -> tuple[Vector, Vector]:
    """The minimum of sum [1 - values - t change]_+^2 over t >= 0, by bisection, then exactly."""

    def slope(t: float) -> float:
        return -float(np.maximum(1.0 - values - t * change, 0.0) @ change)

    low, high = 0.0, 1.0
    while slope(high) < 0 and high < 2.0**60:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    # Between the kinks next to it the slope is linear: one secant step lands on its zero.
    t = high
    on = 1.0 - values - t * change > 0
    curvature = float(change[on] @ change[on])
    if curvature > 0:
        t = min(max(float((1.0 - values[on]) @ change[on]) / curvature, low), high)
    return u + t * step, values + t * change


def flat_direction(
    H: NDArray[np.float64], rising: NDArray[np.bool_], falling: NDArray[np.bool_]
) -> tuple[Vector | None, Factor]:
    """A direction d with Hd = 0, d >= 0 where `rising`, d <= 0 where `falling`, d not zero.

    Variables that are both must stay: d = 0. Returns None for d where there is no such direction,
    and the factor that decided.

    First among the variables that are free to move either way: any null vector does. If they have
    none, a direction moves a variable at a bound, and the largest total move of these, each by one
    at most, is positive iff there is a direction; the free ones follow, bounded because
    they are independent.
    """
    n = len(H)
    mobile = np.flatnonzero(~(rising & falling))
    rising, falling = rising[mobile], falling[mobile]
    H = H[np.ix_(mobile, mobile)]
    free = np.flatnonzero(~(rising | falling))
    direction = np.zeros(n)
    of_free = factor(H[np.ix_(free, free)])
    if of_free.n_null:
        T = of_free.dependence()
        direction[mobile[free[of_free.rest[0]]]] = 1.0
        direction[mobile[free[of_free.first]]] = -T[:, 0]
        return direction / np.abs(direction).max(), of_free
    if len(free) == len(mobile):
        return None, of_free
    whole = factor(H)
    if whole.n_null == 0:
        return None, whole
    sign = np.where(rising, 1.0, np.where(falling, -1.0, 0.0))
    result = solve_lp(
        -sign,
        what="a second dual solution",
        A_eq=whole.L.T,
        b_eq=np.zeros(whole.rank),
        bounds=[(0.0, 1.0) if s > 0 else (-1.0, 0.0) if s < 0 else (None, None) for s in sign],
    )
    # A cone cut at one: the largest total is zero, or one at least.
    if -result.fun < 0.5:
        return None, whole
    direction[mobile] = np.where(np.abs(result.x) > 1e-9, result.x, 0.0)
    return direction / np.abs(direction).max(), whole
