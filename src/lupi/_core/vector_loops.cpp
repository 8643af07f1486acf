// Compiled once per instruction set with LUPI_ISA (a name) and LUPI_VECTOR_BYTES; see loops.hpp.
#include "loops.hpp"

#if LUPI_VECTOR_BYTES > 16
#include <immintrin.h>  // functions that are always inlined, so no template trouble
#endif

namespace lupi {
namespace LUPI_ISA {
namespace {

// Vectors of the width of this instruction set. `U` types may be loaded from any address.
template <class R>
struct V;
template <>
struct V<float> {
  typedef float vec __attribute__((vector_size(LUPI_VECTOR_BYTES)));
  typedef std::int32_t ivec __attribute__((vector_size(LUPI_VECTOR_BYTES)));
  typedef float uvec __attribute__((vector_size(LUPI_VECTOR_BYTES), aligned(4), may_alias));
  typedef std::int32_t integer;
};
template <>
struct V<double> {
  typedef double vec __attribute__((vector_size(LUPI_VECTOR_BYTES)));
  typedef std::int64_t ivec __attribute__((vector_size(LUPI_VECTOR_BYTES)));
  typedef double uvec __attribute__((vector_size(LUPI_VECTOR_BYTES), aligned(8), may_alias));
  typedef std::int64_t integer;
};
template <class R>
using Vec = typename V<R>::vec;
template <class R>
using IVec = typename V<R>::ivec;

template <class R>
constexpr int lanes = LUPI_VECTOR_BYTES / sizeof(R);
// 8 x 2 accumulators fill the 32 registers of AVX-512 best, 8 x 1 the 16 of the others.
constexpr int vectors_per_panel = LUPI_VECTOR_BYTES == 64 ? 2 : 1;
template <class R>
constexpr int width = lanes<R> * vectors_per_panel;

template <class R>
inline Vec<R> load(const R* p) {
  return *reinterpret_cast<const typename V<R>::uvec*>(p);
}
template <class R>
inline void store(R* p, Vec<R> x) {
  *reinterpret_cast<typename V<R>::uvec*>(p) = x;
}
template <class R>
inline Vec<R> splat(R x) {
  return x - Vec<R>{};  // not `+`: -0 + 0 is 0, so the compiler would have to add
}

// ---------------------------------------------------------------------------------------------
// exp. x = n log 2 + r, |r| <= log(2)/2; n by adding and subtracting 1.5 * 2^(mantissa bits), which
// leaves the integer in the low bits; 2^n by writing the exponent. Arguments are clamped to the
// range without denormals or overflow.

// The smaller and the larger, in one instruction where the processor has it; x where y is not a number.
template <class R>
inline Vec<R> smaller(Vec<R> x, R y) {
  const Vec<R> all = splat<R>(y);
  return all < x ? all : x;
}
template <class R>
inline Vec<R> larger(Vec<R> x, R y) {
  const Vec<R> all = splat<R>(y);
  return all > x ? all : x;
}
#if LUPI_VECTOR_BYTES == 64
template <>
inline Vec<float> smaller(Vec<float> x, float y) { return (Vec<float>)_mm512_min_ps(_mm512_set1_ps(y), (__m512)x); }
template <>
inline Vec<float> larger(Vec<float> x, float y) { return (Vec<float>)_mm512_max_ps(_mm512_set1_ps(y), (__m512)x); }
template <>
inline Vec<double> smaller(Vec<double> x, double y) { return (Vec<double>)_mm512_min_pd(_mm512_set1_pd(y), (__m512d)x); }
template <>
inline Vec<double> larger(Vec<double> x, double y) { return (Vec<double>)_mm512_max_pd(_mm512_set1_pd(y), (__m512d)x); }
#endif

inline Vec<float> exp(Vec<float> x) {
  // Polynomial: the minimax coefficients of the Cephes library's expf (S. Moshier).
  x = smaller<float>(larger<float>(x, -87.0f), 88.0f);
  const float magic = 12582912.0f;
  Vec<float> t = x * 1.44269504088896341f + magic;
  Vec<float> n = t - magic;
  Vec<float> r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  Vec<float> p = splat<float>(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // The integer n is in the low bits of t; what stands above them is shifted out.
  return p * (Vec<float>)(((IVec<float>)t + 127) << 23);
}

inline Vec<double> exp(Vec<double> x) {
  // Taylor to degree 12: the remainder r^13 / 13! <= 2e-16 is below rounding.
  x = smaller<double>(larger<double>(x, -708.0), 709.0);
  const double magic = 6755399441055744.0;
  Vec<double> t = x * 1.44269504088896340736 + magic;
  Vec<double> n = t - magic;
  Vec<double> r = x - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  Vec<double> p = splat<double>(1.0 / 479001600.0);
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  return p * (Vec<double>)(((IVec<double>)t + 1023) << 52);
}

// ---------------------------------------------------------------------------------------------
// Kernel tiles.

template <class R>
void dots(const R* __restrict A, const R* __restrict B, i64 d, R* __restrict tile) {
  constexpr int m = tile_rows, w = vectors_per_panel, L = lanes<R>;
  Vec<R> acc[m][w] = {};
  // One chain of fused multiply-adds per entry, in the order of k: then <x, x> computed here equals
  // the squared norm computed the same way, and the distance of a point to its copy is exactly 0.
  for (i64 k = 0; k < d; ++k) {
    Vec<R> b[w];
    for (int j = 0; j < w; ++j) b[j] = load<R>(B + (k * w + j) * L);
    for (int i = 0; i < m; ++i) {
      Vec<R> a = splat<R>(A[k * m + i]);
      for (int j = 0; j < w; ++j) acc[i][j] += a * b[j];
    }
  }
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < w; ++j) store<R>(tile + (i * w + j) * L, acc[i][j]);
}

template <class R>
void sparse_dots(const R* __restrict A, const i64* ptr, const i64* __restrict col,
                 const R* __restrict val, R* __restrict tile) {
  for (int r = 0; r < width<R>; ++r) {
    R acc[tile_rows] = {};
    for (i64 e = ptr[r]; e < ptr[r + 1]; ++e) {
      const R x = val[e];
      const R* a = A + col[e] * tile_rows;
      for (int i = 0; i < tile_rows; ++i) acc[i] += x * a[i];
    }
    for (int i = 0; i < tile_rows; ++i) tile[i * width<R> + r] = acc[i];
  }
}

template <class R>
inline Vec<R> power(Vec<R> x, int degree) {
  Vec<R> out = splat<R>(R(1));
  for (; degree > 0; degree >>= 1) {
    if (degree & 1) out *= x;
    x *= x;
  }
  return out;
}

template <class R>
inline Vec<R> tanh(Vec<R> x) {
  // 1 - 2 / (e^{2x} + 1); beyond |x| = 20 the value is +-1 in double.
  x = x > R(20) ? splat<R>(R(20)) : x;
  x = x < R(-20) ? splat<R>(R(-20)) : x;
  return R(1) - R(2) / (exp(x + x) + R(1));
}

template <class R>
void finish(R* tile, const R* na, const R* nb, const KernelParams& p) {
  constexpr int w = vectors_per_panel, L = lanes<R>;
  const R gamma = R(p.gamma), coef0 = R(p.coef0);
  switch (p.kind) {
    case KernelKind::rbf:
      for (int i = 0; i < tile_rows; ++i)
        for (int j = 0; j < w; ++j) {
          R* t = tile + (i * w + j) * L;
          Vec<R> d2 = (na[i] + load<R>(nb + j * L)) - R(2) * load<R>(t);
          d2 = larger<R>(d2, R(0));
          store<R>(t, exp(-gamma * d2));
        }
      break;
    case KernelKind::poly:
      for (int i = 0; i < tile_rows * w; ++i)
        store<R>(tile + i * L, power<R>(gamma * load<R>(tile + i * L) + coef0, p.degree));
      break;
    case KernelKind::sigmoid:
      for (int i = 0; i < tile_rows * w; ++i)
        store<R>(tile + i * L, tanh<R>(gamma * load<R>(tile + i * L) + coef0));
      break;
    default:
      break;
  }
}

// out <- out + x, with what rounding loses of it kept in `lost` and put back the next time (W. Kahan,
// Communications of the ACM 8, 1965). Sums of thousands of terms of both signs then err by a few
// units of their last digit, which is what certificates are made of; it costs next to nothing here.
template <class R>
inline void add_exactly(Vec<R> x, R* out, R* lost) {
  const Vec<R> sum = load<R>(out), y = x - load<R>(lost), t = sum + y;
  store<R>(lost, (t - sum) - y);
  store<R>(out, t);
}

template <class R>
void combine(const R* tile, const R* coef, R* out, R* lost) {
  constexpr int w = vectors_per_panel, L = lanes<R>;
  for (int j = 0; j < w; ++j) {
    Vec<R> sum = {};
    for (int i = 0; i < tile_rows; ++i) sum += coef[i] * load<R>(tile + (i * w + j) * L);
    add_exactly<R>(sum, out + j * L, lost + j * L);
  }
}

template <class R>
void combine_rows(const R* tile, const R* coef, R* out, R* lost) {
  constexpr int w = vectors_per_panel, L = lanes<R>;
  for (int i = 0; i < tile_rows; ++i) {
    Vec<R> sum = {};
    for (int j = 0; j < w; ++j) sum += load<R>(coef + j * L) * load<R>(tile + (i * w + j) * L);
    R total = R(0);
    for (int l = 0; l < L; ++l) total += sum[l];
    const R y = total - lost[i], t = out[i] + y;
    lost[i] = (t - out[i]) - y;
    out[i] = t;
  }
}

// ---------------------------------------------------------------------------------------------
// Stored rows. `load_row` brings one vector of what is stored, as a real number q; the kernel value is
// offset + factor * q.

// What is stored as float or double is the value itself.
template <class S>
inline Real<S> factor_of(const Scale& scale) {
  return sizeof(S) == 2 ? Real<S>(scale.factor) : Real<S>(1);
}
template <class S>
inline Real<S> offset_of(const Scale& scale) {
  return sizeof(S) == 2 ? Real<S>(scale.offset) : Real<S>(0);
}

// Short integers to the width of R. The compilers' generic conversion takes twenty instructions where
// the processor has one.
template <class R>
inline IVec<R> load_side(const Side* p);
#if LUPI_VECTOR_BYTES == 64
inline IVec<float> widen(const q16* p) {
  return (IVec<float>)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i*)p));
}
template <>
inline IVec<float> load_side<float>(const Side* p) {
  return (IVec<float>)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p));
}
template <>
inline IVec<double> load_side<double>(const Side* p) {
  return (IVec<double>)_mm512_cvtepi8_epi64(_mm_loadl_epi64((const __m128i*)p));
}
#elif LUPI_VECTOR_BYTES == 32
inline IVec<float> widen(const q16* p) {
  return (IVec<float>)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)p));
}
template <>
inline IVec<float> load_side<float>(const Side* p) {
  return (IVec<float>)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
}
template <>
inline IVec<double> load_side<double>(const Side* p) {
  return (IVec<double>)_mm256_cvtepi8_epi64(_mm_loadu_si32(p));
}
#else
template <class I, class S>
inline I widen_each(const S* p) {
  I x = {};
  for (unsigned l = 0; l < sizeof(I) / sizeof(x[0]); ++l) x[l] = p[l];
  return x;
}
inline IVec<float> widen(const q16* p) { return widen_each<IVec<float>>(p); }
template <>
inline IVec<float> load_side<float>(const Side* p) {
  return widen_each<IVec<float>>(p);
}
template <>
inline IVec<double> load_side<double>(const Side* p) {
  return widen_each<IVec<double>>(p);
}
#endif

