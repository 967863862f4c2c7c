// Every kernel of every set that runs here against the scalar reference, byte for byte, into poisoned memory with guarded ends.
#include <cmath>

#include "blocks.h"
#include "check.h"
#include "dispatch.h"
#include "sets.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

// Activations of one tile as one kind of matrix wants them: its arrays exactly as long as the contract says, the others empty.
struct Tile {
    Guarded<int32_t> values, offsets, pairs, halves;
    Guarded<float> scales, sums, floats;
    Tile(ActivationKind kind, int columns, int n) : Tile(kind, size_t(columns) * size_t(n)) { CHECK(columns % (kind == ActivationKind::kPer256 ? 256 : 64) == 0); }
    ActivationTile view() { return {values.data(), scales.data(), offsets.data(), pairs.data(), halves.data(), sums.data(), floats.data()}; }

private:
    Tile(ActivationKind kind, size_t size) : Tile(size * (kind == ActivationKind::kPer256), size * (kind == ActivationKind::kPer32), size * (kind == ActivationKind::kFloat)) {}
    Tile(size_t per_256, size_t per_32, size_t whole)
        : values((per_256 + per_32) / 4), offsets(per_256 / 8 + per_32 / 32), pairs(per_256 / 64), halves(per_256 / 32), scales(per_256 / 256 + per_32 / 32), sums(per_32 / 32), floats(whole) {}
};

ActivationTile from_column(const ActivationTile& x, ActivationKind kind, int column, int n) {
    const int scale = kind == ActivationKind::kPer256 ? 256 : 32, offset = kind == ActivationKind::kPer256 ? 8 : 32;
    return {x.values + column / 4 * n, x.scales + column / scale * n, x.offsets + column / offset * n, x.pairs + column / 64 * n,
            x.halves + column / 32 * n, x.sums + column / 32 * n, x.floats + column * n};
}

// What an activation stands for.
double value_of(const ActivationTile& x, ActivationKind kind, int column, int row, int n) {
    if (kind == ActivationKind::kFloat) return double(x.floats[column * n + row]);
    const auto q = int8_t(uint32_t(x.values[column / 4 * n + row]) >> (column % 4 * 8));
    return q * double(x.scales[column / (kind == ActivationKind::kPer256 ? 256 : 32) * n + row]);
}

struct Case {
    const FormatInfo& info;
    int n_panels, n;       // panels of the row group, activation rows
    int split;             // panels of the first of two jobs; n_panels for a single one
    bool bias, accumulate;
    Prefetch prefetch;
    bool unpacked;
    int stride;
};

void multiply(const Kernels& set, const Case& c, const uint8_t* panels, const ActivationTile& x, const float* bias, float* y) {
    Guarded<float> carry(size_t(c.n * kGroupRows));
    for (int panel = 0; panel < c.n_panels;) {
        const int count = panel ? c.n_panels - panel : c.split;
        const ActivationTile part = from_column(x, c.info.activation, panel * c.info.panel_columns, c.n);
        const uint8_t* from = panels + size_t(kGroupPanels * panel) * size_t(c.info.panel_bytes);
        Guarded<uint8_t> bytes(size_t(count * kGroupRows * c.info.panel_columns));
        const bool unpacked = c.unpacked && c.n >= kMaxTile / 2 && set.unpack[c.info.format];
        if (unpacked) set.unpack[c.info.format](from, count, bytes.data());
        set.multiply[c.info.format][c.n - 1]({from, count, unpacked ? bytes.data() : nullptr, part, carry.data(), panel == 0,
                                              panel + count == c.n_panels, c.prefetch, y, c.stride, c.bias ? bias : nullptr, c.accumulate});
        panel += count;
    }
}

// Rows of floats that are hard on a kernel; only the first three kinds are finite.
constexpr int kFillings = 5;

void fill(Random& random, Guarded<float>& x, int kind) {
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = random.within(-8.0f, 8.0f);
        if (kind == 1) x[i] *= 1e-38f;
        if (kind == 2) x[i] = random.below(9) ? 0.0f : x[i] * 4e37f;
    }
    if (kind == 3) x[size_t(random.below(int(x.size())))] = NAN;
    if (kind == 4) x[size_t(random.below(int(x.size())))] = -INFINITY;
}

