"""Learning the weights of a weighted SVM from validation rows, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _num_samples

from ..bilevel.criterion import BlockCross, Criterion, Cross, DenseCross
from ..bilevel.search import (
    Budget,
    FeatureWeighting,
    GroupWeighting,
    Objective,
    RBFWidth,
    SearchResult,
    Settings,
    Task,
    Weighting,
    minimise,
)
from ..kernels import KernelMatrix
from ..losses import LOSSES, Loss, SmoothHinge
from ..problems import SmoothWSVMProblem, WSVMProblem
from ..solution import SmoothSolution
from ..solvers import newton, smooth_rows, wsvm
from ..threads import one_blas_thread
from ._base import KernelSVC, TrainingKernel, check_weights

try:  # scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover - older scikit-learn: no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing."""

    def with_callbacks(method: Any) -> Any:
        """The method itself."""
        return method


Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
Report = Callable[[int, Mapping[str, float]], bool]

# Candidates of weight_penalty="auto" per validation row.
_PENALTIES = (3e-4, 1e-4)
# KKT violation of the final weighted SVM, the default of WeightedSVC.
_HINGE_TOL = 1e-3
# Parts of the training rows of which each is judged by a model of the others.
_JUDGING_FOLDS = 5
# Above so many validation rows one held-out third decides instead of three.
_MANY_VALIDATION_ROWS = 1_500
# cross_fit="auto": folds, and the largest inner problem for which it pays to have several.
_CROSS_FITS, _CROSS_FIT_ROWS = 3, 4_000


@dataclass(frozen=True, eq=False)
class _Data:
    """All rows together, training and validation, and the kernel among them."""

    X: Any
    label: NDArray[np.int64]
    kernel: TrainingKernel
    linear: bool
    limit: float

    def block(self, rows: Rows, columns: Rows) -> Vector:
        if self.kernel.gram is not None:
            return self.kernel.gram[np.ix_(rows, columns)]
        assert self.kernel.spec is not None
        return self.kernel.spec.cross(self.X[rows], self.X[columns])

    def expand(self, basis: Rows, coef: Vector, rows: Rows) -> Vector:
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


def _block(data: _Data, used: Rows, some: Rows) -> Vector:
    return data.kernel.matrix(used[some]).dense()


def _expand(data: _Data, used: Rows, basis: Rows, coef: Vector, some: Rows) -> Vector:
    return data.expand(used[basis], coef, used[some])


@dataclass(frozen=True, eq=False)
class _Run:
    """What does not change within a fit."""

    data: _Data
    settings: Settings
    loss: Loss
    learned: tuple[str, ...]
    random: Any


@dataclass(frozen=True, eq=False)
class _Learnt:
    """The rounds of one search."""

    searches: list[SearchResult]
    n_val: int
    kept: bool

    @property
    def weights(self) -> Vector:
        return self.searches[-1].best.weights

    @property
    def settings(self) -> Settings:
        return self.searches[-1].best.settings

    @property
    def n_iter(self) -> int:
        return sum(search.n_iter for search in self.searches)

    @property
    def history(self) -> dict[str, Vector]:
        names = self.searches[0].history
        joined = {name: np.concatenate([s.history[name] for s in self.searches]) for name in names}
        length = [len(s.history["validation_loss"]) for s in self.searches]
        return {**joined, "round": np.repeat(np.arange(len(length)), length)}


