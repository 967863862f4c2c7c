// The one dispatch table: what an instruction set provides. Kernel files include this, their primitives and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "panels.h"

namespace outrider {

// Quantised activations of one tile of `n` rows. Entries of the n rows that belong to the same columns are adjacent, so that
// a kernel reads them as broadcast operands: values[column / 4][row in tile] and so on.
struct ActivationTile {
    int32_t* values;   // [columns / 4][n]: 4 consecutive int8 each
    float* scales;     // [columns / 256 or / 32][n]
    int32_t* offsets;  // kPer256: -32 x sum of each 16 columns; kPer32: -16 x sum of each 32 columns
    int32_t* pairs;    // kPer256: [columns / 64][n]: two int16, the sums of two neighbouring 32-column sub-blocks
    int32_t* halves;   // kPer256: [columns / 32][n]: two int16, minus the sums of two neighbouring halves of a sub-block
    float* sums;       // kPer32: [columns / 32][n]: scale x sum of each 32 columns
};

// A row group of a weight matrix times one tile, or a range of their columns.
struct MultiplyJob {
    const void* panels;  // the row group's panels, in column order, the two halves of the rows side by side
    int n_panels;        // of each half
    ActivationTile x;    // from the first panel's columns on
    float* carry;        // [n][kGroupRows]: running results, also between calls for successive panels
    bool first, last;    // whether the job starts at zero, and whether it ends in y
    bool prefetch;       // the panels come from memory, not from a cache
    float* y;           // y[row in tile * stride + lane]
    ptrdiff_t stride;   // floats
    const float* bias;  // kGroupRows floats added to every row, or null
    bool accumulate;    // add to what y holds (the residual stream)
};

// Keys and values of up to kChunk consecutive positions of one layer and KV head, as f16:
// keys[position / 16][dimension][position % 16], values[dimension / 16][position][dimension % 16].
constexpr int kChunk = 256;
constexpr int kMaxHead = 256;

struct AttendJob {
    const uint16_t* keys;
    const uint16_t* values;
    int n_keys;            // 1..kChunk
    int head;              // dimensions, a multiple of 16, at most kMaxHead
    const float* queries;  // [n][kMaxHead], already scaled
    float* scratch;        // [n][kChunk]
    float* out;            // [n][kMaxHead]: sum of exp(score - max) x value
    float* max;            // [n]
    float* sum;            // [n]: sum of exp(score - max)
};

struct Kernels {
    const char* name;
    void (*multiply[kFormats][kMaxTile])(const MultiplyJob&);
    void (*attend[kMaxTile])(const AttendJob&);
    // Folds a chunk's (out, max, sum) into a running one; the fixed order of chunks makes attention independent of the batch.
    void (*fold)(float* out, float* max, float* sum, const float* chunk_out, float chunk_max, float chunk_sum, int head);
    void (*normalise)(const float* x, const float* weight, int n, float epsilon, float* y);  // RMS norm
    void (*quantise[kActivationKinds])(const float* x, int n, const ActivationTile& tile, int row, int n_rows);
    void (*gate)(const float* gate, const float* up, int n, float* y);  // silu(gate) x up
    void (*scale)(const float* x, int n, float factor, float* y);
    void (*to_half)(const float* x, int n, uint16_t* y);
    float (*maximum)(const float* x, int n);                    // NaN if any is NaN
    float (*sum_exp)(const float* x, int n, float max);         // of exp(x - max); n a multiple of 16, padding is -inf
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

}  // namespace outrider
