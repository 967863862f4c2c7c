#include "elementary.h"

#include <cmath>
#include <cstdint>

namespace outrider {

namespace {

// ln 2 and pi / 2 as a double and what that lacks.
constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Rest = 0x1.abc9e3b39803fp-56;
constexpr double kRightAngle = 0x1.921fb54442d18p+0, kRightAngleRest = 0x1.1a62633145c07p-54;

// Taylor series for |r| up to pi / 4, as nested products; the first term left out is below 1e-19.
double sine_series(double r) {
    const double square = r * r;
    double sum = 1.0;
    for (int n = 18; n >= 2; n -= 2) sum = 1.0 - square / double(n * (n + 1)) * sum;
    return r * sum;
}

double cosine_series(double r) {
    const double square = r * r;
    double sum = 1.0;
    for (int n = 17; n >= 1; n -= 2) sum = 1.0 - square / double(n * (n + 1)) * sum;
    return sum;
}

}  // namespace

double logarithm(double x) {
    int exponent;
    double mantissa = std::frexp(x, &exponent);  // 0.5 to 1
    if (mantissa < 0.7071067811865476) mantissa *= 2.0, exponent--;
    const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;  // ln m = 2 atanh s, |s| below 0.172
    double sum = 0.0;
    for (int n = 23; n >= 3; n -= 2) sum = (sum + 1.0 / double(n)) * square;
    return std::fma(double(exponent), kLn2, std::fma(double(exponent), kLn2Rest, 2.0 * s * sum) + 2.0 * s);
}

double exponential(double x) {
    const double n = std::nearbyint(x / kLn2), r = std::fma(-n, kLn2Rest, std::fma(-n, kLn2, x));
    double sum = 1.0;
    for (int k = 16; k >= 1; k--) sum = 1.0 + r / double(k) * sum;
    return std::ldexp(sum, int(n));
}

Direction direction(double angle) {
    const double n = std::nearbyint(angle / kRightAngle), r = std::fma(-n, kRightAngleRest, std::fma(-n, kRightAngle, angle));
    const double c = cosine_series(r), s = sine_series(r);
    switch (int64_t(n) & 3) {
        case 0: return {c, s};
        case 1: return {-s, c};
        case 2: return {-c, -s};
        default: return {s, -c};
    }
}

}  // namespace outrider
