#include "memory.h"

#include <sys/mman.h>

namespace outrider {

namespace {
constexpr size_t kHuge = size_t(2) << 20;
}

Memory::Memory(size_t bytes) {
    if (!bytes) return;
    if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
    // Small buffers stay on small pages, large ones start on a huge-page boundary: map more, then give the ends back.
    const size_t unit = bytes >= kHuge ? kHuge : size_t(4096), size = (bytes + unit - 1) / unit * unit, slack = unit == kHuge ? kHuge : 0;
    void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    auto start = reinterpret_cast<uintptr_t>(mapped), aligned = (start + unit - 1) / unit * unit;
    if (slack) {
        if (aligned > start) munmap(mapped, aligned - start);
        if (start + slack > aligned) munmap(reinterpret_cast<void*>(aligned + size), start + slack - aligned);
#ifdef MADV_HUGEPAGE
        madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
    }
    data_ = reinterpret_cast<uint8_t*>(aligned);
    bytes_ = size;
}

Memory::~Memory() {
    if (data_) munmap(data_, bytes_);
}

}  // namespace outrider
