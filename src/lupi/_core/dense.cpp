#include "dense.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lupi {

namespace {

// Rows of one step of the factorisation: the update of what is left has this depth.
constexpr i64 block = 64;
// Columns of such a block that stay in the second cache while it is solved.
constexpr i64 chunk = 512;
// Products between two looks at whether the user wants to stop: below 50 ms.
constexpr double work_between_checks = 5e8;
// Rows that a triangular solve takes at once.
constexpr i64 solve_rows = 8;

}  // namespace

double* SymmetricFactor::prepare(i64 n) {
  n_ = n;
  if (a_.size() < std::size_t(n * n)) a_.resize(std::size_t(n * n));
  return a_.data();
}

// The columns [begin, end) of a block of rows, packed for the tile loops; see loops.hpp.
struct SymmetricFactor::Panels {
  i64 width, count = 0;
  std::vector<i64> first;    // column of each panel
  std::vector<i64> columns;  // how many it has
  std::vector<double> values;

  explicit Panels(i64 w) : width(w) {}
  void clear() { first.clear(), columns.clear(), count = 0; }
  void add(i64 begin, i64 end) {
    for (i64 j = begin; j < end; j += width) {
      first.push_back(j);
      columns.push_back(std::min(width, end - j));
      ++count;
    }
  }
  double* panel(i64 p) { return values.data() + p * width * block; }
  void pack(const double* rows, i64 ld, i64 depth, Pool& pool) {
    if (values.size() < std::size_t(count * width * block)) values.resize(std::size_t(count * width * block));
    pool.run(count, [&](i64 begin, i64 end) {
      for (i64 p = begin; p < end; ++p) {
        double* to = panel(p);
        const double* from = rows + first[std::size_t(p)];
        const i64 m = columns[std::size_t(p)];
        for (i64 k = 0; k < depth; ++k, to += width, from += ld) {
          for (i64 r = 0; r < m; ++r) to[r] = from[r];
          for (i64 r = m; r < width; ++r) to[r] = 0;
        }
      }
    });
  }
};

bool SymmetricFactor::factor(Pool& pool, const Check& check, i64 skip_rows, i64 skip_begin, i64 skip_end) {
  const auto& dense = dense_loops();
  const auto& tiles = loops<double>();
  const i64 n = n_;
  double* A = a_.data();
  Panels left(tile_rows), right(tiles.width);
  std::vector<double> column(std::size_t(block * block)), inverse(static_cast<std::size_t>(block));
  for (i64 k = 0; k < n; k += block) {
    const i64 kb = std::min(block, n - k), rest = k + kb;
    // The block on the diagonal.
    for (i64 r = 0; r < kb; ++r) {
      double* x = column.data() + r * block;
      for (i64 q = 0; q < r; ++q) x[q] = A[(k + q) * n + k + r];
      double* row = A + (k + r) * n + k + r;
      dense.minus_rows(A + k * n + k + r, n, x, r, row, kb - r);
      if (!(row[0] > 0) || !std::isfinite(row[0])) return false;
      const double root = std::sqrt(row[0]);
      inverse[std::size_t(r)] = 1 / root;
      row[0] = root;
      for (i64 j = 1; j < kb - r; ++j) row[j] *= inverse[std::size_t(r)];
    }
    if (rest == n) break;
    // The columns that take part from here on.
    i64 parts[2][2] = {{rest, n}, {n, n}};
    if (rest <= skip_rows) {
      parts[0][1] = std::max(rest, skip_begin);
      parts[1][0] = skip_end;
    }
    // The rest of these rows.
    for (const auto& part : parts) {
      const i64 columns = part[1] - part[0];
      pool.run((columns + chunk - 1) / chunk, [&](i64 begin, i64 end) {
        for (i64 c = begin; c < end; ++c) {
          const i64 j = part[0] + c * chunk, m = std::min(chunk, part[1] - j);
          for (i64 r = 0; r < kb; ++r) {
            double* row = A + (k + r) * n + j;
            dense.minus_rows(A + k * n + j, n, column.data() + r * block, r, row, m);
            for (i64 l = 0; l < m; ++l) row[l] *= inverse[std::size_t(r)];
          }
        }
      });
    }
    // What is left of the matrix, in tiles on and above the diagonal.
    left.clear(), right.clear();
    for (const auto& part : parts) left.add(part[0], part[1]), right.add(part[0], part[1]);
    left.pack(A + k * n, n, kb, pool);
    right.pack(A + k * n, n, kb, pool);
    const i64 at_once = std::max<i64>(pool.threads(), i64(work_between_checks / double(kb * n * tile_rows)));
    for (i64 from = 0; from < left.count; from += at_once) {
      check();
      pool.run(std::min(at_once, left.count - from), [&](i64 begin, i64 end) {
        double tile[tile_rows * 64];
        for (i64 p = from + begin; p < from + end; ++p) {
          const i64 i = left.first[std::size_t(p)], mi = left.columns[std::size_t(p)];
          for (i64 q = 0; q < right.count; ++q) {
            const i64 j = right.first[std::size_t(q)], mj = right.columns[std::size_t(q)];
            if (j + mj <= i) continue;
            tiles.dots(left.panel(p), right.panel(q), kb, tile);
            for (i64 r = 0; r < mi; ++r) {
              double* to = A + (i + r) * n + j;
              const double* minus = tile + r * tiles.width;
              for (i64 l = 0; l < mj; ++l) to[l] -= minus[l];
            }
          }
        }
      });
    }
  }
  // U' below the diagonal, so that both triangular solves go along rows.
  constexpr i64 square = 32;
  pool.run((n + square - 1) / square, [&](i64 begin, i64 end) {
    for (i64 bi = begin * square; bi < std::min(n, end * square); bi += square)
      for (i64 bj = 0; bj <= bi; bj += square)
        for (i64 i = bi; i < std::min(n, bi + square); ++i)
          for (i64 j = bj; j < std::min(i, bj + square); ++j) A[i * n + j] = A[j * n + i];
  });
  return true;
}

void SymmetricFactor::solve(const std::vector<double*>& x) const {
  const auto& dense = dense_loops();
  const i64 n = n_;
  const double* A = a_.data();
  for (i64 i = 0; i < n; i += solve_rows) {  // U'
    const i64 m = std::min(solve_rows, n - i);
    for (double* v : x) {
      for (i64 r = i; r < i + m; ++r) {
        for (i64 q = i; q < r; ++q) v[r] -= A[q * n + r] * v[q];
        v[r] /= A[r * n + r];
      }
      dense.minus_rows(A + i * n + i + m, n, v + i, m, v + i + m, n - i - m);
    }
  }
  for (i64 i = (n - 1) / solve_rows * solve_rows; i >= 0; i -= solve_rows) {  // U
    const i64 m = std::min(solve_rows, n - i);
    for (double* v : x) {
      for (i64 r = i + m - 1; r >= i; --r) {
        for (i64 q = r + 1; q < i + m; ++q) v[r] -= A[r * n + q] * v[q];
        v[r] /= A[r * n + r];
      }
      dense.minus_rows(A + i * n, n, v + i, m, v, i);
    }
  }
}

}  // namespace lupi
