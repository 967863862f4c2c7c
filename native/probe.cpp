#include "probe.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "activations.h"
#include "memory.h"
#include "pool.h"

namespace outrider {

namespace {

// One thread is timed by its own CPU time, which other programs on the machine don't lengthen; several only meet on the wall clock.
double seconds(int threads) {
    timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

// Plain adds over 64-byte lines with a prefetch as the kernels read weights, near or far.
template <bool Near>
uint64_t read_part(const uint64_t* p, size_t n) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i + 32 <= n; i += 32) {
        for (size_t k = i; k < i + 32; k += 8) __builtin_prefetch(p + k + (Near ? 1152 : 3072), 0, Near ? 3 : 2);
        for (size_t k = i; k < i + 32; k += 4) a += p[k], b += p[k + 1], c += p[k + 2], d += p[k + 3];
    }
    return a + b + c + d;
}

}  // namespace

double stream_gb_per_s(int threads, size_t bytes) {
    const auto now = [threads] { return seconds(threads); };
    Memory memory(bytes);
    Pool pool(threads);
    auto* words = reinterpret_cast<uint64_t*>(memory.data());
    const size_t part = bytes / 8 / size_t(threads);
    std::atomic<uint64_t> sink{0};
    pool.run([&](int t) { std::fill(words + part * size_t(t), words + part * size_t(t + 1), uint64_t(t + 1)); });
    double best = 1e9;
    for (int round = 0; round < 8; round++) {  // in turn, for the faster way depends on the CPU
        const auto read = round % 2 ? read_part<true> : read_part<false>;
        const double start = now();
        pool.run([&](int t) { sink.fetch_add(read(words + part * size_t(t), part)); });
        best = std::min(best, now() - start);
    }
    return sink.load() ? double(part) * 8 * threads / best / 1e9 : 0.0;
}

double int8_gmac_per_s(int threads, const Kernels& kernels) {
    const auto now = [threads] { return seconds(threads); };
    constexpr int kPanels = 8, kRounds = 20000;
    Pool pool(threads);
    std::vector<Memory> memory;
    std::vector<Activations> activations(static_cast<size_t>(threads));
    for (int t = 0; t < threads; t++) {
        memory.emplace_back(kPanels * kGroupPanels * sizeof(PanelQ80) + 2 * kMaxTile * kGroupRows * sizeof(float));
        activations[size_t(t)].ensure(kMaxTile, kPanels * 64);
    }
    double best = 1e9;
    for (int round = 0; round < 3; round++) {
        const double start = now();
        pool.run([&](int t) {
            uint8_t* data = memory[size_t(t)].data();
            auto* floats = reinterpret_cast<float*>(data + kPanels * kGroupPanels * sizeof(PanelQ80));
            const ActivationTile x = activations[size_t(t)].tile(ActivationKind::kPer32, 0, kMaxTile);
            MultiplyJob job{data, kPanels, nullptr, x, floats, true, true, kNoPrefetch, floats + kMaxTile * kGroupRows, kGroupRows, nullptr, false};
            for (int i = 0; i < kRounds; i++) kernels.multiply[kQ80][kMaxTile - 1](job);
        });
        best = std::min(best, now() - start);
    }
    return double(threads) * kRounds * kPanels * PanelQ80::kColumns * kGroupRows * kMaxTile / best / 1e9;
}

}  // namespace outrider
