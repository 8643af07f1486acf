"""Displays of fitted models, in scikit-learn's style; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._theory import fitted
from .inspection import ROLES, explain
from .uniqueness import offset_interval

__all__ = [
    "OffsetDisplay",
    "ScoreMapDisplay",
    "ScorePathDisplay",
    "SlackDisplay",
    "WeightMarginDisplay",
]

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


# ---- searches -----------------------------------------------------------------------------------


class _Scores:
    """The scores of a search over some of its parameters.

    Parameters
    ----------
    search : a fitted search of scikit-learn's kind
    names : sequence of str or None
        The parameters; None for the first of the search that are not chosen yet.
    metric : str or None
        One of several scores; by default the one that chose.
    others : {"best", "chosen"}
        The parameters that are not among `names`: their best values at each point, or those of
        ``best_params_``.
    """

    def __init__(self, search: Any, names: list[str | None], metric: str | None, others: str):
        results = getattr(search, "cv_results_", None)
        if results is None:
            raise ValueError(
                f"a fitted search is needed; this {type(search).__name__} has no cv_results_. Call "
                "fit first."
            )
        if others not in ("best", "chosen"):
            raise ValueError(f"others must be 'best' or 'chosen'; got {others!r}.")
        known = [key.removeprefix("param_") for key in results if key.startswith("param_")]
        varied = [name for name in known if len(_values(results[f"param_{name}"])) > 1]
        for name in [name for name in names if name is not None]:
            if name not in known:
                raise ValueError(f"{name!r} is not a parameter of this search, which has {known}.")
        left = [name for name in varied or known if name not in names]
        # C before the others: its path is what one looks at.
        left.sort(key=lambda name: name.rpartition("__")[2] != "C")
        if sum(name is None for name in names) > len(left):
            raise ValueError(
                f"{len(names)} parameters are needed, and this search varies {varied or known}."
            )
        self.names = [left.pop(0) if name is None else name for name in names]
        self.metric = _metric(search, results, metric)
        mean, std = (results[f"{what}_test_{self.metric}"] for what in ("mean", "std"))
        rows = np.flatnonzero(np.isfinite(mean))
        if len(rows) == 0:
            raise ValueError("No candidate of this search has a finite score.")
        self.best = rows[np.argmax(mean[rows])]
        if others == "chosen":
            chosen = results["params"][getattr(search, "best_index_", self.best)]
            rest = [name for name in known if name not in self.names]
            rows = np.array(
                [
                    k
                    for k in rows
                    if all(_same(results["params"][k].get(name), chosen.get(name)) for name in rest)
                ],
                dtype=np.int64,
            )
        self.values = [_values(results[f"param_{name}"]) for name in self.names]
        shape = tuple(map(len, self.values))
        self.mean, self.std = np.full(shape, np.nan), np.full(shape, np.nan)
        for k in rows[np.argsort(mean[rows], kind="stable")]:  # the best comes last
            at = self._at(results["params"][k])
            if at is not None:
                self.mean[at], self.std[at] = mean[k], std[k]
        self.best_at = self._at(results["params"][getattr(search, "best_index_", self.best)])

    def _at(self, params: dict[str, Any]) -> tuple[int, ...] | None:
        at = []
        for name, values in zip(self.names, self.values, strict=True):
            if name not in params:  # a list of grids, of which one has this parameter
                return None
            at.append(next(k for k, value in enumerate(values) if _same(value, params[name])))
        return tuple(at)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is not bool and type(b) is not bool and _plain(a) and bool(a == b))


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | np.number)


def _values(column: Any) -> list[Any]:
    """The values of a parameter: numbers in ascending order, then the others as they came."""
    values: list[Any] = []
    for value in np.ma.compressed(column):
        if not any(_same(value, other) for other in values):
            values.append(value)
    number = [isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values]
    return sorted(v for v, is_number in zip(values, number, strict=True) if is_number) + [
        v for v, is_number in zip(values, number, strict=True) if not is_number
    ]


def _metric(search: Any, results: dict[str, Any], metric: str | None) -> str:
    have = [key.removeprefix("mean_test_") for key in results if key.startswith("mean_test_")]
    if metric is None:
        refit = getattr(search, "refit", None)
        metric = refit if isinstance(refit, str) and refit in have else have[0]
    if metric not in have:
        raise ValueError(f"metric must be one of {have}; got {metric!r}.")
    return metric


def _label(value: Any) -> str:
    if not isinstance(value, float | np.floating):
        return str(value)
    return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-")


def _spread(values: list[Any]) -> bool:
    """Whether these are numbers that want a logarithmic axis."""
    return _numeric(values) and min(values) > 0 and max(values) >= 20 * min(values)


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values)


class ScoreMapDisplay(_Display):
    """The score of a search over two of its parameters, as a map.

    Parameters
    ----------
    scores : ndarray of shape (n_y, n_x)
        NaN where there is none.
    x_name, y_name : str
        The parameters.
    x_values, y_values : list
    best : tuple of int or None
        Row and column of the best candidate.
    score_name : str, default="score"

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib QuadMesh

    See Also
    --------
    ScorePathDisplay : The score along one parameter.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lupi import WeightedSVC
    >>> from lupi.model_selection import KernelGridSearchCV
    >>> from lupi.plotting import ScoreMapDisplay
    >>> grid = {"C": [0.1, 1, 10, 100], "gamma": [0.01, 0.1, 1]}
    >>> search = KernelGridSearchCV(WeightedSVC(), grid).fit(*load_iris(return_X_y=True))
    >>> display = ScoreMapDisplay.from_estimator(search, x="C", y="gamma")  # doctest: +SKIP
    """

    image_: Any

    def __init__(
        self,
        scores: NDArray[np.float64],
        *,
        x_name: str,
        y_name: str,
        x_values: list[Any],
        y_values: list[Any],
        best: tuple[int, ...] | None = None,
        score_name: str = "score",
    ) -> None:
        self.scores, self.best, self.score_name = scores, best, score_name
        self.x_name, self.y_name = x_name, y_name
        self.x_values, self.y_values = x_values, y_values

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        metric: str | None = None,
        others: str = "best",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """From a fitted search.

        Parameters
        ----------
        search : KernelGridSearchCV, or any search of scikit-learn's
            After Ctrl-C too: what was not fitted stays empty.
        x, y : str, default=None
            Parameters of the grid; by default ``C`` and the first one beside it that varies.
        metric : str, default=None
            Which of several scores; by default the one that chose.
        others : {"best", "chosen"}, default="best"
            The other parameters of the grid: at each point those with the best score there, or
            everywhere those of ``best_params_``.
        ax : matplotlib Axes, default=None
            A new figure if not given.
        **kwargs
            For ``ax.pcolormesh``.

        Returns
        -------
        ScoreMapDisplay
        """
        found = _Scores(search, [x, y], metric, others)
        display = cls(
            found.mean.T,
            x_name=found.names[0],
            y_name=found.names[1],
            x_values=found.values[0],
            y_values=found.values[1],
            best=None if found.best_at is None else found.best_at[::-1],
            score_name=found.metric,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw; see :meth:`WeightMarginDisplay.plot`. `kwargs` go to ``ax.pcolormesh``."""
        ax = self._axes(ax)
        ax.set_facecolor("0.9")  # of cells without a score
        style = {"cmap": "viridis", "edgecolors": "white", "linewidth": 0.5, **kwargs}
        self.image_ = ax.pcolormesh(np.ma.masked_invalid(self.scores), **style)
        self.figure_.colorbar(self.image_, ax=ax, label=_words(self.score_name))
        if self.best is not None:
            row, column = self.best
            ax.plot(
                column + 0.5, row + 0.5, "o", markersize=9, markerfacecolor="none",
                markeredgecolor="#d55e00", markeredgewidth=2, label="best",
            )  # fmt: skip
        for axis, name, values in (
            (ax.xaxis, self.x_name, self.x_values),
            (ax.yaxis, self.y_name, self.y_values),
        ):
            step = 1 + (len(values) - 1) // 12
            axis.set_ticks(np.arange(0, len(values), step) + 0.5)
            axis.set_ticklabels([_label(value) for value in values[::step]])
            axis.set_label_text(name)
        if max(len(_label(value)) for value in self.x_values) > 6:
            ax.tick_params(axis="x", rotation=45)
        return self


