// Cached keys and values: where their bytes lie, and attention over them. Every set against the scalar reference, byte for byte, and
// the reference against plain sums; what lies beyond the keys that a query sees is NaN.
#include <algorithm>
#include <cmath>

#include "blocks.h"
#include "check.h"
#include "plane.h"
#include "sets.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

// Where a number of a position lies, as kernels.h describes it, counted in numbers.
size_t number_at(const PlaneLayout& layout, int p, int d) {
    const int head = layout.head;
    if (layout.role == PlaneRole::kValues) return size_t(d / 16 * 16 * kChunk + p * 16 + d % 16);
    if (layout.type == kCacheF16) return size_t(p / 16 * 16 * head + d * 16 + p % 16);
    return size_t(p / 16 * 16 * head + d / 4 * 64 + p % 16 * 4 + d % 4);
}

// The same for the scale of a block of 32.
size_t scale_at(const PlaneLayout& layout, int p, int b) {
    const int n_blocks = layout.head / kCacheBlock;
    return layout.role == PlaneRole::kValues ? size_t(b * kChunk + p) : size_t(p / 16 * 16 * n_blocks + b * 16 + p % 16);
}

// A plane of random rows, the bytes of each apart as well.
struct Plane {
    PlaneLayout layout;
    Guarded<uint8_t> bytes;
    std::vector<std::vector<uint8_t>> rows;
    std::vector<std::vector<float>> numbers;  // what the rows stand for

    Plane(Random& random, PlaneLayout l, int n) : layout(l), bytes(l.bytes()) {
        for (int p = 0; p < n; p++) {
            std::vector<float> x(static_cast<size_t>(l.head));
            for (float& value : x) value = random.within(-1.0f, 1.0f);
            pack(x);
            layout.write(bytes.data(), p, rows.back().data());
        }
    }

private:
    void pack(std::vector<float>& x) {
        std::vector<uint8_t> row(layout.row_bytes());
        const auto head = size_t(layout.head);
        if (layout.type == kCacheF16) {
            kScalarKernels.to_half(x.data(), layout.head, reinterpret_cast<uint16_t*>(row.data()));
            for (size_t d = 0; d < head; d++) x[d] = half(row.data(), d);
        } else {
            kScalarKernels.to_q80(x.data(), layout.head, reinterpret_cast<int8_t*>(row.data()), reinterpret_cast<uint16_t*>(row.data() + head));
            for (size_t d = 0; d < head; d++) {
                x[d] = float(int8_t(row[d])) * half(row.data() + head, d / kCacheBlock);
                if (layout.role == PlaneRole::kKeys) row[d] ^= 0x80;
            }
        }
        rows.push_back(row), numbers.push_back(x);
    }
    static float half(const uint8_t* from, size_t i) {
        uint16_t bits;
        std::memcpy(&bits, from + 2 * i, 2);
        return half_to_float(bits);
    }
};

// Whether position `at` of a plane holds the row.
bool holds(const PlaneLayout& layout, const uint8_t* plane, int at, const std::vector<uint8_t>& row) {
    const size_t size = layout.type == kCacheF16 ? 2 : 1, numbers = size_t(layout.head) * size;
    for (int d = 0; d < layout.head; d++)
        if (std::memcmp(plane + number_at(layout, at, d) * size, row.data() + size_t(d) * size, size) != 0) return false;
    for (int b = 0; layout.type == kCacheQ80 && b < layout.head / kCacheBlock; b++)
        if (std::memcmp(plane + kChunk * numbers + scale_at(layout, at, b) * 2, row.data() + numbers + size_t(b) * 2, 2) != 0) return false;
    return true;
}

void check_plane(const PlaneLayout& layout) {
    Random random(uint64_t(layout.head * 4 + int(layout.role) * 2 + layout.type));
    Plane plane(random, layout, kChunk);
    CHECK(layout.bytes() == kChunk * layout.row_bytes());
    for (int p = 0; p < kChunk; p++) CHECK(holds(layout, plane.bytes.data(), p, plane.rows[size_t(p)]));
    for (int n : {0, 1, 15, 16, 17, 100, kChunk}) {
        Guarded<uint8_t> copy(layout.bytes());
        layout.copy_first(plane.bytes.data(), copy.data(), n);
        for (int p = 0; p < n; p++) CHECK(holds(layout, copy.data(), p, plane.rows[size_t(p)]));
        // A single position changes its own bytes, and no others.
        const int from = random.below(kChunk), to = random.below(kChunk);
        layout.copy(plane.bytes.data(), from, copy.data(), to);
        for (int p = 0; p < n; p++) CHECK(holds(layout, copy.data(), p, plane.rows[size_t(p == to ? from : p)]));
        CHECK(holds(layout, copy.data(), to, plane.rows[size_t(from)]));
    }
}

enum class Sight { kAll, kCausal, kWindows };

// Which keys each query sees; at least one.
std::vector<KeyRange> ranges_of(Random& random, Sight sight, int n, int n_keys) {
    std::vector<KeyRange> visible(size_t(n), KeyRange{0, n_keys});
    for (int t = 0; t < n; t++) {
        KeyRange& range = visible[size_t(t)];
        if (sight == Sight::kCausal) range.end = std::max(1, n_keys - n + 1 + t);
        if (sight == Sight::kWindows) range.begin = random.below(n_keys), range.end = range.begin + 1 + random.below(n_keys - range.begin);
    }
    return visible;
}

