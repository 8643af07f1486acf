r"""The weighted SVM with a smooth loss on many rows, of which few take part.

Problem
    eq:wlearning:fopt as in :mod:`lupi.solvers.newton`, kernel form, with n too large for n x n.
Method
    A loss that is zero from a margin on (``loss.flat_from``) leaves a row beyond it with a_i = 0,
    as if the row were absent. So: solve on a working set, look at all other rows, add those
    below that margin, and repeat until there are none. Then the point is a solution for all rows.
Stopping rule
    That of :mod:`lupi.solvers.newton` on the working set, and no row outside that wants to enter.
Answer
    A `SmoothSolution` over all rows. Rows outside add nothing to either objective (their loss is
    zero, and so is l*(0)), so the certificate on the working set is that of the whole problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss
from ..problems import SmoothWSVMProblem, Vector
from ..solution import SmoothSolution
from . import newton

Rows = NDArray[np.int64]

# A first working set of this size is solved at once.
_FIRST = 3_000


def solve(
    block: Callable[[Rows], Vector],
    expand: Callable[[Rows, Vector, Rows], Vector],
    y: Vector,
    c: Vector,
    loss: Loss,
    *,
    tol: float = 1e-9,
    limit: float = 1e9,
) -> SmoothSolution:
    """Solve on all rows with c > 0.

    Parameters
    ----------
    block : callable
        ``block(rows)``: K among some rows, float64.
    expand : callable
        ``expand(basis, coef, rows)``: sum_j coef_j k(basis_j, .) at some rows.
    y, c : ndarray of shape (n,)
    loss : Loss
    tol : float
        As in :func:`lupi.solvers.newton.solve`.
    limit : float
        Bytes for the kernel matrix of the working set and its factor.
    """
    n = len(y)
    present = c.nonzero()[0]
    if len(present) <= _FIRST or not np.isfinite(loss.flat_from):
        work = present
    else:  # evenly spread over the rows, which may be ordered in any way
        work = present[np.linspace(0, len(present) - 1, _FIRST).astype(np.int64)]
    init: SmoothSolution | None = None
    while True:
        if 16.0 * len(work) ** 2 > limit:
            raise ValueError(
                f"{len(work)} rows take part in the final model; their kernel matrix and its "
                f"factor need {16e-6 * len(work) ** 2:.0f} MB, more than "
                f"cache_size={limit / 1e6:g} MB. Increase cache_size, or use refit='train'."
            )
        problem = SmoothWSVMProblem(block(work), y[work], c[work], loss)
        if init is not None:
            init = replace(init, values=problem.matrix @ init.expansion + init.b)
        found = newton.solve(problem, init, tol=tol)
        outside = np.setdiff1d(present, work, assume_unique=True)
        used = found.expansion.nonzero()[0]
        values_outside = np.zeros(0)
        if len(outside):
            values_outside = expand(work[used], found.expansion[used], outside) + found.b
        entering = outside[y[outside] * values_outside < loss.flat_from]
        if not len(entering):
            break
        start = np.zeros(n)
        start[work] = found.expansion
        kept = work[used]  # rows that dropped out may come back by the same test
        work = np.sort(np.r_[kept, entering])
        init = replace(found, expansion=start[work], values=np.zeros(len(work)))
    expansion, values = np.zeros(n), np.full(n, np.nan)
    expansion[work] = found.expansion
    values[work], values[outside] = found.values, values_outside
    return replace(found, expansion=expansion, values=values)