inline Vec<float> load_row(const float* p) { return load<float>(p); }
inline Vec<double> load_row(const double* p) { return load<double>(p); }
typedef q16 HalfVec __attribute__((vector_size(LUPI_VECTOR_BYTES / 2)));
typedef q16 UnalignedHalfVec __attribute__((vector_size(LUPI_VECTOR_BYTES / 2), aligned(2), may_alias));
inline Vec<float> load_row(const q16* p) { return __builtin_convertvector(widen(p), Vec<float>); }

// Stores one vector; what of it is cut is added to `cut`, a vector of zeros and minus ones.
inline void store_row(float* p, Vec<float> x, float, float, IVec<float>&) { store<float>(p, x); }
inline void store_row(double* p, Vec<double> x, double, double, IVec<double>&) { store<double>(p, x); }
inline void store_row(q16* p, Vec<float> x, float offset, float inverse, IVec<float>& cut) {
  x = (x - offset) * inverse;
  const auto above = x > 32767.0f;
  cut |= (IVec<float>)above;
  x = above ? splat<float>(32767.0f) : x;
  x = x + 12582912.0f;                            // to the nearest integer, in the low bits
  const IVec<float> q = (IVec<float>)x - 0x4B400000;
  *reinterpret_cast<UnalignedHalfVec*>(p) = __builtin_convertvector(q, HalfVec);
}

