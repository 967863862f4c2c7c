// The kernels of matrices that were never quantised: floats times floats.
//
// A panel's 64 columns are summed as four quarters of 16, each by one fused multiply-add per column in column order; the quarters
// are added as (0 + 1) + (2 + 3), and the panel to the running result. Quarters are independent of each other, so that a tile of
// few rows can work on several at a time and need not wait for one addition after the other; what is computed stays the same.
#pragma once
#include "multiply_text.h"

namespace {

constexpr int kPanelColumns = 64, kQuarter = 16;

// How many quarters are summed side by side by a call with `sums` running sums a quarter.
constexpr int quarters_at_a_time(int sums) { return sums <= 2 ? 4 : sums <= 4 ? 2 : 1; }

// `Count` quarters from column `first` on.
template <class Source, int N, int S, int Count, int G>
OUTRIDER_INLINE void sum_quarters(const Blocks<typename Source::Panel, G>& b, int first, const float* x, Prefetch prefetch, Floats (*sum)[G][S]) {
    constexpr int kLineColumns = kPanelColumns * 64 / int(sizeof(typename Source::Panel));  // of one panel in a cache line
    OUTRIDER_UNROLL(4) for (int q = 0; q < Count; q++) OUTRIDER_ROWS OUTRIDER_GROUP sum[q][g][t] = Isa::zero_float();
    OUTRIDER_UNROLL(2) for (int c = 0; c < kQuarter; c++)
        OUTRIDER_UNROLL(4) for (int q = 0; q < Count; q++) {
            const int column = first + q * kQuarter + c;
            if (prefetch && column % kLineColumns == 0) prefetch_ahead<N, kPanelColumns / kLineColumns>(b, column / kLineColumns, prefetch);
            Floats weights[G];
            OUTRIDER_GROUP weights[g] = Source::load(b.panel(g).values[column] + b.lane(g));
            OUTRIDER_ROWS {
                const Floats value = Isa::broadcast_float(x[column * N + t]);
                OUTRIDER_GROUP sum[q][g][t] = Isa::fma(weights[g], value, sum[q][g][t]);
            }
        }
}

template <class Source>
struct FloatMatrix {
    using Panel = typename Source::Panel;
    static constexpr bool kSums = true, kUnpacks = false;
    template <int N, bool Wide, int S, int G>
    static OUTRIDER_INLINE void accumulate(const Blocks<Panel, G>& b, const ActivationTile& x, Prefetch prefetch, Floats (&out)[G][S]) {
        constexpr int kCount = quarters_at_a_time(S * G);
        Floats sum[4][G][S];
        OUTRIDER_UNROLL(4) for (int q = 0; q < 4; q += kCount) sum_quarters<Source, N, S, kCount>(b, q * kQuarter, x.floats, prefetch, sum + q);
        OUTRIDER_ROWS OUTRIDER_GROUP out[g][t] =
            Isa::add_float(out[g][t], Isa::add_float(Isa::add_float(sum[0][g][t], sum[1][g][t]), Isa::add_float(sum[2][g][t], sum[3][g][t])));
    }
};

struct SourceF32 {
    using Panel = PanelF32;
    static Floats load(const float* p) { return Isa::load(p); }
};

struct SourceF16 {
    using Panel = PanelF16;
    static Floats load(const uint16_t* p) { return Isa::load_half(p); }
};

struct SourceBF16 {
    using Panel = PanelBF16;
    static Floats load(const uint16_t* p) { return Isa::load_bfloat(p); }
};

using F32 = FloatMatrix<SourceF32>;
using F16 = FloatMatrix<SourceF16>;
using BF16 = FloatMatrix<SourceBF16>;

}  // namespace
