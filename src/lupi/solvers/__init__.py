"""Solvers: ``solve(problem, init) -> Solution``, one algorithm per file.

:mod:`lupi.solvers.wsvm` is the fast one, :mod:`lupi.solvers.reference` the slow, obvious one that
the fast ones are tested against.
"""

from . import reference, wsvm

__all__ = ["reference", "wsvm"]
