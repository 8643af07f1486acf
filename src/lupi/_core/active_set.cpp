#include "active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lupi {

Lapack& lapack() {
  static Lapack table;
  return table;
}

bool cholesky(double* A, i64 n, const Check& check) {
  // Right-looking; 512 columns at a time keep the pause between two checks below 50 ms up to
  // n = 20,000 and cost nothing against one call for the whole matrix.
  constexpr i64 block = 512;
  char lower = 'L', right = 'R', trans = 'T', plain = 'N';
  double one = 1, minus = -1;
  int ld = int(n);
  for (i64 k = 0; k < n; k += block) {
    int nb = int(std::min(block, n - k)), info = 0;
    double* Akk = A + k * n + k;
    lapack().dpotrf(&lower, &nb, Akk, &ld, &info);
    if (info != 0) return false;
    int rest = int(n - k - nb);
    if (rest == 0) break;
    double* Aik = Akk + nb;  // column-major: the rows below the diagonal block
    lapack().dtrsm(&right, &lower, &trans, &plain, &rest, &nb, &one, Akk, &ld, Aik, &ld);
    for (i64 j = k + nb; j < n; j += block) {
      check();
      int cols = int(std::min(block, n - j)), rows = int(n - j);
      double* Ljk = A + k * n + j;
      lapack().dgemm(&plain, &trans, &rows, &cols, &nb, &minus, Ljk, &ld, Ljk, &ld, &one,
                     A + j * n + j, &ld);
    }
  }
  return true;
}

void cholesky_solve(const double* L, i64 n, double* X, i64 k) {
  char lower = 'L';
  int ni = int(n), ki = int(k), info = 0;
  lapack().dpotrs(&lower, &ni, &ki, const_cast<double*>(L), &ni, X, &ni, &info);
}

double largest_violation(const Box& box, const double* a, const double* v, i64* up, i64* low) {
  double m = -std::numeric_limits<double>::infinity(), M = -m;
  i64 i = -1, j = -1;
  for (i64 k = 0; k < box.n; ++k) {
    if (a[k] < box.hi[k] && v[k] > m) m = v[k], i = k;
    if (a[k] > box.lo[k] && v[k] < M) M = v[k], j = k;
  }
  if (up) *up = i;
  if (low) *low = j;
  return m - M;
}

