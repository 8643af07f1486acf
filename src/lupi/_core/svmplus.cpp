#include "svmplus.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace lupi {

namespace {

using Vec = std::vector<double>;
using Index = std::vector<i64>;

// Ridge on the diagonal of the Newton system, relative to it: what the factorisation of a singular
// block needs. Each step starts at the last point (a proximal step), so the ridge changes the way and
// not the end. Where a pivot shows that a block is singular up to rounding, `singular_ridge`: rounding
// in a factor of some hundred rows is about 1e-13, and solves must keep some digits.
constexpr double first_ridge = 1e-13, singular_ridge = 1e-9, small_pivot = 1e-11;
// A block that needs more is not positive semidefinite.
constexpr double largest_ridge = 1e-4;
// What is added to all values of a kernel (see NewtonSystem::factor) where its diagonal is smaller than
// this, in units in which costs and margins are near 1.
constexpr double least_added = 1e-3;
// Exchanges without a new least number of violations after which something else is tried: first a
// larger tolerance, then the monotone method.
constexpr int patience = 12;
// Steps with the same factor that wear the effect of the ridge off.
constexpr int max_refinements = 12;
// What the constraints may be missed by, relative to the sums that make them up.
constexpr double balanced = 1e-13;
// Conjugate steps on one set of free variables.
constexpr int max_conjugate = 60;
// Monotone rounds without progress that numbers could show, after which the end is reached.
constexpr int max_idle = 10;
// Rows up to which all of them are the working set.
constexpr i64 small_problem = 128;
// Share of the rows of a working set with a positive variable above which the problem counts as one
// where most rows have: 0.5 to 0.65 where few have in the end, 0.75 and more where most have.
constexpr double crowded = 0.7;
// Whole kernel matrices are kept while both take at most this: forming them anew would cost more.
constexpr double kept_bytes = 1e8;

// A kernel times a factor: kept as a whole where that is small, else formed where it is wanted.
class Values {
 public:
  Values(const Kernel& kernel, double factor, bool keep, Pool& pool, const Check& check)
      : kernel_(kernel), factor_(factor), pool_(pool), check_(check) {
    if (!keep) return;
    const i64 n = kernel.n();
    all_ = std::make_unique<Buffer<double>>(std::size_t(n * n));
    Index idx(static_cast<std::size_t>(n));
    std::iota(idx.begin(), idx.end(), 0);
    kernel.square_block(idx.data(), n, all_->data(), n, pool);
    if (factor != 1)
      for (i64 k = 0; k < n * n; ++k) all_->data()[k] *= factor;
  }
  bool kept() const { return all_ != nullptr; }
  // out (m, m): the values among idx.
  void block(const Index& idx, Vec& out) const {
    const i64 m = i64(idx.size()), n = kernel_.n();
    out.resize(std::size_t(m * m));
    if (!all_) {
      kernel_.square_block(idx.data(), m, out.data(), m, pool_);
      if (factor_ != 1)
        for (double& x : out) x *= factor_;
      return;
    }
    for (i64 r = 0; r < m; ++r) {
      const double* from = all_->data() + idx[std::size_t(r)] * n;
      double* to = out.data() + r * m;
      for (i64 k = 0; k < m; ++k) to[k] = from[idx[std::size_t(k)]];
    }
  }
  // out (n): sum_r coef[r] k(idx[r], .)
  void combine(const Index& idx, const Vec& coef, Vec& out) const {
    const i64 m = i64(idx.size()), n = kernel_.n();
    out.assign(std::size_t(n), 0.0);
    if (m == 0) return;
    if (!all_) {
      kernel_.combine(idx.data(), m, coef.data(), out.data(), pool_, check_);
      for (double& x : out) x *= factor_;
      return;
    }
    std::vector<const double*> rows;
    Vec minus;
    for (std::size_t r = 0; r < idx.size(); ++r) {
      rows.push_back(all_->data() + idx[r] * n);
      minus.push_back(-coef[r]);
    }
    row_loops<double>().subtract(rows.data(), minus.data(), m, 0, n, out.data(), Scale());
  }

 private:
  const Kernel& kernel_;
  double factor_;
  Pool& pool_;
  const Check& check_;
  std::unique_ptr<Buffer<double>> all_;
};

// The 2 x 2 system of the two constraints, y'alpha and sum of delta, in a metric in which each free
// variable weighs `size`: what a step along weight * (y u1 + u2) changes of them.
struct Constraints {
  long double m11 = 0, m12 = 0, m22 = 0;  // the system
  long double s1 = 0, s2 = 0;             // its right-hand side
  double u1 = 0, u2 = 0;                  // its solution
  void both(double y, double size) { m11 += size, m12 += y * size, m22 += size; }  // alpha = zeta
  void first(double size) { m11 += size; }                                         // alpha alone
  void second(double size) { m22 += size; }                                        // beta
  // A constraint without a free variable keeps zero; where the two coincide (free are alpha = zeta of
  // one class only) the first one serves both.
  void solve() {
    const long double determinant = m11 * m22 - m12 * m12;
    u1 = u2 = 0;
    if (determinant > 1e-15L * m11 * m22) {
      u1 = double((m22 * s1 - m12 * s2) / determinant);
      u2 = double((m11 * s2 - m12 * s1) / determinant);
    } else if (m11 > 0 && m11 >= m22) {
      u1 = double(s1 / m11);
    } else if (m22 > 0) {
      u2 = double(s2 / m22);
    }
  }
};

// What is free in a row. Privileged rows: alpha and beta apart; the others: alpha between its bounds.
enum State : char { alpha_free = 1, beta_free = 2, at_cost = 4 };

// The Newton system of the free variables with its two equality constraints.
//
// The variables are B: zeta (beta > 0), D: alpha where zeta is another variable or fixed, and T:
// alpha = zeta (beta = 0). With Q = YKY, in this order, since B and D do not meet,
//
//     | S_BB    0     S_BT        |
//     |  0     Q_DD   Q_DT        |
//     | S_TB   Q_TD   Q_TT + S_TT |
class NewtonSystem {
 public:
  Index T, B, D;      // local rows
  Vec x;              // right-hand side, then solution: of B, D, T
  double* xB() { return x.data(); }
  double* xD() { return x.data() + B.size(); }
  double* xT() { return x.data() + B.size() + D.size(); }

  bool is_for(const std::vector<char>& state) const { return valid_ && state == state_; }
  void forget() { valid_ = false; }

