"""Methods: how a classifier is made from the rows of a cell, hyper-parameters included.

A method gets :class:`Parts` and gives an :class:`Outcome`. Everything that it learns or chooses, it
learns and chooses from the training and validation rows of these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import PredefinedSplit, StratifiedGroupKFold, StratifiedKFold

from ..equivalence import replicating_weights
from ..estimators import SVMPlusClassifier, WeightedSVC, WeightLearningClassifier
from ..kernels import scale_gamma
from ..model_selection import KernelGridSearchCV
from ..weighting import NadarayaWatson, conditional_weights
from ._parts import Parts

Grid = Mapping[str, Sequence[Any]]

# Rows in [0, 1]^d, RBF kernels. Widths are multiples of gamma="scale" of the training rows.
C_VALUES = tuple(10.0 ** (k / 2) for k in range(-2, 7))
WIDTHS = tuple(2.0**k for k in range(-4, 4))
TAUS = (0.0, 0.5, 1.0, 2.0, 4.0)
DELTAS = (0.03, 0.1, 0.3, 1.0)
# The four axes of SVM+: coarse values, each refined once around the best, by half a step.
COARSE: Grid = {
    "C": (0.3, 3.0, 30.0, 300.0),
    "correction_reg": (1e-2, 1.0, 1e2, 1e4),
    "gamma": (0.0625, 0.25, 1.0, 4.0),
    "gamma_priv": (0.0625, 0.25, 1.0, 4.0),
}
# Below so many validation rows candidates tie often, and the area under the curve decides.
_FEW_ROWS = 1_000


@dataclass(frozen=True)
class Outcome:
    """What a method made of a cell.

    Attributes
    ----------
    error : float
        Share of test rows with the wrong label.
    params : dict
        Hyper-parameters that were chosen.
    info : dict
        Anything else worth keeping, plain numbers and strings.
    model : object
        The fitted classifier; not stored.
    """

    error: float
    params: dict[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    model: Any = None


class Shared:
    """Results within one cell that several methods build on, computed when first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """The result of this name.

        Parameters
        ----------
        name : str
        compute : callable
            Gives it, the first time.

        Returns
        -------
        object
        """
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]