// The same bytes, or NaN in both: which NaN is the processor's own business.
bool same(Guarded<float>& a, Guarded<float>& b) {
    for (size_t i = 0; i < a.size(); i++)
        if (std::memcmp(&a[i], &b[i], 4) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    return true;
}

bool same(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b)); }

// What the reference must come to: the sum over the unpacked weights in double precision, up to rounding.
void check_sums(const Case& c, const uint8_t* panels, const ActivationTile& x, const float* y) {
    const int columns = c.n_panels * c.info.panel_columns;
    std::vector<float> weights(static_cast<size_t>(columns));
    for (int lane = 0; lane < kGroupRows; lane++) {
        c.info.unpack_row(panels, columns, lane, weights.data());
        for (int t = 0; t < c.n; t++) {
            double sum = 0.0, size = 0.0;
            for (int i = 0; i < columns; i++) {
                const double product = double(weights[size_t(i)]) * value_of(x, c.info.activation, i, t, c.n);
                sum += product, size += std::fabs(product);
            }
            CHECK(std::fabs(sum - double(y[t * c.stride + lane])) <= 1e-5 * size + 1e-9);
        }
    }
}

void check_multiply(const FormatInfo& info, int n_panels, int n) {
    Random random(uint64_t(info.type * 1000 + n_panels * 10 + n));
    const int columns = n_panels * info.panel_columns;
    Guarded<uint8_t> panels(size_t(n_panels * kGroupPanels) * size_t(info.panel_bytes));
    std::memset(panels.data(), 0, panels.size());
    for (int lane = 0; lane < kGroupRows; lane++) info.pack_row(random_row(random, info, columns).data(), columns, lane, panels.data());
    Tile tile(info.activation, columns, n);
    for (int t = 0; t < n; t++) {
        Guarded<float> x(static_cast<size_t>(columns));
        for (int i = 0; i < columns; i++) x[size_t(i)] = random.within(-2.0f, 2.0f);
        kScalarKernels.quantise[int(info.activation)](x.data(), columns, tile.view(), t, n);
    }
    Guarded<float> bias(kGroupRows);
    for (int i = 0; i < kGroupRows; i++) bias[size_t(i)] = random.within(-1.0f, 1.0f);

    for (int variant = 0; variant < 8; variant += n_panels > 5 ? 3 : 1) {
        const Case c{info, n_panels, n, variant & 4 && n_panels > 1 ? 1 + random.below(n_panels - 1) : n_panels, (variant & 1) != 0, (variant & 2) != 0,
                     Prefetch(random.below(3)), random.below(2) != 0, kGroupRows * (1 + random.below(3))};
        auto poison = [&](Guarded<float>& y) {
            y.poison();
            for (int t = 0; c.accumulate && t < n; t++)
                for (int i = 0; i < kGroupRows; i++) y[size_t(t * c.stride + i)] = float(t - i) * 0.125f;
        };
        Guarded<float> expected(size_t((n - 1) * c.stride + kGroupRows)), got(expected.size());
        poison(expected);
        multiply(kScalarKernels, c, panels.data(), tile.view(), bias.data(), expected.data());
        for (int t = 0; t < n; t++)
            for (int i = 0; i < kGroupRows; i++) CHECK(std::isfinite(expected[size_t(t * c.stride + i)]));
        if (!variant) check_sums(c, panels.data(), tile.view(), expected.data());
        for (const Kernels* set : vector_sets()) {
            poison(got);
            multiply(*set, c, panels.data(), tile.view(), bias.data(), got.data());
            CHECK(got.equals(expected));
        }
    }
}

// Blocks of any bytes times rows of any floats: infinities, NaN and subnormal numbers come to the same everywhere.
void check_any_bytes(const FormatInfo& info, int n) {
    Random random(uint64_t(info.type * 10 + n));
    const Case c{info, 2, n, 2, false, false, kNearPrefetch, n % 2 == 0, kGroupRows};
    const int columns = c.n_panels * info.panel_columns;
    Guarded<uint8_t> panels(size_t(c.n_panels * kGroupPanels) * size_t(info.panel_bytes));
    std::memset(panels.data(), 0, panels.size());
    std::vector<uint8_t> row(size_t(columns / info.block) * size_t(info.block_bytes));
    for (int lane = 0; lane < kGroupRows; lane++) {
        random.fill(row.data(), row.size());
        info.pack_row(row.data(), columns, lane, panels.data());
    }
    Guarded<float> x(static_cast<size_t>(columns)), expected(size_t(n * kGroupRows)), got(expected.size());
    for (int filling = 0; filling < kFillings; filling++) {
        Tile tile(info.activation, columns, n);
        for (int t = 0; t < n; t++) {
            fill(random, x, filling);
            kScalarKernels.quantise[int(info.activation)](x.data(), columns, tile.view(), t, n);
        }
        multiply(kScalarKernels, c, panels.data(), tile.view(), nullptr, expected.data());
        for (const Kernels* set : vector_sets()) {
            got.poison();
            multiply(*set, c, panels.data(), tile.view(), nullptr, got.data());
            CHECK(same(got, expected));
        }
    }
}

