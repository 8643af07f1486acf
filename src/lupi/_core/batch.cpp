#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
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

// Whether no row of solution k is at its cost.
bool within(const WsvmPath& path, i64 k) {
  const double* a = path.a + k * path.n;
  for (i64 i = 0; i < path.n; ++i)
    if (a[i] != 0 && std::abs(a[i]) >= path.C[k] * path.weight[i]) return false;
  return true;
}

}  // namespace

void wsvm_paths(const std::vector<WsvmPath>& paths, double tol, i64 max_steps, double polish_tol,
                Pool& pool, const Check& check) {
  run_all(i64(paths.size()), pool, check, [&](i64 p, const Check& look) {
    const WsvmPath& path = paths[std::size_t(p)];
    const i64 n = path.n;
    const Kernel kernel(path.gram, n);
    Pool alone(1);
    std::vector<double> lo(std::size_t(n), 0.0), hi(lo), v(path.y, path.y + n);
    const Box box{n, path.y, lo.data(), hi.data()};
    DescentOptions options;
    options.tol = tol;
    options.max_steps = max_steps;
    for (i64 k = 0; k < path.m; ++k) {
      double* a = path.a + k * n;
      for (i64 i = 0; i < n; ++i) {
        const double c = path.y[i] * (path.C[k] * path.weight[i]);
        lo[std::size_t(i)] = std::min(c, 0.0);
        hi[std::size_t(i)] = std::max(c, 0.0);
      }
      if (k == 0) {
        std::fill_n(a, n, 0.0);
      } else if (within(path, k - 1)) {
        // The cost of no row bounds the last solution: it is that of every larger C.
        std::copy_n(a - n, n, a);
        path.steps[k] = 0;
        continue;
      } else {
        // The last solution grown by the ratio of the costs: rows at their cost stay there, and
        // sum(a) = 0 stays up to rounding. v = y - K a follows without a product.
        const double ratio = path.C[k] / path.C[k - 1];
        const double* last = a - n;
        for (i64 i = 0; i < n; ++i) {
          const auto s = std::size_t(i);
          const bool at_cost = last[i] != 0 && last[i] == path.y[i] * (path.C[k - 1] * path.weight[i]);
          a[i] = at_cost ? (path.y[i] > 0 ? hi[s] : lo[s]) : std::clamp(ratio * last[i], lo[s], hi[s]);
          v[s] = path.y[i] - ratio * (path.y[i] - v[s]);
        }
      }
      path.steps[k] = wsvm_solve_small(kernel, path.gram, box, a, v.data(), options, polish_tol, alone,
                                       look)
                          .steps;
    }
  });
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
