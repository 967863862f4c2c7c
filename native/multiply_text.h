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
using Partial = Isa::Partial;

// Vector sets unroll so that accumulators live in registers; the reference stays a loop, or it would take minutes to compile.
#ifdef OUTRIDER_REFERENCE
#define OUTRIDER_UNROLL(n) _Pragma("GCC unroll 1")
#else
#define OUTRIDER_PRAGMA(text) _Pragma(#text)
#define OUTRIDER_UNROLL(n) OUTRIDER_PRAGMA(GCC unroll n)
#endif
#define OUTRIDER_INLINE inline __attribute__((always_inline))
#define OUTRIDER_ROWS OUTRIDER_UNROLL(8) for (int t = 0; t < S; t++)
#define OUTRIDER_GROUP OUTRIDER_UNROLL(2) for (int g = 0; g < G; g++)

constexpr int kVectors = kGroupRows / Isa::kLanes;  // of weight rows in a group

// From 3 rows on arithmetic decides, and the activations need the first-level cache for themselves: weights stop at the second level.
// Measured on Zen 4, Q6_K, one thread: 5 rows 118 -> 145 GMAC/s, 8 rows 150 -> 166. One or two rows wait for memory, and which way
// is faster depends on the CPU (see dispatch.h).
constexpr int kNearRows = 2, kNearBytes = 9216, kFarBytes = 24576;

// Stripes of a panel that is unpacked to a byte a value.
template <class Panel>
constexpr int kStripes = Panel::kColumns / 4;

// What one call works on: S rows of a tile of N, from some row on, and G vectors of weight rows, which share each broadcast of the
// activations, from vector `v` of a panel pair on.
template <class Panel, int G>
struct Blocks {
    const Panel* pair;
    const uint8_t* bytes;  // the pair's values unpacked, for wide passes
    int v;
    const Panel& panel(int g) const { return pair[(v + g) * Isa::kLanes / kPanelRows]; }
    int lane(int g) const { return (v + g) * Isa::kLanes % kPanelRows; }
    const uint8_t* stripe(int g, int i) const { return bytes + (v + g) * Isa::kLanes / kPanelRows * kStripes<Panel> * 64 + i * 64 + lane(g) * 4; }
};

// Part `part` of `Parts` of the lines that a later call like this one will read.
template <int N, int Parts, class Panel, int G>
OUTRIDER_INLINE void prefetch_ahead(const Blocks<Panel, G>& b, int part, Prefetch prefetch) {
    constexpr int kVectorBytes = int(sizeof(Panel)) * Isa::kLanes / kPanelRows, kLines = (G * kVectorBytes / 64 + Parts - 1) / Parts;
    const char* lines = reinterpret_cast<const char*>(b.pair) + b.v * kVectorBytes + part * kLines * 64;
    if (N <= kNearRows && prefetch == kNearPrefetch) {
        OUTRIDER_UNROLL(32) for (int i = 0; i < kLines; i++) Isa::prefetch(lines + kNearBytes + i * 64);
    } else {
        OUTRIDER_UNROLL(32) for (int i = 0; i < kLines; i++) Isa::prefetch_second_level(lines + kFarBytes + i * 64);
    }
}

template <int N, int S, int G>
OUTRIDER_INLINE void dot_rows(const Bytes (&weights)[G], const int32_t* x, Partial (&dot)[G][S]) {
    OUTRIDER_ROWS {
        const Bytes activations = Isa::spread(x[t]);
        OUTRIDER_GROUP dot[g][t] = Isa::dot(dot[g][t], weights[g], activations);
    }
}

// Count stripes of unpacked values, from stripe `first` on.
template <int N, int S, int Count, class Panel, int G>
OUTRIDER_INLINE void dot_bytes(const Blocks<Panel, G>& b, int first, const int32_t* x, Partial (&dot)[G][S]) {
    OUTRIDER_UNROLL(8) for (int i = first; i < first + Count; i++) {
        Bytes q[G];
        OUTRIDER_GROUP q[g] = Isa::load_bytes(b.stripe(g, i));
        dot_rows<N, S>(q, x + i * N, dot);
    }
}

