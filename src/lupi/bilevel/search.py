r"""The outer problem: which weights make the validation loss small, eq:wlearning:wopt.

    min over theta   sum_tasks E_t(w(theta)) + penalty * sum_i (w_i - w0_i)^2,    w >= 0,  c = C w

A :class:`Task` is one inner problem with the validation rows that judge it; a binary problem is one
task, one-vs-one has one per pair of classes, and all share the weights. A :class:`Weighting` says
which weights can be reached. Warm starts are passed in and handed back with every evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit

from ..losses import SmoothHinge
from ..problems import SmoothWSVMProblem, Vector
from ..solution import SmoothSolution
from ..solvers import newton
from ..solvers.newton import Curvature
from ..threads import in_threads
from .criterion import Criterion, DenseCross
from .implicit import Hypergradient, hypergradient

# Inner problems are solved so far that their error does not show in the outer derivative.
_INNER_TOL, _TIGHT = 1e-7, 1e-11

# How fast steps grow with a free weight. A binary fraction, so that the weights 0 and 1 are exact.
# On the benchmark's toy data, 8 draws each, 100 iterations end lower than without growth (loss per
# row 0.1433 and 0.1502 instead of 0.1434 and 0.1515, n = 400 and 100); 1/2 and 1/20 do no better.
_GROWTH = 0.125

# Steps that L-BFGS-B remembers. On the benchmark's toy data, n = 400, 6 draws, 100 iterations with
# scipy's 10 are worth 69 to 90 with 40; 80 do no better.
_MEMORY = 40

# ---- Which weights ------------------------------------------------------------------------------


class Weighting:
    """Maps parameters theta to weights w >= 0, and gradients back; here each weight is free.

    w = theta (1 + k theta) / (1 + k), theta >= 0: steps grow with the weights, of which some want
    to become 100 and more where nothing pulls them.
    """

    def __init__(self, start: Vector) -> None:
        self.start = start
        k = _GROWTH
        self.theta0 = (np.sqrt(1.0 + 4.0 * k * (1.0 + k) * start) - 1.0) / (2.0 * k)
        self.lower = np.zeros(len(start))

    def weights(self, theta: Vector) -> Vector:
        """Theta (1 + k theta) / (1 + k)."""
        return theta * (1.0 + _GROWTH * theta) / (1.0 + _GROWTH)

    def pull_back(self, theta: Vector, gradient: Vector) -> Vector:
        """The gradient with respect to theta, from the one with respect to w."""
        return gradient * (1.0 + 2.0 * _GROWTH * theta) / (1.0 + _GROWTH)


class GroupWeighting(Weighting):
    """One factor per group of rows: w_i = start_i * theta[group_i]."""

    def __init__(self, start: Vector, group: NDArray[np.int64]) -> None:
        super().__init__(start)
        self.group = group
        self.theta0 = np.ones(int(group.max()) + 1)
        self.lower = np.zeros(len(self.theta0))

    def weights(self, theta: Vector) -> Vector:
        """Start * theta[group]."""
        return self.start * theta[self.group]

    def pull_back(self, theta: Vector, gradient: Vector) -> Vector:
        """Sums over the groups."""
        return np.bincount(self.group, weights=gradient * self.start, minlength=len(theta)).astype(
            np.float64, copy=False
        )


class FeatureWeighting(Weighting):
    """Weights as a function of features of the rows: w_i = start_i * softplus(<x_i, t> + t0).

    The features are standardised; at theta0 the link gives 1, so that the start is `start`.
    """

    def __init__(self, start: Vector, X: Vector) -> None:
        super().__init__(start)
        scale = X.std(axis=0)
        centred = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        self.X = np.c_[centred, np.ones(len(X))]
        self.theta0 = np.zeros(self.X.shape[1])
        self.theta0[-1] = np.log(np.expm1(1.0))
        self.lower = np.full(len(self.theta0), -np.inf)

    def weights(self, theta: Vector) -> Vector:
        """Start * log(1 + exp(X theta))."""
        return self.start * np.logaddexp(0.0, self.X @ theta)

    def pull_back(self, theta: Vector, gradient: Vector) -> Vector:
        """X' (gradient * start * logistic(X theta))."""
        return (gradient * self.start * expit(self.X @ theta)) @ self.X


