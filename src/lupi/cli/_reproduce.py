"""``lupi reproduce``: the figures and tables of the paper."""

import argparse
import os
from pathlib import Path
from typing import Any

from ._compare import check_folder


def add(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : subparsers of argparse
    """
    parser = commands.add_parser(
        "reproduce",
        help="the figures and tables of the paper",
        description=(
            "Run the experiments of the paper, draw its figures, and hold its statements against "
            "what comes out. Without --quick it is the paper's full protocol, which takes hours; "
            "stopped, it goes on from there."
        ),
        epilog="Example: lupi reproduce --quick uci_datasets",
    )
    parser.add_argument(
        "figure",
        nargs="*",
        help="labels of the paper without 'fig:' or 'tab:', such as mnist_all; all if none is "
        "named, and --list shows them",
    )
    parser.add_argument("--list", action="store_true", help="show the figures and end")
    parser.add_argument("--quick", action="store_true", help="few sizes and repeats: minutes")
    parser.add_argument(
        "--repeats", metavar="N", type=int, help="in place of the paper's 100, 50 or 20"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="processes (default: one for each processor)"
    )
    parser.add_argument(
        "--out", metavar="DIR", default="report", help="folder of the report (default: report)"
    )
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder of the data sets (default: LUPI_DATA, or ~/lupi_data)",
    )
    parser.add_argument(
        "--rankings",
        metavar="FILE",
        help="rankings of the 100 training digits: a line each, scores in [-1, 1] separated by "
        "commas; simulated without",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..experiments import FIGURES, reproduce

    if args.list:
        print("\n".join(FIGURES))
        return 0
    if args.jobs is not None and args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1; got {args.jobs}.")
    out = Path(args.out)
    check_folder(out)
    args.resume = f"what is done is kept in {out}: the same command goes on from there."
    found = reproduce(
        args.figure,
        out=out,
        quick=args.quick,
        repeats=args.repeats,
        n_jobs=args.jobs or os.cpu_count(),
        data_home=args.data_home,
        rankings=args.rankings,
        seed=args.seed,
    )
    words = {True: "confirmed", False: "NOT CONFIRMED", None: "-"}
    for name, findings in found.findings.items():
        print(f"\n{name}")
        for one in findings:
            print(f"  [{words[one.agrees]}] {one.claim}\n      {one.found}")
    hours = sum(found.seconds.values()) / 3600
    print(f"\nreport: {found.page} ({hours:.2f} core hours in all)")
    return 0
