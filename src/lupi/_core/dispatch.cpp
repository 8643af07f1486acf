// Chooses the vector loops for this processor, once.
#include <cstdlib>
#include <cstring>

#include "loops.hpp"

namespace lupi {

#define LUPI_DECLARE(isa)        \
  namespace isa {                \
  extern const AllLoops loops;   \
  }
LUPI_DECLARE(baseline)
#ifdef LUPI_X86
LUPI_DECLARE(avx2)
LUPI_DECLARE(avx512)
#endif

namespace {

struct Choice {
  const char* name;
  const AllLoops* loops;
};

Choice choose() {
  // LUPI_ISA=baseline|avx2 in the environment asks for less than the processor has (for tests).
  const char* wish = std::getenv("LUPI_ISA");
  auto allowed = [wish](const char* name) { return !wish || !*wish || !std::strcmp(wish, name); };
#ifdef LUPI_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw");
  if (has_avx512 && allowed("avx512")) return {"avx512", &avx512::loops};
  if (has_avx2 && (allowed("avx2") || allowed("avx512"))) return {"avx2", &avx2::loops};
#endif
  (void)allowed;
  return {"baseline", &baseline::loops};
}

const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

}  // namespace

const AllLoops& all_loops() { return *chosen().loops; }
const char* isa_name() { return chosen().name; }

}  // namespace lupi
