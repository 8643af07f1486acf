"""How often `lupi compare` finds a gain: where there is none, and where there is one.

    python benchmarks/compare_alarms.py [--sets 100] [--rows 80] [--repeats 10] [--kind noise]

With `--kind noise` the privileged columns are noise, and "the extra information helps" is a false
alarm; at most 7 of 100 are to be expected from intervals of 95 %. With `--kind score` the one
privileged column is the score from which the labels were drawn: it says which labels are doubtful.
"""

import argparse
import time

import numpy as np
from joblib import Parallel, delayed

from lupi.experiments import compare


def table(kind, n, seed):
    """Rows with 6 ordinary columns, doubtful labels, and privileged columns of a kind."""
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 6))
    score = 2.0 * X[:, 0] + 1.0 * X[:, 1] * X[:, 2]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * score))).astype(int)
    if kind == "noise":
        return X, y, rng.normal(size=(n, 3))
    return X, y, score[:, None]


def judge(kind, n, repeats, seed):
    """Verdict, and the differences of all methods at the size that the answer is about."""
    X, y, X_priv = table(kind, n, seed)
    size = n - round(0.25 * n)
    found = compare(X, y, X_priv, sizes=[size], repeats=repeats, random_state=seed)
    gains = {name: one[-1] for name, one in found.answer.differences.items()}
    return found.answer.verdict, gains, float(found.errors[0].means[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--kind", choices=("noise", "score"), default="noise")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    start = time.perf_counter()
    found = Parallel(n_jobs=args.jobs)(
        delayed(judge)(args.kind, args.rows, args.repeats, seed) for seed in range(args.sets)
    )
    verdicts = [verdict for verdict, _, _ in found]
    print(f"{args.sets} tables of {args.rows} rows, {args.kind}; {args.repeats} repeats")
    print(f"error of the SVM: {np.mean([error for _, _, error in found]):.3f}")
    for verdict in ("helps", "open", "nothing", "harms"):
        print(f"  {verdict:8} {100 * verdicts.count(verdict) / args.sets:5.1f} %")
    print("method: mean gain in points; interval above zero, below zero; half width in points")
    for name in found[0][1]:
        gains = [gain[name] for _, gain, _ in found]
        above = np.mean([gain.low > 0 for gain in gains])
        below = np.mean([gain.high < 0 for gain in gains])
        mean = 100 * np.mean([gain.mean for gain in gains])
        half = 100 * np.mean([gain.half_width for gain in gains])
        print(f"  {name:18} {mean:+6.2f} {100 * above:6.1f} % {100 * below:6.1f} % {half:6.2f}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
