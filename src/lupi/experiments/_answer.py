r"""From paired errors to an answer: by how much, is it chance, what is it worth, what next.

Repeats draw training and test rows from the same table, so their differences are correlated, and
their standard error is not s / sqrt(J). With J repeats that test on a share q of the rows, two
repeats have q of their test rows in common, and the correlation of their differences is about q
(Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 52, 2003):

.. math::

    \widehat{\operatorname{var}}(\bar d) = \Bigl(\frac1J + \frac{q}{1-q}\Bigr) s^2,

compared with a t distribution of J - 1 degrees of freedom. q / (1 - q) is n_test / n_train where
training takes all rows that are not tested.

That is blind where s is zero or nearly so, as it often is for twenty rows. Whatever the repeats,
the rows are a sample of n: a difference of means d in errors of 0 and 1 comes from at least n |d|
rows that the two methods judge differently, so that its variance is at least |d| (1 - |d|) / n, as in
McNemar's test; d is taken as at least 1 / n. The larger of both is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, and an interval for it.

    Attributes
    ----------
    mean : float
        Positive: the second method makes fewer errors.
    low, high : float
        Ends of the interval.
    level : float
        Its level, for all `comparisons` together.
    comparisons : int
    repeats : int
    """

    mean: float
    low: float
    high: float
    level: float
    comparisons: int
    repeats: int

    @property
    def distinguishable(self) -> bool:
        """Whether zero is outside."""
        return self.low > 0 or self.high < 0

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return 0.5 * (self.high - self.low)


def difference(
    reference: Sequence[float] | Vector,
    method: Sequence[float] | Vector,
    *,
    test_share: float,
    n_rows: int,
    level: float = 0.95,
    comparisons: int = 1,
) -> Difference:
    """By how much the errors of a method are below those of the reference.

    Parameters
    ----------
    reference, method : array-like of shape (n_repeats,)
        Errors on the same repeats, as shares.
    test_share : float
        Test rows of a repeat, as a share of all rows.
    n_rows : int
        Rows in all.
    level : float, default=0.95
    comparisons : int, default=1
        Intervals that are to hold together (Bonferroni).

    Returns
    -------
    Difference
    """
    d = np.asarray(reference, dtype=np.float64) - np.asarray(method, dtype=np.float64)
    J = len(d)
    if J < 2:
        raise ValueError(f"an interval needs at least two repeats; got {J}.")
    mean = float(d.mean())
    resampled = (1.0 / J + test_share / (1.0 - test_share)) * float(d.var(ddof=1))
    size = min(max(abs(mean), 1.0 / n_rows), 0.5)
    sampled = size * (1.0 - size) / n_rows
    tail = (1.0 - level) / (2.0 * comparisons)
    half = float(stats.t.ppf(1.0 - tail, J - 1)) * math.sqrt(max(resampled, sampled))
    return Difference(mean, mean - half, mean + half, level, comparisons, J)


def monotone(sizes: Sequence[float], errors: Sequence[float]) -> tuple[Vector, Vector]:
    """The learning curve that never rises, nearest to the given one: logarithms of sizes, errors.

    Parameters
    ----------
    sizes, errors : sequence of float

    Returns
    -------
    log_sizes, errors : ndarray
    """
    order = np.argsort(sizes)
    log_sizes = np.log(np.asarray(sizes, dtype=np.float64)[order])
    # Pool adjacent violators.
    pools: list[list[float]] = []
    for value in np.asarray(errors, dtype=np.float64)[order]:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            value, count = pools.pop()
            before, many = pools[-1]
            pools[-1] = [(before * many + value * count) / (many + count), many + count]
    return log_sizes, np.concatenate([np.full(int(count), value) for value, count in pools])


def rows_for(sizes: Sequence[float], errors: Sequence[float], error: float) -> tuple[float, str]:
    """How many rows a learning curve needs for this error: straight between its points, in log(rows).

    Parameters
    ----------
    sizes, errors : sequence of float
        The learning curve.
    error : float

    Returns
    -------
    rows : float
    side : {"", "more", "less"}
        ``"more"``: the curve does not come down to the error, and `rows` is its largest size;
        ``"less"``: it is below everywhere, and `rows` is its smallest.
    """
    log_sizes, curve = monotone(sizes, errors)
    if curve[-1] > error:
        return float(np.exp(log_sizes[-1])), "more"
    if curve[0] < error:
        return float(np.exp(log_sizes[0])), "less"
    k = int(np.argmax(curve <= error))
    if k == 0 or curve[k - 1] == curve[k]:
        return float(np.exp(log_sizes[k])), ""
    t = (curve[k - 1] - error) / (curve[k - 1] - curve[k])
    return float(np.exp(log_sizes[k - 1] + t * (log_sizes[k] - log_sizes[k - 1]))), ""