  // K (m, m), S (mp, mp) with local privileged index lp; false where the matrix is indefinite.
  //
  // add_K and add_S are added to all entries of the kernels: on the constraints' hyperplanes that
  // changes the objective by a constant, and it keeps the constraints' own 2 x 2 system well
  // conditioned where the kernels are singular. Where they are not, it costs digits: then they are zero.
  bool factor(const std::vector<char>& state, const Vec& K, double add_K, i64 m, const Vec& S,
              double add_S, i64 mp, const Index& lp, const Vec& y, double ridge, Pool& pool,
              const Check& check) {
    valid_ = false;
    state_ = state;
    add_K_ = add_K, add_S_ = add_S;
    T.clear(), B.clear(), D.clear();
    for (i64 k = 0; k < m; ++k) {
      const char s = state[std::size_t(k)];
      const bool tied = lp[std::size_t(k)] >= 0 && !(s & beta_free);
      if (s & beta_free) B.push_back(k);
      if (s & alpha_free) (tied ? T : D).push_back(k);
    }
    const i64 nb = i64(B.size()), nd = i64(D.size()), nt = i64(T.size()), n = nb + nd + nt;
    priv_.clear(), sign_.clear(), own_.clear();
    for (const i64 k : B) priv_.push_back(lp[std::size_t(k)]);
    for (const i64 k : T) priv_.push_back(lp[std::size_t(k)]);
    for (const i64 k : D) own_.push_back(k), sign_.push_back(y[std::size_t(k)]);
    for (const i64 k : T) own_.push_back(k), sign_.push_back(y[std::size_t(k)]);
    double* H = factor_.prepare(n);
    // Rows of B hold S against B and T, those of D hold Q against D and T, those of T both.
    pool.run(n, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        double* row = H + i * n;
        if (i < nb) {
          const double* from = S.data() + priv_[std::size_t(i)] * mp;
          for (i64 j = i; j < nb; ++j) row[j] = from[priv_[std::size_t(j)]] + add_S;
          for (i64 j = nb; j < nb + nd; ++j) row[j] = 0;
          for (i64 j = nb; j < nb + nt; ++j) row[nd + j] = from[priv_[std::size_t(j)]] + add_S;
          continue;
        }
        const i64 r = i - nb;
        const double* from = K.data() + own_[std::size_t(r)] * m;
        const double sign = sign_[std::size_t(r)];
        for (i64 j = r; j < nd + nt; ++j)
          row[nb + j] = sign * sign_[std::size_t(j)] * (from[own_[std::size_t(j)]] + add_K);
        if (r < nd) continue;
        const double* corr = S.data() + priv_[std::size_t(i - nd)] * mp;
        for (i64 j = i - nd; j < nb + nt; ++j) row[nd + j] += corr[priv_[std::size_t(j)]] + add_S;
      }
    });
    diagonal_.resize(std::size_t(n));
    const i64 ends[] = {0, nb, nb + nd, n};
    for (int part = 0; part < 3; ++part) {
      double largest = 0;
      for (i64 i = ends[part]; i < ends[part + 1]; ++i) largest = std::max(largest, std::abs(H[i * n + i]));
      const double least = largest > 0 ? 1e-12 * largest : 1.0;  // a zero row needs a pivot too
      for (i64 i = ends[part]; i < ends[part + 1]; ++i) {
        diagonal_[std::size_t(i)] = std::max(std::abs(H[i * n + i]), least);
        H[i * n + i] += ridge * diagonal_[std::size_t(i)];
      }
    }
    if (!factor_.factor(pool, check, nb, nb, nb + nd)) return false;

    // The constraints: y'alpha (D and T), sum of delta (B and T); later their solutions.
    first_.assign(std::size_t(n), 0.0), second_.assign(std::size_t(n), 1.0);
    for (i64 j = 0; j < nd + nt; ++j) first_[std::size_t(nb + j)] = sign_[std::size_t(j)];
    for (i64 j = nb; j < nb + nd; ++j) second_[std::size_t(j)] = 0;
    bool both = false;
    for (i64 j = nd; j < nd + nt; ++j) both = both || sign_[std::size_t(j)] != sign_[std::size_t(nd)];
    rank_ = both || (nt > 0) + (nb > 0) + (nd > 0) >= 2 ? 2 : n > 0 ? 1 : 0;
    constraints_solved_ = false;
    return valid_ = true;
  }

  // x <- the minimiser of 1/2 x'Hx - x'r over {y'x_alpha = r1, sum x_delta = r2}, r given in x.
  // (u1, u2): the multipliers.
  void minimise(double r1, double r2, double* u1, double* u2) {
    if (constraints_solved_) {
      factor_.solve({x.data()});
    } else {  // with the constraints' own right-hand sides: one pass over the factor for three
      factor_.solve({x.data(), first_.data(), second_.data()});
      constraints_.m11 = alpha_sum(first_);
      constraints_.m12 = alpha_sum(second_);
      constraints_.m22 = delta_sum(second_);
      constraints_solved_ = true;
    }
    constraints_.s1 = alpha_sum(x) - r1;
    constraints_.s2 = delta_sum(x) - r2;
    constraints_.solve();
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] -= constraints_.u1 * first_[i] + constraints_.u2 * second_[i];
    // What add_K and add_S make of the gradient, on the constraints.
    *u1 = constraints_.u1 + add_K_ * r1;
    *u2 = constraints_.u2 + add_S_ * r2;
  }

  // How many of the two constraints the free variables can tell apart.
  int rank() const { return rank_; }
  // The smallest pivot over the diagonal it came from.
  double least_pivot() const {
    double least = 1;
    for (i64 i = 0; i < factor_.size(); ++i)
      least = std::min(least, factor_.pivot(i) * factor_.pivot(i) / diagonal_[std::size_t(i)]);
    return least;
  }

 private:
  double alpha_sum(const Vec& v) const {
    double sum = 0;
    for (std::size_t j = 0; j < sign_.size(); ++j) sum += sign_[j] * v[B.size() + j];
    return sum;
  }
  double delta_sum(const Vec& v) const {
    const auto middle = v.begin() + std::ptrdiff_t(B.size());
    return std::accumulate(v.begin(), middle, 0.0) +
           std::accumulate(middle + std::ptrdiff_t(D.size()), v.end(), 0.0);
  }

  bool valid_ = false, constraints_solved_ = false;
  std::vector<char> state_;
  Index priv_, own_;  // columns of S of B and T, of K of D and T
  Vec sign_;          // labels of D and T
  SymmetricFactor factor_;
  Vec diagonal_, first_, second_;
  int rank_ = 0;
  double add_K_ = 0, add_S_ = 0;
  Constraints constraints_;
};

enum class Outcome { solved, stuck, out_of_steps };

// The problem on the rows of a working set, everything outside fixed. A point is kept by alpha and
// delta = zeta - C: where the correction is small against C, so is delta, and S delta is exact.
class Restricted {
 public:
  explicit Restricted(Pool& pool) : pool_(pool) {}

  i64 m = 0, mp = 0;
  Index row, lp, prow;   // rows of the problem; local privileged index; its privileged rows
  Vec K, S, y, C;
  Vec linear_f, linear_xi;  // (m), (mp): parts of f and xi from outside
  double sum_alpha = 0;     // y'alpha of the set
  double sum_delta = 0;
  std::vector<char> state;
  Vec alpha, delta;         // (m); delta of meaning for privileged rows only
  double b = 0, b_corr = 0;
  i64 iterations = 0, cautious = 0;
  bool indefinite = false;  // a kernel block that is not positive semidefinite was met

  bool privileged(i64 k) const { return lp[std::size_t(k)] >= 0; }
  void changed_rows();

  // From a feasible point: the solution, or the best feasible point that was met. Conditions are met to
  // eps, or where rounding forbids it, to something between eps and eps_most.
  Outcome solve(double eps, double eps_most, i64 limit, const Check& check);

 private:
  Outcome exchange(double eps, double eps_most, i64 limit, const Check& check);
  Outcome descend(double eps, i64 limit, const Check& check);
  Outcome minimise_face(double eps, i64 limit, const Check& check);
  bool step(bool balance, bool keep_digits, const Check& check);
  void stay_balanced(Vec& change_alpha, Vec& change_delta) const;
  double move(Vec& change_alpha, Vec& change_delta, double slope, double longest, bool* blocked);
  void product(const Vec& change_alpha, const Vec& change_delta);
  bool repair();
  void rebalance();
  void recompute();
  void add(const Vec& change_alpha, const Vec& change_delta);
  double beta(i64 k) const {
    const auto s = std::size_t(k);
    return C[s] + delta[s] - alpha[s];
  }
  double slack(i64 k) const { return privileged(k) ? xi_[std::size_t(lp[std::size_t(k)])] + b_corr : 0.0; }
  // Of the objective's derivative: with respect to alpha (zeta moving along), and to beta.
  double alpha_gradient(i64 k) const {
    const auto s = std::size_t(k);
    return y[s] * (f_[s] + b) - 1 + slack(k);
  }
  double beta_gradient(i64 k) const { return slack(k); }
  double free_residual() const;
  double imbalance() const;
  double rounding() const;
  double objective() const;
  double slope_along(const Vec& change_alpha, const Vec& change_delta) const;

  Pool& pool_;
  NewtonSystem system_;
  double ridge_ = first_ridge;
  double add_K_ = 1, add_S_ = 1;  // see NewtonSystem::factor
  Vec f_, xi_;                    // without offsets, at the point
  Vec da_, dd_;                   // the step
  Vec f_step_, xi_step_;          // what it changes
  double decrease_ = 0;           // of the objective, by the steps since it was set to zero
  std::vector<const double*> rows_;
  Vec coef_, signed_;
};

