// How work is cut: into contiguous parts for threads, and up to whole vectors of 16.
#pragma once
#include <cstdint>

namespace outrider {

struct Range {
    int begin, end;
};

// A thread's own contiguous part of n items.
inline Range share(int n, int thread, int n_threads) { return {int(int64_t(n) * thread / n_threads), int(int64_t(n) * (thread + 1) / n_threads)}; }

inline int padded16(int n) { return (n + 15) / 16 * 16; }

}  // namespace outrider
