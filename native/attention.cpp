// The attention part of a pass: chunks of 256 keys, folded in the order of positions whatever shares the pass.
#include <algorithm>
#include <cstring>

#include "forward.h"
#include "share.h"

namespace outrider {

// Attention results are folded chunk by chunk in the order of positions, whichever way the work is spread.
void Forward::attention(int layer, int thread) {
    if (!by_chunk_) return attend_by_rows(layer, thread);
    attend_by_chunks(layer, thread);
    pool_.barrier();
    fold_chunks(thread);
}

// Few rows: every chunk of every KV head is an item of its own, and leaves partial results.
void Forward::attend_by_chunks(int layer, int thread) {
    int item = 0;
    for (int p = 0; p < int(parts_.size()); p++) {
        const Part& part = parts_[size_t(p)];
        for (int chunk = 0; chunk < n_chunks_; chunk++) {
            if (!reaches(part.first_row, part.n_rows, chunk)) continue;
            for (int kv_head = 0; kv_head < hyper_.kv_heads; kv_head++, item++) {
                if (item % pool_.size() != thread) continue;
                const size_t at = partial_at(chunk) + query_at(kv_head, part.first_row);
                attend(layer, {p, kv_head, chunk, part.first_row, part.n_rows}, chunk_out_.data() + at * kMaxHead, chunk_max_.data() + at, chunk_sum_.data() + at, thread);
            }
        }
    }
}

void Forward::fold_chunks(int thread) {
    const Range heads = share(n_rows_ * hyper_.heads, thread, pool_.size());
    for (int i = heads.begin; i < heads.end; i++) {
        const int r = i / hyper_.heads, head = i % hyper_.heads;
        const Row& row = rows_[size_t(r)];
        const size_t query = query_at(head / group_, r) + size_t(head % group_), into = partial_at(first_chunk(row)) + query;
        for (int chunk = first_chunk(row) + 1; chunk <= row.position / kChunk; chunk++) {
            const size_t at = partial_at(chunk) + query;
            kernels_.fold(chunk_out_.data() + into * kMaxHead, chunk_max_.data() + into, chunk_sum_.data() + into, chunk_out_.data() + at * kMaxHead,
                          chunk_max_.data()[at], chunk_sum_.data()[at], hyper_.head);
        }
        finish(r, head, chunk_out_.data() + into * kMaxHead, chunk_sum_.data()[into]);
    }
}

// Many rows: tiles of rows are the items, and each walks its chunks in order.
void Forward::attend_by_rows(int layer, int thread) {
    int item = 0;
    for (int p = 0; p < int(parts_.size()); p++)
        for (int first = 0; first < parts_[size_t(p)].n_rows; first += kRowTile)
            for (int kv_head = 0; kv_head < hyper_.kv_heads; kv_head++, item++) {
                if (item % pool_.size() != thread) continue;
                attend_tile(layer, p, kv_head, parts_[size_t(p)].first_row + first, std::min(kRowTile, parts_[size_t(p)].n_rows - first), thread);
            }
}

void Forward::attend_tile(int layer, int part, int kv_head, int first_row, int n_rows, int thread) {
    Scratch& s = scratch_[size_t(thread)];
    const size_t state = query_at(kv_head, first_row);
    float *out = state_out_.data() + state * kMaxHead, *max = state_max_.data() + state, *sum = state_sum_.data() + state;
    for (int chunk = 0; chunk < n_chunks_; chunk++) {
        if (!reaches(first_row, n_rows, chunk)) continue;
        attend(layer, {part, kv_head, chunk, first_row, n_rows}, s.out.data(), s.max.data(), s.sum.data(), thread);
        for (int i = 0; i < n_rows * group_; i++) {
            const Row& row = rows_[size_t(first_row + i / group_)];
            if (!reaches(row, chunk)) continue;
            const size_t at = size_t(i);
            const float* chunk_out = s.out.data() + at * kMaxHead;
            if (chunk > first_chunk(row)) {
                kernels_.fold(out + at * kMaxHead, max + at, sum + at, chunk_out, s.max.data()[at], s.sum.data()[at], hyper_.head);
                continue;
            }
            std::memcpy(out + at * kMaxHead, chunk_out, size_t(hyper_.head) * sizeof(float));
            max[at] = s.max.data()[at], sum[at] = s.sum.data()[at];
        }
    }
    for (int i = 0; i < n_rows * group_; i++) finish(first_row + i / group_, kv_head * group_ + i % group_, out + size_t(i) * kMaxHead, sum[i]);
}

void Forward::finish(int row, int head, const float* out, float sum) {
    kernels_.scale(out, hyper_.head, 1.0f / sum, mixed_.data() + size_t(row) * size_t(q_width_) + size_t(head) * size_t(hyper_.head));
}

int Forward::first_chunk(const Row& row) const { return hyper_.window > 0 ? std::max(0, row.position - hyper_.window + 1) / kChunk : 0; }

bool Forward::reaches(int first_row, int n_rows, int chunk) const {
    for (int r = first_row; r < first_row + n_rows; r++)
        if (reaches(rows_[size_t(r)], chunk)) return true;
    return false;
}

KeyRange Forward::visible(const Row& row, int chunk) const {
    const int start = chunk * kChunk, begin = hyper_.window > 0 ? row.position - hyper_.window + 1 - start : 0;
    return {std::max(0, begin), std::min(row.position + 1 - start, kChunk)};
}

// One chunk of keys for the rows of a span: all at once where they lie in the page as every row wants them.
void Forward::attend(int layer, const Span& span, float* out, float* max, float* sum, int thread) {
    const Part& part = parts_[size_t(span.part)];
    const Page& page = *part.sequence->pages[size_t(span.chunk)];
    const bool in_order = part.chain || part.base >= (span.chunk + 1) * kChunk;
    const int end = span.first_row + span.n_rows;
    Scratch& s = scratch_[size_t(thread)];
    for (int row = span.first_row; row < end;) {
        if (!reaches(rows_[size_t(row)], span.chunk)) {
            row++;
            continue;
        }
        const size_t at = size_t(row - span.first_row) * size_t(group_);
        int n = 1;
        const uint8_t *keys = page.keys(layer, span.kv_head), *values = page.values(layer, span.kv_head);
        if (in_order) {
            while (row + n < end && reaches(rows_[size_t(row + n)], span.chunk)) n++;
        } else {  // a tree: siblings share slots' order but not positions, so the row's own path is laid out as sequential decoding would
            gather(part, rows_[size_t(row)].node, layer, span.kv_head, span.chunk, visible(rows_[size_t(row)], span.chunk).end, s.keys.data(), s.values.data());
            keys = s.keys.data(), values = s.values.data();
        }
        attend_rows(keys, values, span, row, n, out + at * kMaxHead, max + at, sum + at, thread);
        row += n;
    }
}

void Forward::attend_rows(const uint8_t* keys, const uint8_t* values, const Span& span, int first_row, int n_rows, float* out, float* max, float* sum, int thread) {
    const float* queries = queries_.data() + query_at(span.kv_head, first_row) * kMaxHead;
    const CacheShape& shape = cache_.shape();
    const int n_queries = n_rows * group_;
    for (int i = 0; i < n_queries;) {
        const int n = std::min(kMaxTile, n_queries - i);
        KeyRange ranges[kMaxTile];
        for (int t = 0; t < n; t++) ranges[t] = visible(rows_[size_t(first_row + (i + t) / group_)], span.chunk);
        const AttendJob job{keys, values, hyper_.head, ranges, queries + size_t(i) * kMaxHead, scratch_[size_t(thread)].scores.data(), out + size_t(i) * kMaxHead, max + i, sum + i};
        kernels_.score[shape.key_type][n - 1](job);
        kernels_.weigh(job, n);
        kernels_.mix[shape.value_type][n - 1](job);
        i += n;
    }
}

// A row's chunk in the order of positions: committed ones from the page, then the row's ancestors and itself.
void Forward::gather(const Part& part, int node, int layer, int kv_head, int chunk, int n_keys, uint8_t* keys, uint8_t* values) const {
    const int start = chunk * kChunk;
    const PlaneLayout key_layout = cache_.shape().keys(), value_layout = cache_.shape().values();
    if (part.base > start) {
        const Page& page = *part.sequence->pages[size_t(chunk)];
        const int n = std::min(part.base - start, n_keys);
        key_layout.copy_first(page.keys(layer, kv_head), keys, n);
        value_layout.copy_first(page.values(layer, kv_head), values, n);
    }
    for (; node >= 0; node = part.segment->parents[size_t(node)]) {
        const int position = rows_[size_t(part.first_row + node)].position;
        if (position < start) break;
        if (position >= start + kChunk) continue;
        const int slot = part.base + node;
        const Page& from = part.sequence->page(slot);
        key_layout.copy(from.keys(layer, kv_head), slot % kChunk, keys, position - start);
        value_layout.copy(from.values(layer, kv_head), slot % kChunk, values, position - start);
    }
}

}  // namespace outrider
