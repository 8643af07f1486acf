"""Whether fitted state is sound: a model read from disk may be corrupt, and feeds compiled code."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels import NAMES


def altered(model: Any) -> ValueError:
    """The error for a fitted model whose arrays or settings do not belong together."""
    return ValueError(
        f"The internal representation of {type(model).__name__} was altered: the fitted arrays and "
        "parameters do not agree in shape, type or range. Fit the model again."
    )


def sound_vector(values: Any, length: int) -> bool:
    """Whether this is a float64 vector of finite numbers."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype == np.float64
        and values.shape == (length,)
        and bool(np.isfinite(values).all())
    )


def sound_coefficients(coef: Any, n_pairs: int, n_rows: int) -> bool:
    """Whether this is a float64 matrix of finite numbers, one row per binary problem."""
    return (
        isinstance(coef, np.ndarray)
        and coef.dtype == np.float64
        and coef.shape == (n_pairs, n_rows)
        and bool(np.isfinite(coef).all())
    )


def sound_rows(rows: Any, n: int) -> bool:
    """Whether this is a vector of row numbers below n."""
    return (
        isinstance(rows, np.ndarray)
        and rows.dtype.kind == "i"
        and rows.ndim == 1
        and bool(((rows >= 0) & (rows < n)).all())
    )


def sound_names(names: Any, n: Any) -> bool:
    """Whether these are n column names."""
    return (
        isinstance(names, np.ndarray)
        and names.shape == (n,)
        and all(isinstance(name, str) for name in names)
    )


def sound_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any) -> bool:
    """Whether these are parameters of a kernel, the width already a number."""
    return (
        (callable(kernel) or (isinstance(kernel, str) and kernel in NAMES))
        and isinstance(gamma, Real)
        and 0 <= float(gamma) < math.inf
        and isinstance(degree, Integral)
        and 0 <= int(degree) < 2**31
        and isinstance(coef0, Real)
        and math.isfinite(coef0)
    )


def sound_basis(basis: Any, n_rows: int, n_features: int) -> tuple[bool, Any]:
    """Whether rows kept from training still have their shape and type; and the rows, contiguous."""
    if basis.shape != (n_rows, n_features) or basis.dtype not in (np.float64, np.float32):
        return False, basis
    if not sp.issparse(basis):
        sound = isinstance(basis, np.ndarray) and bool(np.isfinite(basis).all())
        return sound, np.ascontiguousarray(basis)
    # In full: scipy's check_format looks at nothing where the last entry of indptr is zero.
    data, indices, indptr = basis.data, basis.indices, basis.indptr
    sound = (
        basis.format == "csr"
        and indptr.dtype.kind == "i"
        and indptr.shape == (n_rows + 1,)
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and indices.shape == data.shape == (indptr[-1],)
        and sound_rows(indices, n_features)
        and bool(np.isfinite(data).all())
    )
    if not sound:
        return False, basis
    return True, sp.csr_array((np.ascontiguousarray(data), indices, indptr), basis.shape)
