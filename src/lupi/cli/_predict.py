"""``lupi predict``: labels of new rows."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : subparsers of argparse
    """
    parser = commands.add_parser(
        "predict",
        help="label new rows with a model of lupi compare",
        description=(
            "Label the rows of a table with a model that lupi compare --model wrote. The extra "
            "columns are not needed. Prints CSV: the label of each row, and for two classes the "
            "decision value, positive on the side of the second class."
        ),
    )
    parser.add_argument("model", help="file of the model, .skops")
    parser.add_argument("data", help="CSV or Parquet file with the ordinary columns")
    parser.add_argument("--out", metavar="FILE", help="write there and not on the screen")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..experiments import load_model, predict_table, read_table

    if args.out is not None:
        given = {Path(args.model).resolve(), Path(args.data).resolve()}
        if Path(args.out).resolve() in given:
            raise ValueError(f"--out {args.out} is one of the files that are read.")
    found = predict_table(load_model(args.model), read_table(args.data))
    if args.out is None:
        _write(sys.stdout, found)
        return 0
    with open(args.out, "w", newline="", encoding="utf-8") as file:
        _write(file, found)
    return 0


def _write(file: Any, found: dict[str, Any]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(zip(*(column.tolist() for column in found.values()), strict=True))
