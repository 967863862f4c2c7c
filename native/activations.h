// Activations of a whole pass in the forms that matrices want, stored tile by tile: the rows are cut into tiles of at most kMaxTile.
#pragma once
#include "kernels.h"
#include "memory.h"

namespace outrider {

// How the rows of a pass are cut: sizes differ by at most one. Results don't depend on it.
struct Tiling {
    int n_rows = 0, n_tiles = 0;
    explicit Tiling(int rows) : n_rows(rows), n_tiles((rows + kMaxTile - 1) / kMaxTile) {}
    int first(int tile) const { return int(int64_t(n_rows) * tile / n_tiles); }
    int size(int tile) const { return first(tile + 1) - first(tile); }
    int tile_of(int row) const {
        int tile = int(int64_t(row) * n_tiles / n_rows);
        while (first(tile + 1) <= row) tile++;
        return tile;
    }
};

class Activations {
public:
    // Room for `rows` rows of `columns` (padded to whole panels; the padding stays zero).
    void ensure(int rows, int columns) {
        columns_ = padded(columns);
        const size_t n = size_t(rows) * size_t(columns_);
        values_.ensure(n / 4);
        scales_.ensure(n / 32);
        offsets_.ensure(n / 8);
        pairs_.ensure(n / 64);
        halves_.ensure(n / 32);
        sums_.ensure(n / 32);
        floats_.ensure(n);  // what a kind does not use stays untouched, unbacked memory
    }
    static int padded(int columns) { return (columns + 63) / 64 * 64; }

    // The tile that starts at row `first` and has `n` rows, from column `column` on (a multiple of 64, of 256 if kPer256).
    ActivationTile tile(ActivationKind kind, int first, int n, int column = 0) const {
        auto at = [&](int width) { return size_t(first) * size_t(columns_ / width) + size_t(column / width) * size_t(n); };
        const int scale_width = kind == ActivationKind::kPer256 ? 256 : 32, offset_width = kind == ActivationKind::kPer256 ? 8 : 32;
        return {values_.data() + at(4), scales_.data() + at(scale_width), offsets_.data() + at(offset_width), pairs_.data() + at(64), halves_.data() + at(32),
                sums_.data() + at(32),  floats_.data() + at(1)};
    }

private:
    int columns_ = 0;
    Buffer<int32_t> values_, offsets_, pairs_, halves_;
    Buffer<float> scales_, sums_, floats_;
};

}  // namespace outrider
