"""The estimators: validate, build a problem, solve, unpack."""

from ._weighted_svc import WeightedSVC

__all__ = ["WeightedSVC"]
