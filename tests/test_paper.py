"""One test per statement of the paper, named by its label."""

import math
from dataclasses import replace
from fractions import Fraction

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from cases import (
    HAND_SOLVED,
    HAND_SOLVED_SVMPLUS,
    Case,
    SVMPlusCase,
    mixture_w,
    numpy_kernel,
    random_bilevel,
    random_svmplus,
    random_wsvm,
)
from data import data_home, needs
from scipy.optimize import linprog, lsq_linear

from lupi import SVMPlusClassifier, WeightedSVC, WeightLearningClassifier
from lupi.bilevel import jacobian
from lupi.certificates import svmplus_residuals, wsvm_residuals
from lupi.datasets import (
    fetch_breast_cancer_wisconsin,
    fetch_mammographic_mass,
    fetch_mnist_5v8,
    fetch_spambase,
    make_blobs_with_outliers,
    make_w_mixture,
    paper_split,
)
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
from lupi.experiments import Replay, Shared, SVMPlus
from lupi.experiments._paper import PANELS, Setting
from lupi.losses import SmoothHinge
from lupi.problems import SmoothWSVMProblem
from lupi.solution import Solution, Status, SVMPlusDual, SVMPlusPrimal, WSVMDual
from lupi.solvers import newton, svmplus, wsvm
from lupi.uniqueness import dual_is_unique, offset_interval, offset_is_unique
from lupi.weighting import NadarayaWatson, conditional_weights

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
    value = (np.array(c) - np.mean(c)) @ model.slack_
    assert value == pytest.approx(-8.0, abs=1e-8)
    assert value / sum(c) == pytest.approx(-2 / 3, abs=1e-9)


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


# ---- The theory as functions ---------------------------------------------------------------------


