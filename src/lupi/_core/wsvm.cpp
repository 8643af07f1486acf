#include "wsvm.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lupi {

namespace {

// The arrays of one inner problem, padded to whole vectors.
template <class R>
struct InnerProblem {
  explicit InnerProblem(i64 capacity)
      : lanes(loops<R>().lanes), K(std::size_t(capacity * padded(capacity))),
        diag(std::size_t(padded(capacity))), v(diag.size()), side(diag.size()),
        a(std::size_t(capacity)), lo(std::size_t(capacity)), hi(std::size_t(capacity)) {}

  i64 padded(i64 q) const { return (q + lanes - 1) / lanes * lanes; }

  // Loads variables set[0..q) (null: all) of the problem, v relative to `shift`. K is there already.
  void load(const i64* set, i64 q, const Box& box, const double* full_a, const double* full_v,
            double shift) {
    arrays = {q,        padded(q), K.data(), diag.data(), v.data(),
              side.data(), a.data(),  lo.data(), hi.data()};
    for (i64 k = 0; k < arrays.ld; ++k) {
      const auto s = std::size_t(k);
      if (k >= q) {
        diag[s] = R(1);
        v[s] = R(0);
        side[s] = 0;
        continue;
      }
      const i64 i = set ? set[k] : k;
      diag[s] = K[std::size_t(k * arrays.ld + k)];
      v[s] = R(full_v[i] - shift);
      side[s] = side_of(full_a[i], box.lo[i], box.hi[i]);
      a[s] = full_a[i];
      lo[s] = box.lo[i];
      hi[s] = box.hi[i];
    }
  }

  int lanes;
  std::vector<R> K, diag, v;
  std::vector<Side> side;
  std::vector<double> a, lo, hi;
  SmoArrays<R> arrays{};
};

// Standard deviation of the error of a stored kernel value.
template <class S>
constexpr double stored_error = 1e-7;
template <>
constexpr double stored_error<q16> = 0.29 / 65534;  // uniform in half a step to both sides; times top
template <>
constexpr double stored_error<double> = 0;

// Steps between two looks for an interrupt: 20 ms at n = 10,000.
constexpr i64 steps_per_check = 2000;
// Where the cache is full, it is restricted to the active variables if these are at most this share: the
// move costs as much as forming a tenth of the rows.
constexpr double worth_restricting = 0.85;
// A start is fair below this violation; classes are two apart.
constexpr double fair = 0.5;
// Variables whose v is within this share of the violation of where it matters are active, too.
constexpr double active_margin = 0.25;
// Kernel values between two looks for an interrupt: 40 ms.
constexpr i64 values_per_check = 100'000'000;
// Rows formed at once when one is missing. More make the product faster and bring in more rows that
// are never used: 12 % of them at 32, 28 % at 256 (n = 10,000, C = 1).
constexpr i64 rows_per_batch = 32;

}  // namespace

SmallResult wsvm_solve_small(const Kernel& kernel, const double* gram, const Box& box, double* a,
                             double* v, const DescentOptions& options, double polish_tol, Pool& pool,
                             const Check& check) {
  SmallResult result;
  InnerProblem<double> inner(box.n);
  const i64 ld = inner.padded(box.n);
  for (i64 r = 0; r < box.n; ++r) {
    std::copy_n(gram + r * box.n, box.n, inner.K.data() + r * ld);
    std::fill(inner.K.data() + r * ld + box.n, inner.K.data() + (r + 1) * ld, 0.0);
  }
  // The finish takes over early: near a degenerate optimum two-variable steps may need millions where
  // it needs ten iterations. Only if it fails does the descent get all its steps.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double eps = attempt == 0 ? std::max(options.tol, 1e-3) : options.tol;
    const i64 limit =
        attempt == 0 ? std::min(options.max_steps, 100 * box.n + 1000) : options.max_steps;
    inner.load(nullptr, box.n, box, a, v, 0.0);
    do {
      check();
      const i64 allowed = std::min(10 * steps_per_check, limit - result.steps);
      result.steps += loops<double>().smo(inner.arrays, eps, allowed, &result.violation);
    } while (result.violation > eps && result.steps < limit);
    std::copy_n(inner.a.data(), box.n, a);
    std::copy_n(inner.v.data(), box.n, v);
    if (result.steps >= options.max_steps) break;
    const PolishResult p = wsvm_polish(kernel, gram, box, a, v, polish_tol, box.n,
                                       10 * box.n + 100, pool, check);
    result.polish_iterations += p.iterations + 1;
    result.violation = p.violation;
    result.indefinite = p.indefinite;
    const double rounding = 1e-14 * magnitude_of_v(kernel, box, a);
    if (p.violation <= std::max(options.tol, rounding)) break;
  }
  return result;
}