template <int S, int G>
OUTRIDER_INLINE void clear(Partial (&dot)[G][S]) {
    OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::begin(Isa::zero());
}

// In how many parts a sub-block of so many stripes of values up to `max` is summed. Where 16 bits hold half of it, one instruction
// multiplies that by the scale and adds it; the whole takes three. One or two rows wait for memory anyway.
template <int N>
constexpr int parts(int stripes, int max) {
    return Isa::kExact ? (Isa::kShortScales && N > kNearRows ? 2 : 1) : (32767 / (2 * 127 * max) < stripes ? 2 : 1);
}

// sum += dot x scale, where dots are at most Bound
template <int Bound, int S, int G>
OUTRIDER_INLINE void add_scaled(Ints (&sum)[G][S], const Partial (&dot)[G][S], const Isa::Scale (&scale)[G]) {
    OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::template add_scaled<Bound>(sum[g][t], dot[g][t], scale[g]);
}

// 16 of 32 columns of nibbles against the tile, those of stripes C and C + 1: the shared middle of every 4-bit format.
template <int N, int S, int C, int G>
OUTRIDER_INLINE void dot_nibbles(const uint8_t* const (&stripes)[G], const int32_t* x, Partial (&dot)[G][S]) {
    OUTRIDER_UNROLL(2) for (int c = C; c < C + 2; c++) {
        Bytes low[G], high[G];
        OUTRIDER_GROUP {
            const Bytes packed = Isa::load_bytes(stripes[g] + c * 64);
            low[g] = Isa::low_nibbles(packed), high[g] = Isa::high_nibbles(packed);
        }
        dot_rows<N, S>(low, x + c * N, dot);
        dot_rows<N, S>(high, x + (4 + c) * N, dot);
    }
}

// 16 of 32 columns with a fifth bit, the nibbles of stripes C and C + 1: bit v of `bits` belongs to the v-th group of 4 columns.
template <int N, int S, int C, int G>
OUTRIDER_INLINE void dot_five_bits(const uint8_t* const (&stripes)[G], const Bytes (&bits)[G], const int32_t* x, Partial (&dot)[G][S]) {
#define OUTRIDER_PAIR(c)                                                                     \
    {                                                                                        \
        Bytes low[G], high[G];                                                               \
        OUTRIDER_GROUP {                                                                     \
            const Bytes packed = Isa::load_bytes(stripes[g] + (c) * 64);                     \
            low[g] = Isa::or_shifted<4 - (c), 16>(Isa::low_nibbles(packed), bits[g]);        \
            high[g] = Isa::or_shifted<-(c), 16>(Isa::high_nibbles(packed), bits[g]);         \
        }                                                                                    \
        dot_rows<N, S>(low, x + (c) * N, dot);                                               \
        dot_rows<N, S>(high, x + (4 + (c)) * N, dot);                                        \
    }
    OUTRIDER_PAIR(C) OUTRIDER_PAIR(C + 1)
#undef OUTRIDER_PAIR
}

// 32 columns of nibbles to bytes, a stripe for 4 columns.
OUTRIDER_INLINE void unpack_nibbles(const uint8_t* stripes, uint8_t* out) {
    OUTRIDER_UNROLL(4) for (int c = 0; c < 4; c++) {
        const Bytes packed = Isa::load_bytes(stripes + c * 64);
        Isa::store_bytes(out + c * 64, Isa::low_nibbles(packed));
        Isa::store_bytes(out + (4 + c) * 64, Isa::high_nibbles(packed));
    }
}

template <int C = 0>
OUTRIDER_INLINE void unpack_five_bits(const uint8_t* stripes, Bytes bits, uint8_t* out) {
    const Bytes packed = Isa::load_bytes(stripes + C * 64);
    Isa::store_bytes(out + C * 64, Isa::or_shifted<4 - C, 16>(Isa::low_nibbles(packed), bits));
    Isa::store_bytes(out + (4 + C) * 64, Isa::or_shifted<-C, 16>(Isa::high_nibbles(packed), bits));
    if constexpr (C < 3) unpack_five_bits<C + 1>(stripes, bits, out);
}

