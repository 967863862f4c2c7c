#include "pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>

namespace outrider {

namespace {

// About 30 microseconds: longer than a barrier between two evenly loaded threads, shorter than a time slice lost to spinning.
constexpr int kSpins = 1500;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

int quota_cpus() {
    FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return 0;
    long long quota = 0, period = 0;
    const int n = std::fscanf(file, "%lld %lld", &quota, &period);
    std::fclose(file);
    return n == 2 && quota > 0 && period > 0 ? int(std::max(1LL, quota / period)) : 0;
}

}  // namespace

int allowed_cpus() {
    int count = int(std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
#endif
    const int quota = quota_cpus();
    if (quota) count = std::min(count, quota);
    return std::max(count, 1);
}

Pool::Pool(int n_threads) : n_threads_(n_threads), spins_(n_threads > allowed_cpus() ? 0 : kSpins) { start(); }

void Pool::start() {
    owner_ = getpid();
    const uint32_t seen = region_.load();
    try {
        for (int thread = 1; thread < n_threads_; thread++) threads_.emplace_back(&Pool::worker, this, thread, seen);
    } catch (...) {  // the system gives no more threads: std::system_error, once those that it gave are gone
        join();
        owner_ = 0;  // a later run tries again
        throw;
    }
}

void Pool::join() {
    stop_.store(true);
    region_.fetch_add(1);
    region_.notify_all();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    stop_.store(false);
}

Pool::~Pool() {
    if (owner_ != getpid()) {  // a forked child: the threads exist only in the parent
        for (auto& thread : threads_) new (&thread) std::thread();
        return;
    }
    join();
}

void Pool::wait_for(std::atomic<uint32_t>& value, uint32_t old) const {
    for (int i = 0; i < spins_; i++) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
    }
    while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void Pool::worker(int thread, uint32_t seen) {
    for (;;) {
        wait_for(region_, seen);
        seen++;
        if (stop_.load()) return;
        (*work_)(thread);
        barrier();
    }
}

void Pool::run(const std::function<void(int)>& work) {
    if (owner_ != getpid()) {
        for (auto& thread : threads_) new (&thread) std::thread();  // not ours to join after a fork
        threads_.clear();
        arrived_.store(0);
        start();
    }
    work_ = &work;
    region_.fetch_add(1, std::memory_order_release);
    region_.notify_all();
    work(0);
    barrier();
}

void Pool::barrier() {
    if (n_threads_ == 1) return;
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads_) {
        arrived_.store(0, std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
    } else {
        wait_for(generation_, generation);
    }
}

}  // namespace outrider
