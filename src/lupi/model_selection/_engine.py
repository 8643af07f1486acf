"""All candidates of a search on one split: kernels once, paths of models, scores by one product.

What a candidate shares with others is found by its parameters:

1. the steps of a pipeline before the classifier: one fit for each setting of theirs;
2. the kernels of either space: the products between rows once, then one pass for every width;
3. a *path*: everything but C (and, for SVM+, one path for each ``correction_reg``). Its models are
   solved in the order of C, each from the last (above 1,000 rows: SVM+ only);
4. the decision values of all models with the same kernel: one product with the kernel between
   training and test rows.

A candidate that does not fit in (a callable kernel, ``correction_reg=0``, ``max_iter``, an error, a
model that does not reach ``tol``) is fitted by its own ``fit``, so that what it says and warns is
what it says and warns elsewhere.
"""

from __future__ import annotations

import inspect
import mmap
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection._validation import _score
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples, validate_data

from ..estimators import SVMPlusClassifier, WeightedSVC
from ..estimators._base import KernelSVC, training_kernel
from ..kernels import KernelMatrix, KernelSpec, expand_all, given_matrix, gram_matrices
from ..problems import SVMPlusProblem, WSVMProblem
from ..solution import Solution, WSVMDual
from ..solvers import batch, svmplus, wsvm
from ..threads import limited, n_threads, one_blas_thread

Array = NDArray[Any]
Result = dict[str, Any]
Numbered = list[tuple[int, Result]]
# Models that are done, and models that need their own fit.
Solved = tuple[list["_Model"], list["_Model"]]
# Called now and then; raises where the work is to stop.
Stop = Callable[[], None]
# What one thread does from beginning to end.
Work = Callable[[Stop], Iterator[Solved]]

# Models solved between two reports of progress.
_REPORT = 200
# Numbers held at once for each row of each binary problem of a model in the making: duals in three
# forms, costs, gradients, and what the certificate sorts; and for each row that is scored.
_PER_ROW, _PER_SCORE = 24, 3


def can_serve(estimator: Any, scorer: Any) -> bool:
    """Whether the engine can search over this estimator with this scorer."""
    scorers = scorer._scorers.values() if isinstance(scorer, _MultimetricScorer) else [scorer]
    if not all(isinstance(s, _BaseScorer | _PassthroughScorer) for s in scorers):
        return False  # a callable that may look at anything in the fitted model
    if isinstance(estimator, Pipeline):
        if estimator.memory is not None or not estimator.steps:
            return False
        estimator = estimator.steps[-1][1]
    return type(estimator) in (WeightedSVC, SVMPlusClassifier)


def inner_name(estimator: Any) -> str | None:
    """The name of the classifier's step in a pipeline; None outside of one."""
    return estimator.steps[-1][0] if isinstance(estimator, Pipeline) else None


def _fit_names(estimator: Any) -> set[str]:
    return set(inspect.signature(estimator.fit).parameters)


def _key(value: Any) -> Hashable:
    """Equal for values that mean the same: plain values by type and value, others by identity."""
    if value is None or isinstance(value, str):
        return value
    if type(value) in (float, int, np.float64):  # most are
        return ("number", float(value))
    if isinstance(value, bool | np.bool_):
        return ("bool", bool(value))
    if isinstance(value, int | float | np.number):
        return ("number", float(value))
    return ("object", id(value))


@dataclass(frozen=True)
class Task:
    """A search on one split.

    Attributes
    ----------
    estimator : WeightedSVC, SVMPlusClassifier or Pipeline
    X, y : array-like
    train, test : ndarray
        Row numbers.
    candidates : list of (int, dict)
        Number and parameters of each candidate.
    fit_params : dict
        What ``fit`` gets, for all rows.
    score_params : dict
        What the scorers get, for all rows.
    """

    estimator: Any
    X: Any
    y: Any
    train: Array
    test: Array
    candidates: list[tuple[int, dict[str, Any]]]
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    scorer: Any
    error_score: Any
    return_train_score: bool


class _Scored(KernelSVC):
    """A model that is known by its decision values on the rows that are being scored."""

    def __init__(self, decision_function_shape: str, break_ties: bool) -> None:
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _expansions(self, X: Any) -> NDArray[np.float64]:
        return self.values


@dataclass(eq=False)
class _Model:
    """One candidate: its number, its classifier before ``fit``, and what was found for it."""

    number: int
    params: dict[str, Any]
    inner: dict[str, Any]  # those of the classifier
    settings: dict[str, Any]  # all parameters of the classifier
    main: KernelSpec | None = None
    corr: KernelSpec | None = None
    coef: Any = None  # (n_pairs, n), once it is solved
    intercept: Any = None  # (n_pairs,)
    fit_time: float = 0.0