class ScorePathDisplay(_Display):
    """The score of a search along one of its parameters, a line for each value of another.

    Parameters
    ----------
    scores, spread : ndarray of shape (n_lines, n_values)
        Mean scores over the splits and their standard deviations; NaN where there is none.
    name : str
        The parameter along the axis.
    values : list
    line_name : str or None
        The parameter of the lines; None: there is one.
    line_values : list
    best : tuple of int or None
        Line and position of the best candidate.
    score_name : str, default="score"

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    See Also
    --------
    ScoreMapDisplay : The score over two parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lupi import WeightedSVC
    >>> from lupi.model_selection import KernelGridSearchCV
    >>> from lupi.plotting import ScorePathDisplay
    >>> grid = {"C": [0.1, 1, 10, 100], "gamma": [0.01, 0.1, 1]}
    >>> search = KernelGridSearchCV(WeightedSVC(), grid).fit(*load_iris(return_X_y=True))
    >>> display = ScorePathDisplay.from_estimator(search, by="gamma")  # doctest: +SKIP
    """

    lines_: list[Any]

    def __init__(
        self,
        scores: NDArray[np.float64],
        spread: NDArray[np.float64],
        *,
        name: str,
        values: list[Any],
        line_name: str | None = None,
        line_values: list[Any] | None = None,
        best: tuple[int, ...] | None = None,
        score_name: str = "score",
    ) -> None:
        self.scores, self.spread, self.best, self.score_name = scores, spread, best, score_name
        self.name, self.values = name, values
        self.line_name, self.line_values = line_name, line_values or []

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        *,
        x: str | None = None,
        by: str | None = None,
        metric: str | None = None,
        others: str = "best",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """From a fitted search; `kwargs` go to ``ax.plot``.

        Parameters
        ----------
        search : KernelGridSearchCV, or any search of scikit-learn's
        x : str, default=None
            Parameter along the axis; by default ``C``, or the first one that varies.
        by : str, default=None
            A parameter with a line for each of its values.
        metric, others, ax
            As in :meth:`ScoreMapDisplay.from_estimator`.

        Returns
        -------
        ScorePathDisplay
        """
        found = _Scores(search, [x] if by is None else [x, by], metric, others)
        one = by is None
        display = cls(
            found.mean[None] if one else found.mean.T,
            found.std[None] if one else found.std.T,
            name=found.names[0],
            values=found.values[0],
            line_name=by,
            line_values=None if one else found.values[1],
            best=None
            if found.best_at is None
            else (0, *found.best_at)[-2:]
            if one
            else found.best_at[::-1],
            score_name=found.metric,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw; see :meth:`WeightMarginDisplay.plot`. `kwargs` go to ``ax.plot``."""
        ax = self._axes(ax)
        numeric = _numeric(self.values)
        at = np.array(self.values, dtype=float) if numeric else np.arange(len(self.values))
        colours = _shades(len(self.scores))
        self.lines_ = []
        for k, (score, spread) in enumerate(zip(self.scores, self.spread, strict=True)):
            there = np.isfinite(score)
            style = {"color": colours[k], "marker": "."}
            if self.line_values:
                style["label"] = _label(self.line_values[k])
            self.lines_ += ax.plot(at[there], score[there], **{**style, **kwargs})
            if len(self.scores) == 1 and np.any(spread[there] > 0):
                low, high = score[there] - spread[there], score[there] + spread[there]
                ax.fill_between(at[there], low, high, color=colours[k], alpha=0.2, linewidth=0)
        if self.best is not None:
            line, column = self.best
            ax.plot(
                at[column], self.scores[line, column], "o", markersize=9, markerfacecolor="none",
                markeredgecolor="#d55e00", markeredgewidth=2,
            )  # fmt: skip
        if numeric and _spread(self.values):
            ax.set_xscale("log")
        elif not numeric:
            ax.set_xticks(at, [_label(value) for value in self.values])
        if self.line_values:
            ax.legend(title=self.line_name)
        ax.set(xlabel=self.name, ylabel=_words(self.score_name))
        return self


def _shades(count: int) -> list[Any]:
    """Blue for one line; from dark to light for several, as the values of a parameter ascend."""
    if count == 1:
        return ["#0072b2"]
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0, 0.9, count)))


def _words(score_name: str) -> str:
    return "mean score" if score_name == "score" else f"mean {score_name.replace('_', ' ')}"
