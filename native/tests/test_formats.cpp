// Packing is lossless: whatever lane, neighbour or padding, a row comes out of its panels as its blocks say.
#include <cmath>

#include "blocks.h"
#include "check.h"
#include "format.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

// The formats' definitions, element by element, straight from the block.
float element(const FormatInfo& info, const uint8_t* block, int i) {
    auto half = [&](int at) {
        uint16_t bits;
        std::memcpy(&bits, block + at, 2);
        return half_to_float(bits);
    };
    auto nibble = [&](int at) { return i < 16 ? block[at + i] & 15 : block[at + i - 16] >> 4; };
    auto fifth = [&](int at) { return (block[at + i / 8] >> i % 8 & 1) << 4; };
    auto scale_and_min = [&](int j, int& scale, int& min) {
        const uint8_t* s = block + 4;
        scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    };
    int scale = 0, min = 0;
    switch (info.format) {
        case kQ40: return half(0) * float(nibble(2) - 8);
        case kQ41: return half(0) * float(nibble(4)) + half(2);
        case kQ50: return half(0) * float((nibble(6) | fifth(2)) - 16);
        case kQ51: return half(0) * float(nibble(8) | fifth(4)) + half(2);
        case kQ80: return half(0) * float(int8_t(block[2 + i]));
        case kQ4K:
        case kQ5K: {
            const int j = i / 32, k = i % 32, at = info.format == kQ4K ? 16 : 48;
            int q = block[at + j / 2 * 32 + k] >> (j % 2 * 4) & 15;
            if (info.format == kQ5K) q |= (block[16 + k] >> j & 1) << 4;
            scale_and_min(j, scale, min);
            return half(0) * float(scale) * float(q) - half(2) * float(min);
        }
        case kQ6K: {
            const int part = i / 128, k = i % 128, low = block[part * 64 + k % 64] >> (k / 64 * 4) & 15, high = block[128 + part * 32 + k % 32] >> (k / 32 * 2) & 3;
            return half(208) * float(int8_t(block[192 + i / 16])) * float((low | high << 4) - 32);
        }
        case kF32:
        case kBF16: {
            float value = 0.0f;  // little-endian: a BF16 is the upper half
            std::memcpy(reinterpret_cast<uint8_t*>(&value) + 4 - info.block_bytes, block, size_t(info.block_bytes));
            return value;
        }
        case kF16: return half(0);
        default: return NAN;
    }
}

void check_rows(const FormatInfo& info, int columns, int n_rows) {
    Random random(uint64_t(info.type * 100000 + columns * 20 + n_rows));
    const int n_panels = (columns + info.panel_columns - 1) / info.panel_columns;
    Guarded<uint8_t> panels(size_t(n_panels * kGroupPanels) * size_t(info.panel_bytes)), others(panels.size());
    std::memset(panels.data(), 0, panels.size());
    std::vector<std::vector<uint8_t>> rows;
    for (int lane = 0; lane < n_rows; lane++) {
        rows.push_back(random_row(random, info, columns));
        if (lane == 3) random.fill(rows.back().data(), rows.back().size());  // any bytes at all: NaN, infinity
        Guarded<uint8_t> source(rows.back().size());
        std::memcpy(source.data(), rows.back().data(), source.size());
        info.pack_row(source.data(), columns, lane, panels.data());
    }
    Guarded<float> out(static_cast<size_t>(columns)), alone(out.size());
    for (int lane = 0; lane < n_rows; lane++) {
        out.poison();
        info.unpack_row(panels.data(), columns, lane, out.data());
        for (int i = 0; i < columns; i++) {
            const float expected = element(info, rows[size_t(lane)].data() + i / info.block * info.block_bytes, i % info.block);
            CHECK(std::memcmp(&expected, &out[size_t(i)], 4) == 0 || (std::isnan(expected) && std::isnan(out[size_t(i)]) && lane == 3));
        }
        std::memset(others.data(), 0, others.size());  // by itself, in another lane
        info.pack_row(rows[size_t(lane)].data(), columns, kGroupRows - 1 - lane, others.data());
        info.unpack_row(others.data(), columns, kGroupRows - 1 - lane, alone.data());
        CHECK(alone.equals(out));
        if (info.activation != ActivationKind::kFloat) continue;
        widen(info, rows[size_t(lane)].data(), columns, alone.data());
        CHECK(alone.equals(out));
    }
    for (int lane = n_rows; lane < kGroupRows; lane++) {  // rows beyond the matrix: all zero, so that kernels may run over them
        info.unpack_row(panels.data(), columns, lane, out.data());
        for (int i = 0; i < columns; i++) CHECK(std::isfinite(out[size_t(i)]) && out[size_t(i)] * 0.0f == 0.0f);
    }
}

}  // namespace

int main() {
    for (int f = 0; f < kFormats; f++) {
        const FormatInfo& info = format_info(Format(f));
        CHECK(find_format(info.type) == &info && info.format == f);
        CHECK(info.panel_columns % info.block == 0 && info.panel_bytes % 64 == 0);
        for (int n_blocks : {1, 2, 3, 7})
            for (int n_rows : {1, 7, 16, 17, 31, kGroupRows}) check_rows(info, n_blocks * info.block + (info.block == 1 ? n_rows * 5 : 0), n_rows);
    }
    for (int type : {-1, 5, 9, 40, 1 << 30}) CHECK(!find_format(type));
    CHECK(half_to_float(0x3c00) == 1.0f && half_to_float(0x0001) == 0x1p-24f && half_to_float(0xfbff) == -65504.0f && std::isinf(half_to_float(0x7c00)));
    return finish("formats");
}