class Attention {
public:
    Attention(Random& random, CacheType type, int n_queries, int n_keys, int head, Sight sight)
        : n_(n_queries), head_(head), visible_(ranges_of(random, sight, n_queries, n_keys)), keys_(random, {PlaneRole::kKeys, type, head}, n_keys),
          values_(random, {PlaneRole::kValues, type, head}, n_keys), queries_(results()), out_(results()), scores_(size_t(n_queries * kChunk)), state_(size_t(2 * n_queries)) {
        for (int t = 0; t < n_; t++)
            for (int d = 0; d < head_; d++) queries_[size_t(t * kMaxHead + d)] = random.within(-1.0f, 1.0f);
    }

    // The queries from `first` on, so many at a time.
    void run(const Kernels& set, int first, int n) {
        if (first == 0) out_.poison(), scores_.poison(), state_.poison();
        const auto at = size_t(first);
        const AttendJob job{keys_.bytes.data(), values_.bytes.data(), head_, visible_.data() + at, queries_.data() + at * kMaxHead, scores_.data() + at * kChunk, out_.data() + at * kMaxHead,
                            state_.data() + at, state_.data() + n_ + at};
        set.score[keys_.layout.type][n - 1](job);
        set.weigh(job, n);
        set.mix[values_.layout.type][n - 1](job);
    }

    // Outputs, and weights of what is seen; scores of other keys are anyone's.
    bool equals(Attention& other) {
        for (int t = 0; t < n_; t++) {
            const auto from = size_t(t * kChunk + visible_[size_t(t)].begin);
            const auto bytes = size_t(visible_[size_t(t)].end - visible_[size_t(t)].begin) * sizeof(float);
            if (std::memcmp(&scores_[from], &other.scores_[from], bytes) != 0) return false;
        }
        return out_.equals(other.out_) && state_.equals(other.state_);
    }

    // Against softmax in double precision. Queries over q8_0 keys are quantised too.
    void check() {
        for (int t = 0; t < n_; t++) {
            const auto query = query_of(t);
            const KeyRange range = visible_[size_t(t)];
            std::vector<double> weights;
            double max = -INFINITY, sum = 0.0;
            for (int k = range.begin; k < range.end; k++) {
                double score = 0.0;
                for (size_t d = 0; d < query.size(); d++) score += query[d] * double(keys_.numbers[size_t(k)][d]);
                weights.push_back(score), max = std::max(max, score);
            }
            for (double& weight : weights) sum += weight = std::exp(weight - max);
            CHECK(std::fabs(double(state_[size_t(t)]) - max) <= 1e-4 && std::fabs(double(state_[size_t(n_ + t)]) - sum) <= 1e-4 * sum);
            for (int d = 0; d < head_; d++) {
                double mixed = 0.0;
                for (size_t k = 0; k < weights.size(); k++) mixed += weights[k] * double(values_.numbers[size_t(range.begin) + k][size_t(d)]);
                CHECK(std::fabs(double(out_[size_t(t * kMaxHead + d)]) - mixed) <= 1e-4 * sum);
            }
        }
    }

private:
    size_t results() const { return size_t((n_ - 1) * kMaxHead + head_); }
    std::vector<double> query_of(int t) {
        const float* x = queries_.data() + t * kMaxHead;
        std::vector<double> query(x, x + head_);
        for (size_t d = 0; keys_.layout.type == kCacheQ80 && d < query.size(); d++) {
            const float* block = x + d / kCacheBlock * kCacheBlock;
            float largest = 0.0f;
            for (int i = 0; i < kCacheBlock; i++) largest = std::max(largest, std::fabs(block[i]));
            query[d] = double(std::nearbyint(x[d] * (127.0f / largest))) * double(largest / 127.0f);
        }
        return query;
    }

    int n_, head_;
    std::vector<KeyRange> visible_;
    Plane keys_, values_;
    Guarded<float> queries_, out_, scores_, state_;  // state: maxima, then sums
};

void check_attention(CacheType type, int n, int n_keys, int head, Sight sight) {
    const auto seed = uint64_t(((type * 10 + n) * 300 + n_keys) * 300 + head);
    Random random(seed), again(seed);
    Attention expected(random, type, n, n_keys, head, sight), got(again, type, n, n_keys, head, sight);
    expected.run(kScalarKernels, 0, n);
    expected.check();
    for (const Kernels* set : vector_sets()) {
        got.run(*set, 0, n);
        CHECK(got.equals(expected));
    }
    for (int t = 0; t < n; t++) got.run(*usable_kernels().front(), t, 1);  // alone, whatever others see
    CHECK(got.equals(expected));
}

}  // namespace

int main() {
    const bool slow = std::getenv("OUTRIDER_EMULATED") != nullptr;
    for (CacheType type : {kCacheF16, kCacheQ80})
        for (int head : {type == kCacheF16 ? 16 : 32, type == kCacheF16 ? 80 : 96, kMaxHead}) {
            for (PlaneRole role : {PlaneRole::kKeys, PlaneRole::kValues}) check_plane({role, type, head});
            for (int n = 1; n <= kMaxTile; n++)
                for (int n_keys : {1, 17, 100, kChunk})
                    for (Sight sight : {Sight::kAll, Sight::kCausal, Sight::kWindows})
                        if (!slow || n_keys < 100 || n == 5) check_attention(type, n, n_keys, head, sight);
        }
    return finish("attention");
}