// The method. With F the variables strictly between their bounds, the Newton step (d, b) solves
//
//     (K_FF + ridge) d + b 1 = v_F,     1'd = -sum(a),
//
// that is, it minimises the objective over F with the others fixed; b is then the offset. The step is
// cut at the first bound, whose variable leaves F. After a full step every bound variable is compared
// with b: one that may rise with v > b, or fall with v < b, enters F. Every step is feasible and none
// raises the objective. Many variables enter at once; if the first step after that is blocked at
// length zero, the blocking ones go back, and from then on only the worst enters, which always admits
// a step of positive length. The ridge makes the step a proximal one: a direction along which K_FF is
// flat (repeated rows, numerically dependent columns) gets a very long step and so ends at a bound,
// which removes the dependence; v is always recomputed from a, never from the ridged matrix.
PolishResult wsvm_polish(const Kernel& kernel, const double* gram, const Box& box, double* a,
                         double* v, double tol, i64 max_free, i64 max_iterations, Pool& pool,
                         const Check& check) {
  PolishResult result;
  const i64 n = box.n;
  std::vector<char> is_free(std::size_t(n), 0);
  std::vector<i64> F, entered;
  std::vector<double> block, X, step;
  std::vector<double> change(static_cast<std::size_t>(n));
  double ridge_scale = 1e-13;
  bool only_worst = false;

  auto subtract_columns = [&](const i64* idx, i64 m, const double* coef, double* out) {
    if (gram) {
      for (i64 r = 0; r < m; ++r) {
        const double x = coef[r];
        const double* g = gram + idx[r] * n;
        for (i64 j = 0; j < n; ++j) out[j] -= x * g[j];
      }
    } else {
      kernel.combine(idx, m, coef, change.data(), pool, check);
      for (i64 j = 0; j < n; ++j) out[j] -= change[std::size_t(j)];
    }
  };
  auto refresh = [&] {  // v = y - K a from scratch
    std::vector<i64> support;
    std::vector<double> coef;
    for (i64 i = 0; i < n; ++i)
      if (a[i] != 0) support.push_back(i), coef.push_back(a[i]);
    std::copy(box.y, box.y + n, v);
    subtract_columns(support.data(), i64(support.size()), coef.data(), v);
  };

  for (i64 i = 0; i < n; ++i) is_free[std::size_t(i)] = a[i] > box.lo[i] && a[i] < box.hi[i];
  i64 up, low;
  double b = 0;
  for (; result.iterations < max_iterations; ++result.iterations) {
    check();
    F.clear();
    for (i64 i = 0; i < n; ++i)
      if (is_free[std::size_t(i)]) F.push_back(i);
    const i64 m = i64(F.size());
    if (m > max_free) {
      result.too_large = true;
      break;
    }
    bool full_step = true;
    if (m > 0) {
      block.resize(std::size_t(m * m));
      if (gram) {
        for (i64 r = 0; r < m; ++r)
          for (i64 k = 0; k < m; ++k)
            block[std::size_t(r * m + k)] = gram[F[std::size_t(r)] * n + F[std::size_t(k)]];
      } else {
        kernel.square_block(F.data(), m, block.data(), m, pool);
      }
      double largest = 0;
      for (i64 r = 0; r < m; ++r) largest = std::max(largest, std::abs(block[std::size_t(r * m + r)]));
      if (!(largest > 0)) largest = 1;
      for (i64 r = 0; r < m; ++r) block[std::size_t(r * m + r)] += ridge_scale * largest;
      if (!cholesky(block.data(), m, check)) {
        // Rounding makes a semidefinite block slightly negative; more than that is a kernel that is
        // not positive semidefinite.
        ridge_scale *= 100;
        if (ridge_scale > 1e-6) {
          result.indefinite = true;
          break;
        }
        continue;
      }
      X.resize(std::size_t(2 * m));
      for (i64 r = 0; r < m; ++r) {
        X[std::size_t(r)] = v[F[std::size_t(r)]];
        X[std::size_t(m + r)] = 1.0;
      }
      cholesky_solve(block.data(), m, X.data(), 2);
      double s1 = 0, s2 = 0;
      for (i64 r = 0; r < m; ++r) s1 += X[std::size_t(r)], s2 += X[std::size_t(m + r)];
      const double drift = std::accumulate(a, a + n, 0.0);
      b = (s1 + drift) / s2;
      step.resize(std::size_t(m));
      double length = 1;
      for (i64 r = 0; r < m; ++r) {
        const i64 i = F[std::size_t(r)];
        const double d = X[std::size_t(r)] - b * X[std::size_t(m + r)];
        step[std::size_t(r)] = d;
        const double room = d > 0 ? box.hi[i] - a[i] : a[i] - box.lo[i];
        if (std::abs(d) * length > room) length = room / std::abs(d);
      }
      full_step = length >= 1;
      for (i64 r = 0; r < m; ++r) {
        const i64 i = F[std::size_t(r)];
        const double d = step[std::size_t(r)] * length, before = a[i];
        const double room = d > 0 ? box.hi[i] - a[i] : a[i] - box.lo[i];
        // Blocked, or within rounding of the bound.
        if (!full_step && std::abs(d) >= room * (1 - 1e-12)) {
          a[i] = d > 0 ? box.hi[i] : box.lo[i];
          is_free[std::size_t(i)] = 0;
        } else {
          a[i] += d;
          if (a[i] >= box.hi[i]) a[i] = box.hi[i], is_free[std::size_t(i)] = 0;
          if (a[i] <= box.lo[i]) a[i] = box.lo[i], is_free[std::size_t(i)] = 0;
        }
        step[std::size_t(r)] = a[i] - before;
      }
      if (length > 0) subtract_columns(F.data(), m, step.data(), v);
      if (!full_step) {
        if (length <= 0 && !entered.empty()) only_worst = true;
        continue;
      }
    }
    // The objective is minimal over F. Is it over everything?
    refresh();
    result.violation = largest_violation(box, a, v, &up, &low);
    if (!(result.violation > tol)) break;
    entered.clear();
    if (m == 0) {  // no offset yet: the most violating pair enters
      is_free[std::size_t(up)] = is_free[std::size_t(low)] = 1;
      entered = {up, low};
      continue;
    }
    for (i64 i = 0; i < n; ++i) {
      if (is_free[std::size_t(i)]) continue;
      const double excess = a[i] < box.hi[i] && box.hi[i] > box.lo[i] && v[i] > b   ? v[i] - b
                            : a[i] > box.lo[i] && box.hi[i] > box.lo[i] && v[i] < b ? b - v[i]
                                                                                   : 0;
      change[std::size_t(i)] = excess;
      if (excess > 0.5 * tol) entered.push_back(i);
    }
    const std::size_t limit = only_worst ? 1 : std::size_t(std::max<i64>(1, m / 4));
    if (entered.size() > limit) {
      std::nth_element(entered.begin(), entered.begin() + i64(limit), entered.end(),
                       [&](i64 p, i64 q) {
                         const double x = change[std::size_t(p)], z = change[std::size_t(q)];
                         return x > z || (x == z && p < q);
                       });
      entered.resize(limit);
    }
    for (i64 i : entered) is_free[std::size_t(i)] = 1;
    // Nothing enters though the violation is above tol: the free variables themselves are not at
    // equality, because of rounding. Another Newton step refines them.
  }
  refresh();
  result.violation = largest_violation(box, a, v);
  return result;
}

}  // namespace lupi
