// The vector loops that the solvers are made of, and the table through which they are called.
//
// `vector_loops.cpp` is compiled once for each instruction set; `loops()` returns the table of the
// best set that this processor has. The loops work on plain pointers and sizes, allocate nothing,
// and include no header with inline code: a template of the standard library compiled with AVX-512
// in one of them could be picked by the linker for the whole program.
//
// Panels. A set of points is stored as *panels* of `width` points: panel p holds
// P[k * width + r] = coordinate k of point p * width + r, so that one vector load brings one
// coordinate of `width` points. Missing points of the last panel are zero.
#pragma once
#include <cstdint>

namespace lupi {

using i64 = std::int64_t;

enum class KernelKind : int { linear = 0, poly = 1, rbf = 2, sigmoid = 3, gram = 4 };

struct KernelParams {
  KernelKind kind = KernelKind::rbf;
  double gamma = 1.0;
  int degree = 3;
  double coef0 = 0.0;
};

// Rows of A in one tile, whatever the instruction set.
constexpr int tile_rows = 8;

// Where a variable may go: bit 0 set, it may rise; bit 1 set, it may fall. One byte each, so that the
// vectors of a pass over 10,000 variables stay in the first cache.
using Side = std::int8_t;
constexpr Side may_rise = 1, may_fall = 2;
inline Side side_of(double a, double lo, double hi) {
  return Side((a < hi ? may_rise : 0) | (a > lo ? may_fall : 0));
}

// State of the inner solver (see `smo` below), all arrays of length q padded to `lanes`.
template <class R>
struct SmoArrays {
  i64 q;            // variables
  i64 ld;           // row length of K, a multiple of `lanes`; padding columns hold zero
  const R* K;       // (q, ld)
  const R* diag;    // (ld)
  R* v;             // (ld) y - K a, the negative gradient
  Side* side;       // (ld) side_of(a, lo, hi); padding: 0
  double* a;        // (q)
  const double* lo; // (q)
  const double* hi; // (q)
};

// Kernel rows are kept as float, as double, or, for the rbf kernel, in 16 bits: a value in [0, top] is
// top / 2 + q * top / 65534, with an error of at most 7.6e-6 * top. Half the memory of float is half
// the time of a step, and twice the rows in the cache. `top` lies somewhat above the largest value off
// the diagonal in a sample; of larger ones, the diagonal among them, `top` is stored and a list says
// what it lacks.
using q16 = std::int16_t;

// What the stored value of a row lacks in one column, and the list of a row.
struct Excess {
  i64 column;
  float amount;
};
struct ExcessList {
  const Excess* first = nullptr;
  i64 count = 0;
};

struct Scale {
  double factor = 1, offset = 0;  // value = offset + factor * stored
  double top = 1;                 // largest value that can be stored (q16)
};
inline Scale q16_scale(double top) { return {top / 65534, 0.5 * top, top}; }

template <class S>
struct RealOf {
  using type = S;
};
template <>
struct RealOf<q16> {
  using type = float;
};
template <class S>
using Real = typename RealOf<S>::type;

// State of the descent over all variables with kernel rows stored as S (see `pairs` below).
template <class S>
struct PairArrays {
  using R = Real<S>;
  i64 n;              // variables
  i64 ld;             // n padded to `lanes`
  const S* const* row;  // row[i]: k(x_i, .) with ld entries, or null where it is not at hand
  const ExcessList* excess;  // excess[i]: of row i
  i64* last_used;     // last_used[i] = the step that used row i
  Scale scale;        // of the stored rows
  const R* diag;      // (ld)
  R* v;               // (ld), side as in SmoArrays
  Side* side;
  double* a;
  const double* lo;
  const double* hi;
  i64 steps;          // counts on from call to call
  i64 missing;        // out: the row that is wanted, or -1
  double largest, smallest;  // out: the largest v that may rise, the smallest that may fall
  double violation;          // out: their difference
};

// Two threads on one descent. The leader gives orders, each for the upper part [half, ld) of one pass
// over the variables, does the lower part itself, and waits; the helper carries them out. A pass takes
// a few microseconds, so both spin. `order` and `done` count orders and are read and written
// atomically; everything else is written by one side before it raises its counter.
template <class S>
struct PairTeam {
  using R = Real<S>;
  enum Order : int { find, update, stop };
  alignas(128) i64 order = 0;
  Order what = stop;
  i64 half = 0;
  const S* Ki = nullptr;
  const S* Kj = nullptr;
  R delta = 0, vi = 0, kii = 0;
  alignas(128) i64 done = 0;
  R largest = 0, smallest = 0, gain = 0;
  i64 where = 0;
  // Long waits mean that the helper's processor is busy with something else.
  alignas(128) i64 long_waits = 0;
};

template <class R>
struct Loops {
  int lanes;  // R values in one vector
  int width;  // points in one panel of B

