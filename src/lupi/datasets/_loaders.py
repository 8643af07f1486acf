"""The published data sets as arrays, in the shape of scikit-learn's ``fetch_*`` functions."""

import io
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import Bunch

from ._files import FILES, read

Home = str | os.PathLike[str] | None

# tab:uci_stats: (features, training, test).
PAPER_SIZES = {
    "breast_cancer_wisconsin": (9, 351, 332),
    "mammographic_mass": (4, 420, 410),
    "spambase": (57, 2430, 2171),
}

_SIDE = 10
# Pixel k of 10 is pixel floor(2.8 (k + 0.5)) of 28: nearest neighbour, no smoothing.
_PICKED = (28 * (2 * np.arange(_SIDE) + 1)) // (2 * _SIDE)

# No move first, then the 8 directions: (down, right).
_MOVES = ((0, 0), *((r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)))

_BCW_FEATURES = [
    "clump_thickness",
    "uniformity_of_cell_size",
    "uniformity_of_cell_shape",
    "marginal_adhesion",
    "single_epithelial_cell_size",
    "bare_nuclei",
    "bland_chromatin",
    "normal_nucleoli",
    "mitoses",
]
_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses "
    "free business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data "
    "415 85 technology 1999 parts pm direct cs meeting original project re edu table conference"
)
_SPAM_FEATURES = [
    *(f"word_freq_{word}" for word in _WORDS.split()),
    *(f"char_freq_{character}" for character in ";([!$#"),
    *(f"capital_run_length_{what}" for what in ("average", "longest", "total")),
]

_BCW = """Breast Cancer Wisconsin (original)

683 rows, 9 features (integers 1 to 10), 444 benign and 239 malignant. The 16 rows of the 699
published that lack `bare_nuclei` are left out, and so is the column of identifiers. 234 of the rows
repeat an earlier one.

UCI Machine Learning Repository, CC BY 4.0. William H. Wolberg, University of Wisconsin Hospitals,
Madison (1992). O. L. Mangasarian and W. H. Wolberg, Cancer diagnosis via linear programming, SIAM
News 23(5), 1990.
"""
_MASSES = """Mammographic Mass

830 rows, 4 features (age in years; shape 1 to 4, margin 1 to 5 and density 1 to 4 of the mass), 427
benign and 403 malignant.

Five columns are published beside the class. The fifth, the BI-RADS assessment, is the physician's
own verdict, which UCI calls non-predictive; it is left out, which leaves the 4 features of the
paper's table. Rows with a missing value in any of the published columns are left out, BI-RADS
included: that gives 830 of 961, the paper's 420 + 410, while the four features alone would give
831.

UCI Machine Learning Repository, CC BY 4.0. M. Elter, R. Schulz-Wendtland, T. Wittenberg, The
prediction of breast cancer biopsy outcomes using two CAD approaches that both emphasize an
intelligible decision process, Medical Physics 34(11):4164-4172, 2007.
"""
_SPAM = """Spambase

4601 rows, 57 features (frequencies of words and characters in percent, runs of capitals), 2788
non-spam and 1813 spam; no missing values. 391 rows repeat an earlier one. Spam comes first:
shuffle.

UCI Machine Learning Repository, CC BY 4.0. M. Hopkins, E. Reeber, G. Forman, J. Suermondt,
Hewlett-Packard Labs, 1999.
"""
_MNIST = """MNIST

Handwritten digits in their published order, 60000 for training and 10000 for testing, with 28 x 28
pixels of 0 to 255.

Y. LeCun, C. Cortes, C. J. C. Burges; commonly distributed under CC BY-SA 3.0. Y. LeCun, L. Bottou,
Y. Bengio, P. Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 86(11),
1998.
"""
_FIVES = """MNIST 5 against 8, 10 x 10 pixels, with privileged descriptions

100 digits for training (50 of each), 4002 for validation, 1866 for testing; pixels of 0 to 255,
row by row. The training digits have two descriptions by people, in integers of 0 to 5: 21 features
from poems about the digits (poetic), and 31 from a holistic description (Yin-Yang). The data does
not say what the single columns mean. The others have none.

V. Vapnik and A. Vashist, A new learning paradigm: learning using privileged information, Neural
Networks 22:544-557, 2009. The annotations were published for research without a stated licence; the
pixels are those of MNIST. The rankings by people in the experiments of Lapin, Hein and Schiele
(2014) were not published.
"""


def _choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if not any(
        value is choice or (isinstance(value, str) and value == choice) for choice in choices
    ):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; it is {value!r}")


def _table(raw: bytes) -> NDArray[np.float64]:
    # np.genfromtxt would make a missing value of any text; '?' is the only one in these files.
    text = raw.decode("ascii").replace("?", "nan")
    return np.loadtxt(io.StringIO(text), delimiter=",", ndmin=2)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas (pip install pandas), or use as_frame=False"
        ) from error
    return pandas


