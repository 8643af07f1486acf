"""``lupi compare``: whether extra information helps."""

import argparse
import os
import textwrap
from pathlib import Path
from typing import Any

_DEMO_SIZES = [20, 40, 80, 160]


def add(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : subparsers of argparse
    """
    parser = commands.add_parser(
        "compare",
        help="does the extra information help?",
        description=(
            "Compare classifiers with and without columns that are known at training time only, "
            "over training sizes, on the same rows. Prints the answer, and writes a report."
        ),
        epilog="Example: lupi compare patients.csv --target outcome --privileged 'report_*'",
    )
    parser.add_argument("data", nargs="?", help="CSV or Parquet file")
    parser.add_argument("--target", metavar="COL", help="column of the labels")
    parser.add_argument(
        "--privileged",
        metavar="PATTERN",
        nargs="+",
        default=[],
        help="columns that are known at training time only: names, or patterns such as 'report_*'",
    )
    parser.add_argument(
        "--drop", metavar="PATTERN", nargs="+", default=[], help="columns to leave out"
    )
    parser.add_argument("--group", metavar="COL", help="rows with the same value stay together")
    parser.add_argument("--weights", metavar="COL", help="how much each row counts in training")
    parser.add_argument(
        "--sizes",
        metavar="N",
        nargs="+",
        type=int,
        help="training sizes; the answer is about the largest (default: up to four)",
    )
    parser.add_argument("--repeats", metavar="N", type=int, default=20, help="default: 20")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="processes (default: one for each processor)"
    )
    parser.add_argument(
        "--out", metavar="DIR", default="report", help="folder of the report (default: report)"
    )
    parser.add_argument(
        "--model", metavar="FILE", help="write the model to use, trained on all rows (.skops)"
    )
    parser.add_argument(
        "--demo", action="store_true", help="on data that ships with scikit-learn: digits 5 and 8"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..experiments import compare_problem, demo_problem, problem_of, read_table, save_model

    if args.demo:
        if args.data is not None or args.target is not None or args.privileged:
            raise ValueError("--demo brings its own data: leave out the file and its columns.")
        data = demo_problem()
        args.sizes = args.sizes or _DEMO_SIZES
    else:
        missing = [
            name
            for name, value in (
                ("a file", args.data),
                ("--target COL", args.target),
                ("--privileged PATTERN", args.privileged),
            )
            if not value
        ]
        if missing:
            raise ValueError(f"compare needs {' and '.join(missing)}; or try lupi compare --demo.")
        data = problem_of(
            read_table(args.data),
            args.target,
            args.privileged,
            drop=args.drop,
            group=args.group,
            weights=args.weights,
            name=Path(args.data).name,
        )
    if args.jobs is not None and args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1; got {args.jobs}.")
    out = Path(args.out)
    check_folder(out)
    _check_model(args.model)
    args.resume = f"what is done is kept in {out}: the same command goes on from there."
    found = compare_problem(
        data,
        sizes=args.sizes,
        repeats=args.repeats,
        random_state=args.seed,
        n_jobs=args.jobs or os.cpu_count(),
        out=out,
        progress=True,
    )
    print(_wrapped(str(found)))
    print()
    print(found.table())
    print()
    if args.model is not None:
        save_model(found.fit().model, args.model)
        print(f"model:  {args.model} ({found.best_label}, trained on all {data.n} rows)")
    print(f"report: {found.write(out)}")
    return 0


def check_folder(out: Path) -> None:
    """Only an own folder is written to.

    Parameters
    ----------
    out : Path
        Of ``--out``.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; name a folder.")
    known = (out / "journal.jsonl").is_file()
    for name in ("index.html", "results.csv", "figures"):
        if not known and (out / name).exists():
            raise ValueError(
                f"{out / name} is there already and is not of this command. Choose another --out."
            )


def _check_model(path: str | None) -> None:
    """What would fail after minutes of work fails before them."""
    from ..experiments import require_skops

    if path is None:
        return
    require_skops()
    if Path(path).is_dir() or not Path(path).resolve().parent.is_dir():
        raise ValueError(f"--model {path} must be a file in a folder that exists.")


def _wrapped(text: str) -> str:
    return "\n\n".join(textwrap.fill(block, 80) for block in text.split("\n\n"))
