"""The problems that the tests share: solved by hand, and drawn from a seed.

Kernel matrices here come from NumPy, by the definition of each kernel and without any shortcut, so
that they check the compiled core as well.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.bilevel import Criterion, DenseCross
from lupi.kernels import KernelSpec, given_matrix
from lupi.losses import Logistic, SmoothHinge, SquaredHinge
from lupi.problems import SmoothWSVMProblem, SVMPlusProblem, WSVMProblem


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


# ---- SVM+ ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class SVMPlusCase(Case):
    """An SVM+: a weighted SVM whose rows have privileged features, or NaN where they have none.

    ``kernel_priv="precomputed"``: X_priv is the kernel matrix of all rows, and a row of NaN is one
    without privileged information.
    """

    X_priv: np.ndarray = None
    kernel_priv: str = "linear"
    params_priv: dict = field(default_factory=dict)
    correction_reg: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "X_priv", np.asarray(self.X_priv, dtype=np.float64))

    @cached_property
    def known(self):
        """Row numbers of the rows with privileged information."""
        return np.flatnonzero(~np.isnan(self.X_priv).all(axis=1))

    @cached_property
    def priv(self):
        """Row of K_corr of each row, or -1."""
        priv = np.full(self.n, -1, dtype=np.int64)
        priv[self.known] = np.arange(len(self.known))
        return priv

    @cached_property
    def K_corr(self):
        """Kernel among the rows with privileged information."""
        rows = self.X_priv[self.known]
        if len(rows) == 0:
            return np.empty((0, 0))
        if self.kernel_priv == "precomputed":
            return np.ascontiguousarray(rows[:, self.known])
        return numpy_kernel(self.kernel_priv, rows, rows, **self.params_priv)

    def problem(self):
        if self.kernel_priv == "precomputed":
            kernel_corr = given_matrix(self.K_corr)
        else:
            spec = KernelSpec(self.kernel_priv, **self.params_priv)
            kernel_corr = spec.matrix(np.ascontiguousarray(self.X_priv[self.known]))
        return SVMPlusProblem(
            super().problem().kernel, kernel_corr, self.priv, self.y, self.c, self.correction_reg
        )

    def estimator(self, **settings):
        of_priv = {f"{name}_priv": value for name, value in self.params_priv.items()}
        return SVMPlusClassifier(
            C=1.0,
            kernel=self.kernel,
            **self.params,
            kernel_priv=self.kernel_priv,
            **of_priv,
            correction_reg=self.correction_reg,
            **settings,
        )

    def fit(self, **settings):
        return self.estimator(**settings).fit(
            self.X, self.y, sample_weight=self.c, X_priv=self.X_priv
        )


@dataclass(frozen=True, eq=False, repr=False)
class SolvedSVMPlusCase(SVMPlusCase):
    """An SVM+ with everything about its solution, worked out by hand."""

    alpha: np.ndarray = None
    beta: np.ndarray = None
    w: np.ndarray = None  # linear kernel only
    b: float = 0.0
    b_interval: tuple = None  # (b, b) if not given
    b_corr: float = None  # None: not unique (correction_reg = 0)
    slack: np.ndarray = None
    objective: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if self.b_interval is None:
            object.__setattr__(self, "b_interval", (self.b, self.b))


HAND_SOLVED_SVMPLUS = [
    # A common slack t costs 2 t and leaves w = 2 (1 - t): 2 (1 - t)^2 + 2 t is least at t = 1/2.
    # Then alpha = w = C, so alpha_corr = 0: no correcting function of any features is better.
    SolvedSVMPlusCase(
        "one slack for all",
        "linear",
        [[0.0], [1.0]],
        [-1, 1],
        [1, 1],
        X_priv=[[0.0], [1.0]],
        alpha=np.array([1.0, 1.0]),
        beta=np.zeros(2),
        w=np.array([1.0]),
        b=-0.5,
        b_corr=0.5,
        slack=np.array([0.5, 0.5]),
        objective=1.5,
    ),
    # Costs that are high enough for no slack; w* = 0 asks for alpha_corr = 0, so beta = C - alpha.
    SolvedSVMPlusCase(
        "hard margin",
        "linear",
        [[0.0], [1.0]],
        [-1, 1],
        [10, 10],
        X_priv=[[0.0], [1.0]],
        alpha=np.array([2.0, 2.0]),
        beta=np.array([8.0, 8.0]),
        w=np.array([2.0]),
        b=-1.0,
        b_corr=0.0,
        slack=np.zeros(2),
        objective=2.0,
    ),
    # thm:svmw_to_svmp_iff by hand. The weighted SVM with c = (0.9, 0.1, 0.8) has w = 1, b = 0,
    # xi = (0, 0, 1), alpha = c. So C = mean(c) = 0.6, correction_reg = rho = 0.2, and x* = xi.
    SolvedSVMPlusCase(
        "replicates weights",
        "linear",
        [[-1.0], [1.0], [0.0]],
        [-1, 1, 1],
        [0.6, 0.6, 0.6],
        X_priv=[[0.0], [0.0], [1.0]],
        correction_reg=0.2,
        alpha=np.array([0.9, 0.1, 0.8]),
        beta=np.zeros(3),
        w=np.array([1.0]),
        b=0.0,
        b_corr=0.0,
        slack=np.array([0.0, 0.0, 1.0]),
        objective=1.2,
    ),
    # The same classifier from a row without privileged information, which has a slack of its own.
    SolvedSVMPlusCase(
        "a row without privileged information",
        "linear",
        [[-1.0], [1.0], [0.0]],
        [-1, 1, 1],
        [1.0, 1.0, 0.8],
        X_priv=[[0.0], [1.0], [np.nan]],
        alpha=np.array([0.9, 0.1, 0.8]),
        beta=np.array([0.1, 0.9, 0.0]),
        w=np.array([1.0]),
        b=0.0,
        b_corr=0.0,
        slack=np.array([0.0, 0.0, 1.0]),
        objective=1.3,
    ),
    # One point with both labels. f = b, xi = (1 - b, 1 + b), w* = 2 b: the loss is flat in b, as in
    # the weighted SVM, and the correcting function's own penalty chooses b = 0 (thm:svmp_unique).
    SolvedSVMPlusCase(
        "both labels on one point",
        "linear",
        [[0.0], [0.0]],
        [1, -1],
        [1, 1],
        X_priv=[[0.0], [1.0]],
        alpha=np.array([1.0, 1.0]),
        beta=np.zeros(2),
        w=np.array([0.0]),
        b=0.0,
        b_corr=1.0,
        slack=np.array([1.0, 1.0]),
        objective=2.0,
    ),
    # With costs 1 and 2 it is 3 + b + 2 b^2, least at b = -1/4; w* = -1/2 = alpha_corr of row 2.
    SolvedSVMPlusCase(
        "both labels on one point, other costs",
        "linear",
        [[0.0], [0.0]],
        [1, -1],
        [1, 2],
        X_priv=[[0.0], [1.0]],
        alpha=np.array([1.5, 1.5]),
        beta=np.zeros(2),
        w=np.array([0.0]),
        b=-0.25,
        b_corr=1.25,
        slack=np.array([1.25, 0.75]),
        objective=2.875,
    ),
    # correction_reg = 0 and a correcting function that can take any values: the weighted SVM of
    # "conflicting labels" above (prop:svmp_rho_equality, second case).
    SolvedSVMPlusCase(
        "no penalty, full rank",
        "linear",
        [[0.0], [0.0], [2.0]],
        [1, -1, -1],
        [3, 1, 5],
        X_priv=np.eye(3),
        correction_reg=0.0,
        alpha=np.array([1.5, 1.0, 0.5]),
        beta=np.array([1.5, 0.0, 4.5]),
        w=np.array([-1.0]),
        b=1.0,
        slack=np.array([0.0, 2.0, 0.0]),
        objective=2.5,
    ),
    # Exclusive or again: no slack is needed, and K_corr of full rank makes alpha_corr = 0.
    SolvedSVMPlusCase(
        "exclusive or",
        "poly",
        [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]],
        [-1, 1, 1, -1],
        [1, 1, 1, 1],
        {"gamma": 1.0, "degree": 2, "coef0": 1.0},
        X_priv=[[0.0], [1.0], [2.0], [5.0]],
        kernel_priv="rbf",
        params_priv={"gamma": 0.5},
        alpha=np.full(4, 0.125),
        beta=np.full(4, 0.875),
        b=0.0,
        b_corr=0.0,
        slack=np.zeros(4),
        objective=0.25,
    ),
    # Costs that leave one class: no support vector, and every b beyond the margin is free of cost.
    SolvedSVMPlusCase(
        "positive class only",
        "linear",
        [[1.0], [2.0], [3.0]],
        [1, -1, 1],
        [4, 0, 2],
        X_priv=[[0.0], [1.0], [2.0]],
        alpha=np.zeros(3),
        beta=np.array([4.0, 0.0, 2.0]),
        w=np.array([0.0]),
        b=1.0,
        b_interval=(1.0, inf),
        b_corr=0.0,
        slack=np.zeros(3),
        objective=0.0,
    ),
]


def random_svmplus(seed, correction_reg=None):
    """The rows, labels and costs of :func:`random_wsvm`, with privileged information of any kind.

    Privileged features: drawn at random, integer (ties), constant, the decision features, or noisy
    distances from the other class; for all rows, some rows, one row or none; with a correction_reg
    between 1e-6 and 1e6, unless one is given.

    Costs are scaled down as there, to max K_corr_ii * sum(C) / correction_reg <= 1e8, for the same
    reason: the correcting function is a sum of terms up to that product.
    """
    case = random_wsvm(seed)
    rng = np.random.default_rng([2009, seed])
    n, c = case.n, case.c
    d = int(rng.integers(1, 5))
    features = str(
        rng.choice(
            ["gaussian", "integer", "constant", "decision", "hardness"], p=[0.3] + [0.175] * 4
        )
    )
    X_priv = rng.normal(size=(n, d))
    if features == "integer":
        X_priv = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif features == "constant":
        X_priv = np.tile(X_priv[0], (n, 1))
    elif features == "decision":
        X_priv = case.X[:, :30].copy()
    elif features == "hardness":
        X_priv[:, 0] = np.abs(case.X[:, 0]) * case.y + 0.1 * X_priv[:, 0]

    if correction_reg == 0:
        kernel = str(rng.choice(["linear", "poly", "precomputed"]))
    else:
        kernel = str(rng.choice(["linear", "poly", "rbf", "precomputed"]))
    gamma = 10.0 ** rng.uniform(-1, 1) / (X_priv.shape[1] * (X_priv.var() or 1.0))
    params = {}
    if kernel == "rbf":
        params = {"gamma": gamma}
    elif kernel == "poly":
        params = {"gamma": gamma, "degree": 2, "coef0": float(rng.integers(2))}
    elif kernel == "precomputed":
        name = "rbf" if rng.random() < 0.5 and correction_reg != 0 else "linear"
        X_priv = numpy_kernel(name, X_priv, X_priv, gamma=gamma)

    rows = str(rng.choice(["all", "some", "one", "none"], p=[0.6, 0.3, 0.05, 0.05]))
    if rows == "some":
        X_priv[rng.random(n) < rng.uniform(0.1, 0.9)] = np.nan
    elif rows == "one":
        X_priv[np.arange(n) != rng.integers(n)] = np.nan
    elif rows == "none":
        X_priv[:] = np.nan

    reg = 10.0 ** rng.uniform(-6, 6) if correction_reg is None else correction_reg
    name = f"{case.name}; {rows} of {kernel} {features}, correction_reg={reg:.3g}"
    found = SVMPlusCase(
        name, case.kernel, case.X, case.y, c, case.params, X_priv, kernel, params, reg
    )
    largest = found.K_corr.diagonal().max(initial=0.0) / (reg if reg > 0 else 1.0)
    c *= min(1.0, 1e8 / (largest * c.sum())) if largest > 0 else 1.0
    return found


def speed_problem(n, C, correction_reg, seed=0):
    """The problem on which SVM+ solvers are timed; both kernels rbf with gamma 0.5.

    X uniform in [0, 1]^10; f = sin(3 x0) + x1^2 - x2 x3 minus its median; y = sign(f + 0.15 noise);
    X_priv = (f + 0.05 noise, four uniform columns), each scaled to [0, 1].
    """
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    f = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - X[:, 2] * X[:, 3]
    f -= np.median(f)
    y = np.sign(f + 0.15 * rng.standard_normal(n))
    X_priv = np.c_[f + 0.05 * rng.standard_normal(n), rng.random((n, 4))]
    X_priv = (X_priv - X_priv.min(axis=0)) / np.ptp(X_priv, axis=0)
    rbf = {"gamma": 0.5}
    name = f"n={n}, C={C}, correction_reg={correction_reg}, seed {seed}"
    return SVMPlusCase(name, "rbf", X, y, np.full(n, C), rbf, X_priv, "rbf", rbf, correction_reg)


# ---- Learning the weights -----------------------------------------------------------------------

SMOOTH_LOSSES = (SmoothHinge(0.5), SmoothHinge(0.05), SquaredHinge(), Logistic())


def random_bilevel(seed, zeros=0.2):
    """(problem, criterion) from a seed: all losses, both forms, zero weights, repeated rows.

    Every third problem repeats half of its rows, which makes K singular; every fifth has a wide
    kernel, K nearly 1 1'.
    """
    rng = np.random.default_rng(seed)
    n, n_val, d = int(rng.integers(5, 30)), int(rng.integers(10, 40)), int(rng.integers(1, 4))
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n_val, d))
    if seed % 3 == 0:
        X[n // 2 :] = X[: n - n // 2]
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    y_val = np.where(Z[:, 0] + 0.5 * rng.normal(size=n_val) > 0, 1.0, -1.0)
    linear = bool(rng.integers(2))
    gamma = 1e-5 if seed % 5 == 0 else 0.3
    c = 10.0 ** rng.uniform(-1, 1.5) * rng.uniform(0.1, 1.0, n)
    c[rng.random(n) < zeros] = 0.0
    c[:2] = np.maximum(c[:2], 0.1)
    K = X if linear else numpy_kernel("rbf", X, X, gamma)
    K_val = Z.T.copy() if linear else numpy_kernel("rbf", X, Z, gamma)
    problem = SmoothWSVMProblem(K, y, c, SMOOTH_LOSSES[seed % 4], linear)
    return problem, Criterion(DenseCross(K_val), y_val, SmoothHinge(0.5))


def mixture_w(n, rng, spread=0.13):
    """The toy data of the paper's kind: two classes along a W, which overlap."""
    t = rng.uniform(0, 4, n)
    height = np.abs(t % 2 - 1)
    y = rng.choice([-1.0, 1.0], n)
    X = np.c_[t / 4, height + 0.16 * y + spread * rng.normal(size=n)]
    return X, y
