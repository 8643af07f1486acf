"""The compiled core: plain C++ behind a thin binding.

Only :mod:`lupi.kernels` and :mod:`lupi.solvers` import from here. Arrays are checked and converted
in Python before they arrive; the binding refuses, rather than copies, anything of another type.
"""

from scipy.linalg import cython_blas, cython_lapack

from . import _core_ext as core

# The active-set finish of the weighted SVM uses the BLAS and LAPACK that scipy ships.
core.set_lapack(
    {
        **{name: cython_lapack.__pyx_capi__[name] for name in ("dpotrf", "dpstrf")},
        **{name: cython_blas.__pyx_capi__[name] for name in ("dtrsm", "dgemm")},
    }
)

__all__ = ["core"]