// out[k] += sum_j x[j] M[j][k], M (n, n) symmetric.
void add_rows(const Vec& M, const Vec& x, std::vector<const double*>& rows, Vec& coef, Vec& out) {
  const i64 n = i64(x.size());
  rows.clear();
  coef.clear();
  for (i64 j = 0; j < n; ++j)
    if (x[std::size_t(j)] != 0) {
      rows.push_back(M.data() + j * n);
      coef.push_back(-x[std::size_t(j)]);
    }
  if (!rows.empty())
    row_loops<double>().subtract(rows.data(), coef.data(), i64(coef.size()), 0, n, out.data(), Scale());
}

double median_of_diagonal(const Vec& M, i64 n) {
  Vec diagonal;
  for (i64 i = 0; i < n; ++i)
    if (M[std::size_t(i * n + i)] != 0) diagonal.push_back(std::abs(M[std::size_t(i * n + i)]));
  if (diagonal.empty()) return 1;
  const auto middle = diagonal.begin() + std::ptrdiff_t(diagonal.size() / 2);
  std::nth_element(diagonal.begin(), middle, diagonal.end());
  return *middle;
}

void Restricted::changed_rows() {
  system_.forget();
  add_K_ = std::max(least_added, median_of_diagonal(K, m));
  add_S_ = std::max(least_added, median_of_diagonal(S, mp));
}

// (f, xi) += what a change of alpha and delta makes of them.
void Restricted::add(const Vec& change_alpha, const Vec& change_delta) {
  signed_.resize(std::size_t(m));
  for (std::size_t k = 0; k < std::size_t(m); ++k) signed_[k] = y[k] * change_alpha[k];
  add_rows(K, signed_, rows_, coef_, f_);
  signed_.resize(std::size_t(mp));
  for (std::size_t k = 0; k < std::size_t(m); ++k)
    if (lp[k] >= 0) signed_[std::size_t(lp[k])] = change_delta[k];
  add_rows(S, signed_, rows_, coef_, xi_);
}

// (f_step_, xi_step_): the same change by itself.
void Restricted::product(const Vec& change_alpha, const Vec& change_delta) {
  f_step_.assign(std::size_t(m), 0.0);
  xi_step_.assign(std::size_t(mp), 0.0);
  f_.swap(f_step_), xi_.swap(xi_step_);
  add(change_alpha, change_delta);
  f_.swap(f_step_), xi_.swap(xi_step_);
}

// f and xi anew. Where alpha = zeta, alpha and delta are one variable: the smaller number is the more
// exact one, and says what the other is.
void Restricted::recompute() {
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    if (!privileged(k) || (state[s] & beta_free)) continue;
    if (std::abs(alpha[s]) <= std::abs(delta[s])) delta[s] = alpha[s] - C[s];
    else alpha[s] = C[s] + delta[s];
  }
  f_ = linear_f;
  xi_ = linear_xi;
  add(alpha, delta);
}

// (da_, dd_): the step to the minimiser over the free variables, up to the ridge; the offsets move
// along. `balance`: onto the constraints, else parallel to them. `keep_digits`: a ridge with which
// singular blocks still leave digits in the step, and where the kernels are indefinite one that makes up
// for it. False where there is no such step.
bool Restricted::step(bool balance, bool keep_digits, const Check& check) {
  while (!system_.is_for(state)) {
    const bool regular = system_.factor(state, K, keep_digits ? add_K_ : 0.0, m, S,
                                        keep_digits ? add_S_ : 0.0, mp, lp, y, ridge_, pool_, check);
    if (!regular) {
      ridge_ *= 10;
      if (ridge_ <= largest_ridge) continue;
      indefinite = true;
      if (!keep_digits || ridge_ > 1e6) return false;
    } else if (keep_digits && ridge_ < singular_ridge && system_.least_pivot() < small_pivot) {
      ridge_ = singular_ridge;
      system_.forget();
    }
  }
  const Index &T = system_.T, &B = system_.B, &D = system_.D;
  system_.x.resize(T.size() + B.size() + D.size());
  double *xT = system_.xT(), *xB = system_.xB(), *xD = system_.xD();
  for (std::size_t r = 0; r < T.size(); ++r) xT[r] = -alpha_gradient(T[r]);
  for (std::size_t r = 0; r < B.size(); ++r) xB[r] = -beta_gradient(B[r]);
  for (std::size_t r = 0; r < D.size(); ++r) xD[r] = slack(D[r]) - alpha_gradient(D[r]);
  double left_alpha = 0, left_delta = 0;
  if (balance) {
    left_alpha = sum_alpha, left_delta = sum_delta;
    for (i64 k = 0; k < m; ++k) {
      const auto s = std::size_t(k);
      left_alpha -= y[s] * alpha[s];
      if (privileged(k)) left_delta -= delta[s];
    }
  }
  double u1, u2;
  system_.minimise(left_alpha, left_delta, &u1, &u2);
  b += u1;
  b_corr += u2;
  da_.assign(std::size_t(m), 0.0);
  dd_.assign(std::size_t(m), 0.0);
  for (std::size_t r = 0; r < T.size(); ++r) da_[std::size_t(T[r])] = dd_[std::size_t(T[r])] = xT[r];
  for (std::size_t r = 0; r < B.size(); ++r) dd_[std::size_t(B[r])] = xB[r];
  for (std::size_t r = 0; r < D.size(); ++r) da_[std::size_t(D[r])] = xD[r];
  return true;
}

// A step of the free variables, parallel to the constraints up to rounding in a nearly singular solve:
// made so by the smallest change relative to its entries.
void Restricted::stay_balanced(Vec& change_alpha, Vec& change_delta) const {
  Constraints c;
  for (const i64 k : system_.T) {
    const auto s = std::size_t(k);
    c.both(y[s], std::abs(change_alpha[s]));
    c.s1 += y[s] * change_alpha[s], c.s2 += change_alpha[s];
  }
  for (const i64 k : system_.B) {
    c.second(std::abs(change_delta[std::size_t(k)]));
    c.s2 += change_delta[std::size_t(k)];
  }
  for (const i64 k : system_.D) {
    c.first(std::abs(change_alpha[std::size_t(k)]));
    c.s1 += y[std::size_t(k)] * change_alpha[std::size_t(k)];
  }
  if (c.s1 == 0 && c.s2 == 0) return;
  c.solve();
  for (const i64 k : system_.T) {
    const auto s = std::size_t(k);
    change_alpha[s] -= std::abs(change_alpha[s]) * (y[s] * c.u1 + c.u2);
    change_delta[s] = change_alpha[s];
  }
  for (const i64 k : system_.B) change_delta[std::size_t(k)] -= std::abs(change_delta[std::size_t(k)]) * c.u2;
  for (const i64 k : system_.D)
    change_alpha[std::size_t(k)] -= std::abs(change_alpha[std::size_t(k)]) * y[std::size_t(k)] * c.u1;
}

// The largest condition of a free variable that is unmet.
double Restricted::free_residual() const {
  double largest = 0;
  for (i64 k = 0; k < m; ++k) {
    const char s = state[std::size_t(k)];
    if (s & alpha_free) largest = std::max(largest, std::abs(alpha_gradient(k)));
    if (s & beta_free) largest = std::max(largest, std::abs(beta_gradient(k)));
  }
  return largest;
}

// By how much the constraints are missed, relative to the sums that make them up.
double Restricted::imbalance() const {
  double left_alpha = sum_alpha, left_delta = sum_delta, all_alpha = 0, all_delta = std::abs(sum_delta);
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    left_alpha -= y[s] * alpha[s];
    all_alpha += std::abs(alpha[s]);
    if (!privileged(k)) continue;
    left_delta -= delta[s];
    all_delta += std::abs(delta[s]);
  }
  return std::max(all_alpha > 0 ? std::abs(left_alpha) / all_alpha : 0.0,
                  all_delta > 0 ? std::abs(left_delta) / all_delta : 0.0);
}

