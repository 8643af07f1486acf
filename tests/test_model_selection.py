"""Searches: the same results as scikit-learn's, from other work."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import cpu_count
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from threadpoolctl import threadpool_info

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.certificates import svmplus_certificate, svmplus_offsets, wsvm_certificate, wsvm_offsets
from lupi.kernels import KernelSpec, expand_all, given_matrix, gram_matrices
from lupi.model_selection import KernelGridSearchCV, KernelRandomizedSearchCV
from lupi.model_selection import _engine as engine
from lupi.plotting import ScoreMapDisplay, ScorePathDisplay
from lupi.problems import SVMPlusProblem, WSVMProblem
from lupi.solvers import batch, svmplus, wsvm

C = [0.1, 1.0, 10.0]
WIDTHS = [0.05, 0.5, "scale"]


def data(n=60, d=4, n_classes=2, seed=0):
    X, y = make_classification(
        n,
        d,
        n_informative=3,
        n_redundant=0,
        n_clusters_per_class=1,
        n_classes=n_classes,
        flip_y=0.15,
        random_state=seed,
    )
    X_priv = np.abs(X[:, :2]) + 0.3 * np.random.default_rng(seed).normal(size=(n, 2))
    return X, y, X_priv


def compare(search, reference, skip=()):
    """Same layout, same candidates, same scores to 1e-10."""
    ours, theirs = search.cv_results_, reference.cv_results_
    assert list(ours) == list(theirs)
    assert ours["params"] == theirs["params"]
    for name, value in theirs.items():
        if "_test_" in name or "_train_" in name:
            np.testing.assert_allclose(ours[name], value, rtol=0, atol=1e-10, err_msg=name)
        elif name.startswith("param_"):
            assert np.array_equal(ours[name].mask, value.mask)
    if reference.refit is not False:
        assert search.best_params_ == reference.best_params_
        assert search.best_index_ == reference.best_index_
        assert search.best_score_ == pytest.approx(reference.best_score_, abs=1e-10)


@pytest.fixture
def only_the_engine(monkeypatch):
    """No candidate may take the way around the engine."""

    def refuse(self, model):
        raise AssertionError(f"{model.params} was fitted alone")

    monkeypatch.setattr(engine._Scores, "of_fit", refuse)


BINARY = data()
THREE = data(75, n_classes=3, seed=1)
GRID = {"C": C, "gamma": WIDTHS}
PLUS = {"C": [0.1, 10.0], "correction_reg": [0.1, 10.0], "gamma": WIDTHS, "gamma_priv": [0.1, 1.0]}
PIPE = {"weightedsvc__C": C, "weightedsvc__gamma": WIDTHS}
SCORES = ["accuracy", "balanced_accuracy", "roc_auc", "f1"]
X_GRAM = KernelSpec("rbf", 0.3).cross(BINARY[0], BINARY[0])

# (estimator, grid, (X, y, X_priv or None), options): problems that the engine serves itself.
PROBLEMS = {
    "rbf": (WeightedSVC(), GRID, BINARY, {}),
    "train scores": (WeightedSVC(), GRID, BINARY, {"return_train_score": True}),
    "roc_auc": (WeightedSVC(), GRID, BINARY, {"scoring": "roc_auc"}),
    "several": (WeightedSVC(), GRID, BINARY, {"scoring": SCORES, "refit": "f1"}),
    "own scorer": (WeightedSVC(), GRID, BINARY, {"scoring": make_scorer(accuracy_score)}),
    "linear": (WeightedSVC(kernel="linear"), {"C": C}, BINARY, {}),
    "poly": (
        WeightedSVC(kernel="poly"),
        {"C": C, "degree": [2, 3], "coef0": [0.0, 1.0]},
        BINARY,
        {},
    ),
    "kernels": (
        WeightedSVC(),
        [{"kernel": ["linear"], "C": C}, {"kernel": ["rbf"], "gamma": [0.1, 1.0], "C": [1.0]}],
        BINARY,
        {},
    ),
    "class weights": (
        WeightedSVC(),
        {"C": C, "class_weight": [None, "balanced", {0: 2.0, 1: 1.0}]},
        BINARY,
        {},
    ),
    "sparse": (WeightedSVC(), GRID, (sp.csr_matrix(BINARY[0]), BINARY[1], None), {}),
    "float32": (WeightedSVC(), GRID, (BINARY[0].astype(np.float32), *BINARY[1:]), {}),
    "strings": (WeightedSVC(), GRID, (BINARY[0], np.array(["n", "p"])[BINARY[1]], None), {}),
    "precomputed": (
        WeightedSVC(kernel="precomputed"),
        {"C": C},
        (X_GRAM, BINARY[1], None),
        {"return_train_score": True},
    ),
    "three classes": (WeightedSVC(), GRID, THREE, {"return_train_score": True}),
    "ties": (
        WeightedSVC(break_ties=True),
        GRID,
        THREE,
        {"scoring": ["balanced_accuracy", "roc_auc_ovr"][:1], "refit": "balanced_accuracy"},
    ),
    "ovo": (WeightedSVC(decision_function_shape="ovo"), GRID, THREE, {"scoring": "f1_macro"}),
    "iris": (WeightedSVC(), GRID, (*load_iris(return_X_y=True), None), {"cv": 3}),
    "pipeline": (make_pipeline(StandardScaler(), WeightedSVC()), PIPE, BINARY, {}),
    "pipeline's steps": (
        make_pipeline(StandardScaler(), WeightedSVC()),
        {**PIPE, "standardscaler": [StandardScaler(), MinMaxScaler()]},
        (*load_wine(return_X_y=True), None),
        {"return_train_score": True},
    ),
    "predefined split": (
        WeightedSVC(),
        GRID,
        BINARY,
        {"cv": PredefinedSplit(np.r_[-np.ones(30), np.zeros(30)])},
    ),
    "svm+": (SVMPlusClassifier(), PLUS, BINARY, {"scoring": "roc_auc"}),
    "svm+ linear": (
        SVMPlusClassifier(kernel="linear", gamma_priv=1.0),
        {"C": [0.1, 1.0], "correction_reg": [0.001, 0.01]},
        BINARY,
        {"return_train_score": True},
    ),
    "svm+ three classes": (SVMPlusClassifier(), PLUS, THREE, {"cv": 3}),
    "svm+ preprocessed": (
        SVMPlusClassifier(preprocessor_priv=StandardScaler()),
        {"C": C, "gamma_priv": [0.1, "scale"]},
        BINARY,
        {},
    ),
}


@pytest.mark.usefixtures("only_the_engine")
@pytest.mark.parametrize("name", PROBLEMS)
def test_same_results_as_scikit_learn(name, request):
    estimator, grid, (X, y, X_priv), options = PROBLEMS[name]
    options = {"cv": 4, **options}
    fit = {"X_priv": X_priv} if isinstance(estimator, SVMPlusClassifier) else {}
    reference = GridSearchCV(estimator, grid, **options).fit(X, y, **fit)
    search = KernelGridSearchCV(estimator, grid, **options).fit(X, y, **fit)
    compare(search, reference)
    assert np.array_equal(search.predict(X), reference.predict(X))


# Problems with candidates that are fitted one by one, in the same search.
ODD = {
    "callable": (WeightedSVC(kernel=lambda a, b: np.asarray(a @ b.T)), {"C": C}, BINARY, {}),
    "sigmoid": (WeightedSVC(kernel="sigmoid"), {"C": [0.1], "gamma": [0.001, 0.01]}, BINARY, {}),
    "unpenalised": (
        SVMPlusClassifier(kernel_priv="linear"),
        {"C": C, "correction_reg": [0.0, 1.0]},
        BINARY,
        {},
    ),
    "failing": (WeightedSVC(), {"C": [-1.0, 1.0], "gamma": [0.1]}, BINARY, {"error_score": -7.0}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:.*not positive semidefinite:UserWarning")
@pytest.mark.parametrize("name", ODD)
def test_odd_candidates_are_fitted_alone(name):
    estimator, grid, (X, y, X_priv), options = ODD[name]
    fit = {"X_priv": X_priv} if isinstance(estimator, SVMPlusClassifier) else {}
    reference = GridSearchCV(estimator, grid, cv=3, **options).fit(X, y, **fit)
    search = KernelGridSearchCV(estimator, grid, cv=3, **options).fit(X, y, **fit)
    compare(search, reference)


@pytest.mark.parametrize("at_hand", [True, False])
def test_larger_problems(at_hand, monkeypatch):
    """The ways for problems that the batch does not take, on problems of any size."""
    monkeypatch.setattr(batch, "SMALL", 10)
    if not at_hand:
        monkeypatch.setattr(batch, "serves_large", lambda tol: False)
    for X, y, X_priv in (BINARY, THREE):
        for estimator, grid, fit in (
            (WeightedSVC(), GRID, {}),
            (SVMPlusClassifier(), PLUS, {"X_priv": X_priv}),
        ):
            reference = GridSearchCV(estimator, grid, cv=3).fit(X, y, **fit)
            compare(KernelGridSearchCV(estimator, grid, cv=3).fit(X, y, **fit), reference)


def test_foreign_estimators_and_scorers_fall_back():
    X, y, _ = BINARY
    grid = {"C": C}
    reference = GridSearchCV(LogisticRegression(), grid, cv=3).fit(X, y)
    compare(KernelGridSearchCV(LogisticRegression(), grid, cv=3).fit(X, y), reference)

    def few_support_vectors(model, X, y):
        return -float(len(model.support_))

    options = {"scoring": few_support_vectors, "cv": 3}
    reference = GridSearchCV(WeightedSVC(), grid, **options).fit(X, y)
    compare(KernelGridSearchCV(WeightedSVC(), grid, **options).fit(X, y), reference)


def test_refit_train_keeps_the_model_of_the_training_rows():
    X, y, X_priv = BINARY
    train = np.arange(40)
    cv = PredefinedSplit(np.r_[-np.ones(40), np.zeros(20)])
    search = KernelGridSearchCV(SVMPlusClassifier(), PLUS, cv=cv, refit="train")
    search.fit(X, y, X_priv=X_priv)
    alone = SVMPlusClassifier(**search.best_params_).fit(X[train], y[train], X_priv=X_priv[train])
    assert np.array_equal(search.best_estimator_.alpha_, alone.alpha_)
    assert search.score(X[40:], y[40:]) == search.best_score_

    foreign = KernelGridSearchCV(LogisticRegression(), {"C": C}, cv=cv, refit="train").fit(X, y)
    expected = LogisticRegression(**foreign.best_params_).fit(X[train], y[train])
    np.testing.assert_array_equal(foreign.best_estimator_.coef_, expected.coef_)
    assert foreign.refit == "train"

    with pytest.raises(ValueError, match="3 splits"):
        KernelGridSearchCV(WeightedSVC(), GRID, cv=3, refit="train").fit(X, y)
    with pytest.raises(ValueError, match="one score"):
        KernelGridSearchCV(WeightedSVC(), GRID, cv=cv, refit="train", scoring=SCORES).fit(X, y)


def test_weights_shape_training_and_the_score_only_when_asked():
    X, y, _ = BINARY
    weight = np.random.default_rng(3).integers(0, 4, size=len(y)).astype(float)
    cv = list(StratifiedKFold(3).split(X, y))
    search = KernelGridSearchCV(WeightedSVC(), GRID, cv=cv, weighted_score=True)
    reference = GridSearchCV(WeightedSVC(), GRID, cv=cv).fit(X, y, sample_weight=weight)
    compare(search.fit(X, y, sample_weight=weight), reference)

    plain = KernelGridSearchCV(WeightedSVC(), GRID, cv=cv).fit(X, y, sample_weight=weight)
    expected = [
        np.mean(
            [
                WeightedSVC(**params)
                .fit(X[train], y[train], sample_weight=weight[train])
                .score(X[test], y[test])
                for train, test in cv
            ]
        )
        for params in plain.cv_results_["params"]
    ]
    np.testing.assert_allclose(plain.cv_results_["mean_test_score"], expected, atol=1e-12)
    assert not np.allclose(expected, reference.cv_results_["mean_test_score"])


def test_privileged_rows_missing_and_precomputed():
    X, y, X_priv = BINARY
    X_part = X_priv.copy()
    X_part[::3] = np.nan
    grid = {"C": C, "gamma_priv": [0.1, 1.0]}
    fit = {"X_priv": X_part}
    reference = GridSearchCV(SVMPlusClassifier(), grid, cv=3).fit(X, y, **fit)
    compare(KernelGridSearchCV(SVMPlusClassifier(), grid, cv=3).fit(X, y, **fit), reference)

    # scikit-learn slices the rows of X_priv only, and cannot search with a matrix.
    K = KernelSpec("rbf", 0.5).cross(X_priv, X_priv)
    given = KernelGridSearchCV(SVMPlusClassifier(kernel_priv="precomputed"), {"C": C}, cv=3)
    same = GridSearchCV(SVMPlusClassifier(gamma_priv=0.5), {"C": C}, cv=3)
    same.fit(X, y, X_priv=X_priv)
    given.fit(X, y, X_priv=K)
    np.testing.assert_allclose(
        given.cv_results_["mean_test_score"], same.cv_results_["mean_test_score"], atol=1e-10
    )


def test_privileged_features_reach_the_classifier_of_a_pipeline():
    X, y, X_priv = BINARY
    pipe = make_pipeline(StandardScaler(), SVMPlusClassifier())
    grid = {f"svmplusclassifier__{k}": v for k, v in PLUS.items()}
    reference = GridSearchCV(pipe, grid, cv=3).fit(X, y, svmplusclassifier__X_priv=X_priv)
    compare(KernelGridSearchCV(pipe, grid, cv=3).fit(X, y, X_priv=X_priv), reference)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_does_the_same(backend):
    """And what BLAS may use is the same afterwards, though workers limit it in between."""
    from joblib import parallel_config

    X, y, _ = BINARY
    before = [library["num_threads"] for library in threadpool_info()]
    cv = PredefinedSplit(np.r_[-np.ones(40), np.zeros(20)])
    for splitter in (cv, KFold(3)):
        one = KernelGridSearchCV(WeightedSVC(), GRID, cv=splitter).fit(X, y)
        with parallel_config(backend):
            two = KernelGridSearchCV(WeightedSVC(), GRID, cv=splitter, n_jobs=2).fit(X, y)
        compare(two, one)
    assert [library["num_threads"] for library in threadpool_info()] == before


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_larger_problems_on_threads_and_workers(n_jobs, monkeypatch):
    """Paths with their kernel at hand, side by side; exact where few variables are free."""
    X, y = make_classification(1_700, 10, n_informative=6, flip_y=0.1, random_state=0)
    options = {"cv": PredefinedSplit(np.r_[-np.ones(1_100), np.zeros(600)]), "refit": False}
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.003, 0.03]}
    asked = []
    monkeypatch.setattr(engine, "n_threads", lambda work: asked.append(work) or 2)
    search = KernelGridSearchCV(WeightedSVC(), grid, n_jobs=n_jobs, **options).fit(X, y)
    compare(search, GridSearchCV(WeightedSVC(), grid, **options).fit(X, y))
    assert asked or n_jobs == 2


def test_an_interrupt_of_workers_keeps_what_is_done(monkeypatch):
    X, y, _ = BINARY

    def parallel(**kwargs):
        def run(jobs):
            for count, (function, args, kwargs) in enumerate(jobs):
                if count == 2:
                    raise KeyboardInterrupt
                yield function(*args, **kwargs)

        return run

    monkeypatch.setattr("lupi.model_selection._search._parallel", parallel)
    search = KernelGridSearchCV(WeightedSVC(), GRID, cv=3, n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    monkeypatch.undo()
    full = KernelGridSearchCV(WeightedSVC(), GRID, cv=3).fit(X, y)
    for k in (0, 1):
        name = f"split{k}_test_score"
        assert np.array_equal(search.cv_results_[name], full.cv_results_[name])
    assert np.isnan(search.cv_results_["split2_test_score"]).all()
    assert not hasattr(search, "best_estimator_")


def test_random_search():
    X, y, _ = BINARY
    space = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.01, 0.1, 1.0]}
    options = {"n_iter": 6, "random_state": 0, "cv": 3}
    reference = RandomizedSearchCV(WeightedSVC(), space, **options).fit(X, y)
    compare(KernelRandomizedSearchCV(WeightedSVC(), space, **options).fit(X, y), reference)


def test_interrupt_keeps_what_is_done(monkeypatch):
    X, y, _ = BINARY
    evaluate = engine.evaluate
    calls = itertools.count()

    def interrupted(*args):
        if next(calls) == 1:
            raise KeyboardInterrupt
        yield from evaluate(*args)

    monkeypatch.setattr(engine, "evaluate", interrupted)
    search = KernelGridSearchCV(WeightedSVC(), GRID, cv=3)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    monkeypatch.undo()
    full = KernelGridSearchCV(WeightedSVC(), GRID, cv=3).fit(X, y)
    kept = search.cv_results_
    assert np.array_equal(kept["split0_test_score"], full.cv_results_["split0_test_score"])
    assert np.isnan(kept["split1_test_score"]).all()
    assert not hasattr(search, "best_estimator_")


def test_progress_is_shown(capsys):
    X, y, _ = BINARY
    KernelGridSearchCV(WeightedSVC(), GRID, cv=3, verbose=1).fit(X, y)
    assert "27/27 fits" in capsys.readouterr().err
    KernelGridSearchCV(WeightedSVC(), GRID, cv=3).fit(X, y)
    assert capsys.readouterr().err == ""


# ---- displays -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched():
    X, y, X_priv = BINARY
    return KernelGridSearchCV(SVMPlusClassifier(), PLUS, cv=3).fit(X, y, X_priv=X_priv)


def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def test_map_of_scores(searched):
    plt = pyplot()
    display = ScoreMapDisplay.from_estimator(searched, x="correction_reg", y="gamma_priv")
    results = searched.cv_results_
    for i, gamma_priv in enumerate(PLUS["gamma_priv"]):
        for j, reg in enumerate(PLUS["correction_reg"]):
            of = [
                p["gamma_priv"] == gamma_priv and p["correction_reg"] == reg
                for p in results["params"]
            ]
            assert display.scores[i, j] == results["mean_test_score"][of].max()
    assert display.scores[display.best] == searched.best_score_
    assert display.ax_.get_xlabel() == "correction_reg"
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["0.1", "1"]
    # Numbers before names, each value once; what is not chosen is C and the first beside it.
    default = ScoreMapDisplay.from_estimator(searched, y="gamma")
    assert (default.x_name, default.y_values) == ("C", [0.05, 0.5, "scale"])
    plt.close("all")


def test_path_of_scores(searched):
    plt = pyplot()
    display = ScorePathDisplay.from_estimator(searched, by="gamma", others="chosen")
    assert display.scores.shape == (3, 2)
    assert len(display.lines_) == 3
    chosen = {k: v for k, v in searched.best_params_.items() if k not in ("C", "gamma")}
    for line, gamma in enumerate(display.line_values):
        for at, value in enumerate(display.values):
            params = {**chosen, "C": value, "gamma": gamma}
            k = searched.cv_results_["params"].index(params)
            assert display.scores[line, at] == searched.cv_results_["mean_test_score"][k]
    assert display.scores[display.best] == searched.best_score_
    assert display.ax_.get_xscale() == "log"
    plain = ScorePathDisplay.from_estimator(searched)
    assert plain.scores.max() == searched.best_score_
    assert ScorePathDisplay.from_estimator(searched, x="gamma").ax_.get_xscale() == "linear"
    plt.close("all")


def test_displays_of_other_searches():
    """scikit-learn's own; lists of grids, of which one lacks a parameter; several scores; NaN."""
    plt = pyplot()
    X, y, _ = BINARY
    grid = [{"kernel": ["linear"], "C": C}, {"kernel": ["rbf"], "gamma": [0.1, 1.0], "C": C}]
    search = GridSearchCV(WeightedSVC(), grid, cv=3, scoring=["f1", "accuracy"], refit="f1")
    search.fit(X, y)
    display = ScoreMapDisplay.from_estimator(search, x="C", y="gamma")
    assert display.score_name == "f1"
    assert display.scores.shape == (2, 3)
    both = ScoreMapDisplay.from_estimator(search, x="C", y="kernel", metric="accuracy")
    assert both.y_values == ["linear", "rbf"]
    search.cv_results_["mean_test_f1"][:-1] = np.nan
    del search.best_index_
    sparse = ScoreMapDisplay.from_estimator(search, x="C", y="gamma")
    assert np.isfinite(sparse.scores).sum() == 1
    assert sparse.best == (1, 2)
    plt.close("all")


