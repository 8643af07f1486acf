r"""SVM+ and the weighted SVM: from one to the other, and what lies beyond.

Every SVM+ is a weighted SVM (:func:`replicating_weights`). The weights of a weighted SVM are not
unique: :class:`EquivalentWeights` is the family of all that give the same classifier. Whether
privileged features could have produced a weighted SVM depends on the largest
:math:`\rho(c, \xi) = \langle c - \bar c 1, \xi\rangle` over this family
(:func:`replicating_svm_plus`). Everything is computed from problem and solution; nothing is trained
here. Derivations, and where the printed statements need a correction, are on the page
:ref:`maths_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from ._theory import (
    Factor,
    Fitted,
    Index,
    factor,
    fitted,
    offset_weight,
    positive_combination,
    signed_gram,
    solve_lp,
)
from .kernels import KernelMatrix, KernelSpec, given_matrix
from .problems import SVMPlusProblem, Vector, WSVMProblem

__all__ = [
    "EquivalentWeights",
    "NecessaryCondition",
    "NotReplicableError",
    "Reduction",
    "RhoBound",
    "RhoCertificate",
    "SVMMinusRay",
    "SVMPlusSetting",
    "necessary_condition",
    "replicating_svm_plus",
    "replicating_weights",
    "rho",
    "svm_minus_ray",
    "svm_reduction",
]

# Relative to the sum of the weights: rho of this size is zero. Weights and slacks of an exact fit
# are good to 1e-10, and rho is a sum of their products.
_ZERO_RHO = 1e-9


def rho(c: Any, slack: Any) -> float:
    r""":math:`\rho(c, \xi) = \langle c - \bar c 1, \xi \rangle` (eq:svmw_to_svmp_iff).

    Positive where hard rows, those of a large slack, have more than their share of the weight. The
    difference between the weighted and the plain mean of the slacks (eq:svmw_to_svmp_iff_w) is this
    divided by the sum of the weights.

    Parameters
    ----------
    c : array-like of shape (n,)
        Weights, non-negative.
    slack : array-like of shape (n,)
        Slacks, for example ``slack_`` of a fitted :class:`lupi.WeightedSVC`.

    Returns
    -------
    float

    Examples
    --------
    The counterexample of the paper (sec:example_svmw_not_svmp):

    >>> from lupi.equivalence import rho
    >>> rho([4, 6, 2], [0, 0, 4])
    -8.0
    """
    slack = np.asarray(slack, dtype=np.float64)
    if slack.ndim != 1:
        raise ValueError(f"slack must be a vector; got shape {slack.shape}.")
    c = _weights(c, len(slack))
    return float((c - c.mean()) @ slack) if len(c) else 0.0


def _weights(c: Any, n: int, name: str = "c") -> Vector:
    """Weights as float64; errors name the row at fault."""
    try:
        c = np.asarray(c, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers.") from error
    if c.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one weight per row; got {c.shape}.")
    good = (c >= 0) & (c < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(f"{name} must be finite and non-negative; row {row} is {c[row]}.")
    return c


# ---- From SVM+ to weights ------------------------------------------------------------------------


def replicating_weights(model: Any, *, allow_inexact: bool = False) -> Vector:
    r"""The weights with which a weighted SVM is this SVM+ (thm:svmw_from_svmp).

    thm:svmw_from_svmp: if :math:`(w, b, w^*, b^*, \alpha, \beta)` is a primal-dual optimal point of
    SVM+, then :math:`(w, b, \xi, \alpha, \beta)` is one of the weighted SVM with
    :math:`c = \alpha + \beta`. The offset of that weighted SVM may not be unique; that of the SVM+
    is in its interval.

    The statement holds as it is with one cost :math:`C_i` per row, and for rows without privileged
    information, whose weight remains their cost: its proof uses no more than
    :math:`\alpha, \beta, \xi \ge 0` and complementarity, row by row.

    Parameters
    ----------
    model : fitted SVMPlusClassifier
        Of two classes.
    allow_inexact : bool, default=False
        Whether a model that did not converge will do.

    Returns
    -------
    ndarray of shape (n,)
        ``sample_weight`` of a :class:`lupi.WeightedSVC` with ``C=1``; pass it the same kernel, its
        width as a number (``gamma="scale"`` depends on the weights).

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import SVMPlusClassifier, WeightedSVC
    >>> from lupi.equivalence import replicating_weights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> noise = rng.normal(size=60)
    >>> y = X[:, 0] + noise > 0
    >>> plus = SVMPlusClassifier(gamma=0.5).fit(X, y, X_priv=np.abs(noise)[:, None])
    >>> weighted = WeightedSVC(gamma=0.5, intercept=plus.intercept_[0])
    >>> weighted = weighted.fit(X, y, sample_weight=replicating_weights(plus))
    >>> bool(np.allclose(weighted.decision_function(X), plus.decision_function(X), atol=1e-6))
    True
    """
    return fitted(model, svm_plus=True, allow_inexact=allow_inexact).weights.copy()


class NecessaryCondition(NamedTuple):
    """Both sides of lem:svmp_necessary: the first is at least the second."""

    weighted_mean_loss: float
    mean_loss: float


def necessary_condition(model: Any, *, allow_inexact: bool = False) -> NecessaryCondition:
    r"""What every SVM+ does (lem:svmp_necessary, cor:svmp_from_svmw_necessary).

    lem:svmp_necessary: with the hinge losses h of an SVM+ and :math:`c = \alpha + \beta`,

    .. math:: \frac{\sum_i c_i h_i}{\sum_i c_i} \ge \frac1n \sum_i h_i ,

    that is :math:`\rho(c, h) \ge 0`: it puts more weight on hard rows. With one cost
    :math:`C_i` per row, the mean on the right is weighted by the costs,
    :math:`\sum_i C_i h_i / \sum_i C_i`. The difference of the sums is
    :math:`\gamma \|w^*\|^2 + \sum_i C_i \delta_i`, where
    :math:`\delta_i = \xi(x^*_i) - h_i \ge 0`; for :math:`\gamma = 0` the lemma as printed
    claims equality, which needs :math:`\delta = 0` besides.

    Parameters
    ----------
    model : fitted SVMPlusClassifier
    allow_inexact : bool, default=False

    Returns
    -------
    NecessaryCondition
        (weighted_mean_loss, mean_loss).
    """
    view = fitted(model, svm_plus=True, allow_inexact=allow_inexact)
    h, c, C = view.hinge, view.weights, view.cost
    return NecessaryCondition(float(c @ h) / float(c.sum()), float(C @ h) / float(C.sum()))


@dataclass(frozen=True)
class Reduction:
    r"""Which case of prop:svmp_rho_equality a model is in.

    Attributes
    ----------
    case : {"strict", "constant_slack", "no_penalty"}
        ``"strict"``: lem:svmp_necessary holds with a strict inequality. ``"constant_slack"``:
        equality and a positive correction_reg. ``"no_penalty"``: equality and correction_reg = 0.
    excess : float
        :math:`\sum_i (c_i - C_i) h_i`, which is zero in case of equality.
    slack : float or None
        "constant_slack": the slack that all rows share; the hard margin SVM where it is zero.
    full_rank : bool or None
        "no_penalty": whether the privileged features have rank n, so that the model is the weighted
        SVM with the costs as weights.
    reason : str
        One sentence.
    """

    case: str
    excess: float
    slack: float | None
    full_rank: bool | None
    reason: str


def svm_reduction(model: Any, *, allow_inexact: bool = False) -> Reduction:
    r"""Whether an SVM+ is a plain SVM in disguise (prop:svmp_rho_equality).

    prop:svmp_rho_equality: if lem:svmp_necessary holds with equality, then
    :math:`\xi(x^*_i) = h_i` for every row, and

    1. with :math:`\gamma > 0`, :math:`w^* = 0`: all rows have the same loss :math:`b^*`, and
       the hard margin SVM is the case :math:`b^* = 0`;
    2. with :math:`\gamma = 0`, :math:`\sum_i \alpha^*_i z^*_i = 0`; if the privileged features
       have rank n, :math:`\alpha + \beta = C`, and the model is the soft margin SVM.

    Rows without privileged information satisfy :math:`\alpha_i + \beta_i = C_i` and
    :math:`\xi_i = h_i` in any case; the statement is about the others.

    Parameters
    ----------
    model : fitted SVMPlusClassifier
    allow_inexact : bool, default=False

    Returns
    -------
    Reduction
    """
    view = fitted(model, svm_plus=True, allow_inexact=allow_inexact)
    problem = view.problem
    assert isinstance(problem, SVMPlusProblem)
    rows = np.flatnonzero(problem.privileged & (problem.C > 0))
    h, C = view.hinge, view.cost
    excess = float((view.weights - C) @ h)
    # Both terms of the excess, which is their sum and more exact than the difference above.
    coef = view.solution.primal.coef_corr  # type: ignore[attr-defined]
    penalty = problem.correction_reg * float(coef @ problem.kernel_corr.dot(coef))
    above = float(C[rows] @ np.maximum(view.solution.primal.slack[rows] - h[rows], 0.0))
    if penalty + above > max(view.room, 1e-8) * float(C.sum()):
        return Reduction(
            "strict", excess, None, None, "Hard rows have more than their share of the weight."
        )
    if problem.correction_reg > 0:
        slack = float(view.solution.primal.b_corr)  # type: ignore[attr-defined]
        hard = slack <= view.room
        return Reduction(
            "constant_slack",
            excess,
            0.0 if hard else slack,
            None,
            "w* = 0 and no row has a loss: the hard margin SVM."
            if hard
            else f"w* = 0: every row with privileged information has the loss {slack:.6g}.",
        )
    known = problem.priv[rows]
    full = factor(problem.kernel_corr.block(known)).n_null == 0 if len(known) else True
    return Reduction(
        "no_penalty",
        excess,
        None,
        full,
        "The privileged features can express every slack: the soft margin SVM with these costs."
        if full
        else "The correcting function meets every hinge loss, and the weights are those for which "
        "sum_i (c_i - C_i) z*_i = 0.",
    )


# ---- The family of weights -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RhoCertificate:
    r"""A proof that no equivalent weights have a larger rho.

    The function :math:`g(x) = \sum_j a_j k(x_j, x) + a_0` has

    .. math:: y_i g(x_i) + t \ge \xi_i - \bar\xi \quad\text{for every row with } y_i f(x_i) \le 1

    (t = 0 unless the total of the weights was fixed). Multiplying by :math:`\mu_i \ge 0` and
    summing, with :math:`\sum_i \mu_i y_i z_i = w = \sum_i \alpha_i y_i z_i` and
    :math:`\sum_i \mu_i y_i = 0`, every member :math:`c = \mu + \nu` has

    .. math:: \rho(c, \xi) = \sum_i c_i (\xi_i - \bar\xi) \le \sum_i \mu_i (\xi_i - \bar\xi)
              \le \sum_i \alpha_i (y_i g(x_i) + t) = \text{bound},

    because :math:`\xi_i = 0` wherever :math:`\nu_i > 0`. Check the first line row by row and the
    proof is complete.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        a, the coefficients of g on the training rows.
    intercept : float
        :math:`a_0`.
    total : float
        t.
    bound : float
        What rho cannot exceed.
    proves_negative : bool
        Whether the bound is negative by more than the violation can account for: then no member
        has a rho of zero or more.
    violation : float
        By how much the first line fails at most, a bound on the rounding of its sums included.
        Where it is not small the kernel matrix is so close to singular that the value cannot be
        proven in double precision.
    """

    coef: Vector
    intercept: float
    total: float
    bound: float
    violation: float
    proves_negative: bool


@dataclass(frozen=True, eq=False)
class RhoBound:
    """The largest rho over a family of equivalent weights.

    Attributes
    ----------
    value : float
        The maximum; infinite where rho grows without bound.
    weights : ndarray of shape (n,)
        Weights that attain it; where it is infinite, weights with a positive rho.
    ray : ndarray of shape (n,) or None
        Where it is infinite: a non-negative direction that can be added to any member in any
        amount, along which rho grows.
    certificate : RhoCertificate or None
        Why it is not larger; None where it is infinite, which `ray` proves.
    """

    value: float
    weights: Vector
    ray: Vector | None
    certificate: RhoCertificate | None


class EquivalentWeights:
    r"""All weights that give the same weighted SVM (def:equiv_weights, prop:equiv_weights).

    def:equiv_weights describes, for a solution :math:`(w, b, \xi)`, the family
    :math:`W = U + V` of weights :math:`c = \mu + \nu`:

    .. math::

        U &= \{\mu \ge 0 : \textstyle\sum_i \mu_i y_i z_i = w,\; \sum_i \mu_i y_i = 0,\;
            \mu_i (\xi_i - 1 + y_i f(x_i)) = 0\},\\
        V &= \{\nu \ge 0 : \nu_i \xi_i = 0\} ,

    and prop:equiv_weights says that :math:`(w, b, \xi)` is optimal for weights c iff they are in W.
    The rows fall in three groups: *hard* rows (:math:`y f < 1`), whose weight is :math:`\mu_i`,
    rows *on the margin*, which have both parts, and *easy* rows (:math:`y f > 1`), which may have
    any weight.

    Two lines differ from the paper's, where the proposition fails as printed (errata on
    :ref:`paper_map`). The paper has :math:`\mu_i (\xi_i - h_i) = 0`, which holds for every
    :math:`\mu`, easy rows included. And it asks for :math:`\sum_i \mu_i = \sum_i \alpha_i` besides,
    which leaves out weights that do give the same classifier; ``fixed_total=True`` adds it.

    Parameters
    ----------
    model : fitted WeightedSVC
        Of two classes.
    include_absent : bool, default=False
        Rows of weight zero are absent from the model, and from the family: no member gives them
        weight, and means are over the other rows. ``True`` takes them for rows of the sample with
        :math:`\xi_i = h_i`, as the paper does.
    fixed_total : bool, default=False
        Whether :math:`\sum_i \mu_i = \sum_i \alpha_i` is asked for as in the paper.
    allow_inexact : bool, default=False
        Whether a model that did not converge will do.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        The weights of the model.
    slack : ndarray of shape (n,)
        xi, the hinge losses.
    hard, on_margin, easy : ndarray of shape (n,)
        Which rows are; absent rows are none of them.

    Examples
    --------
    The counterexample of the paper (sec:example_svmw_not_svmp):

    >>> from lupi import WeightedSVC
    >>> from lupi.equivalence import EquivalentWeights
    >>> X, y = [[1.0], [2.0], [3.0]], [1, -1, 1]
    >>> model = WeightedSVC(kernel="linear").fit(X, y, sample_weight=[4, 6, 2])
    >>> family = EquivalentWeights(model)
    >>> family.contains([4, 6, 2]), family.contains([5, 7, 2]), family.contains([4, 6, 3])
    (True, True, False)
    >>> round(family.max_rho().value, 6)
    -5.333333

    Weights (5, 8, 3) give the same classifier as well; their sum differs, and so U of the paper,
    which consists of alpha alone, does not have them.

    >>> family.contains([5, 8, 3])
    True
    >>> paper = EquivalentWeights(model, fixed_total=True)
    >>> paper.contains([5, 8, 3]), paper.dimension, round(paper.max_rho().value, 6)
    (False, 0, -8.0)
    """

    def __init__(
        self,
        model: Any,
        *,
        include_absent: bool = False,
        fixed_total: bool = False,
        allow_inexact: bool = False,
    ) -> None:
        view = fitted(model, svm_plus=False, allow_inexact=allow_inexact)
        assert isinstance(view.problem, WSVMProblem)
        self._view: Fitted = view
        self._problem: WSVMProblem = view.problem
        self.fixed_total = bool(fixed_total)
        self.include_absent = bool(include_absent)
        self.weights = view.problem.c.copy()
        self.slack = view.hinge
        present = np.ones(view.problem.n, dtype=np.bool_) if include_absent else self.weights > 0
        short = 1.0 - view.margin
        self.hard = present & (short > view.room)
        # A support vector that is beyond the margin by more than `room` is one of an inexact fit.
        self.on_margin = present & ~self.hard & ((short >= -view.room) | (view.alpha > 0))
        self.easy = present & ~self.hard & ~self.on_margin
        self._present = present
        self._rows: Index = np.flatnonzero(self.hard | self.on_margin)

    def __repr__(self) -> str:
        return (
            f"EquivalentWeights({int(self.hard.sum())} hard rows, {int(self.on_margin.sum())} on "
            f"the margin, {int(self.easy.sum())} easy)"
        )

    # ---- geometry -----------------------------------------------------------------------------

    @cached_property
    def _gram(self) -> NDArray[np.float64]:
        """YKY + s yy' (+ t 11' where the total is fixed) among the rows that mu lives on."""
        H = signed_gram(self._problem, self._rows)
        if self.fixed_total:
            H = H + self._offset_weight
        return H

    @cached_property
    def _offset_weight(self) -> float:
        return offset_weight(self._problem.kernel.block(self._rows))

    @cached_property
    def _factor(self) -> Factor:
        return factor(self._gram)

    @cached_property
    def _mean_slack(self) -> float:
        return float(self.slack[self._present].mean())

    @cached_property
    def _interior(self) -> tuple[Vector, NDArray[np.bool_]]:
        """A point of U (on `_rows`) that is positive wherever any point of U is, and where that is.

        Rows where alpha is zero are tried together: the largest total of min(mu_i, unit) over them
        is positive iff one of them can be positive; the average of what is found and what was is
        positive at both, and the rows that are left are tried again.
        """
        mu = self._view.alpha[self._rows].copy()
        zero = mu <= 0
        if self._factor.n_null == 0 or not zero.any():
            return mu, mu > 0
        unit = float(mu.max()) or float(self.weights.max())
        L = self._factor.L
        while zero.any():
            tried = np.flatnonzero(zero)
            n, m = len(mu), len(tried)
            # mu = unit x, s <= x at the rows tried, s in [0, 1].
            A_ub = np.zeros((m, n + m))
            A_ub[np.arange(m), n + np.arange(m)] = 1.0
            A_ub[np.arange(m), tried] = -1.0
            result = solve_lp(
                np.r_[np.zeros(n), -np.ones(m)],
                what="the interior of the family of weights",
                A_ub=A_ub,
                b_ub=np.zeros(m),
                A_eq=np.hstack([L.T, np.zeros((L.shape[1], m))]),
                b_eq=L.T @ mu / unit,
                bounds=[(0.0, None)] * n + [(0.0, 1.0)] * m,
            )
            found = np.maximum(result.x[:n], 0.0)
            new = zero & (found > 1e-7)
            if not new.any():
                break
            mu = 0.5 * (mu + unit * np.where((mu > 0) | new, found, 0.0))
            zero &= ~new
        return mu, mu > 0

    @property
    def dimension(self) -> int:
        r"""Dimension of U: 0 where :math:`\mu = \alpha` is its only member."""
        _, support = self._interior
        rows = np.flatnonzero(support)
        return factor(self._gram[np.ix_(rows, rows)]).n_null if len(rows) else 0

    # ---- membership ---------------------------------------------------------------------------

    def decompose(self, c: Any) -> tuple[Vector, Vector]:
        r"""The parts :math:`\mu` and :math:`\nu` of weights, those that fit def:equiv_weights best.

        Parameters
        ----------
        c : array-like of shape (n,)

        Returns
        -------
        mu, nu : ndarray of shape (n,)
            ``mu + nu = c``. Hard rows have ``nu = 0`` and easy rows ``mu = 0``; on the margin mu
            is between 0 and c and makes :math:`\sum_i \mu_i y_i z_i - w` smallest.
        """
        c = _weights(c, self._problem.n)
        mu = np.where(self.hard, c, 0.0)
        L, rows = self._factor.L, self._rows
        box = self.on_margin[rows] & (c[rows] > 0)
        if box.any() and L.shape[1]:
            goal = L.T @ (self._view.alpha - mu)[rows]
            upper = c[rows[box]]
            # Near alpha, where a member that leaves the hard rows alone has its mu.
            part = np.minimum(self._view.alpha[rows[box]], upper)
            scale = float(np.abs(L).max()) * float(c[rows].sum())
            if np.abs(L[box].T @ part - goal).max() > 1e-14 * scale:
                # |A x - goal| is |R x - Q' goal| and what no x can change.
                Q, R = np.linalg.qr(L[box].T)
                goal = Q.T @ goal
                part = np.linalg.lstsq(R, goal, rcond=None)[0]
                if (part < 0).any() or (part > upper).any():
                    part = lsq_linear(R, goal, (0.0, upper), method="bvls", tol=1e-15).x
            mu[rows[box]] = np.clip(part, 0.0, upper)
        return mu, c - mu

    def violations(self, c: Any) -> dict[str, float]:
        r"""By how much weights miss each condition of def:equiv_weights; all zero for a member.

        Parameters
        ----------
        c : array-like of shape (n,)
            Weights, non-negative.

        Returns
        -------
        dict
            In units of the weights. ``"w"``: :math:`\|\sum_i \mu_i y_i z_i - w\|` divided by the
            largest :math:`\|z_i\|`; ``"b"``: :math:`|\sum_i \mu_i y_i|`; ``"absent"``: the largest
            weight of an absent row; with ``fixed_total`` also ``"total"``:
            :math:`|\sum_i \mu_i - \sum_i \alpha_i|`. The parts of c are those of
            :meth:`decompose`, which satisfy the other conditions.
        """
        c = _weights(c, self._problem.n)
        mu, _ = self.decompose(c)
        change = (mu - self._view.alpha)[self._rows]
        y = self._problem.y[self._rows]
        of_b = float(y @ change)
        of_all = self._factor.L.T @ change  # its square is that of all conditions together
        squares = float(of_all @ of_all) - self._offset_weight * of_b**2
        found = {"b": abs(of_b), "absent": float(c[~self._present].max(initial=0.0))}
        if self.fixed_total:
            found["total"] = abs(float(change.sum()))
            squares -= self._offset_weight * found["total"] ** 2
        longest = float(self._problem.kernel.diagonal()[self._rows].max(initial=0.0))
        found["w"] = float(np.sqrt(max(squares, 0.0) / longest)) if longest > 0 else 0.0
        return found

    def contains(self, c: Any, tol: float = 1e-7) -> bool:
        """Whether these weights give the same classifier (prop:equiv_weights).

        Parameters
        ----------
        c : array-like of shape (n,)
            Weights, non-negative.
        tol : float, default=1e-7
            Violations up to this, relative to the largest weight of the model, are rounding.

        Returns
        -------
        bool
        """
        return max(self.violations(c).values()) <= tol * float(self.weights.max())

    def concentrated(self) -> Vector:
        r"""All weight on the support vectors: :math:`c = \alpha`, :math:`\beta = 0`.

        cor:equiv_weights: there is always a member :math:`c' = \alpha' = \alpha` with
        :math:`\beta' = 0`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._view.alpha.copy()

    def sample(self, k: int, random_state: int | np.random.Generator | None = None) -> Vector:
        r"""Random members.

        :math:`\mu` walks through U by hit-and-run from a point of its relative interior: a random
        direction of its null space, then a uniform step between the bounds; where a direction has
        no end (U may be unbounded), an exponential step of the size of the weights.
        :math:`\nu` is independent, exponential of that size, at every row that may have it. The
        members are neither uniform nor independent: they are there to be tried.

        Parameters
        ----------
        k : int
            How many.
        random_state : int or Generator, default=None

        Returns
        -------
        ndarray of shape (k, n)
        """
        if k < 0 or int(k) != k:
            raise ValueError(f"k must be a non-negative whole number; got {k!r}.")
        rng = np.random.default_rng(random_state)
        mu, support = self._interior
        live = np.flatnonzero(support)
        walk = mu[live].copy()
        unit = float(self.weights[self._present].mean())
        inner = factor(self._gram[np.ix_(live, live)])
        null, T = inner.n_null, inner.dependence()
        members = np.zeros((k, self._problem.n))
        steps = 5 * min(null, 40)
        free = np.flatnonzero(self.on_margin | self.easy)
        for member in members:
            directions = np.empty((steps, len(live)))
            directions[:, inner.rest] = rng.normal(size=(steps, null))
            directions[:, inner.first] = -directions[:, inner.rest] @ T.T
            for direction in directions:
                direction[np.abs(direction) <= 1e-12 * np.abs(direction).max()] = 0.0
                falling, rising = direction < 0, direction > 0
                up = (-walk[falling] / direction[falling]).min(initial=np.inf)
                down = (-walk[rising] / direction[rising]).max(initial=-np.inf)
                length = unit / np.abs(direction).max()
                if max(up, -down) <= 1e3 * length:
                    step = rng.uniform(down, up)
                elif -down <= up:  # no end, or one that is far out
                    step = min(down + rng.exponential(length), up)
                else:
                    step = max(up - rng.exponential(length), down)
                walk = np.maximum(walk + step * direction, 0.0)
            member[self._rows[live]] = walk
            member[free] += rng.exponential(unit, size=len(free))
        return members

    # ---- rho ----------------------------------------------------------------------------------

    def max_rho(self) -> RhoBound:
        r"""The largest :math:`\rho(c, \xi)` over the family (the condition eq:svmw_to_svmp_iff).

        A linear programme. Weight :math:`\nu` only lowers rho, because it is where
        :math:`\xi_i = 0`, so :math:`\mu` is left, with as many equality constraints as the rows
        that are not easy have independent kernel columns. Where these determine :math:`\mu`, it is
        :math:`\alpha` (prop:svmw_to_svmp_iff_easy) and nothing is solved. Else
        :math:`\rho(\mu, \xi) = (1 - \bar\xi) \sum_i \mu_i - \|w\|^2` shows that only the sum of
        the weights matters, and that it is bounded above unless some other weights on these rows
        have :math:`\sum_i d_i y_i z_i = 0`, :math:`\sum_i d_i y_i = 0`: unless the two classes'
        hard rows cannot be separated.

        Returns
        -------
        RhoBound
            With weights, and the certificate (or the ray) that proves the value.
        """
        rows, alpha = self._rows, self._view.alpha[self._rows]
        gain = self.slack[rows] - self._mean_slack
        if self.fixed_total or self._factor.n_null == 0:
            return self._bound(alpha, self._factor.solve(gain[self._factor.first]))
        f = self._factor
        T = f.dependence()
        unit = float(alpha.max()) or 1.0
        gain_rest = gain[f.rest] - T.T @ gain[f.first]
        if self._mean_slack < 1.0:
            ray = positive_combination(f.L)
            if ray is not None:
                return self._unbounded(alpha, ray)
        result = solve_lp(
            -gain_rest,
            what="the largest rho",
            A_ub=T,
            b_ub=(alpha[f.first] + T @ alpha[f.rest]) / unit,
            bounds=(0.0, None),
        )
        mu = np.empty(len(rows))
        mu[f.rest] = unit * result.x
        mu[f.first] = alpha[f.first] + T @ (alpha[f.rest] - mu[f.rest])
        prices = np.maximum(-result.ineqlin.marginals, 0.0)
        return self._bound(np.maximum(mu, 0.0), f.solve(gain[f.first] + prices))

    def _unbounded(self, alpha: Vector, ray: Vector) -> RhoBound:
        gain = self.slack[self._rows] - self._mean_slack
        at_alpha, slope = float(gain @ alpha), float(gain @ ray)
        # As far again beyond zero as alpha is from it, and not closer to it than a tenth of the
        # weights.
        goal = max(abs(at_alpha), 0.1 * float(alpha.sum()) * (1.0 - self._mean_slack))
        mu = alpha + max(0.0, (goal - at_alpha) / slope) * ray
        return RhoBound(np.inf, self._embed(mu), self._embed(ray), None)

    def _embed(self, values: Vector) -> Vector:
        whole = np.zeros(self._problem.n)
        whole[self._rows] = values
        return whole

    def _bound(self, mu: Vector, u: Vector) -> RhoBound:
        """The value at mu and its certificate, from the multipliers u of L'mu = L'alpha."""
        y, rows = self._problem.y[self._rows], self._rows
        gain = self.slack[rows] - self._mean_slack
        candidates: list[tuple[Vector, float]] = []
        if not self.fixed_total:
            coef = np.zeros(len(rows))
            coef[self._factor.first] = self._factor.solve_transposed(u)
            coef *= y
            candidates.append((coef, self._offset_weight * float(coef.sum())))
        # y_i (-f(x_i)) = xi_i - 1 on these rows: -f is a certificate where the mean slack is 1 or
        # more, and with t = 1 - mean slack always.
        total = 1.0 - self._mean_slack if self.fixed_total else 0.0
        minus_f = -y * self._view.alpha[rows]
        if self.fixed_total or self._mean_slack >= 1.0:
            candidates.append((minus_f, -self._view.b))
        elif self._factor.n_null == 0:
            candidates += self._by_separation(minus_f)
        certificates = [self._certificate(coef, a0, total, gain) for coef, a0 in candidates]
        near = 1e-7 * max(1.0, float(np.abs(gain).max(initial=0.0)))
        sound = [c for c in certificates if c.violation <= near]
        total_mu = float(self._view.alpha.sum())
        best = min(
            sound or certificates,
            key=lambda c: c.bound + c.violation * total_mu if sound else c.violation,
        )
        return RhoBound(float(gain @ mu), self._embed(mu), None, best)

    def _by_separation(self, minus_f: Vector) -> list[tuple[Vector, float]]:
        """Certificates -f + (1 - mean slack) h, with y_i h(x_i) >= 1 on the rows of mu.

        h = 1 / y by interpolation is the best one and has coefficients as large as the kernel
        matrix is close to singular; a small ridge tames them, and dividing by the smallest y h
        makes the inequality exact again.
        """
        H, y = self._gram, self._problem.y[self._rows]
        found = []
        for ridge in (1e-13, 1e-11, 1e-9, 1e-7):
            A = H + ridge * H.diagonal().max() * np.eye(len(H))
            try:
                a = la.cho_solve(la.cho_factor(A, check_finite=False), np.ones(len(H)))
            except la.LinAlgError:
                continue
            smallest = float((H @ a).min())
            if smallest > 0:
                h = (1.0 - self._mean_slack) / smallest * y * a
                found.append((minus_f + h, self._offset_weight * float(h.sum()) - self._view.b))
        return found

    def _certificate(
        self, coef: Vector, intercept: float, total: float, gain: Vector
    ) -> RhoCertificate:
        whole = self._embed(coef)
        y, rows = self._problem.y, self._rows
        g = self._problem.kernel.dot(whole) + intercept
        margin = (y * g)[rows] + total
        bound = float(self._view.alpha[rows] @ margin)
        # Sums of large terms that cancel prove little in floating point.
        violation = float((gain - margin).max(initial=0.0)) + 4e-16 * float(
            self._problem.kernel.diagonal().max()
        ) * float(np.abs(coef).sum())
        return RhoCertificate(
            coef=whole,
            intercept=float(intercept),
            total=total,
            bound=bound,
            violation=violation,
            proves_negative=bound + violation * float(self.weights.sum()) < 0,
        )


