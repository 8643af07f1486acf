"""What must not change the answer, and how the answer must change."""

import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import threadpoolctl
from cases import HAND_SOLVED, Case, numpy_kernel, random_wsvm
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import (
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
    sigmoid_kernel,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import lupi.threads
from lupi import WeightedSVC
from lupi.solution import WSVMDual
from lupi.solvers import wsvm

KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
}


def noisy(n=120, d=4, seed=0):
    """Two classes that overlap, and weights without structure: free, bound and idle rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    return X, y, rng.uniform(0.2, 3.0, size=n)


def assert_same_function(one, other, X, atol):
    """Equal decision values, where the values are not trivially equal."""
    f, g = one.decision_function(X), other.decision_function(X)
    assert np.ptp(f) > 0.1
    np.testing.assert_allclose(f, g, rtol=0, atol=atol)


# ---- Rows ---------------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)
# Every example is a solve: few of them, always the same, and no word about time.
few = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def repeated_case(seed):
    """A problem with integer weights 0 to 4 whose rows can be repeated instead."""
    rng = np.random.default_rng([11, seed])
    n, d = int(rng.integers(4, 60)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=n) > 0, 1, -1)
    weight = rng.integers(0, 5, size=n)
    y[:2], weight[:2] = (-1, 1), 1
    C = float(10.0 ** rng.uniform(-1.5, 1.5))
    return X, y, weight, C


@few
@given(seed=seeds, kernel=st.sampled_from(sorted(KERNELS)))
def test_integer_weight_is_repetition(seed, kernel):
    X, y, weight, C = repeated_case(seed)
    weighted = WeightedSVC(C, **KERNELS[kernel]).fit(X, y, sample_weight=weight)
    repeated = WeightedSVC(C, **KERNELS[kernel]).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=0, atol=1e-7
    )
    assert weighted.dual_objective_ == pytest.approx(repeated.dual_objective_, rel=1e-9)
    np.testing.assert_allclose(
        weighted.intercept_interval_, repeated.intercept_interval_, rtol=0, atol=1e-7
    )


@few
@given(seed=seeds, kernel=st.sampled_from(sorted(KERNELS)))
def test_weight_zero_is_removal(seed, kernel):
    X, y, weight, C = repeated_case(seed)
    kept = np.flatnonzero(weight)
    whole = WeightedSVC(C, **KERNELS[kernel]).fit(X, y, sample_weight=weight)
    part = WeightedSVC(C, **KERNELS[kernel]).fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(
        whole.decision_function(X), part.decision_function(X), rtol=0, atol=1e-7
    )
    # Everything indexes the caller's rows.
    assert whole.alpha_.shape == whole.beta_.shape == whole.slack_.shape == (len(y),)
    assert (whole.alpha_[weight == 0] == 0).all()
    assert set(whole.support_) <= set(kept)
    assert set(whole.support_) == set(np.flatnonzero(whole.alpha_))
    np.testing.assert_array_equal(whole.support_vectors_, X[whole.support_])
    np.testing.assert_allclose(whole.instance_weights_, C * weight, rtol=4e-16, atol=0)
    np.testing.assert_allclose(
        whole.slack_, np.maximum(0, 1 - y * whole.decision_function(X)), rtol=0, atol=1e-9
    )


@few
@given(seed=st.integers(0, 400))
@example(seed=10)
def test_row_order(seed):
    """Rows may come in any order: alpha moves along, f stays."""
    case = random_wsvm(seed)
    order = np.random.default_rng(seed).permutation(case.n)
    X = case.X[order]
    if case.kernel == "precomputed":
        X = np.ascontiguousarray(X[:, order])
    shuffled = Case("shuffled", case.kernel, X, case.y[order], case.c[order], case.params)
    one = wsvm.solve(case.problem(), tol=1e-9)
    other = wsvm.solve(shuffled.problem(), tol=1e-9)
    scale = max(1.0, abs(one.dual_objective))
    assert abs(one.dual_objective - other.dual_objective) <= 1e-7 * scale
    # w is unique: its values at the rows are the same, up to |w - w'| |z| <= sqrt(4 gap) |z|.
    f = case.K @ (case.y * one.dual.alpha)
    g = shuffled.K @ (shuffled.y * other.dual.alpha)
    close = np.sqrt(4 * max(abs(one.gap), abs(other.gap)) * case.K.diagonal().max())
    rounding = 1e-12 * max(1.0, case.K.diagonal().max() * case.c.sum())
    np.testing.assert_allclose(f[order], g, rtol=0, atol=close + rounding)


def test_row_order_permutes_the_duals():
    """On a problem whose dual is unique and, with a narrow kernel, well conditioned, to 1e-9."""
    X, y, weight = noisy()
    order = np.random.default_rng(3).permutation(len(y))
    one = WeightedSVC(gamma=4.0).fit(X, y, sample_weight=weight)
    other = WeightedSVC(gamma=4.0).fit(X[order], y[order], sample_weight=weight[order])
    assert np.count_nonzero((one.alpha_ > 0) & (one.alpha_ < weight)) > 10
    for name in ("alpha_", "beta_", "slack_", "instance_weights_"):
        np.testing.assert_allclose(
            getattr(one, name)[order], getattr(other, name), rtol=0, atol=1e-9
        )
    assert sorted(order[other.support_]) == sorted(one.support_)
    assert one.intercept_ == pytest.approx(other.intercept_, abs=1e-9)
    assert_same_function(one, other, X, 1e-9)


@few
@given(seed=seeds, power=st.integers(-20, 20))
def test_kernel_times_k_and_c_over_k(seed, power):
    """(k K, C / k) has the solution (alpha / k): exactly so for a power of two."""
    X, y, weight, C = repeated_case(seed)
    k = 2.0**power
    K = rbf_kernel(X, gamma=0.4)
    one = WeightedSVC(C, kernel="precomputed").fit(K, y, sample_weight=weight)
    other = WeightedSVC(C / k, kernel="precomputed").fit(k * K, y, sample_weight=weight)
    np.testing.assert_allclose(
        one.decision_function(K), other.decision_function(k * K), rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(one.alpha_, k * other.alpha_, rtol=0, atol=1e-7 * C)
    # The value scales too: the objective is that of one over k.
    assert k * other.dual_objective_ == pytest.approx(one.dual_objective_, rel=1e-8)


@few
@given(seed=seeds, kernel=st.sampled_from(sorted(KERNELS)))
def test_swapped_labels_mirror_f(seed, kernel):
    X, y, weight, C = repeated_case(seed)
    one = WeightedSVC(C, **KERNELS[kernel]).fit(X, y, sample_weight=weight)
    other = WeightedSVC(C, **KERNELS[kernel]).fit(X, -y, sample_weight=weight)
    np.testing.assert_allclose(
        one.decision_function(X), -other.decision_function(X), rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        one.intercept_interval_, -other.intercept_interval_[::-1], rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(one.slack_, other.slack_, rtol=0, atol=1e-8)


@few
@given(seed=seeds)
def test_splitting_a_weight_over_copies(seed):
    """One row of weight s and copies of it with weights that add up to s are the same."""
    X, y, weight, C = repeated_case(seed)
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.1, 0.9, size=len(y))
    one = WeightedSVC(C, gamma=0.5).fit(X, y, sample_weight=weight)
    split = WeightedSVC(C, gamma=0.5).fit(
        np.vstack([X, X]), np.r_[y, y], sample_weight=np.r_[share * weight, (1 - share) * weight]
    )
    if np.ptp(one.intercept_interval_) < 1e-12:  # rounding of the shares may unbalance an interval
        np.testing.assert_allclose(
            one.decision_function(X), split.decision_function(X), rtol=0, atol=1e-7
        )
    assert one.dual_objective_ == pytest.approx(split.dual_objective_, rel=1e-9)


@few
@given(seed=seeds)
def test_rows_beyond_the_margin_do_not_matter(seed):
    """A row with y f > 1 can be added with any weight: the model stays optimal."""
    X, y, weight, C = repeated_case(seed)
    before = WeightedSVC(C, gamma=0.5).fit(X, y, sample_weight=weight)
    new = np.random.default_rng(seed).normal(size=(200, X.shape[1]))
    label = np.sign(before.decision_function(new))
    # Relative to every optimal offset, else the new row may choose among them.
    lower, upper = before.intercept_interval_ - before.intercept_
    beyond = np.where(
        label > 0,
        before.decision_function(new) + lower,
        -(before.decision_function(new) + upper),
    )
    chosen = np.flatnonzero(beyond > 1 + 1e-6)[:5]
    after = WeightedSVC(C, gamma=0.5).fit(
        np.vstack([X, new[chosen]]),
        np.r_[y, label[chosen]],
        sample_weight=np.r_[weight, np.full(len(chosen), 7.0)],
    )
    assert (after.alpha_[len(y) :] <= 1e-9).all()
    np.testing.assert_allclose(
        before.decision_function(X), after.decision_function(X), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("left", [1, -1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_one_class_left_by_the_weights(kernel, left):
    X, y, weight = noisy(40)
    weight[y != left] = 0.0
    model = WeightedSVC(**KERNELS[kernel]).fit(X, y, sample_weight=weight)
    assert model.intercept_.tolist() == [float(left)]
    expected = [1.0, np.inf] if left == 1 else [-np.inf, -1.0]
    assert model.intercept_interval_.tolist() == expected
    assert model.support_.size == 0
    assert model.support_vectors_.shape == (0, 4)
    assert model.n_support_.tolist() == [0, 0]
    assert model.primal_objective_ == model.dual_objective_ == 0.0
    np.testing.assert_array_equal(model.decision_function(X), np.full(40, float(left)))
    np.testing.assert_array_equal(model.predict(X), np.full(40, left))
    np.testing.assert_array_equal(model.classes_, [-1, 1])
    np.testing.assert_array_equal(model.slack_, np.where(y == left, 0.0, 2.0))


def test_subset_of_a_precomputed_kernel_by_zero_weights():
    """SVC numbers the rows that are left instead, and predicts wrongly without a word."""
    X, y, weight = noisy(100)
    weight[np.random.default_rng(2).random(100) < 0.4] = 0.0
    K = rbf_kernel(X, gamma=0.5)
    given_kernel = WeightedSVC(kernel="precomputed").fit(K, y, sample_weight=weight)
    from_rows = WeightedSVC(gamma=0.5).fit(X, y, sample_weight=weight)
    kept = np.flatnonzero(weight)
    without = SVC(gamma=0.5, tol=1e-8).fit(X[kept], y[kept], sample_weight=weight[kept])
    assert np.ptp(from_rows.decision_function(X)) > 1.0
    np.testing.assert_allclose(
        given_kernel.decision_function(K), from_rows.decision_function(X), rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        given_kernel.decision_function(K), without.decision_function(X), rtol=0, atol=1e-5
    )
    np.testing.assert_array_equal(given_kernel.predict(K), without.predict(X))
    np.testing.assert_array_equal(given_kernel.support_, from_rows.support_)
    assert given_kernel.support_.max() > len(kept)


# ---- Threads ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_thousand_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = np.where(X[:, :3].sum(axis=1) + X[:, 3] ** 2 - 1 + rng.normal(size=3000) > 0, 1.0, -1.0)
    return X, y, rng.exponential(size=3000)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_threads_do_not_change_a_bit(three_thousand_rows, kernel, tol, monkeypatch):
    X, y, weight = three_thousand_rows
    # More threads than processors give the same too; the machine may have one only.
    monkeypatch.setattr(lupi.threads.joblib, "cpu_count", lambda: 3)
    results = []
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads):
            assert lupi.threads.n_threads(1e9) == threads
            model = WeightedSVC(kernel=kernel, gamma=0.05, tol=tol).fit(X, y, sample_weight=weight)
            results.append((model.alpha_, model.intercept_, model.decision_function(X[:500])))
    assert np.count_nonzero(results[0][0]) > 300
    for other in results[1:]:
        for one_thread, more in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one_thread, more)


def test_the_same_fit_twice_gives_the_same_bits(three_thousand_rows):
    X, y, weight = three_thousand_rows
    one, other = (WeightedSVC().fit(X, y, sample_weight=weight) for _ in range(2))
    np.testing.assert_array_equal(one.alpha_, other.alpha_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


def test_fits_at_the_same_time_do_not_meet():
    """The core has no state: four threads of Python, each with its own problem."""
    problems = [noisy(300, seed=seed) for seed in range(8)]

    def alpha(problem):
        X, y, weight = problem
        return WeightedSVC(C=3.0).fit(X, y, sample_weight=weight).alpha_

    alone = [alpha(problem) for problem in problems]
    together = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(alpha)(problem) for problem in problems
    )
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- Forms of the input -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [120, 1200])
def test_float32_rows(kernel, n):
    """float32 rows are the numbers they hold: the same as these numbers in float64."""
    X, y, weight = noisy(n)
    X = X.astype(np.float32)
    options = {"gamma": 0.3, **KERNELS[kernel], "tol": 1e-6}
    one = WeightedSVC(**options).fit(X, y, sample_weight=weight)
    other = WeightedSVC(**options).fit(X.astype(np.float64), y, sample_weight=weight)
    assert one.support_vectors_.dtype == np.float32
    assert one.decision_function(X).dtype == np.float64
    assert_same_function(one, other, X, 1e-5)
    # float16 and integers are converted.
    halves = X.astype(np.float16)
    one = WeightedSVC(**options).fit(halves, y)
    other = WeightedSVC(**options).fit(halves.astype(np.float64), y)
    assert_same_function(one, other, halves, 1e-5)


def sparse_noisy(n=150, d=30, seed=0):
    X, _, weight = noisy(n, d, seed)
    X *= np.random.default_rng([seed, 1]).random((n, d)) < 0.3
    return X, np.where(X[:, 0] + X[:, 1] + X[:, 2] > 0.1, 1, -1), weight


def with_int64_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def unsorted_indices(X):
    X = sp.csr_array(X)
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
    X.has_sorted_indices = False
    return X


SPARSE = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "int64 indices": with_int64_indices,
    "float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csc_array": sp.csc_array,
    "coo_matrix": sp.coo_matrix,
    "unsorted": unsorted_indices,
}


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("kernel", KERNELS)
def test_sparse_rows(kernel, form):
    X, y, weight = sparse_noisy()
    if form == "float32":
        X = X.astype(np.float32).astype(np.float64)
    S = SPARSE[form](X)
    dense = WeightedSVC(**KERNELS[kernel]).fit(X, y, sample_weight=weight)
    sparse = WeightedSVC(**KERNELS[kernel]).fit(S, y, sample_weight=weight)
    f = dense.decision_function(X)
    assert np.ptp(f) > 0.1
    np.testing.assert_allclose(sparse.decision_function(S), f, rtol=0, atol=1e-8)
    # A model of one form judges rows of the other.
    np.testing.assert_allclose(sparse.decision_function(X), f, rtol=0, atol=1e-8)
    np.testing.assert_allclose(dense.decision_function(S), f, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(sparse.support_, dense.support_)
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(
        sparse.support_vectors_.toarray(), dense.support_vectors_, rtol=0, atol=0
    )
    if kernel == "linear":
        np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=0, atol=1e-8)


def test_sparse_rows_multiclass_and_large():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400] % 4
    one = WeightedSVC().fit(X, y)
    other = WeightedSVC().fit(sp.csr_array(X), y)
    assert_same_function(one, other, X, 1e-7)
    X, y, weight = sparse_noisy(1300)
    one = WeightedSVC(tol=1e-7).fit(X, y, sample_weight=weight)
    other = WeightedSVC(tol=1e-7).fit(sp.csr_array(X), y, sample_weight=weight)
    assert_same_function(one, other, X, 1e-6)


def test_memory_layouts(tmp_path):
    X, y, weight = noisy()
    model = WeightedSVC().fit(X, y, sample_weight=weight)

    path = tmp_path / "rows.dat"
    on_disk = np.memmap(path, dtype=np.float64, mode="w+", shape=X.shape)
    on_disk[:] = X
    on_disk.flush()
    read_only = np.memmap(path, dtype=np.float64, mode="r", shape=X.shape)
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((len(X), 8))
    wide[:, ::2] = X
    layouts = {
        "Fortran order": np.asfortranarray(X),
        "read-only memmap": read_only,
        "read-only": frozen,
        "every second column": wide[:, ::2],
        "reversed rows twice": X[::-1].copy()[::-1],
        "list": X.tolist(),
        "big-endian": X.astype(">f8"),
    }
    y_frozen, weight_frozen = y.copy(), weight.copy()
    y_frozen.flags.writeable = weight_frozen.flags.writeable = False
    for name, Z in layouts.items():
        other = WeightedSVC().fit(Z, y_frozen, sample_weight=weight_frozen)
        np.testing.assert_array_equal(model.alpha_, other.alpha_, err_msg=name)
        np.testing.assert_array_equal(
            model.decision_function(X), other.decision_function(Z), err_msg=name
        )
    K = rbf_kernel(X, gamma=0.5)
    K_frozen = K.copy()
    K_frozen.flags.writeable = False
    one = WeightedSVC(kernel="precomputed").fit(K, y)
    for Z in (np.asfortranarray(K), K_frozen):
        other = WeightedSVC(kernel="precomputed").fit(Z, y)
        np.testing.assert_allclose(one.alpha_, other.alpha_, rtol=0, atol=1e-12)


def test_inputs_are_left_as_they_were():
    X, y, weight = sparse_noisy()
    S = unsorted_indices(X)
    copies = [X.copy(), y.copy(), weight.copy(), S.data.copy(), S.indices.copy()]
    WeightedSVC().fit(X, y, sample_weight=weight)
    WeightedSVC().fit(S, y, sample_weight=weight).predict(S)
    for now, before in zip([X, y, weight, S.data, S.indices], copies, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames(make):
    X, y, weight = noisy()
    names = ["age", "height", "weight", "pulse"]
    frame = make(dict(zip(names, X.T, strict=True)))
    series = pd.Series if make is pd.DataFrame else pl.Series
    model = WeightedSVC().fit(frame, series(y), sample_weight=series(weight))
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 4
    plain = WeightedSVC().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.alpha_, plain.alpha_)
    np.testing.assert_array_equal(model.decision_function(frame), plain.decision_function(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_pandas_weights_are_taken_by_position():
    """A Series with another index holds the same weights in the same order."""
    X, y, weight = noisy()
    backwards = pd.Series(weight, index=np.arange(len(y))[::-1])
    one = WeightedSVC().fit(X, y, sample_weight=backwards)
    np.testing.assert_allclose(one.instance_weights_, weight, rtol=4e-16, atol=0)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([0, 1]),
        np.array([-1.0, 1.0]),
        np.array([7, 300], dtype=np.uint16),
    ],
    ids=lambda a: str(a.dtype),
)
def test_labels(labels):
    X, y, weight = noisy()
    named = labels[(y > 0).astype(int)]
    model = WeightedSVC().fit(X, named, sample_weight=weight)
    plain = WeightedSVC().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.classes_, labels)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    predicted = model.predict(X)
    assert predicted.dtype == named.dtype
    np.testing.assert_array_equal(predicted, labels[(plain.predict(X) > 0).astype(int)])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("choice", ["dict", "balanced"])
def test_class_weight(classes, choice):
    """A class weight multiplies the weights of its rows; balanced counts weights, not rows."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X[y < classes])[:, :3]
    y = np.array(["a", "b", "c"])[y[y < classes]]
    weight = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float)
    if choice == "dict":
        chosen = {"a": 2.0, "b": 0.5}  # a class that is not named counts once
        factor = np.array([chosen.get(label, 1.0) for label in y])
    else:
        chosen = "balanced"
        totals = {label: weight[y == label].sum() for label in np.unique(y)}
        factor = np.array([weight.sum() / (classes * totals[label]) for label in y])
    by_class = WeightedSVC(gamma=0.3, class_weight=chosen).fit(X, y, sample_weight=weight)
    by_row = WeightedSVC(gamma=0.3).fit(X, y, sample_weight=weight * factor)
    assert_same_function(by_class, by_row, X, 1e-8)
    # And it is something else than no class weight.
    plain = WeightedSVC(gamma=0.3).fit(X, y, sample_weight=weight)
    assert np.abs(plain.decision_function(X) - by_row.decision_function(X)).max() > 1e-2