// The size of rounding errors in f and xi.
double Restricted::rounding() const {
  double f = 0, xi = 0, most = 0, most_corr = 0;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    const double root = std::sqrt(std::abs(K[s * std::size_t(m) + s]));
    f += root * alpha[s];
    most = std::max(most, root);
    if (!privileged(k)) continue;
    const auto p = std::size_t(lp[s]);
    const double root_corr = std::sqrt(std::abs(S[p * std::size_t(mp) + p]));
    xi += root_corr * std::abs(delta[s]);
    most_corr = std::max(most_corr, root_corr);
  }
  return 2e-16 * (most * f + most_corr * xi);
}

double Restricted::objective() const {
  double value = 0;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    value += alpha[s] * (0.5 * y[s] * (f_[s] + linear_f[s]) - 1);
    if (privileged(k)) {
      const auto p = std::size_t(lp[s]);
      value += 0.5 * delta[s] * (xi_[p] + linear_xi[p]);
    }
  }
  return value;
}

// Newton steps with free exchanges: a full step, and every variable with the wrong sign changes sides.
// Nothing is promised, and few steps are needed.
Outcome Restricted::exchange(double eps, double eps_most, i64 limit, const Check& check) {
  system_.forget();
  ridge_ = first_ridge;
  std::vector<char> next;
  i64 least = std::numeric_limits<i64>::max();
  int since = 0, refinements = 0;
  bool fresh = false;
  double last_residual = std::numeric_limits<double>::infinity();
  Vec to_alpha(alpha.size()), to_delta(alpha.size());
  for (;;) {
    check();
    if (iterations >= limit) return Outcome::out_of_steps;
    ++iterations;
    if (!step(true, false, check)) return Outcome::stuck;
    double largest = 0;
    for (i64 k = 0; k < m; ++k) {
      const auto s = std::size_t(k);
      alpha[s] += da_[s];
      delta[s] += dd_[s];
      largest = std::max({largest, std::abs(alpha[s]), privileged(k) ? std::abs(delta[s]) : 0.0});
    }
    add(da_, dd_);
    fresh = false;
    const double below = -1e-15 * largest;  // negative by more than rounding
    const double noise = std::max(eps, 0.1 * rounding());
    for (;;) {
      i64 count = 0;
      next = state;
      for (i64 k = 0; k < m; ++k) {
        const auto s = std::size_t(k);
        char& now = next[s];
        if (privileged(k)) {
          if (now & alpha_free) {
            if (alpha[s] < below) now &= ~alpha_free, ++count;
          } else if (alpha_gradient(k) < -noise) {
            now |= alpha_free, ++count;
          }
          if (now & beta_free) {
            if (beta(k) < below) now &= ~beta_free, ++count;
          } else if (beta_gradient(k) < -noise) {
            now |= beta_free, ++count;
          }
        } else if (now & alpha_free) {
          if (alpha[s] < below) now = 0, ++count;
          else if (alpha[s] - C[s] > -below) now = at_cost, ++count;
        } else if (now & at_cost) {
          if (alpha_gradient(k) > noise) now = alpha_free, ++count;
        } else if (alpha_gradient(k) < -noise) {
          now = alpha_free, ++count;
        }
      }
      if (count == 0 && !fresh) {  // said by gradients that were brought up to date step by step
        fresh = true;
        recompute();
        continue;
      }
      if (count == 0) break;
      last_residual = std::numeric_limits<double>::infinity();
      if (count < least) least = count, since = 0;
      else if (++since > (least <= 3 ? patience / 3 : patience)) return Outcome::stuck;
      break;
    }
    // Cut what is not free (any more) to its bound; the next step starts there.
    const bool solved = next == state;
    const double residual = solved ? free_residual() : 0.0;
    const bool worn = solved && ((residual > noise && residual > 0.7 * last_residual) ||
                                 refinements >= max_refinements);
    const double missed = solved ? imbalance() : 0.0;
    const bool finished = solved && ((residual <= noise && missed <= balanced) || worn);
    if (solved && !finished) {
      ++refinements;
      last_residual = residual;
      continue;
    }
    // Where refinements end far from the goal, or off the constraints, the block is singular.
    if (finished && (residual > std::max({eps, eps_most, 2 * rounding()}) || missed > 1e3 * balanced))
      return Outcome::stuck;
    for (i64 k = 0; k < m; ++k) {
      const auto s = std::size_t(k);
      const char now = next[s];
      double a = now & alpha_free ? std::max(alpha[s], 0.0) : now & at_cost ? C[s] : 0.0;
      double d = 0;
      if (privileged(k))
        d = !(now & beta_free) ? a - C[s] : std::max(delta[s], a - C[s]);
      else
        a = std::min(a, C[s]);
      to_alpha[s] = a - alpha[s];
      to_delta[s] = d - delta[s];
      alpha[s] = a;
      delta[s] = d;
    }
    if (finished) return Outcome::solved;
    add(to_alpha, to_delta);
    state = next;
    refinements = 0;
  }
}

// A feasible point with the active set of the last exchange: cut at the bounds, the heavier class
// scaled down, then all scaled to the total. False where that does not lead to one.
bool Restricted::repair() {
  if (sum_alpha != 0) return false;
  double up = 0, down = 0, target = sum_delta, total = 0;
  Vec a(alpha.size(), 0.0), z(alpha.size(), 0.0);
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    if (state[s] & alpha_free) a[s] = std::max(alpha[s], 0.0);
    if (!privileged(k)) a[s] = state[s] & at_cost ? C[s] : std::min(a[s], C[s]);
    (y[s] > 0 ? up : down) += a[s];
  }
  if (!(up > 0 && down > 0)) return false;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    a[s] *= std::min(up, down) / (y[s] > 0 ? up : down);
    if (!privileged(k)) continue;
    z[s] = a[s] + (state[s] & beta_free ? std::max(beta(k), 0.0) : 0.0);
    target += C[s];
    total += z[s];
  }
  if (!(total > 0)) return false;
  const double factor = target / total;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    if (!privileged(k) && factor * a[s] > C[s]) return false;
    if (!std::isfinite(factor * z[s])) return false;
  }
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    alpha[s] = factor * a[s];
    if (privileged(k)) delta[s] = factor * z[s] - C[s];
  }
  return true;
}

// Puts what rounding has left of the constraints on the free variables: delta may be small against C,
// and then the rounding errors of C are none of its own.
void Restricted::rebalance() {
  Constraints c;
  c.s1 = sum_alpha, c.s2 = sum_delta;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    c.s1 -= static_cast<long double>(y[s]) * alpha[s];
    const bool tied = privileged(k) && !(state[s] & beta_free);
    if (privileged(k)) c.s2 -= delta[s];
    if (privileged(k) && !tied) c.second(std::max(beta(k), 0.0));
    if (!(state[s] & alpha_free)) continue;
    if (tied) c.both(y[s], alpha[s]);
    else c.first(std::max(0.0, std::min(alpha[s], privileged(k) ? beta(k) : C[s] - alpha[s])));
  }
  c.solve();
  if (!(std::abs(c.u1) + std::abs(c.u2) < 0.1)) return;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    const bool tied = privileged(k) && !(state[s] & beta_free);
    const double room = privileged(k) ? std::max(beta(k), 0.0) : C[s] - alpha[s];
    if (privileged(k) && !tied) delta[s] += room * c.u2;
    if (!(state[s] & alpha_free)) continue;
    const double change = tied ? alpha[s] * (y[s] * c.u1 + c.u2) : std::max(0.0, std::min(alpha[s], room)) * y[s] * c.u1;
    alpha[s] += change;
    if (tied) delta[s] += change;
  }
}

double Restricted::slope_along(const Vec& change_alpha, const Vec& change_delta) const {
  double slope = 0;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    slope -= change_alpha[s] * (y[s] * f_[s] - 1);
    if (privileged(k)) slope -= change_delta[s] * xi_[std::size_t(lp[s])];
  }
  return slope;
}

