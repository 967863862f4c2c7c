// What this machine can do at best: the limits that every speed is printed beside.
#pragma once
#include <cstddef>

#include "kernels.h"

namespace outrider {

// Read bandwidth of `threads` threads over `bytes` of memory, each streaming its own part; the best of several rounds.
double stream_gb_per_s(int threads, size_t bytes);

// Multiply-accumulates of the set's Q8_0 kernel on panels that stay in the first-level cache: its practical int8 peak.
double int8_gmac_per_s(int threads, const Kernels& kernels);

}  // namespace outrider
