// The active-set finish of the weighted SVM.
#pragma once
#include "kernel.hpp"

namespace lupi {

// State shared with wsvm.hpp: the problem min 1/2 a'Ka - y'a, lo <= a <= hi, sum(a) = 0.
struct Box {
  i64 n;
  const double* y;
  const double* lo;
  const double* hi;
};

struct PolishResult {
  i64 iterations = 0;
  double violation = 0;     // max v (may rise) - min v (may fall)
  bool indefinite = false;  // the kernel among the free variables is not positive semidefinite
  bool too_large = false;   // more than max_free free variables: nothing done
};

// Largest KKT violation of (a, v): max v over a < hi minus min v over a > lo (-inf where one is empty).
double largest_violation(const Box& box, const double* a, const double* v, i64* up = nullptr,
                         i64* low = nullptr);

// Size of the sums that make up v = y - K a: rounding errors of v are about 1e-16 times this.
double magnitude_of_v(const Kernel& kernel, const Box& box, const double* a);

// Active-set descent to violation <= tol, from a feasible `a`; v = y - K a is computed anew and returned.
// gram: the whole (n, n) kernel in double where it is at hand, else null.
PolishResult wsvm_polish(const Kernel& kernel, const double* gram, const Box& box, double* a,
                         double* v, double tol, i64 max_free, i64 max_iterations, Pool& pool,
                         const Check& check);

}  // namespace lupi
