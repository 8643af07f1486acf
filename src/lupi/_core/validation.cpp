#include "validation.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lupi {

namespace {

// Values of K in a block of columns: half of the second cache of most processors.
constexpr i64 block_values = 65536;
constexpr i64 narrowest = 64, widest = 1024;

// Loss and slope of `m` rows; see SmoothHinge in lupi/losses.py for the formula.
double smooth_hinge(const double* y, const double* f, i64 m, double delta, double* g) {
  const double scale = 0.5 / delta;
  double sum = 0;
  for (i64 j = 0; j < m; ++j) {
    const double t = y[j] * f[j];
    const double x = std::clamp((1 - t) * scale, 0.0, 1.0);
    sum += delta * x * x * x * (2 - x) + std::max(1 - 2 * delta - t, 0.0);
    g[j] = y[j] * (x * x * (2 * x - 3));
  }
  return sum;
}

}  // namespace

double judge_smooth_hinge(const double* K, i64 n, i64 N, const double* y, const double* a, double b,
                          double delta, double* f, double* g, double* p, Pool& pool) {
  const auto& dense = dense_loops();
  const i64 width = std::clamp(block_values / std::max<i64>(n, 1) / 8 * 8, narrowest, widest);
  const i64 blocks = (N + width - 1) / width;
  // Of each block, summed in their order: the same numbers for any number of threads.
  std::vector<double> losses(std::size_t(blocks), 0.0), products(std::size_t(blocks * n));
  std::vector<double> minus(a, a + n);
  for (double& x : minus) x = -x;
  pool.run(blocks, [&](i64 begin, i64 end) {
    for (i64 k = begin; k < end; ++k) {
      const i64 j = k * width, m = std::min(width, N - j);
      std::fill(f + j, f + j + m, b);
      dense.minus_rows(K + j, N, minus.data(), n, f + j, m);
      losses[std::size_t(k)] = smooth_hinge(y + j, f + j, m, delta, g + j);
      dense.times_rows(K + j, N, g + j, m, products.data() + k * n, n);
    }
  });
  std::fill(p, p + n, 0.0);
  double loss = 0;
  for (i64 k = 0; k < blocks; ++k) {
    loss += losses[std::size_t(k)];
    const double* of_block = products.data() + k * n;
    for (i64 i = 0; i < n; ++i) p[i] += of_block[i];
  }
  return loss;
}

}  // namespace lupi
