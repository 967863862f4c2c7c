#include "format.h"

#include <cstring>

namespace outrider {

float half_to_float(uint16_t half) {
    uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31, mantissa = half & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        float value = float(mantissa) * 0x1p-24f;
        std::memcpy(&bits, &value, 4);
        bits |= sign;
    }
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}

namespace {

// The panel of a group's row with its first columns; that with the next ones is kGroupPanels further.
template <class Panel>
Panel* first_panel(uint8_t* group, int row) { return reinterpret_cast<Panel*>(group) + row / kPanelRows; }
template <class Panel>
const Panel* first_panel(const uint8_t* group, int row) { return reinterpret_cast<const Panel*>(group) + row / kPanelRows; }

uint16_t read_half(const uint8_t* p) {
    uint16_t half;
    std::memcpy(&half, p, 2);
    return half;
}

uint32_t read_word(const uint8_t* p) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    return word;
}

void write_word(uint8_t* p, uint32_t word) { std::memcpy(p, &word, 4); }

// 32 values below 16 into the four stripes of a nibble sub-block.
void put_nibbles(uint8_t (*stripes)[64], int lane, const uint8_t* q) {
    for (int c = 0; c < 4; c++) write_word(stripes[c] + lane * 4, read_word(q + c * 4) | read_word(q + 16 + c * 4) << 4);
}

void get_nibbles(const uint8_t (*stripes)[64], int lane, uint8_t* q) {
    for (int c = 0; c < 4; c++)
        for (int k = 0; k < 4; k++) {
            uint8_t packed = stripes[c][lane * 4 + k];
            q[c * 4 + k] = packed & 15;
            q[16 + c * 4 + k] = packed >> 4;
        }
}

void put_five_bits(uint8_t (*stripes)[64], uint8_t* high, int lane, const uint8_t* q) {
    uint8_t low[32];
    for (int i = 0; i < 32; i++) low[i] = q[i] & 15;
    put_nibbles(stripes, lane, low);
    uint32_t bits = 0;
    for (int v = 0; v < 8; v++) bits |= (read_word(q + v * 4) >> 4 & 0x01010101u) << v;
    write_word(high + lane * 4, bits);
}

void get_five_bits(const uint8_t (*stripes)[64], const uint8_t* high, int lane, uint8_t* q) {
    get_nibbles(stripes, lane, q);
    for (int i = 0; i < 32; i++) q[i] |= (high[lane * 4 + i % 4] >> (i / 4) & 1) << 4;
}

// The 6-bit scales and mins of a K-quant superblock.
void unpack_scales(const uint8_t* s, uint8_t* scale, uint8_t* min) {
    for (int j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = uint8_t((s[j + 8] & 15) | (s[j] >> 6) << 4);
        min[j + 4] = uint8_t((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
    }
}

template <class Panel>
void put_scales(Panel& b, int lane, const uint8_t* source) {
    uint8_t scale[8], min[8];
    b.d[lane] = read_half(source);
    b.dmin[lane] = read_half(source + 2);
    unpack_scales(source + 4, scale, min);
    for (int j = 0; j < 8; j++) b.scale[j][lane] = scale[j], b.min[j][lane] = min[j];
}

template <class Panel>
void scale_out(const Panel& b, int j, int lane, const uint8_t* q, float* out) {
    const float d = half_to_float(b.d[lane]) * float(b.scale[j][lane]), m = half_to_float(b.dmin[lane]) * float(b.min[j][lane]);
    for (int i = 0; i < 32; i++) out[i] = d * float(q[i]) - m;
}

void pack_q4_k(const uint8_t* source, int columns, int row, uint8_t* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ4K>(out, row); columns > 0; b += kGroupPanels, columns -= 256, source += 144) {
        put_scales(*b, lane, source);
        const uint8_t* packed = source + 16;
        for (int j = 0; j < 8; j++) {
            uint8_t q[32];
            for (int i = 0; i < 32; i++) q[i] = packed[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
            put_nibbles(b->nibbles[j], lane, q);
        }
    }
}

void unpack_q4_k(const uint8_t* panels, int columns, int row, float* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ4K>(panels, row); columns > 0; b += kGroupPanels, columns -= 256)
        for (int j = 0; j < 8; j++, out += 32) {
            uint8_t q[32];
            get_nibbles(b->nibbles[j], lane, q);
            scale_out(*b, j, lane, q, out);
        }
}

void pack_q5_k(const uint8_t* source, int columns, int row, uint8_t* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ5K>(out, row); columns > 0; b += kGroupPanels, columns -= 256, source += 176) {
        put_scales(*b, lane, source);
        const uint8_t *high = source + 16, *packed = source + 48;
        for (int j = 0; j < 8; j++) {
            uint8_t q[32];
            for (int i = 0; i < 32; i++) q[i] = uint8_t((packed[j / 2 * 32 + i] >> (j % 2 * 4) & 15) | (high[i] >> j & 1) << 4);
            put_five_bits(b->nibbles[j], b->high[j], lane, q);
        }
    }
}

