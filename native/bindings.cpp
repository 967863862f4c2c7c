// The only file that knows Python. Long calls release the GIL; errors travel as exceptions that the adapter translates.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>

#include "engine.h"
#include "probe.h"
#include "rope.h"

namespace nb = nanobind;
using namespace outrider;

namespace {

using TableRow = std::tuple<std::string, int, std::vector<int64_t>, uint64_t, uint64_t, int>;
using SegmentRow = std::tuple<int, std::vector<int>, std::vector<int>>;

// Threads that compute without the GIL, and whether the interpreter is on its way out.
std::atomic<int> n_released{0};
std::atomic<bool> leaving{false};

// Releases the GIL, unless the interpreter is leaving: a thread that asks a finalised interpreter for its GIL back is ended on the
// spot, which C++ takes for an exception out of a destructor, and the process aborts.
class Released {
public:
    Released() {
        if (leaving.load()) return;
        n_released.fetch_add(1);
        release_.emplace();
    }
    ~Released() {
        if (!release_) return;
        release_.reset();
        n_released.fetch_sub(1);
    }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

private:
    std::optional<nb::gil_scoped_release> release_;
};

// Run at exit, before anything is torn down: waits for the calls of daemon threads, which are cut short after a layer.
void leave() {
    leaving.store(true);
    nb::set_leak_warnings(false);  // what such a thread holds is never let go, which is no news to a user
    nb::gil_scoped_release release;
    while (n_released.load()) usleep(500);
}

// A new array that owns its memory.
template <class T>
struct Owned {
    T* data;
    nb::capsule owner;
    explicit Owned(size_t n) : data(new T[n]), owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); }) {}
    nb::ndarray<nb::numpy, T> array(std::initializer_list<size_t> shape) { return nb::ndarray<nb::numpy, T>(data, shape, owner); }
};

CacheType cache_type(const std::string& name, const HyperParameters& hyper) {
    if (name == "f16") return kCacheF16;
    if (name != "q8_0") throw std::invalid_argument("cache type '" + name + "' is not known");
    if (hyper.head % kCacheBlock) throw std::invalid_argument("a q8_0 cache needs heads of a multiple of 32 values");
    return kCacheQ80;
}

std::unique_ptr<Engine> load(const std::vector<std::string>& paths, const std::vector<TableRow>& rows, const HyperParameters& hyper, int threads, int n_context,
                             int n_sequences, const std::string& isa, const std::vector<std::pair<int, int>>& head_rows, const std::string& key_type,
                             const std::string& value_type) {
    std::vector<TensorEntry> table;
    for (const auto& [name, type, shape, offset, bytes, file] : rows) table.push_back({name, type, shape, offset, bytes, file});
    if (threads < 1 || threads > 256) throw std::invalid_argument("threads must be 1 to 256");
    if (n_context < 1 || n_sequences < 1) throw std::invalid_argument("context and sequences must be positive");
    const Released released;
    return std::make_unique<Engine>(paths, table, hyper, EngineOptions{threads, n_context, n_sequences, isa, head_rows, cache_type(key_type, hyper), cache_type(value_type, hyper)});
}

// Asks Python at most every 10 ms: taking the GIL once per layer could cost more than the layer.
class CancelCheck {
public:
    explicit CancelCheck(nb::handle callable) : callable_(callable) {}
    bool operator()() {
        if (leaving.load()) return true;
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(10)) return false;
        last_ = now;
        nb::gil_scoped_acquire acquire;
        return nb::cast<bool>(callable_());
    }

private:
    nb::handle callable_;
    std::chrono::steady_clock::time_point last_{};
};

bool evaluate(Engine& engine, const std::vector<SegmentRow>& rows, nb::object cancelled) {
    std::vector<Segment> segments;
    for (const auto& [sequence, tokens, parents] : rows) segments.push_back({sequence, tokens, parents});
    std::function<bool()> check = [] { return leaving.load(); };
    if (!cancelled.is_none()) check = CancelCheck(cancelled);
    const Released released;
    return engine.forward.run(segments, check);
}