def test_balanced_class_weight_and_repeated_rows():
    X, y, _ = noisy(80)
    weight = np.random.default_rng(1).integers(0, 4, size=80)
    one = WeightedSVC(class_weight="balanced").fit(X, y, sample_weight=weight)
    other = WeightedSVC(class_weight="balanced").fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    assert_same_function(one, other, X, 1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_balanced_class_weight_of_a_class_without_weight(classes):
    """A class whose rows all have weight zero is absent: it neither counts nor divides by zero."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    weight = np.where(y == 0, 0.0, 1.0)
    weight[-5:] = 3.0
    model = WeightedSVC(class_weight="balanced", gamma=0.3).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.decision_function(X)).all()
    assert not set(model.predict(X)) & {0}
    if classes == 3:
        # The pair of the two other classes is weighted so that both have the same total.
        pair = model.solutions_[2]
        c = pair.solution.dual.alpha + pair.solution.dual.beta
        label = y[pair.rows]
        assert c[label == 1].sum() == pytest.approx(c[label == 2].sum(), rel=1e-12)


def test_scalar_and_missing_weights():
    X, y, _ = noisy()
    plain = WeightedSVC(C=6.0).fit(X, y)
    for weight in (np.full(len(y), 2.0), 2.0, [2] * len(y)):
        other = WeightedSVC(C=3.0, gamma="scale").fit(X, y, sample_weight=weight)
        assert_same_function(plain, other, X, 1e-8)


def test_gamma_auto_and_scale():
    X, y, _ = noisy()
    for name, value in (("auto", 1 / 4), ("scale", 1 / (4 * X.var()))):
        one = WeightedSVC(gamma=name).fit(X, y)
        other = WeightedSVC(gamma=value).fit(X, y)
        assert_same_function(one, other, X, 1e-9)


@pytest.mark.parametrize("n", [120, 1200])
@pytest.mark.parametrize("classes", [2, 3])
def test_given_kernels_are_the_kernel(n, classes):
    X, _, weight = noisy(n)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.random.default_rng(9).normal(size=n)
    y = np.digitize(score, [0.0] if classes == 2 else [-0.5, 0.5])
    options = {"tol": 1e-6, "C": 2.0}
    new = np.random.default_rng(5).normal(size=(50, 4))
    expected = WeightedSVC(gamma=0.5, **options).fit(X, y, sample_weight=weight)
    f = expected.decision_function(new)

    K = rbf_kernel(X, gamma=0.5)
    precomputed = WeightedSVC(kernel="precomputed", **options).fit(K, y, sample_weight=weight)
    np.testing.assert_allclose(
        precomputed.decision_function(rbf_kernel(new, X, gamma=0.5)), f, rtol=0, atol=1e-5
    )

    def callable_kernel(A, B):
        return rbf_kernel(A, B, gamma=0.5)

    called = WeightedSVC(kernel=callable_kernel, **options).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(called.decision_function(new), f, rtol=0, atol=1e-5)
    for other in (precomputed, called):
        np.testing.assert_allclose(
            other.dual_objective_, expected.dual_objective_, rtol=1e-6, atol=0
        )


# ---- Layout of the fitted arrays ----------------------------------------------------------------


@pytest.mark.parametrize("data", ["iris", "wine", "digits"])
def test_multiclass_layout_is_that_of_svc(data):
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[data](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:400]  # classes mixed
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    options = {"kernel": "rbf", "gamma": 0.1, "tol": 1e-8}
    ours = WeightedSVC(**options).fit(X, y, sample_weight=weight)
    theirs = SVC(**options).fit(X, y, sample_weight=weight)
    k = len(theirs.classes_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape == (k - 1, len(ours.support_))
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=1e-4)
    assert (np.sign(ours.dual_coef_) == np.sign(theirs.dual_coef_)).mean() > 0.99
    assert ours.intercept_.shape == theirs.intercept_.shape == (k * (k - 1) // 2,)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-5)
    assert ours.dual_coef_.dtype == theirs.dual_coef_.dtype
    assert ours.support_.dtype == theirs.support_.dtype
    assert ours.n_support_.dtype == theirs.n_support_.dtype
    assert ours.intercept_interval_.shape == (k * (k - 1) // 2, 2)
    assert ours.duality_gap_.shape == (k * (k - 1) // 2,)


def test_multiclass_linear_layout_is_that_of_svc():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    for chosen in (y >= 0, y < 2):
        ours = WeightedSVC(kernel="linear", tol=1e-8).fit(
            X[chosen], y[chosen], sample_weight=weight[chosen]
        )
        theirs = SVC(kernel="linear", tol=1e-8).fit(
            X[chosen], y[chosen], sample_weight=weight[chosen]
        )
        assert ours.coef_.shape == theirs.coef_.shape
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-4)
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=1e-4)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-4)
    with pytest.raises(AttributeError, match="linear"):
        WeightedSVC().fit(X, y).coef_  # noqa: B018


def test_multiclass_solutions_are_those_of_the_pairs():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, size=len(y)).round()
    model = WeightedSVC(gamma=0.2).fit(X, y, sample_weight=weight)
    assert [pair.classes for pair in model.solutions_] == [(0, 1), (0, 2), (1, 2)]
    assert not hasattr(model, "alpha_")
    for p, pair in enumerate(model.solutions_):
        np.testing.assert_array_equal(pair.rows, np.flatnonzero(np.isin(y, pair.classes)))
        # Two classes: the positive one is the second in order, so the pair is mirrored.
        alone = WeightedSVC(gamma=0.2).fit(X[pair.rows], y[pair.rows], weight[pair.rows])
        np.testing.assert_allclose(pair.solution.dual.alpha, alone.alpha_, rtol=0, atol=1e-7)
        assert model.intercept_[p] == pytest.approx(-alone.intercept_[0], abs=1e-8)
        assert model.dual_objective_[p] == pytest.approx(alone.dual_objective_, abs=1e-9)
        assert (pair.solution.dual.alpha[weight[pair.rows] == 0] == 0).all()


def test_pair_without_weight():
    """Two of three classes without weight: one pair is empty, the others have one class."""
    X, y = load_iris(return_X_y=True)
    model = WeightedSVC().fit(X, y, sample_weight=(y == 1).astype(float))
    assert (model.predict(X) == 1).all()
    assert model.intercept_.tolist() == [-1.0, 0.0, 1.0]
    assert model.intercept_interval_.tolist() == [[-np.inf, -1], [-np.inf, np.inf], [1, np.inf]]


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_break_ties_and_shapes(shape):
    X, y = load_iris(return_X_y=True)
    model = WeightedSVC(C=0.01, decision_function_shape=shape).fit(X, y)
    reference = SVC(C=0.01, decision_function_shape=shape, tol=1e-8).fit(X, y)
    assert model.decision_function(X).shape == (150, 3)
    if shape == "ovr":
        for m in (model, reference):
            m.break_ties = True
        np.testing.assert_array_equal(model.predict(X), reference.predict(X))
        np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
    else:
        model.break_ties = True
        with pytest.raises(ValueError, match="break_ties must be False"):
            model.predict(X)


# ---- Living in scikit-learn ---------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_copies_of_a_model(tmp_path, classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], np.array(["a", "b", "c"])[y[y < classes]]
    weight = np.random.default_rng(0).integers(0, 3, size=len(y))
    frame = pd.DataFrame(X, columns=list("pqrs"))
    model = WeightedSVC(C=2.0, class_weight={"a": 2.0}).fit(frame, y, sample_weight=weight)
    joblib.dump(model, tmp_path / "model.joblib")
    copies = [
        pickle.loads(pickle.dumps(model)),
        pickle.loads(pickle.dumps(model, protocol=2)),
        joblib.load(tmp_path / "model.joblib"),
        joblib.load(_dumped(model, tmp_path / "mapped.joblib"), mmap_mode="r"),
    ]
    for copy in copies:
        np.testing.assert_array_equal(copy.decision_function(frame), model.decision_function(frame))
        np.testing.assert_array_equal(copy.predict(frame), model.predict(frame))
        assert copy.get_params() == model.get_params()
        # The training rows stay behind.
        assert sorted(vars(copy)) == sorted(vars(model).keys() - {"_problem"})
        gap = np.atleast_1d(copy.duality_gap_)
        np.testing.assert_array_equal(gap, np.atleast_1d(model.duality_gap_))
        if classes == 2:
            assert copy.solution_.status is model.solution_.status
            np.testing.assert_array_equal(copy.solution_.dual.alpha, model.alpha_)
    fresh = clone(model)
    assert not hasattr(fresh, "support_")
    fresh.fit(frame, y, sample_weight=weight)
    np.testing.assert_array_equal(fresh.decision_function(frame), model.decision_function(frame))


def _dumped(model, path):
    joblib.dump(model, path)
    return path


def test_pickle_does_not_hold_the_training_rows():
    """Rows that are no support vectors, and the kernel, stay behind."""
    X, y, _ = noisy(1000, 50)
    y = np.sign(X[:, 0]).astype(int)
    X[:, 0] += 3 * y
    model = WeightedSVC(kernel="linear").fit(X, y)
    assert len(model.support_) < 100
    assert len(pickle.dumps(model)) < 0.5 * X.nbytes


def test_fitting_again_forgets():
    X, y, weight = noisy()
    model = WeightedSVC().fit(*load_iris(return_X_y=True))
    model.fit(X, y, sample_weight=weight)
    fresh = WeightedSVC().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.decision_function(X), fresh.decision_function(X))
    assert set(vars(model)) == set(vars(fresh))


def test_grid_search_in_a_pipeline():
    X, y = load_wine(return_X_y=True)
    X[:, 0] *= 1000
    grid = {"weightedsvc__C": [0.01, 1.0], "weightedsvc__kernel": ["linear", "rbf"]}
    ours = GridSearchCV(make_pipeline(StandardScaler(), WeightedSVC(gamma=0.1)), grid, cv=3)
    ours.fit(X, y)
    theirs = GridSearchCV(
        make_pipeline(StandardScaler(), SVC(gamma=0.1)),
        {key.replace("weightedsvc", "svc"): value for key, value in grid.items()},
        cv=3,
    ).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12
    )
    assert ours.best_score_ > 0.95


def test_grid_search_slices_weights_and_precomputed_kernels():
    X, y, weight = noisy(90)
    K = rbf_kernel(X, gamma=0.5)
    weight[::3] = 0.0
    search = GridSearchCV(WeightedSVC(kernel="precomputed"), {"C": [0.1, 10.0]}, cv=3)
    search.fit(K, y, sample_weight=weight)
    direct = GridSearchCV(WeightedSVC(gamma=0.5), {"C": [0.1, 10.0]}, cv=3)
    direct.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"]
    )
    best = search.best_estimator_
    np.testing.assert_allclose(best.instance_weights_, best.C * weight, rtol=4e-16, atol=0)


def test_cross_validation_in_processes_equals_one_process():
    X, y, _ = noisy(200)
    alone = cross_val_score(WeightedSVC(), X, y, cv=4, n_jobs=1)
    together = cross_val_score(WeightedSVC(), X, y, cv=4, n_jobs=2)
    np.testing.assert_array_equal(alone, together)


def test_calibration():
    X, y, weight = noisy(300)
    ours = CalibratedClassifierCV(WeightedSVC(gamma=0.2), ensemble=False, cv=3)
    theirs = CalibratedClassifierCV(SVC(gamma=0.2, tol=1e-8), ensemble=False, cv=3)
    ours.fit(X, y, sample_weight=weight)
    theirs.fit(X, y, sample_weight=weight)
    probability = ours.predict_proba(X)
    np.testing.assert_allclose(probability, theirs.predict_proba(X), rtol=0, atol=1e-4)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-12)
    assert np.corrcoef(probability[:, 1], ours.estimator.fit(X, y).decision_function(X))[0, 1] > 0.9


# ---- Warm starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", HAND_SOLVED, ids=repr)
def test_warm_start_at_the_solution_stays_there(case):
    first = wsvm.solve(case.problem(), tol=1e-9)
    again = wsvm.solve(case.problem(), init=first, tol=1e-9)
    np.testing.assert_allclose(again.dual.alpha, first.dual.alpha, rtol=0, atol=1e-12)
    assert again.n_iter <= 1
    assert again.primal.b_interval == pytest.approx(first.primal.b_interval, abs=1e-12)


@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize("factor", [0.1, 0.9, 1.1, 10.0])
def test_warm_start_from_other_weights(n, factor):
    """The start of another C is cut to the new bounds and balanced, and the answer is the same."""
    X, y, weight = noisy(n)
    case = Case("first", "rbf", X, y, weight, {"gamma": 0.5})
    near = Case("near", "rbf", X, y, factor * weight, {"gamma": 0.5})
    first = wsvm.solve(case.problem(), tol=1e-6)
    cold = wsvm.solve(near.problem(), tol=1e-6)
    warm = wsvm.solve(near.problem(), init=first, tol=1e-6)
    assert warm.status.converged
    assert warm.dual_objective == pytest.approx(cold.dual_objective, rel=1e-7)
    assert abs(near.y @ warm.dual.alpha) <= 1e-12 * warm.dual.alpha.sum()
    if factor in (0.9, 1.1):
        assert warm.n_iter < cold.n_iter


@few
@given(seed=st.integers(0, 400), start=st.sampled_from(["full", "random", "infeasible", "empty"]))
def test_warm_start_from_anywhere(seed, start):
    case = random_wsvm(seed)
    cold = wsvm.solve(case.problem(), tol=1e-9)
    rng = np.random.default_rng(seed)
    alpha = {
        "full": case.c.copy(),
        "random": case.c * rng.random(case.n),
        "infeasible": case.c.max() * rng.normal(size=case.n) * 100,
        "empty": np.zeros(case.n),
    }[start]
    init = replace(cold, dual=WSVMDual(alpha, case.c - alpha))
    warm = wsvm.solve(case.problem(), init=init, tol=1e-9)
    assert warm.status.converged, case
    assert (warm.dual.alpha >= 0).all()
    assert (warm.dual.alpha <= case.c).all()
    assert abs(case.y @ warm.dual.alpha) <= 1e-12 * max(1e-300, case.c.sum())
    scale = max(1.0, abs(cold.dual_objective))
    assert abs(warm.dual_objective - cold.dual_objective) <= 1e-6 * scale, case
    if start == "infeasible":
        assert (init.dual.alpha == alpha).all(), "the start was changed"


def test_numpy_kernels_of_the_cases_are_those_of_scikit_learn():
    """The tests lean on this function."""
    X, Z = noisy(20)[0], noisy(15, seed=1)[0]
    for name, expected in (
        ("linear", linear_kernel(X, Z)),
        ("rbf", rbf_kernel(X, Z, gamma=0.3)),
        ("poly", polynomial_kernel(X, Z, degree=3, gamma=0.3, coef0=1.0)),
        ("sigmoid", sigmoid_kernel(X, Z, gamma=0.3, coef0=1.0)),
    ):
        coef0 = 0.0 if name == "rbf" else 1.0
        got = numpy_kernel(name, X, Z, gamma=0.3, degree=3, coef0=coef0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
