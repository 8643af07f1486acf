"""Kernels: their parameters, the matrix of a training set, and products with new points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._core import core
from .threads import n_threads

Array = NDArray[Any]
KernelName = str | Callable[[Any, Any], Any]

NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")


def points(X: Any) -> Any:
    """The rows of a C-ordered float array or a CSR matrix, as the core sees them (no copy)."""
    if sp.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return core.sparse_points(
            X.data, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.shape[1]
        )
    return core.dense_points(X)


@dataclass(frozen=True)
class KernelSpec:
    """One of the built-in kernels with its parameters, ``gamma`` already a number.

    ``linear`` <x, z>; ``poly`` (gamma <x, z> + coef0)^degree; ``rbf`` exp(-gamma |x - z|^2);
    ``sigmoid`` tanh(gamma <x, z> + coef0).
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def is_psd(self) -> bool:
        """Whether the kernel is positive semidefinite on every set of points."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0)

    def matrix(self, X: Any) -> KernelMatrix:
        """The kernel on the rows of X; nothing is computed yet."""
        core_points = points(X)
        largest = largest_square(X)
        reached = np.float64(largest)
        if self.name == "poly":
            with np.errstate(over="ignore"):
                reached = (abs(self.gamma) * reached + abs(self.coef0)) ** self.degree
        # A margin for sums and differences of such numbers.
        if not max(largest, reached) < 1e150:
            raise ValueError(
                f"X is too large for the {self.name} kernel: the largest squared length of a row "
                f"is {largest:.3g} and kernel values overflow. Scale the features, for example "
                "with StandardScaler."
            )
        return KernelMatrix(
            core.kernel(core_points, self.name, self.gamma, self.degree, self.coef0),
            n=X.shape[0],
            is_psd=self.is_psd,
            is_rbf=self.name == "rbf",
            largest=float(max(largest, reached, self.gamma)),
        )

    def cross(self, X: Any, Z: Any) -> NDArray[np.float64]:
        """k(X, Z) of shape (X.shape[0], Z.shape[0]), in float64."""
        out = np.empty((X.shape[0], Z.shape[0]))
        threads = n_threads(X.shape[0] * Z.shape[0])
        core.cross_kernel(
            points(X), points(Z), self.name, self.gamma, self.degree, self.coef0, out, threads
        )
        return out

    def expand(self, basis: Any, coef: NDArray[np.float64], Z: Any) -> NDArray[np.float64]:
        """``coef @ k(basis, Z)`` of shape (n_coef, Z.shape[0]), in float64, in bounded memory."""
        n_coef, n, n_query = coef.shape[0], basis.shape[0], Z.shape[0]
        out = np.zeros((n_coef, n_query))
        if n == 0 or n_query == 0:
            return out
        if n_coef > 4:
            expand_all([(self, coef, np.zeros(n_coef), out)], basis, Z)
            return out
        core.cross_combine(
            points(basis),
            points(Z),
            self.name,
            self.gamma,
            self.degree,
            self.coef0,
            np.ascontiguousarray(coef),
            out,
            n_threads(n * n_query),
        )
        return out


def gram_matrices(
    specs: Sequence[KernelSpec], X: Any, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Kernels among the rows of X, shape (n_specs, n, n), symmetric to the last bit.

    The products between the rows, which all of them need, are formed once. `out` is written if it
    is given.
    """
    n = X.shape[0]
    if out is None:
        out = np.empty((len(specs), n, n))
    core.gram_matrices(
        points(X),
        [(spec.name, spec.gamma, spec.degree, spec.coef0) for spec in specs],
        out,
        n_threads(out.size),
    )
    return out


def expand_all(
    expansions: Sequence[tuple[KernelSpec, Array, Array, Array]],
    basis: Any,
    Z: Any,
    positive: NDArray[np.int8] | None = None,
) -> None:
    """``coef @ k(basis, Z) + offset[:, None]`` for many rows of coefficients and several kernels.

    One pass over the pairs of rows: no kernel matrix is stored, and products are shared.

    Parameters
    ----------
    expansions : sequence of (spec, coef, offset, out)
        With coef of shape (m, n), offset (m,), and out, which is written: values, (m, n_query), or,
        if `positive` is given, the number of values that have the right sign, (m,) of int64.
    basis, Z : ndarray or CSR matrix of shape (n, d), (n_query, d)
    positive : ndarray of int8, shape (n_query,)
        1 where values above 0 are right, 0 where the others are, -1 where none is.
    """
    core.cross_expand(
        points(basis),
        points(Z),
        [
            (
                spec.name,
                spec.gamma,
                spec.degree,
                spec.coef0,
                np.ascontiguousarray(coef),
                offset,
                out if positive is None else None,
                None if positive is None else out,
            )
            for spec, coef, offset, out in expansions
        ],
        positive,
        n_threads(basis.shape[0] * Z.shape[0] * len(expansions)),
    )


