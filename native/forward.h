// One pass: rows of several sequences through every layer, in one parallel region.
#pragma once
#include <functional>
#include <vector>

#include "activations.h"
#include "cache.h"
#include "dispatch.h"
#include "kernels.h"
#include "pool.h"
#include "rope.h"
#include "weights.h"

namespace outrider {

// The rows that one sequence contributes.
struct Segment {
    int sequence;
    std::vector<int> tokens;
    std::vector<int> parents;  // parents[i] < i, -1 is the committed tail
};

class Forward {
public:
    Forward(const Weights& weights, Cache& cache, const Kernels& kernels, Pool& pool);

    // Leaves the final hidden state of every row. False if `cancelled` (asked by the calling thread, once per layer) said so.
    // Rows stay provisional in their sequences; on any other end than true the sequences are as before.
    bool run(const std::vector<Segment>& segments, const std::function<bool()>& cancelled);

    int n_rows() const { return n_rows_; }
    // Logits of rows of the last pass, float [nodes][vocabulary padded to whole row groups]; valid until the next call. Computed once per row.
    std::vector<const float*> logits(const std::vector<int>& nodes);
    // The hidden state of a row after the last layer, before the output norm.
    const float* hidden(int row) const { return hidden_.data() + size_t(row) * size_t(width_); }

private:
    static constexpr int kChunkedRows = 16;  // up to this many rows attention is split by chunks of keys, above by rows
    static constexpr int kRowTile = 8;       // rows of one attention item above

    struct Part {  // a segment being evaluated
        const Segment* segment;
        Sequence* sequence;
        int first_row, n_rows, base;
        bool chain;
    };
    struct Row {
        int part, node, position, token;
    };
    struct Target {  // one matrix of a phase and where its results go
        const Matrix* matrix;
        float* y;
        int stride;
        const Vector* bias;
        bool accumulate;
    };
    // Queries that share the keys of one chunk, and where their results go; contiguous over (row, head of the group).
    struct Span {
        int part, kv_head, chunk, first_row, n_rows;
    };

    void prepare(const std::vector<Segment>& segments);
    void embed(int thread);
    void layer(int index, int thread);
    void quantise_rows(const Vector* norm, const float* x, int columns, int stride, bool (&kinds)[kActivationKinds], int thread);
    void quantise_gate(bool (&kinds)[kActivationKinds], int thread);
    void multiply(const std::vector<Target>& targets, const Tiling& tiling, const Activations* inputs, int thread) const;
    void multiply_panels(const Target& target, int group, int panel, int n_panels, const Tiling& tiling, const Activations* inputs, int thread) const;
    void rotate(int layer, int row, int thread);
    void rotate_head(float* x, int row) const;
    void store(const PlaneLayout& layout, uint8_t* plane, int position, const float* x, int thread);
    // attention.cpp
    void attention(int layer, int thread);
    void attend_by_chunks(int layer, int thread);
    void fold_chunks(int thread);
    void attend_by_rows(int layer, int thread);
    void attend_tile(int layer, int part, int kv_head, int first_row, int n_rows, int thread);
    void finish(int row, int head, const float* out, float sum);
    void attend(int layer, const Span& span, float* out, float* max, float* sum, int thread);
    // Which keys a row sees: from its window's first position to its own.
    int first_chunk(const Row& row) const;
    bool reaches(const Row& row, int chunk) const { return chunk >= first_chunk(row) && chunk <= row.position / kChunk; }
    bool reaches(int first_row, int n_rows, int chunk) const;
    KeyRange visible(const Row& row, int chunk) const;
    void attend_rows(const uint8_t* keys, const uint8_t* values, const Span& span, int first_row, int n_rows, float* out, float* max, float* sum, int thread);
    void gather(const Part& part, int node, int layer, int kv_head, int chunk, int n_keys, uint8_t* keys, uint8_t* values) const;

    int logits_stride() const { return (hyper_.vocabulary + kGroupRows - 1) / kGroupRows * kGroupRows; }
    void compute_logits(const std::vector<int>& rows, int first_slot);

    size_t partial_at(int chunk) const { return size_t(chunk) * size_t(n_rows_) * size_t(hyper_.heads); }
    size_t query_at(int kv_head, int row) const { return (size_t(kv_head) * size_t(n_rows_) + size_t(row)) * size_t(group_); }

    const Weights& weights_;
    const HyperParameters& hyper_;
    Cache& cache_;
    const Kernels& kernels_;
    Pool& pool_;
    const int width_, inner_, q_width_, kv_width_, group_;  // padded row lengths in floats; query heads per KV head

    int n_rows_ = 0, n_chunks_ = 0;
    bool by_chunk_ = false;  // few rows: chunks are spread over the threads and folded afterwards, in the same order
    std::vector<Part> parts_;
    std::vector<Row> rows_;
    Tiling tiling_{1};
    const Prefetch prefetch_ = prefetch_for_memory();
    const Rope rope_;
    Buffer<float> directions_, hidden_, normed_, q_, k_, v_, queries_, mixed_, gate_, up_;
    Buffer<float> state_out_, state_max_, state_sum_, chunk_out_, chunk_max_, chunk_sum_;
    Activations activations_[kActivationKinds], inner_activations_[kActivationKinds], head_activations_[kActivationKinds];
    struct Scratch {
        Buffer<float> scores, row, out, max, sum, carry;
        Buffer<uint8_t> bytes;  // panels unpacked for several tiles
        Buffer<uint8_t> packed, keys, values;
    };
    std::vector<Scratch> scratch_;

    Buffer<float> logits_;
    std::vector<int> slot_of_row_;
    int n_slots_ = 0;
};

}  // namespace outrider
