"""Rankings of the training digits by annotators: from a file, or simulated.

The paper's were never published: three people ranked each of the 100 training digits 16 times in
all, as one of {-1, -0.5, 0, 0.5, 1} (``sec:exp:5_vs_8``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from ..datasets import fetch_mnist
from ..estimators import WeightedSVC

N_RANKINGS = 16
_ROWS_SEEN = 200
_LABELS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def read_rankings(path: str | os.PathLike[str], n: int) -> NDArray[np.float64]:
    """Mean scores from a file with a line for each digit, its rankings separated by commas.

    Parameters
    ----------
    path : path
    n : int
        Number of digits.

    Returns
    -------
    ndarray of shape (n,)
        In [-1, 1]; 1: certainly an 8.
    """
    path = Path(path)
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"the rankings in {path} are not numbers: {error}") from None
    if len(table) != n:
        raise ValueError(
            f"the rankings in {path} must have {n} lines, one for each training digit; there are "
            f"{len(table)}."
        )
    inside = (table >= -1) & (table <= 1)
    if not inside.all():
        row, column = np.argwhere(~inside)[0]
        raise ValueError(
            f"the rankings in {path} must lie in [-1, 1]; in line {row + 1} there is "
            f"{table[row, column]:g}."
        )
    scores: NDArray[np.float64] = table.mean(axis=1)
    return scores


def simulated_rankings(
    X: NDArray[Any], known: NDArray[Any], *, data_home: Any = None, seed: int = 0
) -> NDArray[np.float64]:
    """Mean scores of simulated annotators who learned on *other* digits of MNIST.

    Each of 16 annotators is an SVM that saw 200 fives and eights, none of them in `known`, with a
    logistic scale from 200 more. What it thinks of a digit, 2 P(8 | x) - 1, is rounded to the
    nearest of the five labels.

    Parameters
    ----------
    X : ndarray of shape (n, 100)
        The digits to rank, pixels of 0 to 255.
    known : ndarray of shape (n_known, 100)
        Digits that annotators must not learn from: all of the experiment.
    data_home : path, default=None
    seed : int, default=0

    Returns
    -------
    ndarray of shape (n,)
        In [-1, 1]; 1: certainly an 8.
    """
    others = fetch_mnist(subset="train", digits=[5, 8], side=10, data_home=data_home)
    taken = {row.tobytes() for row in np.asarray(known, dtype=np.uint8)}
    free = np.array([row.tobytes() not in taken for row in np.asarray(others.data, np.uint8)])
    pool, label = others.data[free] / 255.0, np.where(others.target[free] == 8, 1, -1)
    rng = np.random.default_rng([seed, 5, 8])
    scores = np.zeros(len(X))
    for _ in range(N_RANKINGS):
        rows = rng.permutation(len(pool))[: 2 * _ROWS_SEEN]
        learn, scale = rows[:_ROWS_SEEN], rows[_ROWS_SEEN:]
        model = WeightedSVC(C=10.0).fit(pool[learn], label[learn])
        logistic = LogisticRegression(C=1e3)
        logistic.fit(model.decision_function(pool[scale])[:, None], label[scale])
        eta = 2 * logistic.predict_proba(model.decision_function(X / 255.0)[:, None])[:, 1] - 1
        scores += _LABELS[np.abs(eta[:, None] - _LABELS).argmin(axis=1)]
    return scores / N_RANKINGS
