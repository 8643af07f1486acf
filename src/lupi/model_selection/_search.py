"""Searches over hyper-parameters, as scikit-learn's, with the shared work done once."""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ..solvers.batch import SMALL
from ..threads import limited
from ._engine import Numbered, Result, Task, can_serve, inner_name, results

# Seconds after which a search on a terminal shows its progress unasked.
_PATIENCE = 3.0


class _Progress:
    """A line on stderr: how much is done, and how long the rest will take."""

    def __init__(self, total: int, verbose: int) -> None:
        self.total, self.done, self.shown = total, 0, False
        self.start = self.last = time.monotonic()
        self.terminal = bool(sys.stderr is not None and sys.stderr.isatty())
        self.wait = 0.0 if verbose else _PATIENCE if self.terminal else float("inf")

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        pause = 0.2 if self.terminal else 5.0
        if now - self.start < self.wait or (now - self.last < pause and self.done < self.total):
            return
        self.last = now
        spent = now - self.start
        left = spent * (self.total - self.done) / max(1, self.done)
        filled = 24 * self.done // max(1, self.total)
        text = (
            f"[lupi] {'#' * filled}{'.' * (24 - filled)} {self.done}/{self.total} fits, "
            f"{spent:.0f} s, {left:.0f} s left"
        )
        sys.stderr.write(f"\r{text:78}" if self.terminal else text + "\n")
        sys.stderr.flush()
        self.shown = True

    def close(self) -> None:
        if self.shown and self.terminal:
            sys.stderr.write("\n")


def _run(k: int, task: Task, config: dict[str, Any], threads: int) -> tuple[int, Numbered]:
    """All of a task, in a worker of joblib, with its number."""
    with config_context(**config), limited(threads):
        return k, [result for _, part in results([(0, task)]) for result in part]


def _parallel(**kwargs: Any) -> Any:
    """Joblib's workers; results as they get ready, where the backend can do that."""
    try:
        return Parallel(return_as="generator_unordered", **kwargs)
    except ValueError:  # multiprocessing cannot
        return Parallel(**kwargs)