template <class S>
unsigned put(const Real<S>* tile, S* const* out, i64 rows, const Scale& scale) {
  using R = Real<S>;
  constexpr int w = vectors_per_panel, L = lanes<R>;
  const R offset = R(scale.offset), inverse = R(1.0 / scale.factor);
  unsigned which = 0;
  for (i64 i = 0; i < rows; ++i) {
    IVec<R> cut = {};
    for (int j = 0; j < w; ++j)
      store_row(out[i] + j * L, load<R>(tile + (i * w + j) * L), offset, inverse, cut);
    if (sizeof(S) != 2) continue;
    typename V<R>::integer any = 0;
    for (int l = 0; l < L; ++l) any |= cut[l];
    if (any) which |= 1u << i;
  }
  return which;
}

template <class S>
void subtract(const S* const* rows, const Real<S>* delta, i64 m, i64 begin, i64 end,
              double* __restrict v, const Scale& scale) {
  using R = Real<S>;
  const double factor = double(factor_of<S>(scale)), offset = double(offset_of<S>(scale));
  // Blocks of columns that stay in the first cache while all rows pass through them.
  constexpr i64 block = 1024;
  constexpr bool exact = sizeof(S) == 8;  // as in add_exactly; the others steer and do not decide
  R acc[block], lost[exact ? block : 1];
  R total = R(0);
  for (i64 r = 0; r < m; ++r) total += delta[r];
  for (i64 j0 = begin; j0 < end; j0 += block) {
    const i64 nb = end - j0 < block ? end - j0 : block;
    for (i64 j = 0; j < nb; ++j) acc[j] = R(0);
    if (exact)
      for (i64 j = 0; j < nb; ++j) lost[j] = R(0);
    i64 r = 0;
    for (; r + 4 <= m; r += 4) {
      const S *p0 = rows[r] + j0, *p1 = rows[r + 1] + j0, *p2 = rows[r + 2] + j0,
              *p3 = rows[r + 3] + j0;
      const R d0 = delta[r], d1 = delta[r + 1], d2 = delta[r + 2], d3 = delta[r + 3];
      if (exact) {
        for (i64 j = 0; j < nb; ++j) {
          const R y = (d0 * R(p0[j]) + d1 * R(p1[j])) + (d2 * R(p2[j]) + d3 * R(p3[j])) - lost[j];
          const R t = acc[j] + y;
          lost[j] = (t - acc[j]) - y;
          acc[j] = t;
        }
        continue;
      }
      for (i64 j = 0; j < nb; ++j)
        acc[j] += (d0 * R(p0[j]) + d1 * R(p1[j])) + (d2 * R(p2[j]) + d3 * R(p3[j]));
    }
    for (; r < m; ++r) {
      const S* p = rows[r] + j0;
      const R d = delta[r];
      for (i64 j = 0; j < nb; ++j) acc[j] += d * R(p[j]);
    }
    for (i64 j = 0; j < nb; ++j)
      v[j0 + j] -= offset * double(total) + factor * double(acc[j]);
  }
}

