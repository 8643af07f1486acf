"""The smooth hinge on validation rows, and its derivatives, in one pass over K_val."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._core import core

Vector = NDArray[np.float64]


def judge_smooth_hinge(
    K_val: Vector, y: Vector, coef: Vector, b: float, delta: float, threads: int
) -> tuple[float, Vector, Vector, Vector]:
    """eq:wlearning:wopt at one model (``_core/validation.hpp``).

    Parameters
    ----------
    K_val : ndarray of shape (n, N)
        Row by row, float64.
    y : ndarray of shape (N,)
        Labels -1 and 1 of the validation rows.
    coef : ndarray of shape (n,)
    b : float
    delta : float
        Of eq:smoothloss.
    threads : int
        The result does not depend on it.

    Returns
    -------
    value : float
        The sum of the losses.
    values : ndarray of shape (N,)
        f at the validation rows.
    slopes : ndarray of shape (N,)
        Derivatives with respect to them.
    by_coef : ndarray of shape (n,)
        Derivatives with respect to the coefficients.
    """
    values, slopes = np.empty(len(y)), np.empty(len(y))
    by_coef = np.empty(len(coef))
    value = core.judge_smooth_hinge(K_val, y, coef, b, delta, values, slopes, by_coef, threads)
    return value, values, slopes, by_coef
