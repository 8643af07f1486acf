"""Data of the benchmarks. All of it is generated, from fixed seeds."""

import numpy as np
from objective import Problem
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

N_FEATURES = 50
SEED_DATA = 0
SEED_WEIGHTS = 0
DESCRIPTION = (
    f"make_classification(n, {N_FEATURES}, n_informative=20, n_clusters_per_class=8, flip_y=0.05, "
    f"random_state={SEED_DATA}), StandardScaler, weights "
    f"default_rng({SEED_WEIGHTS}).uniform(0.2, 2, n)"
)


def _generate(n):
    return make_classification(
        n,
        N_FEATURES,
        n_informative=20,
        n_clusters_per_class=8,
        flip_y=0.05,
        random_state=SEED_DATA,
    )


def _problem(X, label, C, tol, cache_size):
    return Problem(
        X=np.ascontiguousarray(X),
        y=np.where(label == 1, 1.0, -1.0),
        weight=np.random.default_rng(SEED_WEIGHTS).uniform(0.2, 2.0, len(X)),
        C=C,
        gamma=1.0 / N_FEATURES,
        tol=tol,
        cache_size=cache_size,
    )


def classification(n, C, *, tol=1e-3, cache_size=1000):
    """n weighted rows in 16 overlapping clusters, with 5 % random labels."""
    X, label = _generate(n)
    return _problem(StandardScaler().fit_transform(X), label, C, tol, cache_size)


def classification_with_queries(n, n_queries, C, *, tol=1e-3, cache_size=1000):
    """The same, and rows of the same distribution to predict."""
    X, label = _generate(n + n_queries)
    scaler = StandardScaler().fit(X[:n])
    problem = _problem(scaler.transform(X[:n]), label[:n], C, tol, cache_size)
    return problem, np.ascontiguousarray(scaler.transform(X[n:]))
