#include "kernel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>

namespace lupi {

// ---- Points ---------------------------------------------------------------------------------

namespace {

// Panel p of dense points from the caller's rows: out[k * width + r].
template <class R, class Source>
void pack_panel(const Source* rows, i64 n, i64 d, i64 p, int width, R* out) {
  const i64 first = p * width, count = std::min<i64>(width, n - first);
  for (i64 k = 0; k < d; ++k) {
    R* o = out + k * width;
    const Source* s = rows + first * d + k;
    for (i64 r = 0; r < count; ++r) o[r] = R(s[r * d]);
    for (i64 r = count; r < width; ++r) o[r] = R(0);
  }
}

}  // namespace

template <class R>
Points<R>::Points(const PointView& view, bool with_norms, Pool* pool)
    : n_(view.n), d_(view.d), width_(loops<R>().width), is_sparse_(view.is_sparse) {
  if (is_sparse_) {
    const i64 nnz = view.indptr[n_];
    ptr_.assign(std::size_t(panels() * width_ + 1), nnz);
    std::copy(view.indptr, view.indptr + n_ + 1, ptr_.begin());
    col_.assign(view.indices, view.indices + nnz);
    data_.resize(std::size_t(nnz));
    for (i64 e = 0; e < nnz; ++e)
      data_[std::size_t(e)] = view.is_float ? R(static_cast<const float*>(view.values)[e])
                                            : R(static_cast<const double*>(view.values)[e]);
  } else {
    data_.resize(std::size_t(panels() * d_ * width_));
    auto pack = [&](i64 begin, i64 end) {
      for (i64 p = begin; p < end; ++p) {
        R* out = data_.data() + p * d_ * width_;
        if (view.is_float)
          pack_panel(static_cast<const float*>(view.values), n_, d_, p, width_, out);
        else
          pack_panel(static_cast<const double*>(view.values), n_, d_, p, width_, out);
      }
    };
    if (pool)
      pool->run(panels(), pack);
    else
      pack(0, panels());
  }
  if (with_norms) compute_norms(pool);
}

template <class R>
void Points<R>::compute_norms(Pool* pool) {
  norms_.assign(std::size_t(panels() * width_), R(0));
  auto compute = [&](i64 begin, i64 end) {
    std::vector<R> A(std::size_t(d_ * tile_rows)), tile(std::size_t(tile_rows * width_));
    for (i64 p = begin; p < end; ++p)
      for (i64 r0 = 0; r0 < width_ && p * width_ + r0 < n_; r0 += tile_rows) {
        i64 idx[tile_rows];
        const i64 first = p * width_ + r0;
        const int m = int(std::min<i64>({tile_rows, width_ - r0, n_ - first}));
        for (int i = 0; i < m; ++i) idx[i] = first + i;
        left_panel(idx, m, A.data());
        dots(A.data(), p, tile.data());
        for (int i = 0; i < m; ++i)
          norms_[std::size_t(first + i)] = tile[std::size_t(i * width_ + r0 + i)];
      }
  };
  if (pool)
    pool->run(panels(), compute);
  else
    compute(0, panels());
}

template <class R>
void Points<R>::left_panel(const i64* idx, int m, R* A) const {
  if (is_sparse_ || m < tile_rows) std::fill(A, A + d_ * tile_rows, R(0));
  for (int i = 0; i < m; ++i) {
    if (is_sparse_) {
      for (i64 e = ptr_[std::size_t(idx[i])]; e < ptr_[std::size_t(idx[i] + 1)]; ++e)
        A[col_[std::size_t(e)] * tile_rows + i] += data_[std::size_t(e)];
    } else {
      const R* from = data_.data() + (idx[i] / width_) * d_ * width_ + idx[i] % width_;
      for (i64 k = 0; k < d_; ++k) A[k * tile_rows + i] = from[k * width_];
    }
  }
}

template <class R>
void Points<R>::dots(const R* A, i64 p, R* tile) const {
  if (is_sparse_)
    loops<R>().sparse_dots(A, ptr_.data() + p * width_, col_.data(), data_.data(), tile);
  else
    loops<R>().dots(A, data_.data() + p * d_ * width_, d_, tile);
}

template <class R>
Points<R> Points<R>::subset(const i64* idx, i64 m) const {
  Points out;
  out.n_ = m;
  out.d_ = d_;
  out.width_ = width_;
  out.is_sparse_ = is_sparse_;
  if (is_sparse_) {
    out.ptr_.push_back(0);
    for (i64 r = 0; r < m; ++r) {
      for (i64 e = ptr_[std::size_t(idx[r])]; e < ptr_[std::size_t(idx[r] + 1)]; ++e) {
        out.col_.push_back(col_[std::size_t(e)]);
        out.data_.push_back(data_[std::size_t(e)]);
      }
      out.ptr_.push_back(i64(out.col_.size()));
    }
    out.ptr_.resize(std::size_t(out.panels() * width_ + 1), out.ptr_.back());
  } else {
    out.data_.assign(std::size_t(out.panels() * d_ * width_), R(0));
    for (i64 r = 0; r < m; ++r) {
      const R* from = data_.data() + (idx[r] / width_) * d_ * width_ + idx[r] % width_;
      R* to = out.data_.data() + (r / width_) * d_ * width_ + r % width_;
      for (i64 k = 0; k < d_; ++k) to[k * width_] = from[k * width_];
    }
  }
  if (!norms_.empty()) {
    out.norms_.assign(std::size_t(out.panels() * width_), R(0));
    for (i64 r = 0; r < m; ++r) out.norms_[std::size_t(r)] = norms_[std::size_t(idx[r])];
  }
  return out;
}

template <class R>
std::size_t Points<R>::bytes() const {
  return data_.size() * sizeof(R) + (ptr_.size() + col_.size()) * sizeof(i64) +
         norms_.size() * sizeof(R);
}

// ---- tiles ----------------------------------------------------------------------------------

namespace {

// All left panels of `left` at once, in order; the last one padded with zero points.
template <class R>
struct LeftPanels {
  LeftPanels(const Points<R>& left, const i64* idx, i64 m)
      : count((m + tile_rows - 1) / tile_rows), stride(left.d() * tile_rows),
        data(std::size_t(count * stride)), norms(std::size_t(count * tile_rows), R(0)) {
    for (i64 q = 0; q < count; ++q) {
      const int rows = int(std::min<i64>(tile_rows, m - q * tile_rows));
      left.left_panel(idx + q * tile_rows, rows, data.data() + q * stride);
      for (int i = 0; i < rows; ++i)
        norms[std::size_t(q * tile_rows + i)] = left.norm(idx[q * tile_rows + i]);
    }
  }
  i64 count, stride;
  std::vector<R> data, norms;
};

std::vector<i64> all_indices(i64 n) {
  std::vector<i64> idx(static_cast<std::size_t>(n));
  for (i64 i = 0; i < n; ++i) idx[std::size_t(i)] = i;
  return idx;
}

// For every tile of (left panels [0, last), right panels [begin, end)): visit(q, p, tile).
template <class R, class Visit>
void for_tiles(const LeftPanels<R>& left, const Points<R>& right, const KernelParams& params,
               i64 begin, i64 end, i64 last, Visit&& visit) {
  const Loops<R>& ops = loops<R>();
  alignas(64) R tile[tile_rows * 64];
  alignas(64) static const R no_norms[64] = {};
  for (i64 p = begin; p < end; ++p)
    for (i64 q = 0; q < last; ++q) {
      right.dots(left.data.data() + q * left.stride, p, tile);
      const R* nb = right.norms() ? right.norms() + p * ops.width : no_norms;
      ops.finish(tile, left.norms.data() + q * tile_rows, nb, params);
      visit(q, p, tile);
    }
}

// sum over the left points of coef * k, for columns of panels [begin, end) of `right`.
// coef is padded to whole left panels: (n_coef, left.count * tile_rows).
template <class R>
void combine_panels(const LeftPanels<R>& left, const Points<R>& right, const KernelParams& params,
                    const double* coef, i64 n_coef, i64 begin, i64 end, i64 first_column,
                    i64 n_columns, double* out) {
  const Loops<R>& ops = loops<R>();
  const i64 stride = left.count * tile_rows;
  std::vector<double> sums(std::size_t(n_coef * ops.width)), lost(sums.size());
  for (i64 p = begin; p < end; ++p) {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(lost.begin(), lost.end(), 0.0);
    for_tiles(left, right, params, p, p + 1, left.count, [&](i64 q, i64, const R* tile) {
      for (i64 c = 0; c < n_coef; ++c)
        ops.combine(tile, coef + c * stride + q * tile_rows, sums.data() + c * ops.width,
                    lost.data() + c * ops.width);
    });
    const i64 j0 = first_column + p * ops.width;
    const i64 count = std::min<i64>(ops.width, n_columns - j0);
    for (i64 c = 0; c < n_coef; ++c)
      std::copy_n(sums.data() + c * ops.width, count, out + c * n_columns + j0);
  }
}

std::vector<double> pad_coef(const double* coef, i64 n_coef, i64 m) {
  const i64 stride = (m + tile_rows - 1) / tile_rows * tile_rows;
  std::vector<double> out(std::size_t(n_coef * stride), 0.0);
  for (i64 c = 0; c < n_coef; ++c)
    std::copy_n(coef + c * m, m, out.data() + c * stride);
  return out;
}

// Work between two looks at the clock or for an interrupt: about 20 ms.
i64 panels_per_check(i64 left_points, i64 d, int width, int threads) {
  const double flops = double(left_points) * double(width) * (2.0 * double(d) + 60.0);
  return std::max<i64>(threads, i64(2e8 * threads / std::max(flops, 1.0)));
}

PointView slice(const PointView& v, i64 begin, i64 end) {
  PointView out = v;
  out.n = end - begin;
  if (v.is_sparse)
    out.indptr = v.indptr + begin;
  else if (v.is_float)
    out.values = static_cast<const float*>(v.values) + begin * v.d;
  else
    out.values = static_cast<const double*>(v.values) + begin * v.d;
  return out;
}

// The query in slices of whole panels, packed one at a time: no copy of the whole query is made.
template <class Body>
void for_query_slices(const PointView& query, bool with_norms, Pool& pool, i64 per_check,
                      const Check& check, Body&& body) {
  const int width = loops<double>().width;
  for (i64 begin = 0; begin < query.n; begin += per_check * width) {
    check();
    const i64 end = std::min(query.n, begin + per_check * width);
    if (query.is_sparse) {  // CSR slices share indptr's origin, so rebase a copy
      std::vector<i64> indptr(query.indptr + begin, query.indptr + end + 1);
      const i64 origin = indptr.front();
      for (auto& e : indptr) e -= origin;
      PointView part = query;
      part.n = end - begin;
      part.indptr = indptr.data();
      part.indices = query.indices + origin;
      part.values = query.is_float
                        ? static_cast<const void*>(static_cast<const float*>(query.values) + origin)
                        : static_cast<const void*>(static_cast<const double*>(query.values) + origin);
      body(Points<double>(part, with_norms), begin);
    } else {
      body(Points<double>(slice(query, begin, end), with_norms, &pool), begin);
    }
  }
}

bool any_rbf(const std::vector<KernelParams>& params) {
  return std::any_of(params.begin(), params.end(),
                     [](const KernelParams& k) { return k.kind == KernelKind::rbf; });
}

// Blocks of several kernels between some left panels and one right panel, from the same products.
class KernelTiles {
 public:
  KernelTiles(const LeftPanels<double>& left, const Points<double>& right, i64 most = 1)
      : left_(left), right_(right), size_(tile_rows * loops<double>().width),
        products_(std::size_t(most * size_)), values_(products_.size()) {}