# ---- From weights to SVM+ ------------------------------------------------------------------------


class NotReplicableError(ValueError):
    """No privileged features whatsoever make SVM+ find this weighted SVM.

    Attributes
    ----------
    rho_max : float
        The largest rho over all equivalent weights; thm:svmw_to_svmp_iff asks for one that is not
        negative.
    weights : ndarray of shape (n,)
        The weights that attain it.
    certificate : RhoCertificate
        The proof that none have a larger one.
    """

    def __init__(
        self, message: str, rho_max: float, weights: Vector, certificate: RhoCertificate | None
    ) -> None:
        super().__init__(message)
        self.rho_max = rho_max
        self.weights = weights
        self.certificate = certificate

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.rho_max, self.weights, self.certificate)


@dataclass(frozen=True, eq=False)
class SVMPlusSetting:
    """An SVM+ problem whose solution is a given weighted SVM (thm:svmw_to_svmp_iff).

    Attributes
    ----------
    C : float
        One cost for all rows, the mean of `weights`.
    correction_reg : float
        The paper's gamma: rho.
    X_priv : ndarray of shape (n, 1)
        The privileged feature, for the linear kernel.
    coef_corr : ndarray of shape (1,)
        w* of the solution: 1.
    intercept_corr : float
        b* of the solution.
    rho : float
        rho(weights, slack).
    weights : ndarray of shape (n,)
        The equivalent weights that it was built from: alpha + beta of the SVM+.
    present : ndarray of shape (n,)
        Rows of the weighted SVM; the others stay absent.
    kernel_params : dict
        The kernel of the weighted SVM, its width as a number.
    """

    C: float
    correction_reg: float
    X_priv: NDArray[np.float64]
    coef_corr: Vector
    intercept_corr: float
    rho: float
    weights: Vector
    present: NDArray[np.bool_]
    kernel_params: dict[str, Any] = field(default_factory=dict)

    def estimator_params(self) -> dict[str, Any]:
        """Arguments for the constructor of :class:`lupi.SVMPlusClassifier`."""
        return {
            "C": self.C,
            "correction_reg": self.correction_reg,
            **self.kernel_params,
            "kernel_priv": "linear",
        }

    def fit_params(self) -> dict[str, Any]:
        """Arguments for its ``fit``, besides X and y."""
        params: dict[str, Any] = {"X_priv": self.X_priv}
        if not self.present.all():
            params["sample_weight"] = self.present.astype(np.float64)
        return params