class Method(Protocol):
    """One way to learn. `name` stands in the results, `label` in figures."""

    @property
    def name(self) -> str:
        """Short, without spaces."""

    @property
    def label(self) -> str:
        """For people."""

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn from the training and validation rows, and be scored on the test rows."""


# ---- Choosing hyper-parameters ------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """The best of a grid: its model (fitted on the training rows), parameters and score."""

    model: Any
    params: dict[str, Any]
    score: float


def stack(A: Any, B: Any) -> Any:
    """The rows of A, then those of B: arrays, sparse matrices, DataFrames.

    Parameters
    ----------
    A, B : array-like

    Returns
    -------
    array, sparse matrix or DataFrame
    """
    if hasattr(A, "iloc"):
        import pandas as pd

        return pd.concat([A, B], ignore_index=True)
    if sp.issparse(A):
        return sp.vstack([A, B], format="csr")
    return np.concatenate([A, B])


def cut(X: Any, rows: Any) -> Any:
    """Some rows of an array, a sparse matrix or a DataFrame; None stays None."""
    return None if X is None else X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def tuned(
    estimator: Any,
    grid: Grid | Sequence[Grid],
    parts: Parts,
    *,
    X_priv: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    refine: int = 0,
    folds: int = 5,
    seed: int = 0,
) -> Tuned:
    """The best parameters of a grid, and the model on the training rows.

    On the validation rows, which nothing is trained on; or, where there are none, by folds of the
    training rows, after which the model is fitted on all of them. Ties in the error are broken by
    the area under the ROC curve, then by the order of the grid.

    Parameters
    ----------
    estimator : estimator
    grid : dict or list of dict
    parts : Parts
    X_priv : array-like, default=None
        For the training rows.
    sample_weight : array-like, default=None
        For the training rows; scores are never weighted.
    groups : array-like, default=None
        Training rows of the same group stay together in folds.
    refine : int, default=0
        So many times the grid is replaced by the best value and its neighbours at half the
        distance, along every axis of positive numbers.
    folds : int, default=5
    seed : int, default=0
        Of the folds.

    Returns
    -------
    Tuned
    """
    n = len(parts.y)
    if parts.X_val is None:
        X, y, n_val = parts.X, parts.y, n
        cv: Any = list(_folds(y, groups, folds, seed))
        refit: Any = True
    else:
        X, y = stack(parts.X, parts.X_val), np.r_[parts.y, parts.y_val]
        n_val = len(parts.y_val)
        cv = PredefinedSplit(np.r_[np.full(n, -1), np.zeros(n_val, dtype=int)])
        refit = "train"
        if X_priv is not None:
            X_priv = _pad(X_priv, n_val)
        if sample_weight is not None:
            sample_weight = np.r_[sample_weight, np.ones(n_val)]
    metadata = {"X_priv": X_priv, "sample_weight": sample_weight}
    metadata = {name: value for name, value in metadata.items() if value is not None}
    best: tuple[float, dict[str, Any]] | None = None
    grids = list(grid) if isinstance(grid, Sequence) else [grid]
    for step in range(refine + 1):
        if step:
            assert best is not None
            grids = [_around(grids, best[1])]
        scored = _search(estimator, grids, X, y, cv, metadata, n_val < _FEW_ROWS)
        first = max(scored, key=lambda one: one[0])  # the first of those that tie
        if best is None or first[0] > best[0]:
            best = first
    assert best is not None
    score, params = best
    model = clone(estimator).set_params(**params)
    if refit == "train":
        rows = slice(0, n)
        metadata = {name: cut(value, rows) for name, value in metadata.items()}
        X, y = parts.X, parts.y
    fit_params = metadata
    if hasattr(model, "steps"):
        fit_params = {f"{model.steps[-1][0]}__{name}": v for name, v in metadata.items()}
    return Tuned(model.fit(X, y, **fit_params), params, score)


def _search(
    estimator: Any, grids: list[Grid], X: Any, y: Any, cv: Any, metadata: Any, ties: bool
) -> list[tuple[float, dict[str, Any]]]:
    """(score, parameters) of every candidate; the score is the accuracy.

    With `ties` and two classes the area under the ROC curve decides among equals.
    """
    classes = np.unique(y)
    scoring: Any = "accuracy"
    if ties and len(classes) == 2:
        scoring = make_scorer(
            _accuracy_and_area, response_method="decision_function", positive=classes[1]
        )
    search = KernelGridSearchCV(estimator, grids, scoring=scoring, refit=False, cv=cv)
    results = search.fit(X, y, **metadata).cv_results_
    # Rounded: means over folds must tie where they are equal.
    score = np.round(np.nan_to_num(results["mean_test_score"], nan=-1.0), 12)
    return list(zip(score.tolist(), results["params"], strict=True))


def _accuracy_and_area(y: NDArray[Any], values: NDArray[Any], *, positive: Any) -> float:
    """Accuracy, and so little of the area under the ROC curve that it decides among equals only.

    In one number: scikit-learn's own two scorers take longer than the models of 50 rows.
    """
    is_positive = y == positive
    accuracy = float(np.mean((values > 0) == is_positive))
    n_positive = int(is_positive.sum())
    n_negative = len(y) - n_positive
    if not n_positive or not n_negative:
        return accuracy
    above = float(rankdata(values)[is_positive].sum()) - 0.5 * n_positive * (n_positive + 1)
    return accuracy + 1e-6 * above / (n_positive * n_negative)


def _folds(y: NDArray[Any], groups: Any, folds: int, seed: int) -> Any:
    """Folds with every class in each where that is possible."""
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if groups is not None:
        smallest = min(len(np.unique(np.asarray(groups)[y == k])) for k in np.unique(y))
    k = min(folds, smallest)
    if k < 2:
        raise ValueError(
            "hyper-parameters are chosen by folds, for which every class needs two rows (or "
            f"groups) at least; the smallest class has {smallest}."
        )
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return kind(k, shuffle=True, random_state=seed).split(np.zeros(len(y)), y, groups)


def _pad(X_priv: Any, rows: int) -> Any:
    """X_priv with rows below that say that there is no privileged information."""
    if hasattr(X_priv, "iloc"):
        return X_priv.reindex(range(len(X_priv) + rows))
    X_priv = np.asarray(X_priv, dtype=np.float64)
    return np.vstack([X_priv, np.full((rows, X_priv.shape[1]), np.nan)])


def _around(grids: list[Grid], best: Mapping[str, Any]) -> Grid:
    """The best values and their neighbours, at half the distance that they have in the grid."""
    out: dict[str, Sequence[Any]] = {}
    for name, value in best.items():
        axis = sorted({v for grid in grids for v in grid.get(name, ()) if _positive(v)})
        if not _positive(value) or len(axis) < 2:
            out[name] = [value]
            continue
        k = axis.index(value)
        ratio = axis[k + 1] / value if k + 1 < len(axis) else value / axis[k - 1]
        out[name] = [value / ratio**0.5, value, value * ratio**0.5]
    return out


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _widths(X: Any, multiples: Sequence[float]) -> list[float]:
    """Kernel widths for these rows; a width of one row's data does not depend on its size."""
    unit = scale_gamma(np.asarray(X, dtype=np.float64))
    return [m * unit for m in multiples]


