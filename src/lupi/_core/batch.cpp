#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace lupi {

namespace {

// body(i, check) for every i < items, on all threads. Only the calling thread may look for an
// interrupt; the others learn of it, and of each other's exceptions, by a flag.
template <class Body>
void run_all(i64 items, Pool& pool, const Check& check, Body&& body) {
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::mutex mutex;
  const auto caller = std::this_thread::get_id();
  const Check look = [&] {
    if (stop.load(std::memory_order_relaxed)) throw Interrupted{};
    if (std::this_thread::get_id() == caller) check();
  };
  pool.run(
      items,
      [&](i64 begin, i64 end) {
        try {
          for (i64 i = begin; i < end; ++i) {
            look();
            body(i, look);
          }
        } catch (...) {
          std::lock_guard<std::mutex> lock(mutex);
          if (!error) error = std::current_exception();
          stop.store(true, std::memory_order_relaxed);
        }
      },
      std::max<i64>(1, items));
  if (error) std::rethrow_exception(error);
}

// The weighted SVMs of a path, one after the other.
class WsvmSteps {
 public:
  explicit WsvmSteps(const WsvmPath& path)
      : path_(path), lo_(std::size_t(path.n)), hi_(lo_), v_(path.y, path.y + path.n) {}

  Box box() const { return {path_.n, path_.y, lo_.data(), hi_.data()}; }
  double* v() { return v_.data(); }

  // Bounds and start of problem k; false where the last solution is its solution already.
  bool begin(i64 k) {
    const i64 n = path_.n;
    double* a = path_.a + k * n;
    for (i64 i = 0; i < n; ++i) {
      const double c = path_.y[i] * (path_.C[k] * path_.weight[i]);
      lo_[std::size_t(i)] = std::min(c, 0.0);
      hi_[std::size_t(i)] = std::max(c, 0.0);
    }
    path_.steps[k] = 0;
    if (k == 0) {
      std::fill_n(a, n, 0.0);
      return true;
    }
    const double* last = a - n;
    auto at_cost = [&](i64 i) {
      return last[i] != 0 && std::abs(last[i]) >= path_.C[k - 1] * path_.weight[i];
    };
    bool bounded = false;
    for (i64 i = 0; i < n && !bounded; ++i) bounded = at_cost(i);
    if (!bounded) {  // the cost of no row bounds the last solution: it is that of every larger C
      std::copy_n(last, n, a);
      return false;
    }
    // The last solution grown by the ratio of the costs: rows at their cost stay there, and sum(a) = 0
    // stays up to rounding. v = y - K a follows without a product.
    const double ratio = path_.C[k] / path_.C[k - 1];
    for (i64 i = 0; i < n; ++i) {
      const auto s = std::size_t(i);
      a[i] = at_cost(i) ? (path_.y[i] > 0 ? hi_[s] : lo_[s])
                        : std::clamp(ratio * last[i], lo_[s], hi_[s]);
      v_[s] = path_.y[i] - ratio * (path_.y[i] - v_[s]);
    }
    return true;
  }

 private:
  const WsvmPath& path_;
  std::vector<double> lo_, hi_, v_;
};

}  // namespace

void wsvm_paths(const std::vector<WsvmPath>& paths, double tol, i64 max_steps, double polish_tol,
                Pool& pool, const Check& check) {
  run_all(i64(paths.size()), pool, check, [&](i64 p, const Check& look) {
    const WsvmPath& path = paths[std::size_t(p)];
    const Kernel kernel(path.gram, path.n);
    Pool alone(1);
    WsvmSteps steps(path);
    DescentOptions options;
    options.tol = tol;
    options.max_steps = max_steps;
    for (i64 k = 0; k < path.m; ++k)
      if (steps.begin(k))
        path.steps[k] = wsvm_solve_small(kernel, path.gram, steps.box(), path.a + k * path.n, steps.v(),
                                         options, polish_tol, alone, look)
                            .steps;
  });
}

// Rows of whole vectors; and the first of them at the start of a cache line.
static i64 large_stride(i64 n) {
  const i64 lanes = loops<float>().lanes;
  return (n + lanes - 1) / lanes * lanes;
}

i64 large_room(i64 n) { return n * large_stride(n) + 15; }

