// Primitives on AVX2 + FMA + F16C: 8 lanes, so a panel is walked twice, once per half. With OUTRIDER_AVX_VNNI the dot products
// use the VEX-coded VNNI instructions.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace {

struct Isa {
    static constexpr int kLanes = 8;
    using Bytes = __m256i;
    using Ints = __m256i;
    using Floats = __m256;

    static Bytes load_bytes(const uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
    static void store_bytes(uint8_t* p, Bytes v) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
    static Bytes low_nibbles(Bytes v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
    static Bytes high_nibbles(Bytes v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }
    template <int Shift, int Mask>
    static Bytes or_shifted(Bytes base, Bytes v) {
        Bytes moved = Shift > 0 ? _mm256_slli_epi16(v, Shift > 0 ? Shift : 0) : Shift < 0 ? _mm256_srli_epi16(v, Shift < 0 ? -Shift : 0) : v;
        return _mm256_or_si256(_mm256_and_si256(moved, _mm256_set1_epi8(Mask)), base);
    }

    static Ints zero() { return _mm256_setzero_si256(); }
    static Ints broadcast(int32_t x) { return _mm256_set1_epi32(x); }
    static Bytes spread(int32_t x) { return _mm256_set1_epi32(x); }
    static Ints pair(Ints low, Ints high) { return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa); }

    // 4 x (dot product, sum) leave half of the 16 registers for weights and activations.
    static constexpr int kRowsTogether = 4;
    static constexpr int together(int) { return 1; }
    using Partial = __m256i;
    using Scale = __m256i;
#ifdef OUTRIDER_AVX_VNNI
    static constexpr int kSigned = 128;
    static constexpr bool kShortScales = true;
    static constexpr bool kExact = true;
    template <int Max>
    static constexpr int kDots = 64;
    static Partial begin(Ints offset) { return offset; }
    static Ints end(Partial dot, Ints) { return dot; }
    static Partial dot(Partial sum, Bytes weights, Bytes x) { return _mm256_dpbusd_avx_epi32(sum, weights, x); }
    static Ints dot_signed(Ints sum, Bytes weights, Bytes x) { return _mm256_dpbusd_avx_epi32(sum, weights, x); }
    static Scale scale_unsigned(const uint8_t* p) { return widen_unsigned(p); }
    template <bool Short>
    static Scale scale_signed(const int8_t* p) { return Short ? _mm256_and_si256(widen_signed(p), _mm256_set1_epi32(0xffff)) : widen_signed(p); }
    template <int Bound>
    static Ints add_scaled(Ints sum, Partial dot, Scale scale) { return Bound < 32768 ? _mm256_dpwssd_avx_epi32(sum, dot, scale) : add(sum, multiply(dot, scale)); }
    static Ints dot_pairs(Ints sum, Ints pairs, Ints x) { return _mm256_dpwssd_avx_epi32(sum, pairs, x); }
#else
    static constexpr int kSigned = 0;
    // A running dot product in 16 bits, two per lane: one vpmaddwd then adds both and multiplies by the scale. It has no room
    // for an offset, and for only so many products; vpmaddubsw itself never saturates, as 2 x 63 x 127 fits.
    static constexpr bool kShortScales = false;
    static constexpr bool kExact = false;
    template <int Max>
    static constexpr int kDots = 32767 / (2 * 127 * Max);
    static Partial begin(Ints) { return _mm256_setzero_si256(); }
    static Ints end(Partial dot, Ints offset) { return _mm256_add_epi32(offset, _mm256_madd_epi16(dot, _mm256_set1_epi16(1))); }
    static Partial dot(Partial sum, Bytes weights, Bytes x) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, x)); }
    // Full bytes would saturate (2 x 255 x 127), hence the sign trick, and 32 bits at once.
    static Ints dot_signed(Ints sum, Bytes weights, Bytes x) {
        Bytes s = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
        Bytes products = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(x, s));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
    }
    static Scale scale_unsigned(const uint8_t* p) { return pair(widen_unsigned(p), widen_unsigned(p)); }
    template <bool Short>
    static Scale scale_signed(const int8_t* p) { return pair(widen_signed(p), widen_signed(p)); }
    template <int Bound>
    static Ints add_scaled(Ints sum, Partial dot, Scale scale) { return _mm256_add_epi32(sum, _mm256_madd_epi16(dot, scale)); }
    static Ints dot_pairs(Ints sum, Ints pairs, Ints x) { return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, x)); }
#endif
    static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
    static Ints multiply(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
    template <int Shift>
    static Ints shift_left(Ints v) { return _mm256_slli_epi32(v, Shift); }
    template <int Shift>
    static Ints shift_right(Ints v) { return _mm256_srai_epi32(v, Shift); }
    static Ints widen_unsigned(const uint8_t* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
    static Ints widen_signed(const int8_t* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }

    static Floats zero_float() { return _mm256_setzero_ps(); }
    static Floats broadcast_float(float x) { return _mm256_set1_ps(x); }
    static Floats load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
    static Floats load_half(const uint16_t* p) { return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p))); }
    static Floats load_bfloat(const uint16_t* p) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))), 16));
    }
    static void store_half(uint16_t* p, Floats v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
    static Floats to_float(Ints v) { return _mm256_cvtepi32_ps(v); }
    static Ints round(Floats v) { return _mm256_cvtps_epi32(v); }
    static void store_int8(int8_t* p, Ints v) {
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
    }
    static Floats add_float(Floats a, Floats b) { return _mm256_add_ps(a, b); }
    static Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
    static Floats multiply_float(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
    static Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
    static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
    static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
    static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
    static Floats absolute(Floats v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
    static Floats scale_exponent(Floats value, Ints exponent) {
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), _mm256_slli_epi32(exponent, 23)));
    }
    static Floats zero_below(Floats x, float limit, Floats value) { return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_GE_OQ), value); }
    // Forced inline: gcc takes a function that only prefetches for one without effect, and drops the calls.
    static inline __attribute__((always_inline)) void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
    static inline __attribute__((always_inline)) void prefetch_second_level(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
};

}  // namespace
