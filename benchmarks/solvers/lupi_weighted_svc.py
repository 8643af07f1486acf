"""lupi's WeightedSVC; its time includes its certificate."""

import numpy as np

from lupi import WeightedSVC
from lupi.kernels import KernelSpec


class Solver:
    name = "lupi"
    package = "lupi"

    def set_objective(self, problem):
        self.problem = problem
        self.model = WeightedSVC(
            C=problem.C, gamma=problem.gamma, tol=problem.tol, cache_size=problem.cache_size
        )

    def run(self):
        self.model.fit(self.problem.X, self.problem.y, sample_weight=self.problem.weight)

    def get_result(self):
        return self.model.dual_coef_[0], self.model.support_, int(self.model.n_iter_[0])

    def decision_with(self, other, rows):
        """Decision values of another solver's model, by the code behind our predict."""
        basis = np.ascontiguousarray(other.support_vectors_)
        coef = np.ascontiguousarray(other.dual_coef_, dtype=np.float64)
        spec = KernelSpec("rbf", self.problem.gamma)
        return spec.expand(basis, coef, rows)[0] + other.intercept_[0]
