"""Solvers: ``solve(problem, init) -> Solution``, one algorithm per file.

:mod:`lupi.solvers.wsvm` and :mod:`lupi.solvers.svmplus` are the fast ones,
:mod:`lupi.solvers.reference` the slow, obvious one that the fast ones are tested against.
"""

from . import newton, reference, smooth_rows, svmplus, wsvm

__all__ = ["newton", "reference", "smooth_rows", "svmplus", "wsvm"]
