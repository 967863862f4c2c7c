// Everything that is done to single rows: norm, quantisation, activation function, softmax pieces and attention. Written once.
//
// Reductions always run over 16 partial results that are folded in one order, whatever the vector width.
#pragma once
#include "kernels.h"

namespace {

using namespace outrider;

constexpr int kSplit = 16 / Isa::kLanes;  // vectors per 16 values

// Cephes' range reduction and a degree-6 polynomial, error below 2 units in the last place; exp(x) is 0 below -87.
inline __attribute__((always_inline)) Floats exponential(Floats x) {
    const Floats bounded = Isa::min(Isa::max(x, Isa::broadcast_float(-87.0f)), Isa::broadcast_float(88.0f));
    const Ints n = Isa::round(Isa::multiply_float(bounded, Isa::broadcast_float(1.44269504f)));
    const Floats whole = Isa::to_float(n);
    Floats r = Isa::fma(whole, Isa::broadcast_float(-0.693359375f), bounded);
    r = Isa::fma(whole, Isa::broadcast_float(2.12194440e-4f), r);
    Floats y = Isa::broadcast_float(1.9875691500e-4f);
    y = Isa::fma(y, r, Isa::broadcast_float(1.3981999507e-3f));
    y = Isa::fma(y, r, Isa::broadcast_float(8.3334519073e-3f));
    y = Isa::fma(y, r, Isa::broadcast_float(4.1665795894e-2f));
    y = Isa::fma(y, r, Isa::broadcast_float(1.6666665459e-1f));
    y = Isa::fma(y, r, Isa::broadcast_float(5.0000001201e-1f));
    y = Isa::fma(Isa::multiply_float(r, r), y, Isa::add_float(r, Isa::broadcast_float(1.0f)));
    return Isa::zero_below(x, -87.0f, Isa::scale_exponent(y, n));
}

// 16 partial sums to one, pairwise in a fixed order.
inline float fold_sum(const Floats (&parts)[kSplit]) {
    float v[16];
    for (int s = 0; s < kSplit; s++) Isa::store(v + s * Isa::kLanes, parts[s]);
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++) v[i] = v[i] + v[i + width];
    return v[0];
}

inline float fold_max(const Floats (&parts)[kSplit]) {
    float v[16];
    for (int s = 0; s < kSplit; s++) Isa::store(v + s * Isa::kLanes, parts[s]);
    float result = v[0];
    for (int i = 1; i < 16; i++) result = v[i] > result ? v[i] : result;
    return result;
}

// n is a multiple of 16 in all of these: buffers are padded with zeros.
void normalise(const float* x, const float* weight, int n, float epsilon, float* y) {
    Floats parts[kSplit];
    for (int s = 0; s < kSplit; s++) parts[s] = Isa::zero_float();
    for (int i = 0; i < n; i += 16)
        for (int s = 0; s < kSplit; s++) {
            Floats v = Isa::load(x + i + s * Isa::kLanes);
            parts[s] = Isa::fma(v, v, parts[s]);
        }
    const Floats factor = Isa::broadcast_float(1.0f / __builtin_sqrtf(fold_sum(parts) / float(n) + epsilon));
    for (int i = 0; i < n; i += Isa::kLanes)
        Isa::store(y + i, Isa::multiply_float(Isa::multiply_float(Isa::load(x + i), factor), Isa::load(weight + i)));
}

// One block of `Width` columns to int8; returns the scale.
template <int Width>
inline float quantise_block(const float* x, int8_t* q) {
    Floats parts[kSplit];
    for (int s = 0; s < kSplit; s++) parts[s] = Isa::zero_float();
    for (int i = 0; i < Width; i += 16)
        for (int s = 0; s < kSplit; s++) parts[s] = Isa::max(parts[s], Isa::absolute(Isa::load(x + i + s * Isa::kLanes)));
    const float largest = fold_max(parts);
    const float scale = largest / 127.0f;
    // A block so small that its reciprocal overflows counts as zero.
    const Floats inverse = Isa::broadcast_float(largest > 1e-30f ? 127.0f / largest : 0.0f);
    // No -128, not even from NaN: AVX2's products of signed bytes take the weight's sign to the activation, and -(-128) is -128.
    const Floats lowest = Isa::broadcast_float(-127.0f);
    for (int i = 0; i < Width; i += Isa::kLanes) Isa::store_int8(q + i, Isa::round(Isa::max(Isa::multiply_float(Isa::load(x + i), inverse), lowest)));
    return scale;
}

