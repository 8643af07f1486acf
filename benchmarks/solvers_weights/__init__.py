"""Solvers of the weight learning problem, one file each, found by being in this folder.

A file defines a class ``Solver`` with

``name``                  for the tables
``package``               the distribution whose version goes into the results
``set_objective(p)``      takes a ``weights_objective.OuterProblem``; compiles; not timed
``run(goal=-inf)``        at most ``p.max_iter`` outer iterations from weights of one, fewer where
                          the validation loss comes down to the goal; timed
``get_result()``          -> weights, outer iterations, evaluations
"""
