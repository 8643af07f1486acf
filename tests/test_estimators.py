"""scikit-learn's own checks, in several settings, and its metadata routing."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import SVMPlusClassifier, WeightedSVC


class PrivilegedIsX(SVMPlusClassifier):
    """The checks know X and y only: here X is its own privileged information."""

    def fit(self, X, y, sample_weight=None, *, X_priv=None):
        X_priv = X if self.kernel_priv != "precomputed" else None
        return super().fit(X, y, sample_weight, X_priv=X_priv)


ESTIMATORS = [
    WeightedSVC(),
    WeightedSVC(kernel="linear"),
    WeightedSVC(kernel="poly", degree=2, coef0=1.0),
    WeightedSVC(C=100.0, class_weight="balanced"),
    WeightedSVC(C=0.01, tol=1e-9, gamma="auto", break_ties=True),
    WeightedSVC(kernel="precomputed"),
    SVMPlusClassifier(),
    SVMPlusClassifier(kernel="linear", correction_reg=0, kernel_priv="linear"),
    PrivilegedIsX(),
    PrivilegedIsX(C=10.0, correction_reg=0.1, class_weight="balanced", tol=1e-9),
    PrivilegedIsX(kernel="linear", kernel_priv="poly", degree_priv=2, break_ties=True),
    PrivilegedIsX(preprocessor_priv=StandardScaler(with_mean=False)),
]


def expected_failures(estimator):
    if estimator.kernel == "precomputed":
        return {
            # SVC takes half of such a matrix without a word, and passes.
            "check_classifiers_one_label_sample_weights": "its kernel matrix is uniform noise, "
            "which is not symmetric and is refused as such"
        }
    if isinstance(estimator, PrivilegedIsX):
        return {
            "check_class_weight_classifiers": "a light class keeps its margins where its "
            "privileged features are those of the heavy one: the slack is a function of them"
        }
    return {}


# Without privileged features SVM+ says that it is the weighted SVM: rightly, in these checks.
@pytest.mark.filterwarnings("ignore::lupi.PrivilegedInformationWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


ARRAY_API = """
import warnings
warnings.simplefilter("error")
from lupi import PrivilegedInformationWarning, SVMPlusClassifier, WeightedSVC
from sklearn.utils.estimator_checks import estimator_checks_generator
warnings.simplefilter("ignore", PrivilegedInformationWarning)
for model in (WeightedSVC(), SVMPlusClassifier()):
    for estimator, check in estimator_checks_generator(model):
        if "array_api" in str(check):
            check(estimator)
            print("checked", type(model).__name__)