// Two columns of int8 or uint8 scales as int16 pairs.
template <class Panel, int G, class Read>
OUTRIDER_INLINE void read_pairs(const Blocks<Panel, G>& b, Ints (&pairs)[G], Read read) {
    OUTRIDER_GROUP pairs[g] = Isa::pair(read(b.panel(g), b.lane(g), 0), read(b.panel(g), b.lane(g), 1));
}

// The end of a Q4_K or Q5_K superblock: mins of two neighbouring sub-blocks as int16 pairs, times the activation sums.
template <int N, int S, class Panel, int G>
OUTRIDER_INLINE void finish_with_mins(const Blocks<Panel, G>& b, const ActivationTile& x, const Ints (&sum)[G][S], Floats (&out)[G][S]) {
    Ints offset[G][S];
    OUTRIDER_ROWS OUTRIDER_GROUP offset[g][t] = Isa::zero();
    OUTRIDER_UNROLL(4) for (int j = 0; j < 4; j++) {
        Ints mins[G];
        read_pairs(b, mins, [j](const Panel& panel, int lane, int k) { return Isa::widen_unsigned(panel.min[2 * j + k] + lane); });
        OUTRIDER_ROWS {
            const Ints sums = Isa::broadcast(x.pairs[j * N + t]);
            OUTRIDER_GROUP offset[g][t] = Isa::dot_pairs(offset[g][t], mins[g], sums);
        }
    }
    OUTRIDER_GROUP {
        const Floats d = Isa::load_half(b.panel(g).d + b.lane(g));
        const Floats dmin = Isa::multiply_float(Isa::load_half(b.panel(g).dmin + b.lane(g)), Isa::broadcast_float(-1.0f));
        OUTRIDER_ROWS {
            const Floats value = Isa::fma(Isa::to_float(sum[g][t]), d, Isa::multiply_float(Isa::to_float(offset[g][t]), dmin));
            out[g][t] = Isa::fma(value, Isa::broadcast_float(x.scales[t]), out[g][t]);
        }
    }
}

struct Q4K {
    using Panel = PanelQ4K;
    static constexpr bool kSums = true, kUnpacks = true;
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void accumulate(const Blocks<Panel, G>& b, const ActivationTile& x, Prefetch prefetch, Floats (&out)[G][S]) {
        Ints sum[G][S];
        OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::zero();
        OUTRIDER_UNROLL(1) for (int j = 0; j < 8; j++) {
            if (prefetch) prefetch_ahead<N, 8>(b, j, prefetch);
            constexpr int kParts = parts<N>(8, 15);
            Partial dot[G][S];
            clear(dot);
            const uint8_t* stripes[G];
            Isa::Scale scale[G];
            OUTRIDER_GROUP stripes[g] = b.panel(g).nibbles[j][0] + b.lane(g) * 4, scale[g] = Isa::scale_unsigned(b.panel(g).scale[j] + b.lane(g));
            if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8, x.values, dot);
            else dot_nibbles<N, S, 0>(stripes, x.values + j * 8 * N, dot);
            if constexpr (kParts == 2) add_scaled<16 * 15 * 127>(sum, dot, scale), clear(dot);
            if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8 + 4, x.values, dot);
            else dot_nibbles<N, S, 2>(stripes, x.values + j * 8 * N, dot);
            add_scaled<32 / kParts * 15 * 127>(sum, dot, scale);
        }
        finish_with_mins<N>(b, x, sum, out);
    }
    static OUTRIDER_INLINE void unpack(const Panel& panel, int lane, uint8_t* out) {
        for (int j = 0; j < 8; j++) unpack_nibbles(panel.nibbles[j][0] + lane * 4, out + j * 8 * 64);
    }
};

