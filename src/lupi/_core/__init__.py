"""The compiled core: plain C++ behind a thin binding.

Only :mod:`lupi.kernels` and :mod:`lupi.solvers` import from here. Arrays are checked and converted
in Python before they arrive; the binding refuses, rather than copies, anything of another type.
"""

from . import _core_ext as core

__all__ = ["core"]
