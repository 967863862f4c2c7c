// Whole passes over tiny models: whatever shares a pass, and whichever set and threads run it, a row's logits are the same bytes.
#include <cmath>
#include <stdexcept>

#include "check.h"
#include "tiny_model.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

constexpr int kContext = 320;

struct CacheTypes {
    CacheType keys, values;
};

struct Loaded {
    TinyModel model;
    MemoryFile file;
    CacheTypes types;
    Tokens tokens;
    std::vector<float> expected;  // logits of all tokens: the scalar reference, one thread, one pass

    Loaded(const TinyShape& shape, CacheTypes cached, size_t n_tokens) : model(shape), file(model.bytes), types(cached), tokens(n_tokens) {
        Random random(n_tokens);
        for (int& token : tokens) token = random.below(shape.vocabulary);
        auto engine = make("scalar", 1);
        expected = feed(*engine, engine->cache.open(), tokens, int(n_tokens));
        float low = expected.back(), high = low;
        for (float x : expected) CHECK(std::isfinite(x));
        for (int i = 1; i <= shape.vocabulary; i++) low = std::min(low, expected[expected.size() - size_t(i)]), high = std::max(high, expected[expected.size() - size_t(i)]);
        CHECK(high > low);
    }
    std::unique_ptr<Engine> make(const char* isa, int threads, std::vector<std::pair<int, int>> head_rows = {}) const {
        return std::make_unique<Engine>(std::vector<std::string>{file.path()}, model.table, model.hyper, EngineOptions{threads, kContext, 4, isa, std::move(head_rows), types.keys, types.values});
    }
    Tokens part(size_t from, size_t to) const { return {tokens.begin() + ptrdiff_t(from), tokens.begin() + ptrdiff_t(to)}; }
    bool same(const std::vector<float>& rows, size_t from) const {
        const size_t at = from * size_t(model.hyper.vocabulary);
        return at + rows.size() <= expected.size() && std::memcmp(rows.data(), expected.data() + at, rows.size() * 4) == 0;
    }
};

void check_chunks(const Loaded& m, const char* isa, int threads) {
    auto engine = m.make(isa, threads);
    for (int chunk : {1000, 7}) {
        const int sequence = engine->cache.open();
        CHECK(m.same(feed(*engine, sequence, m.tokens, chunk), 0));
        CHECK(size_t(engine->cache.at(sequence).length) == m.tokens.size());
        engine->cache.close(sequence);
    }
    CHECK(engine->cache.bytes() == 0);
}

// Every batch from one row to three tiles, after taking back what the last one wrote.
void check_batches(const Loaded& m, Engine& engine) {
    const size_t start = m.tokens.size() - 24;
    const int sequence = engine.cache.open();
    feed(engine, sequence, m.part(0, start), 64);
    for (size_t n = 1; n <= 24; n++) {
        CHECK(m.same(feed(engine, sequence, m.part(start, start + n), int(n)), start));
        engine.cache.truncate(engine.cache.at(sequence), int(start));
    }
    engine.cache.close(sequence);
}

// The right token between two wrong siblings at every depth, right across a page's end where there are tokens enough.
void check_tree(const Loaded& m, Engine& engine, size_t start) {
    const int sequence = engine.cache.open(), vocabulary = m.model.hyper.vocabulary;
    feed(engine, sequence, m.part(0, start), 64);
    Segment tree{sequence, {}, {}};
    std::vector<int> path;
    for (int depth = 0, last = -1; depth < 6; depth++) {
        const int right = m.tokens[start + size_t(depth)];
        for (int token : {(right + 1) % vocabulary, right, (right + 2) % vocabulary}) tree.tokens.push_back(token), tree.parents.push_back(last);
        path.push_back(last = 3 * depth + 1);
    }
    CHECK(engine.forward.run({tree}, nullptr));
    CHECK(m.same(rows_of(engine, path), start));
    Sequence& line = engine.cache.at(sequence);
    CHECK_THROWS(std::invalid_argument, engine.cache.commit(line, {1, 6}));
    CHECK_THROWS(std::invalid_argument, engine.cache.commit(line, {4}));
    CHECK_THROWS(std::invalid_argument, engine.forward.run({tree}, nullptr));  // rows are pending
    engine.cache.commit(line, path);
    CHECK(m.same(feed(engine, sequence, m.part(start + 6, start + 11), 2), start + 6));
    engine.cache.close(sequence);
}

