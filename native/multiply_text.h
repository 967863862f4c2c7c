// The matrix kernels, written once: a format says how one panel is accumulated, the primitives of `Isa` say how that is done.
//
// Whatever the tile, each output is computed by the same operations in the same order: integers inside a block, then one fused
// multiply-add per block in column order. That is what makes results independent of the batch, and equal on every instruction set.
#pragma once
#include "kernels.h"

namespace {

using namespace outrider;

using Ints = Isa::Ints;
using Floats = Isa::Floats;
using Bytes = Isa::Bytes;

// Vector sets unroll so that accumulators live in registers; the reference stays a loop, or it would take minutes to compile.
#ifdef OUTRIDER_REFERENCE
#define OUTRIDER_UNROLL(n) _Pragma("GCC unroll 1")
#else
#define OUTRIDER_PRAGMA(text) _Pragma(#text)
#define OUTRIDER_UNROLL(n) OUTRIDER_PRAGMA(GCC unroll n)
#endif
#define OUTRIDER_ROWS OUTRIDER_UNROLL(8) for (int t = 0; t < N; t++)

// One or two rows wait for memory: their weights go to the first-level cache, some panels ahead. More rows wait for arithmetic,
// and there the activations need that cache for themselves: weights stop at the second level, further ahead.
// Measured on Zen 4, Q6_K, one thread: 5 rows 118 -> 145 GMAC/s, 8 rows 150 -> 166; but 1 row 27 -> 22 GB/s, hence both.
constexpr int kNearBytes = 9216, kFarBytes = 24576;

template <int N, int Lines>
inline __attribute__((always_inline)) void prefetch_ahead(const void* panel, int first_line) {
    const char* ahead = static_cast<const char*>(panel) + (N <= 2 ? kNearBytes : kFarBytes) + first_line * 64;
    OUTRIDER_UNROLL(16) for (int i = 0; i < Lines; i++) N <= 2 ? Isa::prefetch(ahead + i * 64) : Isa::prefetch_second_level(ahead + i * 64);
}

// 32 columns of nibbles against the tile: the shared middle of every 4-bit format.
template <int N>
inline __attribute__((always_inline)) void dot_nibbles(const uint8_t (*stripes)[64], int lane, const int32_t* x, Ints (&dot)[N]) {
    OUTRIDER_UNROLL(4) for (int c = 0; c < 4; c++) {
        Bytes packed = Isa::load_bytes(stripes[c] + lane * 4);
        Bytes low = Isa::low_nibbles(packed), high = Isa::high_nibbles(packed);
        OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], low, x[c * N + t]);
        OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], high, x[(4 + c) * N + t]);
    }
}

// The same with a fifth bit: bit v of `high` belongs to the v-th group of 4 columns.
template <int N>
inline __attribute__((always_inline)) void dot_five_bits(const uint8_t (*stripes)[64], const uint8_t* high_bits, int lane, const int32_t* x, Ints (&dot)[N]) {
    Bytes bits = Isa::load_bytes(high_bits + lane * 4);
#define OUTRIDER_PAIR(c)                                                                              \
    {                                                                                                 \
        Bytes packed = Isa::load_bytes(stripes[c] + lane * 4);                                        \
        Bytes low = Isa::or_shifted<4 - c, 16>(Isa::low_nibbles(packed), bits);                       \
        Bytes high = Isa::or_shifted<-c, 16>(Isa::high_nibbles(packed), bits);                        \
        OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], low, x[c * N + t]);                                   \
        OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], high, x[(4 + c) * N + t]);                            \
    }
    OUTRIDER_PAIR(0) OUTRIDER_PAIR(1) OUTRIDER_PAIR(2) OUTRIDER_PAIR(3)
#undef OUTRIDER_PAIR
}

// The end of a Q4_K or Q5_K superblock: mins of two neighbouring sub-blocks as int16 pairs, times the activation sums.
template <int N, class Panel>
inline __attribute__((always_inline)) void finish_with_mins(const Panel& b, int lane, const ActivationTile& x, int p, const Ints (&sum)[N], Floats (&out)[N]) {
    Ints mins[4];
    OUTRIDER_UNROLL(4) for (int j = 0; j < 4; j++)
        mins[j] = Isa::add(Isa::widen_unsigned(b.min[2 * j] + lane), Isa::shift_left<16>(Isa::widen_unsigned(b.min[2 * j + 1] + lane)));
    Floats d = Isa::load_half(b.d + lane);
    Floats dmin = Isa::multiply_float(Isa::load_half(b.dmin + lane), Isa::broadcast_float(-1.0f));
    const int32_t* pairs = x.pairs + p * 4 * N;
    OUTRIDER_ROWS {
        Ints offset = Isa::zero();
        OUTRIDER_UNROLL(4) for (int j = 0; j < 4; j++) offset = Isa::dot_pairs(offset, mins[j], pairs[j * N + t]);
        Floats value = Isa::fma(Isa::to_float(sum[t]), d, Isa::multiply_float(Isa::to_float(offset), dmin));
        out[t] = Isa::fma(value, Isa::broadcast_float(x.scales[p * N + t]), out[t]);
    }
}

