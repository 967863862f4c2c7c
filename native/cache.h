// The KV cache: pages of kChunk positions that hold every layer, shared between forked sequences until one writes.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "plane.h"

namespace outrider {

struct CacheShape {
    int layers, kv_heads, head;
    CacheType key_type = kCacheF16, value_type = kCacheF16;
    PlaneLayout keys() const { return {PlaneRole::kKeys, key_type, head}; }
    PlaneLayout values() const { return {PlaneRole::kValues, value_type, head}; }
    size_t page_bytes() const { return size_t(layers) * size_t(kv_heads) * (keys().bytes() + values().bytes()); }
};

struct Page {
    Memory memory;
    CacheShape shape;
    uint8_t* keys(int layer, int head) const {
        return memory.data() + (size_t(layer) * size_t(shape.kv_heads) + size_t(head)) * (shape.keys().bytes() + shape.values().bytes());
    }
    uint8_t* values(int layer, int head) const { return keys(layer, head) + shape.keys().bytes(); }
};

class Cache;

// One line of the cache. Rows of a pass are provisional until commit.
struct Sequence {
    std::vector<std::shared_ptr<Page>> pages;
    int length = 0;            // committed positions
    std::vector<int> parents;  // of the provisional rows; slots length, length + 1, ..
    bool chain = true;
    bool open = false;

    Page& page(int position) const { return *pages[size_t(position) / kChunk]; }
};

class Cache {
public:
    Cache(CacheShape shape, int n_context, int n_sequences) : shape_(shape), n_context_(n_context), sequences_(size_t(n_sequences)) {}

    const CacheShape& shape() const { return shape_; }
    int n_context() const { return n_context_; }
    int n_sequences() const { return int(sequences_.size()); }
    Sequence& at(int id);  // std::invalid_argument where it is not open

    int open();  // std::runtime_error when all are in use
    void close(int id);
    // Room for positions up to `length + n`, none of them shared; false where that passes the context. std::bad_alloc without memory.
    bool reserve(Sequence& sequence, int n);
    int fork(int id, int length);
    void truncate(Sequence& sequence, int length);
    void commit(Sequence& sequence, const std::vector<int>& nodes);
    size_t bytes() const;

private:
    std::shared_ptr<Page> new_page();

    CacheShape shape_;
    int n_context_;
    std::vector<Sequence> sequences_;
};

}  // namespace outrider
