// The attention part of a pass: chunks of 256 keys, folded in the order of positions whatever shares the pass.
#include <algorithm>
#include <cstring>

#include "forward.h"
#include "share.h"

namespace outrider {

// Attention results are folded chunk by chunk in the order of positions, whichever way the work is spread.
void Forward::attention(int layer, int thread) {
    const int n_threads = pool_.size(), kv_heads = hyper_.kv_heads;
    Scratch& s = scratch_[size_t(thread)];
    if (by_chunk_) {
        int item = 0;
        for (int p = 0; p < int(parts_.size()); p++)
            for (int chunk = 0; chunk < n_chunks_; chunk++)
                for (int kv_head = 0; kv_head < kv_heads; kv_head++, item++) {
                    if (item % n_threads != thread) continue;
                    const size_t at = size_t(chunk) * size_t(n_rows_) * size_t(hyper_.heads) + query_at(kv_head, parts_[size_t(p)].first_row);
                    attend(layer, {p, kv_head, chunk, parts_[size_t(p)].first_row, parts_[size_t(p)].n_rows}, chunk_out_.data() + at * kMaxHead,
                           chunk_max_.data() + at, chunk_sum_.data() + at, thread);
                }
        pool_.barrier();
        const Range heads = share(n_rows_ * hyper_.heads, thread, n_threads);
        for (int i = heads.begin; i < heads.end; i++) {
            const int r = i / hyper_.heads, head = i % hyper_.heads;
            const size_t query = query_at(head / group_, r) + size_t(head % group_), step = size_t(n_rows_) * size_t(hyper_.heads);
            for (int chunk = 1; chunk <= rows_[size_t(r)].position / kChunk; chunk++) {
                const size_t at = size_t(chunk) * step + query;
                kernels_.fold(chunk_out_.data() + query * kMaxHead, chunk_max_.data() + query, chunk_sum_.data() + query, chunk_out_.data() + at * kMaxHead,
                              chunk_max_.data()[at], chunk_sum_.data()[at], hyper_.head);
            }
            kernels_.scale(chunk_out_.data() + query * kMaxHead, hyper_.head, 1.0f / chunk_sum_.data()[query],
                           mixed_.data() + size_t(r) * size_t(q_width_) + size_t(head) * size_t(hyper_.head));
        }
        return;
    }
    int item = 0;
    for (int p = 0; p < int(parts_.size()); p++)
        for (int first = 0; first < parts_[size_t(p)].n_rows; first += kRowTile)
            for (int kv_head = 0; kv_head < kv_heads; kv_head++, item++) {
                if (item % n_threads != thread) continue;
                const int first_row = parts_[size_t(p)].first_row + first, n = std::min(kRowTile, parts_[size_t(p)].n_rows - first);
                const size_t state = query_at(kv_head, first_row);
                int last_chunk = 0;
                for (int r = first_row; r < first_row + n; r++) last_chunk = std::max(last_chunk, rows_[size_t(r)].position / kChunk);
                for (int chunk = 0; chunk <= last_chunk; chunk++) {
                    float *out = chunk ? s.out.data() : state_out_.data() + state * kMaxHead, *max = chunk ? s.max.data() : state_max_.data() + state,
                          *sum = chunk ? s.sum.data() : state_sum_.data() + state;
                    attend(layer, {p, kv_head, chunk, first_row, n}, out, max, sum, thread);
                    if (!chunk) continue;
                    for (int i = 0; i < n * group_; i++)
                        if (rows_[size_t(first_row + i / group_)].position / kChunk >= chunk)
                            kernels_.fold(state_out_.data() + (state + size_t(i)) * kMaxHead, state_max_.data() + state + i, state_sum_.data() + state + i,
                                          out + size_t(i) * kMaxHead, max[i], sum[i], hyper_.head);
                }
                for (int i = 0; i < n * group_; i++)
                    kernels_.scale(state_out_.data() + (state + size_t(i)) * kMaxHead, hyper_.head, 1.0f / state_sum_.data()[state + size_t(i)],
                                   mixed_.data() + size_t(first_row + i / group_) * size_t(q_width_) + size_t(kv_head * group_ + i % group_) * size_t(hyper_.head));
            }
}

// One chunk of keys for the rows of a span. Rows that see the whole chunk share its keys; the others go one by one.
void Forward::attend(int layer, const Span& span, float* out, float* max, float* sum, int thread) {
    const Part& part = parts_[size_t(span.part)];
    const int start = span.chunk * kChunk;
    auto at = [&](int row) { return size_t(row - span.first_row) * size_t(group_); };
    int row = span.first_row;
    const int end = span.first_row + span.n_rows;
    while (row < end) {
        const int position = rows_[size_t(row)].position;
        if (position < start) {
            row++;
            continue;
        }
        const int committed = std::min(part.base - start, kChunk), visible = std::min(position + 1 - start, kChunk);
        if (part.chain || committed >= kChunk) {
            int n = 1;
            while (visible == kChunk && row + n < end && rows_[size_t(row + n)].position + 1 - start >= kChunk) n++;
            const Page& page = *part.sequence->pages[size_t(span.chunk)];
            attend_rows(page.keys(layer, span.kv_head), page.values(layer, span.kv_head), visible, span, row, n, out + at(row) * kMaxHead, max + at(row), sum + at(row), thread);
            row += n;
            continue;
        }
        // A tree: siblings share slots' order but not positions, so the row's own path is laid out as sequential decoding would.
        Scratch& s = scratch_[size_t(thread)];
        gather(part, rows_[size_t(row)].node, layer, span.kv_head, span.chunk, visible, s.keys.data(), s.values.data());
        attend_rows(s.keys.data(), s.values.data(), visible, span, row, 1, out + at(row) * kMaxHead, max + at(row), sum + at(row), thread);
        row++;
    }
}

void Forward::attend_rows(const uint16_t* keys, const uint16_t* values, int n_keys, const Span& span, int first_row, int n_rows, float* out, float* max, float* sum,
                          int thread) {
    const float* queries = queries_.data() + query_at(span.kv_head, first_row) * kMaxHead;
    const int n_queries = n_rows * group_;
    for (int i = 0; i < n_queries;) {
        const int n = std::min(kMaxTile, n_queries - i);
        AttendJob job{keys, values, n_keys, hyper_.head, queries + size_t(i) * kMaxHead, scratch_[size_t(thread)].scores.data(), out + size_t(i) * kMaxHead, max + i, sum + i};
        kernels_.attend[n - 1](job);
        i += n;
    }
}

// A row's chunk in the order of positions: committed ones from the page, then the row's ancestors and itself.
void Forward::gather(const Part& part, int node, int layer, int kv_head, int chunk, int n_keys, uint16_t* keys, uint16_t* values) const {
    const int start = chunk * kChunk, head = hyper_.head;
    const Page& page = *part.sequence->pages[size_t(chunk)];
    if (part.base > start) {
        std::memcpy(keys, page.keys(layer, kv_head), size_t(padded16(n_keys)) * size_t(head) * 2);
        for (int d = 0; d < head; d += 16)
            std::memcpy(values + size_t(d) * kChunk, page.values(layer, kv_head) + size_t(d) * kChunk, size_t(std::min(part.base - start, n_keys)) * 32);
    }
    for (; node >= 0; node = part.segment->parents[size_t(node)]) {
        const int position = rows_[size_t(part.first_row + node)].position;
        if (position < start) break;
        if (position >= start + kChunk) continue;
        const int slot = part.base + node;
        const Page& from = part.sequence->page(slot);
        copy_position(from.keys(layer, kv_head), from.values(layer, kv_head), slot % kChunk, keys, values, position - start, head);
    }
}

}  // namespace outrider
