"""``lupi fetch``: the data sets."""

import argparse
from typing import Any

from ..datasets import available, fetch_files


def add(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : subparsers of argparse
    """
    parser = commands.add_parser(
        "fetch",
        help="download and verify the data sets",
        description="Download what is missing, verify all, print the paths of the files.",
    )
    parser.add_argument(
        "dataset", nargs="*", help=f"some of {', '.join(available())}; all of them if none is named"
    )
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder of the data sets (default: LUPI_DATA, or ~/lupi_data)",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    # One after the other: a set that fails leaves those before it on the screen and on the disk.
    for name in dict.fromkeys(args.dataset or available()):
        for path in fetch_files([name], data_home=args.data_home):
            print(path)
    return 0