class MarginWeighting(Weighting):
    """How far each row is believed: w_i = start_i * sigmoid(theta_0 + theta_1 m_i), theta_1 >= 0.

    m_i = y_i f(x_i) with a model f that has not seen row i. If scores are logistic with slope s,
    P(y = 1 | f) = sigmoid(s f), and a share r of the labels was flipped at random, then
    P(label i is right | m_i) is this with theta = (log((1 - r) / r), s), where `theta0` comes from.
    """

    def __init__(self, start: Vector, margin: Vector, theta0: Vector) -> None:
        super().__init__(start)
        self.margin = margin
        self.theta0 = theta0
        self.lower = np.array([-np.inf, 0.0])

    def weights(self, theta: Vector) -> Vector:
        """Start * sigmoid(theta_0 + theta_1 m)."""
        return self.start * expit(theta[0] + theta[1] * self.margin)

    def pull_back(self, theta: Vector, gradient: Vector) -> Vector:
        """Sums of gradient * start * sigmoid', also times m."""
        p = expit(theta[0] + theta[1] * self.margin)
        slope = gradient * self.start * p * (1.0 - p)
        return np.array([slope.sum(), slope @ self.margin])


class Budget(Weighting):
    """Another weighting, scaled down where the sum of its weights is above a total.

    w = q min(1, total / sum q): every w with sum at most total is reached, and q needs no
    constraint but q >= 0.
    """

    def __init__(self, inner: Weighting, total: float) -> None:
        self.inner, self.total = inner, total
        self.start, self.theta0, self.lower = inner.start, inner.theta0, inner.lower

    def weights(self, theta: Vector) -> Vector:
        """Q scaled into the budget."""
        q = self.inner.weights(theta)
        return q * min(1.0, self.total / max(float(q.sum()), 1e-300))

    def pull_back(self, theta: Vector, gradient: Vector) -> Vector:
        """With s = sum q > total: dw_i/dq_j = total / s (1[i=j] - q_i / s)."""
        q = self.inner.weights(theta)
        s = float(q.sum())
        if s > self.total:
            gradient = (self.total / s) * (gradient - float(gradient @ q) / s)
        return self.inner.pull_back(theta, gradient)


# ---- What is evaluated --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RBFWidth:
    """Squared distances of a task, so that the width of its rbf kernel can be learned."""

    train: Vector
    val: Vector

    def matrices(self, gamma: float) -> tuple[Vector, Vector]:
        """(K, K_val) = exp(-gamma D)."""
        return np.exp(-gamma * self.train), np.exp(-gamma * self.val)

    def change(self, K: Vector, K_val: Vector, a: Vector) -> tuple[Vector, Vector]:
        """(dK a, dK_val' a) with dK = -D * K, from the rows where a is not zero."""
        rows = a.nonzero()[0]
        return (
            -(a[rows] @ (self.train[rows] * K[rows])),
            -(a[rows] @ (self.val[rows] * K_val[rows])),
        )


@dataclass(frozen=True, eq=False)
class Task:
    """One inner problem and the validation rows that judge it.

    Attributes
    ----------
    problem : SmoothWSVMProblem
        Its c holds the unit weights: 1, or a class weight.
    rows : ndarray of int64, shape (m,)
        The row of the problem at position i has the weight w[rows[i]]; positions from m on keep the
        unit weight.
    criterion : Criterion
        What is minimised.
    watch : Criterion, optional
        A second part, for early stopping.
    width : RBFWidth, optional
        Needed where gamma is learned.
    """

    problem: SmoothWSVMProblem
    rows: NDArray[np.int64]
    criterion: Criterion
    watch: Criterion | None = None
    width: RBFWidth | None = None