def test_displays_name_what_is_wrong(searched):
    with pytest.raises(ValueError, match="a fitted search is needed"):
        ScoreMapDisplay.from_estimator(KernelGridSearchCV(WeightedSVC(), GRID))
    with pytest.raises(ValueError, match="'c' is not a parameter of this search, which has"):
        ScoreMapDisplay.from_estimator(searched, x="c")
    with pytest.raises(ValueError, match=r"metric must be one of \['score'\]; got 'f1'"):
        ScorePathDisplay.from_estimator(searched, metric="f1")
    with pytest.raises(ValueError, match="others must be 'best' or 'chosen'"):
        ScorePathDisplay.from_estimator(searched, others="all")
    X, y, _ = BINARY
    one = KernelGridSearchCV(WeightedSVC(), {"C": C}, cv=3).fit(X, y)
    with pytest.raises(ValueError, match="2 parameters are needed, and this search varies"):
        ScoreMapDisplay.from_estimator(one)


# ---- bad input ----------------------------------------------------------------------------------


def test_bad_input_is_named():
    X, y, X_priv = BINARY
    with pytest.raises(ValueError, match="Invalid parameter 'D' for estimator WeightedSVC"):
        KernelGridSearchCV(WeightedSVC(), {"D": [1]}).fit(X, y)
    with pytest.raises(ValueError, match="non-empty sequence"):
        KernelGridSearchCV(WeightedSVC(), {"C": []}).fit(X, y)
    with pytest.raises(ValueError, match="X has 60 rows, X_priv has 59"):
        KernelGridSearchCV(SVMPlusClassifier(), {"C": C}).fit(X, y, X_priv=X_priv[1:])
    with pytest.raises(ValueError, match="All the 5 fits failed"):
        KernelGridSearchCV(WeightedSVC(), {"C": ["much"]}).fit(X, y)
    with pytest.raises(ValueError, match="'C' parameter"):
        KernelGridSearchCV(WeightedSVC(), {"C": ["much"]}, error_score="raise").fit(X, y)
    with pytest.raises(ValueError, match="All the 5 fits failed"):
        KernelGridSearchCV(WeightedSVC(), {"C": [1.0]}).fit(X, y, X_priv=X_priv)


