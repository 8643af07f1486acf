"""Losses, the smooth weighted SVM, and derivatives of its solution."""

from dataclasses import replace

import numpy as np
import pytest
from cases import SMOOTH_LOSSES, numpy_kernel, random_bilevel
from scipy.optimize import minimize

from lupi.bilevel import BlockCross, Criterion, DenseCross, hypergradient, jacobian
from lupi.bilevel.search import RBFWidth
from lupi.certificates import smooth_certificate
from lupi.losses import Logistic, Loss, SmoothHinge, SquaredHinge
from lupi.problems import SmoothWSVMProblem
from lupi.solution import Status
from lupi.solvers import newton, smooth_rows

LOSSES = [*SMOOTH_LOSSES, SmoothHinge(1.0), SmoothHinge(0.01)]


# ---- Losses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_derivatives_of_the_loss(loss):
    t = np.linspace(-4, 4, 4001) + 1.23e-4
    if isinstance(loss, SquaredHinge):
        t = t[np.abs(t - 1) > 1e-3]  # d2 jumps there
    # Central differences are off by h^2 f'''/6: f''' is at most 3 / delta^2.
    width = loss.delta if isinstance(loss, SmoothHinge) else 1.0
    h = 1e-5 * width
    d1 = (loss.value(t + h) - loss.value(t - h)) / (2 * h)
    d2 = (loss.d1(t + h) - loss.d1(t - h)) / (2 * h)
    np.testing.assert_allclose(loss.d1(t), d1, atol=1e-7)
    smooth = np.abs(np.abs(t - (1 - width)) - width) > 2 * h  # no joint within the difference
    np.testing.assert_allclose(width * loss.d2(t)[smooth], width * d2[smooth], atol=1e-7)
    both = loss.derivatives(t)
    np.testing.assert_array_equal(both[0], loss.d1(t))
    np.testing.assert_array_equal(both[1], loss.d2(t))