struct Q5K {
    using Panel = PanelQ5K;
    static constexpr bool kSums = true, kUnpacks = true;
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void accumulate(const Blocks<Panel, G>& b, const ActivationTile& x, Prefetch prefetch, Floats (&out)[G][S]) {
        Ints sum[G][S];
        OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::zero();
        OUTRIDER_UNROLL(1) for (int j = 0; j < 8; j++) {
            if (prefetch) prefetch_ahead<N, 8>(b, j, prefetch);
            Partial dot[G][S];
            clear(dot);
            const uint8_t* stripes[G];
            Bytes bits[G];
            Isa::Scale scale[G];
            OUTRIDER_GROUP stripes[g] = b.panel(g).nibbles[j][0] + b.lane(g) * 4, bits[g] = Isa::load_bytes(b.panel(g).high[j] + b.lane(g) * 4),
                           scale[g] = Isa::scale_unsigned(b.panel(g).scale[j] + b.lane(g));
            if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8, x.values, dot);
            else dot_five_bits<N, S, 0>(stripes, bits, x.values + j * 8 * N, dot);
            if constexpr (Isa::kDots<31> < 8) add_scaled<1 << 20>(sum, dot, scale), clear(dot);
            if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8 + 4, x.values, dot);
            else dot_five_bits<N, S, 2>(stripes, bits, x.values + j * 8 * N, dot);
            add_scaled<1 << 20>(sum, dot, scale);
        }
        finish_with_mins<N>(b, x, sum, out);
    }
    static OUTRIDER_INLINE void unpack(const Panel& panel, int lane, uint8_t* out) {
        for (int j = 0; j < 8; j++) unpack_five_bits(panel.nibbles[j][0] + lane * 4, Isa::load_bytes(panel.high[j] + lane * 4), out + j * 8 * 64);
    }
};

struct Q6K {
    using Panel = PanelQ6K;
    static constexpr bool kSums = true, kUnpacks = true;
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void accumulate(const Blocks<Panel, G>& b, const ActivationTile& x, Prefetch prefetch, Floats (&out)[G][S]) {
        Ints sum[G][S];
        OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::zero();
        if constexpr (!Isa::kExact) subtract_offsets<N, S>(b, x, sum);
        OUTRIDER_UNROLL(1) for (int j = 0; j < 16; j++) {
            if (prefetch) prefetch_ahead<N, 16>(b, j, prefetch);
            constexpr int kParts = parts<N>(4, 63), kBound = kParts == 2 ? 8 * 32 * 127 : 16 * 32 * 127;
            Bytes q[4][G];
            Isa::Scale scale[G];
            OUTRIDER_GROUP {
                if constexpr (!Wide) {
                    Bytes each[4];
                    six_bits(b.panel(g), j, b.lane(g), each);
                    for (int i = 0; i < 4; i++) q[i][g] = each[i];
                }
                scale[g] = Isa::template scale_signed<kParts == 2>(b.panel(g).scale[j] + b.lane(g));
            }
            OUTRIDER_UNROLL(2) for (int part = 0; part < kParts; part++) {
                // Starting at -32 x sum takes the offset of the stored values out for nothing.
                Partial dot[G][S];
                const int32_t* offset = x.offsets + (j * 2 + part) * N;
                OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::begin(Isa::broadcast(kParts == 2 ? offset[t] : offset[t] + offset[N + t]));
                constexpr int count = 4 / kParts;
                const int first = part * count;
                if constexpr (Wide) dot_bytes<N, S, count>(b, j * 4 + first, x.values, dot);
                else OUTRIDER_UNROLL(4) for (int i = first; i < first + count; i++) dot_rows<N, S>(q[i], x.values + (j * 4 + i) * N, dot);
                add_scaled<kBound>(sum, dot, scale);
            }
        }
        OUTRIDER_GROUP {
            const Floats d = Isa::load_half(b.panel(g).d + b.lane(g));
            OUTRIDER_ROWS out[g][t] = Isa::fma(Isa::multiply_float(Isa::to_float(sum[g][t]), d), Isa::broadcast_float(x.scales[t]), out[g][t]);
        }
    }

