#include "weights.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace outrider {

namespace {

constexpr size_t kReadBytes = size_t(1) << 20;  // per thread: what bounds the loader's memory
constexpr int64_t kMaxSide = int64_t(1) << 24;

[[noreturn]] void fail(const std::string& tensor, const std::string& what) { throw std::invalid_argument("tensor '" + tensor + "': " + what); }

struct File {
    int descriptor;
    uint64_t size;
    explicit File(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)), size(0) {
        if (descriptor < 0) throw std::runtime_error(path + ": " + std::strerror(errno));
        const off_t end = lseek(descriptor, 0, SEEK_END);
        size = end > 0 ? uint64_t(end) : 0;
    }
    File(File&& other) noexcept : descriptor(std::exchange(other.descriptor, -1)), size(other.size) {}
    ~File() {
        if (descriptor >= 0) close(descriptor);
    }
    // False where the file ended early (it shrank) or could not be read.
    bool read(void* to, size_t bytes, uint64_t offset) const {
        for (auto* p = static_cast<uint8_t*>(to); bytes;) {
            const ssize_t n = pread(descriptor, p, bytes, off_t(offset));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            p += n, offset += uint64_t(n), bytes -= size_t(n);
        }
        return true;
    }
};

// A slice of a matrix that one thread reads and packs.
struct Slice {
    const Matrix* matrix;
    const TensorEntry* entry;
    int first_group, n_groups;
};

class Loader {
public:
    Loader(const std::vector<std::string>& paths, const std::vector<TensorEntry>& table) {
        for (const auto& path : paths) files_.emplace_back(path);
        for (const auto& entry : table)
            if (!table_.emplace(entry.name, &entry).second) fail(entry.name, "appears twice");
    }

    bool has(const std::string& name) const { return table_.count(name) > 0; }

    const TensorEntry& entry(const std::string& name) const {
        const auto found = table_.find(name);
        if (found == table_.end()) fail(name, "is missing");
        return *found->second;
    }

    void declare(Matrix& matrix, const std::string& name, int64_t columns, int64_t rows) {
        const TensorEntry& tensor = entry(name);
        matrix.info = find_format(tensor.type);
        if (!matrix.info) fail(name, "type " + std::to_string(tensor.type) + " is not supported by the native engine");
        check_shape(tensor, {columns, rows});
        const FormatInfo& info = *matrix.info;
        if (columns > kMaxSide || rows > kMaxSide || columns % info.block) fail(name, "unusable shape");
        check_bounds(tensor, uint64_t(columns / info.block) * uint64_t(info.block_bytes) * uint64_t(rows));
        matrix.rows = int(rows), matrix.columns = int(columns);
        matrix.n_groups = (matrix.rows + kGroupRows - 1) / kGroupRows;
        matrix.n_panels = (matrix.columns + info.panel_columns - 1) / info.panel_columns;
        declared_.push_back({&matrix, &tensor});
    }

    Vector vector(const std::string& name, int64_t n) const {
        const TensorEntry& tensor = entry(name);
        check_shape(tensor, {n});
        if (tensor.type != 0) fail(name, "must be F32");
        check_bounds(tensor, uint64_t(n) * 4);
        Vector values(size_t(n + kGroupRows - 1) / kGroupRows * kGroupRows);
        if (!files_[size_t(tensor.file)].read(values.data(), size_t(n) * 4, tensor.offset)) fail(name, "the file ended early");
        return values;
    }

    Vector optional_vector(const std::string& name, int64_t n) const { return has(name) ? vector(name, n) : Vector(); }

    // Only these row groups of a declared matrix will be read; the others stay untouched, unbacked memory.
    void restrict(const Matrix& matrix, const std::vector<HeadPart>& parts) { restricted_ = &matrix, parts_ = &parts; }

