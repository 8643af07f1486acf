r"""Weights from an estimate of P(y | x), and the simple rules they compete with.

The paper's first way to choose weights (eq:wgt:weights): a row counts as much as its label is
probable where it lies, c_i = P(Y = y_i | X = x_i)^tau. The estimate may come from the rows
themselves (:class:`NadarayaWatson`, or any classifier with ``predict_proba``), from privileged
features, or from annotators.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    _fit_context,
    clone,
)
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data

Vector = NDArray[np.float64]

# Kernel values formed at once (32 MB in float64).
_BLOCK = 4_000_000


def conditional_weights(y: Any, eta: Any, tau: float = 1.0) -> Vector:
    r"""Weights P(Y = y_i | x_i)^tau from scores eta(x) = 2 P(1 | x) - 1.

    eq:wgt:weights and eq:wgt:weights_alpha; tau = 0 gives weights of 1, the plain SVM.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, two different values; the larger is the positive class.
    eta : array-like of shape (n,)
        Scores in [-1, 1]: 1 if the positive class is certain. From annotators, or
        `NadarayaWatson.eta`.
    tau : float, default=1.0
        Exponent, non-negative.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from lupi.weighting import conditional_weights
    >>> conditional_weights([1, 1, -1], [1.0, -0.5, 0.0])
    array([1.  , 0.25, 0.5 ])
    """
    y = np.asarray(y)
    eta = np.asarray(eta, dtype=np.float64)
    if y.ndim != 1 or eta.shape != y.shape:
        raise ValueError(
            f"y and eta must be 1-dimensional of the same length; got shapes {y.shape} and "
            f"{eta.shape}."
        )
    if not 0 <= tau < np.inf:
        raise ValueError(f"tau must be finite and non-negative; got {tau}.")
    inside = (eta >= -1) & (eta <= 1)
    if not inside.all():
        row = int(np.argmin(inside))
        raise ValueError(f"eta must lie in [-1, 1]; row {row} is {eta[row]}.")
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(f"y must hold two classes; got {len(classes)}.")
    if len(classes) == 1:  # which class it is cannot be told from a single value but its sign
        sign = np.full(len(y), 1.0 if float(classes[0]) > 0 else -1.0)
    else:
        sign = np.where(y == classes[1], 1.0, -1.0)
    return (0.5 * (1.0 + sign * eta)) ** float(tau)


class NadarayaWatson(ClassifierMixin, BaseEstimator):
    r"""Estimate of P(y | x) by kernel smoothing, eq:nadaraya_watson.

    .. math::

        \hat P(k \mid x) = \frac{\sum_i K_h(x - x_i)\, 1[y_i = k]}{\sum_i K_h(x - x_i)},
        \qquad K_h(r) = \exp\bigl(-\|r\|^2 / (2 h^2)\bigr)

    The weights are normalised as a softmax, relative to the nearest row: far from all data the
    estimate tends to the label of the nearest rows, and nothing is divided by zero.

    Parameters
    ----------
    bandwidth : "cv" or float, default="cv"
        h. ``"cv"``: of 25 values around the typical distance of neighbours, the one of the largest
        leave-one-out likelihood, or of the largest likelihood of the validation rows given to fit.

    Attributes
    ----------
    bandwidth_ : float
    classes_ : ndarray of shape (n_classes,)
    bandwidths_, scores_ : ndarray
        What "cv" compared: bandwidths, and mean log-likelihoods.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.weighting import NadarayaWatson
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> model = NadarayaWatson(bandwidth=1.0).fit(X, [0, 0, 1, 1])
    >>> model.predict_proba([[0.5], [5.0], [1e6]]).round(3)
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    >>> model.eta([[0.5]]).round(3)  # 2 P(1 | x) - 1
    array([-1.])
    """

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"X_val": True, "y_val": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bandwidth": [StrOptions({"cv"}), Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(self, bandwidth: Any = "cv") -> None:
        self.bandwidth = bandwidth

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Keep the rows, and choose the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
        X_val, y_val : array-like, default=None
            Rows on which the likelihood decides for ``bandwidth="cv"``.

        Returns
        -------
        self : NadarayaWatson
        """
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes; got {len(self.classes_)} class.")
        self._X = X
        self._onehot = np.eye(len(self.classes_))[label]
        if self.bandwidth != "cv":
            self.bandwidth_ = float(self.bandwidth)
            return self
        if (X_val is None) != (y_val is None):
            raise ValueError("pass both X_val and y_val, or neither.")
        if X_val is not None:
            X_val = check_array(X_val, dtype=np.float64, input_name="X_val")
            label = np.searchsorted(self.classes_, np.asarray(y_val))
            known = np.isin(y_val, self.classes_)
            if not known.all():
                raise ValueError(
                    f"y_val contains the label {np.asarray(y_val)[~known][0]!r}, which is not in y."
                )
        rows = X if X_val is None else X_val
        self.bandwidths_ = _typical_distance(X) * np.logspace(-1.5, 1.5, 25)
        self.scores_ = self._likelihoods(rows, label, X_val is None)
        self.bandwidth_ = float(self.bandwidths_[self.scores_.argmax()])
        return self

    def _likelihoods(self, rows: Any, label: NDArray[np.int64], leave_one_out: bool) -> Vector:
        """Mean log P(label | row) for each bandwidth; a row does not vote for itself."""
        total = np.zeros(len(self.bandwidths_))
        step = max(1, _BLOCK // len(self._X))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            squares = _squares(part, self._X)
            if leave_one_out:
                squares[np.arange(len(part)), np.arange(start, start + len(part))] = np.inf
            for k, h in enumerate(self.bandwidths_):
                p = _smooth(squares, self._onehot, h)[
                    np.arange(len(part)), label[start:][: len(part)]
                ]
                # A single surprise must not decide: probabilities are kept above 1e-3.
                total[k] += np.log(np.maximum(p, 1e-3)).sum()
        return total / len(rows)

    def predict_proba(self, X: Any) -> Vector:
        """P(y | x), shape (n_rows, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        out = np.empty((len(X), len(self.classes_)))
        step = max(1, _BLOCK // len(self._X))
        for start in range(0, len(X), step):
            part = X[start : start + step]
            out[start : start + step] = _smooth(
                _squares(part, self._X), self._onehot, self.bandwidth_
            )
        return out

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def eta(self, X: Any) -> Vector:
        """2 P(1 | x) - 1, for two classes: the score that `conditional_weights` takes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        probability = self.predict_proba(X)
        if probability.shape[1] != 2:
            raise ValueError(f"eta is for two classes; there are {probability.shape[1]}.")
        return probability[:, 1] - probability[:, 0]


def _squares(A: Vector, B: Vector) -> Vector:
    centre = B.mean(axis=0)  # differences of large numbers lose digits; distances do not move
    A, B = A - centre, B - centre
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2.0 * (A @ B.T)
    return np.maximum(squares, 0.0, out=squares)


def _smooth(squares: Vector, onehot: Vector, h: float) -> Vector:
    """Kernel-weighted means of the one-hot labels, relative to the nearest row."""
    weight = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2.0 * h * h))
    return (weight @ onehot) / weight.sum(axis=1, keepdims=True)