    static OUTRIDER_INLINE void six_bits(const Panel& panel, int j, int lane, Bytes (&q)[4]) {
        const Bytes high = Isa::load_bytes(panel.high[j] + lane * 4);
        const Bytes one = Isa::load_bytes(panel.low[j][0] + lane * 4), two = Isa::load_bytes(panel.low[j][1] + lane * 4);
        q[0] = Isa::or_shifted<4, 48>(Isa::low_nibbles(one), high);
        q[1] = Isa::or_shifted<2, 48>(Isa::high_nibbles(one), high);
        q[2] = Isa::or_shifted<0, 48>(Isa::low_nibbles(two), high);
        q[3] = Isa::or_shifted<-2, 48>(Isa::high_nibbles(two), high);
    }
    static OUTRIDER_INLINE void unpack(const Panel& panel, int lane, uint8_t* out) {
        for (int j = 0; j < 16; j++) {
            Bytes q[4];
            six_bits(panel, j, lane, q);
            for (int i = 0; i < 4; i++) Isa::store_bytes(out + (j * 4 + i) * 64, q[i]);
        }
    }

    // The same integers where 16-bit partial sums have no room for the offset: scale pairs times sums of 16 columns.
    template <int N, int S, int G>
    static OUTRIDER_INLINE void subtract_offsets(const Blocks<Panel, G>& b, const ActivationTile& x, Ints (&sum)[G][S]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 8; j++) {
            Ints scales[G];
            read_pairs(b, scales, [j](const Panel& panel, int lane, int k) { return Isa::widen_signed(panel.scale[2 * j + k] + lane); });
            OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::dot_pairs(sum[g][t], scales[g], Isa::broadcast(x.halves[j * N + t]));
        }
        OUTRIDER_ROWS OUTRIDER_GROUP sum[g][t] = Isa::shift_left<5>(sum[g][t]);
    }
};

// The 32-column formats: value = d x (q - Offset), or d x q + m. A panel holds two blocks of each row.
template <class PanelType, int Bits, int Offset, bool Minimum>
struct Block32 {
    using Panel = PanelType;
    static constexpr bool kSums = Bits != 8;  // whether 16-bit partial sums and 32-bit ones are alive at a time
    static constexpr bool kUnpacks = Bits != 8;
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void accumulate(const Blocks<Panel, G>& b, const ActivationTile& x, Prefetch prefetch, Floats (&out)[G][S]) {
        OUTRIDER_UNROLL(1) for (int j = 0; j < 2; j++) {
            if (prefetch) prefetch_ahead<N, 2>(b, j, prefetch);
            Ints dot[G][S];
            multiply_block<N, Wide, S>(b, j, x, dot);
            OUTRIDER_GROUP {
                const Floats d = Isa::load_half(b.panel(g).d[j] + b.lane(g));
                OUTRIDER_ROWS out[g][t] = Isa::fma(Isa::multiply_float(Isa::to_float(dot[g][t]), Isa::broadcast_float(x.scales[j * N + t])), d, out[g][t]);
                if constexpr (Minimum) {
                    const Floats m = Isa::load_half(b.panel(g).m[j] + b.lane(g));
                    OUTRIDER_ROWS out[g][t] = Isa::fma(m, Isa::broadcast_float(x.sums[j * N + t]), out[g][t]);
                }
            }
        }
    }