// ---------------------------------------------------------------------------------------------
// Two-variable descent (sequential minimal optimisation) on a small set.
//
//     min  1/2 a'Ka - y'a   s.t.  lo <= a <= hi,  sum(a) unchanged
//
// Given v = y - K a. Step: i maximises v over the variables that may rise, j minimises the
// second-order estimate -(v_i - v_j)^2 / (2 eta_j) among those that may fall (R.-E. Fan, P.-H. Chen,
// C.-J. Lin, JMLR 6, 2005, WSS 2); a_i rises and a_j falls by (v_i - v_j) / eta, cut at the bounds.
// Stops when max v (may rise) - min v (may fall) <= eps. The update of v is fused with the search
// for the next i, so a step reads two rows of K for the update and one for the choice of j.

// Below this curvature a direction counts as flat and the step goes to the bound.
template <class R>
constexpr R min_curvature = sizeof(R) == 4 ? R(1e-7) : R(1e-12);

template <class R>
struct Approx;  // a cheap reciprocal: the choice of j needs two digits, and division is slow
template <>
struct Approx<float> {
  static inline Vec<float> reciprocal(Vec<float> x) {
    Vec<float> r = (Vec<float>)(0x7EF311C3 - (IVec<float>)x);
    return r * (2.0f - x * r);
  }
};
template <>
struct Approx<double> {
  static inline Vec<double> reciprocal(Vec<double> x) {
    Vec<double> r = (Vec<double>)(0x7FDE623822FC16E6LL - (IVec<double>)x);
    return r * (2.0 - x * r);
  }
};

