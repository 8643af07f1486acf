"""The paper's figures that show one data set each, drawn anew from fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import (
    make_blobs_with_outliers,
    make_counterexample,
    make_equivalence_example,
    make_w_mixture,
)
from ..equivalence import replicating_weights, rho
from ..estimators import SVMPlusClassifier, WeightedSVC
from ..losses import SmoothHinge
from ..weighting import NadarayaWatson, conditional_weights
from ._methods import tuned
from ._parts import Parts
from .report import series

# Class -> series of the report's colours.
_COLOUR = {-1: 1, 1: 2}


@dataclass(frozen=True)
class Illustration:
    """A figure that no repeats are needed for.

    Attributes
    ----------
    name : str
        The paper's label without ``fig:``.
    title : str
    caption : str
    draw : callable
        ``draw(plt)`` returns a figure and the sentences that say what was found, each with whether
        it is what the paper says (None: the paper says nothing of it).
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Any], tuple[Any, list[tuple[str, str, bool | None]]]]


def _points(ax: Any, x: Any, height: Any, y: Any, area: Any) -> None:
    for label, k in _COLOUR.items():
        rows = y == label
        style = {"color": series(k)["color"], "marker": "o" if label < 0 else "s"}
        ax.scatter(x[rows], height[rows], s=area[rows], alpha=0.75, **style)
        ax.scatter([], [], s=40, label=f"class {label:+d}", **style)


def _line(ax: Any, grid: Any, values: Any, label: str, dashed: bool = False) -> None:
    ax.plot(
        grid,
        values,
        color=series(0)["color"],
        linestyle="--" if dashed else "-",
        label=label,
    )


def _equivalence(plt: Any) -> Any:
    X, y, hardness = make_equivalence_example()
    plus = SVMPlusClassifier(C=4.0, correction_reg=5.0, kernel="linear", kernel_priv="linear")
    plus.set_params(tol=1e-9).fit(X, y, X_priv=hardness)
    weights = replicating_weights(plus)
    weighted = WeightedSVC(kernel="linear", intercept=plus.intercept_[0])
    weighted.fit(X, y, sample_weight=weights)
    grid = np.linspace(-2.5, 2.5, 101)[:, None]
    figure, axes = plt.subplots(2, 1, figsize=(7.2, 5.4), sharex=True)
    for ax, model, area, title in (
        (axes[0], plus, np.full(len(y), plus.C), "SVM+: equal costs, a privileged feature"),
        (axes[1], weighted, weights, "WSVM: weights, no privileged feature"),
    ):
        _line(ax, grid[:, 0], model.decision_function(grid), "f(x)")
        _points(ax, X[:, 0], np.zeros(len(y)), y, 20 + 40 * area)
        ax.set(title=title, ylabel="f(x)")
    axes[1].set(xlabel="x")
    axes[0].legend()
    off = float(np.abs(weighted.decision_function(grid) - plus.decision_function(grid)).max())
    value = rho(weights, plus.slack_)
    wrong = y * plus.decision_function(X) < 0
    heavy = bool(weights[wrong].min() > weights[~wrong].max())
    return figure, [
        (
            "The weights α + β make the WSVM find exactly the same solution.",
            f"Largest difference of the decision functions: {off:.1e}.",
            off < 1e-6,
        ),
        ("The outliers (points 3 and 4) receive relatively high weight.", _weights(weights), heavy),
        ("ρ(c, ξ) >= 0.", f"ρ = {value:.4g}.", value >= 0),
    ]


def _weights(weights: Any) -> str:
    return "Weights " + ", ".join(f"{w:.3g}" for w in weights) + "."


