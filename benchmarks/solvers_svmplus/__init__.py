"""Solvers of SVM+, one file each, found by being in this folder; see ``solvers/__init__.py``.

``set_objective(p)`` takes an ``svmplus_objective.Problem``; ``get_result()`` returns alpha, beta
and the iterations, or None where the solver itself says that it did not solve the problem.
"""
