"""The estimators: validate, build a problem, solve, unpack."""

from ._svm_plus import PrivilegedInformationWarning, SVMPlusClassifier
from ._weight_learning import WeightLearningClassifier
from ._weighted_svc import WeightedSVC

__all__ = [
    "PrivilegedInformationWarning",
    "SVMPlusClassifier",
    "WeightLearningClassifier",
    "WeightedSVC",
]