"""


def test_scikit_learn_array_api_check():
    """The one check that is skipped above: it wants a variable in the environment of scipy."""
    done = subprocess.run(
        [sys.executable, "-c", ARRAY_API],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "checked WeightedSVC" in done.stdout
    assert "checked SVMPlusClassifier" in done.stdout


def test_tags():
    tags = get_tags(WeightedSVC())
    assert is_classifier(WeightedSVC())
    assert tags.input_tags.sparse
    assert not tags.input_tags.pairwise
    tags = get_tags(WeightedSVC(kernel="precomputed"))
    assert tags.input_tags.pairwise
    assert not tags.input_tags.sparse


@pytest.mark.parametrize("parameters", [{}, {"C": 3.0, "kernel": "linear", "cache_size": 10}])
def test_repr_and_parameters(parameters):
    model = WeightedSVC(**parameters)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params() == {**WeightedSVC().get_params(), **parameters}
    for name, value in parameters.items():
        assert f"{name}={value!r}" in repr(model)
    with pytest.raises(TypeError):
        WeightedSVC(1.0, "linear")  # all but C by name


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def weighted_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] + rng.normal(size=120) > 0, 1, 0)
    return X, y, rng.integers(0, 4, size=120).astype(float)


@pytest.mark.usefixtures("routing")
def test_metadata_routing():
    """Weights reach the fit through pipeline and search if and only if they were asked for."""
    X, y, weight = weighted_data()

    def search(requested):
        model = WeightedSVC(gamma=0.3).set_fit_request(sample_weight=requested)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        return GridSearchCV(make_pipeline(scaler, model), {"weightedsvc__C": [1.0]}, cv=3)

    scaled = StandardScaler().fit_transform(X)
    for requested, expected in ((True, weight), (False, None)):
        found = search(requested).fit(X, y, sample_weight=weight).best_estimator_[-1]
        direct = WeightedSVC(gamma=0.3).fit(scaled, y, sample_weight=expected)
        np.testing.assert_array_equal(found.alpha_, direct.alpha_)
    scores = cross_validate(
        WeightedSVC(gamma=0.3)
        .set_fit_request(sample_weight=True)
        .set_score_request(sample_weight=True),
        X,
        y,
        cv=3,
        params={"sample_weight": weight},
        return_estimator=True,
        return_indices=True,
    )
    for model, train, test, score in zip(
        scores["estimator"],
        scores["indices"]["train"],
        scores["indices"]["test"],
        scores["test_score"],
        strict=True,
    ):
        np.testing.assert_allclose(model.instance_weights_, weight[train], rtol=4e-16)
        expected = accuracy_score(y[test], model.predict(X[test]), sample_weight=weight[test])
        assert score == pytest.approx(expected, abs=1e-12)


def test_inside_other_estimators():
    """One-vs-rest with weights: each machine is the weighted one of its own labels."""
    X, y, weight = weighted_data()
    three = y + (X[:, 1] > 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        model = OneVsRestClassifier(WeightedSVC(gamma=0.3).set_fit_request(sample_weight=True))
        model.fit(X, three, sample_weight=weight)
    for label, machine in zip(model.classes_, model.estimators_, strict=True):
        alone = WeightedSVC(gamma=0.3).fit(X, (three == label).astype(int), sample_weight=weight)
        np.testing.assert_array_equal(machine.alpha_, alone.alpha_)
    assert model.score(X, three) > LogisticRegression().fit(X, np.zeros(120) + y).score(X, three)


# ---- Privileged features through scikit-learn's tools -------------------------------------------
# The first column of X and of X_priv is the number of the row, so that every fit can tell whether
# it was given the rows that belong together. Labels depend on it too.

ROWS = 60


class Witness(SVMPlusClassifier):
    """Fails where X and X_priv are not the same rows; the first column is for this only."""

    def fit(self, X, y, sample_weight=None, *, X_priv=None):
        assert X_priv is not None, "X_priv did not arrive"
        rows, privileged = _numbers(X), _numbers(X_priv)
        np.testing.assert_array_equal(rows, privileged)
        Witness.seen.append(len(rows))
        return super().fit(X, y, sample_weight, X_priv=X_priv)

    seen: list = []  # noqa: RUF012 (sizes of all fits since the test began)


def _numbers(X):
    if sp.issparse(X):
        return X.tocsr()[:, [0]].toarray().ravel()
    return np.asarray(X)[:, 0].astype(float)


def privileged_data(form="array"):
    rng = np.random.default_rng(1)
    number = np.arange(1.0, ROWS + 1)
    X = np.c_[number, rng.normal(size=(ROWS, 3))]
    y = np.where(X[:, 1] + 0.5 * rng.normal(size=ROWS) > 0, "yes", "no")
    X_priv = np.c_[number, np.abs(X[:, 1])]
    if form == "pandas":
        X_priv = pd.DataFrame(X_priv, columns=["number", "hard"], index=np.arange(ROWS)[::-1])
    elif form == "polars":
        X_priv = pl.DataFrame({"number": X_priv[:, 0], "hard": X_priv[:, 1]})
    elif form == "sparse":
        X_priv = sp.csr_array(X_priv)
    return X, y, X_priv


def witness():
    return Witness(gamma=0.1, gamma_priv=0.1)


def three(y):
    return np.where(np.arange(len(y)) % 3 == 0, "maybe", y)


def fit_with(tool, prefix=""):
    return lambda X, y, P: tool.fit(X, y, **{f"{prefix}X_priv": P})


def by_params(function, **settings):
    return lambda X, y, P: function(witness(), X, y, params={"X_priv": P}, **settings)


def pipeline():
    # Keeps the first column: it is what the witness looks at.
    return make_pipeline(FunctionTransformer(), witness())


# Tool -> (call, works with routing off, works with routing on), as scikit-learn 1.9 has it.
TABLE = {
    "fit": (fit_with(witness()), True, True),
    "GridSearchCV": (fit_with(GridSearchCV(witness(), {"C": [1.0, 2.0]}, cv=3)), True, True),
    "GridSearchCV in processes": (
        fit_with(GridSearchCV(witness(), {"C": [1.0, 2.0]}, cv=3, n_jobs=2)),
        True,
        True,
    ),
    "RandomizedSearchCV": (
        fit_with(RandomizedSearchCV(witness(), {"C": [1.0, 2.0]}, n_iter=2, cv=3, random_state=0)),
        True,
        True,
    ),
    "HalvingGridSearchCV": (
        fit_with(HalvingGridSearchCV(witness(), {"C": [1.0, 2.0]}, cv=3, random_state=0)),
        True,
        True,
    ),
    "cross_validate": (by_params(cross_validate, cv=3), True, True),
    "cross_val_score": (by_params(cross_val_score, cv=3), True, True),
    "cross_val_predict": (by_params(cross_val_predict, cv=3), True, True),
    "learning_curve": (by_params(learning_curve, cv=3, train_sizes=[0.5, 1.0]), True, True),
    "validation_curve": (
        by_params(validation_curve, cv=3, param_name="correction_reg", param_range=[0.1, 1.0]),
        True,
        True,
    ),
    "permutation_test_score": (
        by_params(permutation_test_score, cv=3, n_permutations=2),
        True,
        True,
    ),
    "CalibratedClassifierCV": (fit_with(CalibratedClassifierCV(witness(), cv=3)), True, True),
    "CalibratedClassifierCV, one model": (
        fit_with(CalibratedClassifierCV(witness(), cv=3, ensemble=False)),
        True,
        True,
    ),
    "Pipeline": (fit_with(pipeline()), False, True),
    "Pipeline, by step": (fit_with(pipeline(), "witness__"), True, False),
    "GridSearchCV of a Pipeline": (
        fit_with(GridSearchCV(pipeline(), {"witness__C": [1.0, 2.0]}, cv=3)),
        False,
        True,
    ),
    "GridSearchCV of a Pipeline, by step": (
        fit_with(GridSearchCV(pipeline(), {"witness__C": [1.0, 2.0]}, cv=3), "witness__"),
        True,
        False,
    ),
    "OneVsRestClassifier": (
        lambda X, y, P: OneVsRestClassifier(witness()).fit(X, three(y), X_priv=P),
        False,
        True,
    ),
    "OneVsOneClassifier": (
        lambda X, y, P: OneVsOneClassifier(witness()).fit(X, three(y), X_priv=P),
        False,
        True,
    ),
    "OutputCodeClassifier": (
        lambda X, y, P: OutputCodeClassifier(witness(), random_state=0).fit(X, three(y), X_priv=P),
        False,
        True,
    ),
    "BaggingClassifier": (
        fit_with(BaggingClassifier(witness(), n_estimators=3, random_state=0)),
        False,
        True,
    ),
    "VotingClassifier": (fit_with(VotingClassifier([("a", witness())])), False, True),
    "GridSearchCV of OneVsRestClassifier": (
        fit_with(GridSearchCV(OneVsRestClassifier(witness()), {"estimator__C": [1.0]}, cv=3)),
        False,
        True,
    ),
    # It hands X_priv to its final estimator too, routing or not.
    "StackingClassifier": (fit_with(StackingClassifier([("a", witness())], cv=3)), False, False),
}


@pytest.mark.parametrize("on", [False, True], ids=["routing off", "routing on"])
@pytest.mark.parametrize("tool", TABLE)
def test_routing_table(tool, on):
    """X_priv arrives with the rows of X it belongs to, or scikit-learn says that it cannot."""
    call, off_works, on_works = TABLE[tool]
    X, y, X_priv = privileged_data()
    Witness.seen = []
    with sklearn.config_context(enable_metadata_routing=on):
        if on_works if on else off_works:
            call(X, y, X_priv)
            if "processes" not in tool:
                assert Witness.seen
        else:
            # ValueError: "only supported if enable_metadata_routing=True" or an unknown step;
            # TypeError: an argument that nobody asked for.
            with pytest.raises((ValueError, TypeError), match=r"X_priv|metadata_routing"):
                call(X, y, X_priv)


@pytest.mark.parametrize("form", ["pandas", "polars", "sparse"])
@pytest.mark.parametrize("tool", ["GridSearchCV", "cross_validate", "CalibratedClassifierCV"])
def test_routing_of_other_containers(tool, form):
    Witness.seen = []
    TABLE[tool][0](*privileged_data(form))
    assert min(Witness.seen) < ROWS


def test_rows_of_another_number_are_refused_in_a_search():
    """scikit-learn passes an array of another length through, uncut and without a word."""
    X, y, X_priv = privileged_data()
    search = GridSearchCV(SVMPlusClassifier(), {"C": [1.0]}, cv=3, error_score="raise")
    with pytest.raises(ValueError, match="X has 40 rows, X_priv has 59"):
        search.fit(X, y, X_priv=X_priv[:-1])


def test_preprocessor_is_fitted_on_the_training_rows_of_each_fold():
    X, y, X_priv = privileged_data()
    found = cross_validate(
        SVMPlusClassifier(preprocessor_priv=StandardScaler()),
        X,
        y,
        cv=3,
        params={"X_priv": X_priv},
        return_estimator=True,
        return_indices=True,
    )
    for model, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        np.testing.assert_allclose(model.preprocessor_priv_.mean_, X_priv[train].mean(axis=0))
    search = GridSearchCV(
        SVMPlusClassifier(preprocessor_priv=StandardScaler()),
        {"preprocessor_priv__with_std": [True, False], "correction_reg": [0.1, 1.0]},
        cv=3,
    ).fit(X, y, X_priv=X_priv)
    assert len(search.cv_results_["params"]) == 4


@pytest.mark.usefixtures("routing")
def test_privileged_features_under_another_name():
    X, y, X_priv = privileged_data()
    model = witness().set_fit_request(X_priv="captions")
    found = GridSearchCV(make_pipeline(FunctionTransformer(), model), {"witness__C": [1.0]}, cv=3)
    assert found.fit(X, y, captions=X_priv).best_estimator_[-1].n_priv_features_in_ == 2


def test_native_multiclass_needs_no_routing():
    X, y, X_priv = privileged_data()
    model = SVMPlusClassifier().fit(X, three(y), X_priv=X_priv)
    assert model.decision_function(X).shape == (ROWS, 3)
