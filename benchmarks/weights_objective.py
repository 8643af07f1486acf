"""The problem of weight learning, its data, and the judge of weights.

    min over w >= 0  E(w) = mean of the loss at the validation rows of the model of the weights w,
    the model of w:  min 1/2 a'Ka + sum w_i l(y_i (K a + b)_i)

with the smooth hinge, delta = 0.5. `judge` values weights, whoever found them: it solves the inner
problem anew, far beyond what a solver needs, and certifies it.
"""

from dataclasses import dataclass

import numpy as np

from lupi.losses import SmoothHinge
from lupi.problems import SmoothWSVMProblem
from lupi.solvers import newton

DESCRIPTION = (
    "weights_objective.mixture: two classes along a W, x in the unit square, RBF kernel, gamma = 10"
)
GAMMA = 10.0
LOSS = SmoothHinge(0.5)


@dataclass(frozen=True)
class OuterProblem:
    K: np.ndarray
    y: np.ndarray
    K_val: np.ndarray
    y_val: np.ndarray
    max_iter: int = 100


def mixture(n, rng):
    """Two classes along a W."""
    t = rng.random(n) * 4
    y = rng.choice([-1.0, 1.0], n)
    X = np.c_[t, 2 * np.abs(t % 2 - 1) + 0.55 * y + 0.45 * rng.normal(size=n)]
    return X / np.array([4.0, 3.0]), y


def rbf(A, B):
    squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * A @ B.T
    return np.exp(-GAMMA * np.maximum(squares, 0))


def problem(n, n_val, seed=0):
    rng = np.random.default_rng(seed)
    X, y = mixture(n, rng)
    Z, y_val = mixture(n_val, rng)
    return OuterProblem(rbf(X, X), y, rbf(X, Z), y_val)


def judge(problem, w):
    """The validation loss of weights, and the violation of the model that says so."""
    inner = SmoothWSVMProblem(problem.K, problem.y, w, LOSS)
    solution = newton.solve(inner, tol=1e-11)
    values = solution.expansion @ problem.K_val + solution.b
    return float(LOSS.value(problem.y_val * values).mean()), solution.violation
