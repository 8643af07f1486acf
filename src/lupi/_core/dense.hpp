// Symmetric positive definite systems: a blocked Cholesky factor on the tile loops.
//
// The pool's threads do the work, so that the solvers never meet the threads of a BLAS: results are
// bitwise the same for any number of threads, and many small systems cost what their flops cost.
#pragma once
#include <vector>

#include "pool.hpp"

namespace lupi {

class SymmetricFactor {
 public:
  // The matrix (n, n), row-major, to be written: its upper triangle counts.
  double* prepare(i64 n);
  i64 size() const { return n_; }

  // A = U'U. False where a pivot is not positive. Rows below `skip_rows` are zero in the columns
  // [skip_begin, skip_end), and stay so: their work is left out.
  bool factor(Pool& pool, const Check& check, i64 skip_rows = 0, i64 skip_begin = 0, i64 skip_end = 0);

  // U[i][i]
  double pivot(i64 i) const { return a_[std::size_t(i * n_ + i)]; }

  // x <- A^{-1} x for each of the vectors.
  void solve(const std::vector<double*>& x) const;

 private:
  struct Panels;
  i64 n_ = 0;
  std::vector<double> a_;  // U above the diagonal, U' below
};

}  // namespace lupi
