"""The optimisation problems: frozen, checked, and able to say what a point is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kernels import KernelMatrix

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WSVMProblem:
    r"""The weighted SVM, eq:svmw_primal and eq:svmw_dual.

    .. math::

        \min_{w, b, \xi} \tfrac12 \|w\|^2 + \sum_i c_i \xi_i
        \quad\text{s.t.}\quad y_i (\langle w, z_i\rangle + b) \ge 1 - \xi_i,\; \xi_i \ge 0

        \max_{\alpha} \textstyle\sum_i \alpha_i - \tfrac12 \alpha^\top YKY \alpha
        \quad\text{s.t.}\quad y^\top \alpha = 0,\; 0 \le \alpha_i \le c_i

    The dual is written as a maximum, the negative of the paper's, so that weak duality reads
    ``dual <= primal``. A weight of zero takes a row out of the problem: its alpha is zero, its
    slack is free, and no offset is excluded by it.

    Parameters
    ----------
    kernel : KernelMatrix
        K, n x n.
    y : ndarray of shape (n,)
        Labels, -1.0 or +1.0.
    c : ndarray of shape (n,)
        Weights, finite and non-negative, not all zero.
    """

    kernel: KernelMatrix
    y: Vector
    c: Vector

    def __post_init__(self) -> None:
        n = self.kernel.n
        for name in ("y", "c"):
            value = getattr(self, name)
            if value.shape != (n,) or value.dtype != np.float64:
                raise ValueError(
                    f"{name} must be a float64 array of shape ({n},), one entry per row of the "
                    f"kernel; got {value.dtype} of shape {value.shape}."
                )
        if not (np.abs(self.y) == 1.0).all():
            raise ValueError("y must hold the labels -1 and +1 only.")
        if not (np.isfinite(self.c).all() and (self.c >= 0).all()):
            raise ValueError("c must be finite and non-negative.")
        if not self.c.any():
            raise ValueError("c must have a weight that is not zero.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.kernel.n

    def primal(self, squared_norm: float, slack: Vector) -> float:
        """1/2 |w|^2 + sum_i c_i slack_i (eq:svmw_primal)."""
        return 0.5 * squared_norm + float(self.c @ slack)

    def dual(self, squared_norm: float, alpha: Vector) -> float:
        """sum_i alpha_i - 1/2 |w|^2 with w the expansion of alpha (-F in the paper)."""
        return float(alpha.sum()) - 0.5 * squared_norm
