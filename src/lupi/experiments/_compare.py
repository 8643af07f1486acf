"""Does the extra information help? Methods with and without it, on the same rows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import Pipeline

from ..estimators import SVMPlusClassifier, WeightedSVC, WeightLearningClassifier
from ..threads import limited, one_blas_thread
from ..weighting import NadarayaWatson
from ._answer import Answer, Errors, answer, percent, points
from ._engine import Experiment, Journal, Row, run, write_csv
from ._methods import Outcome, Shared, _folds, _search, _widths, cut
from ._parts import Parts, Rows, generator, stratified
from ._table import Problem, beside, make_problem, preparation, without_values
from .report import versions

# Share of the rows that are tested in each repeat, and the most that are of use.
_TEST_SHARE = 0.25
_MOST_TESTED = 1_000
# The largest training size unless sizes are given; more rows take minutes, not seconds.
_MOST_TRAINED = 500
_FOLDS = 5

# Coarse values of C, and of kernel widths as multiples of gamma="scale". They are refined by half a
# step around the best.
_C = (0.1, 1.0, 10.0, 100.0)
_WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0)
_CORRECTION = (1e-3, 1e-1, 10.0)
_WIDTHS_PRIV = (1 / 4, 1.0, 4.0)
_TAUS = (0.5, 1.0, 2.0, 4.0)


# ---- Drawing rows -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nested:
    """Test rows, and training rows in an order of which every size takes the first.

    The training rows of a size are among those of every larger size of the same repeat, and the
    test rows are the same for all sizes of a repeat.

    Attributes
    ----------
    sizes : tuple of int
    repeats : int
    n_test : int
        Test rows; with groups at most so many.
    seed : int
    """

    sizes: tuple[int, ...]
    repeats: int
    n_test: int
    seed: int = 0

    def draw(self, data: Problem, repeat: int, smallest: int) -> tuple[Rows, Rows]:
        """Training rows in their order, and test rows.

        Parameters
        ----------
        data : Problem
        repeat : int
        smallest : int
            Every class has two rows (with groups: in two groups) among the first so many.

        Returns
        -------
        order, test : ndarray of int
        """
        rng = generator(self.seed, "nested", repeat)
        if data.groups is not None:
            return _draw_groups(data, self.n_test, smallest, rng)
        test = np.sort(stratified(data.y, self.n_test, rng))
        pool = rng.permutation(np.setdiff1d(np.arange(data.n), test))
        # Each class is spread evenly over the order, so that its share is the same in every size.
        place = np.empty(len(pool))
        for k in np.unique(data.y):
            own = np.flatnonzero(data.y[pool] == k)
            place[own] = (np.arange(len(own)) + rng.random()) / len(own)
        return pool[np.argsort(place, kind="stable")], test

    def parts(self, data: Problem, size: int, repeat: int) -> Parts:
        """The rows of one cell.

        Parameters
        ----------
        data : Problem
        size, repeat : int

        Returns
        -------
        Parts
        """
        order, test = self.draw(data, repeat, min(self.sizes))
        return parts_of(data, order[:size], test)


def parts_of(data: Problem, train: Rows, test: Rows) -> Parts:
    """These rows of a table.

    Parameters
    ----------
    data : Problem
    train, test : ndarray of int

    Returns
    -------
    Parts
    """
    extra = {"groups": data.groups, "sample_weight": data.sample_weight}
    return Parts(
        _rows(data.X, train),
        data.y[train],
        _rows(data.X, test),
        data.y[test],
        X_priv=_rows(data.X_priv, train),
        X_priv_test=_rows(data.X_priv, test),
        extra={name: value[train] for name, value in extra.items() if value is not None},
    )


def _rows(Z: Any, rows: Rows) -> Any:
    Z = cut(Z, rows)
    return Z.reset_index(drop=True) if hasattr(Z, "iloc") else Z


def _draw_groups(
    data: Problem, n_test: int, smallest: int, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Whole groups are tested; among the others the order is group by group."""
    assert data.groups is not None
    classes = np.unique(data.y)
    members = [np.flatnonzero(data.groups == g) for g in np.unique(data.groups)]
    for _ in range(500):
        order = rng.permutation(len(members))
        test: list[int] = []
        count = 0
        for g in order:
            if not test or count + len(members[g]) <= n_test:
                test.append(g)
                count += len(members[g])
        rows = np.concatenate([members[g] for g in test])
        if len(np.unique(data.y[rows])) < len(classes):
            continue
        rest = [g for g in order if g not in set(test)]
        if not rest:
            continue
        pool = np.concatenate([rng.permutation(members[g]) for g in rest])
        first = pool[:smallest]
        if all(len(np.unique(data.groups[first][data.y[first] == k])) >= 2 for k in classes):
            return pool, np.sort(rows)
    raise ValueError(
        f"the groups cannot be split so that every class is among the test rows and in two groups "
        f"of {smallest} training rows: there are too few groups, or they are too large."
    )


