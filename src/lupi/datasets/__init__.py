"""The paper's data: generators of its toy problems, and fetchers of the published data sets.

Files are looked for in ``data_home``, in the folder that the environment variable ``LUPI_DATA``
names, or in ``~/lupi_data``; what is missing is downloaded there. Every file is checked
against a SHA-256 digest each time it is read.
"""

from ._files import available, fetch_files, get_data_home
from ._loaders import (
    PAPER_SIZES,
    fetch_breast_cancer_wisconsin,
    fetch_mammographic_mass,
    fetch_mnist,
    fetch_mnist_5v8,
    fetch_spambase,
    paper_split,
    translate_digits,
)
from ._toy import (
    make_blobs_with_outliers,
    make_counterexample,
    make_equivalence_example,
    make_w_mixture,
    w_mixture_probability,
)

__all__ = [
    "PAPER_SIZES",
    "available",
    "fetch_breast_cancer_wisconsin",
    "fetch_files",
    "fetch_mammographic_mass",
    "fetch_mnist",
    "fetch_mnist_5v8",
    "fetch_spambase",
    "get_data_home",
    "make_blobs_with_outliers",
    "make_counterexample",
    "make_equivalence_example",
    "make_w_mixture",
    "paper_split",
    "translate_digits",
    "w_mixture_probability",
]
