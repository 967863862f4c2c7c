// How the keys or the values of one chunk, layer and KV head lie in memory, and how single positions get there.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels.h"

namespace outrider {

enum class PlaneRole { kKeys, kValues };

// The layouts are described in kernels.h. A position's own bytes ("row") are `head` halves, or `head` int8 and then the halves of
// the scales.
struct PlaneLayout {
    PlaneRole role;
    CacheType type;
    int head;

    size_t bytes() const { return part_bytes() + scale_bytes(); }
    size_t row_bytes() const { return type == kCacheF16 ? size_t(head) * 2 : size_t(head) + size_t(head) / kCacheBlock * 2; }
    void write(uint8_t* plane, int position, const uint8_t* row) const;
    // One position of another plane, and all positions before `count`.
    void copy(const uint8_t* from, int position, uint8_t* to, int to_position) const;
    void copy_first(const uint8_t* from, uint8_t* to, int count) const;

private:
    // Pieces of one position: `count` units, `step` apart. Numbers and scales are one array each.
    struct Pieces {
        size_t offset, unit, count, step;
    };
    size_t part_bytes() const { return size_t(kChunk) * size_t(head) * (type == kCacheF16 ? 2 : 1); }
    size_t scale_bytes() const { return type == kCacheF16 ? 0 : size_t(kChunk) * size_t(head) / kCacheBlock * 2; }
    Pieces numbers(int position) const;
    Pieces scales(int position) const;
};

}  // namespace outrider