def _typical_distance(X: Vector) -> float:
    """Median distance of up to 500 rows to the nearest row that differs; 1 if there is none."""
    some = X[np.linspace(0, len(X) - 1, min(500, len(X))).astype(np.int64)]
    squares = _squares(some, X)
    squares[squares <= 1e-24 * max(1e-300, float(squares.max()))] = np.inf
    nearest = np.sqrt(squares.min(axis=1))
    finite = nearest[np.isfinite(nearest)]
    return float(np.median(finite)) if len(finite) else 1.0


# ---- Rules --------------------------------------------------------------------------------------


def class_distance_weights(X: Any, y: Any, *, offset: float = 1e-3) -> Vector:
    """Weights by the distance to the centre of the own class, as in the fuzzy SVM.

    One minus the distance to the mean of the class, divided by ``1 + offset`` times the largest
    such distance in the class.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,)
    offset : float, default=1e-3
        Keeps the weight of the farthest row above zero; relative to the largest distance.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from lupi.weighting import class_distance_weights
    >>> class_distance_weights([[0.0], [2.0], [4.0], [9.0]], [0, 0, 0, 1]).round(2)
    array([0., 1., 0., 1.])
    """
    X, y = check_array(X, dtype=np.float64), np.asarray(y)
    weight = np.ones(len(X))
    for label in np.unique(y):
        rows = y == label
        distance = np.linalg.norm(X[rows] - X[rows].mean(axis=0), axis=1)
        largest = float(distance.max())
        if largest > 0:
            weight[rows] = 1.0 - distance / (largest * (1.0 + offset))
    return weight