def replicating_svm_plus(
    model: Any, *, include_absent: bool = False, allow_inexact: bool = False
) -> SVMPlusSetting:
    r"""Privileged features with which SVM+ is this weighted SVM (thm:svmw_to_svmp_iff).

    thm:svmw_to_svmp_iff: there are :math:`C`, :math:`\gamma` and privileged features with which
    :math:`(w, b)` is optimal for SVM+ iff some equivalent weights c have
    :math:`\rho(c, \xi) = \langle c - \bar c 1, \xi\rangle \ge 0`. Then one choice is
    (eq:svmw_to_svmp_feat, eq:svmw_to_svmp_copt)

    .. math::

        C = \bar c,\quad \gamma = \rho(c, \xi),\quad x^*_i = \xi_i - b^*,\qquad
        w^* = 1,\quad b^* = \langle c, \xi\rangle / \langle c, 1\rangle .

    :math:`c = \alpha` is tried first, which is all where the rows that are not easy have
    independent kernel columns (prop:svmw_to_svmp_iff_easy, corrected: the null space must be
    trivial within :math:`y^\perp`); else the linear programme of
    :meth:`EquivalentWeights.max_rho` decides. The statement is about one cost C for all rows: with
    costs of their own, rows could be told their weights by the costs alone.

    Parameters
    ----------
    model : fitted WeightedSVC
        Of two classes.
    include_absent : bool, default=False
        Rows of weight zero are absent from the SVM+ as well; ``True`` takes them for rows of the
        sample, which SVM+ has to find of no weight by itself, as the paper does.
    allow_inexact : bool, default=False
        Whether a model that did not converge will do.

    Returns
    -------
    SVMPlusSetting
        Trained, it has the same w and b: ``SVMPlusClassifier(**setting.estimator_params())
        .fit(X, y, **setting.fit_params())``. With :math:`\rho = 0`, hence correction_reg = 0,
        (w, b) is optimal as the theorem says, and b may not be the only optimal offset.

    Raises
    ------
    NotReplicableError
        If every rho is negative, with the proof.

    Examples
    --------
    >>> from lupi import SVMPlusClassifier, WeightedSVC
    >>> from lupi.equivalence import NotReplicableError, replicating_svm_plus
    >>> X, y = [[-1.0], [1.0], [0.0]], [-1, 1, 1]
    >>> model = WeightedSVC(kernel="linear").fit(X, y, sample_weight=[0.9, 0.1, 0.8])
    >>> setting = replicating_svm_plus(model)
    >>> round(setting.C, 6), round(setting.correction_reg, 6)
    (0.6, 0.2)
    >>> plus = SVMPlusClassifier(**setting.estimator_params())
    >>> plus = plus.fit(X, y, **setting.fit_params())
    >>> bool(abs(plus.coef_ - model.coef_).max() < 1e-6)
    True
    >>> bool(abs(plus.intercept_ - model.intercept_).max() < 1e-6)
    True

    The counterexample of the paper:

    >>> model.fit([[1.0], [2.0], [3.0]], [1, -1, 1], sample_weight=[4, 6, 2]).coef_.round(6)
    array([[-2.]])
    >>> try:
    ...     replicating_svm_plus(model)
    ... except NotReplicableError as error:
    ...     print(round(error.rho_max, 6))
    -5.333333
    """
    family = EquivalentWeights(model, include_absent=include_absent, allow_inexact=allow_inexact)
    present, xi = family._present, family.slack
    weights = family.concentrated()
    zero = _ZERO_RHO * float(family.weights.sum())

    def rho_of(c: Vector) -> float:
        return rho(c[present], xi[present])

    certificate = None
    if weights.sum() > 1e-12 * family.weights.sum():
        value = rho_of(weights)
        if value < -zero:
            bound = family.max_rho()
            certificate = bound.certificate
            best = rho_of(bound.weights)
            if not np.isfinite(bound.value) or best > value:
                weights, value = bound.weights, best
    else:  # w = 0 and no row has a loss: any weights will do
        weights = np.where(present, family.weights, 0.0)
        value = rho_of(weights)
    if value < -zero or weights.sum() <= 1e-12 * family.weights.sum():
        mean = family._mean_slack
        raise NotReplicableError(
            "no privileged features, C and correction_reg make SVM+ find this weighted SVM: rho is "
            f"at most {value:.6g} over all equivalent weights, and SVM+ needs rho >= 0"
            + (" with weights that are not all zero" if value >= -zero else "")
            + " (thm:svmw_to_svmp_iff). "
            + (
                f"The mean hinge loss is {mean:.6g}; SVM+ never exceeds 1, which the zero "
                "classifier has. "
                if mean > 1
                else "Misclassified rows have too little weight. "
            )
            + (
                "error.certificate is the proof."
                if certificate is None or certificate.proves_negative
                else "The kernel matrix is so close to singular that error.certificate does not "
                "prove it in double precision."
            ),
            value,
            weights,
            certificate,
        )
    offset = float(weights @ xi) / float(weights.sum())
    # A small rho with slacks that differ as little is a mild problem: only K* / gamma counts.
    if value <= 1e-14 * float(weights.sum()) * float(xi.max(initial=0.0)):
        value = 0.0
    if np.ptp(xi[present]) <= 1e-12 * max(1.0, float(xi.max(initial=0.0))):
        xi = np.full_like(xi, offset)
    return SVMPlusSetting(
        C=float(weights[present].mean()),
        correction_reg=value,
        X_priv=(xi - offset)[:, None],
        coef_corr=np.ones(1),
        intercept_corr=offset,
        rho=value,
        weights=weights,
        present=present,
        kernel_params=model._kernel_params(),
    )


