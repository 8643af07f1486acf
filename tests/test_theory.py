"""The theory as a user meets it: wrong input, absent rows, fixed offsets, pictures, time."""

import pickle
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.equivalence import (
    EquivalentWeights,
    NotReplicableError,
    necessary_condition,
    replicating_svm_plus,
    replicating_weights,
    rho,
    svm_minus_ray,
    svm_reduction,
)
from lupi.inspection import explain
from lupi.uniqueness import dual_is_unique, offset_interval, offset_is_unique

OF_EITHER = [offset_interval, offset_is_unique, dual_is_unique, explain]
OF_WSVM = [EquivalentWeights, replicating_svm_plus]
OF_PLUS = [replicating_weights, necessary_condition, svm_reduction]


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    noise = rng.normal(size=n)
    return X, np.where(X[:, 0] + noise > 0, 1, -1), np.abs(noise)[:, None]


@pytest.fixture
def weighted():
    X, y, _ = data()
    return WeightedSVC(tol=1e-8).fit(X, y)


@pytest.fixture
def plus():
    X, y, X_priv = data()
    return SVMPlusClassifier(tol=1e-8).fit(X, y, X_priv=X_priv)


@pytest.mark.parametrize("function", [*OF_EITHER, *OF_WSVM, *OF_PLUS])
def test_models_that_cannot_be_asked(function):
    own = SVMPlusClassifier if function in OF_PLUS else WeightedSVC
    X, y, X_priv = data()
    params = {"X_priv": X_priv} if own is SVMPlusClassifier else {}
    with pytest.raises(NotFittedError):
        function(own())
    with pytest.raises(TypeError, match=r"fitted .*got SVC"):
        function(SVC().fit(X, y))
    with pytest.raises(TypeError, match="got ndarray"):
        function(X)
    with pytest.raises(ValueError, match="two classes; it was fitted with 3"):
        function(own().fit(X, np.arange(len(X)) % 3, **params))
    model = own(max_iter=1, C=100.0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, **params)
    with pytest.raises(ValueError, match=r"did not converge .*duality gap .*allow_inexact=True"):
        function(model)
    assert function(model, allow_inexact=True) is not None
    model = own().fit(X, y, **params)
    with pytest.raises(ValueError, match="fitted in this process"):
        function(pickle.loads(pickle.dumps(model)))


@pytest.mark.parametrize("function", OF_WSVM)
def test_the_other_machine(function, plus):
    with pytest.raises(TypeError, match="must be a fitted WeightedSVC; got SVMPlusClassifier"):
        function(plus)


@pytest.mark.parametrize("function", OF_PLUS)
def test_the_other_machine_of_plus(function, weighted):
    with pytest.raises(TypeError, match="must be a fitted SVMPlusClassifier; got WeightedSVC"):
        function(weighted)


@pytest.mark.parametrize(
    ("c", "message"),
    [
        (np.ones(39), r"c must have shape \(40,\).*got \(39,\)"),
        (np.ones((40, 1)), r"got \(40, 1\)"),
        (np.r_[np.ones(7), -0.5, np.ones(32)], "non-negative; row 7 is -0.5"),
        (np.r_[np.ones(7), np.nan, np.ones(32)], "finite and non-negative; row 7 is nan"),
        (["a"] * 40, "must hold numbers"),
    ],
)
def test_weights_that_are_none(weighted, c, message):
    family = EquivalentWeights(weighted)
    for function in (family.contains, family.violations, family.decompose):
        with pytest.raises(ValueError, match=message):
            function(c)
    with pytest.raises(ValueError, match=message):
        rho(c, weighted.slack_)


def test_other_arguments(weighted):
    family = EquivalentWeights(weighted)
    with pytest.raises(ValueError, match="k must be a non-negative whole number; got -1"):
        family.sample(-1)
    with pytest.raises(ValueError, match="index must have shape"):
        explain(weighted, index=["a"])
    with pytest.raises(ValueError, match="slack must be a vector"):
        rho([1.0], [[1.0]])
    with pytest.raises(ValueError, match="correction_reg must be positive"):
        svm_minus_ray([[1.0]], correction_reg=0.0)
    with pytest.raises(ValueError, match="X_priv must be a finite array"):
        svm_minus_ray([[np.nan]])
    with pytest.raises(ValueError, match="C must be finite and non-negative; row 0 is -1"):
        svm_minus_ray([[1.0]], C=-1.0)
    with pytest.raises(ValueError, match="steps must be non-negative"):
        svm_minus_ray([[1.0]], steps=[-1.0])


