"""SVM+ as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import _fit_context, clone
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    _get_feature_names,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from ..kernels import NAMES, KernelSpec
from ..problems import SVMPlusProblem
from ..solution import Solution, svmplus_zero_solution
from ..solvers import svmplus
from ._base import KernelSVC, TrainingKernel, expansion, training_kernel
from ._state import (
    altered,
    sound_basis,
    sound_coefficients,
    sound_kernel,
    sound_names,
    sound_rows,
    sound_vector,
)


class PrivilegedInformationWarning(UserWarning):
    """SVM+ was trained without privileged information: it is the weighted SVM then."""


class SVMPlusClassifier(KernelSVC):
    r"""Support vector classifier that learns with privileged information (SVM+).

    Privileged features ``X_priv`` are known for the training rows only: a report beside the image,
    a costly sensor, tomorrow's price. SVM+ uses them to model which training rows are hard, by a
    *correcting function* :math:`\xi(x^*)` that takes the place of the slack variables
    (eq:svmp_primal of the paper):

    .. math::

        \min_{w, b, w^*, b^*} \tfrac12 \|w\|^2 + \tfrac{\gamma}{2} \|w^*\|^2
        + \sum_i C_i\, \xi(x^*_i)
        \quad\text{s.t.}\quad y_i (\langle w, \Phi(x_i)\rangle + b) \ge 1 - \xi(x^*_i),\;
        \xi(x^*_i) \ge 0,

    with :math:`\xi(x^*) = \langle w^*, \Phi^*(x^*)\rangle + b^*`, :math:`C_i` = ``C *
    sample_weight[i] * class_weight[y_i]`` and :math:`\gamma` = ``correction_reg``. Prediction needs
    the ordinary features only. Every fit reports how far it can be from the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; multiplies every weight.
    correction_reg : float, default=1.0
        The paper's :math:`\gamma`: how strongly the correcting function is kept flat. Large: all
        rows have nearly the same slack. Small: the slack of each row is nearly free. Zero is
        allowed where the privileged feature map is finite ("linear", "poly", "precomputed").
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel; a callable gets two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf", "poly" and "sigmoid". ``"scale"``: 1 / (n_features * variance of X), the
        variance weighted by ``sample_weight``; ``"auto"``: 1 / n_features.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    kernel_priv, gamma_priv, degree_priv, coef0_priv
        The same for the privileged features. With ``kernel_priv="precomputed"``, ``X_priv`` is
        the kernel matrix of the training rows.
    preprocessor_priv : transformer, default=None
        Cloned and fitted on the privileged rows inside ``fit``, say a ``StandardScaler()`` or an
        imputer: a :class:`~sklearn.pipeline.Pipeline` cannot do that for a second array. Rows of
        weight zero are left out, and a ``fit`` that takes ``sample_weight`` gets it.
    class_weight : dict or "balanced", default=None
        Factor on the weights of each class.
    tol : float, default=1e-3
        Largest KKT violation, in units of the decision function. Problems of up to 2,000 rows are
        solved much further, to about 1e-9.
    max_iter : int, default=-1
        Bound on the solver's Newton steps; -1: none that a convex problem reaches.
    cache_size : float, default=1000
        Megabytes for kernel blocks and factorisations.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With more than two classes: one decision value per class or per pair of classes.
    break_ties : bool, default=False
        With more than two classes: break ties between classes by decision values.
    verbose : int, default=0
        Positive: print the solver's progress.

    Attributes
    ----------
    alpha_, beta_ : ndarray of shape (n,)
        Dual variables of eq:svmp_kkt, in training order; two classes only, like all down to
        ``intercept_corr_``.
    instance_weights_ : ndarray of shape (n,)
        ``alpha_ + beta_``: the weights with which a weighted SVM is this classifier
        (thm:svmw_from_svmp).
    slack_ : ndarray of shape (n,)
        The correcting function at the training rows; the hinge loss where there is no privileged
        information.
    intercept_corr_ : float
        Offset of the correcting function; with more than two classes, ndarray of shape (n_pairs,).
    intercept_ : ndarray of shape (1,) or (n_pairs,)
        Offset b.
    intercept_interval_ : ndarray of shape (2,) or (n_pairs, 2)
        All optimal offsets: one number twice where there is a support vector (thm:svmp_unique).
    support_ : ndarray of shape (n_SV,)
        Rows with alpha > 0 in the caller's numbering, grouped by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        ``y * alpha`` of the support vectors, laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        w, for the linear kernel only.
    preprocessor_priv_ : transformer
        The fitted preprocessor, if there is one.
    primal_objective_, dual_objective_, duality_gap_ : float, or ndarray of shape (n_pairs,)
        The certificate, from feasible points in float64.
    n_iter_ : ndarray of shape (n_pairs,)
        Newton steps of the solver.
    solution_ : Solution
        The whole solution; two classes only.
    solutions_ : list of PairSolution
        One entry per pair of classes; more than two classes only.
    shape_fit_ : tuple of int
        Shape of the training data.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_, n_priv_features_in_ : int
        ``n_priv_features_in_`` is 0 without privileged information.
    feature_names_in_, priv_feature_names_in_ : ndarray of shape (n_features,)
        Only when X has string column names; those of X_priv, shape (n_priv_features,).

    See Also
    --------
    WeightedSVC : The same without privileged information.

    Notes
    -----
    Rows of ``X_priv`` that are entirely NaN have no privileged information: they get an ordinary
    slack of cost :math:`C_i`. A weight of zero leaves the row out, its privileged information
    included.

    References
    ----------
    M. Lapin, M. Hein, B. Schiele. Learning Using Privileged Information: SVM+ and Weighted SVM.
    Neural Networks 53, 2014.

    V. Vapnik, A. Vashist. A new learning paradigm: Learning using privileged information. Neural
    Networks 22, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import SVMPlusClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> score = X[:, 0] + 0.5 * X[:, 1]
    >>> y = score + rng.normal(size=60) > 0
    >>> model = SVMPlusClassifier(C=10.0).fit(X, y, X_priv=np.abs(score)[:, None])
    >>> bool(model.duality_gap_ < 1e-6)
    True
    >>> model.predict(X[:3]).shape, model.predict_slack([[0.0], [2.0]]).shape
    ((3,), (2,))
    """

    # Asked for by default, so that searches and cross-validation slice it along with X.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_priv": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSVC._parameter_constraints,
        "correction_reg": [Interval(Real, 0.0, None, closed="left")],
        "kernel_priv": [StrOptions(set(NAMES)), callable],
        "gamma_priv": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "degree_priv": [Interval(Integral, 0, None, closed="left")],
        "coef0_priv": [Interval(Real, None, None, closed="neither")],
        "preprocessor_priv": [HasMethods(["fit", "transform"]), None],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        correction_reg: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_priv: Any = "rbf",
        gamma_priv: Any = "scale",
        degree_priv: int = 3,
        coef0_priv: float = 0.0,
        preprocessor_priv: Any = None,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.correction_reg = correction_reg
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_priv = kernel_priv
        self.gamma_priv = gamma_priv
        self.degree_priv = degree_priv
        self.coef0_priv = coef0_priv
        self.preprocessor_priv = preprocessor_priv
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_priv: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n, n_features)
            Training rows; with ``kernel="precomputed"`` their kernel matrix, (n, n).
        y : array-like of shape (n,)
            Labels, of two classes or more.
        sample_weight : array-like of shape (n,), default=None
            Weights, non-negative; None means 1 for every row.
        X_priv : {array-like, CSR matrix} of shape (n, n_priv_features), default=None
            Privileged features of the same rows; with ``kernel_priv="precomputed"`` their kernel
            matrix, (n, n). Rows that are entirely NaN have none; None means that no row has any.

        Returns
        -------
        self : SVMPlusClassifier
        """
        X, label, weight = self._check_training_data(X, y, sample_weight)
        if self.correction_reg == 0 and (
            callable(self.kernel_priv) or self.kernel_priv not in ("linear", "poly", "precomputed")
        ):
            raise ValueError(
                "correction_reg=0 needs a privileged feature map of finite dimension; "
                f"kernel_priv={self.kernel_priv!r} has none: its correcting functions can take any "
                "values at the training rows, which leaves an SVM without privileged information. "
                "Use kernel_priv='linear', 'poly' or 'precomputed', or a positive correction_reg."
            )
        known, X_known = self._check_privileged(X_priv, X.shape[0], weight)
        kernel = self._training_kernel(X, weight)
        kernel_priv = self._training_kernel_priv(X_known, None if weight is None else weight[known])
        position = np.full(X.shape[0], -1, dtype=np.int64)
        position[known] = np.arange(len(known))
        C = self._costs(label, weight)
        fitted = []
        for positive, negative, rows, signs in self._pairs(label):
            pair_C = C if rows is None else C[rows]
            of_pair = position if rows is None else position[rows]
            pair_known = of_pair[of_pair >= 0]
            if pair_C.any():
                priv = np.full(len(signs), -1, dtype=np.int64)
                priv[of_pair >= 0] = np.arange(len(pair_known))
                solution = svmplus.solve(
                    problem := SVMPlusProblem(
                        kernel.matrix(rows),
                        kernel_priv.matrix(None if rows is None else pair_known),
                        priv,
                        signs,
                        pair_C,
                        float(self.correction_reg),
                    ),
                    tol=self.tol,
                    max_iter=self.max_iter,
                    cache_size=self.cache_size,
                    verbose=self.verbose,
                )
            else:  # two classes of weight zero: any b is optimal
                solution = svmplus_zero_solution(len(signs), len(pair_known))
            fitted.append((positive, negative, rows, solution))
        self._unpack(X, label, fitted)
        if len(self.classes_) == 2:
            self._problem = problem
        self._set_correction(X_known, known, position, fitted)
        self._warn_unless_converged([s for *_, s in fitted])
        return self

    # ---- the privileged side ------------------------------------------------------------------

    def _check_privileged(
        self, X_priv: Any, n: int, weight: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.int64], Any]:
        """The rows with privileged information, and their features, preprocessed.

        With a precomputed kernel: the kernel matrix among these rows.
        """
        self.n_priv_features_in_ = 0
        if X_priv is None:
            _warn_without_privileged("X_priv is None")
            return np.empty(0, dtype=np.int64), np.empty((0, 1))
        n_priv = _num_samples(X_priv)
        if n_priv != n:
            raise ValueError(
                f"X_priv must have one row for each row of X: X has {n} rows, X_priv has {n_priv}."
            )
        X_priv = _with_whole_rows(X_priv)
        missing = _rows_without_values(X_priv)
        known = np.flatnonzero(~missing)
        if len(known) == 0:
            _warn_without_privileged("every row of X_priv is NaN")
            return known, np.empty((0, 1))
        if self.preprocessor_priv is not None and self.kernel_priv == "precomputed":
            raise ValueError(
                "preprocessor_priv must be None with kernel_priv='precomputed': X_priv is a kernel "
                "matrix then; preprocess the features before computing it."
            )
        rows = X_priv if len(known) == n else _safe_indexing(X_priv, known)
        present = np.arange(len(known))
        if weight is not None:
            present = np.flatnonzero(weight[known])
            if len(present) == 0:
                _warn_without_privileged("every row with privileged information has weight zero")
                present = np.arange(len(known))
        if self.preprocessor_priv is None:
            if self.kernel_priv == "precomputed" and not sp.issparse(rows):
                rows = np.asarray(rows)
                if rows.ndim == 2 and rows.shape[1] == n:
                    rows = rows[:, known]
            checked = _checked_rows(rows, known)
        else:
            preprocessor = clone(self.preprocessor_priv)
            settings = {}
            if weight is not None and has_fit_parameter(preprocessor, "sample_weight"):
                settings = {"sample_weight": weight[known][present]}
            whole = len(present) == len(known)
            preprocessor.fit(rows if whole else _safe_indexing(rows, present), **settings)
            self.preprocessor_priv_ = preprocessor
            checked = self._preprocessed(rows, known)
        shape = X_priv.shape
        self.n_priv_features_in_ = int(shape[1]) if len(shape) > 1 else 1  # 1-d: texts
        names = _get_feature_names(X_priv)
        if names is not None:
            self.priv_feature_names_in_ = names
        return known, checked

    def _preprocessed(self, X_priv: Any, numbers: NDArray[np.int64]) -> Any:
        """Privileged rows after ``preprocessor_priv_``."""
        n = _num_samples(X_priv)
        X_priv = self.preprocessor_priv_.transform(X_priv)
        if _num_samples(X_priv) != n:
            raise ValueError(
                f"preprocessor_priv must keep the number of rows: {n} rows of X_priv became "
                f"{_num_samples(X_priv)}."
            )
        return _checked_rows(X_priv, numbers)

    def _training_kernel_priv(
        self, X_priv: Any, weight: NDArray[np.float64] | None
    ) -> TrainingKernel:
        if X_priv.shape[0] == 0:
            self._gamma_priv = 1.0
            return TrainingKernel(X_priv, None, KernelSpec("linear"), 1.0)
        if weight is not None and not weight.any():
            weight = None
        kernel = training_kernel(
            X_priv,
            weight,
            self.kernel_priv,
            self.gamma_priv,
            self.degree_priv,
            self.coef0_priv,
            name="X_priv",
            suffix="_priv",
        )
        self._gamma_priv = kernel.gamma
        return kernel

    def _set_correction(
        self,
        X_priv: Any,
        known: NDArray[np.int64],
        position: NDArray[np.int64],
        fitted: list[tuple[int, int, Any, Solution]],
    ) -> None:
        """What :meth:`predict_slack` needs: coefficients on the privileged rows, and the rows."""
        coef = np.zeros((len(fitted), len(known)))
        for p, (_, _, rows, solution) in enumerate(fitted):
            of_pair = position if rows is None else position[rows]
            coef[p, of_pair[of_pair >= 0]] = solution.primal.coef_corr  # type: ignore[attr-defined]
        self._coef_corr = coef
        self._columns_priv = known
        self._rows_priv = np.empty((0, 0)) if self.kernel_priv == "precomputed" else X_priv
        offsets = [solution.primal.b_corr for *_, solution in fitted]  # type: ignore[attr-defined]
        self.intercept_corr_: Any = offsets[0] if len(self.classes_) == 2 else np.array(offsets)

    def predict_slack(self, X_priv: Any) -> NDArray[np.float64]:
        """The correcting function: how hard a row with these privileged features is expected to be.

        Parameters
        ----------
        X_priv : {array-like, CSR matrix} of shape (n_rows, n_priv_features)
            Privileged features; with ``kernel_priv="precomputed"``, kernel values against the
            training rows, shape (n_rows, n_training_rows).

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_pairs)
            xi(x*), in units of the margin; one column per pair with more than two classes. Not cut
            at zero: the constraint xi >= 0 holds at the training rows.
        """
        check_is_fitted(self)
        coef, basis, offset = self._checked_correction()
        if self.n_priv_features_in_ == 0:
            raise ValueError(
                "predict_slack needs a model that was fitted with privileged information: X_priv "
                "was None or entirely NaN in fit."
            )
        fitted_names: Any = getattr(self, "priv_feature_names_in_", None)
        names: Any = None if fitted_names is None else _get_feature_names(X_priv)
        if names is not None and not np.array_equal(names, fitted_names):
            raise ValueError(
                "The feature names of X_priv should match those that were passed during fit, in "
                f"the same order: expected {list(fitted_names)}, got {list(names)}."
            )
        X_priv = _with_whole_rows(X_priv)
        if len(X_priv.shape) == 2 and X_priv.shape[1] != self.n_priv_features_in_:
            raise ValueError(
                f"X_priv has {X_priv.shape[1]} features, but {type(self).__name__} was fitted with "
                f"{self.n_priv_features_in_} privileged features."
            )
        numbers = np.arange(_num_samples(X_priv))
        if self.preprocessor_priv is not None:
            X_priv = self._preprocessed(X_priv, numbers)
        else:
            X_priv = _checked_rows(X_priv, numbers)
        if self.kernel_priv != "precomputed" and X_priv.shape[1] != basis.shape[1]:
            raise altered(self)
        values = expansion(
            self.kernel_priv,
            KernelSpec(
                self.kernel_priv, self._gamma_priv, int(self.degree_priv), float(self.coef0_priv)
            ),
            basis,
            coef,
            X_priv,
            self._columns_priv,
            name="kernel_priv(X_priv, X_priv of fit)",
        )
        values = values + offset
        return values[:, 0] if len(self.classes_) == 2 else values

    def _checked_correction(self) -> tuple[NDArray[np.float64], Any, NDArray[np.float64]]:
        """Coefficients, rows and offsets of the correcting function, after a look at them."""
        self._checked_state()
        try:
            coef, columns, basis = self._coef_corr, self._columns_priv, self._rows_priv
            offset = np.atleast_1d(self.intercept_corr_)
            width = self.n_priv_features_in_
            sound = (
                sound_vector(offset, len(self.intercept_))
                and sound_coefficients(coef, len(self.intercept_), len(columns))
                and sound_rows(columns, self.shape_fit_[0])
                and isinstance(width, Integral)
                and width >= 0
                and sound_kernel(
                    self.kernel_priv, self._gamma_priv, self.degree_priv, self.coef0_priv
                )
                and (
                    self.preprocessor_priv is None or hasattr(self.preprocessor_priv_, "transform")
                )
            )
            names = getattr(self, "priv_feature_names_in_", None)
            sound = sound and (names is None or sound_names(names, width))
            if sound and isinstance(self.kernel_priv, str) and self.kernel_priv == "precomputed":
                sound = width in (0, self.shape_fit_[0])
            elif sound:
                sound, basis = sound_basis(basis, len(columns), basis.shape[1])
        except (AttributeError, TypeError, ValueError, IndexError):
            sound = False
        if not sound:
            raise altered(self)
        return np.ascontiguousarray(coef), basis, offset


