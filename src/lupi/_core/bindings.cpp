// Python on one side, the core on the other: types are checked, the GIL is released, and no number
// is computed here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <tuple>

#include "active_set.hpp"
#include "batch.hpp"
#include "kernel.hpp"
#include "svmplus.hpp"
#include "validation.hpp"
#include "wsvm.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace lupi;

namespace {

template <class T, int dims>
using Array = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;
using InF64 = Array<const double, 1>;
using InOutF64 = Array<double, 1>;
using InI64 = Array<const i64, 1>;
using Gram = Array<const double, 2>;

// Looks for a pending signal every 50 ms, with the GIL taken for that moment.
class SignalCheck {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw Interrupted{};
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Runs `body(check)` without the GIL; an interrupt leaves as the Python exception that it raised.
template <class Body>
auto released(Body&& body) {
  SignalCheck signals;
  const Check check = [&signals] { signals(); };
  try {
    nb::gil_scoped_release release;
    return body(check);
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

KernelParams make_params(const std::string& kind, double gamma, int degree, double coef0) {
  KernelParams p;
  if (kind == "linear")
    p.kind = KernelKind::linear;
  else if (kind == "poly")
    p.kind = KernelKind::poly;
  else if (kind == "rbf")
    p.kind = KernelKind::rbf;
  else if (kind == "sigmoid")
    p.kind = KernelKind::sigmoid;
  else
    throw nb::value_error(("unknown kernel in the core: " + kind).c_str());
  p.gamma = gamma;
  p.degree = degree;
  p.coef0 = coef0;
  return p;
}

// A set of points with the Python arrays that it looks at.
struct PyPoints {
  PointView view;
  nb::object keep_values, keep_indptr, keep_indices;
};

template <class T>
PyPoints dense_points(Array<const T, 2> X) {
  PyPoints p;
  p.view.n = i64(X.shape(0));
  p.view.d = i64(X.shape(1));
  p.view.is_float = sizeof(T) == 4;
  p.view.values = X.data();
  p.keep_values = nb::cast(X);
  return p;
}

template <class T>
PyPoints sparse_points(Array<const T, 1> values, InI64 indptr, InI64 indices, i64 d) {
  PyPoints p;
  p.view.n = i64(indptr.shape(0)) - 1;
  p.view.d = d;
  p.view.is_sparse = true;
  p.view.is_float = sizeof(T) == 4;
  p.view.values = values.data();
  p.view.indptr = indptr.data();
  p.view.indices = indices.data();
  // A matrix changed by hand after it was built must not send the core outside its memory.
  const i64 nnz = i64(values.shape(0));
  bool sound = p.view.n >= 0 && i64(indices.shape(0)) == nnz && indptr.data()[0] == 0 &&
               indptr.data()[p.view.n] == nnz;
  for (i64 i = 0; sound && i < p.view.n; ++i) sound = indptr.data()[i] <= indptr.data()[i + 1];
  for (i64 e = 0; sound && e < nnz; ++e)
    sound = indices.data()[e] >= 0 && indices.data()[e] < d;
  if (!sound) throw nb::value_error("inconsistent CSR arrays");
  p.keep_values = nb::cast(values);
  p.keep_indptr = nb::cast(indptr);
  p.keep_indices = nb::cast(indices);
  return p;
}

struct PyKernel {
  std::unique_ptr<Kernel> kernel;
  nb::object keep;
};

// A cache of rows stored as q16, float or double; exactly one pointer is set.
struct PyRowCache {
  std::unique_ptr<RowCache<q16>> half;
  std::unique_ptr<RowCache<float>> single;
  std::unique_ptr<RowCache<double>> full;

  template <class F>
  auto visit(F&& f) const {
    return half ? f(*half) : single ? f(*single) : f(*full);
  }
};

void expect_length(i64 have, i64 want, const char* name) {
  if (have != want) throw nb::value_error((std::string("wrong length of ") + name).c_str());
}

Box make_box(i64 n, const InF64& y, const InF64& lo, const InF64& hi, const InOutF64& a,
             const InOutF64& v) {
  expect_length(i64(y.shape(0)), n, "y");
  expect_length(i64(lo.shape(0)), n, "lo");
  expect_length(i64(hi.shape(0)), n, "hi");
  expect_length(i64(a.shape(0)), n, "a");
  expect_length(i64(v.shape(0)), n, "v");
  return {n, y.data(), lo.data(), hi.data()};
}

void check_indices(const InI64& idx, i64 n) {
  for (std::size_t r = 0; r < idx.shape(0); ++r)
    if (idx.data()[r] < 0 || idx.data()[r] >= n) throw nb::value_error("index out of range");
}

using PyWsvmPath = std::tuple<Gram, InF64, InF64, InF64, Array<double, 2>, Array<i64, 1>>;

WsvmPath make_path(const PyWsvmPath& path) {
  const auto& [gram, y, weight, C, a, steps] = path;
  const i64 n = i64(gram.shape(0)), m = i64(C.shape(0));
  expect_length(i64(gram.shape(1)), n, "gram (columns)");
  expect_length(i64(y.shape(0)), n, "y");
  expect_length(i64(weight.shape(0)), n, "weight");
  expect_length(i64(a.shape(0)), m, "a (rows)");
  expect_length(i64(a.shape(1)), n, "a (columns)");
  expect_length(i64(steps.shape(0)), m, "steps");
  return {n, m, gram.data(), y.data(), weight.data(), C.data(), a.data(), steps.data()};
}

// Calls a Python function every 50 ms, for threads that no signal reaches; what it raises ends the work.
class StopCheck {
 public:
  explicit StopCheck(nb::object stop) : stop_(std::move(stop)) {}
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    nb::gil_scoped_acquire gil;
    stop_();
  }

 private:
  nb::object stop_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

NB_MODULE(_core_ext, m) {
  // Kernels that a cache holds until the interpreter ends are not leaks, and users need no report of them.
  nb::set_leak_warnings(false);
  m.def("isa", [] { return std::string(isa_name()); });

  m.def("is_positive_definite",
        [](Gram A, int threads) {
          const i64 n = i64(A.shape(0));
          expect_length(i64(A.shape(1)), n, "A");
          return released([&](const Check& check) {
            Pool pool(threads);
            SymmetricFactor factor;
            std::copy(A.data(), A.data() + n * n, factor.prepare(n));
            return factor.factor(pool, check);
          });
        },
        "A"_a.noconvert(), "threads"_a);

  m.def("judge_smooth_hinge",
        [](Gram K, InF64 y, InF64 a, double b, double delta, InOutF64 f, InOutF64 g, InOutF64 p,
           int threads) {
          const i64 n = i64(K.shape(0)), N = i64(K.shape(1));
          expect_length(i64(y.shape(0)), N, "y");
          expect_length(i64(a.shape(0)), n, "a");
          expect_length(i64(f.shape(0)), N, "f");
          expect_length(i64(g.shape(0)), N, "g");
          expect_length(i64(p.shape(0)), n, "p");
          return released([&](const Check&) {
            Pool pool(threads);
            return judge_smooth_hinge(K.data(), n, N, y.data(), a.data(), b, delta, f.data(), g.data(),
                                      p.data(), pool);
          });
        },
        "K"_a.noconvert(), "y"_a.noconvert(), "a"_a.noconvert(), "b"_a, "delta"_a, "f"_a.noconvert(),
        "g"_a.noconvert(), "p"_a.noconvert(), "threads"_a);

  nb::class_<PyPoints>(m, "Points")
      .def_prop_ro("n", [](const PyPoints& p) { return p.view.n; })
      .def_prop_ro("d", [](const PyPoints& p) { return p.view.d; });
  m.def("dense_points", &dense_points<double>, "X"_a.noconvert());
  m.def("dense_points", &dense_points<float>, "X"_a.noconvert());
  m.def("sparse_points", &sparse_points<double>, "values"_a.noconvert(), "indptr"_a.noconvert(),
        "indices"_a.noconvert(), "d"_a);
  m.def("sparse_points", &sparse_points<float>, "values"_a.noconvert(), "indptr"_a.noconvert(),
        "indices"_a.noconvert(), "d"_a);

  nb::class_<PyKernel>(m, "Kernel")
      .def_prop_ro("n", [](const PyKernel& k) { return k.kernel->n(); })
      .def("diagonal",
           [](const PyKernel& k, InOutF64 out) {
             expect_length(i64(out.shape(0)), k.kernel->n(), "out");
             k.kernel->diagonal(out.data());
           },
           "out"_a.noconvert())
      .def("combine",
           [](const PyKernel& k, InI64 idx, InF64 coef, InOutF64 out, int threads) {
             expect_length(i64(coef.shape(0)), i64(idx.shape(0)), "coef");
             expect_length(i64(out.shape(0)), k.kernel->n(), "out");
             check_indices(idx, k.kernel->n());
             released([&](const Check& check) {
               Pool pool(threads);
               k.kernel->combine(idx.data(), i64(idx.shape(0)), coef.data(), out.data(), pool,
                                 check);
             });
           },
           "idx"_a.noconvert(), "coef"_a.noconvert(), "out"_a.noconvert(), "threads"_a)
      .def("square_block",
           [](const PyKernel& k, InI64 idx, Array<double, 2> out, int threads) {
             check_indices(idx, k.kernel->n());
             expect_length(i64(out.shape(0)), i64(idx.shape(0)), "out");
             expect_length(i64(out.shape(1)), i64(idx.shape(0)), "out");
             nb::gil_scoped_release release;
             Pool pool(threads);
             k.kernel->square_block(idx.data(), i64(idx.shape(0)), out.data(), i64(idx.shape(0)), pool);
           },
           "idx"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
  m.def("kernel",
        [](const PyPoints& points, const std::string& kind, double gamma, int degree, double coef0) {
          return PyKernel{std::make_unique<Kernel>(points.view, make_params(kind, gamma, degree, coef0)),
                          nb::cast(points)};
        },
        "points"_a, "kind"_a, "gamma"_a, "degree"_a, "coef0"_a, nb::keep_alive<0, 1>());
  m.def("gram_kernel",
        [](Gram gram) {
          expect_length(i64(gram.shape(1)), i64(gram.shape(0)), "gram (columns)");
          return PyKernel{std::make_unique<Kernel>(gram.data(), i64(gram.shape(0))), nb::cast(gram)};
        },
        "gram"_a.noconvert());

  m.def("cross_combine",
        [](const PyPoints& basis, const PyPoints& query, const std::string& kind, double gamma,
           int degree, double coef0, Array<const double, 2> coef, Array<double, 2> out, int threads) {
          expect_length(i64(coef.shape(1)), basis.view.n, "coef");
          expect_length(i64(out.shape(0)), i64(coef.shape(0)), "out (rows)");
          expect_length(i64(out.shape(1)), query.view.n, "out (columns)");
          expect_length(query.view.d, basis.view.d, "query (features)");
          const KernelParams params = make_params(kind, gamma, degree, coef0);
          released([&](const Check& check) {
            Pool pool(threads);
            cross_combine(basis.view, query.view, params, coef.data(), i64(coef.shape(0)), out.data(),
                          pool, check);
          });
        },
        "basis"_a, "query"_a, "kind"_a, "gamma"_a, "degree"_a, "coef0"_a, "coef"_a.noconvert(),
        "out"_a.noconvert(), "threads"_a);
  m.def("cross_kernel",
        [](const PyPoints& basis, const PyPoints& query, const std::string& kind, double gamma,
           int degree, double coef0, Array<double, 2> out, int threads) {
          expect_length(i64(out.shape(0)), basis.view.n, "out (rows)");
          expect_length(i64(out.shape(1)), query.view.n, "out (columns)");
          expect_length(query.view.d, basis.view.d, "query (features)");
          const KernelParams params = make_params(kind, gamma, degree, coef0);
          released([&](const Check& check) {
            Pool pool(threads);
            cross_kernel(basis.view, query.view, params, out.data(), pool, check);
          });
        },
        "basis"_a, "query"_a, "kind"_a, "gamma"_a, "degree"_a, "coef0"_a, "out"_a.noconvert(),
        "threads"_a);

  // kernels: (kind, gamma, degree, coef0) each.
  m.def("gram_matrices",
        [](const PyPoints& points,
           const std::vector<std::tuple<std::string, double, int, double>>& kernels,
           Array<double, 3> out, int threads) {
          expect_length(i64(out.shape(0)), i64(kernels.size()), "out (kernels)");
          expect_length(i64(out.shape(1)), points.view.n, "out (rows)");
          expect_length(i64(out.shape(2)), points.view.n, "out (columns)");
          std::vector<KernelParams> params;
          for (const auto& [kind, gamma, degree, coef0] : kernels)
            params.push_back(make_params(kind, gamma, degree, coef0));
          released([&](const Check& check) {
            Pool pool(threads);
            gram_matrices(points.view, params, out.data(), pool, check);
          });
        },
        "points"_a, "kernels"_a, "out"_a.noconvert(), "threads"_a);

  // expansions: (kind, gamma, degree, coef0, coef, offset, values or None, hits or None) each.
  m.def("cross_expand",
        [](const PyPoints& basis, const PyPoints& query,
           const std::vector<std::tuple<std::string, double, int, double, Array<const double, 2>, InF64,
                                        std::optional<Array<double, 2>>,
                                        std::optional<Array<i64, 1>>>>& expansions,
           std::optional<Array<const std::int8_t, 1>> sign, int threads) {
          expect_length(query.view.d, basis.view.d, "query (features)");
          if (sign) expect_length(i64(sign->shape(0)), query.view.n, "sign");
          std::vector<Expansion> all;
          for (const auto& [kind, gamma, degree, coef0, coef, offset, values, hits] : expansions) {
            const i64 m = i64(coef.shape(0));
            expect_length(i64(coef.shape(1)), basis.view.n, "coef");
            expect_length(i64(offset.shape(0)), m, "offset");
            if (values) {
              expect_length(i64(values->shape(0)), m, "values (rows)");
              expect_length(i64(values->shape(1)), query.view.n, "values (columns)");
            } else {
              if (!hits || !sign) throw nb::value_error("neither values nor hits");
              expect_length(i64(hits->shape(0)), m, "hits");
            }
            all.push_back({make_params(kind, gamma, degree, coef0), coef.data(), offset.data(), m,
                           values ? values->data() : nullptr, hits ? hits->data() : nullptr});
          }
          released([&](const Check& check) {
            Pool pool(threads);
            cross_expand(basis.view, query.view, all, sign ? sign->data() : nullptr, pool, check);
          });
        },
        "basis"_a, "query"_a, "expansions"_a, "sign"_a.noconvert().none(), "threads"_a);

  nb::class_<PyRowCache>(m, "RowCache")
      .def_prop_ro("capacity",
                   [](const PyRowCache& c) { return c.visit([](auto& x) { return x.capacity(); }); })
      .def_prop_ro("computed",
                   [](const PyRowCache& c) { return c.visit([](auto& x) { return x.computed(); }); });
  m.def("row_cache",
        [](const PyKernel& kernel, i64 capacity, int bytes) {
          PyRowCache cache;
          if (bytes == 2) {
            if (kernel.kernel->params().kind != KernelKind::rbf)
              throw nb::value_error("rows of 2 bytes are for the rbf kernel only");
            cache.half = std::make_unique<RowCache<q16>>(*kernel.kernel, capacity);
          } else if (bytes == 4) {
            cache.single = std::make_unique<RowCache<float>>(*kernel.kernel, capacity);
          } else {
            cache.full = std::make_unique<RowCache<double>>(*kernel.kernel, capacity);
          }
          return cache;
        },
        "kernel"_a, "capacity"_a, "bytes"_a, nb::keep_alive<0, 1>());

  // (steps, violation, whether v is up to date only for some of the variables)
  m.def("wsvm_descend",
        [](PyRowCache& cache, InF64 y, InF64 lo, InF64 hi, InOutF64 a, InOutF64 v, double tol,
           i64 max_steps, bool sweep, int threads, nb::object report) {
          const i64 n = cache.visit([](auto& x) { return x.kernel().n(); });
          const Box box = make_box(n, y, lo, hi, a, v);
          DescentOptions options;
          options.tol = tol;
          options.max_steps = max_steps;
          options.sweep = sweep;
          auto last = std::chrono::steady_clock::now();
          const Report tell = [&](const Progress& p) {
            if (report.is_none()) return;
            const auto now = std::chrono::steady_clock::now();
            if (now - last < std::chrono::milliseconds(100)) return;
            last = now;
            nb::gil_scoped_acquire gil;
            report(p.steps, p.violation);
          };
          const DescentResult r = released([&](const Check& check) {
            Pool pool(threads);
            return cache.visit([&](auto& rows) {
              return wsvm_descend(rows, box, a.data(), v.data(), options, pool, check, tell);
            });
          });
          return std::make_tuple(r.steps, r.violation, r.partial);
        },
        "cache"_a, "y"_a.noconvert(), "lo"_a.noconvert(), "hi"_a.noconvert(), "a"_a.noconvert(),
        "v"_a.noconvert(), "tol"_a, "max_steps"_a, "sweep"_a, "threads"_a,
        "report"_a = nb::none());

  // (violation, iterations, indefinite, too_large)
  m.def("wsvm_polish",
        [](const PyKernel& kernel, InF64 y, InF64 lo, InF64 hi, InOutF64 a, InOutF64 v, double tol,
           i64 max_free, i64 max_iterations, int threads) {
          const Box box = make_box(kernel.kernel->n(), y, lo, hi, a, v);
          const PolishResult r = released([&](const Check& check) {
            Pool pool(threads);
            return wsvm_polish(*kernel.kernel, nullptr, box, a.data(), v.data(), tol, max_free,
                               max_iterations, pool, check);
          });
          return std::make_tuple(r.violation, r.iterations, r.indefinite, r.too_large);
        },
        "kernel"_a, "y"_a.noconvert(), "lo"_a.noconvert(), "hi"_a.noconvert(), "a"_a.noconvert(),
        "v"_a.noconvert(), "tol"_a, "max_free"_a, "max_iterations"_a, "threads"_a);

  // Small problems in one call: Gram matrix, descent to tol, polish to polish_tol.
  // (steps, violation, polish iterations, indefinite)
  m.def("wsvm_small",
        [](const PyKernel& kernel, InF64 y, InF64 lo, InF64 hi, InOutF64 a, InOutF64 v, double tol,
           i64 max_steps, double polish_tol) {
          const i64 n = kernel.kernel->n();
          const Box box = make_box(n, y, lo, hi, a, v);
          return released([&](const Check& check) {
            Pool pool(1);
            std::vector<double> gram(std::size_t(n * n));
            std::vector<i64> all(static_cast<std::size_t>(n));
            for (i64 i = 0; i < n; ++i) all[std::size_t(i)] = i;
            kernel.kernel->square_block(all.data(), n, gram.data(), n, pool);
            const SmallResult r = wsvm_solve_small(*kernel.kernel, gram.data(), box, a.data(), v.data(),
                                                   {tol, max_steps}, polish_tol, pool, check);
            return std::make_tuple(r.steps, r.violation, r.polish_iterations, r.indefinite);
          });
        },
        "kernel"_a, "y"_a.noconvert(), "lo"_a.noconvert(), "hi"_a.noconvert(), "a"_a.noconvert(),
        "v"_a.noconvert(), "tol"_a, "max_steps"_a, "polish_tol"_a);

  // (b, b_corr, violation, iterations, cautious iterations, rounds, rows, indefinite)
  m.def("svmplus_solve",
        [](const PyKernel& kernel, const PyKernel& kernel_corr, InF64 y, InF64 C, InI64 priv,
           double inverse_reg, std::optional<InF64> offset, InOutF64 alpha, InOutF64 zeta,
           InOutF64 delta, double tol, i64 max_iter, double memory, int threads, nb::object report) {
          const i64 n = kernel.kernel->n(), n_priv = kernel_corr.kernel->n();
          expect_length(i64(y.shape(0)), n, "y");
          expect_length(i64(C.shape(0)), n, "C");
          expect_length(i64(priv.shape(0)), n, "priv");
          expect_length(i64(alpha.shape(0)), n, "alpha");
          expect_length(i64(zeta.shape(0)), n, "zeta");
          expect_length(i64(delta.shape(0)), n, "delta");
          if (offset) expect_length(i64(offset->shape(0)), n_priv, "offset");
          for (i64 i = 0; i < n; ++i)
            if (priv.data()[i] < -1 || priv.data()[i] >= n_priv)
              throw nb::value_error("priv: index out of range");
          const SvmPlusData data{n,
                                 y.data(),
                                 C.data(),
                                 priv.data(),
                                 kernel.kernel.get(),
                                 kernel_corr.kernel.get(),
                                 inverse_reg,
                                 offset ? offset->data() : nullptr};
          const SvmPlusReport tell = [&](const SvmPlusProgress& p) {
            nb::gil_scoped_acquire gil;
            report(p.rounds, p.iterations, p.rows, p.free, p.objective, p.gap, p.violation);
          };
          const SvmPlusResult r = released([&](const Check& check) {
            Pool pool(threads);
            return svmplus_solve(data, alpha.data(), zeta.data(), delta.data(), {tol, max_iter, memory},
                                 pool, check, report.is_none() ? SvmPlusReport() : tell);
          });
          return std::make_tuple(r.b, r.b_corr, r.violation, r.iterations, r.cautious, r.rounds, r.rows,
                                 r.indefinite);
        },
        "kernel"_a, "kernel_corr"_a, "y"_a.noconvert(), "C"_a.noconvert(), "priv"_a.noconvert(),
        "inverse_reg"_a, "offset"_a.noconvert().none(), "alpha"_a.noconvert(), "zeta"_a.noconvert(),
        "delta"_a.noconvert(), "tol"_a, "max_iter"_a, "memory"_a, "threads"_a, "report"_a = nb::none());

  // path: (gram, y, weight, C, a, steps); room: (large_room(n)) of float; see batch.hpp. `stop` is asked now and then, and raises.
  m.def("wsvm_large_path",
        [](const PyWsvmPath& path, double tol, double polish_tol, double early, i64 few, i64 max_steps,
           Array<float, 1> room, nb::object stop) {
          const WsvmPath one = make_path(path);
          if (i64(room.shape(0)) < large_room(one.n)) throw nb::value_error("room is too small");
          StopCheck asked(std::move(stop));
          released([&](const Check& check) {
            wsvm_large_path(one, {tol, polish_tol, early, few, max_steps}, room.data(), [&] {
              check();
              asked();
            });
          });
        },
        "path"_a, "tol"_a, "polish_tol"_a, "early"_a, "few"_a, "max_steps"_a,
        "room"_a.noconvert(), "stop"_a);
  m.def("large_room", &large_room, "n"_a);

  // paths: (gram, y, weight, C, a, steps) each; see batch.hpp.
  m.def("wsvm_paths",
        [](const std::vector<PyWsvmPath>& paths, double tol, i64 max_steps, double polish_tol,
           int threads) {
          std::vector<WsvmPath> all;
          for (const PyWsvmPath& path : paths) all.push_back(make_path(path));
          released([&](const Check& check) {
            Pool pool(threads);
            wsvm_paths(all, tol, max_steps, polish_tol, pool, check);
          });
        },
        "paths"_a, "tol"_a, "max_steps"_a, "polish_tol"_a, "threads"_a);

  // paths: (gram, gram_corr, y, priv, weight, C, inverse_reg, duals, steps) each, duals (3, m, n):
  // alpha, zeta, delta.
  m.def("svmplus_paths",
        [](const std::vector<std::tuple<Gram, Gram, InF64, InI64, InF64, InF64, InF64, Array<double, 3>,
                                        Array<i64, 1>>>& paths,
           double tol, i64 max_iter, double memory, int threads) {
          std::vector<SvmPlusPath> all;
          for (const auto& [gram, gram_corr, y, priv, weight, C, inverse_reg, duals, steps] : paths) {
            const i64 n = i64(gram.shape(0)), n_priv = i64(gram_corr.shape(0)), m = i64(C.shape(0));
            expect_length(i64(gram.shape(1)), n, "gram (columns)");
            expect_length(i64(gram_corr.shape(1)), n_priv, "gram_corr (columns)");
            expect_length(i64(y.shape(0)), n, "y");
            expect_length(i64(priv.shape(0)), n, "priv");
            expect_length(i64(weight.shape(0)), n, "weight");
            expect_length(i64(inverse_reg.shape(0)), m, "inverse_reg");
            expect_length(i64(duals.shape(0)), 3, "duals");
            expect_length(i64(duals.shape(1)), m, "duals (rows)");
            expect_length(i64(duals.shape(2)), n, "duals (columns)");
            expect_length(i64(steps.shape(0)), m, "steps");
            for (i64 i = 0; i < n; ++i)
              if (priv.data()[i] < -1 || priv.data()[i] >= n_priv)
                throw nb::value_error("priv: index out of range");
            all.push_back({n, n_priv, m, gram.data(), gram_corr.data(), y.data(), priv.data(),
                           weight.data(), C.data(), inverse_reg.data(), duals.data(),
                           duals.data() + m * n, duals.data() + 2 * m * n, steps.data()});
          }
          released([&](const Check& check) {
            Pool pool(threads);
            svmplus_paths(all, {tol, max_iter, memory}, pool, check);
          });
        },
        "paths"_a, "tol"_a, "max_iter"_a, "memory"_a, "threads"_a);
}
