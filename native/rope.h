// Rotary positions: by which angle each pair of a head's dimensions turns at a position.
#pragma once
#include <vector>

#include "weights.h"

namespace outrider {

class Rope {
public:
    // factors: divisors of the frequencies, one for each pair; empty for none. std::invalid_argument where no angle can be computed.
    Rope(const HyperParameters& hyper, const Vector& factors);

    int pairs() const { return int(frequency_.size()); }
    // Cosines of all pairs, then sines, all times the magnitude: float [2][pairs]. The same bits on every platform.
    void fill(int position, float* out) const;

private:
    std::vector<double> frequency_;  // radians for each position
    double magnitude_;
};

}  // namespace outrider
