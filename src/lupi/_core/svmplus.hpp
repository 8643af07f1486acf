// The dual of SVM+, eq:svmp_dual, solved exactly by cutting planes and Newton steps on active sets.
//
// Rows with privileged information have the correcting function as their slack; the others have an
// ordinary slack of cost C_i. With zeta = alpha + beta the dual is, in a form without cancellation,
//
//     min  1/2 alpha'YKY alpha - 1'alpha + 1/2 (zeta - C)'S(zeta - C) + o'(zeta - C)
//     s.t. y'alpha = 0,   sum over privileged rows of (zeta - C) = 0,
//          0 <= alpha_i <= zeta_i  (privileged rows),   0 <= alpha_i <= C_i  (the others),
//
// S = K_corr / correction_reg and o an offset of the correcting function (zero but for
// correction_reg = 0). Its multipliers are the two offsets b and b_corr. With f = K Y alpha and
// xi = S (zeta - C) + o + b_corr, a point is optimal iff for every row
//
//     alpha_i = 0, y_i (f_i + b) - 1 + xi_i >= 0   or   alpha_i > 0 and equality,
//     beta_i = 0,  xi_i >= 0                       or   beta_i > 0 and xi_i = 0,
//
// (for the others: the conditions of the weighted SVM with xi_i = 0). Rows with C_i = 0 are absent.
#pragma once
#include "dense.hpp"
#include "kernel.hpp"

namespace lupi {

struct SvmPlusData {
  i64 n;
  const double* y;
  const double* C;
  const i64* priv;       // row of K_corr, or -1: no privileged information
  const Kernel* K;       // (n, n)
  const Kernel* K_corr;  // (n_priv, n_priv)
  double inverse_reg;    // 1 / correction_reg
  const double* offset;  // (n_priv) or null
};

struct SvmPlusOptions {
  double tol = 1e-3;       // largest violation of a condition above
  i64 max_iter = 10'000;   // Newton steps
  double memory = 1e9;     // bytes for kernel blocks and factors
};

struct SvmPlusProgress {
  i64 rounds, iterations, rows, free;
  double objective, gap, violation;  // of the point as it is, all rows counted
};
using SvmPlusReport = std::function<void(const SvmPlusProgress&)>;

struct SvmPlusResult {
  i64 rounds = 0;         // working sets
  i64 iterations = 0;     // Newton steps
  i64 cautious = 0;       // of these, steps of the monotone fallback
  i64 rows = 0;           // size of the last working set
  double b = 0, b_corr = 0;
  double violation = 0;   // largest violation at the end
  bool indefinite = false;
};

// alpha, zeta (n): in, a start of which only the signs of alpha and zeta - alpha matter (all zero:
// none); out, the solution. delta (n): out, zeta - C over the privileged rows, with its own digits
// where it is small against C; zero elsewhere.
SvmPlusResult svmplus_solve(const SvmPlusData& data, double* alpha, double* zeta, double* delta,
                            const SvmPlusOptions& options, Pool& pool, const Check& check,
                            const SvmPlusReport& report);

}  // namespace lupi
