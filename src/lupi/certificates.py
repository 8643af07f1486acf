"""Certificates: what a point proves, from the problem and the point alone, in float64.

Nothing here knows how the point was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .problems import SmoothWSVMProblem, SVMPlusProblem, Vector, WSVMProblem


@dataclass(frozen=True, eq=False)
class WSVMCertificate:
    """What a dual point of the weighted SVM proves.

    Attributes
    ----------
    primal_objective, dual_objective : float
        Values of the feasible primal point (w from alpha, the best offset b for this w, slack =
        hinge loss) and of alpha. Their difference bounds the distance of both to the optimum.
    violation : float
        max v (alpha may rise) - min v (alpha may fall) with v = y - <w, z>, at least 0: the largest
        KKT violation in units of the decision function.
    rounding : float
        The size of rounding errors in ``residual``: below it a violation has no meaning.
    b : float
        The offset.
    b_interval : (float, float)
        All optimal offsets (thm:svmw_unique); a point unless no alpha is strictly between its
        bounds.
    slack : ndarray of shape (n,)
        Hinge losses.
    residual : ndarray of shape (n,)
        v = y - <w, z>.
    """

    primal_objective: float
    dual_objective: float
    violation: float
    rounding: float
    b: float
    b_interval: tuple[float, float]
    slack: Vector
    residual: Vector


def offset_range(
    residual: Vector, y: Vector, alpha: Vector, c: Vector
) -> tuple[float, float, float]:
    r"""The offsets that agree with the KKT conditions of (w, alpha), and the violation.

    With v = y - <w, z>, eq:svmw_kkt:comp1 to const2 say for every row

    * y = +1, alpha < c, or y = -1, alpha > 0 ("may rise", in y alpha):  b >= v_i,
    * y = +1, alpha > 0, or y = -1, alpha < c ("may fall"):              b <= v_i.

    So b lies in [max of the first, min of the second]. Where the interval is empty the point is not
    optimal and its length is the violation. Rows of weight zero demand nothing.

    Returns
    -------
    lower, upper, violation : float
    """
    positive = y > 0
    above = alpha > 0
    below = alpha < c
    rise = np.where(positive, below, above)
    fall = np.where(positive, above, below)
    lower = residual[rise].max(initial=-math.inf)
    upper = residual[fall].min(initial=math.inf)
    return float(lower), float(upper), max(0.0, float(lower - upper))


def best_offset(residual: Vector, y: Vector, c: Vector) -> float:
    """The minimiser over b of sum_i c_i [1 - y_i (<w, z_i> + b)]_+, given v = y - <w, z>.

    The loss of row i is c_i [y_i (v_i - b)]_+: it falls with slope c_i up to b = v_i for y_i = +1,
    and rises with slope c_i from b = v_i on for y_i = -1. Going up through the sorted v, the slope
    starts at -sum of the positive class and gains c_i at each v_i; the minimum is where it passes
    zero.
    """
    order = residual.argsort(kind="stable")
    slope = c[order].cumsum() - c[y > 0].sum()
    return float(residual[order[min(slope.searchsorted(0.0), len(order) - 1)]])


def flat_offsets(
    residual: Vector, y: Vector, c: Vector, rounding: float = 1e-9
) -> tuple[float, float]:
    """All offsets that minimise the loss of :func:`best_offset` up to rounding of the weights.

    The interval where the slope is at most ``rounding * sum(c)`` either way. Sums of weights that
    are meant to be equal (thm:svmw_unique) agree to rounding only, when the weights come from
    another fit; the interval that the duals give (:func:`offset_range`) knows nothing of that and
    closes.
    """
    rows = np.flatnonzero(c)
    order = rows[residual[rows].argsort(kind="stable")]
    slope = c[order].cumsum() - c[y > 0].sum()
    flat = rounding * float(c.sum())
    left, right = slope.searchsorted(-flat), slope.searchsorted(flat, side="right")
    # With one class the slope starts, or ends, at zero: no bound there.
    lower = -math.inf if not (c[y > 0] > 0).any() else float(residual[order[left]])
    upper = math.inf if right >= len(order) else float(residual[order[right]])
    return lower, upper


def wsvm_at_offset(
    problem: WSVMProblem, alpha: Vector, b: float
) -> tuple[tuple[float, float], float, Vector]:
    """The optimal offsets for the w of alpha (:func:`flat_offsets`), and primal value and slacks
    at (w, b).
    """
    signed = problem.y * alpha
    expansion = problem.kernel.dot(signed)
    residual = problem.y - expansion
    slack = np.maximum(problem.y * (residual - b), 0.0)
    value = problem.primal(float(signed @ expansion), slack)
    return flat_offsets(residual, problem.y, problem.c), value, slack


def choose_offset(
    lower: float, upper: float, residual: Vector, y: Vector, c: Vector
) -> tuple[float, tuple[float, float]]:
    """The offset and the interval of all optimal ones.

    The middle of [lower, upper]; its finite end if it is unbounded (one class only); 0 if nothing
    bounds it. Where the bounds meet or cross, the offset is unique as far as the point is
    optimal, and the best one for this w is taken, which makes the primal value the smallest.
    """
    if lower < upper:
        if math.isinf(lower) or math.isinf(upper):
            b = lower if math.isfinite(lower) else upper if math.isfinite(upper) else 0.0
        else:
            b = 0.5 * (lower + upper)
        return b, (lower, upper)
    if lower == upper:
        return lower, (lower, upper)
    b = min(max(best_offset(residual, y, c), upper), lower)
    return b, (b, b)


def wsvm_certificate(
    problem: WSVMProblem, alpha: Vector, expansion: Vector | None = None
) -> WSVMCertificate:
    """The certificate of a dual point, from the problem and alpha alone.

    Parameters
    ----------
    problem : WSVMProblem
    alpha : ndarray of shape (n,)
        Feasible for eq:svmw_dual: 0 <= alpha <= c and y'alpha = 0 up to rounding.
    expansion : ndarray of shape (n,), optional
        K (y alpha), where it was computed in float64 already; it is the costly part.

    Returns
    -------
    WSVMCertificate
    """
    y, c = problem.y, problem.c
    signed = y * alpha
    if expansion is None:
        expansion = problem.kernel.dot(signed)  # <w, z_i>
    squared_norm = float(signed @ expansion)
    residual = y - expansion
    lower, upper, violation = offset_range(residual, y, alpha, c)
    b, interval = choose_offset(lower, upper, residual, y, c)
    slack = np.maximum(y * (residual - b), 0.0)
    # |K_ij| <= sqrt(K_ii K_jj), and a sum of n products rounds to about eps * sum of magnitudes.
    root = np.sqrt(np.abs(problem.kernel.diagonal()))
    rounding = 4e-16 * max(1.0, float(root.max()) * float(root @ alpha))
    return WSVMCertificate(
        primal_objective=problem.primal(squared_norm, slack),
        dual_objective=problem.dual(squared_norm, alpha),
        violation=violation,
        rounding=rounding,
        b=b,
        b_interval=interval,
        slack=slack,
        residual=residual,
    )


def wsvm_offsets(residual: Vector, y: Vector, alpha: Vector, c: Vector) -> tuple[Vector, Vector]:
    """Offsets and violations of m weighted SVMs, as in :class:`WSVMCertificate`.

    Parameters
    ----------
    residual : ndarray of shape (m, n)
        y - K (y alpha), in float64.
    y, alpha, c : ndarray of shape (m, n)
        Labels, dual points and weights, one problem in each row.

    Returns
    -------
    b, violation : ndarray of shape (m,)
    """
    positive, above, below = y > 0, alpha > 0, alpha < c
    rise, fall = np.where(positive, below, above), np.where(positive, above, below)
    lower = np.where(rise, residual, -math.inf).max(axis=1)
    upper = np.where(fall, residual, math.inf).min(axis=1)
    # best_offset in every row.
    order = residual.argsort(axis=1, kind="stable")
    slope = np.take_along_axis(c, order, 1).cumsum(axis=1)
    at = (slope < np.where(positive, c, 0.0).sum(axis=1)[:, None]).sum(axis=1)
    row = np.arange(len(alpha))
    best = residual[row, order[row, np.minimum(at, y.shape[1] - 1)]]
    b = np.minimum(np.maximum(best, upper), lower)
    for k in np.flatnonzero(lower <= upper):
        bounds = float(lower[k]), float(upper[k])
        b[k], _ = choose_offset(*bounds, residual[k], y[k], c[k])
    return b, np.maximum(lower - upper, 0.0)


@dataclass(frozen=True)
class WSVMResiduals:
    """Largest violation of each line of eq:svmw_kkt at a point; all zero at an optimum."""

    w: float
    b: float
    xi: float
    comp1: float
    comp2: float
    const1: float
    const2: float

    @property
    def largest(self) -> float:
        """The largest of them."""
        return max(self.w, self.b, self.xi, self.comp1, self.comp2, self.const1, self.const2)


def wsvm_residuals(
    problem: WSVMProblem,
    alpha: Vector,
    beta: Vector,
    b: float,
    slack: Vector,
    expansion: Vector | None = None,
) -> WSVMResiduals:
    """Residuals of the KKT conditions eq:svmw_kkt, one per line, named as in the appendix.

    Parameters
    ----------
    problem : WSVMProblem
    alpha, beta, slack : ndarray of shape (n,)
    b : float
    expansion : ndarray of shape (n,), optional
        <w, z_i> of the primal point, if it is not the expansion of alpha; eq:svmw_kkt:w is then
        measured at the training rows.
    """
    y, c = problem.y, problem.c
    of_alpha = problem.kernel.dot(y * alpha)
    f = of_alpha if expansion is None else expansion
    hinge_constraint = slack - 1 + y * (f + b)
    return WSVMResiduals(
        w=float(np.abs(of_alpha - f).max()),
        b=abs(float(y @ alpha)),
        xi=float(np.abs(alpha + beta - c).max()),
        comp1=float(np.abs(alpha * hinge_constraint).max()),
        comp2=float(np.abs(beta * slack).max()),
        const1=float(np.maximum(-hinge_constraint, 0).max()),
        const2=float(
            max(
                np.maximum(-alpha, 0).max(), np.maximum(-beta, 0).max(), np.maximum(-slack, 0).max()
            )
        ),
    )


@dataclass(frozen=True, eq=False)
class SVMPlusCertificate(WSVMCertificate):
    """What a dual point of SVM+ proves.

    As for the weighted SVM, with the primal point made feasible by ``b_corr``: the smallest offset
    of the correcting function with which every slack constraint holds. ``slack`` is the correcting
    function at the privileged rows and the hinge loss at the others; ``residual`` is
    y (1 - slack) - <w, z> at the privileged rows.
    """

    b_corr: float


@dataclass(frozen=True)
class OffsetBounds:
    """What the KKT conditions of (w, alpha, w*, beta) demand of b and b_corr.

    Bounds (lower, upper) on s = b_corr + b, from the privileged rows of the positive class, on
    t = b_corr - b, from those of the negative class, on b_corr itself, and on b, from the rows
    without privileged information. Upper bounds come from rows whose dual variable is positive.
    Each is a number, or an array with one for each of several problems.
    """

    s: tuple[Any, Any]
    t: tuple[Any, Any]
    b_corr: tuple[Any, Any]
    b: tuple[Any, Any]

    def violation(self) -> Any:
        """By how much the bounds contradict each other; 0 if some (b, b_corr) meets them all.

        In the plane the half-planes have directions at multiples of 45 degrees. By Helly's theorem
        they have a common point iff every three of them have, and the relations among three are
        those of s = b_corr + b, t = b_corr - b, 2 b_corr = s + t and 2 b = s - t.
        """
        (ls, us), (lt, ut), (lc, uc), (lb, ub) = self.s, self.t, self.b_corr, self.b
        contradictions = [
            *(ls - us, lt - ut, lc - uc, lb - ub),
            *(0.5 * (ls + lt) - uc, lc - 0.5 * (us + ut)),
            *(0.5 * (ls - ut) - ub, lb - 0.5 * (us - lt)),
            *(ls - (ub + uc), (lb + lc) - us),
            *(lt - (uc - lb), (lc - ub) - ut),
        ]
        return np.maximum(np.max(contradictions, axis=0), 0.0)

    def interval(self) -> tuple[Any, Any]:
        """The range of b over all (b, b_corr) that meet the bounds; crossed if there are none."""
        (ls, us), (lt, ut), (lc, uc), (lb, ub) = self.s, self.t, self.b_corr, self.b
        return (
            np.max([lb, 0.5 * (ls - ut), ls - uc, lc - ut], axis=0),
            np.min([ub, 0.5 * (us - lt), us - lc, uc - lt], axis=0),
        )


def offset_bounds(
    problem: SVMPlusProblem, alpha: Vector, beta: Vector, f: Vector, xi: Vector
) -> OffsetBounds:
    """The bounds of :class:`OffsetBounds`; f = <w, z> (n,), xi = <w*, z*> (n,) without offsets.

    Rows of cost zero demand nothing.
    """
    y, present = problem.y, problem.C > 0
    corrected = problem.privileged & present
    plain = ~problem.privileged & present

    def bounds(rows: np.ndarray, value: Vector, dual: Vector) -> tuple[float, float]:
        return (
            float(value[rows].max(initial=-math.inf)),
            float(value[rows & (dual > 0)].min(initial=math.inf)),
        )

    margin = 1 - y * f - xi
    lower, upper, _ = offset_range((y - f)[plain], y[plain], alpha[plain], problem.C[plain])
    return OffsetBounds(
        s=bounds(corrected & (y > 0), margin, alpha),
        t=bounds(corrected & (y < 0), margin, alpha),
        b_corr=bounds(corrected, -xi, beta),
        b=(lower, upper),
    )


def best_offset_corr(problem: SVMPlusProblem, f: Vector, xi: Vector) -> tuple[float, float]:
    """The offset b that minimises the primal objective for given w and w*, with its b_corr.

    For each b the smallest feasible b_corr is max(low, s - b, t + b), where `low` is the largest
    -xi, and s and t are the largest 1 - y f - xi of either class. Above its minimum it grows like
    the loss of two rows of weight sum(C), one of each class, at s - low and low - t, or, where
    these cross, both at their middle. So the weighted SVM's rule finds b.
    """
    y, C = problem.y, problem.C
    corrected = problem.privileged & (C > 0)
    plain = ~problem.privileged & (C > 0)
    margin = 1 - y * f - xi
    low = float((-xi[corrected]).max(initial=-math.inf))
    s = float(margin[corrected & (y > 0)].max(initial=-math.inf))
    t = float(margin[corrected & (y < 0)].max(initial=-math.inf))
    residual, signs, weight = (y - f)[plain], y[plain], C[plain]
    left, right = s - low, low - t
    if left > right:
        left = right = 0.5 * (left + right)
    total = float(C[corrected].sum())
    ends = [(v, sign) for v, sign in ((left, 1.0), (right, -1.0)) if math.isfinite(v)]
    residual = np.append(residual, [v for v, _ in ends])
    signs = np.append(signs, [sign for _, sign in ends])
    weight = np.append(weight, [total for _ in ends])
    b = best_offset(residual, signs, weight)
    return b, max(low, s - b, t + b)


def svmplus_offsets(
    f: Vector,
    xi: Vector,
    y: Vector,
    alpha: Vector,
    beta: Vector,
    C: Vector,
    privileged: NDArray[np.bool_],
) -> tuple[Vector, Vector]:
    """Offsets and violations of m SVM+ problems, as in :class:`SVMPlusCertificate`.

    Parameters
    ----------
    f, xi : ndarray of shape (m, n)
        <w, z> and <w*, z*> without offsets, in float64; xi is 0 where there is no z*.
    y, alpha, beta, C, privileged : ndarray of shape (m, n)
        Labels, dual points, costs and which rows are privileged, one problem in each row.

    Returns
    -------
    b, violation : ndarray of shape (m,)
    """
    corrected, plain = privileged & (C > 0), ~privileged & (C > 0)
    positive, above = y > 0, alpha > 0
    margin, residual = 1 - y * f - xi, y - f

    def lowest(rows: NDArray[np.bool_], value: Vector) -> Vector:
        return np.where(rows, value, math.inf).min(axis=1)

    def highest(rows: NDArray[np.bool_], value: Vector) -> Vector:
        return np.where(rows, value, -math.inf).max(axis=1)

    def bounds(rows: NDArray[np.bool_], value: Vector, used: NDArray[np.bool_]) -> Any:
        return highest(rows, value), lowest(rows & used, value)

    below = alpha < C
    demands = OffsetBounds(
        s=bounds(corrected & positive, margin, above),
        t=bounds(corrected & ~positive, margin, above),
        b_corr=bounds(corrected, -xi, beta > 0),
        b=(
            highest(plain & np.where(positive, below, above), residual),
            lowest(plain & np.where(positive, above, below), residual),
        ),
    )
    # best_offset_corr in every row: two rows stand for the privileged ones; those that count for
    # nothing come last.
    with np.errstate(invalid="ignore"):  # no privileged row: not a number, and not finite
        left, right = demands.s[0] - demands.b_corr[0], demands.b_corr[0] - demands.t[0]
        left, right = (np.where(left > right, 0.5 * (left + right), end) for end in (left, right))
    ends = np.stack([left, right], axis=1)
    total = np.where(corrected, C, 0.0).sum(axis=1)[:, None]
    weight = np.hstack([np.where(plain, C, 0.0), np.where(np.isfinite(ends), total, 0.0)])
    value = np.where(weight > 0, np.hstack([residual, ends]), math.inf)
    rising = np.hstack([positive, np.broadcast_to([True, False], ends.shape)])
    order = value.argsort(axis=1, kind="stable")
    slope = np.take_along_axis(weight, order, 1).cumsum(axis=1)
    at = (slope < np.where(rising, weight, 0.0).sum(axis=1)[:, None]).sum(axis=1)
    at = np.minimum(at, np.maximum(np.count_nonzero(weight, axis=1), 1) - 1)
    row = np.arange(len(alpha))
    best = value[row, order[row, at]]

    lower, upper = demands.interval()
    b = np.minimum(np.maximum(best, upper), lower)
    for k in np.flatnonzero(lower < upper):
        bound = float(lower[k]), float(upper[k])
        if alpha[k].any():
            b[k], _ = choose_offset(*bound, residual[k], y[k], C[k])
        else:
            b[k] = constant_offset(*bound, y[k], C[k])
    return b, demands.violation()


def constant_offset(lower: float, upper: float, y: Vector, C: Vector) -> float:
    """Without support vectors: the classifier of the heavier class (after thm:svmp_unique)."""
    b = math.copysign(1.0, float(C @ y)) if C @ y != 0 else 1.0
    return min(max(b, lower), upper)


def svmplus_certificate(
    problem: SVMPlusProblem,
    alpha: Vector,
    beta: Vector,
    *,
    alpha_corr: Vector | None = None,
    coef_corr: Vector | None = None,
) -> SVMPlusCertificate:
    """The certificate of a dual point of SVM+, from the problem and the point alone.

    Parameters
    ----------
    problem : SVMPlusProblem
    alpha, beta : ndarray of shape (n,)
        Feasible for eq:svmp_dual.
    alpha_corr : ndarray of shape (n,), optional
        alpha + beta - C at the privileged rows, equal to it up to rounding at the size of C. Where
        it is small against C it has digits that the difference has lost.
    coef_corr : ndarray of shape (n_priv,), optional
        Coefficients of w* on the privileged rows. Needed for correction_reg = 0, where the duals do
        not give it; else it is alpha_corr / correction_reg.

    Returns
    -------
    SVMPlusCertificate

    Notes
    -----
    With correction_reg = 0 the dual asks for sum_i alpha_corr_i z*_i = 0 (eq:svmp_kkt:cw). What the
    point lacks of it enters the gap: ``dual_objective`` is lowered by
    ``|<w*, sum_i alpha_corr_i z*_i>|``.
    """
    y, C, priv = problem.y, problem.C, problem.priv
    rows = np.flatnonzero(problem.privileged)
    delta = np.zeros(problem.kernel_corr.n)
    delta[priv[rows]] = (alpha + beta - C)[rows]
    own_digits = alpha_corr is not None
    if alpha_corr is not None:
        far = np.abs(alpha_corr[rows] - delta[priv[rows]]) > 1e-15 * (C + alpha + beta)[rows]
        if far.any():
            row = int(rows[np.argmax(far)])
            raise ValueError(
                f"alpha_corr must be alpha + beta - C up to rounding; row {row} is "
                f"{alpha_corr[row]!r} instead of {alpha[row] + beta[row] - C[row]!r}."
            )
        delta[priv[rows]] = alpha_corr[rows]
    signed = y * alpha
    f = problem.kernel.dot(signed)
    squared_norm = float(signed @ f)
    if problem.correction_reg > 0:
        xi_priv = problem.kernel_corr.dot(delta) / problem.correction_reg
        penalty, lacking = float(delta @ xi_priv), 0.0
    else:
        if coef_corr is None:
            raise ValueError("coef_corr is needed where correction_reg is 0.")
        xi_priv = problem.kernel_corr.dot(coef_corr)
        penalty, lacking = 0.0, abs(float(delta @ xi_priv))
    xi = np.zeros(problem.n)
    xi[rows] = xi_priv[priv[rows]]

    bounds = offset_bounds(problem, alpha, beta, f, xi)
    lower, upper = map(float, bounds.interval())
    best, _ = best_offset_corr(problem, f, xi)
    if lower >= upper:  # one offset, or none where the point is not optimal: the best near the two
        b = min(max(best, upper), lower)
        interval = (b, b)
    elif alpha.any():
        b, interval = choose_offset(lower, upper, y - f, y, C)
    else:
        b, interval = constant_offset(lower, upper, y, C), (lower, upper)
    corrected = problem.privileged & (C > 0)
    margin = 1 - y * (f + b) - xi
    b_corr = float(
        np.maximum(margin, -xi)[corrected].max(initial=0.0 if not len(rows) else -math.inf)
    )
    if not corrected.any():
        b_corr = 0.0
    slack = np.where(problem.privileged, xi + b_corr, np.maximum(1 - y * (f + b), 0.0))
    root = np.sqrt(np.abs(problem.kernel.diagonal()))
    rounding = float(root.max()) * float(root @ alpha)
    if len(rows):
        root_corr = np.sqrt(np.abs(problem.kernel_corr.diagonal()))
        weights = np.abs(delta / problem.correction_reg if coef_corr is None else coef_corr)
        if coef_corr is None and not own_digits:  # rounded at the size of the costs
            weights[priv[rows]] = np.maximum(weights[priv[rows]], C[rows] / problem.correction_reg)
        rounding += float(root_corr.max()) * float(root_corr @ weights)
    present = C > 0  # an absent row's correcting value may be of any sign
    return SVMPlusCertificate(
        primal_objective=problem.primal(squared_norm, penalty, np.where(present, slack, 0.0)),
        dual_objective=problem.dual(squared_norm, penalty, alpha) - lacking,
        violation=float(bounds.violation()),
        rounding=4e-16 * max(1.0, rounding),
        b=b,
        b_interval=interval,
        slack=slack,
        residual=np.where(problem.privileged, y * (1 - slack), y) - f,
        b_corr=b_corr,
    )


@dataclass(frozen=True)
class SVMPlusResiduals:
    """Largest violation of each line of eq:svmp_kkt at a point; all zero at an optimum.

    ``w`` and ``cw`` are measured at the training rows.
    """

    w: float
    b: float
    cw: float
    cb: float
    comp1: float
    comp2: float
    const1: float
    const2: float

    @property
    def largest(self) -> float:
        """The largest of them."""
        return max(vars(self).values())


def svmplus_residuals(
    problem: SVMPlusProblem,
    alpha: Vector,
    beta: Vector,
    b: float,
    slack: Vector,
    *,
    expansion: Vector | None = None,
    b_corr: float | None = None,
) -> SVMPlusResiduals:
    """Residuals of the KKT conditions eq:svmp_kkt, one per line, named as in the appendix.

    Parameters
    ----------
    problem : SVMPlusProblem
    alpha, beta, slack : ndarray of shape (n,)
        ``slack`` is the correcting function at the privileged rows.
    b : float
    expansion : ndarray of shape (n,), optional
        <w, z_i> of the primal point, if it is not the expansion of alpha.
    b_corr : float, optional
        Offset of the correcting function; without it ``cw`` is measured up to a constant.
    """
    y, C, priv = problem.y, problem.C, problem.priv
    present = C > 0
    rows = np.flatnonzero(problem.privileged)
    of_alpha = problem.kernel.dot(y * alpha)
    f = of_alpha if expansion is None else expansion
    delta = np.zeros(problem.kernel_corr.n)
    delta[priv[rows]] = (alpha + beta - C)[rows]
    lack = problem.kernel_corr.dot(delta)[priv[rows]] - problem.correction_reg * slack[rows]
    if len(rows):
        lack += problem.correction_reg * (b_corr if b_corr is not None else 0.0)
        if b_corr is None:
            lack -= lack.mean()
    hinge_constraint = np.where(present, slack - 1 + y * (f + b), 0.0)
    slack = np.where(present, slack, 0.0)
    return SVMPlusResiduals(
        w=float(np.abs(of_alpha - f).max()),
        b=abs(float(y @ alpha)),
        cw=float(np.abs(lack).max(initial=0.0)),
        cb=abs(float(delta.sum())),
        comp1=float(np.abs(alpha * hinge_constraint).max()),
        comp2=float(np.abs(beta * slack).max()),
        const1=float(np.maximum(-hinge_constraint, 0).max()),
        const2=max(float(np.maximum(-v, 0).max()) for v in (alpha, beta, slack)),
    )


@dataclass(frozen=True)
class SmoothCertificate:
    """What a point of the weighted SVM with a smooth loss proves.

    Attributes
    ----------
    primal_objective, dual_objective : float
        Value of (a, b), and of a feasible dual point made from a.
    violation : float
        Largest entry of the gradient in slopes of the loss: ``|a_i + c_i u_i|`` and
        ``|sum_i c_i u_i|`` divided by max c.
    """

    primal_objective: float
    dual_objective: float
    violation: float


def smooth_certificate(
    problem: SmoothWSVMProblem, expansion: Vector, b: float
) -> SmoothCertificate:
    """The certificate of a point (a, b) of eq:wlearning:fopt.

    The dual point is a cut to 0 <= y a <= c sup(-l'), the heavier class then scaled down until
    sum a = 0.
    """
    y, c, A = problem.y, problem.c, problem.matrix

    def represent(a: Vector) -> tuple[Vector, float]:
        if problem.linear:
            w = a @ A
            return A @ w, float(w @ w)
        f = A @ a
        return f, float(a @ f)

    f, squared_norm = represent(expansion)
    margin = y * (f + b)
    pull = y * c * problem.loss.d1(margin)
    primal = problem.primal(squared_norm, margin)

    steepest = problem.loss.steepest
    most = c * steepest if math.isfinite(steepest) else np.where(c > 0, np.inf, 0.0)
    alpha = np.clip(y * expansion, 0.0, most)
    up, down = float(alpha[y > 0].sum()), float(alpha[y < 0].sum())
    if up != down:
        heavier = y > 0 if up > down else y < 0
        alpha[heavier] *= min(up, down) / max(up, down)
    feasible = y * alpha
    _, squared_norm = represent(feasible)
    return SmoothCertificate(
        primal_objective=primal,
        dual_objective=problem.dual(squared_norm, feasible),
        violation=max(float(np.abs(expansion + pull).max()), abs(float(pull.sum())))
        / max(float(c.max()), 1e-300),
    )
