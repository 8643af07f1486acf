"""The certificate against a second computation from its definition, and against bad points."""

import math
from itertools import pairwise

import numpy as np
import pytest
from cases import (
    HAND_SOLVED,
    HAND_SOLVED_SVMPLUS,
    Case,
    SVMPlusCase,
    random_svmplus,
    random_wsvm,
)
from scipy.optimize import linprog

from lupi.certificates import (
    OffsetBounds,
    best_offset,
    best_offset_corr,
    choose_offset,
    offset_bounds,
    offset_range,
    svmplus_certificate,
    svmplus_residuals,
    wsvm_certificate,
    wsvm_residuals,
)
from lupi.solvers import svmplus, wsvm

inf = math.inf


def loss(residual, y, c, b):
    """sum_i c_i [1 - y_i (<w, z_i> + b)]_+ with <w, z_i> = y_i - residual_i."""
    return sum(
        ci * max(0.0, 1 - yi * (yi - ri + b)) for ci, yi, ri in zip(c, y, residual, strict=True)
    )


def feasible_point(case, rng):
    """A random feasible alpha with many entries at their bounds."""
    alpha = case.c * rng.choice([0.0, 0.3, 0.7, 1.0], size=case.n)
    up, down = alpha[case.y > 0].sum(), alpha[case.y < 0].sum()
    if min(up, down) == 0:
        return np.zeros(case.n)
    alpha[case.y > 0] *= min(1.0, down / up)
    alpha[case.y < 0] *= min(1.0, up / down)
    return alpha


def small_case(seed):
    """An ordinary problem, so that rounding is far below what the tests look for."""
    rng = np.random.default_rng([7, seed])
    n = int(rng.integers(2, 30))
    X = rng.normal(size=(n, 3))
    y = rng.choice([-1.0, 1.0], size=n)
    y[:2] = -1, 1
    c = rng.choice([0.0, 0.5, 1.0, 3.0], size=n)
    c[:2] = 1.0
    return Case(f"small {seed}", "rbf", X, y, c, {"gamma": 0.4})