// Goes along a step as long as the objective falls and the bounds allow; whoever reaches one is free
// no more. (f_step_, xi_step_) is the change of f and xi. Returns the length.
double Restricted::move(Vec& change_alpha, Vec& change_delta, double slope, double longest, bool* blocked) {
  double curvature = 0, noise = 0;
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    const double x = change_alpha[s] * y[s] * f_step_[s];
    curvature += x;
    noise += std::abs(x);
    if (!privileged(k)) continue;
    const double z = change_delta[s] * xi_step_[std::size_t(lp[s])];
    curvature += z;
    noise += std::abs(z);
  }
  double t = curvature > 1e-15 * noise ? std::min(longest, slope / curvature) : longest;
  const double free_length = t;
  auto room = [&](double from, double change) {
    if (change < 0 && -change * t > from) t = std::max(from, 0.0) / -change;
  };
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    if (state[s] & alpha_free) {
      room(alpha[s], change_alpha[s]);
      if (!privileged(k)) room(C[s] - alpha[s], -change_alpha[s]);
    }
    if (state[s] & beta_free) room(beta(k), change_delta[s] - change_alpha[s]);
  }
  *blocked = t < free_length;
  if (!std::isfinite(t)) return t;
  const double stop = t * (1 + 1e-14);
  for (i64 k = 0; k < m; ++k) {
    const auto s = std::size_t(k);
    if (!(state[s] & (alpha_free | beta_free))) continue;
    auto ends = [&](double from, double change) {
      return *blocked && change < 0 && -change * stop >= from;
    };
    double a = alpha[s] + t * change_alpha[s], d = delta[s] + t * change_delta[s];
    const bool alpha_ends = (state[s] & alpha_free) && ends(alpha[s], change_alpha[s]);
    const bool beta_ends = (state[s] & beta_free) && ends(beta(k), change_delta[s] - change_alpha[s]);
    const bool cost_ends =
        !privileged(k) && (state[s] & alpha_free) && ends(C[s] - alpha[s], -change_alpha[s]);
    if (alpha_ends) a = 0, state[s] &= ~alpha_free;
    if (cost_ends) a = C[s], state[s] = at_cost;
    if (beta_ends) state[s] &= ~beta_free;
    if (privileged(k)) d = state[s] & beta_free ? std::max(d, a - C[s]) : a - C[s];
    alpha[s] = a;
    delta[s] = d;
  }
  for (std::size_t k = 0; k < f_.size(); ++k) f_[k] += t * f_step_[k];
  for (std::size_t p = 0; p < xi_.size(); ++p) xi_[p] += t * xi_step_[p];
  decrease_ += t * (slope - 0.5 * t * curvature);
  return t;
}

// The minimum over the free variables, or a point of lower objective on the border, again and again
// until it is the minimum: conjugate gradients with the factored system as preconditioner. Where that
// is regular, the first direction ends it; along directions without curvature one goes to the border.
Outcome Restricted::minimise_face(double eps, i64 limit, const Check& check) {
  Vec pa, pd, f_before, xi_before;
  double before = 0;  // -gradient times the last preconditioned gradient
  int steps = 0;
  bool exact = false;  // f and xi are recomputed
  for (;;) {
    check();
    if (iterations >= limit) return Outcome::out_of_steps;
    ++iterations;
    ++cautious;
    if (!step(false, true, check)) return Outcome::solved;
    if (free_residual() <= std::max(eps, 2 * rounding()) || steps > max_conjugate) {
      if (exact || steps > max_conjugate) return Outcome::solved;
      rebalance();
      recompute();
      exact = true;
      pa.clear();
      continue;
    }
    stay_balanced(da_, dd_);
    double slope = slope_along(da_, dd_);
    if (!(slope > 0)) {
      if (exact) return Outcome::solved;  // as far as numbers go
      rebalance();
      recompute();
      exact = true;
      pa.clear();
      continue;
    }
    const double now = slope;
    if (!pa.empty()) {
      double change = now;  // Polak and Ribiere: robust against a preconditioner with rounding errors
      for (i64 k = 0; k < m; ++k) {
        const auto s = std::size_t(k);
        change += da_[s] * (y[s] * f_before[s] - 1);
        if (privileged(k)) change += dd_[s] * xi_before[std::size_t(lp[s])];
      }
      const double weight = std::max(0.0, change / before);
      for (std::size_t k = 0; k < pa.size(); ++k) {
        pa[k] = da_[k] + weight * pa[k];
        pd[k] = dd_[k] + weight * pd[k];
      }
      slope = slope_along(pa, pd);
      if (!(slope > 0)) pa = da_, pd = dd_, slope = now;
    } else {
      pa = da_, pd = dd_;
    }
    before = now;
    f_before = f_;
    xi_before = xi_;
    product(pa, pd);
    bool blocked;
    const double t = move(pa, pd, slope, std::numeric_limits<double>::infinity(), &blocked);
    if (!std::isfinite(t)) return Outcome::solved;  // no bound ahead: the slope was rounding
    ++steps;
    exact = false;
    if (blocked) pa.clear(), steps = 0;
  }
}

// The conditions on the offsets that contradict each other most, and the way down that they show.
//
// Raising alpha_i (and zeta_i with it) of a privileged row of the positive class lowers the objective
// unless s = b_corr + b >= 1 - y f - xi, a lower bound; lowering it, possible where alpha_i > 0, gives an
// upper bound; so do the rows of the negative class for t = b_corr - b, beta for b_corr, and the rows
// without privileged information for b. By Helly's theorem three bounds contradict each other if any do,
// in the twelve ways listed; the moves of their rows, in these proportions, keep both constraints.
// (The same as OffsetBounds in certificates.py, where they are derived.)
class Contradiction {
 public:
  enum Bound { ls, us, lt, ut, lc, uc, lb, ub, n_bounds };
  double value[n_bounds];
  i64 row[n_bounds];
  double violation = 0;

  Contradiction() {
    for (int k = 0; k < n_bounds; ++k) {
      value[k] = (k % 2 ? 1 : -1) * std::numeric_limits<double>::infinity();
      row[k] = -1;
    }
  }
  void bound(Bound which, double x, i64 k) {
    if (which % 2 ? x < value[which] : x > value[which]) value[which] = x, row[which] = k;
  }
  // Finds the worst of the twelve; `share`: how often each bound's row moves.
  void judge() {
    static constexpr int ways[12][n_bounds] = {
        // ls us lt ut lc uc lb ub
        {1, 1, 0, 0, 0, 0, 0, 0}, {0, 0, 1, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 1, 0, 0},
        {0, 0, 0, 0, 0, 0, 1, 1}, {1, 0, 1, 0, 0, 2, 0, 0}, {0, 1, 0, 1, 2, 0, 0, 0},
        {1, 0, 0, 1, 0, 0, 0, 2}, {0, 1, 1, 0, 0, 0, 2, 0}, {1, 0, 0, 0, 0, 1, 0, 1},
        {0, 1, 0, 0, 1, 0, 1, 0}, {0, 0, 1, 0, 0, 1, 1, 0}, {0, 0, 0, 1, 1, 0, 0, 1}};
    for (const auto& way : ways) {
      double sum = 0;
      int most = 1;
      for (int k = 0; k < n_bounds; ++k) {
        if (way[k]) sum += (k % 2 ? -1 : 1) * way[k] * value[k];
        most = std::max(most, way[k]);
      }
      if (sum / most > violation) violation = sum / most, share_ = way;
    }
  }
  int share(int k) const { return share_ ? share_[k] : 0; }
  // Offsets that meet all bounds, where there are some.
  void offsets(double* b, double* b_corr) const {
    const double low = std::max({value[lb], 0.5 * (value[ls] - value[ut]), value[ls] - value[uc],
                                 value[lc] - value[ut]});
    const double high = std::min({value[ub], 0.5 * (value[us] - value[lt]), value[us] - value[lc],
                                  value[uc] - value[lt]});
    *b = std::isfinite(low) ? (std::isfinite(high) ? 0.5 * (low + high) : low)
                            : (std::isfinite(high) ? high : 0.0);
    *b_corr = std::max({value[lc], value[ls] - *b, value[lt] + *b});
  }

 private:
  const int* share_ = nullptr;
};

