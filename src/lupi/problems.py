"""The optimisation problems: frozen, checked, and able to say what a point is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .kernels import KernelMatrix
from .losses import Loss

Vector = NDArray[np.float64]


def check_labels_and_costs(y: Vector, c: Vector, n: int) -> None:
    """Errors unless y holds n labels of -1 and +1, and c n finite, non-negative costs."""
    for name, value in (("y", y), ("c", c)):
        if value.shape != (n,) or value.dtype != np.float64:
            raise ValueError(
                f"{name} must be a float64 array of shape ({n},), one entry per row of the "
                f"kernel; got {value.dtype} of shape {value.shape}."
            )
    if not (np.abs(y) == 1.0).all():
        raise ValueError("y must hold the labels -1 and +1 only.")
    if not (np.isfinite(c).all() and (c >= 0).all()):
        raise ValueError("c must be finite and non-negative.")


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
        check_labels_and_costs(self.y, self.c, self.kernel.n)
        if not self.c.any():
            raise ValueError("c must have a weight that is not zero.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.kernel.n

    def primal(self, squared_norm: float, slack: Vector) -> float:
        """``1/2 |w|^2 + sum_i c_i slack_i`` (eq:svmw_primal)."""
        return 0.5 * squared_norm + float(self.c @ slack)

    def dual(self, squared_norm: float, alpha: Vector) -> float:
        """``sum_i alpha_i - 1/2 |w|^2`` with w the expansion of alpha (-F in the paper)."""
        return float(alpha.sum()) - 0.5 * squared_norm


@dataclass(frozen=True, eq=False)
class SVMPlusProblem:
    r"""The SVM+, eq:svmp_primal and eq:svmp_dual, with one cost per row.

    .. math::

        \min_{w, b, w^*, b^*} \tfrac12 \|w\|^2 + \tfrac{\gamma}{2} \|w^*\|^2 + \sum_i C_i \xi_i
        \quad\text{s.t.}\quad y_i (\langle w, z_i\rangle + b) \ge 1 - \xi_i,\; \xi_i \ge 0

    where :math:`\xi_i = \langle w^*, z^*_i\rangle + b^*` for the rows with privileged information,
    and
    :math:`\xi_i` is a variable of its own for the others, as in the weighted SVM.

    .. math::

        \max_{\alpha, \beta} \sum_i \alpha_i - \tfrac12 \alpha^\top YKY \alpha
        - \tfrac1{2\gamma} \delta^\top K^* \delta
        \quad\text{s.t.}\quad y^\top \alpha = 0,\; 1^\top \delta = 0,\; \alpha, \beta \ge 0

    with :math:`\delta_i = \alpha_i + \beta_i - C_i` over the privileged rows, and
    :math:`\alpha_i + \beta_i = C_i` for the others. The dual is written as a maximum. A cost of
    zero takes a row out of the problem, its constraints included.

    Parameters
    ----------
    kernel : KernelMatrix
        K, n x n.
    kernel_corr : KernelMatrix
        The kernel among the rows that have privileged information.
    priv : ndarray of int64, shape (n,)
        Row of `kernel_corr` of each row, or -1 where there is none.
    y : ndarray of shape (n,)
        Labels, -1.0 or +1.0.
    C : ndarray of shape (n,)
        Costs, finite and non-negative, not all zero.
    correction_reg : float
        The paper's gamma, non-negative.
    """

    kernel: KernelMatrix
    kernel_corr: KernelMatrix
    priv: NDArray[np.int64]
    y: Vector
    C: Vector
    correction_reg: float

    def __post_init__(self) -> None:
        WSVMProblem(self.kernel, self.y, self.C)  # its checks hold here too
        n, n_priv = self.kernel.n, self.kernel_corr.n
        if self.priv.shape != (n,) or self.priv.dtype != np.int64:
            raise ValueError(
                f"priv must be an int64 array of shape ({n},), one entry per row of the kernel; "
                f"got {self.priv.dtype} of shape {self.priv.shape}."
            )
        if not np.array_equal(np.sort(self.priv[self.priv >= 0]), np.arange(n_priv)):
            raise ValueError(
                f"priv must name each of the {n_priv} rows of kernel_corr once, "
                "and be -1 elsewhere."
            )
        if not 0 <= self.correction_reg < np.inf:
            raise ValueError(
                f"correction_reg must be finite and non-negative; got {self.correction_reg}."
            )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.kernel.n

    @property
    def privileged(self) -> NDArray[np.bool_]:
        """Which rows have privileged information."""
        return self.priv >= 0

    def weighted_svm(self) -> WSVMProblem:
        """The weighted SVM on the same rows and costs: what is left without privileged rows."""
        return WSVMProblem(self.kernel, self.y, self.C)

    def primal(self, squared_norm: float, penalty_corr: float, slack: Vector) -> float:
        """``1/2 |w|^2 + 1/2 gamma |w*|^2 + sum_i C_i slack_i``; penalty_corr: ``gamma |w*|^2``."""
        return 0.5 * (squared_norm + penalty_corr) + float(self.C @ slack)

    def dual(self, squared_norm: float, penalty_corr: float, alpha: Vector) -> float:
        """``sum_i alpha_i - 1/2 |w|^2 - 1/2 gamma |w*|^2``, both expanded on the duals."""
        return float(alpha.sum()) - 0.5 * (squared_norm + penalty_corr)


@dataclass(frozen=True, eq=False)
class SmoothWSVMProblem:
    r"""The weighted SVM with a smooth loss, eq:wlearning:fopt, in one of two forms.

    .. math::

        \text{kernel:}\quad \min_{a, b} \tfrac12 a^\top K a
        + \sum_i c_i\, \ell\bigl(y_i [(K a)_i + b]\bigr), \qquad
        \text{linear:}\quad \min_{w, b} \tfrac12 \|w\|^2
        + \sum_i c_i\, \ell\bigl(y_i [\langle w, x_i\rangle + b]\bigr).

    With u_i = y_i l'(m_i) at the margins m_i, optimal are
    a_i = -c_i u_i, w = sum_i a_i x_i and sum_i a_i = 0. The paper calls a ``alpha``; here it is the
    `expansion`, because it is signed. The Fenchel dual is

    .. math::

        \max_a\; -\tfrac12 a^\top K a - \sum_i c_i\, \ell^*(-y_i a_i / c_i)
        \quad\text{s.t.}\quad 1^\top a = 0,\; 0 \le y_i a_i \le c_i \sup(-\ell').

    Parameters
    ----------
    matrix : ndarray of shape (n, n) or (n, d)
        K, positive semidefinite, or the rows X of the linear form.
    y : ndarray of shape (n,)
        Labels, -1.0 or +1.0.
    c : ndarray of shape (n,)
        Weights, finite and non-negative.
    loss : Loss
        See :mod:`lupi.losses`.
    linear : bool, default=False
        Which form.
    """

    matrix: Vector
    y: Vector
    c: Vector
    loss: Loss
    linear: bool = False

    def __post_init__(self) -> None:
        shape = self.matrix.shape
        if (
            self.matrix.dtype != np.float64
            or len(shape) != 2
            or not (self.linear or shape[0] == shape[1])
        ):
            wanted = "(n, d)" if self.linear else "(n, n)"
            raise ValueError(
                f"matrix must be a float64 array of shape {wanted}; got {self.matrix.dtype} of "
                f"shape {shape}."
            )
        check_labels_and_costs(self.y, self.c, shape[0])

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    def primal(self, squared_norm: float, margin: Vector) -> float:
        """``1/2 |w|^2 + sum_i c_i l(margin_i)`` (eq:wlearning:fopt)."""
        return 0.5 * squared_norm + float(self.c @ self.loss.value(margin))

    def dual(self, squared_norm: float, expansion: Vector) -> float:
        """``-1/2 |w|^2 - sum_i c_i l*(-y_i a_i / c_i)``, over the rows with a weight."""
        rows = self.c.nonzero()[0]
        slope = -self.y[rows] * expansion[rows] / self.c[rows]
        return -0.5 * squared_norm - float(self.c[rows] @ self.loss.conjugate(slope))

    def with_weights(self, c: Vector) -> SmoothWSVMProblem:
        """The same problem with other weights."""
        return replace(self, c=c)
