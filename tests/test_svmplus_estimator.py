"""SVMPlusClassifier: what it refuses, what must not change its answer, and in which forms it reads.

The solver is tested in test_references.py and test_paper.py, scikit-learn's tools in
test_estimators.py, saved models in test_persistence.py.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from cases import numpy_kernel
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from lupi import PrivilegedInformationWarning, SVMPlusClassifier, WeightedSVC
from lupi.solution import Status

rng = np.random.default_rng(0)
N = 50
X = rng.normal(size=(N, 3))
SCORE = X[:, 0] + X[:, 1] * X[:, 2]
y = np.where(SCORE + 0.5 * rng.normal(size=N) > 0, 1, -1)
y3 = np.digitize(SCORE + 0.3 * rng.normal(size=N), [-0.5, 0.5])
X_priv = np.c_[np.abs(SCORE) + 0.1 * rng.normal(size=N), rng.normal(size=N)]
weight = rng.uniform(0.5, 2.0, size=N)
K, K_PRIV = numpy_kernel("rbf", X, X, gamma=0.5), numpy_kernel("rbf", X_priv, X_priv, gamma=0.5)
EXACT = {"gamma": 0.5, "gamma_priv": 0.5, "tol": 1e-9}
MISSING = np.arange(N) % 3 == 0


def changed(array, index, value):
    array = np.array(array, dtype=np.float64)
    array[index] = value
    return array


def some_missing(X_priv=X_priv):
    return changed(X_priv, MISSING, np.nan)


def fit(X=X, y=y, X_priv=X_priv, weight=None, **parameters):
    return SVMPlusClassifier(**{**EXACT, **parameters}).fit(X, y, weight, X_priv=X_priv)


def assert_same(one, other, rows=X, atol=1e-6):
    """Equal decision values that are not trivially equal."""
    f, g = one.decision_function(rows), other.decision_function(rows)
    assert np.ptp(f) > 0.1
    np.testing.assert_allclose(f, g, rtol=0, atol=atol)


# ---- Input, one thing broken at a time ----------------------------------------------------------

# (X, y, X_priv, weights, parameters), and what the message must hold.
BROKEN = {
    "rows of X_priv": ((X, y, X_priv[:-3], None, {}), ["X_priv", "50 rows", "47"]),
    "no rows of X_priv": ((X, y, X_priv[:0], None, {}), ["X_priv", "50 rows", "0"]),
    "partly NaN": (
        (X, y, changed(X_priv, ([3, 7], [0, 1]), np.nan), None, {}),
        ["X_priv", "rows 3, 7", "SimpleImputer", "preprocessor_priv"],
    ),
    "partly NaN beside rows without": (
        (X, y, changed(some_missing(), (7, 1), np.nan), None, {}),
        ["X_priv", "rows 7.", "SimpleImputer"],
    ),
    "partly NaN, many rows": (
        (X, y, changed(X_priv, (slice(20), 1), np.nan), None, {}),
        ["rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."],
    ),
    "partly NaN, sparse": (
        (X, y, sp.csr_array(changed(X_priv, (3, 1), np.nan)), None, {}),
        ["X_priv", "rows 3.", "SimpleImputer"],
    ),
    "partly NaN, frame": (
        (X, y, pd.DataFrame(changed(X_priv, (3, 1), np.nan)), None, {}),
        ["X_priv", "rows 3.", "SimpleImputer"],
    ),
    "infinity": (
        (X, y, changed(X_priv, (3, 1), np.inf), None, {}),
        ["X_priv", "finite", "infinity"],
    ),
    "infinity, sparse": (
        (X, y, sp.csr_array(changed(X_priv, (3, 1), np.inf)), None, {}),
        ["X_priv", "finite", "infinity"],
    ),
    "1-d X_priv": ((X, y, X_priv[:, 0], None, {}), ["X_priv", "2D array", "1D array"]),
    "3-d X_priv": ((X, y, X_priv[:, :, None], None, {}), ["X_priv", "dim 3"]),
    "no columns": ((X, y, X_priv[:, :0], None, {}), ["X_priv", "0 feature"]),
    "text": ((X, y, np.full((N, 2), "a"), None, {}), ["X_priv", "could not convert", "'a'"]),
    "complex": ((X, y, X_priv + 1j, None, {}), ["X_priv", "Complex"]),
    "NaN in X": ((changed(X, (3, 1), np.nan), y, X_priv, None, {}), ["X", "NaN"]),
    "y too short": ((X, y[:-1], X_priv, None, {}), ["50", "49"]),
    "one class": ((X, np.ones(N), X_priv, None, {}), ["y", "two classes"]),
    "negative weight": (
        (X, y, X_priv, changed(weight, 17, -0.3), {}),
        ["sample_weight", "row 17", "-0.3"],
    ),
    "all weights zero": ((X, y, X_priv, np.zeros(N), {}), ["sample_weight", "not zero"]),
    "negative correction_reg": (
        (X, y, X_priv, None, {"correction_reg": -1.0}),
        ["'correction_reg'", "[0.0, inf", "-1.0"],
    ),
    "NaN correction_reg": (
        (X, y, X_priv, None, {"correction_reg": np.nan}),
        ["'correction_reg'", "[0.0, inf", "nan"],
    ),
    "correction_reg=0 with rbf": (
        (X, y, X_priv, None, {"correction_reg": 0}),
        ["correction_reg=0", "finite", "'rbf'", "'linear', 'poly' or 'precomputed'", "positive"],
    ),
    "correction_reg=0 with a callable": (
        (X, y, X_priv, None, {"correction_reg": 0, "kernel_priv": lambda A, B: A @ B.T}),
        ["correction_reg=0", "finite", "positive correction_reg"],
    ),
    "unknown kernel": (
        (X, y, X_priv, None, {"kernel_priv": "laplace"}),
        ["'kernel_priv'", "'rbf'", "'laplace'"],
    ),
    "negative width": (
        (X, y, X_priv, None, {"gamma_priv": -0.5}),
        ["'gamma_priv'", "[0.0, inf", "-0.5"],
    ),
    "kernel matrix not square": (
        (X, y, K_PRIV[:, :-1], None, {"kernel_priv": "precomputed"}),
        ["X_priv", "kernel_priv='precomputed'", "square", "(50, 49)"],
    ),
    "kernel matrix not symmetric": (
        (X, y, changed(K_PRIV, (4, 9), 0.123), None, {"kernel_priv": "precomputed"}),
        ["X_priv", "symmetric", "(4, 9)", "0.123"],
    ),
    "kernel matrix and preprocessor": (
        (X, y, K_PRIV, None, {"kernel_priv": "precomputed", "preprocessor_priv": StandardScaler()}),
        ["preprocessor_priv", "None", "precomputed"],
    ),
    "callable returns a wrong shape": (
        (X, y, X_priv, None, {"kernel_priv": lambda A, B: K_PRIV[:, :-1]}),
        ["kernel_priv(X_priv, X_priv)", "(50, 50)", "(50, 49)"],
    ),
    "preprocessor is no transformer": (
        (X, y, X_priv, None, {"preprocessor_priv": "scale"}),
        ["'preprocessor_priv'", "'transform'", "'scale'"],
    ),
    "preprocessor drops rows": (
        (X, y, X_priv, None, {"preprocessor_priv": FunctionTransformer(lambda Z: Z[1:])}),
        ["preprocessor_priv", "50 rows", "49"],
    ),
    "cache too small": (
        (X, y, X_priv, None, {"cache_size": 1e-4}),
        ["cache_size=0.0001", "two kernel rows"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input(name):
    (rows, labels, priv, weights, parameters), expected = BROKEN[name]
    model = SVMPlusClassifier(**parameters)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the loop below looks at the message)
        model.fit(rows, labels, weights, X_priv=priv)
    for text in expected:
        assert text in str(error.value), f"{text!r} is not in: {error.value}"
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.predict_slack(X_priv)


def test_wrong_types():
    with pytest.raises(TypeError, match="dense"):
        fit(X_priv=sp.csr_array(K_PRIV), kernel_priv="precomputed")
    with pytest.raises(TypeError, match=r"sequence|array-like"):
        fit(X_priv=3.0)
    with pytest.raises(TypeError):
        SVMPlusClassifier().fit(X, y, None, X_priv)  # by name only


def test_prediction_of_slack_is_checked():
    frame = pd.DataFrame(X_priv, columns=["hard", "noise"])
    model = fit(X_priv=frame)
    for bad, expected in (
        (X_priv[:, :1], ["X_priv has 1 features", "2 privileged features"]),
        (sp.csr_array(X_priv[:, :1]), ["X_priv has 1 features", "2 privileged features"]),
        (X_priv[:, :1].tolist(), ["X_priv has 1 features", "2 privileged features"]),
        (X_priv[0], ["X_priv", "2D array"]),
        (X_priv[:0], ["X_priv", "0 sample"]),
        (changed(X_priv, (3, 0), np.nan), ["X_priv", "NaN", "rows 3."]),
        (frame[["noise", "hard"]], ["feature names of X_priv", "['hard', 'noise']"]),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            model.predict_slack(bad)
        for text in expected:
            assert text in str(error.value), str(error.value)
    np.testing.assert_array_equal(model.predict_slack(frame), model.predict_slack(X_priv))
    with pytest.raises(ValueError, match=r"5 features.*50 privileged"):
        fit(X_priv=K_PRIV, kernel_priv="precomputed").predict_slack(K_PRIV[:, :5])
    with pytest.warns(PrivilegedInformationWarning):
        plain = fit(X_priv=None)
    with pytest.raises(ValueError, match="fitted with privileged information"):
        plain.predict_slack(X_priv)


def test_failed_fit_forgets_the_privileged_side_too():
    model = fit(preprocessor_priv=StandardScaler())
    with pytest.raises(ValueError, match="47"):
        model.fit(X, y, X_priv=X_priv[:-3])
    with pytest.raises(NotFittedError):
        model.predict_slack(X_priv)


# ---- Without privileged information -------------------------------------------------------------

NOTHING = {
    "None": None,
    "NaN": np.full((N, 2), np.nan),
    "NaN, float32": np.full((N, 2), np.nan, dtype=np.float32),
    "NaN, sparse": sp.csr_array(np.full((N, 2), np.nan)),
    "NaN, pandas": pd.DataFrame(np.full((N, 2), np.nan)),
    "NA, pandas": pd.DataFrame(np.full((N, 2), np.nan)).convert_dtypes(),
    "null, polars": pl.DataFrame({"a": [None] * N, "b": [None] * N}),
    "None, list": [[None, None]] * N,
    "None for rows": [None] * N,
}


@pytest.mark.parametrize("labels", [y, y3], ids=["two", "three"])
@pytest.mark.parametrize("form", NOTHING)
def test_without_privileged_information(form, labels):
    """The weighted SVM: the same duals and interval of offsets, and a warning."""
    settings = {"gamma": 0.5, "tol": 1e-9, "C": 3.0}
    with pytest.warns(PrivilegedInformationWarning, match="weighted SVM") as caught:
        model = SVMPlusClassifier(**settings).fit(X, labels, weight, X_priv=NOTHING[form])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    plain = WeightedSVC(**settings).fit(X, labels, sample_weight=weight)
    assert len(plain.support_) > 5
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        model.intercept_interval_, plain.intercept_interval_, rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=0, atol=1e-8)
    if labels is y:
        for name in ("alpha_", "beta_", "slack_", "instance_weights_"):
            np.testing.assert_allclose(
                getattr(model, name), getattr(plain, name), rtol=0, atol=1e-8
            )
    assert model.n_priv_features_in_ == 0


def test_privileged_rows_of_weight_zero_only():
    with pytest.warns(PrivilegedInformationWarning, match="weight zero"):
        model = fit(X_priv=some_missing(), weight=np.where(MISSING, weight, 0.0))
    plain = WeightedSVC(gamma=0.5, tol=1e-9).fit(X[MISSING], y[MISSING], weight[MISSING])
    np.testing.assert_allclose(model.alpha_[MISSING], plain.alpha_, rtol=0, atol=1e-8)


def test_rows_without_privileged_information_have_weights_of_their_own():
    model = fit(X_priv=some_missing(), weight=weight, C=2.0)
    assert model.solution_.status is Status.OPTIMAL
    np.testing.assert_allclose(model.instance_weights_[MISSING], 2.0 * weight[MISSING], rtol=1e-12)
    hinge = np.maximum(0.0, 1.0 - y * model.decision_function(X))
    np.testing.assert_allclose(model.slack_[MISSING], hinge[MISSING], rtol=0, atol=1e-8)
    assert np.abs(model.instance_weights_ - 2.0 * weight)[~MISSING].max() > 1e-3
    np.testing.assert_allclose(
        model.predict_slack(X_priv)[~MISSING], model.slack_[~MISSING], rtol=0, atol=1e-12
    )


# ---- Forms of the privileged features -----------------------------------------------------------


def forms(P):
    holes = [None if np.isnan(row).all() else row.tolist() for row in P]
    entries = [[None if np.isnan(v) else v for v in row] for row in P]
    yield "list", P.tolist()
    yield "Fortran order", np.asfortranarray(P)
    yield "every other column", np.repeat(P, 2, axis=1)[:, ::2]
    yield "csr", sp.csr_array(P)
    yield "csr_matrix", sp.csr_matrix(P)
    yield "csc", sp.csc_array(P)
    yield "coo", sp.coo_array(P)
    yield "pandas", pd.DataFrame(P, columns=["a", "b"], index=np.arange(len(P))[::-1])
    yield "pandas with NA", pd.DataFrame(P, columns=["a", "b"]).convert_dtypes()
    yield "polars", pl.DataFrame({"a": P[:, 0], "b": P[:, 1]})
    yield (
        "polars with null",
        pl.DataFrame({"a": [r[0] for r in entries], "b": [r[1] for r in entries]}),
    )
    yield "object", P.astype(object)
    yield "None for entries", entries
    yield "None for rows", holes


@pytest.mark.parametrize("missing", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("form", [name for name, _ in forms(X_priv)])
def test_forms_of_privileged_features(form, missing):
    P = some_missing() if missing else X_priv
    model = fit(X_priv=dict(forms(P))[form])
    plain = fit(X_priv=P)
    np.testing.assert_allclose(model.alpha_, plain.alpha_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.slack_, plain.slack_, rtol=0, atol=1e-9)
    assert model.n_priv_features_in_ == 2
    named = form in ("pandas", "pandas with NA", "polars", "polars with null")
    assert hasattr(model, "priv_feature_names_in_") == named
    full = dict(forms(X_priv))[form]
    np.testing.assert_allclose(
        model.predict_slack(full), plain.predict_slack(X_priv), rtol=0, atol=1e-9
    )


def test_forms_of_both_sides():
    plain = fit(X_priv=some_missing())
    for rows, priv in (
        (sp.csr_array(X), sp.csr_array(some_missing())),
        (pd.DataFrame(X, columns=list("pqr")), pd.DataFrame(some_missing(), columns=list("ab"))),
        (pl.DataFrame(dict(zip("pqr", X.T, strict=True))), sp.csc_matrix(some_missing())),
    ):
        model = fit(X=rows, X_priv=priv)
        np.testing.assert_allclose(model.alpha_, plain.alpha_, rtol=0, atol=1e-9)
        f, g = model.decision_function(rows), plain.decision_function(X)
        np.testing.assert_allclose(f, g, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_float32(kernel):
    """Rows in float32 are the same rows, rounded: no copy in float64 is made of them."""
    settings = {"kernel": kernel, "kernel_priv": kernel, "degree": 2, "degree_priv": 2}
    short, priv = X.astype(np.float32), some_missing().astype(np.float32)
    model = fit(X=short, X_priv=priv, **settings)
    assert model.support_vectors_.dtype == model._rows_priv.dtype == np.float32
    exact = fit(X=short.astype(np.float64), X_priv=priv.astype(np.float64), **settings)
    assert_same(model, exact, atol=1e-5)
    np.testing.assert_allclose(model.slack_, exact.slack_, rtol=0, atol=1e-5)
    assert model.solution_.status.converged


def test_given_kernels_are_the_kernels():
    plain = fit(X_priv=some_missing())
    kernel_priv = changed(K_PRIV, MISSING, np.nan)
    symmetric = kernel_priv.copy()
    symmetric[:, MISSING] = np.nan
    for matrix in (kernel_priv, symmetric, pd.DataFrame(kernel_priv)):
        model = fit(X=K, X_priv=matrix, kernel="precomputed", kernel_priv="precomputed")
        np.testing.assert_allclose(model.alpha_, plain.alpha_, rtol=0, atol=1e-7)
        np.testing.assert_allclose(
            model.predict_slack(K_PRIV), plain.predict_slack(X_priv), rtol=0, atol=1e-7
        )

    def rbf(A, B):
        return numpy_kernel("rbf", A, B, gamma=0.5)

    for labels in (y, y3):
        plain = fit(y=labels, X_priv=some_missing())
        model = fit(y=labels, X_priv=some_missing(), kernel=rbf, kernel_priv=rbf)
        assert_same(model, plain, atol=1e-7)
        np.testing.assert_allclose(
            model.predict_slack(X_priv), plain.predict_slack(X_priv), rtol=0, atol=1e-6
        )


# ---- preprocessor_priv --------------------------------------------------------------------------


def test_preprocessor():
    scaler = StandardScaler().fit(X_priv[~MISSING])
    model = fit(X_priv=some_missing(), preprocessor_priv=StandardScaler())
    by_hand = fit(X_priv=changed(scaler.transform(X_priv), MISSING, np.nan))
    np.testing.assert_allclose(model.alpha_, by_hand.alpha_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        model.predict_slack(X_priv), by_hand.predict_slack(scaler.transform(X_priv)), atol=1e-9
    )
    np.testing.assert_array_equal(model.preprocessor_priv_.mean_, scaler.mean_)
    assert not hasattr(model.preprocessor_priv, "mean_")


def test_preprocessor_and_weights():
    """A weight is a number of repetitions for the preprocessor too; zero takes the row out."""
    times = rng.integers(0, 4, size=N)
    settings = {"preprocessor_priv": StandardScaler(), "gamma": "scale", "gamma_priv": "scale"}
    weighted = fit(weight=times, **settings)
    rows = np.repeat(np.arange(N), times)
    repeated = fit(X=X[rows], y=y[rows], X_priv=X_priv[rows], **settings)
    assert_same(weighted, repeated)
    np.testing.assert_allclose(
        weighted.predict_slack(X_priv), repeated.predict_slack(X_priv), rtol=0, atol=1e-6
    )


def test_preprocessors_of_other_kinds():
    holes = changed(X_priv, ([3, 7], [0, 1]), np.nan)
    imputed = fit(X_priv=holes, preprocessor_priv=make_pipeline(SimpleImputer(), StandardScaler()))
    assert imputed.solution_.status is Status.OPTIMAL
    words = np.where(np.abs(SCORE) > 0.7, "clear case", "hard to say")
    kinds = pd.DataFrame({"words": words, "who": np.where(X[:, 2] > 0, "ann", "bob")})
    for unknown in (None, pd.NA):
        frame = kinds.astype(object)
        frame.loc[MISSING] = unknown
        model = fit(X_priv=frame, preprocessor_priv=OneHotEncoder())
        assert model.priv_feature_names_in_.tolist() == ["words", "who"]
        assert model.n_priv_features_in_ == 2
        np.testing.assert_allclose(model.instance_weights_[MISSING], 1.0, rtol=1e-12)
        assert len(np.unique(model.predict_slack(kinds).round(9))) == 4
    # Reports as texts.
    texts = list(words)
    model = fit(X_priv=texts, preprocessor_priv=TfidfVectorizer())
    clear, hard = model.predict_slack(["clear case", "hard to say"])
    assert clear < hard
    texts[5] = None
    model = fit(X_priv=texts, preprocessor_priv=TfidfVectorizer())
    assert model.instance_weights_[5] == pytest.approx(1.0)


# ---- What must not change the answer ------------------------------------------------------------

SETTINGS = {
    "rbf": {},
    # A linear correcting function of X_priv leaves w = 0 here, which would show nothing.
    "linear": {"kernel": "linear", "kernel_priv": "rbf"},
    "linear_priv": {"kernel_priv": "linear"},
    "no penalty": {"correction_reg": 0, "kernel_priv": "linear"},
    "flat": {"correction_reg": 100.0, "C": 10.0},
    "free": {"correction_reg": 1e-3},
    "scale": {"gamma": "scale", "gamma_priv": "scale"},
}


@pytest.mark.parametrize("missing", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_row_twice_at_half_the_cost(setting, missing):
    settings = {"C": 2.0, **SETTINGS[setting]}
    P = some_missing() if missing else X_priv
    once = fit(X_priv=P, weight=weight, **settings)
    settings["C"] /= 2
    twice = np.r_[:N, :N]
    other = fit(X=X[twice], y=y[twice], X_priv=P[twice], weight=weight[twice], **settings)
    assert_same(once, other)
    assert other.dual_objective_ == pytest.approx(once.dual_objective_, rel=1e-7)
    np.testing.assert_allclose(other.slack_[:N], once.slack_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_integer_weight_is_repetition_and_zero_is_removal(setting):
    times = rng.integers(0, 4, size=N)
    rows = np.repeat(np.arange(N), times)
    P = some_missing()
    weighted = fit(X_priv=P, weight=times, **SETTINGS[setting])
    repeated = fit(X=X[rows], y=y[rows], X_priv=P[rows], **SETTINGS[setting])
    assert_same(weighted, repeated)
    np.testing.assert_allclose(
        weighted.predict_slack(X_priv), repeated.predict_slack(X_priv), rtol=0, atol=1e-6
    )
    assert (weighted.alpha_[times == 0] == 0).all()
    assert (weighted.beta_[times == 0] == 0).all()


@pytest.mark.parametrize("setting", SETTINGS)
def test_row_order_permutes_the_duals(setting):
    order = rng.permutation(N)
    P = some_missing()
    one = fit(X_priv=P, weight=weight, **SETTINGS[setting])
    other = fit(X=X[order], y=y[order], X_priv=P[order], weight=weight[order], **SETTINGS[setting])
    assert_same(one, other, atol=1e-7)
    np.testing.assert_allclose(other.slack_, one.slack_[order], rtol=0, atol=1e-6)
    if setting not in ("linear", "no penalty"):  # kernels of full rank: the duals are unique
        np.testing.assert_allclose(other.alpha_, one.alpha_[order], rtol=0, atol=1e-6)
        np.testing.assert_allclose(other.beta_, one.beta_[order], rtol=0, atol=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_swapped_labels_mirror_the_function(setting):
    one = fit(X_priv=some_missing(), **SETTINGS[setting])
    other = fit(y=-y, X_priv=some_missing(), **SETTINGS[setting])
    f = one.decision_function(X)
    assert np.ptp(f) > 0.1
    np.testing.assert_allclose(other.decision_function(X), -f, rtol=0, atol=1e-7)
    np.testing.assert_allclose(other.slack_, one.slack_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("power", [-6, 3])
def test_kernels_times_k_and_costs_over_k(power):
    """K -> k K, K* -> k K*, C -> C / k, the same correction_reg: f and xi as before."""
    k = 10.0**power
    given = {"kernel": "precomputed", "kernel_priv": "precomputed"}
    one = fit(X=K, X_priv=K_PRIV, **given)
    other = fit(X=k * K, X_priv=k * K_PRIV, C=1 / k, **given)
    f, g = one.decision_function(K), other.decision_function(k * K)
    np.testing.assert_allclose(g, f, rtol=0, atol=1e-6)
    np.testing.assert_allclose(other.slack_, one.slack_, rtol=0, atol=1e-6)


def test_class_weight_is_a_weight_of_rows():
    by_class = fit(class_weight={1: 3.0, -1: 0.5})
    by_row = fit(weight=np.where(y == 1, 3.0, 0.5))
    np.testing.assert_allclose(by_class.alpha_, by_row.alpha_, rtol=0, atol=1e-8)
    balanced = fit(class_weight="balanced")
    share = N / (2 * np.bincount(y == 1))
    by_row = fit(weight=np.where(y == 1, share[1], share[0]))
    np.testing.assert_allclose(balanced.alpha_, by_row.alpha_, rtol=0, atol=1e-8)


def test_inputs_are_left_as_they_were():
    S = sp.csr_array(some_missing())
    kept = [a.copy() for a in (X, y, X_priv, weight, S.data, S.indices)]
    fit(weight=weight, preprocessor_priv=StandardScaler()).predict_slack(X_priv)
    fit(X_priv=S)
    for now, before in zip((X, y, X_priv, weight, S.data, S.indices), kept, strict=True):
        np.testing.assert_array_equal(now, before)


# ---- Several classes ----------------------------------------------------------------------------


def test_multiclass_is_one_machine_for_each_pair():
    P = some_missing()
    model = fit(y=y3, X_priv=P, weight=weight, decision_function_shape="ovo")
    values, slack = model.decision_function(X), model.predict_slack(X_priv)
    assert values.shape == slack.shape == (N, 3)
    assert model.intercept_corr_.shape == model.duality_gap_.shape == (3,)
    for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = np.flatnonzero((y3 == i) | (y3 == j))
        signs = np.where(y3[rows] == i, 1, -1)
        alone = fit(X=X[rows], y=signs, X_priv=P[rows], weight=weight[rows])
        np.testing.assert_allclose(values[:, p], alone.decision_function(X), rtol=0, atol=1e-7)
        np.testing.assert_allclose(slack[:, p], alone.predict_slack(X_priv), rtol=0, atol=1e-6)
        pair = model.solutions_[p]
        assert pair.classes == (i, j)
        np.testing.assert_array_equal(pair.rows, rows)
        assert pair.solution.gap <= 1e-6
    votes = np.stack([np.bincount([i if v > 0 else j for v, (i, j) in
                                   zip(row, [(0, 1), (0, 2), (1, 2)], strict=True)], minlength=3)
                      for row in values])  # fmt: skip
    np.testing.assert_array_equal(model.predict(X), votes.argmax(axis=1))


def test_pairs_without_weight_or_privileged_rows():
    """A class of weight zero; a pair none of whose rows has privileged information."""
    P = changed(X_priv, y3 != 0, np.nan)
    model = fit(y=y3, X_priv=P)
    assert len(model.solutions_) == 3
    rows = y3 != 0
    plain = WeightedSVC(gamma=0.5, tol=1e-9).fit(X[rows], np.where(y3[rows] == 1, 1, -1))
    np.testing.assert_allclose(
        model.solutions_[2].solution.dual.alpha, plain.alpha_, rtol=0, atol=1e-8
    )
    model = fit(y=y3, weight=np.where(y3 == 0, 1.0, 0.0))
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.predict_slack(X_priv)).all()


# ---- Words and warnings -------------------------------------------------------------------------


def test_one_warning_where_steps_run_out():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(y=y3, C=100.0, max_iter=0)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert "max_iter" in str(caught[0].message)
    assert (model.duality_gap_ >= 0).all()


def test_progress_is_printed_if_asked(capfd):
    fit(y=y3)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    fit(verbose=1)
    lines = capfd.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("[lupi] ") for line in lines)
    for word in ("Newton steps", "objective", "gap", "violation"):
        assert any(word in line for line in lines), word
    fit(y=y3, verbose=1)
    out = capfd.readouterr().out
    for pair in ("class 0 against class 1", "class 0 against class 2", "class 1 against class 2"):
        assert out.count(pair) == 1


def test_what_the_attributes_say():
    """slack_ bounds the hinge loss, with equality at the support vectors (eq:svmp_kkt:comp1)."""
    model = fit(weight=weight)
    hinge = np.maximum(0.0, 1.0 - y * model.decision_function(X))
    assert (model.slack_ >= hinge - 1e-9).all()
    loose = model.slack_ - (1.0 - y * model.decision_function(X))
    np.testing.assert_allclose(loose[model.alpha_ > 1e-6], 0.0, atol=1e-7)
    assert model.instance_weights_.sum() == pytest.approx(weight.sum(), rel=1e-9)
    np.testing.assert_allclose(model.predict_slack(X_priv), model.slack_, rtol=0, atol=1e-12)
    assert isinstance(model.intercept_corr_, float)
    assert 0 <= model.duality_gap_ <= 1e-6
