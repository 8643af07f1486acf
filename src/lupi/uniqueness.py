r"""Is it unique? Offsets and dual variables of fitted models, decided from problem and solution.

The primal w is always unique (thm:svmw_unique, thm:svmp_unique). The offset of a weighted SVM and
the dual variables of both machines need not be. Derivations are on the page :ref:`maths_weights`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._theory import Fitted, fitted, flat_direction, signed_gram
from .certificates import flat_offsets, svmplus_certificate
from .problems import SVMPlusProblem, Vector, WSVMProblem

__all__ = [
    "DualUniqueness",
    "OffsetUniqueness",
    "dual_is_unique",
    "offset_interval",
    "offset_is_unique",
]

# Sums of weights that differ by less, relative to the sum of all, count as equal: it leaves room
# for weights that come from another fit (thm:svmw_from_svmp).
_EQUAL = 1e-9


def offset_interval(model: Any, *, allow_inexact: bool = False) -> tuple[float, float]:
    r"""All optimal offsets of a fitted model (thm:svmw_unique, thm:svmp_unique).

    Weighted SVM: the offsets b at which :math:`\sum_i c_i [1 - y_i (\langle w, z_i\rangle + b)]_+`
    is smallest, w being unique. SVM+: the offsets that agree with the optimality conditions
    eq:svmp_kkt; one number where a row with privileged information is a support vector, and the
    interval of thm:svmp_unique where there is no support vector.

    Parameters
    ----------
    model : fitted WeightedSVC or SVMPlusClassifier
        Of two classes.
    allow_inexact : bool, default=False
        Whether a model that did not converge will do.

    Returns
    -------
    lower, upper : float
        Equal where b is unique; infinite where nothing bounds it (one class has no weight).

    Examples
    --------
    >>> from lupi import WeightedSVC
    >>> from lupi.uniqueness import offset_interval
    >>> model = WeightedSVC(C=0.5, kernel="linear").fit([[0.0], [1.0]], [-1, 1])
    >>> offset_interval(model)
    (-1.0, 0.5)
    """
    return _interval(fitted(model, allow_inexact=allow_inexact))


def _interval(view: Fitted) -> tuple[float, float]:
    problem = view.problem
    if isinstance(problem, WSVMProblem):
        return flat_offsets(problem.y - view.expansion, problem.y, problem.c, _EQUAL)
    if not (problem.privileged & (problem.C > 0)).any():  # the weighted SVM
        return flat_offsets(problem.y - view.expansion, problem.y, problem.C, _EQUAL)
    primal = view.solution.primal
    certificate = svmplus_certificate(
        problem,
        view.alpha,
        view.beta,
        coef_corr=primal.coef_corr if problem.correction_reg == 0 else None,  # type: ignore[attr-defined]
    )
    return certificate.b_interval


@dataclass(frozen=True)
class OffsetUniqueness:
    """Whether the offset of a model is unique, and why; true in a condition if it is.

    Attributes
    ----------
    unique : bool
    interval : (float, float)
        All optimal offsets.
    sums : tuple of ((float, float), (float, float)) or None
        Weighted SVM: the left and right sides of the two equalities of thm:svmw_unique.
    conditions : tuple of (bool, bool) or None
        Weighted SVM: whether they hold. The first says that b can fall at no cost, the second
        that it can rise; the offset is not unique iff one of them holds.
    reason : str
        One sentence.
    """

    unique: bool
    interval: tuple[float, float]
    sums: tuple[tuple[float, float], tuple[float, float]] | None
    conditions: tuple[bool, bool] | None
    reason: str

    def __bool__(self) -> bool:
        return self.unique


def offset_is_unique(model: Any, *, allow_inexact: bool = False) -> OffsetUniqueness:
    r"""Whether the offset of a fitted model is unique (thm:svmw_unique, thm:svmp_unique).

    Weighted SVM, thm:svmw_unique: with :math:`I_0 = \{y f < 1\}` and :math:`I_1 = \{y f \le 1\}`,
    b is not unique iff

    .. math::

        \sum_{I_- \cap I_0} c_i = \sum_{I_+ \cap I_1} c_i \quad\text{or}\quad
        \sum_{I_+ \cap I_0} c_i = \sum_{I_- \cap I_1} c_i .

    The left derivative of the loss in b is the left minus the right side of the first equality, the
    right derivative is the right minus the left side of the second: each says that b can move
    one way at no cost, down and up.

    SVM+, thm:svmp_unique: b is unique if there is a support vector. This needs privileged
    information at every row, as the paper has it; where some rows have an ordinary slack, b is
    unique iff the optimality conditions leave one number for it.

    Parameters
    ----------
    model : fitted WeightedSVC or SVMPlusClassifier
    allow_inexact : bool, default=False

    Returns
    -------
    OffsetUniqueness

    Examples
    --------
    >>> from lupi import WeightedSVC
    >>> from lupi.uniqueness import offset_is_unique
    >>> model = WeightedSVC(C=0.5, kernel="linear").fit([[0.0], [1.0]], [-1, 1])
    >>> answer = offset_is_unique(model)
    >>> bool(answer), answer.conditions
    (False, (True, True))
    """
    view = fitted(model, allow_inexact=allow_inexact)
    lower, upper = _interval(view)
    problem = view.problem
    plain = isinstance(problem, WSVMProblem)
    if isinstance(problem, SVMPlusProblem) and not (problem.privileged & (problem.C > 0)).any():
        plain = True
    if not plain:
        unique = bool(upper - lower <= view.room)
        if view.alpha.any():
            reason = (
                "There is a support vector, and the optimality conditions leave one offset."
                if unique
                else "Rows without privileged information have slacks of their own, and the "
                "optimality conditions leave an interval."
            )
        else:
            reason = "There is no support vector: w = 0, and every offset of the interval will do."
        return OffsetUniqueness(unique, (lower, upper), None, None, reason)
    y, c = problem.y, view.cost
    short = 1.0 - view.margin
    inside, on_or_inside = short > view.room, short >= -view.room
    sums = (
        (float(c[(y < 0) & inside].sum()), float(c[(y > 0) & on_or_inside].sum())),
        (float(c[(y > 0) & inside].sum()), float(c[(y < 0) & on_or_inside].sum())),
    )
    near = _EQUAL * float(c.sum())
    down, up = (abs(left - right) <= near for left, right in sums)
    ways = {(True, True): "either way", (True, False): "down", (False, True): "up"}
    reason = (
        f"Weights balance: b can move {ways[down, up]} at no cost."
        if down or up
        else "No equality of thm:svmw_unique holds: to move b costs, either way."
    )
    return OffsetUniqueness(not (down or up), (lower, upper), sums, (down, up), reason)


@dataclass(frozen=True, eq=False)
class DualUniqueness:
    """Whether the dual solution of a model is unique, and why; true in a condition if it is.

    Attributes
    ----------
    unique : bool
    direction : ndarray of shape (n,) or None
        If not unique: a change of alpha along which the dual stays optimal, largest entry 1 unless
        it is zero.
    direction_beta : ndarray of shape (n,) or None
        The change of beta with it. Weighted SVM: minus `direction`.
    step : float
        How far alpha (and beta) can go along it.
    alpha, beta : ndarray of shape (n,) or None
        The second dual solution at the end of that step.
    reason : str
        One sentence.
    tolerance : float
        Pivots below this, relative to the largest, counted as zero in the rank decision. A
        direction is null up to its square root.
    """

    unique: bool
    direction: Vector | None
    direction_beta: Vector | None
    step: float
    alpha: Vector | None
    beta: Vector | None
    reason: str
    tolerance: float

    def __bool__(self) -> bool:
        return self.unique


def dual_is_unique(model: Any, *, allow_inexact: bool = False) -> DualUniqueness:
    r"""Whether the dual solution of a fitted model is unique (prop:unique_dual, cor:unique_dual).

    prop:unique_dual: two dual solutions differ by d in
    :math:`\mathrm{Null}(YKY) \cap 1^\perp \cap y^\perp`, and for SVM+ their
    :math:`\alpha^*` differ by a vector in :math:`\mathrm{Null}(K^*) \cap 1^\perp`. That is
    necessary; with the bounds it becomes a decision: the dual is unique iff no such d other than
    zero has :math:`d_i \ge 0` where :math:`\alpha_i = 0` and :math:`d_i \le 0` where
    :math:`\alpha_i = c_i` (SVM+: where :math:`\beta_i = 0`, of the change of beta). Only rows whose
    constraint is tight can move, which makes :math:`1^\top d = 0` follow from the rest.

    Parameters
    ----------
    model : fitted WeightedSVC or SVMPlusClassifier
    allow_inexact : bool, default=False

    Returns
    -------
    DualUniqueness

    Examples
    --------
    A row that is repeated shares its dual variable with its copy in any proportion:

    >>> from lupi import WeightedSVC
    >>> from lupi.uniqueness import dual_is_unique
    >>> model = WeightedSVC(C=9.0, kernel="linear").fit([[0.0], [1.0], [1.0]], [-1, 1, 1])
    >>> answer = dual_is_unique(model)
    >>> bool(answer), abs(answer.direction).tolist()
    (False, [0.0, 1.0, 1.0])
    """
    view = fitted(model, allow_inexact=allow_inexact)
    if isinstance(view.problem, SVMPlusProblem):
        H, rows, beta_rows = _svmplus_curvature(view, view.problem)
    else:
        H, rows, beta_rows = _wsvm_curvature(view, view.problem)
    alpha, beta = view.alpha, view.beta
    # What is within rounding of a bound is at it: no second solution is that close.
    near = 1e-10 * float(view.cost.max())
    if isinstance(view.problem, SVMPlusProblem):
        at_zero = np.concatenate([alpha[rows] <= near, beta[beta_rows] <= near])
        at_top = np.zeros(len(at_zero), dtype=np.bool_)
    else:
        at_zero, at_top = alpha[rows] <= near, beta[rows] <= near
    found, decided = flat_direction(H, at_zero, at_top)
    tolerance = decided.tolerance / max(float(H.diagonal().max(initial=0.0)), 1e-300)
    if found is None:
        return DualUniqueness(
            True, None, None, 0.0, None, None, _why_unique(len(H), decided.n_null), tolerance
        )
    direction, direction_beta = np.zeros(len(alpha)), np.zeros(len(alpha))
    direction[rows] = found[: len(rows)]
    if isinstance(view.problem, SVMPlusProblem):
        direction_beta[beta_rows] = found[len(rows) :]
    else:
        direction_beta = -direction
    step = min(_longest(alpha, direction, near), _longest(beta, direction_beta, near))
    return DualUniqueness(
        False,
        direction,
        direction_beta,
        step,
        np.maximum(alpha + step * direction, 0.0),
        np.maximum(beta + step * direction_beta, 0.0),
        f"{int((direction != 0).sum())} rows can exchange their dual variables: neither w nor the "
        "dual objective changes.",
        tolerance,
    )


def _why_unique(n_movable: int, n_null: int) -> str:
    if n_movable == 0:
        return "Every dual variable is determined by its own row: no constraint is tight."
    if n_null == 0:
        return (
            f"The {n_movable} dual variables that could move are independent: no change of them "
            "leaves w as it is."
        )
    return (
        f"The {n_movable} dual variables that could move have a null space of dimension {n_null}, "
        "and every direction in it leads over a bound."
    )


def _longest(x: Vector, dx: Vector, near: float) -> float:
    falling = (dx < 0) & (x > near)
    return float((-x[falling] / dx[falling]).min(initial=np.inf))


def _wsvm_curvature(
    view: Fitted, problem: WSVMProblem
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """The curvature among the rows on the margin, whose alpha alone can move."""
    c = problem.c
    between = (view.alpha > 0) & (view.alpha < c)
    rows = np.flatnonzero((c > 0) & (between | (np.abs(1.0 - view.margin) <= view.room)))
    return signed_gram(problem, rows), rows, rows


def _svmplus_curvature(
    view: Fitted, problem: SVMPlusProblem
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """The curvature H in (alpha, beta) among the variables whose constraint is tight.

    H = [[Q + S, S], [S, S]] with Q = YKY + s yy' and S = K* + s* 11' between privileged rows, and 1
    for a row without privileged information against itself: null are the changes d, e with
    Qd = 0 and S(d + e) = 0, that is d + e = 0 at such a row. Both blocks are scaled to a largest
    entry of one.
    """
    present = problem.C > 0
    slack = view.solution.primal.slack
    short = 1.0 - view.margin - slack
    tight = np.flatnonzero(present & ((view.alpha > 0) | (np.abs(short) <= view.room)))
    zero = np.flatnonzero(present & ((view.beta > 0) | (np.abs(slack) <= view.room)))
    Q = signed_gram(problem, tight)
    Q /= max(float(Q.diagonal().max(initial=0.0)), 1e-300)
    both = np.concatenate([tight, zero])
    S = (both[:, None] == both).astype(np.float64)
    privileged = np.flatnonzero(problem.privileged[both])
    if len(privileged):
        position = problem.priv[both[privileged]]
        known, place = np.unique(position, return_inverse=True)
        K = problem.kernel_corr.block(known)
        diagonal = float(K.diagonal().max())
        K = K + (diagonal if diagonal > 0 else 1.0)
        K /= K.diagonal().max()
        S[np.ix_(privileged, privileged)] = K[np.ix_(place, place)]
    S[: len(tight), : len(tight)] += Q
    return S, tight, zero
