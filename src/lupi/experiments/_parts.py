"""What an experiment hands to a method: the rows, and how they are drawn."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of one cell of an experiment; every method gets the same ones.

    Attributes
    ----------
    X, y : array-like or DataFrame
        Training rows.
    X_test, y_test
        Test rows: scored, and used for nothing else.
    X_val, y_val
        Rows that hyper-parameters are chosen on (and weights learned). None: a method makes do with
        folds of the training rows.
    X_priv
        Privileged features of the training rows, or None.
    X_priv_test
        Those of the test rows, for the oracle that sees them at test time. No other method may.
    extra : mapping
        More about the training rows, by name: ``"scores"`` of annotators, ``"groups"``,
        ``"sample_weight"``.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    X_val: Any = None
    y_val: Any = None
    X_priv: Any = None
    X_priv_test: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows that an experiment draws from.

    Attributes
    ----------
    name : str
        Stands in the results.
    X, y : ndarray
        The pool that training rows are drawn from.
    X_test, y_test : ndarray
        Test rows, the same for all.
    X_val, y_val : ndarray or None
        Validation rows that are the same for all; None: a protocol draws them from the pool.
    X_priv : ndarray or None
        Privileged features of the pool.
    groups : ndarray or None
        Rows of the pool that are drawn together: the copies of one digit.
    extra : mapping
        Arrays with an entry for each row of the pool, handed on in ``Parts.extra``.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    X_val: NDArray[Any] | None = None
    y_val: NDArray[Any] | None = None
    X_priv: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def parts(self, train: Rows, val: Rows | None = None) -> Parts:
        """The training rows `train` of the pool; validation rows `val` of it, or the fixed ones.

        Parameters
        ----------
        train : ndarray of int
        val : ndarray of int, default=None

        Returns
        -------
        Parts
        """
        return Parts(
            self.X[train],
            self.y[train],
            self.X_test,
            self.y_test,
            self.X_val if val is None else self.X[val],
            self.y_val if val is None else self.y[val],
            None if self.X_priv is None else self.X_priv[train],
            None,
            {name: values[train] for name, values in self.extra.items()},
        )


class Drawing(Protocol):
    """Which cells there are, and which rows each has.

    ``parts`` depends on its arguments and the protocol's own seed alone, not on what was drawn
    before.
    """

    @property
    def sizes(self) -> Sequence[int]:
        """Numbers of rows."""

    @property
    def repeats(self) -> int:
        """Cells of each size."""

    def parts(self, data: Any, size: int, repeat: int) -> Parts:
        """The rows of one cell."""


def generator(seed: int, *where: Any) -> np.random.Generator:
    """A random generator of its own for each cell.

    Parameters
    ----------
    seed : int
        Of the whole experiment.
    *where : str or int
        Data set, size, repeat, ...

    Returns
    -------
    Generator
    """
    words = [zlib.crc32(w.encode()) if isinstance(w, str) else int(w) for w in where]
    return np.random.default_rng([int(seed), *words])


def stratified(
    y: NDArray[Any], size: int, rng: np.random.Generator, groups: NDArray[Any] | None = None
) -> Rows:
    """`size` rows (or groups of rows), the classes in the proportion of `y`, in random order.

    Parameters
    ----------
    y : ndarray of shape (n,)
    size : int
        How many rows; with `groups` how many groups.
    rng : Generator
    groups : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of int
        At least one row of every class.
    """
    if groups is not None:
        names, first = np.unique(groups, return_index=True)
        chosen = names[stratified(y[first], size, rng)]
        return np.concatenate([np.flatnonzero(groups == g) for g in chosen])
    classes, label = np.unique(y, return_inverse=True)
    if not len(classes) <= size <= len(y):
        raise ValueError(
            f"{size} rows cannot be drawn: there are {len(y)} rows of {len(classes)} classes."
        )
    exact = size * np.bincount(label) / len(y)
    count = np.maximum(np.floor(exact).astype(np.intp), 1)
    # The rest goes to the largest remainders; ties by chance, so that no class is favoured.
    order = np.lexsort((rng.random(len(classes)), -(exact - count)))
    for k in np.resize(order, max(0, size - int(count.sum()))):
        count[k] += 1
    while count.sum() > size:
        count[np.argmax(count)] -= 1
    rows = [rng.permutation(np.flatnonzero(label == k))[: count[k]] for k in range(len(classes))]
    return rng.permutation(np.concatenate(rows))


@dataclass(frozen=True)
class FixedValidation:
    """Training rows drawn from the pool; validation rows are the data set's own.

    Attributes
    ----------
    sizes : sequence of int
        Training rows, or groups of rows where the data set has groups.
    repeats : int
    seed : int
    """

    sizes: Sequence[int]
    repeats: int
    seed: int = 0

    def parts(self, data: DataSet, size: int, repeat: int) -> Parts:
        """The rows of one cell.

        Parameters
        ----------
        data : DataSet
        size, repeat : int

        Returns
        -------
        Parts
        """
        rng = generator(self.seed, data.name, size, repeat)
        return data.parts(stratified(data.y, size, rng, data.groups))


@dataclass(frozen=True)
class Split:
    """Rows drawn from the pool, and split into training and validation rows.

    Two splits with the same seed draw the same rows.

    Attributes
    ----------
    sizes : sequence of int
        Rows in all, training and validation.
    repeats : int
    train, val : int
        The split: 1 and 2 for 1-to-2.
    seed : int
    """

    sizes: Sequence[int]
    repeats: int
    train: int = 1
    val: int = 2
    seed: int = 0

    def parts(self, data: DataSet, size: int, repeat: int) -> Parts:
        """The rows of one cell.

        Parameters
        ----------
        data : DataSet
        size, repeat : int

        Returns
        -------
        Parts
        """
        rng = generator(self.seed, data.name, size, repeat)
        rows = stratified(data.y, size, rng)
        n_train = round(size * self.train / (self.train + self.val))
        inside = stratified(data.y[rows], n_train, rng)
        outside = np.setdiff1d(np.arange(size), inside)
        return data.parts(rows[inside], rows[outside])