class KernelMatrix:
    """An n x n kernel matrix that is never formed unless it was given.

    Parameters
    ----------
    handle : core kernel
        See :meth:`KernelSpec.matrix` and :func:`given_matrix`.
    n : int
        Rows.
    is_psd : bool
        Whether it is known to be positive semidefinite.
    is_rbf : bool
        Whether its values are those of the rbf kernel, in [0, 1].
    largest : float
        The largest number that is met on the way to its values.
    """

    __slots__ = ("handle", "is_psd", "is_rbf", "largest", "n")

    def __init__(
        self, handle: Any, *, n: int, is_psd: bool, is_rbf: bool = False, largest: float = 0.0
    ) -> None:
        self.handle = handle
        self.largest = largest
        self.n = n
        self.is_psd = is_psd
        self.is_rbf = is_rbf

    def dot(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """K @ a in float64, from the columns where a is not zero."""
        index = a.nonzero()[0]
        out = np.empty(self.n)
        self.handle.combine(index, a[index], out, n_threads(len(index) * self.n))
        return out

    def diagonal(self) -> NDArray[np.float64]:
        """The diagonal of K."""
        out = np.empty(self.n)
        self.handle.diagonal(out)
        return out

    def block(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """K[index][:, index] in float64."""
        out = np.empty((len(index), len(index)))
        self.handle.square_block(index, out, n_threads(len(index) ** 2))
        return out

    def psd_among(self, index: NDArray[np.int64], limit: float) -> bool:
        """Whether K is positive semidefinite among some rows, up to rounding.

        On the vectors of sum zero, which is all that a constrained dual sees: adding 1 b' + b 1'
        does not change the problem. Not looked at, and taken for granted, where the matrix takes
        more than `limit` bytes.
        """
        if self.is_psd or len(index) == 0 or 8.0 * len(index) ** 2 > limit:
            return True
        K = self.block(index)
        rounding = 1e-9 * max(1e-300, float(np.abs(K.diagonal()).max()))
        mean = K.mean(axis=0)
        K = K - mean - mean[:, None] + mean.mean()
        K[np.diag_indices_from(K)] += rounding
        return bool(core.is_positive_definite(K, n_threads(len(index) ** 2)))

    def dense(self) -> NDArray[np.float64]:
        """The whole matrix; for small problems and references."""
        return self.block(np.arange(self.n))


def given_matrix(gram: NDArray[np.float64]) -> KernelMatrix:
    """A kernel matrix that is at hand (float64, C order, symmetric)."""
    largest = max(gram.max(initial=0.0), -gram.min(initial=0.0))
    return KernelMatrix(core.gram_kernel(gram), n=gram.shape[0], is_psd=False, largest=largest)


def scale_gamma(X: Any, sample_weight: NDArray[np.float64] | None = None) -> float:
    """``gamma="scale"``: 1 / (n_features * variance of all entries of X), rows weighted.

    With the weighted variance an integer weight means the same as a repeated row. Constant features
    (a variance of zero, or one that is rounding) give 1, as in scikit-learn.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the kernel refuses an X of that size
        return _scale_gamma(X, sample_weight)


def _scale_gamma(X: Any, sample_weight: NDArray[np.float64] | None) -> float:
    n, d = X.shape
    weight = np.full(n, 1.0 / n) if sample_weight is None else sample_weight / sample_weight.sum()
    if sp.issparse(X):
        # Over the entries that are stored, then the zeros between them.
        entry = np.repeat(weight, np.diff(X.indptr)) / d
        values = X.data.astype(np.float64, copy=False)
        mean = float(entry @ values)
        zeros = max(0.0, 1.0 - float(entry.sum())) if X.nnz < n * d else 0.0
        variance = float(entry @ (values - mean) ** 2) + zeros * mean * mean
    elif sample_weight is None:
        mean, variance = float(X.mean(dtype=np.float64)), float(X.var(dtype=np.float64))
    else:
        mean = float(weight @ X.sum(axis=1, dtype=np.float64)) / d
        deviation = X - mean
        variance = float(weight @ np.einsum("ij,ij->i", deviation, deviation, dtype=np.float64)) / d
    return 1.0 / (d * variance) if variance > 1e-28 * mean * mean else 1.0


def largest_square(X: Any) -> float:
    """The largest squared length of a row of X; infinite where it overflows."""
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            squares = X.data.astype(np.float64) ** 2
            sums = np.zeros(X.shape[0])
            np.add.at(sums, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), squares)
        else:
            sums = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        return float(sums.max(initial=0.0))