nb::ndarray<nb::numpy, float> logits(Engine& engine, const std::vector<int>& nodes) {
    const auto n = size_t(engine.weights.hyper.vocabulary);
    Owned<float> out(nodes.size() * n);
    {
        const Released released;
        const auto rows = engine.forward.logits(nodes);
        for (size_t i = 0; i < rows.size(); i++) std::copy(rows[i], rows[i] + n, out.data + i * n);
    }
    return out.array({nodes.size(), n});
}

nb::ndarray<nb::numpy, int64_t> argmax(Engine& engine, const std::vector<int>& nodes) {
    Owned<int64_t> out(nodes.size());
    {
        const Released released;
        const auto rows = row_statistics(engine.forward.logits(nodes), engine.weights.hyper.vocabulary, engine.kernels, engine.pool, false);
        for (size_t i = 0; i < rows.size(); i++) out.data[i] = rows[i].argmax;
    }
    return out.array({nodes.size()});
}

nb::ndarray<nb::numpy, double> logsumexp(Engine& engine, const std::vector<int>& nodes) {
    Owned<double> out(nodes.size());
    {
        const Released released;
        const auto rows = row_statistics(engine.forward.logits(nodes), engine.weights.hyper.vocabulary, engine.kernels, engine.pool, true);
        for (size_t i = 0; i < rows.size(); i++) out.data[i] = rows[i].logsumexp;
    }
    return out.array({nodes.size()});
}

nb::tuple top_k_rows(Engine& engine, const std::vector<int>& nodes, int k) {
    const int n = engine.weights.hyper.vocabulary;
    if (k < 1 || k > n) throw std::invalid_argument("k must be 1 to the size of the vocabulary");
    Owned<int64_t> ids(nodes.size() * size_t(k));
    Owned<float> values(nodes.size() * size_t(k));
    {
        const Released released;
        const auto rows = engine.forward.logits(nodes);
        engine.pool.run([&](int thread) {
            for (size_t i = size_t(thread); i < rows.size(); i += size_t(engine.pool.size())) top_k(rows[i], n, k, ids.data + i * size_t(k), values.data + i * size_t(k));
        });
    }
    return nb::make_tuple(ids.array({nodes.size(), size_t(k)}), values.array({nodes.size(), size_t(k)}));
}

nb::ndarray<nb::numpy, float> unpacked_row(const Engine& engine, const std::string& name, int row) {
    const Matrix* matrix = engine.weights.find(name);
    if (!matrix || row < 0 || row >= matrix->rows) throw std::invalid_argument("no such tensor or row");
    Owned<float> out(size_t(matrix->columns));
    matrix->unpack_row(row, out.data);
    return out.array({size_t(matrix->columns)});
}

nb::ndarray<nb::numpy, float> hidden_row(const Engine& engine, int row) {
    if (row < 0 || row >= engine.forward.n_rows()) throw std::invalid_argument("no such row");
    const auto n = size_t(engine.weights.hyper.embedding);
    Owned<float> out(n);
    std::copy(engine.forward.hidden(row), engine.forward.hidden(row) + n, out.data);
    return out.array({n});
}

nb::ndarray<nb::numpy, float> rotation(const HyperParameters& hyper, const std::vector<float>& factors, int position) {
    if (hyper.rope_dimensions < 2 || hyper.rope_dimensions > kMaxHead) throw std::invalid_argument("unusable rope parameters");
    if (!factors.empty() && factors.size() != size_t(hyper.rope_dimensions / 2)) throw std::invalid_argument("one factor for each pair");
    const Rope rope(hyper, factors);
    Owned<float> out(size_t(rope.pairs()) * 2);
    rope.fill(position, out.data);
    return out.array({2, size_t(rope.pairs())});
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* set : usable_kernels()) names.push_back(set->name);
    return names;
}

}  // namespace

