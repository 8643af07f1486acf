// Points, kernels between points, and a cache of kernel rows.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "loops.hpp"
#include "pool.hpp"

namespace lupi {

// The caller's points: rows of a dense array or of a CSR matrix, in float or double. A view.
struct PointView {
  i64 n = 0, d = 0;
  bool is_sparse = false;
  bool is_float = false;          // element type of `values`
  const void* values = nullptr;   // dense: (n, d) row-major; sparse: (nnz)
  const i64* indptr = nullptr;    // (n + 1), sparse only
  const i64* indices = nullptr;   // (nnz), sparse only
};

// Points packed for the vector loops in precision R. Dense points as panels of loops<R>().width;
// sparse ones as CSR with rows padded to whole panels. `norms` are squared lengths, computed by the
// same loop as the products between points, so that a point is at distance exactly 0 from its copy.
template <class R>
class Points {
 public:
  Points() = default;
  explicit Points(const PointView& view, bool with_norms, Pool* pool = nullptr);

  i64 n() const { return n_; }
  i64 d() const { return d_; }
  i64 panels() const { return (n_ + width_ - 1) / width_; }
  bool is_sparse() const { return is_sparse_; }
  const R* norms() const { return norms_.data(); }
  R norm(i64 i) const { return norms_.empty() ? R(0) : norms_[std::size_t(i)]; }

  // Panel of tile_rows points idx[0..m) as the first argument of `dots` / `sparse_dots`.
  void left_panel(const i64* idx, int m, R* A) const;
  // tile = products of a left panel with panel p of these points.
  void dots(const R* A, i64 p, R* tile) const;

  Points subset(const i64* idx, i64 m) const;
  std::size_t bytes() const;

 private:
  void compute_norms(Pool* pool);
  i64 n_ = 0, d_ = 0;
  int width_ = 1;
  bool is_sparse_ = false;
  std::vector<R> data_;      // dense panels, or sparse values
  std::vector<i64> ptr_, col_;
  std::vector<R> norms_;     // padded to whole panels; empty unless the kernel wants them
};

// Some of the points of a kernel, in order: the columns of stored rows. All of them take no memory.
template <class R>
struct Columns {
  bool all = true;
  std::vector<i64> idx{};  // unless all
  Points<R> points{};      // unless all, or a Gram matrix
};

// v[j] -= sum_r coef[r] matrix[idx[r] * n + j] over all j < n, in double.
void subtract_rows(const double* matrix, i64 n, const i64* idx, const std::vector<double>& coef,
                   double* v, Pool& pool);

// A kernel on a set of n points, or a given n x n Gram matrix.
class Kernel {
 public:
  Kernel(const PointView& view, const KernelParams& params) : view_(view), params_(params), n_(view.n) {}
  Kernel(const double* gram, i64 n) : n_(n), gram_(gram) { params_.kind = KernelKind::gram; }

  i64 n() const { return n_; }
  i64 d() const { return view_.d; }
  const KernelParams& params() const { return params_; }
  bool is_gram() const { return params_.kind == KernelKind::gram; }
  bool wants_norms() const { return params_.kind == KernelKind::rbf; }

  // The points in precision R, packed at the first call (not from several threads at once).
  template <class R>
  const Points<R>& points(Pool* pool = nullptr) const;

  // out[r] = k(x_idx[r], x_j) for j in `columns`, stored as S; out rows need room for `padded` values.
  // excess[r]: what stored values lack, by position in `columns` (q16).
  template <class S>
  void rows(const i64* idx, i64 m, const Columns<Real<S>>& columns, S* const* out, const Scale& scale,
            std::vector<Excess>* excess, Pool& pool) const;
  // v[j] -= sum_r coef[r] k(x_idx[r], x_j) over all j, in R; nothing is stored.
  template <class R>
  void subtract(const i64* idx, i64 m, const R* coef, double* v, Pool& pool) const;
  // A scale for rows stored in 16 bits, from the kernel among some of the points.
  Scale sampled_scale() const;
  // diag[i] = k(x_i, x_i)
  void diagonal(double* diag) const;
  // out (m, ld), row-major: the kernel among the points idx; columns beyond m stay as they are.
  template <class R>
  void square_block(const i64* idx, i64 m, R* out, i64 ld, Pool& pool) const;
  // out[j] = sum_r coef[r] k(x_idx[r], x_j) over all j, in double; idx without repeats.
  void combine(const i64* idx, i64 m, const double* coef, double* out, Pool& pool,
               const Check& check) const;

