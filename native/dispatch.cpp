#include "dispatch.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace outrider {

namespace {

#if defined(__x86_64__)
struct Cpu {
    bool avx2 = false, avx_vnni = false, avx512_vnni = false;
};

uint64_t enabled_states() {
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t(high) << 32 | low;
}

Cpu probe() {
    Cpu cpu;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
    const bool fma = c >> 12 & 1, saves = c >> 27 & 1, f16c = c >> 29 & 1;
    if (!saves || !fma || !f16c) return cpu;
    // The CPU having the registers is not enough: the system must save them (XCR0), or they are lost at a context switch.
    const uint64_t states = enabled_states();
    if ((states & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
    cpu.avx2 = b >> 5 & 1;
    const bool f = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1, vnni = c >> 11 & 1;
    cpu.avx512_vnni = cpu.avx2 && f && dq && bw && vl && vnni && (states & 0xe6) == 0xe6;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu.avx_vnni = cpu.avx2 && (a >> 4 & 1);
    return cpu;
}
#endif

}  // namespace

std::vector<const Kernels*> usable_kernels() {
    std::vector<const Kernels*> sets;
#if defined(__x86_64__)
    const Cpu cpu = probe();
    if (cpu.avx512_vnni) sets.push_back(&kAvx512Kernels);
    if (cpu.avx_vnni) sets.push_back(&kAvxVnniKernels);
    if (cpu.avx2) sets.push_back(&kAvx2Kernels);
#elif defined(__aarch64__) && defined(__linux__)
    // Elsewhere (macOS would be asked through sysctl) only the reference runs: such a build has never been tested.
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) sets.push_back(&kNeonKernels);
#endif
    sets.push_back(&kScalarKernels);
    return sets;
}

Prefetch prefetch_for_memory() {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    const bool amd = __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
    return amd ? kNearPrefetch : kFarPrefetch;
#else
    return kNearPrefetch;
#endif
}

const Kernels& choose_kernels(const std::string& name) {
    const auto sets = usable_kernels();
    if (name.empty()) return *sets.front();
    std::string known;
    for (const Kernels* set : sets) {
        if (name == set->name) return *set;
        known += std::string(known.empty() ? "" : ", ") + set->name;
    }
    throw std::invalid_argument("instruction set '" + name + "' cannot run here; this CPU has: " + known);
}

}  // namespace outrider
