"""Many small problems in one call of the compiled core, on all threads.

Problem
    Paths: problems on the same rows and kernel that differ in C, and for SVM+ in correction_reg.
    Paths are independent of each other; within one each solution is the start of the next.
Method
    That of :mod:`lupi.solvers.wsvm` and :mod:`lupi.solvers.svmplus` (``_core/batch.hpp``). A path
    is the work of one thread, so that results do not depend on their number.
Stopping rule
    As there: problems of this size are solved far beyond `tol`. The violation that a certificate
    finds comes with every solution; the caller looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core import core
from ..certificates import svmplus_offsets, wsvm_offsets
from ..problems import Vector
from ..threads import n_threads, one_blas_thread
from . import svmplus, wsvm

# Above SMALL, where few variables are free, the descent ends here and the finish does the rest. At
# n = 1,600 a path takes a tenth longer with a third or three times of it, and with 1e-1 twice that.
_EARLY = 3e-3
# Rows up to which a problem is small: the whole kernel is at hand, and one thread solves it.
SMALL = wsvm._SMALL


@dataclass(frozen=True, eq=False)
class WSVMPath:
    """Weighted SVMs with the weights ``C[k] * weight``, in the order in which they are solved.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
    y, weight : ndarray of shape (n,)
    C : ndarray of shape (m,)
    """

    gram: Vector
    y: Vector
    weight: Vector
    C: Vector


@dataclass(frozen=True, eq=False)
class SVMPlusPath(WSVMPath):
    """SVM+ with the costs ``C[k] * weight`` and ``correction_reg[k] > 0``.

    Parameters
    ----------
    gram_corr : ndarray of shape (n_priv, n_priv)
    priv : ndarray of int64, shape (n,)
        As in :class:`~lupi.problems.SVMPlusProblem`.
    correction_reg : ndarray of shape (m,)
    """

    gram_corr: Vector
    priv: NDArray[np.int64]
    correction_reg: Vector


@dataclass(frozen=True, eq=False)
class PathSolution:
    """Solutions of a path.

    Attributes
    ----------
    alpha : ndarray of shape (m, n)
    b, violation : ndarray of shape (m,)
        Offsets, and the largest KKT violations in units of the decision function.
    steps : ndarray of int64, shape (m,)
    """

    alpha: Vector
    b: Vector
    violation: Vector
    steps: NDArray[np.int64]


def _threads(paths: Sequence[WSVMPath]) -> int:
    """Threads for these paths: a solve costs at least some passes over its kernel."""
    return n_threads(sum(10.0 * len(path.C) * len(path.y) ** 2 for path in paths))


def solve_wsvm(paths: Sequence[WSVMPath], *, tol: float = 1e-3) -> list[PathSolution]:
    """Solve paths of weighted SVMs.

    Parameters
    ----------
    paths : sequence of WSVMPath
    tol : float
        Largest KKT violation.

    Returns
    -------
    list of PathSolution
    """
    arguments = []
    for path in paths:
        m, n = len(path.C), len(path.y)
        a, steps = np.empty((m, n)), np.empty(m, dtype=np.int64)
        arguments.append((path.gram, path.y, path.weight, path.C, a, steps))
    threads = _threads(paths)
    with one_blas_thread():
        core.wsvm_paths(arguments, tol, wsvm._MANY_STEPS, min(tol, wsvm._POLISH_TOL), threads)
        # Those of one size together: what follows costs more calls than work.
        by_size: dict[int, list[int]] = {}
        for p, path in enumerate(paths):
            by_size.setdefault(len(path.y), []).append(p)
        solutions: dict[int, PathSolution] = {}
        for of in by_size.values():
            group = [(paths[p], *arguments[p][-2:]) for p in of]
            solutions.update(zip(of, _checked(group), strict=True))
    return [solutions[p] for p in range(len(paths))]


def _checked(solved: Sequence[tuple[WSVMPath, Vector, NDArray[np.int64]]]) -> list[PathSolution]:
    """Paths with their solutions in signed variables, and what the certificates say."""
    a = np.concatenate([a for _, a, _ in solved])
    y = np.concatenate([np.broadcast_to(path.y, a.shape) for path, a, _ in solved])
    c = np.concatenate([path.C[:, None] * path.weight for path, *_ in solved])
    alpha = np.abs(a)
    # What rounding left next to a bound is put on it, as in wsvm._snap.
    near = 1e-15 * alpha.sum(axis=1, keepdims=True)
    positive = alpha > 0
    full = positive & (c - alpha <= near)
    np.copyto(alpha, c, where=full)
    alpha[positive & (alpha <= near) & ~full] = 0.0
    ends = np.cumsum([len(path.C) for path, *_ in solved])[:-1]
    signed = np.split(y * alpha, ends)
    products = [part @ path.gram for part, (path, *_) in zip(signed, solved, strict=True)]
    b, violation = wsvm_offsets(y - np.concatenate(products), y, alpha, c)
    parts = (np.split(x, ends) for x in (alpha, b, violation))
    return [
        PathSolution(own_alpha, own_b, own_violation, steps)
        for own_alpha, own_b, own_violation, (*_, steps) in zip(*parts, solved, strict=True)
    ]


def serves_large(tol: float) -> bool:
    """Whether :func:`solve_large_wsvm` reaches this `tol` with rows in single precision."""
    return tol >= wsvm._SINGLE_TOL


def large_room(n: int) -> int:
    """Numbers in single precision that :func:`solve_large_wsvm` needs room for."""
    return core.large_room(n)


def solve_large_wsvm(
    path: WSVMPath,
    *,
    tol: float = 1e-3,
    stop: Callable[[], None] = lambda: None,
    room: NDArray[np.float32] | None = None,
) -> PathSolution:
    """Solve a path of weighted SVMs with more rows than `SMALL`, on the calling thread.

    The method of :mod:`lupi.solvers.wsvm` with the kernel at hand (``_core/batch.hpp``): a copy in
    single precision steers the descent, and the matrix in double does the rest. With few free
    variables the finish takes over early, where it costs less than the end of the descent, and the
    solution is exact, as that of a single fit is; with many the violation ends at `tol`.

    Parameters
    ----------
    path : WSVMPath
        C ascending; the kernel positive semidefinite.
    tol : float
        Largest KKT violation.
    stop : callable
        Called now and then; what it raises ends the work.
    room : ndarray of float32, at least large_room(n), optional
        Memory for the kernel in single precision, so that one path after the other uses the same.

    Returns
    -------
    PathSolution
    """
    m, n = len(path.C), len(path.y)
    a, steps = np.zeros((m, n)), np.zeros(m, dtype=np.int64)
    if room is None:
        room = np.empty(large_room(n), dtype=np.float32)
    core.wsvm_large_path(
        (path.gram, path.y, path.weight, path.C, a, steps),
        tol,
        min(tol, wsvm._POLISH_TOL),
        _EARLY,
        wsvm._CHEAP_POLISH,
        wsvm._MANY_STEPS,
        room,
        stop,
    )
    return _checked([(path, a, steps)])[0]


def solve_svmplus(
    paths: Sequence[SVMPlusPath], *, tol: float = 1e-3, cache_size: float = 1000.0
) -> list[PathSolution]:
    """Solve paths of SVM+.

    Parameters
    ----------
    paths : sequence of SVMPlusPath
    tol : float
        Largest KKT violation.
    cache_size : float
        MB for kernel blocks and factorisations, of all threads together.

    Returns
    -------
    list of PathSolution
    """
    arguments = []
    for path in paths:
        m, n = len(path.C), len(path.y)
        duals, steps = np.empty((3, m, n)), np.empty(m, dtype=np.int64)
        inverse = 1.0 / path.correction_reg
        arguments.append(
            (
                path.gram,
                path.gram_corr,
                path.y,
                path.priv,
                path.weight,
                path.C,
                inverse,
                duals,
                steps,
            )
        )
    threads = _threads(paths)
    core.svmplus_paths(arguments, tol, svmplus._MANY_STEPS, 1e6 * cache_size / threads, threads)
    # Those of one size together: what follows costs more calls than work.
    by_size: dict[int, list[int]] = {}
    for p, path in enumerate(paths):
        by_size.setdefault(len(path.y), []).append(p)
    solutions: dict[int, PathSolution] = {}
    with one_blas_thread():
        for of in by_size.values():
            group = [(paths[p], *arguments[p][-2:]) for p in of]
            solutions.update(zip(of, _checked_svmplus(group), strict=True))
    return [solutions[p] for p in range(len(paths))]


def _checked_svmplus(
    solved: Sequence[tuple[SVMPlusPath, Vector, NDArray[np.int64]]],
) -> list[PathSolution]:
    """Paths of SVM+ with their solutions, and what the certificates say.

    What :func:`~lupi.certificates.svmplus_certificate` says of one model (0.3 ms of Python at
    n = 90, half of a search) is said here of all.
    """
    alpha, zeta, delta = np.concatenate([duals for _, duals, _ in solved], axis=1)
    y = np.concatenate([np.broadcast_to(path.y, duals.shape[1:]) for path, duals, _ in solved])
    C = np.concatenate([path.C[:, None] * path.weight for path, *_ in solved])
    privileged = np.concatenate(
        [np.broadcast_to(path.priv >= 0, duals.shape[1:]) for path, duals, _ in solved]
    )
    beta = np.where(privileged, zeta, C) - alpha
    f, xi = [], []
    for path, duals, _ in solved:
        rows = np.flatnonzero(path.priv >= 0)
        of_rows = path.gram_corr[np.ix_(path.priv[rows], path.priv[rows])]
        slack = np.zeros(duals.shape[1:])
        slack[:, rows] = duals[2][:, rows] @ of_rows / path.correction_reg[:, None]
        xi.append(slack)
        f.append((path.y * duals[0]) @ path.gram)
    b, violation = svmplus_offsets(
        np.concatenate(f), np.concatenate(xi), y, alpha, beta, C, privileged
    )
    # delta has digits that alpha + beta - C has lost; a point where they are not the same proves
    # nothing.
    far = np.abs(delta - (alpha + beta - C)) > 1e-15 * (C + alpha + beta)
    violation = np.where((far & privileged).any(axis=1), np.inf, violation)
    ends = np.cumsum([len(path.C) for path, *_ in solved])[:-1]
    parts = (np.split(x, ends) for x in (alpha, b, violation))
    return [
        PathSolution(own_alpha, own_b, own_violation, steps)
        for own_alpha, own_b, own_violation, (*_, steps) in zip(*parts, solved, strict=True)
    ]
