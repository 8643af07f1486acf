"""What a fitted model did with each training example, in a table and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._theory import Fitted, fitted
from .problems import SVMPlusProblem

__all__ = ["Explanation", "explain"]

ROLES = ("margin", "support", "outlier", "ignored", "absent")


@dataclass(frozen=True, eq=False)
class Explanation:
    """One line per training example, and a paragraph.

    Attributes
    ----------
    table : pandas.DataFrame, or dict of ndarray where pandas is not installed
        Columns, in training order: ``label`` (-1 or 1), ``alpha``, ``beta``, ``cost`` (c of a
        weighted SVM, C of SVM+), ``weight`` (alpha + beta), ``margin`` (y f), ``hinge`` (loss),
        ``slack`` (the correcting function, for SVM+), ``role``.
    summary : str
        How much weight the privileged information moved, and to which examples.
    """

    columns: dict[str, NDArray[Any]]
    index: NDArray[Any]
    summary: str

    @property
    def table(self) -> Any:
        """The table; a pandas frame where pandas is installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            return self.columns
        return pd.DataFrame(self.columns, index=self.index)

    def __str__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        table = self.table
        html = table._repr_html_() if hasattr(table, "_repr_html_") else ""
        return f"<p>{self.summary}</p>{html or ''}"


def explain(
    model: Any, *, index: Any = None, n_examples: int = 3, allow_inexact: bool = False
) -> Explanation:
    r"""What a model did with each training example.

    The weight of an example is :math:`\alpha_i + \beta_i`: with these weights, the weighted SVM is
    this classifier (thm:svmw_from_svmp). In a weighted SVM it is the weight that was given; in SVM+
    the difference to the cost :math:`C_i` is what the privileged information moved. Each example
    plays one of these roles:

    * ``"margin"``: it has no loss and :math:`\alpha > 0`: it holds the margin in place;
    * ``"support"``: it is inside the margin, on the right side of the boundary, and has
      :math:`\alpha > 0`;
    * ``"outlier"``: it is misclassified (on the boundary itself it counts as support);
    * ``"ignored"``: it is classified correctly and :math:`\alpha = 0`: w does not depend on it;
    * ``"absent"``: its cost is zero.

    Parameters
    ----------
    model : fitted WeightedSVC or SVMPlusClassifier
        Of two classes.
    index : array-like of shape (n,), optional
        Names of the examples; their numbers by default.
    n_examples : int, default=3
        How many examples the paragraph names.
    allow_inexact : bool, default=False
        Whether a model that did not converge will do.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> from lupi import WeightedSVC
    >>> from lupi.inspection import explain
    >>> X, y = [[1.0], [2.0], [3.0]], [1, -1, 1]
    >>> model = WeightedSVC(kernel="linear").fit(X, y, sample_weight=[4, 6, 2])
    >>> explanation = explain(model, index=["a", "b", "c"])
    >>> explanation.table["role"].tolist()
    ['margin', 'margin', 'outlier']
    >>> print(explanation)  # doctest: +ELLIPSIS
    Of 3 examples, 2 hold the margin, 0 are inside it, 1 is misclassified and 0 are ignored. ...
    """
    view = fitted(model, allow_inexact=allow_inexact)
    n = view.problem.n
    names = np.arange(n) if index is None else np.asarray(index)
    if names.shape != (n,):
        raise ValueError(f"index must have shape ({n},), one name per row; got {names.shape}.")
    alpha, hinge, cost, weight = view.alpha, view.hinge, view.cost, view.weights
    role = np.where(
        cost == 0,
        "absent",
        np.where(
            view.margin < -1e-9,  # rounding would decide about a row on the boundary itself
            "outlier",
            np.where(alpha <= 0, "ignored", np.where(hinge > 0, "support", "margin")),
        ),
    )
    columns = {
        "label": view.y.astype(np.int64),
        "alpha": alpha,
        "beta": view.beta,
        "cost": cost,
        "weight": weight,
        "margin": view.margin,
        "hinge": hinge,
        "slack": view.solution.primal.slack if view.is_svm_plus else hinge,
        "role": role,
    }
    return Explanation(columns, names, _summary(view, role, names, n_examples))


def _summary(view: Fitted, role: NDArray[Any], names: NDArray[Any], n_examples: int) -> str:
    count = {name: int((role == name).sum()) for name in ROLES}

    def some(number: int, one: str, many: str) -> str:
        return f"{number} {one if number == 1 else many}"

    text = (
        f"Of {some(len(role), 'example', 'examples')}, {some(count['margin'], 'holds', 'hold')} "
        f"the margin, {some(count['support'], 'is', 'are')} inside it, "
        f"{some(count['outlier'], 'is', 'are')} misclassified and "
        f"{some(count['ignored'], 'is', 'are')} ignored"
        + (f" ({some(count['absent'], 'more is', 'more are')} absent)" if count["absent"] else "")
        + "."
    )
    hinge, weight, cost = view.hinge, view.weights, view.cost
    if isinstance(view.problem, SVMPlusProblem):
        moved = weight - cost
        total = 0.5 * float(np.abs(moved).sum())
        share = total / float(cost.sum())
        if share <= 1e-9:
            return f"{text} The privileged information moved no weight: this is a weighted SVM."
        order = np.argsort(-moved, kind="stable")[: max(0, n_examples)]
        gainers = [i for i in order if moved[i] > 0]
        named = ", ".join(f"{names[i]} ({cost[i]:.3g} -> {weight[i]:.3g})" for i in gainers)
        gained, lost = moved > 0, moved < 0

        def mean(rows: NDArray[Any]) -> float:
            return float(hinge[rows].mean()) if rows.any() else 0.0

        text += (
            f" The privileged information moved {100 * share:.3g} % of the weight, from "
            f"{some(int(lost.sum()), 'example', 'examples')} (mean loss {mean(lost):.3g}) to "
            f"{some(int(gained.sum()), 'example', 'examples')} (mean loss {mean(gained):.3g})"
            + (f", most of it to {named}." if named else ".")
        )
    mean_loss = float(hinge[cost > 0].mean())
    weighted = float(weight @ hinge) / float(weight.sum())
    compared = (
        "harder examples weigh more"
        if weighted > mean_loss * (1 + 1e-9)
        else "harder examples weigh less"
        if weighted < mean_loss * (1 - 1e-9)
        else "weight and loss are unrelated"
    )
    return f"{text} The mean loss is {mean_loss:.3g}, and {weighted:.3g} by weight: {compared}."
