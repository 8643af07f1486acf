"""The certificate against a second computation from its definition, and against bad points."""

import math
from itertools import pairwise

import numpy as np
import pytest
from cases import HAND_SOLVED, Case, random_wsvm

from lupi.certificates import (
    best_offset,
    choose_offset,
    offset_range,
    wsvm_certificate,
    wsvm_residuals,
)
from lupi.solvers import wsvm

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