@pytest.mark.parametrize("seed", range(40))
def test_certificate_by_the_definition(seed):
    """All fields, at points that are feasible and far from optimal."""
    case = small_case(seed)
    alpha = feasible_point(case, np.random.default_rng(seed))
    certificate = wsvm_certificate(case.problem(), alpha)
    y, c, n = case.y, case.c, case.n
    again = wsvm_certificate(case.problem(), alpha, expansion=case.K @ (y * alpha))
    assert again.primal_objective == pytest.approx(certificate.primal_objective, abs=1e-13)
    assert again.violation == pytest.approx(certificate.violation, abs=1e-13)

    f = [sum(alpha[j] * y[j] * case.K[i, j] for j in range(n)) for i in range(n)]
    squared_norm = sum(alpha[i] * y[i] * f[i] for i in range(n))
    residual = [y[i] - f[i] for i in range(n)]
    np.testing.assert_allclose(certificate.residual, residual, rtol=0, atol=1e-13)
    assert certificate.dual_objective == pytest.approx(sum(alpha) - squared_norm / 2, abs=1e-12)

    # The primal value is that of the best offset for this w: a convex piecewise linear function is
    # smallest at one of its kinks.
    values = [loss(residual, y, c, b) for b in residual]
    assert certificate.primal_objective == pytest.approx(squared_norm / 2 + min(values), abs=1e-12)
    assert loss(residual, y, c, certificate.b) == pytest.approx(min(values), abs=1e-12)
    np.testing.assert_allclose(
        certificate.slack,
        [max(0.0, 1 - y[i] * (f[i] + certificate.b)) for i in range(n)],
        rtol=0,
        atol=1e-13,
    )

    rise = [residual[i] for i in range(n) if (alpha[i] < c[i] if y[i] > 0 else alpha[i] > 0)]
    fall = [residual[i] for i in range(n) if (alpha[i] > 0 if y[i] > 0 else alpha[i] < c[i])]
    violation = max(0.0, max(rise, default=-inf) - min(fall, default=inf))
    assert certificate.violation == pytest.approx(violation, abs=1e-13)
    # 4e-16 per unit of |w| |z| summed over the rows, at least one unit.
    magnitude = max(abs(alpha[j]) * 1.0 for j in range(n))
    assert 4e-16 <= certificate.rounding <= 4e-16 * max(1.0, n * magnitude) * (1 + 1e-9)

    # user guide, "How tol relates to the gap".
    gap = certificate.primal_objective - certificate.dual_objective
    assert -1e-12 <= gap <= certificate.violation * c.sum() + 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_certificate_of_random_problem(seed):
    """The same on degenerate problems, vectorised, with errors relative to what was summed."""
    case = random_wsvm(seed)
    alpha = feasible_point(case, np.random.default_rng(seed))
    certificate = wsvm_certificate(case.problem(), alpha)
    f = case.K @ (case.y * alpha)
    terms = np.abs(case.K) @ alpha  # the sums before cancellation
    atol = 1e-13 * max(1.0, terms.max())
    np.testing.assert_allclose(certificate.residual, case.y - f, rtol=0, atol=atol)
    total = max(1.0, alpha.sum())
    assert certificate.dual_objective == pytest.approx(
        alpha.sum() - 0.5 * (case.y * alpha) @ f, abs=atol * total
    )
    kinks = certificate.residual
    best = min(case.c @ np.maximum(case.y * (kinks - b), 0) for b in kinks)
    assert certificate.primal_objective == pytest.approx(
        0.5 * (case.y * alpha) @ f + best, abs=atol * max(1.0, case.c.sum()), rel=1e-12
    )
    assert certificate.b_interval[0] <= certificate.b <= certificate.b_interval[1]
    gap = certificate.primal_objective - certificate.dual_objective
    allowed = atol * max(1.0, case.c.sum())
    assert -allowed <= gap <= certificate.violation * case.c.sum() + allowed


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-9])
def test_gap_is_at_most_tol_times_total_weight(tol):
    checked = 0
    for seed in range(60):
        case = random_wsvm(seed)
        solution = wsvm.solve(case.problem(), tol=tol)
        if solution.violation > tol:  # ended at rounding: then the violation itself is the bound
            assert solution.status.converged, case
            assert solution.violation <= 1e-6, case
        else:
            checked += 1
        rounding = 1e-13 * max(1.0, case.K.diagonal().max() * case.c.sum()) * case.c.sum()
        assert solution.gap <= max(tol, solution.violation) * case.c.sum() + rounding, case
    assert checked >= 55


# ---- Points that are not optimal ----------------------------------------------------------------


def optimum(case):
    """(alpha, beta, b, slack) of a hand-solved case."""
    return case.alpha.copy(), case.beta.copy(), case.b, case.slack.copy()


@pytest.mark.parametrize("case", HAND_SOLVED, ids=repr)
def test_optimum_is_accepted(case):
    residuals = wsvm_residuals(case.problem(), *optimum(case))
    assert residuals.largest <= 1e-14 * max(1.0, case.c.max())
    certificate = wsvm_certificate(case.problem(), case.alpha)
    assert certificate.violation <= 1e-14
    assert certificate.b == pytest.approx(case.b, abs=1e-14)
    assert certificate.b_interval == pytest.approx(case.b_interval, abs=1e-14)
    np.testing.assert_allclose(certificate.slack, case.slack, rtol=0, atol=1e-14)
    assert certificate.primal_objective == pytest.approx(case.objective, abs=1e-14)
    assert certificate.dual_objective == pytest.approx(case.objective, abs=1e-14)


def fields(residuals, threshold=1e-9):
    names = ("w", "b", "xi", "comp1", "comp2", "const1", "const2")
    assert residuals.largest == max(getattr(residuals, name) for name in names)
    return {name for name in names if getattr(residuals, name) > threshold}


# (what is done to the optimum of the counterexample, the lines of eq:svmw_kkt that must notice, the
# size of one of them by hand). Its margins y f are (1, 1, -3), its multipliers alpha = (4, 6, 2).
def _slack_too_small(alpha, beta, b, slack):
    slack[2] -= 0.5  # row 3 then lies 0.5 below its margin, with alpha = 2
    return alpha, beta, b, slack


def _slack_too_large(alpha, beta, b, slack):
    slack[0] += 0.5  # alpha = 4
    return alpha, beta, b, slack


def _slack_negative(alpha, beta, b, slack):
    slack[1] -= 0.25
    return alpha, beta, b, slack