class WeightLearningClassifier(CallbackSupportMixin, KernelSVC):
    r"""Support vector classifier that learns one weight per training example.

    A weighted SVM f_c is trained on noisy rows, and its weights c are chosen so that it does well
    on clean validation rows (eq:wlearning:wopt and eq:wlearning:fopt of the paper):

    .. math::

        \min_{c \ge 0}\; \sum_j \ell\bigl(y'_j f_c(x'_j)\bigr)
        + \lambda \sum_i \Bigl(\frac{c_i - c^0_i}{C}\Bigr)^2,
        \qquad f_c = \arg\min_f \tfrac12 \|f\|^2 + \sum_i c_i\, \ell\bigl(y_i f(x_i)\bigr)

    The gradient is exact, by implicit differentiation (thm:derivatives). Wrong labels end with
    small weights; ``sample_weight_`` says which rows to look at again. The final model trains on
    the weighted training rows together with the validation rows. The method of the paper is
    ``weight_penalty=0, refit="train"``.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of loss of a row of weight one.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel; a callable gets two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf", "poly" and "sigmoid", as in :class:`lupi.WeightedSVC`.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    loss : {"smooth_hinge", "squared_hinge", "logistic"} or Loss, default="smooth_hinge"
        The loss, of the model and on the validation rows; see :mod:`lupi.losses`.
    delta : float, default=0.5
        Width of the curved part of "smooth_hinge" (eq:smoothloss). Only rows in that part tell the
        gradient how the model bends: a small delta is closer to the hinge loss and learns less.
    weight_penalty : "auto" or float, default="auto"
        lambda, the pull of the weights towards their start. ``"auto"`` chooses between two values
        and no learning at all, by the loss of the final model on parts of the validation rows that
        were held out; not learning has to be better by more than a standard error. 0: no pull.
    weight_budget : float, default=None
        Largest mean of the weights c_i / C.
    learn : tuple of {"C", "gamma", "delta"}, default=()
        Hyper-parameters that are learned along, from their values above; "gamma" with
        ``kernel="rbf"`` only, "delta" with the smooth hinge only.
    refit : {"union", "train"}, default="union"
        Rows of the final model: the weighted training rows and the validation rows (of weight one),
        or the training rows alone, as in the paper. With "union" and the smooth hinge the final
        model has the hinge loss itself: it is ``WeightedSVC`` on all these rows. (Not in the linear
        form, which is made for many rows.)
    cross_fit : "auto" or int, default="auto"
        With ``refit="union"``: into how many parts the validation rows are cut while weights are
        learned. Each part judges a model that trains on the weighted rows *and the other parts*, as
        the final model will. 1: validation rows only judge, as in the paper. ``"auto"``: 3, or 1
        where the validation rows outnumber the training rows or the problems become large.
    rounds : "auto" or int, default="auto"
        After the first round every training row is judged by a final model that was trained without
        it, and weights are learned again from there, w_i = start_i * clip(1/2 + margin_i, 0, 1).
        ``"auto"``: 2 where weights are free and ``cross_fit="auto"`` takes several parts, else 1.
    validation_fraction : float, default=0.3
        Share of the rows that is held out, by class, where fit gets no validation rows. None: fit
        must get them.
    cv : int or cross-validation splitter, default=None
        Cross-fitting instead of one held-out part: weights are learned once per fold, on that fold,
        and averaged over the folds in which a row trained; the final model trains on all rows.
    early_stopping : bool, default=False
        Hold a fifth of the validation rows out a second time, and stop when the loss on them has
        not decreased for `n_iter_no_change` outer iterations.
    n_iter_no_change : int, default=10
        Patience of early stopping.
    max_iter : int, default=100
        Bound on the outer iterations.
    tol : float, default=1e-4
        Stop when no entry of the projected gradient of the loss per validation row exceeds this.
    cache_size : float, default=1000
        Megabytes for each of the kernel matrices. Where training times validation rows do not fit,
        they are kept in single precision, or formed anew each time.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With more than two classes: one decision value per class or per pair of classes.
    break_ties : bool, default=False
        With more than two classes: break ties between classes by decision values.
    random_state : int, RandomState instance or None, default=None
        For the parts that are held out.
    verbose : int, default=0
        Positive: print the validation loss of the outer iterations.

    Attributes
    ----------
    sample_weight_ : ndarray of shape (n,)
        The learned weights c_i / C of the rows of X: what ``WeightedSVC(C=C_)`` takes as
        ``sample_weight``. Rows that were held out have the weight of their part in the final model:
        1, or 0 with ``refit="train"``.
    expansion_ : ndarray of shape (n_all,) or (n_pairs, n_all)
        Signed coefficients a of the final model; rows of X, then of X_val.
    history_ : dict of ndarray, or list of dict
        ``validation_loss`` and ``gradient_norm`` per validation row, one entry per outer iteration,
        the start included; ``watched_loss`` with early stopping. One dict per fold with `cv`.
    initial_ : float
        Validation loss per row of the model with the starting weights.
    validation_loss_ : float
        The same with the learned weights; never larger.
    n_iter_ : int
        Outer iterations (their largest number with `cv`), at least 1.
    status_ : {"converged", "max_iter", "early_stopped", "interrupted", "no_progress",
    "not_learned"}
        How the outer search ended; "not_learned": ``weight_penalty="auto"`` chose the start.
    message_ : str
        The same in a sentence.
    weight_penalty_ : float
        The penalty that was used; infinite where "auto" found that not learning is best.
    C_, gamma_, delta_ : float
        Hyper-parameters of the final model.
    validation_indices_ : ndarray of int or None
        Rows of X that were held out; None with X_val or `cv`.
    intercept_ : ndarray of shape (1,) or (n_pairs,)
        Offset b.
    support_ : ndarray of shape (n_SV,)
        Rows with a coefficient, grouped by class, numbered as ``expansion_``.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        w, for the linear kernel only.
    primal_objective_, dual_objective_, duality_gap_ : float, or ndarray of shape (n_pairs,)
        The certificate of the final model.
    shape_fit_ : tuple of int
        Shape of all rows together.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has string column names.

    See Also
    --------
    lupi.WeightedSVC : The weighted SVM with weights that you know.
    lupi.weighting.ProbabilityWeightedClassifier : Weights from an estimate of P(y|x).

    Notes
    -----
    scikit-learn's searches and cross-validation pass X_val and y_val on as they are, unless
    they have as many rows as X: then they are cut to the fold. X_weight, groups and initial_weight
    have one row per row of X and are always cut.

    References
    ----------
    M. Lapin, M. Hein, B. Schiele. Learning Using Privileged Information: SVM+ and Weighted SVM.
    Neural Networks 53, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import WeightLearningClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, X_val = rng.normal(size=(200, 2)), rng.normal(size=(60, 2))
    >>> y, y_val = np.sign(X[:, 0]), np.sign(X_val[:, 0])
    >>> y[:50] *= -1  # a quarter of the labels is wrong
    >>> model = WeightLearningClassifier(kernel="linear", weight_penalty=0.1)
    >>> model = model.fit(X, y, X_val=X_val, y_val=y_val)
    >>> bool(model.sample_weight_[:50].mean() < 0.6 * model.sample_weight_[50:].mean())
    True
    >>> bool(model.validation_loss_ < model.initial_)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, Any]] = {
        "X_val": True,
        "y_val": True,
        "X_weight": True,
        "groups": True,
        "initial_weight": True,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: KernelSVC._parameter_constraints[name]
            for name in (
                "C",
                "kernel",
                "gamma",
                "degree",
                "coef0",
                "tol",
                "cache_size",
                "decision_function_shape",
                "break_ties",
                "verbose",
            )
        },
        "loss": [StrOptions(set(LOSSES)), Loss],
        "delta": [Interval(Real, 0.0, None, closed="neither")],
        "weight_penalty": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="left")],
        "weight_budget": [Interval(Real, 0.0, None, closed="neither"), None],
        "learn": ["array-like"],
        "refit": [StrOptions({"union", "train"})],
        "cross_fit": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "rounds": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), None],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        loss: Any = "smooth_hinge",
        delta: float = 0.5,
        weight_penalty: Any = "auto",
        weight_budget: float | None = None,
        learn: Any = (),
        refit: str = "union",
        cross_fit: Any = "auto",
        rounds: Any = "auto",
        validation_fraction: float | None = 0.3,
        cv: Any = None,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        max_iter: int = 100,
        tol: float = 1e-4,
        cache_size: float = 1000,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.delta = delta
        self.weight_penalty = weight_penalty
        self.weight_budget = weight_budget
        self.learn = learn
        self.refit = refit
        self.cross_fit = cross_fit
        self.rounds = rounds
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_val: Any = None,
        y_val: Any = None,
        X_weight: Any = None,
        groups: Any = None,
        initial_weight: Any = None,
    ) -> Self:
        """Learn the weights and train.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n, n_features)
            Training rows; with ``kernel="precomputed"`` kernel values, see X_val.
        y : array-like of shape (n,)
            Labels, of two classes or more.
        X_val : {array-like, CSR matrix} of shape (N, n_features), default=None
            Validation rows. With ``kernel="precomputed"``: X is the kernel matrix among training
            and held-out rows, and X_val must be None.
        y_val : array-like of shape (N,), default=None
            Their labels, which are taken to be right.
        X_weight : array-like of shape (n, n_weight_features), default=None
            Features of the examples on which their weights depend, w_i = softplus(<x_i, t> + t0):
            privileged information, used through few parameters. Weights are free without.
        groups : array-like of shape (n,), default=None
            Rows of the same group share one weight (a factor on their starting weights).
        initial_weight : array-like of shape (n,), default=None
            Where the weights start, and what they are pulled towards; 1 by default.

        Returns
        -------
        self : WeightLearningClassifier
        """
        loss = self._loss()
        learned = self._learned(loss)
        X, label, start = self._check_training_data(X, y, initial_weight)
        n = X.shape[0]
        start = np.ones(n) if start is None else start
        X_weight, groups = _check_per_row(X_weight, groups, n)
        random = check_random_state(self.random_state)
        X_all, label_all, parts = self._parts(X, label, X_val, y_val, random)
        kernel = self._training_kernel(X_all, None)
        data = _Data(X_all, label_all, kernel, self._use_linear_form(X_all), 1e6 * self.cache_size)
        settings = Settings(float(self.C), float(kernel.gamma), float(self.delta))
        context = _Context.of(self)

        run = _Run(data, settings, loss, learned, random)
        learnt: list[_Learnt] = []
        penalty: float | None = None
        with one_blas_thread():
            for train, val in parts:
                reachable = self._weighting(start[train], X_weight, groups, train)
                if penalty is None:
                    penalty = self._choose(run, reachable, train, val)
                learnt.append(self._learn(run, reachable, penalty, train, val, context.report))
            assert penalty is not None
            final = _mean_settings([one.settings for one in learnt], learned)
            sample_weight, rows, w = self._assemble(n, parts, [one.weights for one in learnt])
            fitted = self._final(run, final, rows, w)
        n_iter = self._set_losses(learnt)

        self._unpack_learned(X_all, label_all, fitted, final, n_iter)
        self.sample_weight_ = sample_weight
        self.weight_penalty_ = penalty
        self.validation_indices_ = parts[0][1] if X_val is None and self.cv is None else None
        context.end()
        self._warn_unless_solved([solution for *_, solution in fitted])
        return self

    # ---- what fit checks ------------------------------------------------------------------------

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        kind = LOSSES[self.loss]
        return kind(float(self.delta)) if kind is SmoothHinge else kind()

    def _learned(self, loss: Loss) -> tuple[str, ...]:
        learned = tuple(self.learn)
        unknown = [name for name in learned if name not in ("C", "gamma", "delta")]
        if unknown:
            raise ValueError(f"learn may name 'C', 'gamma' and 'delta'; got {unknown[0]!r}.")
        if "gamma" in learned and self.kernel != "rbf":
            raise ValueError(f"learn=('gamma',) needs kernel='rbf'; got kernel={self.kernel!r}.")
        if "delta" in learned and not isinstance(loss, SmoothHinge):
            raise ValueError(f"learn=('delta',) needs loss='smooth_hinge'; got {self.loss!r}.")
        return learned

    def _check_training_data(self, X: Any, y: Any, weight: Any) -> Any:
        X, label, _ = super()._check_training_data(X, y, None)
        try:
            start = check_weights(weight, X.shape[0])
        except ValueError as error:
            raise ValueError(str(error).replace("sample_weight", "initial_weight")) from None
        return X, label, start

    def _parts(
        self, X: Any, label: NDArray[np.int64], X_val: Any, y_val: Any, random: Any
    ) -> tuple[Any, NDArray[np.int64], list[tuple[Rows, Rows]]]:
        """All rows, their labels, and (training rows, validation rows) of every search."""
        n = X.shape[0]
        if (X_val is None) != (y_val is None):
            missing, given = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
            raise ValueError(f"{given} was given without {missing}: pass both, or neither.")
        if X_val is not None:
            if self.cv is not None:
                raise ValueError("cv learns on folds of X: pass either cv or X_val and y_val.")
            if self.kernel == "precomputed":
                raise ValueError(
                    "X_val cannot be used with kernel='precomputed': pass the kernel matrix among "
                    "training and validation rows as X, and use validation_fraction or cv."
                )
            X_val, label_val = self._check_validation(X, X_val, y_val)
            stack = sp.vstack if sp.issparse(X) else np.vstack
            X_all = stack([X, X_val])
            X_all = sp.csr_array(X_all) if sp.issparse(X) else X_all
            parts = [(np.arange(n), np.arange(n, n + len(label_val)))]
            label = np.r_[label, label_val]
        elif self.cv is not None:
            X_all = X
            cv = self.cv
            if isinstance(cv, Integral):
                cv = StratifiedKFold(int(cv), shuffle=True, random_state=random)
            parts = [
                (np.asarray(train), np.asarray(val))
                for train, val in check_cv(cv).split(np.zeros(n), label)
            ]
        elif self.validation_fraction is not None:
            X_all = X
            val = _stratified(label, float(self.validation_fraction), random)
            parts = [(np.setdiff1d(np.arange(n), val), val)]
        else:
            raise ValueError(
                "there are no validation rows: pass X_val and y_val to fit, or set "
                "validation_fraction or cv."
            )
        for train, val in parts:
            for name, rows in (("validation", val), ("training", train)):
                present = len(np.unique(label[rows]))
                if present < 2:
                    raise ValueError(
                        f"the {name} part must hold at least two classes; got {present} class in "
                        f"its {len(rows)} rows."
                    )
        return X_all, label, parts

    def _check_validation(self, X: Any, X_val: Any, y_val: Any) -> tuple[Any, NDArray[np.int64]]:
        if _num_samples(X_val) != _num_samples(y_val):
            raise ValueError(
                f"X_val and y_val must have the same number of rows; got {_num_samples(X_val)} and "
                f"{_num_samples(y_val)}."
            )
        X_val = check_array(
            X_val,
            accept_sparse="csr" if sp.issparse(X) else False,
            dtype=X.dtype,
            order="C",
            input_name="X_val",
        )
        if sp.issparse(X) and not sp.issparse(X_val):
            X_val = sp.csr_array(X_val)
        if X_val.shape[1] != X.shape[1]:
            raise ValueError(
                f"X_val has {X_val.shape[1]} features, but X has {X.shape[1]} features."
            )
        y_val = np.asarray(y_val)
        if y_val.ndim != 1:
            raise ValueError(f"y_val must be 1-dimensional; got shape {y_val.shape}.")
        unseen = ~np.isin(y_val, self.classes_)
        if unseen.any():
            raise ValueError(
                f"y_val contains the label {y_val[unseen.argmax()]!r}, which is not in y; "
                f"classes of y: {self.classes_!r}."
            )
        return X_val, np.searchsorted(self.classes_, y_val)

    def _use_linear_form(self, X: Any) -> bool:
        """In d dimensions rather than n where that is smaller, for dense rows."""
        return self.kernel == "linear" and not sp.issparse(X) and X.shape[1] <= 2_000

    def _weighting(self, here: Vector, X_weight: Any, groups: Any, train: Rows) -> Weighting:
        """The weights that can be reached from `here`."""
        if not here.any():
            raise ValueError("initial_weight must not be zero for all training rows.")
        weighting = Weighting(here)
        if X_weight is not None:
            weighting = FeatureWeighting(here, X_weight[train])
        elif groups is not None:
            weighting = GroupWeighting(here, np.unique(groups[train], return_inverse=True)[1])
        if self.weight_budget is not None:
            weighting = Budget(weighting, float(self.weight_budget) * len(train))
        return weighting

    # ---- the outer problem ----------------------------------------------------------------------

    def _cross_fits(self, n: int, n_val: int) -> int:
        if self.refit != "union":
            return 1
        if self.cross_fit != "auto":
            return int(self.cross_fit)
        return _CROSS_FITS if n_val <= n and n + n_val <= _CROSS_FIT_ROWS else 1

    def _rounds(self, reachable: Weighting, n: int, n_val: int) -> int:
        if self.rounds != "auto":
            return int(self.rounds)
        free = type(reachable) is Weighting
        return 2 if free and self._cross_fits(n, n_val) > 1 else 1

    def _tasks(
        self, run: _Run, train: Rows, val: Rows, watch: Rows | None = None
    ) -> tuple[Task, ...]:
        """The inner problems: one per pair of classes and part of the validation rows."""
        data, loss = run.data, run.loss
        fits = self._cross_fits(len(train), len(val))
        part = np.empty(len(val), dtype=np.int64)
        # Validation rows in turn by class, so that every part has its share of each.
        order = np.argsort(data.label[val], kind="stable")
        part[order] = np.arange(len(val)) % fits
        tasks = []
        for fold in range(fits):
            judging = val[part == fold]
            others = val[part != fold] if fits > 1 else val[:0]
            every = np.r_[train, others]
            label, label_val = data.label[every], data.label[judging]
            for positive, negative, rows, y in self._pairs(label):
                positions = np.arange(len(every)) if rows is None else rows
                own = judging[(label_val == positive) | (label_val == negative)]
                if not len(own) or abs(float(y.sum())) == len(y):
                    continue
                used = every[positions]
                problem = SmoothWSVMProblem(
                    data.matrix(used), y, np.ones(len(used)), loss, data.linear
                )

                def criterion(judges: Rows, used: Rows = used, positive: int = positive) -> Any:
                    signs = np.where(data.label[judges] == positive, 1.0, -1.0)
                    return Criterion(data.cross(used, judges), signs, loss)

                watching = None
                if watch is not None:
                    seen = watch[np.isin(data.label[watch], (positive, negative))]
                    watching = criterion(seen)
                width = None
                if "gamma" in run.learned:
                    width = _distances(data, used, own)
                tasks.append(
                    Task(
                        problem,
                        positions[positions < len(train)],
                        criterion(own),
                        watching,
                        width,
                    )
                )
        return tuple(tasks)

    def _choose(self, run: _Run, reachable: Weighting, train: Rows, val: Rows) -> float:
        """The penalty; infinite: do not learn.

        For "auto" the one whose final models do best on validation rows that nothing has seen.
        """
        if self.weight_penalty != "auto":
            return float(self.weight_penalty)
        label = run.data.label[val]
        counts = np.bincount(label)
        folds = int(min(3, counts[counts > 0].min()))
        if folds < 2:
            return _PENALTIES[0] * len(val)
        n_folds = 1 if len(val) > _MANY_VALIDATION_ROWS else folds
        splits = StratifiedKFold(folds, shuffle=True, random_state=run.random).split(label, label)
        losses: dict[float, list[Vector]] = {per_row: [] for per_row in (np.inf, *_PENALTIES)}
        for _, (inside, outside) in zip(range(n_folds), splits, strict=False):
            inside, outside = val[inside], val[outside]
            tasks = self._tasks(run, train, inside)
            init = None
            for per_row in (np.inf, *_PENALTIES):
                one = self._learn(
                    run,
                    reachable,
                    per_row * len(inside),
                    train,
                    inside,
                    tol=10 * self.tol,
                    tasks=tasks,
                    init=init,
                )
                init = one.searches[0].first.solutions
                held_out = self._held_out(run, one.settings, train, one.weights, inside, outside)
                losses[per_row].append(held_out)
        if not losses[np.inf]:
            return _PENALTIES[0] * len(val)
        by_row = {per_row: np.concatenate(parts) for per_row, parts in losses.items()}
        if self.verbose:
            for per_row, values in by_row.items():
                print(
                    f"[lupi] weight_penalty {per_row * len(val):.3g}: held-out loss "
                    f"{values.mean():.4f}"
                )
        best = min(_PENALTIES, key=lambda per_row: by_row[per_row].mean())
        # Not learning must be better by more than chance, one standard error of the difference.
        worse = by_row[best] - by_row[np.inf]
        if worse.mean() > worse.std() / np.sqrt(len(worse)):
            return np.inf
        return best * len(val)

    def _held_out(
        self,
        run: _Run,
        settings: Settings,
        train: Rows,
        w: Vector,
        inside: Rows,
        outside: Rows,
    ) -> Vector:
        """Losses at `outside` of the final model of these weights, `inside` its validation rows."""
        rows = np.r_[train, inside] if self.refit == "union" else train
        w = np.r_[w, np.ones(len(rows) - len(train))]
        margins = self._margins(run, self._final(run, settings, rows, w), outside)
        return np.concatenate([run.loss.value(margin) for _, margin in margins])

    def _margins(
        self, run: _Run, fitted: list[tuple[int, int, Rows, SmoothSolution]], rows: Rows
    ) -> list[tuple[Rows, Vector]]:
        """For each pair of classes the positions in `rows` that it judges, and y f there."""
        found = []
        for positive, negative, used, solution in fitted:
            label = run.data.label[rows]
            own = np.flatnonzero((label == positive) | (label == negative))
            active = solution.expansion.nonzero()[0]
            values = run.data.expand(used[active], solution.expansion[active], rows[own])
            y = np.where(label[own] == positive, 1.0, -1.0)
            found.append((own, y * (values + solution.b)))
        return found

    def _learn(
        self,
        run: _Run,
        reachable: Weighting,
        penalty: float,
        train: Rows,
        val: Rows,
        report: Report | None = None,
        tol: float | None = None,
        tasks: tuple[Task, ...] | None = None,
        init: tuple[SmoothSolution, ...] | None = None,
    ) -> _Learnt:
        """Weights in one round or more, each pulled towards where it starts.

        `tasks` and the inner solutions `init` at the start where they are at hand.
        """
        watch = None
        if self.early_stopping and report is not None:
            held = _stratified(run.data.label[val], 0.2, run.random)
            watch, val = val[held], np.delete(val, held)
        if tasks is None:
            tasks = self._tasks(run, train, val, watch)
        searches: list[SearchResult] = []
        settings = run.settings
        for _ in range(self._rounds(reachable, len(train), len(val))):
            if searches:
                settings = searches[-1].best.settings
                start = self._second_start(
                    run, settings, reachable.start, searches[-1].best.weights, train, val
                )
                if not start.any():
                    break
                reachable = self._weighting(start, None, None, train)
            objective = Objective(
                tasks, reachable, settings, 0.0 if np.isinf(penalty) else penalty, run.learned
            )
            found = minimise(
                objective,
                init=searches[-1].best.solutions if searches else init,
                max_iter=0 if np.isinf(penalty) else self.max_iter,
                tol=self.tol if tol is None else tol,
                patience=self.n_iter_no_change if watch is not None else None,
                report=report,
            )
            # A round may start above where the first one started, and must not end there.
            if searches and not found.best.loss <= searches[0].first.loss:
                break
            searches.append(found)
            if np.isinf(penalty) or found.status == "interrupted":
                break
        return _Learnt(searches, objective.n_val, np.isinf(penalty))

    def _second_start(
        self,
        run: _Run,
        settings: Settings,
        start: Vector,
        w: Vector,
        train: Rows,
        val: Rows,
    ) -> Vector:
        """start_i * clip(1/2 + margin_i, 0, 1): each row judged by a final model without it.

        The model of the last round knows what most labels should be; a row whose label it
        contradicts by half the margin starts from zero.
        """
        margin = np.full(len(train), np.inf)
        fold = np.empty(len(train), dtype=np.int64)
        order = np.argsort(run.data.label[train], kind="stable")
        fold[order] = np.arange(len(train)) % _JUDGING_FOLDS
        for k in range(_JUDGING_FOLDS):
            away = np.flatnonzero(fold == k)
            rows = np.r_[train[fold != k], val]
            weight = np.r_[w[fold != k], np.ones(len(val))]
            fitted = self._final(run, settings, rows, weight)
            for own, values in self._margins(run, fitted, train[away]):
                margin[away[own]] = np.minimum(margin[away[own]], values)
        return start * np.clip(0.5 + margin, 0.0, 1.0)

    def _assemble(
        self, n: int, parts: list[tuple[Rows, Rows]], weights: list[Vector]
    ) -> tuple[Vector, Rows, Vector]:
        """sample_weight_, and the rows of the final model with their weights."""
        if self.cv is not None:
            total, count = np.zeros(n), np.zeros(n)
            for (train, _), w in zip(parts, weights, strict=True):
                total[train] += w
                count[train] += 1
            # A splitter may leave rows that never train.
            mean = np.divide(total, count, out=np.zeros(n), where=count > 0)
            return mean, np.arange(n), mean
        (train, val), w = parts[0], weights[0]
        rows = np.r_[train, val] if self.refit == "union" else train
        w = np.r_[w, np.ones(len(rows) - len(train))]
        sample_weight = np.zeros(n)
        inside = rows < n
        sample_weight[rows[inside]] = w[inside]
        return sample_weight, rows, w

    def _final(
        self, run: _Run, settings: Settings, rows: Rows, w: Vector
    ) -> list[tuple[int, int, Rows, SmoothSolution]]:
        """The model of these rows and weights, pair by pair, in the numbering of all rows."""
        data, loss = run.data, run.loss
        if isinstance(loss, SmoothHinge):
            loss = SmoothHinge(settings.delta)
        if data.kernel.spec is not None and data.kernel.spec.gamma != settings.gamma:
            spec = replace(data.kernel.spec, gamma=settings.gamma)
            data = replace(data, kernel=replace(data.kernel, spec=spec, gamma=settings.gamma))
        c = settings.C * w
        fitted = []
        for positive, negative, of_pair, y in self._pairs(data.label[rows]):
            positions = np.arange(len(rows)) if of_pair is None else of_pair
            used = rows[positions]
            if data.linear:
                solution = newton.solve(
                    SmoothWSVMProblem(data.matrix(used), y, c[positions], loss, True), tol=1e-9
                )
            elif self.refit == "union" and isinstance(loss, SmoothHinge):
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

    # ---- what fit leaves ------------------------------------------------------------------------

    def _set_losses(self, learnt: list[_Learnt]) -> int:
        """History and status; returns the number of outer iterations."""
        self.initial_ = float(np.mean([one.searches[0].first.loss / one.n_val for one in learnt]))
        self.validation_loss_ = float(
            np.mean([one.searches[-1].best.loss / one.n_val for one in learnt])
        )
        histories = [one.history for one in learnt]
        self.history_: Any = histories[0] if self.cv is None else histories
        worst = max(learnt, key=lambda one: one.n_iter)
        last = worst.searches[-1]
        self.status_, self.message_ = last.status, last.message
        if worst.kept:
            self.status_ = "not_learned"
            self.message_ = (
                "On held-out validation rows the model with the starting weights did best."
            )
        return max(1, worst.n_iter)

    def _unpack_learned(
        self,
        X_all: Any,
        label: NDArray[np.int64],
        fitted: list[tuple[int, int, Rows, SmoothSolution]],
        settings: Settings,
        n_iter: int,
    ) -> None:
        """The attributes that KernelSVC predicts with, and the certificate."""
        self._gamma = settings.gamma
        expansions = np.zeros((len(fitted), len(label)))
        adapted = []
        for p, (positive, negative, used, solution) in enumerate(fitted):
            expansions[p, used] = solution.expansion
            alpha = np.abs(solution.expansion)
            adapted.append((positive, negative, used, _Fitted(alpha, solution.b, solution.n_iter)))
        self._set_expansion(X_all, label, adapted)  # type: ignore[arg-type]
        self.n_iter_: Any = n_iter
        single = len(fitted) == 1
        self.expansion_ = expansions[0] if single else expansions
        for name in ("primal_objective", "dual_objective"):
            values = np.array([getattr(s, name) for *_, s in fitted])
            setattr(self, f"{name}_", float(values[0]) if single else values)
        self.duality_gap_ = self.primal_objective_ - self.dual_objective_
        self.C_, self.gamma_, self.delta_ = settings.C, settings.gamma, settings.delta

    def _warn_unless_solved(self, solutions: list[SmoothSolution]) -> None:
        failed = [s for s in solutions if not s.status.converged]
        if failed:
            worst = max(failed, key=lambda s: s.violation)
            warnings.warn(
                f"{type(self).__name__}: the final model did not converge: violation "
                f"{worst.violation:.3g}, duality gap {worst.gap:.3g}. {worst.status.advice}",
                ConvergenceWarning,
                stacklevel=5,
            )


@dataclass(frozen=True, eq=False)
class _Dual:
    alpha: Vector


@dataclass(frozen=True, eq=False)
class _Primal:
    b: float


class _Fitted:
    """The part of a `Solution` that KernelSVC lays out for prediction."""

    def __init__(self, alpha: Vector, b: float, n_iter: int) -> None:
        self.dual, self.primal, self.n_iter = _Dual(alpha), _Primal(b), n_iter


class _Context:
    """Tells the outer iterations to scikit-learn's callbacks and to `verbose`."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context

    @classmethod
    def of(cls, estimator: Any) -> _Context:
        context = None
        if hasattr(estimator, "_skl_callbacks"):
            context = estimator._init_callback_context(max_subtasks=None)
            context.call_on_fit_task_begin(estimator=estimator)
        return cls(estimator, context)

    def end(self) -> None:
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator)

    def report(self, iteration: int, values: Mapping[str, float]) -> bool:
        if self.estimator.verbose:
            shown = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
            print(f"[lupi] {iteration:4d}: {shown}", flush=True)
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="outer-iter")
        task.call_on_fit_task_begin(estimator=self.estimator, metadata=dict(values))
        return bool(task.call_on_fit_task_end(estimator=self.estimator, metadata=dict(values)))