def _warn_without_privileged(why: str) -> None:
    warnings.warn(
        f"SVMPlusClassifier was fitted without privileged information ({why}): the model is the "
        "weighted SVM, WeightedSVC.",
        PrivilegedInformationWarning,
        stacklevel=5,
    )


def _checked_rows(X_priv: Any, numbers: NDArray[np.int64]) -> Any:
    """Privileged rows in the form that the kernels want; `numbers` are their row numbers."""
    try:
        X_priv = check_array(
            X_priv,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
            input_name="X_priv",
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"X_priv cannot be used: {error}") from error
    values = X_priv.data if sp.issparse(X_priv) else X_priv
    if not np.isfinite(values).all():
        if np.isinf(values).any():
            raise ValueError("X_priv must be finite; it contains infinity.")
        bad = _count_nan(X_priv).nonzero()[0]
        shown = ", ".join(str(numbers[i]) for i in bad[:10]) + (", ..." if len(bad) > 10 else "")
        raise ValueError(
            f"X_priv contains NaN in some features of the rows {shown}. Rows that are entirely "
            "NaN mean 'no privileged information'; rows that are partly NaN do not: fill them "
            "in, for example with preprocessor_priv=SimpleImputer() from sklearn.impute."
        )
    return X_priv


def _with_whole_rows(X_priv: Any) -> Any:
    """What has no shape as an array; in lists None may stand for a row, or for a text."""
    if sp.issparse(X_priv) or hasattr(X_priv, "shape"):
        return X_priv
    if isinstance(X_priv, list | tuple) and any(row is None for row in X_priv):
        width = next((np.shape(row) for row in X_priv if row is not None), ())
        if width == ():
            return np.array(X_priv, dtype=object)
        nothing = np.full(width, np.nan)
        X_priv = [nothing if row is None else row for row in X_priv]
    return np.asarray(X_priv)


def _rows_without_values(X_priv: Any) -> NDArray[np.bool_]:
    """Which rows are entirely NaN (or None, or NA), for arrays and frames of any type."""
    if sp.issparse(X_priv):
        return (_count_nan(X_priv) == X_priv.shape[1]) & (X_priv.shape[1] > 0)
    values = np.asarray(X_priv)
    values = values.reshape(len(values), -1)
    if values.shape[1] == 0:
        return np.zeros(len(values), dtype=np.bool_)
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values).all(axis=1))
    if values.dtype.kind == "O":
        return np.array([all(map(_is_missing, row)) for row in values], dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    """None, NaN, or the NA of pandas, whose comparisons have no truth value."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except TypeError:
        return True


def _count_nan(X: Any) -> NDArray[np.int64]:
    """Number of NaN in each row of a matrix."""
    if not sp.issparse(X):
        return np.asarray(np.isnan(X).sum(axis=1))
    X = X.tocsr()
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(row[np.isnan(X.data)], minlength=X.shape[0])
