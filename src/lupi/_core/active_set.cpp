#include "active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dense.hpp"

namespace lupi {

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

double magnitude_of_v(const Kernel& kernel, const Box& box, const double* a) {
  std::vector<double> diag(static_cast<std::size_t>(box.n));
  kernel.diagonal(diag.data());
  double sum = 0, most = 0;
  for (i64 i = 0; i < box.n; ++i) {
    const double root = std::sqrt(std::abs(diag[std::size_t(i)]));
    sum += root * std::abs(a[i]);
    most = std::max(most, root);
  }
  return std::max(1.0, sum * most);
}

namespace {

// The Newton system on the free variables F with one equality, sum of the step = 0.
//
// One of them, the reference r, is expressed by the others: d_r = -sum of the rest. What is left is
// unconstrained, with the matrix H_ij = K_ij - K_ir - K_rj + K_rr, positive semidefinite, and the
// gradient v_i - v_r. H is factored by Cholesky; if that meets a small pivot, by Cholesky with
// pivoting, which splits F into an independent part P and a rest D whose columns of H depend on those
// of P: along e_j - H_PP^{-1} H_Pj, j in D, the objective is linear.
class FreeSystem {
 public:
  // K (m, m): the kernel among F.
  // False: a pivot so negative that the kernel is not positive semidefinite.
  bool factor(const std::vector<double>& K, i64 m, Pool& pool, const Check& check) {
    size_ = rank_ = m - 1;
    order_.resize(std::size_t(size_));
    std::iota(order_.begin(), order_.end(), 0);
    singular_ = false;
    if (size_ == 0) return true;
    double* H = regular_.prepare(size_);
    double largest = 0, magnitude = std::abs(K[0]);
    for (i64 i = 0; i < size_; ++i) {
      row_of_H(K, i, H + i * size_);
      largest = std::max(largest, H[i * size_ + i]);
      magnitude = std::max(magnitude, std::abs(K[std::size_t((i + 1) * m + i + 1)]));
    }
    // Rounding of the differences and of the elimination.
    const double tol = 2.3e-16 * (double(m) * largest + 8 * magnitude);
    bool regular = regular_.factor(pool, check);
    for (i64 i = 0; regular && i < size_; ++i)
      regular = regular_.pivot(i) * regular_.pivot(i) > 100 * tol;
    if (regular) return true;
    singular_ = true;
    return factor_pivoted(K, tol, largest, check);
  }

  i64 dependent() const { return size_ - rank_; }
  // Positions in F: the independent ones are at(0..rank), the dependent ones after them.
  i64 at(i64 k) const { return order_[std::size_t(k)] + 1; }
  i64 rank() const { return rank_; }

  // d (m): the Newton step from v (m), both in the order of F; zero on the dependent part.
  void newton(const std::vector<double>& v, std::vector<double>& d) {
    x_.resize(std::size_t(rank_));
    for (i64 k = 0; k < rank_; ++k) x_[std::size_t(k)] = v[std::size_t(at(k))] - v[0];
    if (singular_) {
      for (i64 k = 0; k < rank_; ++k) {  // U'
        double& x = x_[std::size_t(k)];
        for (i64 q = 0; q < k; ++q) x -= U(q, order_[std::size_t(k)]) * x_[std::size_t(q)];
        x /= U(k, order_[std::size_t(k)]);
      }
      solve_upper();
    } else if (rank_ > 0) {
      regular_.solve({x_.data()});
    }
    spread(d);
  }
  // d (m): the flat direction of the dependent variable k >= rank, with d = 1 there.
  void flat(i64 k, std::vector<double>& d) {
    x_.resize(std::size_t(rank_));
    // U' x = -H_Pj is solved by the column of the factor itself.
    for (i64 q = 0; q < rank_; ++q) x_[std::size_t(q)] = -U(q, order_[std::size_t(k)]);
    solve_upper();
    spread(d);
    d[std::size_t(at(k))] = 1;
    d[0] -= 1;
  }

 private:
  void row_of_H(const std::vector<double>& K, i64 i, double* out) const {
    const double *first = K.data(), *row = first + (i + 1) * (size_ + 1);
    for (i64 j = 0; j < size_; ++j) out[j] = (row[j + 1] - row[0]) - (first[j + 1] - first[0]);
  }