struct Q4K {
    using Panel = PanelQ4K;
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        const int32_t* values = x.values + p * 64 * N;
        Ints sum[N];
        OUTRIDER_ROWS sum[t] = Isa::zero();
        OUTRIDER_UNROLL(1) for (int j = 0; j < 8; j++) {
            if (prefetch) prefetch_ahead<N, 5>(&b, j * 5);
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::zero();
            dot_nibbles<N>(b.nibbles[j], lane, values + j * 8 * N, dot);
            Ints scale = Isa::widen_unsigned(b.scale[j] + lane);
            OUTRIDER_ROWS sum[t] = Isa::add(sum[t], Isa::multiply(dot[t], scale));
        }
        finish_with_mins<N>(b, lane, x, p, sum, out);
    }
};

struct Q5K {
    using Panel = PanelQ5K;
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        const int32_t* values = x.values + p * 64 * N;
        Ints sum[N];
        OUTRIDER_ROWS sum[t] = Isa::zero();
        OUTRIDER_UNROLL(1) for (int j = 0; j < 8; j++) {
            if (prefetch) prefetch_ahead<N, 6>(&b, j * 6);
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::zero();
            dot_five_bits<N>(b.nibbles[j], b.high[j], lane, values + j * 8 * N, dot);
            Ints scale = Isa::widen_unsigned(b.scale[j] + lane);
            OUTRIDER_ROWS sum[t] = Isa::add(sum[t], Isa::multiply(dot[t], scale));
        }
        finish_with_mins<N>(b, lane, x, p, sum, out);
    }
};

struct Q6K {
    using Panel = PanelQ6K;
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        const int32_t* values = x.values + p * 64 * N;
        const int32_t* offsets = x.offsets + p * 16 * N;
        Ints sum[N];
        OUTRIDER_ROWS sum[t] = Isa::zero();
        OUTRIDER_UNROLL(1) for (int j = 0; j < 16; j++) {
            if (prefetch) prefetch_ahead<N, 3>(&b, j * 3);
            if (prefetch && j >= 11) prefetch_ahead<N, 1>(&b, 37 + j);
            Bytes high = Isa::load_bytes(b.high[j] + lane * 4);
            Bytes first = Isa::load_bytes(b.low[j][0] + lane * 4), second = Isa::load_bytes(b.low[j][1] + lane * 4);
            Bytes q0 = Isa::or_shifted<4, 48>(Isa::low_nibbles(first), high);
            Bytes q1 = Isa::or_shifted<2, 48>(Isa::high_nibbles(first), high);
            Bytes q2 = Isa::or_shifted<0, 48>(Isa::low_nibbles(second), high);
            Bytes q3 = Isa::or_shifted<-2, 48>(Isa::high_nibbles(second), high);
            const int32_t* v = values + j * 4 * N;
            Ints dot[N];
            // Starting at -32 x sum takes the offset of the stored values out for nothing.
            OUTRIDER_ROWS dot[t] = Isa::broadcast(offsets[j * N + t]);
            OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], q0, v[t]);
            OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], q1, v[N + t]);
            OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], q2, v[2 * N + t]);
            OUTRIDER_ROWS dot[t] = Isa::dot(dot[t], q3, v[3 * N + t]);
            Ints scale = Isa::widen_signed(b.scale[j] + lane);
            OUTRIDER_ROWS sum[t] = Isa::add(sum[t], Isa::multiply(dot[t], scale));
        }
        Floats d = Isa::load_half(b.d + lane);
        OUTRIDER_ROWS out[t] = Isa::fma(Isa::multiply_float(Isa::to_float(sum[t]), d), Isa::broadcast_float(x.scales[p * N + t]), out[t]);
    }
};

// The 32-column formats: value = d x (q - Offset), or d x q + m. Offset divides 16 or is a multiple of it.
template <class PanelType, int Lines>
struct Blocks32 {
    using Panel = PanelType;
    template <int N>
    static inline __attribute__((always_inline)) void add_scaled(const uint16_t* d, int lane, const ActivationTile& x, int block, const Ints (&dot)[N], Floats (&out)[N]) {
        Floats scale = Isa::load_half(d + lane);
        OUTRIDER_ROWS out[t] = Isa::fma(Isa::multiply_float(Isa::to_float(dot[t]), Isa::broadcast_float(x.scales[block * N + t])), scale, out[t]);
    }
    template <int N>
    static inline __attribute__((always_inline)) void add_minimum(const uint16_t* m, int lane, const ActivationTile& x, int block, Floats (&out)[N]) {
        Floats minimum = Isa::load_half(m + lane);
        OUTRIDER_ROWS out[t] = Isa::fma(minimum, Isa::broadcast_float(x.sums[block * N + t]), out[t]);
    }
};

