"""The experiments on SVM+, and what is asked of each; see ``experiments.py``."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from experiments import Report, best_times, named
from sklearn.svm import SVC
from svmplus_objective import judge, poetic_digits, speed_problem

GAP = VIOLATION = 1e-6
COSTS = (0.1, 1, 10, 100, 1000)
REGS = (1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
# The published alternating SMO on one machine: (n, C, reg) -> its time over SVC's on the same
# X, y, C there. The ratio carries over to another machine. None: not solved in 60 s or more.
PUBLISHED = {
    (200, 1, 1): 7, (200, 10, 1): 14, (200, 1, 100): 4, (200, 100, 0.1): 130,
    (1000, 1, 1): 18, (1000, 10, 1): 20, (1000, 1, 100): 9, (1000, 100, 0.1): 1900,
    (2000, 1, 1): 16, (2000, 10, 1): 32, (2000, 1, 100): 30, (2000, 100, 0.1): None,
    (4000, 1, 1): 16, (4000, 10, 1): 73, (4000, 1, 100): 250, (4000, 100, 0.1): None,
}  # fmt: skip
DUAL_ON_RECORD = -181.959255  # n = 200, C = reg = 1, Clarabel; as a minimum, the negative of ours


def duration(seconds):
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1e3 * seconds:.2f} ms"


def timed(solver, problem, repeats, inner=1):
    """Shortest run of one solver, and the verdict on its point; None if it gives up."""
    solver.set_objective(problem)
    seconds = best_times({"": solver.run}, repeats, inner)[""]
    result = solver.get_result()
    return seconds, None if result is None else judge(problem, *result[:2]), result


def svc_time(problem, repeats):
    model = SVC(C=problem.C, gamma=problem.gamma, cache_size=problem.cache_size)
    model.fit(problem.X[:500], problem.y[:500])
    return best_times({"": lambda: model.fit(problem.X, problem.y)}, repeats)[""]


def grid(solvers, repeats, sizes):
    """Every cell of the grid in C and correction_reg; Clarabel where it is not too slow."""
    report = Report("svmplus_grid: 35 pairs of C and correction_reg")
    ours = named(solvers, "lupi")[0]
    for n in sizes or (200, 1000, 2000):
        other = named(solvers, "Clarabel") if n <= 1000 else []
        rows, gaps, violations, seconds, behind, confirmed = [], [], [], [], [], 0
        for C in COSTS:
            for reg in REGS:
                problem = speed_problem(n, C, reg)
                time, verdict, result = timed(ours, problem, 1 if n >= 2000 else min(2, repeats))
                row = [f"{C:g}", f"{reg:g}", duration(time), f"{verdict.dual:.6f}"]
                row += [f"{verdict.relative_gap:.1e}", f"{verdict.violation:.1e}", result[2]]
                gaps.append(verdict.relative_gap)
                violations.append(verdict.violation)
                seconds.append(time)
                for solver in other:
                    theirs, value, _ = timed(solver, problem, 1)
                    # Its word for its own status, and a gap that shows it: else it is no reference.
                    solved = value is not None and value.relative_gap <= 1e-6
                    row += [duration(theirs) + ("" if solved else " (not solved)")]
                    if solved:
                        confirmed += 1
                        behind.append((value.dual - verdict.dual) / max(1.0, abs(value.dual)))
                        row += [f"{behind[-1]:.1e}"]
                    else:
                        row += [""]
                rows.append(row)
        header = ["C", "correction_reg", "time", "dual objective", "relative gap", "violation"]
        header += ["iterations"]
        if other:
            header += ["Clarabel, time", "Clarabel's dual - lupi's, relative"]
        report.add(f"n = {n:,}; violation and gap by `svmplus_objective.py`.\n")
        report.table(header, rows)
        case = f"svmplus_grid n={n:,}"
        report.at_most(f"{case}: largest relative gap of 35 cells", GAP, max(gaps))
        if behind:
            what = f"{case}: Clarabel's dual - lupi's, relative, largest of {confirmed} it solves"
            report.at_most(what, 1e-6, max(behind))
        if n == 2000:
            report.at_most(f"{case}: largest KKT violation", VIOLATION, max(violations))
            report.at_most(f"{case}: slowest cell, seconds", 2.0, max(seconds))
            report.at_most(f"{case}: median cell, seconds", 0.2, float(np.median(seconds)))
        if n == 200:
            value = judge_of(ours, speed_problem(200, 1, 1)).dual
            off = abs(value + DUAL_ON_RECORD) / abs(DUAL_ON_RECORD)
            report.at_most(f"{case}: dual objective on record, relative difference", 1e-8, off)
    return report


def judge_of(solver, problem):
    solver.set_objective(problem)
    solver.run()
    return judge(problem, *solver.get_result()[:2])


def published(solvers, repeats, sizes):
    """Ours over SVC, beside the published solver over SVC on the machine where it was measured."""
    report = Report("svmplus_published: against SVC and the published alternating SMO")
    report.add(f"SVC: tol = 1e-3, as the published solver; lupi: tol = 1e-6. Best of {repeats}.\n")
    ours = named(solvers, "lupi")[0]
    rows, faster = [], []
    for (n, C, reg), theirs in PUBLISHED.items():
        if sizes and n not in sizes:
            continue
        problem = speed_problem(n, C, reg)
        svc = svc_time(problem, repeats)
        seconds, verdict, _ = timed(ours, problem, repeats, inner=10 if n <= 200 else 1)
        ratio = seconds / svc
        case = f"svmplus_published n={n:,} C={C} reg={reg}"
        report.at_most(f"{case}: relative gap", GAP, verdict.relative_gap)
        if theirs is not None:
            faster.append(theirs / ratio)
            report.at_least(f"{case}: published / lupi", 1.0, faster[-1])
        rows.append(
            [
                f"{n:,}", C, reg, duration(svc), duration(seconds), f"{ratio:.1f}",
                "not solved" if theirs is None else theirs,
                "" if theirs is None else f"{theirs / ratio:.1f}", f"{verdict.relative_gap:.1e}",
            ]
        )  # fmt: skip
    report.table(
        [
            "n", "C", "reg", "SVC", "lupi", "lupi / SVC", "published / SVC", "published / lupi",
            "relative gap",
        ],
        rows,
    )  # fmt: skip
    mean = float(np.exp(np.mean(np.log(faster))))
    report.at_least("svmplus_published: published / lupi, geometric mean", 10, mean)
    return report


LARGE = {10_000: (8, 1000, None), 20_000: (45, 2000, None), 50_000: (240, 2000, 4.0)}


def large(solvers, repeats, sizes):
    """n = 10,000 and more: each in a process of its own, whose largest memory is what counts."""
    report = Report("svmplus_large: C = 10, correction_reg = 1")
    rows = []
    for n in sizes or LARGE:
        limit, cache_size, memory = LARGE.get(n, (None, 1000, None))
        done = subprocess.run(
            [sys.executable, __file__, str(n), str(cache_size)],
            cwd=Path(__file__).parent, capture_output=True, text=True, env=dict(os.environ),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr)
        seconds, most, gap, violation, iterations = map(float, done.stdout.split())
        rows.append(
            [
                f"{n:,}", cache_size, f"{seconds:.1f} s", f"{most:.2f} GB", f"{gap:.1e}",
                f"{violation:.1e}", int(iterations),
            ]
        )  # fmt: skip
        case = f"svmplus_large n={n:,}"
        if limit:
            report.at_most(f"{case}: seconds", limit, seconds)
        if memory:
            report.at_most(f"{case}: GB in all", memory, most)
        report.at_most(f"{case}: KKT violation", VIOLATION, violation)
        report.at_most(f"{case}: relative gap", GAP, gap)
    header = ["n", "cache_size", "time", "memory", "relative gap", "violation", "iterations"]
    report.table(header, rows)
    return report


def _one_large(n, cache_size):
    from solvers_svmplus.lupi_solver import Solver

    problem = speed_problem(n, 10, 1, cache_size=cache_size)
    solver = Solver()
    solver.set_objective(problem)
    seconds = best_times({"": solver.run}, 1)[""]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # before the judge's own
    result = solver.get_result()
    verdict = judge(problem, *result[:2])
    print(seconds, most, verdict.relative_gap, verdict.violation, result[2])


def small(solvers, repeats, sizes):
    """n = 100: through the solver's interface and through the estimator."""
    report = Report("svmplus_small: many small problems")
    inner, rounds = 20, 5 * repeats
    report.add(f"Time per fit, best of {rounds} rounds of {inner}.\n")
    rows = []
    for C, reg in ((1, 1), (10, 1), (1, 100), (100, 0.1)):
        problem = speed_problem(100, C, reg)
        row = [100, C, reg]
        for name, limit in (("lupi", 1.5), ("lupi fit", 3.0)):
            seconds, verdict, _ = timed(named(solvers, name)[0], problem, rounds, inner)
            case = f"svmplus_small n=100 C={C} reg={reg}: {name}"
            report.at_most(f"{case}, ms", limit, 1e3 * seconds)
            report.at_most(f"{case}, relative gap", GAP, verdict.relative_gap)
            row += [duration(seconds), f"{verdict.relative_gap:.1e}"]
        rows.append(row)
    report.table(["n", "C", "reg", "solver", "relative gap", "fit", "relative gap"], rows)
    return report