@dataclass(eq=False)
class _Rows:
    """The training and test rows of a split after a pipeline's first steps, checked."""

    X: Any
    label: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    queries: list[Any]
    checker: KernelSVC
    specs: dict[Any, KernelSpec] = field(default_factory=dict)
    costs: dict[Any, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(eq=False)
class _Privileged:
    """The privileged side of a split: rows that have it, and their features."""

    known: NDArray[np.int64]
    X: Any
    weight: NDArray[np.float64] | None
    specs: dict[Any, KernelSpec] = field(default_factory=dict)


def _private_memory(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class _Room(threading.local):
    """Memory of a thread for the matrices of its kernel; that of the next kernel is the same.

    Given back to the system at the end. What an allocator has been given back it may keep, one heap
    for each thread: a search with 100 MB of matrices had grown the process by up to 160 MB.
    """

    def __init__(self) -> None:
        self.parts: dict[str, mmap.mmap] = {}

    def take(self, name: str, count: int, dtype: type) -> Array:
        """So many numbers; what was taken by this name before is overwritten."""
        size = count * np.dtype(dtype).itemsize
        if name not in self.parts or len(self.parts[name]) < size:
            self.parts.pop(name, None)
            self.parts[name] = _private_memory(size)
        return np.frombuffer(self.parts[name], dtype, count)


@dataclass(frozen=True)
class _Means:
    """What a search works with: how many threads share the memory, and the room of each."""

    threads: int = 1
    room: _Room = field(default_factory=_Room)


def results(tasks: Iterable[tuple[int, Task]]) -> Iterator[tuple[int, Numbered]]:
    """Results of several tasks with their numbers, in parts as they get ready.

    Pieces that one thread does from beginning to end run side by side, those of the next task
    beside the last ones of this.
    """
    threads = n_threads(np.inf)
    stopped = threading.Event()
    config = get_config()
    # Asked once: while the threads work, BLAS has one, and who asks then is told so.
    means = _Means(threads)
    waiting: dict[Future[Numbered], int] = {}
    with ExitStack() as stack:
        pool: ThreadPoolExecutor | None = None

        def stop() -> None:
            if stopped.is_set():
                raise KeyboardInterrupt

        def ready(most: int) -> Iterator[tuple[int, Numbered]]:
            """What is done, until at most so many pieces are under way."""
            while len(waiting) > most:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()

        for k, task in tasks:
            for part in evaluate(task, means):
                if not callable(part):
                    yield k, part
                elif threads == 1:
                    yield k, part(stop)
                else:
                    if pool is None:
                        # The threads of a BLAS would be in the way of these.
                        stack.enter_context(one_blas_thread())
                        pool = ThreadPoolExecutor(threads)
                        stack.callback(pool.shutdown, cancel_futures=True)
                        stack.callback(stopped.set)  # before it waits for what is under way
                    waiting[pool.submit(_on_a_thread, part, stop, config)] = k
                    yield from ready(2 * threads)
        yield from ready(0)


def _on_a_thread(part: Callable[[Stop], Numbered], stop: Stop, config: dict[str, Any]) -> Numbered:
    """In the settings of the thread that asked for it, and on one processor."""
    with config_context(**config), limited(1):
        return part(stop)


def evaluate(task: Task, means: _Means) -> Iterator[Numbered | Callable[[Stop], Numbered]]:
    """Results of all candidates in parts: as they are, or as the work for one thread that brings
    them.
    """
    X_train, y_train = _safe_split(task.estimator, task.X, task.y, task.train)
    X_test, y_test = _safe_split(task.estimator, task.X, task.y, task.test, task.train)
    fit_params = dict(task.fit_params)
    name = inner_name(task.estimator)
    prefix = "" if name is None else f"{name}__"
    inner_params = {k.removeprefix(prefix): v for k, v in fit_params.items()}
    X_priv = inner_params.pop("X_priv", None)
    fit_params = _check_method_params(task.X, fit_params, indices=task.train)
    weight = _check_method_params(task.X, inner_params, indices=task.train).get("sample_weight")
    scores = _Scores(task, X_train, y_train, X_test, y_test, fit_params)
    base = task.estimator if name is None else task.estimator.steps[-1][1]
    defaults = base.get_params(deep=False)

    allowed = {"sample_weight", "X_priv"} if "X_priv" in _fit_names(base) else {"sample_weight"}
    known_params = set(inner_params) | ({"X_priv"} if X_priv is not None else set()) <= allowed

    # Candidates with the same first steps together.
    groups: dict[Hashable, list[tuple[int, dict[str, Any], dict[str, Any]]]] = {}
    for number, params in task.candidates:
        inner = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        outer = {k: v for k, v in params.items() if not k.startswith(prefix)}
        key = tuple(sorted((k, _key(v)) for k, v in outer.items()))
        groups.setdefault(key, []).append((number, params, inner))

    for members in groups.values():
        alone: list[_Model] = []
        models: list[_Model] = []
        for number, params, inner in members:
            model = _Model(number, params, inner, {**defaults, **inner})
            plain = known_params and set(inner) <= set(defaults) and _is_plain(base, model)
            (models if plain else alone).append(model)
        if models:
            try:
                outer = {k: v for k, v in models[0].params.items() if not k.startswith(prefix)}
                Xt, queries = _first_steps(task, outer, name, X_train, y_train, X_test)
            except Exception:  # the candidate's own fit says what is wrong
                alone, models = alone + models, []
        if models:
            split = _Split(task, means, base, Xt, y_train, weight, X_priv, queries)
            for part in split.solve(models):
                if callable(part):
                    yield partial(scores.of_work, part, split)
                else:
                    yield scores.of_models(part[0], split)
                    alone += part[1]
        for model in alone:
            yield [(model.number, scores.of_fit(model))]


def _is_plain(base: Any, model: _Model) -> bool:
    """Whether the engine handles this setting; the others are fitted one by one."""
    s = model.settings
    kernels = [s["kernel"]] + ([s["kernel_priv"]] if "kernel_priv" in s else [])
    return (
        all(isinstance(kernel, str) for kernel in kernels)
        and (s["kernel"] == "precomputed") == (base.kernel == "precomputed")
        and s["max_iter"] == -1
        and isinstance(s.get("intercept", "middle"), str)
        and s.get("correction_reg", 1.0) != 0
    )


def _first_steps(
    task: Task, outer: dict[str, Any], name: str | None, X: Any, y: Any, X_test: Any
) -> tuple[Any, list[Any]]:
    """The rows after the first steps of the pipeline: training, and [test, training] to score."""
    queries = [X_test]
    if name is not None and len(task.estimator.steps) > 1:
        first = clone(task.estimator[:-1]).set_params(**clone(outer, safe=False))
        Xt = first.fit_transform(X, y)
        queries = [first.transform(X_test)]
        if task.return_train_score:
            queries.append(first.transform(X))
        return Xt, queries
    return X, [X_test, X] if task.return_train_score else queries


class _Split:
    """The rows of a split, and the models on them."""

    def __init__(
        self,
        task: Task,
        means: _Means,
        base: Any,
        X: Any,
        y: Any,
        weight: Any,
        X_priv: Any,
        queries: list[Any],
    ) -> None:
        self.task, self.means, self.base = task, means, base
        # MB of one thread for the scores.
        self.for_scores = np.inf
        self.X, self.y, self.weight, self.X_priv, self.queries = X, y, weight, X_priv, queries
        self.privileged: dict[Hashable, _Privileged] = {}
        self.valid: set[Hashable] = set()
        self.rows: _Rows | None = None

    # ---- what is shared -----------------------------------------------------------------------

    def _check_settings(self, model: _Model) -> None:
        """Refuses settings that ``fit`` refuses; each value is looked at once."""
        fresh = [
            k
            for k, v in (model.inner if self.valid else model.settings).items()
            if (k, _key(v)) not in self.valid
        ]
        if fresh:
            validate_parameter_constraints(
                {k: v for k, v in self.base._parameter_constraints.items() if k in fresh},
                {k: model.settings[k] for k in fresh},
                caller_name=type(self.base).__name__,
            )
            self.valid |= {(k, _key(model.settings[k])) for k in fresh}

    def _check_rows(self, settings: dict[str, Any]) -> _Rows:
        if self.rows is None:
            estimator = type(self.base)(**settings)
            X, label, weight = estimator._check_training_data(self.X, self.y, self.weight)
            queries = [
                validate_data(
                    estimator,
                    Z,
                    dtype=[np.float64, np.float32],
                    order="C",
                    accept_sparse="csr",
                    accept_large_sparse=True,
                    reset=False,
                )
                for Z in self.queries
            ]
            self.rows = _Rows(X, label, weight, queries, estimator)
        return self.rows

    def _check_privileged(self, settings: dict[str, Any], rows: _Rows) -> _Privileged:
        given = settings["kernel_priv"] == "precomputed"
        key = (_key(settings["preprocessor_priv"]), given)
        if key not in self.privileged:
            estimator = type(self.base)(**settings)
            X_priv, train = self.X_priv, self.task.train
            n = _num_samples(self.task.X)
            if X_priv is not None and _num_samples(X_priv) == n:
                part = _check_method_params(self.task.X, {"X_priv": X_priv}, indices=train)
                X_priv = (_square(part, self.task) if given else part)["X_priv"]
            known, X_known = estimator._check_privileged(X_priv, rows.X.shape[0], rows.weight)
            weight = None if rows.weight is None else rows.weight[known]
            if weight is not None and not weight.any():
                weight = None
            self.privileged[key] = _Privileged(known, X_known, weight)
        return self.privileged[key]

    def _spec(self, side: Any, kernel: str, gamma: Any, degree: Any, coef0: Any) -> KernelSpec:
        """The kernel with its width as a number; what it does not use does not tell it apart."""
        if kernel == "precomputed":
            return KernelSpec(kernel)
        key = (kernel, _key(gamma), _key(degree), _key(coef0))
        if key not in side.specs:
            spec = training_kernel(
                side.X, side.weight, kernel, gamma, degree, coef0, name="X", suffix=""
            ).spec
            assert spec is not None
            spec.matrix(side.X)  # refuses rows whose kernel overflows
            if kernel in ("linear", "rbf"):
                spec = replace(spec, degree=3, coef0=0.0)
            elif kernel == "sigmoid":
                spec = replace(spec, degree=3)
            side.specs[key] = spec
        return side.specs[key]

    def _unit_costs(self, rows: _Rows, model: _Model) -> NDArray[np.float64]:
        """sample_weight_i * class weight; ``C`` times it are the costs."""
        s = model.settings
        key = _key(s["class_weight"])
        if key not in rows.costs:
            rows.checker.class_weight, rows.checker.C = s["class_weight"], 1.0
            rows.costs[key] = rows.checker._costs(rows.label, rows.weight)
        unit = rows.costs[key]
        largest = float(s["C"]) * float(unit.max())
        if not (0 < largest < np.inf):
            raise ValueError("C * sample_weight * class_weight must be finite and positive.")
        return unit

    # ---- models -------------------------------------------------------------------------------

    def solve(self, models: list[_Model]) -> Iterator[Solved | Work]:
        """Solves the models, or yields work that does."""
        groups: dict[KernelSpec, list[_Model]] = {}
        failed: list[_Model] = []
        for model in models:
            s = model.settings
            try:
                self._check_settings(model)
                checked = self._check_rows(s)
                model.main = self._spec(checked, *(s[k] for k in _MAIN))
                self._unit_costs(checked, model)
                corr = None
                if isinstance(self.base, SVMPlusClassifier):
                    privileged = self._check_privileged(s, checked)
                    if len(privileged.known):
                        corr = self._spec(privileged, *(s[k] for k in _CORR))
                model.corr = corr
            except Exception:
                failed.append(model)
                continue
            groups.setdefault(model.main, []).append(model)
        if failed:
            yield [], failed
        if not groups or self.rows is None:
            return
        rows = self.rows
        n = rows.X.shape[0]
        cache_size = min(float(m.settings["cache_size"]) for g in groups.values() for m in g)
        squares, problems = self._sizes(rows)
        if n > batch.SMALL or 32.0 * squares > 1e6 * cache_size:
            yield from self._large_work(rows, groups, cache_size)
            return
        # As many kernels of either space at once as a quarter of the memory holds, and models in a
        # tenth of it; the solver of SVM+ has a quarter, and a tenth is for the scores.
        most = max(1, int(0.25e6 * cache_size / (8 * squares)))
        count_most = min(_REPORT, int(0.1e6 * cache_size / (8.0 * _PER_ROW * problems * n)))
        self.for_scores = 0.1 * cache_size
        specs = list(groups)
        while specs:
            part: list[KernelSpec] = []
            count = 0
            while specs and len(part) < most and count < count_most:
                part.append(specs.pop(0))
                count += len(groups[part[-1]])
            grams = dict(zip(part, self._grams(rows.X, part), strict=True))
            members = [m for spec in part for m in groups[spec]]
            yield from self._solve_small(rows, grams, members, most, count_most, cache_size)

    def _sizes(self, rows: _Rows) -> tuple[float, float]:
        """Entries of a kernel matrix with its blocks for pairs of classes, and rows of all the
        binary problems in those of X.
        """
        n = rows.X.shape[0]
        sizes = [
            len(signs) for _, _, of, signs in rows.checker._pairs(rows.label) if of is not None
        ]
        return n * n + sum(float(size) ** 2 for size in sizes), float(max(1, len(sizes)))

    def _grams(self, X: Any, specs: Sequence[KernelSpec]) -> Any:
        """Kernel matrices among the rows of X, symmetric to the last bit."""
        if specs[0].name == "precomputed":
            return [training_kernel(X, None, "precomputed", 1, 3, 0, name="X", suffix="").gram]
        return gram_matrices(specs, X)

    def _solve_small(
        self,
        rows: _Rows,
        grams: Any,
        models: list[_Model],
        most: int,
        count_most: int,
        cache_size: float,
    ) -> Iterator[Solved]:
        """Paths in the compiled core, a call for all of them; kernels in `grams`."""
        by_corr: dict[tuple[Hashable, KernelSpec | None], list[_Model]] = {}
        for model in models:
            by_corr.setdefault((self._privileged_key(model), model.corr), []).append(model)
        keys = list(by_corr)
        while keys:
            part = [keys.pop(0)]
            count = len(by_corr[part[0]])
            while keys and keys[0][0] == part[0][0] and len(part) < most and count < count_most:
                part.append(keys.pop(0))
                count += len(by_corr[part[-1]])
            members = [m for key in part for m in by_corr[key]]
            start = time.perf_counter()
            failed = self._solve_paths(rows, grams, members, cache_size)
            each = (time.perf_counter() - start) / len(members)
            for model in members:
                model.fit_time = each
            bad = set(map(id, failed))
            yield [m for m in members if id(m) not in bad], failed

    def _privileged_key(self, model: _Model) -> Hashable:
        s = model.settings
        if "kernel_priv" not in s:
            return None
        return (_key(s["preprocessor_priv"]), s["kernel_priv"] == "precomputed")

    def _solve_paths(
        self, rows: _Rows, grams: Any, models: list[_Model], cache_size: float
    ) -> list[_Model]:
        n = rows.X.shape[0]
        privileged = self.privileged.get(self._privileged_key(models[0]))
        specs = list(dict.fromkeys(m.corr for m in models if m.corr is not None))
        grams_corr: dict[Any, Any] = {}
        if specs:
            assert privileged is not None
            grams_corr = dict(zip(specs, self._grams(privileged.X, specs), strict=True))
        paths: dict[Hashable, list[_Model]] = {}
        for model in models:
            s = model.settings
            reg = s.get("correction_reg") if model.corr is not None else None
            key = (model.main, model.corr, _key(s["class_weight"]), _key(s["tol"]), _key(reg))
            paths.setdefault(key, []).append(model)
        pairs = [(rows_of, signs) for _, _, rows_of, signs in rows.checker._pairs(rows.label)]
        calls: dict[tuple[float, bool], list[Any]] = {}
        blocks: dict[Any, Any] = {}
        position = np.full(n, -1, dtype=np.int64)
        if privileged is not None:
            position[privileged.known] = np.arange(len(privileged.known))
        failed: list[_Model] = []
        for members in paths.values():
            members.sort(key=lambda m: float(m.settings["C"]))
            first = members[0]
            unit = self._unit_costs(rows, first)
            C = np.array([float(m.settings["C"]) for m in members])
            gram = grams[first.main]
            if not self._is_psd(first.main, gram):
                failed += members
                continue
            for model in members:
                model.coef = np.zeros((len(pairs), n))
                model.intercept = np.zeros(len(pairs))
            for p, (of_pair, signs) in enumerate(pairs):
                weight = unit if of_pair is None else unit[of_pair]
                if not weight.any():  # two classes of weight zero: any b is optimal, and 0 taken
                    continue
                K = _block(blocks, "main", first.main, gram, of_pair, p)
                tol = float(first.settings["tol"])
                path = batch.WSVMPath(K, signs, weight, C)
                with_corr = False
                if first.corr is not None:
                    of = position if of_pair is None else position[of_pair]
                    known = of[of >= 0]
                    with_corr = bool((weight[of >= 0] > 0).any())
                if with_corr:
                    gram_corr = grams_corr[first.corr]
                    if not self._is_psd(first.corr, gram_corr):
                        failed += members
                        break
                    K_corr = _block(
                        blocks, "corr", first.corr, gram_corr, None if of_pair is None else known, p
                    )
                    priv = np.full(len(signs), -1, dtype=np.int64)
                    priv[of >= 0] = np.arange(len(known))
                    reg = np.full(len(C), float(first.settings["correction_reg"]))
                    path = batch.SVMPlusPath(K, signs, weight, C, K_corr, priv, reg)
                calls.setdefault((tol, with_corr), []).append((path, members, p, of_pair))
        for (tol, with_corr), jobs in calls.items():
            todo = [job[0] for job in jobs]
            if with_corr:
                solutions = batch.solve_svmplus(todo, tol=tol, cache_size=0.25 * cache_size)
            else:
                solutions = batch.solve_wsvm(todo, tol=tol)
            for (path, members, p, of_pair), solution in zip(jobs, solutions, strict=True):
                signed = path.y * solution.alpha
                for k, model in enumerate(members):
                    if model.coef is None or model.intercept is None:
                        continue
                    model.coef[p, slice(None) if of_pair is None else of_pair] = signed[k]
                    model.intercept[p] = solution.b[k]
                    if not solution.violation[k] <= tol:
                        model.coef = None
        bad = set(map(id, failed))
        return failed + [m for m in models if m.coef is None and id(m) not in bad]

    def _is_psd(self, spec: KernelSpec | None, gram: Array) -> bool:
        """Whether a solution on this kernel needs no look at whether it is one."""
        assert spec is not None
        if spec.is_psd:
            return True
        matrix = given_matrix(np.ascontiguousarray(gram))
        return matrix.psd_among(np.arange(len(gram)), np.inf)

    def _large_work(
        self, rows: _Rows, groups: dict[KernelSpec, list[_Model]], cache_size: float
    ) -> Iterator[Work]:
        """For each kernel, the work that solves its models, with a share of the memory."""
        n = rows.X.shape[0]
        # What runs beside may be of another split.
        share = cache_size / self.means.threads
        largest = max(len(signs) for *_, signs in rows.checker._pairs(rows.label))
        # A kernel in double and the rows of a problem in single precision, and a double block for a
        # pair of the classes. A tenth is for the scores, a tenth for the finish.
        self.for_scores = 0.1 * share
        bytes_needed = 8.0 * n * n + 4.0 * batch.large_room(largest)
        bytes_needed += 8.0 * largest**2 if largest < n else 0.0
        for spec, models in groups.items():
            at_hand = bytes_needed <= 0.8e6 * share and all(
                m.corr is None and spec.is_psd and batch.serves_large(float(m.settings["tol"]))
                for m in models
            )
            solve = self._solve_large_paths if at_hand else self._solve_large
            yield partial(solve, rows, spec, models, 0.8 * share)

    def _solve_large_paths(
        self, rows: _Rows, spec: KernelSpec, models: list[_Model], cache_size: float, stop: Stop
    ) -> Iterator[Solved]:
        """Weighted SVMs with their kernel at hand, along C."""
        n = rows.X.shape[0]
        take = self.means.room.take
        if spec.name == "precomputed":
            (gram,) = self._grams(rows.X, [spec])
        else:
            (gram,) = gram_matrices([spec], rows.X, take("kernel", n * n, float).reshape(1, n, n))
        paths: dict[Hashable, list[_Model]] = {}
        for model in models:
            key = (_key(model.settings["class_weight"]), _key(model.settings["tol"]))
            paths.setdefault(key, []).append(model)
        pairs = [(of, signs) for _, _, of, signs in rows.checker._pairs(rows.label)]
        for members in paths.values():
            start = time.perf_counter()
            members.sort(key=lambda m: float(m.settings["C"]))
            unit = self._unit_costs(rows, members[0])
            C = np.array([float(m.settings["C"]) for m in members])
            tol = float(members[0].settings["tol"])
            coef, intercept = np.zeros((len(C), len(pairs), n)), np.zeros((len(C), len(pairs)))
            sound = np.ones(len(C), dtype=bool)
            for p, (of, signs) in enumerate(pairs):
                weight = unit if of is None else unit[of]
                if not weight.any():
                    continue
                K = gram
                if of is not None:
                    K = take("pair", len(of) ** 2, float).reshape(len(of), len(of))
                    for row, i in zip(K, of, strict=True):
                        np.take(gram[i], of, out=row)
                path = batch.WSVMPath(K, signs, weight, C)
                if len(signs) <= batch.SMALL:
                    (solution,) = batch.solve_wsvm([path], tol=tol)
                else:
                    room = take("rows", batch.large_room(len(signs)), np.float32)
                    solution = batch.solve_large_wsvm(path, tol=tol, stop=stop, room=room)
                coef[:, p, slice(None) if of is None else of] = signs * solution.alpha
                intercept[:, p] = solution.b
                sound &= solution.violation <= tol
            each = (time.perf_counter() - start) / len(members)
            for k, model in enumerate(members):
                model.coef, model.intercept, model.fit_time = coef[k], intercept[k], each
            yield (
                [m for m, good in zip(members, sound, strict=True) if good],
                [m for m, good in zip(members, sound, strict=True) if not good],
            )

    def _solve_large(
        self, rows: _Rows, spec: KernelSpec, models: list[_Model], cache_size: float, stop: Stop
    ) -> Iterator[Solved]:
        """One model after the other, where the kernel is not at hand, and SVM+.

        A weighted SVM takes the way of its own fit. SVM+ starts from the last solution of its path,
        on a kernel that is at hand if memory allows.
        """
        n = rows.X.shape[0]
        # Both kernels, with their blocks for pairs, in half of the memory.
        held = 2 * 8e-6 * self._sizes(rows)[0]
        share = models[0].corr is not None and held <= 0.5 * cache_size
        kernels: dict[Any, KernelMatrix] = {}

        def kernel(side: Any, spec: KernelSpec, of: Any, key: Any) -> KernelMatrix:
            """A matrix of the kernel among some rows: at hand, or formed as it is needed."""
            if key not in kernels:
                X = side.X if of is None else side.X[of]
                if spec.name == "precomputed" or share:
                    if (side, spec) not in wholes:
                        wholes[(side, spec)] = self._grams(side.X, [spec])[0]
                    whole = wholes[(side, spec)]
                    K = whole if of is None else np.ascontiguousarray(whole[np.ix_(of, of)])
                    kernels[key] = _given(K, spec)
                else:
                    kernels[key] = spec.matrix(X)
            return kernels[key]

        wholes: dict[Any, Any] = {}
        by_corr: dict[tuple[Hashable, KernelSpec | None], list[_Model]] = {}
        for model in models:
            by_corr.setdefault((self._privileged_key(model), model.corr), []).append(model)
        pairs = [(of, signs) for _, _, of, signs in rows.checker._pairs(rows.label)]
        left = cache_size - (held if share else 0.0)
        for (key, corr), members in by_corr.items():
            privileged = self.privileged.get(key)
            for w in [w for w in wholes if w[0] is not rows]:
                del wholes[w]
            for k in [k for k in kernels if k[0] == "corr"]:
                del kernels[k]
            members.sort(
                key=lambda m: (
                    repr(_key(m.settings["class_weight"])),
                    float(m.settings["tol"]),
                    -float(m.settings.get("correction_reg", 1.0)),
                    float(m.settings["C"]),
                )
            )
            last: list[tuple[float, Solution] | None] = [None] * len(pairs)
            path: Any = None
            for model in members:
                stop()
                begin = time.perf_counter()
                s = model.settings
                this = (_key(s["class_weight"]), _key(s["tol"]), _key(s.get("correction_reg")))
                if this != path:
                    last, path = [None] * len(pairs), this
                C, unit = float(s["C"]), self._unit_costs(rows, model)
                coef, intercept = np.zeros((len(pairs), n)), np.zeros(len(pairs))
                sound = True
                for p, (of, signs) in enumerate(pairs):
                    c = C * (unit if of is None else unit[of])
                    if not c.any():
                        continue
                    K = kernel(rows, spec, of, ("main", p))
                    if corr is None:
                        solution = wsvm.solve(
                            WSVMProblem(K, signs, c), tol=float(s["tol"]), cache_size=left
                        )
                    else:
                        assert privileged is not None
                        position = np.full(n, -1, dtype=np.int64)
                        position[privileged.known] = np.arange(len(privileged.known))
                        at = position if of is None else position[of]
                        known = at[at >= 0]
                        priv = np.full(len(signs), -1, dtype=np.int64)
                        priv[at >= 0] = np.arange(len(known))
                        K_corr = kernel(
                            privileged, corr, None if of is None else known, ("corr", p)
                        )
                        reg = float(s["correction_reg"])
                        problem = SVMPlusProblem(K, K_corr, priv, signs, c, reg)
                        solution = svmplus.solve(
                            problem, _grown(last[p], C), tol=float(s["tol"]), cache_size=left
                        )
                    sound = sound and solution.status.converged
                    last[p] = (C, solution)
                    coef[p, slice(None) if of is None else of] = signs * solution.dual.alpha
                    intercept[p] = solution.primal.b
                model.coef, model.intercept = coef, intercept
                model.fit_time = time.perf_counter() - begin
                yield ([model], []) if sound else ([], [model])

    def _expansions(self, models: list[_Model]) -> list[tuple[KernelSpec, list[int], Array, Array]]:
        """Models by kernel: (kernel, which models, coefficients and offsets of all their pairs)."""
        by_spec: dict[KernelSpec, list[int]] = {}
        for k, model in enumerate(models):
            assert model.main is not None
            by_spec.setdefault(model.main, []).append(k)
        return [
            (
                spec,
                of,
                np.concatenate([models[k].coef for k in of]),
                np.concatenate([models[k].intercept for k in of]),
            )
            for spec, of in by_spec.items()
        ]

    def portions(self, models: list[_Model]) -> Iterator[list[_Model]]:
        """Models in parts that can be scored together: all of them, if the memory allows."""
        if not models:
            return
        assert self.rows is not None
        n_query = max(Z.shape[0] for Z in self.rows.queries)
        each = 8.0 * len(models[0].intercept) * (_PER_SCORE * n_query + 4.0 * self.rows.X.shape[0])
        most = max(1, int(min(len(models), 1e6 * self.for_scores / each)))
        if most < len(models):  # those of a kernel beside each other
            number = {spec: k for k, spec in enumerate(dict.fromkeys(m.main for m in models))}
            models = sorted(models, key=lambda m: number[m.main])
        for first in range(0, len(models), most):
            yield models[first : first + most]

    def decisions(self, models: list[_Model], which: int) -> NDArray[np.float64]:
        """Decision values on a query, shape (n_models, n_rows, n_pairs)."""
        assert self.rows is not None
        Z, groups = self.rows.queries[which], self._expansions(models)
        n_query, n_pairs = Z.shape[0], len(models[0].intercept)
        order = np.concatenate([of for _, of, _, _ in groups])
        values = np.empty((len(models), n_pairs, n_query))
        if groups[0][0].name == "precomputed":
            ((_, _, coef, offset),) = groups
            values[:] = (coef @ Z.T + offset[:, None]).reshape(values.shape)
        elif n_query:
            ends = np.cumsum([len(of) for _, of, _, _ in groups])[:-1]
            outs = [part.reshape(-1, n_query) for part in np.split(values, ends)]
            self._expand(groups, outs, Z)
        return values[np.argsort(order)].transpose(0, 2, 1)

    def right(
        self, models: list[_Model], which: int, positive: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """The share of rows of a query that models of two classes get right, (n_models,)."""
        assert self.rows is not None
        groups = self._expansions(models)
        hits = np.empty(len(models), dtype=np.int64)
        if groups[0][0].name == "precomputed":
            above = self.decisions(models, which)[:, :, 0] > 0
            hits[:] = (above == positive).sum(axis=1)
        else:
            outs = [np.empty(len(of), dtype=np.int64) for _, of, _, _ in groups]
            self._expand(groups, outs, self.rows.queries[which], positive)
            for (_, of, _, _), out in zip(groups, outs, strict=True):
                hits[of] = out
        return hits / len(positive)

    def _expand(self, groups: Any, outs: Any, Z: Any, positive: Any = None) -> None:
        assert self.rows is not None
        X = self.rows.X
        if len(groups) == 1:  # many rows, as a rule, of which not all are support vectors
            ((spec, of, coef, offset),) = groups
            used = np.flatnonzero(coef.any(axis=0))
            X, groups = X[used], [(spec, of, coef[:, used], offset)]
        jobs = [
            (spec, coef, offset, out)
            for (spec, _, coef, offset), out in zip(groups, outs, strict=True)
        ]
        expand_all(jobs, X, Z, positive)


_MAIN = ("kernel", "gamma", "degree", "coef0")
_CORR = ("kernel_priv", "gamma_priv", "degree_priv", "coef0_priv")


def _block(blocks: Any, side: str, spec: Any, gram: Array, of: Any, pair: int) -> Array:
    """The matrix among the rows of a pair, once."""
    if of is None:
        return np.ascontiguousarray(gram)
    key = (side, spec, pair)
    if key not in blocks:
        blocks[key] = np.ascontiguousarray(gram[np.ix_(of, of)])
    return blocks[key]


def _given(gram: Array, spec: KernelSpec) -> KernelMatrix:
    """A matrix at hand that is known to be positive semidefinite where its kernel is."""
    matrix = given_matrix(np.ascontiguousarray(gram))
    return KernelMatrix(matrix.handle, n=matrix.n, is_psd=spec.is_psd, largest=matrix.largest)


def _grown(last: tuple[float, Solution] | None, C: float) -> Solution | None:
    """The solution at another C as a start: all duals in proportion, so that bounds stay bounds."""
    if last is None:
        return None
    ratio, dual = C / last[0], last[1].dual
    return replace(last[1], dual=WSVMDual(ratio * dual.alpha, ratio * dual.beta))


class _Scores:
    """Scores of the candidates of a split, in the form of scikit-learn's ``_fit_and_score``."""

    def __init__(
        self, task: Task, X_train: Any, y_train: Any, X_test: Any, y_test: Any, fit_params: Any
    ) -> None:
        self.task = task
        self.data = [(X_test, y_test), (X_train, y_train)]
        if not task.return_train_score:
            self.data.pop()
        self.X_train, self.y_train, self.fit_params = X_train, y_train, fit_params
        self.weights = [
            _check_method_params(task.X, task.score_params, indices=indices)
            for indices in (task.test, task.train)
        ]
        self.accuracy = not task.score_params and (
            isinstance(task.scorer, _PassthroughScorer)
            or task.scorer is get_scorer("accuracy")
            or _same(task.scorer, get_scorer("accuracy"))
        )

    def _result(self, scores: list[Any], fit_time: float, score_time: float, error: Any) -> Result:
        result = {
            "fit_error": error,
            "test_scores": scores[0],
            "n_test_samples": _num_samples(self.data[0][0]),
            "fit_time": fit_time,
            "score_time": score_time,
        }
        if self.task.return_train_score:
            result["train_scores"] = scores[1]
        return result

    def of_models(self, models: list[_Model], split: _Split) -> Numbered:
        """Scores by the decision values of the models."""
        return [scored for part in split.portions(models) for scored in self._of_some(part, split)]

    def _of_some(self, models: list[_Model], split: _Split) -> Numbered:
        start = time.perf_counter()
        scores: list[list[Any]] = [[] for _ in models]
        assert split.rows is not None
        classes = split.rows.checker.classes_
        for which, (X, y) in enumerate(self.data):
            given = np.asarray(y)
            fast = self.accuracy and given.ndim == 1 and len(given) > 0
            if fast and len(classes) == 2:
                positive = (given == classes[1]).view(np.int8)
                positive[(positive == 0) & (given != classes[0])] = -1
                for k, share in enumerate(split.right(models, which, positive)):
                    scores[k].append(float(share))
                continue
            values = split.decisions(models, which)
            for k, model in enumerate(models):
                s = model.settings
                proxy = _Scored(s["decision_function_shape"], s["break_ties"])
                proxy.classes_, proxy.values = classes, values[k]
                if fast and not (s["break_ties"] and s["decision_function_shape"] == "ovo"):
                    scores[k].append(float((proxy.predict(X) == given).mean()))
                else:
                    scores[k].append(self._score(proxy, X, y, self.weights[which]))
        each = (time.perf_counter() - start) / len(models)
        return [
            (m.number, self._result(scores[k], m.fit_time, each, None))
            for k, m in enumerate(models)
        ]

    def of_work(self, work: Work, split: _Split, stop: Stop) -> Numbered:
        """Does the work, and scores what comes of it."""
        out: Numbered = []
        for done, failed in work(stop):
            out += self.of_models(done, split)
            out += [(model.number, self.of_fit(model)) for model in failed]
        return out

    def _score(self, model: Any, X: Any, y: Any, params: Any) -> Any:
        return _score(model, X, y, self.task.scorer, params, self.task.error_score)

    def of_fit(self, model: _Model) -> Result:
        """The candidate's own fit, and its errors."""
        start = time.perf_counter()
        error_score = self.task.error_score
        fit_params = dict(self.fit_params)
        try:
            if model.settings.get("kernel_priv") == "precomputed":
                fit_params = _square(fit_params, self.task)
            estimator = clone(self.task.estimator).set_params(**clone(model.params, safe=False))
            estimator.fit(self.X_train, self.y_train, **fit_params)
        except Exception:
            if error_score == "raise":
                raise
            fit_time = time.perf_counter() - start
            value: Any = error_score
            if isinstance(self.task.scorer, _MultimetricScorer):
                value = {name: error_score for name in self.task.scorer._scorers}
            scores = [value.copy() if isinstance(value, dict) else value for _ in self.data]
            return self._result(scores, fit_time, 0.0, traceback.format_exc())
        fit_time = time.perf_counter() - start
        scores = [
            self._score(estimator, X, y, params)
            for (X, y), params in zip(self.data, self.weights, strict=False)
        ]
        score_time = time.perf_counter() - start - fit_time
        return self._result(scores, fit_time, score_time, None)


def _square(fit_params: dict[str, Any], task: Task) -> dict[str, Any]:
    """``X_priv`` as the kernel matrix among the training rows, from that among all rows."""
    n = _num_samples(task.X)
    return {
        name: np.asarray(value)[:, np.arange(n)[task.train]]
        if name.rpartition("__")[2] == "X_priv" and np.ndim(value) == 2 and np.shape(value)[1] == n
        else value
        for name, value in fit_params.items()
    }


def _same(scorer: Any, other: Any) -> bool:
    """Whether two of scikit-learn's scorers are the same."""
    parts = ("_score_func", "_sign", "_kwargs", "_response_method")
    return type(scorer) is type(other) and all(
        getattr(scorer, part, None) == getattr(other, part, None) for part in parts
    )