  // H = U'U with the columns of U in their own order, a row at a time: the pivot is the largest of what is
  // left of the diagonal, and what is below `tol` depends on the pivots before it.
  bool factor_pivoted(const std::vector<double>& K, double tol, double largest, const Check& check) {
    left_.resize(std::size_t(size_));
    column_.resize(std::size_t(size_));
    U_.clear();
    for (i64 i = 0; i < size_; ++i) {
      const double *first = K.data(), *row = first + (i + 1) * (size_ + 1);
      left_[std::size_t(i)] = (row[i + 1] - row[0]) - (first[i + 1] - first[0]);
    }
    for (rank_ = 0; rank_ < size_; ++rank_) {
      check();
      const auto best = std::max_element(
          order_.begin() + rank_, order_.end(),
          [&](i64 p, i64 q) { return left_[std::size_t(p)] < left_[std::size_t(q)]; });
      if (!(left_[std::size_t(*best)] > tol)) break;
      std::iter_swap(order_.begin() + rank_, best);
      const i64 p = order_[std::size_t(rank_)];
      for (i64 q = 0; q < rank_; ++q) column_[std::size_t(q)] = U(q, p);
      U_.resize(std::size_t((rank_ + 1) * size_));
      double* row = U_.data() + rank_ * size_;
      row_of_H(K, p, row);
      dense_loops().minus_rows(U_.data(), size_, column_.data(), rank_, row, size_);
      const double root = std::sqrt(left_[std::size_t(p)]);
      for (i64 j = 0; j < size_; ++j) row[j] /= root;
      row[p] = root;
      for (auto j = order_.begin() + rank_ + 1; j != order_.end(); ++j)
        left_[std::size_t(*j)] -= row[*j] * row[*j];
    }
    for (auto j = order_.begin() + rank_; j != order_.end(); ++j)
      if (left_[std::size_t(*j)] < -1e6 * tol && left_[std::size_t(*j)] < -1e-7 * largest) return false;
    return true;
  }
  double U(i64 q, i64 column) const { return U_[std::size_t(q * size_ + column)]; }
  // x <- U_PP^{-1} x
  void solve_upper() {
    for (i64 k = rank_ - 1; k >= 0; --k) {
      double& x = x_[std::size_t(k)];
      for (i64 q = k + 1; q < rank_; ++q) x -= U(k, order_[std::size_t(q)]) * x_[std::size_t(q)];
      x /= U(k, order_[std::size_t(k)]);
    }
  }
  void spread(std::vector<double>& d) {
    d.assign(std::size_t(size_ + 1), 0.0);
    for (i64 k = 0; k < rank_; ++k) {
      d[std::size_t(at(k))] = x_[std::size_t(k)];
      d[0] -= x_[std::size_t(k)];
    }
  }