@dataclass(frozen=True, eq=False)
class Settings:
    """The hyper-parameters that a run may learn beside the weights."""

    C: float
    gamma: float = 1.0
    delta: float = 0.5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The outer objective at one point.

    ``value`` = ``loss`` (the validation loss, summed over the rows of all tasks) + the penalty. The
    next evaluation may start from the inner ``solutions`` with the factors in ``curvatures``, which
    are dropped from what is kept.
    """

    value: float
    loss: float
    gradient: Vector
    weights: Vector
    settings: Settings
    solutions: tuple[SmoothSolution, ...]
    curvatures: tuple[Curvature, ...] | None = None

    def kept(self) -> Evaluation:
        """The same without factors."""
        return replace(self, curvatures=None)


@dataclass(frozen=True, eq=False)
class Objective:
    """The outer objective as a function of theta, the weighting's parameters and log(learned).

    Attributes
    ----------
    tasks : tuple of Task
    weighting : Weighting
    settings : Settings
        Hyper-parameters, at their start where they are learned.
    penalty : float
        lambda of the pull lambda * sum (w - start)^2.
    learned : tuple of {"C", "gamma", "delta"}
        Which hyper-parameters are learned along, on a logarithmic scale.
    inner_tol : float
        Violation up to which inner problems are solved.
    threads : int
        Tasks that are evaluated at a time; what is left over works within a task. The result does
        not depend on it.
    """

    tasks: tuple[Task, ...]
    weighting: Weighting
    settings: Settings
    penalty: float = 0.0
    learned: tuple[str, ...] = ()
    inner_tol: float = _INNER_TOL
    threads: int = 1

    @property
    def n_val(self) -> int:
        """Validation rows of all tasks."""
        return sum(len(task.criterion.y) for task in self.tasks)

    def start(self) -> Vector:
        """Theta at the start."""
        logs = [np.log(getattr(self.settings, name)) for name in self.learned]
        return np.r_[self.weighting.theta0, logs]

    def bounds(self) -> list[tuple[float, float]]:
        """Bounds on theta; hyper-parameters stay within a factor of e^7, about 1100, of the start.

        delta stays in the interval [0.01, 1] of the paper, or at its start outside of it.
        """
        weights = [(low, np.inf) for low in self.weighting.lower]
        logs = []
        for name in self.learned:
            here = float(np.log(getattr(self.settings, name)))
            if name == "delta":
                logs.append((min(here, float(np.log(0.01))), max(here, 0.0)))
            else:
                logs.append((here - 7.0, here + 7.0))
        return weights + logs

    def settings_at(self, theta: Vector) -> Settings:
        """The hyper-parameters at theta."""
        values = np.exp(theta[len(theta) - len(self.learned) :])
        return replace(self.settings, **dict(zip(self.learned, map(float, values), strict=True)))

    def evaluate(self, theta: Vector, init: Evaluation | None = None) -> Evaluation:
        """Value and gradient; `init` is an earlier evaluation, from which inner problems start."""
        count = len(theta) - len(self.learned)
        parameters, settings = theta[:count], self.settings_at(theta)
        w = self.weighting.weights(parameters)
        d_w = np.zeros(len(w))
        d_log = dict.fromkeys(self.learned, 0.0)
        loss, solutions, curvatures = 0.0, [], []
        found = in_threads(
            lambda i: self._inner(i, w, settings, init), range(len(self.tasks)), self.threads
        )
        for task, (solution, h) in zip(self.tasks, found, strict=True):
            loss += h.value
            unit, rows = task.problem.c, task.rows
            np.add.at(d_w, rows, settings.C * (unit * h.c)[: len(rows)])
            for name, slope in (("C", h.C), ("gamma", h.kernel), ("delta", h.delta)):
                if name in d_log:
                    assert slope is not None
                    d_log[name] += slope * getattr(settings, name)
            solutions.append(solution)
            curvatures.append(h.curvature)
        pull = w - self.weighting.start
        d_w += 2.0 * self.penalty * pull
        return Evaluation(
            value=loss + self.penalty * float(pull @ pull),
            loss=loss,
            gradient=np.r_[self.weighting.pull_back(parameters, d_w), list(d_log.values())],
            weights=w,
            settings=settings,
            solutions=tuple(solutions),
            curvatures=None if self.learned else tuple(curvatures),
        )

    def _inner(
        self, i: int, w: Vector, settings: Settings, init: Evaluation | None
    ) -> tuple[SmoothSolution, Hypergradient]:
        """The model of task i, and the derivatives of its validation loss."""
        task = at_settings(self.tasks[i], settings, self.learned)
        c = settings.C * task.problem.c
        c[: len(task.rows)] *= w[task.rows]
        problem = task.problem.with_weights(c)
        before = curvature = None
        if init is not None:
            before = init.solutions[i]
            curvature = None if init.curvatures is None else init.curvatures[i]
        if before is not None and "gamma" in self.learned:
            before = _restarted(problem, before)
        solution = newton.solve(
            problem, before, curvature=curvature, tol=self.inner_tol, certify=False
        )
        change = None
        if "gamma" in self.learned and task.width is not None:
            assert isinstance(task.criterion.cross, DenseCross)
            change = task.width.change(
                problem.matrix, task.criterion.cross.matrix, solution.expansion
            )
        return solution, hypergradient(
            problem,
            solution,
            task.criterion,
            C=settings.C,
            kernel_change=change,
            threads=max(1, self.threads // len(self.tasks)),
        )


def at_settings(task: Task, settings: Settings, learned: tuple[str, ...]) -> Task:
    """The task with the kernel and the loss of these hyper-parameters, where they are learned."""
    if "gamma" in learned and task.width is not None:
        K, K_val = task.width.matrices(settings.gamma)
        task = replace(
            task,
            problem=replace(task.problem, matrix=K),
            criterion=replace(task.criterion, cross=DenseCross(K_val)),
        )
    if "delta" in learned:
        task = replace(task, problem=replace(task.problem, loss=SmoothHinge(settings.delta)))
    return task


def _restarted(problem: SmoothWSVMProblem, init: SmoothSolution) -> SmoothSolution:
    """A start with the same expansion under another kernel matrix."""
    return replace(init, values=problem.matrix @ init.expansion + init.b)


# ---- The search ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Where the outer search ended.

    Attributes
    ----------
    theta : ndarray
    best : Evaluation
        The best point; never worse than the start on objective and validation loss.
    first : Evaluation
        The start.
    status : {"converged", "max_iter", "early_stopped", "interrupted", "no_progress"}
    message : str
        What happened, in a sentence.
    n_iter, n_evaluations : int
    history : mapping of str to ndarray of shape (n_iter + 1,)
        ``validation_loss`` and ``gradient_norm`` (of the projected gradient), both per validation
        row; ``watched_loss`` where there is a second part.
    """

    theta: Vector
    best: Evaluation
    first: Evaluation
    status: str
    message: str
    n_iter: int
    n_evaluations: int
    history: Mapping[str, Vector] = field(default_factory=dict)