    static OUTRIDER_INLINE void unpack(const Panel& panel, int lane, uint8_t* out) {
        for (int j = 0; j < 2; j++)
            if constexpr (Bits == 4) unpack_nibbles(panel.nibbles[j][0] + lane * 4, out + j * 8 * 64);
            else unpack_five_bits(panel.nibbles[j][0] + lane * 4, Isa::load_bytes(panel.high[j] + lane * 4), out + j * 8 * 64);
    }

private:
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void multiply_block(const Blocks<Panel, G>& b, int j, const ActivationTile& x, Ints (&dot)[G][S]) {
        const int32_t* values = x.values + j * 8 * N;
        Ints offset[S];
        OUTRIDER_ROWS offset[t] = start(x.offsets[j * N + t]);
        if constexpr (Bits == 8) {
            OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = offset[t];
            OUTRIDER_UNROLL(8) for (int c = 0; c < 8; c++) {
                Bytes q[G];
                OUTRIDER_GROUP q[g] = Isa::load_bytes(b.panel(g).bytes[j][c] + b.lane(g) * 4);
                OUTRIDER_ROWS {
                    const Bytes activations = Isa::spread(values[c * N + t]);
                    OUTRIDER_GROUP dot[g][t] = Isa::dot_signed(dot[g][t], q[g], activations);
                }
            }
        } else {
            const uint8_t* stripes[G];
            OUTRIDER_GROUP stripes[g] = b.panel(g).nibbles[j][0] + b.lane(g) * 4;
            Partial partial[G][S];
            OUTRIDER_ROWS OUTRIDER_GROUP partial[g][t] = Isa::begin(offset[t]);
            if constexpr (Bits == 4) {
                if constexpr (Wide) dot_bytes<N, S, 8>(b, j * 8, x.values, partial);
                else dot_nibbles<N, S, 0>(stripes, values, partial), dot_nibbles<N, S, 2>(stripes, values, partial);
                OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::end(partial[g][t], offset[t]);
            } else {
                Bytes bits[G];
                OUTRIDER_GROUP bits[g] = Isa::load_bytes(b.panel(g).high[j] + b.lane(g) * 4);
                if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8, x.values, partial);
                else dot_five_bits<N, S, 0>(stripes, bits, values, partial);
                if constexpr (Isa::kDots<31> < 8) {
                    OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::end(partial[g][t], offset[t]);
                    clear(partial);
                    if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8 + 4, x.values, partial);
                    else dot_five_bits<N, S, 2>(stripes, bits, values, partial);
                    OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::end(partial[g][t], dot[g][t]);
                } else {
                    if constexpr (Wide) dot_bytes<N, S, 4>(b, j * 8 + 4, x.values, partial);
                    else dot_five_bits<N, S, 2>(stripes, bits, values, partial);
                    OUTRIDER_ROWS OUTRIDER_GROUP dot[g][t] = Isa::end(partial[g][t], offset[t]);
                }
            }
        }
    }

    // -Offset x sum, from -16 x sum.
    static OUTRIDER_INLINE Ints start(int32_t sixteen) {
        if constexpr (Offset == 8) return Isa::shift_right<1>(Isa::broadcast(sixteen));
        else if constexpr (Offset == 16) return Isa::broadcast(sixteen);
        else if constexpr (Offset == 128) return Isa::kSigned ? Isa::shift_left<3>(Isa::broadcast(sixteen)) : Isa::zero();
        else return Isa::zero();
    }
};

using Q40 = Block32<PanelQ40, 4, 8, false>;
using Q41 = Block32<PanelQ41, 4, 0, true>;
using Q50 = Block32<PanelQ50, 5, 16, false>;
using Q51 = Block32<PanelQ51, 5, 0, true>;
using Q80 = Block32<PanelQ80, 8, 128, false>;

// What a panel's columns need of the activations, from row `first` of the tile on.
template <class F, int N>
OUTRIDER_INLINE ActivationTile columns_of(const ActivationTile& x, int p, int first) {
    constexpr bool kWide = F::Panel::kColumns == 256;
    constexpr int kBlocks = kWide ? 1 : 2;
    return {x.values + p * (F::Panel::kColumns / 4) * N + first, x.scales + p * kBlocks * N + first, x.offsets + p * (kWide ? 32 : 2) * N + first,
            x.pairs + p * 4 * N + first,                         x.halves + p * 8 * N + first,       x.sums + p * kBlocks * N + first,
            x.floats + p * F::Panel::kColumns * N + first};
}

// Panels p to end for S rows of the tile from row `First` on and G vectors of weight rows from `v` on. Running results live in `carry`.
template <class F, int N, bool Wide, int S, int G, int First>
OUTRIDER_INLINE void multiply_panels(const MultiplyJob& job, const ActivationTile& x, int p, int end, int v) {
    const auto* panels = static_cast<const typename F::Panel*>(job.panels);
    float* carry = job.carry + First * kGroupRows + v * Isa::kLanes;
    Floats out[G][S];
    const bool fresh = job.first && p == 0, done = job.last && end == job.n_panels;
    OUTRIDER_ROWS OUTRIDER_GROUP out[g][t] = fresh ? Isa::zero_float() : Isa::load(carry + t * kGroupRows + g * Isa::kLanes);
    for (; p < end; p++) {
        const Blocks<typename F::Panel, G> blocks{panels + kGroupPanels * p, job.bytes + kGroupPanels * p * kStripes<typename F::Panel> * 64, v};
        F::template accumulate<N, Wide>(blocks, columns_of<F, N>(x, p, First), First ? kNoPrefetch : job.prefetch, out);
    }
    if (!done) {
        OUTRIDER_ROWS OUTRIDER_GROUP Isa::store(carry + t * kGroupRows + g * Isa::kLanes, out[g][t]);
        return;
    }
    if (job.bias) OUTRIDER_ROWS OUTRIDER_GROUP out[g][t] = Isa::add_float(out[g][t], Isa::load(job.bias + (v + g) * Isa::kLanes));
    OUTRIDER_ROWS OUTRIDER_GROUP {
        float* y = job.y + (First + t) * job.stride + (v + g) * Isa::kLanes;
        Isa::store(y, job.accumulate ? Isa::add_float(Isa::load(y), out[g][t]) : out[g][t]);
    }
}

