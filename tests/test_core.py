"""The compiled core against NumPy, for every instruction set, and what its doors refuse."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import Case, numpy_kernel

from lupi._core import core
from lupi.kernels import KernelSpec, given_matrix, scale_gamma
from lupi.solvers import wsvm

SPECS = {
    "linear": KernelSpec("linear"),
    "poly": KernelSpec("poly", gamma=0.3, degree=3, coef0=1.0),
    "poly of degree 7": KernelSpec("poly", gamma=0.4, degree=7, coef0=-0.5),
    "poly of degree 0": KernelSpec("poly", gamma=0.4, degree=0, coef0=0.5),
    "rbf": KernelSpec("rbf", gamma=0.7),
    "sigmoid": KernelSpec("sigmoid", gamma=0.8, coef0=-0.3),
}
# One feature to several cache lines; rows around the widths of vectors (2 to 32) and tiles (8).
DIMENSIONS = (1, 2, 3, 7, 8, 31, 64, 300)
SIZES = ((1, 1), (1, 33), (7, 9), (8, 16), (17, 5), (35, 67))


def numpy_spec(spec, X, Z):
    return numpy_kernel(spec.name, X, Z, spec.gamma, spec.degree, spec.coef0)


def rows(n, d, seed=0):
    """Rows of length about 1, so that every kernel is of size 1 whatever d is."""
    return np.random.default_rng([n, d, seed]).normal(size=(n, d)) / np.sqrt(d)


def sparse_rows(n, d, seed=0):
    """Two thirds zeros, an empty row, an empty column, and entries out of order."""
    X = rows(n, d, seed) * (np.random.default_rng([n, d, seed, 1]).random((n, d)) < 1 / 3)
    X[n // 2] = 0.0
    X[:, d // 2] = 0.0
    return X


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_cross_kernel(name, d):
    spec = SPECS[name]
    for n, m in SIZES:
        X, Z = rows(n, d), rows(m, d, seed=1)
        expected = numpy_spec(spec, X, Z)
        np.testing.assert_allclose(spec.cross(X, Z), expected, rtol=1e-12, atol=1e-12)
        # float32 rows are read as they are, and everything after is in float64.
        x, z = X.astype(np.float32), Z.astype(np.float32)
        expected = numpy_spec(spec, x, z)
        np.testing.assert_allclose(spec.cross(x, z), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_cross_kernel_sparse(name, d):
    spec = SPECS[name]
    for n, m in SIZES:
        X, Z = sparse_rows(n, d), sparse_rows(m, d, seed=1)
        expected = numpy_spec(spec, X, Z)
        for x, z in (
            (sp.csr_array(X), sp.csr_matrix(Z)),
            (sp.csr_array(X), Z),
            (X, sp.csr_array(Z)),
        ):
            np.testing.assert_allclose(spec.cross(x, z), expected, rtol=1e-12, atol=1e-12)


def test_sparse_rows_in_any_order_and_with_repeated_entries():
    spec = SPECS["rbf"]
    X = sparse_rows(9, 12)
    expected = numpy_spec(spec, X, X)
    tidy = sp.csr_array(X)
    data, indices, indptr = [], [], [0]
    for i in range(9):
        part = slice(tidy.indptr[i], tidy.indptr[i + 1])
        # Backwards, and every entry in two halves.
        data += list(np.repeat(tidy.data[part][::-1] / 2, 2))
        indices += list(np.repeat(tidy.indices[part][::-1], 2))
        indptr.append(len(data))
    untidy = sp.csr_array((data, indices, indptr), shape=X.shape)
    np.testing.assert_allclose(spec.cross(untidy, tidy), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(spec.matrix(untidy).dense(), expected, rtol=1e-12, atol=1e-12)
    assert len(untidy.data) == 2 * len(tidy.data), "the caller's matrix was changed"


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_kernel_matrix(name, make):
    """The products, blocks and diagonal of a training set."""
    spec = SPECS[name]
    rng = np.random.default_rng(0)
    for n, d in ((1, 1), (5, 3), (67, 20), (130, 7), (300, 4), (1003, 2)):
        X = sparse_rows(n, d)
        K = numpy_spec(spec, X, X)
        matrix = spec.matrix(make(X))
        for share in (0.01, 0.3, 0.6, 1.0):  # few and many columns take different ways
            a = rng.normal(size=n) * (rng.random(n) < share)
            np.testing.assert_allclose(matrix.dot(a), K @ a, rtol=1e-12, atol=1e-11)
        np.testing.assert_array_equal(matrix.dot(np.zeros(n)), np.zeros(n))
        np.testing.assert_allclose(matrix.diagonal(), K.diagonal(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(matrix.dense(), K, rtol=1e-12, atol=1e-12)
        index = rng.integers(0, n, size=11)  # in any order, with repetitions
        np.testing.assert_allclose(
            matrix.block(index), K[np.ix_(index, index)], rtol=1e-12, atol=1e-12
        )


def test_given_matrix():
    K = numpy_kernel("rbf", rows(40, 3), rows(40, 3))
    matrix = given_matrix(K)
    a = np.random.default_rng(0).normal(size=40)
    np.testing.assert_allclose(matrix.dot(a), K @ a, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(matrix.diagonal(), K.diagonal())
    np.testing.assert_array_equal(matrix.dense(), K)


@pytest.mark.parametrize("n_coef", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("name", SPECS)
def test_expand(name, n_coef):
    spec = SPECS[name]
    for n, m in SIZES:
        X, Z = rows(n, 6), rows(m, 6, seed=1)
        coef = np.random.default_rng(n_coef).normal(size=(n_coef, n))
        expected = coef @ numpy_spec(spec, X, Z)
        np.testing.assert_allclose(spec.expand(X, coef, Z), expected, rtol=1e-12, atol=1e-11)
    assert spec.expand(X[:0], coef[:, :0], Z).tolist() == [[0.0] * m] * n_coef
    assert spec.expand(X, coef, Z[:0]).shape == (n_coef, 0)


@pytest.mark.parametrize("d", [1, 2, 5, 30, 300])
@pytest.mark.parametrize("shift", [0.0, 1e3, -1e8])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_copy_is_at_distance_zero(d, shift, make):
    """|x|^2 + |z|^2 - 2 <x, z> must not leave rounding where x = z, however long the rows are."""
    X = rows(37, d) + shift
    X = np.vstack([X, X[::-1], X[5:20]])
    spec = KernelSpec("rbf", gamma=10.0)
    equal = (X[:, None] == X[None]).all(axis=2)
    for K in (spec.cross(make(X), make(X)), spec.matrix(make(X)).dense()):
        assert (K[equal] == 1.0).all()
        assert (K <= 1.0).all()
        assert (K == K.T).all()


def test_rbf_at_the_ends_of_its_range():
    spec = KernelSpec("rbf", gamma=1.0)
    X, Z = np.array([[0.0]]), np.array([[1e-9], [5.0], [26.0], [1e3], [1e6]])
    expected = np.exp(-(Z[:, 0] ** 2))
    got = spec.cross(X, Z)[0]
    np.testing.assert_allclose(got[:3], expected[:3], rtol=1e-12, atol=0)
    assert (got[3:] >= 0).all()
    assert (got[3:] < 1e-300).all()


def test_sigmoid_saturates():
    spec = KernelSpec("sigmoid", gamma=1.0)
    x = np.array([-1e6, -30.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 30.0, 1e6])[:, None]
    np.testing.assert_allclose(
        spec.cross(np.array([[1.0]]), x)[0], np.tanh(x[:, 0]), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_scale_gamma(make):
    X = np.random.default_rng(0).normal(loc=3.0, size=(50, 4))
    weight = np.random.default_rng(1).integers(0, 4, size=50)
    assert scale_gamma(make(X)) == pytest.approx(1 / (4 * X.var()), rel=1e-12)
    repeated = np.repeat(X, weight, axis=0)
    gamma = scale_gamma(make(X), weight.astype(float))
    assert gamma == pytest.approx(1 / (4 * repeated.var()), rel=1e-12)
    assert scale_gamma(make(np.ones((5, 3)))) == 1.0


# ---- Instruction sets ---------------------------------------------------------------------------

ISA_SCRIPT = """
import sys
import numpy as np, scipy.sparse as sp
from lupi._core import core
from lupi.kernels import KernelSpec
from lupi.problems import WSVMProblem
from lupi.solvers import wsvm

