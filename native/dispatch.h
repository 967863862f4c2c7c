// Chooses the kernel table: the best set that this CPU and this system can run, or the one that a caller names.
#pragma once
#include <string>
#include <vector>

#include "kernels.h"

namespace outrider {

// Best first; the last is the scalar reference, which runs everywhere.
std::vector<const Kernels*> usable_kernels();

// By name, or the best for ""; std::invalid_argument where this machine cannot run it.
const Kernels& choose_kernels(const std::string& name);

// How one or two rows' weights should be asked for on this CPU. Measured on whole passes of a 1.5B model: on Zen 4, one thread, into
// the first level 27 GB/s, into the second 22; on Granite Rapids, two threads, a row took 78 and 64 ms.
Prefetch prefetch_for_memory();

}  // namespace outrider
