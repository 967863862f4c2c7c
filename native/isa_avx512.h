// Primitives on AVX-512 with VNNI: 16 lanes, one panel row each.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace {

struct Isa {
    static constexpr int kLanes = 16;
    static constexpr int kSigned = 128;  // dot_signed leaves 128 x the activation sum in its result
    static constexpr bool kShortScales = true;
    static constexpr bool kExact = true;
    static constexpr int kRowsTogether = 8;
    // Two vectors of weights share a broadcast, which halves those loads: measured on Zen 4, 5 rows 61 -> 51 ms for a pass of 1.5 G
    // weights. From 6 rows on 2 x 2 x rows accumulators leave too few of the 32 registers; 1 or 2 rows wait for memory, and reading
    // two panels in turns made that slower (30 -> 37 ms).
    static constexpr int together(int rows) { return rows >= 3 && rows <= 5 ? 2 : 1; }
    template <int Max>
    static constexpr int kDots = 64;  // calls of `dot` with weights up to Max that a Partial has room for
    using Bytes = __m512i;
    using Ints = __m512i;
    using Floats = __m512;

    static Bytes load_bytes(const uint8_t* p) { return _mm512_load_si512(p); }
    static void store_bytes(uint8_t* p, Bytes v) { _mm512_store_si512(p, v); }
    static Bytes low_nibbles(Bytes v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
    static Bytes high_nibbles(Bytes v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15)); }
    // base | ((v << Shift) & Mask), a negative shift goes right
    template <int Shift, int Mask>
    static Bytes or_shifted(Bytes base, Bytes v) {
        Bytes moved = Shift > 0 ? _mm512_slli_epi16(v, Shift > 0 ? Shift : 0) : Shift < 0 ? _mm512_srli_epi16(v, Shift < 0 ? -Shift : 0) : v;
        return _mm512_ternarylogic_epi32(moved, _mm512_set1_epi8(Mask), base, 0xEA);
    }

    static Ints zero() { return _mm512_setzero_si512(); }
    static Ints broadcast(int32_t x) { return _mm512_set1_epi32(x); }
    static Bytes spread(int32_t x) { return _mm512_set1_epi32(x); }

    // A running dot product, exact in 32 bits. `begin` may start it at any offset.
    using Partial = __m512i;
    using Scale = __m512i;
    static Partial begin(Ints offset) { return offset; }
    static Ints end(Partial dot, Ints) { return dot; }
    // Adds 4 columns of unsigned weights (at most 63) times 4 activations to every lane.
    static Partial dot(Partial sum, Bytes weights, Bytes x) { return _mm512_dpbusd_epi32(sum, weights, x); }
    // The same for weights stored as s8 + 128.
    static Ints dot_signed(Ints sum, Bytes weights, Bytes x) { return _mm512_dpbusd_epi32(sum, weights, x); }
    static Scale scale_unsigned(const uint8_t* p) { return widen_unsigned(p); }
    // Where dots fit 16 bits the upper half of a scale is zero, and add_scaled one instruction: it multiplies both halves.
    template <bool Short>
    static Scale scale_signed(const int8_t* p) { return Short ? _mm512_and_si512(widen_signed(p), _mm512_set1_epi32(0xffff)) : widen_signed(p); }
    template <int Bound>
    static Ints add_scaled(Ints sum, Partial dot, Scale scale) { return Bound < 32768 ? _mm512_dpwssd_epi32(sum, dot, scale) : add(sum, multiply(dot, scale)); }
    // Two integers per lane as int16: dot_pairs adds both products.
    static Ints pair(Ints low, Ints high) { return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16)); }
    static Ints dot_pairs(Ints sum, Ints pairs, Ints x) { return _mm512_dpwssd_epi32(sum, pairs, x); }
    static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
    static Ints multiply(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
    template <int Shift>
    static Ints shift_left(Ints v) { return _mm512_slli_epi32(v, Shift); }
    template <int Shift>
    static Ints shift_right(Ints v) { return _mm512_srai_epi32(v, Shift); }
    static Ints widen_unsigned(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))); }
    static Ints widen_signed(const int8_t* p) { return _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))); }

    static Floats zero_float() { return _mm512_setzero_ps(); }
    static Floats broadcast_float(float x) { return _mm512_set1_ps(x); }
    static Floats load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
    static Floats load_half(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))); }
    static Floats load_bfloat(const uint16_t* p) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))), 16));
    }
    static void store_half(uint16_t* p, Floats v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static Floats to_float(Ints v) { return _mm512_cvtepi32_ps(v); }
    static Ints round(Floats v) { return _mm512_cvtps_epi32(v); }
    static void store_int8(int8_t* p, Ints v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v)); }
    static Floats add_float(Floats a, Floats b) { return _mm512_add_ps(a, b); }
    static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
    static Floats multiply_float(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
    static Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
    static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
    static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
    static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
    static Floats absolute(Floats v) { return _mm512_abs_ps(v); }
    // value x 2^exponent for results that stay normal
    static Floats scale_exponent(Floats value, Ints exponent) {
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(value), _mm512_slli_epi32(exponent, 23)));
    }
    static Floats zero_below(Floats x, float limit, Floats value) {
        return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GE_OQ), value);
    }
    // Forced inline: gcc takes a function that only prefetches for one without effect, and drops the calls.
    static inline __attribute__((always_inline)) void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
    static inline __attribute__((always_inline)) void prefetch_second_level(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
};

}  // namespace
