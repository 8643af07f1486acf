"""Solvers of the weighted SVM, one file each, found by being in this folder.

A file defines a class ``Solver`` with

``name``             for the tables
``package``          the distribution whose version goes into the results
``set_objective(p)`` takes an ``objective.Problem``; not timed
``run()``            solves it; timed, as often as asked for
``get_result()``     -> signed dual coefficients y * alpha, the rows they belong to, iterations
``model``            has ``predict``, ``decision_function``, ``support_vectors_``, ``dual_coef_``
                     and ``intercept_`` (for the predict benchmark)

It imports what it measures at its top: a file that cannot is skipped with a message.
"""

import pkgutil
from importlib import import_module


def load(package=__name__):
    """One solver of each file of a package, and a sentence for each file that was skipped."""
    solvers, skipped = [], []
    for module in pkgutil.iter_modules(import_module(package).__path__):
        try:
            solvers.append(import_module(f"{package}.{module.name}").Solver())
        except ImportError as error:
            skipped.append(f"{module.name}: skipped, {error}")
    return solvers, skipped