_MESSAGES = {
    "converged": "The projected gradient is at most tol, or the objective has stopped to decrease.",
    "max_iter": "Stopped at max_iter outer iterations; the best weights so far are kept.",
    "early_stopped": "The loss on the second held-out part stopped to decrease; its best is kept.",
    "interrupted": "A callback asked to stop; the best weights so far are kept.",
    "no_progress": (
        "No step decreased the objective: the starting weights are kept. No training row may lie "
        "in the curved part of the loss (increase delta), or the weights do not matter here."
    ),
}


class _Stop(Exception):
    """Ends the minimiser from inside."""


def projected_gradient(theta: Vector, gradient: Vector, lower: Vector, upper: Vector) -> float:
    """Largest entry of theta - clip(theta - gradient): zero at a stationary point of the box."""
    return float(np.abs(theta - np.clip(theta - gradient, lower, upper)).max(initial=0.0))


def minimise(
    objective: Objective,
    *,
    theta: Vector | None = None,
    init: Evaluation | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    patience: int | None = None,
    report: Callable[[int, Mapping[str, float]], bool] | None = None,
) -> SearchResult:
    """Minimise the outer objective over weights w >= 0 by L-BFGS-B.

    Parameters
    ----------
    objective : Objective
    theta : ndarray, optional
        Where to begin; the objective's start by default.
    init : Evaluation, optional
        One near the start.
    max_iter : int
        Bound on the outer iterations.
    tol : float
        Stop when the projected gradient per validation row is at most this, or when the objective
        decreases by less than this share in an iteration, squared.
    patience : int, optional
        Early stopping: after so many iterations without a better loss on the tasks' ``watch``.
    report : callable, optional
        ``report(iteration, {name: value})`` after each iteration; True asks to stop.

    Returns
    -------
    SearchResult
    """
    theta0 = objective.start() if theta is None else theta
    box = objective.bounds()
    lower, upper = np.array([b[0] for b in box]), np.array([b[1] for b in box])
    per_row = 1.0 / max(1, objective.n_val)
    latest, latest_theta = objective.evaluate(theta0, init), theta0
    first = latest.kept()
    best, best_theta = first, theta0
    watched_best, since = np.inf, 0
    n_evaluations = 1
    names = ["validation_loss", "gradient_norm"] + ["watched_loss"] * (patience is not None)
    history: dict[str, list[float]] = {name: [] for name in names}
    status = "converged"

    def record() -> dict[str, float]:
        entry = {
            "validation_loss": latest.loss * per_row,
            "gradient_norm": projected_gradient(latest_theta, latest.gradient, lower, upper)
            * per_row,
        }
        if patience is not None:
            entry["watched_loss"] = watched_loss(objective, latest)
        for name, value in entry.items():
            history[name].append(value)
        return entry

    # The first step of L-BFGS-B has length one: that of 0.3 in every entry, in units of `unit`.
    unit = 0.3 * float(np.sqrt(len(theta0)))

    def evaluate(z: Vector) -> tuple[float, Vector]:
        nonlocal latest, latest_theta, n_evaluations
        x = np.clip(z * unit, lower, upper)
        if not np.array_equal(x, latest_theta):
            latest, latest_theta = objective.evaluate(x, latest), x
            n_evaluations += 1
        return latest.value * per_row, latest.gradient * (per_row * unit)

    def after(intermediate_result: Any) -> None:
        nonlocal best, best_theta, watched_best, since, status
        evaluate(intermediate_result.x)
        entry = record()
        if patience is not None:
            since += 1
            if entry["watched_loss"] < watched_best:
                watched_best, since = entry["watched_loss"], 0
                best, best_theta = latest.kept(), latest_theta
            elif since >= patience:
                status = "early_stopped"
        elif latest.value < best.value:
            best, best_theta = latest.kept(), latest_theta
        asked = report is not None and report(len(history["validation_loss"]) - 1, entry)
        if asked:
            status = "interrupted"
        if status != "converged":
            raise _Stop

    entry = record()
    watched_best = entry.get("watched_loss", np.inf)
    if report is not None and report(0, entry):
        status = "interrupted"
    elif entry["gradient_norm"] > tol and max_iter > 0:
        try:
            while True:
                done = len(history["validation_loss"]) - 1
                found = scipy_minimize(
                    evaluate,
                    best_theta / unit,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[(low / unit, high / unit) for low, high in box],
                    callback=after,
                    # ftol asks for a share of max(f, 1); f is a loss per row.
                    options={
                        "maxiter": max_iter - done,
                        "maxcor": _MEMORY,
                        "gtol": tol * unit,
                        "ftol": 1e-3 * tol,
                        "maxfun": 10**8,
                    },
                )
                if len(history["validation_loss"]) - 1 >= max_iter:
                    status = "max_iter"
                # A line search that fails may have met the error of the inner solutions.
                if status != "converged" or found.status != 2 or objective.inner_tol <= _TIGHT:
                    break
                objective = replace(objective, inner_tol=_TIGHT)
                latest = objective.evaluate(best_theta, best)
                latest_theta = best_theta
        except _Stop:
            pass
        # The same point with tighter inner solutions is no progress.
        if status == "converged" and np.array_equal(best_theta, theta0):
            best, status = first, "no_progress"
    return SearchResult(
        theta=best_theta,
        best=best,
        first=first,
        status=status,
        message=_MESSAGES[status],
        n_iter=len(history["validation_loss"]) - 1,
        n_evaluations=n_evaluations,
        history={name: np.array(values) for name, values in history.items()},
    )


def watched_loss(objective: Objective, evaluation: Evaluation) -> float:
    """Loss per row on the second held-out parts of the tasks."""
    total, rows = 0.0, 0
    for task, solution in zip(objective.tasks, evaluation.solutions, strict=True):
        if task.watch is not None:
            coef = solution.expansion if solution.w is None else solution.w
            total += task.watch.value(task.watch.values(coef, solution.b))
            rows += len(task.watch.y)
    return total / max(1, rows)
