"""scikit-learn's own checks, in several settings, and its metadata routing."""

import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import WeightedSVC

ESTIMATORS = [
    WeightedSVC(),
    WeightedSVC(kernel="linear"),
    WeightedSVC(kernel="poly", degree=2, coef0=1.0),
    WeightedSVC(C=100.0, class_weight="balanced"),
    WeightedSVC(C=0.01, tol=1e-9, gamma="auto", break_ties=True),
    WeightedSVC(kernel="precomputed"),
]


def expected_failures(estimator):
    if estimator.kernel == "precomputed":
        return {
            # SVC takes half of such a matrix without a word, and passes.
            "check_classifiers_one_label_sample_weights": "its kernel matrix is uniform noise, "
            "which is not symmetric and is refused as such"
        }
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


ARRAY_API = """
import warnings
warnings.simplefilter("error")
from lupi import WeightedSVC
from sklearn.utils.estimator_checks import estimator_checks_generator
for estimator, check in estimator_checks_generator(WeightedSVC()):
    if "array_api" in str(check):
        check(estimator)
        print("checked")
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
    assert "checked" in done.stdout


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
