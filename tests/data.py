"""Data that does not ship with scikit-learn: a test that needs it is skipped where it is absent."""

import os
from pathlib import Path

import numpy as np
import pytest

_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def data_home():
    """Folder of the paper's data sets: ``LUPI_DATA``, or ``../shared/data`` beside the project."""
    return Path(os.environ.get("LUPI_DATA", _BESIDE))


def poetic_digits(n_train):
    """(X, y, X_priv) of n_train digits, half fives and half eights, with poetic descriptions.

    Pixels are scaled to [0, 1], privileged features by their largest value.
    """
    folder = data_home() / "mnist_5v8_poetic"
    if not (folder / "train_features.txt").is_file():
        pytest.skip(f"no MNIST 5-vs-8 data in {folder}; set LUPI_DATA to its parent folder")
    X, y, X_priv = (
        np.loadtxt(folder / f"train_{part}.txt", delimiter=",")
        for part in ("features", "labels", "PFfeatures")
    )
    half = n_train // 2
    rows = np.r_[:half, 50 : 50 + n_train - half]
    return X[rows] / 255.0, y[rows], X_priv[rows] / X_priv.max(axis=0)
