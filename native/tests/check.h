// What the core's tests are made of: checks that count, random numbers, and buffers whose surroundings are watched.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace outrider::testing {

inline std::atomic<long> checks{0};

[[noreturn]] inline void give_up(const char* file, int line, const char* what) {
    std::fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    std::abort();
}

#define CHECK(condition) (void(++::outrider::testing::checks), (condition) ? void() : ::outrider::testing::give_up(__FILE__, __LINE__, #condition))
#define CHECK_THROWS(type, statement)                                                                  \
    do {                                                                                               \
        bool thrown = false;                                                                           \
        try {                                                                                          \
            statement;                                                                                 \
        } catch (const type&) {                                                                        \
            thrown = true;                                                                             \
        }                                                                                              \
        CHECK(thrown && #statement);                                                                   \
    } while (false)

// xorshift64*: the same numbers everywhere, which the standard library's distributions don't promise.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2654435769u + 1) {}
    uint64_t next() {
        state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
        return state_ * 2685821657736338717u;
    }
    int below(int n) { return int((next() >> 33) % uint64_t(n)); }
    float within(float low, float high) { return low + (high - low) * float(next() >> 40) * 0x1p-24f; }
    void fill(void* to, size_t bytes) {
        for (size_t i = 0; i < bytes; i++) static_cast<uint8_t*>(to)[i] = uint8_t(next() >> 56);
    }

private:
    uint64_t state_;
};

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kMargin = 0;  // the sanitizer watches both ends, and sees reads too
#else
constexpr size_t kMargin = 256;
#endif

// An array on a 64-byte boundary between two canaries. Its bytes start as 0xFF: NaN for floats, nothing a kernel writes by luck.
template <class T>
class Guarded {
public:
    explicit Guarded(size_t n) : n_(n), bytes_(n * sizeof(T) + 2 * kMargin) {
        void* whole = nullptr;
        CHECK(posix_memalign(&whole, 64, bytes_) == 0);
        whole_ = static_cast<uint8_t*>(std::memset(whole, kCanary, bytes_));
        poison();
    }
    ~Guarded() {
        CHECK(intact());
        std::free(whole_);
    }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    T* data() { return reinterpret_cast<T*>(whole_ + kMargin); }
    T& operator[](size_t i) { return data()[i]; }
    size_t size() const { return n_; }
    void poison() { std::memset(data(), 0xFF, n_ * sizeof(T)); }
    bool equals(Guarded& other) { return n_ == other.n_ && std::memcmp(data(), other.data(), n_ * sizeof(T)) == 0; }
    bool intact() {
        for (size_t i = 0; i < kMargin; i++)
            if (whole_[i] != kCanary || whole_[bytes_ - 1 - i] != kCanary) return false;
        return true;
    }

private:
    static constexpr uint8_t kCanary = 0xA5;
    size_t n_, bytes_;
    uint8_t* whole_;
};

inline int finish(const char* name) {
    std::printf("%s: %ld checks\n", name, checks.load());
    return 0;
}

}  // namespace outrider::testing
