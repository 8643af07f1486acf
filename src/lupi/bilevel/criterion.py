r"""The outer loss: how good a model is on the validation rows, eq:wlearning:wopt.

A :class:`Criterion` needs the validation rows in two products only, f_val = K_val' a + b and
K_val g, so K_val (n x N) is kept in memory where it fits, and formed again in blocks where not.
Reading K_val is most of the cost: where the loss is the smooth hinge, one pass does for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss, SmoothHinge
from ..solvers.validation import judge_smooth_hinge

Vector = NDArray[np.float64]

# Kernel values formed at once where K_val does not fit in memory (64 MB in float64).
_BLOCK = 8_000_000


class Cross(Protocol):
    """The map from coefficients (a, or w in the linear form) to values at the validation rows."""

    def forward(self, coef: Vector) -> Vector:
        """Values without offset, shape (N,)."""

    def backward(self, g: Vector) -> Vector:
        """The transpose: shape of coef."""


@dataclass(frozen=True, eq=False)
class DenseCross:
    """K_val (n, N), or X_val' (d, N) in the linear form, at hand, in float64 or float32."""

    matrix: NDArray[Any]

    def forward(self, coef: Vector) -> Vector:
        """The product matrix' coef."""
        return _as_double(coef.astype(self.matrix.dtype, copy=False) @ self.matrix)

    def backward(self, g: Vector) -> Vector:
        """The product matrix g."""
        return _as_double(self.matrix @ g.astype(self.matrix.dtype, copy=False))

    @property
    def is_plain(self) -> bool:
        """Whether the matrix is an array of doubles, row after row, as the core reads them."""
        return self.matrix.dtype == np.float64 and self.matrix.flags.c_contiguous


def _as_double(x: NDArray[Any]) -> Vector:
    return x.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class BlockCross:
    """K_val that is formed in blocks of validation rows each time it is used.

    Attributes
    ----------
    block : callable
        ``block(start, stop, rows)``: columns start..stop of K_val, for some training rows only, of
        shape (len(rows), stop - start).
    n, n_val : int
        Shape of K_val.
    """

    block: Callable[[int, int, NDArray[np.int64]], Vector]
    n: int
    n_val: int

    def forward(self, coef: Vector) -> Vector:
        """K_val' coef, from the rows of coef that are not zero."""
        rows = coef.nonzero()[0]
        out = np.zeros(self.n_val)
        step = max(1, _BLOCK // max(1, len(rows)))
        for start in range(0, self.n_val if len(rows) else 0, step):
            stop = min(start + step, self.n_val)
            out[start:stop] = coef[rows] @ self.block(start, stop, rows)
        return out

    def backward(self, g: Vector) -> Vector:
        """K_val g."""
        rows = np.arange(self.n)
        out = np.zeros(self.n)
        step = max(1, _BLOCK // self.n)
        for start in range(0, self.n_val, step):
            stop = min(start + step, self.n_val)
            out += self.block(start, stop, rows) @ g[start:stop]
        return out


class Judgement(NamedTuple):
    """E at a model, f at the validation rows, and dE by f and by the coefficients (b fixed)."""

    value: float
    values: Vector
    slopes: Vector
    by_coef: Vector


@dataclass(frozen=True, eq=False)
class Criterion:
    r"""The loss on the validation rows, :math:`E = \sum_j \ell(y'_j f(x'_j))` (eq:wlearning:wopt).

    Attributes
    ----------
    cross : Cross
        The validation rows as seen by the model.
    y : ndarray of shape (N,)
        Labels, -1.0 or +1.0.
    loss : Loss
        Need not be the loss of the model, and does not change when the model's delta does.
    """

    cross: Cross
    y: Vector
    loss: Loss

    def values(self, coef: Vector, b: float) -> Vector:
        """Values f at the validation rows; coef is the expansion, or w in the linear form."""
        return self.cross.forward(coef) + b

    def value(self, values: Vector) -> float:
        """E at these values."""
        return float(self.loss.value(self.y * values).sum())

    def slopes(self, values: Vector) -> Vector:
        """DE / d values, y' l'(y' f)."""
        return self.y * self.loss.d1(self.y * values)

    def judge(self, coef: Vector, b: float, threads: int = 1) -> Judgement:
        """Value and derivatives at a model, which do not depend on the number of threads."""
        cross, loss = self.cross, self.loss
        if type(loss) is SmoothHinge and isinstance(cross, DenseCross) and cross.is_plain:
            return Judgement(
                *judge_smooth_hinge(cross.matrix, self.y, coef, b, loss.delta, threads)
            )
        values = self.values(coef, b)
        slopes = self.slopes(values)
        return Judgement(self.value(values), values, slopes, cross.backward(slopes))
