"""lupi: learning using privileged information and instance weights.

Support vector machines that learn with privileged features (SVM+) or with one weight per example,
each fit with a proof of its accuracy.
"""

from importlib.metadata import version as _version

from .estimators import (
    PrivilegedInformationWarning,
    SVMPlusClassifier,
    WeightedSVC,
    WeightLearningClassifier,
)

__version__ = _version("lupi")

__all__ = [
    "PrivilegedInformationWarning",
    "SVMPlusClassifier",
    "WeightLearningClassifier",
    "WeightedSVC",
    "__version__",
]