class _KernelSearch:
    """What both searches add to scikit-learn's."""

    estimator: Any
    scoring: Any
    refit: Any
    cv: Any
    n_jobs: Any
    verbose: Any
    pre_dispatch: Any
    error_score: Any
    return_train_score: Any
    weighted_score: bool

    def _candidates(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _get_routed_params_for_fit(self, params: dict[str, Any]) -> Any:
        """As scikit-learn, but weights reach the scorers only when that was asked for."""
        if not _routing_enabled() and not self.weighted_score:
            kept = {k: v for k, v in params.items() if k != "sample_weight"}
            routed = super()._get_routed_params_for_fit(kept)  # type: ignore[misc]
            if "sample_weight" in params:
                routed.estimator.fit["sample_weight"] = params["sample_weight"]
            return routed
        return super()._get_routed_params_for_fit(params)  # type: ignore[misc]

    def _named_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """``X_priv`` and ``sample_weight`` go to the classifier at the end of a pipeline."""
        name = inner_name(self.estimator)
        if name is None or _routing_enabled():
            return params
        return {
            f"{name}__{k}" if k in ("X_priv", "sample_weight") else k: v
            for k, v in params.items()
            if v is not None
        }

    def _check_refit_train(self) -> None:
        """``refit="train"`` chooses by one score, and keeps the model of one split."""
        if self.scoring is not None and not isinstance(self.scoring, str | Callable):
            raise ValueError(
                "refit='train' chooses by one score, but scoring names several: "
                f"{self.scoring!r}. Pass one of them as scoring."
            )

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search, and fit the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            All rows; with ``kernel="precomputed"`` their kernel matrix, (n, n).
        y : array-like of shape (n,)
        **params : dict
            What ``fit`` of the estimator takes: ``sample_weight``, ``X_priv``, of n rows each, cut
            to the training rows of each split; and ``groups`` for the splitter. With a pipeline
            they go to its classifier. With ``kernel_priv="precomputed"``, ``X_priv`` is the kernel
            matrix of all rows, (n, n).

        Returns
        -------
        self
        """
        params = self._named_params(params)
        in_train = isinstance(self.refit, str) and self.refit == "train"
        if in_train:
            self._check_refit_train()
        scorers, refit_metric = self._get_scorers()  # type: ignore[attr-defined]
        if not can_serve(self.estimator, scorers):
            return self._fit_elsewhere(X, y, params, in_train)
        X, y = indexable(X, y)
        _check_lengths(X, params)
        params = _check_method_params(X, params)
        routed = self._get_routed_params_for_fit(params)
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        split_params = dict(routed.splitter.split)
        self.n_splits_ = self._checked_cv_orig.get_n_splits(X, y, **split_params)
        splits = list(self._checked_cv_orig.split(X, y, **split_params))
        if len(splits) != self.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. "
                f"Expected {self.n_splits_} splits, got {len(splits)}"
            )
        if in_train:
            _check_one_split(splits)
        candidates = self._candidates()
        if not candidates or not splits:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        self._check_names(candidates)
        if self.verbose > 0:
            print(
                f"Fitting {len(splits)} folds for each of {len(candidates)} candidates, totalling "
                f"{len(splits) * len(candidates)} fits"
            )
        fit_params = dict(routed.estimator.fit)
        out: list[Result | None] = [None] * (len(candidates) * len(splits))
        tasks = [
            (
                k,
                Task(
                    self.estimator,
                    X,
                    y,
                    train,
                    test,
                    list(enumerate(candidates)),
                    fit_params,
                    dict(routed.scorer.score),
                    scorers,
                    self.error_score,
                    self.return_train_score,
                ),
            )
            for k, (train, test) in enumerate(splits)
        ]
        try:
            progress = _Progress(len(out), self.verbose)
            try:
                for k, part in self._results(tasks):
                    for number, result in part:
                        out[number * len(splits) + k] = result
                    progress.add(len(part))
            finally:
                progress.close()
        except KeyboardInterrupt:
            self._keep(out, candidates, len(splits), scorers)
            raise
        done: list[Result] = out  # type: ignore[assignment]
        _warn_or_raise_about_fit_failures(done, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(done, self.error_score)
        table = self._format_results(candidates, len(splits), done, defaultdict(list))  # type: ignore[attr-defined]
        self.multimetric_ = isinstance(done[0]["test_scores"], dict)
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, table)  # type: ignore[attr-defined]
            if not callable(self.refit):
                self.best_score_ = table[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = table["params"][self.best_index_]
        if self.refit:
            self._refit(X, y, fit_params, splits[0][0] if in_train else None)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        self.cv_results_ = table
        return self

    def _refit(self, X: Any, y: Any, fit_params: dict[str, Any], train: Any) -> None:
        """``best_estimator_``, on all rows or on the training rows of a split."""
        best = clone(clone(self.estimator).set_params(**clone(self.best_params_, safe=False)))
        start = time.time()
        if train is None:
            best.fit(X, y, **fit_params)
        else:
            cut = _check_method_params(X, fit_params, indices=train)
            kernel_priv = getattr(_last(best), "kernel_priv", None)
            if isinstance(kernel_priv, str) and kernel_priv == "precomputed":
                rows = np.arange(_num_samples(X))[train]
                for name in [name for name in cut if name.rpartition("__")[2] == "X_priv"]:
                    cut[name] = np.asarray(cut[name])[:, rows]
            best.fit(*_safe_split(best, X, y, train), **cut)
        self.refit_time_ = time.time() - start
        self.best_estimator_ = best
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_

    def _check_names(self, candidates: list[dict[str, Any]]) -> None:
        """An unknown parameter is an error of the search, before anything is fitted."""
        known = self.estimator.get_params(deep=True)
        for params in candidates:
            if not all(name in known for name in params):
                clone(self.estimator).set_params(**clone(params, safe=False))

    def _results(self, tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Any]]:
        """(split, results) as they get ready."""
        jobs = effective_n_jobs(self.n_jobs)
        if jobs == 1:
            yield from results(tasks)
            return
        # As many tasks as there are workers: splits, and parts of the grid where these are few.
        # More where each takes long, so that all workers are busy to the end.
        pieces = jobs if _num_samples(tasks[0][1].X) <= SMALL else 4 * jobs
        parts = -(-pieces // len(tasks))
        small = [(k, piece) for k, task in tasks for piece in _pieces(task, parts)]
        threads = max(1, cpu_count() // min(jobs, len(small)))
        config = get_config()
        yield from _parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch)(
            delayed(_run)(k, task, config, threads) for k, task in small
        )

    def _keep(
        self, out: list[Result | None], candidates: list[Any], n_splits: int, scorers: Any
    ) -> None:
        """``cv_results_`` of an interrupted search: NaN where nothing was fitted."""
        if not any(result is not None for result in out):
            return
        nothing: Any = np.nan
        if isinstance(scorers, _MultimetricScorer):
            nothing = dict.fromkeys(scorers._scorers, np.nan)
        blank = {
            "fit_error": None,
            "test_scores": nothing,
            "train_scores": nothing,
            "n_test_samples": 0,
            "fit_time": np.nan,
            "score_time": np.nan,
        }
        filled = [blank if result is None else result for result in out]
        if not self.return_train_score:
            filled = [{k: v for k, v in r.items() if k != "train_scores"} for r in filled]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.cv_results_ = self._format_results(  # type: ignore[attr-defined]
                candidates, n_splits, filled, defaultdict(list)
            )

    def _fit_elsewhere(self, X: Any, y: Any, params: dict[str, Any], in_train: bool) -> Self:
        """scikit-learn's own search, for estimators and scorers that are not ours."""
        if not in_train:
            super().fit(X, y, **params)  # type: ignore[misc]
            return self
        X, y = indexable(X, y)
        splits = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(X, y))
        _check_one_split(splits)
        self.refit = False
        try:
            super().fit(X, y, **params)  # type: ignore[misc]
        finally:
            self.refit = "train"
        fit_params = dict(self._get_routed_params_for_fit(params).estimator.fit)
        self._refit(X, y, fit_params, splits[0][0])
        return self


