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
    static Bytes low_nibbles(Bytes v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
    static Bytes high_nibbles(Bytes v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }
    template <int Shift, int Mask>
    static Bytes or_shifted(Bytes base, Bytes v) {
        Bytes moved = Shift > 0 ? _mm256_slli_epi16(v, Shift > 0 ? Shift : 0) : Shift < 0 ? _mm256_srli_epi16(v, Shift < 0 ? -Shift : 0) : v;
        return _mm256_or_si256(_mm256_and_si256(moved, _mm256_set1_epi8(Mask)), base);
    }

    static Ints zero() { return _mm256_setzero_si256(); }
    static Ints broadcast(int32_t x) { return _mm256_set1_epi32(x); }
#ifdef OUTRIDER_AVX_VNNI
    static constexpr int kSigned = 128;
    static Ints dot(Ints sum, Bytes weights, int32_t x) { return _mm256_dpbusd_avx_epi32(sum, weights, _mm256_set1_epi32(x)); }
    static Ints dot_signed(Ints sum, Bytes weights, int32_t x) { return _mm256_dpbusd_avx_epi32(sum, weights, _mm256_set1_epi32(x)); }
    static Ints dot_pairs(Ints sum, Ints pairs, int32_t x) { return _mm256_dpwssd_avx_epi32(sum, pairs, _mm256_set1_epi32(x)); }
#else
    static constexpr int kSigned = 0;
    // vpmaddubsw saturates at 16 bits: 2 x 63 x 127 fits, 2 x 255 x 127 would not, hence the sign trick for full bytes.
    static Ints dot(Ints sum, Bytes weights, int32_t x) {
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(weights, _mm256_set1_epi32(x)), _mm256_set1_epi16(1)));
    }
    static Ints dot_signed(Ints sum, Bytes weights, int32_t x) {
        Bytes s = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
        Bytes products = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(_mm256_set1_epi32(x), s));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
    }
    static Ints dot_pairs(Ints sum, Ints pairs, int32_t x) { return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi32(x))); }
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