def _error(model: Any, parts: Parts) -> float:
    return float(np.mean(model.predict(parts.X_test) != parts.y_test))


def _outcome(found: Tuned, parts: Parts, **info: Any) -> Outcome:
    return Outcome(
        _error(found.model, parts),
        found.params,
        {"tuning_score": found.score, **info},
        found.model,
    )


# ---- The paper's methods ------------------------------------------------------------------------


def _svm(parts: Parts, shared: Shared) -> Tuned:
    def compute() -> Tuned:
        grid = {"gamma": _widths(parts.X, WIDTHS), "C": C_VALUES}
        return tuned(WeightedSVC(), grid, parts)

    found: Tuned = shared.get("svm", compute)
    return found


def _svm_plus(parts: Parts, shared: Shared) -> Tuned:
    def compute() -> Tuned:
        if parts.X_priv is None:
            raise ValueError("SVM+ needs privileged features; the data set has none.")
        grid = {
            **COARSE,
            "gamma": _widths(parts.X, COARSE["gamma"]),
            "gamma_priv": _widths(parts.X_priv, COARSE["gamma_priv"]),
        }
        return tuned(SVMPlusClassifier(), grid, parts, X_priv=parts.X_priv, refine=1)

    found: Tuned = shared.get("svm_plus", compute)
    return found


@dataclass(frozen=True)
class SVM:
    """The SVM; C and width chosen on the validation rows."""

    name: str = "svm"
    label: str = "SVM"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        return _outcome(_svm(parts, shared), parts)


@dataclass(frozen=True)
class SVMPlus:
    """SVM+; both kernels, C and correction_reg chosen on the validation rows."""

    name: str = "svm_plus"
    label: str = "SVM+"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        found = _svm_plus(parts, shared)
        return _outcome(found, parts, relative_gap=_relative_gap(found.model))


@dataclass(frozen=True)
class Replay:
    """The weighted SVM with the weights of the tuned SVM+ (``thm:svmw_from_svmp``).

    ``offset="svm_plus"`` takes the offset of SVM+, and is the same classifier. ``"tuned"`` takes
    the one of the optimal offsets (``thm:svmw_unique``) with the smallest validation error: of all
    those, the nearest to the middle of the interval.
    """

    name: str = "wsvm"
    label: str = "WSVM"
    offset: str = "tuned"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        plus = _svm_plus(parts, shared).model
        weights = replicating_weights(plus)
        plain = {"kernel": plus.kernel, "gamma": plus.gamma, "tol": 1e-9}
        model = WeightedSVC(C=1.0, **plain).fit(parts.X, parts.y, sample_weight=weights)
        lower, upper = np.ravel(model.intercept_interval_)
        if self.offset == "svm_plus":
            b = float(np.ravel(plus.intercept_)[0])
            b = float(np.clip(b, lower, upper)) if abs(b - np.clip(b, lower, upper)) < 1e-6 else b
        else:
            b = _offset_by_errors(model, parts, lower, upper)
        shift = b - float(np.ravel(model.intercept_)[0])
        values = model.decision_function(parts.X_test) + shift
        predicted = model.classes_[(values > 0).astype(int)]
        same = plus.decision_function(parts.X_test)
        info = {
            "differs_from_svm_plus": int(np.sum(predicted != plus.predict(parts.X_test))),
            "largest_difference": float(np.max(np.abs(values - same))),
            "offset_interval": float(upper - lower),
        }
        return Outcome(float(np.mean(predicted != parts.y_test)), {"intercept": b}, info, model)