void unpack_q5_k(const uint8_t* panels, int columns, int row, float* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ5K>(panels, row); columns > 0; b += kGroupPanels, columns -= 256)
        for (int j = 0; j < 8; j++, out += 32) {
            uint8_t q[32];
            get_five_bits(b->nibbles[j], b->high[j], lane, q);
            scale_out(*b, j, lane, q, out);
        }
}

void pack_q6_k(const uint8_t* source, int columns, int row, uint8_t* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ6K>(out, row); columns > 0; b += kGroupPanels, columns -= 256, source += 210) {
        uint8_t q[256];
        for (int half = 0; half < 2; half++) {
            const uint8_t *low = source + half * 64, *high = source + 128 + half * 32;
            uint8_t* to = q + half * 128;
            for (int i = 0; i < 32; i++) {
                to[i] = uint8_t((low[i] & 15) | (high[i] & 3) << 4);
                to[i + 32] = uint8_t((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
                to[i + 64] = uint8_t((low[i] >> 4) | (high[i] >> 4 & 3) << 4);
                to[i + 96] = uint8_t((low[i + 32] >> 4) | (high[i] >> 6) << 4);
            }
        }
        for (int j = 0; j < 16; j++) {
            uint32_t word[4], upper = 0;
            for (int v = 0; v < 4; v++) {
                word[v] = read_word(q + j * 16 + v * 4);
                upper |= (word[v] >> 4 & 0x03030303u) << (2 * v);
                word[v] &= 0x0f0f0f0fu;
            }
            write_word(b->low[j][0] + lane * 4, word[0] | word[1] << 4);
            write_word(b->low[j][1] + lane * 4, word[2] | word[3] << 4);
            write_word(b->high[j] + lane * 4, upper);
            b->scale[j][lane] = int8_t(source[192 + j]);
        }
        b->d[lane] = read_half(source + 208);
    }
}

void unpack_q6_k(const uint8_t* panels, int columns, int row, float* out) {
    const int lane = row % kPanelRows;
    for (auto* b = first_panel<PanelQ6K>(panels, row); columns > 0; b += kGroupPanels, columns -= 256)
        for (int j = 0; j < 16; j++) {
            const float d = half_to_float(b->d[lane]) * float(b->scale[j][lane]);
            for (int v = 0; v < 4; v++)
                for (int k = 0; k < 4; k++) {
                    int low = b->low[j][v / 2][lane * 4 + k] >> (v % 2 * 4) & 15, high = b->high[j][lane * 4 + k] >> (2 * v) & 3;
                    *out++ = d * float((low | high << 4) - 32);
                }
        }
}

// The 32-column blocks: [d] [m] [4 bytes of high bits] [16 bytes of nibbles].
template <class Panel, bool Minimum, bool High>
void pack_block32(const uint8_t* source, int columns, int row, uint8_t* out) {
    const int lane = row % kPanelRows;
    for (int block = 0; block < columns / 32; block++) {
        auto& b = first_panel<Panel>(out, row)[block / 2 * kGroupPanels];
        const int j = block % 2;
        b.d[j][lane] = read_half(source);
        source += 2;
        if constexpr (Minimum) b.m[j][lane] = read_half(source), source += 2;
        uint32_t bits = 0;
        if constexpr (High) bits = read_word(source), source += 4;
        uint8_t q[32];
        for (int i = 0; i < 16; i++) {
            q[i] = uint8_t((source[i] & 15) | (bits >> i & 1) << 4);
            q[i + 16] = uint8_t((source[i] >> 4) | (bits >> (i + 16) & 1) << 4);
        }
        source += 16;
        if constexpr (High) put_five_bits(b.nibbles[j], b.high[j], lane, q);
        else put_nibbles(b.nibbles[j], lane, q);
    }
}

template <class Panel, bool Minimum, bool High, int Offset>
void unpack_block32(const uint8_t* panels, int columns, int row, float* out) {
    const int lane = row % kPanelRows;
    for (int block = 0; block < columns / 32; block++, out += 32) {
        const auto& b = first_panel<Panel>(panels, row)[block / 2 * kGroupPanels];
        const int j = block % 2;
        uint8_t q[32];
        if constexpr (High) get_five_bits(b.nibbles[j], b.high[j], lane, q);
        else get_nibbles(b.nibbles[j], lane, q);
        const float d = half_to_float(b.d[j][lane]);
        for (int i = 0; i < 32; i++) {
            out[i] = d * float(int(q[i]) - Offset);
            if constexpr (Minimum) out[i] = out[i] + half_to_float(b.m[j][lane]);
        }
    }
}

void pack_q8_0(const uint8_t* source, int columns, int row, uint8_t* out) {
    const int lane = row % kPanelRows;
    for (int block = 0; block < columns / 32; block++, source += 34) {
        auto& b = first_panel<PanelQ80>(out, row)[block / 2 * kGroupPanels];
        b.d[block % 2][lane] = read_half(source);
        for (int c = 0; c < 8; c++) write_word(b.bytes[block % 2][c] + lane * 4, read_word(source + 2 + c * 4) ^ 0x80808080u);
    }
}

void unpack_q8_0(const uint8_t* panels, int columns, int row, float* out) {
    const int lane = row % kPanelRows;
    for (int block = 0; block < columns / 32; block++) {
        const auto& b = first_panel<PanelQ80>(panels, row)[block / 2 * kGroupPanels];
        const float d = half_to_float(b.d[block % 2][lane]);
        for (int i = 0; i < 32; i++) *out++ = d * float(int(b.bytes[block % 2][i / 4][lane * 4 + i % 4]) - 128);
    }
}

// In the order of enum Format.
const FormatInfo kInfo[kFormats] = {
    {kQ4K, 12, "Q4_K", 256, 144, 256, sizeof(PanelQ4K), ActivationKind::kPer256, pack_q4_k, unpack_q4_k},
    {kQ6K, 14, "Q6_K", 256, 210, 256, sizeof(PanelQ6K), ActivationKind::kPer256, pack_q6_k, unpack_q6_k},
    {kQ50, 6, "Q5_0", 32, 22, 64, sizeof(PanelQ50), ActivationKind::kPer32, pack_block32<PanelQ50, false, true>, unpack_block32<PanelQ50, false, true, 16>},
    {kQ80, 8, "Q8_0", 32, 34, 64, sizeof(PanelQ80), ActivationKind::kPer32, pack_q8_0, unpack_q8_0},
    {kQ41, 3, "Q4_1", 32, 20, 64, sizeof(PanelQ41), ActivationKind::kPer32, pack_block32<PanelQ41, true, false>, unpack_block32<PanelQ41, true, false, 0>},
    {kQ40, 2, "Q4_0", 32, 18, 64, sizeof(PanelQ40), ActivationKind::kPer32, pack_block32<PanelQ40, false, false>, unpack_block32<PanelQ40, false, false, 8>},
    {kQ51, 7, "Q5_1", 32, 24, 64, sizeof(PanelQ51), ActivationKind::kPer32, pack_block32<PanelQ51, true, true>, unpack_block32<PanelQ51, true, true, 0>},
    {kQ5K, 13, "Q5_K", 256, 176, 256, sizeof(PanelQ5K), ActivationKind::kPer256, pack_q5_k, unpack_q5_k},
};

}  // namespace

const FormatInfo* find_format(int type) {
    for (const auto& info : kInfo)
        if (info.type == type) return &info;
    return nullptr;
}

const FormatInfo& format_info(Format format) { return kInfo[format]; }

}  // namespace outrider
