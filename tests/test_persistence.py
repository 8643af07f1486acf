"""Fitted models elsewhere: as scikit-learn's own, on disk, and damaged on the way."""

import json
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.solution import Status

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
SCORE = X[:, 0] + X[:, 1] * X[:, 2]
BINARY = np.where(SCORE + 0.5 * rng.normal(size=60) > 0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(SCORE + 0.3 * rng.normal(size=60), [-0.5, 0.5])]
X_PRIV = np.c_[np.abs(SCORE), rng.normal(size=60)]
NEW = rng.normal(size=(200, 4))
WEIGHT = rng.integers(0, 4, size=60).astype(float)


def smooth(A, B):
    """A kernel as a callable; at the top of the module, so that it can be pickled."""
    return rbf_kernel(A, B, gamma=0.3)


def fitted(machine, labels=BINARY, rows=X, **parameters):
    if machine is WeightedSVC:
        return WeightedSVC(**parameters).fit(rows, labels, sample_weight=WEIGHT)
    return SVMPlusClassifier(**parameters).fit(rows, labels, sample_weight=WEIGHT, X_priv=X_PRIV)


MACHINES = [WeightedSVC, SVMPlusClassifier]
KERNELS = ["linear", "poly", "rbf", "sigmoid", smooth]

# ---- to_sklearn ---------------------------------------------------------------------------------