def _offset_by_errors(model: Any, parts: Parts, lower: float, upper: float) -> float:
    """The offset within the interval with the fewest validation errors."""
    b = float(np.ravel(model.intercept_)[0])
    if not upper > lower:
        return b
    sign = np.where(parts.y_val == model.classes_[1], 1.0, -1.0)
    values = model.decision_function(parts.X_val) - b
    # f changes its sign at b = -values; between two such places nothing changes.
    turns = np.sort(-values[(-values > lower) & (-values < upper)])
    ends = np.r_[lower, turns, upper]
    places = np.unique(np.r_[np.clip(b, lower, upper), 0.5 * (ends[1:] + ends[:-1])])
    places = places[np.isfinite(places)]
    errors = np.array([np.sum(sign * (values + place) <= 0) for place in places])
    best = places[errors == errors.min()]
    return float(best[np.argmin(np.abs(best - b))])


@dataclass(frozen=True)
class ProbabilityWeights:
    """Weights P(y_i | x_i)^tau (``eq:wgt:weights_alpha``); tau, C and width are chosen.

    The probability is a Nadaraya-Watson estimate (``eq:nadaraya_watson``) from the validation rows,
    as in the paper.
    """

    name: str = "wsvm_probability"
    label: str = "WSVM, P(Y|X)"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        if parts.X_val is None:
            raise ValueError("P(Y|X) is estimated from validation rows; there are none.")

        def estimate() -> Any:
            return NadarayaWatson().fit(parts.X_val, parts.y_val)

        model = _remembered("nadaraya-watson", parts, estimate)
        return _weighted(parts, model.eta(parts.X), shared, bandwidth=model.bandwidth_)


@dataclass(frozen=True)
class AnnotatorWeights:
    """The same with scores of annotators in place of the estimate."""

    name: str = "wsvm_annotators"
    label: str = "WSVM, annotators"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        if "scores" not in parts.extra:
            raise ValueError("the data set has no scores of annotators.")
        return _weighted(parts, parts.extra["scores"], shared)


def _weighted(parts: Parts, eta: NDArray[Any], shared: Shared, **info: Any) -> Outcome:
    """The weighted SVM whose exponent is chosen with C and the width."""
    grid = {"gamma": _widths(parts.X, WIDTHS), "C": C_VALUES}
    best, best_tau = _svm(parts, shared), 0.0  # tau = 0 is the SVM
    for tau in TAUS[1:]:
        weight = conditional_weights(parts.y, np.clip(eta, -1, 1), tau)
        if not all(weight[parts.y == k].any() for k in np.unique(parts.y)):
            continue
        found = tuned(WeightedSVC(), grid, parts, sample_weight=weight)
        if found.score > best.score:
            best, best_tau = found, tau
    outcome = _outcome(best, parts, **info)
    return Outcome(outcome.error, {**outcome.params, "tau": best_tau}, outcome.info, best.model)


@dataclass(frozen=True)
class LearnedWeights:
    """Weights learned on the validation rows (``eq:wlearning:wopt``), as in the paper.

    C and width are those of the SVM; delta of ``eq:smoothloss`` is chosen on the validation rows.
    No pull on the weights, and the model of the training rows alone.
    """

    name: str = "weight_learning"
    label: str = "WSVM, learned weights"
    deltas: tuple[float, ...] = DELTAS

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        svm = _svm(parts, shared)
        best: tuple[float, float, Any] | None = None
        for delta in self.deltas:
            model = WeightLearningClassifier(
                svm.params["C"],
                gamma=svm.params["gamma"],
                delta=delta,
                weight_penalty=0,
                refit="train",
                random_state=seed,
            ).fit(parts.X, parts.y, X_val=parts.X_val, y_val=parts.y_val)
            value = model.decision_function(parts.X_val)
            margin = np.where(parts.y_val == model.classes_[1], value, -value)
            key = (float(np.mean(margin <= 0)), float(np.maximum(1 - margin, 0).mean()))
            if best is None or key < best[:2]:
                best = (*key, model)
        assert best is not None
        model = best[2]
        params = {**svm.params, "delta": model.delta}
        info = {"tuning_score": 1 - best[0], "zero_weights": int(np.sum(model.sample_weight_ == 0))}
        return Outcome(_error(model, parts), params, info, model)