def _offset_too_high(alpha, beta, b, slack):
    return alpha, beta, b + 0.1, slack  # row 2, negative, alpha = 6, falls below its margin


def _beta_too_large(alpha, beta, b, slack):
    beta[2] += 0.5  # slack = 4
    return alpha, beta, b, slack


def _beta_negative(alpha, beta, b, slack):
    beta[0] -= 0.5
    return alpha, beta, b, slack


def _alpha_above_weight(alpha, beta, b, slack):
    # Balanced, and beta made to fit; <w, z> = -2 x becomes -2.5 x: margins 0.5, 2, -4.5 with b = 3.
    alpha[:2] += 0.5
    beta[:2] -= 0.5
    return alpha, beta, b, slack


def _alpha_unbalanced(alpha, beta, b, slack):
    alpha[2] -= 0.5
    beta[2] += 0.5
    return alpha, beta, b, slack


@pytest.mark.parametrize(
    ("damage", "noticed", "field", "size"),
    [
        (_slack_too_small, {"comp1", "const1"}, "const1", 0.5),
        (_slack_too_large, {"comp1"}, "comp1", 2.0),
        (_slack_negative, {"comp1", "const1", "const2"}, "const2", 0.25),
        (_offset_too_high, {"comp1", "const1"}, "comp1", 0.6),
        (_beta_too_large, {"xi", "comp2"}, "comp2", 2.0),
        (_beta_negative, {"xi", "const2"}, "const2", 0.5),
        (_alpha_above_weight, {"comp1", "const1", "const2"}, "const2", 0.5),
        (_alpha_unbalanced, {"b", "comp1", "comp2", "const1"}, "b", 0.5),
    ],
)
def test_damaged_optimum_is_rejected_by_the_right_line(damage, noticed, field, size):
    case = HAND_SOLVED[0]
    residuals = wsvm_residuals(case.problem(), *damage(*optimum(case)))
    assert fields(residuals) == noticed
    assert getattr(residuals, field) == pytest.approx(size, abs=1e-12)


def test_another_w_is_rejected():
    """A primal point whose w is not the expansion of alpha, otherwise complementary."""
    case = HAND_SOLVED[0]
    alpha, beta, b, slack = optimum(case)
    expansion = case.K @ (case.y * alpha)
    kept = wsvm_residuals(case.problem(), alpha, beta, b, slack, expansion)
    assert fields(kept) == set()
    moved = wsvm_residuals(case.problem(), alpha, beta, b, slack, expansion + 0.125 * np.eye(3)[2])
    assert moved.w == pytest.approx(0.125, abs=1e-14)
    assert "w" in fields(moved)
    # The same shift of all rows is an offset: only the line of w tells the two apart.
    shifted = wsvm_residuals(case.problem(), alpha, beta, b - 0.125, slack, expansion + 0.125)
    assert fields(shifted) == {"w"}