    // Lays the matrices out in the order they were declared, so that a layer is contiguous, and fills them in parallel.
    Memory load(Pool& pool) {
        size_t total = 0;
        for (auto& [matrix, tensor] : declared_) total += matrix->bytes();
        Memory arena(total);
        uint8_t* next = arena.data();
        std::vector<Slice> slices;
        for (auto& [matrix, tensor] : declared_) {
            matrix->data = next;
            next += matrix->bytes();
            const size_t group = source_row_bytes(*matrix) * kGroupRows;
            const int step = int(std::max<size_t>(1, kReadBytes / group));
            const std::vector<HeadPart> whole{{0, matrix->n_groups, {}}};
            for (const HeadPart& part : matrix == restricted_ ? *parts_ : whole)
                for (int g = part.first, end = part.first + part.count; g < end; g += step) slices.push_back({matrix, tensor, g, std::min(step, end - g)});
        }
        std::atomic<size_t> taken{0};
        std::atomic<const TensorEntry*> failed{nullptr};
        pool.run([&](int) {
            try {
                std::vector<uint8_t> buffer;
                for (size_t i; (i = taken.fetch_add(1)) < slices.size() && !failed.load();)
                    if (!pack(slices[i], buffer)) failed.store(slices[i].entry);
            } catch (const std::bad_alloc&) {
                failed.store(slices.front().entry);
            }
        });
        if (failed.load()) fail(failed.load()->name, "could not be read; the file ended early");
        return arena;
    }

private:
    static size_t source_row_bytes(const Matrix& m) { return size_t(m.columns / m.info->block) * size_t(m.info->block_bytes); }

    static void check_shape(const TensorEntry& tensor, std::vector<int64_t> expected) {
        auto shape = tensor.shape;
        while (shape.size() > expected.size() && shape.back() == 1) shape.pop_back();
        if (shape == expected) return;
        std::string found, wanted;
        for (auto n : shape) found += (found.empty() ? "" : " x ") + std::to_string(n);
        for (auto n : expected) wanted += (wanted.empty() ? "" : " x ") + std::to_string(n);
        fail(tensor.name, "shape " + found + ", expected " + wanted);
    }

    void check_bounds(const TensorEntry& tensor, uint64_t bytes) const {
        if (tensor.file < 0 || size_t(tensor.file) >= files_.size()) fail(tensor.name, "names a file that does not exist");
        const uint64_t size = files_[size_t(tensor.file)].size;
        if (tensor.bytes != bytes) fail(tensor.name, "holds " + std::to_string(tensor.bytes) + " bytes, expected " + std::to_string(bytes));
        if (tensor.offset > size || bytes > size - tensor.offset) fail(tensor.name, "reaches past the end of the file");
    }

    bool pack(const Slice& slice, std::vector<uint8_t>& buffer) const {
        const Matrix& m = *slice.matrix;
        const size_t row_bytes = source_row_bytes(m);
        const int first = slice.first_group * kGroupRows, n_rows = std::min(slice.n_groups * kGroupRows, m.rows - first);
        buffer.resize(row_bytes * size_t(n_rows));
        if (!files_[size_t(slice.entry->file)].read(buffer.data(), buffer.size(), slice.entry->offset + row_bytes * size_t(first))) return false;
        for (int row = 0; row < n_rows; row++) {
            uint8_t* group = m.data + m.group_bytes() * size_t(slice.first_group + row / kGroupRows);
            m.info->pack_row(buffer.data() + row_bytes * size_t(row), m.columns, row % kGroupRows, group);
        }
        return true;
    }

    std::vector<File> files_;
    std::map<std::string, const TensorEntry*> table_;
    std::vector<std::pair<Matrix*, const TensorEntry*>> declared_;
    const Matrix* restricted_ = nullptr;
    const std::vector<HeadPart>* parts_ = nullptr;
};

// Ranges of rows as ranges of whole row groups, merged where they touch.
std::vector<HeadPart> group_ranges(const std::vector<std::pair<int, int>>& rows, int n_rows) {
    if (rows.empty()) return {{0, (n_rows + kGroupRows - 1) / kGroupRows, {}}};
    std::vector<HeadPart> parts;
    for (const auto& [first, end] : rows) {
        if (first < 0 || end <= first || end > n_rows) throw std::invalid_argument("head rows " + std::to_string(first) + " to " + std::to_string(end));
        const int from = first / kGroupRows, to = (end + kGroupRows - 1) / kGroupRows;
        if (!parts.empty() && from < parts.back().first) throw std::invalid_argument("head rows must rise");
        if (!parts.empty() && from <= parts.back().first + parts.back().count) parts.back().count = std::max(parts.back().count, to - parts.back().first);
        else parts.push_back({from, to - from, {}});
    }
    return parts;
}

