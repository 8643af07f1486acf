"""scikit-learn-intelex's SVC (oneDAL)."""

from sklearnex.svm import SVC

from . import sklearn_svc


class Solver(sklearn_svc.Solver):
    name = "scikit-learn-intelex"
    package = "scikit-learn-intelex"
    model_class = SVC

    def run(self):
        super().run()
        # It hands over to scikit-learn without a word where it cannot do something itself.
        if not hasattr(self.model, "_onedal_estimator"):
            raise RuntimeError("scikit-learn-intelex fell back to scikit-learn's SVC.")
