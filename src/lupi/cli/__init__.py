"""The command ``lupi``."""

import argparse
import sys
from collections.abc import Sequence

from ..datasets import available, fetch_files


def _fetch(args: argparse.Namespace) -> int:
    # One after the other: a set that fails leaves those before it on the screen and on the disk.
    for name in dict.fromkeys(args.dataset or available()):
        for path in fetch_files([name], data_home=args.data_home):
            print(path)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lupi", description="Learning using privileged information and instance weights."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    fetch = commands.add_parser(
        "fetch",
        help="download and verify the data sets",
        description="Download what is missing, verify all, print the paths of the files.",
    )
    fetch.add_argument(
        "dataset", nargs="*", help=f"some of {', '.join(available())}; all of them if none is named"
    )
    fetch.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder of the data sets (default: LUPI_DATA, or ~/lupi_data)",
    )
    fetch.set_defaults(run=_fetch)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; what is wrong with its input or its files is one sentence and 2.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None for those of the process.

    Returns
    -------
    status : int
        Exit status, 0 or 2.
    """
    args = _parser().parse_args(argv)
    try:
        status: int = args.run(args)
    except (OSError, ValueError) as error:
        print(f"lupi: {error}", file=sys.stderr)
        return 2
    return status
