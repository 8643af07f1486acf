"""Tables of users: reading them, checking them, and making numbers of their columns."""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

# Fewer rows of a class cannot be cut into training and test rows, and the former into folds.
MIN_ROWS = 6
# More words than this in a column, and nearly one per row: a name, not a category.
_MANY_WORDS = 20


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of a user, checked.

    Attributes
    ----------
    name : str
    X, X_priv : ndarray or DataFrame of n rows
        Numbers, or words in columns of dtype object. NaN is a missing value.
    y : ndarray of shape (n,)
    groups : ndarray of shape (n,) or None
        Rows of the same group are never on both sides of a split.
    sample_weight : ndarray of shape (n,) or None
    notes : tuple of str
        What the user should know about the columns.
    """

    name: str
    X: Any
    y: NDArray[Any]
    X_priv: Any
    groups: NDArray[Any] | None = None
    sample_weight: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)


# ---- Files --------------------------------------------------------------------------------------


def read_table(path: str | os.PathLike[str]) -> Any:
    """A CSV or Parquet file.

    Parameters
    ----------
    path : path-like
        ``.parquet`` or ``.pq``; anything else is text with commas, semicolons or tabs.

    Returns
    -------
    DataFrame
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading tables needs pandas, which is not installed: pip install 'lupi[experiments]'."
        ) from error
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"cannot read {path}: there is {'only a folder' if path.is_dir() else 'no file'} of "
            "this name."
        )
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pd.read_parquet(path)
        else:
            with open(path, encoding="utf-8-sig", newline="") as file:
                first = file.readline()
            separator = max(",;\t", key=first.count)
            names = next(csv.reader([first], delimiter=separator), [])
            _check_names([name.strip() for name in names], path)
            frame = pd.read_csv(
                path, sep=separator, encoding="utf-8-sig", skipinitialspace=True, index_col=False
            )
    except ImportError as error:
        raise ModuleNotFoundError(
            f"reading {path} needs pyarrow, which is not installed: "
            "pip install 'lupi[experiments]'."
        ) from error
    except (OSError, ValueError) as error:
        if str(error).startswith(str(path)):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"cannot read {path}: {reason}.") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    _check_names(list(frame.columns), path)
    if frame.empty:
        raise ValueError(f"{path} has no rows.")
    return frame


def _check_names(names: list[str], path: Path) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns of the name {twice[0]!r}; rename them.")


def problem_of(
    frame: Any,
    target: str,
    privileged: Sequence[str],
    *,
    drop: Sequence[str] = (),
    group: str | None = None,
    weights: str | None = None,
    name: str = "data",
) -> Problem:
    """Columns of a table in their roles.

    Parameters
    ----------
    frame : DataFrame
    target : str
        Column of labels.
    privileged, drop : sequence of str
        Names of columns, or patterns with ``*``, ``?`` and ``[...]``.
    group, weights : str, default=None
        Columns.
    name : str

    Returns
    -------
    Problem
    """
    names = list(frame.columns)
    for role, column in (("target", target), ("group", group), ("weights", weights)):
        if column is not None and column not in names:
            near = difflib.get_close_matches(column, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {_some(names)}."
            raise ValueError(f"{role} column {column!r} is not in the table{hint}")
    dropped = set(_matching(names, drop, "drop"))
    if target in dropped:
        raise ValueError(f"the target column {target!r} is among those to drop.")
    extra = _matching(names, privileged, "privileged")
    if not extra:
        raise ValueError("privileged: name at least one column, or a pattern.")
    for role, column in (("target", target), ("group", group), ("weights", weights)):
        if column in extra:
            raise ValueError(
                f"a privileged pattern matches the {role} column {column!r}: name the privileged "
                "columns more narrowly."
            )
    special = {target, group, weights}
    extra = [column for column in extra if column not in dropped]
    ordinary = [c for c in names if c not in special and c not in dropped and c not in set(extra)]
    if not extra:
        raise ValueError("no privileged column is left after drop.")
    if not ordinary:
        raise ValueError(
            "no ordinary column is left: all but the target are privileged or dropped, and there "
            "is nothing to predict from."
        )
    return make_problem(
        frame[ordinary],
        frame[target],
        frame[extra],
        groups=None if group is None else frame[group],
        sample_weight=None if weights is None else frame[weights],
        name=name,
    )


def _matching(names: list[str], patterns: Sequence[str], role: str) -> list[str]:
    found = []
    for pattern in patterns:
        hits = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not hits:
            raise ValueError(f"{role}: no column matches {pattern!r}; there are {_some(names)}.")
        found += [name for name in hits if name not in found]
    return found


def _some(names: Sequence[Any], most: int = 8) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# ---- Checks -------------------------------------------------------------------------------------


def make_problem(
    X: Any,
    y: Any,
    X_priv: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    name: str = "data",
) -> Problem:
    """Check rows.

    Parameters
    ----------
    X, X_priv : array-like or DataFrame of n rows
    y : array-like of shape (n,)
    groups, sample_weight : array-like of shape (n,), default=None
    name : str

    Returns
    -------
    Problem
    """
    notes: list[str] = []
    if hasattr(X, "iloc") != hasattr(X_priv, "iloc"):
        X, X_priv = (Z if hasattr(Z, "iloc") else np.asarray(Z) for Z in (X, X_priv))
    X = _features(X, "X", notes)
    X_priv = _features(X_priv, "X_priv", notes)
    if hasattr(X, "iloc") and hasattr(X_priv, "iloc"):
        same = set(X.columns) & set(X_priv.columns)
        X_priv = X_priv.rename(columns={column: f"{column} (privileged)" for column in same})
    y = _labels(y)
    n = len(y)
    for what, Z in (("X", X), ("X_priv", X_priv)):
        if len(Z) != n:
            raise ValueError(f"{what} must have one row for each label: {n}, got {len(Z)}.")
    if groups is not None:
        groups = _column(groups, n, "groups")
        if _missing(groups).any():
            raise ValueError(f"groups must have no missing values; row {_first(_missing(groups))}.")
        groups = np.unique(groups.astype(str), return_inverse=True)[1]
    if sample_weight is not None:
        try:
            weight = _column(sample_weight, n, "weights").astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("weights must be numbers.") from None
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            raise ValueError(
                f"weights must be finite and not negative; {_row(_first(bad))} has "
                f"{weight[_first(bad)]:g}."
            )
        if not all(weight[y == k].any() for k in np.unique(y)):
            raise ValueError("weights must be positive for some rows of each class.")
        sample_weight = weight / weight.mean()
    _check_classes(y, groups)
    return Problem(name, X, y, X_priv, groups, sample_weight, tuple(notes))


def _row(number: int) -> str:
    return f"row {number} (counted from 0)"


def _first(mask: NDArray[Any]) -> int:
    return int(np.argmax(mask))


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """NaN, None, NaT, pandas.NA: what differs from itself or has no truth value."""
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([v is None or (v != v) is not False for v in values], dtype=bool)


def _column(values: Any, n: int, name: str) -> NDArray[Any]:
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},); got {values.shape}.")
    return values


