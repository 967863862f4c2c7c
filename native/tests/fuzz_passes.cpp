// Any order of open, evaluate, commit, truncate, fork, cancel and close: misuse throws, and whatever led to it, a sequence says about
// its next token what a fresh one with the same tokens says.
#include <stdexcept>

#include "input.h"
#include "tiny_model.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

constexpr int kContext = 300, kLines = 3, kVocabulary = 20;

struct Subject {
    int window;
    TinyModel model{{1, 32, 32, 2, 1, 32, kVocabulary, false, false, true, true, false, window}};
    MemoryFile file{model.bytes};
    Pool pool{1}, pair{2};
    Weights weights{{file.path()}, model.table, model.hyper, {}, pool};
};

// What a line must hold: the committed tokens, and the pending rows.
struct Line {
    bool open = false;
    Tokens tokens;
    Segment pending;
};

class Machine {
public:
    Machine(Subject& subject, CacheType keys, CacheType values, Pool& pool)
        : cache_({subject.model.hyper.layers, subject.model.hyper.kv_heads, subject.model.hyper.head, keys, values}, kContext, kLines),
          forward_(subject.weights, cache_, *usable_kernels().front(), pool), lines_(kLines) {}

    void step(Input& input) {
        const int id = input.below(kLines + 1) - (input.below(32) == 31);  // -1 and kLines don't exist
        const int op = input.below(9);
        try {
            switch (op) {
                case 0: opened(cache_.open()); break;
                case 1: cache_.close(id), lines_[size_t(id)] = Line(); break;
                case 2: fork(id, input.below(kContext)); break;
                case 3: truncate(id, input.below(4) ? length(id) - input.below(16) : input.below(kContext)); break;
                case 4: commit(id, input); break;
                case 5: reserve(id, input.below(kContext + 10) - 3); break;
                default: evaluate(input, op == 8); break;
            }
        } catch (const std::invalid_argument&) {
        } catch (const std::out_of_range&) {
        } catch (const std::runtime_error&) {
        }
        for (int line = 0; line < kLines; line++)
            if (lines_[size_t(line)].open) CHECK(cache_.at(line).length == int(lines_[size_t(line)].tokens.size()));
            else CHECK_THROWS(std::invalid_argument, cache_.at(line));
    }

    // Every line's next row, in one pass, against a machine that has seen nothing else.
    void compare(Subject& subject) {
        std::vector<Segment> segments;
        for (int id = 0; id < kLines; id++) {
            if (!lines_[size_t(id)].open || lines_[size_t(id)].tokens.size() + 1 > kContext) continue;
            cache_.truncate(cache_.at(id), cache_.at(id).length);
            segments.push_back({id, {id}, {-1}});
        }
        if (segments.empty()) return;
        CHECK(forward_.run(segments, nullptr));
        for (size_t i = 0; i < segments.size(); i++) {
            Machine fresh(subject, cache_.shape().key_type, cache_.shape().value_type, subject.pool);
            Tokens tokens = lines_[size_t(segments[i].sequence)].tokens;
            tokens.push_back(segments[i].tokens[0]);
            const int id = fresh.cache_.open(), last = int(tokens.size()) - 1;
            CHECK(fresh.forward_.run({{id, tokens, chain(tokens.size())}}, nullptr));
            CHECK(std::memcmp(fresh.forward_.logits({last})[0], forward_.logits({int(i)})[0], kVocabulary * 4) == 0);
        }
    }

private:
    int length(int id) { return cache_.at(id).length; }
    void opened(int id) { lines_[size_t(id)].open = true; }
    void fork(int id, int length) {
        length = std::min(length, this->length(id) + 1);
        const int child = cache_.fork(id, length);
        const Tokens& tokens = lines_[size_t(id)].tokens;
        lines_[size_t(child)] = {true, {tokens.begin(), tokens.begin() + length}, {}};
    }
    void truncate(int id, int length) {
        cache_.truncate(cache_.at(id), length);
        lines_[size_t(id)].tokens.resize(size_t(length));
        lines_[size_t(id)].pending = {};
    }
    void reserve(int id, int n) {
        Sequence& sequence = cache_.at(id);
        if (!lines_[size_t(id)].pending.tokens.empty()) return;  // a pass's own business
        CHECK(cache_.reserve(sequence, n) == (n >= 0 && sequence.length + n <= kContext));
    }
    void commit(int id, Input& input) {
        Sequence& sequence = cache_.at(id);
        Line& line = lines_[size_t(id)];
        std::vector<int> nodes;
        const auto& parents = line.pending.parents;
        if (input.below(8) == 7) {
            for (int n = input.below(4); n > 0; n--) nodes.push_back(input.below(8) - 1);
        } else if (!parents.empty()) {
            for (int node = input.below(int(parents.size())); node >= 0; node = parents[size_t(node)]) nodes.insert(nodes.begin(), node);
        }
        cache_.commit(sequence, nodes);
        for (int node : nodes) line.tokens.push_back(line.pending.tokens[size_t(node)]);
        line.pending = {};
    }
    void evaluate(Input& input, bool cancel) {
        std::vector<Segment> segments;
        for (int id = 0; id < kLines; id++) {
            if (!input.below(2)) continue;
            const bool tree = input.below(2) != 0;
            const int n = input.below(16) ? 1 + input.below(10) : input.below(280);
            Segment segment{input.below(64) ? id : input.below(8), Tokens(size_t(n)), {}};
            for (int i = 0; i < n; i++) {
                segment.tokens[size_t(i)] = i < 12 ? input.below(kVocabulary + (input.below(128) == 127)) : (i * 7 + n) % kVocabulary;
                segment.parents.push_back(tree && i ? input.below(i + 1) - 1 : i - 1);
            }
            segments.push_back(std::move(segment));
        }
        const bool finished = forward_.run(segments, cancel ? std::function<bool()>([] { return true; }) : nullptr);
        CHECK(finished != cancel);
        if (!finished) return;
        for (const Segment& segment : segments) lines_[size_t(segment.sequence)].pending = segment;
        forward_.logits({input.below(forward_.n_rows() + 1)});
    }

    Cache cache_;
    Forward forward_;
    std::vector<Line> lines_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Subject subjects[] = {{0}, {40}};
    Input input(data, size);
    Subject& subject = subjects[input.below(2)];
    const auto keys = CacheType(input.below(kCacheTypes)), values = CacheType(input.below(kCacheTypes));
    Machine machine(subject, keys, values, input.below(64) ? subject.pool : subject.pair);
    for (int n = 0; n < 40 && !input.empty(); n++) machine.step(input);
    machine.compare(subject);
    return 0;
}