// The two parts of wsvm_descend share these.
template <class S>
struct Descent {
  using R = Real<S>;
  RowCache<S>& rows;
  const Box& box;
  double* a;
  double* v;
  const DescentOptions& options;
  Pool& pool;
  const Check& check;
  const Report& report;
  DescentResult result;
  std::vector<double> start, start_v;  // a, and v, which was exact then
  std::vector<double> base;            // a less what was moved by stored rows since then
  InnerProblem<R> inner;
  std::vector<i64> up{}, low{}, changed{};
  std::vector<R> delta{};

  void sweep();
  void sets(double target);
  bool pairs();
  void complete();
  void restrict_to_active();

  bool done(double& m, double& M);
  void take_violators(double m, double M, i64 count, std::vector<char>& taken,
                      std::vector<i64>& set);
  void solve_set(const std::vector<i64>& set, double m, double M, double eps);
  void apply(const std::vector<i64>& moved, const std::vector<R>& by);
  bool mostly_bounded() const;
};

// The most violating variables, both those that may rise and those that may fall, worst first, added to
// `set` until it holds `count` of each kind; `taken` marks what has no place in it (any more).
template <class S>
void Descent<S>::take_violators(double m, double M, i64 count, std::vector<char>& taken,
                                std::vector<i64>& set) {
  up.clear();
  low.clear();
  for (i64 i = 0; i < box.n; ++i) {
    if (taken[std::size_t(i)]) continue;
    if (a[i] < box.hi[i] && v[i] > M) up.push_back(i);
    if (a[i] > box.lo[i] && v[i] < m) low.push_back(i);
  }
  auto take_worst = [&](std::vector<i64>& from, auto&& before) {
    const auto k = std::min(from.size(), std::size_t(count));
    if (k < from.size()) std::nth_element(from.begin(), from.begin() + i64(k), from.end(), before);
    for (std::size_t r = 0; r < k; ++r)
      if (!taken[std::size_t(from[r])]) {
        taken[std::size_t(from[r])] = 1;
        set.push_back(from[r]);
      }
  };
  take_worst(up, [&](i64 p, i64 r) { return v[p] > v[r] || (v[p] == v[r] && p < r); });
  take_worst(low, [&](i64 p, i64 r) { return v[p] < v[r] || (v[p] == v[r] && p < r); });
}

// Solves the problem on `set` to eps on its own block of the kernel, in fast memory; a is updated, and
// `changed` and `delta` say where and by how much.
template <class S>
void Descent<S>::solve_set(const std::vector<i64>& set, double m, double M, double eps) {
  const i64 q = i64(set.size()), ld = inner.padded(q);
  for (i64 r = 0; r < q; ++r)
    std::fill(inner.K.data() + r * ld + q, inner.K.data() + (r + 1) * ld, R(0));
  rows.kernel().template square_block<R>(set.data(), q, inner.K.data(), ld, pool);
  // v is loaded relative to the middle of the violation: R then resolves what matters.
  inner.load(set.data(), q, box, a, v, 0.5 * (m + M));
  eps = std::max(0.3 * options.tol, eps);
  const i64 limit = std::min(result.steps + 100 * q, options.max_steps);
  for (i64 allowed = 1, made = allowed; made == allowed && result.steps < limit; result.steps += made) {
    check();
    double left;
    allowed = std::min(10 * steps_per_check, limit - result.steps);
    made = loops<R>().smo(inner.arrays, eps, allowed, &left);
  }
  changed.clear();
  delta.clear();
  for (i64 k = 0; k < q; ++k) {
    const i64 i = set[std::size_t(k)];
    const double d = inner.a[std::size_t(k)] - a[i];
    if (d != 0) {
      a[i] = inner.a[std::size_t(k)];
      changed.push_back(i);
      delta.push_back(R(d));
    }
  }
}