data = np.load(sys.argv[1])
out = {"isa": np.array(core.isa())}
for name in ("linear", "poly", "rbf", "sigmoid"):
    spec = KernelSpec(name, gamma=0.7, degree=3, coef0=0.25 if name != "rbf" else 0.0)
    for d in data["dimensions"]:
        X, Z = data[f"X{d}"], data[f"Z{d}"]
        out[f"{name} {d}"] = spec.cross(X, Z)
        out[f"{name} {d} sparse"] = spec.cross(sp.csr_array(X), sp.csr_array(Z))
matrix = KernelSpec("rbf", 0.5).matrix(data["points"])
out["products"] = np.array([matrix.dot(a) for a in data["vectors"]])
for size in ("small", "large"):
    problem = WSVMProblem(KernelSpec("rbf", 0.5).matrix(data["points"][: data[size]]),
                          data["y"][: data[size]], data["c"][: data[size]])
    for tol in (1e-3, 1e-8):
        solution = wsvm.solve(problem, tol=tol)
        out[f"{size} {tol}"] = np.array(
            [solution.dual_objective, solution.gap, float(solution.status.converged)]
        )
        out[f"{size} {tol} alpha"] = solution.dual.alpha
np.savez(sys.argv[2], **out)
"""
ORDER = ["baseline", "avx2", "avx512"]


@pytest.fixture(scope="module")
def by_isa(tmp_path_factory, request):
    """What each instruction set computes on the same input, each in its own process."""
    folder = tmp_path_factory.mktemp("isa")
    rng = np.random.default_rng(0)
    data = {
        "dimensions": np.array([1, 5, 17, 300]),
        "small": np.array(300),
        "large": np.array(1300),
    }
    for d in data["dimensions"]:
        data[f"X{d}"], data[f"Z{d}"] = rows(35, d), rows(67, d, seed=1)
    data["points"] = rng.normal(size=(1300, 4))
    data["y"] = np.where(
        data["points"][:, 0] * data["points"][:, 1] + rng.normal(size=1300) > 0, 1.0, -1.0
    )
    data["c"] = rng.exponential(size=1300)
    shares = np.array([0.01, 0.3, 0.6, 1.0])[:, None]
    data["vectors"] = rng.normal(size=(4, 1300)) * (rng.random((4, 1300)) < shares)
    np.savez(folder / "data.npz", **data)
    results = {}
    for isa in ORDER:
        subprocess.run(
            [sys.executable, "-c", ISA_SCRIPT, folder / "data.npz", folder / f"{isa}.npz"],
            env={**os.environ, "LUPI_ISA": isa},
            check=True,
            timeout=60 * request.config.getoption("--patience"),
        )
        with np.load(folder / f"{isa}.npz") as loaded:
            results[isa] = dict(loaded)
    return data, results


def test_instruction_sets_are_chosen_as_asked(by_isa):
    _, results = by_isa
    used = {isa: str(result["isa"]) for isa, result in results.items()}
    # Never more than was asked for; what the processor lacks falls back to the next one below.
    assert used["baseline"] == "baseline"
    best = ORDER.index(used["avx512"])
    for isa in ORDER:
        assert ORDER.index(used[isa]) == min(ORDER.index(isa), best)
    # Without a wish the best one is taken.
    unasked = {k: v for k, v in os.environ.items() if k != "LUPI_ISA"}
    out = subprocess.run(
        [sys.executable, "-c", "from lupi._core import core; print(core.isa())"],
        env=unasked,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.stdout.strip() == used["avx512"]


@pytest.mark.parametrize("isa", ORDER)
def test_instruction_set_computes_the_kernels(by_isa, isa):
    data, results = by_isa
    for name in ("linear", "poly", "rbf", "sigmoid"):
        coef0 = 0.25 if name != "rbf" else 0.0
        for d in data["dimensions"]:
            expected = numpy_kernel(name, data[f"X{d}"], data[f"Z{d}"], 0.7, 3, coef0)
            for key in (f"{name} {d}", f"{name} {d} sparse"):
                np.testing.assert_allclose(results[isa][key], expected, rtol=1e-12, atol=1e-12)
    K = numpy_kernel("rbf", data["points"], data["points"], 0.5)
    np.testing.assert_allclose(
        results[isa]["products"], data["vectors"] @ K, rtol=1e-12, atol=1e-11
    )


@pytest.mark.parametrize("isa", ORDER)
@pytest.mark.parametrize("size", ["small", "large"])
def test_instruction_set_solves(by_isa, isa, size):
    """Objective and gap again in NumPy, from alpha alone."""
    data, results = by_isa
    n = data[size]
    y, c = data["y"][:n], data["c"][:n]
    K = numpy_kernel("rbf", data["points"][:n], data["points"][:n], 0.5)
    for tol in (1e-3, 1e-8):
        objective, gap, converged = results[isa][f"{size} {tol}"]
        alpha = results[isa][f"{size} {tol} alpha"]
        assert converged == 1.0
        assert (alpha >= 0).all()
        assert (alpha <= c).all()
        assert abs(y @ alpha) <= 1e-12 * alpha.sum()
        f = K @ (y * alpha)
        squared_norm = (y * alpha) @ f
        assert objective == pytest.approx(alpha.sum() - 0.5 * squared_norm, rel=1e-11)
        best = min(c @ np.maximum(1 - y * (f + b), 0) for b in (y - f)[(alpha > 0) & (alpha < c)])
        true_gap = 0.5 * squared_norm + best - (alpha.sum() - 0.5 * squared_norm)
        assert gap == pytest.approx(true_gap, abs=1e-10 * objective)
        assert true_gap <= tol * c.sum()


# ---- What is refused ----------------------------------------------------------------------------


def make_kernel(n=20):
    return core.kernel(core.dense_points(rows(n, 3)), "rbf", 0.5, 3, 0.0)


def test_wrong_types_are_refused_and_not_converted():
    """A converted copy of an output would be filled and thrown away."""
    kernel = make_kernel()
    index, coef = np.arange(20), np.ones(20)
    read_only = np.empty(20)
    read_only.flags.writeable = False
    for out in (
        np.empty(20, dtype=np.float32),
        np.empty(20, dtype=np.int64),
        np.empty(40)[::2],
        np.empty((20, 1)),
        read_only,
        [0.0] * 20,
    ):
        with pytest.raises(TypeError):
            kernel.diagonal(out)
        with pytest.raises(TypeError):
            kernel.combine(index, coef, out, 1)
    with pytest.raises(TypeError):
        kernel.combine(index.astype(np.int32), coef, np.empty(20), 1)
    with pytest.raises(TypeError):
        kernel.combine(index, coef.astype(np.float32), np.empty(20), 1)
    with pytest.raises(TypeError):
        kernel.square_block(index, np.empty((20, 20), dtype=np.float32), 1)
    with pytest.raises(TypeError):
        kernel.square_block(index, np.empty((20, 20), order="F"), 1)
    with pytest.raises(TypeError):
        core.gram_kernel(np.eye(3, dtype=np.float32))
    with pytest.raises(TypeError):
        core.dense_points(np.asfortranarray(rows(5, 3)))
    with pytest.raises(TypeError):
        core.dense_points(np.ones((3, 2), dtype=np.int64))


def test_wrong_types_in_the_solver_are_refused():
    n = 20
    kernel = make_kernel(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    good = {"y": y, "lo": np.minimum(y, 0), "hi": np.maximum(y, 0), "a": np.zeros(n), "v": y.copy()}
    cache = core.row_cache(kernel, n, 8)
    calls = {
        "descend": lambda z: core.wsvm_descend(
            cache, z["y"], z["lo"], z["hi"], z["a"], z["v"], 1e-3, 100, True, 1
        ),
        "polish": lambda z: core.wsvm_polish(
            kernel, z["y"], z["lo"], z["hi"], z["a"], z["v"], 1e-3, 20, 100, 1
        ),
        "small": lambda z: core.wsvm_small(
            kernel, z["y"], z["lo"], z["hi"], z["a"], z["v"], 1e-3, 100, 1e-3
        ),
    }
    for call in calls.values():
        for key in good:
            with pytest.raises(TypeError):
                call({**good, key: good[key].astype(np.float32)})
            with pytest.raises(ValueError, match=key):
                call({**good, key: good[key][:-1].copy()})
        for key in ("a", "v"):
            frozen = good[key].copy()
            frozen.flags.writeable = False
            with pytest.raises(TypeError):
                call({**good, key: frozen})
        assert (good["a"] == 0).all(), "a refused call must leave its arguments alone"
        call({key: value.copy() for key, value in good.items()})


def test_wrong_sizes_and_indices_are_refused():
    kernel = make_kernel()
    with pytest.raises(ValueError, match="out"):
        kernel.diagonal(np.empty(19))
    with pytest.raises(ValueError, match="coef"):
        kernel.combine(np.arange(3), np.ones(4), np.empty(20), 1)
    for bad in (-1, 20, 2**40):
        with pytest.raises(ValueError, match="index"):
            kernel.combine(np.array([bad]), np.ones(1), np.empty(20), 1)
        with pytest.raises(ValueError, match="index"):
            kernel.square_block(np.array([bad]), np.empty((1, 1)), 1)
    with pytest.raises(ValueError, match="gram"):
        core.gram_kernel(np.ones((3, 2)))
    with pytest.raises(ValueError, match="unknown kernel"):
        core.kernel(core.dense_points(rows(5, 3)), "laplace", 1.0, 3, 0.0)
    with pytest.raises(ValueError, match="features"):
        KernelSpec("rbf").cross(rows(5, 3), rows(5, 4))


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2, 9], [0, 1, 2]),
        ([0, -1, 3], [0, 1, 2]),
        ([0, 3, 2], [0, 1, 2]),
        ([1, 2, 3], [0, 1, 2]),
        ([0, 2, 3], [0, 1, 5]),
        ([0, 2, 3], [0, 1, -1]),
    ],
)
def test_corrupt_sparse_rows_are_refused(indptr, indices):
    with pytest.raises(ValueError, match="CSR"):
        core.sparse_points(np.ones(3), np.array(indptr), np.array(indices), 5)


# ---- Cache --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("capacity", [2, 7, 19, 20, 1000])
def test_cache_capacity_is_respected(width, capacity):
    cache = core.row_cache(make_kernel(), capacity, width)
    assert cache.capacity == min(capacity, 20)
    assert cache.computed == 0


def test_short_rows_are_for_rbf_only():
    kernel = core.kernel(core.dense_points(rows(20, 3)), "linear", 0.5, 3, 0.0)
    with pytest.raises(ValueError, match="rbf"):
        core.row_cache(kernel, 20, 2)


def large_case(kernel="rbf", n=1500):
    """Too many rows for the solver of small problems, with hundreds of free variables."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, 1.0, -1.0)
    params = {"gamma": 0.3} if kernel == "rbf" else {}
    if kernel == "precomputed":
        X = numpy_kernel("rbf", X, X, gamma=0.3)
    return Case(f"large {kernel}", kernel, X, y, rng.exponential(size=n), params)