def _labels(y: Any) -> NDArray[Any]:
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"the target must be one column; got shape {y.shape}.")
    lost = _missing(y)
    if lost.any():
        raise ValueError(
            f"the target has {int(lost.sum())} missing values, the first in {_row(_first(lost))}: "
            "fill them in, or remove these rows."
        )
    if y.dtype.kind == "O":
        y = y.astype(str)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"the target is not finite in {_row(_first(~np.isfinite(y)))}.")
        if (y == np.round(y)).all():
            y = y.astype(np.int64)
    if y.dtype.kind not in "biuUf":
        raise ValueError("the target must be numbers or words; it holds dates or other objects.")
    return y


def _check_classes(y: NDArray[Any], groups: NDArray[Any] | None) -> None:
    classes, count = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"the target has one class only ({classes[0]!s}); to tell classes apart takes two."
            if len(classes)
            else "there are no rows."
        )
    if len(classes) > 20 and (y.dtype.kind == "f" or len(classes) > len(y) / MIN_ROWS):
        raise ValueError(
            f"the target has {len(classes)} different values in {len(y)} rows: these look like "
            "measurements, and classes are needed. Cut them into a few classes first."
        )
    rare = int(np.argmin(count))
    if count[rare] < MIN_ROWS:
        raise ValueError(
            f"class {classes[rare]!s} of the target has {count[rare]} rows, too few to learn from "
            f"some and test on others: every class needs {MIN_ROWS}."
        )
    if groups is not None:
        for k in classes:
            have = len(np.unique(groups[y == k]))
            if have < 4:
                raise ValueError(
                    f"class {k!s} of the target occurs in {have} groups only, and groups are kept "
                    "together: every class needs to occur in 4."
                )


def _features(Z: Any, name: str, notes: list[str]) -> Any:
    """Floats, or a frame of floats and words."""
    if sparse.issparse(Z):
        raise ValueError(f"{name} must be dense: pass {name}.toarray().")
    if not hasattr(Z, "iloc"):
        try:
            Z = np.asarray(Z, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must be numbers; for words pass a pandas DataFrame."
            ) from None
        if Z.ndim == 1:
            Z = Z[:, None]
        if Z.ndim != 2 or Z.shape[1] == 0:
            raise ValueError(f"{name} must have shape (n, n_features); got {Z.shape}.")
        infinite = np.isinf(Z)
        if infinite.any():
            row, column = np.argwhere(infinite)[0]
            raise ValueError(f"{name} has an infinite value: column {column}, {_row(row)}.")
        return Z
    if Z.ndim == 1:
        Z = Z.to_frame()
    if not Z.columns.is_unique:
        raise ValueError(f"{name} has several columns of the same name; rename them.")
    out = {}
    for column in Z.columns:
        out[str(column)] = _feature(Z[column], str(column), notes)
    return type(Z)(out).reset_index(drop=True)