def _routing_enabled() -> bool:
    return bool(get_config().get("enable_metadata_routing", False))


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if inner_name(estimator) is not None else estimator


def _check_lengths(X: Any, params: dict[str, Any]) -> None:
    """scikit-learn passes an array of another length to every fit, unsliced."""
    n = _num_samples(X)
    for name, value in params.items():
        short = name.rpartition("__")[2]
        if short in ("X_priv", "sample_weight") and np.ndim(value) > 0:
            have = _num_samples(value)
            if have != n:
                raise ValueError(
                    f"{short} must have one row for each row of X: X has {n} rows, {short} has "
                    f"{have}."
                )


def _check_one_split(splits: list[tuple[NDArray[Any], NDArray[Any]]]) -> None:
    if len(splits) != 1:
        raise ValueError(
            "refit='train' keeps the model of the training rows of one split, but cv has "
            f"{len(splits)} splits. Pass a PredefinedSplit with one test fold, or refit=True."
        )


def _pieces(task: Task, parts: int) -> list[Task]:
    """The same task in parts, kernels of the ordinary rows kept together."""
    if parts <= 1:
        return [task]

    def kernel(params: dict[str, Any]) -> str:
        names = ("kernel", "gamma", "degree", "coef0")
        return repr(sorted((k, v) for k, v in params.items() if k.rpartition("__")[2] in names))

    order = sorted(task.candidates, key=lambda candidate: kernel(candidate[1]))
    kernels = sorted({kernel(params) for _, params in order})
    groups: list[list[Any]] = [[] for _ in range(min(parts, len(kernels)))]
    for candidate in order:
        groups[kernels.index(kernel(candidate[1])) % len(groups)].append(candidate)
    return [replace(task, candidates=group) for group in groups]