void check_quantise(ActivationKind kind, int columns, int n_rows, int filling) {
    Random random(uint64_t(columns * 10 + n_rows + filling * 7));
    Guarded<float> x(static_cast<size_t>(columns));
    fill(random, x, filling);
    const int row = random.below(n_rows), padded = (columns + 63) / 64 * 64;
    Tile expected(kind, padded, n_rows);
    kScalarKernels.quantise[int(kind)](x.data(), columns, expected.view(), row, n_rows);
    for (int c = columns; c < padded; c++) CHECK(value_of(expected.view(), kind, c, row, n_rows) == 0.0);
    for (const Kernels* set : vector_sets()) {
        Tile got(kind, padded, n_rows);
        set->quantise[int(kind)](x.data(), columns, got.view(), row, n_rows);
        CHECK(got.values.equals(expected.values) && got.offsets.equals(expected.offsets) && got.pairs.equals(expected.pairs) && got.halves.equals(expected.halves));
        CHECK(same(got.scales, expected.scales) && same(got.sums, expected.sums) && same(got.floats, expected.floats));
    }
}

void check_rows(int n, int filling) {
    Random random(uint64_t(n * 5 + filling));
    const auto size = size_t(n);
    Guarded<float> x(size), other(size), expected(size), got(size);
    fill(random, x, filling), fill(random, other, 0);
    for (const Kernels* set : vector_sets()) {
        auto both = [&](auto&& kernel) {
            expected.poison(), got.poison();
            kernel(kScalarKernels, expected.data()), kernel(*set, got.data());
            CHECK(same(got, expected));
        };
        both([&](const Kernels& k, float* y) { k.normalise(x.data(), other.data(), n, 1e-6f, y); });
        both([&](const Kernels& k, float* y) { k.gate(x.data(), other.data(), n, y); });
        both([&](const Kernels& k, float* y) { k.scale(x.data(), n, 0.37f, y); });
        std::memcpy(got.data(), x.data(), size * 4);  // in place, as heads are
        set->normalise(got.data(), other.data(), n, 1e-6f, got.data());
        kScalarKernels.normalise(x.data(), other.data(), n, 1e-6f, expected.data());
        CHECK(same(got, expected));
        CHECK(same(set->maximum(x.data(), n), kScalarKernels.maximum(x.data(), n)));
        CHECK(same(set->sum_exp(x.data(), n, 8.0f), kScalarKernels.sum_exp(x.data(), n, 8.0f)));
    }
    CHECK(std::isnan(kScalarKernels.maximum(x.data(), n)) == (filling == 3));
}

// A position of a q8_0 cache: the numbers that quantised activations have, and their scales as halves.
void check_q80(int head, int filling) {
    Random random(uint64_t(head + filling));
    const auto n_blocks = size_t(head / kCacheBlock);
    Guarded<float> x(static_cast<size_t>(head)), exact(n_blocks);
    fill(random, x, filling);
    Guarded<int8_t> expected(x.size()), got(x.size());
    Guarded<uint16_t> expected_scales(n_blocks), got_scales(n_blocks);
    kScalarKernels.to_q80(x.data(), head, expected.data(), expected_scales.data());
    Tile tile(ActivationKind::kPer32, (head + 63) / 64 * 64, 1);
    kScalarKernels.quantise[int(ActivationKind::kPer32)](x.data(), head, tile.view(), 0, 1);
    CHECK(std::memcmp(expected.data(), tile.values.data(), x.size()) == 0);
    for (size_t b = 0; b < n_blocks; b++) {
        const float scale = tile.scales[b], half = half_to_float(expected_scales[b]);
        CHECK(std::fabs(half - scale) <= scale * 0x1p-11f + 0x1p-25f || same(half, scale) || scale > 65504.0f);
    }
    for (const Kernels* set : vector_sets()) {
        got.poison(), got_scales.poison();
        set->to_q80(x.data(), head, got.data(), got_scales.data());
        CHECK(got.equals(expected) && got_scales.equals(expected_scales));
    }
}

