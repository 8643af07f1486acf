"""Learning the weights: a model inside, its loss on validation rows outside, eq:wlearning:wopt."""

from .criterion import BlockCross, Criterion, DenseCross
from .implicit import Hypergradient, hypergradient, jacobian

__all__ = [
    "BlockCross",
    "Criterion",
    "DenseCross",
    "Hypergradient",
    "hypergradient",
    "jacobian",
]
