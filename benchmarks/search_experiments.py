"""The experiments on searches, and what is asked of each; see ``experiments.py``."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import datasets
import numpy as np
from experiments import Report, best_times
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import SVC
from svmplus_experiments import duration
from threadpoolctl import threadpool_limits

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.datasets import fetch_mnist_5v8
from lupi.model_selection import KernelGridSearchCV

JOBS = 2  # of scikit-learn's search; lupi's uses the processors without workers
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def digits(n_train):
    """MNIST 5 against 8: the first training digits and all validation digits, and who is which."""
    folder = Path(os.environ.get("LUPI_DATA", BESIDE))
    settings = {"data_home": folder, "download_if_missing": False}
    X, y, X_priv = fetch_mnist_5v8(return_X_y_priv=True, **settings)
    X_val, y_val = fetch_mnist_5v8(subset="validation", return_X_y=True, **settings)
    rows = np.random.default_rng(0).permutation(len(y))[:n_train]
    split = PredefinedSplit(np.r_[np.full(n_train, -1), np.zeros(len(y_val), dtype=int)])
    X, y = np.vstack([X[rows], X_val]) / 255.0, np.r_[y[rows], y_val]
    return X, y, np.vstack([X_priv[rows], np.zeros((len(y_val), X_priv.shape[1]))]), split


def generated():
    """The generated data, n = 2,000, without its weights."""
    problem = datasets.classification(2_000, 1.0)
    grid = {"C": np.logspace(-1, 2.5, 8), "gamma": np.logspace(-1.5, 1, 8) / datasets.N_FEATURES}
    return problem.X, problem.y, grid


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def versus(report, name, X, y, grid, cv, repeats, asked):
    """lupi's search against scikit-learn's over the same estimator, and over SVC."""
    settings = {"cv": cv, "refit": False}
    searches = {
        "lupi": KernelGridSearchCV(WeightedSVC(), grid, **settings),
        "GridSearchCV(WeightedSVC)": GridSearchCV(WeightedSVC(), grid, n_jobs=JOBS, **settings),
        "GridSearchCV(SVC)": GridSearchCV(SVC(), grid, n_jobs=JOBS, **settings),
    }
    for search in searches.values():  # workers are started, libraries loaded
        search.fit(X, y)
    times = best_times({k: lambda s=s: s.fit(X, y) for k, s in searches.items()}, repeats)
    ours = searches["lupi"]
    splits = [k for k in ours.cv_results_ if k.startswith("split")]
    rows = []
    for key, search in searches.items():
        theirs = [search.cv_results_[k] for k in splits]
        off = np.abs(np.array(theirs) - [ours.cv_results_[k] for k in splits])
        ratio = times[key] / times["lupi"]
        if search is not ours:
            report.at_least(f"{name}: {key} / lupi, time", asked, ratio)
        rows.append(
            [
                key,
                duration(times[key]),
                f"{ratio:.1f}",
                "same" if search.best_params_ == ours.best_params_ else "others",
                f"{off.max():.1e}",
                f"{np.count_nonzero(off > 1e-10):,} of {off.size:,}",
            ]
        )
    report.table(
        ["search", "time", "x lupi", "best parameters", "largest difference of a score",
         "scores that differ"],
        rows,
    )  # fmt: skip
    return ours


def cores(report, name, fit, repeats):
    """The same search on one processor and on all; the work may not grow with them."""
    rows, wall, used = [], {}, {}
    for threads in (1, 2):
        with threadpool_limits(threads):
            fit()
            best = np.inf
            for _ in range(repeats):
                begin, start = processor_seconds(), time.perf_counter()
                fit()
                seconds = time.perf_counter() - start
                if seconds < best:
                    best, used[threads] = seconds, processor_seconds() - begin
            wall[threads] = best
        rows.append(
            [
                threads,
                f"{1e3 * best:.1f} ms",
                f"{wall[1] / best:.2f}",
                f"{1e3 * used[threads]:.1f} ms",
            ]
        )
    report.table(["processors", "time", "speed-up", "processor time"], rows)
    report.at_most(f"{name}: processor time with 2 cores / with 1", 1.25, used[2] / used[1])
    return wall[1] / wall[2]


def small(solvers, repeats, sizes):
    """n = 100 with 4,002 validation rows: a grid of 10 x 10."""
    report = Report("search_small: weighted SVM, n = 100, 4,002 validation digits, 100 candidates")
    try:
        X, y, _, cv = digits(100)
    except OSError as error:
        report.add(f"Not run: {error}\n")
        return report
    report.add(f"Without the final fit; scikit-learn's search with n_jobs={JOBS}.\n")
    grid = {"C": np.logspace(-2, 4, 10), "gamma": np.logspace(-4, 1, 10)}
    ours = versus(report, "search_small", X, y, grid, cv, 2 * repeats, 30)
    cores(report, "search_small", lambda: ours.fit(X, y), 2 * repeats)
    return report


def plus(solvers, repeats, sizes):
    """SVM+ over its four parameters, n = 90."""
    report = Report("search_plus: SVM+, n = 90, 4,002 validation digits, 2,016 candidates")
    try:
        X, y, X_priv, cv = digits(90)
    except OSError as error:
        report.add(f"Not run: {error}\n")
        return report
    grid = {
        "C": np.logspace(-2, 5, 8),
        "correction_reg": np.logspace(-3, 3, 7),
        "gamma": np.logspace(-4, 1, 6),
        "gamma_priv": np.logspace(-5, 0, 6),
    }
    search = KernelGridSearchCV(SVMPlusClassifier(), grid, cv=cv, refit="train")
    fit = best_times({"": lambda: search.fit(X, y, X_priv=X_priv)}, repeats)[""]
    report.at_most("search_plus: 2,016 fits, seconds", 4.0, fit)
    speed_up = cores(report, "search_plus", lambda: search.fit(X, y, X_priv=X_priv), repeats)
    report.at_least("search_plus: time with 1 core / with 2", 1.5, speed_up)
    return report


def large(solvers, repeats, sizes):
    """n = 2,000 in 5 folds: a grid of 8 x 8."""
    report = Report("search_large: weighted SVM, n = 2,000, 5 folds, 64 candidates")
    X, y, grid = generated()
    report.add(
        f"Without the final fit; scikit-learn's search with n_jobs={JOBS}; tol = 1e-3. Every model "
        "meets it; those with at most 400 free variables are exact, and scores of the others may "
        "differ by rows on the boundary.\n"
    )
    ours = versus(report, "search_large", X, y, grid, 5, min(repeats, 2), 4)
    speed_up = cores(report, "search_large", lambda: ours.fit(X, y), 2)
    report.at_least("search_large: time with 1 core / with 2", 1.5, speed_up)
    rows = []
    for cache_size in (100, 200, 1000):
        done = subprocess.run(
            [sys.executable, __file__, str(cache_size)], cwd=Path(__file__).parent,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        grown = float(done.stdout)
        rows.append([cache_size, f"{grown:.0f} MB"])
        report.at_most(f"search_large: MB with cache_size={cache_size}", cache_size, grown)
    report.table(["cache_size", "memory"], rows)
    return report


def _memory(cache_size):
    """Prints by how much a search of n = 2,000 makes the process grow at most, in MB (Linux)."""
    X, y, grid = generated()
    grid = {name: values[::2] for name, values in grid.items()}
    # The threads of this size of problem, and what BLAS keeps for each of them, are there already.
    KernelGridSearchCV(WeightedSVC(), grid, cv=5, refit=False).fit(X[:1300], y[:1300])
    Path("/proc/self/clear_refs").write_text("5")  # the largest so far is forgotten
    before = _largest()
    KernelGridSearchCV(WeightedSVC(cache_size=cache_size), grid, cv=5, refit=False).fit(X, y)
    print(_largest() - before)


def _largest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3


EXPERIMENTS = {f"search_{f.__name__}": f for f in (small, plus, large)}

if __name__ == "__main__":
    _memory(float(sys.argv[1]))
