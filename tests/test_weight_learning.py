"""Learning the weights: the outer search, the estimator, weights from probabilities."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import mixture_w, numpy_kernel
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import WeightedSVC, WeightLearningClassifier
from lupi.bilevel import Criterion, DenseCross
from lupi.bilevel.search import (
    Budget,
    FeatureWeighting,
    GroupWeighting,
    MarginWeighting,
    Objective,
    Settings,
    Task,
    Weighting,
    minimise,
)
from lupi.estimators._machine import belief, log_loss
from lupi.losses import LOSSES, SmoothHinge
from lupi.problems import SmoothWSVMProblem
from lupi.weighting import (
    NadarayaWatson,
    ProbabilityWeightedClassifier,
    balanced_weights,
    class_distance_weights,
    conditional_weights,
    neighbour_agreement_weights,
)

ESTIMATORS = [
    WeightLearningClassifier(weight_penalty=0.1),
    WeightLearningClassifier(kernel="linear", loss="logistic", weight_penalty=0.1, cv=3),
    WeightLearningClassifier(refit="train", weight_penalty=0),
    NadarayaWatson(),
    ProbabilityWeightedClassifier(WeightedSVC()),
    ProbabilityWeightedClassifier(LogisticRegression(), LogisticRegression()),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def noisy(n=160, n_val=60, seed=0, share=0.25):
    """Two features, a line between the classes, a share of wrong labels first."""
    rng = np.random.default_rng(seed)
    X, X_val, X_test = (rng.normal(size=(m, 2)) for m in (n, n_val, 2000))
    label = [np.where(A[:, 0] + 0.3 * A[:, 1] > 0, 1, -1) for A in (X, X_val, X_test)]
    wrong = np.arange(n) < share * n
    label[0][wrong] *= -1
    return X, label[0], X_val, label[1], X_test, label[2], wrong


# ---- The outer search ---------------------------------------------------------------------------


def w_objective(weighting=None, **settings):
    rng = np.random.default_rng(3)
    X, y = mixture_w(60, rng)
    Z, y_val = mixture_w(200, rng)
    task = Task(
        SmoothWSVMProblem(numpy_kernel("rbf", X, X, 20.0), y, np.ones(60), SmoothHinge(0.5)),
        np.arange(60),
        Criterion(DenseCross(numpy_kernel("rbf", X, Z, 20.0)), y_val, SmoothHinge(0.5)),
    )
    return Objective((task,), weighting or Weighting(np.ones(60)), Settings(1.0), **settings), X


def weightings():
    rng = np.random.default_rng(0)
    start = rng.uniform(0.5, 1.5, 60)
    group = rng.integers(0, 5, 60)
    return {
        "free": Weighting(start),
        "groups": GroupWeighting(start, group),
        "features": FeatureWeighting(start, rng.normal(size=(60, 3))),
        "margins": MarginWeighting(start, rng.normal(size=60), np.array([1.0, 3.0])),
        "budget": Budget(Weighting(start), 0.5 * start.sum()),
        "budget of features": Budget(FeatureWeighting(start, rng.normal(size=(60, 2))), 30.0),
    }


@pytest.mark.parametrize("kind", weightings())
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradient_of_the_objective(kind, penalty):
    objective, _ = w_objective(
        weightings()[kind], penalty=penalty, learned=("C", "delta"), inner_tol=1e-12
    )
    rng = np.random.default_rng(1)
    theta = objective.start() + 0.05 * rng.normal(size=len(objective.start()))
    here = objective.evaluate(theta)
    for direction in rng.normal(size=(3, len(theta))):
        ends = [objective.evaluate(theta + h * direction).value for h in (1e-5, -1e-5)]
        numeric = (ends[0] - ends[1]) / 2e-5
        assert here.gradient @ direction == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", weightings())
def test_weights_start_where_they_should_and_stay_possible(kind):
    weighting = weightings()[kind]
    if kind == "margins":
        odds = np.exp(1.0 + 3.0 * weighting.margin)
        expected = weighting.start * odds / (1 + odds)
        np.testing.assert_allclose(weighting.weights(weighting.theta0), expected, rtol=1e-12)
    elif "budget" not in kind:
        np.testing.assert_allclose(weighting.weights(weighting.theta0), weighting.start, rtol=1e-12)
    objective, _ = w_objective(weighting)
    found = minimise(objective, max_iter=30)
    assert (found.best.weights >= 0).all()
    assert found.best.loss < found.first.loss
    if kind == "budget":
        assert found.best.weights.sum() <= weighting.total * (1 + 1e-12)
    if kind == "groups":
        ratio = found.best.weights / weighting.start
        for g in range(5):
            assert np.ptp(ratio[weighting.group == g]) < 1e-12


def test_search_history_and_status():
    objective, _ = w_objective(penalty=0.2)
    found = minimise(objective, max_iter=300, tol=1e-7)
    assert found.status == "converged"
    assert found.history["gradient_norm"][-1] < 1e-2 * found.history["gradient_norm"][0]
    assert len(found.history["validation_loss"]) == found.n_iter + 1
    assert found.best.value <= found.first.value
    assert minimise(objective, max_iter=3).status == "max_iter"
    # A warm start at the solution stays there.
    again = minimise(objective, theta=found.theta, init=found.best, tol=1e-6)
    assert again.n_iter <= 2


def test_search_can_be_stopped_from_outside():
    objective, _ = w_objective()
    seen = []

    def report(iteration, values):
        seen.append(values["validation_loss"])
        return iteration == 4

    found = minimise(objective, report=report)
    assert found.status == "interrupted"
    assert found.n_iter == 4
    assert found.best.loss == min(seen) * objective.n_val


def test_no_progress_keeps_the_start():
    """Slopes that lie, every step leads up: the line search finds nothing, and says so."""

    class Uphill(Objective):
        def evaluate(self, theta, init=None):
            here = super().evaluate(theta, init)
            return replace(here, value=here.value + 1e3 * (theta != self.start()).any())

    objective, _ = w_objective()
    found = minimise(Uphill(objective.tasks, objective.weighting, objective.settings))
    assert found.status == "no_progress"
    np.testing.assert_array_equal(found.best.weights, np.ones(60))
    assert "increase delta" in found.message


# ---- The estimator ------------------------------------------------------------------------------


def test_wrong_labels_get_small_weights():
    X, y, X_val, y_val, X_test, y_test, wrong = noisy()
    model = WeightLearningClassifier(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    assert roc_auc_score(wrong, -model.sample_weight_) > 0.95
    assert model.validation_loss_ < model.initial_
    assert model.duality_gap_ < 1e-6 * model.primal_objective_
    plain = WeightedSVC().fit(X, y)
    assert model.score(X_test, y_test) > plain.score(X_test, y_test)
    assert model.n_iter_ >= 1
    assert model.expansion_.shape == (220,)
    assert abs(model.expansion_.sum()) < 1e-6


def test_belief_finds_the_share_of_wrong_labels():
    """Logistic scores of known slope and labels flipped at a known rate."""
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=20_000)
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-3.0 * score)), 1, -1)
    losses, slope = log_loss(y * score)
    assert slope == pytest.approx(3.0, rel=0.05)
    np.testing.assert_allclose(losses, np.log1p(np.exp(-slope * y * score)), rtol=1e-12)
    flipped = rng.random(20_000) < 0.2
    offset, same = belief(np.where(flipped, -y, y) * score, slope)
    assert same == slope
    assert 1 / (1 + np.exp(offset)) == pytest.approx(0.2, abs=0.02)
    offset, _ = belief(y * score, slope)  # nothing is wrong
    assert 1 / (1 + np.exp(offset)) < 0.01


def test_rounds_judge_rows_by_models_that_have_not_seen_them():
    """The first round by hand: five parts, each judged by the model of the others."""
    X, y, X_val, y_val, *_ = noisy()
    model = WeightLearningClassifier(
        2.0, gamma=0.5, learn=(), rounds=1, weight_penalty=1e9, max_iter=1
    ).fit(X, y, X_val=X_val, y_val=y_val)
    part = np.empty(len(y), dtype=int)
    part[np.argsort(y, kind="stable")] = np.arange(len(y)) % 5
    margin = np.empty(len(y))
    for k in range(5):
        rest, away = part != k, part == k
        svm = WeightedSVC(2.0, gamma=0.5).fit(np.vstack([X[rest], X_val]), np.r_[y[rest], y_val])
        margin[away] = y[away] * svm.decision_function(X[away])
    # A sigmoid of the margin: log odds on a line.
    w = model.sample_weight_
    inner = (w > 1e-6) & (w < 1 - 1e-6)
    odds = np.log(w[inner] / (1 - w[inner]))
    line = np.polyfit(margin[inner], odds, 1)
    assert line[0] > 0
    np.testing.assert_allclose(odds, np.polyval(line, margin[inner]), atol=1e-4)


def test_learning_does_not_hurt_where_labels_are_right():
    X, y, X_val, y_val, X_test, y_test, _ = noisy(share=0.0)
    model = WeightLearningClassifier(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    plain = WeightedSVC().fit(np.vstack([X, X_val]), np.r_[y, y_val])
    assert model.score(X_test, y_test) >= plain.score(X_test, y_test) - 0.005
    assert np.mean(model.sample_weight_ > 0.5) > 0.95


def test_hyper_parameters_are_chosen_on_held_out_rows():
    """From a width that is far too small, the search goes up to its end, two steps."""
    X, y, X_val, y_val, X_test, y_test, _ = noisy()
    kept = WeightLearningClassifier(gamma=0.01, learn=(), random_state=0)
    chosen = clone(kept).set_params(learn="auto")
    for model in (kept, chosen):
        model.fit(X, y, X_val=X_val, y_val=y_val)
    assert (kept.C_, kept.gamma_) == (1.0, 0.01)
    steps = np.log([chosen.C_, chosen.gamma_ / 0.01]) / np.log([3.0, 2.0])
    np.testing.assert_allclose(steps, steps.round(), atol=1e-9)
    assert np.abs(steps).max() > 0.5
    assert np.abs(steps[0]) <= 3.5
    assert np.abs(steps[1]) <= 2.5
    assert chosen.score(X_test, y_test) >= kept.score(X_test, y_test)


def test_threads_do_not_change_the_weights(monkeypatch):
    X, y, X_val, y_val, *_ = noisy()
    alone = WeightLearningClassifier(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    monkeypatch.setattr("lupi.estimators._weight_learning.n_threads", lambda size: 3)
    three = WeightLearningClassifier(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_array_equal(three.sample_weight_, alone.sample_weight_)


def test_final_model_is_the_weighted_svm_of_the_union():
    X, y, X_val, y_val, *_ = noisy()
    model = WeightLearningClassifier(2.0, gamma=0.5, weight_penalty=0.1, learn=())
    model.fit(X, y, X_val=X_val, y_val=y_val)
    U, labels = np.vstack([X, X_val]), np.r_[y, y_val]
    again = WeightedSVC(2.0, gamma=0.5)
    again.fit(U, labels, sample_weight=np.r_[model.sample_weight_, np.ones(60)])
    np.testing.assert_allclose(model.decision_function(U), again.decision_function(U), atol=1e-9)
    np.testing.assert_allclose(np.abs(model.expansion_), again.alpha_, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_final_model_of_other_losses(loss):
    """Optimality of the final model, from expansion_ and intercept_ alone."""
    X, y, X_val, y_val, *_ = noisy()
    model = WeightLearningClassifier(2.0, gamma=0.5, weight_penalty=0.1, loss=loss, learn=())
    model.fit(X, y, X_val=X_val, y_val=y_val)
    U, labels = np.vstack([X, X_val]), np.r_[y, y_val]
    weight = 2.0 * np.r_[model.sample_weight_, np.ones(60)]
    f = numpy_kernel("rbf", U, U, 0.5) @ model.expansion_ + model.intercept_
    expected = -weight * labels * LOSSES[loss]().d1(labels * f)
    np.testing.assert_allclose(model.expansion_, expected, atol=1e-7)
    np.testing.assert_allclose(model.decision_function(U), f, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_papers_method(kernel):
    """No pull, final model on the training rows: that of the last outer iteration."""
    X, y, X_val, y_val, *_ = noisy()
    model = WeightLearningClassifier(kernel=kernel, weight_penalty=0, refit="train")
    model.fit(X, y, X_val=X_val, y_val=y_val)
    margin = y_val * model.decision_function(X_val)
    assert SmoothHinge(0.5).value(margin).mean() == pytest.approx(model.validation_loss_, rel=1e-6)
    assert model.validation_loss_ < 0.9 * model.initial_
    assert (model.sample_weight_ >= 0).all()
    assert model.status_ in ("converged", "max_iter")


def test_linear_form_is_the_linear_kernel():
    X, y, X_val, y_val, *_ = noisy()
    settings = {"weight_penalty": 0.3, "rounds": 0, "tol": 1e-7, "loss": "logistic"}
    form = WeightLearningClassifier(kernel="linear", **settings)
    kernel = WeightLearningClassifier(kernel=lambda A, B: A @ B.T, **settings)
    for model in (form, kernel):
        model.fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_allclose(form.sample_weight_, kernel.sample_weight_, atol=1e-3)
    np.testing.assert_allclose(
        form.decision_function(X_val), kernel.decision_function(X_val), atol=1e-3
    )
    assert form.coef_.shape == (1, 2)


def test_sparse_rows():
    X, y, X_val, y_val, *_ = noisy()
    dense = WeightLearningClassifier(gamma=0.5, weight_penalty=0.1)
    dense.fit(X, y, X_val=X_val, y_val=y_val)
    sparse = clone(dense).fit(sp.csr_array(X), y, X_val=sp.csr_array(X_val), y_val=y_val)
    np.testing.assert_allclose(sparse.sample_weight_, dense.sample_weight_, atol=1e-5)


def test_precomputed_kernel():
    X, y, *_ = noisy()
    K = numpy_kernel("rbf", X, X, 0.5)
    settings = {"weight_penalty": 0.1, "learn": (), "random_state": 0}
    by_matrix = WeightLearningClassifier(kernel="precomputed", **settings)
    by_rows = WeightLearningClassifier(gamma=0.5, **settings)
    np.testing.assert_allclose(
        by_matrix.fit(K, y).decision_function(K),
        by_rows.fit(X, y).decision_function(X),
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        by_matrix.fit(K, y, X_val=K, y_val=y)


def test_held_out_part():
    X, y, *_ = noisy()
    model = WeightLearningClassifier(validation_fraction=0.25, weight_penalty=0.1, random_state=0)
    model.fit(X, y)
    held = model.validation_indices_
    assert len(held) == 40
    assert abs(np.mean(y[held] == 1) - np.mean(y == 1)) < 0.05
    np.testing.assert_array_equal(model.sample_weight_[held], 1.0)
    model.set_params(refit="train").fit(X, y)
    np.testing.assert_array_equal(model.sample_weight_[model.validation_indices_], 0.0)


@pytest.mark.parametrize("cv", [3, StratifiedKFold(4)])
def test_cross_fitting_weighs_every_row(cv):
    X, y, *_, wrong = noisy(share=0.15)
    model = WeightLearningClassifier(cv=cv, weight_penalty=0.3, random_state=0).fit(X, y)
    assert (model.sample_weight_ > 0).sum() > 100
    assert roc_auc_score(wrong, -model.sample_weight_) > 0.9
    assert len(model.history_) == (cv if isinstance(cv, int) else 4)
    assert model.validation_indices_ is None


def test_several_classes():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 2], [2, -1], [-2, -1]])
    label, label_val, label_test = (rng.integers(0, 3, m) for m in (150, 90, 600))
    X, X_val, X_test = (
        centres[k] + 0.8 * rng.normal(size=(len(k), 2)) for k in (label, label_val, label_test)
    )
    names = np.array(["a", "b", "c"])
    wrong = np.arange(150) < 40
    label[wrong] = (label[wrong] + 1) % 3
    model = WeightLearningClassifier(weight_penalty=0.1, random_state=0)
    model.fit(X, names[label], X_val=X_val, y_val=names[label_val])
    assert model.sample_weight_.shape == (150,)
    assert model.expansion_.shape == (3, 240)
    assert roc_auc_score(wrong, -model.sample_weight_) > 0.9
    assert model.score(X_test, names[label_test]) > 0.9
    assert model.duality_gap_.max() < 1e-6


def test_groups_and_features_of_the_rows():
    """A batch of wrong labels, known by its number, or by a privileged feature."""
    X, y, X_val, y_val, *_, wrong = noisy()
    batch = np.where(wrong, "bad", "good")
    model = WeightLearningClassifier(weight_penalty=0.0).fit(
        X, y, X_val=X_val, y_val=y_val, groups=batch
    )
    assert model.sample_weight_[wrong].max() < 0.1 * model.sample_weight_[~wrong].min()
    X_weight = np.c_[wrong + 0.1 * np.random.default_rng(0).normal(size=len(y))]
    model.fit(X, y, X_val=X_val, y_val=y_val, X_weight=X_weight)
    assert roc_auc_score(wrong, -model.sample_weight_) > 0.99
    assert model.sample_weight_[wrong].mean() < 0.2 * model.sample_weight_[~wrong].mean()


def test_initial_weights():
    X, y, X_val, y_val, *_, wrong = noisy()
    start = np.where(wrong, 0.0, 1.0)
    model = WeightLearningClassifier(weight_penalty=1e6, rounds=0)
    model.fit(X, y, X_val=X_val, y_val=y_val, initial_weight=start)
    np.testing.assert_allclose(model.sample_weight_, start, atol=1e-3)


def test_budget():
    X, y, X_val, y_val, *_ = noisy()
    model = WeightLearningClassifier(weight_budget=0.5, weight_penalty=0.0, rounds=0)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert model.sample_weight_.mean() <= 0.5 + 1e-12


def test_hyper_parameters_are_learned_along():
    X, y, X_val, y_val, *_ = noisy()
    fixed = WeightLearningClassifier(0.1, gamma=5.0, weight_penalty=1.0, rounds=0, learn=())
    learned = clone(fixed).set_params(learn=("C", "gamma", "delta"))
    for model in (fixed, learned):
        model.fit(X, y, X_val=X_val, y_val=y_val)
    assert (fixed.C_, fixed.gamma_, fixed.delta_) == (0.1, 5.0, 0.5)
    assert learned.gamma_ < 4.0
    assert learned.C_ != 0.1
    assert learned.validation_loss_ < fixed.validation_loss_
    assert np.isfinite(learned.decision_function(X_val)).all()


def test_early_stopping():
    X, y, X_val, y_val, *_ = noisy(n_val=100)
    model = WeightLearningClassifier(
        early_stopping=True, n_iter_no_change=2, weight_penalty=0, random_state=0, tol=1e-8
    ).fit(X, y, X_val=X_val, y_val=y_val)
    watched = model.history_["watched_loss"]
    assert len(watched) == len(model.history_["validation_loss"])
    assert model.status_ == "early_stopped"


def test_auto_may_decide_not_to_learn():
    """With clean labels and few, noisy judges there is nothing to gain; it must not break."""
    X, y, X_val, y_val, X_test, y_test, _ = noisy(share=0.0, n_val=20)
    model = WeightLearningClassifier(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    plain = WeightedSVC().fit(np.vstack([X, X_val]), np.r_[y, y_val])
    assert model.score(X_test, y_test) > plain.score(X_test, y_test) - 0.02
    assert model.validation_loss_ <= model.initial_


def test_same_seed_same_model_and_pickle():
    X, y, X_val, *_ = noisy()
    one, two = (WeightLearningClassifier(random_state=1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.sample_weight_, two.sample_weight_)
    loaded = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(loaded.decision_function(X_val), one.decision_function(X_val))


def test_validation_rows_pass_through_a_search():
    X, y, X_val, y_val, *_ = noisy()
    search = GridSearchCV(
        WeightLearningClassifier(weight_penalty=0.1, rounds=0), {"C": [0.3, 3.0]}, cv=2
    )
    search.fit(X, y, X_val=X_val, y_val=y_val)
    assert search.best_estimator_.expansion_.shape == (220,)


def test_verbose_and_callbacks(capsys):
    X, y, X_val, y_val, *_ = noisy()
    WeightLearningClassifier(verbose=1, max_iter=3).fit(X, y, X_val=X_val, y_val=y_val)
    out = capsys.readouterr().out
    assert "validation_loss" in out
    assert "weight_penalty" in out
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")
    seen = []

    class Count(callback.FitCallback):
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            seen.append(context.task_name)
            return len(seen) >= 3

        def teardown(self, estimator, context):
            seen.append("teardown")

    model = WeightLearningClassifier(weight_penalty=0.0).set_callbacks(Count())
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert seen.count("outer-iter") == 3
    assert seen[-1] == "teardown"
    assert model.status_ == "interrupted"


BAD = {
    "no validation data and no fraction": (
        {"validation_fraction": None},
        {},
        "there are no validation rows",
    ),
    "one class in the validation part": (
        {},
        {"X_val": np.ones((3, 2)), "y_val": [1, 1, 1]},
        "validation part must hold at least two classes",
    ),
    "negative initial weight": (
        {},
        {"initial_weight": np.r_[-0.5, np.ones(159)]},
        "initial_weight must be finite and non-negative; row 0 is -0.5",
    ),
    "all initial weights zero": ({}, {"initial_weight": np.zeros(160)}, "initial_weight"),
    "delta": ({"delta": 0.0}, {}, "delta"),
    "unseen label": (
        {},
        {"X_val": np.ones((3, 2)), "y_val": [1, -1, 7]},
        "y_val contains the label",
    ),
    "X_val alone": ({}, {"X_val": np.ones((3, 2))}, "without y_val"),
    "y_val alone": ({}, {"y_val": [1, -1]}, "without X_val"),
    "X_val of another width": (
        {},
        {"X_val": np.ones((2, 3)), "y_val": [1, -1]},
        "X_val has 3 features",
    ),
    "X_val of another length": (
        {},
        {"X_val": np.ones((3, 2)), "y_val": [1, -1]},
        "same number of rows; got 3 and 2",
    ),
    "cv and X_val": ({"cv": 3}, {"X_val": np.ones((2, 2)), "y_val": [1, -1]}, "either cv or X_val"),
    "X_weight of another length": ({}, {"X_weight": np.ones((3, 1))}, "X_weight must have one row"),
    "groups of another length": ({}, {"groups": [1, 2]}, "groups must have one row"),
    "X_weight and groups": (
        {},
        {"X_weight": np.ones((160, 1)), "groups": np.ones(160)},
        "not both",
    ),
    "unknown hyper-parameter": ({"learn": ("degree",)}, {}, "learn may name"),
    "gamma of a linear kernel": ({"learn": ("gamma",), "kernel": "linear"}, {}, "kernel='rbf'"),
    "delta of another loss": ({"learn": ("delta",), "loss": "logistic"}, {}, "smooth_hinge"),
    "memory": ({"cache_size": 0.01}, {}, "cache_size"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    parameters, arguments, message = BAD[case]
    X, y, *_ = noisy()
    model = WeightLearningClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **arguments)
    with pytest.raises(NotFittedError):
        model.predict(X)


# ---- Weights from probabilities -----------------------------------------------------------------


def test_nadaraya_watson_far_from_the_data_and_blocks(monkeypatch):
    from lupi import weighting

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 1e4
    y = (X[:, 0] > 1e4).astype(int)
    model = NadarayaWatson(bandwidth=0.1).fit(X, y)
    far = model.predict_proba(np.array([[1e9, 0.0], [-1e9, 0.0]]))
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    whole = model.predict_proba(X)
    monkeypatch.setattr(weighting, "_BLOCK", 100)
    np.testing.assert_allclose(model.predict_proba(X), whole, atol=1e-12)


def test_bandwidth_by_likelihood():
    """Leave-one-out as its definition says, and validation rows where they are given."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 1))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=80) > 0, 1, 0)
    model = NadarayaWatson().fit(X, y)
    k = 18
    h = model.bandwidths_[k]
    p = []
    for i in range(80):
        w = np.exp(-((X[:, 0] - X[i, 0]) ** 2) / (2 * h * h))
        w[i] = 0
        p.append(w[y == y[i]].sum() / w.sum())
    assert model.scores_[k] == pytest.approx(np.mean(np.log(np.maximum(p, 1e-3))), rel=1e-9)
    assert model.bandwidth_ == model.bandwidths_[model.scores_.argmax()]
    by_validation = NadarayaWatson().fit(X[:40], y[:40], X_val=X[40:], y_val=y[40:])
    assert by_validation.bandwidth_ > 0
    with pytest.raises(ValueError, match="not in y"):
        NadarayaWatson().fit(X, y, X_val=X[:2], y_val=[0, 5])


