"""The page of a comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._answer import Difference, percent, points, size_of
from ._compare import Comparison, Fitted
from ._table import word_columns
from .report import (
    Curve,
    Details,
    Figure,
    Prose,
    Report,
    Section,
    Table,
    drawing,
    learning_curves,
    series,
    versions,
)

_TONES = {"helps": "good", "harms": "bad"}
# Rows that are named at either end of the weights.
_NAMED = 8
# Fits on all rows beyond this take longer than they are worth for a list of rows.
_MOST_EXPLAINED = 2_000


def report_of(found: Comparison) -> Report:
    """The page.

    Parameters
    ----------
    found : Comparison

    Returns
    -------
    Report
    """
    return Report(
        f"{found.data.name}: does the extra information help?",
        str(found.answer),
        (
            Section("Learning curves", _curves(found)),
            Section("Side by side", _side_by_side(found)),
            Section("Hyper-parameters", _hyper_parameters(found)),
            Section("Rows that count more, and less", _rows(found)),
            Section("Your data", _data(found)),
            Section("How it was compared", [Prose(_HOW)]),
        ),
        _settings(found),
        _TONES.get(found.answer.verdict, "open"),
    )


_HOW = """
Every repeat sets test rows aside and puts the others in an order; a training size takes the
first of them, so that the rows of a size are among those of every larger one. Each method gets
the same training rows, chooses its hyper-parameters by folds inside them, coarse to fine, and
is then trained on all of them. Missing values are filled in, categories become indicators, and
numbers are scaled, with what the training part of each fold shows. Test rows are scored, and
used for nothing else.

- **SVM**: an RBF kernel on the ordinary columns; `C` and the width are chosen.
- **SVM+**: the same with a second kernel on the extra columns, which model how difficult each
  row is; `C`, both widths and `correction_reg` are chosen.
- **WSVM with weights P(Y|x\u2217)**: an SVM in which a row counts as much as its label is
  probable given the extra columns, by a model that has not seen the row; the exponent `tau` is
  chosen, and 0 is the SVM.
- **Learned weights**: weights learned so that the model does well on a held-out part of the
  same rows, which then joins them. It never sees the extra columns: what it gains is not
  theirs.
- **SVM that sees everything**: the extra columns as ordinary ones, at test time too: what there
  would be to gain if you had them then.

The repeats share rows, so that their differences are correlated. The intervals allow for it by
the corrected resampled t test of Nadeau and Bengio, are never narrower than the number of rows
allows, and hold for all methods together (Bonferroni). The answer is about the largest training
size; the intervals of all smaller sizes form a second family.

