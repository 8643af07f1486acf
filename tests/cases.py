"""The problems that the tests share: solved by hand, and drawn from a seed.

Kernel matrices here come from NumPy, by the definition of each kernel and without any shortcut, so
that they check the compiled core as well.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lupi import WeightedSVC
from lupi.kernels import KernelSpec, given_matrix
from lupi.problems import WSVMProblem


def numpy_kernel(name, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """k(X, Z) of shape (len(X), len(Z)), from the definition."""
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    if name == "rbf":
        squares = np.array([((x - Z) ** 2).sum(axis=1) for x in X])
        return np.exp(-gamma * squares)
    # einsum sums the products of one pair of rows in one order: K comes out symmetric to the bit.
    products = np.einsum("id,jd->ij", X, Z)
    if name == "linear":
        return products
    if name == "poly":
        return (gamma * products + coef0) ** degree
    return np.tanh(gamma * products + coef0)


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A weighted SVM: rows and a kernel (``precomputed``: X is the matrix itself), y and c."""

    name: str
    kernel: str
    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    params: dict = field(default_factory=dict)

    def __post_init__(self):
        for key in ("X", "y", "c"):
            object.__setattr__(self, key, np.asarray(getattr(self, key), dtype=np.float64))

    def __repr__(self):
        return self.name

    @property
    def n(self):
        return len(self.y)

    @cached_property
    def K(self):
        if self.kernel == "precomputed":
            return self.X
        return numpy_kernel(self.kernel, self.X, self.X, **self.params)

    def problem(self):
        if self.kernel == "precomputed":
            return WSVMProblem(given_matrix(self.X), self.y, self.c)
        return WSVMProblem(KernelSpec(self.kernel, **self.params).matrix(self.X), self.y, self.c)

    def estimator(self, **settings):
        return WeightedSVC(C=1.0, kernel=self.kernel, **self.params, **settings)

    def fit(self, **settings):
        return self.estimator(**settings).fit(self.X, self.y, sample_weight=self.c)


@dataclass(frozen=True, eq=False, repr=False)
class SolvedCase(Case):
    """A case with everything about its solution, worked out by hand."""

    alpha: np.ndarray = None
    b: float = 0.0
    b_interval: tuple = ()
    slack: np.ndarray = None
    objective: float = 0.0
    w: np.ndarray = None  # linear kernel only
    alpha_is_unique: bool = True

    @property
    def beta(self):
        return self.c - self.alpha


inf = np.inf