def plan(
    data: Problem, sizes: Sequence[int] | None, repeats: int, seed: int
) -> tuple[Nested, float]:
    """Sizes that the rows allow, and the share of rows that is tested.

    Parameters
    ----------
    data : Problem
    sizes : sequence of int or None
        None: up to four, each half the next.
    repeats : int
    seed : int

    Returns
    -------
    protocol : Nested
    test_share : float
    """
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2, for an interval; got {repeats}.")
    n = data.n
    classes, count = np.unique(data.y, return_counts=True)
    n_test = min(max(round(_TEST_SHARE * n), len(classes)), _MOST_TESTED)
    # Two rows of each class, in the right proportion.
    least = max(8, math.ceil(3 * n / int(count.min())))
    if sizes is not None:
        wanted = tuple(sorted({int(size) for size in sizes}))
        if not wanted:
            raise ValueError("sizes must name at least one number of training rows.")
        if data.groups is None:
            n_test = min(n_test, max(n - wanted[-1], 0))
        least = max(2 * len(classes), min(least, math.ceil(2.5 * n / int(count.min()))))
        if wanted[0] < least:
            raise ValueError(
                f"sizes must be at least {least} here, so that folds can be made of every class; "
                f"got {wanted[0]}."
            )
        if n_test < max(len(classes), 0.1 * min(n, _MOST_TESTED)):
            raise ValueError(
                f"sizes must leave rows to test on: the largest is {wanted[-1]} of {n} rows; at "
                f"most {math.floor(0.9 * n)} will do."
            )
    protocol = Nested(wanted if sizes is not None else (least,), repeats, n_test, seed)
    if data.groups is None:
        largest, tested = n - n_test, float(n_test)
        drawn = None
    else:
        drawn = [protocol.draw(data, repeat, protocol.sizes[0]) for repeat in range(repeats)]
        largest = min(len(order) for order, _ in drawn)
        tested = float(np.mean([len(test) for _, test in drawn]))
    if sizes is None:
        largest = min(largest, _MOST_TRAINED)
        found = [largest]
        while len(found) < 4 and found[-1] // 2 >= least:
            found.append(found[-1] // 2)
        protocol = Nested(tuple(reversed(found)), repeats, n_test, seed)
    elif protocol.sizes[-1] > largest:
        raise ValueError(
            f"sizes must be at most {largest}: with groups kept together, no more training rows "
            f"are left beside the test rows; got {protocol.sizes[-1]}."
        )
    return protocol, tested / n


# ---- Methods ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A model of some rows.

    Attributes
    ----------
    model : Pipeline
        Predicts from the ordinary columns (the oracle: from all).
    params : dict
    weight : ndarray or None
        How much each training row counts, 1 if as much as in the SVM.
    score : float
        Accuracy in the folds, where hyper-parameters were chosen by it.
    """

    model: Any
    params: dict[str, Any]
    weight: NDArray[np.float64] | None = None
    score: float = math.nan


@dataclass(frozen=True)
class _Compared:
    """A method of the comparison: `fit` from the training rows, `run` scores on the test rows."""

    name: str
    label: str
    role: str

    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """Choose hyper-parameters in folds of the training rows, and fit."""
        raise NotImplementedError

    def run(self, parts: Parts, seed: int, shared: Shared) -> Outcome:
        """Learn, and be scored."""
        found = self.fit(parts, seed, shared)
        X_test = parts.X_test
        if self.role == "oracle":
            X_test = beside(X_test, parts.X_priv_test)
        error = float(np.mean(found.model.predict(X_test) != parts.y_test))
        info = {} if math.isnan(found.score) else {"folds_accuracy": round(found.score, 4)}
        return Outcome(error, found.params, info, found.model)


Scored = list[tuple[float, dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class _Fold:
    """One way to choose by: all rows as numbers, made with what the rows `train` show."""

    train: Rows
    val: Rows
    X: NDArray[np.float64]


def _split(parts: Parts, seed: int, shared: Shared) -> list[tuple[Rows, Rows]]:
    def compute() -> list[tuple[Rows, Rows]]:
        return list(_folds(parts.y, parts.extra.get("groups"), _FOLDS, seed))

    found: list[tuple[Rows, Rows]] = shared.get("split", compute)
    return found


def _folds_of(name: str, Z: Any, parts: Parts, seed: int, shared: Shared) -> list[_Fold]:
    """The folds of these columns; privileged rows without any value stay so."""

    def compute() -> list[_Fold]:
        known = ~without_values(Z) if name == "X_priv" else np.ones(len(parts.y), dtype=bool)
        out = []
        for train, val in _split(parts, seed, shared):
            some = train[known[train]]
            X = np.full((len(parts.y), 1), np.nan)
            if len(some):
                prepared = preparation(Z).fit(_rows(Z, some)).transform(Z)
                X = np.where(known[:, None], prepared, np.nan)
            out.append(_Fold(train, val, X))
        return out

    found: list[_Fold] = shared.get(f"folds of {name}", compute)
    return found


def _scored(
    estimator: Any,
    folds: Sequence[_Fold],
    parts: Parts,
    grid: dict[str, Any],
    *,
    privileged: Sequence[_Fold] | None = None,
    weights: Sequence[NDArray[np.float64]] | None = None,
) -> Scored:
    """Mean scores over the folds; `weights` come in place of the rows' own."""
    given = parts.extra.get("sample_weight")
    found = []
    for k, fold in enumerate(folds):
        metadata = {
            "sample_weight": given if weights is None else weights[k],
            "X_priv": None if privileged is None else privileged[k].X,
        }
        metadata = {name: value for name, value in metadata.items() if value is not None}
        split = [(fold.train, fold.val)]
        found.append(_search(estimator, [grid], fold.X, parts.y, split, metadata, True))
    # Rounded, so that what is equal ties.
    return [
        (round(float(np.mean([score for score, _ in one])), 12), one[0][1])
        for one in zip(*found, strict=True)
    ]


def _staged(
    score: Callable[[dict[str, Any]], Scored],
    stages: Sequence[Callable[[dict[str, Any]], dict[str, Any]]],
) -> tuple[float, dict[str, Any]]:
    """The best of several grids, each made around the best so far; the first of those that tie."""
    best: tuple[float, dict[str, Any]] | None = None
    for stage in stages:
        grid = stage({} if best is None else best[1])
        found = max(score(grid), key=lambda one: one[0])
        if best is None or found[0] > best[0]:
            best = found
    assert best is not None
    return best


def _half_steps(value: float, step: float) -> list[float]:
    return [value / math.sqrt(step), value, value * math.sqrt(step)]


def _refined(best: dict[str, Any], **steps: float) -> dict[str, Any]:
    """Half a step around the best in some directions."""
    return {
        name: _half_steps(value, steps[name]) if name in steps else [value]
        for name, value in best.items()
    }


def _tuned_svm(name: str, X: Any, parts: Parts, seed: int, shared: Shared) -> Fitted:
    """The SVM on these columns."""
    folds = _folds_of(name, X, parts, seed, shared)
    prepare = preparation(X)
    Z = prepare.fit_transform(X)
    score, params = _staged(
        lambda grid: _scored(WeightedSVC(), folds, parts, grid),
        [
            lambda _: {"C": _C, "gamma": _widths(Z, _WIDTHS)},
            lambda best: _refined(best, C=10.0, gamma=4.0),
        ],
    )
    svm = WeightedSVC(**params).fit(Z, parts.y, sample_weight=parts.extra.get("sample_weight"))
    return Fitted(Pipeline([("prepare", prepare), ("svm", svm)]), params, None, score)


def _svm(parts: Parts, seed: int, shared: Shared) -> Fitted:
    def compute() -> Fitted:
        return _tuned_svm("X", parts.X, parts, seed, shared)

    found: Fitted = shared.get("svm", compute)
    return found


class _SVM(_Compared):
    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """The SVM; C and width by folds."""
        return _svm(parts, seed, shared)


class _Oracle(_Compared):
    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """The SVM on all columns, which it also needs to predict."""
        return _tuned_svm("all", beside(parts.X, parts.X_priv), parts, seed, shared)


class _SVMPlus(_Compared):
    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """SVM+, or the SVM where the folds find SVM+ no better.

        The SVM is SVM+ without extra information, so it is one of the candidates, as tau = 0 is one
        of P(y | x*)^tau. The width of the first kernel starts from the SVM's.
        """
        svm = _svm(parts, seed, shared)
        folds = _folds_of("X", parts.X, parts, seed, shared)
        privileged = _folds_of("X_priv", parts.X_priv, parts, seed, shared)
        plain = Fitted(
            svm.model,
            {**svm.params, "correction_reg": "no extra information"},
            np.ones(len(parts.y)),
            svm.score,
        )
        if any(np.isnan(fold.X[fold.train]).all() for fold in privileged):
            return plain
        prepare, prepare_priv = preparation(parts.X), preparation(parts.X_priv)
        known = _rows(parts.X_priv, np.flatnonzero(~without_values(parts.X_priv)))
        widths_priv = _widths(prepare_priv.fit_transform(known), _WIDTHS_PRIV)
        coarse = {
            "C": _C,
            "correction_reg": _CORRECTION,
            "gamma": [svm.params["gamma"]],
            "gamma_priv": widths_priv,
        }
        score, params = _staged(
            lambda grid: _scored(SVMPlusClassifier(), folds, parts, grid, privileged=privileged),
            [
                lambda _: coarse,
                lambda best: _refined(best, C=10.0, gamma=4.0),
                lambda best: _refined(best, correction_reg=100.0, gamma_priv=4.0),
            ],
        )
        if score <= svm.score:
            return plain
        given = parts.extra.get("sample_weight")
        model = SVMPlusClassifier(**params, preprocessor_priv=prepare_priv).fit(
            prepare.fit_transform(parts.X), parts.y, sample_weight=given, X_priv=parts.X_priv
        )
        weight = None
        if len(model.classes_) == 2:
            cost = model.C * (np.ones(len(parts.y)) if given is None else given)
            weight = np.zeros(len(cost))
            np.divide(model.instance_weights_, cost, out=weight, where=cost > 0)
        pipeline = Pipeline([("prepare", prepare), ("svm", model)])
        return Fitted(pipeline, params, weight, score)


class _ProbabilityWeights(_Compared):
    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """Weights P(y_i | x*_i)^tau (eq:wgt:weights_alpha), each by a model without row i.

        Within a fold of the search they are made of the rows of its training part alone.
        """
        svm = _svm(parts, seed, shared)
        groups, given = parts.extra.get("groups"), parts.extra.get("sample_weight")
        own = np.ones(len(parts.y)) if given is None else given
        folds = _folds_of("X", parts.X, parts, seed, shared)
        chances = []
        for fold in _folds_of("X_priv", parts.X_priv, parts, seed, shared):
            p, rows = np.ones(len(parts.y)), fold.train
            of_rows = None if groups is None else groups[rows]
            p[rows] = _own_probability(fold.X[rows], parts.y[rows], of_rows, seed)
            chances.append(p)
        C, gamma = svm.params["C"], svm.params["gamma"]
        grid = {"C": [0.3 * C, C, 3.0 * C, 10.0 * C], "gamma": _half_steps(gamma, 4.0)}
        best_score, best, best_tau = svm.score, {"C": C, "gamma": gamma}, 0.0
        for tau in _TAUS:
            weights = [own * p**tau for p in chances]
            scored = _scored(WeightedSVC(), folds, parts, grid, weights=weights)
            score, params = max(scored, key=lambda one: one[0])
            if score > best_score:
                best_score, best, best_tau = score, params, tau
        known = ~without_values(parts.X_priv)
        weight = np.ones(len(parts.y))
        if best_tau > 0:
            rows = np.flatnonzero(known)
            X_priv = preparation(parts.X_priv).fit_transform(_rows(parts.X_priv, rows))
            of_rows = None if groups is None else groups[rows]
            weight[rows] = _own_probability(X_priv, parts.y[rows], of_rows, seed) ** best_tau
        prepare = preparation(parts.X)
        model = WeightedSVC(**best).fit(
            prepare.fit_transform(parts.X), parts.y, sample_weight=own * weight
        )
        pipeline = Pipeline([("prepare", prepare), ("svm", model)])
        return Fitted(pipeline, {**best, "tau": best_tau}, weight, best_score)


def _own_probability(
    X_priv: NDArray[np.float64], y: NDArray[Any], groups: Any, seed: int
) -> NDArray[np.float64]:
    """P(y_i | x*_i) by a model that has not seen row i; 1 where nothing is known of the row.

    Of a linear and a smooth model, the one with the larger likelihood.
    """
    out = np.ones(len(y))
    known = np.flatnonzero(~without_values(X_priv))
    _, label = np.unique(y[known], return_inverse=True)
    if groups is not None:
        groups = groups[known]
    units = np.arange(len(known)) if groups is None else groups
    if len(known) == 0 or any(
        len(np.unique(units[label == k])) < 2 for k in range(len(np.unique(y)))
    ):
        return out
    folds = list(_folds(y[known], groups, _FOLDS, seed))
    found = []
    for model in (LogisticRegression(max_iter=1000), NadarayaWatson()):
        p = cross_val_predict(model, X_priv[known], label, cv=folds, method="predict_proba")
        own = np.clip(p[np.arange(len(label)), label], 1e-3, 1.0)
        found.append((float(np.log(own).sum()), own))
    out[known] = max(found, key=lambda one: one[0])[1]
    return out


class _LearnedWeights(_Compared):
    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """Weights that are learned on a held-out part of the same rows (eq:wlearning:wopt).

        C and width are the SVM's; all else is as WeightLearningClassifier has it.
        """
        svm = _svm(parts, seed, shared)
        prepare = preparation(parts.X)
        X = prepare.fit_transform(parts.X)
        groups, given = parts.extra.get("groups"), parts.extra.get("sample_weight")
        model = WeightLearningClassifier(
            svm.params["C"], gamma=svm.params["gamma"], random_state=seed
        )
        if groups is None:
            model.fit(X, parts.y, initial_weight=given)
            weight = model.sample_weight_
        else:
            n = min(3, min(len(np.unique(groups[parts.y == k])) for k in np.unique(parts.y)))
            splitter = StratifiedGroupKFold(n, shuffle=True, random_state=seed)
            train, val = next(iter(splitter.split(X, parts.y, groups)))
            if set(parts.y[train]) != set(parts.y):
                return svm
            model.fit(
                X[train],
                parts.y[train],
                X_val=X[val],
                y_val=parts.y[val],
                initial_weight=None if given is None else given[train],
            )
            weight = np.ones(len(parts.y))
            weight[train] = model.sample_weight_
        params = {**svm.params, "weight_penalty": float(model.weight_penalty_)}
        if math.isinf(params["weight_penalty"]):
            params["weight_penalty"] = "not learned"
        return Fitted(Pipeline([("prepare", prepare), ("svm", model)]), params, weight)


@dataclass(frozen=True)
class _Own(_Compared):
    """A classifier of the user's, fitted as it is on the prepared columns."""

    estimator: Any = None

    def fit(self, parts: Parts, seed: int, shared: Shared) -> Fitted:
        """Fit."""
        model = Pipeline([("prepare", preparation(parts.X)), ("own", clone(self.estimator))])
        return Fitted(model.fit(parts.X, parts.y), {})


METHODS: tuple[_Compared, ...] = (
    _SVM("svm", "SVM", "reference"),
    _SVMPlus("svm_plus", "SVM+", "privileged"),
    _ProbabilityWeights("wsvm_probability", "WSVM with weights P(Y|x*)", "privileged"),
    _LearnedWeights("learned_weights", "Learned weights", "other"),
    _Oracle("oracle", "SVM that sees everything", "oracle"),
)


# ---- The comparison -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found; printed, it is the answer in words.

    Attributes
    ----------
    data : Problem
    protocol : Nested
    methods : tuple
    rows : list of dict
        Results, as of :func:`lupi.experiments.run`.
    test_share : float
    level : float
    """

    data: Problem
    protocol: Nested
    methods: tuple[_Compared, ...]
    rows: list[Row]
    test_share: float
    level: float = 0.95

    @cached_property
    def errors(self) -> tuple[Errors, ...]:
        """Errors of each method, sizes by repeats."""
        found = {(row["method"], row["size"], row["repeat"]): row["error"] for row in self.rows}
        repeats = range(self.protocol.repeats)
        return tuple(
            Errors(
                one.name,
                one.label,
                one.role,
                np.array([[found[one.name, s, r] for r in repeats] for s in self.protocol.sizes]),
            )
            for one in self.methods
        )

    @cached_property
    def answer(self) -> Answer:
        """The answer in words, and what it rests on."""
        return answer(
            self.errors,
            self.protocol.sizes,
            test_share=self.test_share,
            n_rows=self.data.n,
            level=self.level,
        )

    def __str__(self) -> str:
        return str(self.answer)

    @property
    def best_label(self) -> str:
        """The method that the answer recommends, for people."""
        return next(one.label for one in self.methods if one.name == self.answer.best)

    def table(self) -> str:
        """Methods at the largest size, as text.

        Returns
        -------
        str
        """
        rows = [("training rows: " + str(self.protocol.sizes[-1]), "errors", "points fewer", "")]
        for one in self.errors:
            if one.role == "reference":
                rows.append((one.label, percent(one.means[-1]), "", ""))
                continue
            gain = self.answer.differences[one.name][-1]
            interval = f"{points(gain.low, True)} to {points(gain.high, True)}"
            rows.append((one.label, percent(one.means[-1]), points(gain.mean, True), interval))
        return "\n".join(f"  {a:<28}{b:>8}{c:>15}   {d}".rstrip() for a, b, c, d in rows)

    @property
    def grids(self) -> dict[str, Any]:
        """The coarse values that hyper-parameters are chosen from."""
        return {
            "C": _C,
            "gamma, in units of gamma='scale'": _WIDTHS,
            "correction_reg": _CORRECTION,
            "gamma_priv, in units of gamma='scale'": _WIDTHS_PRIV,
            "tau": (0.0, *_TAUS),
            "folds": _FOLDS,
        }

    def fit(self, name: str | None = None) -> Fitted:
        """A method on all rows.

        Parameters
        ----------
        name : str, default=None
            Of the method; None: the one that the answer recommends.

        Returns
        -------
        Fitted
            With the model, a pipeline.
        """
        name = self.answer.best if name is None else name
        known = {one.name: one for one in self.methods}
        if name not in known:
            raise ValueError(f"there is no method {name!r}; there are {', '.join(known)}.")
        everything = np.arange(self.data.n)
        parts = parts_of(self.data, everything, everything[:0])
        with limited(1), one_blas_thread():  # as the cells are, on whatever machine
            return known[name].fit(parts, self.protocol.seed, Shared())

    def write(self, folder: str | Path) -> Path:
        """Write ``results.csv``, ``index.html`` and the figures.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        Path
            Of the page.
        """
        from ._compare_report import report_of

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(self.rows, folder / "results.csv")
        return report_of(self).write(folder)


def compare(
    X: Any,
    y: Any,
    X_priv: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 20,
    estimators: Mapping[str, Any] | None = None,
    level: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    name: str = "data",
) -> Comparison:
    """Compare classifiers with and without information that exists at training time only.

    The SVM is compared with SVM+, with a weighted SVM whose weights are P(y | x*), with learned
    weights (which see no extra information), and with an SVM that sees the extra information at
    test time too. All get the same training rows, to learn and to choose hyper-parameters by folds
    in them; test rows are scored and nothing else. Training rows of a size are among those of the
    larger sizes.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, n_features)
        What is known at test time too. In a DataFrame, columns of words are categories; missing
        values are filled in within the folds.
    y : array-like of shape (n,)
    X_priv : array-like or DataFrame of shape (n, n_priv_features)
        What is known at training time only. A row without any value has no extra information.
    groups : array-like of shape (n,), default=None
        Rows of the same group are kept together, in all splits.
    sample_weight : array-like of shape (n,), default=None
        How much a row counts in training.
    sizes : sequence of int, default=None
        Numbers of training rows; None: up to four. The answer is about the largest.
    repeats : int, default=20
    estimators : dict of estimators, default=None
        More classifiers to be compared, by name; they are fitted as they are, without the extra
        information.
    level : float, default=0.95
        Of the intervals.
    random_state : int, default=0
    n_jobs : int, default=None
        Workers of joblib.
    out : path-like, default=None
        Where results are kept as they get ready; a run that was stopped goes on there.
    progress : bool, default=False
    name : str, default="data"
        Of the data.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.experiments import compare
    >>> rng = np.random.default_rng(0)
    >>> X_priv = rng.normal(size=(60, 1))
    >>> y = X_priv[:, 0] > 0
    >>> X = X_priv + rng.normal(size=(60, 1))
    >>> found = compare(X, y, X_priv, sizes=[40], repeats=3)
    >>> found.answer.verdict in ("helps", "open", "nothing", "harms")
    True
    >>> model = found.fit("svm_plus").model  # a pipeline, of all rows
    >>> model.predict(X[:3]).shape
    (3,)
    """
    data = make_problem(X, y, X_priv, groups=groups, sample_weight=sample_weight, name=name)
    return compare_problem(
        data,
        sizes=sizes,
        repeats=repeats,
        estimators=estimators,
        level=level,
        random_state=random_state,
        n_jobs=n_jobs,
        out=out,
        progress=progress,
    )


def compare_problem(
    data: Problem,
    *,
    sizes: Sequence[int] | None = None,
    repeats: int = 20,
    estimators: Mapping[str, Any] | None = None,
    level: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Comparison:
    """:func:`compare` for rows that are checked already.

    Parameters
    ----------
    data : Problem
    sizes, repeats, estimators, level, random_state, n_jobs, out, progress
        As in :func:`compare`.

    Returns
    -------
    Comparison
    """
    if not 0.5 <= level < 1:
        raise ValueError(f"level must be at least 0.5 and below 1; got {level}.")
    protocol, test_share = plan(data, sizes, repeats, random_state)
    own = tuple(_Own(key, key, "other", est) for key, est in (estimators or {}).items())
    methods = METHODS + own
    experiment = Experiment("compare", data, protocol, methods)
    settings = {
        "command": "compare",
        "data": data.name,
        "rows": data.n,
        "content": joblib.hash((data.X, data.y, data.X_priv, data.groups, data.sample_weight)),
        "sizes": list(protocol.sizes),
        "repeats": repeats,
        "test_rows": protocol.n_test,
        "seed": random_state,
        "methods": [one.name for one in methods],
        "estimators": {key: repr(est) for key, est in (estimators or {}).items()},
        "lupi": versions()["lupi"],
    }
    with tempfile.TemporaryDirectory() as temporary:
        journal = Journal(Path(out or temporary) / "journal.jsonl", settings)
        rows = run(experiment, journal, seed=random_state, n_jobs=n_jobs, progress=progress)
    return Comparison(data, protocol, methods, rows, test_share, level)