@pytest.mark.within(15)
@pytest.mark.parametrize("cache_size", [0.013, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_small_cache_gives_the_same_objective(kernel, tol, cache_size):
    """From two rows of 4 bytes, the least that is accepted, to a third of the matrix."""
    case = large_case(kernel)
    roomy = wsvm.solve(case.problem(), tol=tol)
    tight = wsvm.solve(case.problem(), tol=tol, cache_size=cache_size)
    rounding = 1e-12 * roomy.dual_objective
    for solution in (roomy, tight):
        assert solution.status.converged
        assert solution.violation <= tol
        assert -rounding <= solution.gap <= tol * case.c.sum()
    difference = abs(roomy.dual_objective - tight.dual_objective)
    assert difference <= max(roomy.gap, tight.gap) + rounding
    if cache_size < 1.0:  # else a short way with few rows may fit by chance
        taken = [(solution.n_iter, dict(solution.stats)) for solution in (roomy, tight)]
        assert taken[0] != taken[1], "the size of the cache changed nothing"


def cold_descent(case, capacity, width, tol=1e-3):
    """Descent from zero on rows of so many bytes a value: what it says, and the exact residual."""
    kernel, y = case.problem().kernel, case.y
    lo, hi = np.minimum(y * case.c, 0), np.maximum(y * case.c, 0)
    a, v = np.zeros(len(y)), y.copy()
    cache = core.row_cache(kernel.handle, capacity, width)
    _, violation, partial = core.wsvm_descend(cache, y, lo, hi, a, v, tol, 10**7, True, 1)
    exact = y - kernel.dot(a)
    true_violation = exact[a < hi].max() - exact[a > lo].min()
    return violation, partial, true_violation, np.abs(exact - v).max()


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(("scale", "puts_aside"), [(1, True), (3, True), (100, False)])
def test_variables_put_aside_stay_optimal(kernel, width, scale, puts_aside):
    """Putting aside all that lies at a bound would leave a violation of the size of one."""
    case = large_case(kernel, n=3000)
    case = replace(case, c=scale * case.c)
    violation, partial, true_violation, error = cold_descent(case, 3000, width)
    assert partial == puts_aside
    rounding = 1e-5 * scale if width == 4 else 1e-10
    assert violation <= 1e-3
    assert true_violation <= 1e-3 + rounding
    assert partial or error <= rounding, "all rows fit and none was put aside: v is complete"


@pytest.mark.parametrize("width", [2, 4, 8])
def test_full_cache(width):
    """Far from the end: what was put aside to make room may have to come back."""
    case = large_case(n=3000)
    case = replace(case, c=100 * case.c)
    _, partial, true_violation, _ = cold_descent(case, 1100, width)
    assert partial, "the cache was large enough: choose a smaller one"
    assert true_violation > 1e-2, "what was put aside stayed optimal"
    solution = wsvm.solve(case.problem(), tol=1e-3, cache_size=1100 * 3000 * width / 1e6)
    assert solution.status.converged
    assert solution.stats["rounds"] > 1


def test_values_above_the_scale_of_short_rows_are_put_right():
    """Rows that nearly repeat another have kernel values far above those of the sample."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 20))
    X[1::20] = X[0::20] + 1e-2 * rng.normal(size=X[0::20].shape)
    y = np.where(X[:, 0] + rng.normal(size=2000) > 0, 1.0, -1.0)
    case = Case("near repeats", "rbf", X, y, np.full(2000, 10.0), {"gamma": 0.05})
    *_, error = cold_descent(case, 2000, 2)
    K = case.problem().kernel.dense()
    assert np.triu(K, 1).max() > 0.99
    # 4 standard deviations of the sum of 2,000 stored errors of 4e-6 times alpha <= 10.
    assert error < 4 * 4.4e-6 * 10 * np.sqrt(2000)