void wsvm_large_path(const WsvmPath& path, const LargePathOptions& options, float* room,
                     const Check& check) {
  // Rounds of descent and finish before a problem is left to the caller, and steps between two looks for
  // an interrupt: 10 ms at n = 5,000.
  constexpr int rounds = 8;
  constexpr i64 steps_per_check = 5000;
  const i64 n = path.n, ld = large_stride(n);
  const Kernel kernel(path.gram, n);
  Pool alone(1);
  float* K = room + (64 - reinterpret_cast<std::uintptr_t>(room) % 64) % 64 / sizeof(float);
  for (i64 i = 0; i < n; ++i) {
    std::copy_n(path.gram + i * n, n, K + i * ld);
    std::fill(K + i * ld + n, K + (i + 1) * ld, 0.0f);
  }
  std::vector<float> diag(std::size_t(ld), 1.0f), short_v(std::size_t(ld), 0.0f);
  std::vector<Side> side(std::size_t(ld), 0);
  for (i64 i = 0; i < n; ++i) diag[std::size_t(i)] = float(path.gram[i * n + i]);
  std::vector<i64> support;
  std::vector<double> coef;
  WsvmSteps steps(path);
  double* v = steps.v();
  for (i64 k = 0; k < path.m; ++k) {
    if (!steps.begin(k)) continue;
    const Box box = steps.box();
    double* a = path.a + k * n;
    double target = std::max(options.tol, options.early);
    for (int round = 0; round < rounds && path.steps[k] < options.max_steps; ++round) {
      // v is kept relative to the middle of the violation: single precision then resolves what matters.
      i64 up, low;
      largest_violation(box, a, v, &up, &low);
      const double shift = up >= 0 && low >= 0 ? 0.5 * (v[up] + v[low]) : 0.0;
      for (i64 i = 0; i < n; ++i) {
        short_v[std::size_t(i)] = float(v[i] - shift);
        side[std::size_t(i)] = side_of(a[i], box.lo[i], box.hi[i]);
      }
      SmoArrays<float> arrays{n, ld, K, diag.data(), short_v.data(), side.data(), a, box.lo, box.hi};
      double violation = 0;
      do {
        check();
        const i64 allowed = std::min(steps_per_check, options.max_steps - path.steps[k]);
        path.steps[k] += loops<float>().smo(arrays, target, allowed, &violation);
      } while (violation > target && path.steps[k] < options.max_steps);
      for (i64 i = 0; i < n; ++i) v[i] = double(short_v[std::size_t(i)]) + shift;
      i64 free = 0;
      for (i64 i = 0; i < n; ++i) free += a[i] > box.lo[i] && a[i] < box.hi[i];
      if (free <= options.few) {
        violation = wsvm_polish(kernel, nullptr, box, a, v, options.polish_tol, options.few, 200, alone,
                                check)
                        .violation;
      } else if (target > options.tol) {
        target = options.tol;
        continue;
      } else {
        support.clear(), coef.clear();
        for (i64 i = 0; i < n; ++i)
          if (a[i] != 0) support.push_back(i), coef.push_back(a[i]);
        std::copy_n(path.y, n, v);
        subtract_rows(path.gram, n, support.data(), coef, v, alone);
        violation = largest_violation(box, a, v);
      }
      if (violation <= options.tol) break;
      target = target > options.tol ? options.tol : 0.95 * options.tol;
    }
  }
}

void svmplus_paths(const std::vector<SvmPlusPath>& paths, const SvmPlusOptions& options, Pool& pool,
                   const Check& check) {
  run_all(i64(paths.size()), pool, check, [&](i64 p, const Check& look) {
    const SvmPlusPath& path = paths[std::size_t(p)];
    const i64 n = path.n;
    const Kernel kernel(path.gram, n), kernel_corr(path.gram_corr, path.n_priv);
    Pool alone(1);
    std::vector<double> C(static_cast<std::size_t>(n));
    for (i64 k = 0; k < path.m; ++k) {
      for (i64 i = 0; i < n; ++i) C[std::size_t(i)] = path.C[k] * path.weight[i];
      double *alpha = path.alpha + k * n, *zeta = path.zeta + k * n, *delta = path.delta + k * n;
      if (k == 0) {
        std::fill_n(alpha, n, 0.0);
        std::fill_n(zeta, n, 0.0);
      } else {
        const double ratio = path.C[k] / path.C[k - 1];
        for (i64 i = 0; i < n; ++i) {
          alpha[i] = ratio * alpha[i - n];
          zeta[i] = ratio * zeta[i - n];
          if (path.priv[i] < 0) {  // an ordinary slack: at its cost, or below it
            const bool at_cost = alpha[i - n] == path.C[k - 1] * path.weight[i];
            alpha[i] = at_cost ? C[std::size_t(i)] : std::min(alpha[i], C[std::size_t(i)]);
            zeta[i] = C[std::size_t(i)];
          }
        }
      }
      std::fill_n(delta, n, 0.0);
      const SvmPlusData data{n,       path.y,       C.data(),            path.priv,
                             &kernel, &kernel_corr, path.inverse_reg[k], nullptr};
      path.steps[k] =
          svmplus_solve(data, alpha, zeta, delta, options, alone, look, SvmPlusReport()).iterations;
    }
  });
}

}  // namespace lupi