@pytest.mark.parametrize("seed", range(30))
def test_violation_and_gap_grow_with_the_distance(seed):
    """Along any feasible segment that leaves the optimum the dual falls, and the gap says so."""
    case = small_case(seed)
    best = wsvm.solve(case.problem(), tol=1e-12)
    target = feasible_point(case, np.random.default_rng([1, seed]))
    step = target - best.dual.alpha
    f_step = case.K @ (case.y * step)
    norm = (case.y * step) @ f_step
    if norm < 1e-8:
        pytest.fail("the random point is the optimum: choose another seed")
    gaps = []
    for t in (0.0, 1e-3, 1e-2, 1e-1, 1.0):
        alpha = np.clip(best.dual.alpha + t * step, 0.0, case.c)
        certificate = wsvm_certificate(case.problem(), alpha)
        gaps.append(certificate.primal_objective - certificate.dual_objective)
        # D(t) <= D(0) - t^2 |w' - w|^2 / 2, and the primal is above the optimum whatever w is.
        assert gaps[-1] >= 0.5 * t**2 * norm - 1e-11
        if t > 0:
            assert certificate.violation > 1e-12
            assert certificate.violation * case.c.sum() >= gaps[-1] - 1e-11
    assert abs(gaps[0]) <= 1e-10
    # D is concave along the segment and falls from its maximum on: strictly more at each point.
    duals = [
        wsvm_certificate(
            case.problem(), np.clip(best.dual.alpha + t * step, 0, case.c)
        ).dual_objective
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert all(later < earlier for earlier, later in pairwise(duals))


# ---- Offsets ------------------------------------------------------------------------------------


def random_offsets(seed):
    """residual, y, alpha, c of a few rows with many ties, zero weights and alphas at bounds."""
    rng = np.random.default_rng([3, seed])
    n = int(rng.integers(1, 9))
    y = rng.choice([-1.0, 1.0], size=n)
    if seed % 10 == 0:
        y[:] = 1.0 if seed % 20 else -1.0
    residual = rng.integers(-3, 4, size=n).astype(float)
    c = rng.integers(0, 3, size=n).astype(float)
    c[rng.integers(n)] = 1.0
    alpha = c * rng.choice([0.0, 0.5, 1.0], size=n)
    return residual, y, alpha, c


def agrees_with_kkt(b, residual, y, alpha, c):
    """eq:svmw_kkt:comp1 to const2 at slack = max(0, margin violation): only b is left to choose."""
    for v, yi, ai, ci in zip(residual, y, alpha, c, strict=True):
        m = yi * (v - b)  # 1 - y f
        if (ci - ai > 0 and m > 0) or (ai > 0 and m < 0):
            return False
    return True


@pytest.mark.parametrize("seed", range(300))
def test_offset_range_by_brute_force(seed):
    residual, y, alpha, c = random_offsets(seed)
    lower, upper, violation = offset_range(residual, y, alpha, c)
    # Residuals are integers: quarters between -5 and 5 meet every interval and its neighbourhood.
    for b in np.arange(-5, 5.25, 0.25):
        assert agrees_with_kkt(b, residual, y, alpha, c) == (lower <= b <= upper), b
    assert violation == max(0.0, lower - upper)
    if violation > 0:
        # The smallest largest violation of any b is half of it, reached in the middle.
        def largest(b):
            m = y * (residual - b)
            return max(
                (m[alpha < c]).max(initial=0.0),
                (-m[alpha > 0]).max(initial=0.0),
            )

        assert min(largest(b) for b in np.arange(-5, 5.25, 0.25)) == pytest.approx(violation / 2)


@pytest.mark.parametrize("seed", range(300))
def test_best_offset_by_brute_force(seed):
    residual, y, _, c = random_offsets(seed)
    b = best_offset(residual, y, c)
    best = min(loss(residual, y, c, other) for other in np.arange(-10, 10.25, 0.25))
    assert loss(residual, y, c, b) == pytest.approx(best, abs=1e-14)


@pytest.mark.parametrize("seed", range(300))
def test_choose_offset_by_brute_force(seed):
    residual, y, alpha, c = random_offsets(seed)
    lower, upper, violation = offset_range(residual, y, alpha, c)
    b, interval = choose_offset(lower, upper, residual, y, c)
    assert interval[0] <= b <= interval[1]
    assert math.isfinite(b)
    if violation == 0:
        assert interval == (lower, upper)
        finite = [end for end in interval if math.isfinite(end)]
        assert b == (sum(finite) / len(finite) if finite else 0.0)
    else:
        assert interval == (b, b)
        assert upper <= b <= lower
        among = [loss(residual, y, c, t) for t in np.arange(upper, lower + 0.125, 0.125)]
        assert loss(residual, y, c, b) == pytest.approx(min(among), abs=1e-14)


def test_unbounded_offsets():
    one = np.ones(3)
    v = np.array([1.0, 0.5, 2.0])
    zero = np.zeros(3)
    # Only rows of the positive class, none used: any b from max v on.
    assert offset_range(v, one, zero, one) == (2.0, inf, 0.0)
    assert choose_offset(2.0, inf, v, one, one) == (2.0, (2.0, inf))
    # Only rows of the negative class.
    assert offset_range(-v, -one, zero, one) == (-inf, -2.0, 0.0)
    assert choose_offset(-inf, -2.0, -v, -one, one) == (-2.0, (-inf, -2.0))
    # Weights of zero demand nothing, of any class.
    assert offset_range(v, np.array([1.0, -1.0, 1.0]), zero, zero) == (-inf, inf, 0.0)
    assert choose_offset(-inf, inf, v, one, zero) == (0.0, (-inf, inf))
    assert offset_range(v, np.array([1.0, -1.0, 1.0]), zero, np.array([1.0, 0.0, 1.0])) == (
        2.0,
        inf,
        0.0,
    )


# ---- SVM+ ---------------------------------------------------------------------------------------


def small_svmplus(seed):
    """An ordinary problem with costs of zero and rows without privileged information."""
    plain = small_case(seed)
    rng = np.random.default_rng([8, seed])
    X_priv = rng.normal(size=(plain.n, 2))
    X_priv[rng.random(plain.n) < 0.3] = np.nan
    X_priv[0] = 0.0
    return SVMPlusCase(
        plain.name, "rbf", plain.X, plain.y, plain.c, plain.params,
        X_priv, "rbf", {"gamma": 0.3}, 10.0 ** rng.uniform(-2, 2),
    )  # fmt: skip


def feasible_svmplus(case, rng):
    """Random feasible (alpha, beta) of eq:svmp_dual with many entries at their bounds."""
    y, C, known = case.y, case.c, case.priv >= 0
    alpha = C * rng.choice([0.0, 0.3, 1.0, 2.0], size=case.n)
    alpha[~known] = np.minimum(alpha, C)[~known]
    up, down = alpha[y > 0].sum(), alpha[y < 0].sum()
    alpha[y > 0] *= min(1.0, down / up) if up else 0.0
    alpha[y < 0] *= min(1.0, up / down) if down else 0.0
    total = C[known].sum()
    alpha *= min(1.0, total / max(1e-300, alpha[known].sum()))
    beta = C * rng.choice([0.0, 0.5, 1.0], size=case.n)
    beta[0] = C[0]
    beta[known] *= (total - alpha[known].sum()) / beta[known].sum()
    beta[~known] = (C - alpha)[~known]
    return alpha, beta


def expansions(case, alpha, beta):
    """(f, xi) without offsets, entry by entry; xi is zero where there is no privileged row."""
    n, y, K, priv = case.n, case.y, case.K, case.priv
    f = [sum(alpha[j] * y[j] * K[i, j] for j in range(n)) for i in range(n)]
    delta = alpha + beta - case.c
    known = [j for j in range(n) if priv[j] >= 0]
    xi = [
        sum(delta[j] * case.K_corr[priv[i], priv[j]] for j in known) / case.correction_reg
        if i in known
        else 0.0
        for i in range(n)
    ]
    return np.array(f), np.array(xi)


@pytest.mark.parametrize("seed", range(40))
def test_svmplus_certificate_by_the_definition(seed):
    """The primal point is feasible, as cheap as its b allows, and worth what is said."""
    case = small_svmplus(seed)
    alpha, beta = feasible_svmplus(case, np.random.default_rng(seed))
    certificate = svmplus_certificate(case.problem(), alpha, beta)
    y, C = case.y, case.c
    f, xi = expansions(case, alpha, beta)
    delta = np.where(case.priv >= 0, alpha + beta - C, 0.0)
    squared_norm, penalty = float(y * alpha @ f), float(delta @ xi)
    assert certificate.dual_objective == pytest.approx(
        alpha.sum() - 0.5 * (squared_norm + penalty), abs=1e-11
    )
    b, b_corr, slack = certificate.b, certificate.b_corr, certificate.slack
    present, known = C > 0, case.priv >= 0
    margin = 1 - y * (f + b)
    np.testing.assert_allclose(slack[known], (xi + b_corr)[known], rtol=0, atol=1e-12)
    np.testing.assert_allclose(slack[~known], np.maximum(margin, 0)[~known], rtol=0, atol=1e-12)
    assert (slack >= margin - 1e-12)[present].all()
    assert (slack >= -1e-12)[present].all()
    # b_corr is the smallest that is feasible: one constraint is tight.
    room = np.minimum(slack - margin, slack)[present & known]
    assert abs(room.min()) <= 1e-12
    value = 0.5 * (squared_norm + penalty) + float(C @ slack)
    assert certificate.primal_objective == pytest.approx(value, abs=1e-11)
    gap = certificate.primal_objective - certificate.dual_objective
    assert gap >= -1e-11
    assert certificate.b_interval[0] <= b <= certificate.b_interval[1]
    # Each condition is unmet by at most the violation, for these offsets or better ones; the gap is
    # a sum of duals times what their conditions lack, and of the costs times it.
    assert gap <= certificate.violation * (alpha.sum() + beta.sum() + C.sum()) + 1e-11


@pytest.mark.parametrize("seed", range(60))
def test_svmplus_certificate_of_random_problem(seed):
    """Weak duality on degenerate problems: feasible points never prove more than is true."""
    case = random_svmplus(seed)
    if not len(case.known) or not (case.c[case.known] > 0).any():
        return  # the weighted SVM, above
    rng = np.random.default_rng(seed)
    certificates = []
    for _ in range(3):
        alpha = np.zeros(case.n)
        beta = case.c * rng.random(case.n)
        known = case.known
        beta[known] *= case.c[known].sum() / beta[known].sum()
        beta[case.priv < 0] = case.c[case.priv < 0]
        if rng.random() < 0.7:
            plus, minus = (np.flatnonzero((case.y == s) & (case.c > 0)) for s in (1, -1))
            if len(plus) and len(minus):
                i, j = rng.choice(plus), rng.choice(minus)
                alpha[[i, j]] = rng.random() * min(beta[i], beta[j])
                beta = beta - alpha
        certificates.append(svmplus_certificate(case.problem(), alpha, beta))
    size = case.K.diagonal().max() + case.K_corr.diagonal().max(initial=0) / case.correction_reg
    rounding = 1e-13 * max(1.0, size * case.c.sum()) * max(1.0, case.c.sum())
    lowest = min(c.primal_objective for c in certificates)
    assert lowest >= max(c.dual_objective for c in certificates) - rounding
    assert all(np.isfinite(c.slack).all() for c in certificates)


@pytest.mark.parametrize("case", HAND_SOLVED_SVMPLUS, ids=repr)
def test_svmplus_optimum_is_accepted(case):
    coef = np.array([0.0, 2.0, 0.0]) if case.correction_reg == 0 else None  # slack = coef + b_corr
    certificate = svmplus_certificate(case.problem(), case.alpha, case.beta, coef_corr=coef)
    assert certificate.violation <= 1e-14
    assert certificate.b == pytest.approx(case.b, abs=1e-14)
    assert certificate.b_interval == pytest.approx(case.b_interval, abs=1e-14)
    np.testing.assert_allclose(certificate.slack, case.slack, rtol=0, atol=1e-14)
    assert certificate.primal_objective == pytest.approx(case.objective, abs=1e-14)
    assert certificate.dual_objective == pytest.approx(case.objective, abs=1e-14)
    residuals = svmplus_residuals(
        case.problem(), case.alpha, case.beta, case.b, case.slack, b_corr=certificate.b_corr
    )
    assert residuals.largest <= 1e-14 * max(1.0, case.c.max())


def test_svmplus_certificate_needs_w_corr_where_nothing_penalises_it():
    case = next(c for c in HAND_SOLVED_SVMPLUS if c.correction_reg == 0)
    with pytest.raises(ValueError, match="coef_corr"):
        svmplus_certificate(case.problem(), case.alpha, case.beta)


def test_svmplus_gap_includes_what_the_dual_lacks():
    """correction_reg = 0 asks for sum_i alpha_corr_i z*_i = 0; what is unmet lowers the dual."""
    case = next(c for c in HAND_SOLVED_SVMPLUS if c.correction_reg == 0)
    coef = np.array([0.0, 2.0, 0.0])
    beta = case.beta + np.array([0.5, -0.0, -0.5])
    moved = svmplus_certificate(case.problem(), case.alpha, beta, coef_corr=coef)
    assert moved.dual_objective == pytest.approx(2.5, abs=1e-14)  # <w*, .> sees no change
    beta = case.beta + np.array([-0.5, 0.5, 0.0])
    moved = svmplus_certificate(case.problem(), case.alpha, beta, coef_corr=coef)
    assert moved.dual_objective == pytest.approx(2.5 - 2.0 * 0.5, abs=1e-14)


# (what is done to the optimum of "replicates weights", the lines of eq:svmp_kkt that must notice,
# the size of one of them by hand). There w = 1, b = 0, w* = 1, b* = 0, x* = (0, 0, 1),
# correction_reg = 0.2, alpha = (0.9, 0.1, 0.8), beta = 0, and the margins y f are (1, 1, 0).
def _plus_slack_too_small(point):
    point["slack"][2] -= 0.5


def _plus_slack_negative(point):
    point["slack"][0] -= 0.25


def _plus_offset_too_high(point):
    point["b"] += 0.1


def _plus_offset_corr(point):
    point["b_corr"] += 0.1


def _plus_beta_too_large(point):
    point["beta"][2] += 0.5


def _plus_beta_negative(point):
    point["beta"][0] -= 0.1


def _plus_alpha_unbalanced(point):
    point["alpha"][2] -= 0.1


@pytest.mark.parametrize(
    ("damage", "noticed", "field", "size"),
    [
        (_plus_slack_too_small, {"comp1", "const1", "cw"}, "comp1", 0.4),
        (_plus_slack_negative, {"comp1", "const1", "const2", "cw"}, "const2", 0.25),
        (_plus_offset_too_high, {"comp1", "const1"}, "comp1", 0.09),
        (_plus_offset_corr, {"cw"}, "cw", 0.02),
        (_plus_beta_too_large, {"cb", "comp2", "cw"}, "comp2", 0.5),
        (_plus_beta_negative, {"cb", "const2"}, "const2", 0.1),
        (_plus_alpha_unbalanced, {"b", "cb", "cw"}, "b", 0.1),
    ],
)
def test_damaged_svmplus_optimum_is_rejected_by_the_right_line(damage, noticed, field, size):
    (case,) = (c for c in HAND_SOLVED_SVMPLUS if c.name == "replicates weights")
    point = {
        "alpha": case.alpha.copy(),
        "beta": case.beta.copy(),
        "b": case.b,
        "slack": case.slack.copy(),
        "b_corr": case.b_corr,
    }
    assert svmplus_residuals(case.problem(), **point).largest <= 1e-15
    damage(point)
    residuals = svmplus_residuals(case.problem(), **point)
    assert {name for name, value in vars(residuals).items() if value > 1e-9} == noticed
    assert getattr(residuals, field) == pytest.approx(size, abs=1e-12)
    assert residuals.largest == max(vars(residuals).values())


def test_another_w_of_svmplus_is_rejected():
    (case,) = (c for c in HAND_SOLVED_SVMPLUS if c.name == "replicates weights")
    f = case.K @ (case.y * case.alpha)
    arguments = (case.problem(), case.alpha, case.beta, case.b, case.slack)
    assert svmplus_residuals(*arguments, expansion=f).largest <= 1e-15
    moved = svmplus_residuals(*arguments, expansion=f + 0.125)
    assert moved.w == pytest.approx(0.125, abs=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_svmplus_violation_and_gap_grow_with_the_distance(seed):
    """Along a feasible segment that leaves the optimum the dual falls, and the gap says so."""
    case = small_svmplus(seed)
    best = svmplus.solve(case.problem(), tol=1e-12).dual
    alpha, beta = feasible_svmplus(case, np.random.default_rng([1, seed]))
    gaps, duals = [], []
    for t in (0.0, 1e-3, 1e-2, 0.1, 0.5, 1.0):
        a = np.maximum((1 - t) * best.alpha + t * alpha, 0.0)
        z = np.maximum((1 - t) * best.beta + t * beta, 0.0)
        certificate = svmplus_certificate(case.problem(), a, z)
        gaps.append(certificate.primal_objective - certificate.dual_objective)
        duals.append(certificate.dual_objective)
        assert gaps[-1] >= duals[0] - duals[-1] - 1e-9
        if t > 0:
            assert certificate.violation > 1e-10
    assert abs(gaps[0]) <= 1e-8
    assert all(later < earlier for earlier, later in pairwise(duals))


# ---- The plane of (b, b_corr) -------------------------------------------------------------------


def random_bounds(seed):
    """Bounds on s = b_corr + b, t = b_corr - b, b_corr and b, some of them absent."""
    rng = np.random.default_rng([5, seed])
    pairs = []
    for _ in range(4):
        low, high = sorted(rng.integers(-6, 7, size=2).astype(float))
        if rng.random() < 0.3:  # contradicts itself
            low, high = high, low
        pairs.append((low if rng.random() < 0.7 else -inf, high if rng.random() < 0.6 else inf))
    return OffsetBounds(*pairs)


# Each bound as a row of (b, b_corr): s, t, b_corr, b.
DIRECTIONS = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])


