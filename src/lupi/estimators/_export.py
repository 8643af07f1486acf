"""A fitted model as one of scikit-learn's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, LinearSVC

from ._state import altered, sound_coefficients, sound_rows

if TYPE_CHECKING:
    from ._base import KernelSVC


def to_sklearn(model: KernelSVC) -> SVC | LinearSVC:
    """See :meth:`lupi.estimators._base.KernelSVC.to_sklearn`."""
    try:
        model._validate_params()
    except (AttributeError, TypeError) as error:  # a parameter is gone, or no value at all
        raise altered(model) from error
    coef, basis = model._checked_state()
    k = len(model.classes_)
    n_support: Any = getattr(model, "n_support_", None)
    dual_coef: Any = getattr(model, "dual_coef_", None)
    n_iter: Any = getattr(model, "n_iter_", None)
    sound = (
        sound_coefficients(dual_coef, k - 1, len(model.support_))
        and sound_rows(n_support, len(model.support_) + 1)
        and len(n_support) == k
        and n_support.sum() == len(model.support_)
        and sound_rows(n_iter, np.iinfo(np.int32).max)
        and len(n_iter) > 0
    )
    if not sound:
        raise altered(model)
    linear = model.kernel == "linear" and len(model.classes_) == 2
    exported = _linear_svc(model, coef, basis) if linear else _svc(model, basis)
    exported.classes_ = model.classes_.copy()
    exported.n_features_in_ = model.n_features_in_
    if getattr(model, "feature_names_in_", None) is not None:
        exported.feature_names_in_ = model.feature_names_in_.copy()
    return exported


def _linear_svc(model: KernelSVC, coef: Any, basis: Any) -> LinearSVC:
    linear = LinearSVC(C=model.C, loss="hinge", tol=model.tol, class_weight=model.class_weight)
    linear.coef_ = np.asarray(coef @ basis)
    linear.intercept_ = model.intercept_.copy()
    linear.n_iter_ = int(model.n_iter_.max())
    return linear


def _svc(model: KernelSVC, basis: Any) -> SVC:
    """An SVC as its own fit leaves it.

    What is private in SVC is what LIBSVM reads: rows grouped by class, and, with two classes, the
    coefficients and the offset of the first class against the second, the negative of the public
    ones.
    """
    binary, intercept = len(model.classes_) == 2, model.intercept_.copy()
    inner_intercept = -intercept if binary else intercept
    given = callable(model.kernel) or model.kernel == "precomputed"
    sparse = sp.issparse(basis) and not given
    support, n_support = model.support_.astype(np.int32), model.n_support_.astype(np.int32)
    dual_coef, rows, shape = model.dual_coef_.copy(), basis, model.shape_fit_
    if callable(model.kernel):
        # SVC evaluates a callable against all its training rows: here these are the support
        # vectors.
        support, shape = np.arange(len(support), dtype=np.int32), basis.shape
    if len(support) == 0:
        # LIBSVM reads one row at least: a row with coefficients of zero is none.
        support, n_support = np.zeros(1, dtype=np.int32), np.eye(1, len(model.classes_), dtype="i4")
        n_support, dual_coef = n_support[0], np.zeros((len(dual_coef), 1))
        if model.kernel != "precomputed":
            rows = np.zeros((1, model.n_features_in_))
            rows = sp.csr_array(rows) if sp.issparse(basis) else rows
            shape = rows.shape if callable(model.kernel) else shape
        if binary and intercept[0] == 0:
            inner_intercept = np.array([np.nextafter(0.0, 1.0)])  # f = 0 is the first class

    svc = SVC(
        C=model.C,
        kernel=model.kernel,
        degree=model.degree,
        gamma=model.gamma if given else model._gamma,
        coef0=model.coef0,
        tol=model.tol,
        cache_size=model.cache_size,
        class_weight=model.class_weight,
        max_iter=model.max_iter,
        decision_function_shape=model.decision_function_shape,
        break_ties=model.break_ties,
    )
    inner = -dual_coef if binary else dual_coef
    if sparse:
        rows = rows.astype(np.float64)
        rows.sort_indices()
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        svc.support_vectors_ = rows
        svc.dual_coef_, svc._dual_coef_ = _full_csr(dual_coef), _full_csr(inner)
    else:
        svc.support_vectors_ = (
            np.empty((0, 0)) if given else np.array(rows, dtype=np.float64, order="C")
        )
        svc.dual_coef_, svc._dual_coef_ = dual_coef, np.ascontiguousarray(inner)
    svc.intercept_, svc._intercept_ = intercept, inner_intercept.copy()
    svc.support_, svc._n_support, svc.shape_fit_ = support, n_support, shape
    svc._sparse, svc._gamma = sparse, 0.0 if given else float(model._gamma)
    if callable(model.kernel):
        svc._BaseLibSVM__Xfit = rows
    svc._probA = svc._probB = np.empty(0)
    svc._effective_probability = False
    svc.class_weight_ = np.ones(len(model.classes_))
    svc.fit_status_ = 0
    svc.n_iter_ = svc._num_iter = model.n_iter_.copy()
    return svc


def _full_csr(dual_coef: Any) -> Any:
    """CSR with every entry stored, zeros too: LIBSVM's wrapper reads its data as a full matrix."""
    m, n = dual_coef.shape
    return sp.csr_array(
        (dual_coef.ravel(), np.tile(np.arange(n), m), np.arange(0, m * n + 1, n)), shape=(m, n)
    )
