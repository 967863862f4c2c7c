#include "forward.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "share.h"

namespace outrider {

namespace {

constexpr int kTilesToUnpack = 4;  // fewer tiles do not repay the stores: 9 rows 70 -> 73 ms
constexpr int kSharedBytes = 20480;  // of weights that tiles take in turns: with their activations they fill the first-level cache

void mark(const Matrix& matrix, bool (&kinds)[kActivationKinds]) { kinds[int(matrix.info->activation)] = true; }

}  // namespace

Forward::Forward(const Weights& weights, Cache& cache, const Kernels& kernels, Pool& pool)
    : weights_(weights), hyper_(weights.hyper), cache_(cache), kernels_(kernels), pool_(pool), width_(Activations::padded(hyper_.embedding)),
      inner_(Activations::padded(hyper_.feed_forward)), q_width_(Activations::padded(hyper_.heads * hyper_.head)),
      kv_width_(Activations::padded(hyper_.kv_heads * hyper_.head)), group_(hyper_.heads / hyper_.kv_heads), rope_(hyper_, weights.rope_factors), scratch_(size_t(pool.size())) {
    for (Scratch& s : scratch_) {
        s.scores.ensure(kMaxTile * kChunk);
        s.row.ensure(size_t(std::max({width_, inner_, q_width_})));
        s.out.ensure(size_t(kRowTile) * size_t(group_) * kMaxHead);
        s.max.ensure(size_t(kRowTile) * size_t(group_));
        s.sum.ensure(size_t(kRowTile) * size_t(group_));
        s.packed.ensure(2 * kMaxHead);
        s.keys.ensure(2 * kChunk * kMaxHead);  // f16, the largest type
        s.values.ensure(2 * kChunk * kMaxHead);
    }
}

void Forward::prepare(const std::vector<Segment>& segments) {
    parts_.clear();
    rows_.clear();
    std::vector<bool> seen(size_t(cache_.n_sequences()));
    for (const Segment& segment : segments) {
        Sequence& sequence = cache_.at(segment.sequence);
        if (seen[size_t(segment.sequence)]) throw std::invalid_argument("a sequence appears twice in one pass");
        seen[size_t(segment.sequence)] = true;
        if (!sequence.parents.empty()) throw std::invalid_argument("rows of an earlier pass were neither committed nor dropped");
        const int n = int(segment.tokens.size());
        if (!n || segment.parents.size() != segment.tokens.size()) throw std::invalid_argument("a segment needs tokens, and a parent for each");
        Part part{&segment, &sequence, int(rows_.size()), n, sequence.length, true};
        for (int i = 0; i < n; i++) {
            const int parent = segment.parents[size_t(i)], token = segment.tokens[size_t(i)];
            if (parent < -1 || parent >= i) throw std::invalid_argument("parents must be earlier rows or -1");
            if (token < 0 || token >= hyper_.vocabulary) throw std::invalid_argument("token id " + std::to_string(token) + " is outside the vocabulary");
            part.chain = part.chain && parent == i - 1;
            const int position = parent < 0 ? sequence.length : rows_[size_t(part.first_row + parent)].position + 1;
            rows_.push_back({int(parts_.size()), i, position, token});
        }
        parts_.push_back(part);
    }
    if (rows_.empty()) throw std::invalid_argument("a pass needs at least one row");
    for (Part& part : parts_)
        if (!cache_.reserve(*part.sequence, part.n_rows)) throw std::out_of_range("the sequence has no room for " + std::to_string(part.n_rows) + " more positions");

    n_rows_ = int(rows_.size());
    tiling_ = Tiling(n_rows_);
    by_chunk_ = n_rows_ <= kChunkedRows;
    n_chunks_ = 0;
    for (const Row& row : rows_) n_chunks_ = std::max(n_chunks_, row.position / kChunk + 1);
    const auto n = size_t(n_rows_);
    hidden_.ensure(n * size_t(width_));
    q_.ensure(n * size_t(q_width_));
    k_.ensure(n * size_t(kv_width_));
    v_.ensure(n * size_t(kv_width_));
    mixed_.ensure(n * size_t(q_width_));
    gate_.ensure(n * size_t(inner_));
    up_.ensure(n * size_t(inner_));
    directions_.ensure(n * size_t(hyper_.rope_dimensions));
    const size_t n_queries = n * size_t(hyper_.heads), n_partials = by_chunk_ ? n_queries * size_t(n_chunks_) : 1;
    queries_.ensure(n_queries * kMaxHead);
    state_out_.ensure(n_queries * kMaxHead);
    state_max_.ensure(n_queries);
    state_sum_.ensure(n_queries);
    chunk_out_.ensure(n_partials * kMaxHead);
    chunk_max_.ensure(n_partials);
    chunk_sum_.ensure(n_partials);
    for (int kind = 0; kind < kActivationKinds; kind++) {
        activations_[kind].ensure(n_rows_, std::max(width_, q_width_));
        inner_activations_[kind].ensure(n_rows_, inner_);
    }
    for (Scratch& s : scratch_) s.carry.ensure(n * kGroupRows), s.bytes.ensure(kSharedBytes);
    for (size_t r = 0; r < n; r++) rope_.fill(rows_[r].position, directions_.data() + r * size_t(hyper_.rope_dimensions));
    slot_of_row_.assign(n, -1);
    n_slots_ = 0;
}

bool Forward::run(const std::vector<Segment>& segments, const std::function<bool()>& cancelled) {
    n_rows_ = 0;
    prepare(segments);
    std::atomic<bool> stop{false};
    std::exception_ptr thrown;  // by the check: an exception must not leave the region while others wait at its barriers
    auto ask = [&] {
        try {
            if (cancelled()) stop.store(true);
        } catch (...) {
            thrown = std::current_exception();
            stop.store(true);
        }
    };
    pool_.run([&](int thread) {
        embed(thread);
        pool_.barrier();
        for (int index = 0; index < hyper_.layers; index++) {
            layer(index, thread);
            if (thread == 0 && cancelled) ask();
            pool_.barrier();
            if (stop.load()) return;
        }
    });
    if (stop.load()) {
        n_rows_ = 0;
        if (thrown) std::rethrow_exception(thrown);
        return false;
    }
    for (const Part& part : parts_) part.sequence->parents = part.segment->parents;
    return true;
}

void Forward::embed(int thread) {
    const Range rows = share(n_rows_, thread, pool_.size());
    for (int r = rows.begin; r < rows.end; r++) weights_.embedding.unpack_row(rows_[size_t(r)].token, hidden_.data() + size_t(r) * size_t(width_));
}

// Norm (where given) and quantisation of whole rows, for the kinds of activations that the next matrices want.
void Forward::quantise_rows(const Vector* norm, const float* x, int columns, int stride, bool (&kinds)[kActivationKinds], int thread) {
    const Range rows = share(n_rows_, thread, pool_.size());
    float* buffer = scratch_[size_t(thread)].row.data();
    for (int r = rows.begin; r < rows.end; r++) {
        const float* row = x + size_t(r) * size_t(stride);
        if (norm) {
            kernels_.normalise(row, norm->data(), columns, hyper_.epsilon, buffer);
            row = buffer;
        }
        const int tile = tiling_.tile_of(r), first = tiling_.first(tile), n = tiling_.size(tile);
        for (int kind = 0; kind < kActivationKinds; kind++)
            if (kinds[kind]) kernels_.quantise[kind](row, columns, activations_[kind].tile(ActivationKind(kind), first, n), r - first, n);
    }
}

// silu(gate) x up and its quantisation, in blocks of 256 columns.
void Forward::quantise_gate(bool (&kinds)[kActivationKinds], int thread) {
    const int columns = hyper_.feed_forward, n_blocks = (columns + 255) / 256;
    const Range items = share(n_rows_ * n_blocks, thread, pool_.size());
    float* buffer = scratch_[size_t(thread)].row.data();
    for (int item = items.begin; item < items.end; item++) {
        const int r = item / n_blocks, column = item % n_blocks * 256, n = std::min(256, columns - column);
        const size_t at = size_t(r) * size_t(inner_) + size_t(column);
        kernels_.gate(gate_.data() + at, up_.data() + at, n, buffer);
        const int tile = tiling_.tile_of(r), first = tiling_.first(tile), tile_rows = tiling_.size(tile);
        for (int kind = 0; kind < kActivationKinds; kind++)
            if (kinds[kind])
                kernels_.quantise[kind](buffer, n, inner_activations_[kind].tile(ActivationKind(kind), first, tile_rows, column), r - first, tile_rows);
    }
}

// The row groups of all targets, one contiguous part per thread: each thread streams its own weights.
void Forward::multiply(const std::vector<Target>& targets, const Tiling& tiling, const Activations* inputs, int thread) const {
    int total = 0;
    for (const Target& target : targets) total += target.matrix->n_groups;
    Range mine = share(total, thread, pool_.size());
    int base = 0;
    for (const Target& target : targets) {
        const Matrix& m = *target.matrix;
        const int begin = std::max(mine.begin - base, 0), end = std::min(mine.end - base, m.n_groups);
        base += m.n_groups;
        // Several tiles share a row group: they take it a few panels at a time, so that these stay in the first-level cache.
        const int step = tiling.n_tiles == 1 ? m.n_panels : std::max(1, kSharedBytes / (kGroupPanels * (tiling.n_tiles >= kTilesToUnpack && kernels_.unpack[m.info->format] ? m.info->panel_columns * kPanelRows : m.info->panel_bytes)));
        for (int g = begin; g < end; g++)
            for (int panel = 0; panel < m.n_panels; panel += step) multiply_panels(target, g, panel, std::min(step, m.n_panels - panel), tiling, inputs, thread);
    }
}

// A range of one row group's panels times every tile. Running results go through `carry`: the order of additions stays that of columns.
void Forward::multiply_panels(const Target& target, int group, int panel, int n_panels, const Tiling& tiling, const Activations* inputs, int thread) const {
    const Matrix& m = *target.matrix;
    const ActivationKind kind = m.info->activation;
    float* carry = scratch_[size_t(thread)].carry.data();
    const uint8_t* panels = m.group(group) + size_t(kGroupPanels * panel) * size_t(m.info->panel_bytes);
    uint8_t* bytes = nullptr;
    if (tiling.n_tiles >= kTilesToUnpack && kernels_.unpack[m.info->format]) {
        bytes = scratch_[size_t(thread)].bytes.data();
        kernels_.unpack[m.info->format](panels, n_panels, bytes);
    }
    for (int tile = 0; tile < tiling.n_tiles; tile++) {
        const int first = tiling.first(tile), n = tiling.size(tile);
        const MultiplyJob job{panels,
                              n_panels,
                              bytes,
                              inputs[int(kind)].tile(kind, first, n, panel * m.info->panel_columns),
                              carry + size_t(first) * kGroupRows,
                              panel == 0,
                              panel + n_panels == m.n_panels,
                              tile ? kNoPrefetch : prefetch_,
                              target.y + size_t(first) * size_t(target.stride) + group * kGroupRows,
                              target.stride,
                              target.bias && !target.bias->empty() ? target.bias->data() + group * kGroupRows : nullptr,
                              target.accumulate};
        kernels_.multiply[m.info->format][n - 1](job);
    }
}

void Forward::layer(int index, int thread) {
    const Layer& l = weights_.layers[size_t(index)];
    bool qkv_kinds[kActivationKinds] = {}, output_kinds[kActivationKinds] = {}, gate_kinds[kActivationKinds] = {}, down_kinds[kActivationKinds] = {};
    mark(l.query, qkv_kinds), mark(l.key, qkv_kinds), mark(l.value, qkv_kinds);
    mark(l.output, output_kinds);
    mark(l.gate, gate_kinds), mark(l.up, gate_kinds);
    mark(l.down, down_kinds);

    quantise_rows(&l.attention_norm, hidden_.data(), hyper_.embedding, width_, qkv_kinds, thread);
    pool_.barrier();
    multiply({{&l.query, q_.data(), q_width_, &l.query_bias, false}, {&l.key, k_.data(), kv_width_, &l.key_bias, false}, {&l.value, v_.data(), kv_width_, &l.value_bias, false}},
             tiling_, activations_, thread);
    pool_.barrier();
    const Range rows = share(n_rows_ * hyper_.kv_heads, thread, pool_.size());
    for (int item = rows.begin; item < rows.end; item++) rotate(index, item, thread);
    pool_.barrier();
    attention(index, thread);
    pool_.barrier();
    quantise_rows(nullptr, mixed_.data(), hyper_.heads * hyper_.head, q_width_, output_kinds, thread);
    pool_.barrier();
    multiply({{&l.output, hidden_.data(), width_, &l.output_bias, true}}, tiling_, activations_, thread);
    pool_.barrier();
    quantise_rows(&l.feed_forward_norm, hidden_.data(), hyper_.embedding, width_, gate_kinds, thread);
    pool_.barrier();
    multiply({{&l.gate, gate_.data(), inner_, nullptr, false}, {&l.up, up_.data(), inner_, nullptr, false}}, tiling_, activations_, thread);
    pool_.barrier();
    quantise_gate(down_kinds, thread);
    pool_.barrier();
    multiply({{&l.down, hidden_.data(), width_, nullptr, true}}, tiling_, inner_activations_, thread);
}

void Forward::rotate_head(float* x, int row) const {
    const int half = hyper_.rope_dimensions / 2;
    const float *cosine = directions_.data() + size_t(row) * size_t(2 * half), *sine = cosine + half;
    for (int i = 0; i < half; i++) {
        float &a = hyper_.rope_neox ? x[i] : x[2 * i], &b = hyper_.rope_neox ? x[i + half] : x[2 * i + 1];
        const float old_a = a, old_b = b;
        a = old_a * cosine[i] - old_b * sine[i];
        b = old_a * sine[i] + old_b * cosine[i];
    }
}

// Positions into queries and keys of one row and KV head; keys and values into the cache.
void Forward::rotate(int layer, int item, int thread) {
    const int r = item / hyper_.kv_heads, kv_head = item % hyper_.kv_heads, head = hyper_.head;
    const Row& row = rows_[size_t(r)];
    const Part& part = parts_[size_t(row.part)];
    const Layer& l = weights_.layers[size_t(layer)];
    const float factor = 1.0f / std::sqrt(float(head));
    for (int g = 0; g < group_; g++) {
        float* q = q_.data() + size_t(r) * size_t(q_width_) + size_t(kv_head * group_ + g) * size_t(head);
        if (!l.query_norm.empty()) kernels_.normalise(q, l.query_norm.data(), head, hyper_.epsilon, q);
        rotate_head(q, r);
        kernels_.scale(q, head, factor, queries_.data() + (query_at(kv_head, r) + size_t(g)) * kMaxHead);
    }
    float* k = k_.data() + size_t(r) * size_t(kv_width_) + size_t(kv_head) * size_t(head);
    const float* v = v_.data() + size_t(r) * size_t(kv_width_) + size_t(kv_head) * size_t(head);
    if (!l.key_norm.empty()) kernels_.normalise(k, l.key_norm.data(), head, hyper_.epsilon, k);
    rotate_head(k, r);
    const int slot = part.base + row.node;
    const Page& page = part.sequence->page(slot);
    store(cache_.shape().keys(), page.keys(layer, kv_head), slot % kChunk, k, thread);
    store(cache_.shape().values(), page.values(layer, kv_head), slot % kChunk, v, thread);
}

// One position's key or value into the cache, in the cache's type.
void Forward::store(const PlaneLayout& layout, uint8_t* plane, int position, const float* x, int thread) {
    const int head = layout.head;
    uint8_t* packed = scratch_[size_t(thread)].packed.data();
    if (layout.type == kCacheF16) {
        kernels_.to_half(x, head, reinterpret_cast<uint16_t*>(packed));
    } else {
        kernels_.to_q80(x, head, reinterpret_cast<int8_t*>(packed), reinterpret_cast<uint16_t*>(packed + head));
        if (layout.role == PlaneRole::kKeys)
            for (int d = 0; d < head; d++) packed[d] ^= 0x80;  // s8 + 128, as dot products want it
    }
    layout.write(plane, position, packed);
}

std::vector<const float*> Forward::logits(const std::vector<int>& nodes) {
    std::vector<int> missing;
    for (int node : nodes) {
        if (node < 0 || node >= n_rows_) throw std::invalid_argument("row " + std::to_string(node) + " is not part of the last pass");
        if (slot_of_row_[size_t(node)] < 0 && std::find(missing.begin(), missing.end(), node) == missing.end()) missing.push_back(node);
    }
    if (!missing.empty()) compute_logits(missing, n_slots_);
    const auto stride = size_t(logits_stride());
    std::vector<const float*> rows;
    for (int node : nodes) rows.push_back(logits_.data() + size_t(slot_of_row_[size_t(node)]) * stride);
    return rows;
}

void Forward::compute_logits(const std::vector<int>& rows, int first_slot) {
    const int stride = logits_stride(), n = int(rows.size());
    const size_t needed = size_t(first_slot + n) * size_t(stride);
    if (needed * sizeof(float) > logits_.bytes()) {
        Buffer<float> larger;
        larger.ensure(needed);
        // Tokens that a trimmed head leaves out, and the padding behind the vocabulary, are never written: no reduction may pick them.
        // All of the buffer, whose size is rounded up: later passes with a few rows more use the rest.
        std::fill(larger.data(), larger.data() + larger.bytes() / sizeof(float), -INFINITY);
        if (first_slot) std::memcpy(larger.data(), logits_.data(), size_t(first_slot) * size_t(stride) * sizeof(float));
        std::swap(logits_, larger);
    }
    const Tiling tiling(n);
    const int kind = int(weights_.head.info->activation);
    head_activations_[kind].ensure(n, width_);
    pool_.run([&](int thread) {
        const Range mine = share(n, thread, pool_.size());
        float* buffer = scratch_[size_t(thread)].row.data();
        for (int i = mine.begin; i < mine.end; i++) {
            kernels_.normalise(hidden(rows[size_t(i)]), weights_.output_norm.data(), hyper_.embedding, hyper_.epsilon, buffer);
            const int tile = tiling.tile_of(i), first = tiling.first(tile), size = tiling.size(tile);
            kernels_.quantise[kind](buffer, hyper_.embedding, head_activations_[kind].tile(ActivationKind(kind), first, size), i - first, size);
        }
        pool_.barrier();
        float* y = logits_.data() + size_t(first_slot) * size_t(stride);
        std::vector<Target> targets;
        for (const HeadPart& part : weights_.head_parts) targets.push_back({&part.matrix, y + part.first * kGroupRows, stride, nullptr, false});
        multiply(targets, tiling, head_activations_, thread);
    });
    // The last row group may reach beyond the vocabulary.
    for (int i = 0; i < n; i++) {
        float* row = logits_.data() + size_t(first_slot + i) * size_t(stride);
        for (int k = hyper_.vocabulary; k < stride; k++) row[k] = -INFINITY;
        slot_of_row_[size_t(rows[size_t(i)])] = first_slot + i;
    }
    n_slots_ = first_slot + n;
}

}  // namespace outrider