def test_probability_weights_do_not_see_their_own_row():
    """A tree that remembers its rows would give every label weight 1."""
    X, y, *_, wrong = noisy()
    model = ProbabilityWeightedClassifier(WeightedSVC(), DecisionTreeClassifier(random_state=0))
    model.fit(X, y)
    assert model.sample_weight_[wrong].mean() < model.sample_weight_[~wrong].mean() - 0.1
    expected = WeightedSVC().fit(X, y, sample_weight=model.sample_weight_)
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))
    plain = clone(model).set_params(tau=0).fit(X, y)
    np.testing.assert_array_equal(plain.sample_weight_, 1.0)


def test_probability_from_privileged_features_or_annotators():
    X, y, *_, wrong = noisy()
    X_priv = np.c_[np.where(wrong, -y, y) + 0.1 * X[:, 1]]
    model = ProbabilityWeightedClassifier(WeightedSVC(), LogisticRegression())
    model.fit(X, y, X_priv=X_priv)
    assert roc_auc_score(wrong, -model.sample_weight_) > 0.99
    scores = np.where(wrong, -0.8 * y, 0.8 * y)
    model.fit(X, y, scores=scores)
    np.testing.assert_allclose(model.sample_weight_, np.where(wrong, 0.1, 0.9))
    with pytest.raises(ValueError, match=r"scores must lie in \[-1, 1\]; row 3 is 1.5"):
        model.fit(X, y, scores=np.where(np.arange(160) == 3, 1.5, scores))
    with pytest.raises(ValueError, match="not both"):
        model.fit(X, y, scores=scores, X_priv=X_priv)
    with pytest.raises(ValueError, match="scores must have one row per row of X: 160, got 3"):
        model.fit(X, y, scores=[0, 0, 0])


@pytest.mark.parametrize("eta", [[0.0, 1.2], [-1.5, 0.0], [np.nan, 0.0]])
def test_scores_outside_are_refused(eta):
    with pytest.raises(ValueError, match=r"eta must lie in \[-1, 1\]"):
        conditional_weights([1, -1], eta)


def test_simple_rules():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 5 == 0
    balanced = balanced_weights(y)
    assert balanced[y].sum() == pytest.approx(25)
    assert balanced.sum() == pytest.approx(50)
    distance = class_distance_weights(X, y)
    centre = X[y].mean(axis=0)
    order = np.linalg.norm(X[y] - centre, axis=1).argsort()
    assert (np.diff(distance[y][order]) < 0).all()
    assert distance.min() > 0
    agreement = neighbour_agreement_weights(X, y, n_neighbors=4)
    i = 7
    others = np.linalg.norm(X - X[i], axis=1)
    others[i] = np.inf
    assert agreement[i] == np.mean(y[others.argsort()[:4]] == y[i])