What the extra information is worth in rows is read off the learning curves, made monotone and
straight between sizes on a logarithmic scale.
"""


# ---- Figures ------------------------------------------------------------------------------------


def _curves(found: Comparison) -> list[Any]:
    sizes = found.protocol.sizes
    share = found.test_share / (1.0 - found.test_share)
    factor = np.sqrt(1.0 / found.protocol.repeats + share)
    curves = [
        Curve(
            one.label,
            sizes,
            one.means,
            factor * one.errors.std(axis=1, ddof=1) if one.role == "reference" else None,
            k,
        )
        for k, one in enumerate(found.errors)
    ]
    blocks: list[Any] = [
        learning_curves(
            curves,
            name="learning-curves",
            caption=(
                f"Test errors, mean over {found.protocol.repeats} repeats. Band: one standard "
                "error of the SVM, which allows for rows that repeats share. Methods are compared "
                "on the same rows: whether a difference is chance is not seen from the band but "
                "from the next figure."
            ),
        )
    ]
    blocks.append(_differences(found))
    return blocks


def _differences(found: Comparison) -> Figure:
    """Gains over the SVM with their intervals."""
    sizes = found.protocol.sizes
    others = [one for one in found.errors if one.role != "reference"]
    with drawing() as plt:
        figure, ax = plt.subplots(figsize=(5.6, 3.8))
        width = 0.16
        for k, one in enumerate(others):
            gains = found.answer.differences[one.name]
            place = np.arange(len(sizes)) + width * (k - 0.5 * (len(others) - 1))
            middle = 100.0 * np.array([gain.mean for gain in gains])
            half = 100.0 * np.array([gain.half_width for gain in gains])
            style = {**series(k + 1), "linestyle": "none"}
            ax.errorbar(place, middle, half, capsize=2.5, label=one.label, **style)
        ax.axhline(0.0, color=series(0)["color"], linewidth=1.2)
        ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        ax.grid(axis="x", visible=False)
        ax.set(xlabel="training rows", ylabel="points fewer errors than the SVM")
        figure.legend(loc="outside lower center", ncols=2)
        return Figure.from_matplotlib(
            figure,
            "differences",
            f"By how many points the errors fall, with {100 * found.level:g} % intervals. Above "
            "the line is better than the SVM; an interval that crosses it may be chance.",
            "Differences in error to the SVM with intervals, for each training size",
        )


# ---- Tables -------------------------------------------------------------------------------------


def _interval(gain: Difference) -> str:
    return f"{points(gain.low, True)} to {points(gain.high, True)}"


def _worth(rows: float, side: str, size: int) -> str:
    """Extra rows with which the SVM is as good."""
    extra = rows - size
    sign = "+" if extra >= 0.5 else "−" if extra <= -0.5 else ""
    bound = {"more": "> ", "less": "< "}.get(side, "")
    return f"{bound}{sign}{size_of(abs(extra))}"


def _table(found: Comparison, k: int) -> Table:
    """Methods at one size."""
    size = found.protocol.sizes[k]
    rows = []
    for one in found.errors:
        if one.role == "reference":
            rows.append([one.label, percent(one.means[k]), None, None, None, None])
            continue
        gain = found.answer.differences[one.name][k]
        better = int((one.errors[k] < found.errors[0].errors[k]).sum())
        worse = int((one.errors[k] > found.errors[0].errors[k]).sum())
        rows.append(
            [
                one.label,
                percent(one.means[k]),
                points(gain.mean, True),
                _interval(gain),
                f"{better} / {worse}",
                _worth(*found.answer.rows_needed[one.name][k], size),
            ]
        )
    columns = [
        "method",
        "errors",
        "points fewer",
        f"{100 * found.level:g} % interval",
        "repeats better / worse",
        "worth in rows",
    ]
    names = [one.name for one in found.errors]
    return Table(columns, rows, f"{size} training rows", names.index(found.answer.best))


def _side_by_side(found: Comparison) -> list[Any]:
    sizes = found.protocol.sizes
    blocks: list[Any] = [
        _table(found, len(sizes) - 1),
        Prose(
            "Points fewer: by how much the errors are below the SVM's on the same rows. Worth in "
            "rows: how many more (or, with a minus, fewer) training rows the SVM needs to be as "
            f'good. No more than {sizes[-1]} rows were tried: "> 0" here means that the SVM '
            "needs more of them."
        ),
    ]
    if len(sizes) > 1:
        smaller = [_table(found, k) for k in reversed(range(len(sizes) - 1))]
        blocks.append(Details("Smaller training sizes", smaller))
    return blocks


def _hyper_parameters(found: Comparison) -> list[Any]:
    """What was chosen at the largest size, and how often."""
    size = found.protocol.sizes[-1]
    rows = []
    for one in found.errors:
        chosen = [
            row["params"] for row in found.rows if row["method"] == one.name and row["size"] == size
        ]
        names = sorted({name for params in chosen for name in params})
        for name in names:
            values = [params[name] for params in chosen if name in params]
            rows.append([one.label, f"`{name}`", *_spread(values)])
    shown = Table(
        ["method", "parameter", "median", "smallest", "largest", "most frequent"],
        rows,
        f"Chosen in {found.protocol.repeats} repeats of {size} training rows",
    )
    return [shown]


def _spread(values: list[Any]) -> list[Any]:
    numbers = [float(v) for v in values if isinstance(v, int | float)]
    value, times = Counter(
        f"{v:.3g}" if isinstance(v, int | float) else str(v) for v in values
    ).most_common(1)[0]
    often = f"{value} ({times} of {len(values)})"
    if not numbers:
        return [None, None, None, often]
    return [f"{v:.3g}" for v in (np.median(numbers), min(numbers), max(numbers))] + [often]


# ---- Rows ---------------------------------------------------------------------------------------


def _rows(found: Comparison) -> list[Any]:
    """The rows that count most and least in the models of all rows."""
    n = found.data.n
    if n > _MOST_EXPLAINED:
        return [
            Prose(
                f"With {n} rows no list is made. `Comparison.fit` gives the model and the "
                "weight of each row."
            )
        ]
    blocks: list[Any] = [
        Prose(
            "Each method once more, on all rows. A weight of 1 is what a row counts in the SVM. "
            "Rows that count least are often mislabelled, or unlike any other: look at them first. "
            "Rows are numbered from 0, without the header."
        )
    ]
    for one in found.methods:
        if one.role in ("reference", "oracle"):
            continue
        fitted = found.fit(one.name)
        if fitted.weight is None:
            continue
        blocks += _extremes(found, one.label, fitted)
    return blocks


def _extremes(found: Comparison, label: str, fitted: Fitted) -> list[Any]:
    weight = fitted.weight
    assert weight is not None
    if np.ptp(weight) < 1e-9:
        return [Prose(f"**{label}**: every row counts the same.")]
    order = np.argsort(weight, kind="stable")
    down = [row for row in order[:_NAMED] if weight[row] < np.median(weight)]
    up = [row for row in order[::-1][:_NAMED] if weight[row] > np.median(weight)]
    names, values = _first_columns(found)

    def table(rows: list[Any], caption: str) -> Table:
        return Table(
            ["row", "label", "weight", *names],
            [
                [str(int(row)), str(found.data.y[row]), f"{weight[row]:.2f}", *values(row)]
                for row in rows
            ],
            caption,
        )

    blocks: list[Any] = []
    if up:
        blocks.append(table(up, f"{label}: these count most"))
    if down:
        blocks.append(table(down, f"{label}: these count least"))
    return [Details(label, blocks)]


def _first_columns(found: Comparison) -> tuple[list[str], Any]:
    """Some extra and ordinary columns, to recognise a row by."""
    X, X_priv = found.data.X, found.data.X_priv
    if not hasattr(X, "iloc"):
        return [], lambda row: []
    extra, ordinary = list(X_priv.columns[:3]), list(X.columns[:2])
    names = [f"{name} (extra)" for name in extra] + [str(name) for name in ordinary]

    def values(row: int) -> list[Any]:
        cells = [X_priv[name].iloc[row] for name in extra]
        cells += [X[name].iloc[row] for name in ordinary]
        return [None if cell != cell else cell for cell in cells]

    return names, values


# ---- Data and settings --------------------------------------------------------------------------


def _data(found: Comparison) -> list[Any]:
    data = found.data
    classes, count = np.unique(data.y, return_counts=True)
    rows = []
    for role, Z in (("ordinary", data.X), ("extra", data.X_priv)):
        frame = hasattr(Z, "iloc")
        words = set(word_columns(Z))
        names = list(Z.columns) if frame else [f"column {k}" for k in range(Z.shape[1])]
        missing = Z.isna().to_numpy() if frame else np.isnan(Z)
        for k, name in enumerate(names[:40]):
            kind = "categories" if name in words else "numbers"
            rows.append([str(name), role, kind, int(missing[:, k].sum())])
        if len(names) > 40:
            rows.append([f"and {len(names) - 40} more", role, None, int(missing[:, 40:].sum())])
    text = f"{data.n} rows: " + ", ".join(
        f"{number} of class {name}" for name, number in zip(classes, count, strict=True)
    )
    if data.groups is not None:
        text += f", in {len(np.unique(data.groups))} groups that are kept together"
    text += "."
    blocks: list[Any] = [Prose(text)]
    if data.notes:
        blocks.append(Prose("\n".join(f"- {note}" for note in data.notes)))
    blocks.append(Details("Columns", [Table(["column", "role", "kind", "missing values"], rows)]))
    return blocks


def _settings(found: Comparison) -> Mapping[str, Any]:
    protocol = found.protocol
    return {
        "data": found.data.name,
        "rows": found.data.n,
        "training sizes": protocol.sizes,
        "repeats": protocol.repeats,
        "test rows in each repeat": protocol.n_test
        if found.data.groups is None
        else f"at most {protocol.n_test}",
        "level of the intervals": found.level,
        "seed": protocol.seed,
        "sample weights": "given" if found.data.sample_weight is not None else "none",
        **{f"grid: {name}": json.dumps(values) for name, values in found.grids.items()},
        **versions(),
    }