def test_folds_with_one_class_get_the_error_score():
    X, y, _ = BINARY
    order = np.argsort(y, kind="stable")
    cv = [(order[:20], order[20:]), (np.arange(40), np.arange(40, 60))]
    results = []
    for cls in (KernelGridSearchCV, GridSearchCV):
        search = cls(WeightedSVC(), GRID, cv=cv, error_score=-1.0)
        with pytest.warns(FitFailedWarning, match="at least two classes"):
            results.append(search.fit(X, y))
    compare(*results)
    assert (results[0].cv_results_["split0_test_score"] == -1.0).all()


def test_scores_that_fail_get_the_error_score():
    """Neither classifier has predict_proba."""
    X, y, _ = BINARY
    options = {"scoring": "neg_log_loss", "cv": 2, "refit": False}
    search = KernelGridSearchCV(WeightedSVC(), {"C": [1.0]}, **options)
    with pytest.warns(UserWarning, match=r"Scoring failed|scores are non-finite"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


# ---- the parts ----------------------------------------------------------------------------------


SPECS = [KernelSpec("rbf", 0.1), KernelSpec("linear"), KernelSpec("poly", 0.5, 2, 1.0)]


@pytest.mark.parametrize("n", [1, 37, 300])
def test_kernels_that_share_their_products(n):
    """Matrices and expansions against one kernel at a time; over several blocks of the basis."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(n, 5)), rng.normal(size=(41, 5))
    coefs = [rng.normal(size=(m, n)) for m in (1, 8, 19)]
    for A, B in ((X, Z), (sp.csr_matrix(X), sp.csr_matrix(Z)), (X.astype("f"), Z.astype("f"))):
        for spec, K in zip(SPECS, gram_matrices(SPECS, A), strict=True):
            assert np.array_equal(K, K.T)
            np.testing.assert_allclose(K, spec.cross(A, A), rtol=1e-13, atol=1e-13)
        offsets = [rng.normal(size=len(coef)) for coef in coefs]
        outs = [np.empty((len(coef), 41)) for coef in coefs]
        expand_all(list(zip(SPECS, coefs, offsets, outs, strict=True)), A, B)
        for spec, coef, offset, out in zip(SPECS, coefs, offsets, outs, strict=True):
            K = spec.cross(A, B)
            scale = np.abs(coef).sum(axis=1).max() * np.abs(K).max() + 1
            np.testing.assert_allclose(out, coef @ K + offset[:, None], rtol=0, atol=1e-14 * scale)
        positive = rng.integers(-1, 2, size=41).astype(np.int8)
        hits = [np.empty(len(coef), dtype=np.int64) for coef in coefs]
        expand_all(list(zip(SPECS, coefs, offsets, hits, strict=True)), A, B, positive)
        for out, count in zip(outs, hits, strict=True):
            assert np.array_equal(count, ((out > 0) == positive).sum(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_paths_are_the_solutions_of_their_problems(seed):
    """Batches meet the solvers, with warm starts over four decades, rows of weight zero, and rows
    without privileged information; and a batch is the same on one thread as on two.
    """
    rng = np.random.default_rng(seed)
    X, y, X_priv = data(50, seed=seed)
    y = np.where(y > 0, 1.0, -1.0)
    K = KernelSpec("rbf", 0.3).cross(X, X)
    K_corr = KernelSpec("rbf", 0.5).cross(X_priv, X_priv)[:40, :40]
    K, K_corr = np.ascontiguousarray(0.5 * (K + K.T)), np.ascontiguousarray(K_corr)
    K_corr = 0.5 * (K_corr + K_corr.T)
    weight = rng.integers(0, 3, size=50).astype(float)
    costs = np.logspace(-2, 2, 6)
    priv = np.r_[np.arange(40), np.full(10, -1)]
    (plain,) = batch.solve_wsvm([batch.WSVMPath(K, y, weight, costs)])
    reg = np.full(6, 0.3)
    path = batch.SVMPlusPath(K, y, weight, costs, K_corr, priv, reg)
    first, second = batch.solve_svmplus([path, path])
    np.testing.assert_array_equal(first.alpha, second.alpha)
    for k, cost in enumerate(costs):
        problem = WSVMProblem(given_matrix(K), y, cost * weight)
        alone = wsvm.solve(problem)
        assert plain.violation[k] < 1e-8
        np.testing.assert_allclose(plain.alpha[k], alone.dual.alpha, atol=1e-7 * cost)
        np.testing.assert_allclose(plain.b[k], alone.primal.b, atol=1e-7)
        problem = SVMPlusProblem(given_matrix(K), given_matrix(K_corr), priv, y, cost * weight, 0.3)
        alone = svmplus.solve(problem)
        assert first.violation[k] < 1e-6
        f, g = (
            K @ (y * a) + b
            for a, b in ((first.alpha[k], first.b[k]), (alone.dual.alpha, alone.primal.b))
        )
        np.testing.assert_allclose(f, g, atol=1e-6)


def test_offsets_of_paths_are_those_of_the_certificate():
    """Also at points that are not optimal, and where the offset is an interval."""
    rng = np.random.default_rng(5)
    X, y, _ = data(30, seed=5)
    y = np.where(y > 0, 1.0, -1.0)
    K = KernelSpec("rbf", 0.3).cross(X, X)
    c = rng.integers(0, 3, size=(20, 30)).astype(float)
    alpha = np.clip(rng.normal(size=(20, 30)), 0.0, c)
    alpha[0] = 0.0
    alpha[1] = c[1]
    labels = np.broadcast_to(y, alpha.shape)
    b, violation = wsvm_offsets(y - (y * alpha) @ K, labels, alpha, c)
    for k in range(20):
        certificate = wsvm_certificate(WSVMProblem(given_matrix(K), y, c[k]), alpha[k])
        assert b[k] == pytest.approx(certificate.b, abs=1e-12)
        assert violation[k] == pytest.approx(certificate.violation, abs=1e-12)


def test_offsets_of_svmplus_paths_are_those_of_the_certificate():
    """At random points, at optimal ones, without support vectors, and whichever rows have extra
    information: all, some of either class, none.
    """
    rng = np.random.default_rng(6)
    X, y, X_priv = data(30, seed=6)
    y = np.where(y > 0, 1.0, -1.0)
    K = KernelSpec("rbf", 0.3).cross(X, X)
    K_corr = KernelSpec("rbf", 0.5).cross(X_priv, X_priv)
    m = 40
    C = rng.integers(0, 3, size=(m, 30)).astype(float)
    for privileged in (y == y, y > 0, y < 0, rng.random(30) < 0.5, y == 0):
        problems, alphas, betas = [], [], []
        for k in range(m):
            rows = np.flatnonzero(privileged)
            priv = np.full(30, -1)
            priv[rows] = np.arange(len(rows))
            corr = given_matrix(np.ascontiguousarray(K_corr[np.ix_(rows, rows)]))
            problem = SVMPlusProblem(given_matrix(K), corr, priv, y, C[k], 0.3)
            if k < 10:
                dual = svmplus.solve(problem).dual
                alpha, beta = dual.alpha, dual.beta
            else:
                alpha = np.clip(rng.normal(size=30), 0.0, C[k]) if k > 12 else np.zeros(30)
                beta = np.where(privileged, np.maximum(rng.normal(size=30), 0.0), C[k] - alpha)
            problems.append(problem), alphas.append(alpha), betas.append(beta)
        alpha, beta = np.array(alphas), np.array(betas)
        delta = np.where(privileged, alpha + beta - C, 0.0)
        xi = np.where(privileged, delta @ K_corr / 0.3, 0.0)
        labels, known = (np.broadcast_to(v, C.shape) for v in (y, privileged))
        b, violation = svmplus_offsets((y * alpha) @ K, xi, labels, alpha, beta, C, known)
        for k, problem in enumerate(problems):
            certificate = svmplus_certificate(problem, alpha[k], beta[k])
            assert violation[k] == pytest.approx(certificate.violation, abs=1e-10)
            assert b[k] == pytest.approx(certificate.b, abs=1e-10)


_MEMORY = """
import sys
from pathlib import Path
from sklearn.datasets import make_classification
from sklearn.model_selection import KFold
from lupi import WeightedSVC
from lupi.model_selection import KernelGridSearchCV

def largest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3

X, y = make_classification(2_100, 10, n_informative=6, flip_y=0.1, random_state=0)
grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.003, 0.01, 0.03]}

