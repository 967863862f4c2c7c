// A small thread pool: one parallel region per pass, barriers inside. Our own, because two OpenMP runtimes in one process
// (torch, numpy) fight, and because they spin for milliseconds when cores are shared.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace outrider {

// CPUs that this process may use: affinity mask and cgroup quota, not the number of CPUs in the machine.
int allowed_cpus();

class Pool {
public:
    explicit Pool(int n_threads);  // the caller of run() is thread 0; std::system_error where there are no threads to be had
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int size() const { return n_threads_; }
    // Calls work(0) .. work(size - 1) at the same time. `work` must not throw.
    void run(const std::function<void(int)>& work);
    // To be called by every thread of a region; everything written before is visible after.
    void barrier();

private:
    void start();
    void join();
    void wait_for(std::atomic<uint32_t>& value, uint32_t old) const;
    void worker(int thread, uint32_t seen);

    const int n_threads_;
    int spins_;
    pid_t owner_ = 0;
    std::vector<std::thread> threads_;
    const std::function<void(int)>* work_ = nullptr;
    alignas(64) std::atomic<uint32_t> region_{0};  // counts regions; workers sleep on it
    alignas(64) std::atomic<uint32_t> generation_{0};
    alignas(64) std::atomic<int> arrived_{0};
    std::atomic<bool> stop_{false};
};

}  // namespace outrider