  i64 size_ = 0, rank_ = 0;
  bool singular_ = false;
  SymmetricFactor regular_;
  std::vector<double> U_, left_, column_, x_;  // U_ (rank, size)
  std::vector<i64> order_;
};

}  // namespace

// The method. With F the variables strictly between their bounds, a Newton step minimises the
// objective over F with the others fixed; it is cut at the first bound, whose variable leaves F. After
// a full step v is the same number b, the offset, on all of F; where the kernel among F is singular
// (repeated rows, linear kernels) some dependent variables may disagree, and each is taken along its
// flat direction until the disagreement is gone or something reaches a bound. Then every bound
// variable is compared with b: one that may rise with v > b, or fall with v < b, enters F. Every step
// is feasible and none raises the objective. Many variables enter at once; if a step after that is
// blocked at length zero, from then on only the worst enters, which always admits a step of positive
// length. v is recomputed from a before it decides that all is done.
PolishResult wsvm_polish(const Kernel& kernel, const double* gram, const Box& box, double* a,
                         double* v, double tol, i64 max_free, i64 max_iterations, Pool& pool,
                         const Check& check) {
  PolishResult result;
  const i64 n = box.n;
  std::vector<char> is_free(std::size_t(n), 0);
  std::vector<i64> F, entered;
  std::vector<double> block, d, vF, change(static_cast<std::size_t>(n));
  FreeSystem system;
  bool only_worst = false;

  auto subtract_columns = [&](const i64* idx, const std::vector<double>& coef, double* out) {
    if (gram) {
      for (std::size_t r = 0; r < coef.size(); ++r) {
        const double x = coef[r];
        const double* g = gram + idx[r] * n;
        for (i64 j = 0; j < n; ++j) out[j] -= x * g[j];
      }
    } else {
      kernel.combine(idx, i64(coef.size()), coef.data(), change.data(), pool, check);
      for (i64 j = 0; j < n; ++j) out[j] -= change[std::size_t(j)];
    }
  };
  auto refresh = [&] {  // v = y - K a from scratch
    std::vector<i64> support;
    std::vector<double> coef;
    for (i64 i = 0; i < n; ++i)
      if (a[i] != 0) support.push_back(i), coef.push_back(a[i]);
    std::copy(box.y, box.y + n, v);
    subtract_columns(support.data(), coef, v);
  };
  // a <- a + t d on F for the largest t <= longest that stays within the bounds; whoever reaches one
  // leaves F. Returns t.
  auto move = [&](double longest) {
    double t = longest;
    for (std::size_t r = 0; r < F.size(); ++r) {
      const i64 i = F[r];
      if (d[r] == 0) continue;
      const double room = d[r] > 0 ? box.hi[i] - a[i] : a[i] - box.lo[i];
      if (std::abs(d[r]) * t > room) t = room / std::abs(d[r]);
    }
    for (std::size_t r = 0; r < F.size(); ++r) {
      const i64 i = F[r];
      const double before = a[i], room = d[r] > 0 ? box.hi[i] - a[i] : a[i] - box.lo[i];
      if (d[r] != 0 && t < longest && std::abs(d[r]) * t >= room * (1 - 1e-14))
        a[i] = d[r] > 0 ? box.hi[i] : box.lo[i];
      else
        a[i] = std::min(std::max(a[i] + t * d[r], box.lo[i]), box.hi[i]);
      if (!(a[i] > box.lo[i] && a[i] < box.hi[i]) && d[r] != 0) is_free[std::size_t(i)] = 0;
      d[r] = a[i] - before;
    }
    if (t > 0) subtract_columns(F.data(), d, v);
    return t;
  };
  auto load_vF = [&] {
    vF.resize(F.size());
    for (std::size_t r = 0; r < F.size(); ++r) vF[r] = v[F[r]];
  };

  for (i64 i = 0; i < n; ++i) is_free[std::size_t(i)] = a[i] > box.lo[i] && a[i] < box.hi[i];
  i64 up, low;
  int refinements = 0;
  // From scratch, since a descent with short rows leaves its errors in v; steps then add rounding only, of
  // about `floor` each.
  refresh();
  bool exact = true, settled = false;
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
    double b = 0;
    if (m > 0) {
      block.resize(std::size_t(m * m));
      if (gram) {
        for (i64 r = 0; r < m; ++r)
          for (i64 k = 0; k < m; ++k)
            block[std::size_t(r * m + k)] = gram[F[std::size_t(r)] * n + F[std::size_t(k)]];
      } else {
        kernel.square_block(F.data(), m, block.data(), m, pool);
      }
      if (!system.factor(block, m, pool, check)) {
        result.indefinite = true;
        break;
      }
      load_vF();
      system.newton(vF, d);
      const double length = move(1.0);
      exact = false;
      if (length < 1) {
        if (length <= 0 && !entered.empty()) only_worst = true;
        continue;
      }
      load_vF();
      b = vF[0];
      i64 worst = -1;
      double most = 0.5 * tol;
      for (i64 k = system.rank(); k < m - 1; ++k) {
        const double off = std::abs(vF[std::size_t(system.at(k))] - b);
        if (off > most) most = off, worst = k;
      }
      if (worst >= 0) {
        system.flat(worst, d);
        double slope = 0, curvature = 0;
        for (i64 r = 0; r < m; ++r) slope += d[std::size_t(r)] * vF[std::size_t(r)];
        if (slope < 0) {
          for (double& x : d) x = -x;
          slope = -slope;
        }
        // What rounding leaves of the curvature counts once the step is long.
        std::vector<double> Kd(static_cast<std::size_t>(n), 0.0);
        subtract_columns(F.data(), d, Kd.data());
        for (i64 r = 0; r < m; ++r) curvature -= d[std::size_t(r)] * Kd[std::size_t(F[std::size_t(r)])];
        const double longest = curvature > 0 ? slope / curvature : std::numeric_limits<double>::max();
        move(longest);
        continue;
      }
    }
    // The objective is minimal over F. Is it over everything?
    const double floor = 1e-15 * magnitude_of_v(kernel, box, a);
    const double goal = std::max(tol, floor);
    if (!exact && goal < 10 * double(result.iterations + 1) * floor) {
      refresh();
      exact = true;
    }
    result.violation = largest_violation(box, a, v, &up, &low);
    settled = !(result.violation > goal);
    if (settled) break;
    if (m == 0) {  // no offset yet: the most violating pair enters
      is_free[std::size_t(up)] = is_free[std::size_t(low)] = 1;
      entered = {up, low};
      continue;
    }
    load_vF();
    b = vF[0];
    entered.clear();
    for (i64 i = 0; i < n; ++i) {
      if (is_free[std::size_t(i)] || !(box.hi[i] > box.lo[i])) continue;
      const double excess = a[i] < box.hi[i] && v[i] > b   ? v[i] - b
                            : a[i] > box.lo[i] && v[i] < b ? b - v[i]
                                                           : 0;
      change[std::size_t(i)] = excess;
      if (excess > 0.5 * goal) entered.push_back(i);
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
    // Nothing enters though the violation is above the goal: the free variables are not at equality,
    // because of rounding. A few more Newton steps refine them.
    if (entered.empty() && ++refinements > 3) break;
  }
  if (!exact && !settled) refresh();
  result.violation = largest_violation(box, a, v);
  return result;
}

}  // namespace lupi