template <class R>
inline IVec<R> iota() {
  IVec<R> out = {};
  for (int l = 0; l < lanes<R>; ++l) out[l] = l;
  return out;
}

// The largest v that may rise with its index, and the smallest that may fall.
template <class R>
struct Extremes {
  R largest, smallest;
  i64 where;
};

// Asks for what a pass will read of a row half a page from here. The processor's own look ahead ends
// at the end of a page, and rows of a few pages, each somewhere else, are mostly such ends: a quarter
// of the time of a step (n = 10,000). Rows that are in fast memory do without.
template <bool far, class S>
inline void look_ahead(const S* p) {
  if (far) __builtin_prefetch(reinterpret_cast<const char*>(p) + 2048);
}

// v <- v - scaled (Ki - Kj) on [begin, end), and its extremes there; `scaled` is the step times the
// factor of the stored rows, whose offset cancels in the difference. Ki is in fast memory.
template <bool far, class S, class R = Real<S>>
inline Extremes<R> update_and_find(R* v, const Side* side, const S* Ki, const S* Kj, R scaled,
                                   i64 begin, i64 end) {
  constexpr int L = lanes<R>;
  const R infinity = R(__builtin_inf());
  const Vec<R> highest = splat<R>(infinity), lowest = splat<R>(-infinity);
  const IVec<R> step = IVec<R>{} + typename V<R>::integer(L);
  // Two chains that do not wait for each other: a comparison takes longer than all else for a vector.
  Vec<R> best[2] = {lowest, lowest}, least[2] = {highest, highest};
  IVec<R> where[2] = {}, index = iota<R>() + typename V<R>::integer(begin);
  auto visit = [&](i64 k, int c) {
    look_ahead<far>(Kj + k);
    const Vec<R> x = load<R>(v + k) - scaled * (load_row(Ki + k) - load_row(Kj + k));
    store<R>(v + k, x);
    const IVec<R> s = load_side<R>(side + k);
    const Vec<R> u = (s & may_rise) != 0 ? x : lowest, w = (s & may_fall) != 0 ? x : highest;
    auto greater = u > best[c];
    best[c] = greater ? u : best[c];
    where[c] = greater ? index : where[c];
    least[c] = w < least[c] ? w : least[c];
    index += step;
  };
  i64 k = begin;
  for (; k + 2 * L <= end; k += 2 * L) {
    visit(k, 0);
    visit(k + L, 1);
  }
  if (k < end) visit(k, 0);
  Extremes<R> e{-infinity, infinity, begin};
  for (int c = 0; c < 2; ++c)
    for (int l = 0; l < L; ++l) {
      if (best[c][l] > e.largest || (best[c][l] == e.largest && where[c][l] < e.where)) {
        e.largest = best[c][l];
        e.where = where[c][l];
      }
      if (least[c][l] < e.smallest) e.smallest = least[c][l];
    }
  return e;
}

