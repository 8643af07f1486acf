"""Clarabel, a general interior-point solver, on the dual; its time excludes forming the matrices.

Variables u = y alpha, zeta = alpha + beta, with p = K u and q = K* (zeta - C) as variables of their
own would make it sparse, not smaller: the dense quadratic form is what a user writes.
"""

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist


def _rbf(X, gamma):
    return np.exp(-gamma * cdist(X, X, "sqeuclidean"))


class Solver:
    name = "Clarabel"
    package = "clarabel"

    def set_objective(self, problem):
        n, y, C = len(problem.y), problem.y, problem.C
        S = _rbf(problem.X_priv, problem.gamma_priv) / problem.correction_reg
        zero = np.zeros((n, n))
        P = np.block([[_rbf(problem.X, problem.gamma) * np.outer(y, y), zero], [zero, S]])
        self.P = sp.csc_matrix(np.triu(P))
        self.q = np.r_[-np.ones(n), -C * S.sum(axis=1)]
        eye = sp.identity(n)
        self.A = sp.vstack(
            [
                sp.csc_matrix(np.r_[y, np.zeros(n)][None]),
                sp.csc_matrix(np.r_[np.zeros(n), np.ones(n)][None]),
                sp.hstack([-eye, sp.csc_matrix((n, n))]),  # alpha >= 0
                sp.hstack([eye, -eye]),  # beta = zeta - alpha >= 0
            ]
        ).tocsc()
        self.b = np.r_[0.0, C * n, np.zeros(2 * n)]
        self.cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(2 * n)]
        self.settings = clarabel.DefaultSettings()
        self.settings.verbose = False
        self.n = n

    def run(self):
        self.solution = clarabel.DefaultSolver(
            self.P, self.q, self.A, self.b, self.cones, self.settings
        ).solve()

    def get_result(self):
        if str(self.solution.status) != "Solved":
            return None
        alpha, zeta = np.split(np.asarray(self.solution.x), 2)
        return alpha, zeta - alpha, self.solution.iterations