// Brings v up to date where a has moved, by rows that are formed and summed at once.
template <class S>
void Descent<S>::apply(const std::vector<i64>& moved, const std::vector<R>& by) {
  const i64 m = i64(moved.size()), part = std::max<i64>(64, values_per_check / box.n);
  for (i64 first = 0; first < m; first += part) {
    check();
    rows.kernel().template subtract<R>(moved.data() + first, std::min(part, m - first), by.data() + first,
                                       v, pool);
  }
  for (i64 k = 0; k < m; ++k) base[std::size_t(moved[std::size_t(k)])] += double(by[std::size_t(k)]);
}

// Whether more variables are at their bound than between.
template <class S>
bool Descent<S>::mostly_bounded() const {
  i64 balance = 0;
  for (i64 i = 0; i < box.n; ++i)
    if (a[i] != 0) balance += a[i] > box.lo[i] && a[i] < box.hi[i] ? -1 : 1;
  return balance > 0;
}

// Every variable that violates is visited, the worst first, in sets of a few hundred, and then once
// more. A set is solved roughly; then one product with the rows of the variables that moved brings v
// up to date. This takes the problem from zero to a fair start at the price of a matrix product; rows
// of variables that do not move are never formed, and those of variables that end at a bound, most of
// which stay there, are not stored. Where most of them end there, `sets` is the better start.
template <class S>
void Descent<S>::sweep() {
  const i64 q_max = std::min(options.working_set, rows.capacity());
  std::vector<i64> set;
  std::vector<char> visited(std::size_t(box.n), 0);
  std::vector<i64> stored, passing;
  std::vector<R> stored_delta, passing_delta;
  std::vector<const S*> changed_rows;
  for (int round = 0;;) {
    double m, M;
    if (done(m, M)) return;
    set.clear();
    take_violators(m, M, q_max / 2, visited, set);
    if (set.size() < 2) {
      // Two rounds: the second saves a tenth of the time at n = 10,000, a third nothing.
      if (++round == 2) return;
      std::fill(visited.begin(), visited.end(), 0);
      continue;
    }
    std::sort(set.begin(), set.end());
    // A third of the violation: solving a set further fits it to a v that the next set changes. At
    // n = 10,000 a tenth costs 10 % more steps in all.
    solve_set(set, m, M, 0.35 * result.violation);
    if (mostly_bounded()) {
      apply(changed, delta);
      return sets(fair);
    }
    stored.clear(), stored_delta.clear(), passing.clear(), passing_delta.clear();
    for (std::size_t k = 0; k < changed.size(); ++k) {
      const i64 i = changed[k];
      const bool keep = rows.row(i) || (a[i] > box.lo[i] && a[i] < box.hi[i]);
      (keep ? stored : passing).push_back(i);
      (keep ? stored_delta : passing_delta).push_back(delta[k]);
    }
    if (!rows.has_room(i64(stored.size()))) {  // the rows that are there will be wanted again
      passing.swap(changed), passing_delta.swap(delta);
      stored.clear(), stored_delta.clear();
    }
    apply(passing, passing_delta);
    rows.ensure(stored.data(), i64(stored.size()), pool);
    changed_rows.clear();
    for (i64 i : stored) changed_rows.push_back(rows.row(i));
    pool.run(box.n, [&](i64 begin, i64 end) {
      row_loops<S>().subtract(changed_rows.data(), stored_delta.data(), i64(stored.size()), begin, end,
                              v, rows.scale());
    });
    for (std::size_t k = 0; k < stored.size(); ++k) {
      const ExcessList& excess = rows.excess()[stored[k]];
      for (i64 e = 0; e < excess.count; ++e)
        v[excess.first[e].column] -= double(stored_delta[k]) * double(excess.first[e].amount);
    }
  }
}

