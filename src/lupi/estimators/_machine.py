"""The models that weight learning trains and judges: all rows, the kernel among them, final models.

Nothing here learns a weight. `Machine.final` is the model of given rows, weights and
hyper-parameters; the rest asks such models for margins of rows that they have not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from ..bilevel.criterion import BlockCross, Cross, DenseCross
from ..bilevel.search import RBFWidth, Settings
from ..kernels import KernelMatrix
from ..losses import Loss, SmoothHinge
from ..problems import SmoothWSVMProblem, WSVMProblem
from ..solution import SmoothSolution
from ..solvers import newton, smooth_rows, wsvm
from ..threads import in_threads
from ._base import TrainingKernel

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
# Positive and negative class, the rows of the pair in the numbering of all rows, the model.
Fitted = tuple[int, int, Rows, SmoothSolution]
Pairs = Callable[[NDArray[np.int64]], Any]

# KKT violation of the final weighted SVM, the default of WeightedSVC.
_HINGE_TOL = 1e-3
# Factors between neighbouring values of C and of the width, and how many steps off the start are
# tried.
_STEP = {"C": 3.0, "gamma": 2.0}
_REACH = {"C": 3, "gamma": 2}


@dataclass(frozen=True, eq=False)
class Data:
    """All rows together, training and validation, and the kernel among them."""

    X: Any
    label: NDArray[np.int64]
    kernel: TrainingKernel
    linear: bool
    limit: float

    def block(self, rows: Rows, columns: Rows) -> Vector:
        """The kernel between some rows and others."""
        if self.kernel.gram is not None:
            return self.kernel.gram[np.ix_(rows, columns)]
        assert self.kernel.spec is not None
        return self.kernel.spec.cross(self.X[rows], self.X[columns])

    def expand(self, basis: Rows, coef: Vector, rows: Rows) -> Vector:
        """The expansion on `basis` at some rows."""
        if self.kernel.gram is not None:
            return coef @ self.kernel.gram[np.ix_(basis, rows)]
        assert self.kernel.spec is not None
        return self.kernel.spec.expand(self.X[basis], coef[None, :], self.X[rows])[0]

    def matrix(self, rows: Rows) -> Vector:
        """K among the rows, or the rows themselves in the linear form."""
        if self.linear:
            return np.ascontiguousarray(self.X[rows], dtype=np.float64)
        if 16.0 * len(rows) ** 2 > self.limit:
            raise ValueError(
                f"the kernel matrix of {len(rows)} training rows and its factor need "
                f"{16e-6 * len(rows) ** 2:.0f} MB, more than cache_size={self.limit / 1e6:g} MB. "
                "Increase cache_size, or use kernel='linear', whose memory does not grow so."
            )
        return self.kernel.matrix(rows).dense()

    def cross(self, rows: Rows, val: Rows) -> Cross:
        """The validation rows in the form that the memory allows."""
        if self.linear:
            return DenseCross(np.ascontiguousarray(self.X[val], dtype=np.float64).T)
        size = float(len(rows)) * len(val)
        if 8.0 * size <= self.limit:
            return DenseCross(self.block(rows, val))
        if 4.0 * size <= self.limit:
            K_val = np.empty((len(rows), len(val)), dtype=np.float32)
            for start in range(0, len(val), 1_000):
                part = slice(start, start + 1_000)
                K_val[:, part] = self.block(rows, val[part])
            return DenseCross(K_val)
        return BlockCross(
            lambda start, stop, some: self.block(rows[some], val[start:stop]), len(rows), len(val)
        )

    def squares(self, rows: Rows, others: Rows) -> Vector:
        """Squared distances between some rows and others."""
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        A, B = X[rows].astype(np.float64), X[others].astype(np.float64)
        products = A @ B.T
        D = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2 * products
        return np.maximum(D, 0.0)

    def distances(self, rows: Rows) -> Vector:
        """Squared distances among some rows; symmetric, zero on the diagonal."""
        D = self.squares(rows, rows)
        np.fill_diagonal(D, 0.0)
        return 0.5 * (D + D.T)

    def width(self, rows: Rows, val: Rows) -> RBFWidth:
        """What an rbf kernel of any width is made from."""
        return RBFWidth(self.distances(rows), self.squares(rows, val))

    def at_gamma(self, gamma: float) -> Data:
        """The same with another width of the kernel."""
        spec = self.kernel.spec
        if spec is None or spec.gamma == gamma:
            return self
        return replace(
            self, kernel=replace(self.kernel, spec=replace(spec, gamma=gamma), gamma=gamma)
        )

    def with_gram(self, gamma: float, distances: Vector) -> Data:
        """The same with the rbf kernel matrix of this width at hand."""
        gram = distances * -gamma
        np.exp(gram, out=gram)
        return replace(self, kernel=replace(self.at_gamma(gamma).kernel, gram=gram))


def _block(data: Data, used: Rows, some: Rows) -> Vector:
    return data.kernel.matrix(used[some]).dense()


def _expand(data: Data, used: Rows, basis: Rows, coef: Vector, some: Rows) -> Vector:
    return data.expand(used[basis], coef, used[some])


def even_parts(label: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The part of each row: in turn by class, so that every part has its share of each."""
    part = np.empty(len(label), dtype=np.int64)
    part[np.argsort(label, kind="stable")] = np.arange(len(label)) % parts
    return part


