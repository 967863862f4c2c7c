#include "plane.h"

#include <cstring>

namespace outrider {

namespace {

template <size_t Unit>
void move_units(const uint8_t* from, size_t from_step, uint8_t* to, size_t to_step, size_t count) {
    for (size_t i = 0; i < count; i++) std::memcpy(to + i * to_step, from + i * from_step, Unit);
}

// A length that the compiler knows makes each copy one instruction.
void move(const uint8_t* from, size_t from_step, uint8_t* to, size_t to_step, size_t unit, size_t count) {
    switch (unit) {
        case 2: return move_units<2>(from, from_step, to, to_step, count);
        case 4: return move_units<4>(from, from_step, to, to_step, count);
        case 16: return move_units<16>(from, from_step, to, to_step, count);
        default: return move_units<32>(from, from_step, to, to_step, count);
    }
}

}  // namespace

PlaneLayout::Pieces PlaneLayout::numbers(int position) const {
    const auto p = size_t(position), dims = size_t(head), size = size_t(type == kCacheF16 ? 2 : 1);
    if (role == PlaneRole::kValues) return {p * 16 * size, 16 * size, dims / 16, kChunk * 16 * size};
    const size_t unit = type == kCacheF16 ? 2 : 4;
    return {p / 16 * 16 * dims * size + p % 16 * unit, unit, dims * size / unit, 16 * unit};
}

PlaneLayout::Pieces PlaneLayout::scales(int position) const {
    const auto p = size_t(position), blocks = size_t(head) / kCacheBlock;
    if (role == PlaneRole::kValues) return {part_bytes() + p * 2, 2, blocks, kChunk * 2};
    return {part_bytes() + (p / 16 * 16 * blocks + p % 16) * 2, 2, blocks, 32};
}

void PlaneLayout::write(uint8_t* plane, int position, const uint8_t* row) const {
    const Pieces to = numbers(position);
    move(row, to.unit, plane + to.offset, to.step, to.unit, to.count);
    if (type == kCacheF16) return;
    const Pieces scale = scales(position);
    move(row + head, scale.unit, plane + scale.offset, scale.step, scale.unit, scale.count);
}

void PlaneLayout::copy(const uint8_t* from, int position, uint8_t* to, int to_position) const {
    const Pieces source = numbers(position), target = numbers(to_position);
    move(from + source.offset, source.step, to + target.offset, target.step, source.unit, source.count);
    if (type == kCacheF16) return;
    const Pieces source_scale = scales(position), target_scale = scales(to_position);
    move(from + source_scale.offset, source_scale.step, to + target_scale.offset, target_scale.step, source_scale.unit, source_scale.count);
}

void PlaneLayout::copy_first(const uint8_t* from, uint8_t* to, int count) const {
    const Pieces units = numbers(0), scale = scales(0);
    if (role == PlaneRole::kKeys) {  // 16 positions at a time are contiguous
        const size_t groups = size_t(count + 15) / 16, n_scales = groups * scale.count * scale.step;
        std::memcpy(to, from, groups * units.count * units.step);
        if (type != kCacheF16) std::memcpy(to + scale.offset, from + scale.offset, n_scales);
        return;
    }
    for (size_t i = 0; i < units.count; i++) std::memcpy(to + i * units.step, from + i * units.step, size_t(count) * units.unit);
    if (type == kCacheF16) return;
    for (size_t i = 0; i < scale.count; i++) std::memcpy(to + scale.offset + i * scale.step, from + scale.offset + i * scale.step, size_t(count) * scale.unit);
}

}  // namespace outrider
