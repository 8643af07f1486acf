"""Derivatives of a trained model with respect to its weights and hyper-parameters, thm:derivatives.

The model solves F(a, b; c) = 0: a + c u = 0 and sum a = 0 (eq:wlearning:fopt). A gradient of a
scalar E(a, b) needs one solve with the transpose of dF, and no Jacobian. The mathematics is on the
page docs/maths/weight_learning.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..losses import SmoothHinge
from ..problems import SmoothWSVMProblem, Vector
from ..solution import SmoothSolution
from ..solvers.newton import Curvature
from .criterion import Criterion


@dataclass(frozen=True, eq=False)
class Hypergradient:
    """The validation loss and its derivatives.

    Attributes
    ----------
    value : float
        E, the sum of the losses at the validation rows.
    values : ndarray of shape (N,)
        f at the validation rows.
    c : ndarray of shape (n,)
        dE / dc.
    C : float
        dE / dC where c = C * weight, the weights kept: sum_i (dE / dc_i) c_i / C.
    kernel : float or None
        dE / d(kernel parameter), where `kernel_change` was given.
    delta : float or None
        dE / d(delta) of the model's loss, where that is a `SmoothHinge`.
    curvature : Curvature
        The factorised second derivative of the model. Where it has no curved row, b was considered
        fixed, eq:gradient_vzero.
    """

    value: float
    values: Vector
    c: Vector
    C: float
    kernel: float | None
    delta: float | None
    curvature: Curvature


def hypergradient(
    problem: SmoothWSVMProblem,
    solution: SmoothSolution,
    criterion: Criterion,
    *,
    C: float = 1.0,
    kernel_change: tuple[Vector, Vector] | None = None,
    threads: int = 1,
) -> Hypergradient:
    r"""Derivatives of the validation loss by implicit differentiation, in one adjoint solve.

    .. math::

        \frac{\partial E}{\partial c_i} = -u_i \lambda_i, \qquad
        \begin{bmatrix} I + \mathrm{diag}(v) K & v \\ 1^\top & 0 \end{bmatrix}^{\!\top}
        \begin{bmatrix} \lambda \\ \mu \end{bmatrix}
        = \begin{bmatrix} K_{val}\, g \\ 1^\top g \end{bmatrix},
        \qquad g_j = y'_j\, \ell'(y'_j f(x'_j))

    (thm:derivatives, eq:gradient). It is exact at an exact solution; at a point whose violation is
    t it is off by O(t).

    Parameters
    ----------
    problem : SmoothWSVMProblem
    solution : SmoothSolution
        Of this problem.
    criterion : Criterion
    C : float
        The factor in c = C * weight, for the derivative with respect to it.
    kernel_change : (ndarray of shape (n,), ndarray of shape (N,)), optional
        (dK a, dK_val' a): the derivatives of K and K_val with respect to a kernel parameter,
        applied to the expansion a. For the rbf kernel and its gamma, dK = -D * K with D the squared
        distances.
    threads : int
        For the pass over the validation rows. The result does not depend on it.

    Returns
    -------
    Hypergradient

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.bilevel import Criterion, DenseCross, hypergradient
    >>> from lupi.losses import SmoothHinge
    >>> from lupi.problems import SmoothWSVMProblem
    >>> from lupi.solvers import newton
    >>> x, y = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -1.0, 1.0, 1.0])  # x[0] is wrong
    >>> z, y_val = np.array([-1.5, -0.5, 0.5, 1.5]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> problem = SmoothWSVMProblem(np.outer(x, x), y, np.ones(4), SmoothHinge(0.5))
    >>> criterion = Criterion(DenseCross(np.outer(x, z)), y_val, SmoothHinge(0.5))
    >>> hypergradient(problem, newton.solve(problem), criterion).c.round(2)  # lower the first
    array([ 0.58, -0.66,  0.05,  0.  ])
    """
    c, loss = problem.c, problem.loss
    coef = solution.expansion if solution.w is None else solution.w
    value, values, g, by_coef = criterion.judge(coef, solution.b, threads)
    curvature = Curvature.at(problem, solution.values)
    adjoint = curvature.adjoint(by_coef, float(g.sum()))
    d_c = -curvature.u * adjoint
    d_kernel = d_delta = None
    if kernel_change is not None:
        change, change_val = kernel_change
        d_kernel = float(g @ change_val) - float((curvature.v * adjoint) @ change)
    if isinstance(loss, SmoothHinge):
        d_delta = -float((adjoint * c * problem.y) @ loss.d1_delta(curvature.margin))
    return Hypergradient(
        value=value,
        values=values,
        c=d_c,
        C=float(d_c @ c) / C,
        kernel=d_kernel,
        delta=d_delta,
        curvature=curvature,
    )


def jacobian(problem: SmoothWSVMProblem, solution: SmoothSolution) -> tuple[Vector, Vector]:
    """The full Jacobian of the model with respect to its weights; slow, to test against.

    Returns
    -------
    d_coef : ndarray of shape (n, n), or (d, n) in the linear form
        d a / dc by eq:gradient as it stands, or d w / dc.
    d_b : ndarray of shape (n,)
    """
    y, A, n = problem.y, problem.matrix, problem.n
    margin = y * solution.values
    u, v = y * problem.loss.d1(margin), problem.c * problem.loss.d2(margin)
    if not v.any():  # eq:gradient_vzero, b fixed; with the sign of eq:gradient
        return (-A.T * u if problem.linear else -np.diag(u)), np.zeros(n)
    if problem.linear:
        d = A.shape[1]
        H = np.zeros((d + 1, d + 1))
        rows = np.c_[A, np.ones(n)]
        H[:] = rows.T @ (v[:, None] * rows)
        H[:d, :d] += np.eye(d)
        both = -np.linalg.solve(H, rows.T * u)
    else:
        d = n
        M = np.zeros((n + 1, n + 1))
        M[:n, :n] = np.eye(n) + v[:, None] * A
        M[:n, n] = v
        M[n, :n] = 1.0
        both = -np.linalg.solve(M, np.vstack([np.diag(u), np.zeros(n)]))
    return both[:d], both[d]
