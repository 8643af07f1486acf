"""scikit-learn's own checks, and agreement with SVC."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import WeightedSVC


@parametrize_with_checks([WeightedSVC()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