template <class F, int N, bool Wide>
OUTRIDER_INLINE void multiply_tile(const MultiplyJob& job) {
    constexpr int G = Isa::together(N);
    // As many rows at a time as registers hold; the rest of the tile takes the panels from the first-level cache.
    constexpr int kFirst = N <= (F::kSums ? Isa::kRowsTogether : kMaxTile) ? N : (N + 1) / 2, kRest = N - kFirst;
    // Panels that come from memory are read in its order, so the vectors take turns; a few panels that tiles take in turns are in
    // the cache, whatever the order.
    constexpr int kWide = 256 / F::Panel::kColumns;
    const int step = (G == kVectors && !kRest) || job.n_panels <= 4 * kWide ? job.n_panels : N <= kNearRows ? 1 : kWide;
    // A local copy tells the compiler that stores to y don't change the pointers.
    const ActivationTile x = job.x;
    for (int p = 0; p < job.n_panels; p += step) {
        const int end = p + step < job.n_panels ? p + step : job.n_panels;
        OUTRIDER_UNROLL(8) for (int v = 0; v < kVectors; v += G) {
            multiply_panels<F, N, Wide, kFirst, G, 0>(job, x, p, end, v);
            if constexpr (kRest > 0) multiply_panels<F, N, Wide, kRest, G, kFirst>(job, x, p, end, v);
        }
    }
}

template <class F, int N>
void multiply(const MultiplyJob& job) {
    // A pass of several tiles cuts its rows into tiles of at least kMaxTile / 2.
    if constexpr (F::kUnpacks && N >= kMaxTile / 2)
        if (job.bytes) return multiply_tile<F, N, true>(job);
    multiply_tile<F, N, false>(job);
}

template <class F>
void unpack(const void* panels, int n_panels, uint8_t* out) {
    using Panel = typename F::Panel;
    const Panel* panel = static_cast<const Panel*>(panels);
    for (int p = 0; p < kGroupPanels * n_panels; p++, panel++, out += kStripes<Panel> * 64) {
        for (int lane = 0; lane < kPanelRows; lane += Isa::kLanes) F::unpack(*panel, lane, out + lane * 4);
    }
}

#define OUTRIDER_UNPACK_TABLE { unpack<Q4K>, unpack<Q6K>, unpack<Q50>, nullptr, unpack<Q41>, unpack<Q40>, unpack<Q51>, unpack<Q5K>, nullptr, nullptr, nullptr }

#define OUTRIDER_TILES(F) \
    { multiply<F, 1>, multiply<F, 2>, multiply<F, 3>, multiply<F, 4>, multiply<F, 5>, multiply<F, 6>, multiply<F, 7>, multiply<F, 8> }
// In the order of enum Format.
#define OUTRIDER_MULTIPLY_TABLE                                                                              \
    { OUTRIDER_TILES(Q4K), OUTRIDER_TILES(Q6K), OUTRIDER_TILES(Q50), OUTRIDER_TILES(Q80), OUTRIDER_TILES(Q41), OUTRIDER_TILES(Q40), \
      OUTRIDER_TILES(Q51), OUTRIDER_TILES(Q5K), OUTRIDER_TILES(F32), OUTRIDER_TILES(F16), OUTRIDER_TILES(BF16) }

}  // namespace