def by_linear_programming(bounds, objective, relaxed):
    """Minimise over (b, b_corr, t >= 0) with every bound relaxed by t (or not)."""
    rows, limits = [], []
    pairs = (bounds.s, bounds.t, bounds.b_corr, bounds.b)
    for direction, (low, high) in zip(DIRECTIONS, pairs, strict=True):
        if math.isfinite(low):
            rows.append([*-direction, -float(relaxed)])
            limits.append(-low)
        if math.isfinite(high):
            rows.append([*direction, -float(relaxed)])
            limits.append(high)
    return linprog(
        objective,
        A_ub=np.array(rows).reshape(-1, 3),
        b_ub=limits,
        bounds=[(None, None), (None, None), (0, None)],
    )


@pytest.mark.parametrize("seed", range(300))
def test_offset_bounds_by_linear_programming(seed):
    """The violation is zero iff some (b, b_corr) meets all bounds, else the least relaxation of all
    bounds together is a half to a third of it; the interval is the range of b."""
    bounds = random_bounds(seed)
    violation = bounds.violation()
    least = by_linear_programming(bounds, [0, 0, 1], relaxed=True).fun
    assert violation / 3 - 1e-9 <= least <= violation / 2 + 1e-9
    lower, upper = bounds.interval()
    if violation > 0:
        return
    for sign, end in ((1.0, lower), (-1.0, upper)):
        result = by_linear_programming(bounds, [sign, 0, 0], relaxed=False)
        if math.isfinite(end):
            assert result.fun == pytest.approx(sign * end, abs=1e-9)
        else:
            assert result.status == 3  # unbounded