void check_fold(int head) {
    Random random(static_cast<uint64_t>(head));
    for (float difference : {0.0f, 3.5f, -3.5f, 100.0f, -100.0f}) {
        Guarded<float> chunk(static_cast<size_t>(head)), start(static_cast<size_t>(head)), expected(static_cast<size_t>(head));
        fill(random, chunk, 0), fill(random, start, 0);
        auto fold = [&](const Kernels& set, Guarded<float>& out, float& max, float& sum) {
            std::memcpy(out.data(), start.data(), size_t(head) * 4);
            max = 1.5f, sum = 2.0f;
            set.fold(out.data(), &max, &sum, chunk.data(), 1.5f + difference, 3.0f, head);
        };
        float expected_max, expected_sum, max, sum;
        fold(kScalarKernels, expected, expected_max, expected_sum);
        for (const Kernels* set : vector_sets()) {
            Guarded<float> out(static_cast<size_t>(head));
            fold(*set, out, max, sum);
            CHECK(out.equals(expected) && same(max, expected_max) && same(sum, expected_sum));
        }
    }
}

void check_halves() {
    Random random(1);
    Guarded<float> x(65536);
    for (size_t i = 0; i < x.size(); i++) {
        uint32_t bits = uint32_t(random.next() >> 32);
        if (i % 4 == 1) bits = (bits & 0x8fffffff) | 0x30000000;  // around one half
        if (i % 4 == 2) bits = (bits & 0x80ffffff) | 0x33000000;  // around the smallest halves
        if (i % 4 == 3) bits = (bits & 0x807fffff) | 0x47000000;  // around the largest
        std::memcpy(&x[i], &bits, 4);
    }
    Guarded<uint16_t> expected(x.size()), got(x.size());
    kScalarKernels.to_half(x.data(), int(x.size()), expected.data());
    for (const Kernels* set : vector_sets()) {
        set->to_half(x.data(), int(x.size()), got.data());
        CHECK(got.equals(expected));
        got.poison();
    }
    for (size_t i = 0; i < x.size(); i++)
        if (std::isfinite(x[i]) && std::fabs(x[i]) < 65000.0f)
            CHECK(std::fabs(half_to_float(expected[i]) - x[i]) <= std::fabs(x[i]) * 0x1p-11f + 0x1p-25f);
}

void check_padding() {
    Guarded<float> x(32);
    for (size_t i = 0; i < 32; i++) x[i] = i < 19 ? -float(i) - 1.0f : -INFINITY;
    for (const Kernels* set : usable_kernels()) {
        CHECK(set->maximum(x.data(), 32) == -1.0f);
        CHECK(set->sum_exp(x.data(), 32, -1.0f) == kScalarKernels.sum_exp(x.data(), 32, -1.0f));
    }
    for (size_t i = 0; i < 32; i++) x[i] = i == 7 ? INFINITY : 0.0f;
    for (const Kernels* set : usable_kernels()) CHECK(std::isnan(set->maximum(x.data(), 32)));
}

}  // namespace

int main() {
    for (const Kernels* set : usable_kernels()) std::printf("%s ", set->name);
    for (int f = 0; f < kFormats; f++)
        for (int n = 1; n <= kMaxTile; n++) {
            for (int n_panels : {1, 2, 3, 5, 18}) check_multiply(format_info(Format(f)), n_panels, n);
            check_any_bytes(format_info(Format(f)), n);
        }
    for (int filling = 0; filling < kFillings; filling++) {
        for (int n_rows : {1, 3, 8}) {
            check_quantise(ActivationKind::kPer256, 512, n_rows, filling);
            check_quantise(ActivationKind::kPer32, 96, n_rows, filling);
            check_quantise(ActivationKind::kFloat, 80, n_rows, filling);
        }
        for (int n : {16, 32, 48, 256, 1040}) check_rows(n, filling);
        for (int head : {32, 96, kMaxHead}) check_q80(head, filling);
    }
    for (int head : {16, 80, kMaxHead}) check_fold(head);
    check_halves();
    check_padding();
    return finish("kernels");
}
