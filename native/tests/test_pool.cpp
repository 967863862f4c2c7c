// The thread pool: every thread works once a region, barriers order what was written, and neither destruction, a second pool, a
// fork nor a system without threads to give may hang or lose anything.
#include "pool.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <system_error>

#include "check.h"

using namespace outrider;
using namespace outrider::testing;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false, kLimits = false;  // its own threads and address space are in the way
#elif defined(__SANITIZE_ADDRESS__)
constexpr bool kForks = true, kLimits = false;
#else
constexpr bool kForks = true, kLimits = true;
#endif

// Short regions, and barriers in them. Plain ints: a missing happens-before is for the thread sanitizer to see.
void run_regions(Pool& pool, int n_regions) {
    const int n = pool.size();
    std::vector<int> mine(size_t(n), 0), seen(size_t(n), 0);
    for (int region = 1; region <= n_regions; region++) {
        pool.run([&](int thread) { mine[size_t(thread)]++; });
        for (int count : mine) CHECK(count == region);
    }
    for (int region = 0; region < n_regions / 10; region++) {
        pool.run([&](int thread) {
            for (int round = 0; round < 5; round++) {
                mine[size_t(thread)] = region * 5 + round;
                pool.barrier();
                for (int other = 0; other < n; other++) seen[size_t(thread)] += mine[size_t(other)] == region * 5 + round;
                pool.barrier();
            }
        });
    }
    for (int count : seen) CHECK(count == n_regions / 10 * 5 * n);
}

int status_of_child(const std::function<void()>& work) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        alarm(60);  // a hang is a failure
        work();
        std::_Exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// The child has none of the threads; its first region makes its own, and the parent goes on.
void check_fork(int n_threads) {
    auto pool = std::make_unique<Pool>(n_threads);
    run_regions(*pool, 20);
    CHECK(status_of_child([&] {
        run_regions(*pool, 50);
        pool.reset();
    }) == 0);
    CHECK(status_of_child([&] { pool.reset(); }) == 0);  // never used in the child
    CHECK(status_of_child([&] {
        run_regions(*pool, 5);
        CHECK(status_of_child([&] { run_regions(*pool, 5); }) == 0);
        run_regions(*pool, 5);
    }) == 0);
    run_regions(*pool, 20);
}

// A system that gives no more threads is an exception, not an end without one.
void check_no_threads() {
    CHECK(status_of_child([] {
        rlimit limit{size_t(256) << 20, size_t(256) << 20};  // room for some stacks of 8 MB only
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        CHECK_THROWS(std::system_error, Pool pool(200));
        Pool small(2);
        run_regions(small, 5);
    }) == 0);
}

}  // namespace

int main() {
    const int n_regions = kLimits ? 2000 : 300;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        for (int round = 0; round < 5; round++) Pool idle(n_threads);  // destroyed before its threads have woken up, or never used
        Pool pool(n_threads);
        run_regions(pool, n_regions);
    }
    std::thread other([&] {
        Pool pool(3);
        run_regions(pool, n_regions);
    });
    Pool pool(2);
    run_regions(pool, n_regions);
    other.join();
    const bool emulated = std::getenv("OUTRIDER_EMULATED") != nullptr;  // qemu-user itself fails where a fork of a fork has threads
    if (kForks && !emulated)
        for (int n_threads : {1, 2, 4}) check_fork(n_threads);
    if (kLimits && !emulated) check_no_threads();
    CHECK(allowed_cpus() >= 1);
    return finish("pool");
}