// Working sets until the violation is at most `target`: half of a set are the worst violators, the rest
// those of the last set that are still free. No row is kept, so the memory is that of one set. To the
// end this is for caches too small for `pairs`; to a fair start, for problems where most variables end
// at a bound: a row takes less time to be formed twice than to be written to fresh memory, and the few
// that move later are short, of the active variables only.
template <class S>
void Descent<S>::sets(double target) {
  const i64 q_max = std::min(options.working_set, box.n);
  std::vector<i64> set, previous;
  std::vector<char> taken(std::size_t(box.n), 0);
  for (;;) {
    double m, M;
    if (done(m, M) || result.violation <= target) break;
    set.clear();
    take_violators(m, M, previous.empty() ? q_max / 2 : q_max / 4, taken, set);
    for (int pass = 0; pass < 2; ++pass)  // the free ones first
      for (i64 i : previous)
        if (!taken[std::size_t(i)] && i64(set.size()) < q_max &&
            (pass == 1 || (a[i] > box.lo[i] && a[i] < box.hi[i]))) {
          taken[std::size_t(i)] = 1;
          set.push_back(i);
        }
    for (i64 i : set) taken[std::size_t(i)] = 0;
    std::sort(set.begin(), set.end());
    // A tenth costs half as many rows again at C = 100 and a sixth more at C = 1 (n = 10,000 and 20,000);
    // a half, as many sets again.
    solve_set(set, m, M, 0.3 * result.violation);
    if (changed.empty()) break;  // steps too small for R: the caller looks at it in double
    apply(changed, delta);
    previous.swap(set);
  }
  std::copy_n(a, box.n, start.begin());
  std::copy_n(v, box.n, start_v.begin());
}

// Brings v up to date for all variables without stored rows.
template <class S>
void Descent<S>::complete() {
  changed.clear();
  delta.clear();
  for (i64 i = 0; i < box.n; ++i)
    if (a[i] != start[std::size_t(i)]) {
      changed.push_back(i);
      delta.push_back(R(a[i] - start[std::size_t(i)]));
    }
  std::copy(start_v.begin(), start_v.end(), v);
  apply(changed, delta);
  std::copy_n(a, box.n, base.begin());
  result.partial = false;
}

// The violation, with a look for an interrupt and the report; whether there is nothing more to do.
template <class S>
bool Descent<S>::done(double& m, double& M) {
  check();
  i64 i, j;
  result.violation = largest_violation(box, a, v, &i, &j);
  report({result.steps, result.sets++, result.violation});
  if (!(result.violation > options.tol) || result.steps >= options.max_steps) return true;
  m = v[i];
  M = v[j];
  return false;
}

// One or two threads for Loops::pairs, whichever is the faster here and now: the second core may be
// taken by somebody else, and then every pass would wait for it.
template <class S>
class Crew {
 public:
  // Below some thousand variables a pass is shorter than its orders.
  Crew(Pool& pool, i64 n) : pool_(pool), two_(pool.threads() >= 2 && n >= 4000) {}

  void run(PairArrays<S>& s, double eps, i64 max_steps) {
    if (!two_ || rest_ > 0) {
      row_loops<S>().pairs(s, eps, max_steps, nullptr);
      --rest_;
      return;
    }
    PairTeam<S> team;
    std::atomic<int> role{0};
    pool_.run(2, [&](i64 begin, i64 end) {
      for (i64 part = begin; part < end; ++part) {
        if (role.fetch_add(1) == 0)
          row_loops<S>().pairs(s, eps, max_steps, &team);
        else
          row_loops<S>().help(s, team);
      }
    }, 1);
    // A helper that is late costs up to a time slice each time: do without it for a while, and
    // longer each time.
    if (team.long_waits > 3) rest_ = pause_ *= 4;
  }

 private:
  Pool& pool_;
  bool two_;
  i64 rest_ = 0, pause_ = 4;
};

// The variables that take part in `pairs`: all, or those that the cache is restricted to.
template <class S>
struct Active {
  using R = Real<S>;
  std::vector<i64> idx;  // in the numbering of the problem
  std::vector<R> v, diag;
  std::vector<Side> side;
  std::vector<double> a, lo, hi;
  double shift = 0;  // v is kept relative to it: R then resolves what matters

