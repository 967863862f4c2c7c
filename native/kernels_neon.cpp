// The kernels compiled for one instruction set; CMakeLists.txt gives this file its own flags.
#include "isa_neon.h"

#include "multiply_text.h"
#include "multiply_float_text.h"
#include "rows_text.h"
#include "attend_text.h"

namespace outrider {

extern const Kernels kNeonKernels = OUTRIDER_KERNELS("neon");

}  // namespace outrider
