// The loss on validation rows and its derivative with respect to the coefficients, in one pass.
//
//   f_j = sum_i a_i K[i][j] + b,   E = sum_j l(y_j f_j),   g_j = y_j l'(y_j f_j),   p_i = sum_j K[i][j] g_j
//
// with the smooth hinge l of eq:smoothloss (lupi/losses.py). K (n, N) is far larger than the caches,
// and reading it is what this costs: it is read once, in blocks of columns that stay in the second
// cache from the first product to the second.
#pragma once
#include "pool.hpp"

namespace lupi {

// Given K, row-major; y (N), a (n), b, delta. Returns E; writes f (N), g (N), p (n).
double judge_smooth_hinge(const double* K, i64 n, i64 N, const double* y, const double* a, double b,
                          double delta, double* f, double* g, double* p, Pool& pool);

}  // namespace lupi
