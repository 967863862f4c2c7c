// The loader under any tensor table, hyper-parameters and bytes: it throws, or what it loaded can be read and run.
#include <array>
#include <stdexcept>

#include "input.h"
#include "tiny_model.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

struct Subject {
    TinyModel model;
    MemoryFile file;
    explicit Subject(const TinyShape& shape) : model(shape), file(model.bytes) {}
};

void bend(Input& input, std::vector<TensorEntry>& table) {
    TensorEntry& entry = table[size_t(input.below(int(table.size())))];
    switch (input.below(12)) {
        case 0: entry.type = int(input.number()); break;
        case 1: entry.type = format_info(Format(input.below(kFormats))).type; break;
        case 2: entry.offset = uint64_t(input.number()); break;
        case 3: entry.offset += uint64_t(input.below(256)); break;  // still inside the file, perhaps, and not aligned
        case 4: entry.bytes = uint64_t(input.number()); break;
        case 5: entry.shape.assign(size_t(input.below(6)), 0); for (auto& n : entry.shape) n = input.number(); break;
        case 6: if (!entry.shape.empty()) entry.shape[size_t(input.below(int(entry.shape.size())))] = input.number(); break;
        case 7: entry.shape.push_back(1); break;
        case 8: entry.file = int(input.number()); break;
        case 9: entry.name = table[size_t(input.below(int(table.size())))].name; break;
        case 10: table.erase(table.begin() + input.below(int(table.size()))); if (table.empty()) table.push_back({}); break;
        default: {  // another type with the size that it has for this shape: the whole way into the packer
            const FormatInfo& info = format_info(Format(input.below(kFormats)));
            if (entry.shape.size() == 2 && entry.shape[0] >= 0 && entry.shape[0] < 4096 && entry.shape[1] >= 0 && entry.shape[1] < 4096)
                entry.type = info.type, entry.bytes = uint64_t(entry.shape[0] / info.block * info.block_bytes * entry.shape[1]);
            break;
        }
    }
}

void bend(Input& input, HyperParameters& hyper) {
    const std::array fields{&hyper.layers,  &hyper.embedding,  &hyper.feed_forward,    &hyper.heads,                 &hyper.kv_heads, &hyper.head,
                            &hyper.context, &hyper.vocabulary, &hyper.rope_dimensions, &hyper.rope_original_context, &hyper.window};
    const std::array reals{&hyper.epsilon,       &hyper.rope_base,      &hyper.rope_scale,         &hyper.rope_attention_factor, &hyper.rope_extrapolation,
                           &hyper.rope_beta_fast, &hyper.rope_beta_slow, &hyper.rope_log_multiplier};
    const auto value = input.number();
    const int field = input.below(int(fields.size() + reals.size()) + 2);
    if (field < int(fields.size())) *fields[size_t(field)] = int(value);
    else if (field < int(fields.size() + reals.size())) std::memcpy(reals[size_t(field) - fields.size()], &value, 4);
    else hyper.rope_factors = input.below(2) ? "blk.0.attn_norm.weight" : "";
}

void use(Engine& engine) {
    const HyperParameters& hyper = engine.weights.hyper;
    std::vector<float> row(size_t(std::max({hyper.embedding, hyper.feed_forward, hyper.heads * hyper.head})));
    for (const char* name : {"token_embd.weight", "output.weight", "blk.0.ffn_down.weight"})
        if (const Matrix* matrix = engine.weights.find(name)) matrix->unpack_row(matrix->rows - 1, row.data());
    const int sequence = engine.cache.open();
    const int n = std::min(hyper.vocabulary, 3);
    Tokens tokens(static_cast<size_t>(n));
    for (int i = 0; i < n; i++) tokens[size_t(i)] = i;
    CHECK(engine.forward.run({{sequence, tokens, chain(tokens.size())}}, nullptr));
    row_statistics(engine.forward.logits({n - 1}), hyper.vocabulary, engine.kernels, engine.pool, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Subject subjects[] = {Subject(kLlama), Subject({1, 32, 32, 2, 1, 16, 12, true, true, false, true}), Subject(kQwen2)};
    Input input(data, size);
    const Subject& subject = subjects[input.below(3)];
    auto table = subject.model.table;
    auto hyper = subject.model.hyper;
    const int n_files = input.below(8) ? 1 : input.below(3), n_threads = 1 + input.below(64) / 63;  // waiting for threads is slow
    std::vector<std::pair<int, int>> head_rows;
    while (!input.below(4) && !input.empty()) head_rows.emplace_back(int(input.number()), int(input.number()));
    if (!input.below(8))
        for (int n = 1 + input.below(3); n > 0; n--) bend(input, hyper);
    // The bindings let no others through.
    const CacheType quantised = hyper.head % kCacheBlock ? kCacheF16 : kCacheQ80, keys = input.below(2) ? quantised : kCacheF16, values = input.below(2) ? quantised : kCacheF16;
    const bool own_bytes = !input.below(8);
    for (int n = input.below(4); n > 0; n--) bend(input, table);
    auto bytes = subject.model.bytes;
    if (own_bytes) {  // what the tensors hold, or a shorter file
        if (input.below(2)) bytes.resize(bytes.size() - std::min(bytes.size(), size_t(input.below(60000))));
        for (size_t i = 0; i < bytes.size() && !input.empty(); i += 1 + size_t(input.below(64))) bytes[i] = input.byte();
    }
    try {
        const MemoryFile own(own_bytes ? bytes : std::vector<uint8_t>());
        const std::vector<std::string> paths(size_t(n_files), own_bytes ? own.path() : subject.file.path());
        Engine engine(paths, table, hyper, {n_threads, 8, 1, "", head_rows, keys, values});
        use(engine);
    } catch (const std::invalid_argument&) {
    } catch (const std::runtime_error&) {
    } catch (const std::bad_alloc&) {
    }
    return 0;
}