 private:
  PointView view_;
  KernelParams params_;
  i64 n_;
  const double* gram_ = nullptr;
  mutable std::unique_ptr<Points<float>> f32_;
  mutable std::unique_ptr<Points<double>> f64_;
};

// out[c * n_query + j] = sum_i coef[c * n + i] k(x_i, query_j), in double, n = basis.n.
void cross_combine(const PointView& basis, const PointView& query, const KernelParams& params,
                   const double* coef, i64 n_coef, double* out, Pool& pool, const Check& check);
// out (n, n_query) row-major: k(x_i, query_j), in double.
void cross_kernel(const PointView& basis, const PointView& query, const KernelParams& params,
                  double* out, Pool& pool, const Check& check);

// out (kernels, n, n): several kernels among the same points, from one product between them; symmetric to
// the last bit.
void gram_matrices(const PointView& points, const std::vector<KernelParams>& params, double* out,
                   Pool& pool, const Check& check);

// Many expansions on the same basis: coef (n_coef, n) times a kernel, plus offset (n_coef). Either the
// values, out (n_coef, n_query), or how many have the sign that is expected, hits (n_coef).
struct Expansion {
  KernelParams params;
  const double* coef;
  const double* offset;
  i64 n_coef;
  double* out;
  i64* hits;  // used where out is null
};
// Several of them, with kernels of their own: the products between the points are formed once, and
// kernel values never leave the fast memory. sign (n_query): 1 where a value above 0 is a hit, 0 where
// one that is not is, anything else where none is; read for hits only.
void cross_expand(const PointView& basis, const PointView& query,
                  const std::vector<Expansion>& expansions, const std::int8_t* sign, Pool& pool,
                  const Check& check);

// Memory for n values, aligned, not initialised.
template <class R>
class Buffer {
 public:
  explicit Buffer(std::size_t n);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  R* data() { return data_; }

 private:
  R* data_;
};

// Some rows of a kernel, stored as S, never more than `capacity` of them. The cache may be restricted to
// some of the variables: then rows are shorter and more of them fit, and `i` below counts those.
template <class S>
class RowCache {
 public:
  RowCache(const Kernel& kernel, i64 capacity);
  // Computes those of the rows idx[0..m) that are not at hand, in one batch; m <= capacity. Where
  // there is no room the rows that were used longest ago go.
  void ensure(const i64* idx, i64 m, Pool& pool);
  // Whether m more rows fit without others going.
  bool has_room(i64 m) const { return m <= i64(free_slots_.size()); }
  // Leaves the variables keep[0..m), ascending, of those it has; their rows that are at hand stay.
  void restrict_to(const std::vector<i64>& keep, Pool& pool);
  // All variables again, and no row at hand.
  void reset();
  // The variables it is restricted to, or none: all.
  bool restricted() const { return !columns_.all; }
  const std::vector<i64>& members() const { return columns_.idx; }
  i64 size() const { return i64(row_.size()); }
  // table()[i]: row i, or null. Entries beyond size() are of no meaning.
  const S* const* table() const { return row_.data(); }
  const S* row(i64 i) const { return row_[std::size_t(i)]; }
  const ExcessList* excess() const { return excess_list_.data(); }
  i64* last_used() { return last_used_.data(); }  // to be written by the user of a row
  i64 capacity() const { return capacity_; }
  i64 at_hand() const { return i64(at_hand_.size()); }
  i64 computed() const { return computed_; }
  const Scale& scale() const { return scale_; }
  const Kernel& kernel() const { return kernel_; }

 private:
  static i64 stride_for(i64 n);
  void drop(std::size_t i);
  const Kernel& kernel_;
  Scale scale_;
  Columns<Real<S>> columns_;
  const i64 values_;  // that storage_ holds
  i64 capacity_, stride_, computed_ = 0;
  Buffer<S> storage_;
  std::vector<S*> row_;
  std::vector<std::vector<Excess>> excess_;
  std::vector<ExcessList> excess_list_;
  std::vector<i64> last_used_, at_hand_, free_slots_;
};

}  // namespace lupi