def test_rows_that_were_written_to():
    """A precomputed matrix is the caller's: whoever writes into it asks about other rows."""
    X, y, _ = data()
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    model = WeightedSVC(kernel="precomputed").fit(K, y)
    offset_is_unique(model)
    K *= 2.0
    with pytest.raises(ValueError, match="training rows of this WeightedSVC are not those"):
        offset_is_unique(model)


def test_absent_rows_are_absent():
    """A row of weight zero changes nothing, unless it is included."""
    X, y, c = np.array([[1.0], [2], [3]]), [1, -1, 1], [4.0, 6, 2]
    small = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
    more = WeightedSVC(kernel="linear", tol=1e-9).fit(
        np.vstack([X, [[9.0]]]), [*y, 1], sample_weight=[*c, 0.0]
    )
    one, other = EquivalentWeights(small), EquivalentWeights(more)
    assert other.max_rho().value == pytest.approx(one.max_rho().value)
    assert other.contains([*c, 0.0])
    assert not other.contains([*c, 1.0])
    assert other.violations([*c, 1.0])["absent"] == 1.0
    # Included it is a hard row, f(9) = -15, and SVM+ would have to give it no weight.
    included = EquivalentWeights(more, include_absent=True)
    assert included.hard.tolist() == [False, False, True, True]
    assert included.max_rho().value < one.max_rho().value
    # Without the outlier the hard margin is left: no loss, rho = 0, and SVM+ drops the row too.
    dropped = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=[4.0, 6, 0])
    setting = replicating_svm_plus(dropped)
    assert setting.correction_reg == 0
    assert setting.fit_params()["sample_weight"].tolist() == [1, 1, 0]
    again = SVMPlusClassifier(**setting.estimator_params(), tol=1e-9).fit(
        X, y, **setting.fit_params()
    )
    np.testing.assert_allclose(again.coef_, dropped.coef_, atol=1e-6)
    np.testing.assert_allclose(again.intercept_, dropped.intercept_, atol=1e-6)
    with pytest.raises(NotReplicableError, match=r"mean hinge loss is 1\.33333") as caught:
        replicating_svm_plus(dropped, include_absent=True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.rho_max == caught.value.rho_max
    assert str(again) == str(caught.value)


# ---- A fixed offset -----------------------------------------------------------------------------


def test_intercept():
    X, y = [[0.0], [1.0]], [-1, 1]
    plain = WeightedSVC(0.5, kernel="linear").fit(X, y)
    lower, upper = plain.intercept_interval_
    for b in (lower, 0.3, upper):
        model = clone(WeightedSVC(0.5, kernel="linear", intercept=b)).fit(X, y)
        assert model.intercept_.tolist() == [b]
        np.testing.assert_array_equal(model.alpha_, plain.alpha_)
        np.testing.assert_array_equal(model.intercept_interval_, plain.intercept_interval_)
        assert model.primal_objective_ == pytest.approx(plain.primal_objective_, abs=1e-12)
        assert model.decision_function([[0.0]])[0] == pytest.approx(b)
        np.testing.assert_allclose(
            model.slack_, np.maximum(0, 1 - np.array(y) * model.decision_function(X)), atol=1e-12
        )
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    for b in (lower - 0.01, upper + 0.01):
        with pytest.raises(ValueError, match=rf"intercept={b:.9g} is not .*\[-1, 0.5\]"):
            WeightedSVC(0.5, kernel="linear", intercept=b).fit(X, y)
    with pytest.raises(ValueError, match="intercept must be 'middle' with more than two classes"):
        WeightedSVC(intercept=0.0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    with pytest.raises(ValueError, match="'intercept' parameter"):
        WeightedSVC(intercept="low").fit(X, y)
    one_class = WeightedSVC(kernel="linear", intercept=7.0).fit(X, y, sample_weight=[0.0, 1.0])
    assert one_class.intercept_.tolist() == [7.0]


# ---- For people ---------------------------------------------------------------------------------


def test_explain(plus, weighted):
    explanation = explain(plus, index=[f"row {i}" for i in range(40)])
    table = explanation.table
    assert table.shape == (40, 9)
    assert table.index[0] == "row 0"
    assert table["weight"].sum() == pytest.approx(table["cost"].sum())
    margin, hinge = table["margin"].to_numpy(), table["hinge"].to_numpy()
    assert (table["role"] == "outlier").to_numpy().tolist() == (margin <= 0).tolist()
    assert set(table["role"]) <= {"margin", "support", "outlier", "ignored"}
    assert (table["slack"].to_numpy() >= hinge - 1e-8).all()
    moved = 0.5 * np.abs(table["weight"] - table["cost"]).sum() / table["cost"].sum()
    assert f"moved {100 * moved:.3g} % of the weight" in str(explanation)
    assert str(explanation) in explanation._repr_html_()
    top = (table["weight"] - table["cost"]).idxmax()
    assert f"most of it to {top} (" in str(explanation)
    assert "privileged" not in str(explain(weighted))


def test_explain_without_pandas(weighted, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    table = explain(weighted).table
    assert table["role"].shape == (40,)
    assert explain(weighted)._repr_html_().startswith("<p>Of 40 examples")


def test_displays(plus, weighted):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lupi.plotting import OffsetDisplay, SlackDisplay, WeightMarginDisplay

    for cls, model in [
        (WeightMarginDisplay, plus),
        (WeightMarginDisplay, weighted),
        (SlackDisplay, plus),
        (OffsetDisplay, weighted),
        (OffsetDisplay, plus),
    ]:
        display = cls.from_estimator(model)
        assert display.figure_ is display.ax_.figure
        assert display.ax_.get_xlabel()
        _, ax = plt.subplots()
        assert display.plot(ax=ax) is display
        assert display.ax_ is ax
    points = np.vstack(
        [c.get_offsets() for c in WeightMarginDisplay.from_estimator(plus).ax_.collections]
    )
    expected = np.c_[explain(plus).columns["margin"], plus.instance_weights_]
    np.testing.assert_allclose(np.sort(points, axis=0), np.sort(expected, axis=0))
    with pytest.raises(TypeError, match="SVMPlusClassifier; got WeightedSVC"):
        SlackDisplay.from_estimator(weighted)
    # The loss is smallest on the interval, to both of whose sides it rises.
    light = WeightedSVC(0.5, kernel="linear").fit([[0.0], [1.0]], [-1, 1])
    display = OffsetDisplay.from_estimator(light)
    inside = (display.b >= -1) & (display.b <= 0.5)
    assert np.ptp(display.loss[inside]) <= 1e-12
    assert display.loss[~inside].min() > display.loss[inside].max()
    plt.close("all")


def test_displays_without_matplotlib(weighted, monkeypatch):
    import sys

    from lupi.plotting import OffsetDisplay

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lupi\[plots\]'"):
        OffsetDisplay.from_estimator(weighted)


# ---- Speed --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.within(200)
@pytest.mark.parametrize("kind", ["rbf", "linear", "wide", "repeated"])
def test_two_thousand_rows(kind):
    """max_rho in 10 s, everything else in 1 s, on two cores."""
    rng = np.random.default_rng(0)
    n, d = 2000, 1000 if kind == "wide" else 10
    X = rng.normal(size=(n, d))
    y = rng.choice([-1, 1], n) if kind == "wide" else np.sign(X[:, 0] + rng.normal(size=n))
    if kind == "repeated":
        X[1::2], y[1::2] = X[::2], y[::2]
    kernel = "rbf" if kind in ("rbf", "repeated") else "linear"
    model = WeightedSVC(1e-3 if kind == "wide" else 1.0, kernel=kernel, gamma=0.1, tol=1e-6)
    model.fit(X, y, sample_weight=rng.exponential(size=n))

    def seconds(function):
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    family = EquivalentWeights(model)
    assert seconds(family.max_rho) < 10
    times = {
        "interval": seconds(lambda: offset_interval(model)),
        "offset": seconds(lambda: offset_is_unique(model)),
        "dual": seconds(lambda: dual_is_unique(model)),
        "contains": seconds(lambda: family.contains(model.instance_weights_)),
        "sample": seconds(lambda: family.sample(1, random_state=0)),
        "dimension": seconds(lambda: family.dimension),
        "explain": seconds(lambda: explain(model)),
    }
    assert max(times.values()) < 1, times
