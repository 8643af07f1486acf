"""Displays of fitted models, in scikit-learn's style; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._theory import fitted
from .inspection import ROLES, explain
from .uniqueness import offset_interval

__all__ = ["OffsetDisplay", "SlackDisplay", "WeightMarginDisplay"]

# Blue, orange, vermilion, grey, light grey: apart for the colour-blind too, as the markers are.
_COLOURS = dict(zip(ROLES, ("#0072b2", "#e69f00", "#d55e00", "#999999", "#cccccc"), strict=True))
_MARKERS = dict(zip(ROLES, ("s", "o", "X", ".", "x"), strict=True))


class _Display:
    """Axes, and what they show."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        try:
            import matplotlib.pyplot as plt
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{type(self).__name__} needs matplotlib, which is not installed: "
                "pip install 'lupi[plots]'."
            ) from error
        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _scatter(
        self, ax: Any, x: NDArray[Any], y: NDArray[Any], role: NDArray[Any], **kwargs: Any
    ) -> None:
        for name in ROLES:
            rows = role == name
            if rows.any():
                style = {"color": _COLOURS[name], "marker": _MARKERS[name], "label": name}
                ax.scatter(x[rows], y[rows], **{**style, **kwargs})
        ax.legend()


class WeightMarginDisplay(_Display):
    """Weights against margins: which examples matter, and where they are.

    Parameters
    ----------
    margin, weight, cost : ndarray of shape (n,)
        y f(x), alpha + beta, and the cost that was given.
    role : ndarray of shape (n,)
        As in :func:`lupi.inspection.explain`.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from lupi import WeightedSVC
    >>> from lupi.plotting import WeightMarginDisplay
    >>> model = WeightedSVC(kernel="linear").fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> display = WeightMarginDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(
        self,
        margin: NDArray[Any],
        weight: NDArray[Any],
        cost: NDArray[Any],
        role: NDArray[Any],
    ) -> None:
        self.margin, self.weight, self.cost, self.role = margin, weight, cost, role

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """From a fitted binary model; `kwargs` go to ``ax.scatter``."""
        columns = explain(model).columns
        display = cls(*(columns[name] for name in ("margin", "weight", "cost", "role")))
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if not given.
        **kwargs
            For ``ax.scatter``.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        ax.axvline(1.0, color="0.7", linewidth=1, zorder=0)
        ax.axvline(0.0, color="0.7", linewidth=1, linestyle="dotted", zorder=0)
        if np.ptp(self.cost) == 0:
            ax.axhline(self.cost[0], color="0.7", linewidth=1, linestyle="dashed", zorder=0)
        self._scatter(ax, self.margin, self.weight, self.role, **kwargs)
        ax.set(xlabel="margin  $y\\,f(x)$", ylabel="weight  $\\alpha + \\beta$")
        return self


class SlackDisplay(_Display):
    """The correcting function of SVM+ against the hinge loss that it stands for.

    Points on the diagonal have the slack they need; above it the correcting function allows for
    more than the classifier used, and such examples have no weight.

    Parameters
    ----------
    hinge, slack : ndarray of shape (n,)
    role : ndarray of shape (n,)

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, hinge: NDArray[Any], slack: NDArray[Any], role: NDArray[Any]) -> None:
        self.hinge, self.slack, self.role = hinge, slack, role

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """From a fitted binary SVMPlusClassifier; `kwargs` go to ``ax.scatter``."""
        fitted(model, svm_plus=True)
        columns = explain(model).columns
        return cls(*(columns[name] for name in ("hinge", "slack", "role"))).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw; see :meth:`WeightMarginDisplay.plot`."""
        ax = self._axes(ax)
        top = max(float(self.hinge.max(initial=0.0)), float(self.slack.max(initial=0.0)), 1e-3)
        ax.plot([0, top], [0, top], color="0.7", linewidth=1, zorder=0)
        self._scatter(ax, self.hinge, self.slack, self.role, **kwargs)
        ax.set(xlabel="hinge loss  $[1 - y\\,f(x)]_+$", ylabel="correcting function  $\\xi(x^*)$")
        return self


class OffsetDisplay(_Display):
    """The loss as a function of the offset b, w fixed, and the interval of optimal offsets.

    Parameters
    ----------
    b, loss : ndarray
        Offsets, and the weighted hinge loss there.
    interval : (float, float)
        All optimal offsets.
    chosen : float
        The offset of the model.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(
        self, b: NDArray[Any], loss: NDArray[Any], interval: tuple[float, float], chosen: float
    ) -> None:
        self.b, self.loss, self.interval, self.chosen = b, loss, interval, chosen

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """From a fitted binary WeightedSVC, or an SVMPlusClassifier as the weighted SVM that it is;
        `kwargs` go to ``ax.plot``.
        """
        view = fitted(model)
        lower, upper = offset_interval(model)
        low = lower if np.isfinite(lower) else view.b
        high = upper if np.isfinite(upper) else view.b
        room = max(1.0, high - low)
        # With every kink, so that corners are corners.
        kinks = view.y - view.expansion
        b = np.linspace(low - room, high + room, 201)
        b = np.unique(np.r_[b, kinks[(kinks > b[0]) & (kinks < b[-1])], low, high])
        short = np.maximum(0.0, 1.0 - view.y * (view.expansion + b[:, None]))
        return cls(b, short @ view.weights, (lower, upper), view.b).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw; see :meth:`WeightMarginDisplay.plot`."""
        ax = self._axes(ax)
        ends = np.clip(self.interval, self.b[0], self.b[-1])
        ax.plot(self.b, self.loss, **{"color": "#0072b2", "label": "weighted loss", **kwargs})
        ax.axvspan(*ends, color="#e69f00", alpha=0.3, label="optimal offsets")
        ax.axvline(self.chosen, color="#d55e00", linestyle="dashed", label="offset of the model")
        ax.set(xlabel="offset  $b$", ylabel="weighted hinge loss")
        ax.legend()
        return self
