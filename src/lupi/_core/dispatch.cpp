// Chooses the vector loops for this processor, once.
#include <cstdlib>
#include <cstring>

#include "loops.hpp"

namespace lupi {

#define LUPI_DECLARE(isa)          \
  namespace isa {                  \
  extern const Loops<float> f32;   \
  extern const Loops<double> f64;  \
  }
LUPI_DECLARE(baseline)
#ifdef LUPI_X86
LUPI_DECLARE(avx2)
LUPI_DECLARE(avx512)
#endif

namespace {

struct Choice {
  const char* name;
  const Loops<float>* f32;
  const Loops<double>* f64;
};

Choice choose() {
  // LUPI_ISA=baseline|avx2 in the environment asks for less than the processor has (for tests).
  const char* wish = std::getenv("LUPI_ISA");
  auto allowed = [wish](const char* name) { return !wish || !*wish || !std::strcmp(wish, name); };
#ifdef LUPI_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx512 && allowed("avx512")) return {"avx512", &avx512::f32, &avx512::f64};
  if (has_avx2 && (allowed("avx2") || allowed("avx512"))) return {"avx2", &avx2::f32, &avx2::f64};
#endif
  (void)allowed;
  return {"baseline", &baseline::f32, &baseline::f64};
}

const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

}  // namespace

const Loops<float>& loops_f32() { return *chosen().f32; }
const Loops<double>& loops_f64() { return *chosen().f64; }
const char* isa_name() { return chosen().name; }

}  // namespace lupi
