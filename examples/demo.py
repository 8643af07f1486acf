"""Train a weighted SVM on data that ships with scikit-learn and print its certificate.

Run by `make demo`.
"""

from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lupi import WeightedSVC

REPEATS = 5


def doubtful_breast_cancer(n_flipped=40, seed=0):
    """Split and scale the data, flip some training labels, and weight the training rows.

    The weights stand for an annotator's confidence: 0.2 or 0.4 for a flipped label, between 0.6
    and 1 for every other one.
    """
    rng = np.random.default_rng(seed)
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
    flipped = rng.choice(len(y_train), size=n_flipped, replace=False)
    y_train[flipped] = 1 - y_train[flipped]
    weight = rng.choice([0.6, 0.8, 1.0], size=len(y_train))
    weight[flipped] = rng.choice([0.2, 0.4], size=n_flipped)
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test, weight


def fit_milliseconds(model, X, y, weight):
    """Fit once to warm up, then `REPEATS` times; return the shortest of these."""
    model.fit(X, y, sample_weight=weight)
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        model.fit(X, y, sample_weight=weight)
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def objectives(model, X, y, c, gamma):
    """Return the primal and the dual value (eq svmw_primal, eq svmw_dual) of a fitted RBF machine.

    This asks for nothing but `support_vectors_`, `dual_coef_` and `decision_function`, so it can
    judge any SVM.  The dual value is minus F(alpha), so that the two values meet at an optimum.
    """
    coef = model.dual_coef_.ravel()
    squared_norm = coef @ rbf_kernel(model.support_vectors_, gamma=gamma) @ coef
    hinge = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * model.decision_function(X))
    return 0.5 * squared_norm + c @ hinge, np.abs(coef).sum() - 0.5 * squared_norm


def print_row(name, ours, theirs=""):
    """Print one line of the table."""
    print(f"  {name:<22}{ours:>24}{theirs:>18}".rstrip())


def main():
    """Fit both machines and print them side by side."""
    X, X_test, y, y_test, weight = doubtful_breast_cancer()
    C, gamma = 10.0, 1.0 / X.shape[1]

    model = WeightedSVC(C=C, gamma=gamma)
    time = fit_milliseconds(model, X, y, weight)
    svc = SVC(C=C, gamma=gamma)
    svc_time = fit_milliseconds(svc, X, y, weight)
    svc_primal, svc_dual = objectives(svc, X, y, C * weight, gamma)

    b_low, b_high = model.intercept_interval_
    print(f"Breast cancer, {len(X)} rows, 40 labels flipped, weights = confidence in the label")
    print()
    print_row("", "lupi WeightedSVC", "sklearn SVC*")
    print_row("primal objective", f"{model.primal_objective_:.6f}", f"{svc_primal:.6f}")
    print_row("dual objective", f"{model.dual_objective_:.6f}", f"{svc_dual:.6f}")
    print_row("duality gap", f"{model.duality_gap_:.1e}", f"{svc_primal - svc_dual:.1e}")
    print_row("KKT violation", f"{model.solution_.violation:.1e}")
    print_row("offset b", f"{float(model.intercept_[0]):.6f}", f"{float(svc.intercept_[0]):.6f}")
    print_row("all optimal b", f"[{b_low:.6f}, {b_high:.6f}]")
    print_row("support vectors", f"{model.n_support_.sum()}", f"{svc.n_support_.sum()}")
    accuracy, svc_accuracy = model.score(X_test, y_test), svc.score(X_test, y_test)
    print_row("test accuracy", f"{accuracy:.3f}", f"{svc_accuracy:.3f}")
    print_row(f"fit, best of {REPEATS}", f"{time:.1f} ms", f"{svc_time:.1f} ms")
    print()
    print(f"  {model.solution_.status.name.lower()} after {model.n_iter_} steps, tol={model.tol:g}")
    print("  * SVC reports no objective: its values are recomputed here from what it stores.")


if __name__ == "__main__":
    main()
