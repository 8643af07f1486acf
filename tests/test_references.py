"""Against other solvers: Clarabel (a general interior-point code), scikit-learn's SVC, and answers
known by hand; our own slow reference against the same."""

import warnings
from functools import cache

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from cases import HAND_SOLVED, random_wsvm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lupi import WeightedSVC
from lupi.solution import Status
from lupi.solvers import reference, wsvm

N_RANDOM = 500


# ---- Random problems, Clarabel ------------------------------------------------------------------


def clarabel_objective(case):
    """Optimal value of eq:svmw_dual by Clarabel, and whether it says that it solved the problem.

    In u = alpha / s with s = sqrt(max c / max K_ii), and divided by s, the problem keeps its form
    and its numbers come near to one: with s = max c Clarabel gives up on twice as many.
    """
    rows = np.flatnonzero(case.c)
    y, c, K = case.y[rows], case.c[rows], case.K[np.ix_(rows, rows)]
    if abs(y.sum()) == len(y):  # y'alpha = 0 leaves alpha = 0 only
        return 0.0, True
    largest = K.diagonal().max()
    s = np.sqrt(c.max() / largest) if largest > 0 else c.max()
    n = len(y)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.max_iter = 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    result = clarabel.DefaultSolver(
        sp.triu(sp.csc_matrix(s * y[:, None] * K * y), format="csc"),
        -np.ones(n),
        sp.vstack([sp.csc_matrix(y[None]), -sp.eye(n), sp.eye(n)], format="csc"),
        np.r_[0.0, np.zeros(n), c / s],
        [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)],
        settings,
    ).solve()
    return -s * result.obj_val, str(result.status) == "Solved"


def agrees(value, other):
    return abs(value - other) <= 1e-7 * max(1.0, abs(value))


@cache
def judged(seed):
    """(case, fitted model, who confirms its objective): each problem is solved once."""
    case = random_wsvm(seed)
    with warnings.catch_warnings():  # the tests below look at the status
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = case.fit(tol=1e-9)
    objective, solved = clarabel_objective(case)
    if solved and agrees(model.dual_objective_, objective):
        return case, model, "Clarabel"
    if not solved:
        # Weak duality: the gap alone proves the value, whatever the others could do.
        if model.duality_gap_ <= 1e-7 * max(1.0, abs(model.dual_objective_)):
            return case, model, "our certificate"
        if agrees(model.dual_objective_, reference.solve(case.problem()).dual_objective):
            return case, model, "our reference"
    return case, model, f"nobody: Clarabel {objective!r}, solved: {solved}"


@pytest.mark.parametrize("seed", range(N_RANDOM))
def test_random_problem(seed):
    case, model, confirmed_by = judged(seed)
    solution, c = model.solution_, case.c

    assert solution.status in (Status.OPTIMAL, Status.AT_PRECISION), case
    assert (model.alpha_ >= 0).all(), case
    assert (model.alpha_ <= c).all(), case
    # Without this the "dual objective" would be the value of a point that is not feasible.
    assert abs(case.y @ model.alpha_) <= 1e-12 * max(1e-300, model.alpha_.sum()), case
    assert solution.relative_gap <= 1e-6, (case, solution.relative_gap)
    assert solution.relative_gap >= -1e-9, (case, solution.relative_gap)
    assert not confirmed_by.startswith("nobody"), (case, model.dual_objective_, confirmed_by)

    one_class = (case.y[c > 0] == case.y[c > 0][0]).all()
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, float | np.ndarray):
            value = np.asarray(value)
            if value.dtype.kind == "f" and not (name == "intercept_interval_" and one_class):
                assert np.isfinite(value).all(), (case, name)
    lower, upper = model.intercept_interval_
    assert lower <= model.intercept_[0] <= upper, case
    assert np.isfinite([lower, upper]).sum() == (1 if one_class else 2), case


def test_clarabel_confirms_nearly_all_random_problems():
    """The comparison above must not turn into a comparison of ourselves with ourselves."""
    confirmed_by = [judged(seed)[2] for seed in range(N_RANDOM)]
    assert confirmed_by.count("Clarabel") >= 0.97 * N_RANDOM


@pytest.mark.parametrize("seed", range(0, N_RANDOM, 5))
def test_reference_on_random_problem(seed):
    case = random_wsvm(seed)
    solution = reference.solve(case.problem())
    scale = max(1.0, abs(solution.dual_objective))
    assert abs(case.y @ solution.dual.alpha) <= 1e-10 * max(1e-300, solution.dual.alpha.sum()), case
    assert abs(solution.gap) <= 1e-5 * scale, (case, solution.relative_gap)
    objective, solved = clarabel_objective(case)
    if solved:
        assert abs(solution.dual_objective - objective) <= 1e-6 * scale, case