def digits(solvers, repeats, sizes):
    """MNIST 5 against 8 with poetic descriptions, n = 40..90; the data are not part of lupi."""
    report = Report("svmplus_digits: MNIST 5 against 8, poetic descriptions")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LUPI_DATA", beside))
    if not (folder / "mnist_5v8_poetic").is_dir():
        report.add(f"Not run: no data in {folder}; LUPI_DATA names their folder.\n")
        return report
    ours = named(solvers, "lupi fit")[0]
    rows, gaps, slowest = [], [], 0.0
    for n in sizes or (40, 50, 60, 70, 80, 90):
        for C, reg in ((1, 1), (10, 0.1), (100, 0.01), (100, 10)):
            problem = poetic_digits(folder, n, C, reg)
            seconds, verdict, _ = timed(ours, problem, 3 * repeats, 10)
            gaps.append(verdict.relative_gap)
            slowest = max(slowest, seconds if n == 90 else 0.0)
            rows.append([n, C, reg, duration(seconds), f"{verdict.relative_gap:.1e}"])
    report.table(["n", "C", "reg", "fit", "relative gap"], rows)
    report.at_most("svmplus_digits: largest relative gap", GAP, max(gaps))
    if slowest:
        report.at_most("svmplus_digits n=90: slowest fit, ms", 2.0, 1e3 * slowest)
    return report


EXPERIMENTS = {f"svmplus_{f.__name__}": f for f in (grid, published, large, small, digits)}

if __name__ == "__main__":
    _one_large(int(sys.argv[1]), float(sys.argv[2]))