HAND_SOLVED = [
    # The worked example of the paper, sec:example_svmw_not_svmp.
    SolvedCase(
        "counterexample",
        "linear",
        [[1.0], [2.0], [3.0]],
        [1, -1, 1],
        [4, 6, 2],
        alpha=np.array([4.0, 6.0, 2.0]),
        w=np.array([-2.0]),
        b=3.0,
        b_interval=(3.0, 3.0),
        slack=np.array([0.0, 0.0, 4.0]),
        objective=10.0,
    ),
    # f passes through the two points: 2 x - 1. |w|^2 / 2 = 2, and w = alpha_2.
    SolvedCase(
        "two points",
        "linear",
        [[0.0], [1.0]],
        [-1, 1],
        [10, 10],
        alpha=np.array([2.0, 2.0]),
        w=np.array([2.0]),
        b=-1.0,
        b_interval=(-1.0, -1.0),
        slack=np.zeros(2),
        objective=2.0,
    ),
    # Weights below 2 cut both alphas: w = 1/2, both rows inside the margin for b in [-1, 1/2]:
    # y f < 1 reads b > -1 for row 1 and b < 1/2 for row 2.
    SolvedCase(
        "two light points",
        "linear",
        [[0.0], [1.0]],
        [-1, 1],
        [0.5, 0.5],
        alpha=np.array([0.5, 0.5]),
        w=np.array([0.5]),
        b=-0.25,
        b_interval=(-1.0, 0.5),
        slack=np.array([0.75, 0.75]),
        objective=0.875,
    ),
    # All rows equal: w = 0, and the loss 3 [1 - b]_+ + 3 [1 + b]_+ is flat between -1 and 1.
    SolvedCase(
        "balanced weights on one point",
        "linear",
        [[0.0], [0.0], [0.0]],
        [1, 1, -1],
        [1, 2, 3],
        alpha=np.array([1.0, 2.0, 3.0]),
        w=np.array([0.0]),
        b=0.0,
        b_interval=(-1.0, 1.0),
        slack=np.array([1.0, 1.0, 1.0]),
        objective=6.0,
    ),
    # A little more on the negative side, and b = -1 is the only solution.
    SolvedCase(
        "unbalanced weights on one point",
        "linear",
        [[0.0], [0.0], [0.0]],
        [1, 1, -1],
        [1, 2, 4],
        alpha=np.array([1.0, 2.0, 3.0]),
        w=np.array([0.0]),
        b=-1.0,
        b_interval=(-1.0, -1.0),
        slack=np.array([2.0, 2.0, 0.0]),
        objective=6.0,
    ),
    # A point with both labels. The heavier label wins and the lighter one pays 2; then
    # f(0) = 1, f(2) = -1 gives w = -1 = -2 alpha_3, and alpha_1 = alpha_2 + alpha_3.
    SolvedCase(
        "conflicting labels",
        "linear",
        [[0.0], [0.0], [2.0]],
        [1, -1, -1],
        [3, 1, 5],
        alpha=np.array([1.5, 1.0, 0.5]),
        w=np.array([-1.0]),
        b=1.0,
        b_interval=(1.0, 1.0),
        slack=np.array([0.0, 2.0, 0.0]),
        objective=2.5,
    ),
    # The counterexample with a row that does not count: f(-5) = 13, so its slack is 14.
    SolvedCase(
        "counterexample and a row of weight zero",
        "linear",
        [[1.0], [-5.0], [2.0], [3.0]],
        [1, -1, -1, 1],
        [4, 0, 6, 2],
        alpha=np.array([4.0, 0.0, 6.0, 2.0]),
        w=np.array([-2.0]),
        b=3.0,
        b_interval=(3.0, 3.0),
        slack=np.array([0.0, 14.0, 0.0, 4.0]),
        objective=10.0,
    ),
    # Weights that leave one class: f = b, and every b beyond the margin is free of cost.
    SolvedCase(
        "positive class only",
        "linear",
        [[1.0], [2.0], [3.0]],
        [1, -1, 1],
        [4, 0, 2],
        alpha=np.zeros(3),
        w=np.array([0.0]),
        b=1.0,
        b_interval=(1.0, inf),
        slack=np.array([0.0, 2.0, 0.0]),
        objective=0.0,
    ),
    SolvedCase(
        "negative class only",
        "linear",
        [[1.0], [2.0], [3.0]],
        [1, -1, 1],
        [0, 6, 0],
        alpha=np.zeros(3),
        w=np.array([0.0]),
        b=-1.0,
        b_interval=(-inf, -1.0),
        slack=np.array([2.0, 0.0, 2.0]),
        objective=0.0,
    ),
    # Exclusive or with (1 + <x, z>)^2: K is 9 on the diagonal and 1 elsewhere, f = -x_1 x_2, and
    # 1 = 9 alpha - alpha - alpha + alpha.
    SolvedCase(
        "exclusive or",
        "poly",
        [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]],
        [-1, 1, 1, -1],
        [1, 1, 1, 1],
        {"gamma": 1.0, "degree": 2, "coef0": 1.0},
        alpha=np.full(4, 0.125),
        b=0.0,
        b_interval=(0.0, 0.0),
        slack=np.zeros(4),
        objective=0.25,
    ),
    # Orthogonal rows: with equal weights 1/2 every alpha is at its bound, f - b = y / 2.
    SolvedCase(
        "orthogonal rows",
        "precomputed",
        np.eye(6),
        [1, 1, 1, -1, -1, -1],
        np.full(6, 0.5),
        alpha=np.full(6, 0.5),
        b=0.0,
        b_interval=(-0.5, 0.5),
        slack=np.full(6, 0.5),
        objective=2.25,
    ),
    # A row repeated three times with weights 1, 2, 3 against one row of weight 6, hard margin: only
    # the sum of the three alphas is determined.
    SolvedCase(
        "repeated row",
        "linear",
        [[1.0], [1.0], [1.0], [-1.0]],
        [1, 1, 1, -1],
        [1, 2, 3, 6],
        alpha=np.array([0.5 / 6, 1.0 / 6, 1.5 / 6, 0.5]),
        w=np.array([1.0]),
        b=0.0,
        b_interval=(0.0, 0.0),
        slack=np.zeros(4),
        objective=0.5,
        alpha_is_unique=False,
    ),
]