@pytest.mark.parametrize("delta", [0.01, 0.3, 1.0])
def test_smooth_hinge_is_twice_continuously_differentiable(delta):
    loss = SmoothHinge(delta)
    for joint in (1.0, 1.0 - 2.0 * delta):
        at = joint + np.array([-1e-12, 0.0, 1e-12])
        for function, scale in ((loss.value, 1.0), (loss.d1, 1.0), (loss.d2, delta)):
            values = scale * function(at)
            assert np.ptp(values) < 1e-9 / delta
    assert loss.d2(np.array([1.0]))[0] == 0.0
    t = np.array([1 - 2 * delta - 3.0])
    assert loss.d1(t)[0] == -1.0
    assert loss.value(t)[0] == pytest.approx(1 - t[0] - delta, rel=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("t", [-1e8, -1e3, 1e3, 1e8])
def test_losses_far_out(loss, t):
    value, d1, d2 = (float(f(np.array([t]))[0]) for f in (loss.value, loss.d1, loss.d2))
    assert np.isfinite([value, d1, d2]).all()
    assert value >= 0
    assert d1 <= 0 <= d2
    if t > 0:
        assert value == 0.0
    elif not isinstance(loss, SquaredHinge):
        assert d1 == -1.0
        assert value == pytest.approx(-t, rel=2e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_conjugate(loss):
    """Fenchel-Young: l(t) + l*(s) >= s t, with equality at s = l'(t); and against bisection."""
    t = np.linspace(-3, 3, 601)
    s = loss.d1(t)
    np.testing.assert_allclose(loss.value(t) + loss.conjugate(s), s * t, atol=1e-12)
    other = np.linspace(-1, 0, 101)
    room = loss.value(t)[:, None] + loss.conjugate(other) - t[:, None] * other
    assert room.min() > -1e-12
    inner = other[1:-1]
    np.testing.assert_allclose(loss.conjugate(inner), Loss.conjugate(loss, inner), atol=1e-9)


def test_derivatives_with_respect_to_delta():
    t, h = np.linspace(-2, 2, 801) + 1e-4, 1e-6
    for delta in (0.05, 0.5, 0.9):
        loss, up, down = SmoothHinge(delta), SmoothHinge(delta + h), SmoothHinge(delta - h)
        np.testing.assert_allclose(
            loss.value_delta(t), (up.value(t) - down.value(t)) / (2 * h), atol=1e-7
        )
        np.testing.assert_allclose(
            delta * loss.d1_delta(t), delta * (up.d1(t) - down.d1(t)) / (2 * h), atol=1e-5
        )


@pytest.mark.parametrize("delta", [0.0, -1.0, np.inf, np.nan])
def test_delta_must_be_positive(delta):
    with pytest.raises(ValueError, match="delta must be positive"):
        SmoothHinge(delta)


# ---- The inner problem --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(200))
def test_newton_is_certified(seed):
    problem, _ = random_bilevel(seed)
    solution = newton.solve(problem, tol=1e-12)
    assert solution.status is Status.OPTIMAL
    assert abs(solution.gap) <= 1e-9 * max(1.0, solution.primal_objective)
    certificate = smooth_certificate(problem, solution.expansion, solution.b)
    assert certificate.violation <= 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_newton_against_a_general_minimiser(seed):
    problem, _ = random_bilevel(seed)
    A, y, c, n = problem.matrix, problem.y, problem.c, problem.n

    def value(x):
        f = A @ x[:-1] + x[-1]
        squares = x[:-1] @ x[:-1] if problem.linear else x[:-1] @ A @ x[:-1]
        return 0.5 * squares + c @ problem.loss.value(y * f)

    other = minimize(value, np.zeros((A.shape[1] if problem.linear else n) + 1), tol=1e-10)
    assert newton.solve(problem).primal_objective <= other.fun + 1e-9 * max(1.0, other.fun)
    assert other.fun <= newton.solve(problem).primal_objective + 1e-3 * max(1.0, other.fun)


def test_perturbed_solutions_are_refused():
    """The certificate can fail: a point that is not optimal has a gap and a violation."""
    problem, _ = random_bilevel(7)
    solution = newton.solve(problem)
    a = solution.expansion.copy()
    a[a.argmax()] *= 0.9
    certificate = smooth_certificate(problem, a, solution.b)
    assert certificate.violation > 1e-4
    assert certificate.primal_objective - certificate.dual_objective > 1e-6


@pytest.mark.parametrize("seed", range(0, 40))
def test_warm_start_reaches_the_same_point(seed):
    problem, _ = random_bilevel(seed)
    first = newton.solve(problem)
    rng = np.random.default_rng(seed)
    other = problem.with_weights(problem.c * rng.uniform(0.5, 1.5, problem.n))
    cold, warm = newton.solve(other), newton.solve(other, first)
    assert warm.status is Status.OPTIMAL
    np.testing.assert_allclose(warm.expansion, cold.expansion, atol=1e-7 * other.c.max())


@pytest.mark.parametrize("seed", range(12))
def test_factor_of_an_earlier_point_serves_again(seed):
    """For weights near by without another factorisation, for weights far off all the same."""
    problem, _ = random_bilevel(seed)
    solution = newton.solve(problem, tol=1e-12)
    curvature = newton.Curvature.at(problem, solution.values)
    rng = np.random.default_rng(seed)
    for spread in (1e-6, 1.0):
        c = problem.c * (1.0 + spread * rng.uniform(-1, 1, problem.n))
        other = problem.with_weights(c)
        found = newton.solve(other, solution, curvature=curvature)
        cold = newton.solve(other)
        assert found.violation <= 1e-10
        np.testing.assert_allclose(found.expansion, cold.expansion, atol=1e-7 * c.max())
        if spread == 1e-6 and len(curvature.curved):
            assert found.stats["factorisations"] == 0


@pytest.mark.parametrize("seed", [152, 2012])
def test_huge_weights_and_few_curved_rows(seed):
    """Plain Newton steps do not get there: each is cut short where the next row comes in."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((21, 2)), rng.choice([-1.0, 1.0], 21)
    c = 10.0 ** rng.uniform(-1, 6.5, 21) * (rng.random(21) < 0.8)
    K = numpy_kernel("rbf", x, x, 5.0)
    problem = SmoothWSVMProblem(K, y, c, SmoothHinge(0.03))
    assert newton._descend(problem, None, None, 1e-10, 200).status is Status.MAX_ITER
    solution = newton.solve(problem)
    assert solution.status is Status.OPTIMAL
    gap = solution.primal_objective - solution.dual_objective
    assert gap <= 1e-6 * solution.primal_objective
    starved = newton.solve(problem, max_iter=61)
    assert starved.status is Status.MAX_ITER
    assert starved.n_iter <= 61


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_by_way_of_small_weights(loss, seed):
    problem, _ = random_bilevel(seed)
    problem = replace(problem, loss=loss)
    plain = newton.solve(problem)
    found = newton._from_small_weights(problem, replace(plain, violation=np.inf), 1e-10, 200)
    np.testing.assert_allclose(found.expansion, plain.expansion, atol=1e-7 * problem.c.max())


@pytest.mark.parametrize(
    ("n", "n_val"), [(400, 1000), (1, 1), (1, 3000), (7, 1), (3, 0), (66, 1027)]
)
def test_one_pass_over_the_validation_rows(n, n_val):
    """Against the two products, for any number of threads to the last bit."""
    rng = np.random.default_rng(n)
    K_val = rng.normal(size=(n, n_val)) / np.sqrt(n)
    y, a = rng.choice([-1.0, 1.0], n_val), rng.normal(size=n) * (rng.random(n) < 0.7)
    criterion = Criterion(DenseCross(K_val), y, SmoothHinge(0.3))
    found = criterion.judge(a, 0.2)
    values = a @ K_val + 0.2
    slopes = criterion.slopes(values)
    for got, expected in zip(
        found, (criterion.value(values), values, slopes, K_val @ slopes), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    for threads in (2, 3):
        for one, other in zip(found, criterion.judge(a, 0.2, threads), strict=True):
            np.testing.assert_array_equal(one, other)
    by_products = Criterion(DenseCross(np.asfortranarray(K_val)), y, SmoothHinge(0.3))
    np.testing.assert_allclose(by_products.judge(a, 0.2).by_coef, found.by_coef, atol=1e-12)


def test_zero_weight_is_a_row_left_out():
    problem, _ = random_bilevel(4, zeros=0.5)
    keep = problem.c > 0
    K = problem.matrix[keep] if problem.linear else problem.matrix[np.ix_(keep, keep)]
    fewer = SmoothWSVMProblem(K, problem.y[keep], problem.c[keep], problem.loss, problem.linear)
    np.testing.assert_allclose(
        newton.solve(problem).expansion[keep], newton.solve(fewer).expansion, atol=1e-9
    )


def test_all_weights_zero():
    problem, _ = random_bilevel(0)
    solution = newton.solve(problem.with_weights(np.zeros(problem.n)))
    assert not solution.expansion.any()


def test_one_class_with_weight():
    """Rows of one class only: the constant classifier, at a margin where the loss is flat."""
    for loss in SMOOTH_LOSSES:
        problem = SmoothWSVMProblem(
            np.eye(4), np.array([1.0, 1, 1, -1]), np.array([1.0, 1, 1, 0]), loss
        )
        solution = newton.solve(problem)
        assert solution.status.converged
        assert (solution.values > 0).all()
        np.testing.assert_allclose(solution.expansion, 0, atol=1e-8)


def test_starved_newton_says_so():
    problem, _ = random_bilevel(9)
    solution = newton.solve(problem, max_iter=0)
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 0
    assert solution.gap > 0


def test_indefinite_matrix_is_named():
    problem = SmoothWSVMProblem(
        np.array([[0.0, 5.0], [5.0, 0.0]]) - 4 * np.eye(2),
        np.array([1.0, -1.0]),
        np.full(2, 10.0),
        Logistic(),
    )
    assert newton.solve(problem).status is Status.INDEFINITE


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_working_set_solves_the_whole_problem(loss, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    c = rng.integers(0, 3, 300).astype(float)
    K = numpy_kernel("rbf", X, X, 0.5)
    monkeypatch.setattr(smooth_rows, "_FIRST", 20)
    found = smooth_rows.solve(
        lambda rows: K[np.ix_(rows, rows)].copy(),
        lambda basis, coef, rows: coef @ K[np.ix_(basis, rows)],
        y,
        c,
        loss,
    )
    whole = newton.solve(SmoothWSVMProblem(K, y, c, loss))
    np.testing.assert_allclose(found.expansion, whole.expansion, atol=1e-6)
    assert found.primal_objective == pytest.approx(whole.primal_objective, rel=1e-9)
    present = c > 0
    np.testing.assert_allclose(found.values[present], whole.values[present], atol=1e-6)


def test_working_set_beyond_the_memory_is_refused():
    with pytest.raises(ValueError, match="cache_size"):
        smooth_rows.solve(None, None, np.ones(2000), np.ones(2000), Logistic(), limit=1e6)


@pytest.mark.parametrize(
    ("matrix", "linear", "message"),
    [
        (np.ones((3, 2)), False, r"shape \(n, n\)"),
        (np.ones((3, 2), dtype=np.float32), True, "float64"),
        (np.ones((4, 2)), True, r"y must be a float64 array of shape \(4,\)"),
    ],
)
def test_problem_is_checked(matrix, linear, message):
    with pytest.raises(ValueError, match=message):
        SmoothWSVMProblem(matrix, np.array([1.0, -1, 1]), np.ones(3), Logistic(), linear)


# ---- Derivatives --------------------------------------------------------------------------------


def numeric_gradient(problem, solution, criterion, relative_step):
    """Differences of fourth order of the validation loss, in every weight that is not zero."""
    out = np.full(problem.n, np.nan)
    for i in problem.c.nonzero()[0]:
        h = relative_step * problem.c[i]
        ends = []
        for side in (2 * h, h, -h, -2 * h):
            c = problem.c.copy()
            c[i] += side
            moved = newton.solve(replace(problem, c=c), solution, tol=1e-13, certify=False)
            coef = moved.expansion if moved.w is None else moved.w
            ends.append(criterion.value(criterion.values(coef, moved.b)))
        out[i] = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12 * h)
    return out


@pytest.mark.parametrize("seed", range(200))
def test_hypergradient(seed):
    """One adjoint solve is the full Jacobian (1e-10), and central differences (1e-6)."""
    problem, criterion = random_bilevel(seed)
    solution = newton.solve(problem, tol=1e-13)
    found = hypergradient(problem, solution, criterion)
    d_coef, d_b = jacobian(problem, solution)
    g = criterion.slopes(found.values)
    full = criterion.cross.backward(g) @ d_coef + g.sum() * d_b
    scale = np.abs(full).max()
    assert np.abs(found.c - full).max() <= 1e-10 * scale
    # A difference is off by rounding / step, and by the curvature within the step, which is
    # large where a row is about to leave the curved part: the best of three steps counts.
    present = problem.c > 0
    errors = [
        np.abs(found.c - numeric_gradient(problem, solution, criterion, step))[present].max()
        for step in (1e-3, 1e-5, 1e-7)
    ]
    assert min(errors) <= 1e-6 * scale


def rbf_pair(seed, delta=0.5):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(25, 2)), rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    y_val = np.where(Z[:, 0] > 0, 1.0, -1.0)
    weight = rng.uniform(0.2, 1.0, 25)

    def at(C=2.0, gamma=0.7, delta=delta):
        problem = SmoothWSVMProblem(
            numpy_kernel("rbf", X, X, gamma), y, C * weight, SmoothHinge(delta)
        )
        criterion = Criterion(DenseCross(numpy_kernel("rbf", X, Z, gamma)), y_val, SmoothHinge(0.5))
        return problem, criterion

    squares = [((X[:, None] - other[None]) ** 2).sum(-1) for other in (X, Z)]
    return at, RBFWidth(*squares)


@pytest.mark.parametrize("seed", range(10))
def test_hyper_parameters(seed):
    """dE/dC, dE/dgamma and dE/ddelta against central differences."""
    at, width = rbf_pair(seed)
    problem, criterion = at()
    solution = newton.solve(problem, tol=1e-13)
    change = width.change(problem.matrix, criterion.cross.matrix, solution.expansion)
    found = hypergradient(problem, solution, criterion, C=2.0, kernel_change=change)

    def loss(**changed):
        moved, judge = at(**changed)
        point = newton.solve(moved, tol=1e-13)
        return judge.value(judge.values(point.expansion, point.b))

    for name, start, value in (
        ("C", 2.0, found.C),
        ("gamma", 0.7, found.kernel),
        ("delta", 0.5, found.delta),
    ):
        h = 1e-5 * start
        numeric = (loss(**{name: start + h}) - loss(**{name: start - h})) / (2 * h)
        assert value == pytest.approx(numeric, rel=1e-6, abs=1e-7), name


def test_no_curved_row():
    """v = 0: the offset is fixed and the derivative is that of a = -c u (eq:gradient_vzero)."""
    K, y = np.eye(2) * 0.1, np.array([1.0, -1.0])
    problem = SmoothWSVMProblem(K, y, np.ones(2), SmoothHinge(0.05))
    criterion = Criterion(DenseCross(np.array([[0.3], [0.1]])), np.array([1.0]), SmoothHinge(0.5))
    solution = newton.solve(problem)
    assert solution.status is Status.OPTIMAL
    found = hypergradient(problem, solution, criterion)
    assert len(found.curvature.curved) == 0
    # a = (1, -1), one validation row with slope g: dE/dc_i = g * y_i k_i.
    g = criterion.slopes(found.values)[0]
    np.testing.assert_allclose(found.c, g * y * np.array([0.3, 0.1]), rtol=1e-12)
    assert found.c.any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_of_the_validation_rows(dtype, monkeypatch):
    from lupi.bilevel import criterion as module

    rng = np.random.default_rng(0)
    K = rng.normal(size=(7, 50)).astype(dtype)
    blocks = BlockCross(lambda start, stop, rows: K[rows, start:stop].astype(float), 7, 50)
    monkeypatch.setattr(module, "_BLOCK", 21)
    a, g = rng.normal(size=7), rng.normal(size=50)
    a[2] = 0.0
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(blocks.forward(a), DenseCross(K).forward(a), atol=tolerance)
    np.testing.assert_allclose(blocks.backward(g), DenseCross(K).backward(g), atol=tolerance)
    assert DenseCross(K).forward(a).dtype == np.float64