class KernelGridSearchCV(_KernelSearch, GridSearchCV):
    """Grid search over kernel machines that does the work that models share once.

    A drop-in for :class:`sklearn.model_selection.GridSearchCV`: the same parameters, the same
    ``cv_results_``, the same scores. Products between rows are computed once per split, each kernel
    once for all values of ``C`` and ``correction_reg`` (and, for SVM+, each privileged kernel once
    for all ordinary ones), models are solved along ``C`` from one another, many small ones at once
    on all processors, and all models of a kernel are scored by one product. Every model meets
    ``tol`` as one that is fitted alone.

    Parameters
    ----------
    estimator : WeightedSVC, SVMPlusClassifier, Pipeline, or any estimator
        The two classifiers, alone or at the end of a pipeline, are served as described; everything
        else is searched by scikit-learn, with the same attributes.
    param_grid : dict or list of dict
        Values of each parameter, as for scikit-learn.
    scoring : str, callable, list, tuple or dict, default=None
        One score or several. A callable that is not one of scikit-learn's scorers may look at
        anything in a model, and makes scikit-learn do the search.
    n_jobs : int, default=None
        Workers of joblib. None is right on one machine: the compiled core uses all processors. With
        more, each worker gets its share of them.
    refit : bool, str or callable, default=True
        As in scikit-learn; or ``"train"``: ``best_estimator_`` is the model of the training rows of
        the one split of `cv` (a :class:`~sklearn.model_selection.PredefinedSplit`, say), which is
        the paper's protocol: the validation rows choose, and nothing else.
    cv : int, splitter or iterable, default=5
    verbose : int, default=0
        Positive: what is done, on stderr. Without it, a search that takes long shows that on a
        terminal.
    pre_dispatch : int or str, default="2*n_jobs"
    error_score : "raise" or float, default=nan
        The score of a fit that fails.
    return_train_score : bool, default=False
    weighted_score : bool, default=False
        Whether ``sample_weight`` weights the scores as well. By default weights shape training
        only. (scikit-learn's searches weight the scores too.) With metadata routing the scorers'
        requests decide.

    Attributes
    ----------
    cv_results_ : dict
        As in scikit-learn. ``mean_fit_time`` is each model's share of the time that it took to
        solve all models that were solved together. After Ctrl-C: what was done until then, NaN for
        the rest; nothing else is set.
    best_estimator_, best_params_, best_score_, best_index_
        As in scikit-learn, like ``scorer_``, ``n_splits_``, ``refit_time_``, ``multimetric_``,
        ``classes_``, ``n_features_in_`` and ``feature_names_in_``.

    See Also
    --------
    KernelRandomizedSearchCV : Candidates drawn at random.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lupi import WeightedSVC
    >>> from lupi.model_selection import KernelGridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1, 1.0]}
    >>> search = KernelGridSearchCV(WeightedSVC(), grid).fit(X, y)
    >>> search.best_params_
    {'C': 1.0, 'gamma': 0.1}
    >>> round(float(search.best_score_), 3)
    0.98
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GridSearchCV._parameter_constraints,
        "weighted_score": ["boolean"],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = 5,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: bool = False,
        weighted_score: bool = False,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.weighted_score = weighted_score

    def _candidates(self) -> list[dict[str, Any]]:
        return list(ParameterGrid(self.param_grid))


class KernelRandomizedSearchCV(_KernelSearch, RandomizedSearchCV):
    """Random search over kernel machines; :class:`KernelGridSearchCV` with candidates drawn.

    Kernels are shared only where candidates agree in their widths: lists of widths, and
    distributions for ``C`` and ``correction_reg``, keep most of the speed.

    Parameters
    ----------
    estimator : WeightedSVC, SVMPlusClassifier, Pipeline, or any estimator
    param_distributions : dict or list of dict
        Lists, or distributions of scipy.stats, as for
        :class:`sklearn.model_selection.RandomizedSearchCV`.
    n_iter : int, default=10
        Candidates.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in :class:`KernelGridSearchCV`, like `weighted_score`.
    random_state : int, RandomState instance or None, default=None
    weighted_score : bool, default=False

    Attributes
    ----------
    cv_results_, best_estimator_, best_params_, best_score_, best_index_
        As in :class:`KernelGridSearchCV`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from lupi import WeightedSVC
    >>> from lupi.model_selection import KernelRandomizedSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> space = {"C": loguniform(0.1, 100.0), "gamma": [0.01, 0.1, 1.0]}
    >>> search = KernelRandomizedSearchCV(WeightedSVC(), space, n_iter=20, random_state=0)
    >>> bool(search.fit(X, y).best_score_ > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RandomizedSearchCV._parameter_constraints,
        "weighted_score": ["boolean"],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        scoring: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = 5,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        weighted_score: bool = False,
    ) -> None:
        super().__init__(
            estimator,
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            random_state=random_state,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.weighted_score = weighted_score

    def _candidates(self) -> list[dict[str, Any]]:
        return list(
            ParameterSampler(self.param_distributions, self.n_iter, random_state=self.random_state)
        )
