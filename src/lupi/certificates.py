"""Certificates: what a point proves, from the problem and the point alone, in float64.

Nothing here knows how the point was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .problems import Vector, WSVMProblem


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
