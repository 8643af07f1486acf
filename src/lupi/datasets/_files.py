"""Files of the data sets: where they are, where they come from, and that they are the right ones.

urllib of the standard library does the downloads: it is one request per file, and what matters (the
digest, no partial files, several processes at once) is the same few lines with or without a
library. A file is read whole, checked, written beside its place under a name of its own, and
renamed: whoever looks sees no file or the whole one.
"""

import hashlib
import io
import os
import secrets
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import numpy as np

VARIABLE = "LUPI_DATA"
_TIMEOUT = 60.0  # seconds without a byte
_LARGEST = 1 << 26  # bytes; the largest file here has 11 million

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_POETIC = (
    "https://raw.githubusercontent.com/mariomartgarcia/privileged_logistic_regression/"
    "5d203d4b03f4cf722b2b1fee767c75dff5db6cb6/data/mnist_plus"
)
_MNIST_ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class DataFile:
    """A file, its address, and the SHA-256 of its content.

    The content of a text is the text with line ends LF (archives differ in them), that of an
    ``.npz`` the bytes of its arrays (files differ in how they are packed).
    """

    folder: str
    name: str
    url: str
    sha256: str

    def digest(self, raw: bytes) -> str:
        """SHA-256 of the content; ValueError if there is none."""
        if not self.name.endswith(".npz"):
            return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()
        digest = hashlib.sha256()
        try:
            with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
                for name in _MNIST_ARRAYS:
                    array = np.ascontiguousarray(arrays[name])
                    digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
                    digest.update(array.tobytes())
        # What np.load raises on bytes that are no archive, or a damaged one.
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"not an archive of the arrays {', '.join(_MNIST_ARRAYS)}") from error
        except Exception as error:  # zlib.error has no common base with the above
            raise ValueError(f"a damaged archive ({error})") from error
        return digest.hexdigest()

    def complaint(self, raw: bytes) -> str | None:
        """What is wrong with these bytes."""
        try:
            found = self.digest(raw)
        except ValueError as error:
            return str(error)
        return None if found == self.sha256 else f"its SHA-256 is {found}, not {self.sha256}"


def _poetic(name: str, sha256: str) -> DataFile:
    return DataFile("mnist_5v8_poetic", name, f"{_POETIC}/{name}", sha256)


