// Logarithm, exponential, sine and cosine of doubles with the same bits on every platform; the C library's differ from one to another.
//
// They use nothing but operations that IEEE 754 rounds correctly (add, multiply, divide, fused multiply-add, scaling by powers of
// two). Errors stay below 4e-16: relative for the logarithm and the exponential, absolute for sine and cosine.
#pragma once

namespace outrider {

double logarithm(double x);    // natural; x positive, finite and normal
double exponential(double x);  // |x| up to 700

struct Direction {
    double cosine, sine;
};
Direction direction(double angle);  // radians, |angle| up to 2^40

}  // namespace outrider
