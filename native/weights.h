// A model's weights in memory: the checked table goes in, panels come out.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "format.h"
#include "kernels.h"
#include "memory.h"
#include "pool.h"

namespace outrider {

// One entry of the table that the header reader checked. Bounds and shapes are checked here again.
struct TensorEntry {
    std::string name;
    int type;
    std::vector<int64_t> shape;  // ne0 (columns) first
    uint64_t offset;             // absolute, bytes
    uint64_t bytes;
    int file;  // index into the list of files (split models)
};

struct HyperParameters {
    int layers, embedding, feed_forward, heads, kv_heads, head, context, vocabulary;
    float epsilon;
    float rope_base;
    float rope_scale;     // linear position scaling: positions are multiplied by it
    int rope_dimensions;  // rotated part of a head
    bool rope_neox;       // pairs (i, i + n/2) instead of (2i, 2i + 1)
};

struct Matrix {
    const FormatInfo* info = nullptr;
    int rows = 0, columns = 0, n_groups = 0, n_panels = 0;  // groups of kGroupRows rows; panels of one half of a group
    uint8_t* data = nullptr;

    // The same matrix from one row group on; shares the panels.
    Matrix part(int first_group, int groups) const {
        Matrix m = *this;
        m.data = data + group_bytes() * size_t(first_group);
        m.n_groups = groups;
        m.rows = groups * kGroupRows;
        return m;
    }
    size_t group_bytes() const { return size_t(kGroupPanels * n_panels) * size_t(info->panel_bytes); }
    size_t bytes() const { return group_bytes() * size_t(n_groups); }
    const uint8_t* group(int g) const { return data + group_bytes() * size_t(g); }
    void unpack_row(int row, float* out) const { info->unpack_row(group(row / kGroupRows), columns, row % kGroupRows, out); }
};

using Vector = std::vector<float>;  // padded to whole cache lines; empty where the model has none

// Row groups first .. first + count - 1 of the output head.
struct HeadPart {
    int first, count;
    Matrix matrix;
};

struct Layer {
    Matrix query, key, value, output, gate, up, down;
    Vector attention_norm, feed_forward_norm, query_bias, key_bias, value_bias, output_bias, query_norm, key_norm;
};

class Weights {
public:
    // head_rows: ranges [first, end) of the vocabulary that get logits, rising; empty for all of it. A draft model reads less that way.
    Weights(const std::vector<std::string>& paths, const std::vector<TensorEntry>& table, const HyperParameters& hyper,
            const std::vector<std::pair<int, int>>& head_rows, Pool& pool);

    HyperParameters hyper;
    Matrix embedding, head;  // a tied head is the embedding itself
    std::vector<HeadPart> head_parts;  // rounded outward to whole row groups
    std::vector<Layer> layers;
    Vector output_norm, rope_factors;

    size_t bytes() const { return arena_.bytes(); }
    size_t bytes_per_pass() const;  // what one pass streams: every matrix but the embedding table, unless tied
    const Matrix* find(const std::string& name) const;

private:
    Memory arena_;
    std::map<std::string, const Matrix*> by_name_;
};

}  // namespace outrider
