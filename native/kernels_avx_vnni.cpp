// The kernels compiled for one instruction set; CMakeLists.txt gives this file its own flags.
#define OUTRIDER_AVX_VNNI
#include "isa_avx2.h"

#include "multiply_text.h"
#include "multiply_float_text.h"
#include "rows_text.h"
#include "attend_text.h"

namespace outrider {

extern const Kernels kAvxVnniKernels = OUTRIDER_KERNELS("avx-vnni");

}  // namespace outrider
