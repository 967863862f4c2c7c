// The instruction sets that are compared with the reference.
#pragma once
#include <vector>

#include "dispatch.h"

namespace outrider::testing {

// Every set that runs here but the last, the reference itself.
inline const std::vector<const Kernels*>& vector_sets() {
    static const std::vector<const Kernels*> sets = [] {
        auto usable = usable_kernels();
        usable.pop_back();
        return usable;
    }();
    return sets;
}

}  // namespace outrider::testing