def assert_exported(model, rows, exact_type):
    exported = model.to_sklearn()
    assert type(exported) is exact_type
    expected = model.decision_function(rows)
    np.testing.assert_allclose(
        exported.decision_function(rows), expected, rtol=0, atol=1e-12 * max(1, np.ptp(expected))
    )
    np.testing.assert_array_equal(exported.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(exported.classes_, model.classes_)
    assert exported.n_features_in_ == model.n_features_in_
    # A copy of its own: what is done to it does not come back.
    exported.intercept_ += 1.0
    np.testing.assert_array_equal(model.decision_function(rows), expected)
    return exported


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # sigmoid
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("labels", [BINARY, THREE, SCORE > 0], ids=["two", "three", "bool"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_to_sklearn(machine, kernel, labels, shape):
    # Narrow enough for tanh(gamma <x, z>) to be nearly linear, and not far from semidefinite.
    parameters = {"gamma": 0.02} if kernel == "sigmoid" else {"coef0": 0.2}
    model = fitted(
        machine, labels, kernel=kernel, C=3.0, decision_function_shape=shape, **parameters
    )
    assert len(model.support_)
    linear = kernel == "linear" and len(model.classes_) == 2
    exported = assert_exported(model, NEW, LinearSVC if linear else SVC)
    if not linear:
        np.testing.assert_array_equal(exported.n_support_, model.n_support_)
        np.testing.assert_array_equal(exported.dual_coef_, model.dual_coef_)
        if not callable(kernel):
            np.testing.assert_array_equal(exported.support_, model.support_)
            np.testing.assert_array_equal(exported.support_vectors_, model.support_vectors_)
    copy = pickle.loads(pickle.dumps(exported))
    np.testing.assert_array_equal(copy.predict(NEW), exported.predict(NEW))


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("machine", MACHINES)
def test_to_sklearn_from_sparse_rows(machine, kernel, labels):
    model = fitted(machine, labels, rows=sp.csr_array(np.where(X > 0, X, 0)), kernel=kernel)
    linear = kernel == "linear" and len(model.classes_) == 2
    for rows in (NEW, sp.csr_array(np.where(NEW > 0, NEW, 0)), sp.csr_matrix(NEW)):
        assert_exported(model, rows, LinearSVC if linear else SVC)


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
@pytest.mark.parametrize("machine", MACHINES)
def test_to_sklearn_with_a_given_kernel(machine, labels):
    model = fitted(machine, labels, rows=smooth(X, X), kernel="precomputed")
    assert_exported(model, smooth(NEW, X), SVC)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_to_sklearn_of_many_classes(shape):
    """LIBSVM's compressed coefficients of ten classes, and ties broken by decision values."""
    digits, labels = load_digits(return_X_y=True)
    model = WeightedSVC(decision_function_shape=shape, break_ties=shape == "ovr")
    assert_exported(model.fit(digits[:600], labels[:600]), digits[600:], SVC)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed", smooth])
@pytest.mark.parametrize("machine", MACHINES)
def test_to_sklearn_without_support_vectors(machine, kernel, sparse):
    """One class of weight zero leaves a constant classifier."""
    if sparse and (kernel == "precomputed" or callable(kernel)):
        sparse = False
    rows, new = (smooth(X, X), smooth(NEW, X)) if kernel == "precomputed" else (X, NEW)
    rows = sp.csr_array(rows) if sparse else rows
    extra = {} if machine is WeightedSVC else {"X_priv": X_PRIV}
    weight = np.where(BINARY == "yes", 0.0, 1.0)
    model = machine(kernel=kernel).fit(rows, BINARY, sample_weight=weight, **extra)
    assert len(model.support_) == 0
    exported = assert_exported(model, new, LinearSVC if kernel == "linear" else SVC)
    assert set(exported.predict(new)) == {"no"}
    # All rows of two of three classes.
    weight = np.where(THREE == "a", 1.0, 0.0)
    model = machine(kernel=kernel).fit(rows, THREE, sample_weight=weight, **extra)
    assert_exported(model, new, SVC)


def test_to_sklearn_keeps_names_and_parameters():
    frame = pd.DataFrame(X, columns=list("pqrs"))
    model = fitted(SVMPlusClassifier, rows=frame, C=7.0, class_weight={"yes": 2.0})
    exported = assert_exported(model, pd.DataFrame(NEW, columns=list("pqrs")), SVC)
    assert exported.feature_names_in_.tolist() == list("pqrs")
    assert exported.C == 7.0
    assert exported.gamma == model._gamma
    with pytest.raises(ValueError, match="feature names"):
        exported.predict(frame[["q", "p", "r", "s"]])
    # Its parameters fit it anew.
    again = clone(exported).fit(X, BINARY)
    assert again.gamma == exported.gamma


def test_to_sklearn_of_float32_rows():
    model = fitted(WeightedSVC, rows=X.astype(np.float32))
    assert model.support_vectors_.dtype == np.float32
    exported = model.to_sklearn()
    np.testing.assert_allclose(
        exported.decision_function(NEW), model.decision_function(NEW), rtol=0, atol=1e-6
    )


# ---- Files --------------------------------------------------------------------------------------

# skops knows scipy's sparse matrices, not its sparse arrays.
OURS = ("lupi.", "scipy.sparse._csr.csr_array")


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("machine", MACHINES)
def test_copies_are_the_model(machine, sparse, labels, tmp_path):
    settings = {"preprocessor_priv": StandardScaler()} if machine is SVMPlusClassifier else {}
    rows = sp.csr_array(X) if sparse else pd.DataFrame(X, columns=list("pqrs"))
    new = sp.csr_array(NEW) if sparse else pd.DataFrame(NEW, columns=list("pqrs"))
    model = fitted(machine, labels, rows=rows, **settings)
    joblib.dump(model, tmp_path / "model.joblib")
    written = skops.io.dumps(model)
    unknown = skops.io.get_untrusted_types(data=written)
    assert unknown
    assert all(name.startswith(OURS) for name in unknown), unknown
    for copy in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        joblib.load(tmp_path / "model.joblib", mmap_mode="r"),
        skops.io.loads(written, trusted=unknown),
    ):
        np.testing.assert_array_equal(copy.decision_function(new), model.decision_function(new))
        np.testing.assert_array_equal(copy.predict(new), model.predict(new))
        if machine is SVMPlusClassifier:
            np.testing.assert_array_equal(copy.predict_slack(X_PRIV), model.predict_slack(X_PRIV))
        found = copy.solution_ if len(model.classes_) == 2 else copy.solutions_[0].solution
        kept = model.solution_ if len(model.classes_) == 2 else model.solutions_[0].solution
        assert found.status is kept.status is Status.OPTIMAL
        assert found.gap == kept.gap
        np.testing.assert_array_equal(found.dual.alpha, kept.dual.alpha)
        exported = copy.to_sklearn().decision_function(new)
        np.testing.assert_allclose(exported, model.decision_function(new), rtol=0, atol=1e-12)


def test_skops_trusts_nothing_of_ours_unasked():
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException):
        skops.io.loads(skops.io.dumps(fitted(WeightedSVC)))


def test_exported_model_in_skops_needs_no_trust():
    exported = fitted(SVMPlusClassifier).to_sklearn()
    written = skops.io.dumps(exported)
    assert skops.io.get_untrusted_types(data=written) == []
    copy = skops.io.loads(written)
    np.testing.assert_array_equal(copy.predict(NEW), exported.predict(NEW))


def test_an_unknown_status_is_refused():
    state = fitted(WeightedSVC).solution_.__getstate__()
    assert state["status"] == "optimal"
    solution = object.__new__(type(fitted(WeightedSVC).solution_))
    with pytest.raises(ValueError, match="perfect"):
        solution.__setstate__({**state, "status": "perfect"})


# ---- Damage -------------------------------------------------------------------------------------

# In a process of its own: what is looked for is a crash. Every fitted attribute and every parameter
# is replaced, cut, stretched, retyped or filled with values out of range; whatever happens, each
# method raises ValueError or returns numbers.
FUZZ = """
import faulthandler, json, sys, warnings
import numpy as np, scipy.sparse as sp, pandas as pd
from sklearn.preprocessing import StandardScaler
from lupi import SVMPlusClassifier, WeightedSVC
import copy

faulthandler.enable()
warnings.simplefilter("ignore")
seed, count = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(seed)
n = 24
X = rng.normal(size=(n, 3))
P = rng.normal(size=(n, 2))
names = pd.DataFrame(X, columns=list("abc"))
models = []
for labels in (np.arange(n) % 2, np.arange(n) % 3):
    for rows, new, kernel in (
        (names, names, "rbf"), (sp.csr_array(X), sp.csr_array(X), "poly"),
        (X @ X.T, X @ X.T, "precomputed"), (X, X, "linear"), (X, X, lambda A, B: A @ B.T),
    ):
        models.append((WeightedSVC(kernel=kernel).fit(rows, labels), new, None))
        for priv, of_priv, prep in (
            (P, "rbf", None), (P @ P.T, "precomputed", None), (P, "poly", StandardScaler()),
            (sp.csr_array(P), "linear", None),
        ):
            model = SVMPlusClassifier(kernel=kernel, kernel_priv=of_priv, preprocessor_priv=prep)
            models.append((model.fit(rows, labels, X_priv=priv), new, priv))

EXTREMES = [np.nan, np.inf, -np.inf, 1e308, -1.0, 0.0, 5e-324]
THINGS = [None, "text", "", 3, -1, 0, 2**70, -(2**70), 1.5, np.nan, np.inf, True, (), [], {},
          (1, 2), [0.0], np.zeros(0), np.zeros((0, 0)), np.zeros((2, 3, 4)), object(), "rbf",
          np.array(1.0), "precomputed", "linear", "scale", b"bytes", 1j, sp.csr_array((3, 4)),
          ..., np.array(["a", "b"]), np.array([None, None]), np.int8(3)]


def damaged(value):
    kind = rng.integers(5)
    if sp.issparse(value) and kind < 4:
        value = value.copy()
        part = getattr(value, str(rng.choice(["data", "indices", "indptr"])))
        if len(part):
            at = rng.integers(len(part))
            if part.dtype.kind == "f":
                part[at] = EXTREMES[rng.integers(len(EXTREMES))]
            else:
                part[at] = rng.choice([-1, 0, 2, 5, 1000, 2**31 - 1, -2**31])
        return value
    if isinstance(value, np.ndarray) and kind < 4:
        value = value.copy()
        if kind == 0 and value.size:
            at = rng.integers(value.size)
            if value.dtype.kind == "f":
                value.ravel()[at] = EXTREMES[rng.integers(len(EXTREMES))]
            elif value.dtype.kind == "i":
                value.ravel()[at] = rng.choice([-1, 0, 5, 10**6, 2**31 - 1, -2**31])
            elif value.dtype.kind == "O":
                value.ravel()[at] = THINGS[rng.integers(len(THINGS))]
            return value
        if kind == 1:
            return [value[:-1], value[:0], value[..., :-1], value[None], value[..., None],
                    np.concatenate([value, value]), value.ravel(), value.T][rng.integers(8)]
        if kind == 2:
            kinds = [np.float32, np.float16, np.int64, np.int8, object, complex, "U5", bool]
            return value.astype(kinds[rng.integers(len(kinds))])
        return [value.tolist(), np.asfortranarray(value), value[::-1], value[::2],
                np.ma.masked_array(value), sp.csr_array(np.atleast_2d(value))
                if value.dtype.kind in "fi" and value.ndim <= 2 else None][rng.integers(6)]
    if isinstance(value, (int, float)) and kind < 2:
        return [value + 1, -value, value * 1e9, float(value), str(value), np.float32(value),
                int(value) if np.isfinite(value) else 0][rng.integers(7)]
    return THINGS[rng.integers(len(THINGS))]


outcomes = {"refused": 0, "answered": 0}
for i in range(count):
    model, new, priv = models[rng.integers(len(models))]
    model = copy.copy(model)
    attributes = [name for name in vars(model) if name not in ("preprocessor_priv",)]
    for name in rng.choice(attributes, size=rng.choice([1, 1, 1, 2, 3])):
        if rng.random() < 0.05:
            delattr(model, name) if hasattr(model, name) else None
            continue
        try:
            value = damaged(getattr(model, name, None))
        except (ValueError, TypeError, OverflowError, IndexError, AttributeError):
            continue
        setattr(model, name, value)
        last = (name, repr(value)[:200])
    calls = [lambda: model.predict(new), lambda: model.decision_function(new), model.to_sklearn]
    if priv is not None:
        calls.append(lambda: model.predict_slack(priv))
    for call in calls:
        try:
            result = call()
        except ValueError:
            outcomes["refused"] += 1
        except Exception as error:
            import traceback
            traceback.print_exc()
            print("FAILED", i, type(model).__name__, last, file=sys.stderr)
            sys.exit(1)
        else:
            outcomes["answered"] += 1
            if not hasattr(result, "predict"):
                assert isinstance(result, np.ndarray), (last, type(result))
                assert len(result) == n, (last, result.shape)
            else:
                try:
                    result.predict(new)
                except ValueError:
                    pass
                except Exception as error:
                    import traceback
                    traceback.print_exc()
                    print("EXPORTED", i, type(model).__name__, last, file=sys.stderr)
                    sys.exit(1)
print(json.dumps(outcomes))
"""


def fuzz(seed, count):
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(seed), str(count)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LUPI_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    # Both happen often: the damage is neither always harmless nor always fatal.
    assert min(outcomes.values()) > 0.05 * count, outcomes


def test_damaged_models_refuse_or_answer():
    fuzz(seed=0, count=4000)


@pytest.mark.slow
@pytest.mark.within(600)
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_damaged_models_refuse_or_answer(seed):
    fuzz(seed=seed, count=30_000)


def test_iris_by_the_exported_model():
    """The README's promise on data that everyone has: same labels from scikit-learn's own class."""
    rows, labels = load_iris(return_X_y=True, as_frame=True)
    model = WeightedSVC(C=10.0).fit(rows, labels)
    assert_exported(model, rows, SVC)