def _feature(values: Any, column: str, notes: list[str]) -> Any:
    """A column as floats, or as words with NaN."""
    kind = getattr(values.dtype, "kind", "O")
    numeric = kind in "biuf" and "category" not in str(values.dtype)
    if kind in "mM":
        raise ValueError(
            f"column {column!r} holds dates or times: make numbers of them (say, days), or leave "
            "it out with drop."
        )
    if kind == "c":
        raise ValueError(f"column {column!r} holds complex numbers.")
    n = len(values)
    if numeric:
        floats = np.asarray(values.astype("float64"), dtype=np.float64)
        infinite = np.isinf(floats)
        if infinite.any():
            raise ValueError(
                f"column {column!r} has an infinite value in {_row(_first(infinite))}: correct it, "
                "or leave it empty."
            )
        if kind in "iu" and n > 2 and abs(floats[-1] - floats[0]) == n - 1:
            steps = np.diff(floats)
            if (steps == steps[0]).all():
                notes.append(
                    f"`{column}` counts the rows. If it is a number of the row and not a "
                    "measurement, leave it out with `--drop`."
                )
        return floats
    words = as_words(values)
    different = len({word for word in words if isinstance(word, str)})
    if different > _MANY_WORDS and different > 0.5 * n:
        notes.append(
            f"`{column}` has {different} different words in {n} rows. If it is a name or a text, "
            "leave it out with `--drop`; as a category it says little."
        )
    return words


def as_words(values: Any) -> NDArray[Any]:
    """The values of a column as strings; missing and empty ones as NaN.

    Parameters
    ----------
    values : Series

    Returns
    -------
    ndarray of object
    """
    words = np.asarray(values.astype(object)).copy()
    missing = np.asarray(values.isna())
    words[~missing] = [str(value).strip() for value in words[~missing]]
    words[missing | (words == "")] = np.nan
    return words


def demo_problem() -> Problem:
    """Digits 5 and 8 of scikit-learn at 4 x 4 pixels; privileged: the same digits at 8 x 8.

    Returns
    -------
    Problem
    """
    digits = load_digits()
    rows = np.isin(digits.target, (5, 8))
    fine = digits.images[rows]
    coarse = fine.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
    return make_problem(
        coarse.reshape(len(fine), -1),
        digits.target[rows],
        fine.reshape(len(fine), -1),
        name="digits 5 and 8 at 4 x 4 pixels",
    )


# ---- Numbers from columns -----------------------------------------------------------------------


def word_columns(Z: Any) -> list[Any]:
    """The columns that hold words.

    Parameters
    ----------
    Z : ndarray or DataFrame

    Returns
    -------
    list
    """
    if not hasattr(Z, "iloc"):
        return []
    return [
        name
        for name, dtype in zip(Z.columns, Z.dtypes, strict=True)
        if getattr(dtype, "kind", "O") != "f"
    ]


def preparation(Z: Any) -> ColumnTransformer:
    """What makes numbers of these columns; to be fitted on training rows.

    Missing numbers become the median, with a column that says so; numbers are centred and scaled.
    Words become indicators, one of them for missing values; rare words share one.

    Parameters
    ----------
    Z : ndarray or DataFrame

    Returns
    -------
    ColumnTransformer
    """
    words = word_columns(Z)
    names = list(Z.columns) if hasattr(Z, "iloc") else list(range(Z.shape[1]))
    numbers = [name for name in names if name not in set(words)]
    of_numbers = Pipeline(
        [
            (
                "impute",
                SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
            ),
            ("scale", StandardScaler()),
        ]
    )
    of_words = Pipeline(
        [
            ("impute", SimpleImputer(strategy="constant", fill_value="(missing)")),
            (
                "indicate",
                OneHotEncoder(
                    handle_unknown="infrequent_if_exist",
                    min_frequency=2,
                    max_categories=_MANY_WORDS,
                    sparse_output=False,
                ),
            ),
        ]
    )
    steps = [("numbers", of_numbers, numbers)] if numbers else []
    steps += [("words", of_words, words)] if words else []
    return ColumnTransformer(steps, sparse_threshold=0.0, verbose_feature_names_out=False)


def beside(X: Any, X_priv: Any) -> Any:
    """All columns of both.

    Parameters
    ----------
    X, X_priv : ndarray or DataFrame

    Returns
    -------
    ndarray or DataFrame
    """
    if hasattr(X, "iloc"):
        import pandas as pd

        return pd.concat([X, X_priv], axis=1)
    return np.hstack([X, X_priv])


def without_values(Z: Any) -> NDArray[np.bool_]:
    """Rows in which nothing is known.

    Parameters
    ----------
    Z : ndarray or DataFrame

    Returns
    -------
    ndarray of bool
    """
    missing = Z.isna().to_numpy() if hasattr(Z, "iloc") else np.isnan(Z)
    empty: NDArray[np.bool_] = missing.all(axis=1)
    return empty
