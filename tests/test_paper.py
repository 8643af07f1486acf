"""One test per statement of the paper, named by its label."""

from dataclasses import replace

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from cases import (
    HAND_SOLVED,
    HAND_SOLVED_SVMPLUS,
    Case,
    SVMPlusCase,
    random_svmplus,
    random_wsvm,
)

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.certificates import svmplus_residuals, wsvm_residuals
from lupi.solution import WSVMDual
from lupi.solvers import svmplus, wsvm

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


# ---- SVM+ ---------------------------------------------------------------------------------------


def privileged_data(seed, missing=0.0):
    """Linear rows, labels, costs, and privileged features that know something about the noise."""
    rng = np.random.default_rng([2014, seed])
    n, d, d_priv = int(rng.integers(8, 60)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    noise = rng.normal(size=n)
    y = np.where(X[:, 0] + 0.7 * noise > 0, 1.0, -1.0)
    y[0] = -y[1]
    X_priv = np.c_[np.abs(noise), rng.normal(size=(n, d_priv - 1))]
    X_priv[rng.random(n) < missing] = np.nan
    X_priv[0] = 1.0
    return X, y, rng.exponential(size=n), X_priv


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("correction_reg", [1e-3, 0.1, 10.0])
def test_eq_svmp_primal(correction_reg, missing):
    """The fitted (w, b, w*, b*) is feasible, its value is the one reported, and it is the minimum.

    The minimum comes from the primal itself, written out in (w, b, w*, b*) and the slacks of the
    rows without privileged information, and given to Clarabel.
    """
    for seed in range(6):
        X, y, C, X_priv = privileged_data(seed, missing)
        known = ~np.isnan(X_priv[:, 0])
        P = np.where(known[:, None], X_priv, 0.0)
        model = SVMPlusClassifier(
            kernel="linear", kernel_priv="linear", correction_reg=correction_reg, tol=1e-9
        ).fit(X, y, sample_weight=C, X_priv=X_priv)
        w, b = model.coef_[0], model.intercept_[0]
        w_corr = model.solution_.primal.coef_corr @ X_priv[known]
        slack = model.slack_
        np.testing.assert_allclose(
            slack[known], (P @ w_corr + model.intercept_corr_)[known], rtol=0, atol=1e-9
        )
        assert (slack >= -1e-12).all()
        assert (y * (X @ w + b) >= 1 - slack - 1e-10).all()
        value = 0.5 * w @ w + 0.5 * correction_reg * w_corr @ w_corr + C @ slack
        assert model.primal_objective_ == pytest.approx(value, rel=1e-9)

        n, d, q, m = len(y), X.shape[1], P.shape[1], int((~known).sum())
        own = np.eye(n)[:, ~known]  # slacks of their own
        xi = np.hstack([np.zeros((n, d + 1)), P * known[:, None], known[:, None], own])
        margin = np.hstack([y[:, None] * X, y[:, None], np.zeros((n, q + 1 + m))])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        result = clarabel.DefaultSolver(
            sp.diags([1.0] * d + [0.0] + [correction_reg] * q + [0.0] * (1 + m), format="csc"),
            C @ xi,
            sp.csc_matrix(np.vstack([-(margin + xi), -xi])),
            np.r_[-np.ones(n), np.zeros(n)],
            [clarabel.NonnegativeConeT(2 * n)],
            settings,
        ).solve()
        assert str(result.status) == "Solved"
        assert model.primal_objective_ == pytest.approx(result.obj_val, rel=1e-6)
        # w is unique; |w - w'|^2 / 2 is at most the difference of the objectives.
        np.testing.assert_allclose(w, result.x[:d], rtol=0, atol=1e-3)


@pytest.mark.parametrize("case", HAND_SOLVED_SVMPLUS, ids=repr)
def test_eq_svmp_dual(case):
    """The point is feasible, its value is the one reported, no feasible point does better, and the
    value is the primal's."""
    solution = svmplus.solve(case.problem(), tol=1e-9)
    dual, y, C, known = solution.dual, case.y, case.c, case.known
    Q = y[:, None] * case.K * y

    def value(alpha, alpha_corr):
        delta = alpha_corr[known]
        penalty = delta @ case.K_corr @ delta / case.correction_reg if case.correction_reg else 0.0
        return alpha.sum() - 0.5 * alpha @ Q @ alpha - 0.5 * penalty

    assert (dual.alpha >= 0).all()
    assert (dual.beta >= 0).all()
    assert abs(y @ dual.alpha) <= 1e-12
    assert abs(dual.alpha_corr.sum()) <= 1e-12
    np.testing.assert_allclose(dual.alpha + dual.beta - C, dual.alpha_corr, rtol=0, atol=1e-12)
    if case.correction_reg == 0:  # eq:svmp_kkt:cw
        assert np.abs(case.K_corr @ dual.alpha_corr[known]).max() <= 1e-9
    assert solution.dual_objective == pytest.approx(value(dual.alpha, dual.alpha_corr), abs=1e-9)
    assert solution.dual_objective == pytest.approx(case.objective, abs=1e-9)
    assert solution.primal_objective == pytest.approx(case.objective, abs=1e-9)

    rng = np.random.default_rng(0)
    better = 0
    for _ in range(2000):
        # Any alpha, balanced and within the costs in total; what is left of them goes to beta.
        alpha = C.max() * rng.random(case.n) ** rng.choice([0.1, 1.0, 10.0]) * (C > 0)
        outside = np.setdiff1d(np.arange(case.n), known)
        alpha[outside] = np.minimum(alpha[outside], C[outside])
        if case.correction_reg == 0:
            alpha = np.minimum(alpha, C)
        up, down = alpha[y > 0].sum(), alpha[y < 0].sum()
        if up == 0 or down == 0:
            alpha[:] = 0.0
        else:
            alpha[y > 0] *= min(1.0, down / up)
            alpha[y < 0] *= min(1.0, up / down)
        alpha *= min(1.0, C[known].sum() / max(1e-300, alpha[known].sum()))
        alpha_corr = np.zeros(case.n)
        if case.correction_reg > 0:
            beta = rng.random(len(known)) * (C[known] > 0)
            beta *= (C[known].sum() - alpha[known].sum()) / beta.sum()
            alpha_corr[known] = alpha[known] + beta - C[known]
        better += value(alpha, alpha_corr) > value(dual.alpha, dual.alpha_corr) + 1e-9
    assert better == 0


def mild_svmplus_cases(count):
    """The first of the random problems whose sums round to less than tol=1e-9."""
    found, seed = [], 0
    while len(found) < count:
        case = random_svmplus(seed)
        terms = (
            case.K.diagonal().max() + case.K_corr.diagonal().max(initial=0) / case.correction_reg
        )
        if terms * case.c.sum() <= 1e5 and len(case.known):
            found.append(case)
        seed += 1
    return found


@pytest.mark.parametrize("field", ["w", "b", "cw", "cb", "comp1", "comp2", "const1", "const2"])
def test_eq_svmp_kkt(field):
    """Every line of the optimality conditions holds at what the solver returns for tol=1e-9."""
    tol = 1e-9
    for case in [*HAND_SOLVED_SVMPLUS, *mild_svmplus_cases(60)]:
        solution = svmplus.solve(case.problem(), tol=tol)
        primal, dual = solution.primal, solution.dual
        residuals = svmplus_residuals(
            case.problem(), dual.alpha, dual.beta, primal.b, primal.slack, b_corr=primal.b_corr
        )
        total = case.c.sum()
        K_corr = case.K_corr.diagonal().max(initial=0.0)
        terms = max(1.0, case.K.diagonal().max() * total)
        terms += K_corr * total / (case.correction_reg or 1.0)
        # comp1 and comp2 are products with duals, which may be as large as the sum of all costs.
        allowed = {
            "w": 1e-15 * terms,
            "b": 1e-12 * total,
            "cw": (tol + 1e-13 * terms) * max(case.correction_reg, 1.0),
            "cb": 1e-12 * total,
            "comp1": (2 * tol + 1e-13 * terms) * total,
            "comp2": (2 * tol + 1e-13 * terms) * total,
            "const1": 1e-13 * terms,
            "const2": 1e-13 * terms,
        }[field]
        assert getattr(residuals, field) <= allowed, (case, residuals)
        assert residuals.largest >= getattr(residuals, field)


def test_thm_svmp_unique():
    """With a support vector b is one number, and to move b costs, b_corr being chosen anew; also
    where the weighted SVM with the same costs has an interval of offsets."""
    n_interval = 0
    for seed in range(100):
        plain = balanced_or_not(seed)
        rng = np.random.default_rng([4, seed])
        X_priv = rng.normal(size=(plain.n, 2))
        case = SVMPlusCase(
            f"seed {seed}", plain.kernel, plain.X, plain.y, plain.c, plain.params,
            X_priv, "rbf", {"gamma": 0.5}, 10.0 ** rng.uniform(-2, 2),
        )  # fmt: skip
        solution = svmplus.solve(case.problem(), tol=1e-9)
        assert solution.status.converged, case
        lower, upper = wsvm.solve(plain.problem(), tol=1e-9).primal.b_interval
        n_interval += upper - lower > 1e-3
        b = solution.primal.b
        assert solution.dual.alpha.any(), case
        assert solution.primal.b_interval == pytest.approx((b, b), abs=1e-9), case

        y, C = case.y, case.c
        present = C > 0
        f = case.K @ (y * solution.dual.alpha)
        xi = case.K_corr @ solution.primal.coef_corr

        def loss(b, f=f, xi=xi, y=y, C=C, present=present):
            b_corr = np.maximum(1 - y * (f + b) - xi, -xi)[present].max()
            return C @ (xi + b_corr)

        best = loss(b)
        # Where beta is positive in one class and alpha in both, each way has a slope.
        for step in (1e-3, 1e-2):
            assert loss(b + step) > best + 1e-6 * step * C.sum(), case
            assert loss(b - step) > best + 1e-6 * step * C.sum(), case
    assert n_interval >= 20


def test_thm_svmp_unique_functions():
    """w, w* and b* are unique: any start gives the same functions."""
    rng = np.random.default_rng(0)
    for case in mild_svmplus_cases(30):
        problem = case.problem()
        first = svmplus.solve(problem, tol=1e-9)
        alpha, beta = case.c * rng.random(case.n), case.c * rng.random(case.n)
        start = replace(first, dual=replace(first.dual, alpha=alpha, beta=beta))
        again = svmplus.solve(problem, init=start, tol=1e-9)
        # The objective is strongly convex in w and, with correction_reg, in w*.
        gaps = abs(first.gap) + abs(again.gap) + 1e-14 * case.c.sum()
        f, g = (case.K @ (case.y * s.dual.alpha) for s in (first, again))
        distance = np.sqrt(2 * gaps * case.K.diagonal().max())
        assert np.abs(f - g).max() <= distance + 1e-9, case
        xi, eta = (case.K_corr @ s.primal.coef_corr for s in (first, again))
        distance = np.sqrt(2 * gaps / case.correction_reg * case.K_corr.diagonal().max())
        assert np.abs(xi - eta).max() <= distance + 1e-9, case
        both = 2e-9 + 2 * distance + gaps / case.c.sum()
        assert first.primal.b_corr == pytest.approx(again.primal.b_corr, abs=both), case


def test_thm_svmp_unique_without_support_vectors():
    """Costs of one class only: alpha = 0, the interval of the theorem, and b = -1 or 1."""
    X, y, C, X_priv = privileged_data(3)
    for label in (-1.0, 1.0):
        costs = np.where(y == label, C, 0.0)
        model = SVMPlusClassifier().fit(X, y, sample_weight=costs, X_priv=X_priv)
        assert not model.alpha_.any()
        expected = [1.0, np.inf] if label == 1 else [-np.inf, -1.0]
        assert model.intercept_interval_.tolist() == expected
        assert model.intercept_.tolist() == [label]
        assert model.intercept_corr_ == 0.0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("correction_reg", [1e-2, 1.0, 100.0])
def test_thm_svmw_from_svmp(kernel, correction_reg):
    """(w, b, xi, alpha, beta) is optimal for the weighted SVM with c = alpha + beta, and that
    SVM trained with these weights is the same classifier."""
    for seed in range(5):
        X, y, C, X_priv = privileged_data(seed, missing=0.2)
        settings = {"kernel": kernel, "gamma": 0.5, "tol": 1e-9}
        model = SVMPlusClassifier(correction_reg=correction_reg, **settings).fit(
            X, y, sample_weight=C, X_priv=X_priv
        )
        c = model.instance_weights_
        assert np.abs(c - C).max() > 1e-3  # other weights than the costs
        case = Case("", kernel, X, y, c, {"gamma": 0.5} if kernel == "rbf" else {})
        residuals = wsvm_residuals(
            case.problem(), model.alpha_, model.beta_, model.intercept_[0], model.slack_
        )
        assert residuals.largest <= 1e-8 * max(1.0, c.max())
        weighted = WeightedSVC(**settings).fit(X, y, sample_weight=c)
        f = model.decision_function(X) - model.intercept_[0]
        g = weighted.decision_function(X) - weighted.intercept_[0]
        np.testing.assert_allclose(f, g, rtol=0, atol=1e-6)
        # b is optimal too. By its value: rounding of sums of c opens or closes an interval.
        loss = c @ np.maximum(0.0, 1 - y * model.decision_function(X))
        best = weighted.dual_objective_ - 0.5 * model.alpha_ @ (y * f)
        assert loss == pytest.approx(best, rel=1e-7, abs=1e-7)


def test_prop_svmp_rho_equality_constant_slack():
    """First case: w* = 0, one slack for all rows, and the hard margin SVM as a special case."""
    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0], 15)
    X = rng.normal(size=(30, 2)) + 3.0 * y[:, None]
    X_priv = rng.normal(size=(30, 2))
    hard = WeightedSVC(1e6, kernel="linear", tol=1e-9).fit(X, y)
    assert hard.slack_.max() == pytest.approx(0.0, abs=1e-9)
    squared_norm = float(hard.coef_[0] @ hard.coef_[0])
    # With one slack t for all, w = (1 - t) w_hard and (1 - t)^2 |w|^2 / 2 + n C t is smallest at
    # 1 - t = n C / |w|^2, or t = 0.
    for share in (0.25, 0.8, 1e3):
        C = share * squared_norm / len(y)
        for correction_reg, priv in ((1e8, X_priv), (1.0, np.ones((30, 1)))):
            model = SVMPlusClassifier(
                C, kernel="linear", kernel_priv="linear", correction_reg=correction_reg, tol=1e-9
            ).fit(X, y, X_priv=priv)
            t = max(0.0, 1 - share)
            np.testing.assert_allclose(model.slack_, t, rtol=0, atol=1e-6)
            assert model.intercept_corr_ == pytest.approx(t, abs=1e-6)
            np.testing.assert_allclose(model.coef_, (1 - t) * hard.coef_, rtol=0, atol=1e-6)
            assert model.intercept_[0] == pytest.approx((1 - t) * hard.intercept_[0], abs=1e-6)
            value = 0.5 * (1 - t) ** 2 * squared_norm + len(y) * C * t
            assert model.primal_objective_ == pytest.approx(value, rel=1e-6)


