"""What the kernel machines share: checks, kernels, one-vs-one, and prediction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels import NAMES, KernelMatrix, KernelSpec, given_matrix, scale_gamma
from ..solution import Solution
from ._export import to_sklearn
from ._state import (
    altered,
    sound_basis,
    sound_coefficients,
    sound_kernel,
    sound_names,
    sound_rows,
    sound_vector,
)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PairSolution:
    """One binary problem of a one-vs-one fit.

    Attributes
    ----------
    classes : tuple
        The class with y = +1, then the one with y = -1.
    rows : ndarray
        Training rows of this problem, in the caller's numbering.
    solution : Solution
        Its solution; entry i belongs to row ``rows[i]``.
    """

    classes: tuple[Any, Any]
    rows: NDArray[np.int64]
    solution: Solution


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Weights as float64, or None for 'all equal'; errors name the row at fault."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        weight = np.full(n, float(sample_weight))
    else:
        weight = np.asarray(sample_weight)
        if weight.dtype.kind not in "fiub":
            try:
                if weight.dtype.kind == "c":
                    raise TypeError("complex numbers have no order")
                weight = weight.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"sample_weight must hold real numbers; got an array of {weight.dtype}."
                ) from error
        if weight.ndim != 1:
            raise ValueError(
                "Sample weights must be 1D array or scalar: sample_weight has shape "
                f"{weight.shape}, expected ({n},)."
            )
        if len(weight) != n:
            raise ValueError(
                f"sample_weight.shape == {weight.shape}, expected {(n,)}: one weight per row of X."
            )
        weight = weight.astype(np.float64)
    good = (weight >= 0) & (weight < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"sample_weight must be finite and non-negative; row {row} is {weight[row]}."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight must have at least one weight that is not zero; all weights are zero, "
            "which leaves no training rows."
        )
    return weight


def check_gram(K: Any, name: str) -> NDArray[np.float64]:
    """A symmetric kernel matrix in float64; errors name what is wrong with it."""
    if sp.issparse(K):
        raise TypeError(f"{name} must be a dense array: a sparse kernel matrix is not supported.")
    K = np.ascontiguousarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f"{name} must be a square matrix: a kernel value for every pair of training rows. "
            f"Precomputed matrix must be a square matrix. Input is a {K.shape} matrix."
        )
    if not np.isfinite(K).all():
        raise ValueError(f"{name} must be finite; it contains NaN or infinity.")
    difference = np.abs(K - K.T)
    largest = float(np.abs(K).max(initial=0.0))
    if difference.max(initial=0.0) > 1e-6 * max(largest, 1e-300):
        i, j = np.unravel_index(int(difference.argmax()), K.shape)
        raise ValueError(
            f"{name} must be symmetric; entry ({i}, {j}) is {K[i, j]:.9g} and entry ({j}, {i}) "
            f"is {K[j, i]:.9g}. Symmetrise it, for example by 0.5 * (K + K.T)."
        )
    return K


@dataclass(frozen=True, eq=False)
class TrainingKernel:
    """A kernel on the training rows, by its parameters or as a matrix that is at hand."""

    X: Any
    gram: NDArray[np.float64] | None
    spec: KernelSpec | None
    gamma: float

    def matrix(self, rows: NDArray[np.int64] | None) -> KernelMatrix:
        """The kernel matrix among some rows (None: all)."""
        if self.gram is not None:
            return given_matrix(self.gram if rows is None else self.gram[np.ix_(rows, rows)])
        assert self.spec is not None
        return self.spec.matrix(self.X if rows is None else self.X[rows])


def training_kernel(
    X: Any,
    weight: NDArray[np.float64] | None,
    kernel: Any,
    gamma: Any,
    degree: Any,
    coef0: Any,
    *,
    name: str,
    suffix: str,
) -> TrainingKernel:
    """The kernel with these parameters; `name`, `suffix`: those of the arguments, for errors."""
    if kernel == "precomputed":
        return TrainingKernel(X, check_gram(X, f"{name} (kernel{suffix}='precomputed')"), None, 1.0)
    if callable(kernel):
        gram = kernel(X, X)
        if not sp.issparse(gram) and np.shape(gram) != (X.shape[0], X.shape[0]):
            raise ValueError(
                f"kernel{suffix}({name}, {name}) must return an array of shape "
                f"{(X.shape[0], X.shape[0])}, one value for every pair of training rows; got shape "
                f"{np.shape(gram)}."
            )
        return TrainingKernel(X, check_gram(gram, f"kernel{suffix}({name}, {name})"), None, 1.0)
    width = 1.0
    if kernel != "linear":
        if gamma == "scale":
            width = scale_gamma(X, weight)
        else:
            width = 1.0 / X.shape[1] if gamma == "auto" else float(gamma)
    spec = KernelSpec(kernel, width, int(degree), float(coef0))
    return TrainingKernel(X, None, spec, width)


def expansion(
    kernel: Any,
    spec: KernelSpec,
    basis: Any,
    coef: NDArray[np.float64],
    X: Any,
    columns: NDArray[Any] | None,
    *,
    name: str,
) -> NDArray[np.float64]:
    """sum_j coef[:, j] k(basis_j, x) for every row x of X, shape (n_rows, len(coef)).

    ``kernel="precomputed"``: X holds kernel values and `columns` says which of them.
    """
    if isinstance(kernel, str) and kernel == "precomputed":
        return np.asarray(X[:, columns].astype(np.float64, copy=False) @ coef.T)
    if basis.shape[0] == 0:
        return np.zeros((X.shape[0], len(coef)))
    if callable(kernel):
        K = np.asarray(kernel(X, basis), dtype=np.float64)
        if K.shape != (X.shape[0], basis.shape[0]):
            raise ValueError(
                f"{name} must return an array of shape {(X.shape[0], basis.shape[0])}; got shape "
                f"{K.shape}."
            )
        return K @ coef.T
    if kernel == "linear":
        return np.asarray(X @ np.asarray(coef @ basis).T, dtype=np.float64)
    return spec.expand(basis, coef, X).T


_PRIVATE_STATE = (
    "_coef",
    "_gamma",
    "_coef_corr",
    "_gamma_priv",
    "_rows_priv",
    "_columns_priv",
    "_problem",
)


class KernelSVC(ClassifierMixin, BaseEstimator):
    """Base of the kernel classifiers; not for direct use."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(NAMES)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel = getattr(self, "kernel", None)  # gone from a damaged model
        given = isinstance(kernel, str) and kernel == "precomputed"
        tags.input_tags.sparse, tags.input_tags.pairwise = not given, given
        return tags

    # ---- fit ----------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Remove what an earlier fit left, so that a failed fit leaves no mixture behind."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _PRIVATE_STATE]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_coef")

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the model without its training rows."""
        state = dict(super().__getstate__())
        state.pop("_problem", None)
        return state

    def _training_problem(self) -> tuple[Any, Solution]:
        """The binary problem that was solved, and its solution: what the theory works from."""
        check_is_fitted(self)
        name = type(self).__name__
        if len(self.classes_) > 2:
            raise ValueError(
                f"model must be a {name} of two classes; it was fitted with {len(self.classes_)}. "
                "The paper's statements are about one binary problem: fit one for each pair."
            )
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise ValueError(
                f"model must be a {name} that was fitted in this process: its training rows are "
                "not kept when it is pickled or copied. Fit it again to ask about them."
            )
        return problem, self.solution_

    def _kernel_params(self) -> dict[str, Any]:
        """The constructor's arguments for the same kernel, its width as a number."""
        return {
            "kernel": self.kernel,
            "gamma": self._gamma,
            "degree": self.degree,
            "coef0": self.coef0,
        }

    def _check_training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Array, NDArray[np.int64], NDArray[np.float64] | None]:
        """X in the form the kernels want, class indices, weights; sets ``classes_``."""
        self._forget()
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            accept_large_sparse=True,
        )
        # Integers and strings are labels; the check costs a third of a small fit.
        if not (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and (y == np.rint(y)).all())):
            check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "y must hold at least two classes; got one class: "
                f"The number of classes has to be greater than one; got {len(self.classes_)} class"
            )
        return X, label, check_weights(sample_weight, X.shape[0])

    def _training_kernel(self, X: Any, weight: NDArray[np.float64] | None) -> TrainingKernel:
        """The kernel among the training rows; sets ``_gamma``."""
        kernel = training_kernel(
            X, weight, self.kernel, self.gamma, self.degree, self.coef0, name="X", suffix=""
        )
        self._gamma = kernel.gamma
        return kernel

    def _kernel_spec(self) -> KernelSpec:
        return KernelSpec(self.kernel, self._gamma, int(self.degree), float(self.coef0))

    def _costs(
        self, label: NDArray[np.int64], weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """c_i = C * sample_weight_i * class weight."""
        c = np.ones(len(label)) if weight is None else weight
        if isinstance(self.class_weight, str):
            # "balanced", by weight; a class without weight is absent and balances nothing.
            total = np.bincount(label, weights=c)
            present = total > 0
            by_class = np.divide(total.sum(), present.sum() * total, where=present, out=total)
            c = c * by_class[label]
        elif self.class_weight is not None:
            by_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[label]
            )
            if not (by_class >= 0).all():
                raise ValueError(f"class_weight must be non-negative; got {self.class_weight!r}.")
            c = c * by_class[label]
        with np.errstate(over="ignore"):
            c = self.C * c
        if not (c.any() and np.isfinite(c).all()):
            raise ValueError(
                "C * sample_weight * class_weight must be finite and not zero everywhere; its "
                f"values range from {c.min()} to {c.max()}."
            )
        return c

    def _pairs(
        self, label: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.int64] | None, NDArray[np.float64]]]:
        """(positive class, negative class, rows or None for all, y) of every binary problem.

        Two classes: the second is positive. More: the first of each pair is, as in ``SVC``.
        """
        if len(self.classes_) == 2:
            yield 1, 0, None, np.where(label == 1, 1.0, -1.0)
            return
        for i, j in combinations(range(len(self.classes_)), 2):
            rows = np.flatnonzero((label == i) | (label == j))
            if self.verbose:
                print(f"[lupi] class {self.classes_[i]} against class {self.classes_[j]}:")
            yield i, j, rows, np.where(label[rows] == i, 1.0, -1.0)

    def _warn_unless_converged(self, solutions: list[Solution]) -> None:
        """At most one ConvergenceWarning for a fit, about the worst of its problems."""
        failed = [s for s in solutions if not s.status.converged]
        if failed:
            worst = max(failed, key=lambda s: s.gap)
            which = (
                f" ({len(failed)} of {len(solutions)} binary problems)"
                if len(solutions) > 1
                else ""
            )
            warnings.warn(
                f"{type(self).__name__} did not reach tol={self.tol}{which}: KKT violation "
                f"{worst.violation:.3g}, duality gap {worst.gap:.3g}. {worst.status.advice}",
                ConvergenceWarning,
                stacklevel=4,  # _fit_context's wrapper stands between fit and its caller
            )

    def _set_expansion(
        self, X: Any, label: NDArray[np.int64], fitted: list[tuple[int, int, Any, Solution]]
    ) -> None:
        """support_, support_vectors_, n_support_, dual_coef_, intercept_, laid out as in SVC.

        ``_coef`` (n_pairs, n_SV) holds one expansion per binary problem, which is what prediction
        uses; ``dual_coef_`` is LIBSVM's compressed layout of it: row j - 1 of class i's columns and
        row i of class j's columns belong to the pair (i, j), i < j.
        """
        n, k = len(label), len(self.classes_)
        is_support = np.zeros(n, dtype=np.bool_)
        for _, _, rows, solution in fitted:
            used = solution.dual.alpha > 0
            is_support[used if rows is None else rows[used]] = True
        unsorted = is_support.nonzero()[0]
        support: NDArray[np.int64] = unsorted[label[unsorted].argsort(kind="stable")]
        support_label = label[support]
        position = np.empty(n, dtype=np.intp)
        position[support] = np.arange(len(support))

        coef = np.zeros((len(fitted), len(support)))
        compressed = np.zeros((k - 1, len(support)))
        for p, (positive, negative, rows, solution) in enumerate(fitted):
            alpha = solution.dual.alpha
            own = alpha.nonzero()[0]
            where = position[own if rows is None else rows[own]]
            coef[p, where] = np.where(support_label[where] == positive, alpha[own], -alpha[own])
            if k > 2:
                first, second = min(positive, negative), max(positive, negative)
                of_first, of_second = support_label == first, support_label == second
                compressed[second - 1, of_first] = coef[p, of_first]
                compressed[first, of_second] = coef[p, of_second]
        self._coef = coef
        self.dual_coef_ = coef if k == 2 else compressed
        self.support_ = support.astype(np.int32)
        self.n_support_ = np.bincount(support_label, minlength=k).astype(np.int32)
        if self.kernel == "precomputed":
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = X[support]
        self.intercept_ = np.array([s.primal.b for *_, s in fitted])
        self.n_iter_ = np.array([s.n_iter for *_, s in fitted], dtype=np.int32)
        self.shape_fit_ = X.shape

    def _unpack(self, X: Any, label: Any, fitted: list[tuple[int, int, Any, Solution]]) -> None:
        """The fitted attributes, from (positive class, negative, rows, solution) of each pair."""
        self._set_expansion(X, label, fitted)
        if len(self.classes_) == 2:
            solution = fitted[0][-1]
            self.solution_ = solution
            self.alpha_, self.beta_ = solution.dual.alpha, solution.dual.beta
            self.instance_weights_ = self.alpha_ + self.beta_
            self.slack_ = solution.primal.slack
            self.intercept_interval_ = np.array(solution.primal.b_interval)
            self.primal_objective_: Any = solution.primal_objective
            self.dual_objective_: Any = solution.dual_objective
            self.duality_gap_ = solution.gap
        else:
            self.solutions_ = [
                PairSolution((self.classes_[p], self.classes_[q]), rows, solution)
                for p, q, rows, solution in fitted
            ]
            self.intercept_interval_ = np.array([s.primal.b_interval for *_, s in fitted])
            self.primal_objective_ = np.array([s.primal_objective for *_, s in fitted])
            self.dual_objective_ = np.array([s.dual_objective for *_, s in fitted])
            self.duality_gap_ = self.primal_objective_ - self.dual_objective_

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, shape (n_pairs, n_features); for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        coef, basis = self._checked_state()
        return np.asarray(coef @ basis)

    # ---- predict ------------------------------------------------------------------------------

    def _expansions(self, X: Any) -> NDArray[np.float64]:
        """Decision values of every binary problem, shape (n_rows, n_pairs)."""
        check_is_fitted(self)
        coef, basis = self._checked_state()
        X = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            accept_large_sparse=True,
            reset=False,
        )
        values = expansion(
            self.kernel,
            self._kernel_spec(),
            basis,
            coef,
            X,
            self.support_,
            name="kernel(X, support_vectors_)",
        )
        return values + self.intercept_

    def _checked_state(self) -> tuple[NDArray[np.float64], Any]:
        """The coefficients and rows of the expansion, after a look at all fitted state."""
        try:
            coef, support, basis = self._coef, self.support_, self.support_vectors_
            classes, names = self.classes_, getattr(self, "feature_names_in_", None)
            width: Any = self.n_features_in_
            k = len(classes)
            n_pairs = k * (k - 1) // 2
            sound = (
                all(hasattr(self, name) for name in self._parameter_constraints)
                and isinstance(self.decision_function_shape, str)
                and isinstance(classes, np.ndarray)
                and classes.ndim == 1
                and k >= 2
                and isinstance(width, Integral)
                and isinstance(self.shape_fit_, tuple)
                and sound_rows(support, self.shape_fit_[0])
                and sound_vector(self.intercept_, n_pairs)
                and sound_coefficients(coef, n_pairs, len(support))
                and sound_kernel(self.kernel, self._gamma, self.degree, self.coef0)
                and (names is None or sound_names(names, width))
            )
            if sound and isinstance(self.kernel, str) and self.kernel == "precomputed":
                sound = width == self.shape_fit_[0]
            elif sound:
                sound, basis = sound_basis(basis, len(support), width)
        except (AttributeError, TypeError, ValueError, IndexError):
            sound = False
        if not sound:
            raise altered(self)
        return np.ascontiguousarray(coef), basis

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distances, in units of the margin.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_rows, n_features)
            Rows to judge; with ``kernel="precomputed"``, kernel values against the training rows,
            shape (n_rows, n_training_rows).

        Returns
        -------
        ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_pairs)
            Two classes: f(x) = <w, z> + b, positive for ``classes_[1]``. More: one column per class
            (``decision_function_shape="ovr"``) or per pair of classes (``"ovo"``).
        """
        values = self._expansions(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        return self._votes(values) if self.decision_function_shape == "ovr" else values

    def predict(self, X: Any) -> Array:
        """Class labels.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_rows, n_features)
            As in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        values = self._expansions(X)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if len(self.classes_) == 2:
            return self.classes_[(values[:, 0] > 0).astype(np.intp)]
        if self.break_ties:
            return self.classes_[self._votes(values).argmax(axis=1)]
        votes = np.zeros((len(values), len(self.classes_)), dtype=np.intp)
        for p, (i, j) in enumerate(combinations(range(len(self.classes_)), 2)):
            first = values[:, p] > 0
            votes[:, i] += first
            votes[:, j] += ~first
        return self.classes_[votes.argmax(axis=1)]

    def to_sklearn(self) -> Any:
        """Convert to one of scikit-learn's own classifiers, already fitted.

        For tools that know scikit-learn's classes only, and for machines without lupi.

        Returns
        -------
        sklearn.svm.SVC or sklearn.svm.LinearSVC
            ``LinearSVC`` for the linear kernel with two classes, ``SVC`` otherwise; the same
            decision function up to rounding, the same labels (where f(x) is exactly 0, ``SVC``
            takes ``classes_[1]``), the same shape of decision values. What only lupi knows (the
            certificate, the correcting function) stays behind. Its parameters are these, with the
            width of the kernel as a number.

        Notes
        -----
        An ``SVC`` fitted on sparse rows takes dense and sparse ones; fitted on dense rows, dense
        ones only. With a callable kernel its ``support_`` counts the support vectors instead of the
        training rows. A model without support vectors gets one of coefficient zero.
        """
        check_is_fitted(self)
        return to_sklearn(self)

    def _votes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Votes of the pairs, ties broken by the sum of the decision values.

        The sum s of a class's decision values enters as s / (3 (|s| + 1)), which is below 1/3, so
        that it never outweighs a vote.
        """
        k = len(self.classes_)
        votes, total = np.zeros((len(values), k)), np.zeros((len(values), k))
        for p, (i, j) in enumerate(combinations(range(k), 2)):
            value = values[:, p]
            total[:, i] += value
            total[:, j] -= value
            votes[:, i] += value >= 0
            votes[:, j] += value < 0
        return votes + total / (3 * (np.abs(total) + 1))
