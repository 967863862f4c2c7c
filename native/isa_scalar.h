// Primitives in plain C++: the reference that every other set must equal, bit for bit.
#pragma once
#include <stdint.h>
#include <string.h>

namespace {

struct Isa {
    static constexpr int kLanes = 16;
    static constexpr int kSigned = 128;
    static constexpr bool kShortScales = false;
    static constexpr bool kExact = true;
    static constexpr int kRowsTogether = 8;
    static constexpr int together(int) { return 1; }
    template <int Max>
    static constexpr int kDots = 64;
    struct Bytes { uint8_t at[64]; };
    struct Ints { int32_t at[16]; };
    struct Floats { float at[16]; };

#define OUTRIDER_LANES for (int i = 0; i < 16; i++)
#define OUTRIDER_BYTES for (int i = 0; i < 64; i++)
    static Bytes load_bytes(const uint8_t* p) { Bytes v; memcpy(v.at, p, 64); return v; }
    static void store_bytes(uint8_t* p, const Bytes& v) { memcpy(p, v.at, 64); }
    static Bytes low_nibbles(Bytes v) { OUTRIDER_BYTES v.at[i] &= 15; return v; }
    static Bytes high_nibbles(Bytes v) { OUTRIDER_BYTES v.at[i] >>= 4; return v; }
    template <int Shift, int Mask>
    static Bytes or_shifted(Bytes base, Bytes v) {
        OUTRIDER_BYTES base.at[i] |= (Shift >= 0 ? v.at[i] << (Shift >= 0 ? Shift : 0) : v.at[i] >> (Shift < 0 ? -Shift : 0)) & Mask;
        return base;
    }

    static Ints zero() { return broadcast(0); }
    static Ints broadcast(int32_t x) { Ints v; OUTRIDER_LANES v.at[i] = x; return v; }
    static Bytes spread(int32_t x) { Bytes v; OUTRIDER_LANES memcpy(v.at + 4 * i, &x, 4); return v; }

    using Partial = Ints;
    using Scale = Ints;
    static Partial begin(const Ints& offset) { return offset; }
    static Ints end(const Partial& dot, const Ints&) { return dot; }
    static Partial dot(Partial sum, const Bytes& weights, const Bytes& x) {
        OUTRIDER_BYTES sum.at[i / 4] += weights.at[i] * int8_t(x.at[i]);
        return sum;
    }
    static Ints dot_signed(Ints sum, const Bytes& weights, const Bytes& x) { return dot(sum, weights, x); }
    static Scale scale_unsigned(const uint8_t* p) { return widen_unsigned(p); }
    template <bool Short>
    static Scale scale_signed(const int8_t* p) { return widen_signed(p); }
    template <int Bound>
    static Ints add_scaled(const Ints& sum, const Partial& dot, const Scale& scale) { return add(multiply(dot, scale), sum); }
    static Ints pair(const Ints& low, const Ints& high) { Ints v; OUTRIDER_LANES v.at[i] = int32_t((uint32_t(low.at[i]) & 0xffff) | uint32_t(high.at[i]) << 16); return v; }
    static Ints dot_pairs(Ints sum, const Ints& pairs, const Ints& x) {
        OUTRIDER_LANES sum.at[i] += int16_t(pairs.at[i]) * int16_t(x.at[i]) + int16_t(pairs.at[i] >> 16) * int16_t(x.at[i] >> 16);
        return sum;
    }
    static Ints add(Ints a, const Ints& b) { OUTRIDER_LANES a.at[i] += b.at[i]; return a; }
    static Ints multiply(Ints a, const Ints& b) { OUTRIDER_LANES a.at[i] *= b.at[i]; return a; }
    template <int Shift>
    static Ints shift_left(Ints v) { OUTRIDER_LANES v.at[i] = int32_t(uint32_t(v.at[i]) << Shift); return v; }
    template <int Shift>
    static Ints shift_right(Ints v) { OUTRIDER_LANES v.at[i] >>= Shift; return v; }
    static Ints widen_unsigned(const uint8_t* p) { Ints v; OUTRIDER_LANES v.at[i] = p[i]; return v; }
    static Ints widen_signed(const int8_t* p) { Ints v; OUTRIDER_LANES v.at[i] = p[i]; return v; }