@dataclass(frozen=True)
class LearnedUnion:
    """Learned weights with the defaults of :class:`lupi.WeightLearningClassifier`.

    A pull on the weights, and a final model of the weighted training rows and the validation rows.
    C and width are those that the SVM on all these rows chose.
    """

    name: str = "weight_learning_union"
    label: str = "learned weights, both samples"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        both = _both(parts, shared)
        model = WeightLearningClassifier(
            both.params["C"], gamma=both.params["gamma"], random_state=seed
        ).fit(parts.X, parts.y, X_val=parts.X_val, y_val=parts.y_val)
        info = {"weight_penalty": float(model.weight_penalty_)}
        return Outcome(_error(model, parts), both.params, info, model)


# ---- Baselines that see the validation rows too -------------------------------------------------


def _by_folds(X: Any, y: NDArray[Any]) -> Tuned:
    """The SVM on these rows, tuned by folds of them; coarse to fine where they are many."""
    parts = Parts(X, y, None, np.zeros(0))
    if len(y) < _FEW_ROWS // 2:
        return tuned(WeightedSVC(), {"gamma": _widths(X, WIDTHS), "C": C_VALUES}, parts)
    grid = {"gamma": _widths(X, WIDTHS[::2]), "C": C_VALUES[::2]}
    return tuned(WeightedSVC(), grid, parts, refine=1, folds=3)


def _validation_only(parts: Parts) -> Tuned:
    """The SVM on the validation rows."""
    found: Tuned = _remembered("svm", parts, lambda: _by_folds(parts.X_val, parts.y_val))
    return found


def _both(parts: Parts, shared: Shared) -> Tuned:
    """The SVM on training and validation rows.

    Where the validation rows are many, their folds alone choose, once for all cells.
    """

    def compute() -> Tuned:
        X, y = stack(parts.X, parts.X_val), np.r_[parts.y, parts.y_val]
        if len(parts.y_val) < 2 * _FEW_ROWS:
            return _by_folds(X, y)
        chosen = _validation_only(parts)
        return Tuned(clone(chosen.model).fit(X, y), chosen.params, chosen.score)

    found: Tuned = shared.get("svm_both", compute)
    return found


@dataclass(frozen=True)
class SVMBoth:
    """The SVM trained on training and validation rows together."""

    name: str = "svm_both"
    label: str = "SVM on both samples"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        return _outcome(_both(parts, shared), parts)


@dataclass(frozen=True)
class SVMValidation:
    """The SVM trained on the validation rows alone."""

    name: str = "svm_validation"
    label: str = "SVM on the validation sample"

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        return _outcome(_validation_only(parts), parts)


@dataclass(frozen=True)
class EstimatorMethod:
    """A scikit-learn estimator of your own.

    Attributes
    ----------
    name, label : str
    estimator : estimator
    grid : dict, default=None
        Chosen from on the validation rows, or by folds; None: fitted as it is.
    privileged : bool, default=False
        Hand it ``X_priv``.
    """

    name: str
    estimator: Any
    grid: Grid | None = None
    label: str = ""
    privileged: bool = False

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn and be scored."""
        X_priv = parts.X_priv if self.privileged else None
        if self.grid is not None:
            return _outcome(tuned(self.estimator, self.grid, parts, X_priv=X_priv), parts)
        metadata = {} if X_priv is None else {"X_priv": X_priv}
        model = clone(self.estimator).fit(parts.X, parts.y, **metadata)
        return Outcome(_error(model, parts), {}, {}, model)


# ---- Helpers ------------------------------------------------------------------------------------

_MEMORY: dict[str, Any] = {}


def _remembered(name: str, parts: Parts, compute: Callable[[], Any]) -> Any:
    """What is computed from the validation rows alone, once for all cells that have the same ones.

    A function of these rows, so that remembering changes nothing but the time. Few rows are drawn
    anew for each cell, and are not remembered.
    """
    if len(parts.y_val) < _FEW_ROWS:
        return compute()
    key = joblib.hash((name, parts.X_val, parts.y_val))
    if key not in _MEMORY:
        while len(_MEMORY) >= 8:
            _MEMORY.pop(next(iter(_MEMORY)))
        _MEMORY[key] = compute()
    return _MEMORY[key]


def _relative_gap(model: Any) -> float:
    return float(model.duality_gap_ / max(1.0, abs(model.dual_objective_)))


__all__ = ["Method", "Outcome", "Shared", "Tuned", "tuned"]
