"""Models of a comparison in files, and tables that they predict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ._table import as_words

# What a model is made of beyond scikit-learn's and NumPy's types that skops trusts by itself. A
# file with anything else is not opened.
_TRUSTED = frozenset(
    {
        "lupi.estimators._base.PairSolution",
        "lupi.estimators._svm_plus.SVMPlusClassifier",
        "lupi.estimators._weight_learning.WeightLearningClassifier",
        "lupi.estimators._weighted_svc.WeightedSVC",
        "lupi.solution.SVMPlusDual",
        "lupi.solution.SVMPlusPrimal",
        "lupi.solution.Solution",
        "lupi.solution.WSVMDual",
        "lupi.solution.WSVMPrimal",
        "numpy.dtype",
    }
)


def require_skops() -> Any:
    """The module skops.io.

    Returns
    -------
    module
    """
    try:
        import skops.io
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "models in files need skops, which is not installed: pip install 'lupi[experiments]'."
        ) from error
    return skops.io


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model; a file of this name is replaced at once.

    Parameters
    ----------
    model : Pipeline
    path : path-like
    """
    io, path = require_skops(), Path(path)
    part = path.with_name(path.name + ".part")
    io.dump(model, part)
    part.replace(path)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model; nothing is run that is not part of one.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Pipeline
    """
    io, path = require_skops(), Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"cannot read {path}: there is no file of this name.")
    try:
        unknown = set(io.get_untrusted_types(file=path))
    except Exception as error:
        raise ValueError(f"{path} is not a model of lupi: {_reason(error)}") from None
    strange = sorted(unknown - _TRUSTED)
    if strange:
        raise ValueError(
            f"{path} is not opened: it holds {strange[0]}, which is not part of a model of lupi."
        )
    try:
        model = io.load(path, trusted=sorted(unknown))
    except Exception as error:
        raise ValueError(f"{path} is damaged: {_reason(error)}") from None
    if not isinstance(model, Pipeline) or model.steps[0][0] != "prepare":
        raise ValueError(f"{path} is not a model of lupi compare.")
    return model


def _reason(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0] or type(error).__name__
    return text if text.endswith(".") else f"{text}."


def predict_table(model: Any, frame: Any) -> dict[str, NDArray[Any]]:
    """Labels of the rows of a table.

    Parameters
    ----------
    model : Pipeline
        Of :func:`load_model`.
    frame : DataFrame
        With the ordinary columns of training, in any order; others are left aside.

    Returns
    -------
    dict of ndarray
        ``prediction``; and ``decision_value`` for two classes: how far from the boundary.
    """
    prepare = model.steps[0][1]
    names = getattr(prepare, "feature_names_in_", None)
    if names is None:
        if frame.shape[1] != prepare.n_features_in_:
            raise ValueError(
                f"the model was trained on {prepare.n_features_in_} columns without names; the "
                f"table has {frame.shape[1]}."
            )
        rows: Any = np.column_stack([_numbers(frame[name], name) for name in frame.columns])
    else:
        lost = [str(name) for name in names if name not in frame.columns]
        if lost:
            raise ValueError(
                "the table lacks columns that the model was trained on: "
                + ", ".join(repr(name) for name in lost[:5])
                + (f" and {len(lost) - 5} more." if len(lost) > 5 else ".")
            )
        words = {
            name
            for step, _, columns in prepare.transformers_
            if step == "words"
            for name in columns
        }
        rows = type(frame)(
            {
                name: as_words(frame[name]) if name in words else _numbers(frame[name], name)
                for name in names
            }
        )
    out = {"prediction": model.predict(rows)}
    if len(model.classes_) == 2:
        out["decision_value"] = model.decision_function(rows)
    return out


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(values.astype("float64"), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} must hold numbers, as in training; it holds words."
        ) from None
    if np.isinf(numbers).any():
        raise ValueError(
            f"column {name!r} has an infinite value in row {int(np.argmax(np.isinf(numbers)))} "
            "(counted from 0)."
        )
    return numbers