def test_prop_svmp_rho_equality_slack_flattens():
    """On data that are not separable the slack becomes constant like 1 / correction_reg."""
    X, y, C, X_priv = privileged_data(1)
    spread = []
    for correction_reg in (1e2, 1e4, 1e6, 1e8):
        model = SVMPlusClassifier(correction_reg=correction_reg, tol=1e-9).fit(
            X, y, sample_weight=C, X_priv=X_priv
        )
        spread.append(np.ptp(model.slack_))
    assert 0 < spread[3] <= 1e-7 * C.sum()
    np.testing.assert_allclose(spread[2] / spread[3], 100.0, rtol=1e-2)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("priv", ["identity", "gaussian", "precomputed", "poly"])
def test_prop_svmp_rho_equality_no_penalty(kernel, priv):
    """Second case: correction_reg = 0 and privileged features of rank n are the weighted SVM."""
    for seed in range(5):
        X, y, C, _ = privileged_data(seed)
        n = len(y)
        rng = np.random.default_rng(seed)
        X_priv = {
            "identity": np.eye(n),
            "gaussian": rng.normal(size=(n, n)),
            "precomputed": np.diag(rng.uniform(0.5, 2.0, size=n)),
            "poly": np.linalg.qr(rng.normal(size=(n, n)))[0],
        }[priv]
        settings = {"kernel": kernel, "gamma": 0.5, "tol": 1e-9}
        model = SVMPlusClassifier(
            correction_reg=0.0,
            kernel_priv=priv if priv in ("precomputed", "poly") else "linear",
            gamma_priv=1.0,
            degree_priv=2,
            coef0_priv=1.0,
            **settings,
        ).fit(X, y, sample_weight=C, X_priv=X_priv)
        plain = WeightedSVC(**settings).fit(X, y, sample_weight=C)
        assert model.dual_objective_ == pytest.approx(plain.dual_objective_, rel=1e-6)
        assert model.primal_objective_ == pytest.approx(plain.dual_objective_, rel=1e-6)
        np.testing.assert_allclose(model.instance_weights_, C, rtol=0, atol=1e-6)
        f = model.decision_function(X) - model.intercept_[0]
        g = plain.decision_function(X) - plain.intercept_[0]
        np.testing.assert_allclose(f, g, rtol=0, atol=1e-4)
        hinge = np.maximum(0.0, 1 - y * model.decision_function(X))
        np.testing.assert_allclose(model.slack_, hinge, rtol=0, atol=1e-4)