  // tile[i * width + r] = <A_i, B_r>: A is a panel of `tile_rows` points, B of `width` points.
  void (*dots)(const R* A, const R* B, i64 d, R* tile);
  // The same for a sparse B: points r < width have entries [ptr[r], ptr[r + 1]) of (col, val), and A
  // is a panel of `tile_rows` points with coordinate k at A[k * tile_rows].
  void (*sparse_dots)(const R* A, const i64* ptr, const i64* col, const R* val, R* tile);
  // tile <- k(.,.) from dot products; na, nb: squared norms (rbf only).
  void (*finish)(R* tile, const R* na, const R* nb, const KernelParams& params);
  // out[r] += sum_i coef[i] tile[i * width + r]; lost, as long as out and zero at first, carries what
  // rounding takes from call to call.
  void (*combine)(const R* tile, const R* coef, R* out, R* lost);
  // out[i] += sum_r coef[r] tile[i * width + r]
  void (*combine_rows)(const R* tile, const R* coef, R* out, R* lost);
  // Two-variable descent until the largest violation within the set is at most eps.
  // Returns the number of steps; *violation receives what is left.
  i64 (*smo)(SmoArrays<R>& s, double eps, i64 max_steps, double* violation);
};

// Loops over stored kernel rows.
template <class S>
struct RowLoops {
  // out[i] <- row i of a tile, `width` values, i < rows. Bit i of the answer: a value of row i lies
  // above scale.top (q16).
  unsigned (*put)(const Real<S>* tile, S* const* out, i64 rows, const Scale& scale);
  // v[j] -= sum_r delta[r] rows[r][j] for j in [begin, end); sums in Real<S> over all r, then one
  // double.
  void (*subtract)(const S* const* rows, const Real<S>* delta, i64 m, i64 begin, i64 end, double* v,
                   const Scale& scale);
  // `smo` on all variables: until the violation is at most eps, `steps` reaches max_steps, a row
  // is missing, or, with a team, its helper keeps being late. The result does not depend on the team.
  void (*pairs)(PairArrays<S>& s, double eps, i64 max_steps, PairTeam<S>* team);
  void (*help)(PairArrays<S>& s, PairTeam<S>& team);
};

// Loops over the rows of a dense matrix in double.
struct DenseLoops {
  // y[j] -= sum_{r < m} x[r] rows[r * ld + j] for j < n.
  void (*minus_rows)(const double* rows, i64 ld, const double* x, i64 m, double* y, i64 n);
  // y[r] = sum_{j < n} x[j] rows[r * ld + j] for r < m.
  void (*times_rows)(const double* rows, i64 ld, const double* x, i64 n, double* y, i64 m);
};

struct AllLoops {
  Loops<float> f32;
  Loops<double> f64;
  RowLoops<float> rows_f32;
  RowLoops<double> rows_f64;
  RowLoops<q16> rows_q16;
  DenseLoops dense;
};
const AllLoops& all_loops();

template <class R>
const Loops<R>& loops();
template <>
inline const Loops<float>& loops<float>() { return all_loops().f32; }
template <>
inline const Loops<double>& loops<double>() { return all_loops().f64; }
template <class S>
const RowLoops<S>& row_loops();
template <>
inline const RowLoops<float>& row_loops<float>() { return all_loops().rows_f32; }
template <>
inline const RowLoops<double>& row_loops<double>() { return all_loops().rows_f64; }
template <>
inline const RowLoops<q16>& row_loops<q16>() { return all_loops().rows_q16; }

inline const DenseLoops& dense_loops() { return all_loops().dense; }

const char* isa_name();

}  // namespace lupi
