"""What a solver returns: a point, its certificate, and what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Status(Enum):
    """How a solve ended; decided by the certificate, never by the iteration alone.

    ``status.converged`` tells whether the certificate reached what was asked, ``status.advice``
    what happened and what to try.
    """

    OPTIMAL = "optimal"
    AT_PRECISION = "at_precision"
    MAX_ITER = "max_iter"
    INDEFINITE = "indefinite"

    @property
    def converged(self) -> bool:
        """Whether the largest KKT violation is at most `tol`, or at most rounding."""
        return self in (Status.OPTIMAL, Status.AT_PRECISION)

    @property
    def advice(self) -> str:
        """One or two sentences for the user."""
        return _ADVICE[self]


_ADVICE = {
    Status.OPTIMAL: "The largest KKT violation is at most tol.",
    Status.AT_PRECISION: (
        "The KKT violation is above tol, and at the level of rounding in double precision for "
        "weights and kernel values of this size."
    ),
    Status.MAX_ITER: (
        "Stopped at max_iter; the best point found is kept. Increase max_iter, scale the features "
        "(for example with StandardScaler), decrease C, or loosen tol."
    ),
    Status.INDEFINITE: (
        "The kernel is not positive semidefinite on the training rows, so the problem is not "
        "convex: the point found is stationary at best, and the duality gap is not a bound. Use "
        "another kernel, or make this one positive semidefinite (add a constant to its diagonal)."
    ),
}


@dataclass(frozen=True, eq=False)
class WSVMPrimal:
    """A feasible point of eq:svmw_primal; w is kept as its expansion on the solution's duals."""

    b: float
    b_interval: tuple[float, float]
    slack: Vector


@dataclass(frozen=True, eq=False)
class WSVMDual:
    """A feasible point of eq:svmw_dual, with ``beta = c - alpha``."""

    alpha: Vector
    beta: Vector


@dataclass(frozen=True, eq=False)
class SVMPlusPrimal(WSVMPrimal):
    """A feasible point of eq:svmp_primal.

    ``slack`` is the correcting function at the training rows that have privileged information,
    the hinge loss at the others. w* is kept by the coefficients ``coef_corr`` of its expansion on
    the privileged rows.
    """

    b_corr: float
    coef_corr: Vector


@dataclass(frozen=True, eq=False)
class SVMPlusDual(WSVMDual):
    """A feasible point of eq:svmp_dual; ``alpha_corr = alpha + beta - C``."""

    alpha_corr: Vector


@dataclass(frozen=True, eq=False)
class Solution:
    """A primal-dual point with its certificate.

    Attributes
    ----------
    primal : WSVMPrimal or SVMPlusPrimal
        Offset ``b``, the interval of optimal offsets ``b_interval``, and ``slack`` of shape (n,);
        for SVM+ also ``b_corr`` and ``coef_corr``.
    dual : WSVMDual or SVMPlusDual
        ``alpha`` and ``beta`` of shape (n,); for SVM+ also ``alpha_corr``.
    primal_objective, dual_objective : float
        Values at the feasible points, in float64.
    gap : float
        ``primal_objective - dual_objective``: a bound on the distance of either to the optimum.
    violation : float
        The largest KKT violation, in units of the decision function.
    status : Status
        How the solve ended.
    n_iter : int
        Steps taken.
    stats : mapping
        What the solver counted, for benchmarks and the curious.
    """

    primal: WSVMPrimal
    dual: WSVMDual
    primal_objective: float
    dual_objective: float
    violation: float
    status: Status
    n_iter: int
    stats: Mapping[str, float] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Arrays and plain values only: some formats of saved models have no enumerations."""
        return {**vars(self), "status": self.status.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "status": Status(state["status"])}.items():
            object.__setattr__(self, name, value)

    @property
    def gap(self) -> float:
        """Duality gap, ``primal_objective - dual_objective``."""
        return self.primal_objective - self.dual_objective

    @property
    def relative_gap(self) -> float:
        """The gap divided by ``max(1, |dual_objective|)``."""
        return self.gap / max(1.0, abs(self.dual_objective))


def zero_solution(n: int) -> Solution:
    """The solution of a problem of n rows whose weights are all zero: every offset is optimal."""
    zero = np.zeros(n)
    return Solution(
        primal=WSVMPrimal(0.0, (-np.inf, np.inf), zero),
        dual=WSVMDual(zero, zero),
        primal_objective=0.0,
        dual_objective=0.0,
        violation=0.0,
        status=Status.OPTIMAL,
        n_iter=1,
    )


def svmplus_zero_solution(n: int, n_priv: int) -> Solution:
    """The same for SVM+, with n_priv privileged rows and a correcting function of zero."""
    zero = np.zeros(n)
    return replace(
        zero_solution(n),
        primal=SVMPlusPrimal(0.0, (-np.inf, np.inf), zero, 0.0, np.zeros(n_priv)),
        dual=SVMPlusDual(zero, zero, zero),
    )


@dataclass(frozen=True, eq=False)
class SmoothSolution:
    """A point of the weighted SVM with a smooth loss, eq:wlearning:fopt, and its certificate.

    Attributes
    ----------
    expansion : ndarray of shape (n,)
        a, the signed coefficients of the training rows.
    b : float
        Offset.
    w : ndarray of shape (d,) or None
        Normal vector; for the linear form only.
    values : ndarray of shape (n,)
        f(x_i) at the training rows, offset included.
    primal_objective, dual_objective : float
        Values at (a, b) and at the dual point nearest to a; NaN where no certificate was asked for.
    violation : float
        The largest of ``|a_i + c_i u_i|`` and ``|sum_i c_i u_i|``, divided by max c: the gradient,
        in units of the slope of the loss.
    status : Status
        How the solve ended.
    n_iter : int
        Newton steps.
    stats : mapping
        What the solver counted.
    """

    expansion: Vector
    b: float
    w: Vector | None
    values: Vector
    primal_objective: float
    dual_objective: float
    violation: float
    status: Status
    n_iter: int
    stats: Mapping[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Duality gap, ``primal_objective - dual_objective``."""
        return self.primal_objective - self.dual_objective
