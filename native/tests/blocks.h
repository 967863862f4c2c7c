// Random weights in the file's own layout: every bit pattern of the quants, sensible scales.
#pragma once
#include "check.h"
#include "format.h"

namespace outrider::testing {

// A half of about that value, for those that are normal in halves; zero for smaller ones.
inline uint16_t half_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const int exponent = int(bits >> 23 & 255) - 112;
    return exponent <= 0 ? uint16_t(bits >> 16 & 0x8000) : uint16_t((bits >> 16 & 0x8000) | uint32_t(exponent) << 10 | (bits >> 13 & 1023));
}

// Where a block keeps its float16 scales: random bytes there would be huge or NaN.
inline std::vector<int> scale_offsets(int type) {
    switch (type) {
        case 2: case 6: case 8: case 20: case 23: return {0};  // Q4_0, Q5_0, Q8_0, IQ4_NL, IQ4_XS
        case 3: case 7: case 12: case 13: return {0, 2};       // Q4_1, Q5_1, Q4_K, Q5_K
        case 10: return {80, 82};                              // Q2_K
        case 11: return {108};                                 // Q3_K
        case 14: return {208};                                 // Q6_K
        default: return {};
    }
}

// One source row; weights of a few hundredths.
inline std::vector<uint8_t> random_row(Random& random, const FormatInfo& info, int columns) {
    const int n_blocks = columns / info.block, element = info.block_bytes / info.block;
    std::vector<uint8_t> row(size_t(n_blocks) * size_t(info.block_bytes));
    random.fill(row.data(), row.size());
    const auto offsets = scale_offsets(info.type);
    for (int b = 0; b < n_blocks; b++) {
        uint8_t* block = row.data() + b * info.block_bytes;
        for (int offset : offsets) {
            const uint16_t half = half_of(random.within(-2e-3f, 2e-3f) * (info.block == 256 ? 0.1f : 1.0f));
            std::memcpy(block + offset, &half, 2);
        }
        if (info.type == 39) block[0] = uint8_t(120 + random.below(4));  // MXFP4: a power of two
        if (info.type != 0 && info.type != 1 && info.type != 30) continue;
        for (int i = 0; i < info.block; i++) {  // F32, F16, BF16
            const float x = random.within(-0.05f, 0.05f);
            uint32_t bits;
            std::memcpy(&bits, &x, 4);
            const uint16_t half = info.type == 1 ? half_of(x) : uint16_t(bits >> 16);
            if (info.type == 0) std::memcpy(block + i * element, &x, 4);
            else std::memcpy(block + i * element, &half, 2);
        }
    }
    return row;
}

}  // namespace outrider::testing