def _counterexample(plt: Any) -> Any:
    X, y, c = make_counterexample()
    weighted = WeightedSVC(kernel="linear", tol=1e-9).fit(X, y, sample_weight=c)
    slack = weighted.slack_
    X_priv = (slack - c @ slack / c.sum())[:, None]
    plus = SVMPlusClassifier(
        float(c.mean()), correction_reg=1.0, kernel="linear", kernel_priv="linear", tol=1e-9
    ).fit(X, y, X_priv=X_priv)
    grid = np.linspace(0.5, 3.5, 101)[:, None]
    figure, axes = plt.subplots(2, 1, figsize=(7.2, 5.4), sharex=True)
    for ax, model, area, title in (
        (axes[0], plus, np.full(3, 4.0), "SVM+ with privileged features from the losses"),
        (axes[1], weighted, c, "WSVM with the weights (4, 6, 2)"),
    ):
        _line(ax, grid[:, 0], model.decision_function(grid), "f(x)")
        _points(ax, X[:, 0], np.zeros(3), y, 50 * area)
        ax.set(title=title, ylabel="f(x)")
    axes[1].set(xlabel="x")
    axes[0].legend()
    w, b = float(weighted.coef_[0, 0]), float(weighted.intercept_[0])
    off = max(abs(w + 2), abs(b - 3), float(np.abs(slack - [0, 0, 4]).max()))
    slope = float(plus.coef_[0, 0])
    value = rho(c, slack)
    return figure, [
        (
            "w = -2, b = 3, ξ = (0, 0, 4).",
            f"w = {w:.6f}, b = {b:.6f}, ξ = ({', '.join(f'{s:.6f}' for s in slack)}).",
            off < 1e-8,
        ),
        (
            "ρ(c, ξ) = -2/3 < 0: SVM+ cannot find it.",
            f"⟨c, ξ⟩/⟨c, 1⟩ - mean(ξ) = {c @ slack / c.sum() - slack.mean():.6f}, "
            f"ρ = ⟨c - mean(c), ξ⟩ = {value:.6f}.",
            value < 0,
        ),
        (
            "SVM+ with features from the losses predicts the opposite.",
            f"Its slope is {slope:.4g}, that of the WSVM {w:.4g}.",
            slope * w < 0,
        ),
    ]


def _blobs(plt: Any) -> Any:
    X, y = make_blobs_with_outliers(random_state=0)
    X_test, y_test = make_blobs_with_outliers(2_000, outliers=False, random_state=1)
    far = np.arange(len(y)) >= len(y) - 2
    plain = WeightedSVC(kernel="linear").fit(X, y)
    weighted = WeightedSVC(kernel="linear").fit(X, y, sample_weight=np.where(far, 0.0, 1.0))
    figure, ax = plt.subplots(figsize=(7.2, 4.4))
    near = ~far
    _points(ax, X[near, 0], X[near, 1], y[near], np.full(near.sum(), 16.0))
    low, high = X[near].min(axis=0) - 1.0, X[near].max(axis=0) + 1.0
    first, second = np.meshgrid(*np.linspace(low, high, 200).T)
    mesh = np.c_[first.ravel(), second.ravel()]
    for model, name, dashed in ((plain, "SVM", True), (weighted, "WSVM, outliers at 0", False)):
        values = model.decision_function(mesh).reshape(first.shape)
        style = "--" if dashed else "-"
        ax.contour(first, second, values, [0.0], colors=series(0)["color"], linestyles=style)
        ax.plot([], [], color=series(0)["color"], linestyle=style, label=name)
    ax.set(title=f"{int(far.sum())} outliers lie outside, far to both sides")
    ax.legend(loc="upper right")
    errors = [float(np.mean(m.predict(X_test) != y_test)) for m in (plain, weighted)]
    return figure, [
        (
            "Two outliers cause the SVM to have near chance level performance.",
            f"Test error of the SVM: {100 * errors[0]:.1f} %.",
            errors[0] > 0.35,
        ),
        (
            "Zero weight on the outliers recovers a near optimal solution.",
            f"Test error of the WSVM: {100 * errors[1]:.1f} %.",
            errors[1] < 0.02,
        ),
    ]