struct Q40 : Blocks32<PanelQ40, 5> {
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 5>(&b, j * 4);
            int block = p * 2 + j;
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::shift_right<1>(Isa::broadcast(x.offsets[block * N + t]));
            dot_nibbles<N>(b.nibbles[j], lane, x.values + block * 8 * N, dot);
            add_scaled<N>(b.d[j], lane, x, block, dot, out);
        }
    }
};

struct Q41 : Blocks32<PanelQ41, 5> {
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 5>(&b, j * 5);
            int block = p * 2 + j;
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::zero();
            dot_nibbles<N>(b.nibbles[j], lane, x.values + block * 8 * N, dot);
            add_scaled<N>(b.d[j], lane, x, block, dot, out);
            add_minimum<N>(b.m[j], lane, x, block, out);
        }
    }
};

struct Q50 : Blocks32<PanelQ50, 6> {
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 6>(&b, j * 5);
            int block = p * 2 + j;
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::broadcast(x.offsets[block * N + t]);
            dot_five_bits<N>(b.nibbles[j], b.high[j], lane, x.values + block * 8 * N, dot);
            add_scaled<N>(b.d[j], lane, x, block, dot, out);
        }
    }
};

struct Q51 : Blocks32<PanelQ51, 6> {
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 6>(&b, j * 6);
            int block = p * 2 + j;
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::zero();
            dot_five_bits<N>(b.nibbles[j], b.high[j], lane, x.values + block * 8 * N, dot);
            add_scaled<N>(b.d[j], lane, x, block, dot, out);
            add_minimum<N>(b.m[j], lane, x, block, out);
        }
    }
};

struct Q80 : Blocks32<PanelQ80, 9> {
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 9>(&b, j * 8);
            int block = p * 2 + j;
            Ints dot[N];
            OUTRIDER_ROWS dot[t] = Isa::kSigned ? Isa::shift_left<3>(Isa::broadcast(x.offsets[block * N + t])) : Isa::zero();
            const int32_t* values = x.values + block * 8 * N;
            OUTRIDER_UNROLL(8) for (int c = 0; c < 8; c++) {
                Bytes q = Isa::load_bytes(b.bytes[j][c] + lane * 4);
                OUTRIDER_ROWS dot[t] = Isa::dot_signed(dot[t], q, values[c * N + t]);
            }
            add_scaled<N>(b.d[j], lane, x, block, dot, out);
        }
    }
};

template <class F, int N>
void multiply(const MultiplyJob& job) {
    const auto* panels = static_cast<const typename F::Panel*>(job.panels);
    // A local copy tells the compiler that stores to y don't change the pointers.
    const ActivationTile x = job.x;
    for (int lane = 0; lane < kPanelRows; lane += Isa::kLanes) {
        Floats out[N];
        OUTRIDER_ROWS out[t] = job.first ? Isa::zero_float() : Isa::load(job.carry + t * kPanelRows + lane);
        for (int p = 0; p < job.n_panels; p++) F::template accumulate<N>(panels[p], lane, x, p, job.prefetch, out);
        if (!job.last) {
            OUTRIDER_ROWS Isa::store(job.carry + t * kPanelRows + lane, out[t]);
            continue;
        }
        if (job.bias) {
            Floats bias = Isa::load(job.bias + lane);
            OUTRIDER_ROWS out[t] = Isa::add_float(out[t], bias);
        }
        OUTRIDER_ROWS {
            float* y = job.y + t * job.stride + lane;
            Isa::store(y, job.accumulate ? Isa::add_float(Isa::load(y), out[t]) : out[t]);
        }
    }
}

#define OUTRIDER_TILES(F) \
    { multiply<F, 1>, multiply<F, 2>, multiply<F, 3>, multiply<F, 4>, multiply<F, 5>, multiply<F, 6>, multiply<F, 7>, multiply<F, 8> }
// In the order of enum Format.
#define OUTRIDER_MULTIPLY_TABLE                                                                              \
    { OUTRIDER_TILES(Q4K), OUTRIDER_TILES(Q6K), OUTRIDER_TILES(Q50), OUTRIDER_TILES(Q80), OUTRIDER_TILES(Q41), OUTRIDER_TILES(Q40), \
      OUTRIDER_TILES(Q51), OUTRIDER_TILES(Q5K), OUTRIDER_TILES(F32), OUTRIDER_TILES(F16), OUTRIDER_TILES(BF16) }

}  // namespace
