"""Choosing hyper-parameters: scikit-learn's searches, with the work that models share done once."""

from ._search import KernelGridSearchCV, KernelRandomizedSearchCV

__all__ = ["KernelGridSearchCV", "KernelRandomizedSearchCV"]
