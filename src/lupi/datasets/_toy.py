"""Toy problems of the paper."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# The W of fig:toy_dataset2: 17 Gaussians per class with centres (k/16, height of the W ± SHIFT).
# The paper gives no numbers; with the default spread the smallest possible error is 11.5 %.
_N_CENTRES = 17
_HEIGHT = 0.6
_SHIFT = 0.2

_OUTLIERS = np.array([[-400.0, 20.0], [400.0, -20.0]])


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def _count(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; it is {value!r}")
    return int(value)


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; it is {value!r}")
    return float(value)


def _w_centres(label: int) -> Floats:
    t = np.arange(_N_CENTRES) / (_N_CENTRES - 1)
    return np.column_stack([t, _HEIGHT * np.abs((4 * t) % 2 - 1) + label * _SHIFT])


def make_w_mixture(
    n_samples: int = 400,
    *,
    spread: float = 0.08,
    random_state: Any = None,
    return_probability: bool = False,
) -> tuple[NDArray[Any], ...]:
    r"""Two classes along a W, mixtures of Gaussians with a known P(Y=1|x).

    The toy data of ``fig:toy_dataset2`` and ``sec:exp:toy_data``. Both classes are equally
    probable; each is an even mixture of 17 Gaussians :math:`N(\mu, s^2 I)` whose centres follow a
    W, higher for the class +1 than for the class -1. The paper prints no parameters; these are
    ours.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows. The paper has 400 for training, 4000 for validation, 2000 for testing.
    spread : float, default=0.08
        Standard deviation :math:`s` of each Gaussian. The smallest possible error rate is 11.5 %
        at 0.08.
    random_state : None, int, Generator or RandomState, default=None
        Seed.
    return_probability : bool, default=False
        Return :math:`P(Y=1|x)` of every row too.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
        Labels -1 and 1.
    probability : ndarray of shape (n_samples,)
        Only if ``return_probability``.

    See Also
    --------
    w_mixture_probability : The same probability at any point.

    Examples
    --------
    >>> from lupi.datasets import make_w_mixture
    >>> X, y, probability = make_w_mixture(5, random_state=0, return_probability=True)
    >>> X.shape, y.shape, probability.shape
    ((5, 2), (5,), (5,))
    """
    n = _count("n_samples", n_samples, 1)
    spread = _positive("spread", spread)
    rng = _generator(random_state)
    y = rng.choice(np.array([-1, 1]), n)
    which = rng.integers(_N_CENTRES, size=n)
    centres = np.where((y == 1)[:, None], _w_centres(1)[which], _w_centres(-1)[which])
    X = centres + spread * rng.normal(size=(n, 2))
    if return_probability:
        return X, y, w_mixture_probability(X, spread=spread)
    return X, y


def w_mixture_probability(X: ArrayLike, *, spread: float = 0.08) -> Floats:
    r"""P(Y=1|x) of :func:`make_w_mixture`, exactly.

    By Bayes' rule with equal class probabilities,
    :math:`P(1|x) = p_+(x) / (p_+(x) + p_-(x))` with the densities
    :math:`p_\pm(x) \propto \sum_k \exp(-\lVert x - \mu_k^\pm \rVert^2 / 2 s^2)`.

    Parameters
    ----------
    X : array-like of shape (n_samples, 2)
        Points.
    spread : float, default=0.08
        That of :func:`make_w_mixture`.

    Returns
    -------
    probability : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from lupi.datasets import w_mixture_probability
    >>> w_mixture_probability([[0.5, 0.6], [0.5, 1.0], [0.5, 0.2]]).round(2)
    array([0.97, 1.  , 0.02])
    """
    spread = _positive("spread", spread)
    points = np.asarray(X, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"X must have shape (n_samples, 2); it has {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError("X must be finite")

    def log_density(label: int) -> Floats:
        squares = ((points[:, None] - _w_centres(label)) ** 2).sum(axis=2)
        return np.logaddexp.reduce(-squares / (2 * spread**2), axis=1)

    # Through logarithms: far from the W both densities are zero in floating point.
    difference = log_density(-1) - log_density(1)
    return np.exp(-np.logaddexp(0.0, difference))


def make_blobs_with_outliers(
    n_samples: int = 200, *, outliers: bool = True, random_state: Any = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Two separated blobs, and two rows extremely far out on the wrong side.

    The toy data of ``fig:toy_dataset1``. The sign of the first feature is the class, but for the
    outliers, which are the last two rows. The paper prints no numbers; these are ours.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows of the blobs, half of each class (one more of class 1 if it is odd).
    outliers : bool, default=True
        Append the two outliers. Without them the rows are a sample to test with.
    random_state : None, int, Generator or RandomState, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples + 2, 2) or (n_samples, 2)
    y : ndarray of shape (n_samples + 2,) or (n_samples,)
        Labels -1 and 1.

    Examples
    --------
    >>> from lupi.datasets import make_blobs_with_outliers
    >>> X, y = make_blobs_with_outliers(100, random_state=0)
    >>> X[-2:], y[-2:]
    (array([[-400.,   20.],
           [ 400.,  -20.]]), array([ 1, -1]))
    """
    n = _count("n_samples", n_samples, 2)
    X = _generator(random_state).normal(size=(n, 2))
    y = np.repeat(np.array([-1, 1], dtype=np.int64), [n // 2, n - n // 2])
    X[:, 0] = 0.5 * X[:, 0] + 2.0 * y
    if outliers:
        X, y = np.vstack([X, _OUTLIERS]), np.append(y, [1, -1])
    return X, y


def make_equivalence_example() -> tuple[Floats, NDArray[np.int64], Floats]:
    """Six rows on a line, two on the wrong side, with the loss as privileged feature.

    The example of ``fig:equiv_example``: points 3 and 4 are the outliers, and the privileged
    feature is the hinge loss of the classifier ``f(x) = x``. The paper prints no numbers; these
    are ours.

    Returns
    -------
    X : ndarray of shape (6, 1)
    y : ndarray of shape (6,)
        Labels -1 and 1.
    X_priv : ndarray of shape (6, 1)

    Examples
    --------
    >>> from lupi.datasets import make_equivalence_example
    >>> X, y, X_priv = make_equivalence_example()
    >>> X_priv[:, 0]
    array([0. , 0.1, 1.3, 1.5, 0.2, 0. ])
    """
    X = np.array([[-1.8], [-0.9], [0.3], [-0.5], [0.8], [1.7]])
    y = np.array([-1, -1, -1, 1, 1, 1])
    return X, y, np.maximum(0.0, 1.0 - y * X[:, 0])[:, None]


def make_counterexample() -> tuple[Floats, NDArray[np.int64], Floats]:
    """Three rows and weights whose weighted SVM no SVM+ finds.

    The example of ``sec:example_svmw_not_svmp``, to the letter. Its solution is
    ``w = -2``, ``b = 3``.

    Returns
    -------
    X : ndarray of shape (3, 1)
    y : ndarray of shape (3,)
        Labels -1 and 1.
    sample_weight : ndarray of shape (3,)

    Examples
    --------
    >>> from lupi import WeightedSVC
    >>> from lupi.datasets import make_counterexample
    >>> X, y, c = make_counterexample()
    >>> model = WeightedSVC(kernel="linear").fit(X, y, sample_weight=c)
    >>> model.coef_.round(6), model.intercept_.round(6)
    (array([[-2.]]), array([3.]))
    """
    return (
        np.array([[1.0], [2.0], [3.0]]),
        np.array([1, -1, 1]),
        np.array([4.0, 6.0, 2.0]),
    )
