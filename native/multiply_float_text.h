// The kernels of matrices that were never quantised: floats times floats.
//
// A panel's 64 columns are summed as four quarters of 16, each by one fused multiply-add per column in column order; the quarters
// are added as (0 + 1) + (2 + 3), and the panel to the running result. Quarters are independent of each other, so that a tile of
// few rows can work on several at a time and need not wait for one addition after the other; what is computed stays the same.
#pragma once
#include "multiply_text.h"

namespace {

constexpr int kQuarter = 16;  // columns

template <int N>
constexpr int quarters_at_a_time() {
    return N <= 2 ? 4 : N <= 4 ? 2 : 1;
}

// `Count` quarters from column `first` on.
template <class Source, int N, int Count>
inline __attribute__((always_inline)) void sum_quarters(const typename Source::Panel& b, int lane, int first, const float* x, bool prefetch, Floats (*sum)[N]) {
    OUTRIDER_UNROLL(4) for (int q = 0; q < Count; q++) OUTRIDER_ROWS sum[q][t] = Isa::zero_float();
    OUTRIDER_UNROLL(2) for (int c = 0; c < kQuarter; c++)
        OUTRIDER_UNROLL(4) for (int q = 0; q < Count; q++) {
            const int column = first + q * kQuarter + c;
            if (prefetch && column % Source::kColumnsPerLine == 0) prefetch_ahead<N, 1>(&b, column / Source::kColumnsPerLine);
            Floats weights = Source::load(b.values[column] + lane);
            OUTRIDER_ROWS sum[q][t] = Isa::fma(weights, Isa::broadcast_float(x[column * N + t]), sum[q][t]);
        }
}

template <class Source>
struct FloatMatrix {
    using Panel = typename Source::Panel;
    template <int N>
    static void accumulate(const Panel& b, int lane, const ActivationTile& x, int p, bool prefetch, Floats (&out)[N]) {
        constexpr int kCount = quarters_at_a_time<N>();
        const float* floats = x.floats + p * 64 * N;
        Floats sum[4][N];
        OUTRIDER_UNROLL(4) for (int q = 0; q < 4; q += kCount) sum_quarters<Source, N, kCount>(b, lane, q * kQuarter, floats, prefetch, sum + q);
        OUTRIDER_ROWS out[t] = Isa::add_float(out[t], Isa::add_float(Isa::add_float(sum[0][t], sum[1][t]), Isa::add_float(sum[2][t], sum[3][t])));
    }
};

struct SourceF32 {
    using Panel = PanelF32;
    static constexpr int kColumnsPerLine = 1;
    static Floats load(const float* p) { return Isa::load(p); }
};

struct SourceF16 {
    using Panel = PanelF16;
    static constexpr int kColumnsPerLine = 2;
    static Floats load(const uint16_t* p) { return Isa::load_half(p); }
};

struct SourceBF16 {
    using Panel = PanelBF16;
    static constexpr int kColumnsPerLine = 2;
    static Floats load(const uint16_t* p) { return Isa::load_bfloat(p); }
};

using F32 = FloatMatrix<SourceF32>;
using F16 = FloatMatrix<SourceF16>;
using BF16 = FloatMatrix<SourceBF16>;

}  // namespace
