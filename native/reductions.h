// What samplers ask of logits, done where the logits are: 152k floats a row need not cross into Python.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels.h"
#include "pool.h"

namespace outrider {

struct RowStatistics {
    float max;         // NaN if any logit is NaN or +infinite
    int64_t argmax;    // the lowest index among equals; -1 for NaN
    double logsumexp;
};

// Rows are padded to a multiple of 16 with -inf. The split of a row is fixed, so results don't depend on the threads.
std::vector<RowStatistics> row_statistics(const std::vector<const float*>& rows, int n, const Kernels& kernels, Pool& pool, bool want_sum);

// The k largest of one row, best first, the lowest index first among equals.
void top_k(const float* row, int n, int k, int64_t* ids, float* values);

}  // namespace outrider
