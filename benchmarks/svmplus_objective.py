"""SVM+: the problem, its data, and the judge of every solver's point. Nothing here is lupi's.

Problem (eq:svmp_primal and eq:svmp_dual) with one cost C for all rows, delta = alpha + beta - C:

    min  1/2 |w|^2 + reg/2 |w*|^2 + C sum_i xi_i    s.t.  y_i (<w, z_i> + b) >= 1 - xi_i, xi_i >= 0,
                                                          xi_i = <w*, z*_i> + b*
    max  sum_i alpha_i - 1/2 (y alpha)'K(y alpha) - 1/(2 reg) delta'K*delta
                                      s.t.  y'alpha = 0,  1'delta = 0,  alpha, beta >= 0

A solver hands in alpha and beta, nothing else: no objective, no offset, no status of its own.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from objective import rbf_expansion

SEED = 0
GAMMA = 0.5
DESCRIPTION = (
    "SVM+: X uniform in [0,1]^10, f = sin(3 x0) + x1^2 - x2 x3 minus its median, "
    "y = sign(f + 0.15 noise), X_priv = (f + 0.05 noise, 4 uniform columns) scaled to [0,1], "
    f"default_rng({SEED}); rbf kernels with gamma {GAMMA}, tol = 1e-6"
)


@dataclass(frozen=True, eq=False)
class Problem:
    """Data and settings, the same for every solver; labels are -1.0 and +1.0."""

    X: np.ndarray
    X_priv: np.ndarray
    y: np.ndarray
    C: float
    correction_reg: float
    gamma: float = GAMMA
    gamma_priv: float = GAMMA
    tol: float = 1e-6
    cache_size: float = 1000
    name: str = field(default="")


def speed_problem(n, C, correction_reg, **settings):
    """The problem on which SVM+ solvers are timed."""
    rng = np.random.default_rng(SEED)
    X = rng.random((n, 10))
    f = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - X[:, 2] * X[:, 3]
    f -= np.median(f)
    y = np.sign(f + 0.15 * rng.standard_normal(n))
    X_priv = np.c_[f + 0.05 * rng.standard_normal(n), rng.random((n, 4))]
    X_priv = np.ascontiguousarray((X_priv - X_priv.min(axis=0)) / np.ptp(X_priv, axis=0))
    return Problem(X, X_priv, y, C, correction_reg, **settings)


def poetic_digits(folder, n, C, correction_reg, **settings):
    """n fives and eights, half each, with poetic descriptions; both parts scaled to [0, 1]."""
    X, y, X_priv = (
        np.loadtxt(Path(folder) / "mnist_5v8_poetic" / f"train_{part}.txt", delimiter=",")
        for part in ("features", "labels", "PFfeatures")
    )
    rows = np.r_[: n // 2, 50 : 50 + n - n // 2]
    X = np.ascontiguousarray(X[rows] / 255.0)
    X_priv = np.ascontiguousarray(X_priv[rows] / X_priv.max(axis=0))
    width = {"gamma": 1.0 / (X.shape[1] * X.var()), "gamma_priv": 1.0 / (21 * X_priv.var())}
    return Problem(
        X, X_priv, np.where(y[rows] == 8, 1.0, -1.0), C, correction_reg, **{**width, **settings}
    )


@dataclass(frozen=True)
class Verdict:
    """What a point is worth.

    ``infeasibility``: how far the point was outside the constraints, relative to C and sum alpha,
    before it was moved inside. ``violation``: by how much the KKT conditions contradict each other
    in units of the decision function.
    """

    primal: float
    dual: float
    violation: float
    infeasibility: float

    @property
    def relative_gap(self):
        return (self.primal - self.dual) / max(1.0, abs(self.dual))


# Sums of thousands of costs round to this, relatively.
ROUNDING = 1e-13


def _into_the_constraints(problem, alpha, beta):
    """The nearest in spirit: cut below, classes balanced, then beta scaled or raised to the sum."""
    y, total = problem.y, problem.C * len(problem.y)
    outside = max(float(-alpha.min()), float(-beta.min()), 0.0) / problem.C
    unbalanced = abs(float(y @ alpha)) / max(float(np.abs(alpha).sum()), 1e-300)
    off = abs(float(alpha.sum() + beta.sum()) - total) / total
    infeasibility = max(outside, unbalanced, off)
    if infeasibility <= ROUNDING:  # moving all entries by their rounding errors would add up
        return alpha, beta, infeasibility
    alpha, beta = np.maximum(alpha, 0.0), np.maximum(beta, 0.0)
    up, down = alpha[y > 0].sum(), alpha[y < 0].sum()
    alpha[y > 0] *= min(up, down) / up if up > 0 else 0.0
    alpha[y < 0] *= min(up, down) / down if down > 0 else 0.0
    if alpha.sum() > total:
        alpha *= total / alpha.sum()
    rest = total - alpha.sum()
    beta = beta * (rest / beta.sum()) if beta.sum() > 0 else np.full(len(y), rest / len(y))
    return alpha, beta, infeasibility


def best_offsets(y, f, xi):
    """b and b* of the best feasible primal point for given functions without offsets.

    All rows cost the same, so b* alone is paid for: b* >= -xi_i, and b* >= m_i - y_i b with the
    margin m_i = 1 - y_i f_i - xi_i, which is least over b where the two classes meet.
    """
    margin = 1.0 - y * f - xi
    s, t = float(margin[y > 0].max()), float(margin[y < 0].max())
    low = float((-xi).max())
    b = 0.5 * (s - t)
    return b, max(low, s - b, t + b)


def kkt_violation(y, alpha, beta, f, xi):
    """By how much the conditions of eq:svmp_kkt on the offsets contradict each other.

    With margin m_i = 1 - y_i f_i - xi_i: s = b* + b is at least every m_i with y_i = 1, and at most
    those with alpha_i > 0; t = b* - b likewise for y_i = -1; b* = (s + t)/2 is at least every
    -xi_i, and at most those with beta_i > 0.
    """
    margin = 1.0 - y * f - xi

    def interval(value, free):
        return value.max(), value[free].min() if free.any() else np.inf

    (ls, us), (lt, ut), (lc, uc) = (
        interval(margin[y > 0], alpha[y > 0] > 0),
        interval(margin[y < 0], alpha[y < 0] > 0),
        interval(-xi, beta > 0),
    )
    return max(0.0, ls - us, lt - ut, lc - uc, 0.5 * (ls + lt) - uc, lc - 0.5 * (us + ut))


# Up to here the judge has more digits than any solver: with C = 1000 and correction_reg = 1e-3 the
# correcting function is a sum of terms up to 1e9, and the rounding of kernel values alone, 1e-16
# each, moves it by 1e-8.
DIGITS_UP_TO = 4_000


def expansion(rows, basis, coef, gamma):
    """sum_j coef_j exp(-gamma |x - basis_j|^2) for every row x."""
    if len(rows) > DIGITS_UP_TO:
        return rbf_expansion(rows, basis, coef, gamma)
    coef = coef.astype(np.longdouble)
    out = np.empty(len(rows))
    for start in range(0, len(rows), 100):
        part = rows[start : start + 100]
        square = sum((part[:, k, None] - basis[:, k]) ** 2 for k in range(rows.shape[1]))
        out[start : start + 100] = np.exp(-gamma * square).astype(np.longdouble) @ coef
    return out


def judge(problem, alpha, beta):
    """Value the point of a solver."""
    y, reg = problem.y, problem.correction_reg
    alpha, beta, infeasibility = _into_the_constraints(problem, alpha.copy(), beta.copy())
    a, delta = y * alpha, alpha + beta - problem.C
    used = np.flatnonzero(alpha)
    f = expansion(problem.X, problem.X[used], a[used], problem.gamma)
    correcting = expansion(problem.X_priv, problem.X_priv, delta, problem.gamma_priv)
    xi = correcting / reg
    norms = 0.5 * (float(a @ f) + float(delta @ xi))
    _, b_corr = best_offsets(y, f, xi)
    return Verdict(
        primal=norms + problem.C * float((xi + b_corr).sum()),
        dual=float(alpha.sum()) - norms,
        violation=float(kkt_violation(y, alpha, beta, f, xi)),
        infeasibility=float(infeasibility),
    )