// The variable of [begin, end) that may fall with the best second-order gain against i, or -1.
template <class R>
struct Partner {
  R gain;
  i64 where;
};
template <bool far, class S, class R = Real<S>>
inline Partner<R> find_partner(const R* v, const Side* side, const S* Ki, const R* diag, R vi, R kii,
                               const Scale& scale, i64 begin, i64 end) {
  constexpr int L = lanes<R>;
  const IVec<R> step = IVec<R>{} + typename V<R>::integer(L);
  const Vec<R> none = splat<R>(R(-1)), flat = splat<R>(min_curvature<R>);
  const R base = kii - R(2) * offset_of<S>(scale), factor = R(2) * factor_of<S>(scale);
  Vec<R> gain[2] = {none, none};  // as in update_and_find
  IVec<R> where[2] = {}, index = iota<R>() + typename V<R>::integer(begin);
  auto visit = [&](i64 k, int c) {
    look_ahead<far>(Ki + k);
    const Vec<R> diff = vi - load<R>(v + k);
    // 16 bits serve the rbf kernel only, whose diagonal is 1.
    const Vec<R> sum = sizeof(S) == 2 ? splat<R>(base + R(1)) : base + load<R>(diag + k);
    Vec<R> eta = sum - factor * load_row(Ki + k);
    eta = eta > flat ? eta : flat;
    Vec<R> g = diff * diff * Approx<R>::reciprocal(eta);
    g = diff > R(0) ? g : none;
    g = (load_side<R>(side + k) & may_fall) != 0 ? g : none;
    auto greater = g > gain[c];
    gain[c] = greater ? g : gain[c];
    where[c] = greater ? index : where[c];
    index += step;
  };
  i64 k = begin;
  for (; k + 2 * L <= end; k += 2 * L) {
    visit(k, 0);
    visit(k + L, 1);
  }
  if (k < end) visit(k, 0);
  Partner<R> best{R(-1), -1};
  for (int c = 0; c < 2; ++c)
    for (int l = 0; l < L; ++l)
      if (gain[c][l] > best.gain ||
          (gain[c][l] == best.gain && best.where >= 0 && where[c][l] < best.where))
        best = {gain[c][l], i64(where[c][l])};
  return best;
}

// a_i rises, a_j falls by the best step; a variable that reaches its bound takes its exact value.
template <class R>
inline R move_pair(i64 i, i64 j, double gap, double eta, double* a, const double* lo,
                   const double* hi, Side* side) {
  if (!(eta > double(min_curvature<R>))) eta = double(min_curvature<R>);
  double t = gap / eta;
  const double room_i = hi[i] - a[i], room_j = a[j] - lo[j];
  if (t >= room_i && room_i <= room_j) {
    t = room_i;
    a[j] -= t;
    a[i] = hi[i];
  } else if (t >= room_j) {
    t = room_j;
    a[i] += t;
    a[j] = lo[j];
  } else {
    a[i] += t;
    a[j] -= t;
  }
  if (!(a[j] > lo[j])) a[j] = lo[j];
  if (!(a[i] < hi[i])) a[i] = hi[i];
  side[i] = side_of(a[i], lo[i], hi[i]);
  side[j] = side_of(a[j], lo[j], hi[j]);
  return R(t);
}

