"""Learning the weights of a weighted SVM from validation rows, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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

from ..bilevel.criterion import Criterion
from ..bilevel.search import (
    Budget,
    Evaluation,
    FeatureWeighting,
    GroupWeighting,
    MarginWeighting,
    Objective,
    SearchResult,
    Settings,
    Task,
    Weighting,
    minimise,
)
from ..losses import LOSSES, Loss, SmoothHinge
from ..problems import SmoothWSVMProblem
from ..solution import SmoothSolution
from ..threads import n_threads, one_blas_thread
from ._base import KernelSVC, check_weights
from ._machine import Choice, Data, Machine, belief, choose, even_parts

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

# Candidates of weight_penalty="auto" per validation row, the strongest first.
_PENALTIES = (1e-3, 3e-4)
# Above so many validation rows, or rows in all, one held-out third decides instead of three.
_MANY_VALIDATION_ROWS, _MANY_ROWS = 1_500, 1_500
# cross_fit="auto": folds, and the largest inner problem for which it pays to have several.
_CROSS_FITS, _CROSS_FIT_ROWS = 3, 4_000


@dataclass(frozen=True, eq=False)
class _Run:
    """What does not change within a fit."""

    machine: Machine
    settings: Settings
    learned: tuple[str, ...]
    random: Any
    report: Report


@dataclass(frozen=True, eq=False)
class _Learnt:
    """The searches on one validation part: the start, the judged rounds, the free weights."""

    searches: list[SearchResult]
    initial: Evaluation
    n_val: int
    penalty: float
    kept: bool

    @property
    def best(self) -> Evaluation:
        return self.searches[-1].best

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

    With the defaults weights are learned in two steps. First in `rounds`, with two parameters: a
    model that has not seen row i says how far its label agrees, the margin m_i, and
    w_i = sigmoid(theta_0 + theta_1 m_i), theta chosen by the same derivative. Then each weight by
    itself, pulled towards what the rounds found. Few validation rows suffice for the first step;
    what the second adds is checked on rows that were held out.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of loss of a row of weight one. Where a search begins, unless ``learn=()``.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel; a callable gets two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf", "poly" and "sigmoid", as in :class:`lupi.WeightedSVC`. For "rbf" the search
        for C is one for the width too.
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
        and no step at all, by the loss of the final model on parts of the validation rows that were
        held out; the weaker pull, and no step, have to be better by more than a standard error. 0:
        no pull.
    weight_budget : float, default=None
        Largest mean of the weights c_i / C.
    learn : "auto" or tuple of {"C", "gamma", "delta"}, default="auto"
        Hyper-parameters that are learned along. ``"auto"``: where validation rows are cross-fitted
        (`cross_fit`), C, and gamma with ``kernel="rbf"``, are chosen before each round, by steps to
        better neighbours among their values above times powers of 3 and 2, up to the third and
        second; better is a smaller held-out log loss (with one slope for all rows, so that the
        scale of the margins does not count). A tuple: these are learned by the derivative, from
        their values above, together with the weights; "gamma" with ``kernel="rbf"`` only, "delta"
        with the smooth hinge only. (): they stay.
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
        How often every training row is judged by a final model that was trained without it, and
        weights are learned as a function of its margin there. 0: weights are learned one by one
        from their start, as in the paper. ``"auto"``: 2 where weights are free and
        ``cross_fit="auto"`` takes several parts, else 0.
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
        the start of each search included; ``round`` numbers the searches; ``watched_loss`` with
        early stopping. One dict per fold with `cv`.
    initial_ : float
        Validation loss per row of the model with the starting weights (and with the C and gamma
        that were chosen for them).
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
        "learn": [StrOptions({"auto"}), "array-like"],
        "refit": [StrOptions({"union", "train"})],
        "cross_fit": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "rounds": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
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
        learn: Any = "auto",
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
        data = Data(X_all, label_all, kernel, self._use_linear_form(X_all), 1e6 * self.cache_size)
        settings = Settings(float(self.C), float(kernel.gamma), float(self.delta))
        machine = Machine(
            data,
            loss,
            self._pairs,
            self.refit == "union",
            self.cache_size,
            n_threads(float(len(label_all)) ** 2),
        )
        context = _Context.of(self)

        run = _Run(machine, settings, learned, random, context.report)
        learnt: list[_Learnt] = []
        with one_blas_thread():
            for train, val in parts:
                reachable = self._weighting(start[train], X_weight, groups, train)
                penalty = learnt[0].penalty if learnt else None
                learnt.append(self._learn(run, reachable, penalty, train, val))
            final = _mean_settings([one.best.settings for one in learnt])
            sample_weight, rows, w = self._assemble(n, parts, [one.best.weights for one in learnt])
            fitted = machine.final(final, rows, w)
        n_iter = self._set_losses(learnt)

        self._unpack_learned(X_all, label_all, fitted, final, n_iter)
        self.sample_weight_ = sample_weight
        self.weight_penalty_ = learnt[0].penalty
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
        if isinstance(self.learn, str):  # "auto"
            return ()
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
        return self._limited(weighting)

    def _limited(self, weighting: Weighting) -> Weighting:
        """With the budget, where there is one."""
        if self.weight_budget is None:
            return weighting
        return Budget(weighting, float(self.weight_budget) * len(weighting.start))

    # ---- the outer problem ----------------------------------------------------------------------

    def _cross_fits(self, n: int, n_val: int) -> int:
        if self.refit != "union":
            return 1
        if self.cross_fit != "auto":
            return int(self.cross_fit)
        return _CROSS_FITS if n_val <= n and n + n_val <= _CROSS_FIT_ROWS else 1

    def _rounds(self, reachable: Weighting, fits: int) -> int:
        if self.rounds != "auto":
            return int(self.rounds)
        return 2 if type(reachable) is Weighting and fits > 1 else 0

    def _tasks(
        self, run: _Run, data: Data, train: Rows, val: Rows, watch: Rows | None = None
    ) -> tuple[Task, ...]:
        """The inner problems: one per pair of classes and part of the validation rows."""
        loss = run.machine.loss
        fits = self._cross_fits(len(train), len(val))
        part = even_parts(data.label[val], fits)
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
                tasks.append(
                    Task(
                        problem,
                        positions[positions < len(train)],
                        criterion(own),
                        watching,
                        data.width(used, own) if "gamma" in run.learned else None,
                    )
                )
        return tuple(tasks)

    def _learn(
        self, run: _Run, reachable: Weighting, penalty: float | None, train: Rows, val: Rows
    ) -> _Learnt:
        """Weights judged by validation rows: in rounds by the rows' margins, then each by itself.

        `penalty`: of the free weights, where an earlier part has chosen it.
        """
        watch = None
        if self.early_stopping:
            held = _stratified(run.machine.data.label[val], 0.2, run.random)
            watch, val = val[held], np.delete(val, held)
        start = _Stage.first(self, run, reachable, train, val, watch)
        n_val, stage = start.objective(reachable).n_val, start
        for _ in range(start.rounds):
            stage = stage.judged(reachable)
            if stage.searches[-1].status == "interrupted":
                return _Learnt(stage.searches, start.initial, n_val, np.inf, False)
        # What the rounds found must not be worse on held-out rows by more than chance.
        if stage is not start and _clearly_worse(stage.choice.losses, start.choice.losses):
            stage = start
        if stage is not start:
            reachable = self._limited(Weighting(stage.w))
        if penalty is None:
            penalty = self._choose_penalty(run, stage, reachable)
        done = stage.free(reachable, penalty)
        kept = stage is start and bool(np.isinf(penalty))
        # C and the width may have changed since the start.
        if not done.searches[-1].best.loss <= start.initial.loss:
            done, penalty, kept = start, np.inf, True
        return _Learnt(done.searches, start.initial, n_val, penalty, kept)

    def _choose_penalty(self, run: _Run, stage: _Stage, reachable: Weighting) -> float:
        """The penalty; infinite: weights stay where they are.

        For "auto" the one whose final models do best on validation rows that nothing has seen. A
        weaker pull must be better by more than chance, and so must staying.
        """
        if self.weight_penalty != "auto":
            return float(self.weight_penalty)
        train, val = stage.train, stage.val
        label = run.machine.data.label[val]
        counts = np.bincount(label)
        folds = int(min(3, counts[counts > 0].min()))
        if folds < 2:
            return _PENALTIES[0] * len(val)
        large = len(val) > _MANY_VALIDATION_ROWS or len(train) + len(val) > _MANY_ROWS
        losses: dict[float, list[Vector]] = {per_row: [] for per_row in (np.inf, *_PENALTIES)}
        part = even_parts(label[shuffled := run.random.permutation(len(val))], folds)
        machine, settings = stage.choice.machine, stage.choice.settings
        for fold in range(1 if large else folds):
            inside, outside = val[shuffled[part != fold]], val[shuffled[part == fold]]

            def held_out(
                settings: Settings, w: Vector, inside: Rows = inside, outside: Rows = outside
            ) -> Vector:
                fitted = machine.final(settings, *machine.with_validation(train, w, inside))
                margins = machine.margins(fitted, outside)
                return np.concatenate([machine.loss.value(margin) for _, margin in margins])

            losses[np.inf].append(held_out(settings, reachable.start))
            tasks = self._tasks(run, machine.data, train, inside)
            objective = Objective(
                tasks, reachable, settings, 0.0, run.learned, threads=machine.threads
            )
            found = None
            for per_row in _PENALTIES:  # from the strongest, each from the one before
                found = minimise(
                    replace(objective, penalty=per_row * len(inside)),
                    theta=None if found is None else found.theta,
                    init=None if found is None else found.best,
                    max_iter=self.max_iter,
                    tol=10 * self.tol,
                )
                losses[per_row].append(held_out(found.best.settings, found.best.weights))
        by_row = {per_row: np.concatenate(parts) for per_row, parts in losses.items()}
        if self.verbose:
            for per_row, values in by_row.items():
                print(
                    f"[lupi] weight_penalty {per_row * len(val):.3g}: held-out loss "
                    f"{values.mean():.4f}"
                )
        best = _PENALTIES[0]
        for weaker in _PENALTIES[1:]:
            if _clearly_worse(by_row[best], by_row[weaker]):
                best = weaker
        return np.inf if _clearly_worse(by_row[best], by_row[np.inf]) else best * len(val)

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

    # ---- what fit leaves ------------------------------------------------------------------------

    def _set_losses(self, learnt: list[_Learnt]) -> int:
        """History and status; returns the number of outer iterations."""
        self.initial_ = float(np.mean([one.initial.loss / one.n_val for one in learnt]))
        self.validation_loss_ = float(np.mean([one.best.loss / one.n_val for one in learnt]))
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
class _Stage:
    """Weights on the way, the hyper-parameters that suit them, and the searches so far.

    `chosen` are the hyper-parameters that are chosen again for new weights; `distances` are those
    of all rows, where the width is among them and they fit in memory; `warm` is an evaluation of
    these tasks.
    """

    estimator: WeightLearningClassifier
    run: _Run
    train: Rows
    val: Rows
    watch: Rows | None
    fits: int
    rounds: int
    chosen: tuple[str, ...]
    distances: Vector | None
    w: Vector
    choice: Choice
    tasks: tuple[Task, ...]
    initial: Any = None
    warm: Evaluation | None = None
    searches: list[SearchResult] = field(default_factory=list)

    @classmethod
    def first(
        cls,
        estimator: WeightLearningClassifier,
        run: _Run,
        reachable: Weighting,
        train: Rows,
        val: Rows,
        watch: Rows | None,
    ) -> _Stage:
        """The starting weights."""
        machine, data = run.machine, run.machine.data
        fits = estimator._cross_fits(len(train), len(val))
        chosen: tuple[str, ...] = ()
        if isinstance(estimator.learn, str) and fits > 1:
            chosen = ("C", "gamma") if estimator.kernel == "rbf" else ("C",)
        distances = None
        if "gamma" in chosen and 16.0 * len(data.label) ** 2 <= data.limit:
            distances = data.distances(np.arange(len(data.label)))
            machine = machine.at_gamma(run.settings.gamma, distances)
        stage = cls(
            estimator,
            run,
            train,
            val,
            watch,
            fits,
            estimator._rounds(reachable, fits),
            chosen,
            distances,
            reachable.weights(reachable.theta0),
            Choice(run.settings, machine, np.zeros(0), 1.0),
            (),
        )
        if chosen or stage.rounds:
            stage = replace(stage, choice=stage.chosen_for(stage.w))
        stage = stage.with_tasks()
        found = stage.search(reachable, 0.0, max_iter=0)
        searches = [found] if stage.rounds else []
        return replace(stage, initial=found.first, warm=found.first, searches=searches)

    def judged(self, reachable: Weighting) -> _Stage:
        """Weights by the margin of each row at a final model that has not seen it."""
        choice = self.choice
        margin = choice.machine.judge_training(choice.settings, self.train, self.w, self.val)
        believed = MarginWeighting(reachable.start, margin, belief(margin, choice.slope))
        found = self.search(
            self.estimator._limited(believed),
            0.0,
            learned=(),
            max_iter=self.estimator.max_iter,
            tol=10 * self.estimator.tol,
            report=self.run.report,
        )
        w = found.best.weights
        stage = replace(
            self, w=w, choice=self.chosen_for(w), warm=found.best, searches=[*self.searches, found]
        )
        return stage if stage.choice.machine is choice.machine else stage.with_tasks()

    def free(self, reachable: Weighting, penalty: float) -> _Stage:
        """Every weight by itself, pulled towards where it is; infinite: it stays."""
        stays = bool(np.isinf(penalty))
        found = self.search(
            reachable,
            0.0 if stays else penalty,
            max_iter=0 if stays else self.estimator.max_iter,
            tol=self.estimator.tol,
            report=self.run.report,
        )
        return replace(self, w=found.best.weights, searches=[*self.searches, found])

    def chosen_for(self, w: Vector) -> Choice:
        """The hyper-parameters that are best with these weights, and the held-out losses."""
        return choose(
            self.choice.machine,
            self.choice.settings,
            self.chosen,
            self.train,
            w,
            self.val,
            max(self.fits, 2),
            self.run.settings,
            self.distances,
        )

    def with_tasks(self) -> _Stage:
        """The tasks of the chosen width."""
        data = self.choice.machine.data
        tasks = self.estimator._tasks(self.run, data, self.train, self.val, self.watch)
        return replace(self, tasks=tasks, warm=None)

    def objective(
        self, weighting: Weighting, penalty: float = 0.0, learned: tuple[str, ...] | None = None
    ) -> Objective:
        """The outer objective of these tasks."""
        return Objective(
            self.tasks,
            weighting,
            self.choice.settings,
            penalty,
            self.run.learned if learned is None else learned,
            threads=self.run.machine.threads,
        )

    def search(
        self,
        weighting: Weighting,
        penalty: float,
        learned: tuple[str, ...] | None = None,
        **options: Any,
    ) -> SearchResult:
        """Minimise it from the inner solutions at hand."""
        patience = None if self.watch is None else self.estimator.n_iter_no_change
        return minimise(
            self.objective(weighting, penalty, learned),
            init=self.warm,
            patience=patience,
            **options,
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


def _clearly_worse(losses: Vector, others: Vector) -> bool:
    """Whether the mean is larger by more than a standard error of the difference."""
    worse = losses - others
    return bool(worse.mean() > worse.std() / np.sqrt(len(worse)))


def _mean_settings(settings: list[Settings]) -> Settings:
    """Geometric means over the folds."""
    if len(settings) == 1:
        return settings[0]
    names = ("C", "gamma", "delta")
    logs = [np.mean([np.log(getattr(s, name)) for s in settings]) for name in names]
    return Settings(**{name: float(np.exp(log)) for name, log in zip(names, logs, strict=True)})