  void load(const RowCache<S>& rows, const Box& box, const double* full_a, const double* full_v) {
    const i64 n = rows.size();
    idx.resize(std::size_t(n));
    if (rows.restricted()) idx = rows.members();
    else std::iota(idx.begin(), idx.end(), 0);
    const int lanes = loops<R>().lanes;
    const auto ld = std::size_t((n + lanes - 1) / lanes * lanes);
    std::vector<double> d(std::size_t(box.n));
    rows.kernel().diagonal(d.data());
    shift = 0;
    for (i64 i : idx) shift += full_v[i] / double(n);
    v.assign(ld, R(0)), diag.assign(ld, R(1)), side.assign(ld, 0);
    a.resize(idx.size()), lo.resize(idx.size()), hi.resize(idx.size());
    for (std::size_t k = 0; k < idx.size(); ++k) {
      const i64 i = idx[k];
      v[k] = R(full_v[i] - shift);
      diag[k] = R(d[std::size_t(i)]);
      a[k] = full_a[i];
      lo[k] = box.lo[i];
      hi[k] = box.hi[i];
      side[k] = side_of(a[k], lo[k], hi[k]);
    }
  }
  void store(double* full_a, double* full_v) const {
    for (std::size_t k = 0; k < idx.size(); ++k) {
      full_a[idx[k]] = a[k];
      full_v[idx[k]] = double(v[k]) + shift;
    }
  }
  PairArrays<S> arrays(RowCache<S>& rows, i64 steps) {
    return {i64(idx.size()), i64(v.size()), rows.table(), rows.excess(), rows.last_used(), rows.scale(),
            diag.data(), v.data(), side.data(), a.data(), lo.data(), hi.data(),
            steps, -1, 0, 0, 0};
  }
  // Those that may move within [M, m], with m, M relative to `shift`: the rest is at a bound and would
  // stay there, if the offset ends up in between (LIBSVM's rule for shrinking).
  std::vector<i64> within(double m, double M) const {
    std::vector<i64> keep;
    for (std::size_t k = 0; k < idx.size(); ++k)
      if ((side[k] & may_rise && double(v[k]) >= M) || (side[k] & may_fall && double(v[k]) <= m))
        keep.push_back(i64(k));
    return keep;
  }
};

// Two variables at a time, chosen among all. Greedy choice over everything needs a fifth of the
// steps that working sets need on problems with many free variables (41,000 against 208,000 at
// n = 10,000, C = 100), and with rows at hand a step is one pass over two rows. Rows that are missing
// are formed in batches together with the worst violators, which will be wanted soon: one row alone
// would use a tenth of the machine.
// Returns false where the cache is too small: most rows would be formed again and again.
template <class S>
bool Descent<S>::pairs() {
  Active<S> active;
  active.load(rows, box, a, v);
  PairArrays<S> s = active.arrays(rows, result.steps);
  Crew<S> crew(pool, box.n);
  // At this price working sets, which form a row for each of their variables, get further.
  const i64 most_rows = rows.computed() + 4 * box.n + s.steps / 4;
  bool enough = true;
  std::vector<i64> want;
  std::vector<R> score;
  for (;;) {
    // Rows that are stored with an error e per entry put an error of about 4 e |a - base| on v (the
    // largest of n nearly normal ones); a violation below that means nothing.
    double moved = 0;
    for (std::size_t k = 0; k < active.idx.size(); ++k) a[active.idx[k]] = active.a[k];
    for (i64 i = 0; i < box.n; ++i) moved += (a[i] - base[std::size_t(i)]) * (a[i] - base[std::size_t(i)]);
    const double noise = 4 * stored_error<S> * rows.scale().top * std::sqrt(moved);
    const double eps = std::max(options.tol, noise);
    crew.run(s, eps, std::min(options.max_steps, s.steps + steps_per_check));
    check();
    report({s.steps, result.sets, s.violation});
    if (!(s.violation > eps) || s.steps >= options.max_steps) break;
    if (s.missing < 0) continue;
    const R m = R(s.largest), M = R(s.smallest), least = R(0.5) * (m - M);
    want.clear();
    score.resize(active.idx.size());
    for (std::size_t k = 0; k < score.size(); ++k) {
      const R above = active.side[k] & may_rise ? active.v[k] - M : R(0);
      const R below = active.side[k] & may_fall ? m - active.v[k] : R(0);
      score[k] = std::max(above, below);
      if (score[k] > least && !rows.row(i64(k)) && i64(k) != s.missing) want.push_back(i64(k));
    }
    const auto batch = std::size_t(std::min(rows_per_batch, rows.capacity()) - 1);
    if (want.size() > batch) {
      std::nth_element(want.begin(), want.begin() + i64(batch), want.end(), [&](i64 p, i64 q) {
        const R x = score[std::size_t(p)], z = score[std::size_t(q)];
        return x > z || (x == z && p < q);
      });
      want.resize(batch);
    }
    want.push_back(s.missing);
    if (rows.computed() > most_rows) {
      enough = false;
      break;
    }
    if (!rows.has_room(i64(want.size()))) {
      const std::vector<i64> keep = active.within(double(m), double(M));
      if (double(keep.size()) <= worth_restricting * double(active.idx.size()) &&
          i64(keep.size()) >= options.working_set) {
        active.store(a, v);
        rows.restrict_to(keep, pool);
        result.partial = true;
        active.load(rows, box, a, v);
        s = active.arrays(rows, s.steps);
        continue;
      }
    }
    rows.ensure(want.data(), i64(want.size()), pool);
  }
  active.store(a, v);
  result.steps = s.steps;
  result.violation = s.violation;
  return enough;
}