def test_offset_bounds_meets_both_cases():
    violations = [random_bounds(seed).violation() for seed in range(300)]
    assert sum(v > 0 for v in violations) >= 75
    assert sum(v == 0 for v in violations) >= 75


@pytest.mark.parametrize("seed", range(40))
def test_offset_bounds_are_the_kkt_conditions(seed):
    """(b, b_corr) meets the bounds iff it meets eq:svmp_kkt:comp1 to const2, given the rest."""
    case = small_svmplus(seed)
    rng = np.random.default_rng(seed)
    alpha, beta = feasible_svmplus(case, rng)
    if seed % 2:  # near an optimum both answers occur
        best = svmplus.solve(case.problem(), tol=1e-12)
        alpha, beta = best.dual.alpha, best.dual.beta
    f, xi = expansions(case, alpha, beta)
    f, xi = f.round(6), xi.round(6)
    bounds = offset_bounds(case.problem(), alpha, beta, f, xi)
    y, C, known = case.y, case.c, case.priv >= 0
    present = C > 0
    for b, b_corr in rng.uniform(-2, 2, size=(50, 2)):
        at = DIRECTIONS @ [b, b_corr]
        pairs = (bounds.s, bounds.t, bounds.b_corr, bounds.b)
        inside = all(low <= v <= high for v, (low, high) in zip(at, pairs, strict=True))
        g = xi + b_corr - 1 + y * (f + b)
        slack = xi + b_corr
        met = np.where(alpha > 0, g == 0, g >= 0) & np.where(beta > 0, slack == 0, slack >= 0)
        h = 1 - y * (f + b)
        plain = ~(((alpha < C) & (h > 0)) | ((alpha > 0) & (h < 0)))
        # Equalities are upper bounds together with the lower ones: <= is tested by the sign.
        assert inside == (np.where(known, met, plain)[present].all())


@pytest.mark.parametrize("seed", range(100))
def test_best_offset_corr_by_brute_force(seed):
    case = small_svmplus(seed)
    rng = np.random.default_rng(seed)
    f, xi = rng.integers(-3, 4, size=(2, case.n)).astype(float)
    b, b_corr = best_offset_corr(case.problem(), f, xi)
    y, C = case.y, case.c
    corrected, plain = (case.priv >= 0) & (C > 0), (case.priv < 0) & (C > 0)

    def least(b):
        """(cost, b_corr) for this b."""
        needed = np.maximum(1 - y * (f + b) - xi, -xi)[corrected].max()
        own = C[plain] @ np.maximum(1 - y * (f + b), 0)[plain]
        return C[corrected].sum() * needed + own, needed

    assert b_corr == least(b)[1]
    # All kinks are at multiples of 1/2.
    assert least(b)[0] == pytest.approx(min(least(t)[0] for t in np.arange(-15, 15.5, 0.5)))
