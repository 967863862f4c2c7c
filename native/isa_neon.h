// Primitives on AArch64 NEON with the dot product extension: 4 lanes, so a panel is walked in quarters. Weights of at most 6 bits
// are as good as signed bytes; full bytes are stored with 128 added, which flipping the top bit takes back.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

namespace {

struct Isa {
    static constexpr int kLanes = 4;
    static constexpr int kSigned = 0;
    using Bytes = uint8x16_t;
    using Ints = int32x4_t;
    using Floats = float32x4_t;

    static Bytes load_bytes(const uint8_t* p) { return vld1q_u8(p); }
    static void store_bytes(uint8_t* p, Bytes v) { vst1q_u8(p, v); }
    static Bytes low_nibbles(Bytes v) { return vandq_u8(v, vdupq_n_u8(15)); }
    static Bytes high_nibbles(Bytes v) { return vshrq_n_u8(v, 4); }
    template <int Shift, int Mask>
    static Bytes or_shifted(Bytes base, Bytes v) {
        Bytes moved = v;
        if constexpr (Shift > 0) moved = vshlq_n_u8(v, Shift);
        if constexpr (Shift < 0) moved = vshrq_n_u8(v, -Shift);
        return vorrq_u8(vandq_u8(moved, vdupq_n_u8(Mask)), base);
    }

    static Ints zero() { return vdupq_n_s32(0); }
    static Ints broadcast(int32_t x) { return vdupq_n_s32(x); }
    static Bytes spread(int32_t x) { return vreinterpretq_u8_s32(vdupq_n_s32(x)); }

    // A running dot product, exact in 32 bits. `begin` may start it at any offset.
    static constexpr bool kShortScales = false;
    static constexpr bool kExact = true;
    static constexpr int kRowsTogether = 8;  // 8 x (dot product, sum, result) of 32 registers
    static constexpr int together(int) { return 1; }
    template <int Max>
    static constexpr int kDots = 64;
    using Partial = int32x4_t;
    using Scale = int32x4_t;
    static Partial begin(Ints offset) { return offset; }
    static Ints end(Partial dot, Ints) { return dot; }
    static Partial dot(Partial sum, Bytes weights, Bytes x) { return vdotq_s32(sum, vreinterpretq_s8_u8(weights), vreinterpretq_s8_u8(x)); }
    static Ints dot_signed(Ints sum, Bytes weights, Bytes x) { return dot(sum, veorq_u8(weights, vdupq_n_u8(128)), x); }
    static Scale scale_unsigned(const uint8_t* p) { return widen_unsigned(p); }
    template <bool Short>
    static Scale scale_signed(const int8_t* p) { return widen_signed(p); }
    template <int Bound>
    static Ints add_scaled(Ints sum, Partial dot, Scale scale) { return vmlaq_s32(sum, dot, scale); }
    static Ints pair(Ints low, Ints high) { return vsliq_n_s32(low, high, 16); }
    // Two int16 products a lane: the lower and the upper halves, each widened and multiplied.
    static Ints dot_pairs(Ints sum, Ints pairs, Ints x) {
        auto low = [](Ints v) { return vshrq_n_s32(vshlq_n_s32(v, 16), 16); };
        return vmlaq_s32(vmlaq_s32(sum, low(pairs), low(x)), vshrq_n_s32(pairs, 16), vshrq_n_s32(x, 16));
    }
    static Ints add(Ints a, Ints b) { return vaddq_s32(a, b); }
    static Ints multiply(Ints a, Ints b) { return vmulq_s32(a, b); }
    template <int Shift>
    static Ints shift_left(Ints v) { return vshlq_n_s32(v, Shift); }
    template <int Shift>
    static Ints shift_right(Ints v) { return vshrq_n_s32(v, Shift); }
    static Ints widen_unsigned(const uint8_t* p) { return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_four(p))))); }
    static Ints widen_signed(const int8_t* p) { return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_four(p))))); }

    static Floats zero_float() { return vdupq_n_f32(0.0f); }
    static Floats broadcast_float(float x) { return vdupq_n_f32(x); }
    static Floats load(const float* p) { return vld1q_f32(p); }
    static void store(float* p, Floats v) { vst1q_f32(p, v); }
    static Floats load_half(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
    static Floats load_bfloat(const uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
    static void store_half(uint16_t* p, Floats v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
    static Floats to_float(Ints v) { return vcvtq_f32_s32(v); }
    // What does not fit becomes INT32_MIN, as x86's vector conversions have it.
    static Ints round(Floats v) { return vbslq_s32(vcltq_f32(vabsq_f32(v), vdupq_n_f32(0x1p31f)), vcvtnq_s32_f32(v), vdupq_n_s32(INT32_MIN)); }
    static void store_int8(int8_t* p, Ints v) {
        const int16x4_t words = vqmovn_s32(v);
        const int8x8_t bytes = vqmovn_s16(vcombine_s16(words, words));
        const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
        __builtin_memcpy(p, &four, 4);
    }
    static Floats add_float(Floats a, Floats b) { return vaddq_f32(a, b); }
    static Floats subtract(Floats a, Floats b) { return vsubq_f32(a, b); }
    static Floats multiply_float(Floats a, Floats b) { return vmulq_f32(a, b); }
    static Floats divide(Floats a, Floats b) { return vdivq_f32(a, b); }
    static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
    // As the other sets do it, where vmaxq would spread NaN: the second operand where the comparison fails.
    static Floats max(Floats a, Floats b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
    static Floats min(Floats a, Floats b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
    static Floats absolute(Floats v) { return vabsq_f32(v); }
    static Floats scale_exponent(Floats value, Ints exponent) {
        return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(value), vshlq_n_s32(exponent, 23)));
    }
    static Floats zero_below(Floats x, float limit, Floats value) {
        return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(x, vdupq_n_f32(limit)), vreinterpretq_u32_f32(value)));
    }
    // Forced inline: gcc takes a function that only prefetches for one without effect, and drops the calls.
    static inline __attribute__((always_inline)) void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
    static inline __attribute__((always_inline)) void prefetch_second_level(const void* p) { __builtin_prefetch(p, 0, 2); }

private:
    static uint8x8_t load_four(const void* p) {
        uint32_t word;
        __builtin_memcpy(&word, p, 4);
        return vcreate_u8(word);
    }
};

}  // namespace
