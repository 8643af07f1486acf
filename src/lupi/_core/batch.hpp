// Many small problems in one call: paths of problems that share a Gram matrix and differ in the costs,
// solved one after the other with warm starts; paths are independent and run on the pool's threads.
//
// A path is the work of one thread from beginning to end, so results do not depend on the number of
// threads, nor on what else is in the batch.
#pragma once
#include "svmplus.hpp"
#include "wsvm.hpp"

namespace lupi {

// Weighted SVMs with costs C[k] * weight: eq:svmw_dual for k = 0..m.
struct WsvmPath {
  i64 n, m;
  const double* gram;    // (n, n)
  const double* y;       // (n)
  const double* weight;  // (n)
  const double* C;       // (m)
  double* a;             // (m, n), out: y alpha
  i64* steps;            // (m), out
};

// As WeightedSVC solves a small problem: descent to tol, then the active-set finish to polish_tol.
void wsvm_paths(const std::vector<WsvmPath>& paths, double tol, i64 max_steps, double polish_tol,
                Pool& pool, const Check& check);

// A path of problems too large for wsvm_solve_small, on the calling thread: the same descent with the kernel
// in single precision beside the one in double, to `early`; then the finish where at most `few` variables
// are free, whose solution is exact, or else the descent down to tol. Steps that are spent are no error:
// the caller judges the solutions.
struct LargePathOptions {
  double tol, polish_tol, early;
  i64 few, max_steps;
};
// `room` holds that kernel: large_room(n) numbers.
i64 large_room(i64 n);
void wsvm_large_path(const WsvmPath& path, const LargePathOptions& options, float* room,
                     const Check& check);

// SVM+ with costs C[k] * weight and inverse_reg[k] = 1 / correction_reg: eq:svmp_dual for k = 0..m.
struct SvmPlusPath {
  i64 n, n_priv, m;
  const double* gram;       // (n, n)
  const double* gram_corr;  // (n_priv, n_priv)
  const double* y;          // (n)
  const i64* priv;          // (n)
  const double* weight;     // (n)
  const double* C;          // (m)
  const double* inverse_reg;  // (m)
  double* alpha;            // (m, n), out, like zeta and delta (see svmplus.hpp)
  double* zeta;
  double* delta;
  i64* steps;               // (m), out
};

void svmplus_paths(const std::vector<SvmPlusPath>& paths, const SvmPlusOptions& options, Pool& pool,
                   const Check& check);

}  // namespace lupi