# ---- SVM- ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SVMMinusRay:
    r"""Feasible points of eq:svmm_primal along which its objective has no lower bound.

    At t >= 0: :math:`w = 0`, :math:`b = 0`, :math:`w^* = t u` with
    :math:`u = \sum_j a_j z^*_j`, and :math:`b^* = 1 + t s`, so that every slack
    :math:`\xi_i = 1 + t (\langle u, z^*_i\rangle + s)` is at least 1.

    Attributes
    ----------
    coef : ndarray of shape (n,) or None
        a; None where all :math:`z^*_i` are zero and u is any unit vector.
    direction : ndarray of shape (n,)
        :math:`\langle u, z^*_i\rangle`.
    squared_norm : float
        :math:`\|u\|^2`, positive.
    shift : float
        s, the largest :math:`-\langle u, z^*_i\rangle`.
    correction_reg : float
    C : ndarray of shape (n,)
    steps, values : ndarray
        Some t, and the objective there.
    """

    coef: Vector | None
    direction: Vector
    squared_norm: float
    shift: float
    correction_reg: float
    C: Vector
    steps: Vector
    values: Vector

    def slack(self, t: float) -> Vector:
        """The slacks at t, all at least 1."""
        return 1.0 + t * (self.direction + self.shift)

    def objective(self, t: float) -> float:
        """The objective of eq:svmm_primal at t."""
        return -0.5 * self.correction_reg * self.squared_norm * t**2 + float(self.C @ self.slack(t))


