// Working-set descent for the dual of the weighted SVM, eq:svmw_dual.
//
// In signed variables a_i = y_i alpha_i the dual is
//
//     min  1/2 a'Ka - y'a    s.t.  sum(a) = 0,  lo <= a <= hi,
//     lo_i = 0, hi_i = c_i  (y_i = +1);   lo_i = -c_i, hi_i = 0  (y_i = -1).
//
// With v = y - K a (so v_i = y_i - f(x_i) + b), a is optimal iff
//
//     m = max { v_i : a_i < hi_i }  <=  M = min { v_i : a_i > lo_i },
//
// and every b in [m, M] is then an optimal offset (thm:svmw_unique). m - M is the violation in
// units of the decision function, the stopping rule of LIBSVM.
#pragma once
#include "active_set.hpp"

namespace lupi {

struct DescentOptions {
  double tol = 1e-3;
  i64 max_steps = 0;        // two-variable steps
  i64 working_set = 1024;   // variables of one set
  bool sweep = true;        // begin with a sweep: from a cold start
};

struct DescentResult {
  i64 steps = 0;
  i64 sets = 0;             // working sets
  double violation = 0;
  bool partial = false;     // v is up to date only for some of the variables
};

struct Progress {
  i64 steps, sets;
  double violation;
};
using Report = std::function<void(const Progress&)>;

// From feasible a and v = y - K a to violation <= tol, or max_steps; both are updated in place. Rows
// come from `rows` stored as S, so afterwards v carries errors of that size. Near the end, or where the
// cache is full, variables that are at a bound and far from leaving it are put aside, which makes rows
// shorter; the violation is then that of the others, and the caller, who knows v anew, looks at all.
template <class S>
DescentResult wsvm_descend(RowCache<S>& rows, const Box& box, double* a, double* v,
                           const DescentOptions& options, Pool& pool, const Check& check,
                           const Report& report);

struct SmallResult {
  i64 steps = 0, polish_iterations = 0;
  double violation = 0;
  bool indefinite = false;
};

// Small problems, with the whole kernel at hand in double: descent on all variables at once, then the
// active-set finish to polish_tol; and again where the first attempt was not enough.
SmallResult wsvm_solve_small(const Kernel& kernel, const double* gram, const Box& box, double* a,
                             double* v, const DescentOptions& options, double polish_tol, Pool& pool,
                             const Check& check);

}  // namespace lupi
