"""lupi: learning using privileged information and instance weights.

Support vector machines with one weight per example, each fit with a proof of its accuracy.
"""

from importlib.metadata import version as _version

from .estimators import WeightedSVC

__version__ = _version("lupi")

__all__ = ["WeightedSVC", "__version__"]
