// Models of a few kilobytes with random weights: the tensor table and the file that the header reader would hand over.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "blocks.h"
#include "check.h"
#include "engine.h"

namespace outrider::testing {

// A file without a name, open as long as the object lives.
class MemoryFile {
public:
    explicit MemoryFile(const std::vector<uint8_t>& bytes) : descriptor_(memfd_create("model", MFD_CLOEXEC)) {
        CHECK(descriptor_ >= 0);
        replace(bytes);
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    void replace(const std::vector<uint8_t>& bytes) const {
        CHECK(ftruncate(descriptor_, 0) == 0);
        CHECK(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()));
    }
    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

struct TinyShape {
    int layers, embedding, feed_forward, heads, kv_heads, head, vocabulary;
    bool biases, norms, tied, neox;  // norms: of queries and keys
    bool factors = false;            // of rotary frequencies
    int window = 0;
};

// Sizes that are no multiples of panels, blocks or row groups, where formats allow it.
constexpr TinyShape kLlama{2, 256, 256, 4, 2, 64, 45, false, false, true, false, true};  // K-quants among the formats
constexpr TinyShape kQwen2{1, 96, 160, 3, 1, 32, 77, true, false, false, true};
constexpr TinyShape kMistral{1, 64, 64, 2, 1, 32, 50, false, false, false, false, false, 100};
constexpr TinyShape kQwen3{2, 64, 96, 4, 2, 16, 33, false, true, false, true};

class TinyModel {
public:
    explicit TinyModel(const TinyShape& shape, uint64_t seed = 1) : random_(seed) {
        hyper = {shape.layers, shape.embedding, shape.feed_forward, shape.heads, shape.kv_heads, shape.head, 2048, shape.vocabulary, 1e-6f, 10000.0f, 1.0f, shape.head, shape.neox, ""};
        hyper.window = shape.window;
        const int64_t width = shape.embedding, inner = shape.feed_forward, q = int64_t(shape.heads) * shape.head, kv = int64_t(shape.kv_heads) * shape.head;
        matrix("token_embd.weight", width, shape.vocabulary);
        for (int i = 0; i < shape.layers; i++) {
            const std::string at = "blk." + std::to_string(i) + ".";
            vector(at + "attn_norm.weight", width, 1.0f);
            matrix(at + "attn_q.weight", width, q);
            matrix(at + "attn_k.weight", width, kv);
            matrix(at + "attn_v.weight", width, kv);
            matrix(at + "attn_output.weight", q, width);
            if (shape.biases) vector(at + "attn_q.bias", q, 0.0f), vector(at + "attn_k.bias", kv, 0.0f), vector(at + "attn_v.bias", kv, 0.0f);
            if (shape.norms) vector(at + "attn_q_norm.weight", shape.head, 1.0f), vector(at + "attn_k_norm.weight", shape.head, 1.0f);
            vector(at + "ffn_norm.weight", width, 1.0f);
            matrix(at + "ffn_gate.weight", width, inner);
            matrix(at + "ffn_up.weight", width, inner);
            matrix(at + "ffn_down.weight", inner, width);
        }
        vector("output_norm.weight", width, 1.0f);
        if (!shape.tied) matrix("output.weight", width, shape.vocabulary);
        if (shape.factors) vector(hyper.rope_factors = "rope_freqs.weight", shape.head / 2, 1.5f);
    }

    HyperParameters hyper;
    std::vector<TensorEntry> table;
    std::vector<uint8_t> bytes;

private:
    void add(const std::string& name, int type, std::vector<int64_t> shape, const uint8_t* data, size_t size) {
        bytes.resize((bytes.size() + 31) / 32 * 32);
        table.push_back({name, type, std::move(shape), bytes.size(), size, 0});
        bytes.insert(bytes.end(), data, data + size);
    }
    void matrix(const std::string& name, int64_t columns, int64_t rows) {
        const FormatInfo* info = nullptr;
        do info = &format_info(Format(turn_++ % kFormats));
        while (columns % info->block);
        std::vector<uint8_t> data;
        for (int64_t r = 0; r < rows; r++) {
            const auto row = random_row(random_, *info, int(columns));
            data.insert(data.end(), row.begin(), row.end());
        }
        add(name, info->type, {columns, rows}, data.data(), data.size());
    }
    void vector(const std::string& name, int64_t n, float mean) {
        std::vector<float> values(static_cast<size_t>(n));
        for (float& x : values) x = mean + random_.within(-0.2f, 0.2f);
        add(name, 0, {n}, reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4);
    }

    Random random_;
    int turn_ = 0;
};

using Tokens = std::vector<int>;

inline std::vector<int> chain(size_t n) {
    std::vector<int> parents(n);
    for (size_t i = 0; i < n; i++) parents[i] = int(i) - 1;
    return parents;
}

// The given rows' logits, one after the other.
inline std::vector<float> rows_of(Engine& engine, const std::vector<int>& nodes) {
    std::vector<float> all;
    for (const float* row : engine.forward.logits(nodes)) all.insert(all.end(), row, row + engine.weights.hyper.vocabulary);
    return all;
}

// Evaluates and commits a chain, `chunk` tokens at a time; the logits of every token.
inline std::vector<float> feed(Engine& engine, int sequence, const Tokens& tokens, int chunk) {
    std::vector<float> all;
    for (size_t start = 0; start < tokens.size(); start += size_t(chunk)) {
        const Tokens part(tokens.begin() + ptrdiff_t(start), tokens.begin() + ptrdiff_t(std::min(tokens.size(), start + size_t(chunk))));
        CHECK(engine.forward.run({{sequence, part, chain(part.size())}}, nullptr));
        std::vector<int> nodes(part.size());
        for (size_t i = 0; i < nodes.size(); i++) nodes[i] = int(i);
        const auto rows = rows_of(engine, nodes);
        all.insert(all.end(), rows.begin(), rows.end());
        engine.cache.commit(engine.cache.at(sequence), nodes);
    }
    return all;
}

}  // namespace outrider::testing
