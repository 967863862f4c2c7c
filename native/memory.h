// Page-aligned zeroed memory that asks for huge pages: without them a weight stream stops at every 4 KB page end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace outrider {

class Memory {
public:
    Memory() = default;
    explicit Memory(size_t bytes);  // std::bad_alloc where there is none
    Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Memory();
    uint8_t* data() const { return data_; }
    size_t bytes() const { return bytes_; }

private:
    uint8_t* data_ = nullptr;
    size_t bytes_ = 0;
};

// A buffer that only grows; contents are zero after growing.
template <class T>
class Buffer {
public:
    T* ensure(size_t count) {
        if (count * sizeof(T) > memory_.bytes()) memory_ = Memory(count * sizeof(T));
        return data();
    }
    T* data() const { return reinterpret_cast<T*>(memory_.data()); }
    size_t bytes() const { return memory_.bytes(); }

private:
    Memory memory_;
};

}  // namespace outrider