  // The products of left panels [q, q + panels) with right panel p.
  void products(i64 q, i64 panels, i64 p) {
    q_ = q, panels_ = panels, p_ = p;
    for (i64 k = 0; k < panels; ++k)
      right_.dots(left_.data.data() + (q + k) * left_.stride, p, products_.data() + k * size_);
  }
  // The kernel there, (panels * tile_rows, width); valid until the next call.
  const double* kernel(const KernelParams& params) {
    alignas(64) static const double no_norms[64] = {};
    const double* nb = right_.norms() ? right_.norms() + p_ * loops<double>().width : no_norms;
    std::copy_n(products_.data(), panels_ * size_, values_.data());
    for (i64 k = 0; k < panels_; ++k)
      loops<double>().finish(values_.data() + k * size_, left_.norms.data() + (q_ + k) * tile_rows, nb,
                             params);
    return values_.data();
  }

 private:
  const LeftPanels<double>& left_;
  const Points<double>& right_;
  const i64 size_;
  std::vector<double> products_, values_;
  i64 q_ = 0, panels_ = 0, p_ = 0;
};

}  // namespace

void cross_combine(const PointView& basis, const PointView& query, const KernelParams& params,
               const double* coef, i64 n_coef, double* out, Pool& pool, const Check& check) {
  const bool with_norms = params.kind == KernelKind::rbf;
  const Points<double> points(basis, with_norms, &pool);
  const auto idx = all_indices(basis.n);
  const LeftPanels<double> left(points, idx.data(), basis.n);
  const auto padded = pad_coef(coef, n_coef, basis.n);
  const i64 step = panels_per_check(basis.n, basis.d, loops<double>().width, pool.threads());
  for_query_slices(query, with_norms, pool, step, check,
                   [&](const Points<double>& part, i64 first) {
                     pool.run(part.panels(), [&](i64 begin, i64 end) {
                       combine_panels(left, part, params, padded.data(), n_coef, begin, end, first,
                                      query.n, out);
                     });
                   });
}

void cross_kernel(const PointView& basis, const PointView& query, const KernelParams& params,
                  double* out, Pool& pool, const Check& check) {
  const bool with_norms = params.kind == KernelKind::rbf;
  const Points<double> points(basis, with_norms, &pool);
  const auto idx = all_indices(basis.n);
  const LeftPanels<double> left(points, idx.data(), basis.n);
  const int width = loops<double>().width;
  const i64 step = panels_per_check(basis.n, basis.d, width, pool.threads());
  for_query_slices(
      query, with_norms, pool, step, check, [&](const Points<double>& part, i64 first) {
        pool.run(part.panels(), [&](i64 begin, i64 end) {
          for_tiles(left, part, params, begin, end, left.count, [&](i64 q, i64 p, const double* tile) {
            const i64 j0 = first + p * width;
            const i64 count = std::min<i64>(width, query.n - j0);
            const i64 rows = std::min<i64>(tile_rows, basis.n - q * tile_rows);
            for (i64 i = 0; i < rows; ++i)
              std::copy_n(tile + i * width, count, out + (q * tile_rows + i) * query.n + j0);
          });
        });
      });
}

void gram_matrices(const PointView& view, const std::vector<KernelParams>& params, double* out,
                   Pool& pool, const Check& check) {
  const Points<double> points(view, any_rbf(params), &pool);
  const auto idx = all_indices(view.n);
  const LeftPanels<double> left(points, idx.data(), view.n);
  const i64 n = view.n, width = loops<double>().width, kernels = i64(params.size());
  const i64 step = panels_per_check(n, view.d + 30 * (kernels - 1), int(width), pool.threads());
  for (i64 first = 0; first < points.panels(); first += step) {
    check();
    pool.run(std::min(step, points.panels() - first), [&](i64 begin, i64 end) {
      KernelTiles tiles(left, points);
      for (i64 p = first + begin; p < first + end; ++p)
        for (i64 q = 0; q < left.count && q * tile_rows < (p + 1) * width; ++q) {
          tiles.products(q, 1, p);
          const i64 r0 = q * tile_rows, j0 = p * width;
          const i64 rows = std::min<i64>(tile_rows, n - r0), count = std::min<i64>(width, n - j0);
          for (i64 k = 0; k < kernels; ++k) {
            const double* tile = tiles.kernel(params[std::size_t(k)]);
            double* to = out + k * n * n;
            for (i64 r = 0; r < count; ++r) {  // each pair once, to both of its places
              const i64 j = j0 + r, above = std::min<i64>(rows, j - r0 + 1);
              for (i64 i = 0; i < above; ++i) to[j * n + r0 + i] = tile[i * width + r];
            }
            for (i64 i = 0; i < rows; ++i) {
              const i64 from = std::max<i64>(0, r0 + i - j0);
              if (from < count)
                std::copy_n(tile + i * width + from, count - from, to + (r0 + i) * n + j0 + from);
            }
          }
        }
    });
  }
}

void cross_expand(const PointView& basis, const PointView& query,
                  const std::vector<Expansion>& expansions, const std::int8_t* sign, Pool& pool,
                  const Check& check) {
  std::vector<KernelParams> params;
  for (const Expansion& e : expansions) params.push_back(e.params);
  const bool with_norms = any_rbf(params);
  const Points<double> points(basis, with_norms, &pool);
  const auto idx = all_indices(basis.n);
  const LeftPanels<double> left(points, idx.data(), basis.n);
  const Loops<double>& ops = loops<double>();
  const i64 width = ops.width, padded = left.count * tile_rows, size = tile_rows * width;
  // Coefficients in panels of `tile_rows` expansions: the product with a kernel panel is then that of
  // two panels of points.
  std::vector<std::vector<double>> coefs;
  double work = 2.0 * double(basis.d);
  for (const Expansion& e : expansions) {
    const i64 groups = (e.n_coef + tile_rows - 1) / tile_rows;
    coefs.emplace_back(std::size_t(groups * padded * tile_rows), 0.0);
    for (i64 c = 0; c < e.n_coef; ++c)
      for (i64 i = 0; i < basis.n; ++i)
        coefs.back()[std::size_t((c / tile_rows * padded + i) * tile_rows + c % tile_rows)] =
            e.coef[c * basis.n + i];
    work += 60.0 + 2.0 * double(groups * tile_rows);
  }
  const i64 step = panels_per_check(basis.n, i64(0.5 * work), int(width), pool.threads());
  std::mutex counting;
  for (const Expansion& e : expansions)
    if (!e.out) std::fill_n(e.hits, e.n_coef, i64(0));
  // Left panels at once: two blocks of 128 points by a panel stay in the first cache.
  constexpr i64 block = 16;
  for_query_slices(query, with_norms, pool, step, check, [&](const Points<double>& part, i64 first) {
    pool.run(part.panels(), [&](i64 begin, i64 end) {
      KernelTiles tiles(left, part, block);
      std::vector<std::vector<double>> sums;
      std::vector<std::vector<i64>> hits;
      for (const Expansion& e : expansions) {
        sums.emplace_back(std::size_t((e.n_coef + tile_rows - 1) / tile_rows * size));
        hits.emplace_back(std::size_t(e.n_coef), 0);
      }
      alignas(64) double tile[tile_rows * 64];
      for (i64 p = begin; p < end; ++p) {
        for (auto& sum : sums) std::fill(sum.begin(), sum.end(), 0.0);
        for (i64 q = 0; q < left.count; q += block) {
          const i64 panels = std::min(block, left.count - q);
          tiles.products(q, panels, p);
          for (std::size_t e = 0; e < expansions.size(); ++e) {
            const double* K = tiles.kernel(params[e]);
            for (i64 g = 0; g * size < i64(sums[e].size()); ++g) {
              ops.dots(coefs[e].data() + (g * padded + q * tile_rows) * tile_rows, K,
                       panels * tile_rows, tile);
              double* sum = sums[e].data() + g * size;
              for (i64 i = 0; i < size; ++i) sum[i] += tile[i];
            }
          }
        }
        const i64 j0 = first + p * width, count = std::min<i64>(width, query.n - j0);
        for (std::size_t e = 0; e < expansions.size(); ++e)
          for (i64 c = 0; c < expansions[e].n_coef; ++c) {
            const double* sum = sums[e].data() + c * width;
            const double offset = expansions[e].offset[c];
            if (expansions[e].out)
              for (i64 r = 0; r < count; ++r)
                expansions[e].out[c * query.n + j0 + r] = sum[r] + offset;
            else
              for (i64 r = 0; r < count; ++r)
                hits[e][std::size_t(c)] += i64(sum[r] + offset > 0) == i64(sign[j0 + r]);
          }
      }
      std::lock_guard<std::mutex> lock(counting);
      for (std::size_t e = 0; e < expansions.size(); ++e)
        for (i64 c = 0; !expansions[e].out && c < expansions[e].n_coef; ++c)
          expansions[e].hits[c] += hits[e][std::size_t(c)];
    });
  });
}

// ---- Kernel ---------------------------------------------------------------------------------

void subtract_rows(const double* matrix, i64 n, const i64* idx, const std::vector<double>& coef,
                   double* v, Pool& pool) {
  std::vector<const double*> rows;
  for (std::size_t r = 0; r < coef.size(); ++r) rows.push_back(matrix + idx[r] * n);
  pool.run(n, [&](i64 begin, i64 end) {
    row_loops<double>().subtract(rows.data(), coef.data(), i64(coef.size()), begin, end, v, Scale());
  });
}

template <>
const Points<float>& Kernel::points<float>(Pool* pool) const {
  if (!f32_) f32_ = std::make_unique<Points<float>>(view_, wants_norms(), pool);
  return *f32_;
}
template <>
const Points<double>& Kernel::points<double>(Pool* pool) const {
  if (!f64_) f64_ = std::make_unique<Points<double>>(view_, wants_norms(), pool);
  return *f64_;
}

template <class S>
void Kernel::rows(const i64* idx, i64 m, const Columns<Real<S>>& columns, S* const* out,
                  const Scale& scale, std::vector<Excess>* excess, Pool& pool) const {
  using R = Real<S>;
  if (is_gram()) {
    pool.run(m, [&](i64 begin, i64 end) {
      for (i64 r = begin; r < end; ++r) {
        const double* g = gram_ + idx[r] * n_;
        if (columns.all)
          for (i64 j = 0; j < n_; ++j) out[r][j] = S(g[j]);
        else
          for (std::size_t j = 0; j < columns.idx.size(); ++j) out[r][j] = S(g[columns.idx[j]]);
      }
    });
    return;
  }
  const Points<R>& right = columns.all ? points<R>(&pool) : columns.points;
  const LeftPanels<R> left(points<R>(&pool), idx, m);
  const int width = loops<R>().width;
  std::mutex lists;
  pool.run(right.panels(), [&](i64 begin, i64 end) {
    for_tiles(left, right, params_, begin, end, left.count, [&](i64 q, i64 p, const R* tile) {
      const i64 rows = std::min<i64>(tile_rows, m - q * tile_rows);
      S* to[tile_rows];
      for (i64 i = 0; i < rows; ++i) to[i] = out[q * tile_rows + i] + p * width;
      const unsigned cut = row_loops<S>().put(tile, to, rows, scale);
      if (!cut) return;
      const i64 count = std::min<i64>(width, right.n() - p * width);
      std::lock_guard<std::mutex> lock(lists);
      for (i64 i = 0; i < rows; ++i)
        for (i64 r = 0; (cut >> i & 1) && r < count; ++r) {
          const R amount = tile[i * width + r] - R(scale.top);
          if (amount > 0) excess[q * tile_rows + i].push_back({p * width + r, float(amount)});
        }
    });
  });
  if (sizeof(S) == 2)  // in an order that does not depend on the threads
    for (i64 r = 0; r < m; ++r)
      std::sort(excess[r].begin(), excess[r].end(),
                [](const Excess& a, const Excess& b) { return a.column < b.column; });
}

template <class R>
void Kernel::subtract(const i64* idx, i64 m, const R* coef, double* v, Pool& pool) const {
  if (is_gram()) {
    subtract_rows(gram_, n_, idx, std::vector<double>(coef, coef + m), v, pool);
    return;
  }
  const Points<R>& right = points<R>(&pool);
  const LeftPanels<R> left(right, idx, m);
  const Loops<R>& ops = loops<R>();
  std::vector<R> padded(std::size_t(left.count * tile_rows), R(0));
  std::copy_n(coef, m, padded.data());
  pool.run(right.panels(), [&](i64 begin, i64 end) {
    std::vector<R> sums(std::size_t(ops.width)), lost(sums.size());
    for (i64 p = begin; p < end; ++p) {
      std::fill(sums.begin(), sums.end(), R(0));
      std::fill(lost.begin(), lost.end(), R(0));
      for_tiles(left, right, params_, p, p + 1, left.count, [&](i64 q, i64, const R* tile) {
        ops.combine(tile, padded.data() + q * tile_rows, sums.data(), lost.data());
      });
      const i64 j0 = p * ops.width, count = std::min<i64>(ops.width, n_ - j0);
      for (i64 r = 0; r < count; ++r) v[j0 + r] -= double(sums[std::size_t(r)]);
    }
  });
}
template void Kernel::subtract<float>(const i64*, i64, const float*, double*, Pool&) const;
template void Kernel::subtract<double>(const i64*, i64, const double*, double*, Pool&) const;

Scale Kernel::sampled_scale() const {
  const i64 m = std::min<i64>(n_, 256);
  std::vector<i64> idx(static_cast<std::size_t>(m));
  for (i64 r = 0; r < m; ++r) idx[std::size_t(r)] = r * n_ / m;
  std::vector<float> block(std::size_t(m * m));
  Pool alone(1);
  square_block(idx.data(), m, block.data(), m, alone);
  double largest = 0;
  for (i64 r = 0; r < m; ++r)
    for (i64 k = 0; k < r; ++k) largest = std::max(largest, double(block[std::size_t(r * m + k)]));
  // All pairs reach somewhat further than those of the sample.
  return q16_scale(std::min(1.0, 1.3 * largest + 1e-3));
}

void Kernel::diagonal(double* diag) const {
  if (is_gram()) {
    for (i64 i = 0; i < n_; ++i) diag[i] = gram_[i * n_ + i];
    return;
  }
  if (params_.kind == KernelKind::rbf) {
    std::fill(diag, diag + n_, 1.0);
    return;
  }
  for (i64 i = 0; i < n_; ++i) {
    double s = 0;
    const i64 begin = view_.is_sparse ? view_.indptr[i] : i * view_.d;
    const i64 end = view_.is_sparse ? view_.indptr[i + 1] : (i + 1) * view_.d;
    for (i64 e = begin; e < end; ++e) {
      const double x = view_.is_float ? double(static_cast<const float*>(view_.values)[e])
                                      : static_cast<const double*>(view_.values)[e];
      s += x * x;
    }
    const double z = params_.gamma * s + params_.coef0;
    diag[i] = params_.kind == KernelKind::linear ? s
              : params_.kind == KernelKind::poly ? std::pow(z, params_.degree)
                                                 : std::tanh(z);
  }
}

template <class R>
void Kernel::square_block(const i64* idx, i64 m, R* out, i64 ld, Pool& pool) const {
  if (is_gram()) {
    for (i64 r = 0; r < m; ++r)
      for (i64 j = 0; j < m; ++j) out[r * ld + j] = R(gram_[idx[r] * n_ + idx[j]]);
    return;
  }
  const Points<R> part = points<R>(&pool).subset(idx, m);
  const auto all = all_indices(m);
  const LeftPanels<R> left(part, all.data(), m);
  const int width = loops<R>().width;
  pool.run(part.panels(), [&](i64 begin, i64 end) {
    for_tiles(left, part, params_, begin, end, left.count, [&](i64 q, i64 p, const R* tile) {
      const i64 rows = std::min<i64>(tile_rows, m - q * tile_rows);
      const i64 count = std::min<i64>(width, m - p * width);
      for (i64 i = 0; i < rows; ++i)
        std::copy_n(tile + i * width, count, out + (q * tile_rows + i) * ld + p * width);
    });
  });
}

namespace {

// out[r] = sum_k coef[k] k(x_r, x_k) among the points themselves, each pair evaluated once.
//
// Points go in squares, the smallest that hold whole left and right panels. Right panel p meets the
// left panels up to its own square. A tile adds to its columns, and, if it lies off the diagonal
// squares, to its rows too. Row sums of different right panels fall on the same
// entries, so panels go in groups with sums of their own, which are added up in the order of the
// groups: the result does not depend on the number of threads.
void combine_symmetric(const Points<double>& part, const KernelParams& params, const double* coef,
                       double* out, Pool& pool, const Check& check) {
  const Loops<double>& ops = loops<double>();
  const i64 m = part.n(), width = ops.width, panels = part.panels();
  const i64 square = std::max<i64>(width, tile_rows);  // both are powers of two
  const i64 padded = (m + square - 1) / square * square;
  const auto all = all_indices(m);
  const LeftPanels<double> left(part, all.data(), m);
  std::vector<double> a(std::size_t(padded), 0.0), columns(a), columns_lost(a);
  std::copy_n(coef, m, a.data());
  const i64 groups = std::min<i64>(panels, std::max<i64>(16, m / 256)), at_once = pool.threads();
  std::vector<double> sums(std::size_t(at_once * padded)), lost(sums.size()), total(a.size(), 0.0);
  for (i64 first = 0; first < groups; first += at_once) {
    check();
    const i64 count = std::min(at_once, groups - first);
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(lost.begin(), lost.end(), 0.0);
    pool.run(count, [&](i64 begin, i64 end) {
      for (i64 g = begin; g < end; ++g) {
        double *rows = sums.data() + g * padded, *rows_lost = lost.data() + g * padded;
        for (i64 p = first + g; p < panels; p += groups) {  // every group gets short and long ones
          const i64 own = p * width / square, last = std::min(left.count, (own + 1) * square / tile_rows);
          for_tiles(left, part, params, p, p + 1, last, [&](i64 q, i64, const double* tile) {
            ops.combine(tile, a.data() + q * tile_rows, columns.data() + p * width,
                        columns_lost.data() + p * width);
            if (q * tile_rows / square < own)
              ops.combine_rows(tile, a.data() + p * width, rows + q * tile_rows,
                               rows_lost + q * tile_rows);
          });
        }
      }
    });
    for (i64 g = 0; g < count; ++g)
      for (i64 r = 0; r < m; ++r) total[std::size_t(r)] += sums[std::size_t(g * padded + r)];
  }
  for (i64 r = 0; r < m; ++r) out[r] = columns[std::size_t(r)] + total[std::size_t(r)];
}

}  // namespace

void Kernel::combine(const i64* idx, i64 m, const double* coef, double* out, Pool& pool,
                     const Check& check) const {
  if (is_gram()) {
    std::vector<double> minus(coef, coef + m);
    for (double& x : minus) x = -x;
    std::fill_n(out, n_, 0.0);
    subtract_rows(gram_, n_, idx, minus, out, pool);
    return;
  }
  const Points<double>& all = points<double>(&pool);
  const auto padded = pad_coef(coef, 1, m);
  const i64 step = panels_per_check(m, d(), loops<double>().width, pool.threads());
  auto combine_with = [&](const LeftPanels<double>& left, const Points<double>& right, double* to) {
    for (i64 first = 0; first < right.panels(); first += step) {
      check();
      const i64 last = std::min(right.panels(), first + step);
      pool.run(last - first, [&](i64 begin, i64 end) {
        combine_panels(left, right, params_, padded.data(), 1, first + begin, first + end, 0,
                       right.n(), to);
      });
    }
  };
  if (4 * m < n_ || m < 256) {  // few columns: symmetry among them saves nothing
    combine_with(LeftPanels<double>(all, idx, m), all, out);
    return;
  }
  std::vector<char> inside(std::size_t(n_), 0);
  for (i64 r = 0; r < m; ++r) inside[std::size_t(idx[r])] = 1;
  std::vector<i64> rest;
  for (i64 i = 0; i < n_; ++i)
    if (!inside[std::size_t(i)]) rest.push_back(i);
  std::vector<double> values(std::size_t(std::max<i64>(m, i64(rest.size()))));
  const Points<double> part = all.subset(idx, m);
  combine_symmetric(part, params_, coef, values.data(), pool, check);
  for (i64 r = 0; r < m; ++r) out[idx[r]] = values[std::size_t(r)];
  if (!rest.empty()) {
    combine_with(LeftPanels<double>(all, idx, m), all.subset(rest.data(), i64(rest.size())),
                 values.data());
    for (std::size_t r = 0; r < rest.size(); ++r) out[rest[r]] = values[r];
  }
}

// ---- Buffer, RowCache -----------------------------------------------------------------------

// Pages of the usual size. Huge ones save a tenth of the time where they are at hand, but a virtual
// machine that has handed its free memory back to the host waits for each of them: 1.0 s for
// 500 MB, against 0.17 s for small ones and 0.7 s for everything else (n = 20,000, C = 1).
template <class R>
Buffer<R>::Buffer(std::size_t n) {
  const std::size_t bytes = (std::max<std::size_t>(n * sizeof(R), 1) + 63) / 64 * 64;
  data_ = static_cast<R*>(std::aligned_alloc(64, bytes));
  if (!data_) throw std::bad_alloc();
}
template <class R>
Buffer<R>::~Buffer() {
  std::free(data_);
}

template <class S>
i64 RowCache<S>::stride_for(i64 n) {
  const i64 width = loops<Real<S>>().width;
  return (n + width - 1) / width * width;
}

template <class S>
RowCache<S>::RowCache(const Kernel& kernel, i64 capacity)
    : kernel_(kernel), scale_(sizeof(S) == 2 ? kernel.sampled_scale() : Scale()),
      values_(std::min(capacity, kernel.n()) * stride_for(kernel.n())),
      storage_(static_cast<std::size_t>(values_)) {
  reset();
}

template <class S>
void RowCache<S>::reset() {
  const auto n = std::size_t(kernel_.n());
  columns_ = {};
  stride_ = stride_for(kernel_.n());
  capacity_ = values_ / stride_;
  row_.assign(n, nullptr);
  excess_.assign(n, {});
  excess_list_.assign(n, {});
  last_used_.assign(n, 0);
  at_hand_.clear();
  free_slots_.clear();
  for (i64 s = capacity_; s-- > 0;) free_slots_.push_back(s);
}

template <class S>
void RowCache<S>::drop(std::size_t i) {
  row_[i] = nullptr;
  excess_[i].clear();
  excess_list_[i] = {};
}

template <class S>
void RowCache<S>::restrict_to(const std::vector<i64>& keep, Pool& pool) {
  const auto m = keep.size(), before = row_.size();
  std::vector<i64> place(before, -1);  // of a variable among those kept
  for (std::size_t k = 0; k < m; ++k) place[std::size_t(keep[k])] = i64(k);

  // Rows are shortened where they lie, then moved together. They go down in memory, in the order in which
  // they lie there, so none is written over before it was moved.
  std::vector<i64> rows;
  for (i64 i : at_hand_)
    if (place[std::size_t(i)] >= 0) rows.push_back(i);
  std::sort(rows.begin(), rows.end(),
            [&](i64 p, i64 q) { return row_[std::size_t(p)] < row_[std::size_t(q)]; });
  pool.run(i64(rows.size()), [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      S* row = row_[std::size_t(rows[std::size_t(r)])];
      for (std::size_t k = 0; k < m; ++k) row[k] = row[keep[k]];
    }
  });
  const i64 stride = stride_for(i64(m));
  std::vector<S*> row(m, nullptr);
  std::vector<std::vector<Excess>> excess(m);
  std::vector<ExcessList> lists(m);
  std::vector<i64> last_used(m);
  for (std::size_t k = 0; k < m; ++k) last_used[k] = last_used_[std::size_t(keep[k])];
  at_hand_.clear();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto i = std::size_t(rows[r]);
    const auto k = std::size_t(place[i]);
    row[k] = storage_.data() + i64(r) * stride;
    std::memmove(row[k], row_[i], m * sizeof(S));
    for (const Excess& e : excess_[i])
      if (place[std::size_t(e.column)] >= 0)
        excess[k].push_back({place[std::size_t(e.column)], e.amount});
    lists[k] = {excess[k].data(), i64(excess[k].size())};
    at_hand_.push_back(i64(k));
  }

  Columns<Real<S>> columns;
  columns.all = false;
  for (i64 i : keep) columns.idx.push_back(columns_.all ? i : columns_.idx[std::size_t(i)]);
  if (!kernel_.is_gram())
    columns.points = kernel_.template points<Real<S>>(&pool).subset(columns.idx.data(), i64(m));
  columns_ = std::move(columns);
  row_.swap(row);
  excess_.swap(excess);  // the lists' arrays move along
  excess_list_.swap(lists);
  last_used_.swap(last_used);
  stride_ = stride;
  capacity_ = std::min(i64(m), values_ / stride);
  free_slots_.clear();
  for (i64 s = capacity_; s-- > i64(rows.size());) free_slots_.push_back(s);
}