@dataclass(frozen=True, eq=False)
class Machine:
    """Trains final models, and asks them.

    Attributes
    ----------
    pairs : callable
        The pairs of classes among labels, as ``KernelSVC._pairs`` gives them.
    union : bool
        Whether validation rows train too, with weight one.
    threads : int
        Models that may be trained at a time.
    """

    data: Data
    loss: Loss
    pairs: Pairs
    union: bool
    cache_size: float
    threads: int

    def at_gamma(self, gamma: float, distances: Vector | None) -> Machine:
        """The same with another width; with distances, its kernel matrix is formed once."""
        if distances is None:
            return replace(self, data=self.data.at_gamma(gamma))
        return replace(self, data=self.data.with_gram(gamma, distances))

    def final(self, settings: Settings, rows: Rows, w: Vector) -> list[Fitted]:
        """The model of these rows and weights, pair by pair."""
        data, loss = self.data.at_gamma(settings.gamma), self.loss
        if isinstance(loss, SmoothHinge):
            loss = SmoothHinge(settings.delta)
        c = settings.C * w
        fitted = []
        for positive, negative, of_pair, y in self.pairs(data.label[rows]):
            positions = np.arange(len(rows)) if of_pair is None else of_pair
            used = rows[positions]
            if data.linear:
                solution = newton.solve(
                    SmoothWSVMProblem(data.matrix(used), y, c[positions], loss, True), tol=1e-9
                )
            elif self.union and isinstance(loss, SmoothHinge):
                solution = self._hinge(data.kernel.matrix(used), y, c[positions])
            else:
                solution = smooth_rows.solve(
                    partial(_block, data, used),
                    partial(_expand, data, used),
                    y,
                    c[positions],
                    loss,
                    limit=data.limit,
                )
            fitted.append((positive, negative, used, solution))
        return fitted

    def _hinge(self, K: KernelMatrix, y: Vector, c: Vector) -> SmoothSolution:
        """The weighted SVM itself, whose loss the smooth hinge stands in for."""
        found = wsvm.solve(WSVMProblem(K, y, c), tol=_HINGE_TOL, cache_size=self.cache_size)
        return SmoothSolution(
            expansion=y * found.dual.alpha,
            b=found.primal.b,
            w=None,
            values=np.full(len(y), np.nan),  # nothing here needs them
            primal_objective=found.primal_objective,
            dual_objective=found.dual_objective,
            violation=found.violation,
            status=found.status,
            n_iter=found.n_iter,
        )

    def margins(self, fitted: list[Fitted], rows: Rows) -> list[tuple[Rows, Vector]]:
        """For each pair of classes the positions in `rows` that it judges, and y f there."""
        found = []
        for positive, negative, used, solution in fitted:
            label = self.data.label[rows]
            own = np.flatnonzero((label == positive) | (label == negative))
            active = solution.expansion.nonzero()[0]
            values = self.data.expand(used[active], solution.expansion[active], rows[own])
            y = np.where(label[own] == positive, 1.0, -1.0)
            found.append((own, y * (values + solution.b)))
        return found

    def with_validation(self, train: Rows, w: Vector, val: Rows) -> tuple[Rows, Vector]:
        """The rows of a final model and their weights."""
        if not self.union:
            return train, w
        return np.r_[train, val], np.r_[w, np.ones(len(val))]

    def _unseen(
        self, settings: Settings, rows: Rows, without: Callable[[int], Any], parts: Any
    ) -> Vector:
        """Margins of `rows`, each part by a model ``without`` it; the least over its pairs."""
        least = np.full(len(rows), np.inf)

        def judge(part: int) -> list[tuple[Rows, Vector]]:
            away = np.flatnonzero(parts == part)
            found = self.margins(self.final(settings, *without(part)), rows[away])
            return [(away[own], values) for own, values in found]

        for found in in_threads(judge, range(int(parts.max()) + 1), self.threads):
            for own, values in found:
                least[own] = np.minimum(least[own], values)
        return least

    def judge_training(
        self, settings: Settings, train: Rows, w: Vector, val: Rows, parts: int = 5
    ) -> Vector:
        """Margin of every training row at a final model that was trained without it."""
        part = even_parts(self.data.label[train], parts)

        def without(k: int) -> tuple[Rows, Vector]:
            return self.with_validation(train[part != k], w[part != k], val)

        return self._unseen(settings, train, without, part)

    def judge_validation(
        self, settings: Settings, train: Rows, w: Vector, val: Rows, parts: int
    ) -> Vector:
        """Margin of every validation row at a final model that was trained without it."""
        part = even_parts(self.data.label[val], parts)
        return self._unseen(
            settings, val, lambda k: self.with_validation(train, w, val[part != k]), part
        )


