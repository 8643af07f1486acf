"""Data that does not ship with scikit-learn: a test that needs it is skipped where it is absent."""

import os
from pathlib import Path

import numpy as np
import pytest

from lupi.datasets import fetch_mnist_5v8
from lupi.datasets._files import FILES

_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def data_home():
    """Folder of the paper's data sets: ``LUPI_DATA``, or ``../shared/data`` beside the project."""
    return Path(os.environ.get("LUPI_DATA", _BESIDE))


def needs(dataset):
    """Skip a test whose files are absent; nothing is downloaded by a test."""
    for file in FILES[dataset]:
        path = data_home() / file.folder / file.name
        if not path.is_file():
            pytest.skip(f"there is no {path}; LUPI_DATA names the folder of the data sets")


def poetic_digits(n_train):
    """(X, y, X_priv) of n_train digits, half fives and half eights, with poetic descriptions.

    Pixels are scaled to [0, 1], privileged features by their largest value.
    """
    needs("mnist_5v8")
    X, y, X_priv = fetch_mnist_5v8(data_home=data_home(), return_X_y_priv=True)
    half = n_train // 2
    rows = np.r_[:half, 50 : 50 + n_train - half]
    return X[rows] / 255.0, y[rows], X_priv[rows] / X_priv.max(axis=0)