    static Floats zero_float() { return broadcast_float(0.0f); }
    static Floats broadcast_float(float x) { Floats v; OUTRIDER_LANES v.at[i] = x; return v; }
    static Floats load(const float* p) { Floats v; memcpy(v.at, p, 64); return v; }
    static void store(float* p, const Floats& v) { memcpy(p, v.at, 64); }
    static Floats load_half(const uint16_t* p) { Floats v; OUTRIDER_LANES v.at[i] = widen_half(p[i]); return v; }
    static Floats load_bfloat(const uint16_t* p) {
        Floats v;
        OUTRIDER_LANES {
            const uint32_t bits = uint32_t(p[i]) << 16;
            memcpy(&v.at[i], &bits, 4);
        }
        return v;
    }
    static void store_half(uint16_t* p, const Floats& v) { OUTRIDER_LANES p[i] = narrow_half(v.at[i]); }
    static Floats to_float(const Ints& v) { Floats r; OUTRIDER_LANES r.at[i] = float(v.at[i]); return r; }
    // What does not fit becomes INT32_MIN, as x86's vector conversions have it.
    static Ints round(const Floats& v) {
        Ints r;
        OUTRIDER_LANES r.at[i] = __builtin_fabsf(v.at[i]) < 0x1p31f ? int32_t(__builtin_lrintf(v.at[i])) : INT32_MIN;
        return r;
    }
    static void store_int8(int8_t* p, const Ints& v) {
        OUTRIDER_LANES p[i] = int8_t(v.at[i] > 127 ? 127 : v.at[i] < -128 ? -128 : v.at[i]);
    }
    static Floats add_float(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] += b.at[i]; return a; }
    static Floats subtract(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] -= b.at[i]; return a; }
    static Floats multiply_float(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] *= b.at[i]; return a; }
    static Floats divide(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] /= b.at[i]; return a; }
    static Floats fma(Floats a, const Floats& b, const Floats& c) { OUTRIDER_LANES a.at[i] = __builtin_fmaf(a.at[i], b.at[i], c.at[i]); return a; }
    // As the vector instructions do it: the second operand where the comparison fails.
    static Floats max(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i]; return a; }
    static Floats min(Floats a, const Floats& b) { OUTRIDER_LANES a.at[i] = a.at[i] < b.at[i] ? a.at[i] : b.at[i]; return a; }
    static Floats absolute(Floats v) { OUTRIDER_LANES v.at[i] = __builtin_fabsf(v.at[i]); return v; }
    static Floats scale_exponent(Floats value, const Ints& exponent) {
        OUTRIDER_LANES {
            uint32_t bits;
            memcpy(&bits, &value.at[i], 4);
            bits += uint32_t(exponent.at[i]) << 23;
            memcpy(&value.at[i], &bits, 4);
        }
        return value;
    }
    static Floats zero_below(const Floats& x, float limit, Floats value) {
        OUTRIDER_LANES if (!(x.at[i] >= limit)) value.at[i] = 0.0f;
        return value;
    }
    static void prefetch(const void*) {}
    static void prefetch_second_level(const void*) {}
#undef OUTRIDER_LANES
#undef OUTRIDER_BYTES

    static float widen_half(uint16_t h) {
        uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
        if (exponent == 31) {
            bits = sign | 0x7f800000 | mantissa << 13;
        } else if (exponent) {
            bits = sign | (exponent + 112) << 23 | mantissa << 13;
        } else {  // subnormal halves are normal floats
            float value = float(mantissa) * 0x1p-24f;
            memcpy(&bits, &value, 4);
            bits |= sign;
        }
        float result;
        memcpy(&result, &bits, 4);
        return result;
    }
    static uint16_t narrow_half(float x) {
        uint32_t bits;
        memcpy(&bits, &x, 4);
        uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
        if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
        if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // rounds to infinity
        if (magnitude < 0x38800000) {                                  // subnormal or zero: let the float adder round to even
            float value;
            memcpy(&value, &magnitude, 4);
            value += 0.5f;
            memcpy(&magnitude, &value, 4);
            return uint16_t(sign | (magnitude - 0x3f000000));
        }
        uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
        return uint16_t(sign | rounded >> 13);
    }
};

}  // namespace
