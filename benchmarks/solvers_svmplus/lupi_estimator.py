"""lupi's SVMPlusClassifier.fit."""

from lupi import SVMPlusClassifier


class Solver:
    name = "lupi fit"
    package = "lupi"

    def set_objective(self, problem):
        self.problem = problem
        self.model = SVMPlusClassifier(
            problem.C,
            correction_reg=problem.correction_reg,
            gamma=problem.gamma,
            gamma_priv=problem.gamma_priv,
            tol=problem.tol,
            cache_size=problem.cache_size,
        )

    def run(self):
        self.model.fit(self.problem.X, self.problem.y, X_priv=self.problem.X_priv)

    def get_result(self):
        return self.model.alpha_, self.model.beta_, int(self.model.n_iter_[0])
