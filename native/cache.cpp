#include "cache.h"

#include <cstring>
#include <set>
#include <stdexcept>
#include <string>

namespace outrider {

Sequence& Cache::at(int id) {
    if (id < 0 || id >= n_sequences() || !sequences_[size_t(id)].open) throw std::invalid_argument("sequence " + std::to_string(id) + " is not open");
    return sequences_[size_t(id)];
}

std::shared_ptr<Page> Cache::new_page() {
    auto page = std::make_shared<Page>();
    page->memory = Memory(shape_.page_bytes());
    page->shape = shape_;
    return page;
}

int Cache::open() {
    for (int id = 0; id < n_sequences(); id++) {
        if (sequences_[size_t(id)].open) continue;
        sequences_[size_t(id)].open = true;
        return id;
    }
    throw std::runtime_error("all " + std::to_string(n_sequences()) + " sequences are in use");
}

void Cache::close(int id) { at(id) = Sequence(); }

bool Cache::reserve(Sequence& sequence, int n) {
    const int64_t end = int64_t(sequence.length) + n;
    if (n < 0 || end > n_context_) return false;
    while (int64_t(sequence.pages.size()) * kChunk < end) sequence.pages.push_back(new_page());
    for (size_t i = size_t(sequence.length) / kChunk; i < sequence.pages.size(); i++) {
        if (sequence.pages[i].use_count() == 1) continue;
        auto copy = new_page();  // shared with a fork: writing needs our own
        std::memcpy(copy->memory.data(), sequence.pages[i]->memory.data(), shape_.page_bytes());
        sequence.pages[i] = std::move(copy);
    }
    return true;
}

int Cache::fork(int id, int length) {
    const Sequence& parent = at(id);
    if (length < 0 || length > parent.length) throw std::invalid_argument("fork at " + std::to_string(length) + " of " + std::to_string(parent.length));
    const int child = open();
    Sequence& sequence = at(child);
    sequence.length = length;
    sequence.pages.assign(parent.pages.begin(), parent.pages.begin() + (length + kChunk - 1) / kChunk);
    return child;
}

void Cache::truncate(Sequence& sequence, int length) {
    if (length < 0 || length > sequence.length) throw std::invalid_argument("truncate to " + std::to_string(length) + " of " + std::to_string(sequence.length));
    sequence.parents.clear();
    sequence.length = length;
    sequence.pages.resize(std::min(sequence.pages.size(), size_t(length + kChunk - 1) / kChunk));
}

void Cache::commit(Sequence& sequence, const std::vector<int>& nodes) {
    const int n_rows = int(sequence.parents.size());
    for (size_t i = 0; i < nodes.size(); i++) {
        const bool inside = nodes[i] >= 0 && nodes[i] < n_rows;
        if (!inside || sequence.parents[size_t(nodes[i])] != (i ? nodes[i - 1] : -1))
            throw std::invalid_argument("committed rows are not a path from the sequence's tail");
    }
    const PlaneLayout keys = shape_.keys(), values = shape_.values();
    for (size_t i = 0; i < nodes.size(); i++) {
        const int from = sequence.length + nodes[i], to = sequence.length + int(i);
        if (from == to) continue;
        const Page &source = sequence.page(from), &target = sequence.page(to);
        for (int layer = 0; layer < shape_.layers; layer++)
            for (int head = 0; head < shape_.kv_heads; head++) {
                keys.copy(source.keys(layer, head), from % kChunk, target.keys(layer, head), to % kChunk);
                values.copy(source.values(layer, head), from % kChunk, target.values(layer, head), to % kChunk);
            }
    }
    sequence.length += int(nodes.size());
    sequence.parents.clear();
}

size_t Cache::bytes() const {
    std::set<const Page*> pages;
    for (const Sequence& sequence : sequences_)
        for (const auto& page : sequence.pages) pages.insert(page.get());
    return pages.size() * shape_.page_bytes();
}

}  // namespace outrider