void check_forks(const Loaded& m, Engine& engine) {
    const int first = engine.cache.open();
    feed(engine, first, m.part(0, 20), 20);
    const int second = engine.cache.fork(first, 12);
    CHECK_THROWS(std::invalid_argument, engine.cache.fork(first, 21));
    feed(engine, second, m.part(3, 18), 4);  // other tokens at the same positions
    CHECK(m.same(feed(engine, first, m.part(20, 25), 3), 20));
    engine.cache.truncate(engine.cache.at(second), 12);
    CHECK(m.same(feed(engine, second, m.part(12, 20), 8), 12));
    // Both in one pass, a third beside them.
    const int third = engine.cache.open();
    CHECK(engine.forward.run({{first, m.part(25, 27), chain(2)}, {second, m.part(20, 23), chain(3)}, {third, m.part(0, 9), chain(9)}}, nullptr));
    CHECK(m.same(rows_of(engine, {0, 1}), 25) && m.same(rows_of(engine, {2, 3, 4}), 20) && m.same(rows_of(engine, {5, 6, 7, 8, 9, 10, 11, 12, 13}), 0));
    for (int sequence : {first, second, third}) engine.cache.close(sequence);
    CHECK(engine.cache.bytes() == 0);
}

// A fork while the parent's rows are pending, and a commit that moves them: neither may see the other's.
void check_fork_of_pending(const Loaded& m, Engine& engine) {
    const int parent = engine.cache.open();
    feed(engine, parent, m.part(0, 10), 10);
    CHECK(engine.forward.run({{parent, {m.tokens[0], m.tokens[10], m.tokens[11]}, {-1, -1, 1}}}, nullptr));
    const int child = engine.cache.fork(parent, 10);
    engine.cache.commit(engine.cache.at(parent), {1, 2});
    CHECK(m.same(feed(engine, child, m.part(10, 14), 4), 10));
    CHECK(m.same(feed(engine, parent, m.part(12, 16), 4), 12));
    for (int sequence : {parent, child}) engine.cache.close(sequence);
}

void check_interruptions(const Loaded& m, Engine& engine) {
    const int sequence = engine.cache.open();
    feed(engine, sequence, m.part(0, 10), 10);
    const Segment segment{sequence, m.part(10, 14), chain(4)};
    CHECK(!engine.forward.run({segment}, [] { return true; }));
    CHECK_THROWS(std::invalid_argument, engine.forward.logits({0}));
    // A caller's check that throws ends the pass as well: Ctrl-C arrives that way.
    CHECK_THROWS(std::domain_error, engine.forward.run({segment}, []() -> bool { throw std::domain_error("interrupted"); }));
    CHECK_THROWS(std::invalid_argument, engine.forward.logits({0}));
    int asked = 0;
    CHECK(engine.forward.run({segment}, [&] { return asked++ > 1000; }) && asked == m.model.hyper.layers);
    CHECK(m.same(rows_of(engine, {0, 1, 2, 3}), 10));
    engine.cache.close(sequence);
}

void check_misuse(const Loaded& m, Engine& engine) {
    const int sequence = engine.cache.open(), vocabulary = m.model.hyper.vocabulary;
    auto run = [&](std::vector<Segment> segments) { return engine.forward.run(segments, nullptr); };
    CHECK_THROWS(std::invalid_argument, run({}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {}, {}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {1}, {}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {vocabulary}, {-1}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {-1}, {-1}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {1}, {0}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {1, 1}, {-1, -2}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence, {1}, {-1}}, {sequence, {1}, {-1}}}));
    CHECK_THROWS(std::invalid_argument, run({{sequence + 1, {1}, {-1}}}));
    CHECK_THROWS(std::invalid_argument, run({{99, {1}, {-1}}}));
    CHECK_THROWS(std::out_of_range, run({{sequence, Tokens(kContext + 1, 0), chain(kContext + 1)}}));
    CHECK_THROWS(std::invalid_argument, engine.forward.logits({0}));
    CHECK_THROWS(std::invalid_argument, engine.cache.truncate(engine.cache.at(sequence), 1));
    CHECK_THROWS(std::invalid_argument, engine.cache.commit(engine.cache.at(sequence), {0}));
    CHECK(run({{sequence, Tokens(kContext, 0), chain(kContext)}}));  // the last position is a good one
    engine.cache.truncate(engine.cache.at(sequence), 0);
    while (true) {
        try {
            engine.cache.open();
        } catch (const std::runtime_error&) {
            break;
        }
    }
    for (int id = 0; id < 4; id++) engine.cache.close(id);
    CHECK_THROWS(std::invalid_argument, engine.cache.close(0));
}

