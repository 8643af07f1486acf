"""lupi's search for the weights."""

import numpy as np
from weights_objective import LOSS

from lupi.bilevel import Criterion, DenseCross
from lupi.bilevel.search import Objective, Settings, Task, Weighting, minimise
from lupi.problems import SmoothWSVMProblem
from lupi.threads import n_threads, one_blas_thread


class Solver:
    name = "lupi"
    package = "lupi"

    def set_objective(self, problem):
        n = len(problem.y)
        task = Task(
            SmoothWSVMProblem(problem.K, problem.y, np.ones(n), LOSS),
            np.arange(n),
            Criterion(DenseCross(problem.K_val), problem.y_val, LOSS),
        )
        threads = n_threads(problem.K_val.size)
        self.objective = Objective((task,), Weighting(np.ones(n)), Settings(1.0), threads=threads)
        self.max_iter = problem.max_iter

    def run(self, goal=-np.inf):
        def reached(iteration, values):
            return values["validation_loss"] <= goal

        with one_blas_thread():
            self.found = minimise(self.objective, max_iter=self.max_iter, tol=1e-9, report=reached)

    def get_result(self):
        return self.found.best.weights, self.found.n_iter, self.found.n_evaluations