def svm_minus_ray(
    X_priv: Any,
    *,
    C: Any = 1.0,
    correction_reg: float = 1.0,
    kernel_priv: Any = "linear",
    gamma_priv: float = 1.0,
    degree_priv: int = 3,
    coef0_priv: float = 0.0,
    steps: Sequence[float] | None = None,
) -> SVMMinusRay:
    r"""Why there is no SVM-: a ray of eq:svmm_primal towards minus infinity, for any data.

    sec:svmminus: with the penalty of SVM+ turned round,

    .. math::

        \min \tfrac12 (\|w\|^2 - \gamma \|w^*\|^2) + \sum_i C_i \xi_i
        \quad\text{s.t.}\quad y_i f(x_i) \ge 1 - \xi_i,\; \xi_i = \langle w^*, z^*_i\rangle + b^*
        \ge 0

    is unbounded below, because :math:`-\|w^*\|^2` falls faster than the slacks grow. Along the
    ray all slacks are at least 1, so that w = 0, b = 0 is feasible whatever the labels and the
    decision features are.

    Parameters
    ----------
    X_priv : array-like of shape (n, n_priv_features)
        Privileged features, or their kernel matrix.
    C : float or array-like of shape (n,), default=1.0
        Costs.
    correction_reg : float, default=1.0
        The paper's gamma, positive.
    kernel_priv, gamma_priv, degree_priv, coef0_priv
        The privileged kernel, as in :class:`lupi.SVMPlusClassifier`; gamma is a number here.
    steps : sequence of float, optional
        Where to evaluate the objective. Default: 0, and doublings of the step from which on it
        falls.

    Returns
    -------
    SVMMinusRay

    Examples
    --------
    >>> from lupi.equivalence import svm_minus_ray
    >>> ray = svm_minus_ray([[0.0], [1.0], [2.0]], steps=[0, 10, 100])
    >>> ray.values.tolist()
    [3.0, -17.0, -4697.0]
    """
    X_priv = np.asarray(X_priv, dtype=np.float64)
    if X_priv.ndim != 2 or len(X_priv) == 0 or not np.isfinite(X_priv).all():
        raise ValueError(
            "X_priv must be a finite array of shape (n, n_priv_features) with at least one row; "
            f"got shape {X_priv.shape}."
        )
    if not 0 < correction_reg < np.inf:
        raise ValueError(
            f"correction_reg must be positive and finite; got {correction_reg!r}. With 0 there is "
            "no penalty to turn round."
        )
    n = len(X_priv)
    C = _weights(np.full(n, C) if np.ndim(C) == 0 else C, n, "C")
    kernel = _privileged_kernel(X_priv, kernel_priv, gamma_priv, degree_priv, coef0_priv)
    diagonal = kernel.diagonal()
    # The privileged row that is longest, turned so that the slacks grow the least.
    row = int(diagonal.argmax())
    coef: Vector | None = np.zeros(n)
    assert coef is not None
    if diagonal[row] > 0:
        coef[row] = 1.0 / np.sqrt(diagonal[row])
        along, squared = kernel.dot(coef), 1.0
        grow = [float(C @ (sign * along - (sign * along).min())) for sign in (1.0, -1.0)]
        if grow[1] < grow[0]:
            coef, along = -coef, -along
    else:
        coef, along, squared = None, np.zeros(n), 1.0
    shift = float(-along.min())
    if steps is None:
        # -1/2 gamma t^2 + t S falls from t = S / gamma on and is below its start after twice that.
        first = max(1.0, 2.0 * float(C @ (along + shift)) / correction_reg)
        steps = [0.0, *(first * 2.0**k for k in range(8))]
    at = np.asarray(steps, dtype=np.float64)
    if at.ndim != 1 or not (at >= 0).all():
        raise ValueError("steps must be non-negative numbers.")
    ray = SVMMinusRay(coef, along, squared, shift, float(correction_reg), C, at, np.empty(0))
    object.__setattr__(ray, "values", np.array([ray.objective(t) for t in at]))
    return ray


def _privileged_kernel(
    X_priv: NDArray[np.float64], kernel: Any, gamma: float, degree: int, coef0: float
) -> KernelMatrix:
    if callable(kernel) or kernel == "precomputed":
        gram = np.asarray(kernel(X_priv, X_priv) if callable(kernel) else X_priv, dtype=np.float64)
        if gram.shape != (len(X_priv), len(X_priv)):
            raise ValueError(
                f"the privileged kernel matrix must have shape {(len(X_priv),) * 2}; got "
                f"{gram.shape}."
            )
        return given_matrix(np.ascontiguousarray(gram))
    return KernelSpec(kernel, float(gamma), int(degree), float(coef0)).matrix(
        np.ascontiguousarray(X_priv)
    )
