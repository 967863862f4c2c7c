#include "rope.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "elementary.h"

namespace outrider {

namespace {

constexpr double kMaxFrequency = 65536.0;  // times 2^24 positions: what `direction` can reduce

// The definitions of yarn are llama.cpp's, single precision included where a floor or a ceiling follows.

// The pair that turns `rotations` times over the original context.
float pair_of(float rotations, const HyperParameters& h) {
    const float wavelength = float(h.rope_original_context) / (rotations * 2.0f * 3.14159265358979323846f);
    return float(h.rope_dimensions) * float(logarithm(double(wavelength))) / (2.0f * float(logarithm(double(h.rope_base))));
}

// How much of each pair keeps its trained frequency: 1 for fast pairs, 0 for slow ones, a ramp between.
class Ramp {
public:
    explicit Ramp(const HyperParameters& h)
        : low_(std::max(0.0f, std::floor(pair_of(h.rope_beta_fast, h)))),
          high_(std::min(float(h.rope_dimensions - 1), std::ceil(pair_of(h.rope_beta_slow, h)))) {}
    double at(int pair) const { return 1.0 - std::min(1.0, std::max(0.0, (double(pair) - double(low_)) / std::max(0.001, double(high_) - double(low_)))); }

private:
    float low_, high_;
};

double stretched(double factor, double multiplier) { return factor <= 1.0 ? 1.0 : 0.1 * multiplier * logarithm(factor) + 1.0; }

// What cosines and sines are multiplied by: yarn makes up for scores that grow flatter over a longer context.
double magnitude(const HyperParameters& h) {
    double result = double(h.rope_attention_factor);
    if (h.rope_extrapolation == 0.0f) return result;
    const double factor = 1.0 / double(h.rope_scale);
    result *= stretched(factor, 1.0);
    if (h.rope_log_multiplier != 0.0f) result /= stretched(factor, double(h.rope_log_multiplier));
    return result;
}

void check(const HyperParameters& h, const Vector& factors) {
    auto positive = [](float x) { return x > 0.0f && std::isnormal(x); };
    bool sound = positive(h.rope_base) && positive(h.rope_scale) && positive(h.rope_attention_factor) && h.rope_original_context > 0;
    if (h.rope_extrapolation != 0.0f) sound = sound && positive(h.rope_beta_fast) && positive(h.rope_beta_slow) && h.rope_base != 1.0f;
    if (!sound) throw std::invalid_argument("unusable rope parameters");
    for (int i = 0; i < h.rope_dimensions / 2 && !factors.empty(); i++)
        if (!positive(factors[size_t(i)])) throw std::invalid_argument("tensor '" + h.rope_factors + "': a factor is not a positive number");
}

}  // namespace

Rope::Rope(const HyperParameters& h, const Vector& factors) : magnitude_(1.0) {
    check(h, factors);
    magnitude_ = magnitude(h);
    const double step = -2.0 / h.rope_dimensions * logarithm(double(h.rope_base));
    for (int i = 0; i < h.rope_dimensions / 2; i++) {
        double trained = exponential(i * step);
        if (!factors.empty()) trained /= double(factors[size_t(i)]);
        const double interpolated = trained * double(h.rope_scale);
        const double kept = h.rope_extrapolation == 0.0f ? 0.0 : Ramp(h).at(i) * double(h.rope_extrapolation);
        frequency_.push_back(interpolated * (1.0 - kept) + trained * kept);
        if (!(std::abs(frequency_.back()) < kMaxFrequency)) throw std::invalid_argument("unusable rope parameters: a frequency is not a number of moderate size");
    }
}

void Rope::fill(int position, float* out) const {
    for (int i = 0; i < pairs(); i++) {
        const Direction d = direction(position * frequency_[size_t(i)]);
        out[i] = float(d.cosine * magnitude_);
        out[pairs() + i] = float(d.sine * magnitude_);
    }
}

}  // namespace outrider
