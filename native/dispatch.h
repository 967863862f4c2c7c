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

}  // namespace outrider
