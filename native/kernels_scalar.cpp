// The kernels compiled for one instruction set; CMakeLists.txt gives this file its own flags.
#define OUTRIDER_REFERENCE
#include "isa_scalar.h"

#include "multiply_text.h"
#include "multiply_float_text.h"
#include "rows_text.h"
#include "attend_text.h"

namespace outrider {

extern const Kernels kScalarKernels = OUTRIDER_KERNELS("scalar");

}  // namespace outrider