def _w_shape(plt: Any) -> Any:
    X, y = make_w_mixture(60, random_state=0)
    X_val, y_val = make_w_mixture(4_000, random_state=1)
    X_test, y_test = make_w_mixture(2_000, random_state=2)
    parts = Parts(X, y, X_test, y_test, X_val, y_val)
    smoother = NadarayaWatson().fit(X_val, y_val)
    weight = conditional_weights(y, smoother.eta(X), tau=1.0)
    grid = {"C": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), "gamma": (3.0, 6.0, 12.0, 24.0, 48.0)}
    plain = tuned(WeightedSVC(), grid, parts).model
    weighted = tuned(WeightedSVC(), grid, parts, sample_weight=weight).model
    first, second = np.meshgrid(np.linspace(-0.2, 1.2, 160), np.linspace(-0.5, 1.1, 160))
    mesh = np.c_[first.ravel(), second.ravel()]
    figure, ax = plt.subplots(figsize=(7.2, 5.0))
    p = smoother.predict_proba(mesh)[:, 1].reshape(first.shape)
    levels = np.linspace(-1e-9, 1 + 1e-9, 11)  # 1 itself is inside
    ax.contourf(first, second, p, levels=levels, cmap="coolwarm", alpha=0.35)
    _points(ax, X[:, 0], X[:, 1], y, 6 + 90 * weight)
    for model, name, dashed in ((plain, "SVM", True), (weighted, "WSVM", False)):
        values = model.decision_function(mesh).reshape(first.shape)
        style = "--" if dashed else "-"
        ax.contour(first, second, values, [0.0], colors=series(0)["color"], linestyles=style)
        ax.plot([], [], color=series(0)["color"], linestyle=style, label=name)
    ax.grid(False)
    ax.legend(loc="lower right")
    errors = [float(np.mean(m.predict(X_test) != y_test)) for m in (plain, weighted)]
    wrong = (smoother.eta(X) * y) < 0
    return figure, [
        (
            "Points on the wrong side of the true boundary are downweighted.",
            f"Mean weight {weight[wrong].mean():.2f} there, {weight[~wrong].mean():.2f} elsewhere.",
            bool(weight[wrong].mean() < weight[~wrong].mean()),
        ),
        (
            "That leads to better accuracy.",
            f"Test error {100 * errors[0]:.1f} % of the SVM, {100 * errors[1]:.1f} % of the WSVM, "
            "on this one sample; fig:mnist_svmw_eq_svmp_toy_w (middle) has the average.",
            None,
        ),
    ]


def _losses(plt: Any) -> Any:
    t = np.linspace(-1.5, 2.0, 701)
    loss = SmoothHinge(delta=0.5)
    figure, ax = plt.subplots()
    for k, (values, name) in enumerate(
        (
            (np.where(t <= 0, 1.0, 0.0), "0-1 loss"),
            (np.maximum(1 - t, 0), "hinge loss"),
            (loss.value(t), "approximate hinge, δ = 0.5"),
            (loss.d1(t), "its first derivative"),
            (loss.d2(t), "its second derivative"),
        )
    ):
        ax.plot(t, values, label=name, **{**series(k), "marker": None})
    ax.set(xlabel="margin t = y f(x)")
    ax.legend()
    edges = np.array([1 - 2 * loss.delta, 1.0])
    jump = max(
        float(np.abs(f(edges + 1e-9) - f(edges - 1e-9)).max())
        for f in (loss.value, loss.d1, loss.d2)
    )
    beyond = float(np.abs(loss.value(t[t <= 0]) - (1 - t[t <= 0] - loss.delta)).max())
    return figure, [
        (
            "Twice continuously differentiable.",
            f"Largest jump of the loss and two derivatives at the joints: {jump:.1e}.",
            jump < 1e-7,
        ),
        (
            "It grows linearly for t <= 1 - 2δ.",
            f"Largest distance from 1 - t - δ there: {beyond:.1e}.",
            beyond < 1e-12,
        ),
    ]


ILLUSTRATIONS = (
    Illustration(
        "equiv_example",
        "An SVM+ and the weights that replay it",
        "Above SVM+, below the WSVM with weights α + β (thm:svmw_from_svmp); the area of a point "
        "is its weight.",
        _equivalence,
    ),
    Illustration(
        "counter_example",
        "A WSVM solution that SVM+ cannot find",
        "Above SVM+ with privileged features computed from the losses (eq:svmw_to_svmp_feat), "
        "C = 4, γ = 1; below the WSVM. The area of a point is its weight.",
        _counterexample,
    ),
    Illustration(
        "toy_dataset1",
        "Two outliers turn an SVM to chance",
        "Zero weights for the two outliers, which lie far outside, give a near optimal classifier.",
        _blobs,
    ),
    Illustration(
        "toy_dataset2",
        "Weights from P(Y|X) on the W",
        "Background: the Nadaraya-Watson estimate of P(Y=1|X) (eq:nadaraya_watson); areas: the "
        "weights of eq:wgt:weights.",
        _w_shape,
    ),
    Illustration(
        "hinge_losses",
        "The approximate hinge loss",
        "eq:smoothloss with δ = 0.5 and its derivatives, beside the losses that it stands between.",
        _losses,
    ),
)
