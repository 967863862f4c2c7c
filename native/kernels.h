// The one dispatch table: what an instruction set provides. Kernel files include this, their primitives and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "panels.h"

namespace outrider {

// Activations of one tile, int8 or floats, of `n` rows. Entries of the n rows that belong to the same columns are adjacent, so that
// a kernel reads them as broadcast operands: values[column / 4][row in tile] and so on.
struct ActivationTile {
    int32_t* values;   // [columns / 4][n]: 4 consecutive int8 each, never -128
    float* scales;     // [columns / 256 or / 32][n]
    int32_t* offsets;  // kPer256: -32 x sum of each 8 columns; kPer32: -16 x sum of each 32 columns
    int32_t* pairs;    // kPer256: [columns / 64][n]: two int16, the sums of two neighbouring 32-column sub-blocks
    int32_t* halves;   // kPer256: [columns / 32][n]: two int16, minus the sums of two neighbouring halves of a sub-block
    float* sums;       // kPer32: [columns / 32][n]: scale x sum of each 32 columns
    float* floats;     // kFloat: [columns][n], in place of all the others; zero from the last column to the end of its panel
};

// Whether panels come from a cache, or from memory and by which way: far ahead into the second level, or less far into the first,
// which kernels for one or two rows can do.
enum Prefetch : uint8_t { kNoPrefetch, kFarPrefetch, kNearPrefetch };

// A row group of a weight matrix times one tile, or a range of their columns.
struct MultiplyJob {
    const void* panels;  // the row group's panels, in column order, the two halves of the rows side by side
    int n_panels;        // of each half
    const uint8_t* bytes;  // what `unpack` made of them, for tiles of 4 rows and more, or null
    ActivationTile x;    // from the first panel's columns on
    float* carry;        // [n][kGroupRows]: running results, also between calls for successive panels
    bool first, last;    // whether the job starts at zero, and whether it ends in y
    Prefetch prefetch;
    float* y;           // y[row in tile * stride + lane]
    ptrdiff_t stride;   // floats
    const float* bias;  // kGroupRows floats added to every row, or null
    bool accumulate;    // add to what y holds (the residual stream)
};

// Keys and values of up to kChunk consecutive positions of one layer and KV head: a plane of each. p = position, d = dimension.
//   f16: keys [p / 16][d][p % 16], values [d / 16][p][d % 16].
//   q8_0: int8 with one f16 scale per 32 dimensions of a position, the scales behind the numbers.
//     keys, s8 + 128 in stripes as in panels: [p / 16][d / 4][p % 16][d % 4], then [p / 16][d / 32][p % 16];
//     values, s8: [d / 16][p][d % 16], then [d / 32][p].
enum CacheType : int { kCacheF16, kCacheQ80, kCacheTypes };
constexpr int kChunk = 256;
constexpr int kMaxHead = 256;
constexpr int kCacheBlock = 32;

struct KeyRange {
    int begin, end;  // positions of the chunk, 0 <= begin < end <= kChunk
};

// A tile of queries over one chunk. Each sees its own range of keys, and what it gets does not depend on the others.
struct AttendJob {
    const uint8_t* keys;
    const uint8_t* values;
    int head;                 // dimensions, a multiple of 16 (of 32 for q8_0), at most kMaxHead
    const KeyRange* visible;  // [n]
    const float* queries;     // [n][kMaxHead], already scaled
    float* scores;            // [n][kChunk]: scores, then their weights
    float* out;               // [n][kMaxHead]: sum of exp(score - max) x value
    float* max;               // [n]
    float* sum;               // [n]: sum of exp(score - max)
};

struct Kernels {
    const char* name;
    void (*multiply[kFormats][kMaxTile])(const MultiplyJob&);
    // The values of a row group's panels, a byte each: [panel][half][columns / 4][64]. Null where that gains nothing.
    void (*unpack[kFormats])(const void* panels, int n_panels, uint8_t* out);
    // Attention, in this order: scores from keys, weights from scores, outputs from values.
    void (*score[kCacheTypes][kMaxTile])(const AttendJob&);
    void (*weigh)(const AttendJob&, int n);
    void (*mix[kCacheTypes][kMaxTile])(const AttendJob&);
    // Folds a chunk's (out, max, sum) into a running one; the fixed order of chunks makes attention independent of the batch.
    void (*fold)(float* out, float* max, float* sum, const float* chunk_out, float chunk_max, float chunk_sum, int head);
    void (*normalise)(const float* x, const float* weight, int n, float epsilon, float* y);  // RMS norm
    void (*quantise[kActivationKinds])(const float* x, int n, const ActivationTile& tile, int row, int n_rows);
    void (*gate)(const float* gate, const float* up, int n, float* y);  // silu(gate) x up
    void (*scale)(const float* x, int n, float factor, float* y);
    void (*to_half)(const float* x, int n, uint16_t* y);
    float (*maximum)(const float* x, int n);                    // NaN if any is NaN
    float (*sum_exp)(const float* x, int n, float max);         // of exp(x - max); n a multiple of 16, padding is -inf
    // A position of a q8_0 cache: int8 and a scale per kCacheBlock. n is a multiple of that, at most kMaxHead.
    void (*to_q80)(const float* x, int n, int8_t* q, uint16_t* scales);
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

}  // namespace outrider