// From a feasible point downwards, to the end. Over the variables strictly between their bounds the
// objective is minimised; then the bound variables whose conditions are violated most, given the
// offsets found, become free, many at once. Where that brought nothing (they were blocked at once),
// the worst contradiction among the conditions shows a way of two to four variables that goes down by a
// positive length. So no set of free variables comes back, and the end is reached.
Outcome Restricted::descend(double eps, i64 limit, const Check& check) {
  for (i64 k = 0; k < m; ++k) {  // free is what is strictly inside its bounds
    const auto s = std::size_t(k);
    if (privileged(k)) {
      const double near = 4e-16 * (C[s] + std::abs(delta[s]) + alpha[s]);
      state[s] = char((alpha[s] > 0 ? alpha_free : 0) | (beta(k) > near ? beta_free : 0));
      if (!(state[s] & beta_free)) delta[s] = alpha[s] - C[s];
    } else {
      state[s] = alpha[s] <= 0 ? 0 : alpha[s] >= C[s] ? at_cost : alpha_free;
    }
  }
  rebalance();
  recompute();
  system_.forget();
  ridge_ = first_ridge;
  int idle = 0;
  std::vector<std::pair<double, i64>> entering;
  Vec to_alpha(alpha.size()), to_delta(alpha.size());
  using Bounds = Contradiction;
  decrease_ = 0;
  for (;;) {
    const Outcome outcome = minimise_face(eps, limit, check);
    if (outcome != Outcome::solved) return outcome;
    const bool lower = decrease_ > 1e-15 * std::abs(objective());
    decrease_ = 0;
    Contradiction worst;
    for (i64 k = 0; k < m; ++k) {
      const auto s = std::size_t(k);
      if (privileged(k)) {
        const double xi = xi_[std::size_t(lp[s])], margin = 1 - y[s] * f_[s] - xi;
        worst.bound(y[s] > 0 ? Bounds::ls : Bounds::lt, margin, k);
        if (state[s] & alpha_free && alpha[s] > 0) worst.bound(y[s] > 0 ? Bounds::us : Bounds::ut, margin, k);
        worst.bound(Bounds::lc, -xi, k);
        if (state[s] & beta_free && beta(k) > 0) worst.bound(Bounds::uc, -xi, k);
      } else {
        const double v = y[s] - f_[s];
        if (y[s] > 0 ? alpha[s] < C[s] : alpha[s] > 0) worst.bound(Bounds::lb, v, k);
        if (y[s] > 0 ? alpha[s] > 0 : alpha[s] < C[s]) worst.bound(Bounds::ub, v, k);
      }
    }
    worst.judge();
    idle = lower ? 0 : idle + 1;
    if (worst.violation <= std::max(eps, 2 * rounding()) || idle > max_idle) {
      worst.offsets(&b, &b_corr);
      return Outcome::solved;
    }
    entering.clear();
    if (lower && system_.rank() == 2) {
      for (i64 k = 0; k < m; ++k) {
        const char s = state[std::size_t(k)];
        const double g = alpha_gradient(k);
        if (!(s & (alpha_free | at_cost)) && g < -eps) entering.push_back({-g, 3 * k});
        if ((s & at_cost) && g > eps) entering.push_back({g, 3 * k + 1});
        if (privileged(k) && !(s & beta_free) && beta_gradient(k) < -eps)
          entering.push_back({-beta_gradient(k), 3 * k + 2});
      }
      std::sort(entering.begin(), entering.end(), [](const auto& p, const auto& q) {
        return p.first > q.first || (p.first == q.first && p.second < q.second);
      });
      if (!entering.empty()) entering.resize(1 + entering.size() / 4);
      for (const auto& [gain, code] : entering) {
        char& s = state[std::size_t(code / 3)];
        const i64 kind = code % 3;
        s = kind == 2 ? char(s | beta_free) : kind == 1 ? char(alpha_free) : char(s | alpha_free);
      }
    }
    if (!entering.empty()) continue;
    std::fill(to_alpha.begin(), to_alpha.end(), 0.0);
    std::fill(to_delta.begin(), to_delta.end(), 0.0);
    for (int k = 0; k < Bounds::n_bounds; ++k) {
      if (!worst.share(k)) continue;
      const auto s = std::size_t(worst.row[k]);
      const double change = (k % 2 ? -1 : 1) * worst.share(k);
      if (k == Bounds::lb || k == Bounds::ub) {
        to_alpha[s] += y[s] * change;
        state[s] = alpha_free;
      } else {
        to_delta[s] += change;
        if (k < Bounds::lc) to_alpha[s] += change;
        state[s] |= k < Bounds::lc ? alpha_free : beta_free;
      }
    }
    product(to_alpha, to_delta);
    bool blocked;
    const double t = move(to_alpha, to_delta, slope_along(to_alpha, to_delta),
                          std::numeric_limits<double>::infinity(), &blocked);
    if (!std::isfinite(t)) return Outcome::solved;
  }
}

Outcome Restricted::solve(double eps, double eps_most, i64 limit, const Check& check) {
  const Vec start_alpha = alpha, start_delta = delta;
  for (i64 k = 0; k < m; ++k)  // a start may say where a variable is and not how large it is
    if (!privileged(k) && !(state[std::size_t(k)] & alpha_free))
      alpha[std::size_t(k)] = state[std::size_t(k)] & at_cost ? C[std::size_t(k)] : 0.0;
  recompute();
  Outcome outcome = exchange(eps, eps_most, limit, check);
  while (outcome == Outcome::stuck && eps < eps_most) {
    eps = std::min(10 * eps, eps_most);
    outcome = exchange(eps, eps_most, limit, check);
  }
  if (outcome == Outcome::solved) return outcome;
  // Where a kernel is indefinite the last exchange says nothing.
  if (outcome != Outcome::stuck || indefinite || !repair()) {
    alpha = start_alpha;
    delta = start_delta;
  }
  return outcome == Outcome::stuck ? descend(eps, limit, check) : outcome;
}

// Puts what is within rounding of a bound on it, then what is missing of the constraints on the free
// variables, as the smallest change relative to each.
void settle(const SvmPlusData& data, const Vec& C, double* alpha, double* zeta, double* delta) {
  double all_alpha = 0;
  for (i64 i = 0; i < data.n; ++i) all_alpha += alpha[i];
  const double near = 1e-15 * all_alpha;
  for (i64 i = 0; i < data.n; ++i) {
    const double cost = C[std::size_t(i)];
    if (data.priv[i] < 0) {
      if (alpha[i] <= near) alpha[i] = 0;
      else if (cost - alpha[i] <= near) alpha[i] = cost;
      continue;
    }
    const double beta = zeta[i] - alpha[i];
    if (alpha[i] <= near) {
      alpha[i] = 0;
      if (beta <= near) zeta[i] = 0, delta[i] = -cost;
    } else if (beta > 0 && beta <= 4e-16 * (zeta[i] + cost)) {
      zeta[i] = alpha[i];
      delta[i] = alpha[i] - cost;
    }
  }
  for (int pass = 0; pass < 2; ++pass) {
    Constraints c;
    for (i64 i = 0; i < data.n; ++i) {
      const double cost = C[std::size_t(i)], yi = data.y[i];
      c.s1 -= static_cast<long double>(yi) * alpha[i];
      if (data.priv[i] < 0) {
        if (alpha[i] > 0 && alpha[i] < cost) c.first(std::min(alpha[i], cost - alpha[i]));
        continue;
      }
      c.s2 -= static_cast<long double>(delta[i]);
      if (zeta[i] > alpha[i]) {
        c.second(zeta[i] - alpha[i]);
        c.first(std::min(alpha[i], zeta[i] - alpha[i]));
      } else {
        c.both(yi, alpha[i]);
      }
    }
    c.solve();
    if (!(std::abs(c.u1) + std::abs(c.u2) < 0.1)) return;
    for (i64 i = 0; i < data.n; ++i) {
      const double cost = C[std::size_t(i)], yi = data.y[i];
      if (data.priv[i] < 0) {
        if (alpha[i] > 0 && alpha[i] < cost) alpha[i] += std::min(alpha[i], cost - alpha[i]) * yi * c.u1;
      } else if (zeta[i] > alpha[i]) {
        const double change = (zeta[i] - alpha[i]) * c.u2;
        alpha[i] += std::min(alpha[i], zeta[i] - alpha[i]) * yi * c.u1;
        zeta[i] += change;
        delta[i] += change;
      } else {
        const double change = alpha[i] * (yi * c.u1 + c.u2);
        alpha[i] += change;
        zeta[i] = alpha[i];
        delta[i] += change;
      }
    }
  }
}

}  // namespace