def log_loss(margin: Vector) -> tuple[Vector, float]:
    """log(1 + exp(-s m)) per row and its slope s, the one with the least sum.

    Margins at several C and widths differ in scale, which the slope takes out, so that the loss
    tells which model ranks and separates best. One more row of margin -1 keeps s finite where all
    are right.
    """

    def total(log_s: float) -> float:
        s = np.exp(log_s)
        return float(np.logaddexp(0.0, -s * margin).sum() + np.logaddexp(0.0, s))

    s = float(np.exp(minimize_scalar(total, bounds=(-5.0, 5.0), method="bounded").x))
    return np.logaddexp(0.0, -s * margin), s


def belief(margin: Vector, slope: float) -> Vector:
    """(log((1 - r) / r), slope): `MarginWeighting` at the share r of wrong labels.

    r = mean of 1 - P(label is right | margin), by expectation maximisation.
    """
    r = 0.25
    for _ in range(200):
        before = r
        r = float(1.0 - expit(np.log((1.0 - r) / r) + slope * margin).mean())
        r = min(max(r, 1e-3), 0.5)
        if abs(r - before) < 1e-6:
            break
    return np.array([np.log((1.0 - r) / r), slope])


@dataclass(frozen=True, eq=False)
class Choice:
    """Hyper-parameters that were chosen on held-out validation rows.

    Attributes
    ----------
    settings : Settings
    machine : Machine
        With this width.
    losses : ndarray of shape (N,)
        `log_loss` of the validation rows, each judged by a model without it.
    slope : float
    """

    settings: Settings
    machine: Machine
    losses: Vector
    slope: float


def choose(
    machine: Machine,
    settings: Settings,
    chosen: tuple[str, ...],
    train: Rows,
    w: Vector,
    val: Rows,
    parts: int,
    around: Settings,
    distances: Vector | None,
) -> Choice:
    """C and the width, those of them that are `chosen`, by the log loss of held-out rows.

    Steps to the best neighbour on a grid of factors about `around` until there is none, from
    `settings`, a point of it.
    """
    names = [name for name in ("C", "gamma") if name in chosen]
    tried: dict[tuple[int, ...], Choice] = {}
    machines: dict[float, Machine] = {settings.gamma: machine}

    def at(steps: tuple[int, ...]) -> Choice:
        if steps not in tried:
            values = {
                name: getattr(around, name) * _STEP[name] ** step
                for name, step in zip(names, steps, strict=True)
            }
            here = replace(settings, **values)
            if here.gamma not in machines:
                machines[here.gamma] = machine.at_gamma(here.gamma, distances)
            asked = machines[here.gamma]
            margin = asked.judge_validation(here, train, w, val, parts)
            tried[steps] = Choice(here, asked, *log_loss(margin))
        return tried[steps]

    here = tuple(
        round(float(np.log(getattr(settings, name) / getattr(around, name)) / np.log(_STEP[name])))
        for name in names
    )
    while True:
        beside = [
            (*here[:k], here[k] + sign, *here[k + 1 :])
            for k, name in enumerate(names)
            for sign in (-1, 1)
            if abs(here[k] + sign) <= _REACH[name]
        ]
        best = min([here, *beside], key=lambda steps: float(at(steps).losses.mean()))
        if best == here:
            return at(here)
        here = best
