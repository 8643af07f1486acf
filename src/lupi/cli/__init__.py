"""The command ``lupi``; one file for each of its commands."""

import argparse
import os
import sys
from collections.abc import Sequence

from . import _compare, _fetch, _predict, _reproduce


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lupi", description="Learning using privileged information and instance weights."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (_compare, _predict, _reproduce, _fetch):
        command.add(commands)
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
        Exit status: 0, 2, or 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    try:
        status: int = args.run(args)
    except BrokenPipeError:
        # Who reads the output has seen enough; nothing is to be said when Python closes it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(f"lupi: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # A command that can go on later says so in `resume`.
        print(f"\nlupi: stopped; {getattr(args, 'resume', 'nothing is kept.')}", file=sys.stderr)
        return 130
    return status