SvmPlusResult svmplus_solve(const SvmPlusData& data, double* alpha, double* zeta, double* delta,
                            const SvmPlusOptions& options, Pool& pool, const Check& check,
                            const SvmPlusReport& report) {
  const i64 n = data.n, n_priv = data.K_corr->n();
  const auto sn = std::size_t(n);
  SvmPlusResult result;
  // In units in which the largest cost is near 1: alpha = scale * what is solved for, and both kernels
  // times scale. A power of two, so that nothing is rounded.
  double largest_cost = 0;
  for (i64 i = 0; i < n; ++i) largest_cost = std::max(largest_cost, data.C[i]);
  int exponent;
  std::frexp(largest_cost, &exponent);
  const double scale = std::ldexp(1.0, exponent);
  Vec C(sn);
  for (std::size_t i = 0; i < sn; ++i) C[i] = data.C[i] / scale, alpha[i] /= scale, zeta[i] /= scale;
  Index present, row_of(std::size_t(n_priv), -1);
  double total = 0;
  Vec cost_corr(std::size_t(n_priv), 0.0);
  for (i64 i = 0; i < n; ++i) {
    if (!(C[std::size_t(i)] > 0)) continue;
    present.push_back(i);
    if (data.priv[i] >= 0) {
      row_of[std::size_t(data.priv[i])] = i;
      cost_corr[std::size_t(data.priv[i])] = C[std::size_t(i)];
      total += C[std::size_t(i)];
    }
  }
  const double squares = 8.0 * (double(n) * double(n) + double(n_priv) * double(n_priv));
  const bool keep = squares <= std::min(kept_bytes, 0.5 * options.memory);
  const Values K(*data.K, scale, keep && !data.K->is_gram(), pool, check);
  const Values S(*data.K_corr, scale * data.inverse_reg, keep, pool, check);
  // Blocks of both kernels, and a factor with at worst two variables of each row: 48 bytes for each pair
  // of rows of a set.
  const i64 most_rows = std::max<i64>(8, i64(std::sqrt((options.memory - (keep ? squares : 0)) / 48)));

  // xi at zeta = 0, without b_corr.
  Index all_priv;
  Vec coef, xi0;
  for (i64 p = 0; p < n_priv; ++p)
    if (row_of[std::size_t(p)] >= 0) {
      all_priv.push_back(p);
      coef.push_back(-cost_corr[std::size_t(p)]);
    }
  S.combine(all_priv, coef, xi0);
  double magnitude = 1;
  for (double x : xi0) magnitude = std::max(magnitude, std::abs(x));
  // Small problems are solved as far as numbers go; it costs a step or two.
  const double aim = 0.25 * options.tol, eps = n <= 2000 ? std::min(aim, 1e-9) : aim;
  const double most = n <= 2000 ? std::min(aim, 1e-6) : aim;
  // S zeta - S C loses digits where S C is large; with kept matrices S delta is formed as it stands.
  const double rounding = 4e-16 * magnitude;
  const bool direct = S.kept() && rounding > 0.1 * eps;

  // The first working set: the start's support, or a sample of both classes.
  Index W;
  bool warm = false;
  for (i64 i : present) warm = warm || alpha[i] > 0 || zeta[i] > 0;
  std::vector<char> state(sn, 0), inside(sn, 0);
  if (warm) {
    for (i64 i : present) {
      const double beta = zeta[i] - alpha[i];
      if (data.priv[i] >= 0)
        state[std::size_t(i)] = char((alpha[i] > 0 ? alpha_free : 0) | (beta > 0 ? beta_free : 0));
      else
        state[std::size_t(i)] = alpha[i] <= 0 ? 0 : alpha[i] < C[std::size_t(i)] ? alpha_free : at_cost;
      if (state[std::size_t(i)] && i64(W.size()) < most_rows) W.push_back(i);
    }
  }
  const i64 first = std::min<i64>({i64(present.size()), most_rows,
                                   n <= small_problem ? n : std::clamp<i64>(n / 8, 64, 400)});
  if (!warm || i64(present.size()) <= first) {
    // Each class in proportion, at least one row; evenly spaced in the order given.
    W.clear();
    for (int sign = -1; sign <= 1; sign += 2) {
      Index of_class;
      for (i64 i : present)
        if (data.y[i] == sign) of_class.push_back(i);
      const i64 size = i64(of_class.size());
      const i64 take = std::clamp<i64>(i64(std::llround(double(first) * double(size) / double(present.size()))),
                                       std::min<i64>(size, 1), size);
      for (i64 r = 0; r < take; ++r) W.push_back(of_class[std::size_t(r * size / take)]);
    }
    // Someone must carry the total of zeta.
    bool has_priv = false;
    for (i64 i : W) has_priv = has_priv || data.priv[i] >= 0;
    if (!has_priv)
      for (i64 p = 0; p < n_priv; ++p)
        if (row_of[std::size_t(p)] >= 0) {
          W.push_back(row_of[std::size_t(p)]);
          break;
        }
    if (!warm)
      for (i64 i : W) state[std::size_t(i)] = char(data.priv[i] >= 0 ? alpha_free | beta_free : alpha_free);
  }
  std::fill(alpha, alpha + n, 0.0);
  std::fill(zeta, zeta + n, 0.0);
  std::fill(delta, delta + n, 0.0);
  for (i64 i : present)
    if (data.priv[i] >= 0) delta[i] = -C[std::size_t(i)];

  Restricted set(pool);
  Vec f, xi, a, z;
  Index support, support_priv;
  std::vector<std::pair<double, i64>> violators;
  for (;;) {
    ++result.rounds;
    std::sort(W.begin(), W.end());
    std::fill(inside.begin(), inside.end(), 0);
    set.row = W;
    set.m = i64(W.size());
    set.lp.assign(W.size(), -1);
    set.prow.clear();
    for (std::size_t k = 0; k < W.size(); ++k) {
      inside[std::size_t(W[k])] = 1;
      if (data.priv[W[k]] >= 0) {
        set.lp[k] = i64(set.prow.size());
        set.prow.push_back(data.priv[W[k]]);
      }
    }
    set.mp = i64(set.prow.size());
    K.block(W, set.K);
    S.block(set.prow, set.S);
    check();
    const auto sm = W.size();
    set.y.resize(sm), set.C.resize(sm), set.state.resize(sm), set.alpha.resize(sm), set.delta.resize(sm);
    double inside_cost = 0;
    for (std::size_t k = 0; k < sm; ++k) {
      const i64 i = W[k];
      set.y[k] = data.y[i];
      set.C[k] = C[std::size_t(i)];
      set.state[k] = state[std::size_t(i)];
      set.alpha[k] = alpha[i];
      set.delta[k] = set.lp[k] >= 0 ? delta[i] : 0.0;
      if (set.lp[k] >= 0) inside_cost += C[std::size_t(i)];
    }
    if (result.rounds == 1)  // alpha = 0 and a common factor for zeta is feasible
      for (std::size_t k = 0; k < sm; ++k)
        if (set.lp[k] >= 0) set.delta[k] = (total / inside_cost - 1) * set.C[k];
    // What lies outside: zeta = 0, unless memory keeps the set smaller than the support.
    set.linear_f.assign(sm, 0.0);
    set.linear_xi.resize(std::size_t(set.mp));
    set.sum_alpha = set.sum_delta = 0;
    support.clear(), support_priv.clear(), a.clear(), z.clear();
    for (i64 i : present) {
      if (inside[std::size_t(i)]) continue;
      if (alpha[i] > 0) {
        support.push_back(i);
        a.push_back(data.y[i] * alpha[i]);
        set.sum_alpha -= a.back();
      }
      if (data.priv[i] < 0) continue;
      set.sum_delta -= delta[i];
      const double value = direct ? delta[i] : delta[i] + C[std::size_t(i)];
      if (value != 0) support_priv.push_back(data.priv[i]), z.push_back(value);
    }
    if (!support.empty()) {
      K.combine(support, a, f);
      for (std::size_t k = 0; k < sm; ++k) set.linear_f[k] = f[std::size_t(W[k])];
    }
    S.combine(support_priv, z, xi);
    for (std::size_t p = 0; p < set.prow.size(); ++p) {
      const auto at = std::size_t(set.prow[p]);
      set.linear_xi[p] = xi[at] + (data.offset ? data.offset[at] : 0.0);
      if (!direct) set.linear_xi[p] += xi0[at];
    }
    if (!direct) {  // take out the part of -S C that belongs to the set
      Vec cost(std::size_t(set.mp));
      for (std::size_t p = 0; p < set.prow.size(); ++p) cost[p] = cost_corr[std::size_t(set.prow[p])];
      std::vector<const double*> rows;
      Vec coef;
      add_rows(set.S, cost, rows, coef, set.linear_xi);
    }
    set.changed_rows();

    const double floor = direct ? 0.0 : rounding;
    const Outcome outcome = set.solve(std::max(eps, floor), std::max(most, floor), options.max_iter, check);
    for (i64 i : present)
      if (!inside[std::size_t(i)] && data.priv[i] >= 0 && zeta[i] == 0) delta[i] = -C[std::size_t(i)];
    for (std::size_t k = 0; k < sm; ++k) {
      const i64 i = W[k];
      alpha[i] = set.alpha[k];
      state[std::size_t(i)] = set.state[k];
      if (set.lp[k] < 0) continue;
      delta[i] = set.delta[k];
      // beta = 0 is meant exactly where it is not free.
      zeta[i] = set.state[k] & beta_free ? std::max(set.delta[k] + C[std::size_t(i)], set.alpha[k]) : set.alpha[k];
    }
    result.iterations = set.iterations;
    result.cautious = set.cautious;
    result.rows = set.m;
    result.b = set.b;
    result.b_corr = set.b_corr;
    result.indefinite = set.indefinite;

    // The conditions of all rows.
    support.clear(), support_priv.clear(), a.clear(), z.clear();
    for (i64 i : present) {
      if (alpha[i] > 0) support.push_back(i), a.push_back(data.y[i] * alpha[i]);
      if (data.priv[i] < 0) continue;
      const double value = direct ? delta[i] : zeta[i];
      if (value != 0) support_priv.push_back(data.priv[i]), z.push_back(value);
    }
    K.combine(support, a, f);
    S.combine(support_priv, z, xi);
    for (std::size_t p = 0; p < xi.size(); ++p)
      xi[p] += (direct ? 0.0 : xi0[p]) + (data.offset ? data.offset[p] : 0.0);
    const double least_violation = direct ? eps : std::max(eps, rounding);
    violators.clear();
    result.violation = 0;
    for (i64 i : present) {
      const bool privileged = data.priv[i] >= 0;
      const double slack = privileged ? xi[std::size_t(data.priv[i])] + set.b_corr : 0.0;
      const double g = data.y[i] * (f[std::size_t(i)] + set.b) - 1 + slack;
      double worst = 0;
      if (privileged) {
        const double beta = zeta[i] - alpha[i];
        worst = std::max(alpha[i] > 0 ? std::abs(g) : -g, beta > 0 ? std::abs(slack) : -slack);
        if (!inside[std::size_t(i)])
          state[std::size_t(i)] = char((alpha[i] > 0 || -g > least_violation ? alpha_free : 0) |
                                       (beta > 0 || -slack > least_violation ? beta_free : 0));
      } else {
        worst = std::max(alpha[i] < C[std::size_t(i)] ? -g : 0.0, alpha[i] > 0 ? g : 0.0);
        if (!inside[std::size_t(i)])
          state[std::size_t(i)] = worst > least_violation || (alpha[i] > 0 && alpha[i] < C[std::size_t(i)]) ? alpha_free
                                  : alpha[i] > 0                                       ? at_cost
                                                                                       : 0;
      }
      result.violation = std::max(result.violation, worst);
      if (!inside[std::size_t(i)] && worst > least_violation) violators.push_back({worst, i});
    }
    const i64 free = std::count_if(state.begin(), state.end(), [](char s) { return s != 0; });
    if (report) {
      double objective = 0, norms = 0, losses = 0, b_corr = -std::numeric_limits<double>::infinity();
      for (std::size_t r = 0; r < support.size(); ++r) {
        objective += std::abs(a[r]);
        norms += 0.5 * a[r] * f[std::size_t(support[r])];
      }
      // b_corr raised until every slack constraint holds, as in the certificate.
      for (i64 i : present) {
        const auto s = std::size_t(i);
        const double margin = 1 - data.y[i] * (f[s] + set.b);
        if (data.priv[i] < 0) {
          losses += C[s] * std::max(margin, 0.0);
          continue;
        }
        const double slack = xi[std::size_t(data.priv[i])];
        b_corr = std::max({b_corr, -slack, margin - slack});
      }
      for (i64 p : all_priv) {
        const auto s = std::size_t(p);
        const double offset = data.offset ? data.offset[p] : 0.0;
        const double change = zeta[row_of[s]] - cost_corr[s];
        norms += 0.5 * change * (xi[s] - offset);
        objective -= change * offset;
        losses += cost_corr[s] * (xi[s] + b_corr);
      }
      objective -= norms;
      report({result.rounds, result.iterations, set.m, free, scale * objective,
              scale * (norms + losses - objective), result.violation});
    }
    if (violators.empty() || outcome == Outcome::out_of_steps) break;
    check();

    // The worst violators enter; rows that carry nothing leave while there are too many of them.
    std::sort(violators.begin(), violators.end(), [](const auto& p, const auto& q) {
      return p.first > q.first || (p.first == q.first && p.second < q.second);
    });
    i64 carrying = 0;
    for (i64 i : W) carrying += alpha[i] > 0 || zeta[i] > 0;
    // Where most rows of a set carry something, most rows of the problem will: fewer, larger sets.
    const double share = double(carrying) / double(W.size());
    i64 enter = std::max<i64>(50, share > crowded ? 2 * carrying : carrying / 2);
    enter = std::min(enter, i64(violators.size()));
    Index next;
    if (carrying + enter > most_rows) {
      // Not all fits: the set is worked off in parts, at least half of it the worst violators.
      enter = std::min(enter, std::max(most_rows / 2, most_rows - carrying));
      std::vector<std::pair<double, i64>> keepers;
      for (i64 i : W)
        if (alpha[i] > 0 || zeta[i] > 0) keepers.push_back({std::max(alpha[i], zeta[i]), i});
      std::sort(keepers.begin(), keepers.end(), std::greater<>());
      for (i64 r = 0; r < std::min<i64>(most_rows - enter, i64(keepers.size())); ++r)
        next.push_back(keepers[std::size_t(r)].second);
    } else {
      const i64 spare = std::min(most_rows - enter, 2 * (carrying + enter) + 100) - carrying;
      i64 kept = 0;
      for (i64 i : W) {
        const bool carries = alpha[i] > 0 || zeta[i] > 0;
        if (carries || kept < spare) next.push_back(i), kept += !carries;
      }
    }
    for (i64 r = 0; r < enter; ++r) next.push_back(violators[std::size_t(r)].second);
    W.swap(next);
    if (result.rounds > (set.indefinite ? 100 : 10'000)) break;
  }
  settle(data, C, alpha, zeta, delta);
  for (i64 i = 0; i < n; ++i) {
    const auto s = std::size_t(i);
    alpha[i] = data.priv[i] < 0 && alpha[i] == C[s] ? data.C[i] : scale * alpha[i];
    zeta[i] *= scale;
    delta[i] *= scale;
  }
  return result;
}

}  // namespace lupi