def search(cache_size, rows):
    model = WeightedSVC(cache_size=cache_size)
    KernelGridSearchCV(model, grid, cv=KFold(3), refit=False).fit(X[:rows], y[:rows])

search(1000, 300)  # what is loaded and started is there already
for cache_size in (60, 100, 1000):
    Path("/proc/self/clear_refs").write_text("5")  # the largest so far is forgotten
    before = largest()
    search(cache_size, 2_100)
    print(cache_size, largest() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells what it took")
def test_memory_stays_within_cache_size():
    """Where kernels are at hand, of the whole process; 5 MB are for data and results."""
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True, timeout=300
    )
    grown = dict(map(float, line.split()) for line in done.stdout.splitlines())
    assert set(grown) == {60, 100, 1000}
    for cache_size, megabytes in grown.items():
        assert megabytes <= cache_size + 5, grown
    # The kernels of a thread one after the other, not all: 1,400 rows in 12 bytes an entry.
    assert grown[1000] <= cpu_count() * 12e-6 * 1_400**2 + 25, grown


@pytest.mark.parametrize("which", ["decisions", "right"])
def test_scores_in_portions(which, monkeypatch):
    """Models that do not fit in the memory at once are scored a few at a time."""
    monkeypatch.setattr(engine, "_PER_SCORE", 3e4)
    scoring = "roc_auc" if which == "decisions" else "accuracy"
    X, y, _ = BINARY
    sizes = []
    whole = getattr(engine._Split, which)

    def counted(split, models, *args):
        sizes.append(len(models))
        return whole(split, models, *args)

    monkeypatch.setattr(engine._Split, which, counted)
    model = WeightedSVC(cache_size=100.0)
    search = KernelGridSearchCV(model, GRID, cv=3, scoring=scoring).fit(X, y)
    assert 1 <= max(sizes) < 9
    compare(search, GridSearchCV(model, GRID, cv=3, scoring=scoring).fit(X, y))


def test_missing_values_are_filled_by_the_preprocessor():
    X, y, X_priv = BINARY
    X_part = X_priv.copy()
    X_part[::4, 0] = np.nan
    grid = {"preprocessor_priv": [SimpleImputer(), SimpleImputer(strategy="median")], "C": C}
    reference = GridSearchCV(SVMPlusClassifier(), grid, cv=3).fit(X, y, X_priv=X_part)
    search = KernelGridSearchCV(SVMPlusClassifier(), grid, cv=3).fit(X, y, X_priv=X_part)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"],
        reference.cv_results_["mean_test_score"],
        atol=1e-10,
    )
