"""scikit-learn's SVC (LIBSVM)."""

import numpy as np
from sklearn.svm import SVC


class Solver:
    name = "scikit-learn SVC"
    package = "scikit-learn"
    model_class = SVC

    def set_objective(self, problem):
        # Rows of weight zero are not part of the problem; not every SVC leaves them out by itself.
        self.rows = np.flatnonzero(problem.weight > 0)
        everything = len(self.rows) == len(problem.y)
        self.X = problem.X if everything else problem.X[self.rows]
        self.y, self.weight = problem.y[self.rows], problem.weight[self.rows]
        self.model = self.model_class(
            C=problem.C, gamma=problem.gamma, tol=problem.tol, cache_size=problem.cache_size
        )

    def run(self):
        self.model.fit(self.X, self.y, sample_weight=self.weight)

    def get_result(self):
        coef, support = self.model.dual_coef_[0], self.rows[self.model.support_]
        return coef, support, int(self.model.n_iter_[0])
