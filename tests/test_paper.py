"""One test per statement of the paper, named by its label."""

from dataclasses import replace

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from cases import HAND_SOLVED, Case, random_wsvm

from lupi import WeightedSVC
from lupi.certificates import wsvm_residuals
from lupi.solution import WSVMDual
from lupi.solvers import wsvm

COUNTEREXAMPLE = HAND_SOLVED[0]


def test_counterexample():
    """sec:example_svmw_not_svmp: w = -2, b = 3, xi = (0, 0, 4), alpha = (4, 6, 2), beta = 0."""
    X, y, c = [[1.0], [2.0], [3.0]], [1, -1, 1], [4, 6, 2]
    model = WeightedSVC(C=1.0, kernel="linear").fit(X, y, sample_weight=c)
    np.testing.assert_allclose(model.coef_, [[-2.0]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, [3.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.slack_, [0.0, 0.0, 4.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.alpha_, [4.0, 6.0, 2.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.beta_, 0.0, rtol=0, atol=1e-9)
    # The objective is 1/2 4 + 2 4, and the misclassified row is the one of the lowest weight.
    assert model.primal_objective_ == pytest.approx(10.0, abs=1e-9)
    assert model.dual_objective_ == pytest.approx(10.0, abs=1e-9)
    assert model.predict(X).tolist() == [1, -1, -1]
    # rho(c, xi) = <c - mean(c), xi> = -8; the paper prints it divided by sum(c): -2/3.
    rho = (np.array(c) - np.mean(c)) @ model.slack_
    assert rho == pytest.approx(-8.0, abs=1e-8)
    assert rho / sum(c) == pytest.approx(-2 / 3, abs=1e-9)


def test_eq_svmw_primal():
    """The fitted (w, b, xi) is feasible, its value is the one reported, and it is the minimum.

    The minimum comes from the primal itself, written out in (w, b, xi) and given to Clarabel.
    """
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(5, 60)), int(rng.integers(1, 5))
        X = rng.normal(size=(n, d))
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
        y[0] = -y[1]
        c = rng.exponential(size=n)
        model = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
        w, b, slack = model.coef_[0], model.intercept_[0], model.slack_
        assert (slack >= 0).all()
        assert (y * (X @ w + b) >= 1 - slack - 1e-12).all()
        assert model.primal_objective_ == pytest.approx(0.5 * w @ w + c @ slack, rel=1e-12)

        settings = clarabel.DefaultSettings()
        settings.verbose = False
        result = clarabel.DefaultSolver(
            sp.diags([1.0] * d + [0.0] * (n + 1), format="csc"),
            np.r_[np.zeros(d + 1), c],
            # margins: 1 - xi - y (<w, x> + b) <= 0, then -xi <= 0
            sp.csc_matrix(
                np.block(
                    [
                        [-y[:, None] * X, -y[:, None], -np.eye(n)],
                        [np.zeros((n, d + 1)), -np.eye(n)],
                    ]
                )
            ),
            np.r_[-np.ones(n), np.zeros(n)],
            [clarabel.NonnegativeConeT(2 * n)],
            settings,
        ).solve()
        assert str(result.status) == "Solved"
        assert model.primal_objective_ == pytest.approx(result.obj_val, rel=1e-7)
        # w is unique; |w - w'|^2 / 2 is at most the difference of the objectives.
        np.testing.assert_allclose(w, result.x[:d], rtol=0, atol=1e-4)


@pytest.mark.parametrize("case", HAND_SOLVED, ids=repr)
def test_eq_svmw_dual(case):
    """alpha is feasible, -F(alpha) is the value reported, no feasible point does better, and the
    value is the primal's."""
    solution = wsvm.solve(case.problem(), tol=1e-9)
    alpha, y, c = solution.dual.alpha, case.y, case.c
    Q = y[:, None] * case.K * y

    def F(alpha):
        return 0.5 * alpha @ Q @ alpha - alpha.sum()

    assert (alpha >= 0).all()
    assert (alpha <= c).all()
    assert abs(y @ alpha) <= 1e-12
    assert solution.dual_objective == pytest.approx(-F(alpha), abs=1e-12)
    assert solution.dual_objective == pytest.approx(case.objective, abs=1e-9)
    rng = np.random.default_rng(0)
    better = 0
    for _ in range(2000):
        # A random feasible point: any point of the box, the heavier class scaled down.
        other = c * rng.random(case.n) ** rng.choice([0.1, 1.0, 10.0])
        up, down = other[y > 0].sum(), other[y < 0].sum()
        if up == 0 or down == 0:
            other[:] = 0.0
        else:
            other[y > 0] *= min(1.0, down / up)
            other[y < 0] *= min(1.0, up / down)
        better += F(other) < F(alpha) - 1e-9
    assert better == 0


@pytest.mark.parametrize("field", ["w", "b", "xi", "comp1", "comp2", "const1", "const2"])
def test_eq_svmw_kkt(field):
    """Every line of the optimality conditions holds at what the solver returns for tol=1e-9."""
    tol = 1e-9
    problems = [(repr(case), case) for case in HAND_SOLVED]
    problems += [(repr(case), case) for case in mild_cases(100)]
    for name, case in problems:
        solution = wsvm.solve(case.problem(), tol=tol)
        primal, dual = solution.primal, solution.dual
        residuals = wsvm_residuals(case.problem(), dual.alpha, dual.beta, primal.b, primal.slack)
        total, heaviest = case.c.sum(), case.c.max()
        # <w, z> is a sum of terms that add up to at most this.
        terms = max(1.0, case.K.diagonal().max() * total)
        allowed = {
            "w": 1e-15 * terms,
            "b": 1e-13 * total,
            "xi": 1e-15 * heaviest,
            "comp1": (tol + 1e-13 * terms) * heaviest,
            "comp2": (tol + 1e-13 * terms) * heaviest,
            "const1": 1e-13 * terms,
            "const2": 0.0,
        }[field]
        assert getattr(residuals, field) <= allowed, (name, residuals)
        assert residuals.largest >= getattr(residuals, field)


def mild_cases(count):
    """The first of the random problems whose terms of <w, z> round to less than tol=1e-9."""
    found, seed = [], 0
    while len(found) < count:
        case = random_wsvm(seed)
        if case.K.diagonal().max() * case.c.sum() <= 1e5:
            found.append(case)
        seed += 1
    return found


def balanced_or_not(seed):
    """A problem with weights that are whole multiples of a power of two: their sums are exact.

    Half of them give both classes the same total weight, and the weights go from so small that
    every alpha is at its bound to so large that some are free.
    """
    rng = np.random.default_rng([1999, seed])
    n = int(rng.integers(4, 40))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    c = rng.integers(0, 5, size=n).astype(float)
    c[:2] = 1.0, 1.0
    if seed % 2:
        excess = y @ c
        c[0 if excess < 0 else 1] += abs(excess)
    c *= 2.0 ** -int(rng.integers(0, 12))
    X = rng.normal(size=(n, 2)) + 0.7 * y[:, None]
    kernel, params = [("linear", {}), ("rbf", {"gamma": 0.5})][int(rng.integers(2))]
    return Case(f"seed {seed}", kernel, X, y, c, params)


def primal_value(case, expansion, squared_norm, b):
    slack = np.maximum(1 - case.y * (expansion + b), 0)
    return 0.5 * squared_norm + case.c @ slack


def test_thm_svmw_unique():
    r"""b is not unique iff one of the two equalities between sums of weights holds.

    With I_0 = {y f < 1} and I_1 = {y f <= 1}, the right derivative of the loss in b is
    sum(c, I_- and I_1) - sum(c, I_+ and I_0) and the left one is
    sum(c, I_- and I_0) - sum(c, I_+ and I_1): each equality says that b can move one way at no
    cost.
    """
    n_unique = n_interval = 0
    for seed in range(200):
        case = balanced_or_not(seed)
        y, c = case.y, case.c
        solution = wsvm.solve(case.problem(), tol=1e-9)
        assert solution.status.converged, case
        lower, upper = solution.primal.b_interval
        signed = y * solution.dual.alpha
        expansion = case.K @ signed
        squared_norm = signed @ expansion

        def sums(b, expansion=expansion, y=y, c=c):
            """The four sums of the theorem; rows within 1e-7 of the margin count as on it."""
            margin = y * (expansion + b)
            inside, on_or_inside = margin < 1 - 1e-7, margin <= 1 + 1e-7
            return (
                c[(y < 0) & inside].sum(),
                c[(y > 0) & on_or_inside].sum(),
                c[(y > 0) & inside].sum(),
                c[(y < 0) & on_or_inside].sum(),
            )

        def conditions(b, sums=sums):
            down_0, up_1, up_0, down_1 = sums(b)
            return bool(down_0 == up_1), bool(up_0 == down_1)

        best = primal_value(case, expansion, squared_norm, solution.primal.b)
        assert best == pytest.approx(solution.primal_objective, rel=1e-12), case
        step = 1e-3
        if upper - lower > 1e-7:
            n_interval += 1
            assert any(conditions(solution.primal.b)), case
            assert solution.primal.b == pytest.approx(0.5 * (lower + upper), abs=1e-12), case
            # Anywhere inside the primal is the same, and both equalities hold, at an end one.
            for t in (0.01, 0.3, 0.5, 0.9, 0.99):
                b = (1 - t) * lower + t * upper
                value = primal_value(case, expansion, squared_norm, b)
                assert value == pytest.approx(best, rel=1e-9), case
                if min(b - lower, upper - b) > 1e-6:
                    assert conditions(b) == (True, True), case
            assert conditions(lower) == (False, True), case
            assert conditions(upper) == (True, False), case
        else:
            n_unique += 1
            assert conditions(solution.primal.b) == (False, False), case
        # Outside it is larger, and by the slope that the sums of the theorem give.
        down_0, up_1, _, _ = sums(lower)
        _, _, up_0, down_1 = sums(upper)
        assert up_1 - down_0 > 0, case
        assert down_1 - up_0 > 0, case
        below = primal_value(case, expansion, squared_norm, lower - step)
        above = primal_value(case, expansion, squared_norm, upper + step)
        assert below >= best + step * (up_1 - down_0) * (1 - 1e-6), case
        assert above >= best + step * (down_1 - up_0) * (1 - 1e-6), case
    # Both sides of the "iff" were met.
    assert n_interval >= 50
    assert n_unique >= 50


def test_thm_svmw_unique_w():
    """w is unique: any start and the reference give the same <w, z>."""
    for case in mild_cases(30):
        problem = case.problem()
        first = wsvm.solve(problem, tol=1e-9)
        f = case.K @ (case.y * first.dual.alpha)
        far = wsvm.solve(case.problem(), tol=1e-9, init=_start(first, case))
        g = case.K @ (case.y * far.dual.alpha)
        # |w - w'|^2 <= 2 (gap + gap'), and |<w - w', z>| <= |w - w'| |z|.
        distance = np.sqrt(2 * (abs(first.gap) + abs(far.gap)) + 1e-14 * case.c.sum())
        assert np.abs(f - g).max() <= distance * np.sqrt(case.K.diagonal().max()) + 1e-9, case


def _start(solution, case):
    """Another feasible point than zero: every alpha at half of its bound, before balancing."""
    return replace(solution, dual=WSVMDual(0.5 * case.c, 0.5 * case.c))