def _check_per_row(X_weight: Any, groups: Any, n: int) -> tuple[Any, Any]:
    """X_weight and groups as arrays with a row per training row."""
    if X_weight is not None and groups is not None:
        raise ValueError("pass X_weight or groups, not both.")
    if X_weight is not None:
        X_weight = check_array(X_weight, dtype=np.float64, input_name="X_weight")
    if groups is not None:
        groups = np.asarray(groups)
        if groups.ndim != 1:
            raise ValueError(f"groups must be 1-dimensional; got shape {groups.shape}.")
    for name, value in (("X_weight", X_weight), ("groups", groups)):
        if value is not None and len(value) != n:
            raise ValueError(f"{name} must have one row per row of X: {n}, got {len(value)}.")
    return X_weight, groups


def _stratified(label: NDArray[np.int64], fraction: float, random: Any) -> Rows:
    """About this share of the rows of each class, at least one, and never all of them."""
    held = []
    for k in np.unique(label):
        rows = np.flatnonzero(label == k)
        count = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        held.append(random.permutation(rows)[:count])
    return np.sort(np.concatenate(held))


def _distances(data: _Data, rows: Rows, val: Rows) -> RBFWidth:
    """Squared distances among the rows, and to the validation rows."""

    def squares(some: Rows, others: Rows) -> Vector:
        X = data.X.toarray() if sp.issparse(data.X) else data.X
        A, B = X[some].astype(np.float64), X[others].astype(np.float64)
        products = A @ B.T
        D = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2 * products
        return np.maximum(D, 0.0)

    D = squares(rows, rows)
    np.fill_diagonal(D, 0.0)
    return RBFWidth(0.5 * (D + D.T), squares(rows, val))


def _mean_settings(settings: list[Settings], learned: tuple[str, ...]) -> Settings:
    """Geometric means over the folds."""
    means = {
        name: float(np.exp(np.mean([np.log(getattr(s, name)) for s in settings])))
        for name in learned
    }
    return replace(settings[0], **means)
