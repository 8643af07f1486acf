r"""Losses of the margin t = y f(x) that can be differentiated twice, for learning the weights.

A loss is convex and non-increasing. It has a value and two derivatives, and, for the certificate,
the convex conjugate l*(s) = sup_t (s t - l(t)), which is finite for slopes s of the loss only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

Vector = NDArray[np.float64]


class Loss:
    """Base of the losses; a loss of your own overrides `value`, `d1` and `d2`.

    Attributes
    ----------
    flat_from : float
        The loss is zero for margins from here on: rows beyond it do not take part in the model.
        Infinite for a loss that is positive everywhere.
    steepest : float
        The supremum of -l'(t): slopes lie in [-steepest, 0].
    """

    flat_from: ClassVar[float] = np.inf
    steepest: ClassVar[float] = np.inf

    def value(self, t: Vector) -> Vector:
        """l(t), elementwise."""
        raise NotImplementedError

    def d1(self, t: Vector) -> Vector:
        """l'(t), elementwise, at most 0."""
        raise NotImplementedError

    def d2(self, t: Vector) -> Vector:
        """l''(t), elementwise, at least 0; where it does not exist, a limit from either side."""
        raise NotImplementedError

    def derivatives(self, t: Vector) -> tuple[Vector, Vector]:
        """(l'(t), l''(t)); override where they share work."""
        return self.d1(t), self.d2(t)

    def conjugate(self, slope: Vector) -> Vector:
        """l*(s) = sup_t (s t - l(t)) for slopes in [-steepest, 0].

        Found by bisection for l'(t) = s, for any loss: the value is a lower bound of the supremum,
        and in error by the square of the last interval. Override it where it has a closed form.
        """
        slope = np.asarray(slope, dtype=np.float64)
        low, high = np.full(slope.shape, -1e8), np.full(slope.shape, 1e8)
        for _ in range(100):
            middle = 0.5 * (low + high)
            rising = self.d1(middle) < slope
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return slope * low - self.value(low)


@dataclass(frozen=True)
class SmoothHinge(Loss):
    r"""The hinge loss with its corner rounded, eq:smoothloss; twice continuously differentiable.

    With x = (1 - t) / (2 delta) cut to [0, 1],

    .. math::

        \ell_\delta(t) = \delta\, x^3 (2 - x) + [1 - 2\delta - t]_+, \qquad
        \ell'_\delta(t) = -x^2 (3 - 2x), \qquad \ell''_\delta(t) = 3 x (1 - x) / \delta,

    which is the formula of the paper written so that nothing cancels. It is zero for t >= 1 and
    linear for t <= 1 - 2 delta.

    Parameters
    ----------
    delta : float, default=0.5
        Half the width of the curved part. Small: close to the hinge loss 1 - t, below which it
        stays by at most delta.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.losses import SmoothHinge
    >>> SmoothHinge(0.5).value(np.array([-1.0, 0.5, 1.0]))
    array([1.5    , 0.09375, 0.     ])
    """

    delta: float = 0.5

    flat_from: ClassVar[float] = 1.0
    steepest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise ValueError(f"delta must be positive and finite; got {self.delta}.")

    def _position(self, t: Vector) -> Vector:
        x = 1.0 - np.asarray(t, dtype=np.float64)
        x *= 0.5 / self.delta
        return np.clip(x, 0.0, 1.0, out=x) if x.ndim else np.clip(x, 0.0, 1.0)

    def value(self, t: Vector) -> Vector:
        """eq:smoothloss."""
        x = self._position(t)
        return self.delta * x**2 * x * (2.0 - x) + np.maximum(1.0 - 2.0 * self.delta - t, 0.0)

    def d1(self, t: Vector) -> Vector:
        """-x^2 (3 - 2 x)."""
        x = self._position(t)
        return x * x * (2.0 * x - 3.0)

    def d2(self, t: Vector) -> Vector:
        """3 x (1 - x) / delta."""
        x = self._position(t)
        return x * (1.0 - x) * (3.0 / self.delta)

    def derivatives(self, t: Vector) -> tuple[Vector, Vector]:
        """(l'(t), l''(t))."""
        x = self._position(t)
        return x * x * (2.0 * x - 3.0), x * (1.0 - x) * (3.0 / self.delta)

    def conjugate(self, slope: Vector) -> Vector:
        """S t - l(t) at the t of slope s: x solves x^2 (3 - 2 x) = -s."""
        p = np.clip(-np.asarray(slope, dtype=np.float64), 0.0, 1.0)
        # 1/2 - sin(asin(1 - 2 p) / 3) loses digits near p = 0, where x is about sqrt(p / 3):
        # two Newton steps from it bring them back.
        x = np.clip(0.5 - np.sin(np.arcsin(1.0 - 2.0 * p) / 3.0), 0.0, 1.0)
        for _ in range(2):
            slope_of_x = 6.0 * x * (1.0 - x)
            step = np.divide(
                x * x * (3.0 - 2.0 * x) - p,
                slope_of_x,
                where=slope_of_x > 1e-9,
                out=np.zeros_like(x),
            )
            x = np.clip(x - step, 0.0, 1.0)
        return -p * (1.0 - 2.0 * self.delta * x) - self.delta * x**2 * x * (2.0 - x)

    def value_delta(self, t: Vector) -> Vector:
        """Derivative of the value with respect to delta: x^3 (3 x - 4)."""
        x = self._position(t)
        return x**2 * x * (3.0 * x - 4.0)

    def d1_delta(self, t: Vector) -> Vector:
        """Derivative of l'(t) with respect to delta: 6 x^2 (1 - x) / delta."""
        x = self._position(t)
        return x * x * (1.0 - x) * (6.0 / self.delta)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - t)^2. Its second derivative jumps at t = 1, where it is taken to be zero.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 2.0]))
    array([4.  , 0.25, 0.  ])
    """

    flat_from: ClassVar[float] = 1.0

    def value(self, t: Vector) -> Vector:
        """max(0, 1 - t)^2."""
        return np.maximum(1.0 - t, 0.0) ** 2

    def d1(self, t: Vector) -> Vector:
        """-2 max(0, 1 - t)."""
        return -2.0 * np.maximum(1.0 - t, 0.0)

    def d2(self, t: Vector) -> Vector:
        """2 for t < 1, else 0."""
        return np.where(np.asarray(t) < 1.0, 2.0, 0.0)

    def conjugate(self, slope: Vector) -> Vector:
        """S + s^2 / 4."""
        return slope + 0.25 * np.square(slope)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-t)).

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.losses import Logistic
    >>> Logistic().value(np.array([-2.0, 0.0, 1e8])).round(4)
    array([2.1269, 0.6931, 0.    ])
    """

    steepest: ClassVar[float] = 1.0

    def value(self, t: Vector) -> Vector:
        """log(1 + exp(-t)), without overflow."""
        return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))

    def d1(self, t: Vector) -> Vector:
        """-1 / (1 + exp(t))."""
        return -expit(-np.asarray(t, dtype=np.float64))

    def d2(self, t: Vector) -> Vector:
        """1 / ((1 + exp(t)) (1 + exp(-t)))."""
        t = np.asarray(t, dtype=np.float64)
        return expit(t) * expit(-t)

    def conjugate(self, slope: Vector) -> Vector:
        """P log p + (1 - p) log(1 - p) with p = -s."""
        p = np.clip(-np.asarray(slope, dtype=np.float64), 0.0, 1.0)
        return xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)


LOSSES: dict[str, type[Loss]] = {
    "smooth_hinge": SmoothHinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
}
