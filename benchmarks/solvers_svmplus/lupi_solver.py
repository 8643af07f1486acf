"""lupi's SVM+ through the solver's interface; its time includes kernels and certificate."""

import numpy as np

from lupi.kernels import KernelSpec
from lupi.problems import SVMPlusProblem
from lupi.solvers import svmplus


class Solver:
    name = "lupi"
    package = "lupi"

    def set_objective(self, problem):
        self.problem = problem
        self.priv = np.arange(len(problem.y))
        self.costs = np.full(len(problem.y), float(problem.C))

    def run(self):
        p = self.problem
        self.solution = svmplus.solve(
            SVMPlusProblem(
                KernelSpec("rbf", p.gamma).matrix(p.X),
                KernelSpec("rbf", p.gamma_priv).matrix(p.X_priv),
                self.priv,
                p.y,
                self.costs,
                p.correction_reg,
            ),
            tol=p.tol,
            cache_size=p.cache_size,
        )

    def get_result(self):
        dual = self.solution.dual
        return dual.alpha, dual.beta, self.solution.n_iter