// Puts aside the variables that are at a bound and will stay there if v changes little from here.
template <class S>
void Descent<S>::restrict_to_active() {
  i64 up, low;
  const double margin = active_margin * largest_violation(box, a, v, &up, &low);
  Active<S> active;
  active.load(rows, box, a, v);
  const std::vector<i64> keep =
      active.within(v[up] - active.shift + margin, v[low] - active.shift - margin);
  // Rows that are at hand would have to be moved.
  if (double(keep.size()) > worth_restricting * double(box.n) || i64(keep.size()) < 2 * rows.at_hand())
    return;
  rows.restrict_to(keep, pool);
  result.partial = true;
}

template <class S>
DescentResult wsvm_descend(RowCache<S>& rows, const Box& box, double* a, double* v,
                           const DescentOptions& options, Pool& pool, const Check& check,
                           const Report& report) {
  Descent<S> descent{rows,   box,  a,      v, options, pool, check, report,
                     {}, {a, a + box.n}, {v, v + box.n}, {a, a + box.n},
                     InnerProblem<Real<S>>(std::min(options.working_set, box.n))};
  const bool roomy = rows.capacity() >= std::min(box.n, options.working_set);
  if (!roomy) {
    descent.sets(options.tol);
    return descent.result;
  }
  if (options.sweep) descent.sweep();
  double& violation = descent.result.violation;
  violation = largest_violation(box, a, v);
  if (rows.restricted()) {
    // Of an earlier call. It stands as long as the worst violators are among its variables.
    Active<S> active;
    active.load(rows, box, a, v);
    const Box inside{i64(active.idx.size()), nullptr, active.lo.data(), active.hi.data()};
    std::vector<double> inside_v(active.idx.size());
    for (std::size_t k = 0; k < inside_v.size(); ++k) inside_v[k] = v[active.idx[k]];
    if (violation > largest_violation(inside, active.a.data(), inside_v.data())) rows.reset();
    else descent.result.partial = true;
  }
  if (!rows.restricted() && violation <= fair && violation > options.tol) descent.restrict_to_active();
  for (double previous = 2 * violation;
       violation > options.tol && violation <= 0.5 * previous && descent.result.steps < options.max_steps;) {
    previous = violation;
    if (!descent.pairs()) {
      if (descent.result.partial) descent.complete();
      descent.sets(options.tol);
      break;
    }
    if (descent.result.partial || !(violation > options.tol)) break;
    // Stored rows have no more digits: v anew from rows that are summed as they are formed.
    descent.complete();
    violation = largest_violation(box, a, v);
  }
  return descent.result;
}

#define LUPI_DESCEND(S)                                                                      \
  template DescentResult wsvm_descend<S>(RowCache<S>&, const Box&, double*, double*,           \
                                         const DescentOptions&, Pool&, const Check&, const Report&);
LUPI_DESCEND(float)
LUPI_DESCEND(double)
LUPI_DESCEND(q16)

}  // namespace lupi