def balanced_weights(y: Any) -> Vector:
    """Weights that give every class the same total, n / n_classes.

    Parameters
    ----------
    y : array-like of shape (n,)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from lupi.weighting import balanced_weights
    >>> balanced_weights([0, 0, 0, 1])
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    _, label, count = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    return len(label) / (len(count) * count[label].astype(np.float64))


def neighbour_agreement_weights(X: Any, y: Any, *, n_neighbors: int = 10) -> Vector:
    """Share of the nearest other rows that have the same label.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, n_features)
    y : array-like of shape (n,)
    n_neighbors : int, default=10
        Neighbours, at most n - 1.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from lupi.weighting import neighbour_agreement_weights
    >>> neighbour_agreement_weights([[0.0], [1.0], [2.0], [9.0]], [0, 0, 1, 1], n_neighbors=2)
    array([0.5, 0.5, 0. , 0.5])
    """
    X, y = check_array(X, accept_sparse="csr"), np.asarray(y)
    n = X.shape[0]
    if n < 2:
        raise ValueError(f"neighbours need at least two rows; got {n}.")
    k = min(int(n_neighbors), n - 1)
    if k < 1:
        raise ValueError(f"n_neighbors must be at least 1; got {n_neighbors}.")
    found = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
    return (y[found] == y[:, None]).mean(axis=1)


# ---- The meta-estimator -------------------------------------------------------------------------


def _final_has(name: str) -> Any:
    def check(self: Any) -> bool:
        getattr(self.estimator_ if hasattr(self, "estimator_") else self.estimator, name)
        return True

    return check


class ProbabilityWeightedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""Train a classifier with the weights P(y_i | x_i)^tau, eq:wgt:weights_alpha.

    The probability comes from a classifier that is cross-fitted, so that no row judges itself: on
    X; or on privileged features X_priv, which then act through the weights (a rival of SVM+ at the
    price of one more classifier); or from annotators, as scores in [-1, 1].

    Parameters
    ----------
    estimator : estimator
        The classifier to train; its fit takes ``sample_weight``.
    probability_estimator : estimator, default=None
        Gives P(y | x) by ``predict_proba``; None: `NadarayaWatson`.
    tau : float, default=1.0
        Exponent, non-negative; 0 is the classifier without weights. To be tuned.
    cv : int or cross-validation splitter, default=5
        For the cross-fit.

    Attributes
    ----------
    estimator_ : estimator
        Trained with the weights.
    sample_weight_ : ndarray of shape (n,)
    probability_ : ndarray of shape (n,)
        P(y_i | x_i), before the exponent.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from lupi import WeightedSVC
    >>> from lupi.weighting import ProbabilityWeightedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1, 0)
    >>> X_priv = X[:, :1]  # known for the training rows only
    >>> model = ProbabilityWeightedClassifier(WeightedSVC(), LogisticRegression())
    >>> model.fit(X, y, X_priv=X_priv).sample_weight_.shape
    (60,)
    """

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"X_priv": True, "scores": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "probability_estimator": [HasMethods(["fit", "predict_proba"]), None],
        "tau": [Interval(Real, 0.0, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"])],
    }

    def __init__(
        self,
        estimator: Any,
        probability_estimator: Any = None,
        *,
        tau: float = 1.0,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.probability_estimator = probability_estimator
        self.tau = tau
        self.cv = cv

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = getattr(self.estimator, "__sklearn_tags__", None)
        if own is not None:
            inner = own()
            tags.input_tags.sparse = (
                inner.input_tags.sparse and self.probability_estimator is not None
            )
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, X_priv: Any = None, scores: Any = None) -> Self:
        """Estimate the probabilities, and train with their weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
        y : array-like of shape (n,)
        X_priv : array-like of shape (n, n_priv_features), default=None
            What the probability is estimated from, in place of X.
        scores : array-like of shape (n,), default=None
            Scores in [-1, 1] of the annotators, 1 if ``classes_[1]`` is certain; then nothing is
            estimated. Two classes only.

        Returns
        -------
        self : ProbabilityWeightedClassifier
        """
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"estimator must take sample_weight in fit; {type(self.estimator).__name__} does "
                "not."
            )
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes; got {len(self.classes_)} class.")
        n = X.shape[0]
        for name, value in (("X_priv", X_priv), ("scores", scores)):
            if value is not None and _num_samples(value) != n:
                raise ValueError(
                    f"{name} must have one row per row of X: {n}, got {_num_samples(value)}."
                )
        if scores is not None:
            if X_priv is not None:
                raise ValueError("pass X_priv or scores, not both.")
            if len(self.classes_) != 2:
                raise ValueError(f"scores are for two classes; y has {len(self.classes_)}.")
            try:
                self.probability_ = conditional_weights(label, scores)
            except ValueError as error:
                raise ValueError(str(error).replace("eta", "scores")) from None
        else:
            basis = (
                X
                if X_priv is None
                else check_array(X_priv, accept_sparse="csr", dtype=np.float64, input_name="X_priv")
            )
            self.probability_ = self._cross_fitted(basis, label)
        weight = self.probability_ ** float(self.tau)
        if not weight.any():
            raise ValueError(
                "all weights are zero: no label has any probability under the estimate. Use a "
                "smaller tau, or another probability_estimator."
            )
        self.sample_weight_ = weight
        self.estimator_ = clone(self.estimator).fit(X, y, sample_weight=weight)
        return self

    def _cross_fitted(self, basis: Any, label: NDArray[np.int64]) -> Vector:
        """P(y_i | x_i) by a model that has not seen row i."""
        if self.probability_estimator is None:
            model: Any = NadarayaWatson()
            if sp.issparse(basis):
                raise ValueError(
                    "the default probability_estimator takes dense features; pass one that takes "
                    "sparse ones."
                )
        else:
            model = self.probability_estimator
        cv = self.cv
        if isinstance(cv, Integral):
            folds = int(min(cv, np.bincount(label).min()))
            if folds < 2:
                raise ValueError(
                    "every class needs at least two rows for a cross-fit; class "
                    f"{self.classes_[np.bincount(label).argmin()]!r} has one."
                )
            cv = StratifiedKFold(folds, shuffle=True, random_state=0)
        probability = np.full(len(label), np.nan)
        for train, test in check_cv(cv).split(np.zeros(len(label)), label):
            fitted = clone(model).fit(basis[train], label[train])
            table = np.zeros((len(test), len(self.classes_)))
            table[:, fitted.classes_] = fitted.predict_proba(basis[test])
            probability[test] = table[np.arange(len(test)), label[test]]
        if np.isnan(probability).any():
            raise ValueError("cv must put every row into a test part once.")
        return np.clip(probability, 0.0, 1.0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels, by the trained estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_final_has("decision_function"))
    def decision_function(self, X: Any) -> Vector:
        """Decision values of the trained estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)

        Returns
        -------
        ndarray
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @available_if(_final_has("predict_proba"))
    def predict_proba(self, X: Any) -> Vector:
        """Probabilities of the trained estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def get_metadata_routing(self) -> Any:
        """Its own requests; nothing is routed on, since the weights are its own.

        Returns
        -------
        MetadataRouter
        """
        return MetadataRouter(owner=type(self).__name__).add_self_request(self)