NB_MODULE(_core, m) {
    pthread_atfork(nullptr, nullptr, [] { n_released.store(0); });  // the child has none of the other threads
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&leave));
    m.doc() = "Outrider's native CPU engine: weights in panels, one pass for rows of several sequences.";
    nb::class_<HyperParameters>(m, "HyperParameters")
        .def(nb::init<>())
        .def_rw("layers", &HyperParameters::layers)
        .def_rw("embedding", &HyperParameters::embedding)
        .def_rw("feed_forward", &HyperParameters::feed_forward)
        .def_rw("heads", &HyperParameters::heads)
        .def_rw("kv_heads", &HyperParameters::kv_heads)
        .def_rw("head", &HyperParameters::head)
        .def_rw("context", &HyperParameters::context)
        .def_rw("vocabulary", &HyperParameters::vocabulary)
        .def_rw("epsilon", &HyperParameters::epsilon)
        .def_rw("rope_base", &HyperParameters::rope_base)
        .def_rw("rope_scale", &HyperParameters::rope_scale)
        .def_rw("rope_dimensions", &HyperParameters::rope_dimensions)
        .def_rw("rope_neox", &HyperParameters::rope_neox)
        .def_rw("rope_factors", &HyperParameters::rope_factors)
        .def_rw("rope_attention_factor", &HyperParameters::rope_attention_factor)
        .def_rw("rope_extrapolation", &HyperParameters::rope_extrapolation)
        .def_rw("rope_beta_fast", &HyperParameters::rope_beta_fast)
        .def_rw("rope_beta_slow", &HyperParameters::rope_beta_slow)
        .def_rw("rope_log_multiplier", &HyperParameters::rope_log_multiplier)
        .def_rw("rope_original_context", &HyperParameters::rope_original_context)
        .def_rw("window", &HyperParameters::window);
    nb::class_<Engine>(m, "Engine")
        .def_prop_ro("isa", [](const Engine& e) { return std::string(e.kernels.name); })
        .def_prop_ro("threads", [](const Engine& e) { return e.pool.size(); })
        .def_prop_ro("weight_bytes", [](const Engine& e) { return e.weights.bytes(); })
        .def_prop_ro("bytes_per_pass", [](const Engine& e) { return e.weights.bytes_per_pass(); })
        .def_prop_ro("cache_bytes", [](const Engine& e) { return e.cache.bytes(); })
        .def("open", [](Engine& e) { return e.cache.open(); })
        .def("close", [](Engine& e, int id) { e.cache.close(id); })
        .def("length", [](Engine& e, int id) { return e.cache.at(id).length; })
        .def("reserve", [](Engine& e, int id, int n) { return e.cache.reserve(e.cache.at(id), n); })
        .def("fork", [](Engine& e, int id, int length) { return e.cache.fork(id, length); })
        .def("truncate", [](Engine& e, int id, int length) { e.cache.truncate(e.cache.at(id), length); })
        .def("commit", [](Engine& e, int id, const std::vector<int>& nodes) { e.cache.commit(e.cache.at(id), nodes); })
        .def("evaluate", &evaluate, nb::arg("segments"), nb::arg("cancelled").none())
        .def("logits", &logits)
        .def("argmax", &argmax)
        .def("logsumexp", &logsumexp)
        .def("top_k", &top_k_rows)
        .def("unpacked_row", &unpacked_row)
        .def("hidden_row", &hidden_row);
    m.def("load", &load, nb::arg("paths"), nb::arg("table"), nb::arg("hyper"), nb::arg("threads"), nb::arg("n_context"), nb::arg("n_sequences"), nb::arg("isa"),
          nb::arg("head_rows"), nb::arg("key_type") = "f16", nb::arg("value_type") = "f16");
    m.def("instruction_sets", &instruction_sets);
    m.def("rotation", &rotation);
    m.def("allowed_cpus", &allowed_cpus);
    m.def("supported_types", [] {
        std::vector<int> types;
        for (int f = 0; f < kFormats; f++) types.push_back(format_info(Format(f)).type);
        return types;
    });
    m.def("stream_gb_per_s", [](int threads, size_t bytes) { const Released released; return stream_gb_per_s(threads, bytes); });
    m.def("int8_gmac_per_s", [](int threads, const std::string& isa) { const Released released; return int8_gmac_per_s(threads, choose_kernels(isa)); });
}
