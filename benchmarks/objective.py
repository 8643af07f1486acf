"""The problem, and the judge of every solver's point.

Problem (eq:svmw_primal and eq:svmw_dual), with c_i = C * weight_i and an RBF kernel:

    min  1/2 |w|^2 + sum_i c_i [1 - y_i (<w, z_i> + b)]_+      over w, b
    max  sum_i |a_i| - 1/2 a'Ka    s.t.  sum_i a_i = 0,  0 <= y_i a_i <= c_i      (a = y alpha)

A solver hands in its signed dual coefficients ``a`` and the rows they belong to, nothing else: no
objective, no offset, no status of its own counts. Nothing here comes from lupi.
"""

from dataclasses import dataclass

import numpy as np

# Kernel values formed at once, 64 MB in float64.
BLOCK = 8_000_000


@dataclass(frozen=True, eq=False)
class Problem:
    """Data and settings, the same for every solver; labels are -1.0 and +1.0."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    C: float
    gamma: float
    tol: float
    cache_size: float


@dataclass(frozen=True)
class Verdict:
    """What a point is worth.

    ``infeasibility``: how far the point handed in was outside the constraints, the larger of
    |sum a| / sum |a| and the largest excess over a bound / max c. It was moved inside before it was
    valued, so that ``dual`` is a lower bound of the optimum whatever a solver returns.
    """

    primal: float
    dual: float
    infeasibility: float

    @property
    def relative_gap(self):
        return (self.primal - self.dual) / max(1.0, abs(self.dual))


def rbf_expansion(rows, basis, coef, gamma):
    """sum_j coef_j exp(-gamma |x - basis_j|^2) for every row x: float64, BLOCK values at a time."""
    rows, basis = np.asarray(rows, dtype=np.float64), np.asarray(basis, dtype=np.float64)
    basis_square = np.einsum("ij,ij->i", basis, basis)
    out = np.empty(len(rows))
    step = max(1, BLOCK // max(1, len(basis)))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        distance = part @ basis.T
        distance *= -2.0
        distance += np.einsum("ij,ij->i", part, part)[:, None]
        distance += basis_square
        np.maximum(distance, 0.0, out=distance)
        distance *= -gamma
        out[start : start + step] = np.exp(distance, out=distance) @ coef
    return out


def smallest_loss(f, y, c):
    """min over b of sum_i c_i [1 - y_i (f_i + b)]_+.

    The loss of row i is c_i [t_i - b]_+ for y_i = +1 and c_i [b - t_i]_+ for y_i = -1, with
    t_i = y_i - f_i. Their sum is convex and piecewise linear, so a minimum lies at one of the t_i.
    It is valued at all of them, by sums from the right over the positive rows and from the left
    over the negative ones, and once more without these sums at the best.
    """
    t = y - f
    order = np.argsort(t)
    t_sorted = t[order]
    up, down = np.where(y > 0, c, 0.0)[order], np.where(y < 0, c, 0.0)[order]
    from_right = (up * t_sorted)[::-1].cumsum()[::-1] - up[::-1].cumsum()[::-1] * t_sorted
    from_left = down.cumsum() * t_sorted - (down * t_sorted).cumsum()
    b = t_sorted[np.argmin(from_right + from_left)]
    return float(c @ np.maximum(0.0, 1.0 - y * (f + b)))


def judge(problem, coef, support):
    """Value the point of a solver: signed coefficients ``coef`` of the rows ``support``."""
    y, c = problem.y, problem.C * problem.weight
    alpha = np.zeros(len(y))
    np.add.at(alpha, support, np.asarray(coef, dtype=np.float64) * y[support])
    outside = max(0.0, float(-alpha.min()), float((alpha - c).max())) / c.max()
    unbalanced = abs(float(y @ alpha)) / max(float(np.abs(alpha).sum()), 1e-300)

    # Into the constraints: cut to the bounds, then scale the heavier class down.
    alpha = np.clip(alpha, 0.0, c)
    up, down = alpha[y > 0].sum(), alpha[y < 0].sum()
    smaller = min(up, down)
    alpha[y > 0] *= smaller / up if up > 0 else 0.0
    alpha[y < 0] *= smaller / down if down > 0 else 0.0

    used = np.flatnonzero(alpha)
    a = y[used] * alpha[used]
    f = rbf_expansion(problem.X, problem.X[used], a, problem.gamma)
    squared_norm = float(a @ f[used])
    return Verdict(
        primal=0.5 * squared_norm + smallest_loss(f, y, c),
        dual=float(alpha.sum()) - 0.5 * squared_norm,
        infeasibility=float(max(outside, unbalanced)),
    )