template <class R>
i64 smo(SmoArrays<R>& s, double eps, i64 max_steps, double* violation) {
  const R *Ki = s.K, *Kj = s.K;
  R delta = 0;
  for (i64 steps = 0;; ++steps) {
    const Extremes<R> e = update_and_find<false>(s.v, s.side, Ki, Kj, delta, 0, s.ld);
    *violation = double(e.largest) - double(e.smallest);
    if (!(*violation > eps) || steps >= max_steps) return steps;
    const i64 i = e.where;
    Ki = s.K + i * s.ld;
    const i64 j = find_partner<false>(s.v, s.side, Ki, s.diag, e.largest, s.diag[i], Scale(), 0, s.ld).where;
    if (j < 0) return steps;  // not a number somewhere: leave it to the caller's certificate
    Kj = s.K + j * s.ld;
    delta = move_pair<R>(i, j, double(e.largest) - double(s.v[j]),
                      double(s.diag[i]) + double(s.diag[j]) - 2 * double(Ki[j]), s.a, s.lo, s.hi,
                      s.side);
  }
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// The leader's side of a pass: order the upper part, do the lower part, wait, merge. Ties go to the
// lower index, as within a part.
template <class S, class R = Real<S>>
struct Passes {
  PairArrays<S>& s;
  PairTeam<S>* team;
  i64 half;

  void order(typename PairTeam<S>::Order what) {
    team->what = what;
    __atomic_store_n(&team->order, team->order + 1, __ATOMIC_RELEASE);
  }
  void wait() {
    i64 spins = 0;
    while (__atomic_load_n(&team->done, __ATOMIC_ACQUIRE) != team->order) {
      relax();
      ++spins;
    }
    if (spins > 5000) ++team->long_waits;  // some 100 microseconds, thirty passes
  }
  Extremes<R> update(const S* Ki, const S* Kj, R delta) {
    if (!team) return update_and_find<true>(s.v, s.side, Ki, Kj, delta, 0, s.ld);
    team->Ki = Ki;
    team->Kj = Kj;
    team->delta = delta;
    order(PairTeam<S>::update);
    Extremes<R> e = update_and_find<true>(s.v, s.side, Ki, Kj, delta, 0, half);
    wait();
    if (team->largest > e.largest) e.largest = team->largest, e.where = team->where;
    if (team->smallest < e.smallest) e.smallest = team->smallest;
    return e;
  }
  i64 partner(const S* Ki, R vi, R kii) {
    if (!team) return find_partner<true>(s.v, s.side, Ki, s.diag, vi, kii, s.scale, 0, s.ld).where;
    team->Ki = Ki;
    team->vi = vi;
    team->kii = kii;
    order(PairTeam<S>::find);
    const Partner<R> best = find_partner<true>(s.v, s.side, Ki, s.diag, vi, kii, s.scale, 0, half);
    wait();
    return team->gain > best.gain ? team->where : best.where;
  }
};

template <class S>
void help(PairArrays<S>& s, PairTeam<S>& team) {
  for (i64 seen = 0;;) {
    while (__atomic_load_n(&team.order, __ATOMIC_ACQUIRE) == seen) relax();
    ++seen;
    if (team.what == PairTeam<S>::update) {
      const auto e = update_and_find<true>(s.v, s.side, team.Ki, team.Kj, team.delta, team.half, s.ld);
      team.largest = e.largest;
      team.smallest = e.smallest;
      team.where = e.where;
    } else if (team.what == PairTeam<S>::find) {
      const auto p = find_partner<true>(s.v, s.side, team.Ki, s.diag, team.vi, team.kii, s.scale, team.half,
                                  s.ld);
      team.gain = p.gain;
      team.where = p.where;
    }
    const bool stop = team.what == PairTeam<S>::stop;
    __atomic_store_n(&team.done, seen, __ATOMIC_RELEASE);
    if (stop) return;
  }
}

// v <- v - delta times what the stored row lacks.
template <class R>
inline void add_excess(const ExcessList& excess, R delta, R* v) {
  for (i64 k = 0; k < excess.count; ++k)
    v[excess.first[k].column] -= delta * R(excess.first[k].amount);
}

template <class S>
void pairs(PairArrays<S>& s, double eps, i64 max_steps, PairTeam<S>* team) {
  using R = Real<S>;
  Passes<S> passes{s, team, s.ld / 2 / 64 * 64};
  if (team) team->half = passes.half;
  s.missing = -1;
  // Only to find: a step of length zero.
  Extremes<R> e = update_and_find<false>(s.v, s.side, s.v, s.v, R(0), 0, s.ld);
  for (;;) {
    s.largest = double(e.largest);
    s.smallest = double(e.smallest);
    s.violation = s.largest - s.smallest;
    if (!(s.violation > eps) || s.steps >= max_steps) break;
    if (team && team->long_waits > 3) break;
    const i64 i = e.where;
    const S* Ki = s.row[i];
    s.missing = i;
    if (!Ki) break;
    const i64 j = passes.partner(Ki, e.largest, s.diag[i]);
    s.missing = j;
    if (j < 0 || !s.row[j]) break;
    const S* Kj = s.row[j];
    s.missing = -1;
    s.last_used[i] = s.last_used[j] = ++s.steps;
    double kij = double(offset_of<S>(s.scale)) + double(factor_of<S>(s.scale)) * double(Ki[j]);
    if (sizeof(S) == 2)
      for (i64 k = 0; k < s.excess[i].count; ++k)
        if (s.excess[i].first[k].column == j) kij += double(s.excess[i].first[k].amount);
    const R delta =
        move_pair<R>(i, j, double(e.largest) - double(s.v[j]),
                     double(s.diag[i]) + double(s.diag[j]) - 2 * kij, s.a, s.lo, s.hi, s.side);
    if (sizeof(S) == 2) {
      add_excess<R>(s.excess[i], delta, s.v);
      add_excess<R>(s.excess[j], -delta, s.v);
    }
    e = passes.update(Ki, Kj, delta * factor_of<S>(s.scale));
  }
  if (team) {
    passes.order(PairTeam<S>::stop);
    passes.wait();
  }
}

// ---------------------------------------------------------------------------------------------
// Dense rows.

// Four rows at a time over vectors of y that stay in registers.
void minus_rows(const double* __restrict rows, i64 ld, const double* __restrict x, i64 m,
                double* __restrict y, i64 n) {
  constexpr int L = lanes<double>;
  i64 r = 0;
  for (; r + 4 <= m; r += 4) {
    const double *p0 = rows + r * ld, *p1 = p0 + ld, *p2 = p1 + ld, *p3 = p2 + ld;
    const double x0 = x[r], x1 = x[r + 1], x2 = x[r + 2], x3 = x[r + 3];
    i64 j = 0;
    for (; j + L <= n; j += L)
      store<double>(y + j, load<double>(y + j) - (x0 * load<double>(p0 + j) + x1 * load<double>(p1 + j)) -
                               (x2 * load<double>(p2 + j) + x3 * load<double>(p3 + j)));
    for (; j < n; ++j) y[j] = y[j] - (x0 * p0[j] + x1 * p1[j]) - (x2 * p2[j] + x3 * p3[j]);
  }
  for (; r < m; ++r) {
    const double* p = rows + r * ld;
    for (i64 j = 0; j < n; ++j) y[j] -= x[r] * p[j];
  }
}

void times_rows(const double* __restrict rows, i64 ld, const double* __restrict x, i64 n,
                double* __restrict y, i64 m) {
  constexpr int L = lanes<double>;
  constexpr int at_once = 4;
  for (i64 r = 0; r < m; r += at_once) {
    const int count = int(m - r < at_once ? m - r : at_once);
    const double* p[at_once];
    Vec<double> sum[at_once] = {};
    for (int q = 0; q < at_once; ++q) p[q] = rows + (r + (q < count ? q : 0)) * ld;
    i64 j = 0;
    for (; j + L <= n; j += L) {
      const Vec<double> xj = load<double>(x + j);
      for (int q = 0; q < at_once; ++q) sum[q] += xj * load<double>(p[q] + j);
    }
    for (int q = 0; q < count; ++q) {
      double total = 0;
      for (int k = 0; k < L; ++k) total += sum[q][k];
      for (i64 l = j; l < n; ++l) total += x[l] * p[q][l];
      y[r + q] = total;
    }
  }
}

template <class R>
constexpr Loops<R> table() {
  return {lanes<R>,   width<R>,       dots<R>,         sparse_dots<R>,
          finish<R>,  combine<R>,     combine_rows<R>, smo<R>};
}
template <class S>
constexpr RowLoops<S> row_table() {
  return {put<S>, subtract<S>, pairs<S>, help<S>};
}

}  // namespace

extern const AllLoops loops;
const AllLoops loops = {table<float>(), table<double>(), row_table<float>(), row_table<double>(),
                        row_table<q16>(),  {minus_rows, times_rows}};

}  // namespace LUPI_ISA
}  // namespace lupi