FILES: dict[str, tuple[DataFile, ...]] = {
    "breast_cancer_wisconsin": (
        DataFile(
            "breast_cancer_wisconsin",
            "breast-cancer-wisconsin.data",
            f"{_UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
            "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        ),
    ),
    "mammographic_mass": (
        DataFile(
            "mammographic_mass",
            "mammographic_masses.data",
            f"{_UCI}/mammographic-masses/mammographic_masses.data",
            "2ed8bb60a517f631256d218a4885c56ef196d41023c63307ab40d69985be3b4a",
        ),
    ),
    "mnist": (
        DataFile(
            "mnist",
            "mnist.npz",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
            "b8370d4157fa0b022fbe73e37bdbd58bf6ba70dc85345002838ce9b2e3868914",
        ),
    ),
    "mnist_5v8": (
        _poetic(
            "train_features.txt",
            "241a91db28c16ade4e07823833c8bbfc5ed9cac43595133c3c75c568fa0e6d2c",
        ),
        _poetic(
            "train_labels.txt",
            "e0abd1cf1900c53a9bb41be06f90d00e12214dd1697a61a903820bca252746f7",
        ),
        _poetic(
            "train_PFfeatures.txt",
            "af2fbf0a6d72edbae0d7b3c87ab7a84ebf9fb2124d2dd22a51a0b080072ba5ec",
        ),
        _poetic(
            "train_YYfeatures.txt",
            "35168c3d11fb6d61abb1562fe682d71fcfb2daa67aa8f5a5c24327f0a85359b0",
        ),
        _poetic(
            "val_features.txt",
            "12907f96ed063e41865699428dcd897dd2ef3f39f301c97c29d5e7dcf6c9e905",
        ),
        _poetic(
            "val_labels.txt",
            "57f9e49a560c509fbeb26b4fd270d22bae290c06102b72073e4cae115404903c",
        ),
        _poetic(
            "test_features.txt",
            "ad990ef40015499a5041d68ed52fac2722991a73ebf902545548bc06479c2bb1",
        ),
        _poetic(
            "test_labels.txt",
            "47df52967cb8c18b2dacacac0bdcdebb390d26e38488c8a2e4ac94c3bd23f41f",
        ),
    ),
    "spambase": (
        DataFile(
            "spambase",
            "spambase.data",
            f"{_UCI}/spambase/spambase.data",
            "ebec58cfca94ea61c77df632314acae15bad410f4769d38b1a66cb41050e3431",
        ),
    ),
}


def available() -> tuple[str, ...]:
    """Names of the data sets that can be fetched.

    Returns
    -------
    names : tuple of str

    Examples
    --------
    >>> from lupi.datasets import available
    >>> available()
    ('breast_cancer_wisconsin', 'mammographic_mass', 'mnist', 'mnist_5v8', 'spambase')
    """
    return tuple(FILES)


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Folder of the data sets.

    Parameters
    ----------
    data_home : path, default=None
        The folder. None: the environment variable ``LUPI_DATA``, or ``~/lupi_data`` where
        that is not set.

    Returns
    -------
    folder : Path
        It need not exist.

    Examples
    --------
    >>> from lupi.datasets import get_data_home
    >>> get_data_home("data").name
    'data'
    """
    if data_home is None:
        data_home = os.environ.get(VARIABLE) or Path("~", "lupi_data")
    return Path(data_home).expanduser()


def _download(file: DataFile, path: Path) -> bytes:
    """The file from its address, checked and put in its place."""
    place = (
        f"To use a copy of your own, put it there, or name its folder's parent by data_home= or "
        f"the environment variable {VARIABLE}"
    )
    try:
        with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as response:
            raw: bytes = response.read(_LARGEST)
    except (OSError, HTTPException) as error:
        raise OSError(
            f"{path} does not exist and {file.url} cannot be read ({error}). {place}"
        ) from error
    wrong = file.complaint(raw)
    if wrong:
        raise OSError(
            f"{file.url} sent {len(raw)} bytes that are not {file.name}: {wrong}. Nothing was "
            f"kept in {path}. {place}"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with beside.open("xb") as stream:
                stream.write(raw)
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(
            f"{file.url} was read but {path} cannot be written ({error}). Name a folder that can "
            f"be written by data_home= or the environment variable {VARIABLE}"
        ) from error
    return raw


def read(
    file: DataFile,
    data_home: str | os.PathLike[str] | None = None,
    *,
    download_if_missing: bool = True,
) -> bytes:
    """Bytes of a file that have passed the check, downloaded first where there is none."""
    path = get_data_home(data_home) / file.folder / file.name
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        if download_if_missing:
            return _download(file, path)
        raise OSError(
            f"{path} does not exist, and download_if_missing is False. It comes from {file.url}; "
            f"a folder with a copy is named by data_home= or the environment variable {VARIABLE}"
        ) from error
    except OSError as error:
        raise OSError(f"{path} cannot be read ({error})") from error
    wrong = file.complaint(raw)
    if wrong:
        raise OSError(
            f"{path} is not the published file: {wrong}. It was left as it is; move it away and "
            f"it is downloaded again from {file.url}, or name another folder by data_home= or "
            f"the environment variable {VARIABLE}"
        )
    return raw


def fetch_files(
    names: Iterable[str] | None = None,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
) -> list[Path]:
    """Make sure that data sets are there and are the published ones.

    Parameters
    ----------
    names : iterable of str, default=None
        Some of :func:`available`; None for all.
    data_home : path, default=None
        Folder to look in and to download to, see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Download what is missing; otherwise it is an ``OSError``.

    Returns
    -------
    paths : list of Path
        The files, each checked.

    Examples
    --------
    >>> from lupi.datasets import fetch_files
    >>> fetch_files(["spambase"], data_home="data")  # doctest: +SKIP
    [PosixPath('data/spambase/spambase.data')]
    """
    chosen = list(FILES) if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in FILES:
            raise ValueError(f"there is no data set {name!r}; there are {', '.join(FILES)}")
    paths = []
    for name in chosen:
        for file in FILES[name]:
            read(file, data_home, download_if_missing=download_if_missing)
            paths.append(get_data_home(data_home) / file.folder / file.name)
    return paths
