// Memory on the heap, for sanitizers and valgrind: they see the ends of a block there, and not those of a mapping.
#include <cstdlib>
#include <cstring>

#include "memory.h"

namespace outrider {

Memory::Memory(size_t bytes) {
    if (!bytes) return;
    void* block = nullptr;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&block, 4096, bytes)) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(std::memset(block, 0, bytes));
    bytes_ = bytes;
}

Memory::~Memory() { std::free(data_); }

}  // namespace outrider