def theory_case(seed):
    """Small problems of either kernel; repeated rows, integer features and light outliers make the
    Gram matrices singular and rho of either sign."""
    rng = np.random.default_rng([53, seed])
    n, d = int(rng.integers(5, 31)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    if seed % 3 == 0:
        X = rng.integers(-3, 4, size=(n, d)).astype(float)
    score = X[:, 0] + 0.3 * rng.normal(size=n)
    y = np.where(score > 0, 1.0, -1.0)
    wrong = rng.random(n) < (0.0, 0.2, 0.45)[seed % 5 % 3]
    y[wrong] *= -1
    y[:2] = 1.0, -1.0
    c = rng.exponential(size=n) * 10.0 ** rng.uniform(-1, 1)
    if seed % 2:
        c[wrong] *= 0.02
    if seed % 4 == 0:
        twins = rng.choice(n, size=n // 2)
        X[twins] = X[rng.choice(n, size=len(twins))]
    # Narrow enough for a kernel matrix whose rank is not in doubt.
    kernel, params = [("linear", {}), ("rbf", {"gamma": 4.0})][int(rng.integers(2))]
    return Case(f"seed {seed}: n={n}, {kernel}", kernel, X, y, c, params)


THEORY = [theory_case(seed) for seed in range(170)]


def exact_fit(case, **settings):
    return case.estimator(tol=1e-9, **settings).fit(case.X, case.y, sample_weight=case.c)


def margins(case, model):
    """(y f, hinge) by NumPy alone."""
    margin = case.y * (case.K @ (case.y * model.alpha_) + model.intercept_[0])
    return margin, np.maximum(0.0, 1 - margin)


def optimality_gap(case, model, c):
    """How far (w, b) of the model is from the optimum of the weighted SVM with weights c: its
    primal value against the dual optimum of another fit, relative to the sum of the weights."""
    other = Case(case.name, case.kernel, case.X, case.y, c, case.params)
    f0 = case.K @ (case.y * model.alpha_)
    value = primal_value(other, f0, (case.y * model.alpha_) @ f0, model.intercept_[0])
    solution = wsvm.solve(other.problem(), tol=1e-10)
    return (value - solution.dual_objective) / c.sum()


def equations(case, *more):
    """Orthonormal rows A with A d = 0 iff sum d y z = 0, y'd = 0 and d is orthogonal to `more`; and
    whether the rank is in doubt."""
    values, vectors = np.linalg.eigh(case.K)
    Z = vectors * np.sqrt(np.maximum(values, 0.0))
    _, sizes, rows = np.linalg.svd(np.vstack([(Z * case.y[:, None]).T, case.y, *more]))
    sizes = sizes[: case.n] / sizes[0]
    return rows[: len(sizes)][sizes > 1e-6], bool(((sizes > 1e-8) & (sizes < 1e-4)).any())


def test_thm_svmw_unique_as_a_function():
    """offset_is_unique gives the sums and conditions of the theorem, offset_interval b's range."""
    n_interval = 0
    for seed in range(150):
        case = balanced_or_not(seed)
        model = exact_fit(case)
        answer = offset_is_unique(model)
        lower, upper = offset_interval(model)
        assert answer.interval == (lower, upper), case
        assert lower - 1e-8 <= model.intercept_[0] <= upper + 1e-8, case
        np.testing.assert_allclose(model.intercept_interval_, (lower, upper), atol=1e-8)
        margin, _ = margins(case, model)
        inside, on = margin < 1 - 1e-7, margin <= 1 + 1e-7
        up, c = case.y > 0, case.c
        expected = (
            (c[~up & inside].sum(), c[up & on].sum()),
            (c[up & inside].sum(), c[~up & on].sum()),
        )
        np.testing.assert_allclose(answer.sums, expected, rtol=1e-12, atol=1e-12)
        assert answer.conditions == tuple(a == b for a, b in expected), case
        assert bool(answer) == (upper - lower <= 1e-7) == (not any(answer.conditions)), case
        n_interval += not answer
    assert 50 <= n_interval <= 100


def test_thm_svmp_unique_as_a_function():
    """A support vector makes b unique; without one the interval is the theorem's."""
    for seed in range(100):
        plain = balanced_or_not(seed)
        rng = np.random.default_rng([4, seed])
        X_priv = rng.normal(size=(plain.n, 2))
        model = SVMPlusClassifier(kernel=plain.kernel, **plain.params, tol=1e-9)
        model.fit(plain.X, plain.y, sample_weight=plain.c, X_priv=X_priv)
        answer = offset_is_unique(model)
        assert answer, plain
        assert offset_interval(model) == pytest.approx((model.intercept_[0],) * 2, abs=1e-8)
        label = 1.0 if seed % 2 else -1.0
        model.fit(plain.X, plain.y, sample_weight=(plain.y == label) * 1.0, X_priv=X_priv)
        own = plain.y == label
        f_corr = model.predict_slack(X_priv)
        # max over I_+ of 1 - xi <= b <= min over I_- of xi - 1, over the rows that are present.
        lower = (1 - f_corr[own]).max() if label > 0 else -np.inf
        upper = np.inf if label > 0 else (f_corr[own] - 1).min()
        assert offset_interval(model) == pytest.approx((lower, upper), abs=1e-9)
        assert not offset_is_unique(model)


def test_prop_unique_dual():
    """The decision agrees with linear programmes over all dual solutions, written out on the whole
    kernel matrix; a direction that is returned leads to a second solution."""
    n_unique = n_other = n_doubtful = 0
    for case in THEORY:
        model = exact_fit(case)
        answer = dual_is_unique(model)
        y, c, alpha = case.y, case.c, model.alpha_
        Q = y[:, None] * case.K * y
        if answer:
            n_unique += 1
        else:
            n_other += 1
            d, other = answer.direction, answer.alpha
            assert answer.step > 0
            assert np.abs(d).max() == pytest.approx(1.0)
            np.testing.assert_allclose(other, alpha + answer.step * d, atol=1e-12)
            np.testing.assert_allclose(answer.beta, c - other, atol=1e-9 * c.max())
            assert (other >= 0).all()
            assert (other <= c * (1 + 1e-12)).all()
            assert np.abs(other - alpha).max() > 1e-6 * c.max()
            scale = c.sum() * case.K.diagonal().max()
            # Null(YKY), the complement of 1, the complement of y.
            for value in (np.abs(Q @ d).max(), abs(d.sum()), abs(y @ d)):
                assert value <= 1e-6 * max(1.0, scale), case
            residuals = wsvm_residuals(
                case.problem(), other, c - other, model.intercept_[0], model.slack_
            )
            assert residuals.largest <= 1e-6 * max(1.0, scale), case
        # All dual solutions, by linear programmes: another one is found iff alpha is not unique.
        A, doubtful = equations(case, np.ones(case.n))
        n_doubtful += doubtful
        if doubtful:
            continue
        rng = np.random.default_rng(0)
        furthest = 0.0
        goal = rng.normal(size=case.n)
        for sign in (1, -1):
            found = linprog(sign * goal, A_eq=A, b_eq=A @ alpha, bounds=np.c_[np.zeros(case.n), c])
            assert found.status == 0, case
            furthest = max(furthest, np.abs(found.x - alpha).max())
        assert (furthest <= 1e-5 * c.max()) == bool(answer), (case, furthest)
    assert n_doubtful <= 60
    assert n_unique >= 30
    assert n_other >= 20


def test_prop_unique_dual_svm_plus():
    """The same for SVM+: (alpha, alpha*) moves in Null(YKY) x Null(K*) within the bounds."""
    n_unique = n_other = 0
    for case in THEORY[:100]:
        rng = np.random.default_rng(case.n)
        X_priv = rng.integers(-1, 2, size=(case.n, 2)).astype(float)
        X_priv[rng.random(case.n) < 0.2] = np.nan
        model = SVMPlusClassifier(
            kernel=case.kernel, **case.params, kernel_priv="linear", tol=1e-9
        ).fit(case.X, case.y, sample_weight=case.c, X_priv=X_priv)
        answer = dual_is_unique(model)
        if answer:
            n_unique += 1
            continue
        n_other += 1
        known = ~np.isnan(X_priv[:, 0])
        P = np.where(known[:, None], X_priv, 0.0)
        Q = case.y[:, None] * case.K * case.y
        d, e = answer.direction, answer.direction_beta
        scale = case.c.sum() * max(1.0, case.K.diagonal().max())
        checks = [np.abs(Q @ d).max(), abs(d.sum()), abs(case.y @ d)]
        checks += [np.abs(P.T @ ((d + e) * known)).max(), abs(((d + e) * known).sum())]
        checks += [np.abs((d + e)[~known]).max(initial=0.0)]
        assert max(checks) <= 1e-6 * scale, case
        assert (answer.alpha >= 0).all()
        assert (answer.beta >= 0).all()
        assert answer.step > 0
        residuals = svmplus_residuals(
            model._problem, answer.alpha, answer.beta, model.intercept_[0], model.slack_
        )
        assert residuals.largest <= 1e-5 * scale, case
    assert n_unique >= 5
    assert n_other >= 20


def test_cor_unique_dual():
    """Kernel matrices of full rank: both duals are unique."""
    for seed in range(100):
        rng = np.random.default_rng([1, seed])
        n = int(rng.integers(4, 25))
        X, X_priv = rng.normal(size=(n, 4)), rng.normal(size=(n, 4))
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        c = rng.exponential(size=n)
        assert np.linalg.cond(numpy_kernel("rbf", X, X, gamma=2.0)) < 1e8
        assert dual_is_unique(WeightedSVC(gamma=2.0, tol=1e-9).fit(X, y, sample_weight=c))
        plus = SVMPlusClassifier(gamma=2.0, gamma_priv=2.0, tol=1e-9)
        assert dual_is_unique(plus.fit(X, y, sample_weight=c, X_priv=X_priv))


def test_def_equiv_weights():
    """Members are recognised, and what is changed by 1e-4 in a direction that leaves W is not."""
    n_below = 0
    for case in THEORY:
        model = exact_fit(case)
        family = EquivalentWeights(model)
        members = [case.c, *family.sample(3, random_state=0)]
        for c in members:
            assert family.contains(c), (case, family.violations(c))
            mu, nu = family.decompose(c)
            # The definition, line by line, on the whole kernel matrix.
            margin, hinge = margins(case, model)
            scale = max(case.c.max(), c.max())
            assert (mu >= 0).all()
            assert (nu >= -1e-12 * scale).all()
            np.testing.assert_allclose(mu + nu, c, rtol=0, atol=1e-12 * c.max())
            change = case.y * (mu - model.alpha_)
            assert abs(change.sum()) <= 1e-7 * scale
            assert change @ case.K @ change <= (1e-6 * scale) ** 2 * case.K.diagonal().max()
            assert np.abs(mu * (hinge - 1 + margin)).max() <= 1e-7 * max(1.0, c.max())
            assert np.abs(nu * hinge).max() <= 1e-7 * max(1.0, c.max())
        scale = case.c.max()
        hard = np.flatnonzero(family.hard)
        for row in hard[:3]:
            changed = case.c.copy()
            changed[row] += 1e-4 * scale
            # Does it leave? The distance of z_row from what rows on the margin can do.
            on = np.flatnonzero(family.on_margin)
            values, vectors = np.linalg.eigh(case.K)
            Z = vectors * np.sqrt(np.maximum(values, 0))
            A = np.c_[Z, np.ones(case.n)] * case.y[:, None]
            room = case.c[on]
            away = lsq_linear(A[on].T, -A[row], (-room / 1e-4 / scale, room / 1e-4 / scale)).cost
            if away > 1e-4:
                assert not family.contains(changed), case
                found = family.violations(changed)
                assert max(found["w"], found["b"]) > 1e-7 * scale
        # Less than alpha on the margin, where mu is alpha.
        if family._factor.n_null == 0:
            for row in np.flatnonzero(family.on_margin & (model.alpha_ > 1e-3 * scale))[:2]:
                changed = model.alpha_.copy()
                changed[row] -= 1e-4 * scale
                assert max(family.violations(changed).values()) > 0, case
                A, doubtful = equations(case)
                if not doubtful:
                    n_below += 1
                    assert not family.contains(changed), case
    assert n_below >= 10


def test_prop_equiv_weights():
    """(w, b, xi) is optimal for weights iff they are in W: members are tried by another fit, and
    weights that do keep the solution, found by linear programmes on the definition, are members."""
    n_moved = 0
    for case in THEORY[:110]:
        model = exact_fit(case)
        family = EquivalentWeights(model)
        for c in family.sample(2, random_state=1):
            assert optimality_gap(case, model, c) <= 1e-6, case
        # Any vertex: mu on the rows with y f <= 1, a random goal, the equations as inequalities.
        margin, _ = margins(case, model)
        rng = np.random.default_rng(2)
        rows = np.flatnonzero(margin <= 1 + 1e-7)
        A, doubtful = equations(case)
        if doubtful:
            continue
        found = linprog(
            rng.uniform(0.1, 1.0, size=len(rows)),
            A_eq=A[:, rows],
            b_eq=A @ model.alpha_,
            bounds=(0, None),
        )
        assert found.status == 0, case
        if found.x.any():
            c = np.zeros(case.n)
            c[rows] = found.x
            n_moved += abs(c.sum() - model.alpha_.sum()) > 1e-3 * case.c.max()
            assert family.contains(c, tol=1e-6), (case, family.violations(c))
            assert optimality_gap(case, model, c) <= 1e-6, case
        # Weights of another kind are not members, and not optimal.
        other = case.c * rng.uniform(0.5, 1.5, size=case.n)
        gap = optimality_gap(case, model, other)
        if gap > 1e-6:
            assert not family.contains(other), (case, gap)
    assert n_moved >= 10  # the sum of mu is not that of alpha


def test_cor_equiv_weights():
    """c = alpha, beta = 0 is a member, and a weighted SVM with these weights has the same w."""
    for case in THEORY[:100]:
        model = exact_fit(case)
        family = EquivalentWeights(model)
        c = family.concentrated()
        assert family.contains(c)
        assert optimality_gap(case, model, c) <= 1e-7 if c.any() else True
        np.testing.assert_array_equal(c, model.alpha_)


def plus_fit(case, seed, *, missing=0.0, same_cost=False, correction_reg=None):
    rng = np.random.default_rng([7, seed])
    X_priv = np.c_[np.abs(case.X[:, 0]) + 0.3 * rng.normal(size=case.n), rng.normal(size=case.n)]
    X_priv[rng.random(case.n) < missing] = np.nan
    X_priv[0] = 0.5
    C = np.full(case.n, case.c.mean()) if same_cost else case.c
    reg = 10.0 ** rng.uniform(-2, 2) if correction_reg is None else correction_reg
    model = SVMPlusClassifier(
        kernel=case.kernel,
        **case.params,
        kernel_priv="linear" if seed % 2 else "rbf",
        gamma_priv=0.5,
        correction_reg=reg,
        tol=1e-12,
    ).fit(case.X, case.y, sample_weight=C, X_priv=X_priv)
    return model, C


def test_thm_svmw_from_svmp_as_a_function():
    """alpha + beta, tried: the weighted SVM with the offset of the SVM+ is the same classifier."""
    for seed, case in enumerate(THEORY[:100]):
        model, _ = plus_fit(case, seed, missing=0.2 * (seed % 3 == 0))
        c = replicating_weights(model)
        np.testing.assert_array_equal(c, model.instance_weights_)
        weighted = WeightedSVC(
            kernel=case.kernel, **case.params, intercept=model.intercept_[0], tol=1e-8
        ).fit(case.X, case.y, sample_weight=c)
        grid = np.random.default_rng(0).normal(size=(50, case.X.shape[1]))
        np.testing.assert_allclose(
            weighted.decision_function(grid), model.decision_function(grid), rtol=0, atol=1e-6
        )


def test_lem_svmp_necessary():
    """Weighted mean loss >= mean loss, and the difference is gamma |w*|^2 + C sum(delta)."""
    strict = 0
    for seed, case in enumerate(THEORY[:100]):
        model, C = plus_fit(case, seed, missing=0.3 * (seed % 4 == 0), same_cost=seed % 2 == 0)
        weighted, mean = necessary_condition(model)
        _, h = margins(case, model)
        c = model.alpha_ + model.beta_
        assert weighted == pytest.approx(c @ h / c.sum(), rel=1e-7, abs=1e-7)
        assert mean == pytest.approx(C @ h / C.sum(), rel=1e-7, abs=1e-7)
        if seed % 2 == 0:
            assert mean == pytest.approx(h.mean(), rel=1e-7, abs=1e-7)
        assert weighted >= mean - 1e-8
        strict += weighted > mean + 1e-4
        coef = model.solution_.primal.coef_corr
        penalty = model.correction_reg * coef @ model._problem.kernel_corr.dense() @ coef
        delta = np.maximum(model.slack_ - h, 0.0)
        excess = (weighted - mean) * C.sum()
        assert excess == pytest.approx(penalty + C @ delta, rel=1e-5, abs=1e-6 * C.sum()), case
    assert strict >= 30


def test_lem_svmp_necessary_without_penalty():
    """Erratum: for gamma = 0 the inequality may be strict.

    x = 0, -5, 1 with y = -1, -1, 1, x* = -1, 0, 1 and C = 1/3. The correcting function is a line
    over x*, which costs three times its middle value, 3 xi_2 / 3 = (xi_1 + xi_3) / 2: SVM+ has
    weights (1/2, 0, 1/2), hence w = 1/2 as in "two light points", and b in [-1, 1/2]. Losses are
    (1 + b, [b - 3/2]_+ = 0, 1/2 - b), so that the weighted sum is 3/4 and the plain one, 1/3 times
    their sum, 1/2.
    """
    model = SVMPlusClassifier(
        1 / 3, kernel="linear", kernel_priv="linear", correction_reg=0.0, tol=1e-9
    ).fit([[0.0], [-5.0], [1.0]], [-1, -1, 1], X_priv=[[-1.0], [0.0], [1.0]])
    np.testing.assert_allclose(model.coef_, [[0.5]], atol=1e-6)
    np.testing.assert_allclose(replicating_weights(model), [0.5, 0.0, 0.5], atol=1e-6)
    assert necessary_condition(model) == pytest.approx((0.75, 0.5), abs=1e-6)
    assert svm_reduction(model).case == "strict"


def test_cor_svmp_from_svmw_necessary():
    """rho(alpha + beta, h) >= 0, with the same cost for every row."""
    for seed, case in enumerate(THEORY[:100]):
        model, _ = plus_fit(case, seed, same_cost=True)
        _, h = margins(case, model)
        c = replicating_weights(model)
        assert rho(c, h) >= -1e-7 * c.sum(), case
        family = EquivalentWeights(
            WeightedSVC(
                kernel=case.kernel, **case.params, intercept=model.intercept_[0], tol=1e-8
            ).fit(case.X, case.y, sample_weight=c),
            include_absent=True,
        )
        assert family.max_rho().value >= -1e-6 * c.sum(), case


def check_setting(case, model, setting):
    """The trained setting has the same (w, b)."""
    plus = SVMPlusClassifier(**setting.estimator_params(), tol=1e-12).fit(
        case.X, case.y, **setting.fit_params()
    )
    grid = np.random.default_rng(0).normal(size=(50, case.X.shape[1]))
    f, g = model.decision_function(grid), plus.decision_function(grid)
    if setting.rho == 0:  # b need not be unique
        np.testing.assert_allclose(f - f[0], g - g[0], rtol=0, atol=1e-6)
    else:
        np.testing.assert_allclose(f, g, rtol=0, atol=1e-6)
    return plus


def check_certificate(case, model, bound):
    """Row by row, by sums of Python floats over the definition, from the kernel matrix on."""
    proof = bound.certificate
    n = case.n
    K, y = case.K.tolist(), case.y.tolist()
    a, alpha = proof.coef.tolist(), model.alpha_.tolist()

    def value(coef, offset, i):
        return math.fsum(coef[j] * K[i][j] for j in range(n)) + offset

    f = [value([y[j] * alpha[j] for j in range(n)], model.intercept_[0], i) for i in range(n)]
    loss = [max(0.0, 1 - y[i] * f[i]) for i in range(n)]
    mean = math.fsum(loss) / n
    g = [value(a, proof.intercept, i) for i in range(n)]
    scale = 1e-9 * max(1.0, max(loss)) + proof.violation
    for i in range(n):
        if y[i] * f[i] <= 1 + 1e-9:
            assert y[i] * g[i] + proof.total >= loss[i] - mean - scale, case
    total = math.fsum(alpha[i] * (y[i] * g[i] + proof.total) for i in range(n))
    doubt = (1e-6 + 2 * proof.violation) * sum(alpha)
    assert proof.bound == pytest.approx(total, rel=1e-7, abs=doubt), case
    assert bound.value <= total + doubt, case
    assert proof.proves_negative == (total + proof.violation * case.c.sum() < 0)
    return bound.value == pytest.approx(total, rel=1e-5, abs=1e-6 * sum(alpha))


def test_thm_svmw_to_svmp_iff():
    """rho >= 0 for some equivalent weights: the features of eq:svmw_to_svmp_feat, trained, give
    (w, b). Otherwise the certificate is checked, and random members have no larger rho."""
    n_yes = n_ray = n_no = n_sound = n_checked = n_proven = 0
    for case in THEORY:
        model = exact_fit(case)
        family = EquivalentWeights(model)
        bound = family.max_rho()
        _, h = margins(case, model)
        for c in family.sample(3, random_state=3):
            assert rho(c, h) <= bound.value + 1e-6 * c.sum(), case
        assert family.contains(bound.weights), (case, family.violations(bound.weights))
        if bound.certificate is not None:
            n_sound += check_certificate(case, model, bound)
            n_checked += 1
            assert rho(bound.weights, h) == pytest.approx(bound.value, abs=1e-7 * case.c.sum())
        else:
            n_ray += 1
            d = bound.ray
            assert (d >= 0).all()
            assert d.any()
            change = case.y * d
            assert abs(change.sum()) <= 1e-9 * d.sum()
            assert change @ case.K @ change <= 1e-14 * d.sum() ** 2 * case.K.diagonal().max()
            assert rho(d, h) > 0
            assert rho(bound.weights, h) > 0
            assert family.contains(model.alpha_ + 10 * case.c.max() * d / d.max())
        if bound.value < -1e-8 * case.c.sum():
            n_no += 1
            with pytest.raises(NotReplicableError) as caught:
                replicating_svm_plus(model)
            assert caught.value.rho_max == pytest.approx(bound.value)
            n_proven += caught.value.certificate.proves_negative
            continue
        setting = replicating_svm_plus(model)
        n_yes += 1
        assert setting.rho == pytest.approx(max(rho(setting.weights, h), 0.0), abs=1e-7)
        assert pytest.approx(setting.weights.mean()) == setting.C
        assert setting.correction_reg == setting.rho
        np.testing.assert_allclose(setting.X_priv[:, 0] + setting.intercept_corr, h, atol=1e-7)
        plus = check_setting(case, model, setting)
        if setting.rho > 1e-6:  # eq:svmw_to_svmp_copt
            np.testing.assert_allclose(plus.slack_, h, rtol=0, atol=1e-5)
            assert plus.intercept_corr_ == pytest.approx(setting.intercept_corr, abs=1e-4)
    assert n_yes >= 40
    assert n_no >= 10
    assert n_ray >= 10
    # In the others the kernel matrix is too close to singular for a proof in double precision.
    assert n_sound >= 0.9 * n_checked
    assert n_proven >= 0.9 * n_no


def test_thm_svmw_to_svmp_iff_round_trip():
    """SVM+ -> weights -> weighted SVM -> SVM+ setting -> SVM+: the same decision function."""
    agreed = 0
    for seed, case in enumerate(THEORY[:100]):
        first, _ = plus_fit(case, seed, same_cost=True)
        weighted = WeightedSVC(
            kernel=case.kernel, **case.params, intercept=first.intercept_[0], tol=1e-8
        ).fit(case.X, case.y, sample_weight=replicating_weights(first))
        setting = replicating_svm_plus(weighted, include_absent=True)
        second = SVMPlusClassifier(**setting.estimator_params(), tol=1e-12).fit(
            case.X, case.y, **setting.fit_params()
        )
        grid = np.random.default_rng(seed).normal(size=(100, case.X.shape[1]))
        f, g = first.decision_function(grid), second.decision_function(grid)
        assert np.abs(f - g).max() <= 1e-6, (case, np.abs(f - g).max(), setting.rho)
        agreed += 1
    assert agreed == 100


def test_prop_svmw_to_svmp_iff_easy():
    """Full rank: alpha alone decides, and no linear programme is needed."""
    n_yes = n_no = 0
    for seed in range(100):
        case = theory_case(1000 + seed)
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(case.n, 3))
        case = Case("", "rbf", X, case.y, case.c, {"gamma": 2.0})
        assert np.linalg.matrix_rank(case.K) == case.n
        model = exact_fit(case)
        _, h = margins(case, model)
        value = rho(model.alpha_, h)
        family = EquivalentWeights(model)
        assert family.dimension == 0
        assert family.max_rho().value == pytest.approx(value, rel=1e-7, abs=1e-9)
        if value >= 1e-6:
            n_yes += 1
            check_setting(case, model, replicating_svm_plus(model))
        elif value < -1e-6:
            n_no += 1
            with pytest.raises(NotReplicableError) as caught:
                replicating_svm_plus(model)
            assert caught.value.rho_max == pytest.approx(value, rel=1e-7)
            check_certificate(case, model, family.max_rho())
    assert n_yes >= 20
    assert n_no >= 20


def test_prop_svmw_to_svmp_iff_easy_erratum():
    """The null space within 1's complement is trivial and rho(alpha, xi) < 0, yet SVM+ finds it.

    Two rows that are easy whatever happens are added to the counterexample, each with a feature of
    its own. d = (1, 2, 1, 0, 0) has sum d y z = 0 and d'y = 0, but d'1 = 4: weights
    alpha + t d give the same classifier, and rho = -8/5 + 4/5 t.
    """
    X = np.array([[1.0, 0, 0], [2, 0, 0], [3, 0, 0], [0, 1, 0], [4, 0, 1]])
    y, c = np.array([1, -1, 1, 1, -1]), np.array([4.0, 6, 2, 1, 1])
    model = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
    np.testing.assert_allclose(model.coef_, [[-2.0, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(model.alpha_, [4, 6, 2, 0, 0], atol=1e-9)
    A = np.vstack([(X * y[:, None]).T, y, np.ones(5)])
    assert np.linalg.matrix_rank(A) == 5  # the hypothesis of the proposition
    assert rho(model.alpha_, model.slack_) == pytest.approx(-1.6)
    assert EquivalentWeights(model, fixed_total=True).max_rho().value == pytest.approx(-1.6)
    assert EquivalentWeights(model).max_rho().value == np.inf
    d = np.array([1.0, 2, 1, 0, 0])
    assert rho(model.alpha_ + 4 * d, model.slack_) == pytest.approx(1.6)
    setting = replicating_svm_plus(model)
    plus = SVMPlusClassifier(**setting.estimator_params(), tol=1e-9).fit(
        X, y, **setting.fit_params()
    )
    np.testing.assert_allclose(plus.coef_, [[-2.0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(plus.intercept_, [3.0], atol=1e-6)


def test_def_equiv_weights_erratum():
    """mu_i (xi_i - h_i) = 0 holds for every mu; with it alone W has weights that change f.

    Rows x = 1, 0, 2 (positive) and -1 (negative), w = 1, b = 0, alpha = (0.4, 0.2, 0, 0.6);
    mu = alpha + 0.1 (-2, 1, 1, 0) satisfies every printed condition of U. Its third row is easy,
    and the weighted SVM with these weights has w < 1.
    """
    X, y = np.array([[1.0], [0], [2], [-1]]), np.array([1, 1, 1, -1])
    model = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=[0.5, 0.2, 1.0, 1.0])
    alpha = np.array([0.4, 0.2, 0.0, 0.6])
    np.testing.assert_allclose(model.coef_, [[1.0]], atol=1e-9)
    np.testing.assert_allclose(model.alpha_, alpha, atol=1e-9)
    mu = alpha + 0.1 * np.array([-2.0, 1, 1, 0])
    assert (mu * y) @ X[:, 0] == pytest.approx(1.0)
    assert mu @ y == pytest.approx(0.0)
    assert mu.sum() == pytest.approx(alpha.sum())
    again = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=mu)
    assert again.coef_[0, 0] < 0.99
    assert not EquivalentWeights(model).contains(mu)
    assert not EquivalentWeights(model, fixed_total=True).contains(mu)


def test_prop_svmp_rho_equality_as_a_function():
    """Which case a model is in: strict, one slack for all rows, or no penalty."""
    cases = {"strict": 0, "constant_slack": 0, "no_penalty": 0}
    for seed in range(100):
        case = theory_case(seed)
        rng = np.random.default_rng(seed)
        kind = seed % 4
        X_priv, reg = [
            (np.ones((case.n, 1)), 1.0),  # nothing to tell rows apart
            (np.eye(case.n), 0.0),  # everything
            (rng.normal(size=(case.n, 1)), 0.1),
            (rng.normal(size=(case.n, 1)), 0.0),
        ][kind]
        model = SVMPlusClassifier(
            kernel=case.kernel, **case.params, kernel_priv="linear", correction_reg=reg, tol=1e-9
        ).fit(case.X, case.y, sample_weight=case.c, X_priv=X_priv)
        answer = svm_reduction(model)
        cases[answer.case] += 1
        _, h = margins(case, model)
        excess = (model.instance_weights_ - case.c) @ h
        assert answer.excess == pytest.approx(excess, abs=1e-6 * case.c.sum())
        equal = excess <= 1e-7 * case.c.sum()
        if answer.case != "strict":
            assert abs(excess) <= 1e-6 * case.c.sum(), case
            np.testing.assert_allclose(model.slack_, h, rtol=0, atol=1e-5)
        else:
            assert not equal or kind == 3, case
        if kind == 0:
            # w* is zero here, so delta alone decides: a row with more slack than it needs.
            common = model.intercept_corr_ + model.solution_.primal.coef_corr.sum()
            assert (answer.case == "constant_slack") == bool(np.abs(h - common).max() <= 1e-7)
        if answer.case == "constant_slack":
            assert answer.slack == pytest.approx(h.max(), abs=1e-6)
            np.testing.assert_allclose(h, answer.slack, atol=1e-6)
        if kind == 1:
            assert answer.case == "no_penalty"
            assert answer.full_rank
            np.testing.assert_allclose(model.instance_weights_, case.c, atol=1e-6 * case.c.sum())
    assert min(cases["strict"], cases["no_penalty"]) >= 20


class SolvedByHand:
    """A model whose solution was worked out by hand, as far as the theory looks at it."""

    def __init__(self, case):
        slack, zero = case.slack, np.zeros(case.n)
        # The correcting function: w* = 0, or, with K* the identity, any slacks.
        free = case.correction_reg == 0
        primal = SVMPlusPrimal(
            case.b, case.b_interval, slack, 0.0 if free else slack[0], slack if free else zero
        )
        dual = SVMPlusDual(case.alpha, case.beta, case.alpha + case.beta - case.c)
        self.answer = (
            case.problem(),
            Solution(primal, dual, case.objective, case.objective, 0.0, Status.OPTIMAL, 1),
        )

    def _training_problem(self):
        return self.answer


def test_prop_svmp_rho_equality_by_hand():
    """Both cases of the proposition at solutions that no solver has touched."""
    cases = {case.name: case for case in HAND_SOLVED_SVMPLUS}
    answer = svm_reduction(SolvedByHand(cases["one slack for all"]))
    assert (answer.case, answer.slack) == ("constant_slack", 0.5)
    answer = svm_reduction(SolvedByHand(cases["hard margin"]))
    assert (answer.case, answer.slack) == ("constant_slack", 0.0)
    answer = svm_reduction(SolvedByHand(cases["no penalty, full rank"]))
    assert (answer.case, answer.full_rank) == ("no_penalty", True)
    assert answer.excess == pytest.approx(0.0, abs=1e-12)


def test_sec_example_svmw_not_svmp():
    """The counterexample with exact rational numbers: rho, the family, and the proof."""
    X, y, c = [[1.0], [2.0], [3.0]], [1, -1, 1], [4, 6, 2]
    model = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
    assert rho(c, model.slack_) == pytest.approx(-8.0, abs=1e-8)
    assert rho(c, model.slack_) / 12 == pytest.approx(-2 / 3, abs=1e-9)
    paper = EquivalentWeights(model, fixed_total=True)
    assert paper.dimension == 0  # U = {alpha}
    np.testing.assert_allclose(paper.concentrated(), c, atol=1e-9)
    assert paper.max_rho().value == pytest.approx(-8.0, abs=1e-8)
    # Other sums of weights do better, and not enough: (2, 2, 0).
    family = EquivalentWeights(model)
    assert family.dimension == 1
    bound = family.max_rho()
    assert bound.value == pytest.approx(-16 / 3, abs=1e-8)
    np.testing.assert_allclose(bound.weights, [2.0, 2.0, 0.0], atol=1e-8)

    points = [Fraction(1), Fraction(2), Fraction(3)]
    alpha, signs, losses = [Fraction(v) for v in c], [1, -1, 1], [Fraction(v) for v in (0, 0, 4)]
    mean = sum(losses) / 3
    for result, expected in ((bound, Fraction(-16, 3)), (paper.max_rho(), Fraction(-8))):
        proof = result.certificate
        # g(x) = u x + u0, made exact.
        u = Fraction(float(proof.coef @ np.ravel(X))).limit_denominator(1000)
        u0 = Fraction(proof.intercept).limit_denominator(1000)
        t = Fraction(proof.total).limit_denominator(1000)
        for x, sign, loss in zip(points, signs, losses, strict=True):
            assert sign * (u * x + u0) + t >= loss - mean
        value = sum(
            a * (sign * (u * x + u0) + t) for a, sign, x in zip(alpha, signs, points, strict=True)
        )
        assert value == expected
    with pytest.raises(NotReplicableError, match=r"rho is at most -5\.33333") as caught:
        replicating_svm_plus(model)
    assert caught.value.rho_max == pytest.approx(-16 / 3, abs=1e-8)


def test_sec_example_svmw_not_svmp_on_a_grid():
    """For every C and gamma of a grid, SVM+ with the suggested features is another classifier, on
    which the weighted average loss is not less than the plain one."""
    X, y, xi, c = [[1.0], [2.0], [3.0]], [1, -1, 1], np.array([0.0, 0, 4]), np.array([4.0, 6, 2])
    X_priv = (xi - c @ xi / c.sum())[:, None]
    found = []
    for C in 10.0 ** np.linspace(-2, 3, 11):
        for correction_reg in [0.0, *10.0 ** np.linspace(-3, 3, 7), 8.0]:
            plus = SVMPlusClassifier(
                C, kernel="linear", kernel_priv="linear", correction_reg=correction_reg, tol=1e-8
            ).fit(X, y, X_priv=X_priv)
            found.append((plus.coef_[0, 0], plus.intercept_[0]))
            weighted, mean = necessary_condition(plus)
            assert weighted >= mean - 1e-7
    away = np.abs(np.array(found) - (-2.0, 3.0)).max(axis=1)
    assert away.min() > 0.5
    # "With the opposite prediction" (C = 4, gamma = 1), and the constant classifier.
    plus = SVMPlusClassifier(4.0, kernel="linear", kernel_priv="linear", correction_reg=1.0)
    assert plus.fit(X, y, X_priv=X_priv).coef_[0, 0] > 0
    assert min(abs(w) for w, _ in found) <= 1e-3


def test_sec_svmminus():
    """Every point of the ray is feasible for eq:svmm_primal, and the values go to -infinity."""
    for case in THEORY[:100]:
        rng = np.random.default_rng(case.n)
        kind = case.n % 4
        X_priv = rng.normal(size=(case.n, 2)) * (kind != 3)
        kernel = ["linear", "rbf", "poly", "linear"][kind]
        reg = 10.0 ** rng.uniform(-2, 2)
        ray = svm_minus_ray(X_priv, C=case.c, correction_reg=reg, kernel_priv=kernel)
        K = numpy_kernel(kernel, X_priv, X_priv)
        squared = ray.coef @ K @ ray.coef if ray.coef is not None else 1.0
        assert squared == pytest.approx(ray.squared_norm)
        assert squared > 0
        for t, value in zip(ray.steps, ray.values, strict=True):
            slack = ray.slack(t)
            if ray.coef is not None:
                expected = t * (K @ ray.coef) + 1 + t * ray.shift
                np.testing.assert_allclose(slack, expected, rtol=1e-9, atol=1e-9 * (1 + t))
            # w = 0, b = 0: y f = 0 >= 1 - xi, and xi >= 0.
            assert slack.min() >= 1 - 1e-9 * (1 + t)
            assert value == pytest.approx(-0.5 * reg * t**2 * squared + case.c @ slack, rel=1e-9)
        assert (np.diff(ray.values[1:]) < 0).all()
        assert ray.values[-1] < ray.values[0] - 0.1 * reg
        assert ray.objective(1e9) < -1e15 * reg


# ---- Choosing the weights -----------------------------------------------------------------------


def test_eq_smoothloss():
    """The three branches as printed."""
    for delta in (0.01, 0.25, 1.0):
        t = np.linspace(-3, 2, 1001)
        printed = np.where(
            t <= 1 - 2 * delta,
            1 - t - delta,
            np.where(t >= 1, 0.0, (1 - t) ** 3 * (t - 1 + 4 * delta) / (16 * delta**3)),
        )
        np.testing.assert_allclose(SmoothHinge(delta).value(t), printed, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_eq_wlearning_fopt(seed):
    """The solution beats its neighbours in (a, b), as a minimum of the printed objective does."""
    problem, _ = random_bilevel(seed)
    solution = newton.solve(problem)
    rng = np.random.default_rng(seed)
    A, unknown = problem.matrix, solution.expansion if solution.w is None else solution.w

    def printed(x, b):
        squares = x @ x if problem.linear else x @ A @ x
        return 0.5 * squares + sum(
            c * problem.loss.value(np.array([y * (row @ x + b)]))[0]
            for row, y, c in zip(A, problem.y, problem.c, strict=True)
        )

    best = printed(unknown, solution.b)
    assert best == pytest.approx(solution.primal_objective, rel=1e-12)
    for size in (1e-1, 1e-3):
        for _ in range(5):
            step = size * rng.normal(size=len(unknown) + 1)
            assert printed(unknown + step[:-1], solution.b + step[-1]) >= best - 1e-12 * abs(best)


@pytest.mark.parametrize("seed", [1, 2, 4, 7])
def test_thm_derivatives(seed):
    """v != 0: the solution is unique and moves as the Jacobian says."""
    problem, _ = random_bilevel(seed, zeros=0.0)
    solution = newton.solve(problem, tol=1e-13)
    assert (problem.c * problem.loss.d2(problem.y * solution.values)).any()
    d_coef, d_b = jacobian(problem, solution)
    direction = np.random.default_rng(seed).normal(size=problem.n)
    h = 1e-6 * problem.c.min()
    ends = [
        newton.solve(problem.with_weights(problem.c + s * direction), tol=1e-13) for s in (h, -h)
    ]
    coefs = [end.expansion if end.w is None else end.w for end in ends]
    moved = (coefs[0] - coefs[1]) / (2 * h)
    np.testing.assert_allclose(moved, d_coef @ direction, atol=1e-4 * np.abs(moved).max())
    assert (ends[0].b - ends[1].b) / (2 * h) == pytest.approx(d_b @ direction, rel=1e-4, abs=1e-5)


def test_eq_gradient():
    """The printed block matrix, inverted entry by entry, and sum a = 0 kept."""
    problem, _ = next(p for p in map(random_bilevel, range(20)) if not p[0].linear)
    solution = newton.solve(problem, tol=1e-13)
    margin = problem.y * solution.values
    u, v = problem.y * problem.loss.d1(margin), problem.c * problem.loss.d2(margin)
    n = problem.n
    M = np.block([[np.eye(n) + np.diag(v) @ problem.matrix, v[:, None]], [np.ones((1, n)), 0.0]])
    printed = -np.linalg.inv(M) @ np.vstack([np.diag(u), np.zeros((1, n))])
    d_a, d_b = jacobian(problem, solution)
    np.testing.assert_allclose(d_a, printed[:n], atol=1e-8)
    np.testing.assert_allclose(d_b, printed[n], atol=1e-8)
    np.testing.assert_allclose(d_a.sum(axis=0), 0.0, atol=1e-9)


def test_eq_gradient_vzero():
    """a = -c u with b fixed and u constant: the derivative is -diag(u); see the errata."""
    y, c = np.array([1.0, -1.0]), np.array([1.0, 1.0])
    problem = SmoothWSVMProblem(0.1 * np.eye(2), y, c, SmoothHinge(0.05))
    solution = newton.solve(problem)
    margin = y * solution.values
    assert not problem.loss.d2(margin).any()
    u = y * problem.loss.d1(margin)
    np.testing.assert_allclose(solution.expansion, -c * u, atol=1e-12)
    d_a, d_b = jacobian(problem, solution)
    np.testing.assert_array_equal(d_a, -np.diag(u))
    np.testing.assert_array_equal(d_b, 0.0)
    # Both weights together keep sum a = 0: the solution moves by the sum of the columns.
    h = 1e-3
    moved = newton.solve(problem.with_weights(c + h))
    np.testing.assert_allclose(
        (moved.expansion - solution.expansion) / h, d_a.sum(axis=1), atol=1e-9
    )


def test_eq_wlearning_wopt():
    """The learned weights make the sum of the validation losses smaller than the start does."""
    rng = np.random.default_rng(0)
    X, y = mixture_w(80, rng)
    Z, y_val = mixture_w(400, rng)
    model = WeightLearningClassifier(
        C=10.0, gamma=20.0, weight_penalty=0, refit="train", tol=1e-6
    ).fit(X, y, X_val=Z, y_val=y_val)
    plain = newton.solve(
        SmoothWSVMProblem(numpy_kernel("rbf", X, X, 20.0), y, np.full(80, 10.0), SmoothHinge(0.5))
    )
    loss = SmoothHinge(0.5)
    f = plain.expansion @ numpy_kernel("rbf", X, Z, 20.0) + plain.b
    assert model.initial_ == pytest.approx(loss.value(y_val * f).mean(), rel=1e-8)
    learned = loss.value(y_val * model.decision_function(Z)).mean()
    assert learned == pytest.approx(model.validation_loss_, rel=1e-6)
    assert learned < 0.9 * model.initial_


def test_eq_nadaraya_watson():
    """eta as printed, for h that is not small."""
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(30, 2)), rng.choice([-1, 1], 30), rng.normal(size=(10, 2))
    h = 0.6
    K = np.exp(-((Z[:, None] - X[None]) ** 2).sum(-1) / (2 * h * h))
    printed = (K @ y) / K.sum(axis=1)
    np.testing.assert_allclose(NadarayaWatson(h).fit(X, y).eta(Z), printed, atol=1e-12)


def test_eq_wgt_weights():
    """w = P(Y = y_i | x_i), for either label."""
    probability = np.array([0.9, 0.2, 0.5])
    np.testing.assert_allclose(
        conditional_weights([1, 1, -1], 2 * probability - 1), [0.9, 0.2, 0.5]
    )
    np.testing.assert_allclose(
        conditional_weights([-1, 1, -1], 2 * probability - 1), [0.1, 0.2, 0.5]
    )


def test_eq_wgt_weights_alpha():
    """w^tau; tau = 0 is the plain SVM."""
    y, eta = np.array([1, -1, 1]), np.array([0.2, 0.9, -1.0])
    w = conditional_weights(y, eta)
    for tau in (0.5, 3.0):
        np.testing.assert_allclose(conditional_weights(y, eta, tau), w**tau)
    np.testing.assert_array_equal(conditional_weights(y, eta, 0.0), 1.0)


# ---- Data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetch", "sizes"),
    [
        (fetch_breast_cancer_wisconsin, (9, 351, 332)),
        (fetch_mammographic_mass, (4, 420, 410)),
        (fetch_spambase, (57, 2430, 2171)),
    ],
    ids=["bcw", "mammographic", "spambase"],
)
def test_tab_uci_stats(fetch, sizes):
    """The printed numbers of features and rows, every row once, the classes in their shares."""
    name = fetch.__name__.removeprefix("fetch_")
    needs(name)
    X, y = fetch(data_home=data_home(), return_X_y=True)
    for seed in range(3):
        train, test = paper_split(name, y, random_state=seed)
        assert (X.shape[1], len(train), len(test)) == sizes
        assert np.array_equal(np.sort(np.r_[train, test]), np.arange(len(y)))
        assert abs(y[train].sum() - len(train) * y.mean()) < 1
        np.testing.assert_array_equal(train, paper_split(name, y, random_state=seed)[0])
    assert not np.array_equal(train, paper_split(name, y, random_state=0)[0])


def panel(figure, name):
    return next(one for one in PANELS[figure] if one.name == name)


def test_fig_mnist_svmw_eq_svmp_toy_w():
    """The protocols, and WSVM-b: the same classifier as the tuned SVM+, digit by digit."""
    figure, setting = "mnist_svmw_eq_svmp_toy_w", Setting(data_home=data_home())
    (toy,) = panel(figure, "toy_w").experiments(setting)
    one, two = panel(figure, "toy_w_splits").experiments(setting)
    assert [e.protocol.repeats for e in (toy, one, two)] == [50, 50, 50]
    assert [len(toy.data.y), len(toy.data.y_val), len(toy.data.y_test)] == [400, 4_000, 2_000]
    for size in one.protocol.sizes:
        small, large = (e.protocol.parts(e.data, size, 7) for e in (one, two))
        assert [len(small.y), len(small.y_val)] == [size // 3, 2 * size // 3]
        assert [len(large.y), len(large.y_val)] == [2 * size // 3, size // 3]
        rows = [np.sort(np.r_[p.X[:, 0], p.X_val[:, 0]]) for p in (small, large)]
        np.testing.assert_array_equal(*rows)
    needs("mnist_5v8")
    needs("mnist")
    (digits,) = panel(figure, "mnist_svmw_eq_svmp").experiments(setting)
    assert digits.protocol.repeats == 100
    assert tuple(digits.protocol.sizes) == (40, 50, 60, 70, 80, 90)
    assert len(digits.data.y_val) == 4_002
    parts, shared = digits.protocol.parts(digits.data, 50, 3), Shared()
    plus = SVMPlus().run(parts, 0, shared)
    same = Replay("wsvm_b", "WSVM-b", "svm_plus").run(parts, 0, shared)
    assert same.info["differs_from_svm_plus"] == 0
    assert same.error == plus.error


def test_fig_uci_datasets():
    """1-to-2 and 2-to-1 splits of subsets up to the whole training set, 20 to 50 times."""
    sizes = {"breast_cancer_wisconsin": 351, "mammographic_mass": 420, "spambase": 2430}
    for name, pool in sizes.items():
        needs(name)
        one, two = panel("uci_datasets", f"uci_{name}").experiments(Setting(data_home=data_home()))
        assert 20 <= one.protocol.repeats == two.protocol.repeats <= 50
        assert max(one.protocol.sizes) == len(one.data.y) == pool
        assert 0 <= one.data.X.min() <= one.data.X.max() <= 1
        parts = one.protocol.parts(one.data, pool, 0)
        assert len(parts.y_val) == 2 * len(parts.y)
        assert {m.name for m in two.methods} < {m.name for m in one.methods}
        assert "weight_learning" in {m.name for m in one.methods}


def test_fig_mnist_all():
    """Nine copies of every digit that is drawn, with its description and its ranking."""
    for name in ("mnist", "mnist_5v8"):
        needs(name)
    (one,) = panel("mnist_all", "mnist_translated").experiments(Setting(data_home=data_home()))
    (plain,) = panel("mnist_all", "mnist_rankings").experiments(Setting(data_home=data_home()))
    parts = one.protocol.parts(one.data, 40, 0)
    assert len(parts.y) == 9 * 40
    scores = parts.extra["scores"]
    assert np.all(np.abs(scores) <= 1)
    _, copies = np.unique(np.c_[parts.X_priv, scores, parts.y], axis=0, return_counts=True)
    assert np.all(copies % 9 == 0)
    # Simulated annotators know a five from an eight, and are not always sure of it.
    agree = plain.data.extra["scores"] * np.where(plain.data.y == 8, 1, -1)
    assert agree.mean() > 0.7
    assert np.sum(agree < 0.9) > 3


def test_fig_toy_dataset1():
    """Two outliers bring an SVM near chance, and zero weights take them out again."""
    X, y = make_blobs_with_outliers(200, random_state=0)
    X_test, y_test = make_blobs_with_outliers(4000, outliers=False, random_state=1)
    weight = np.r_[np.ones(200), 0.0, 0.0]
    plain = WeightedSVC(kernel="linear").fit(X, y)
    weighted = WeightedSVC(kernel="linear").fit(X, y, sample_weight=weight)
    assert plain.score(X_test, y_test) < 0.7
    assert weighted.score(X_test, y_test) > 0.999


def test_fig_toy_dataset2_weights_from_the_true_probability():
    """Weights P(y|x) in place of the labels' own: over ten samples the mean error falls."""
    X_test, y_test = make_w_mixture(2000, random_state=100)
    errors = []
    for seed in range(10):
        X, y, p = make_w_mixture(100, random_state=seed, return_probability=True)
        weight = np.where(y == 1, p, 1 - p) ** 2
        models = [
            WeightedSVC(10.0, gamma=20.0).fit(X, y),
            WeightedSVC(10.0, gamma=20.0).fit(X, y, sample_weight=weight),
        ]
        errors.append([1 - model.score(X_test, y_test) for model in models])
    plain, weighted = np.mean(errors, axis=0)
    assert weighted < plain - 0.01
    # No classifier is better than the one that knows P(Y|X).
    assert weighted > 0.115 - 0.02


def test_sec_exp_5_vs_8():
    """ "9 times the initial sample size", privileged features replicated, for both descriptions."""
    needs("mnist_5v8")
    for privileged, n_features in [("poetic", 21), ("holistic", 31)]:
        bunch = fetch_mnist_5v8(privileged=privileged, translated=True, data_home=data_home())
        assert bunch.data.shape == (900, 100)
        assert bunch.privileged.shape == (900, n_features)
        for digit in range(0, 100, 17):
            copies = bunch.groups == digit
            assert len(np.unique(bunch.data[copies], axis=0)) == 9
            assert len(np.unique(bunch.privileged[copies], axis=0)) == 1
            assert len(np.unique(bunch.target[copies])) == 1
