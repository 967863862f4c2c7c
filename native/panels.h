// The repacked weight formats: panels of 16 rows x 64 or 256 columns, one layout for every instruction set.
//
// A "stripe" is 64 bytes that hold 4 consecutive columns of 16 rows (row r at bytes 4r..4r+3), so one load gives every lane
// its own row and a dot product never needs a horizontal add. Every panel is a whole number of cache lines.
// This header is shared with the kernel files: plain data only, no functions, no standard library.
#pragma once
#include <stdint.h>

namespace outrider {

constexpr int kPanelRows = 16;
// A row group is two panels side by side for every step in columns: a kernel broadcasts each activation once for both.
constexpr int kGroupPanels = 2, kGroupRows = kGroupPanels * kPanelRows;
constexpr int kMaxTile = 8;  // activation rows that share one pass over a row group

// How a format wants its activations quantised: one scale per 256 columns (K-quants) or per 32 (the 32-column blocks).
enum class ActivationKind : int { kPer256 = 0, kPer32 = 1 };
constexpr int kActivationKinds = 2;

enum Format : int { kQ4K, kQ6K, kQ50, kQ80, kQ41, kQ40, kQ51, kQ5K, kFormats };

// Nibbles: the low ones of stripe c are columns 4c..4c+3 of the sub-block, the high ones columns 16+4c..16+4c+3.
struct PanelQ4K {
    static constexpr int kColumns = 256;
    uint8_t nibbles[8][4][64];
    uint8_t scale[8][16];
    uint8_t min[8][16];
    uint16_t d[16], dmin[16];
};

struct PanelQ5K {
    static constexpr int kColumns = 256;
    uint8_t nibbles[8][4][64];
    uint8_t high[8][64];  // bit v is the fifth bit of the sub-block's v-th group of 4 columns
    uint8_t scale[8][16];
    uint8_t min[8][16];
    uint16_t d[16], dmin[16];
};

// 16-column halves: stripe 0 holds columns 0..3 (low) and 4..7 (high), stripe 1 columns 8..11 and 12..15;
// bits 2v, 2v+1 of `high` are the upper bits of columns 4v..4v+3. Values are q + 32.
struct PanelQ6K {
    static constexpr int kColumns = 256;
    uint8_t low[16][2][64];
    uint8_t high[16][64];
    int8_t scale[16][16];
    uint16_t d[16];
    uint16_t pad[16];
};

struct PanelQ40 {
    static constexpr int kColumns = 64;
    uint8_t nibbles[2][4][64];
    uint16_t d[2][16];
};

struct PanelQ41 {
    static constexpr int kColumns = 64;
    uint8_t nibbles[2][4][64];
    uint16_t d[2][16], m[2][16];
};

struct PanelQ50 {
    static constexpr int kColumns = 64;
    uint8_t nibbles[2][4][64];
    uint8_t high[2][64];
    uint16_t d[2][16];
};

struct PanelQ51 {
    static constexpr int kColumns = 64;
    uint8_t nibbles[2][4][64];
    uint8_t high[2][64];
    uint16_t d[2][16], m[2][16];
};

struct PanelQ80 {
    static constexpr int kColumns = 64;
    uint8_t bytes[2][8][64];  // s8 + 128
    uint16_t d[2][16];
};

static_assert(sizeof(PanelQ4K) == 2368 && sizeof(PanelQ5K) == 2880 && sizeof(PanelQ6K) == 3392);
static_assert(sizeof(PanelQ40) == 576 && sizeof(PanelQ41) == 640 && sizeof(PanelQ50) == 704 && sizeof(PanelQ51) == 768 && sizeof(PanelQ80) == 1088);

}  // namespace outrider