# ---- Hand-solved problems -----------------------------------------------------------------------


@pytest.mark.parametrize("case", HAND_SOLVED, ids=repr)
@pytest.mark.parametrize(
    ("solve", "accuracy"),
    # An interior point stays inside: complementarity 1e-15 leaves alpha within about 1e-7 of a
    # bound that a degenerate row touches.
    [(lambda p: wsvm.solve(p, tol=1e-9), 1e-9), (reference.solve, 1e-6)],
    ids=["wsvm", "reference"],
)
def test_hand_solved(case, solve, accuracy):
    solution = solve(case.problem())
    assert solution.status is Status.OPTIMAL
    assert solution.primal_objective == pytest.approx(case.objective, abs=accuracy)
    assert solution.dual_objective == pytest.approx(case.objective, abs=accuracy)
    alpha = solution.dual.alpha
    if case.alpha_is_unique:
        np.testing.assert_allclose(alpha, case.alpha, rtol=0, atol=accuracy)
        np.testing.assert_allclose(solution.dual.beta, case.beta, rtol=0, atol=accuracy)
    # w is unique even where alpha is not: compare <w, z> at every row.
    expansion = case.K @ (case.y * alpha)
    np.testing.assert_allclose(expansion, case.K @ (case.y * case.alpha), rtol=0, atol=accuracy)
    if case.w is not None:
        np.testing.assert_allclose((case.y * alpha) @ case.X, case.w, rtol=0, atol=accuracy)
    if solve is reference.solve and case.b_interval[0] < case.b_interval[1]:
        return  # an alpha strictly inside its bounds knows one point of the interval only
    assert solution.primal.b == pytest.approx(case.b, abs=accuracy)
    assert solution.primal.b_interval == pytest.approx(case.b_interval, abs=accuracy)
    np.testing.assert_allclose(solution.primal.slack, case.slack, rtol=accuracy, atol=accuracy)


@pytest.mark.parametrize("case", HAND_SOLVED, ids=repr)
def test_hand_solved_by_the_estimator(case):
    model = case.fit()  # default tol: small problems are solved to the end all the same
    assert model.intercept_ == pytest.approx(case.b, abs=1e-9)
    assert model.intercept_interval_ == pytest.approx(case.b_interval, abs=1e-9)
    np.testing.assert_allclose(model.slack_, case.slack, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.instance_weights_, case.c, rtol=0, atol=1e-15)
    assert model.primal_objective_ == pytest.approx(case.objective, abs=1e-9)
    assert abs(model.duality_gap_) <= 1e-9
    f = case.K @ (case.y * case.alpha) + case.b
    np.testing.assert_allclose(model.decision_function(case.X), f, rtol=0, atol=1e-9)
    if case.w is not None:
        np.testing.assert_allclose(model.coef_[0], case.w, rtol=0, atol=1e-9)
    if case.alpha_is_unique:
        # LIBSVM's order: support vectors of the first class, then of the second.
        grouped = [i for label in (-1, 1) for i in np.flatnonzero(case.y == label)]
        support = [i for i in grouped if case.alpha[i] > 0]
        assert model.support_.tolist() == support
        np.testing.assert_allclose(
            model.dual_coef_[0], (case.y * case.alpha)[support], rtol=0, atol=1e-9
        )
        assert model.n_support_.tolist() == [int((case.y[support] == s).sum()) for s in (-1, 1)]


# ---- SVC ----------------------------------------------------------------------------------------

DATASETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.05},
    "poly": {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 1.0},
}


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_predicts_like_svc(dataset, kernel, shape):
    X, y = DATASETS[dataset](return_X_y=True)
    X = StandardScaler().fit_transform(X)
    # Not all training rows: the others are seen for the first time by both.
    train = np.random.default_rng(0).permutation(len(X))[: min(len(X) * 3 // 4, 900)]
    weight = np.random.default_rng(1).uniform(0.1, 3.0, size=len(train))
    settings = {**KERNELS[kernel], "decision_function_shape": shape, "tol": 1e-8}
    ours = WeightedSVC(**settings).fit(X[train], y[train], sample_weight=weight)
    theirs = SVC(**settings).fit(X[train], y[train], sample_weight=weight)

    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    intervals = np.atleast_2d(ours.intercept_interval_)
    unique = intervals[:, 0] == intervals[:, 1]
    # With random weights every binary problem here has a unique offset; if that changed, the
    # comparison below would need to leave pairs out.
    assert unique.all()
    # LIBSVM keeps its kernel rows in float32, which leaves it at a few 1e-6.
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-5, atol=1e-5
    )
    gaps, duals = np.atleast_1d(ours.duality_gap_), np.atleast_1d(ours.dual_objective_)
    assert (gaps <= 1e-6 * np.maximum(1.0, duals)).all()
