// A fuzzer's bytes as a stream of choices. It never ends: beyond the last byte everything is zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace outrider::testing {

class Input {
public:
    Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
    bool empty() const { return at_ >= size_; }
    uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
    int below(int n) { return n <= 256 ? byte() % n : (byte() << 8 | byte()) % n; }
    uint64_t word() {
        uint64_t value = 0;
        for (int i = 0; i < 8; i++) value = value << 8 | byte();
        return value;
    }
    // A number as a hostile file might have it: small, near a power of two, or anything.
    int64_t number() {
        switch (below(4)) {
            case 0: return byte();
            case 1: return int64_t((uint64_t(1) << below(64)) + uint64_t(below(3)) - 1);
            case 2: return -int64_t(byte());
            default: return int64_t(word());
        }
    }

private:
    const uint8_t* data_;
    size_t size_, at_ = 0;
};

}  // namespace outrider::testing
