"""Run the benchmarks and write RESULTS.md:  python benchmarks/run.py [fit] [small] ...

Each experiment leaves a part in ``parts/``, and RESULTS.md is put together from all parts that are
there: experiments can be run on different days, and again one by one. ``--merge`` runs nothing.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import datasets
import experiments
import joblib
import search_experiments
import solvers
import svmplus_experiments
import svmplus_objective
import weights_experiments
import weights_objective
from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "RESULTS.md"
PARTS = Path(__file__).parent / "parts"
# Experiment -> the function, and the package of its solvers.
EXPERIMENTS = {
    name: (f, package)
    for module, package in (
        (experiments, "solvers"),
        (svmplus_experiments, "solvers_svmplus"),
        (weights_experiments, "solvers_weights"),
    )
    for name, f in module.EXPERIMENTS.items()
}
EXPERIMENTS |= {name: (f, "solvers") for name, f in search_experiments.EXPERIMENTS.items()}


def arguments():
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, "all"], default="all")
    parser.add_argument("--sizes", nargs="+", type=int, help="n of fit and of scaling")
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many (default 5)")
    parser.add_argument("--merge", action="store_true", help="only put the parts together")
    parser.add_argument("--parts", type=Path, default=PARTS, help="where the parts are")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    if "all" in args.experiments:
        args.experiments = list(EXPERIMENTS)
    return args


def cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit():
    """The commit of this clone; "-dirty" says that files differ from it."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine(loaded):
    """What a reader needs to judge the numbers, or to get them again."""
    packages = sorted({"numpy", "scipy", "scikit-learn", *(s.package for s in loaded)})
    blas = {f"{b['internal_api']} {b['version']}" for b in threadpool_info() if b["version"]}
    threads = [f"{k}={v}" for k, v in os.environ.items() if k.endswith("_NUM_THREADS")]
    now = datetime.datetime.now(datetime.UTC)
    return [
        f"* date: {now:%Y-%m-%d %H:%M} UTC",
        f"* command: `{shlex.join(['python', 'benchmarks/run.py', *sys.argv[1:]])}`",
        f"* commit: {commit()}",
        f"* machine: {cpu_model()}, {os.cpu_count()} cores ({joblib.cpu_count()} usable), "
        f"{platform.system()} {platform.machine()}",
        f"* threads: {' '.join(threads) or 'as each library chooses'}",
        f"* Python {platform.python_version()}; "
        + ", ".join(f"{name} {version(name)}" for name in packages)
        + f"; {', '.join(sorted(blas))}",
        f"* data: `{datasets.DESCRIPTION}`; `{svmplus_objective.DESCRIPTION}`; "
        f"`{weights_objective.DESCRIPTION}`",
        f"* settings: RBF kernel, gamma = 1/{datasets.N_FEATURES}, tol = 1e-3 for every solver",
    ]


INTRODUCTION = """\
# Results

Written by `benchmarks/run.py`; not edited by hand. `x lupi` is a time divided by lupi's in the same
run, in which the solvers took turns. `dual objective`, `relative gap` and `behind best dual` come
from `objective.py`, which values the point that each solver returned, in float64; the last two are
divided by max(1, |dual objective|). `(miss)` marks a dual objective more than 1e-5 behind the best:
its time does not count. Iterations are each solver's own and do not compare.
"""


def run(name, args):
    """One experiment, and its part on disk."""
    function, package = EXPERIMENTS[name]
    loaded, skipped = solvers.load(package)
    if "lupi" not in [s.name for s in loaded]:
        raise SystemExit("\n".join(skipped))
    facts = machine(loaded) + [f"* {sentence}" for sentence in skipped]
    print("\n".join(facts), f"\n\n## {name}\n")
    report = function(loaded, args.repeats, args.sizes)
    args.parts.mkdir(exist_ok=True)
    (args.parts / f"{name}.json").write_text(
        json.dumps({"facts": facts, **vars(report)}, indent=1, default=bool) + "\n",
        encoding="utf-8",
    )


def merge(args):
    """RESULTS.md from the parts, in the order of the experiments."""
    found = [args.parts / f"{name}.json" for name in EXPERIMENTS]
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]
    checks = [
        (what, asked, got, "yes" if holds else "MISSED")
        for part in parts
        for what, asked, got, holds in part["checks"]
    ]
    summary = experiments.table(["what", "asked", "got", "holds"], checks) + "\n"
    print("## Asked and got\n\n" + summary)
    text = [INTRODUCTION, "## Asked and got", "", summary]
    for part in parts:
        text += [f"## {part['title']}", "", *part["text"], *part["facts"], ""]
    args.out.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def main():
    args = arguments()
    for name in [] if args.merge else args.experiments:
        run(name, args)
    merge(args)


if __name__ == "__main__":
    main()