void check(const HyperParameters& h) {
    auto within = [](const char* name, int value, int low, int high) {
        if (value < low || value > high) throw std::invalid_argument(std::string(name) + " is " + std::to_string(value));
    };
    within("layers", h.layers, 1, 1024);
    within("embedding length", h.embedding, 32, 1 << 17);
    within("feed-forward length", h.feed_forward, 32, 1 << 19);
    within("heads", h.heads, 1, 1024);
    within("KV heads", h.kv_heads, 1, h.heads);
    within("head size", h.head, 16, kMaxHead);
    within("context", h.context, 1, 1 << 24);
    within("vocabulary", h.vocabulary, 1, 1 << 22);
    within("rotated dimensions", h.rope_dimensions, 2, h.head);
    if (h.heads % h.kv_heads) throw std::invalid_argument("heads are not a multiple of KV heads");
    if (h.head % 16 || h.rope_dimensions % 2) throw std::invalid_argument("head size must be a multiple of 16");
    if (h.embedding % 32 || h.feed_forward % 32) throw std::invalid_argument("row lengths must be multiples of 32");
}

}  // namespace

Weights::Weights(const std::vector<std::string>& paths, const std::vector<TensorEntry>& table, const HyperParameters& parameters,
                 const std::vector<std::pair<int, int>>& head_rows, Pool& pool)
    : hyper(parameters) {
    check(hyper);
    Loader loader(paths, table);
    const int64_t width = hyper.embedding, inner = hyper.feed_forward;
    const int64_t q_width = int64_t(hyper.heads) * hyper.head, kv_width = int64_t(hyper.kv_heads) * hyper.head;
    loader.declare(embedding, "token_embd.weight", width, hyper.vocabulary);
    layers.resize(size_t(hyper.layers));
    for (int i = 0; i < hyper.layers; i++) {
        Layer& layer = layers[size_t(i)];
        const std::string at = "blk." + std::to_string(i) + ".";
        layer.attention_norm = loader.vector(at + "attn_norm.weight", width);
        loader.declare(layer.query, at + "attn_q.weight", width, q_width);
        loader.declare(layer.key, at + "attn_k.weight", width, kv_width);
        loader.declare(layer.value, at + "attn_v.weight", width, kv_width);
        loader.declare(layer.output, at + "attn_output.weight", q_width, width);
        layer.query_bias = loader.optional_vector(at + "attn_q.bias", q_width);
        layer.key_bias = loader.optional_vector(at + "attn_k.bias", kv_width);
        layer.value_bias = loader.optional_vector(at + "attn_v.bias", kv_width);
        layer.output_bias = loader.optional_vector(at + "attn_output.bias", width);
        layer.query_norm = loader.optional_vector(at + "attn_q_norm.weight", hyper.head);
        layer.key_norm = loader.optional_vector(at + "attn_k_norm.weight", hyper.head);
        layer.feed_forward_norm = loader.vector(at + "ffn_norm.weight", width);
        loader.declare(layer.gate, at + "ffn_gate.weight", width, inner);
        loader.declare(layer.up, at + "ffn_up.weight", width, inner);
        loader.declare(layer.down, at + "ffn_down.weight", inner, width);
    }
    output_norm = loader.vector("output_norm.weight", width);
    rope_factors = loader.optional_vector("rope_freqs.weight", hyper.rope_dimensions / 2);
    const bool tied = !loader.has("output.weight");
    head_parts = group_ranges(head_rows, hyper.vocabulary);
    if (!tied) {
        loader.declare(head, "output.weight", width, hyper.vocabulary);
        loader.restrict(head, head_parts);
    }
    arena_ = loader.load(pool);
    if (tied) head = embedding;
    for (HeadPart& part : head_parts) part.matrix = head.part(part.first, part.count);

    by_name_ = {{"token_embd.weight", &embedding}, {"output.weight", &head}};
    for (int i = 0; i < hyper.layers; i++) {
        const Layer& layer = layers[size_t(i)];
        const std::string at = "blk." + std::to_string(i) + ".";
        by_name_[at + "attn_q.weight"] = &layer.query;
        by_name_[at + "attn_k.weight"] = &layer.key;
        by_name_[at + "attn_v.weight"] = &layer.value;
        by_name_[at + "attn_output.weight"] = &layer.output;
        by_name_[at + "ffn_gate.weight"] = &layer.gate;
        by_name_[at + "ffn_up.weight"] = &layer.up;
        by_name_[at + "ffn_down.weight"] = &layer.down;
    }
}

size_t Weights::bytes_per_pass() const {
    size_t total = 0;
    for (const HeadPart& part : head_parts) total += part.matrix.bytes();
    for (const Layer& l : layers)
        for (const Matrix* m : {&l.query, &l.key, &l.value, &l.output, &l.gate, &l.up, &l.down}) total += m->bytes();
    return total;
}

const Matrix* Weights::find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace outrider