inline int32_t sum_bytes(const int8_t* q, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += q[i];
    return sum;
}

inline int32_t four_bytes(const int8_t* q) {
    int32_t word;
    __builtin_memcpy(&word, q, 4);
    return word;
}

// All quantisers write what pads the last panel too: other rows of an earlier pass may have lain there, and 0 x NaN is NaN.
void quantise_per_256(const float* x, int n, const ActivationTile& tile, int row, int n_rows) {
    int8_t q[256];
    for (int p = 0; p < n / 256; p++) {
        tile.scales[p * n_rows + row] = quantise_block<256>(x + p * 256, q);
        int32_t* values = tile.values + p * 64 * n_rows + row;
        for (int c = 0; c < 64; c++) values[c * n_rows] = four_bytes(q + c * 4);
        int32_t sums[16];
        for (int j = 0; j < 16; j++) {
            const int32_t first = sum_bytes(q + j * 16, 8), second = sum_bytes(q + j * 16 + 8, 8);
            sums[j] = first + second;
            tile.offsets[(p * 32 + 2 * j) * n_rows + row] = -32 * first;
            tile.offsets[(p * 32 + 2 * j + 1) * n_rows + row] = -32 * second;
        }
        for (int j = 0; j < 4; j++) {
            uint32_t low = uint16_t(sums[4 * j] + sums[4 * j + 1]), high = uint16_t(sums[4 * j + 2] + sums[4 * j + 3]);
            tile.pairs[(p * 4 + j) * n_rows + row] = int32_t(low | high << 16);
        }
        for (int j = 0; j < 8; j++)
            tile.halves[(p * 8 + j) * n_rows + row] = int32_t(uint32_t(uint16_t(-sums[2 * j])) | uint32_t(uint16_t(-sums[2 * j + 1])) << 16);
    }
}

void quantise_per_32(const float* x, int n, const ActivationTile& tile, int row, int n_rows) {
    int8_t q[32];
    for (int b = 0; b < n / 32; b++) {
        const float scale = quantise_block<32>(x + b * 32, q);
        int32_t* values = tile.values + b * 8 * n_rows + row;
        for (int c = 0; c < 8; c++) values[c * n_rows] = four_bytes(q + c * 4);
        const int32_t sum = sum_bytes(q, 32);
        tile.scales[b * n_rows + row] = scale;
        tile.offsets[b * n_rows + row] = -16 * sum;
        tile.sums[b * n_rows + row] = scale * float(sum);
    }
    if (n / 32 % 2) {  // what pads the last panel
        const int b = n / 32;
        for (int c = 0; c < 8; c++) tile.values[(b * 8 + c) * n_rows + row] = 0;
        tile.offsets[b * n_rows + row] = 0;
        tile.scales[b * n_rows + row] = tile.sums[b * n_rows + row] = 0.0f;
    }
}

// Floats stay as they are.
void spread_floats(const float* x, int n, const ActivationTile& tile, int row, int n_rows) {
    for (int c = 0; c < n; c++) tile.floats[c * n_rows + row] = x[c];
    for (int c = n; c % 64; c++) tile.floats[c * n_rows + row] = 0.0f;
}

void gate_rows(const float* gate, const float* up, int n, float* y) {
    const Floats one = Isa::broadcast_float(1.0f), minus = Isa::broadcast_float(-1.0f);
    for (int i = 0; i < n; i += Isa::kLanes) {
        Floats g = Isa::load(gate + i);
        Floats silu = Isa::divide(g, Isa::add_float(one, exponential(Isa::multiply_float(g, minus))));
        Isa::store(y + i, Isa::multiply_float(silu, Isa::load(up + i)));
    }
}