template <class S>
void RowCache<S>::ensure(const i64* idx, i64 m, Pool& pool) {
  if (m > capacity_) throw std::logic_error("RowCache::ensure: more rows than the cache holds");
  std::vector<i64> missing;
  for (i64 r = 0; r < m; ++r)
    if (!row_[std::size_t(idx[r])]) missing.push_back(idx[r]);
  const i64 lacking = i64(missing.size()) - i64(free_slots_.size());
  if (lacking > 0) {
    // The wanted rows that are here must stay, so look at the others only.
    std::vector<char> wanted(row_.size(), 0);
    for (i64 r = 0; r < m; ++r) wanted[std::size_t(idx[r])] = 1;
    auto last = std::partition(at_hand_.begin(), at_hand_.end(),
                               [&](i64 i) { return !wanted[std::size_t(i)]; });
    // A tenth of the cache at a time: finding the oldest costs a pass over it.
    const i64 victims = std::min<i64>(std::max(lacking, capacity_ / 10), last - at_hand_.begin());
    std::nth_element(at_hand_.begin(), at_hand_.begin() + (victims - 1), last, [&](i64 p, i64 q) {
      const i64 a = last_used_[std::size_t(p)], b = last_used_[std::size_t(q)];
      return a < b || (a == b && p < q);
    });
    for (i64 r = 0; r < victims; ++r) {
      const auto i = std::size_t(at_hand_[std::size_t(r)]);
      free_slots_.push_back((row_[i] - storage_.data()) / stride_);
      drop(i);
    }
    at_hand_.erase(at_hand_.begin(), at_hand_.begin() + victims);
  }
  std::vector<S*> where;
  for (i64 i : missing) {
    where.push_back(storage_.data() + free_slots_.back() * stride_);
    free_slots_.pop_back();
    row_[std::size_t(i)] = where.back();
    at_hand_.push_back(i);
  }
  if (missing.empty()) return;
  std::vector<i64> points(missing);
  if (!columns_.all)
    for (i64& i : points) i = columns_.idx[std::size_t(i)];
  std::vector<std::vector<Excess>> excess(missing.size());
  kernel_.rows<S>(points.data(), i64(missing.size()), columns_, where.data(), scale_, excess.data(),
                  pool);
  for (std::size_t r = 0; r < missing.size(); ++r) {
    const auto i = std::size_t(missing[r]);
    excess_[i].swap(excess[r]);
    excess_list_[i] = {excess_[i].data(), i64(excess_[i].size())};
  }
  computed_ += i64(missing.size());
}

template class Points<float>;
template class Points<double>;
template void Kernel::square_block<float>(const i64*, i64, float*, i64, Pool&) const;
template void Kernel::square_block<double>(const i64*, i64, double*, i64, Pool&) const;
template class Buffer<float>;
template class Buffer<double>;
template class Buffer<q16>;
template class RowCache<float>;
template class RowCache<double>;
template class RowCache<q16>;

}  // namespace lupi