// A head of some rows only: they are what the whole head has; the others can never be chosen, in whichever batch.
void check_trimmed_head(const Loaded& m) {
    auto engine = m.make("", 2, {{0, 16}, {20, 21}});
    const int sequence = engine->cache.open(), vocabulary = m.model.hyper.vocabulary;
    for (size_t n : {1, 2, 3, 5, 8, 13, 24}) {
        CHECK(engine->forward.run({{sequence, m.part(0, n), chain(n)}}, nullptr));
        for (size_t r = 0; r < n; r++) {
            const float *row = engine->forward.logits({int(r)})[0], *whole = m.expected.data() + r * size_t(vocabulary);
            CHECK(std::memcmp(row, whole, 32 * 4) == 0);
            for (int i = 32; i < vocabulary; i++) CHECK(row[i] == -INFINITY);
        }
        engine->cache.truncate(engine->cache.at(sequence), 0);
    }
    CHECK_THROWS(std::invalid_argument, m.make("", 1, {{0, vocabulary + 1}}));
    CHECK_THROWS(std::invalid_argument, m.make("", 1, {{5, 5}}));
    CHECK_THROWS(std::invalid_argument, m.make("", 1, {{32, 40}, {0, 3}}));
}

// What samplers ask, against the plain loops.
void check_reductions(const Loaded& m) {
    auto engine = m.make("", 3);
    const int sequence = engine->cache.open(), vocabulary = m.model.hyper.vocabulary;
    CHECK(engine->forward.run({{sequence, m.part(0, 5), chain(5)}}, nullptr));
    const auto rows = engine->forward.logits({4, 0, 2});
    const auto found = row_statistics(rows, vocabulary, engine->kernels, engine->pool, true);
    for (size_t r = 0; r < rows.size(); r++) {
        int best = 0;
        double sum = 0.0;
        for (int i = 0; i < vocabulary; i++) best = rows[r][i] > rows[r][best] ? i : best, sum += std::exp(double(rows[r][i]));
        CHECK(found[r].argmax == best && found[r].max == rows[r][best]);
        CHECK(std::fabs(found[r].logsumexp - std::log(sum)) < 1e-5);
        std::vector<int64_t> ids(static_cast<size_t>(vocabulary));
        std::vector<float> values(ids.size());
        top_k(rows[r], vocabulary, vocabulary, ids.data(), values.data());
        CHECK(ids[0] == best);
        for (size_t i = 1; i < ids.size(); i++) CHECK(values[i - 1] > values[i] || (values[i - 1] == values[i] && ids[i - 1] < ids[i]));
    }
}

void check_model(const TinyShape& shape, CacheTypes types, size_t n_tokens, bool every_set) {
    const Loaded m(shape, types, n_tokens);
    for (const Kernels* set : usable_kernels())
        for (int threads : {1, 2, 3}) {
            const bool reference = set == &kScalarKernels && threads != 2;  // slow, and what `expected` is
            if (set == usable_kernels().front() || (every_set && !reference)) check_chunks(m, set->name, threads);
        }
    for (int threads : {1, 2, 3}) {
        if (threads == 1 && std::getenv("OUTRIDER_EMULATED")) continue;
        auto engine = m.make("", threads);
        check_batches(m, *engine);
        check_tree(m, *engine, 5);
        if (n_tokens > kChunk + 10) check_tree(m, *engine, kChunk - 3);
        check_forks(m, *engine);
        check_fork_of_pending(m, *engine);
        check_interruptions(m, *engine);
        check_misuse(m, *engine);
    }
    check_trimmed_head(m);
    check_reductions(m);
}

}  // namespace

int main() {
    const bool slow = std::getenv("OUTRIDER_EMULATED") != nullptr;
    check_model(kLlama, {kCacheF16, kCacheF16}, slow ? 27 : 40, !slow);
    check_model(kLlama, {kCacheQ80, kCacheQ80}, slow ? 27 : 40, false);
    if (!slow) check_model(kQwen2, {kCacheF16, kCacheQ80}, 290, false);  // beyond a page of 256 positions
    if (!slow) check_model(kMistral, {kCacheQ80, kCacheF16}, 290, false);
    check_model(kQwen3, {kCacheF16, kCacheF16}, slow ? 33 : 40, true);
    return finish("passes");
}