void scale_row(const float* x, int n, float factor, float* y) {
    for (int i = 0; i < n; i += Isa::kLanes) Isa::store(y + i, Isa::multiply_float(Isa::load(x + i), Isa::broadcast_float(factor)));
}

void to_half(const float* x, int n, uint16_t* y) {
    for (int i = 0; i < n; i += Isa::kLanes) Isa::store_half(y + i, Isa::load(x + i));
}

float maximum(const float* x, int n) {
    Floats parts[kSplit], checks[kSplit];
    for (int s = 0; s < kSplit; s++) {
        parts[s] = Isa::load(x + s * Isa::kLanes);
        checks[s] = Isa::zero_float();
    }
    for (int i = 0; i < n; i += 16)
        for (int s = 0; s < kSplit; s++) {
            Floats v = Isa::load(x + i + s * Isa::kLanes);
            parts[s] = Isa::max(v, parts[s]);
            // v x 0 is NaN for NaN and infinities; -inf is legal padding, so bound it first.
            checks[s] = Isa::fma(Isa::max(Isa::broadcast_float(-3e38f), v), Isa::zero_float(), checks[s]);
        }
    const float check = fold_sum(checks);
    return check == check ? fold_max(parts) : check;
}

float sum_exp(const float* x, int n, float max) {
    Floats parts[kSplit];
    for (int s = 0; s < kSplit; s++) parts[s] = Isa::zero_float();
    for (int i = 0; i < n; i += 16)
        for (int s = 0; s < kSplit; s++)
            parts[s] = Isa::add_float(parts[s], exponential(Isa::subtract(Isa::load(x + i + s * Isa::kLanes), Isa::broadcast_float(max))));
    return fold_sum(parts);
}

void to_q80(const float* x, int n, int8_t* q, uint16_t* scales) {
    float exact[16] = {};
    for (int b = 0; b < n / kCacheBlock; b++) exact[b] = quantise_block<kCacheBlock>(x + b * kCacheBlock, q + b * kCacheBlock);
    alignas(32) uint16_t halves[16];
    for (int lane = 0; lane < 16; lane += Isa::kLanes) Isa::store_half(halves + lane, Isa::load(exact + lane));
    for (int b = 0; b < n / kCacheBlock; b++) scales[b] = halves[b];
}

void fold(float* out, float* max, float* sum, const float* chunk_out, float chunk_max, float chunk_sum, int head) {
    const float larger = *max > chunk_max ? *max : chunk_max;
    float factors[2 * Isa::kLanes];
    Isa::store(factors, exponential(Isa::broadcast_float(*max - larger)));
    Isa::store(factors + Isa::kLanes, exponential(Isa::broadcast_float(chunk_max - larger)));
    const float old_factor = factors[0], new_factor = factors[Isa::kLanes];
    *max = larger;
    *sum = __builtin_fmaf(*sum, old_factor, chunk_sum * new_factor);
    for (int d = 0; d < head; d += Isa::kLanes) {
        Floats scaled = Isa::multiply_float(Isa::load(chunk_out + d), Isa::broadcast_float(new_factor));
        Isa::store(out + d, Isa::fma(Isa::load(out + d), Isa::broadcast_float(old_factor), scaled));
    }
}

#define OUTRIDER_KERNELS(name)                                                                                                       \
    {                                                                                                                                \
        name, OUTRIDER_MULTIPLY_TABLE, OUTRIDER_UNPACK_TABLE, {OUTRIDER_ATTEND(score_f16), OUTRIDER_ATTEND(score_q80)}, weigh,                                \
            {OUTRIDER_ATTEND(mix_f16), OUTRIDER_ATTEND(mix_q80)}, fold, normalise,                                                     \
            {quantise_per_256, quantise_per_32, spread_floats}, gate_rows, scale_row, to_half, maximum, sum_exp, to_q80                \
    }

}  // namespace
