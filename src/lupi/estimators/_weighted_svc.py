"""The weighted SVM as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..certificates import wsvm_at_offset
from ..problems import WSVMProblem
from ..solution import Solution, zero_solution
from ..solvers import wsvm
from ._base import KernelSVC


class WeightedSVC(KernelSVC):
    r"""Support vector classifier with one weight per training example, and a certificate.

    Solves (eq:svmw_primal of the paper)

    .. math::

        \min_{w, b, \xi} \tfrac12 \|w\|^2 + \sum_i c_i \xi_i
        \quad\text{s.t.}\quad y_i (\langle w, \Phi(x_i)\rangle + b) \ge 1 - \xi_i,\; \xi_i \ge 0

    with :math:`c_i` = ``C * sample_weight[i] * class_weight[y_i]``. A drop-in for
    :class:`sklearn.svm.SVC`: a weight of k means exactly the same as repeating the row k times, a
    weight of zero the same as leaving it out, and every fit reports how far it can be from the
    optimum.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; multiplies every weight.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel; a callable gets two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf", "poly" and "sigmoid". ``"scale"``: 1 / (n_features * variance of X), the
        variance weighted by ``sample_weight``; ``"auto"``: 1 / n_features.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    class_weight : dict or "balanced", default=None
        Factor on the weights of each class.
    intercept : "middle" or float, default="middle"
        Which of the optimal offsets to take: the middle of ``intercept_interval_`` (its finite end
        where it is unbounded), or a given number, which must lie in the interval up to `tol`. With
        the offset of an SVM+ and its weights this is the classifier that the paper calls WSVM-b
        (thm:svmw_from_svmp); two classes only. The duals do not depend on it.
    tol : float, default=1e-3
        Largest KKT violation, in units of the decision function. Small problems are solved much
        further, to about 1e-9.
    max_iter : int, default=-1
        Bound on the solver's steps; -1: none that a convex problem reaches.
    cache_size : float, default=1000
        Megabytes for kernel rows.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With more than two classes: one decision value per class or per pair of classes.
    break_ties : bool, default=False
        With more than two classes: break ties between classes by decision values.
    verbose : int, default=0
        Positive: print the solver's progress.

    Attributes
    ----------
    alpha_, beta_ : ndarray of shape (n,)
        Dual variables of eq:svmw_kkt, in training order; two classes only, like all down to
        ``instance_weights_``.
    slack_ : ndarray of shape (n,)
        Hinge losses of the training rows.
    instance_weights_ : ndarray of shape (n,)
        ``alpha_ + beta_``, the weights c.
    intercept_ : ndarray of shape (1,) or (n_pairs,)
        Offset b, as chosen by `intercept`.
    intercept_interval_ : ndarray of shape (2,) or (n_pairs, 2)
        All optimal offsets (thm:svmw_unique).
    support_ : ndarray of shape (n_SV,)
        Rows with alpha > 0 in the caller's numbering, grouped by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        ``y * alpha`` of the support vectors, laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        w, for the linear kernel only.
    primal_objective_, dual_objective_, duality_gap_ : float, or ndarray of shape (n_pairs,)
        The certificate, from feasible points in float64.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps of the solver.
    solution_ : Solution
        The whole solution; two classes only.
    solutions_ : list of PairSolution
        One entry per pair of classes; more than two classes only.
    shape_fit_ : tuple of int
        Shape of the training data.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has string column names.

    See Also
    --------
    sklearn.svm.SVC : The same model without certificate.

    References
    ----------
    M. Lapin, M. Hein, B. Schiele. Learning Using Privileged Information: SVM+ and Weighted SVM.
    Neural Networks 53, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import WeightedSVC
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> model = WeightedSVC(kernel="linear").fit(X, [1, -1, 1], sample_weight=[4, 6, 2])
    >>> model.coef_.round(6), model.intercept_.round(6)
    (array([[-2.]]), array([3.]))
    >>> model.slack_.round(6)
    array([0., 0., 4.])
    >>> bool(model.duality_gap_ < 1e-9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSVC._parameter_constraints,
        "intercept": [StrOptions({"middle"}), Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Any = None,
        intercept: Any = "middle",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.intercept = intercept
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n, n_features)
            Training rows; with ``kernel="precomputed"`` their kernel matrix, (n, n).
        y : array-like of shape (n,)
            Labels, of two classes or more.
        sample_weight : array-like of shape (n,), default=None
            Weights, non-negative; None means 1 for every row.

        Returns
        -------
        self : WeightedSVC
        """
        X, label, weight = self._check_training_data(X, y, sample_weight)
        if self.intercept != "middle" and len(self.classes_) > 2:
            raise ValueError(
                f"intercept must be 'middle' with more than two classes: intercept="
                f"{self.intercept!r} is one offset, and y has {len(self.classes_)} classes, with "
                "one offset for each pair of them."
            )
        kernel = self._training_kernel(X, weight)
        c = self._costs(label, weight)
        fitted = []
        for positive, negative, rows, signs in self._pairs(label):
            pair_c = c if rows is None else c[rows]
            if pair_c.any():
                solution = wsvm.solve(
                    problem := WSVMProblem(kernel.matrix(rows), signs, pair_c),
                    tol=self.tol,
                    max_iter=self.max_iter,
                    cache_size=self.cache_size,
                    verbose=self.verbose,
                )
            else:  # two classes of weight zero: any b is optimal
                solution = zero_solution(len(signs))
            if rows is None:
                self._problem = problem
                if self.intercept != "middle":
                    solution = self._at_intercept(problem, solution)
            fitted.append((positive, negative, rows, solution))
        self._unpack(X, label, fitted)
        self._warn_unless_converged([s for *_, s in fitted])
        return self

    def _at_intercept(self, problem: WSVMProblem, solution: Solution) -> Solution:
        """The solution with the offset that `intercept` asks for."""
        b = float(self.intercept)
        (lower, upper), value, slack = wsvm_at_offset(problem, solution.dual.alpha, b)
        if not lower - self.tol <= b <= upper + self.tol:
            raise ValueError(
                f"intercept={b:.9g} is not an optimal offset: the optimal ones are "
                f"[{lower:.9g}, {upper:.9g}]. Take one of them, or intercept='middle'."
            )
        # What rounding of the weights closed is open for whoever asks for this offset.
        lower, upper = solution.primal.b_interval
        interval = (min(lower, b), max(upper, b))
        return replace(
            solution,
            primal=replace(solution.primal, b=b, b_interval=interval, slack=slack),
            primal_objective=value,
        )