def random_wsvm(seed):
    """A random and often degenerate problem of 2 to 200 rows; the same for the same seed.

    Mixes what solvers stumble over: exact ties and singular kernels (integer or constant features,
    repeated rows, low-rank matrices), conflicting labels, features of very different scale, weights
    of zero and over twelve orders of magnitude, and classes of a single row.

    The weights are scaled down to max K_ii * sum(c) <= 1e8 where they exceed that. Each decision
    value <w, z> is a sum of terms up to that product; at 1e8 it rounds to about 1e-8, and a gap of
    1e-6 relative to the objective can just be expressed by an alpha in double precision.
    """
    rng = np.random.default_rng([2014, seed])
    n = int(rng.choice([rng.integers(2, 9), rng.integers(9, 61), rng.integers(61, 201)]))
    d = int(rng.integers(1, 7))

    features = str(
        rng.choice(["gaussian", "integer", "constant", "scaled"], p=[0.4, 0.3, 0.1, 0.2])
    )
    X = rng.normal(size=(n, d))
    if features == "integer":
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif features == "constant":
        X = np.tile(X[0], (n, 1))
    elif features == "scaled":
        X = X * 10.0 ** rng.uniform(-4, 4, size=d)

    labels = str(rng.choice(["random", "halfspace", "one point"], p=[0.4, 0.45, 0.15]))
    if labels == "random":
        y = rng.choice([-1.0, 1.0], size=n)
    else:
        y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
        y[rng.random(n) < 0.1] *= -1
    if labels == "one point":
        y[:] = rng.choice([-1.0, 1.0])
    if abs(y.sum()) == n:
        y[rng.integers(n)] *= -1

    if rng.random() < 0.5:  # repeated rows, with the label they had or with another one
        twins = rng.choice(n, size=int(rng.integers(1, n + 1)))
        X[twins] = X[rng.choice(n, size=len(twins))]

    weights = str(rng.choice(["equal", "integer", "wide", "exponential"]))
    if weights == "equal":
        c = np.ones(n)
    elif weights == "integer":
        c = rng.integers(0, 4, size=n).astype(float)
        c[rng.integers(n)] = 1.0
    elif weights == "wide":
        c = 10.0 ** rng.uniform(-8, 4, size=n)
    else:
        c = rng.exponential(size=n)
    c *= 10.0 ** rng.uniform(-2, 2)

    kernel = str(rng.choice(["linear", "poly", "rbf", "precomputed"]))
    gamma = 10.0 ** rng.uniform(-1, 1) / (d * X.var() if X.var() > 0 else 1.0)
    params = {}
    if kernel == "rbf":
        params = {"gamma": gamma}
    elif kernel == "poly":
        params = {
            "gamma": gamma,
            "degree": int(rng.integers(2, 4)),
            "coef0": float(rng.integers(2)),
        }
    elif kernel == "precomputed":
        if rng.random() < 0.5:
            X = numpy_kernel("rbf", X, X, gamma=gamma)
        else:  # of rank d at most
            X = numpy_kernel("linear", X, X)
    name = f"seed {seed}: n={n}, {kernel}, {features} features, {labels} labels, {weights} weights"
    largest = Case(name, kernel, X, y, c, params).K.diagonal().max()
    c *= min(1.0, 1e8 / (largest * c.sum())) if largest > 0 else 1.0
    return Case(name, kernel, X, y, c, params)