def _result(
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    names: list[str],
    return_X_y: bool,
    as_frame: bool,
    **more: Any,
) -> Any:
    """Bunch or (X, y), as arrays or as frames."""
    data: Any = X
    target: Any = y
    frame = None
    if as_frame:
        pandas = _pandas()
        data = pandas.DataFrame(X, columns=names)
        target = pandas.Series(y, name="target")
        frame = pandas.concat([data, target], axis=1)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, frame=frame, feature_names=names, **more)


def fetch_breast_cancer_wisconsin(
    *,
    data_home: Home = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Breast Cancer Wisconsin (original): 683 complete rows, 9 features.

    Not the data of :func:`sklearn.datasets.load_breast_cancer`, which has other features.

    Parameters
    ----------
    data_home : path, default=None
        Folder of the data sets, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    as_frame : bool, default=False
        A pandas DataFrame and Series instead of arrays.

    Returns
    -------
    bunch : Bunch
        ``data`` of shape (683, 9), ``target`` (0 benign, 1 malignant), ``frame``,
        ``feature_names``, ``target_names``, ``DESCR``. Or ``(data, target)``.

    Examples
    --------
    >>> from lupi.datasets import fetch_breast_cancer_wisconsin
    >>> fetch_breast_cancer_wisconsin().data.shape  # doctest: +SKIP
    (683, 9)
    """
    table = _table(_read("breast_cancer_wisconsin", data_home, download_if_missing))
    table = table[~np.isnan(table).any(axis=1)]
    return _result(
        table[:, 1:-1],
        (table[:, -1] == 4).astype(np.int64),
        names=list(_BCW_FEATURES),
        return_X_y=return_X_y,
        as_frame=as_frame,
        target_names=np.array(["benign", "malignant"]),
        DESCR=_BCW,
    )


def fetch_mammographic_mass(
    *,
    data_home: Home = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Mammographic Mass: 830 complete rows, 4 features.

    The features are age, shape, margin and density. The fifth published column, the BI-RADS
    assessment, is the physician's own verdict and is left out; a row must have it all the
    same, as in the paper: 830 rows, where 831 have all four features.

    Parameters
    ----------
    data_home : path, default=None
        Folder of the data sets, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    as_frame : bool, default=False
        A pandas DataFrame and Series instead of arrays.

    Returns
    -------
    bunch : Bunch
        ``data`` of shape (830, 4), ``target`` (0 benign, 1 malignant), ``frame``,
        ``feature_names``, ``target_names``, ``DESCR``. Or ``(data, target)``.

    Examples
    --------
    >>> from lupi.datasets import fetch_mammographic_mass
    >>> fetch_mammographic_mass().feature_names  # doctest: +SKIP
    ['age', 'shape', 'margin', 'density']
    """
    table = _table(_read("mammographic_mass", data_home, download_if_missing))
    table = table[~np.isnan(table).any(axis=1)]
    return _result(
        table[:, 1:-1],
        table[:, -1].astype(np.int64),
        names=["age", "shape", "margin", "density"],
        return_X_y=return_X_y,
        as_frame=as_frame,
        target_names=np.array(["benign", "malignant"]),
        DESCR=_MASSES,
    )


def fetch_spambase(
    *,
    data_home: Home = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Spambase: 4601 mails, 57 features.

    Parameters
    ----------
    data_home : path, default=None
        Folder of the data sets, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    as_frame : bool, default=False
        A pandas DataFrame and Series instead of arrays.

    Returns
    -------
    bunch : Bunch
        ``data`` of shape (4601, 57), ``target`` (0 non-spam, 1 spam), ``frame``, ``feature_names``,
        ``target_names``, ``DESCR``. Or ``(data, target)``.

    Examples
    --------
    >>> from lupi.datasets import fetch_spambase
    >>> fetch_spambase().target_names  # doctest: +SKIP
    array(['non-spam', 'spam'], dtype='<U8')
    """
    table = _table(_read("spambase", data_home, download_if_missing))
    return _result(
        table[:, :-1],
        table[:, -1].astype(np.int64),
        names=list(_SPAM_FEATURES),
        return_X_y=return_X_y,
        as_frame=as_frame,
        target_names=np.array(["non-spam", "spam"]),
        DESCR=_SPAM,
    )


def fetch_mnist(
    *,
    subset: str = "all",
    digits: ArrayLike | None = None,
    side: int = 28,
    data_home: Home = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """MNIST: 70000 handwritten digits.

    Parameters
    ----------
    data_home : path, default=None
        Folder of the data sets, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    as_frame : bool, default=False
        A pandas DataFrame and Series instead of arrays.
    subset : {"all", "train", "test"}, default="all"
        The first 60000 digits are the training set, the last 10000 the test set.
    digits : array-like of int, default=None
        Only these digits; None for all ten.
    side : {28, 10}, default=28
        Pixels of a side. With 10, the pixels are picked as in :func:`fetch_mnist_5v8`, whose
        digits come out exactly.

    Returns
    -------
    bunch : Bunch
        ``data`` of shape (n_samples, side * side) and type uint8, ``target``, ``index`` (position
        in the training or the test set), ``frame``, ``feature_names``, ``target_names`` (the
        digits), ``DESCR``. Or ``(data, target)``.

    Examples
    --------
    >>> from lupi.datasets import fetch_mnist
    >>> fetch_mnist(subset="test", digits=[5, 8], side=10).data.shape  # doctest: +SKIP
    (1866, 100)
    """
    _choice("subset", subset, ("all", "train", "test"))
    if side not in (28, _SIDE):
        raise ValueError(f"side must be 28 or {_SIDE}; it is {side!r}")
    wanted = np.arange(10) if digits is None else np.unique(np.atleast_1d(np.asarray(digits)))
    if wanted.size == 0 or not np.isin(wanted, np.arange(10)).all():
        raise ValueError(f"digits must be integers of 0 to 9; they are {digits!r}")
    parts = ("train", "test") if subset == "all" else (subset,)
    with np.load(io.BytesIO(_read("mnist", data_home, download_if_missing))) as arrays:
        images = np.concatenate([arrays[f"x_{part}"] for part in parts])
        labels = np.concatenate([arrays[f"y_{part}"] for part in parts]).astype(np.int64)
        index = np.concatenate([np.arange(len(arrays[f"y_{part}"])) for part in parts])
    rows = np.isin(labels, wanted)
    images, labels, index = images[rows], labels[rows], index[rows]
    if side == _SIDE:
        images = images[:, _PICKED[:, None], _PICKED]
    return _result(
        images.reshape(len(images), -1),
        labels,
        names=_pixels(side),
        return_X_y=return_X_y,
        as_frame=as_frame,
        target_names=wanted.astype(np.int64),
        index=index,
        DESCR=_MNIST,
    )


def fetch_mnist_5v8(
    *,
    subset: str = "train",
    privileged: str = "poetic",
    translated: bool = False,
    data_home: Home = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    return_X_y_priv: bool = False,
    as_frame: bool = False,
) -> Any:
    """MNIST 5 against 8 at 10 x 10 pixels, with privileged descriptions of the training digits.

    The data of ``sec:exp:svmw_replicates_svmp`` and ``sec:exp:5_vs_8``. Only the 100 training
    digits have privileged features.

    Parameters
    ----------
    data_home : path, default=None
        Folder of the data sets, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    as_frame : bool, default=False
        A pandas DataFrame and Series instead of arrays.
    subset : {"train", "validation", "test"}, default="train"
        100, 4002 or 1866 digits.
    privileged : {"poetic", "holistic", "both"}, default="poetic"
        21 features from poems about the digits, 31 of a holistic ("Yin-Yang") description, or the
        poetic and then the holistic ones.
    translated : bool, default=False
        Training digits only: each in 9 copies, see :func:`translate_digits`; 900 rows, privileged
        features repeated.
    return_X_y_priv : bool, default=False
        Return ``(data, target, privileged)``; ``privileged`` is None but for the training digits.

    Returns
    -------
    bunch : Bunch
        ``data`` of shape (n_samples, 100) with pixels of 0 to 255, ``target`` (5 or 8),
        ``privileged`` of shape (n_samples, n_features_priv) or None, ``groups`` (which digit a row
        is a copy of: keep them together in a split), ``frame``, ``feature_names``,
        ``privileged_feature_names``, ``target_names`` (the digits), ``DESCR``. Or ``(data,
        target)``.

    Examples
    --------
    >>> from lupi.datasets import fetch_mnist_5v8
    >>> X, y, X_priv = fetch_mnist_5v8(return_X_y_priv=True)  # doctest: +SKIP
    >>> X.shape, X_priv.shape  # doctest: +SKIP
    ((100, 100), (100, 21))
    """
    _choice("subset", subset, ("train", "validation", "test"))
    _choice("privileged", privileged, ("poetic", "holistic", "both"))
    if translated and subset != "train":
        raise ValueError(f"translated=True is for subset='train'; subset is {subset!r}")
    if return_X_y and return_X_y_priv:
        raise ValueError("return_X_y and return_X_y_priv are both True; choose one")

    prefix = {"train": "train", "validation": "val", "test": "test"}[subset]

    def part(name: str) -> NDArray[np.float64]:
        return _table(_read("mnist_5v8", data_home, download_if_missing, f"{prefix}_{name}.txt"))

    X, y = part("features"), part("labels")[:, 0].astype(np.int64)
    groups = np.arange(len(y))
    X_priv: Any = None
    names: list[str] | None = None
    if subset == "train":
        descriptions = {"poetic": "PFfeatures", "holistic": "YYfeatures"}
        kinds = list(descriptions) if privileged == "both" else [privileged]
        tables = [part(descriptions[kind]) for kind in kinds]
        X_priv = np.hstack(tables)
        names = [
            f"{kind}_{j}"
            for kind, table in zip(kinds, tables, strict=True)
            for j in range(table.shape[1])
        ]
    if translated:
        X, groups = translate_digits(X)
        y, X_priv = y[groups], X_priv[groups]
    if as_frame and X_priv is not None:
        X_priv = _pandas().DataFrame(X_priv, columns=names)
    result = _result(
        X,
        y,
        names=_pixels(_SIDE),
        return_X_y=return_X_y or return_X_y_priv,
        as_frame=as_frame,
        privileged=X_priv,
        privileged_feature_names=names,
        groups=groups,
        target_names=np.array([5, 8]),
        DESCR=_FIVES,
    )
    return (*result, X_priv) if return_X_y_priv else result


def translate_digits(X: ArrayLike) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Nine copies of every image: as it is, and moved by one pixel in the 8 directions.

    The extension of ``sec:exp:5_vs_8``. Pixels that come in are 0, those that leave are lost. The
    paper does not say so, nor at which resolution it moved the digits; here it is that of ``X``.

    Parameters
    ----------
    X : array-like of shape (n_samples, side * side)
        Square images, row by row.

    Returns
    -------
    X_moved : ndarray of shape (9 * n_samples, side * side)
        The images themselves, then all of them moved in one direction, and so on.
    groups : ndarray of shape (9 * n_samples,)
        Row of ``X`` that a row is a copy of.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.datasets import translate_digits
    >>> X_moved, groups = translate_digits(np.array([[1, 2, 3, 4]]))
    >>> X_moved[:3].tolist()
    [[1, 2, 3, 4], [4, 0, 0, 0], [3, 4, 0, 0]]
    """
    images = np.asarray(X)
    side = round(images.shape[1] ** 0.5) if images.ndim == 2 else 0
    if images.ndim != 2 or side < 1 or side * side != images.shape[1]:
        raise ValueError(
            f"X must hold square images row by row, shape (n_samples, side * side); "
            f"it has shape {images.shape}"
        )
    n = len(images)
    padded = np.zeros((n, side + 2, side + 2), dtype=images.dtype)
    padded[:, 1:-1, 1:-1] = images.reshape(n, side, side)
    moved = [padded[:, 1 - r : 1 - r + side, 1 - c : 1 - c + side] for r, c in _MOVES]
    return np.concatenate(moved).reshape(len(_MOVES) * n, -1), np.tile(np.arange(n), len(_MOVES))


def paper_split(
    name: str, y: ArrayLike, *, random_state: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of a UCI data set in the sizes of the paper.

    ``tab:uci_stats`` prints the sizes and ``sec:exp:uci_datasets`` their kind: at random, roughly
    equal halves, the class distribution approximately preserved. No rule that gives them is
    printed and the rows themselves were not published. Here each class has its share of the
    training rows up to rounding, and the rows are drawn without replacement.

    Parameters
    ----------
    name : {"breast_cancer_wisconsin", "mammographic_mass", "spambase"}
        The data set.
    y : array-like of shape (n_samples,)
        Its classes.
    random_state : None, int or RandomState, default=None
        Seed.

    Returns
    -------
    train : ndarray of int
    test : ndarray of int
        Rows, in random order. Together they are all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.datasets import paper_split
    >>> train, test = paper_split("mammographic_mass", np.arange(830) % 2, random_state=0)
    >>> len(train), len(test)
    (420, 410)
    """
    _choice("name", name, tuple(PAPER_SIZES))
    labels = np.asarray(y)
    _, n_train, n_test = PAPER_SIZES[name]
    if labels.shape != (n_train + n_test,):
        raise ValueError(
            f"y of {name} must have shape ({n_train + n_test},), the rows that are complete; "
            f"it has {labels.shape}"
        )
    splitter = StratifiedShuffleSplit(
        1, train_size=n_train, test_size=n_test, random_state=random_state
    )
    train, test = next(splitter.split(np.zeros(len(labels)), labels))
    return train, test


def _read(
    dataset: str, data_home: Home, download_if_missing: bool, name: str | None = None
) -> bytes:
    (file,) = [file for file in FILES[dataset] if name in (None, file.name)]
    return read(file, data_home, download_if_missing=download_if_missing)


def _pixels(side: int) -> list[str]:
    return [f"pixel_{r}_{c}" for r in range(side) for c in range(side)]
